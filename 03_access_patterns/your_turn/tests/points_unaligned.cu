// answer: right, but 5 sectors a request with n = 33; 4 will do
#include "points.hpp"

namespace {

size_t words_for(size_t n) { return 3 * n; }

size_t word_of(size_t i, Field field, size_t n) { return field * n + i; }

}  // namespace

YOUR_TURN(points, Points, {words_for, word_of});
