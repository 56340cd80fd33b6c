// diverge: a prediction. A block of 256 threads comes to `if (condition) a(); else b();`. A warp is
// divergent if some of its 32 lanes take one branch and some the other: it then runs both, one
// after the other. The comments below give five conditions. How many of the eight warps are
// divergent?
//
// Right: all five.
//
// Difficulty 1 of 5, about 5 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_diverge
//   build/release/06_shared_reduce/your_diverge

// [your turn]

// If every other lane takes a branch, every warp is divergent. The first 100 threads are three
// whole warps and 4 lanes of the fourth: only the fourth is divergent. A condition that is the same
// for the 32 lanes of each warp makes no warp divergent. The first 16 of each 64 threads are half
// of the first warp of two. In the second no lane takes the branch.

/// Divergent warps of eight.
constexpr int even = 8;         // threadIdx.x % 2 == 0
constexpr int first = 1;        // threadIdx.x < 100
constexpr int whole_warps = 0;  // threadIdx.x / 32 % 2 == 0
constexpr int quarter = 4;      // threadIdx.x % 64 < 16
constexpr int upper = 0;        // threadIdx.x >= 128

// [/your turn]

#include "../diverge_check.hpp"

WRONG_ANSWER("a warp without a lane that takes the branch is divergent") {
  check({even, first, whole_warps, 8, upper});
}
WRONG_ANSWER("half of the warps take a branch, so half diverge") {
  check({even, first, 4, quarter, 4});
}
