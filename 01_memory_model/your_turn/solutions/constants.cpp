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

// Requests are the different words that a warp wants. All lanes of a warp have the same blockIdx.x,
// and the same threadIdx.x / 32: one request, which is what constant memory is for. By the lane it
// is 32. Four different words are four requests, in whatever order the lanes want them.

/// Requests per warp.
constexpr int same = 1;     // table[blockIdx.x]
constexpr int lane = 32;    // table[threadIdx.x % 32]
constexpr int fours = 4;    // table[threadIdx.x % 4]
constexpr int eighths = 4;  // table[threadIdx.x % 32 / 8]
constexpr int warps = 1;    // table[threadIdx.x / 32]

// [/your turn]

#include "../constants_check.hpp"

WRONG_ANSWER("equal words are one request only for neighbouring lanes") {
  check({same, lane, 32, eighths, warps});
}
WRONG_ANSWER("the block's eight warps are counted together") {
  check({same, lane, fours, eighths, 8});
}
