// What transpose.cu and transpose_tensor.cu share: cache hints, the matrices and what is right, and
// how the requests of a launch are counted.
#pragma once

#include <algorithm>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

struct Shape {
  unsigned nx, ny;  ///< words in a row; rows
  constexpr size_t elements() const { return size_t(nx) * ny; }
};
inline Shape square(size_t n) { return {unsigned(n), unsigned(n)}; }
inline std::string sides(Shape m) { return std::to_string(m.ny) + " x " + std::to_string(m.nx); }
/// Each word is read once and written once.
inline double bytes_moved(Shape m) { return 8.0 * double(m.elements()); }

// ---- cache hints ----

// 16 bytes that are used once, accessed only if they are `there`: L1 does not keep them, and L2
// evicts them first. On GPUs before compute capability 8.0 the streaming accesses come nearest to
// that.
#if __CUDA_ARCH__ >= 800
__device__ inline unsigned long long evict_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline float4 load_once(const float* first, bool there) {
  float4 v{};
  asm volatile(
      "{ .reg .pred there; setp.ne.u32 there, %6, 0;"
      "@there ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5; }"
      : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
      : "l"(first), "l"(evict_first()), "r"(unsigned(there)));
  return v;
}
__device__ inline void store_once(float* first, float4 v, bool there) {
  asm volatile(
      "{ .reg .pred there; setp.ne.u32 there, %6, 0;"
      "@there st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5; }" ::"l"(
          first),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(evict_first()), "r"(unsigned(there))
      : "memory");
}
#else
__device__ inline float4 load_once(const float* first, bool there) {
  return there ? __ldcs((const float4*)first) : float4{};
}
__device__ inline void store_once(float* first, float4 v, bool there) {
  if (there) __stcs((float4*)first, v);
}
#endif

/// Shared memory to request beside a kernel's `own`, so that only `resident` blocks fit on a
/// multiprocessor; none if no more fit without it.
inline size_t spare_shared_bytes(const cudaDeviceProp& gpu, size_t own, unsigned resident) {
  const size_t each = gpu.sharedMemPerMultiprocessor / resident / 1024 * 1024;
  const size_t taken = own + gpu.reservedSharedMemPerBlock;
  const size_t most = gpu.sharedMemPerBlock;
  if (each <= taken || most <= own) return 0;
  return std::min(each - gpu.reservedSharedMemPerBlock, most) - own;
}

/// The same for a launch. None in code without the hints, and none where all blocks run at once:
/// then there is no order to keep.
inline size_t spare_shared_bytes(const void* kernel, dim3 grid, unsigned resident) {
  const cudaDeviceProp gpu = Device::current().prop;
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
  const size_t blocks = size_t(grid.x) * grid.y;
  if (code.ptxVersion < 80 || blocks <= 8 * size_t(gpu.multiProcessorCount)) return 0;
  return spare_shared_bytes(gpu, code.sharedSizeBytes, resident);
}

// ---- the matrices, and what is right ----

/// Word i of the input, from 1 to 2: without pattern, so that a word in a wrong place shows.
struct Input {
  __host__ __device__ float operator()(size_t i) const {
    return 1.0f + float(samples::scrambled(i) >> 9) * 0x1p-23f;
  }
};

/// Whether word i of the output is right. Row r of the transpose is column r of the input.
struct RightOutput {
  Shape m;
  bool transposed;  ///< false: copied
  __host__ __device__ bool operator()(size_t i, float found) const {
    return found == Input{}(transposed ? i % m.ny * m.nx + i / m.ny : i);
  }
};

/// A matrix on the device, and room for its transpose.
struct Matrices {
  Shape m;
  double at = NAN;  ///< of the rows that it serves
  DeviceBuffer<float> in = samples::filled<float>(m.elements(), Input{});
  samples::Output<float> out{m.elements()};

  Task task(std::string_view key, Function<void()> launch, bool transposed) {
    return {samples::text({key, at}), std::move(launch), out.check(RightOutput{m, transposed})};
  }
};

// ---- tensor copies (transpose_tensor.cu) ----

/// Why a matrix cannot be moved by tensor copies on a GPU, by this build; empty: it can.
std::string no_tensor_copies(const Device& device, Shape m);

/// A transpose; and tiles of the same shape that are copied as they are, by blocks along the
/// matrix's rows and down its columns.
Task transpose_by_tensor_copies(const samples::Shared<Matrices>& x);
Task copy_tiles_along_rows(const samples::Shared<Matrices>& x);
Task copy_tiles_down_columns(const samples::Shared<Matrices>& x);

// ---- requests of a launch ----

/// A launch, and how its threads access memory: `words` neighbouring 4-byte words in each of
/// `steps` steps.
struct Launch {
  dim3 grid, block;
  unsigned steps = 1, words = 1;
};

/// A thread of a launch at one of its steps.
struct Thread {
  dim3 block, tid, shape;  ///< blockIdx, threadIdx, blockDim
  unsigned step;
};

/// What the warps of a launch ask for in one direction.
struct Traffic {
  double requests = 0;      ///< of a warp
  double sectors = 0;       ///< of 32 bytes that they touch
  double full_sectors = 0;  ///< of these sectors those that the request uses whole
  double lines = 0;         ///< of 128 bytes that they touch
  double sectors_per_request() const { return sectors / requests; }
};

constexpr size_t nowhere = ~size_t(0);

/// Requests of a launch, from all its blocks or from 128 scattered ones (at multiples of the golden
/// section, clear of regular patterns). `word_of(thread)`: index of the first word that the thread
/// accesses in its step, or nowhere.
template <class WordOf>
Traffic count_traffic(const Launch& launch, const WordOf& word_of) {
  const size_t blocks = size_t(launch.grid.x) * launch.grid.y;
  const size_t some = std::min<size_t>(blocks, 128);
  const unsigned threads = launch.block.x * launch.block.y;
  Traffic traffic;
  std::vector<size_t> words;  // of a request
  for (size_t i = 0; i < some; ++i) {
    const double share = std::fmod(double(i) * 0.6180339887498949, 1.0);
    const size_t number = some == blocks ? i : size_t(share * double(blocks));
    const dim3 at(unsigned(number % launch.grid.x), unsigned(number / launch.grid.x));
    for (unsigned warp = 0; warp < threads; warp += 32)
      for (unsigned step = 0; step < launch.steps; ++step) {
        words.clear();
        for (unsigned t = warp; t < std::min(warp + 32, threads); ++t) {
          const dim3 tid(t % launch.block.x, t / launch.block.x);
          const size_t first = word_of(Thread{at, tid, launch.block, step});
          for (unsigned w = 0; first != nowhere && w < launch.words; ++w)
            words.push_back(first + w);
        }
        std::sort(words.begin(), words.end());
        traffic.requests += !words.empty();
        for (size_t k = 0; k < words.size(); ++k) {
          traffic.sectors += k == 0 || words[k] / 8 != words[k - 1] / 8;
          traffic.lines += k == 0 || words[k] / 32 != words[k - 1] / 32;
          traffic.full_sectors += k >= 7 && words[k] % 8 == 7 && words[k - 7] == words[k] - 7;
        }
      }
  }
  const double of_all = double(blocks) / double(some);
  return {traffic.requests * of_all, traffic.sectors * of_all, traffic.full_sectors * of_all,
          traffic.lines * of_all};
}
