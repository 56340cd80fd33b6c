// answer: not yet: n = 1: 2 of 3 places are wrong, the first that of y of point 0: word 32 is out
// of bounds, the array has 3
#include "points.hpp"

namespace {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return i / 32 * 96 + field * 32 + i % 32; }

}  // namespace

YOUR_TURN(points, Points, {words_for, word_of});
