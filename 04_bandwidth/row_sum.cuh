// What threads.cu and blocks.cu share: the text's sum by rows in 4-byte words, whole numbers to
// sum, and how the sums are checked exactly.
#pragma once

#include <doctest/doctest.h>

#include "../common/first_edition.hpp"

constexpr unsigned columns = 12288;  // the text's; a row begins at a multiple of 128 bytes

/// Word of the array at `row` and `col`.
__host__ __device__ inline size_t element(unsigned row, unsigned col) {
  return size_t(row) * columns + col;
}

// A block takes rows. A warp reads 32 neighbouring words of one; they begin at a sector's start as
// long as the block has a multiple of 8 threads, and fill their last warp if it is one of 32.
static __global__ void sum_by_rows(float* out, const float* in, unsigned rows) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) sum += in[element(row, col)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// A whole number from 1 to 16 without pattern: sums of up to 2^20 such are exact in float.
__host__ __device__ inline float whole_number(size_t i) {
  unsigned x = unsigned(i) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return float(1 + (x >> 28));
}

// Adds up what the threads found; what was never written is no number and spoils the total.
static __global__ void add_up(const float* sums, unsigned n, unsigned long long* total) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(total, sums[i] >= 0 ? (unsigned long long)sums[i] : 1ull << 60);
}

/// The total of what `n` threads found; `total` is where the GPU adds it up.
inline unsigned long long added_up(const DeviceBuffer<float>& sums, unsigned n,
                                   const DeviceBuffer<unsigned long long>& total) {
  CUDA_CHECK(cudaMemset(total.data(), 0, total.bytes()));
  add_up<<<256, 256>>>(sums.data(), n, total.data());
  CUDA_CHECK_LAUNCH();
  return total.to_host()[0];
}

/// For self-checks: what the host adds up to in an array that the GPU wrote, each of whose numbers
/// it checks.
inline unsigned long long total_by_host(const DeviceBuffer<float>& array) {
  const std::vector<float> in = array.to_host();
  unsigned long long total = 0, wrong = 0;
  for (size_t i = 0; i < in.size(); ++i)
    total += (unsigned long long)whole_number(i), wrong += in[i] != whole_number(i);
  CHECK(wrong == 0);
  return total;
}

inline unsigned ceil_div(unsigned n, unsigned by) { return (n + by - 1) / by; }
