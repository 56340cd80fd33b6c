// halo: out[i] is in[i - 1] + in[i] + in[i + 1]. A block of 256 threads computes 256 neighbours,
// from out[first] on, where first is a multiple of 256. So it needs 258 words, one more on each
// side: the halo. It collects them in shared memory, in at most three steps, and adds them up
// behind a barrier:
//
//   __shared__ float tile[258];                                   // tile[0] is in[first - 1]
//   for (unsigned step = 0; step < 3; ++step) {
//     const long long i = load(threadIdx.x, step, first, n);
//     if (i >= 0) tile[i + 1 - first] = in[i];
//   }
//   __syncthreads();
//
// Write which word each thread loads in each step. The array has n words and begins on a sector of
// 32 bytes. Right: all words that the block needs, and none beyond the array, for every n. Cheap:
// the words lie in 34 sectors, and the block's requests move at most 40. (If each thread loaded its
// three words, they would move 112.)
//
// Difficulty 4 of 5, about 30 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_halo
//   build/release/03_access_patterns/your_halo
#include <cstddef>

// [your turn]

// First every thread its own word: each warp's 32 begin on a sector, 4 sectors per request. Then
// the two that are left, by two lanes of one warp in one request: 2 sectors. (Had thread t loaded
// in[first - 1 + t] first, every warp would have asked for 5.)

/// The word of `in` that thread tid of the block loads in step 0, 1 or 2; -1: none.
long long load(unsigned tid, unsigned step, size_t first, size_t n) {
  long long i = -1;
  if (step == 0) i = (long long)(first + tid);
  if (step == 1 && tid == 0) i = (long long)(first)-1;  // -1 for the first block: none
  if (step == 1 && tid == 1) i = (long long)(first + 256);
  return i < (long long)(n) ? i : -1;
}

// [/your turn]

#include "../halo_check.hpp"

WRONG_ANSWER("the last block's neighbour is beyond the array") {
  check_words([](unsigned tid, unsigned step, size_t first, size_t n) {
    return step == 1 && tid == 1 ? (long long)(first + 256) : load(tid, step, first, n);
  });
}
WRONG_ANSWER("every thread loads its word and both neighbours") {
  check_sectors([](unsigned tid, unsigned step, size_t first, size_t n) {
    const long long i = (long long)(first + tid + step) - 1;
    return i < (long long)(n) ? i : -1;
  });
}
