// diverge: a prediction. A block of 256 threads comes to `if (condition) a(); else b();`. A warp is
// divergent if some of its 32 lanes take one branch and some the other: it then runs both, one
// after the other. The comments below give the conditions. How many of the eight warps are
// divergent?
//
// Right: all five. No GPU is needed.
//
// Difficulty 1 of 5, about 5 minutes.
//
//   cmake --build build/release --target your_diverge
//   build/release/06_shared_reduce/your_diverge
#include "diverge.hpp"

namespace {

// [your turn]

// Every other lane divides every warp. The first 100 threads are three whole warps and 4 lanes of
// the fourth, which is the only divergent one. What is the same for 32 neighbours divides no warp.
// 16 of each 64 threads divide the first warp of two; in the second no lane takes the branch.

/// Divergent warps of eight.
constexpr double even = 8;         // threadIdx.x % 2 == 0
constexpr double first = 1;        // threadIdx.x < 100
constexpr double whole_warps = 0;  // threadIdx.x / 32 % 2 == 0
constexpr double quarter = 4;      // threadIdx.x % 64 < 16
constexpr double upper = 0;        // threadIdx.x >= 128

// [/your turn]

}  // namespace

YOUR_TURN(diverge, Diverge, {even, first, whole_warps, quarter, upper});
