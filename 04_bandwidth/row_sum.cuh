// What threads.cu and blocks.cu have beside their kernel: the array, what is right, and the model.
#pragma once

#include <algorithm>
#include <map>

#include "../common/report.hpp"

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
inline bool operator<(Launch a, Launch b) {
  return a.blocks != b.blocks ? a.blocks < b.blocks : a.threads < b.threads;
}
inline std::string text_of(Launch l) {
  return std::to_string(l.blocks) + " x " + std::to_string(l.threads);
}

/// Every word is read once.
inline double bytes_read(Size size) { return 4.0 * double(size.words()); }

// ---- what is right ----

/// Word i: a whole number from 1 to 256 without pattern. Sums of up to 65535 of them are exact.
__host__ __device__ inline unsigned whole_number(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return 1 + (x >> 24);
}

static __global__ void fill(float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = float(whole_number(i));
}

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
    atomicAdd(&right[taker(l, row, col)], whole_number(i));
  }
}

static __global__ void count_wrong(const float* out, const unsigned* right, unsigned n,
                                   unsigned* wrong) {
  for (unsigned t = blockIdx.x * blockDim.x + threadIdx.x; t < n; t += gridDim.x * blockDim.x)
    if (!(out[t] == float(right[t]))) atomicAdd(wrong, 1u);
}

using RowKernel = void (*)(float* out, const float* in, unsigned rows, unsigned columns);

/// Where the next launch begins that reads a part of the rows: behind the one before, so that none
/// finds its rows in the L2.
struct NextPart {
  unsigned begin = 0;

  /// First of the `part` rows that this launch reads.
  unsigned take(unsigned part, unsigned rows) {
    if (begin + part > rows) begin = 0;
    const unsigned first = begin;
    begin += part;
    return first;
  }
};

/// The array on the device, what the threads of a launch find, and what they must find.
struct RowArray {
  static constexpr size_t canaries = 64;  ///< behind what the threads write

  RowKernel kernel;
  Size size;
  NextPart next;
  DeviceBuffer<float> in{size.words()};  ///< ends where its allocation does
  DeviceBuffer<float> out;
  DeviceBuffer<unsigned> right;
  DeviceBuffer<unsigned> wrong_sums{1};

  RowArray(RowKernel kernel, Size size, unsigned most_threads)
      : kernel(kernel), size(size), out(most_threads + canaries), right(most_threads) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  /// Compares what every thread found in the first `part` rows.
  size_t wrong(Launch l, unsigned part) {
    CUDA_CHECK(cudaMemset(right.data(), 0, l.total() * sizeof(unsigned)));
    add_to_takers<<<1024, 256>>>(right.data(), Size{part, size.columns}, l);
    CUDA_CHECK_LAUNCH();
    wrong_sums.copy_from({0});
    count_wrong<<<256, 256>>>(out.data(), right.data(), l.total(), wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  /// A launch over the first `part` rows; later ones over the rows that follow.
  Task task(Launch l, unsigned part) {
    Check check;
    check.poison = [this] {
      out.poison();
      next = {};
    };
    check.wrong = [this, l, part] { return wrong(l, part); };
    const auto launch = [this, l, part] {
      const float* first = in.data() + size_t(next.take(part, size.rows)) * size.columns;
      kernel<<<l.blocks, l.threads>>>(out.data(), first, part, size.columns);
    };
    return {"sum by rows, " + text_of(l), launch, std::move(check)};
  }
  Task task(Launch l) { return task(l, size.rows); }
  /// Whether nothing was written behind the sums of a launch.
  bool canaries_stand(Launch l) const {
    std::vector<unsigned> words(canaries);
    device_memory::to_host(words.data(), out.data() + l.total(), canaries * sizeof(unsigned));
    return std::count(words.begin(), words.end(), ~0u) == long(canaries);
  }
};

/// What every thread must find, by the text's two loops, on the host.
inline std::vector<float> sums_by_host(Size size, Launch l) {
  std::vector<float> sums;
  for (unsigned block = 0; block < l.blocks; ++block)
    for (unsigned thread = 0; thread < l.threads; ++thread) {
      unsigned sum = 0;
      for (size_t row = block; row < size.rows; row += l.blocks)
        for (size_t col = thread; col < size.columns; col += l.threads)
          sum += whole_number(row * size.columns + col);
      sums.push_back(float(sum));
    }
  return sums;
}

// ---- what to expect ----

inline unsigned ceil_div(unsigned n, unsigned by) { return (n + by - 1) / by; }

/// Rounds that so many blocks take, of which `fit` are resident at once.
inline unsigned rounds(unsigned blocks, unsigned fit) { return ceil_div(blocks, fit); }

/// Loads that one place for a thread makes, each of which waits for the one before: rounds of
/// blocks x rows of a block x steps along a row.
inline double loads_in_turn(Size size, Launch l, unsigned fit) {
  return double(rounds(l.blocks, fit)) * ceil_div(size.rows, l.blocks) *
         ceil_div(size.columns, l.threads);
}

/// Milliseconds: the loads in turn, `trip` each; never faster than all bytes at the memory's
/// theoretical rate (0: not reported).
inline double predicted_ms(Size size, Launch l, unsigned fit, double trip, double theoretical_gbs) {
  const double memory = theoretical_gbs > 0 ? bytes_read(size) * 1e-6 / theoretical_gbs : 0;
  return std::max(loads_in_turn(size, l, fit) * trip, memory);
}

/// Bytes that are under way at once: a word of each resident thread.
inline double bytes_in_flight(Launch l, unsigned fit) {
  return 4.0 * std::min(l.blocks, fit) * l.threads;
}

// ---- measuring ----

/// Blocks of so many threads that fit on the device at once.
inline unsigned resident_blocks(const Device& device, RowKernel kernel, unsigned threads) {
  int resident = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, int(threads), 0));
  return unsigned(resident * device.prop.multiProcessorCount);
}

using LaunchTimes = std::map<Launch, Readings>;

/// Checks launches and times them in turn. `part_of(launch)`: how many rows it reads.
inline LaunchTimes time_in_turn(const Run& run, RowArray& array, const std::vector<Launch>& all,
                                const Function<unsigned(Launch)>& part_of) {
  std::vector<Task> tasks;
  for (const Launch l : all) tasks.push_back(array.task(l, part_of(l)));
  const std::vector<Readings> readings = run.time_in_turn(tasks);
  LaunchTimes times;
  for (size_t i = 0; i < all.size(); ++i) times[all[i]] = readings[i];
  return times;
}

/// The same of a sweep, in fewer rounds and in groups: what a claim takes from it is measured anew.
inline LaunchTimes time_sweep(const Run& run, RowArray& array, const std::vector<Launch>& all,
                              const Function<unsigned(Launch)>& part_of) {
  constexpr size_t group = 64;
  Run brief = run;
  brief.measuring.rounds = 6;
  Progress progress("sum by rows, groups of launches", int((all.size() + group - 1) / group));
  LaunchTimes times;
  for (size_t first = 0; first < all.size(); first += group) {
    const size_t last = std::min(first + group, all.size());
    times.merge(time_in_turn(brief, array, {all.begin() + first, all.begin() + last}, part_of));
    progress.step();
  }
  return times;
}

// ---- judging ----

/// Of several intervals the one whose value is the median; of an even number the mean of the two in
/// the middle.
inline Interval middle(std::vector<Interval> all) {
  for (const Interval& one : all)
    if (!one.measured()) return one;
  if (all.empty()) return {};
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.value < b.value; });
  const Interval& below = all[(all.size() - 1) / 2];
  const Interval& above = all[all.size() / 2];
  Interval mean = below;
  mean.value = (below.value + above.value) / 2;
  mean.low = (below.low + above.low) / 2;
  mean.high = (below.high + above.high) / 2;
  mean.pairs = std::min(below.pairs, above.pairs);
  return mean;
}
