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

// The bank with the most different words decides. With a factor f, lane i is in bank f * i % 32. As
// many lanes meet in a bank as the greatest common divisor of f and 32 says. So odd factors take
// one wavefront, and 2, 8 and 32 take 2, 8 and 32. Lanes that want the same word do not conflict:
// tile[i / 2] takes one wavefront. Two words of one bank take two.

/// Wavefronts of one request.
constexpr int halved = 1;     // tile[i / 2]
constexpr int doubled = 2;    // tile[2 * i]
constexpr int tripled = 1;    // tile[3 * i]
constexpr int eightfold = 8;  // tile[8 * i]
constexpr int column = 32;    // tile[32 * i]
constexpr int padded = 1;     // tile[33 * i]
constexpr int two_words = 2;  // tile[32 * (i % 2)]

// [/your turn]

#include "../banks_check.hpp"

WRONG_ANSWER("lanes that want one word conflict") {
  check({2, doubled, tripled, eightfold, column, padded, 16});
}
WRONG_ANSWER("a factor of three takes three") {
  check({halved, doubled, 3, eightfold, column, padded, two_words});
}
