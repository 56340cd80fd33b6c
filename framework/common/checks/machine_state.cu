// Self-checks of machine_state.hpp: what a replay reads back, what is said of clocks, and, on a
// GPU, that its state is read.
#include "../machine_state.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "made_up_devices.hpp"

namespace {

/// A GPU at its clocks: an H200's.
GpuState at_full_speed() {
  GpuState state;
  state.sm_mhz = 1980;
  state.memory_mhz = 3201;
  state.watts = 312.5;
  state.celsius = 41;
  state.power_capped_s = 5;
  state.too_warm_s = 0.25;
  state.now_s = 100;
  return state;
}

const Record* find(const std::vector<Record>& records, const std::string& metric) {
  for (const Record& r : records)
    if (r.metric == metric) return &r;
  return nullptr;
}

}  // namespace

TEST_CASE("machine: a device is read back from its records") {
  Device device;
  double next = 3;  // every member another value, none of which is what it is by default
  for (const DeviceProperty& property : device_properties()) property.set(device, next++);
  CHECK(device.prop.multiProcessorCount == 3);
  CHECK(device.sm_clock_khz > 3);

  Device again;
  std::set<std::string> metrics;
  const std::vector<Record> records = property_records(device);
  REQUIRE(records.size() == device_properties().size());
  for (size_t i = 0; i < records.size(); ++i) {
    CAPTURE(records[i].metric);
    CHECK(records[i].kind == "machine");
    CHECK(records[i].name == "device");
    CHECK(records[i].experiment == "");
    CHECK(records[i].value == 3 + double(i));  // no two share a member
    metrics.insert(records[i].metric);
    device_properties()[i].set(again, records[i].value);
    CHECK(device_properties()[i].get(again) == records[i].value);
  }
  CHECK(metrics.size() == records.size());
}

TEST_CASE("machine: sizes of a published GPU stand under their metrics") {
  for (const Device& device : made_up_devices()) {
    const std::vector<Record> records = property_records(device);
    REQUIRE(find(records, "L2"));
    CHECK(find(records, "L2")->value == device.prop.l2CacheSize);
    CHECK(find(records, "L2")->unit == "B");
    CHECK(find(records, "memory")->value == double(device.prop.totalGlobalMem));
    CHECK(find(records, "threads of a multiprocessor")->value ==
          device.prop.maxThreadsPerMultiProcessor);
    CHECK(find(records, "SM clock")->unit == "kHz");
  }
}

TEST_CASE("machine: sizes are saved to the last byte") {
  Device device;
  device.prop.totalGlobalMem = 150109880320;
  std::string printed;
  Report report("topic", &printed);
  for (const Record& record : property_records(device)) report.save(record);
  CHECK(report.csv("2026-01-01").find("topic,,device,,,machine,memory,B,150109880320,,,,") !=
        std::string::npos);
}

TEST_CASE("machine: fields of /proc/cpuinfo") {
  const std::string cpuinfo =
      "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some Processor @ 2.10GHz\n"
      "flags\t\t: fpu vme hypervisor lm\nempty\t\t:\n\nprocessor\t: 1\nmodel name\t: Another\n";
  CHECK(cpuinfo_field(cpuinfo, "model name") == "Some Processor @ 2.10GHz");
  CHECK(cpuinfo_field(cpuinfo, "flags") == "fpu vme hypervisor lm");
  CHECK(cpuinfo_field(cpuinfo, "empty") == "");
  CHECK(cpuinfo_field(cpuinfo, "Hardware") == "");
  CHECK(cpuinfo_field("", "model name") == "");
}

TEST_CASE("machine: the host that this runs on") {
  CHECK(host_cores() >= 1);
  CHECK(host_cores() <= sysconf(_SC_NPROCESSORS_CONF));
  const std::string nodes = host_nodes();
  CHECK((nodes == "unknown" || nodes.find_first_not_of("0123456789,") == nodes.npos));
  if (host_cores() ==
      sysconf(_SC_NPROCESSORS_ONLN)) {  // Linux lists the nodes that have processors
    std::string with_processors;
    std::ifstream("/sys/devices/system/node/has_cpu") >> with_processors;
    const bool single = with_processors.find_first_of(",-") == with_processors.npos;
    if (!with_processors.empty() && single) CHECK(nodes == with_processors);
  }
  std::ifstream file("/proc/cpuinfo");
  bool flagged = false;
  for (std::string line; std::getline(file, line);)
    flagged = flagged || line.find(" hypervisor") != std::string::npos;
  CHECK(hypervisor().empty() == !flagged);
}

TEST_CASE("machine: a clock that moves by more than 2% is said to have moved") {
  const GpuState before = at_full_speed();
  GpuState after = before;
  after.now_s += 10;
  CHECK(clocks_text(before, after) == "");
  after.sm_mhz = 1980 * 0.985;
  CHECK(clocks_text(before, after) == "");
  after.sm_mhz = 1980 * 1.015;
  CHECK(clocks_text(before, after) == "");
  after.sm_mhz = 1935;  // 2.3%
  CHECK(clocks_text(before, after) == "clocks moved: SM 1980 -> 1935 MHz");
  after.sm_mhz = 1755;
  CHECK(clocks_text(before, after) == "clocks moved: SM 1980 -> 1755 MHz");
  CHECK(clocks_text(after, before) == "clocks moved: SM 1755 -> 1980 MHz");
  after.reasons = 0x4;
  CHECK(clocks_text(before, after) == "clocks moved: SM 1980 -> 1755 MHz (power cap)");
  after.memory_mhz = 2619;
  CHECK(clocks_text(before, after) ==
        "clocks moved: SM 1980 -> 1755, memory 3201 -> 2619 MHz (power cap)");
  after = before;
  after.sm_mhz = NAN;  // not told
  CHECK(clocks_text(before, after) == "");
}

TEST_CASE("machine: reasons that keep clocks down, in words") {
  const GpuState before = at_full_speed();
  GpuState after = before;
  after.now_s += 10;
  after.reasons = 0x1 | 0x2;  // idle, and clocks that the owner has set
  CHECK(throttling_text(before, after) == "");
  CHECK(clocks_text(before, after) == "");
  after.reasons = 0x4 | 0x20;
  CHECK(throttling_text(before, after) == "power cap, too warm");
  CHECK(clocks_text(before, after) == "clocks were held down (power cap, too warm): SM 1980 MHz");
  after.reasons = 0x80;
  CHECK(throttling_text(before, after) == "power brake");
  CHECK(throttling_text(after, before) == "power brake");  // of either reading
}

TEST_CASE("machine: how long the driver has kept clocks down between two readings") {
  const GpuState before = at_full_speed();
  GpuState after = before;
  after.now_s += 10;
  after.power_capped_s += 0.1;  // 1%
  CHECK(share_of_time(before, after, &GpuState::power_capped_s) == doctest::Approx(0.01));
  CHECK(throttling_text(before, after) == "");
  after.power_capped_s += 1.1;
  CHECK(throttling_text(before, after) == "power cap for 12% of the time");
  after.reasons = 0x4;  // said once
  CHECK(throttling_text(before, after) == "power cap for 12% of the time");
  after.too_warm_s += 20;  // a count that runs ahead of the clock
  CHECK(throttling_text(before, after) ==
        "power cap for 12% of the time, too warm for 100% of the time");
  after.now_s = before.now_s;
  CHECK(std::isnan(share_of_time(before, after, &GpuState::too_warm_s)));
  CHECK(throttling_text(before, after) == "power cap");
  after.power_capped_s = after.now_s = NAN;  // not told
  after.reasons = 0;
  CHECK(throttling_text(before, after) == "");
}

TEST_CASE("machine: what is saved of two readings") {
  const GpuState before = at_full_speed();
  GpuState after = before;
  after.sm_mhz = 1755;
  after.watts = 650;
  after.reasons = 0x4;
  const std::vector<Record> records = state_records("copy", before, after);
  const auto value = [&](const char* metric) {
    const Record* r = find(records, metric);
    return r ? r->value : NAN;
  };
  CHECK(value("SM clock before") == 1980);
  CHECK(value("SM clock after") == 1755);
  CHECK(value("memory clock before") == 3201);
  CHECK(value("memory clock after") == 3201);
  CHECK(value("power before") == 312.5);
  CHECK(value("power after") == 650);
  CHECK(value("temperature before") == 41);
  CHECK(value("temperature after") == 41);
  REQUIRE(find(records, "throttling"));
  CHECK(find(records, "throttling")->at == "power cap");
  for (const Record& r : records) {
    CHECK(r.experiment == "copy");
    CHECK(r.name == "device");
    CHECK(r.kind == "machine");
  }
  const std::vector<Record> none = state_records("copy", before, before);
  CHECK(find(none, "throttling")->at == "none");

  GpuState silent;  // a GPU that tells its clock alone
  silent.sm_mhz = 900;
  CHECK(state_records("copy", silent, silent).size() == 3);
  CHECK(state_records("copy", {}, {}).empty());
}

TEST_CASE("machine: without a GPU the host is saved, and nothing is printed") {
  std::string printed;
  Report report("topic", &printed);
  MachineWatch watch(report, nullptr);
  watch.after("copy");
  CHECK(printed == "");
  const std::string csv = report.csv("2026-01-01");
  CHECK(csv.find("topic,,host,,,machine,cores,," + std::to_string(host_cores()) + ",") !=
        std::string::npos);
  CHECK(csv.find(",machine,hypervisor,") != std::string::npos);
  CHECK(csv.find(",machine,NUMA nodes,") != std::string::npos);
  CHECK(csv.find(",device,") == std::string::npos);
}

TEST_CASE("machine: the state of this GPU is read") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  std::string printed;
  Report report("topic", &printed);
  MachineWatch watch(report, &device);
  watch.after("nothing");
  CAPTURE(printed);
  const std::string csv = report.csv("2026-01-01");
  CHECK(csv.find(",machine,multiprocessors,," + std::to_string(device.prop.multiProcessorCount)) !=
        std::string::npos);
  if (printed.find("are not read") != std::string::npos) {
    skip_self_check("no NVML here that knows this GPU");
    return;
  }
  CHECK(csv.find("topic,nothing,device,,,machine,SM clock after,MHz,") != std::string::npos);
  CHECK(csv.find(",machine,driver build,") != std::string::npos);
  CHECK(printed.find("SM clock - MHz") == std::string::npos);
}
