// answer: not yet: 33 x 31: [0-9]+ of 1023 words are wrong, the first at [0-9]+: expected [0-9]+,
// found nothing
#include "transpose.hpp"

namespace {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  __shared__ unsigned tile[32][32];
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned row = blockIdx.y * 32 + y;
    if (column < nx && row < ny) tile[y][threadIdx.x] = in[size_t(row) * nx + column];
  }
  __syncthreads();
  const unsigned row = blockIdx.y * 32 + threadIdx.x;
  for (unsigned x = threadIdx.y; x < 32; x += 8) {
    const unsigned column_out = blockIdx.x * 32 + x;
    if (column_out < ny && row < nx) out[size_t(column_out) * ny + row] = tile[threadIdx.x][x];
  }
}

}  // namespace

YOUR_TURN(transpose, Transpose, {transpose});
