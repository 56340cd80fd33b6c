// Self-checks of keep_on_device.cu, compiled in its place where BUILD_TESTING is on.
#include "../keep_on_device.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("keep_on_device: the host steps each chain as if it were alone") {
  for (const size_t n : {1, 2, 1023, 1024, 1025, 5000})
    for (const size_t chain_count : {size_t(1), size_t(chains)}) {
      std::vector<unsigned> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = 0x9e3779b1u * unsigned(i + 1);
      step_on_host(x.data(), n, chain_count);
      for (unsigned& word : x) word ^= word >> 15;
      CHECK(x == expected(n, chain_count));
    }
}

TEST_CASE("keep_on_device: runs of steps can be joined") {
  std::vector<unsigned> whole(1009), parts(1009);
  std::iota(whole.begin(), whole.end(), 7u);
  const std::vector<unsigned> in = whole;
  step_on_host(whole.data(), whole.size(), 1);
  for (unsigned cut : {1u, 2u, 512u, 1008u}) {
    std::copy(in.begin(), in.end(), parts.begin());
    step_on_host(parts.data() + cut, parts.size() - cut,
                 1);  // from zero, not from where it was cut
    for (unsigned k = cut; k < parts.size(); ++k)
      REQUIRE(parts[k] + power(k - cut + 1) * whole[cut - 1] == whole[k]);
  }
}

TEST_CASE("keep_on_device: predictions, by hand") {
  const Line line(10, 0, 110, 1000);
  CHECK(line.ms(500) == doctest::Approx(60));
}

TEST_CASE("keep_on_device: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(keep_on_device_experiment, part, given);
  };
  const double k = 1024, m = k * k;
  // the way at these sizes takes half as long as the other rows
  const auto faster = [](const char* way, const std::vector<double>& sizes) {
    std::vector<Given> given;
    for (const double at : sizes) given.push_back({{way, at}, 0.5});
    return given;
  };
  const std::vector<double> all{4, 4 * k, 64 * k, m, 16 * m};
  CHECK(verdict("02.8", faster("step_by_block", all)) == verdict_text(Verdict::holds));
  CHECK(verdict("02.8", faster("round_trip", all)) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("02.8", faster("scan_by_block", all)) == verdict_text(Verdict::too_close));
  CHECK(verdict("02.8", faster("chain_round_trip", all)) == verdict_text(Verdict::too_close));
  std::vector<Given> mixed = faster("step_by_block", {4, 4 * k});
  for (const Given& given : faster("round_trip", {64 * k, m})) mixed.push_back(given);
  CHECK(verdict("02.8", mixed) == verdict_text(Verdict::depends));

  CHECK(verdict("02.10", {{"carried_addition", 2}}) == verdict_text(Verdict::holds));
  CHECK(verdict("02.10", {{"add_on_all_cores", 2}}) == verdict_text(Verdict::does_not_hold));
  for (const char* other : {"carried_sum", "sum_on_all_cores", "add_on_one_core"})
    CHECK(verdict("02.10", {{other, 2}}) == verdict_text(Verdict::too_close));
  const Given large_cache{"host", 1e15, "last cache"};
  CHECK(verdict("02.10", {{"carried_addition", 2}, large_cache}) ==
        verdict_text(Verdict::not_judged));
}

EXPERIMENT_CHECKS(keep_on_device)
