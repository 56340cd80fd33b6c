// Answers to swizzle that are wrong or dear, and what the check has to say of them.
#include "swizzle.hpp"

namespace {

// answer swizzle_plain: right, but 32 wavefronts for a column; 1 will do
namespace plain {

unsigned place(unsigned row, unsigned column) { return 32 * row + column; }

YOUR_TURN_TEST(swizzle, plain, Swizzle, {place});

}  // namespace plain

// answer swizzle_padded: not yet: 31 of 1024 places are wrong, the first at row 31, column 1: word
// 1024 is out of bounds, there are 1024
namespace padded {

unsigned place(unsigned row, unsigned column) { return 33 * row + column; }

YOUR_TURN_TEST(swizzle, padded, Swizzle, {place});

}  // namespace padded

// answer swizzle_collision: not yet: [0-9]+ of 1024 places are wrong, the first at row 1, column 1:
// word 33 is that of row 1, column 0
namespace collision {

unsigned place(unsigned row, unsigned column) { return 32 * row + (column | row); }

YOUR_TURN_TEST(swizzle, collision, Swizzle, {place});

}  // namespace collision

// answer swizzle_turned: right, but 32 wavefronts for a row; 1 will do
namespace turned {

unsigned place(unsigned row, unsigned column) { return 32 * column + row; }

YOUR_TURN_TEST(swizzle, turned, Swizzle, {place});

}  // namespace turned

}  // namespace
