// answer: not yet: n = 1: crashes [(]Segmentation fault[)]
#include "points.hpp"

namespace {

size_t words_for(size_t n) {
  static volatile size_t* nowhere = nullptr;
  return *nowhere;
}

size_t word_of(size_t i, Field field, size_t n) { return 0; }

}  // namespace

YOUR_TURN(points, Points, {words_for, word_of});
