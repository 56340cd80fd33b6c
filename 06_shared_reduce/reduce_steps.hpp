// Who adds what to what in each step of the text's three reductions of a block in shared memory:
// `ladder` runs these functions in its kernels, `divergence` and `bank_conflicts` predict from
// them. A block of n threads (n a power of two) holds one word a thread; in a step with stride s an
// active thread does word[left] += word[right], and after step_count(n) steps word[0] is the sum.
#pragma once

#include <string>

#ifdef __CUDACC__
#define REDUCE_STEP __host__ __device__ inline
#else
#define REDUCE_STEP inline
#endif

/// What one thread does in one step. `left` and `right` mean something only where `active`.
struct Step {
  bool active;
  unsigned left, right;  ///< indices of words in shared memory, both below n
};

/// Steps until one word is left of n: the binary logarithm of n.
REDUCE_STEP unsigned step_count(unsigned n) {
  unsigned k = 0;
  while (n >> (k + 1)) ++k;
  return k;
}
/// Stride of step k (from 0) where strides ascend: 1, 2, 4, ... n / 2.
REDUCE_STEP unsigned ascending_stride(unsigned k) { return 1u << k; }
/// Stride of step k where strides descend: n / 2, ... 4, 2, 1.
REDUCE_STEP unsigned descending_stride(unsigned k, unsigned n) { return n >> (k + 1); }

/// The text's first: every 2s-th thread adds its neighbour at distance s. Every warp has both kinds
/// of threads.
REDUCE_STEP Step step_modulo(unsigned tid, unsigned s) {
  return {tid % (2 * s) == 0, tid, tid + s};
}
/// The same threads and words, without the division that % costs where the compiler does not know
/// s.
REDUCE_STEP Step step_mask(unsigned tid, unsigned s) {
  return {(tid & (2 * s - 1)) == 0, tid, tid + s};
}
/// The text's second: the first n / 2s threads add, but their words lie 2s apart, and so share
/// banks.
REDUCE_STEP Step step_strided(unsigned tid, unsigned s, unsigned n) {
  const unsigned index = 2 * s * tid;
  return {index < n, index, index + s};
}
/// The text's third: the first s threads add neighbouring words; strides descend.
REDUCE_STEP Step step_descending(unsigned tid, unsigned s) { return {tid < s, tid, tid + s}; }

/// The three of them by name.
enum class Reduction { modulo, strided, descending };
inline constexpr Reduction reductions[] = {Reduction::modulo, Reduction::strided,
                                           Reduction::descending};
inline const std::string reduction_names[] = {"modulo", "strided", "descending"};

/// What thread `tid` of n does in step k (from 0) of a reduction.
REDUCE_STEP Step step_of(Reduction which, unsigned k, unsigned tid, unsigned n) {
  if (which == Reduction::modulo) return step_modulo(tid, ascending_stride(k));
  if (which == Reduction::strided) return step_strided(tid, ascending_stride(k), n);
  return step_descending(tid, descending_stride(k, n));
}

#undef REDUCE_STEP
