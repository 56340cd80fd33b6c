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

// What counts is the bank with the most different words. With a factor f, lane i is in bank
// f x i % 32: f and 32 have to have no common divisor, else as many lanes meet as that divisor is.
// So odd factors are free, and 2, 8 and 32 take 2, 8 and 32. Lanes that want the same word do not
// meet: half of the words is one wavefront, and two words of one bank are two.

/// Wavefronts of one request.
constexpr double halved = 1;     // tile[i / 2]
constexpr double doubled = 2;    // tile[2 * i]
constexpr double tripled = 1;    // tile[3 * i]
constexpr double eightfold = 8;  // tile[8 * i]
constexpr double column = 32;    // tile[32 * i]
constexpr double padded = 1;     // tile[33 * i]
constexpr double two_words = 2;  // tile[32 * (i % 2)]

// [/your turn]

}  // namespace

YOUR_TURN(banks, Banks, {halved, doubled, tripled, eightfold, column, padded, two_words});
