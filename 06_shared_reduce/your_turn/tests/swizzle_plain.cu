// answer: right, but 32 wavefronts for a column; 1 will do
#include "swizzle.hpp"

namespace {

unsigned place(unsigned row, unsigned column) { return 32 * row + column; }

}  // namespace

YOUR_TURN(swizzle, Swizzle, {place});
