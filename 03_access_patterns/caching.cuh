// What caching.cu and caching_flag.cu have in common: the two loops of the kernels, which differ in
// their load alone.
#pragma once

#include <cstddef>

#include "../framework/common/gpu_timer.cuh"

// ---- n words, `stride` apart, from word `first` on ----

// [read]
// A warp reads 32 words: neighbours (4 sectors of 32 bytes), the same from the middle of a sector
// on (5), or each in a line of its own (32). Eight loads of each thread are in flight at once.
template <unsigned (*load)(const unsigned*)>
__device__ void add_up(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = load(in + first + (i + k * threads) * stride);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += load(in + first + i * stride);  // the remaining words
  sums[tid] = sum;
}
// [/read]

// ---- one thread ----

/// What walking a chain took.
struct Walked {
  long long cycles;
  unsigned long long ns;  ///< by the GPU's timer
};

// [chase]
// Each word says where the next one stands: no load begins before the last one has ended.
template <unsigned (*load)(const unsigned*)>
__device__ void walk(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  unsigned at = 0;
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) at = load(next + at);
  *static_cast<volatile unsigned*>(end) = at;  // the last load has ended: the clock is read again
  const long long cycles = clock64() - start;
  *walked = {cycles, timer_ns() - start_ns};
}
// [/chase]

// ---- the loads ----

/// Leaves it to the compiler, or to its flags.
__device__ inline unsigned load_plain(const unsigned* p) { return *p; }

/// The two kernels of one kind of load: 1 to 3, and 4 to 6, of caching.cu.
struct LoadKernels {
  void (*read)(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride);
  void (*chase)(Walked* walked, unsigned* end, const unsigned* next, unsigned steps);
};

/// The kernels of caching_flag.cu; none if it was compiled without the flag.
LoadKernels kernels_by_flag();
