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

// In step 0 thread 1 reads word 0 and writes word 1, which thread 2 reads: whether before or after
// is chance, once they are of different warps. (A warp's loads come before its stores, so up to 32
// words it was right.) A barrier cannot stand between them, as the kernel has one for each step;
// two halves of the array do as well: each step reads one and writes the other. So that the other
// half is whole, who has nothing to add copies. After an odd number of steps the result is in the
// second.

/// What thread tid of n does in step 0, 1, 2 ...
Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  const unsigned from = step % 2 * n + tid, to = (step + 1) % 2 * n + tid;
  if (tid < distance) return {false, true, to, from, from};
  return {true, false, to, from - distance, from};
}

/// The word in which the first prefix sum lies after the last step, 0 to n.
unsigned result(unsigned n) {
  unsigned steps = 0;
  while (1u << steps < n) ++steps;
  return steps % 2 * n;
}

// [/your turn]

}  // namespace

YOUR_TURN(scan, Scan, {sum, result});
