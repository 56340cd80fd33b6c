// tree: a block of n threads sums n words of shared memory (n is 64, 128, 256, 512 or 1024) in
// log2(n) steps, with a barrier after each. In each step some threads add one word to another:
//
//   const Add a = add(step, threadIdx.x, n);
//   if (a.adds) word[a.left] += word[a.right];
//   __syncthreads();
//
// In the second version of the guide the first threads add words that lie s = 1, 2, 4 ... apart:
// left = 2 * s * tid, right = left + s. Up to eight lanes of a warp meet in a bank. Write steps in
// which no two lanes do, and in which as few warps as possible have work.
//
// Right: in the end word 0 has the sum, and in no step a thread touches a word that another one
// writes. Cheap: 36 wavefronts for 256 words, one for each request of a warp.
//
// Difficulty 3 of 5, about 25 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_tree
//   build/release/06_shared_reduce/your_tree

/// What a thread does in a step: word[left] += word[right], if it adds.
struct Add {
  bool adds;
  unsigned left, right;
};

// [your turn]

// The first s threads add the upper half of what is left to the lower half. The lanes of a warp
// want neighbouring words, one of each bank. As s halves, whole warps have nothing to do; in the
// last six steps one warp is left.

/// What thread tid of n does in step 0, 1, 2 ...
Add add(unsigned step, unsigned tid, unsigned n) {
  const unsigned s = n >> (step + 1);
  return {tid < s, tid, tid + s};
}

// [/your turn]

#include "../tree_check.hpp"

WRONG_ANSWER("every thread adds its neighbour, which adds, too") {
  check_sums([](unsigned step, unsigned tid, unsigned n) -> Add {
    const unsigned s = 1u << step;
    return {tid + s < n, tid, tid + s};
  });
}
WRONG_ANSWER("the guide's second version: lanes meet in a bank") {
  check_wavefronts([](unsigned step, unsigned tid, unsigned n) -> Add {
    const unsigned s = 1u << step;
    return {2 * s * tid + s < n, 2 * s * tid, 2 * s * tid + s};
  });
}
