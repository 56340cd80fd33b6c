// scan: a broken kernel. A block of n threads (n is 64, 128, 256, 512 or 1024) turns n words of
// shared memory into their prefix sums: in the end word i has the sum of words 0 to i. It takes
// log2(n) steps, with a barrier after each. In step k each thread adds the word that is 2^k before
// its own:
//
//   const Sum s = sum(step, threadIdx.x, n);
//   if (s.adds) word[s.to] = word[s.left] + word[s.right];
//   else if (s.copies) word[s.to] = word[s.left];
//   __syncthreads();
//
// With 32 words the result was always right. With more words it is wrong now and then. The shared
// array has 2 * n words, and the input is in the first n. Repair the functions.
//
// Right: all prefix sums, and in no step a thread reads a word that another one writes. Cheap: no
// request of a warp takes more than one wavefront.
//
// Difficulty 3 of 5, about 20 minutes. Needs no GPU: the check looks who reads and who writes.
//
//   cmake --build build/release --target your_scan
//   build/release/06_shared_reduce/your_scan

/// What a thread does in a step: word[to] = word[left] + word[right] if it adds, word[left] if it
/// copies instead, else nothing.
struct Sum {
  bool adds, copies;
  unsigned to, left, right;
};

// [your turn]

// In place, thread 1 reads word 0 and writes word 1 in step 0, and thread 2 reads word 1: before or
// after that, if the two are of different warps. (A warp's loads come before its stores, so up to
// 32 words it was right.) The kernel has no barrier within a step. So the array has two halves:
// each step reads one half and writes the other. A thread that has nothing to add copies, so that
// the other half is whole. After an odd number of steps the result is in the second half.

/// What thread tid of n does in step 0, 1, 2 ...
Sum sum(unsigned step, unsigned tid, unsigned n) {
  const unsigned distance = 1u << step;
  const unsigned from = step % 2 * n + tid, to = (step + 1) % 2 * n + tid;
  if (tid < distance) return {false, true, to, from, from};
  return {true, false, to, from - distance, from};
}

/// The word, from 0 to n, in which the first prefix sum lies after the last step.
unsigned result(unsigned n) {
  unsigned steps = 0;
  while (1u << steps < n) ++steps;
  return steps % 2 * n;
}

// [/your turn]

#include "../scan_check.hpp"

WRONG_ANSWER("in place") {
  check_sums(
      [](unsigned step, unsigned tid, unsigned) -> Sum {
        const unsigned distance = 1u << step;
        if (tid < distance) return {false, false, tid, tid, tid};
        return {true, false, tid, tid - distance, tid};
      },
      [](unsigned) { return 0u; });
}
WRONG_ANSWER("what adds nothing is not copied") {
  check_sums(
      [](unsigned step, unsigned tid, unsigned n) {
        Sum s = sum(step, tid, n);
        s.copies = false;
        return s;
      },
      result);
}
WRONG_ANSWER("the result is always in the first half") {
  check_sums(sum, [](unsigned) { return 0u; });
}
WRONG_ANSWER("the two halves interleaved: half of the banks idle") {
  check_wavefronts([](unsigned step, unsigned tid, unsigned n) -> Sum {
    const auto place = [n](unsigned i) { return 2 * (i % n) + i / n; };
    const Sum s = sum(step, tid, n);
    return {s.adds, s.copies, place(s.to), place(s.left), place(s.right)};
  });
}
