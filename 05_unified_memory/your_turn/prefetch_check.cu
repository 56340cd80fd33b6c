// Checks prefetch.cu: the result, then the time of the kernel and of the host's reading, each
// beside the solution's. What faults takes many times as long.
#include <chrono>

#include "../../framework/common/judging.hpp"
#include "../../framework/common/your_turn_gpu.hpp"
#include "prefetch.hpp"

namespace {

/// The reader may ask for what is not there: that is an answer, not an error of the check.
void prefetch(const void* data, size_t bytes, bool to_host) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
#if CUDART_VERSION >= 13000
  const cudaMemLocation place{to_host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                              to_host ? 0 : device};
  const cudaError_t error = cudaMemPrefetchAsync(data, bytes, place, 0, nullptr);
#else
  const int place = to_host ? cudaCpuDeviceId : device;
  const cudaError_t error = cudaMemPrefetchAsync(data, bytes, place, nullptr);
#endif
  cudaGetLastError();
  if (error != cudaSuccess)
    throw your_turn::NotYet("a prefetch of " + std::to_string(bytes) +
                            " bytes is refused: " + cudaGetErrorString(error));
}

__global__ void add_one(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

/// Owns managed memory.
class Managed {
 public:
  explicit Managed(size_t n) { CUDA_CHECK(cudaMallocManaged(&data_, n * sizeof(unsigned))); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { cudaFree(data_); }
  unsigned* data() const { return data_; }

 private:
  unsigned* data_ = nullptr;
};

/// What one round took, in milliseconds.
struct Times {
  double kernel, host;
};

/// The host writes both arrays, so that all pages are there; then the kernel; then the host reads.
Times run(const std::string& what, const Prefetch& p, unsigned* out, unsigned* in, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    in[i] = your_turn::number_at(i);
    out[i] = 0;
  }
  your_turn::run_kernel(
      what, [&] { p.before_kernel(out, in, n); }, "a call is refused");
  Event first, last;
  first.record();
  add_one<<<unsigned((n + 255) / 256), 256>>>(out, in, n);
  last.record();
  last.wait();
  your_turn::run_kernel(
      what, [&] { p.after_kernel(out, in, n); }, "a call is refused");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  unsigned sum = 0, expected = 0;
  for (size_t i = 0; i < n; i += 1024) sum += out[i];  // a word of each page of 4 KiB
  const std::chrono::duration<double, std::milli> host = Clock::now() - start;
  for (size_t i = 0; i < n; i += 1024) expected += your_turn::number_at(i) + 1;
  if (sum != expected)
    throw your_turn::NotYet(what + ": the sum is wrong: expected " + std::to_string(expected) +
                            ", found " + std::to_string(sum));
  return {last.ms_since(first), host.count()};
}

void require_no_fault(const char* who, const Readings& yours, const Readings& solution) {
  try {
    your_turn::require_near(yours, solution);
  } catch (const your_turn::Dear& e) {
    throw your_turn::Dear(std::string(who) + " is " + e.what());
  }
}

}  // namespace

void prefetch_to_device(const void* data, size_t bytes) { prefetch(data, bytes, false); }
void prefetch_to_host(const void* data, size_t bytes) { prefetch(data, bytes, true); }

void check_prefetch(const Prefetch& yours, const Prefetch& solution) {
  your_turn::require_gpu();
  int device = 0, on_demand = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&on_demand, cudaDevAttrConcurrentManagedAccess, device));
  if (!on_demand) throw your_turn::Skipped("it needs a GPU to which pages move on demand");

  constexpr size_t n = (size_t(1) << 24) + 5;  // 64 MiB and a little, twice
  const std::string what = "n = " + std::to_string(n);
  const Managed out(n), in(n);
  Readings kernel[2], host[2];
  constexpr int rounds = 12;  // six blocks of two, the fewest of which a median has a range
  for (int round = -1; round < rounds; ++round)  // the first loads the code
    for (int turn = 0; turn < 2; ++turn) {
      const int which = round % 2 ? 1 - turn : turn;
      your_turn::watch(what, 2);
      const Times times = run(what, which == 0 ? yours : solution, out.data(), in.data(), n);
      if (round < 0) continue;
      kernel[which].ms.push_back(times.kernel);
      host[which].ms.push_back(times.host);
    }
  require_no_fault("the kernel", kernel[0], kernel[1]);
  // the host's time varies more, and a fault for each page is worth many times as much
  if (host[0].median() > 3 * host[1].median())
    throw your_turn::Dear("the host's reading is " + slower(ratio(host[0], host[1])) +
                          " than the solution");
}
