// scan: a broken kernel. A block of n threads (n is 64, 128, 256, 512 or 1024) makes of n words of
// shared memory their prefix sums: at last word i has the sum of words 0 to i. It does so in
// log2(n) steps, with a barrier behind each; in step k each thread adds the word that is 2^k before
// its own:
//
//   const Sum s = sum(step, threadIdx.x, n);
//   if (s.adds) word[s.to] = word[s.left] + word[s.right];
//   else if (s.copies) word[s.to] = word[s.left];
//   __syncthreads();
//
// With 32 words the result was always right. With more words it is wrong now and then. The shared
// array has 2 * n words, and the input is in the first n. Repair the functions; result(n) says at
// which word the result begins.
//
// Right: all prefix sums, and in no step a thread reads a word that another one writes, for all
// five n. Cheap: no request of a warp takes more than one wavefront. No GPU is needed: the check
// looks who reads and who writes each word in a step.
//
// Difficulty 3 of 5, about 20 minutes.
//
//   cmake --build build/release --target your_scan
//   build/release/06_shared_reduce/your_scan
#include "scan.hpp"

namespace {

// [your turn]

/// What thread tid of n does in step 0, 1, 2 ...
Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  const bool adds = tid >= distance;
  return {adds, false, tid, tid - distance, tid};  // in place: repair it
}

/// The word in which the first prefix sum lies after the last step, 0 to n.
unsigned result(unsigned n) { return 0; }

// [/your turn]

}  // namespace

YOUR_TURN(scan, Scan, {sum, result});
