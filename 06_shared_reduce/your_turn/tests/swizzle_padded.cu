// answer: not yet: 31 of 1024 places are wrong, the first at row 31, column 1: word 1024 is out of
// bounds, there are 1024
#include "swizzle.hpp"

namespace {

unsigned place(unsigned row, unsigned column) { return 33 * row + column; }

}  // namespace

YOUR_TURN(swizzle, Swizzle, {place});
