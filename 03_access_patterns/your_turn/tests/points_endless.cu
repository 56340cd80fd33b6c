// answer: not yet: n = 1: does not end within [0-9]+ s
#include "points.hpp"

namespace {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) {
  volatile size_t word = i;
  while (word != n) word = i;
  return word;
}

}  // namespace

YOUR_TURN(points, Points, {words_for, word_of});
