// Checks swizzle.cu: every element has a place of its own among 1024 words, and 32 lanes reach a
// row, or a column, in one wavefront.
#include <algorithm>

#include "swizzle.hpp"

namespace {

constexpr unsigned side = 32;

std::string named(unsigned row, unsigned column) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column);
}

void require_right(const Swizzle& yours) {
  constexpr unsigned no_one = ~0u;
  std::vector<unsigned> owner(side * side, no_one);
  your_turn::Wrong wrong("", "places");
  for (unsigned row = 0; row < side; ++row)
    for (unsigned column = 0; column < side; ++column) {
      const unsigned word = yours.place(row, column);
      const bool there = word < owner.size();
      const bool right = there && owner[word] == no_one;
      wrong.add(right, [&] {
        const std::string text = "at " + named(row, column) + ": word " + std::to_string(word);
        if (!there) return text + " is out of bounds, there are 1024";
        return text + " is that of " + named(owner[word] / side, owner[word] % side);
      });
      if (right) owner[word] = row * side + column;
    }
  wrong.require_none();
}

/// The most wavefronts that a row takes, or a column.
int most_wavefronts(const Swizzle& yours, bool of_rows) {
  int most = 0;
  for (unsigned fixed = 0; fixed < side; ++fixed) {
    your_turn::WarpWords words;
    for (unsigned lane = 0; lane < side; ++lane)
      words[lane] = of_rows ? yours.place(fixed, lane) : yours.place(lane, fixed);
    most = std::max(most, your_turn::wavefronts(words));
  }
  return most;
}

}  // namespace

void check_swizzle(const Swizzle& yours, const Swizzle&) {
  your_turn::watch("a tile of 32 x 32");
  require_right(yours);
  const int row = most_wavefronts(yours, true), column = most_wavefronts(yours, false);
  if (row > 1 || column > 1)
    throw your_turn::Dear(std::to_string(std::max(row, column)) + " wavefronts for a " +
                          (row > column ? "row" : "column") + "; 1 will do");
}
