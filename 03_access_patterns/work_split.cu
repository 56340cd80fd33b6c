// work_split: a sum of squares with a chunk of the array for each thread, or with the threads
// interleaved over it. The vendor's guide calls the second 15 times as fast, in one block [KP].
// Look at the sectors a request: lanes that work on 32 chunks want 32 sectors at once. Then at the
// cycles: the chunks take one for each word, from memory as from L2, and however many loads are
// under way; the interleaved threads wait, unless many are.
//   cmake -S 03_access_patterns -B build/work_split -DEXPERIMENTS=work_split
//   cmake --build build/work_split && build/work_split/03_access_patterns
//
//   1  squares_by_chunks    the text's first: in one block, thread t takes the t-th chunk
//   2  squares_interleaved  the text's second: thread t takes every 256th word from t on
//   3  chunks_at_once       1 over any number of blocks, with 1, 4 or 16 loads under way at once
//   4  interleaved_at_once  2 likewise
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "../common/report.hpp"
#include "sizes.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

// ---- kernels: thread t leaves its sum of squares in sum[t], thread 0 its cycles in *time ----

constexpr int block_threads = 256;

// [text]
// As in the text. The lanes of a warp are a chunk apart: 32 sectors, and each lane walks on through
// its own. The text tells the compiler nothing, which takes 16 steps at a time, here as below: 16
// loads are under way before the first square.
__global__ void squares_by_chunks(const int* data, int n, unsigned* sum, long long* time) {
  const int size = (n + block_threads - 1) / block_threads;
  const int tid = threadIdx.x;
  const int end = min((tid + 1) * size, n);
  unsigned squares = 0;  // wraps round, alike in any order
  const long long start = clock64();
  for (int i = tid * size; i < end; ++i) squares += data[i] * data[i];
  sum[tid] = squares;
  if (tid == 0) *time = clock64() - start;
}

// As in the text. The lanes of a warp take neighbours, 4 sectors, and all step on together.
__global__ void squares_interleaved(const int* data, int n, unsigned* sum, long long* time) {
  const int tid = threadIdx.x;
  unsigned squares = 0;
  const long long start = clock64();
  for (int i = tid; i < n; i += block_threads) squares += data[i] * data[i];
  sum[tid] = squares;
  if (tid == 0) *time = clock64() - start;
}
// [/text]

// [chunks_at_once]
// `loads` of a thread's loads are under way before the first square, whatever the compiler thinks.
// (The launch bounds leave it the registers for 16.)
template <unsigned loads>
__global__ void __launch_bounds__(block_threads, 4)
    chunks_at_once(const int* data, size_t n, unsigned* sum, long long* time) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t size = (n + threads - 1) / threads;
  const size_t end = min((tid + 1) * size, n);
  unsigned squares = 0;
  const long long start = clock64();
  size_t i = tid * size;
#pragma unroll 1
  for (; i + loads <= end; i += loads) {
    int value[loads];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) value[k] = data[i + k];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) squares += value[k] * value[k];
  }
#pragma unroll 1
  for (; i < end; ++i) squares += data[i] * data[i];  // what is left, one at a time
  sum[tid] = squares;
  if (tid == 0) *time = clock64() - start;
}
// [/chunks_at_once]

// The same with the threads interleaved.
template <unsigned loads>
__global__ void __launch_bounds__(block_threads, 4)
    interleaved_at_once(const int* data, size_t n, unsigned* sum, long long* time) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned squares = 0;
  const long long start = clock64();
  size_t i = tid;
#pragma unroll 1
  for (; i + (loads - 1) * threads < n; i += loads * threads) {
    int value[loads];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) value[k] = data[i + k * threads];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) squares += value[k] * value[k];
  }
#pragma unroll 1
  for (; i < n; i += threads) squares += data[i] * data[i];
  sum[tid] = squares;
  if (tid == 0) *time = clock64() - start;
}

// ---- the story in order ----

struct Launch {
  unsigned blocks;
  const int* data;
  size_t n;
  unsigned* sum;
  long long* time;
};

enum class Split { chunks, interleaved };
const char* name_of(Split split) {
  return split == Split::chunks ? "a chunk a thread" : "interleaved";
}

struct Kernel {
  Split split;
  unsigned loads;  ///< of a thread that are under way at once
  bool the_texts;  ///< one block only, fewer than 2^31 words
  const char* symbol;
  void (*launch)(const Launch&);

  std::string at() const { return the_texts ? "as compiled" : std::to_string(loads); }
};

constexpr unsigned as_compiled = 16;  // by nvcc 12 and 13; a test looks

const Kernel kernels[] = {
    {Split::chunks, as_compiled, true, "squares_by_chunks",
     [](const Launch& l) {
       squares_by_chunks<<<l.blocks, block_threads>>>(l.data, int(l.n), l.sum, l.time);
     }},
    {Split::interleaved, as_compiled, true, "squares_interleaved",
     [](const Launch& l) {
       squares_interleaved<<<l.blocks, block_threads>>>(l.data, int(l.n), l.sum, l.time);
     }},
    {Split::chunks, 1, false, "chunks_at_once",
     [](const Launch& l) {
       chunks_at_once<1><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
    {Split::interleaved, 1, false, "interleaved_at_once",
     [](const Launch& l) {
       interleaved_at_once<1><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
    {Split::chunks, 4, false, "chunks_at_once",
     [](const Launch& l) {
       chunks_at_once<4><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
    {Split::interleaved, 4, false, "interleaved_at_once",
     [](const Launch& l) {
       interleaved_at_once<4><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
    {Split::chunks, 16, false, "chunks_at_once",
     [](const Launch& l) {
       chunks_at_once<16><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
    {Split::interleaved, 16, false, "interleaved_at_once",
     [](const Launch& l) {
       interleaved_at_once<16><<<l.blocks, block_threads>>>(l.data, l.n, l.sum, l.time);
     }},
};
enum : size_t {
  text_chunks,
  text_interleaved,
  chunks1,
  interleaved1,
  chunks4,
  interleaved4,
  chunks16,
  interleaved16
};

// ---- what is right ----

/// 15 bits without pattern: no word stands in for another, and a square fits an int.
__host__ __device__ int value_at(size_t i) { return int(scrambled(i) >> 17); }
struct Value {
  __device__ int operator()(size_t i) const { return value_at(i); }
};

/// The thread that has to take word i: from words to threads, where the kernels go from threads to
/// words.
__host__ __device__ size_t taker(Split split, size_t i, size_t threads, size_t n) {
  return split == Split::chunks ? i / ((n + threads - 1) / threads) : i % threads;
}

__global__ void add_to_takers(unsigned* right, Split split, size_t threads, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step)
    atomicAdd(&right[taker(split, i, threads, n)], unsigned(value_at(i) * value_at(i)));
}

/// Sums as they have to be, and canaries behind them.
struct IsRight {
  const unsigned* right;
  size_t threads;
  __device__ bool operator()(size_t t, unsigned found) const {
    return found == (t < threads ? right[t] : ~0u);
  }
};

/// An array, and what a number of blocks find in it.
struct Squares {
  static constexpr size_t canaries = 32;

  size_t n;
  unsigned blocks;
  DeviceBuffer<int> data;
  DeviceBuffer<unsigned> sum, right[2];  ///< [split]
  DeviceBuffer<long long> time{1};

  Squares(size_t n, unsigned blocks) : n(n), blocks(blocks), data(n), sum(threads() + canaries) {
    fill(data, Value{});
    for (const Split split : {Split::chunks, Split::interleaved}) {
      right[int(split)] = DeviceBuffer<unsigned>(std::vector<unsigned>(threads(), 0));
      add_to_takers<<<blocks_to_walk(n), 256>>>(right[int(split)].data(), split, threads(), n);
      CUDA_CHECK_LAUNCH();
    }
  }
  size_t threads() const { return size_t(blocks) * block_threads; }

  void launch(const Kernel& k) { k.launch({blocks, data.data(), n, sum.data(), time.data()}); }
  Task task(const Kernel& k) {
    Check check;
    check.poison = [this] {
      sum.poison();
      time.poison();
    };
    check.wrong = [this, &k] {
      const size_t no_cycles = time.to_host()[0] > 0 ? 0 : 1;
      return no_cycles + wrong_words(sum, IsRight{right[int(k.split)].data(), threads()});
    };
    return {std::string(name_of(k.split)) + ", loads at once: " + k.at(), [this, &k] { launch(k); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// A warp's load, from the kernels' index.
Warp load(Split split, size_t threads, size_t n) {
  const size_t apart = split == Split::chunks ? (n + threads - 1) / threads : 1;
  return warp_of(4, [=](unsigned lane) { return lane * apart; });
}

/// Passes of L1's data path that a warp's load takes (Nsight Compute calls them wavefronts). It is
/// that of shared memory: 32 banks, 4 bytes wide, each of which gives a word at a time.
int passes(const Warp& warp) {
  std::vector<long long> words;
  for (const long long address : warp.address) words.push_back(address / 4);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  int of_bank[32] = {};
  for (const long long word : words) ++of_bank[word % 32];
  return *std::max_element(of_bank, of_bank + 32);
}

/// L2 gives a multiprocessor 64 bytes a cycle: a warp's 32 neighbours take two.
constexpr double cycles_a_line = 2;
constexpr double warps = block_threads / 32;

/// Cycles from a load to its value, of a warp among eight that all load once: from the row with one
/// load at once.
double trip_of(double cycles_a_word) {
  return cycles_a_word * block_threads - (warps - 1) * cycles_a_line;
}

/// Cycles that one block takes for a word, by the slower of two things: the passes through L1, and
/// a trip for as many words as are under way, behind which they come in one after the other.
/// (Chunks wait once in eight words, and their passes are more.)
double predicted_cycles(const Kernel& k, size_t n, double trip) {
  const double pass = passes(load(k.split, block_threads, n)) / 32.0;
  if (k.split == Split::chunks) return pass;
  const double lines = warps * k.loads;
  return std::max(pass, (trip + (lines - 1) * cycles_a_line) / (32 * lines));
}

/// L1's banks, and the way from L2, were found on compute capability 9.0.
Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment: one block ----

/// Where one block's words come from.
struct Place {
  const char* name;
  size_t n;
};

/// The text's 2^20 words, fewer where they would fill more than half of the L2.
size_t words_in_l2(const Run& run) {
  size_t n = size_t(1) << 20;
  while (run.device && 2 * sizeof(int) * n > run.device->l2_bytes()) n /= 2;
  return n;
}

/// Words of 4 bytes that come from memory.
size_t words_beyond(const Run& run, size_t by_default) {
  return size_beyond_l2(run, "work_split", by_default, 4, 5);
}

/// Cycles a word of a few launches, by the multiprocessor's own clock, as the text has it.
Readings cycles_a_word(const Run& run, Squares& squares, const Kernel& k) {
  require_right(squares.task(k));  // and nothing is cold afterwards
  Readings cycles;
  for (int r = 0; r < (run.quick ? 1 : 3); ++r) {
    squares.launch(k);
    CUDA_CHECK_LAUNCH();
    cycles.ms.push_back(double(squares.time.to_host()[0]) / double(squares.n));
  }
  return cycles;
}

struct BlockTable {
  Table table;

  explicit BlockTable(const Run& run)
      : table(run.report, "one block, loads at once",
              {predicted("sectors/request", "sectors a request", "", 0),
               predicted("passes", "passes through L1 a request", "", 0),
               compared("cycles a word", "cycles a word", "cycles", 3), shown("spread")}) {}

  void add(const Place& place, const Kernel& k, const Cell& cycles, const Statistics& found) {
    const Warp warp = load(k.split, block_threads, place.n);
    table.row({std::string(place.name) + ", " + name_of(k.split), "loads at once", k.at()},
              {double(sectors(warp)), double(passes(warp)), cycles, spread_text(found)});
  }
};

/// With --quick, of an array beyond the L2, only what the claim and the model need.
std::vector<size_t> chosen(bool few) {
  if (few) return {text_chunks, text_interleaved, interleaved1};
  std::vector<size_t> all(std::size(kernels));
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

/// Cycles of the chosen kernels on one array; without a GPU their rows.
std::vector<Readings> measure_block(const Run& run, BlockTable& table, const Place& place,
                                    Squares* squares, bool few) {
  std::vector<Readings> cycles(std::size(kernels));
  if (squares)
    for (const size_t i : chosen(few)) cycles[i] = cycles_a_word(run, *squares, kernels[i]);
  const double trip = trip_of(cycles[interleaved1].median());
  for (const size_t i : chosen(few)) {
    const Statistics found = cycles[i].statistics();
    Cell cell;
    if (squares && i == interleaved1)
      cell = Calibration{found};
    else if (squares)
      cell = Compared{predicted_cycles(kernels[i], place.n, trip), found, model_of(*run.device)};
    table.add(place, kernels[i], cell, found);
  }
  return cycles;
}

/// How many times as fast the interleaved threads are, by cycles of a few launches.
double gain_of(const std::vector<Readings>& cycles, size_t chunks, size_t interleaved) {
  return cycles[chunks].median() / cycles[interleaved].median();
}

/// Times of both ways, in turn.
struct Pair {
  Readings chunks, interleaved;
  Interval gain() const { return ratio(chunks, interleaved); }
};

Pair time_pair(const Run& run, Squares& squares, size_t chunks, size_t interleaved) {
  std::vector<Task> tasks;
  for (const size_t i : {chunks, interleaved}) tasks.push_back(squares.task(kernels[i]));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  return {times[0], times[1]};
}

/// What the claim compares, and what stands beside it.
struct Gains {
  Pair text, whole_gpu;
  double text_in_l2 = NAN;
  double one_load = NAN;  ///< at once
};

// ---- the experiment: the whole GPU ----

Pair measure_whole_gpu(const Run& run, size_t n) {
  Table table(
      run.report, "whole GPU",
      {predicted("sectors/request", "sectors a request", "", 0), compared("ms", "time", "ms", 4),
       shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0), shown("")});
  const unsigned blocks = run.device ? resident_blocks(run.device->prop, block_threads) : 1024;
  Pair times;
  if (run.device) {
    Squares squares(n, blocks);
    times = time_pair(run, squares, chunks4, interleaved4);
  }
  const double limit = 4e-6 * double(n) / times.interleaved.median();
  for (const Split split : {Split::chunks, Split::interleaved}) {
    const Readings& of_split = split == Split::chunks ? times.chunks : times.interleaved;
    const Statistics ms = of_split.statistics();
    const Statistics gbs = gigabytes_per_second(4.0 * double(n), ms);
    Cell time;
    if (run.device) time = split == Split::chunks ? Cell(Compared{NAN, ms}) : Cell(Calibration{ms});
    table.row({std::string("whole GPU, ") + name_of(split)},
              {double(sectors(load(split, size_t(blocks) * block_threads, n))), time,
               spread_text(ms), gbs, bar(gbs.median / limit)});
  }
  table.print();
  run.report.note(
      "4 loads at once; interleaved at the memory's rate, for chunks there is no model");
  return times;
}

// ---- the claim ----

void judge_interleaving(const Run& run, const Gains& gains, bool in_cache) {
  const Part part{"03.7", "interleaved threads are faster than a chunk a thread, in one block",
                  "15x faster", "vendor's guide"};
  if (in_cache) return run.report.not_judged(part, "the array is less than four times the L2");
  const Interval text = gains.text.gain();
  run.report.judge(part, beats(15), text, faster(text));
  if (!text.measured()) return;
  run.report.finding("03.7", "out of L2 " + factor_text(gains.text_in_l2) +
                                 " as fast; over the whole GPU " + faster(gains.whole_gpu.gain()));
  if (std::isfinite(gains.one_load))
    run.report.finding("03.7", "with one load of a thread at once, both, " +
                                   factor_text(gains.one_load) + " as fast");
}

}  // namespace

void work_split(const Run& run) {
  const Place in_l2{"in L2", words_in_l2(run)};
  // as many words as the L2 has bytes; a power of two, as the text's 2^20
  const Place beyond{"from memory", words_beyond(run, size_t(1) << 24)};
  const size_t all = words_beyond(run, size_t(1) << (run.quick ? 26 : 28));
  const bool in_cache = run.device && !beyond_l2(*run.device, 4.0 * double(beyond.n));
  run.report.begin("work_split", "squares of " + bytes_text(4.0 * double(in_l2.n)) + ", " +
                                     bytes_text(4.0 * double(beyond.n)) + " and " +
                                     bytes_text(4.0 * double(all)) +
                                     " of 4-byte words, in blocks of " +
                                     std::to_string(block_threads) + " threads" +
                                     (in_cache ? "; the second less than four times the L2" : ""));
  Gains gains;
  BlockTable table(run);
  for (const Place& place : {in_l2, beyond}) {
    const bool few = run.quick && place.n == beyond.n;
    if (!run.device) {
      measure_block(run, table, place, nullptr, few);
      continue;
    }
    Squares squares(place.n, 1);
    const std::vector<Readings> cycles = measure_block(run, table, place, &squares, few);
    if (place.n == in_l2.n) gains.text_in_l2 = gain_of(cycles, text_chunks, text_interleaved);
    if (place.n != beyond.n) continue;
    gains.one_load = gain_of(cycles, chunks1, interleaved1);
    gains.text = time_pair(run, squares, text_chunks, text_interleaved);
  }
  table.table.print();
  run.report.note("calibration: the trip of a load, from L2 and from memory, with one at once");
  gains.whole_gpu = measure_whole_gpu(run, all);
  if (!run.device) run.report.left_out("the cycles and the times");
  judge_interleaving(run, gains, in_cache);
}
