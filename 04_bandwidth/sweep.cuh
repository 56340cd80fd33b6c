// The study's sum by rows [BW], its check, and its model: what threads.cu and blocks.cu share.
#pragma once

#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

// A block takes every `blocks`-th row, and steps along it. A warp reads 32 neighbouring words: 4
// sectors of 32 bytes. If `threads` is no multiple of 8, warps begin inside a sector, and read 5.
static __global__ void Sum_h(const float* g_idata, float* g_odata, unsigned rows,
                             unsigned columns) {
  const unsigned blocks = gridDim.x;
  const unsigned threads = blockDim.x;
  const unsigned tid = threadIdx.x;
  const unsigned bx = blockIdx.x;
  float sum = 0;
  for (unsigned rowN = bx; rowN < rows; rowN += blocks)
  // one load in flight per thread, whatever the compiler thinks best: the number of threads alone
  // is to decide how many bytes are in flight
#pragma unroll 1
    for (unsigned colN = tid; colN < columns; colN += threads)
      sum += g_idata[size_t(rowN) * columns + colN];
  g_odata[bx * threads + tid] = sum;
}

namespace {

struct Launch {
  unsigned blocks, threads;
};

// ---- the array ----

/// Word i: a whole number from 1 to 256. Sums of up to 65535 of them are exact as floats.
__host__ __device__ inline unsigned number_at(size_t i) { return 1 + (hash(i) >> 24); }

struct Array {
  unsigned rows, columns;
  DeviceBuffer<float> words;
  double bytes() const { return double(words.bytes()); }
};

inline Array array_of(unsigned rows, unsigned columns) {
  const auto word = [] __device__(size_t i) { return float(number_at(i)); };
  return {rows, columns, filled<float>(size_t(rows) * columns, word)};
}

/// The study's 12288 rows of as many words. Quick: shorter rows, so that the array is still four
/// times an L2 of 60 MB.
inline Array study_array(const Run& run) {
  const unsigned columns = run.quick ? 5120 : 12288;
  return array_of(unsigned(run.fitting(12288, 4.0 * columns)), columns);
}

// ---- what is right ----

/// The sum that thread t of the whole launch must find.
__host__ __device__ inline unsigned right_sum(size_t t, Launch launch, unsigned rows,
                                              unsigned columns) {
  const unsigned block = unsigned(t / launch.threads), lane = unsigned(t % launch.threads);
  unsigned sum = 0;
  for (size_t row = block; row < rows; row += launch.blocks)
    for (size_t col = lane; col < columns; col += launch.threads)
      sum += number_at(row * columns + col);
  return sum;
}

/// The same of all threads: hands each word to the thread that has to take it.
inline std::vector<float> right_sums(Launch launch, unsigned rows, unsigned columns) {
  std::vector<float> sums(size_t(launch.blocks) * launch.threads, 0);
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned col = 0; col < columns; ++col)
      sums[row % launch.blocks * launch.threads + col % launch.threads] +=
          float(number_at(size_t(row) * columns + col));
  return sums;
}

using Sums = std::shared_ptr<GuardedBuffer<float>>;

inline Sums sums_of(Launch launch) {
  return std::make_shared<GuardedBuffer<float>>(size_t(launch.blocks) * launch.threads);
}

inline Benchmark benchmark_of(const std::string& name, Launch launch, const Array& array,
                              const Sums& out) {
  const auto work = [=] {
    Sum_h<<<launch.blocks, launch.threads>>>(array.words, *out, array.rows, array.columns);
  };
  const auto value = [launch, rows = array.rows, columns = array.columns] __device__(
                         size_t t) -> float { return float(right_sum(t, launch, rows, columns)); };
  return {name, work, equals(*out, value)};
}
inline Benchmark benchmark_of(const std::string& name, Launch launch, const Array& array) {
  return benchmark_of(name, launch, array, sums_of(launch));
}

// ---- the model: a thread has one load in flight. So the time is that of a load, times the loads
// that follow one another ----

/// Blocks of so many threads that are resident on the whole GPU at once.
inline unsigned blocks_at_once(const Run& run, unsigned threads) {
  int per_multiprocessor = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, Sum_h, int(threads), 0));
  return unsigned(per_multiprocessor * run.gpu.multiProcessorCount);
}

/// Blocks that do not fit at once wait: rounds x rows of a block x steps along a row.
inline double loads_in_turn(Launch launch, unsigned at_once, unsigned rows, unsigned columns) {
  return double(ceil_div(launch.blocks, at_once)) * ceil_div(rows, launch.blocks) *
         ceil_div(columns, launch.threads);
}

}  // namespace
