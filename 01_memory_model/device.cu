// device: how large each memory of a GPU is. The text tabulates two GPUs of its time, P100 and V100; this prints the
// same figures for the GPU in the machine beside them, and what the text leaves out: clocks, bandwidth, what one block
// may use. Look at what grew (L2, device memory), at what has not changed since (registers, constant memory), and at
// the last column: the constant cache and the L1 are reported by no call, so they come from a table by compute
// capability.
#include <doctest/doctest.h>

#include <iterator>

#include "../common/first_edition.hpp"

namespace {

// Each warp writes 32 neighbouring bytes of shared memory, and reads 32 neighbouring bytes that others have written.
// The self-check fills all that a block may have with it, to the last byte.
__host__ __device__ unsigned char pattern(unsigned i) { return static_cast<unsigned char>(i * 37 + 11); }
__host__ __device__ unsigned other_byte(unsigned i, unsigned bytes) { return bytes - 1 - i; }

__global__ void fill_shared(unsigned* wrong, unsigned bytes) {
  extern __shared__ unsigned char room[];
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) room[i] = pattern(i);
  __syncthreads();
  unsigned differing = 0;
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) {
    const unsigned other = other_byte(i, bytes);
    differing += room[other] != pattern(other);
  }
  atomicAdd(wrong, differing);
}

/// What NVIDIA documents and no call reports, for a compute capability (75 is 7.5), in KiB for one multiprocessor.
/// `shared` is the largest amount of shared memory; the runtime reports that too, so it tells whether a line is right.
struct Documented {
  int capability;
  double constant_cache, data_cache;  ///< the data cache serves as L1, read-only and texture cache
  bool holds_shared;                  ///< shared memory is cut out of the data cache
  double shared;
};

// CUDA Programming Guide, appendix "Compute Capabilities": for 7.5 and later the tables "Memory Information" and
// "Shared Memory Capacity"; for 5.x to 7.2 the sections on these architectures, and the table "Technical
// Specifications", of the editions for CUDA 11 and 12. What they do not list is not here, and shown as "-".
constexpr Documented guide[] = {
    {50, 8, 24, false, 64},   {52, 8, 24, false, 96},   {53, 8, 24, false, 64},   {60, 4, 24, false, 64},
    {61, 8, 48, false, 96},   {62, 8, 24, false, 64},   {70, 8, 128, true, 96},   {72, 8, 128, true, 96},
    {75, 8, 96, true, 64},    {80, 8, 192, true, 164},  {86, 8, 128, true, 100},  {87, 8, 192, true, 164},
    {89, 8, 128, true, 100},  {90, 8, 256, true, 228},  {100, 8, 256, true, 228}, {101, 8, 256, true, 228},
    {103, 8, 256, true, 228}, {110, 8, 256, true, 228}, {120, 8, 128, true, 100}, {121, 8, 128, true, 100},
};

/// The guide's line for a compute capability, or null.
const Documented* documented(int major, int minor) {
  for (const Documented& line : guide)
    if (line.capability == 10 * major + minor) return &line;
  return nullptr;
}

constexpr double KiB = 1024, GiB = 1024.0 * 1024 * 1024;

/// A row of the table. NaN is what the text does not give, or what is not known here.
struct Figure {
  const char *name, *unit;
  double p100, v100, here;
  const char* source;       ///< where `here` is from: property, attribute, computed (from those), or guide
  bool v100_up_to = false;  ///< the text says "up to"
  int decimals = 0;
};

/// Every row. Without a device only the text's columns hold numbers.
std::vector<Figure> figures(const Device* device) {
  const cudaDeviceProp p = device ? device->prop : cudaDeviceProp{};
  const Documented* known = device ? documented(p.major, p.minor) : nullptr;
  const auto here = [&](double value) { return device ? value : NAN; };
  const auto reported = [&](double value) { return device && value > 0 ? value : NAN; };  // 0 stands for "not reported"
  return {
      {"compute capability", "", NAN, NAN, here(p.major + 0.1 * p.minor), "property", false, 1},
      {"multiprocessors", "", NAN, NAN, here(p.multiProcessorCount), "property"},
      {"register file, a multiprocessor", "KiB", 256, 256, here(4 * p.regsPerMultiprocessor / KiB), "property"},
      {"shared memory, a multiprocessor", "KiB", 64, 96, here(p.sharedMemPerMultiprocessor / KiB), "property", true},
      {"shared memory, a block", "KiB", NAN, NAN, here(p.sharedMemPerBlock / KiB), "property"},
      {"shared memory, a block that opts in", "KiB", NAN, NAN, here(p.sharedMemPerBlockOptin / KiB), "property"},
      {"shared memory, reserved of each block", "KiB", NAN, NAN, here(p.reservedSharedMemPerBlock / KiB), "property"},
      {"constant memory", "KiB", 64, 64, here(p.totalConstMem / KiB), "property"},
      {"constant cache, a multiprocessor", "KiB", 8, 8, known ? known->constant_cache : NAN, "guide"},
      {"L1 and read-only cache, a multiprocessor", "KiB", 24, 128, known ? known->data_cache : NAN, "guide", true},
      {"L2 cache", "KiB", 4096, 6144, here(p.l2CacheSize / KiB), "property"},
      {"L2 cache that can be set aside", "KiB", NAN, NAN, here(p.persistingL2CacheMaxSize / KiB), "property"},
      {"device memory", "GiB", 16, 16, here(p.totalGlobalMem / GiB), "property", false, 1},
      {"memory interface", "bits", 4096, 4096, here(p.memoryBusWidth), "property"},
      {"memory clock", "MHz", NAN, NAN, reported(device ? device->memory_clock_khz * 1e-3 : 0), "attribute"},
      {"multiprocessor clock", "MHz", NAN, NAN, reported(device ? device->sm_clock_khz * 1e-3 : 0), "attribute"},
      {"memory bandwidth in theory", "GB/s", NAN, NAN, reported(device ? device->theoretical_gbs : 0), "computed"},
  };
}

/// How the CSV names where a figure for this GPU comes from: what the guide says was not read from the device.
std::string kind_of(const Figure& f) { return std::string(f.source) == "guide" ? "predicted" : "counted"; }

}  // namespace

void device(const Run& run) {
  run.report.begin(
      "device", "the size of every memory (1 KiB = 1024 bytes, which the text calls KB; 1 GB/s = 1e9 bytes a second)");
  std::vector<Column> columns{shown("unit"), shown("P100"), shown("V100")};
  if (run.device) columns.insert(columns.end(), {shown("this GPU"), shown("from")});
  Table table(run.report, "memory", columns);
  for (const Figure& f : figures(run.device)) {
    if (!run.device && !std::isfinite(f.p100)) continue;
    const std::string up_to = f.v100_up_to ? "up to " : "";
    std::vector<Cell> cells{f.unit, fixed(f.p100, 0), (std::isfinite(f.v100) ? up_to : "") + fixed(f.v100, 0)};
    if (run.device) cells.insert(cells.end(), {fixed(f.here, f.decimals), std::isfinite(f.here) ? f.source : "-"});
    table.row({f.name}, cells);
    // saved here, and not by the columns, since every row has a unit of its own
    const auto save = [&](const std::string& kind, const std::string& gpu, double value) {
      if (std::isfinite(value)) run.report.save({"", f.name, "", "", kind, gpu, f.unit, value});
    };
    save("then", "P100", f.p100);
    save("then", "V100", f.v100);
    save(kind_of(f), "this GPU", f.here);
  }
  table.print();
  run.report.note("The text's GPUs have HBM2. P100's shared memory and L1 are separate; V100 cuts both from 128 KiB.");
  if (!run.device) return run.report.left_out("the column of this GPU; its figures are read from the device");

  const Documented* known = documented(run.device->prop.major, run.device->prop.minor);
  run.report.note("guide: no call reports it; the CUDA Programming Guide's table for compute capability " +
                  run.device->capability() + (known ? " does." : " was not known when this was written."));
  if (known && known->holds_shared) run.report.note("Here too L1 is what shared memory leaves of the size shown.");
  if (run.device->theoretical_gbs > 0)
    run.report.note(
        "The bandwidth is 2 transfers a clock x memory clock x interface; 04_bandwidth measures what is reached.");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("device: the guide has the two GPUs of the text as the text has them") {
  const Documented *pascal = documented(6, 0), *volta = documented(7, 0);
  REQUIRE(pascal);
  REQUIRE(volta);
  for (const Figure& f : figures(nullptr)) {
    CAPTURE(f.name);
    CHECK(std::isnan(f.here));  // no figure of a GPU that is not there
    if (std::string(f.name) == "L1 and read-only cache, a multiprocessor") {
      CHECK(f.p100 == pascal->data_cache);
      CHECK(f.v100 == volta->data_cache);
    }
    if (std::string(f.name) == "shared memory, a multiprocessor") {
      CHECK(f.p100 == pascal->shared);
      CHECK(f.v100 == volta->shared);
    }
  }
  CHECK_FALSE(pascal->holds_shared);
  CHECK(volta->holds_shared);
}

TEST_CASE("device: the guide is in order and each line is possible") {
  for (size_t i = 0; i < std::size(guide); ++i) {
    CAPTURE(guide[i].capability);
    if (i > 0) CHECK(guide[i - 1].capability < guide[i].capability);
    CHECK(documented(guide[i].capability / 10, guide[i].capability % 10) == &guide[i]);
    CHECK(guide[i].holds_shared == (guide[i].capability >= 70));
    if (guide[i].holds_shared) CHECK(guide[i].shared < guide[i].data_cache);  // some L1 is always left
  }
  CHECK(documented(3, 5) == nullptr);
  CHECK(documented(99, 0) == nullptr);
}

TEST_CASE("device: the guide agrees with the device where both know") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const Documented* known = documented(device.prop.major, device.prop.minor);
  if (!known) return skip_self_check("the guide's table has no compute capability " + device.capability());
  CHECK(known->shared * KiB == double(device.prop.sharedMemPerMultiprocessor));
}

TEST_CASE("device: a block gets the shared memory that is reported and no more") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp p = Device::current().prop;
  const unsigned plain = unsigned(p.sharedMemPerBlock), most = unsigned(p.sharedMemPerBlockOptin);
  CHECK(most + p.reservedSharedMemPerBlock <= p.sharedMemPerMultiprocessor);
  DeviceBuffer<unsigned> wrong(1);
  const auto launch = [&](unsigned bytes) {
    CUDA_CHECK(cudaMemset(wrong.data(), 0, wrong.bytes()));
    fill_shared<<<1, 192, bytes>>>(wrong.data(), bytes);
    return cudaGetLastError();
  };
  for (unsigned bytes : {1u, 31u, 1009u, plain - 1, plain}) {
    CAPTURE(bytes);
    CHECK(launch(bytes) == cudaSuccess);
    CHECK(wrong.to_host()[0] == 0);
  }
  CHECK(launch(plain + 1) == cudaErrorInvalidValue);  // wrong on purpose: the kernel has not opted in
  CHECK(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most)) == cudaSuccess);
  CHECK(launch(most) == cudaSuccess);
  CHECK(wrong.to_host()[0] == 0);
  CHECK(launch(most + 1) == cudaErrorInvalidValue);  // wrong on purpose: more than there is
  CHECK(cudaGetLastError() == cudaSuccess);
}
