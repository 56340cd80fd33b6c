// constants: a prediction. A table in constant memory is read by the warps of a block of 256
// threads. The constant cache serves one word at a time, to all lanes of the warp that want this
// word. For each further word of the same load the hardware asks again. The comments below give the
// loads. How many requests does each of them take per warp?
//
// Right: all five numbers.
//
// Difficulty 1 of 5, about 5 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_constants
//   build/release/01_memory_model/your_constants

// [your turn]

/// Requests per warp.
constexpr int same = 0;     // table[blockIdx.x]
constexpr int lane = 0;     // table[threadIdx.x % 32]
constexpr int fours = 0;    // table[threadIdx.x % 4]
constexpr int eighths = 0;  // table[threadIdx.x % 32 / 8]
constexpr int warps = 0;    // table[threadIdx.x / 32]

// [/your turn]

#include "constants_check.hpp"
