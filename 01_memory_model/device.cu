// device: how large each memory of a GPU is. The lecture has a table of two GPUs of its time, P100
// and V100, and a loop over all devices that asks each what it is [PR]. This prints the same
// figures for the GPU in the machine, and the loop's answers. Three things to look at:
//   - What grew: L2, device memory.
//   - What has not: registers, constant memory.
//   - The last column. No call reports the constant cache and L1: they come from a table by compute
//     capability.
//
//   cmake -S 01_memory_model -B build/device -DEXPERIMENTS=device
//   cmake --build build/device && build/device/01_memory_model
#include <unistd.h>

#include <iterator>

#include "../framework/common/experiment.hpp"
#include "device_rates.hpp"

using namespace samples;

namespace {

// ---- the text's loop ----

// [all_devices]
/// What each device in the machine is. The text's loop selects a device before it asks; no question
/// needs that, and afterwards the last device would be the selected one.
std::vector<cudaDeviceProp> all_devices() {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  std::vector<cudaDeviceProp> all(count);
  for (int number = 0; number < count; ++number)
    CUDA_CHECK(cudaGetDeviceProperties(&all[number], number));
  return all;
}
// [/all_devices]

// ---- what no call reports ----

/// What NVIDIA documents for a compute capability (75 is 7.5), in KiB for one multiprocessor. The
/// runtime reports `shared` too, so that one tells whether a line is right.
struct Documented {
  int capability;
  double constant_cache, data_cache;  ///< the data cache serves as L1, read-only, texture cache
  bool holds_shared;                  ///< shared memory is cut out of the data cache
  double shared;                      ///< the largest amount of shared memory
};

// CUDA Programming Guide, appendix "Compute Capabilities": for 7.5 and later the tables "Memory
// Information" and "Shared Memory Capacity"; for 5.x to 7.2 the sections on these architectures,
// and the table "Technical Specifications", of the editions for CUDA 11 and 12. What they do not
// list is not here, and shown as "-".
constexpr Documented guide[] = {
    {50, 8, 24, false, 64},   {52, 8, 24, false, 96},   {53, 8, 24, false, 64},
    {60, 4, 24, false, 64},   {61, 8, 48, false, 96},   {62, 8, 24, false, 64},
    {70, 8, 128, true, 96},   {72, 8, 128, true, 96},   {75, 8, 96, true, 64},
    {80, 8, 192, true, 164},  {86, 8, 128, true, 100},  {87, 8, 192, true, 164},
    {89, 8, 128, true, 100},  {90, 8, 256, true, 228},  {100, 8, 256, true, 228},
    {101, 8, 256, true, 228}, {103, 8, 256, true, 228}, {110, 8, 256, true, 228},
    {120, 8, 128, true, 100}, {121, 8, 128, true, 100},
};

/// The guide's line for a compute capability, or null.
const Documented* documented(int major, int minor) {
  for (const Documented& line : guide)
    if (line.capability == 10 * major + minor) return &line;
  return nullptr;
}

// ---- the story in order ----

constexpr double KiB = 1024, GiB = 1024.0 * 1024 * 1024;

/// Not a number where 0 stands for "not reported".
double reported(double value) { return value > 0 ? value : NAN; }

double host_bytes() { return double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE)); }

/// A row of the table. Not a number: what the text does not give, or what is not known here.
struct Figure {
  const char *key, *name, *unit;
  double p100, v100, here;
  const char* source;       ///< of `here`: property, attribute, computed (from those), guide, host
  bool v100_up_to = false;  ///< the text says "up to"
  int decimals = 0;
};

/// The text's own rows, and those of multiprocessors beside them.
std::vector<Figure> figures_of_multiprocessor(const cudaDeviceProp& p, const Documented* known) {
  return {
      {"compute_capability", "compute capability", "", NAN, NAN, p.major + 0.1 * p.minor,
       "property", false, 1},
      {"multiprocessors", "multiprocessors", "", NAN, NAN, double(p.multiProcessorCount),
       "property"},
      {"threads_per_multiprocessor", "threads, per multiprocessor", "", NAN, NAN,
       double(p.maxThreadsPerMultiProcessor), "property"},
      {"registers_per_multiprocessor", "register file, per multiprocessor", "KiB", 256, 256,
       4 * p.regsPerMultiprocessor / KiB, "property"},
      {"shared_per_multiprocessor", "shared memory, per multiprocessor", "KiB", 64, 96,
       p.sharedMemPerMultiprocessor / KiB, "property", true},
      {"shared_per_block", "shared memory, per block", "KiB", NAN, NAN, p.sharedMemPerBlock / KiB,
       "property"},
      {"shared_per_block_opted_in", "shared memory, per block that opts in", "KiB", NAN, NAN,
       p.sharedMemPerBlockOptin / KiB, "property"},
      {"shared_reserved_per_block", "shared memory, reserved of each block", "KiB", NAN, NAN,
       p.reservedSharedMemPerBlock / KiB, "property"},
      {"constant_memory", "constant memory", "KiB", 64, 64, p.totalConstMem / KiB, "property"},
      {"constant_cache_per_multiprocessor", "constant cache, per multiprocessor", "KiB", 8, 8,
       known ? known->constant_cache : NAN, "guide"},
      {"l1_per_multiprocessor", "L1 and read-only cache, per multiprocessor", "KiB", 24, 128,
       known ? known->data_cache : NAN, "guide", true},
  };
}

std::vector<Figure> figures_of_device(const Device& device) {
  const cudaDeviceProp& p = device.prop;
  return {
      {"l2", "L2 cache", "KiB", 4096, 6144, reported(p.l2CacheSize / KiB), "property"},
      {"l2_set_aside", "L2 cache that can be set aside", "KiB", NAN, NAN,
       p.persistingL2CacheMaxSize / KiB, "property"},
      {"device_memory", "device memory", "GiB", 16, 16, p.totalGlobalMem / GiB, "property", false,
       1},
      {"memory_interface", "memory interface", "bits", 4096, 4096, double(p.memoryBusWidth),
       "property"},
      {"memory_clock", "memory clock", "MHz", NAN, NAN, reported(device.memory_clock_khz * 1e-3),
       "attribute"},
      {"multiprocessor_clock", "multiprocessor clock", "MHz", NAN, NAN,
       reported(device.sm_clock_khz * 1e-3), "attribute"},
      {"theoretical_bandwidth", "memory bandwidth in theory", "GB/s", NAN, NAN,
       reported(device.theoretical_gbs), "computed"},
      {"host_memory", "host memory", "GiB", NAN, NAN, reported(host_bytes() / GiB), "host", false,
       1},
  };
}

/// Every row. Without a device only the text's columns hold numbers.
std::vector<Figure> figures(const Device* device) {
  const Device none;
  const Device& asked = device ? *device : none;
  const Documented* known = documented(asked.prop.major, asked.prop.minor);
  std::vector<Figure> all = figures_of_multiprocessor(asked.prop, known);
  for (const Figure& f : figures_of_device(asked)) all.push_back(f);
  if (!device)
    for (Figure& f : all) f.here = NAN;
  return all;
}

/// How the CSV names where a figure for this GPU comes from: what the guide says was not read from
/// the device.
std::string kind_of(const Figure& f) {
  return std::string(f.source) == "guide" ? "predicted" : "counted";
}

// ---- the experiment ----

const char* const this_gpu = "this GPU";

/// Saved here, and not by columns, since every row has a unit of its own.
void save(Report& report, const Figure& f) {
  const auto one = [&](const std::string& kind, const std::string& gpu, double value) {
    if (std::isfinite(value))
      report.save({"", f.key, "", "", kind, gpu, f.unit, value, NAN, NAN, 0, f.name});
  };
  one("then", "P100", f.p100);
  one("then", "V100", f.v100);
  one(kind_of(f), this_gpu, f.here);
}

void show_sizes(const Run& run) {
  std::vector<Column> columns{shown("unit"), shown("P100"), shown("V100")};
  if (run.device) columns.insert(columns.end(), {shown(this_gpu), shown("from")});
  Table table(run.report, "memory", columns);
  std::vector<Figure> all = figures(run.device);
  for (Figure& f : all) {
    if (!run.device && !std::isfinite(f.p100)) continue;
    if (kind_of(f) == "counted")  // of another GPU the file says it
      f.here = ask_for_table(run, f.key, this_gpu, f.unit, [&f] { return single(f.here); }).median;
    const std::string up_to = f.v100_up_to ? "up to " : "";
    const std::string v100 = std::isfinite(f.v100) ? up_to + fixed(f.v100, 0) : "-";
    std::vector<Cell> cells{f.unit, fixed(f.p100, 0), v100};
    const char* from = std::isfinite(f.here) ? f.source : "-";
    if (run.device) cells.insert(cells.end(), {fixed(f.here, f.decimals), from});
    table.row({f.key, "", "", f.name}, cells);
    save(run.report, f);
  }
  table.print();
  run.report.note("P100's shared memory and L1 are separate; V100 cuts both from 128 KiB");
}

/// What the text's loop prints: a line for each device.
void show_devices(const Run& run) {
  Once<std::vector<cudaDeviceProp>> all{all_devices};
  const double count =
      ask(run, "all_devices", "devices", "", [&] { return single(double(all().size())); }).median;
  Table table(
      run.report, "device",
      {shown("name"), counted("capability", "compute capability", "", 1),
       counted("multiprocessors", "multiprocessors", "", 0),
       counted("L2 KiB", "L2 cache", "KiB", 0), counted("memory GiB", "device memory", "GiB", 1)});
  for (size_t i = 0; i < (std::isnan(count) ? 1 : size_t(count)); ++i) {
    const Ref row("device_" + std::to_string(i));
    const auto of = [&](const char* metric, const char* unit,
                        const Function<double(const cudaDeviceProp&)>& which) {
      return ask_for_table(run, row, metric, unit, [&] { return single(which(all()[i])); }).median;
    };
    const bool here = run.device->number >= 0;
    table.row({row.key, "", "", "device " + std::to_string(i)},
              {here ? Cell(std::string(all()[i].name)) : Cell{},
               of("compute capability", "",
                  [](const cudaDeviceProp& p) { return p.major + 0.1 * p.minor; }),
               of("multiprocessors", "",
                  [](const cudaDeviceProp& p) { return double(p.multiProcessorCount); }),
               of("L2 cache", "KiB", [](const cudaDeviceProp& p) { return p.l2CacheSize / KiB; }),
               of("device memory", "GiB",
                  [](const cudaDeviceProp& p) { return double(p.totalGlobalMem) / GiB; })});
  }
  table.print();
}

void run_device(const Run& run) {
  run.report.begin("device",
                   "the size of every memory (1 KiB = 1024 bytes, which the text calls KB)");
  show_sizes(run);
  if (!run.device) {
    run.report.left_out("the column of this GPU, the loop over all devices");
    return run_rates(run);
  }
  const Documented* known = documented(run.device->prop.major, run.device->prop.minor);
  run.report.note(
      "guide: no call reports it; the CUDA Programming Guide's table for compute "
      "capability " +
      run.device->capability() + (known ? " does" : " was not known when this was written"));
  if (known && known->holds_shared)
    run.report.note("here too L1 is what shared memory leaves of the size shown");
  if (run.device->theoretical_gbs > 0)
    run.report.note(
        "the bandwidth is 2 transfers per clock x memory clock x interface, in 1e9 bytes "
        "per second");
  show_devices(run);
  run_rates(run);
}

}  // namespace

extern const Experiment device_experiment{
    .name = "device",
    .about = "the sizes of every memory, beside the text's P100 and V100",
    .run = run_device,
    .needs = rates_needs,
    .tasks = rates_tasks,
};
