// What threads.cu and blocks.cu have beside their kernel: the array, what is right, and the model.
#pragma once

#include <algorithm>
#include <set>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

/// Rows of the array, and words in a row.
struct Size {
  unsigned rows, columns;
  __host__ __device__ constexpr size_t words() const { return size_t(rows) * columns; }
};
constexpr Size text_size{12288, 12288};  // a row begins on 128 bytes

struct Launch {
  unsigned blocks, threads;
  constexpr unsigned total() const { return blocks * threads; }
};

/// Every word is read once.
inline double bytes_read(Size size) { return 4.0 * double(size.words()); }

// ---- what is right ----

/// Word i: a whole number from 1 to 256 without pattern. Sums of up to 65535 of them are exact.
struct NumberAt {
  __host__ __device__ static unsigned whole(size_t i) { return 1 + (samples::scrambled(i) >> 24); }
  __device__ float operator()(size_t i) const { return float(whole(i)); }
};

/// Which thread takes the word at a place, from the text's description: a block takes every so
/// many-th row, and its threads the words of it in turn.
__host__ __device__ inline unsigned taker(Launch l, unsigned row, unsigned col) {
  return row % l.blocks * l.threads + col % l.threads;
}

/// Hands every word to the thread that has to take it: from words to threads, where the kernel goes
/// from threads to words.
static __global__ void add_to_takers(unsigned* right, Size size, Launch l) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t first = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  for (size_t i = first; i < size.words(); i += threads) {
    const unsigned row = unsigned(i / size.columns);
    const unsigned col = unsigned(i % size.columns);
    atomicAdd(&right[taker(l, row, col)], NumberAt::whole(i));
  }
}

/// Behind the threads of the launch the poison must still stand.
struct IsSum {
  const unsigned* right;
  unsigned threads;
  __device__ bool operator()(size_t t, float found) const {
    return t < threads ? found == float(right[t]) : found != found;
  }
};

using RowKernel = void (*)(float* out, const float* in, unsigned rows, unsigned columns);

/// The array on the device, what the threads of a launch find, and what they must find.
struct RowArray {
  Size size;
  unsigned next = 0;  ///< row where the next launch begins, so that none finds its rows in the L2
  DeviceBuffer<float> in;
  samples::Output<float> out;
  DeviceBuffer<unsigned> right;

  RowArray(Size size, unsigned most_threads)
      : size(size),
        in(samples::filled<float>(size.words(), NumberAt{})),
        out(most_threads),
        right(most_threads) {}

  /// First of the `part` rows that this launch reads.
  unsigned take(unsigned part) {
    if (next + part > size.rows) next = 0;
    const unsigned first = next;
    next += part;
    return first;
  }
  /// Compares what every thread found in the first `part` rows.
  size_t wrong(Launch l, unsigned part) {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_takers<<<1024, 256>>>(right.data(), Size{part, size.columns}, l);
    CUDA_CHECK_LAUNCH();
    return out.wrong(IsSum{right.data(), l.total()});
  }
};

/// A launch over the first `part` rows; later ones over the rows that follow.
inline Task row_task(const samples::Shared<RowArray>& array, const samples::Ref& ref,
                     RowKernel kernel, Launch l, unsigned part) {
  const auto launch = [array, kernel, l, part] {
    const float* first = array->in.data() + size_t(array->take(part)) * array->size.columns;
    kernel<<<l.blocks, l.threads>>>(array->out.data(), first, part, array->size.columns);
  };
  const auto poison = [array] {
    array->out.poison();
    array->next = 0;
  };
  return {text(ref), launch, {poison, [array, l, part] { return array->wrong(l, part); }, ""}};
}

/// What every thread must find, by the text's two loops, on the host.
inline std::vector<float> sums_by_host(Size size, Launch l) {
  std::vector<float> sums;
  for (unsigned block = 0; block < l.blocks; ++block)
    for (unsigned thread = 0; thread < l.threads; ++thread) {
      unsigned sum = 0;
      for (size_t row = block; row < size.rows; row += l.blocks)
        for (size_t col = thread; col < size.columns; col += l.threads)
          sum += NumberAt::whole(row * size.columns + col);
      sums.push_back(float(sum));
    }
  return sums;
}

// ---- prediction ----

inline unsigned ceil_div(unsigned n, unsigned by) { return (n + by - 1) / by; }

/// Rounds that so many blocks take, of which `fit` are resident at once.
inline unsigned rounds(unsigned blocks, unsigned fit) { return ceil_div(blocks, fit); }

/// Loads that one place for a thread makes, each of which waits for the one before: rounds of
/// blocks x rows of a block x steps along a row.
inline double loads_in_turn(Size size, Launch l, unsigned fit) {
  return double(rounds(l.blocks, fit)) * ceil_div(size.rows, l.blocks) *
         ceil_div(size.columns, l.threads);
}

/// Milliseconds: the loads in turn, `latency` each; never faster than all bytes at the memory's
/// theoretical rate (0: not reported).
inline double predicted_ms(Size size, Launch l, unsigned fit, double latency,
                           double theoretical_gbs) {
  const double memory = theoretical_gbs > 0 ? bytes_read(size) * 1e-6 / theoretical_gbs : 0;
  return std::max(loads_in_turn(size, l, fit) * latency, memory);
}

/// Bytes that are in flight at once: a word of each resident thread.
inline double bytes_in_flight(Launch l, unsigned fit) {
  return 4.0 * std::min(l.blocks, fit) * l.threads;
}

// ---- what the device holds ----

/// Blocks of so many threads that are resident at once. Where none was recorded: as many as the
/// threads of the multiprocessors allow. 1 without a device.
inline unsigned blocks_at_once(const Run& run, const samples::Ref& ref, RowKernel kernel,
                               unsigned threads) {
  if (!run.device) return 1;
  const cudaDeviceProp& device = run.device->prop;
  const auto sms = unsigned(device.multiProcessorCount);
  const Statistics found = samples::ask(run, ref, "blocks at once", "", [&] {
    int resident = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, int(threads), 0));
    return samples::single(double(resident) * sms);
  });
  if (found.median >= 1) return unsigned(found.median);
  return std::max(1u, sms * (unsigned(device.maxThreadsPerMultiProcessor) / threads));
}
