// answer: not yet: [0-9]+ of 1024 places are wrong, the first at row 1, column 1: word 33 is that
// of row 1, column 0
#include "swizzle.hpp"

namespace {

unsigned place(unsigned row, unsigned column) { return 32 * row + (column | row); }

}  // namespace

YOUR_TURN(swizzle, Swizzle, {place});
