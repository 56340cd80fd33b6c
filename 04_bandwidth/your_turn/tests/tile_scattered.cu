// answer: right, but 32 sectors a request to write the output; 4 will do
#include "tile.hpp"

namespace {

constexpr unsigned tile_words = 1024;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, y * 32 + t.tx};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)column * ny + row, y * 32 + t.tx};
}

}  // namespace

YOUR_TURN(tile, Tile, {tile_words, load, store});
