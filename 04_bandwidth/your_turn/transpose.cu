// transpose: what tile.cu computes, as a kernel. A matrix of ny rows of nx words becomes one of nx
// rows of ny words: out[column * ny + row] = in[row * nx + column]. There are 32 x 8 threads in a
// block and a block for each 32 x 32 words, (nx + 31) / 32 across and (ny + 31) / 32 down.
//
// Right: every word, for nx and ny that are no multiples of 32, and no word out of bounds. Cheap:
// no more than 1.5 times the solution's time, of 8192 x 8192 words, in turn. That is what the page
// teaches: on an H200 whoever has conflicts in the tile takes 1.9 times as long, whoever writes
// down columns 6.6 times. How the loops are unrolled and the borders tested is worth up to 1.3
// times and is not asked for. This needs a GPU.
//
// Difficulty 3 of 5, about 25 minutes.
//
//   cmake --build build/release --target your_transpose
//   build/release/04_bandwidth/your_transpose
#include "transpose.hpp"

namespace {

// [your turn]

/// Writes the transposed matrix.
__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  // write it
}

// [/your turn]

}  // namespace

YOUR_TURN(transpose, Transpose, {transpose});
