// Answers to points that are wrong or dear, and what the check has to say of them.
#include "points.hpp"

namespace {

// answer points_of_structs: right, but 12 sectors a request with n = 32; 4 will do
namespace of_structs {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return 3 * i + field; }

YOUR_TURN_TEST(points, of_structs, Points, {words_for, word_of});

}  // namespace of_structs

// answer points_unaligned: right, but 5 sectors a request with n = 33; 4 will do
namespace unaligned {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return field * n + i; }

YOUR_TURN_TEST(points, unaligned, Points, {words_for, word_of});

}  // namespace unaligned

// answer points_outside: not yet: n = 1: 2 of 3 places are wrong, the first that of y of point 0:
// word 32 is out of bounds, the array has 3
namespace outside {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return i / 32 * 96 + field * 32 + i % 32; }

YOUR_TURN_TEST(points, outside, Points, {words_for, word_of});

}  // namespace outside

// answer points_endless: not yet: n = 1: does not end within [0-9]+ s
namespace endless {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) {
  volatile size_t word = i;
  while (word != n) word = i;
  return word;
}

YOUR_TURN_TEST(points, endless, Points, {words_for, word_of});

}  // namespace endless

// answer points_crash: not yet: n = 1: crashes [(]Segmentation fault[)]
namespace crash {

size_t words_for(size_t n) {
  static volatile size_t* nowhere = nullptr;
  return *nowhere;
}

size_t word_of(size_t i, Field field, size_t n) { return 0; }

YOUR_TURN_TEST(points, crash, Points, {words_for, word_of});

}  // namespace crash

}  // namespace
