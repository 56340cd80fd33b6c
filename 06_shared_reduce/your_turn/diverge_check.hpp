// What is checked of the five predictions. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"

struct Prediction {
  std::string condition;
  bool (*holds)(unsigned tid);
  std::string consider;
};
const Prediction predictions[] = {
    {"threadIdx.x % 2 == 0", [](unsigned tid) { return tid % 2 == 0; },
     "which lanes of a warp take the branch?"},
    {"threadIdx.x < 100", [](unsigned tid) { return tid < 100; },
     "in which warp is thread 99, and in which is thread 100?"},
    {"threadIdx.x / 32 % 2 == 0", [](unsigned tid) { return tid / 32 % 2 == 0; },
     "is there a warp whose lanes disagree?"},
    {"threadIdx.x % 64 < 16", [](unsigned tid) { return tid % 64 < 16; },
     "look at warps 0 and 1: which lanes take the branch?"},
    {"threadIdx.x >= 128", [](unsigned tid) { return tid >= 128; },
     "is there a warp whose lanes disagree?"},
};

/// Of the eight warps of 256 threads.
inline int divergent_warps(bool (*holds)(unsigned tid)) {
  int divergent = 0;
  for (unsigned warp = 0; warp < 8; ++warp) {
    int taken = 0;
    for (unsigned lane = 0; lane < 32; ++lane) taken += holds(warp * 32 + lane);
    divergent += taken > 0 && taken < 32;
  }
  return divergent;
}

inline void check(const int (&yours)[5]) {
  for (size_t k = 0; k < 5; ++k) {
    const auto& [condition, holds, consider] = predictions[k];
    if (yours[k] != divergent_warps(holds))
      FAIL_CHECK(condition << ": not " << yours[k] << "; " << consider);
  }
}

TEST_CASE("right: all five") { check({even, first, whole_warps, quarter, upper}); }
