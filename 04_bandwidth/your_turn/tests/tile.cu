// Answers to tile that are wrong or dear, and what the check has to say of them.
#include "tile.hpp"

namespace {

// answer tile_scattered: right, but 32 sectors a request to write the output; 4 will do
namespace scattered {

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

YOUR_TURN_TEST(tile, scattered, Tile, {tile_words, load, store});

}  // namespace scattered

// answer tile_conflicts: right, but 32 wavefronts a request to read the tile; 1 will do
namespace conflicts {

constexpr unsigned tile_words = 1024;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, y * 32 + t.tx};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)column * ny + row, t.tx * 32 + x};
}

YOUR_TURN_TEST(tile, conflicts, Tile, {tile_words, load, store});

}  // namespace conflicts

// answer tile_too_short: not yet: 32 x 32: block [(]0, 0[)], thread [(]1, 7[)], step 3 is out of
// bounds, it takes word 1024 of the tile's 1024
namespace too_short {

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

YOUR_TURN_TEST(tile, too_short, Tile, {tile_words, load, store});

}  // namespace too_short

// answer tile_lost: not yet: 33 x 31: [0-9]+ of 1023 words are wrong, the first at row 31, column 0
// of the output: expected word 31 of the input, found nothing
namespace lost {

constexpr unsigned tile_words = 33 * 32;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, y * 33 + t.tx};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= ny || row >= nx) return {-1, 0};
  return {(long long)column * ny + row, t.tx * 33 + x};
}

YOUR_TURN_TEST(tile, lost, Tile, {tile_words, load, store});

}  // namespace lost

// answer tile_write_conflicts: right, but 32 wavefronts a request to write the tile; 1 will do
namespace write_conflicts {

constexpr unsigned tile_words = 1024;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step, column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, t.tx * 32 + y};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)column * ny + row, x * 32 + t.tx};
}

YOUR_TURN_TEST(tile, write_conflicts, Tile, {tile_words, load, store});

}  // namespace write_conflicts

// answer tile_read_scattered: right, but 32 sectors a request to read the input; 4 will do
namespace read_scattered {

constexpr unsigned tile_words = 33 * 32;

Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)row * nx + column, t.tx * 33 + x};
}

Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step, column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)column * ny + row, t.tx * 33 + x};
}

YOUR_TURN_TEST(tile, read_scattered, Tile, {tile_words, load, store});

}  // namespace read_scattered

}  // namespace
