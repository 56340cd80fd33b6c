// Self-checks of page_faults.cu, compiled in its place where BUILD_TESTING is on.
#include "../page_faults.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

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

}  // namespace

TEST_CASE("page_faults: the rule gives the text's figures") {
  CHECK(served(in_order()).faults == 6);
  CHECK(served(in_order()).transfers == 12);
  for (const Version& version : versions) {
    CAPTURE(std::string(version.name));
    const Rule rule = rule_for(version, 1048576);
    CHECK(rule.cpu_faults == version.then_cpu_faults);
    if (!version.prefetched_back()) CHECK(rule.to_host == version.then_to_host.count);
    if (std::isfinite(rule.to_device) && !version.prefetched_back())
      CHECK(rule.to_device == version.then_to_device.count);
  }
  CHECK(rule_for(versions[both_ways], 1048576).to_host == 4);  // 2 MiB each, of both arrays
  CHECK(std::isnan(rule_for(versions[by_thread], 1048576).to_device));
  CHECK(std::isnan(rule_for(versions[by_thread], 1000).to_host));
}

TEST_CASE("page_faults: the rule in other orders, by hand") {
  const auto makes = [](const std::vector<unsigned>& order, unsigned faults, unsigned transfers) {
    const Served found = served(order);
    CHECK(found.faults == faults);
    CHECK(found.transfers == transfers);
  };
  makes({7}, 1, 2);                  // the 4 KiB, and the 60 KiB behind them
  makes({7, 7, 7}, 1, 2);            // they came with the first
  makes({0, 1, 2}, 3, 6);            // 64, 128 of 256 KiB; then 192, and so all 256
  makes({0, 1, 2, 3}, 3, 6);         // the fourth came with the third
  makes({0, 2, 1, 3}, 3, 7);         // 0, 2; then 1 makes three of four: behind it, and part 3
  makes({31, 30, 29, 28}, 3, 7);     // the third brings the part before it, too
  makes({0, 1, 4, 5, 2, 3}, 5, 11);  // 4 of 8 parts are half; the fifth fills all eight
}

TEST_CASE("page_faults: costs, by hand") {
  Link link;
  link.to_device.median = 10;  // GB/s: 1e6 bytes take 0.1 ms
  link.to_host.median = 20;
  const Taken thread{5, 0.15, 10, 0.2, 1.0, 10};
  const Taken page{10, 0.2, 10, 0.2, 0.5, 2};
  const Costs c = costs_from(link, 1e6, thread, page);
  CHECK(c.setup_to_device == doctest::Approx(0.01));
  CHECK(c.setup_to_host == doctest::Approx(0.01));  // both arrays: 0.1 ms of bytes
  CHECK(c.first_fault == doctest::Approx(0.3));
  CHECK(c.group == doctest::Approx(0.055));
  CHECK(on_demand_ms(c, 20, 2e6, 4) == doctest::Approx(0.3 + 0.2 + 0.2 + 0.22));
  CHECK(ms_to_host(c, 4, 2e6) == doctest::Approx(0.14));
}

TEST_CASE("page_faults: times that an H200 took, by costs of its first two rows") {
  Link link;  // measured on 2026-11-20: two versions at 2^20 floats, predicted at 2^22
  link.to_device.median = link.to_host.median = 55.3;
  const double bytes = 4 << 20;
  const Costs c = costs_from(link, bytes, {97, 0.337, 48, 0.2204, 1.043, 44},
                             {128, 0.4247, 48, 0.2201, 0.6793, 4});
  const auto within = [](double predicted, double measured) {
    return std::max(predicted, measured) / std::min(predicted, measured) < 1.25;
  };
  CHECK(within(on_demand_ms(c, 534, 4 * bytes, 164), 3.302));
  CHECK(within(on_demand_ms(c, 510, 4 * bytes, 6), 2.090));
  CHECK(within(ms_to_device(c, 534, 4 * bytes), 1.744));
  CHECK(within(ms_to_host(c, 192, 8 * bytes), 0.887));
  CHECK(within(ms_to_host(c, 16, 8 * bytes), 0.628));
  CHECK(within(ms_to_device(c, 8, 4 * bytes), 0.3666));
}

TEST_CASE("page_faults: time lines") {
  std::vector<Happened> events{{Happened::to_device, 130, 149, 4096},
                               {Happened::cpu_fault, 5, 5, 0},
                               {Happened::gpu_fault, 100, 160, 0},
                               {Happened::to_host, 180, 200, 4096}};
  since_the_first(events);
  CHECK(events[0].what == Happened::cpu_fault);
  CHECK(events[0].from_us == -95);
  CHECK(time_line(events, 10, 10) == "fff>>ff.<<");
  CHECK(time_line({}, 10, 3) == "...");
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

TEST_CASE("page_faults: what is lost costs the run, and no other") {
  const auto moved = [](double to_device, double to_host) {
    Migrations m;
    m.to_device.add(to_device, 1);
    m.to_host.add(to_host, 1);
    m.cpu_faults = 5;
    return m;
  };
  const Counts counts{moved(4096, 8192), moved(4096 - 64, 8192), moved(4096, 8192)};
  CHECK(complete(counts[0], 1024));
  CHECK_FALSE(complete(counts[1], 1024));
  CHECK(complete(moved(4096, 8192), 1000));  // whole pages
  CHECK(over(counts, 1024, cpu_faults_of).repeats == 2);
  Counts dropped = counts;
  for (Migrations& m : dropped) m.lost = true;
  CHECK(over(dropped, 1024, cpu_faults_of).repeats == 0);
  CHECK(std::isnan(over(dropped, 1024, cpu_faults_of).median));
}

TEST_CASE("page_faults: claims take the text's pair, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("page_faults", &printed);
  const Run run{report, &device, {}};
  Counted counted;
  const auto migrations = [](unsigned records, double ms, double least, unsigned cpu_faults) {
    Migrations m;
    m.to_device.add(least, 0.1);
    if (least < bytes_of(text_size)) m.to_device.add(bytes_of(text_size) - least, 0.1);
    m.to_host.add(2 * bytes_of(text_size), 0.1);
    m.fault_records = records;
    m.fault_groups = records;
    m.fault_ms = ms;
    m.cpu_faults = cpu_faults;
    return m;
  };
  for (int i = 0; i < 15; ++i) {  // of 2018: as the text has it
    counted.of[by_thread].push_back(migrations(24, 2.32, 4096, 36));
    counted.of[by_page].push_back(migrations(3, 1.106, 4096, 36));
    counted.of[prefetched].push_back(migrations(0, 0, 2 << 20, 36));
    counted.of[both_ways].push_back(migrations(0, 0, 2 << 20, 0));
  }
  judge(run, counted, text_size);
  for (const char* line :
       {"05.1a  holds  ", "05.1b  holds  ", "05.2a  holds  ", "05.2b  holds  ", "05.3   holds  "}) {
    CAPTURE(std::string(line));
    CHECK(printed.find(line) != std::string::npos);
  }
  printed.clear();
  std::swap(counted.of[by_thread], counted.of[by_page]);
  std::swap(counted.of[prefetched], counted.of[by_thread]);
  judge(run, counted, text_size);  // prefetched has faults and 4 KiB pieces now
  CHECK(printed.find("05.2a  does not hold") != std::string::npos);
  CHECK(printed.find("05.2b  no longer") != std::string::npos);
  printed.clear();
  for (Counts& counts : counted.of)
    for (Migrations& m : counts) m.lost = true;
  judge(run, counted, text_size);  // records were dropped: rows are lost, the topic is not
  CHECK(printed.find("05.1a  not judged") != std::string::npos);
  CHECK(printed.find("05.3   not judged") != std::string::npos);
}

TEST_CASE("page_faults: both kernels copy awkward sizes, and nothing behind them") {
  if (skip_without_gpu()) return;
  constexpr size_t canaries = 64;
  for (const size_t n : {size_t(1), size_t(31), size_t(16383), size_t(16385), size_t(1000003)})
    for (const auto& launch : {launch_by_thread, launch_by_page}) {
      CAPTURE(n);
      std::vector<float> host(n);
      std::iota(host.begin(), host.end(), 0.5f);
      const DeviceBuffer<float> in(host);
      DeviceBuffer<float> out(n + canaries);
      out.poison();
      launch(out.data(), in.data(), n);
      const std::vector<float> found = out.to_host();
      CHECK(std::equal(host.begin(), host.end(), found.begin()));
      for (size_t i = n; i < found.size(); ++i) CHECK(std::isnan(found[i]));
    }
}

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
  const Arrays arrays(3 * block_bytes / sizeof(float));
  for (size_t i = 0; i < arrays.in.size(); ++i) arrays.in[i] = 1;
  CHECK(arrays.in.last_prefetched_to() == cudaInvalidDeviceId);
  both_to_device(arrays);
  CHECK(arrays.in.last_prefetched_to() == this_device());
  CHECK(arrays.out.last_prefetched_to() == this_device());
  both_to_host(arrays);
  CHECK(arrays.in.last_prefetched_to() == cudaCpuDeviceId);
  CHECK(arrays.out.last_prefetched_to() == cudaCpuDeviceId);
  both_to_device(arrays);
  wait_for_device();
  input_to_host(arrays);
  CHECK(arrays.in.last_prefetched_to() == cudaCpuDeviceId);
  CHECK(arrays.out.last_prefetched_to() == this_device());
}

TEST_CASE("page_faults: what is counted is what must move") {
  if (nothing_is_counted()) return;
  for (const size_t n : {text_size, 3 * text_size, 5 * text_size / 2}) {
    const Counted counted = count(n, 1);
    for (int v = 0; v < version_count; ++v) {
      CAPTURE(std::string(versions[v].name));
      CAPTURE(n);
      const Migrations& m = counted.of[v].at(0);
      const Rule rule = rule_for(versions[v], n);
      CHECK(m.to_device.bytes == n * sizeof(float));    // in; out was nowhere before
      CHECK(m.to_host.bytes == 2 * n * sizeof(float));  // both
      CHECK((m.fault_records == 0) == versions[v].prefetched());
      CHECK((m.cpu_faults == 0) == versions[v].prefetched_back());
      if (versions[v].prefetched()) CHECK(m.to_device.count == rule.to_device);  // of 2 MiB
      MESSAGE(versions[v].name << ": CPU faults " << m.cpu_faults << ", by the rule "
                               << rule.cpu_faults);
    }
  }
}

TEST_CASE("page_faults: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { page_faults(run, by_default); });
}
