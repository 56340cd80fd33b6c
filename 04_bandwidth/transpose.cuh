// What transpose.cu needs beside its story: cache hints, the matrices and what is right, how a
// launch's requests are counted, and what is in other hands: cublasSgeam, and transpose_tensor.cu.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif

#include "../common/report.hpp"

struct Shape {
  unsigned nx, ny;  ///< words in a row; rows
  constexpr size_t elements() const { return size_t(nx) * ny; }
};
inline Shape square(size_t n) { return {unsigned(n), unsigned(n)}; }
inline std::string sides(Shape m) { return std::to_string(m.ny) + " x " + std::to_string(m.nx); }
/// Each word is read once and written once.
inline double bytes_moved(Shape m) { return 8.0 * double(m.elements()); }

// ---- cache hints ----

// 16 bytes that are used once, if they are `there`: they pass L1 by, and L2 gives them up first. On
// GPUs before compute capability 8.0 the streaming accesses come nearest to that.
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

/// Shared memory to ask for beside a kernel's `own`, so that only `resident` blocks fit on a
/// multiprocessor; none where fewer fit as it is.
inline size_t spare_shared_bytes(const cudaDeviceProp& gpu, size_t own, unsigned resident) {
  const size_t each = gpu.sharedMemPerMultiprocessor / resident / 1024 * 1024;
  const size_t taken = own + gpu.reservedSharedMemPerBlock;
  const size_t most = gpu.sharedMemPerBlock;
  if (each <= taken || most <= own) return 0;
  return std::min(each - gpu.reservedSharedMemPerBlock, most) - own;
}

/// Shared memory to ask for beside a kernel's own, so that only `resident` blocks fit on a
/// multiprocessor: none in code without the hints, nor where all blocks run in one round, as then
/// there is no order to keep.
inline size_t spare_shared_bytes(const void* kernel, dim3 grid, unsigned resident) {
  const cudaDeviceProp gpu = Device::current().prop;
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
  const size_t blocks = size_t(grid.x) * grid.y;
  if (code.ptxVersion < 80 || blocks <= 8 * size_t(gpu.multiProcessorCount)) return 0;
  return spare_shared_bytes(gpu, code.sharedSizeBytes, resident);
}

// ---- what is right ----

/// Word `i` of the input, 1 to 2: scattered over all values, so that one in a wrong place shows.
__host__ __device__ inline float value_at(size_t i) {
  const unsigned x = (unsigned(i) ^ unsigned(i >> 32)) * 0x9e3779b1u;
  return 1.0f + float((x ^ (x >> 15)) >> 9) * 0x1p-23f;
}
/// What word `i` of the output must be. Output row r is column r of the input.
__host__ __device__ inline float expected(size_t i, size_t nx, size_t ny, bool turns) {
  return value_at(turns ? i % ny * nx + i / ny : i);
}

static __global__ void fill(float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = value_at(i);
}

static __global__ void count_wrong(const float* out, size_t nx, size_t ny, bool turns,
                                   unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < nx * ny; i += threads)
    if (!(out[i] == expected(i, nx, ny, turns))) atomicAdd(wrong, 1ull);
}

/// A matrix and its transpose on the device. The input ends where its allocation does, so that a
/// read beyond is seen by memcheck; behind the output stand canaries.
struct Matrices {
  static constexpr size_t canaries = 64;

  Shape m;
  DeviceBuffer<float> in{m.elements()};
  DeviceBuffer<float> out{m.elements() + canaries};
  DeviceBuffer<unsigned long long> wrong_words{1};

  explicit Matrices(Shape m) : m(m) {
    fill<<<1024, 512>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
    out.poison();
  }
  /// Compares every word of the output on the device.
  size_t wrong(bool turns) {
    wrong_words.copy_from({0});
    count_wrong<<<1024, 512>>>(out.data(), m.nx, m.ny, turns, wrong_words.data());
    CUDA_CHECK_LAUNCH();
    return wrong_words.to_host()[0];
  }
  Check check(bool turns) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, turns] { return wrong(turns); };
    return check;
  }
  /// Whether nothing was written behind the output.
  bool canaries_stand() const {
    std::vector<unsigned> words(canaries);
    device_memory::to_host(words.data(), out.data() + m.elements(), canaries * sizeof(unsigned));
    return std::count(words.begin(), words.end(), ~0u) == long(canaries);
  }

  /// The runtime's own copy from device to device.
  Task copy_engine() {
    const auto launch = [this] {
      CUDA_CHECK(cudaMemcpyAsync(out.data(), in.data(), in.bytes(), cudaMemcpyDeviceToDevice));
    };
    return {"copy engine, " + sides(m), launch, check(false)};
  }
  /// Adds cublasSgeam as a transpose; false where cuBLAS was not found. It counts by columns: its
  /// rows are our columns.
  bool geam([[maybe_unused]] std::vector<Task>& tasks) {
#ifdef HAVE_CUBLAS
    const auto check_status = [](cublasStatus_t s) {
      if (s != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(s));
    };
    cublasHandle_t handle;
    check_status(cublasCreate(&handle));
    const std::shared_ptr<cublasContext> owner(handle, cublasDestroy);
    const auto launch = [this, owner, check_status] {
      const float one = 1, zero = 0;
      const int nx = int(m.nx), ny = int(m.ny);
      check_status(cublasSgeam(owner.get(), CUBLAS_OP_T, CUBLAS_OP_N, ny, nx, &one, in.data(), nx,
                               &zero, out.data(), ny, out.data(), ny));
    };
    tasks.push_back({"cublasSgeam, " + sides(m), launch, check(true)});
    return true;
#else
    return false;
#endif
  }
};
/// The text's two loops on the host: reading by rows, and reading by columns.
struct HostMatrices {
  Shape m;
  std::vector<float> in = std::vector<float>(m.elements());
  std::vector<float> out = std::vector<float>(m.elements());

  explicit HostMatrices(Shape m) : m(m) {
    for (size_t i = 0; i < in.size(); ++i) in[i] = value_at(i);
  }
  void by_rows() {
    for (size_t iy = 0; iy < m.ny; ++iy)
      for (size_t ix = 0; ix < m.nx; ++ix) out[ix * m.ny + iy] = in[iy * m.nx + ix];
  }
  void by_columns() {
    for (size_t ix = 0; ix < m.nx; ++ix)
      for (size_t iy = 0; iy < m.ny; ++iy) out[ix * m.ny + iy] = in[iy * m.nx + ix];
  }
  size_t wrong() const {
    size_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) wrong += !(out[i] == expected(i, m.nx, m.ny, true));
    return wrong;
  }
  Task task(bool reading_rows) {
    Check check;
    check.poison = [this] { std::fill(out.begin(), out.end(), NAN); };
    check.wrong = [this] { return wrong(); };
    const auto loops = [this, reading_rows] { reading_rows ? by_rows() : by_columns(); };
    return {reading_rows ? "host, reading by rows" : "host, reading by columns", loops,
            std::move(check), true};
  }
};

// ---- by tensor copies: transpose_tensor.cu ----

/// Why a matrix cannot be moved by tensor copies on a GPU, by this build; empty: it can.
std::string no_tensor_copies(const Device& device, Shape m);

/// Where it can: a transpose; and tiles of the same shape that are copied, not turned, by blocks
/// along the matrix's rows and down its columns.
Task turned_by_tensor_copies(Matrices& x);
Task tiles_copied(Matrices& x);
Task tiles_copied_down(Matrices& x);

// ---- requests of a launch ----

/// What the warps of a launch ask for in one direction.
struct Traffic {
  double requests = 0;      ///< of a warp
  double sectors = 0;       ///< of 32 bytes that they touch
  double full_sectors = 0;  ///< of them those that the request uses whole
  double lines = 0;         ///< of 128 bytes that they touch
  double sectors_a_request() const { return sectors / requests; }
};

/// Requests of a launch, from all its blocks or from 128 scattered ones (at multiples of the golden
/// section, clear of regular patterns). `word(block, tid, step)`: index of the first of `width`
/// 4-byte words that a thread touches in one of four steps; ~0: none.
template <class Word>
Traffic count_traffic(dim3 grid, dim3 block, unsigned width, const Word& word) {
  const size_t blocks = size_t(grid.x) * grid.y;
  const size_t some = std::min<size_t>(blocks, 128);
  const unsigned threads = block.x * block.y;
  Traffic traffic;
  for (size_t i = 0; i < some; ++i) {
    const double turn = std::fmod(double(i) * 0.6180339887498949, 1.0);
    const size_t number = some == blocks ? i : size_t(turn * double(blocks));
    const dim3 at(unsigned(number % grid.x), unsigned(number / grid.x));
    for (unsigned warp = 0; warp < threads; warp += 32)
      for (unsigned step = 0; step < 4; ++step) {
        std::vector<size_t> words;
        for (unsigned t = warp; t < std::min(warp + 32, threads); ++t) {
          const size_t first = word(at, dim3(t % block.x, t / block.x), step);
          for (unsigned w = 0; first != ~size_t(0) && w < width; ++w) words.push_back(first + w);
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
  const double launched = double(blocks) / double(some);
  return {traffic.requests * launched, traffic.sectors * launched, traffic.full_sectors * launched,
          traffic.lines * launched};
}
