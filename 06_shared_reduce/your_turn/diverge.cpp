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

/// Divergent warps of eight.
constexpr int even = -1;         // threadIdx.x % 2 == 0
constexpr int first = -1;        // threadIdx.x < 100
constexpr int whole_warps = -1;  // threadIdx.x / 32 % 2 == 0
constexpr int quarter = -1;      // threadIdx.x % 64 < 16
constexpr int upper = -1;        // threadIdx.x >= 128

// [/your turn]

#include "diverge_check.hpp"
