// banks: a prediction. A warp reads words of 4 bytes in shared memory, which has 32 banks: word w
// is in bank w % 32. In one wavefront each bank gives one word, to all lanes that want this word.
// The comments below give seven index expressions; i is the lane, from 0 to 31. How many wavefronts
// does each request take?
//
// Right: all seven.
//
// Difficulty 1 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_banks
//   build/release/06_shared_reduce/your_banks

// [your turn]

/// Wavefronts of one request.
constexpr int halved = 0;     // tile[i / 2]
constexpr int doubled = 0;    // tile[2 * i]
constexpr int tripled = 0;    // tile[3 * i]
constexpr int eightfold = 0;  // tile[8 * i]
constexpr int column = 0;     // tile[32 * i]
constexpr int padded = 0;     // tile[33 * i]
constexpr int two_words = 0;  // tile[32 * (i % 2)]

// [/your turn]

#include "banks_check.hpp"
