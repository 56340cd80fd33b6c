// The study's sum by rows [BW], its check, and its model: what threads.cu and blocks.cu share.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

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
  auto operator<=>(const Launch&) const = default;
};
inline std::string name_of(Launch l) {
  return std::to_string(l.blocks) + " x " + std::to_string(l.threads) + " threads";
}

// ---- the array ----

/// Word i: a whole number from 1 to 64. Sums of up to 262143 of them are exact as floats.
__host__ __device__ inline unsigned number_at(size_t i) { return 1 + (hash(i) >> 26); }

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
  return array_of(unsigned(run.fitting(12288, 4.0 * (columns + 1024))), columns);  // and sums
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

using Sums = GuardedBuffer<float>;

/// For the largest of these launches: smaller ones write a part of it.
inline Sums sums_of(const std::set<Launch>& launches) {
  size_t most = 0;
  for (const Launch l : launches) most = std::max(most, size_t(l.blocks) * l.threads);
  return Sums(most);
}

inline Benchmark benchmark_of(Launch launch, const Array& array, const Sums& out) {
  const auto work = [=] {
    Sum_h<<<launch.blocks, launch.threads>>>(array.words, out, array.rows, array.columns);
  };
  const size_t threads = size_t(launch.blocks) * launch.threads;
  const auto bits = [launch, threads, rows = array.rows,
                     columns = array.columns] __device__(size_t t) -> unsigned {
    return t < threads ? __float_as_uint(float(right_sum(t, launch, rows, columns))) : poisoned;
  };
  return {name_of(launch), work, equals_bits(out, bits)};
}
inline std::vector<Benchmark> benchmarks_of(const std::set<Launch>& launches, const Array& array) {
  const Sums out = sums_of(launches);
  std::vector<Benchmark> all;
  for (const Launch l : launches) all.push_back(benchmark_of(l, array, out));
  return all;
}

/// Of so many launches a timer needs the fewest rounds that give a ratio its interval.
inline Timings measure(Timer timer, const std::set<Launch>& launches, const Array& array) {
  timer.rounds = 12;
  return timer.interleaved(benchmarks_of(launches, array));
}

/// The one that took the least time.
inline Launch best_of(const std::set<Launch>& launches, const Timings& timed) {
  return *std::min_element(launches.begin(), launches.end(), [&](Launch a, Launch b) {
    return timed[name_of(a)].median() < timed[name_of(b)].median();
  });
}

// ---- the model: a thread has one load in flight. So the time is that of a load, times the loads
// that follow one another. A load takes longer the more threads are resident, as it queues: by the
// square of their share of all that fit. The square is what in_flight shows, and no law ----

/// Blocks of so many threads that are resident on the whole GPU at once.
inline unsigned blocks_at_once(const Run& run, unsigned threads) {
  int per_multiprocessor = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, Sum_h, int(threads), 0));
  return unsigned(per_multiprocessor * run.gpu.multiProcessorCount);
}

/// Each block is dealt to the place that is free first, and takes its rows in turn. How many are
/// resident during the first row, the second, and so on?
inline std::vector<unsigned> resident_in_turn(unsigned blocks, unsigned at_once, unsigned rows) {
  const std::vector<unsigned> empty(std::min(blocks, at_once), 0);
  std::priority_queue free_at(std::greater<unsigned>(), empty);
  for (unsigned block = 0; block < std::min(blocks, rows); ++block) {
    const unsigned start = free_at.top();
    free_at.pop();
    free_at.push(start + unsigned(ceil_div(rows - block, blocks)));
  }
  std::vector<unsigned> resident;
  for (; !free_at.empty(); free_at.pop()) {
    resident.resize(free_at.top(), 0);
    for (unsigned& places : resident) ++places;
  }
  return resident;
}

/// Loads in turn; and the same, each weighted by the square.
struct Turns {
  double loads, queued;
};
inline Turns turns_of(Launch launch, unsigned at_once, double threads_that_fit,
                      const Array& array) {
  const double steps = double(ceil_div(array.columns, launch.threads));
  Turns turns{0, 0};
  for (const unsigned resident : resident_in_turn(launch.blocks, at_once, array.rows)) {
    const double share = resident * launch.threads / threads_that_fit;
    turns.loads += steps;
    turns.queued += steps * share * share;
  }
  return turns;
}
inline Turns turns_of(const Run& run, Launch launch, const Array& array) {
  return turns_of(launch, blocks_at_once(run, launch.threads),
                  double(run.gpu.maxThreadsPerMultiProcessor) * run.gpu.multiProcessorCount, array);
}

/// What a load takes alone, and what is added where all threads that fit are resident. Two launches
/// give both.
struct LoadTime {
  double alone_ms, queue_ms;
  double predicted_ms(Turns t) const { return t.loads * alone_ms + t.queued * queue_ms; }
};
inline LoadTime load_time(Turns a, double a_ms, Turns b, double b_ms) {
  const double queue =
      (a.loads * b_ms - b.loads * a_ms) / (a.loads * b.queued - b.loads * a.queued);
  return {(a_ms - a.queued * queue) / a.loads, queue};
}
inline void note_load_time(Run& run, LoadTime load, Launch a, Launch b) {
  run.note("predicted: loads in turn; one takes " + digits(1e6 * load.alone_ms) +
           " ns alone, and " + digits(1e6 * (load.alone_ms + load.queue_ms)) +
           " ns among all threads that fit,");
  run.note("as " + name_of(a) + " and " + name_of(b) + " tell, which are not predicted");
}

}  // namespace
