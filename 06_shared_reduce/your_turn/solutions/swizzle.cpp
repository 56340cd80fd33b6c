// swizzle: a tile of 32 x 32 words lies in shared memory. A warp stores it by rows (lane i has
// column i) and loads it by columns (lane i has row i). With element (row, column) at word
// 32 * row + column, the words of a column lie in one bank and take 32 wavefronts. A row of 33
// words cures that, and costs 32 words more. Find places that do without.
//
// Right: each element has a word of its own among 1024. Cheap: one wavefront for every row and for
// every column.
//
// Difficulty 4 of 5, about 25 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_swizzle
//   build/release/06_shared_reduce/your_swizzle

// [your turn]

// Each row keeps its words in an order of its own: column ^ row. Within a row, different columns
// give different banks; within a column, different rows do. (A rotation does it too:
// (column + row) % 32.)

/// The word, from 0 to 1023, in which the element of this row and column lies (0 to 31 each).
unsigned place(unsigned row, unsigned column) { return 32 * row + (column ^ row); }

// [/your turn]

#include "../swizzle_check.hpp"

WRONG_ANSWER("rows as they are") {
  check_wavefronts([](unsigned row, unsigned column) { return 32 * row + column; });
}
WRONG_ANSWER("padding, for which there is no room") {
  check_words([](unsigned row, unsigned column) { return 33 * row + column; });
}
WRONG_ANSWER("swapped by an or, which two columns share") {
  check_words([](unsigned row, unsigned column) { return 32 * row + (column | row); });
}
