// device: how large is each memory of a GPU? The lectures have a table of two GPUs of their time,
// P100 and V100, and a loop that asks each GPU what it is [PR: cache and memory sizes, device
// query]. Here are the same figures of the GPU in the machine.
//
// Look at what grew: L2, device memory. Then at what has not: registers, constant memory. No call
// reports the constant cache and L1: they come from a table by compute capability.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o device device.cu ../common/*.cpp
#include "../common/sample.hpp"

namespace {

constexpr double kib = 1024, gib = 1024.0 * 1024 * 1024;  // of a real number

std::string capability(const cudaDeviceProp& p) {
  return std::to_string(p.major) + "." + std::to_string(p.minor);
}

// ---- the lectures' loop ----

// The lectures select a device before they ask for its properties. No question needs that, and
// afterwards the last device would be selected.
Table all_devices() {
  Table table("device", {"name", "capability", "SMs", "L2 KiB", "memory GiB"});
  int deviceCount = 0;
  CUDA_CHECK(cudaGetDeviceCount(&deviceCount));
  for (int dev = 0; dev < deviceCount; ++dev) {
    cudaDeviceProp deviceProp;
    CUDA_CHECK(cudaGetDeviceProperties(&deviceProp, dev));
    table.row(std::to_string(dev),
              {deviceProp.name, capability(deviceProp), deviceProp.multiProcessorCount,
               deviceProp.l2CacheSize / kib, double(deviceProp.totalGlobalMem) / gib});
  }
  return table;
}

// ---- what no call reports ----

/// What NVIDIA documents for a compute capability (75 is 7.5), in KiB per multiprocessor. The
/// runtime reports `shared` too: so a test tells whether a line is right.
struct Documented {
  int capability;
  double constant_cache, data_cache;  ///< the data cache serves as L1, read-only, texture cache
  bool holds_shared;                  ///< shared memory is cut out of the data cache
  double shared;                      ///< the most of it
};

// CUDA Programming Guide, appendix "Compute Capabilities": for 7.5 and later its tables of memory
// and of shared memory; for 5.x to 7.2 the editions for CUDA 11 and 12.
constexpr Documented guide[] = {
    {50, 8, 24, false, 64},   {52, 8, 24, false, 96},   {53, 8, 24, false, 64},
    {60, 4, 24, false, 64},   {61, 8, 48, false, 96},   {62, 8, 24, false, 64},
    {70, 8, 128, true, 96},   {72, 8, 128, true, 96},   {75, 8, 96, true, 64},
    {80, 8, 192, true, 164},  {86, 8, 128, true, 100},  {87, 8, 192, true, 164},
    {89, 8, 128, true, 100},  {90, 8, 256, true, 228},  {100, 8, 256, true, 228},
    {101, 8, 256, true, 228}, {103, 8, 256, true, 228}, {110, 8, 256, true, 228},
    {120, 8, 128, true, 100}, {121, 8, 128, true, 100},
};

const Documented* documented(const cudaDeviceProp& p) {
  for (const Documented& line : guide)
    if (line.capability == 10 * p.major + p.minor) return &line;
  return nullptr;
}

/// Parameters of a kernel lie in constant memory, in a bank of their own. Until CUDA 12.1 they could
/// take 4 KiB.
int parameter_bytes(const cudaDeviceProp& p) {
  return p.major >= 7 && CUDART_VERSION >= 12010 ? 32764 : 4096;
}

}  // namespace

void device(Run& run) {
  const cudaDeviceProp& p = run.gpu;
  const Documented* known = documented(p);
  run.title("the size of every memory; KiB is 1024 bytes, which the lectures call KB");

  Table table("memory", {"P100", "V100", "this GPU", "from"});
  table.row("compute capability", {"6.0", "7.0", capability(p), "property"});
  table.row("multiprocessors (SMs)", {"", "", p.multiProcessorCount, "property"});
  table.row("threads per SM", {"", "", p.maxThreadsPerMultiProcessor, "property"});
  table.row("  in warps", {"", "", p.maxThreadsPerMultiProcessor / p.warpSize, "property"});
  table.row("blocks per SM", {"", "", p.maxBlocksPerMultiProcessor, "property"});
  table.row("register file, KiB per SM", {256, 256, 4 * p.regsPerMultiprocessor / kib, "property"});
  table.row("shared memory, KiB per SM",
            {64, "up to 96", p.sharedMemPerMultiprocessor / kib, "property"});
  table.row("  per block", {"", "", p.sharedMemPerBlock / kib, "property"});
  table.row("  per block that opts in", {"", "", p.sharedMemPerBlockOptin / kib, "property"});
  table.row("constant memory, KiB", {64, 64, p.totalConstMem / kib, "property"});
  table.row("  kernel parameters, bytes", {"", "", parameter_bytes(p), "guide"});
  table.row("constant cache, KiB per SM",
            {8, 8, known ? Cell(known->constant_cache) : Cell("-"), "guide"});
  table.row("L1 and read-only, KiB per SM",
            {24, "up to 128", known ? Cell(known->data_cache) : Cell("-"), "guide"});
  table.row("L2, KiB", {4096, 6144, p.l2CacheSize / kib, "property"});
  table.row("  that can be set aside", {"", "", p.persistingL2CacheMaxSize / kib, "property"});
  table.row("device memory, GiB", {16, 16, double(p.totalGlobalMem) / gib, "property"});
  table.row("memory interface, bits", {4096, 4096, p.memoryBusWidth, "property"});
  const double memory_MHz = device_attribute(cudaDevAttrMemoryClockRate) * 1e-3;
  table.row("memory clock, MHz", {"", "", memory_MHz, "attribute"});
  table.row("SM clock, MHz", {"", "", device_attribute(cudaDevAttrClockRate) * 1e-3, "attribute"});
  table.row("memory rate in theory, GB/s",
            {"", "", 2 * memory_MHz * 1e-3 * p.memoryBusWidth / 8, "computed"});
  run.print(table);
  run.note(known ? "guide: no call reports it; it is the CUDA Programming Guide's figure"
                 : "guide: this compute capability was not known when the table was written");
  if (known && known->holds_shared)
    run.note("shared memory is cut out of the cache that L1 has: L1 is what it leaves");
  run.note("in theory: 2 transfers per clock x memory clock x interface");

  run.print(all_devices());
}
SAMPLE(1, device, "what this GPU has, beside the lectures' two GPUs");

TEST_CASE("device: the guide's table agrees with what the runtime reports") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp p = current_gpu();
  const Documented* known = documented(p);
  if (!known) return skip("this compute capability is not in the table");
  CHECK(known->shared * kib == double(p.sharedMemPerMultiprocessor));
  if (known->holds_shared) CHECK(known->shared < known->data_cache);
}
