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

constexpr unsigned tile_words = 1024;

/// {the word of the input that thread t loads in a step, where in the tile it puts it}.
Move load(Thread t, unsigned step, unsigned nx, unsigned ny) {
  return {-1, 0};  // write it
}

/// {the word of the output that thread t stores in a step, where in the tile it is}.
Move store(Thread t, unsigned step, unsigned nx, unsigned ny) {
  return {-1, 0};  // write it
}

// [/your turn]

#include "tile_check.hpp"
