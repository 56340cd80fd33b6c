// Self-checks of divergence.cu, compiled in its place where BUILD_TESTING is on.
#include "../divergence.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

using Warps = std::vector<unsigned>;

const Sum& sum_of(const char* key) { return *with_key(sums, key); }

}  // namespace

TEST_CASE("divergence: the strided reduction goes as the text walks through it") {
  CHECK(adding_threads(Rule::strided, 0, 256) == Warps{32, 32, 32, 32, 0, 0, 0, 0});
  CHECK(adding_threads(Rule::strided, 1, 256) == Warps{32, 32, 0, 0, 0, 0, 0, 0});
  CHECK(adding_threads(Rule::strided, 2, 256) == Warps{32, 0, 0, 0, 0, 0, 0, 0});
  CHECK(adding_threads(Rule::strided, 3, 256) == Warps{16, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("divergence: divergent warps of the three reductions, by hand") {
  const auto all_steps = [](Rule which) {
    Warps all;
    for (unsigned step = 0; step < step_count(256); ++step)
      all.push_back(Activity(adding_threads(which, step, 256)).divergent);
    return all;
  };
  CHECK(all_steps(Rule::modulo) == Warps{8, 8, 8, 8, 8, 4, 2, 1});
  CHECK(all_steps(Rule::strided) == Warps{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(all_steps(Rule::descending) == Warps{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(adding_threads(Rule::modulo, 0, 256) == Warps(8, 16));
  CHECK(adding_threads(Rule::modulo, 4, 256) == Warps(8, 1));
  CHECK(Activity({0, 1, 31, 32}).divergent == 2);  // some of its lanes add, but not all
  CHECK(Activity({0, 1, 31, 32}).threads == 64);
  for (unsigned n = 32; n <= max_threads; n *= 2)  // all three do the same work
    for (unsigned step = 0; step < step_count(n); ++step)
      for (const Vote& vote : votes)
        CHECK(Activity(adding_threads(vote.which, step, n)).threads == n >> (step + 1));
}

TEST_CASE("divergence: what every thread must find is what the steps leave") {
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Sum& sum : sums) {
      std::vector<unsigned> left;
      for (unsigned i = 0; i < n; ++i) left.push_back(scrambled(n + i));
      for (unsigned step = 0; step < step_count(n); ++step)
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition(sum.which, stride_of(sum.which, step, n), tid, n);
          if (a.active) left[a.left] += left[a.right];
        }
      const bool descending = sum.which == Rule::descending;
      for (unsigned i = 0; i < n; ++i)  // of the second block
        CHECK(IsTotal{descending, n, 1}.total(n + i) == left[i]);
      const IsTotal thrice{descending, n, 3};  // a word, one more, two more
      CHECK(thrice.total(2 * n - 1) == 3 * left[n - 1] + 3);
      CHECK(thrice.total(n) == 3 * left[0] + 3 * n);
      CHECK(IsTotal{descending, n, 0}.total(n) == 0);
    }
}

TEST_CASE("divergence: conflicts and predicted cycles, by hand") {
  CHECK(conflicts(Rule::modulo, 256) == 0);
  CHECK(conflicts(Rule::descending, 1024) == 0);
  // ways: 2, 4, 8, 8, 8, 4, 2, 1 in 4, 2, 1, 1, 1, 1, 1, 1 warps; three accesses
  CHECK(conflicts(Rule::strided, 256) == 3 * (4 * 1 + 2 * 3 + 7 + 7 + 7 + 3 + 1));
  const StepCost step = StepCost::of(9 * 100, 11 * 148);
  CHECK(step.alone == doctest::Approx(84));
  CHECK(step.per_warp == doctest::Approx(2));
  CHECK(predicted_cycles(sum_of("sum_descending"), 256, step) == doctest::Approx(900));
  CHECK(predicted_cycles(sum_of("sum_descending"), 1024, step) == doctest::Approx(11 * 148));
  CHECK(predicted_cycles(sum_of("sum_mask"), 128, step) == doctest::Approx(8 * 92));
  CHECK(predicted_cycles(sum_of("sum_strided"), 256, step) == doctest::Approx(900 + 105));
  CHECK(predicted_cycles(sum_of("sum_last_warp"), 256, step) == doctest::Approx(4 * 100 + 5 * 86));
}

TEST_CASE("divergence: what decides 06.7") {
  // in steps 1 to 3 the warps of the first version are divergent, the strided one's are not
  const auto verdict = [](double first, double strided, double fourth) {
    std::vector<Given> given{{{"vote_strided", 4}, fourth, "divergent warps"}};
    for (const double step : {1.0, 2.0, 3.0}) {
      given.push_back({{"vote_modulo", step}, first, "divergent warps"});
      given.push_back({{"vote_strided", step}, strided, "divergent warps"});
    }
    return verdict_if(divergence_experiment, "06.7", given);
  };
  CHECK(verdict(8, 0, 1) == verdict_text(Verdict::holds));
  CHECK(verdict(8, 0, 0) == verdict_text(Verdict::holds));
  CHECK(verdict(8, 1, 1) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict(0, 0, 1) == verdict_text(Verdict::does_not_hold));  // nothing to remove
}

TEST_CASE("divergence: without a GPU 06.7 is computed") {
  std::string printed;
  Report report("no GPU", &printed);
  MadeUpMachine machine(nullptr, [](const Ref&, const std::string&) { return 1.0; });
  carry_out(divergence_experiment, Run{report, nullptr, {}}, machine);
  CHECK(printed.find("divergent in the first 3 steps") != std::string::npos);
}

TEST_CASE("divergence: the warps count what was predicted") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Vote& vote : votes)
      for (unsigned step = 0; step < step_count(n); ++step)
        CHECK(counted_adding(vote, step, n) == adding_threads(vote.which, step, n));
}

TEST_CASE("divergence: right where blocks crowd the multiprocessors, so that warps drift apart") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  for (const unsigned n : {64u, 256u, 1024u})
    for (const Sum& sum : sums) {
      CAPTURE(std::string(sum.key));
      CAPTURE(n);
      const unsigned resident = unsigned(prop.maxThreadsPerMultiProcessor) / n;
      const Shared blocks{Blocks(unsigned(prop.multiProcessorCount) * resident + 7, n, 5)};
      CHECK(wrong_after(sum_task(blocks, sum)) == 0);
      CHECK(blocks->cycles.to_host()[0] > 0);
    }
}

TEST_CASE("divergence: cycles by events and the clock's rate" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (device.sm_clock_khz == 0) return skip_self_check("the clock's rate is not reported");
  // 4096 times: milliseconds, of which a launch is next to nothing
  const Shared block{Blocks(1, text_threads, 4096)};
  const double ms = time_alone({}, sum_task(block, sum_of("sum_descending"))).median();
  const double off = double(block->cycles.to_host()[0]) / (ms * device.sm_clock_khz);
  CAPTURE(ms);
  CHECK(off < 1.4);
  CHECK(off > 1 / 1.4);
}

EXPERIMENT_CHECKS(divergence)
