// What tile.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

/// A thread of the launch: blockIdx.x and .y, threadIdx.x and .y.
struct Thread {
  unsigned bx, by;
  unsigned tx, ty;
};

/// Indices of words of the input and of the output; -1: this thread loads (or stores) nothing.
struct Move {
  long long memory;  ///< in the input, or the output
  unsigned tile;     ///< in the block's tile
};

struct Tile {
  unsigned tile_words;
  Move (*load)(Thread t, unsigned step, unsigned nx, unsigned ny);
  Move (*store)(Thread t, unsigned step, unsigned nx, unsigned ny);
};

void check_tile(const Tile& yours, const Tile& solution);
