// answer: not yet: 1 x 1: the kernel (reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|writes out of bounds, behind its output)
#include "transpose.hpp"

namespace {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned row = blockIdx.y * 32 + y;
    out[size_t(column) * ny + row] = in[size_t(row) * nx + column];
  }
}

}  // namespace

YOUR_TURN(transpose, Transpose, {transpose});
