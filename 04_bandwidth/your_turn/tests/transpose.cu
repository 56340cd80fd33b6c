// Answers to transpose that are wrong or dear, and what the check has to say of them; the last is
// done, as plain as it is.
#include "transpose.hpp"

namespace {

// answer transpose_scattered: right, but ([0-9.]+x slower [(][0-9.]+ to [0-9.]+[)]|about [0-9]+x
// slower) than the solution
namespace scattered {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned row = blockIdx.y * 32 + y;
    if (column < nx && row < ny) out[size_t(column) * ny + row] = in[size_t(row) * nx + column];
  }
}

YOUR_TURN_TEST(transpose, scattered, Transpose, {transpose});

}  // namespace scattered

// answer transpose_conflicts: right, but ([0-9.]+x slower [(][0-9.]+ to [0-9.]+[)]|about [0-9]+x
// slower) than the solution
namespace conflicts {

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
    if (column_out < nx && row < ny) out[size_t(column_out) * ny + row] = tile[threadIdx.x][x];
  }
}

YOUR_TURN_TEST(transpose, conflicts, Transpose, {transpose});

}  // namespace conflicts

// answer transpose_swapped: not yet: 33 x 31: [0-9]+ of 1023 words are wrong, the first at [0-9]+:
// expected [0-9]+, found ([0-9]+|nothing)
namespace swapped {

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

YOUR_TURN_TEST(transpose, swapped, Transpose, {transpose});

}  // namespace swapped

// answer transpose_unguarded: not yet: 1 x 1: the kernel (reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|writes out of bounds, behind its output)
namespace unguarded {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned row = blockIdx.y * 32 + y;
    out[size_t(column) * ny + row] = in[size_t(row) * nx + column];
  }
}

YOUR_TURN_TEST(transpose, unguarded, Transpose, {transpose});

}  // namespace unguarded

// answer transpose_not_launched: not yet: 1 x 1: the kernel is not launched: .+
// [(]cudaError[A-Za-z]+[)]
namespace not_launched {

// the check launches 256 threads a block
__global__ void __launch_bounds__(128)
    transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  if (nx == 0) out[0] = in[ny];
}

YOUR_TURN_TEST(transpose, not_launched, Transpose, {transpose});

}  // namespace not_launched

// answer transpose_before: not yet: 1 x 1: the kernel writes out of bounds, before its output
namespace before {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  for (unsigned y = threadIdx.y; y < 32; y += 8) {
    const unsigned row = blockIdx.y * 32 + y;
    const bool inside = column < nx && row < ny;
    const size_t word = inside ? size_t(column) * ny + row : ~size_t(0);  // who has none writes -1
    out[word] = inside ? in[size_t(row) * nx + column] : 0;
  }
}

YOUR_TURN_TEST(transpose, before, Transpose, {transpose});

}  // namespace before

// answer transpose_plain: done
namespace plain {

__global__ void transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  __shared__ unsigned tile[32][33];
#pragma unroll 1  // each step waits for its load before the next is asked for
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned x = blockIdx.x * 32 + threadIdx.x;
    const unsigned y = blockIdx.y * 32 + threadIdx.y + 8 * step;
    if (x < nx && y < ny) tile[threadIdx.y + 8 * step][threadIdx.x] = in[size_t(y) * nx + x];
  }
  __syncthreads();
#pragma unroll 1
  for (unsigned step = 0; step < 4; ++step) {
    const unsigned x = blockIdx.y * 32 + threadIdx.x;
    const unsigned y = blockIdx.x * 32 + threadIdx.y + 8 * step;
    if (x < ny && y < nx) out[size_t(y) * ny + x] = tile[threadIdx.x][threadIdx.y + 8 * step];
  }
}

YOUR_TURN_TEST(transpose, plain, Transpose, {transpose});

}  // namespace plain

}  // namespace
