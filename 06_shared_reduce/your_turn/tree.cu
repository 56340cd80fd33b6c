// tree: a block of n threads sums n words of shared memory (n is 64, 128, 256, 512 or 1024) in
// log2(n) steps, with a barrier behind each. In each step some threads add one word to another:
//
//   const Addition a = addition(step, threadIdx.x, n);
//   if (a.adds) word[a.left] += word[a.right];
//   __syncthreads();
//
// The guide's second version adds words that lie s = 1, 2, 4 ... apart, by the first threads:
// left = 2 * s * tid, right = left + s. Its lanes meet in the same banks, up to eight at a time.
// Write the steps so that no two lanes do, and so that no warp runs for a few lanes only.
//
// Right: word 0 has the sum at last, and in no step a thread touches a word that another one
// writes. Cheap: 36 wavefronts in all for 256 words, one for each request of a warp.
//
// Difficulty 3 of 5, about 25 minutes.
//
//   cmake --build build/release --target your_tree
//   build/release/06_shared_reduce/your_tree
#include "tree.hpp"

namespace {

// [your turn]

/// What thread tid of n does in step 0, 1, 2 ...: {whether it adds, left, right}.
Addition addition(unsigned step, unsigned tid, unsigned n) {
  return {false, 0, 0};  // write it
}

// [/your turn]

}  // namespace

YOUR_TURN(tree, Tree, {addition});
