// Checks diverge.cu: counts the warps in which some lanes take the branch and some do not.
#include "diverge.hpp"

void check_diverge(const Diverge& yours, const Diverge&) {
  your_turn::watch("five numbers");
  const auto of = [](auto&& condition) {
    int divergent = 0;
    for (unsigned first = 0; first < 256; first += 32) {
      int taken = 0;
      for (unsigned tid = first; tid < first + 32; ++tid) taken += condition(tid);
      divergent += taken > 0 && taken < 32;
    }
    return double(divergent);
  };
  your_turn::require_predicted({
      {"threadIdx.x % 2 == 0", yours.even, of([](unsigned tid) { return tid % 2 == 0; }),
       "which lanes of a warp take the branch?"},
      {"threadIdx.x < 100", yours.first, of([](unsigned tid) { return tid < 100; }),
       "in which warp is thread 99, and in which is thread 100?"},
      {"threadIdx.x / 32 % 2 == 0", yours.whole_warps,
       of([](unsigned tid) { return tid / 32 % 2 == 0; }), "is there a warp whose lanes disagree?"},
      {"threadIdx.x % 64 < 16", yours.quarter, of([](unsigned tid) { return tid % 64 < 16; }),
       "look at warps 0 and 1: which lanes take the branch?"},
      {"threadIdx.x >= 128", yours.upper, of([](unsigned tid) { return tid >= 128; }),
       "is there a warp whose lanes disagree?"},
  });
}
