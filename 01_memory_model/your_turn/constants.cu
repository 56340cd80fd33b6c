// constants: a prediction. A table in constant memory is read by the warps of a block of 256
// threads. The constant cache serves one word at a time, to all lanes of the warp that want this
// word; for each further word of the same load the hardware asks again. The comments below give the
// loads. How many requests does each of them take per warp?
//
// Right: all five. No GPU is needed.
//
// Difficulty 1 of 5, about 5 minutes.
//
//   cmake --build build/release --target your_constants
//   build/release/01_memory_model/your_constants
#include "constants.hpp"

namespace {

// [your turn]

/// Requests per warp.
constexpr double same = 0;     // table[blockIdx.x]
constexpr double lane = 0;     // table[threadIdx.x % 32]
constexpr double fours = 0;    // table[threadIdx.x % 4]
constexpr double eighths = 0;  // table[threadIdx.x % 32 / 8]
constexpr double warps = 0;    // table[threadIdx.x / 32]

// [/your turn]

}  // namespace

YOUR_TURN(constants, Constants, {same, lane, fours, eighths, warps});
