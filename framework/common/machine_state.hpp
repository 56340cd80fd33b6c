// What machine a run measured on, for the CSV: what its GPU is, which a replay of the run needs;
// driver, hypervisor and host; and the GPU's clocks, power and temperature around each experiment.
//
// The last come from NVML, the library of nvidia-smi. It is opened when a run begins, so that no
// build needs its header or links with it; where there is none, one line says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report.hpp"

// ---- what does not change during a run ----

/// What experiments and their models ask of a device, under the metric that the CSV has for it.
struct DeviceProperty {
  const char* metric;
  const char* unit;
  double (*get)(const Device&);
  void (*set)(Device&, double);
};
const std::vector<DeviceProperty>& device_properties();
/// Records of a device that can be read back by `set`: kind "machine", case "device".
std::vector<Record> property_records(const Device& device);

/// What runs this host as a virtual machine ("KVM"; "unknown" if it does not say), or nothing.
std::string hypervisor();
/// Processors that this process may use.
int host_cores();
/// The NUMA nodes of these processors ("0" or "0,1"); "unknown" where Linux does not tell. Memory
/// lies on the node of the processor that touches it first.
std::string host_nodes();
/// The NUMA node that the GPU is connected to; "unknown", as often on a virtual machine.
std::string node_of(const Device& device);

/// Part of hypervisor() and of the host's records, for tests: the value of the first line of
/// /proc/cpuinfo's text that begins with `key` ("model name"), or nothing.
std::string cpuinfo_field(const std::string& cpuinfo, const std::string& key);

// ---- what does ----

/// One reading of a GPU. Not a number: the GPU or its driver does not tell.
struct GpuState {
  double sm_mhz = NAN, memory_mhz = NAN;
  double watts = NAN;  ///< of the whole card; recent GPUs report the mean of the last second
  double celsius = NAN;
  unsigned long long reasons = 0;  ///< why clocks are low: NVML's nvmlClocksEventReason bits
  /// Seconds for which the driver has kept clocks down since it was loaded; the host's time.
  double power_capped_s = NAN, too_warm_s = NAN, now_s = NAN;
};

/// The share of the time between two readings for which clocks were kept down; not a number if it
/// is not known. `held`: GpuState::power_capped_s or too_warm_s.
double share_of_time(const GpuState& before, const GpuState& after, double GpuState::*held);

/// Why the clocks were low, in words: "power cap, too warm". Nothing if the GPU was idle or its
/// owner has set other clocks, which no experiment changes.
std::string throttling_text(const GpuState& before, const GpuState& after);

/// What a reader has to know of the clocks around an experiment: "clocks moved: SM 1980 -> 1755
/// MHz (power cap)", "clocks were held down (power cap for 12% of the time): SM 1755 MHz". Nothing
/// if none moved by more than 2% and nothing held them down.
std::string clocks_text(const GpuState& before, const GpuState& after);

/// The records of two readings around an experiment, as they are saved.
std::vector<Record> state_records(const std::string& experiment, const GpuState& before,
                                  const GpuState& after);

/// Reads the machine of a run and saves it in the report.
class MachineWatch {
 public:
  /// Saves what does not change, and reads the GPU's state for the first time.
  MachineWatch(Report& report, const Device* device);
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;
  ~MachineWatch();

  /// After an experiment: reads the state again, saves it with the one before, and prints a line
  /// if the clocks moved. What stands after one experiment stands before the next.
  void after(const std::string& experiment);

 private:
  class Nvml;
  Report& report_;
  std::unique_ptr<Nvml> nvml_;  ///< null: there is no GPU, or no NVML that knows it
  GpuState before_;
};
