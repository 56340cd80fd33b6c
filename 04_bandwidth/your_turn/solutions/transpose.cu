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

// A warp reads 32 neighbours of a row of the input and writes 32 neighbours of a row of the output:
// 4 sectors each. The turn is done in shared memory, where a row of 33 words puts the 32 words of a
// column into 32 banks. Without the tile one side takes 32 sectors; without the 33rd word the
// tile's column takes 32 wavefronts.

/// Writes the transposed matrix.
__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  __shared__ unsigned tile[32][33];
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {  // load the tile by rows
    const unsigned row = blockIdx.y * 32 + y;
    if (column < nx && row < ny) tile[y][threadIdx.x] = in[size_t(row) * nx + column];
  }
  __syncthreads();  // the tile's columns are other warps' work
  const unsigned row = blockIdx.y * 32 + threadIdx.x;
  for (unsigned x = threadIdx.y; x < 32; x += 8) {  // store it by columns
    const unsigned column_out = blockIdx.x * 32 + x;
    if (column_out < nx && row < ny) out[size_t(column_out) * ny + row] = tile[threadIdx.x][x];
  }
}

// [/your turn]

}  // namespace

YOUR_TURN(transpose, Transpose, {transpose});
