// answer: not yet: 32 x 32: block [(]0, 0[)], thread [(]1, 7[)], step 3 is out of bounds, it takes
// word 1024 of the tile's 1024
#include "tile.hpp"

namespace {

constexpr unsigned tile_words = 1024;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, y * 33 + t.tx};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)column * ny + row, t.tx * 33 + x};
}

}  // namespace

YOUR_TURN(tile, Tile, {tile_words, load, store});
