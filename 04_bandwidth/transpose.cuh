// What transpose.cu needs beside its story: cache hints, the matrices, what is right, and what it compares with.
#pragma once

#include <functional>
#include <memory>

#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif

#include "../common/report.hpp"
#include "sectors.hpp"

// ---- cache hints ----

// 16 bytes that are used once, if they are `there`: they pass L1 by, and L2 gives them up first. On GPUs before compute
// capability 8.0 the streaming accesses come nearest to that.
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
      "@there st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5; }" ::"l"(first),
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

// ---- matrices, and what is right ----

inline Shape square(size_t n) { return {unsigned(n), unsigned(n)}; }
inline std::string sides(Shape m) { return std::to_string(m.ny) + " x " + std::to_string(m.nx); }
inline double bytes_moved(Shape m) { return 8.0 * double(m.elements()); }

inline void host_by_rows(std::vector<float>& out, const std::vector<float>& in, Shape m) {
  for (unsigned iy = 0; iy < m.ny; ++iy)
    for (unsigned ix = 0; ix < m.nx; ++ix) out[at(ix, iy, m.ny)] = in[at(iy, ix, m.nx)];
}
inline void host_by_columns(std::vector<float>& out, const std::vector<float>& in, Shape m) {
  for (unsigned ix = 0; ix < m.nx; ++ix)
    for (unsigned iy = 0; iy < m.ny; ++iy) out[at(ix, iy, m.ny)] = in[at(iy, ix, m.nx)];
}

/// Element `i` of the input, 1 to 2: scattered over all values, so that a word in a wrong place shows.
__host__ __device__ inline float value_at(size_t i) {
  const unsigned x = (unsigned(i) ^ unsigned(i >> 32)) * 0x9e3779b1u;
  return 1.0f + float((x ^ (x >> 15)) >> 9) * 0x1p-23f;
}
/// What element `i` of the output must be; no index function of the kernels.
__host__ __device__ inline float expected(size_t i, size_t nx, size_t ny, bool turns) {
  return value_at(turns ? i % ny * nx + i / ny : i);
}
static __global__ void fill(float* in, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    in[i] = value_at(i);
}
static __global__ void count_wrong(const float* out, size_t nx, size_t ny, bool turns, unsigned long long* wrong) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < nx * ny; i += size_t(gridDim.x) * blockDim.x)
    if (!(out[i] == expected(i, nx, ny, turns))) atomicAdd(wrong, 1ull);
}

struct Matrices {
  Shape m;
  DeviceBuffer<float> in{m.elements()}, out{m.elements()};
  DeviceBuffer<unsigned long long> wrong{1};

  explicit Matrices(Shape m) : m(m) {
    fill<<<1024, 512>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  /// How many elements of the output are wrong after `launch` wrote it.
  unsigned long long wrong_after(bool turns, const std::function<void()>& launch) {
    out.poison();
    wrong.copy_from({0});
    launch();
    CUDA_CHECK_LAUNCH();
    count_wrong<<<1024, 512>>>(out.data(), m.nx, m.ny, turns, wrong.data());
    CUDA_CHECK_LAUNCH();
    return wrong.to_host()[0];
  }
};

/// Shared memory to ask for beside a kernel's own, so that only `resident` blocks fit on a multiprocessor: none in code
/// without the hints, nor where all blocks run in one round, as then there is no order to keep.
inline size_t spare_shared_bytes(const void* kernel, unsigned blocks, unsigned resident) {
  int device = 0;
  cudaDeviceProp gpu{};
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&gpu, device));
  CUDA_CHECK(cudaFuncGetAttributes(&code, kernel));
  if (code.ptxVersion < 80 || blocks <= 8u * unsigned(gpu.multiProcessorCount)) return 0;
  const size_t each = gpu.sharedMemPerMultiprocessor / resident / 1024 * 1024 - gpu.reservedSharedMemPerBlock;
  return std::min(each, gpu.sharedMemPerBlock) - code.sharedSizeBytes;
}

// ---- what is compared with ----

/// cublasSgeam as a transpose; nothing where cuBLAS was not found. It counts by columns: its rows are our columns.
using Geam = std::function<void(Matrices&)>;
inline Geam make_geam() {
#ifdef HAVE_CUBLAS
  const auto check = [](cublasStatus_t s) {
    if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(s));
  };
  cublasHandle_t handle;
  check(cublasCreate(&handle));
  return [check, owner = std::shared_ptr<cublasContext>(handle, cublasDestroy)](Matrices& x) {
    const float one = 1, zero = 0;
    const int nx = int(x.m.nx), ny = int(x.m.ny);
    check(cublasSgeam(owner.get(), CUBLAS_OP_T, CUBLAS_OP_N, ny, nx, &one, x.in.data(), nx, &zero, x.out.data(), ny,
                      x.out.data(), ny));
  };
#else
  return {};
#endif
}
