// What is checked of the loads. Included behind the answer.
#pragma once

#include <algorithm>
#include <vector>

#include "../../common/exercise.hpp"
#include "../../common/sectors.hpp"

constexpr unsigned threads = 256, steps = 3;

using Answer = long long (*)(unsigned tid, unsigned step, size_t first, size_t n);

inline void check_words(Answer load) {
  for (const size_t n : {1, 31, 256, 257, 258, 1009})
    for (size_t first = 0; first < n; first += threads) {
      CAPTURE(n);
      CAPTURE(first);
      const size_t begin = first > 0 ? first - 1 : 0, end = std::min(first + threads + 1, n);
      std::vector<bool> loaded(end - begin);
      for (unsigned step = 0; step < steps; ++step)
        for (unsigned tid = 0; tid < threads; ++tid) {
          CAPTURE(step);
          CAPTURE(tid);
          const long long i = load(tid, step, first, n);
          if (i < 0) continue;
          if (size_t(i) >= n) FAIL("word " << i << " is loaded, which is beyond the array");
          if (size_t(i) < begin || size_t(i) >= end)
            FAIL("word " << i << " is loaded, which has no place in the tile");
          loaded[size_t(i) - begin] = true;
        }
      const auto missing = std::find(loaded.begin(), loaded.end(), false);
      if (missing != loaded.end())
        FAIL("no thread loads word " << begin + (missing - loaded.begin()));
    }
}

/// Sectors of the request of 32 lanes from `warp` on; a lane that loads nothing asks for none.
size_t sectors_of(Answer load, unsigned warp, unsigned step, size_t first, size_t n) {
  const auto word_of = [&](size_t lane) { return load(warp + unsigned(lane), step, first, n); };
  long long any = -1;
  for (size_t lane = 0; lane < 32; ++lane) any = std::max(any, word_of(lane));
  if (any < 0) return 0;
  return sectors(4, [&](size_t lane) { return size_t(word_of(lane) < 0 ? any : word_of(lane)); });
}

inline void check_sectors(Answer load) {
  size_t moved = 0;  // by a block with neighbours on both sides
  for (unsigned step = 0; step < steps; ++step)
    for (unsigned warp = 0; warp < threads; warp += 32)
      moved += sectors_of(load, warp, step, threads, 4 * threads);
  if (moved > 40) FAIL(moved << " sectors per block; 34 will do");
}

TEST_CASE("right: every word that a block needs, and none beyond the array") { check_words(load); }
TEST_CASE("cheap: at most 40 sectors per block, not 112") { check_sectors(load); }
