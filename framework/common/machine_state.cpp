#include "machine_state.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "memory.hpp"

// ---- what does not change during a run ----

namespace {

Record number_record(const char* of, const std::string& metric, const std::string& unit,
                     double value) {
  return {"", of, "", "", "machine", metric, unit, value};
}

/// A text stands in the column "at"; there is no value.
Record text_record(const char* of, const std::string& metric, const std::string& text) {
  return {"", of, "", text, "machine", metric, "", NAN};
}

}  // namespace

// A member of Device, or of its cudaDeviceProp, under the metric `NAME`.
#define PROPERTY(NAME, UNIT, MEMBER)                                                       \
  {                                                                                        \
    NAME, UNIT, [](const Device& d) { return static_cast<double>(d.MEMBER); },             \
        [](Device& d, double value) { d.MEMBER = static_cast<decltype(d.MEMBER)>(value); } \
  }

const std::vector<DeviceProperty>& device_properties() {
  static const std::vector<DeviceProperty> all{
      PROPERTY("multiprocessors", "", prop.multiProcessorCount),
      PROPERTY("threads of a multiprocessor", "", prop.maxThreadsPerMultiProcessor),
      PROPERTY("blocks of a multiprocessor", "", prop.maxBlocksPerMultiProcessor),
      PROPERTY("threads of a block", "", prop.maxThreadsPerBlock),
      PROPERTY("registers of a multiprocessor", "", prop.regsPerMultiprocessor),
      PROPERTY("registers of a block", "", prop.regsPerBlock),
      PROPERTY("shared memory of a multiprocessor", "B", prop.sharedMemPerMultiprocessor),
      PROPERTY("shared memory of a block", "B", prop.sharedMemPerBlock),
      PROPERTY("most shared memory of a block", "B", prop.sharedMemPerBlockOptin),
      PROPERTY("reserved shared memory of a block", "B", prop.reservedSharedMemPerBlock),
      PROPERTY("memory", "B", prop.totalGlobalMem),
      PROPERTY("constant memory", "B", prop.totalConstMem),
      PROPERTY("L2", "B", prop.l2CacheSize),
      PROPERTY("most L2 set aside", "B", prop.persistingL2CacheMaxSize),
      PROPERTY("largest L2 window", "B", prop.accessPolicyMaxWindowSize),
      PROPERTY("texture alignment", "B", prop.textureAlignment),
      PROPERTY("texture pitch alignment", "B", prop.texturePitchAlignment),
      PROPERTY("copy engines", "", prop.asyncEngineCount),
      PROPERTY("integrated", "", prop.integrated),
      PROPERTY("managed memory", "", prop.managedMemory),
      PROPERTY("concurrent managed access", "", prop.concurrentManagedAccess),
      PROPERTY("pageable memory access", "", prop.pageableMemoryAccess),
      PROPERTY("pageable memory access by host's page tables", "",
               prop.pageableMemoryAccessUsesHostPageTables),
      PROPERTY("bus width", "bit", prop.memoryBusWidth),
      PROPERTY("SM clock", "kHz", sm_clock_khz),
      PROPERTY("memory clock", "kHz", memory_clock_khz),
      PROPERTY("theoretical bandwidth", "GB/s", theoretical_gbs),
  };
  return all;
}
#undef PROPERTY

std::vector<Record> property_records(const Device& device) {
  std::vector<Record> records;
  for (const DeviceProperty& property : device_properties())
    records.push_back(
        number_record("device", property.metric, property.unit, property.get(device)));
  return records;
}

std::string cpuinfo_field(const std::string& cpuinfo, const std::string& key) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

namespace {

std::string contents_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a hypervisor calls itself where the processor's instruction CPUID asks it, in usual words.
std::string name_by_cpuid() {
#if defined(__x86_64__)
  unsigned words[4] = {};
  __cpuid(0x40000000, words[0], words[1], words[2], words[3]);
  const std::string name(reinterpret_cast<const char*>(words + 1), 3 * sizeof(unsigned));
  const char* const known[][2] = {{"KVMKVMKVM", "KVM"},
                                  {"Microsoft Hv", "Hyper-V"},
                                  {"VMwareVMware", "VMware"},
                                  {"XenVMMXenVMM", "Xen"}};
  for (const auto& [signature, usual] : known)
    if (name.rfind(signature, 0) == 0) return usual;
#endif
  return "unknown";
}

double host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? double(pages) * double(bytes) : NAN;
}

std::vector<Record> host_records() {
  const std::string processor = cpuinfo_field(contents_of("/proc/cpuinfo"), "model name");
  const std::string under = hypervisor();
  return {text_record("host", "processor", processor.empty() ? "unknown" : processor),
          number_record("host", "cores", "", host_cores()),
          text_record("host", "NUMA nodes", host_nodes()),
          number_record("host", "host memory", "B", host_memory_bytes()),
          text_record("host", "hypervisor", under.empty() ? "none" : under)};
}

}  // namespace

std::string hypervisor() {
  std::string flags = cpuinfo_field(contents_of("/proc/cpuinfo"), "flags");
  flags.insert(flags.begin(), ' ');  // GCC 12 warns wrongly of " " + flags at -O3
  flags += ' ';
  return flags.find(" hypervisor ") == std::string::npos ? "" : name_by_cpuid();
}

int host_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return int(std::max(1u, std::thread::hardware_concurrency()));  // more than a cpu_set_t names
}

std::string host_nodes() {
  constexpr int most_nodes = 64;
  bool there[most_nodes] = {};
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "unknown";
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/node";
    for (int node = 0; CPU_ISSET(cpu, &allowed) && node < most_nodes; ++node)
      there[node] |= access((folder + std::to_string(node)).c_str(), F_OK) == 0;
  }
  std::string nodes;
  for (int node = 0; node < most_nodes; ++node) {
    if (!there[node]) continue;
    if (!nodes.empty()) nodes += ',';
    nodes += std::to_string(node);
  }
  return nodes.empty() ? "unknown" : nodes;
}

std::string node_of(const Device& device) {
  char path[64];
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
                unsigned(device.prop.pciDomainID), unsigned(device.prop.pciBusID),
                unsigned(device.prop.pciDeviceID));
  int node = -1;
  std::ifstream(path) >> node;
  return node < 0 ? "unknown" : std::to_string(node);
}

// ---- what does ----

namespace {

/// NVML's bits, and what they are called here. Not among them: 0x1, an idle GPU, and 0x2, clocks
/// that its owner has set.
struct Reason {
  unsigned long long bit;
  const char* words;
};
constexpr Reason reasons[] = {{0x4, "power cap"},       {0x8, "slowed down by hardware"},
                              {0x10, "sync boost"},     {0x20, "too warm"},
                              {0x40, "far too warm"},   {0x80, "power brake"},
                              {0x100, "display clocks"}};

constexpr double noticed = 0.02;  ///< a clock that moves by less stands in no line, nor a reason

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

double share_of_time(const GpuState& before, const GpuState& after, double GpuState::*held) {
  const double elapsed = after.now_s - before.now_s;
  return elapsed > 0 ? (after.*held - before.*held) / elapsed : NAN;
}

std::string throttling_text(const GpuState& before, const GpuState& after) {
  const unsigned long long now = before.reasons | after.reasons;
  const double capped = share_of_time(before, after, &GpuState::power_capped_s);
  const double warm = share_of_time(before, after, &GpuState::too_warm_s);
  std::vector<std::string> words;
  if (capped > noticed)
    words.push_back("power cap for " + fixed(100 * std::min(capped, 1.0), 0) + "% of the time");
  if (warm > noticed)
    words.push_back("too warm for " + fixed(100 * std::min(warm, 1.0), 0) + "% of the time");
  for (const Reason& reason : reasons) {
    const bool said =
        (reason.bit == 0x4 && capped > noticed) || (reason.bit == 0x20 && warm > noticed);
    if ((now & reason.bit) && !said) words.push_back(reason.words);
  }
  return joined(words);
}

std::string clocks_text(const GpuState& before, const GpuState& after) {
  const auto moved = [](double from, double to) {
    return from > 0 && to > 0 && std::abs(to - from) > noticed * from;
  };
  const std::string why = throttling_text(before, after);
  std::vector<std::string> clocks;
  if (moved(before.sm_mhz, after.sm_mhz))
    clocks.push_back("SM " + fixed(before.sm_mhz, 0) + " -> " + fixed(after.sm_mhz, 0));
  if (moved(before.memory_mhz, after.memory_mhz))
    clocks.push_back("memory " + fixed(before.memory_mhz, 0) + " -> " + fixed(after.memory_mhz, 0));
  if (!clocks.empty())
    return "clocks moved: " + joined(clocks) + " MHz" + (why.empty() ? "" : " (" + why + ")");
  if (why.empty()) return "";
  return "clocks were held down (" + why + "): SM " + fixed(after.sm_mhz, 0) + " MHz";
}

std::vector<Record> state_records(const std::string& experiment, const GpuState& before,
                                  const GpuState& after) {
  std::vector<Record> records;
  const auto add = [&](const char* metric, const char* unit, double GpuState::*member) {
    records.push_back(
        number_record("device", std::string(metric) + " before", unit, before.*member));
    records.push_back(number_record("device", std::string(metric) + " after", unit, after.*member));
  };
  add("SM clock", "MHz", &GpuState::sm_mhz);
  add("memory clock", "MHz", &GpuState::memory_mhz);
  add("power", "W", &GpuState::watts);
  add("temperature", "C", &GpuState::celsius);
  records.erase(std::remove_if(records.begin(), records.end(),
                               [](const Record& r) { return !std::isfinite(r.value); }),
                records.end());
  const std::string why = throttling_text(before, after);
  if (!records.empty())
    records.push_back(text_record("device", "throttling", why.empty() ? "none" : why));
  for (Record& record : records) record.experiment = experiment;
  return records;
}

// ---- NVML ----

/// The functions of NVML by their names. NVML never changes a function: a new form has a new name
/// (nvmlInit_v2). One that the driver lacks has told nothing. The arguments have the types that
/// nvml.h gives them, where enumerations are as large as int.
class MachineWatch::Nvml {
 public:
  static constexpr const char* file = "libnvidia-ml.so.1";

  /// Null where there is no NVML, or it does not know this device.
  static std::unique_ptr<Nvml> open(const Device& device) {
    // not by its number: CUDA_VISIBLE_DEVICES numbers for CUDA alone
    char bus[32] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, device.number) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
    std::unique_ptr<Nvml> nvml(new Nvml(library));
    if (nvml->call("nvmlInit_v2") && nvml->call("nvmlDeviceGetHandleByPciBusId_v2",
                                                static_cast<const char*>(bus), &nvml->device_))
      return nvml;
    return nullptr;
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    call("nvmlShutdown");
    dlclose(library_);
  }

  std::vector<Record> records() const {
    std::vector<Record> all;
    char driver[96] = "";
    if (call("nvmlSystemGetDriverVersion", driver, unsigned(sizeof driver)))
      all.push_back(text_record("device", "driver build", driver));
    int on = 0, later = 0;
    if (call("nvmlDeviceGetEccMode", device_, &on, &later))
      all.push_back(text_record("device", "ECC", on ? "on" : "off"));
    unsigned mig = 0, mig_later = 0;
    if (call("nvmlDeviceGetMigMode", device_, &mig, &mig_later))
      all.push_back(text_record("device", "MIG", mig ? "on" : "off"));
    if (call("nvmlDeviceGetPersistenceMode", device_, &on))
      all.push_back(text_record("device", "persistence mode", on ? "on" : "off"));
    const char* const modes[] = {"none", "pass-through", "vGPU", "host of vGPUs", "host of vSGAs"};
    int mode = 0;
    if (call("nvmlDeviceGetVirtualizationMode", device_, &mode) && mode >= 0 &&
        mode < int(std::size(modes)))
      all.push_back(text_record("device", "virtualization", modes[mode]));
    return all;
  }

  GpuState read() const {
    constexpr int sm_clock = 1, memory_clock = 2, of_the_gpu = 0, by_power = 0, by_warmth = 1;
    GpuState state;
    unsigned number = 0;
    // clocks and reasons first: they follow at once what runs, power and temperature slowly
    if (call("nvmlDeviceGetClockInfo", device_, sm_clock, &number)) state.sm_mhz = number;
    if (call("nvmlDeviceGetClockInfo", device_, memory_clock, &number)) state.memory_mhz = number;
    if (!call("nvmlDeviceGetCurrentClocksEventReasons", device_, &state.reasons) &&
        !call("nvmlDeviceGetCurrentClocksThrottleReasons", device_, &state.reasons))
      state.reasons = 0;
    if (call("nvmlDeviceGetPowerUsage", device_, &number)) state.watts = number * 1e-3;
    if (call("nvmlDeviceGetTemperature", device_, of_the_gpu, &number)) state.celsius = number;
    struct {
      unsigned long long read_at_us, held_ns;  // nvmlViolationTime_t
    } held{};
    if (call("nvmlDeviceGetViolationStatus", device_, by_power, &held))
      state.power_capped_s = double(held.held_ns) * 1e-9;
    if (call("nvmlDeviceGetViolationStatus", device_, by_warmth, &held))
      state.too_warm_s = double(held.held_ns) * 1e-9;
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    state.now_s = now.count();
    return state;
  }

 private:
  explicit Nvml(void* library) : library_(library) {}

  /// Whether the function exists, and succeeds.
  template <class... Arguments>
  bool call(const char* function, Arguments... arguments) const {
    void* const found = dlsym(library_, function);
    return found && reinterpret_cast<int (*)(Arguments...)>(found)(arguments...) == 0;
  }

  void* library_;
  void* device_ = nullptr;
};

// ---- reading ----

namespace {

/// Work for the GPU while it is read: copies within its memory. An idle GPU lowers its clocks, and
/// how far it has come is a matter of the host's last pause, not of the experiment; so each reading
/// is taken while the same copies run, before the first experiment and after each one. What these
/// cannot show, a clock that was low only while an experiment ran, the driver's own count of the
/// time for which it held the clocks down does.
class Copies {
 public:
  /// Without memory for it the GPU is read as it is.
  Copies() {
    if (cudaMalloc(&memory_, 2 * bytes) == cudaSuccess) {
      CUDA_CHECK(cudaMemset(memory_, 0, 2 * bytes));
      return;
    }
    cudaGetLastError();
    memory_ = nullptr;
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() {
    if (!memory_) return;
    cudaDeviceSynchronize();
    cudaFree(memory_);
  }

  /// Copies for so long, and leaves the GPU with copies still to be done for about 10 ms.
  void run_for(double ms) const {
    if (!memory_) return;
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    constexpr int batch = 16;
    const Clock::time_point begin = Clock::now();
    double batch_ms = ms;
    do {
      const Clock::time_point of_batch = Clock::now();
      enqueue(batch);
      CUDA_CHECK(cudaDeviceSynchronize());
      batch_ms = since(of_batch);
    } while (since(begin) < ms);
    // fewer than the driver queues, which would wait
    enqueue(int(std::clamp(10 / batch_ms * batch, 1.0, 500.0)));
  }

 private:
  static constexpr size_t bytes = size_t(32) << 20;

  void enqueue(int copies) const {
    for (int k = 0; k < copies; ++k)
      CUDA_CHECK(cudaMemcpyAsync(memory_, static_cast<char*>(memory_) + bytes, bytes,
                                 cudaMemcpyDeviceToDevice));
  }

  void* memory_ = nullptr;
};

}  // namespace

MachineWatch::MachineWatch(Report& report, const Device* device) : report_(report) {
  for (Record& record : host_records()) report_.save(std::move(record));
  if (!device) return;
  for (Record& record : property_records(*device)) report_.save(std::move(record));
  report_.save(text_record("host", "NUMA node of the GPU", node_of(*device)));
  report_.print("host: cores " + std::to_string(host_cores()) + ", NUMA nodes " + host_nodes() +
                "; the GPU's NUMA node: " + node_of(*device));
  nvml_ = Nvml::open(*device);
  if (!nvml_) {
    report_.print(std::string("clocks, power and temperature are not read: ") + Nvml::file +
                  " is missing, or does not know this GPU");
    return;
  }
  std::string line;
  for (Record& record : nvml_->records()) {
    if (record.metric == "driver build") line += ", driver " + record.at;
    if (record.metric == "ECC") line += ", ECC " + record.at;
    report_.save(std::move(record));
  }
  {
    const Copies copies;
    copies.run_for(warming_ms);
    before_ = nvml_->read();
  }
  report_.print("SM clock " + fixed(before_.sm_mhz, 0) + " MHz, memory clock " +
                fixed(before_.memory_mhz, 0) + " MHz" + line);
}

MachineWatch::~MachineWatch() = default;

void MachineWatch::after(const std::string& experiment) {
  if (!nvml_) return;
  GpuState now;
  {
    const Copies copies;
    copies.run_for(10);
    now = nvml_->read();
  }
  for (Record& record : state_records(experiment, before_, now)) report_.save(std::move(record));
  const std::string moved = clocks_text(before_, now);
  if (!moved.empty()) report_.note(moved);
  before_ = now;
}
