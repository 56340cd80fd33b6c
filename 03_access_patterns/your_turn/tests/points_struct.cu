// answer: right, but 12 sectors a request with n = 32; 4 will do
#include "points.hpp"

namespace {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return 3 * i + field; }

}  // namespace

YOUR_TURN(points, Points, {words_for, word_of});
