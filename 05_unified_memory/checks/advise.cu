// Self-checks of advise.cu, compiled in its place where BUILD_TESTING is on.
#include "../advise.cu"

#include "../../framework/common/checks/standard.hpp"

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

TEST_CASE("advise: every row is its pattern's under its advice") {
  CHECK(key_of(patterns[1], advices[2]) == "both_write_read_mostly");
  const auto pattern = [](const char* key) { return with_key(patterns, Ref(key))->use; };
  CHECK((pattern("both_read") == both_read));
  CHECK((pattern("both_write") == both_write));
  CHECK((pattern("read_little") == read_little));
  CHECK((pattern("read_often") == read_often));
  const auto advice = [](const char* key) { return with_key(advices, Ref(key))->give; };
  CHECK((advice("pinned") == nullptr));
  CHECK((advice("no_advice") == no_advice));
  CHECK((advice("read_mostly") == read_mostly));
  CHECK((advice("on_host") == on_host));
  CHECK((advice("by_device") == by_device));
  Counts counts(std::size(patterns) * (std::size(advices) - 1));
  for (size_t i = 0; i < counts.size(); ++i) counts[i].cpu_faults = unsigned(i);
  CHECK(of(counts, patterns[0], advices[1]).cpu_faults == 0);
  CHECK(of(counts, patterns[2], advices[3]).cpu_faults == 10);
  CHECK(of(counts, patterns[3], advices[4]).cpu_faults == 15);
}

TEST_CASE("advise: every count is the one that its heading names") {
  Migrations made;
  made.to_device.bytes = 3 << 20;
  made.to_host.bytes = 5 << 20;
  made.fault_groups = 7;
  made.cpu_faults = 11;
  const auto value = [&](const std::string& name) {
    for (const Metric& metric : metrics)
      if (metric.name == name) return metric.value(made);
    return double(NAN);
  };
  CHECK(value("transferred to device") == 3);
  CHECK(value("transferred to host") == 5);
  CHECK(value("GPU fault groups") == 7);
  CHECK(value("CPU faults") == 11);
}

TEST_CASE("advise: every pattern is right under every advice at awkward sizes") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory() || !pages_on_demand()) return skip_self_check(managed_memory_text());
  for (const size_t n :
       {size_t(1), size_t(31), size_t(1025), size_t(100003), sparse_stride * 32 * 3 + 5})
    for (const Pattern& pattern : patterns)
      for (const Advice& advice : advices) {
        CAPTURE(n);
        CAPTURE(key_of(pattern, advice));
        CHECK(wrong_after(task_of(pattern, advice, n)) == 0);
      }
}

TEST_CASE("advise: two sums that cancel are found") {
  if (skip_without_gpu()) return;
  const PinnedBuffer<unsigned> x(100003);
  Work work(x.data(), x.size());
  read_often(work);
  REQUIRE(wrong(patterns[3], work) == 0);
  std::vector<unsigned> sums = work.sums.to_host();
  ++sums[7];
  --sums[40];
  work.sums.copy_from(sums);
  CHECK(wrong(patterns[3], work) == 2);
}

TEST_CASE("advise: advices change what moves") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty())
    return skip_self_check(migrations_uncounted_because());
  constexpr size_t n = size_t(1) << 20;
  constexpr double bytes = n * sizeof(unsigned);
  const Counts counts = count_all(n);
  const auto made = [&](const char* pattern, const char* advice) -> const Migrations& {
    return of(counts, *with_key(patterns, Ref(pattern)), *with_key(advices, Ref(advice)));
  };
  CHECK(made("both_read", "no_advice").to_host.bytes >= bytes);      // the host takes them away
  CHECK(made("both_read", "read_mostly").to_device.bytes == bytes);  // once, and both keep theirs
  CHECK(made("both_read", "read_mostly").to_host.bytes == 0);
  CHECK(made("read_little", "on_host").to_device.bytes == 0);
  CHECK(made("read_little", "by_device").to_device.bytes == 0);
  CHECK(made("read_little", "by_device").fault_groups == 0);
}

EXPERIMENT_CHECKS(advise)
