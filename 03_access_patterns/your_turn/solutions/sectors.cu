// sectors: a prediction. A warp reads an array of words of 4 bytes, which begins on a sector of 32
// bytes. Each lane reads one word. The comments below give the index expressions; i is the lane,
// from 0 to 31. How many sectors does each request move?
//
// Right: all five. No GPU is needed.
//
// Difficulty 1 of 5, about 5 minutes.
//
//   cmake --build build/release --target your_sectors
//   build/release/03_access_patterns/your_sectors
#include "sectors.hpp"

namespace {

// [your turn]

// A sector has eight words: sectors = the different values of index / 8. 32 neighbours fill four;
// one word further they reach into a fifth. Eight words apart each has a sector of its own. Four
// lanes to a word leave eight words: one sector. The order of the lanes makes no difference.

/// Sectors of one request.
constexpr double straight = 4;   // in[i]
constexpr double shifted = 5;    // in[i + 1]
constexpr double strided = 32;   // in[8 * i]
constexpr double fourfold = 1;   // in[i / 4]
constexpr double backwards = 4;  // in[31 - i]

// [/your turn]

}  // namespace

YOUR_TURN(sectors, Sectors, {straight, shifted, strided, fourfold, backwards});
