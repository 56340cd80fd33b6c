#include "your_turn_gpu.hpp"

#include <cuda.h>

#include <algorithm>
#include <chrono>

#include "judging.hpp"

namespace your_turn {

namespace {

constexpr unsigned char pattern = 0xa5;

size_t up_to(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

// ---- the driver's calls that map memory; the runtime finds them, nothing more is linked ----

template <class Call>
bool find(Call& call, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
  cudaGetLastError();  // without them there is another way
  call = reinterpret_cast<Call>(found);
  return error == cudaSuccess && status == cudaDriverEntryPointSuccess && found;
}

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  bool complete = false;

  Driver() {
    complete = find(granularity, "cuMemGetAllocationGranularity") &&
               find(reserve, "cuMemAddressReserve") && find(free, "cuMemAddressFree") &&
               find(create, "cuMemCreate") && find(release, "cuMemRelease") &&
               find(map, "cuMemMap") && find(unmap, "cuMemUnmap") &&
               find(set_access, "cuMemSetAccess");
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

// ---- what went wrong, in the reader's words ----

std::string named(cudaError_t error) { return std::string(" (") + cudaGetErrorName(error) + ")"; }

std::string of_kernel(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
      return "the kernel reads or writes out of bounds" + named(error);
    case cudaErrorMisalignedAddress:
      return "the kernel takes a word at an address that is no multiple of its size" + named(error);
    case cudaErrorLaunchTimeout:
      return "the kernel does not end" + named(error);
    default:
      return std::string("the kernel fails: ") + cudaGetErrorString(error) + named(error);
  }
}

double once_ms(const Function<void()>& work, bool on_host) {
  work();  // loads the code
  using Clock = std::chrono::steady_clock;
  Event first, last;
  const Clock::time_point start = Clock::now();
  first.record();
  work();
  last.record();
  last.wait();
  CUDA_CHECK_LAUNCH();
  const std::chrono::duration<double, std::milli> ms = Clock::now() - start;
  return on_host ? ms.count() : last.ms_since(first);
}

/// So much more needs no statistics, which would take long.
constexpr double far_off = 50;

}  // namespace

void require_gpu() {
  const std::string reason = no_gpu_reason();
  if (!reason.empty()) throw Skipped("it needs a GPU (" + reason + ")");
  CUDA_CHECK(cudaFree(nullptr));  // starts the GPU, which may take seconds
}

Guarded::Guarded(size_t words) : size_(words) {
  const size_t bytes = up_to(std::max<size_t>(words, 1) * sizeof(unsigned), 16);
  if (!map(bytes, 1)) {
    before_ = 4096;
    bytes_ = before_ + bytes + 4096;
    begin_ = static_cast<unsigned char*>(device_memory::allocate(bytes_));
  }
  data_ = reinterpret_cast<unsigned*>(begin_ + before_);
  device_memory::set(begin_, pattern, bytes_);
}

Guarded::Guarded(const std::vector<unsigned>& host) : Guarded(host.size()) {
  if (!host.empty()) device_memory::to_device(data_, host.data(), host.size() * sizeof(unsigned));
}

Guarded::Guarded(const std::vector<unsigned>& host, size_t times) {
  if (!map(host.size() * sizeof(unsigned), times)) return;
  data_ = reinterpret_cast<unsigned*>(begin_);
  size_ = host.size() * times;
  device_memory::to_device(data_, host.data(), host.size() * sizeof(unsigned));
}

bool Guarded::map(size_t bytes, size_t times) {
  const Driver& d = driver();
  if (!d.complete) return false;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = device;
  size_t piece = 0;
  if (d.granularity(&piece, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
    return false;
  const size_t mapped = up_to(bytes, piece);
  if (times > 1 && mapped != bytes) return false;
  const size_t all = times * mapped;
  const size_t reserved = all + 2 * piece;  // a piece before it and one behind stay empty
  CUdeviceptr start = 0;
  if (d.reserve(&start, reserved, piece, 0, 0) != CUDA_SUCCESS) return false;
  CUmemGenericAllocationHandle handle = 0;
  if (d.create(&handle, mapped, &wanted, 0) != CUDA_SUCCESS) {
    d.free(start, reserved);
    return false;
  }
  CUmemAccessDesc access{};
  access.location = wanted.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  size_t done = 0;
  while (done < all && d.map(start + piece + done, mapped, 0, handle, 0) == CUDA_SUCCESS)
    done += mapped;
  if (done < all || d.set_access(start + piece, all, &access, 1) != CUDA_SUCCESS) {
    if (done > 0) d.unmap(start + piece, done);
    d.release(handle);
    d.free(start, reserved);
    return false;
  }
  reserved_ = start;
  reserved_bytes_ = reserved;
  handle_ = handle;
  begin_ = reinterpret_cast<unsigned char*>(start + piece);
  bytes_ = all;
  before_ = mapped - bytes;
  return true;
}

Guarded::~Guarded() {
  if (!reserved_) {
    device_memory::release(begin_);
    return;
  }
  const Driver& d = driver();
  cudaDeviceSynchronize();  // nothing may run on it any more
  d.unmap(reinterpret_cast<CUdeviceptr>(begin_), bytes_);
  d.release(handle_);
  d.free(reserved_, reserved_bytes_);
  cudaGetLastError();
}

void Guarded::fill(unsigned char byte) const {
  if (size_ > 0) device_memory::set(data_, byte, size_ * sizeof(unsigned));
}

std::vector<unsigned> Guarded::to_host() const {
  std::vector<unsigned> host(size_);
  if (size_ > 0) device_memory::to_host(host.data(), data_, size_ * sizeof(unsigned));
  return host;
}

void Guarded::require_untouched_around(const std::string& what) const {
  constexpr size_t most = 4096;
  const size_t words = size_ * sizeof(unsigned);
  const size_t before = std::min(before_, most), behind = std::min(bytes_ - before_ - words, most);
  std::vector<unsigned char> bytes(before + behind);
  if (before > 0) device_memory::to_host(bytes.data(), begin_ + before_ - before, before);
  if (behind > 0) device_memory::to_host(bytes.data() + before, begin_ + before_ + words, behind);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern)
      throw NotYet(what + ": the kernel writes out of bounds, " +
                   (i < before ? "before" : "behind") + " its output");
}

void run_kernel(const std::string& what, const Function<void()>& launch, const char* refused) {
  watch(what);
  launch();
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw NotYet(what + ": " + refused + ": " + cudaGetErrorString(error) + named(error));
  error = cudaDeviceSynchronize();
  cudaGetLastError();
  if (error != cudaSuccess) throw NotYet(what + ": " + of_kernel(error));
}

void require_near(const std::string& what, const Function<void()>& yours,
                  const Function<void()>& solution, const Check& check, bool on_host,
                  double enough) {
  try {
    const double once = once_ms(yours, on_host) / once_ms(solution, on_host);
    check.poison();
    yours();
    CUDA_CHECK_LAUNCH();
    const size_t wrong = check.wrong();
    if (wrong > 0) throw NotYet(what + ": " + std::to_string(wrong) + " words are wrong");
    if (once > far_off)
      throw Dear("about " + std::to_string(std::lround(once)) + "x slower than the solution");
    const std::vector<Readings> times = time_in_turn(
        Measuring{},
        {{"yours", yours, check, on_host}, {"the solution", solution, check, on_host}});
    require_near(times[0], times[1], enough);
  } catch (const CudaError& e) {
    throw NotYet(what + ": " + of_kernel(e.code));
  }
}

void require_near(const Readings& yours, const Readings& solution, double enough) {
  const Interval r = ratio(yours, solution);
  if (!r.measured()) throw Skipped("too few times to compare: " + r.why_not);
  if (r.low > enough) throw Dear(slower(r) + " than the solution");
}

}  // namespace your_turn
