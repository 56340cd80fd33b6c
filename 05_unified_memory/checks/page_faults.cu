// Self-checks of page_faults.cu, compiled in its place where BUILD_TESTING is on.
#include "../page_faults.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

bool nothing_is_counted() {
  if (skip_without_gpu()) return true;
  if (migrations_uncounted_because().empty()) return false;
  skip_self_check(migrations_uncounted_because());
  return true;
}

bool nothing_moves() {
  if (skip_without_gpu()) return true;
  if (has_managed_memory() && pages_on_demand()) return false;
  skip_self_check(managed_memory_text());
  return true;
}

const Version& version(const char* key) { return *with_key(versions, Ref(key)); }

Migrations migrations(unsigned groups, double ms, size_t n, double least) {
  Migrations m;
  m.to_device.add(least, 0.1);
  if (least < bytes_of(n)) m.to_device.add(bytes_of(n) - least, 0.1);
  m.to_host.add(2 * bytes_of(n), 0.1);
  m.fault_groups = groups;
  m.fault_ms = ms;
  m.cpu_faults = 5;
  return m;
}

}  // namespace

TEST_CASE("page_faults: the rule gives the text's figures") {
  for (const Version& each : versions) {
    CAPTURE(std::string(each.words));
    const Rule rule = rule_for(each, 1048576);
    const Then& said = *with_key(then_of, Ref(each.key));
    CHECK(rule.cpu_faults == said.cpu_faults);
    if (!each.prefetched_back) CHECK(rule.to_host == said.to_host.count);
    if (std::isfinite(rule.to_device) && !each.prefetched_back)
      CHECK(rule.to_device == said.to_device.count);
  }
  CHECK(rule_for(version("prefetched_both_ways"), 1048576).to_host == 4);  // 2 MiB, of both arrays
  CHECK(std::isnan(rule_for(version("by_thread"), 1048576).to_device));
  CHECK(std::isnan(rule_for(version("by_thread"), 1000).to_host));
}

TEST_CASE("page_faults: versions are what their names say") {
  CHECK((version("by_thread").kernel == launch_by_thread));
  CHECK((version("by_page").kernel == launch_by_page));
  CHECK((version("prefetched").kernel == launch_by_thread));
  CHECK_FALSE(version("by_page").prefetched);
  CHECK(version("prefetched").prefetched);
  CHECK_FALSE(version("prefetched").prefetched_back);
  CHECK(version("prefetched_both_ways").prefetched_back);
  CHECK(&version("by_thread") == &versions[0]);  // as thread_over_page takes them
  CHECK(&version("by_page") == &versions[1]);
}

TEST_CASE("page_faults: what is lost costs the block, and no other") {
  constexpr size_t n = 1024;
  Counted counted;
  for (int i = 0; i < 18; ++i) {
    counted.of[0].push_back(migrations(i % 2 ? 36 : 16, 3, n, 4096));  // geometric mean: 24
    counted.of[1].push_back(migrations(3, 1.5, n, 4096));
  }
  const Statistics groups = thread_over_page(counted, n, of_version[1].value);
  CHECK(groups.median == doctest::Approx(8));
  CHECK(groups.repeats == 9);
  CHECK(thread_over_page(counted, n, of_version[2].value).median == doctest::Approx(2));
  counted.of[0][4].lost = true;
  counted.of[1][9] = migrations(3, 1.5, n, 4096);
  counted.of[1][9].to_host.bytes -= 4096;
  CHECK(thread_over_page(counted, n, of_version[1].value).repeats == 7);
  CHECK(over(counted.of[0], n, of_version[1].value).repeats == 17);
  CHECK(over(counted.of[0], n, of_version[1].value).low == 16);
  CHECK(over(counted.of[0], n, of_version[1].value).high == 36);
  for (Migrations& m : counted.of[0]) m.lost = true;
  CHECK(std::isnan(thread_over_page(counted, n, of_version[1].value).median));
  CHECK(std::isnan(over(counted.of[0], n, of_version[1].value).median));
  CHECK(complete(migrations(1, 1, n, 8192), n));  // what moves twice is still counted
}

TEST_CASE("page_faults: what decides each claim") {
  const double n = double(text_size);
  const auto verdict = [](const char* part, std::vector<Given> given) {
    return verdict_if(page_faults_experiment, part, given);
  };
  const Given none{{"prefetched", n}, 0, "GPU fault records"};
  const Given least{{"prefetched_to_device", n}, 2048, "least transfer"};
  const Given most{{"prefetched_to_device", n}, 2048, "most transfer"};
  CHECK(verdict("05.1a", {{{"by_thread", n}, 8, groups_ratio}}) == "holds");
  CHECK(verdict("05.1a", {{{"by_thread", n}, 0.9, groups_ratio}}) == "does not hold");
  CHECK(verdict("05.1b", {{{"by_thread", n}, 2.1, time_ratio}}) == "holds");
  CHECK(verdict("05.1b", {{{"by_thread", n}, 1.3, time_ratio}}) == "holds, weaker");
  CHECK(verdict("05.2a", {none}) == "holds");
  CHECK(verdict("05.2a", {}) == "does not hold");
  CHECK(verdict("05.2b", {least, most}) == "holds");
  CHECK(verdict("05.2b", {most}) == "no longer");
  CHECK(verdict("05.2b", {least}) == "no longer");
  CHECK(verdict("05.3", {{{"prefetched_both_ways", n}, 0, "CPU faults"}}) == "holds");
  CHECK(verdict("05.3", {}) == "does not hold");
  CHECK(verdict("05.6", {{{"by_thread_to_device", n}, 4, "transferred"}}) == "holds");
  CHECK(verdict("05.6", {{{"by_thread_to_device", n}, 4.0625, "transferred"}}) == "does not hold");
}

#ifdef HAVE_CUPTI
TEST_CASE("page_faults: records between two times are added up by their kind") {
  const auto to_device = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  const auto to_host = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
  const auto gpu_fault = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
  const auto cpu_fault = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT;
  const std::vector<cupti_records::Record> records{
      {to_device, 4096, 900'000, 950'000},   // before
      {cpu_fault, 0xabc, 1'100'000, 0},      // its value is no count
      {gpu_fault, 7, 2'000'000, 2'500'000},  // seven groups, one record
      {gpu_fault, 1, 2'600'000, 2'700'000},     {to_device, 4096, 2'100'000, 2'110'000},
      {to_device, 61440, 2'120'000, 2'150'000}, {to_host, 8192, 3'000'000, 3'001'000},
      {to_host, 8192, 5'000'000, 5'001'000}};  // behind
  const Migrations m = cupti_records::sum_of(records, 1'000'000, 4'000'000);
  CHECK(m.to_device.count == 2);
  CHECK(m.to_device.bytes == 65536);
  CHECK(m.to_device.least == 4096);
  CHECK(m.to_device.most == 61440);
  CHECK(m.to_device.ms == doctest::Approx(0.04));
  CHECK(m.to_host.count == 1);
  CHECK(m.fault_records == 2);
  CHECK(m.fault_groups == 8);
  CHECK(m.fault_ms == doctest::Approx(0.6));
  CHECK(m.cpu_faults == 1);
  REQUIRE(m.events.size() == 6);
  CHECK(m.events[0].what == Happened::cpu_fault);
  CHECK(m.events[1].from_us == 0);  // the first that is no fault of the host
  CHECK(m.events[2].from_us == doctest::Approx(100));
}
#endif

TEST_CASE("page_faults: one warp copies the text's page of 65536 bytes, and no more") {
  if (skip_without_gpu()) return;
  const std::vector<float> host(3 * 16384, 2.5f);
  const DeviceBuffer<float> in(host);
  DeviceBuffer<float> out(host.size());
  out.poison();
  copy_by_page<<<1, 32>>>(out.data(), in.data(), host.size());
  CUDA_CHECK_LAUNCH();
  const std::vector<float> found = out.to_host();
  CHECK(std::count(found.begin(), found.end(), 2.5f) == 16384);
  CHECK(std::count(found.begin(), found.begin() + 16384, 2.5f) == 16384);
}

TEST_CASE("page_faults: prefetches go where they say") {
  if (nothing_moves()) return;
  constexpr size_t n = 3 * block_bytes / sizeof(float);
  const CopyRun one_way(version("prefetched"), n), none(version("by_page"), n);
  none.prefetch();
  CHECK(none.arrays.in.last_prefetched_to() == cudaInvalidDeviceId);
  one_way.prefetch();
  CHECK(one_way.arrays.in.last_prefetched_to() == this_device());
  CHECK(one_way.arrays.out.last_prefetched_to() == this_device());
  one_way.read_back();
  CHECK(one_way.arrays.out.last_prefetched_to() == this_device());
  const CopyRun both(version("prefetched_both_ways"), n);
  CHECK(both.arrays.in.last_prefetched_to() == cudaCpuDeviceId);
  both.prefetch();
  CHECK(both.arrays.out.last_prefetched_to() == this_device());
  both.read_back();
  CHECK(both.arrays.in.last_prefetched_to() == cudaCpuDeviceId);
  CHECK(both.arrays.out.last_prefetched_to() == cudaCpuDeviceId);
}

TEST_CASE("page_faults: what is counted is what must move") {
  if (nothing_is_counted()) return;
  for (const size_t n : {text_size, 3 * text_size, 5 * text_size / 2}) {
    const Counted counted = count_in_turn(n, 1);
    for (size_t v = 0; v < std::size(versions); ++v) {
      CAPTURE(std::string(versions[v].words));
      CAPTURE(n);
      const Migrations& m = counted.of[v].at(0);
      CHECK(m.to_device.bytes == bytes_of(n));    // in; out was nowhere before
      CHECK(m.to_host.bytes == 2 * bytes_of(n));  // both
      CHECK((m.fault_records == 0) == versions[v].prefetched);
      CHECK((m.cpu_faults == 0) == versions[v].prefetched_back);
      if (versions[v].prefetched)
        CHECK(m.to_device.count == rule_for(versions[v], n).to_device);  // of 2 MiB
    }
  }
}

EXPERIMENT_CHECKS(page_faults)
