// pages: an array of n words of 4 bytes lies in managed memory, in pages of 64 KiB (16,384 words),
// the first of which begins with the array. A kernel's warps are to share it out so that as many
// pages fault at the same time as warps run: a page for each warp, and as many warps as there are
// pages. A warp takes 512 steps:
//
//   for (unsigned step = 0; step < 512; ++step) {
//     const long long i = element(warp, step, lane, n);
//     if (i >= 0) out[i] = in[i];
//   }
//
// Right: every element once, for any n. Cheap: no warp touches two pages, and each step moves 4
// sectors at most.
//
// Difficulty 2 of 5, about 15 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_pages
//   build/release/05_unified_memory/your_pages
#include <cstddef>

// [your turn]

// The page is the warp's, the step walks through it, and the lanes are neighbours: 32 words, 4
// sectors. With consecutive words for each lane (lane * 512 + step) the page would be the same, but
// every step would take 32 sectors.

/// The element that this lane of this warp takes in this step; -1: none.
long long element(size_t warp, unsigned step, unsigned lane, size_t n) {
  const size_t i = warp * 16384 + step * 32 + lane;
  return i < n ? (long long)(i) : -1;
}

// [/your turn]

#include "../pages_check.hpp"

WRONG_ANSWER("a grid-stride loop, as ever") {
  check_pages([](size_t warp, unsigned step, unsigned lane, size_t n) {
    const size_t warps = (n + 16383) / 16384, i = (step * warps + warp) * 32 + lane;
    return i < n ? (long long)(i) : -1;
  });
}
WRONG_ANSWER("consecutive words for each lane") {
  check_sectors([](size_t warp, unsigned step, unsigned lane, size_t n) {
    const size_t i = warp * 16384 + lane * 512 + step;
    return i < n ? (long long)(i) : -1;
  });
}
WRONG_ANSWER("the end is forgotten") {
  check_elements([](size_t warp, unsigned step, unsigned lane, size_t) {
    return (long long)(warp * 16384 + step * 32 + lane);
  });
}
WRONG_ANSWER("the index in 32 bits") {
  check_64_bits([](size_t warp, unsigned step, unsigned lane, size_t n) {
    const unsigned i = unsigned(warp) * 16384 + step * 32 + lane;
    return i < n ? (long long)(i) : -1;
  });
}
