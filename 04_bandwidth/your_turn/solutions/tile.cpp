// tile: a matrix of ny rows of nx words is transposed through shared memory. Word (row, column) of
// the input, number row * nx + column, becomes word (column, row) of the output, number
// column * ny + row. A block of 32 x 8 threads takes 32 x 32 words in four steps. There are as many
// blocks as it takes to cover the input, (nx + 31) / 32 across and (ny + 31) / 32 down:
//
//   __shared__ unsigned tile[tile_words];
//   for (unsigned step = 0; step < 4; ++step)                 // load
//     tile[load.tile] = in[load.memory];
//   __syncthreads();
//   for (unsigned step = 0; step < 4; ++step)                 // store
//     out[store.memory] = tile[store.tile];
//
// Write which words each thread moves. Right: no word is lost and none is out of bounds, also where
// nx and ny are no multiples of 32. Cheap: a warp (32 neighbours in tx) moves 4 sectors per request
// to read the input and 4 to write the output, and takes 1 wavefront to write the tile and 1 to
// read it. Shared memory has 32 banks: word w lies in bank w % 32, and different words of one bank
// take a wavefront each. transpose.cu is the same as a kernel.
//
// Difficulty 4 of 5, about 40 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_tile
//   build/release/04_bandwidth/your_tile

struct Thread {
  unsigned bx, by;  // blockIdx
  unsigned tx, ty;  // threadIdx
};

struct Move {
  long long memory;  // a word of the input, or of the output; -1: this thread moves nothing
  unsigned tile;     // a word of the block's tile
};

// [your turn]

// Both times tx runs along a row of the matrix in memory: 32 neighbours, 4 sectors. What is turned
// is the tile: written by rows, read by columns. A row of 33 words puts the words of a column into
// 32 banks. The bounds are those of the word that is moved: when it stores, a thread has another
// word than the one it loaded.
constexpr unsigned pitch = 33;
constexpr unsigned tile_words = 32 * pitch;

/// {the word of the input that thread t loads in a step, where in the tile it puts it}.
Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned y = t.ty + 8 * step;  // row of the tile
  const unsigned column = 32 * t.bx + t.tx, row = 32 * t.by + y;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)(row)*nx + column, y * pitch + t.tx};
}

/// {the word of the output that thread t stores in a step, where in the tile it is}.
Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const unsigned x = t.ty + 8 * step;  // column of the tile
  const unsigned column = 32 * t.bx + x, row = 32 * t.by + t.tx;
  if (column >= nx || row >= ny) return {-1, 0};
  return {(long long)(column)*ny + row, t.tx * pitch + x};
}

// [/your turn]

#include "../tile_check.hpp"

/// Stores the word that the thread has loaded.
Move store_own(Thread t, unsigned step, unsigned nx, unsigned ny) {
  const Move own = load(t, step, nx, ny);
  if (own.memory < 0) return own;
  return {own.memory % nx * ny + own.memory / nx, own.tile};
}

WRONG_ANSWER("the block's bounds when it loads are those when it stores") {
  check_words(load, [](Thread t, unsigned step, unsigned nx, unsigned ny) {
    return load(t, step, nx, ny).memory < 0 ? Move{-1, 0} : store(t, step, nx, ny);
  });
}
WRONG_ANSWER("each thread stores what it has loaded: down a column") {
  check_sectors(load, store_own);
}
WRONG_ANSWER("a tile of 32 words per row") {
  check_wavefronts(load, [](Thread t, unsigned step, unsigned nx, unsigned ny) {
    const Move right = store(t, step, nx, ny);
    return Move{right.memory, right.tile / pitch * 32 + right.tile % pitch};
  });
}
