// Self-checks of advise.cu, compiled in its place where BUILD_TESTING is on.
#include "../advise.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("advise: each thread's sum, by hand") {
  std::vector<unsigned> sums = right_sums(33, 1);
  CHECK(sums[0] == first_value(0));
  CHECK(sums[31] == first_value(31));
  CHECK(sums[32] == first_value(32));  // the second line is the second warp's
  CHECK(sums[33] == 0);
  sums = right_sums(100, 2);
  CHECK(sums[32] == first_value(64));
  CHECK(sums[33] == first_value(65));
  constexpr size_t all = sum_blocks * threads;
  sums = right_sums(all + 5, 1);  // the first warp's second line
  CHECK(sums[4] == first_value(4) + first_value(all + 4));
  CHECK(sums[5] == first_value(5));
}

TEST_CASE("advise: predictions, by hand") {
  Link link;
  link.to_device.median = link.to_host.median = 10;  // 1e6 bytes take 0.1 ms
  Migrations m;
  m.to_device.add(1e6, 1);
  m.fault_groups = 10;
  m.cpu_faults = 5;
  const Costs c{link, 0.01, 0.1, 0.002, 0.003, 0.05};
  CHECK(predicted_ms(c, patterns[reading], by_device, 0.7, m) == 0.7);
  CHECK(predicted_ms(c, patterns[reading], on_host, 0.7, m) == doctest::Approx(1.12));
  CHECK(predicted_ms(c, patterns[reading], none, 0.7, m) == doctest::Approx(0.813));
  CHECK(predicted_ms(c, patterns[reading], read_mostly, 0.7, m) == doctest::Approx(0.513));
  CHECK(predicted_ms(c, patterns[little], none, 0.7, m) == doctest::Approx(0.473));
  CHECK(std::isnan(predicted_ms(c, patterns[writing], read_mostly, 0.7, m)));
}

TEST_CASE("advise: costs, by hand, each from its own row") {
  Link link;
  link.to_device.median = link.to_host.median = 10;  // 1e6 bytes take 0.1 ms
  Rows rows[pattern_count];
  rows[little].pinned.ms = {0.02};
  rows[little].times[on_host].ms = {0.12};  // a first fault of 0.1
  rows[reading].pinned.ms = {0.5};
  rows[reading].times[on_host].ms = {1.1};  // four of them, and 100 groups
  rows[reading].made[on_host].fault_groups = 100;
  rows[little].times[none].ms = {0.208};  // a first fault, a group, two transfers, the bytes
  rows[little].made[none].fault_groups = 1;
  for (int i = 0; i < 2; ++i) rows[little].made[none].to_device.add(5e5, 1);
  rows[writing].times[none].ms = {0.913};  // 0.4 + 0.02, four passes, a transfer, the bytes, 0.25
  Migrations& m = rows[writing].made[none];
  m.fault_groups = 10;
  m.to_device.add(1e6, 1);
  m.to_host.add(1e6, 1);
  m.cpu_faults = 5;
  const Costs c = costs_from(link, 0.01, rows);
  CHECK(c.first_fault == doctest::Approx(0.1));
  CHECK(c.group == doctest::Approx(0.002));
  CHECK(c.transfer == doctest::Approx(0.003));
  CHECK(c.cpu_fault == doctest::Approx(0.05));
}

TEST_CASE("advise: every pattern is right under every advice at awkward sizes") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory() || !pages_on_demand()) return skip_self_check(managed_memory_text());
  for (const size_t n :
       {size_t(1), size_t(31), size_t(1025), size_t(100003), sparse_stride * 32 * 3 + 5})
    for (const Pattern& pattern : patterns) {
      CAPTURE(n);
      CAPTURE(std::string(pattern.name));
      CHECK_NOTHROW(use_pinned(pattern, PinnedBuffer<unsigned>(n)));
      for (int advice = 0; advice < advice_count; ++advice)
        CHECK_NOTHROW(use_managed(pattern, Advice(advice), n, nullptr));
    }
}

TEST_CASE("advise: two sums that cancel are found") {
  if (skip_without_gpu()) return;
  const PinnedBuffer<unsigned> x(100003);
  Work work(x.data(), x.size());
  read_often(work);
  REQUIRE(wrong(patterns[often], work) == 0);
  std::vector<unsigned> sums = work.sums.to_host();
  ++sums[7];
  --sums[40];
  work.sums.copy_from(sums);
  CHECK(wrong(patterns[often], work) == 2);
}

TEST_CASE("advise: advices change what moves") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty())
    return skip_self_check(migrations_uncounted_because());
  constexpr size_t n = size_t(1) << 20;
  constexpr double bytes = n * sizeof(unsigned);
  Rows rows[pattern_count];
  count_all(n, rows);
  CHECK(rows[reading].made[none].to_host.bytes >= bytes);  // the host's reading takes them away
  CHECK(rows[reading].made[read_mostly].to_device.bytes == bytes);  // once, and both keep theirs
  CHECK(rows[reading].made[read_mostly].to_host.bytes == 0);
  CHECK(rows[little].made[on_host].to_device.bytes == 0);
  CHECK(rows[little].made[by_device].to_device.bytes == 0);
  CHECK(rows[little].made[by_device].fault_groups == 0);
}

TEST_CASE("advise: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { advise(run); });
}
