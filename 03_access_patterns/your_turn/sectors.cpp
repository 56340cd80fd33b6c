// sectors: a prediction. A warp reads an array of words of 4 bytes, which begins on a sector of 32
// bytes. Each lane reads one word. The comments below give the index expressions; i is the lane,
// from 0 to 31. How many sectors does each request move?
//
// Right: all five.
//
// Difficulty 1 of 5, about 5 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_sectors
//   build/release/03_access_patterns/your_sectors

// [your turn]

/// Sectors of one request.
constexpr unsigned straight = 0;   // in[i]
constexpr unsigned shifted = 0;    // in[i + 1]
constexpr unsigned strided = 0;    // in[8 * i]
constexpr unsigned fourfold = 0;   // in[i / 4]
constexpr unsigned backwards = 0;  // in[31 - i]

// [/your turn]

#include "sectors_check.hpp"
