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

/// Divergent warps of eight.
constexpr double even = -1;         // threadIdx.x % 2 == 0
constexpr double first = -1;        // threadIdx.x < 100
constexpr double whole_warps = -1;  // threadIdx.x / 32 % 2 == 0
constexpr double quarter = -1;      // threadIdx.x % 64 < 16
constexpr double upper = -1;        // threadIdx.x >= 128

// [/your turn]

}  // namespace

YOUR_TURN(diverge, Diverge, {even, first, whole_warps, quarter, upper});
