// transpose: a matrix of ny rows of nx words becomes one of nx rows of ny words,
// out[column * ny + row] = in[row * nx + column].
//
// Right: every word, also where nx and ny are no multiples of 32, and no word out of bounds. Cheap:
// at most 1.6 times as long as a copy of the same bytes. The page has shown why writing down a
// column takes 7 times as long. When it is done, put it into ../transpose.cu, at the two places
// that say "add yours here", and see it in the table beside the others.
//
// Difficulty 3 of 5, about 25 minutes. Needs a GPU.
//
//   cmake --build build/release --target your_transpose
//   build/release/04_bandwidth/your_transpose

// [your turn]

// 32 x 8 threads per block, a block per 32 x 32 words.
__global__ void transpose(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[32][33];  // 33: a column of the tile lies in 32 banks
  const unsigned ix = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned iy = blockIdx.y * 32 + y;
    if (ix < nx && iy < ny) tile[y][threadIdx.x] = in[size_t(iy) * nx + ix];
  }
  __syncthreads();
  const unsigned iy = blockIdx.y * 32 + threadIdx.x;
  for (unsigned x = threadIdx.y; x < 32; x += 8) {
    const unsigned column = blockIdx.x * 32 + x;
    if (column < nx && iy < ny) out[size_t(column) * ny + iy] = tile[threadIdx.x][x];
  }
}

// [/your turn]

#include "../transpose_check.hpp"

/// By rows of the input, or through a tile without padding or without a barrier.
template <unsigned pitch, bool barrier>
__global__ void nearly(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[32][pitch];
  const unsigned column = blockIdx.x * 32, row = blockIdx.y * 32, tx = threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8)
    if (column + tx < nx && row + y < ny) tile[y][tx] = in[size_t(row + y) * nx + column + tx];
  if (barrier) __syncthreads();
  for (unsigned x = threadIdx.y; x < 32; x += 8)
    if (column + x < nx && row + tx < ny) out[size_t(column + x) * ny + row + tx] = tile[tx][x];
}

__global__ void by_columns(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned iy = blockIdx.y * 32 + y;
    if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
  }
}

WRONG_ANSWER("no barrier between writing the tile and reading it") {
  if (skip_without_gpu()) FAIL("not run");
  check_words(nearly<33, false>);
}
WRONG_ANSWER("columns are written") {
  if (skip_without_gpu()) FAIL("not run");
  check_time(by_columns);
}
WRONG_ANSWER("a tile whose columns lie in one bank") {
  if (skip_without_gpu()) FAIL("not run");
  check_time(nearly<32, true>);
}
