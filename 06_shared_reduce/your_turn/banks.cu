// banks: a prediction. A warp reads words of 4 bytes in shared memory, which has 32 banks: word w
// is in bank w % 32. In one wavefront each bank gives one word, to all lanes that want this word.
// The comments below give the index expressions; i is the lane, from 0 to 31. How many wavefronts
// does each request take?
//
// Right: all seven. No GPU is needed.
//
// Difficulty 1 of 5, about 10 minutes.
//
//   cmake --build build/release --target your_banks
//   build/release/06_shared_reduce/your_banks
#include "banks.hpp"

namespace {

// [your turn]

/// Wavefronts of one request.
constexpr double halved = 0;     // tile[i / 2]
constexpr double doubled = 0;    // tile[2 * i]
constexpr double tripled = 0;    // tile[3 * i]
constexpr double eightfold = 0;  // tile[8 * i]
constexpr double column = 0;     // tile[32 * i]
constexpr double padded = 0;     // tile[33 * i]
constexpr double two_words = 0;  // tile[32 * (i % 2)]

// [/your turn]

}  // namespace

YOUR_TURN(banks, Banks, {halved, doubled, tripled, eightfold, column, padded, two_words});
