// caching, 2 of 2: kernels 3 and 6, which say nothing of the cache, once more. The build compiles
// this file with -Xptxas -dlcm=cg, which sends all loads of a file past L1, and defines DLCM_CG
// where it does.
#include "caching.cuh"

#ifdef DLCM_CG

#include "../common/gpu_timer.cuh"

__global__ void read_by_flag(unsigned* sums, const unsigned* in, size_t n, size_t first,
                             size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = in[first + (i + k * threads) * stride];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += in[first + i * stride];
  sums[tid] = sum;
}

__global__ void chase_by_flag(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  unsigned at = 0;
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) at = next[at];
  *static_cast<volatile unsigned*>(end) = at;
  const long long cycles = clock64() - start;
  *walked = {cycles, timer_ns() - start_ns};
}

LoadKernels kernels_by_flag() { return {read_by_flag, chase_by_flag}; }

#else

LoadKernels kernels_by_flag() { return {}; }

#endif
