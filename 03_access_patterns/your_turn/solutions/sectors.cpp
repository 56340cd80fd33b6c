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

// A sector has eight words: sectors = the different values of index / 8. 32 neighbours fill four;
// one word further they reach into a fifth. Eight words apart each has a sector of its own. Four
// lanes to a word leave eight words: one sector. The order of the lanes makes no difference.

/// Sectors of one request.
constexpr unsigned straight = 4;   // in[i]
constexpr unsigned shifted = 5;    // in[i + 1]
constexpr unsigned strided = 32;   // in[8 * i]
constexpr unsigned fourfold = 1;   // in[i / 4]
constexpr unsigned backwards = 4;  // in[31 - i]

// [/your turn]

#include "../sectors_check.hpp"

WRONG_ANSWER("a word further makes no difference") {
  check({straight, 4, strided, fourfold, backwards});
}
WRONG_ANSWER("backwards each lane has its own") {
  check({straight, shifted, strided, fourfold, 32});
}
