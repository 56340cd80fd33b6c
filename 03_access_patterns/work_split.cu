// work_split: a sum of squares, with a chunk of the array for each thread, or with the threads
// interleaved over it. A vendor's guide calls the second 15 times as fast, in one block, since
// threads are no longer switched [KP]. Two things to look at:
//   - The sectors per request. Lanes that work on 32 chunks touch 32 sectors in each step.
//   - The loads in flight. The chunks take one cycle per word, from memory as from L2, however many
//     loads are in flight. The interleaved threads wait for their loads, unless many are.
//
//   cmake -S 03_access_patterns -B build/work_split -DEXPERIMENTS=work_split
//   cmake --build build/work_split && build/work_split/03_access_patterns
//
//   1  squares_by_chunks    the text's first: in one block, thread t takes the t-th chunk
//   2  squares_interleaved  the text's second: thread t takes every 256th word from t on
//   3  chunks_at_once       1 over any number of blocks, with 1, 4 or 16 loads in flight per thread
//   4  interleaved_at_once  2 likewise
#include <optional>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "sizes.hpp"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: thread t leaves its sum of squares in sum[t], thread 0 its cycles in *time ----

constexpr int block_threads = 256;

// [text]
// As in the text. The lanes of a warp are a chunk apart: 32 sectors, and each lane walks on through
// its own. The text tells the compiler nothing. nvcc unrolls this loop and the next by 16: a thread
// has 16 loads in flight before the first square.
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
// `loads` loads of a thread are in flight before the first square, whatever the compiler would do.
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
  for (; i < end; ++i) squares += data[i] * data[i];  // the remaining words, one at a time
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

// ---- the kernels in order ----

constexpr unsigned as_compiled = 16;  // loads in flight, by nvcc 12 and 13; a test looks

enum class Split { chunks, interleaved };

struct Kernel {
  std::string key = {};  ///< its name
  Split split = Split::chunks;
  unsigned loads = as_compiled;  ///< in flight per thread
  /// One of these two: the text's, of one block and fewer than 2^31 words, or any number of blocks.
  void (*text)(const int*, int, unsigned*, long long*) = nullptr;
  void (*at_once)(const int*, size_t, unsigned*, long long*) = nullptr;

  std::string words() const {
    return std::string(split == Split::chunks ? "a chunk per thread" : "interleaved") + ", " +
           (text ? "as compiled" : std::to_string(loads));
  }
};
template <auto kernel>
Kernel the_texts(Split split) {
  return {.key = std::string(name_of<kernel>()), .split = split, .text = kernel};
}
template <unsigned loads>
Kernel chunks() {
  return {.key = "chunks_at_once", .loads = loads, .at_once = chunks_at_once<loads>};
}
template <unsigned loads>
Kernel interleaved() {
  return {.key = "interleaved_at_once",
          .split = Split::interleaved,
          .loads = loads,
          .at_once = interleaved_at_once<loads>};
}

const Kernel kernels[] = {
    the_texts<squares_by_chunks>(Split::chunks),
    the_texts<squares_interleaved>(Split::interleaved),
    chunks<1>(),
    interleaved<1>(),
    chunks<4>(),
    interleaved<4>(),
    chunks<16>(),
    interleaved<16>(),
};
const Kernel& kernel(std::string_view key, unsigned loads = as_compiled) {
  for (const Kernel& k : kernels)
    if (k.key == key && k.loads == loads) return k;
  throw std::logic_error("no kernel " + std::string(key));
}

// ---- what is right: from words to threads, where the kernels go from threads to words ----

/// 15 bits of a word's hash: a square fits an int.
__host__ __device__ int value_at(size_t i) { return int(scrambled(i) >> 17); }
struct Input {
  __device__ int operator()(size_t i) const { return value_at(i); }
};

/// The thread that has to take word i.
__host__ __device__ size_t taker(Split split, size_t i, size_t threads, size_t n) {
  return split == Split::chunks ? i / ((n + threads - 1) / threads) : i % threads;
}
__global__ void add_to_takers(unsigned* right, Split split, size_t threads, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step)
    atomicAdd(&right[taker(split, i, threads, n)], unsigned(value_at(i) * value_at(i)));
}
struct IsRight {
  const unsigned* right;
  __device__ bool operator()(size_t t, unsigned found) const { return found == right[t]; }
};

struct Grid {
  unsigned blocks = 1, of_block = block_threads;
  size_t threads() const { return size_t(blocks) * of_block; }
};

/// An array, and what the threads of a grid find in it.
struct Squares {
  Squares(size_t n, Grid grid) : n(n), grid(grid), data(filled<int>(n, Input{})) {
    for (const Split split : {Split::chunks, Split::interleaved}) {
      right[int(split)] = DeviceBuffer<unsigned>(std::vector<unsigned>(grid.threads(), 0));
      add_to_takers<<<1024, 256>>>(right[int(split)].data(), split, grid.threads(), n);
      CUDA_CHECK_LAUNCH();
    }
  }
  void launch(const Kernel& k) {
    if (k.text)
      k.text<<<grid.blocks, grid.of_block>>>(data.data(), int(n), sum.data(), time.data());
    else
      k.at_once<<<grid.blocks, grid.of_block>>>(data.data(), n, sum.data(), time.data());
  }
  void poison() {
    sum.poison();
    time.poison();
  }
  size_t wrong(Split split) const {
    const size_t no_cycles = time.to_host()[0] > 0 ? 0 : 1;
    return no_cycles + sum.wrong(IsRight{right[int(split)].data()});
  }

  size_t n;
  Grid grid;
  DeviceBuffer<int> data;
  Output<unsigned> sum{grid.threads()};
  DeviceBuffer<unsigned> right[2];  ///< [split]
  DeviceBuffer<long long> time{1};
};

Task task_of(const Ref& row, const Shared<Squares>& squares, const Kernel& k) {
  const Split split = k.split;
  return {
      text(row),
      [squares, &k] { squares->launch(k); },
      {[squares] { squares->poison(); }, [squares, split] { return squares->wrong(split); }, ""}};
}

// ---- prediction ----

/// A warp's load, from the kernels' index.
Warp load(Split split, size_t threads, size_t n) {
  const size_t apart = split == Split::chunks ? (n + threads - 1) / threads : 1;
  return warp_of(4, [=](unsigned lane) { return lane * apart; });
}

/// Passes of a warp's load through L1's banks: 32, each 4 bytes wide, of which each gives one word
/// per cycle, as in shared memory. Chunks of a power of two words meet in one bank.
int passes(const Warp& warp) {
  std::vector<long long> words;
  for (const long long address : warp.address) words.push_back(address / 4);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  int of_bank[32] = {};
  for (const long long word : words) ++of_bank[word % 32];
  return *std::max_element(of_bank, of_bank + 32);
}

/// Lines of a load that L1 serves per cycle, in the model. Banks alone fail for chunks of an odd
/// number of words, which meet in no bank: an SM would read 32 words per cycle, and reads 1.9
/// (whole GPU, H200). A warp's load of such chunks is of 32 lines; two per cycle give 2 words. The
/// 2 was fitted to that row. It fits the odd rows of 07_texture_readonly locality, too: 2.0 on an
/// H200, 1.9 on an H100. But the row of odd chunks from L2, which was not used for it, takes 0.29
/// cycles per word on an H200 and not 0.50: so the 2 is no rate of L1's lookups. What it is instead
/// is open.
constexpr double lines_per_cycle = 2;

/// Cycles of L1 per word of a warp's load.
double l1_cycles(const Warp& warp) {
  return std::max(double(passes(warp)), lines(warp) / lines_per_cycle) / 32;
}

/// L2 gives a multiprocessor 64 bytes per cycle: the 32 neighbours of a warp take two.
constexpr double cycles_per_line = 2;
constexpr double warps = block_threads / 32;

/// Cycles from a load to its value, of a warp among eight that all load once: from the row with one
/// load in flight.
double latency_of(double cycles_per_word) {
  return cycles_per_word * block_threads - (warps - 1) * cycles_per_line;
}

/// Cycles that one block takes per word: the longer of L1's, and of a latency for all words in
/// flight, whose lines come in one after the other. (Chunks wait once in eight words, and L1 takes
/// longer.)
double predicted_cycles(const Kernel& k, size_t n, double latency) {
  const double in_l1 = l1_cycles(load(k.split, block_threads, n));
  if (k.split == Split::chunks) return in_l1;
  const double lines = warps * k.loads;
  return std::max(in_l1, (latency + (lines - 1) * cycles_per_line) / (32 * lines));
}

/// Milliseconds of chunks on a whole GPU: the longer of L1's, and of the memory's, which the
/// interleaved threads show.
double predicted_ms(size_t threads, size_t n, double memory_ms, const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  const double cycles = l1_cycles(load(Split::chunks, threads, n)) * double(n);
  return std::max(memory_ms, cycles / device.prop.multiProcessorCount / device.sm_clock_khz);
}

// ---- the experiment: one block ----

/// Where the words of one block come from.
struct Place {
  const char *key, *words;
  size_t n;

  bool memory() const { return std::string_view(key) == "memory"; }
  bool odd() const { return std::string_view(key) == "l2_odd"; }
  /// The row of a kernel here.
  Ref ref(const Kernel& k) const {
    return {k.key + "_" + key, k.text ? double(NAN) : double(k.loads)};
  }
};

/// The text's 2^20 words, fewer where they would fill more than half of the L2.
size_t words_in_l2(const Run& run) {
  size_t n = size_t(1) << 20;
  while (run.device && 2 * sizeof(int) * n > run.device->l2_bytes()) n /= 2;
  return n;
}
/// Words that come from memory.
size_t words_beyond(const Run& run, size_t by_default) {
  return size_beyond_l2(run, "work_split", by_default, 4, 5);
}
/// As many words as an L2 has bytes; a power of two, as the text's 2^20.
size_t words_of_block(const Run& run) { return words_beyond(run, size_t(1) << 24); }
size_t words_of_gpu(const Run& run) {
  return words_beyond(run, size_t(1) << (run.quick ? 26 : 28));
}

std::vector<Place> places(const Run& run) {
  const size_t n = words_in_l2(run);
  return {{"l2", "from L2", n},
          {"l2_odd", "from L2, odd chunks", n + block_threads},
          {"memory", "from memory", words_of_block(run)}};
}

/// The kernels that are measured there. With --quick, from memory, what the model and the claim
/// need.
bool measured_there(const Run& run, const Place& place, const Kernel& k) {
  if (place.odd()) return k.split == Split::chunks && k.at_once && k.loads == as_compiled;
  const bool least = k.text || (k.split == Split::interleaved && k.loads == 1);
  return least || !run.quick || !place.memory();
}

const char* const cycles_per_word = "cycles a word";

/// Cycles per word of a few launches, by the multiprocessor's own clock, as the text has it.
Statistics count_cycles(const Run& run, Squares& squares, const Task& task, const Kernel& k) {
  require_right(task);  // and nothing is cold afterwards
  Readings cycles;
  for (int launch = 0; launch < (run.quick ? 1 : 3); ++launch) {
    squares.launch(k);
    CUDA_CHECK_LAUNCH();
    cycles.ms.push_back(double(squares.time.to_host()[0]) / double(squares.n));
  }
  return cycles.statistics();
}
double cycles_of(const Run& run, const Ref& row) {
  return run.results->value(row, cycles_per_word).value.median;
}

void measure_block(const Run& run, const Place& place, Table& table) {
  std::optional<Shared<Squares>> squares;  // from the first row that is measured to the last
  for (const Kernel& k : kernels) {
    if (!measured_there(run, place, k)) continue;
    const Ref row = place.ref(k);
    const auto count = [&] {
      if (!squares) squares.emplace(Squares(place.n, Grid{}));
      return count_cycles(run, **squares, task_of(row, *squares, k), k);
    };
    run.results->keep(Value{row, cycles_per_word, "cycles",
                            run.machine->value(row, cycles_per_word, false, count)});
  }
  const Kernel& waits = kernel("interleaved_at_once", 1);
  const double latency = place.odd() ? NAN : latency_of(cycles_of(run, place.ref(waits)));
  for (const Kernel& k : kernels) {
    if (!measured_there(run, place, k)) continue;
    const Ref row = place.ref(k);
    const Statistics found = run.results->value(row, cycles_per_word).value;
    // L1's banks, and the rate of L2, were found on compute capability 9.0
    const bool known = run.device && run.device->prop.major == 9 && !place.odd();
    const Cell cell = &k == &waits ? Cell(Calibration{found})
                                   : Cell(Compared{predicted_cycles(k, place.n, latency), found,
                                                   known ? Model::traffic : Model::host});
    const Warp warp = load(k.split, block_threads, place.n);
    const std::string at = at_text(row);
    table.row({row.key, at.empty() ? "" : "loads in flight", at,
               std::string(place.words) + ", " + k.words()},
              {double(sectors(warp)), double(passes(warp)), cell, spread_text(found)});
  }
}

// ---- the experiment: pairs of rows that are timed in turn ----

struct Pair {
  const char* heading;
  size_t n;
  Grid grid;
  const char *chunks, *interleaved;  ///< keys
  const Kernel &by_chunks, &by_interleaving;
  bool calibrates = false;  ///< the interleaved row is the memory's rate

  Comparison gain() const { return {.slow = chunks, .fast = interleaved}; }
  const Kernel& kernel_of(const Row& row) const {
    return row.ref.key == chunks ? by_chunks : by_interleaving;
  }
};

/// The text's pair; the same loads in one warp, where no threads are switched; the whole GPU.
Pair text_pair(const Run& run) {
  return {"one block, from memory",     words_of_block(run),   Grid{},
          "squares_by_chunks",          "squares_interleaved", kernel("squares_by_chunks"),
          kernel("squares_interleaved")};
}
Pair one_warp(const Run& run) {
  return {"one warp, from memory",      words_of_block(run),
          Grid{.of_block = 32},         "chunks_one_warp",
          "interleaved_one_warp",       kernel("chunks_at_once"),
          kernel("interleaved_at_once")};
}
Pair whole_gpu(const Run& run) {
  const unsigned blocks = run.device ? resident_blocks(run.device->prop, block_threads) : 1024;
  return {"whole GPU",
          words_of_gpu(run),
          Grid{blocks},
          "chunks_whole_gpu",
          "interleaved_whole_gpu",
          kernel("chunks_at_once", 4),
          kernel("interleaved_at_once", 4),
          true};
}

void measure_pair(const Run& run, const Pair& pair) {
  SharedByTasks squares([&pair] { return Squares(pair.n, pair.grid); });
  Sheet sheet(run, pair.heading,
              {number(predicted("sectors/request", "sectors a request", "", 0),
                      [&pair](const Row& row) {
                        const Split split = pair.kernel_of(row).split;
                        return sectors(load(split, pair.grid.threads(), pair.n));
                      }),
               milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               bar_against(run, pair.interleaved)});
  for (const bool interleaved : {false, true})
    sheet.add({.ref = interleaved ? pair.interleaved : pair.chunks,
               .words = interleaved ? "interleaved" : "a chunk per thread",
               .bytes = 4.0 * double(pair.n),
               .calibrates = interleaved && pair.calibrates,
               .model = Model::host});
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(row.ref, squares(), pair.kernel_of(row)); });
  if (pair.calibrates && run.device)
    sheet.predict(
        [&](const Row&) {
          return predicted_ms(pair.grid.threads(), pair.n, sheet.ms(pair.interleaved), *run.device);
        },
        Basis::fitted);
  sheet.print();
}

bool in_cache(const Run& run) {
  return run.device && !beyond_l2(*run.device, 4.0 * double(words_of_block(run)));
}

void run_work_split(const Run& run) {
  const std::vector<Place> all = places(run);
  run.report.begin("work_split",
                   "squares of " + bytes_text(4.0 * double(all[0].n)) + ", " +
                       bytes_text(4.0 * double(words_of_block(run))) + " and " +
                       bytes_text(4.0 * double(words_of_gpu(run))) +
                       " of 4-byte words, in blocks of " + std::to_string(block_threads) +
                       " threads" +
                       (in_cache(run) ? "; the second less than four times the L2" : ""));
  Table table(run.report, "one block, loads in flight",
              {predicted("sectors/request", "sectors a request", "", 0),
               predicted("passes", "passes through L1 a request", "", 0),
               compared("cycles/word", cycles_per_word, "cycles", 3), shown("spread")});
  for (const Place& place : all) measure_block(run, place, table);
  table.print();
  if (!run.device) run.report.left_out("the cycles");
  run.report.note(
      "calibration: the latency of a load, from L2 and from memory, with one in flight");
  run.report.note(
      "odd chunks: the banks of L1 would give 32 words per cycle; what limits them is open");
  measure_pair(run, text_pair(run));
  measure_pair(run, one_warp(run));
  measure_pair(run, whole_gpu(run));
  run.report.note("4 loads in flight; interleaved at the memory's rate");
}

// ---- claims ----

/// How many times as fast interleaved threads are, by cycles; empty where that was not measured.
std::string gain_text(const Run& run, const Place& place, const Kernel& by_chunks,
                      const Kernel& by_interleaving) {
  if (!measured_there(run, place, by_chunks)) return "";
  const double gain =
      cycles_of(run, place.ref(by_chunks)) / cycles_of(run, place.ref(by_interleaving));
  return factor_text(gain) + " as fast";
}
std::string gains_by_loads(const Run& run) {
  const std::vector<Place> all = places(run);
  std::string text =
      std::to_string(as_compiled) + " loads in flight per thread in both; from L2 " +
      gain_text(run, all[0], kernel("squares_by_chunks"), kernel("squares_interleaved"));
  for (const unsigned loads : {1u, 4u, 16u}) {
    const std::string gain = gain_text(run, all[2], kernel("chunks_at_once", loads),
                                       kernel("interleaved_at_once", loads));
    if (!gain.empty()) text += "; with " + std::to_string(loads) + " in flight " + gain;
  }
  return text;
}

std::vector<Claim> claims(const Run& run) {
  const std::string unless = in_cache(run) ? "the array is less than four times the L2" : "";
  Criterion no_gain = gains_nothing();
  no_gain.bound = much;  // a gain of 1.5 times without switching refutes the cause
  return {{.part = {"03.7a", "interleaved threads are faster than a chunk a thread, in one block",
                    "15x faster", "vendor's guide"},
           .rule = beats(15),
           .pairs = {text_pair(run).gain()},
           .here = gains_by_loads(run),
           .unless = unless,
           .found = {whole_gpu(run).gain()}},
          {.part = {"03.7b",
                    "the gain is that of threads no longer switched: a warp alone gains nothing",
                    "no figure", "vendor's guide"},
           .rule = no_gain,
           .pairs = {one_warp(run).gain()},
           .unless = unless}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double one_block = double(words_of_block(run)), all = double(words_of_gpu(run));
  const double sums = 12.0 * double(whole_gpu(run).grid.threads());
  return {.allocated = 4 * std::max(one_block, all) + sums,
          .touched = 4 * std::min(one_block, all)};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Grid grid : {Grid{}, Grid{.of_block = 32}, Grid{.blocks = 7}})
    for (const Kernel& k : kernels) {
      if (k.text && grid.threads() != block_threads) continue;
      const Shared squares(Squares(n, grid));
      all.push_back({.task = task_of({k.key, double(k.loads)}, squares, k),
                     .elements = grid.threads() + 1,  // no sums, and no cycles
                     .change_one = [squares] { squares->sum.change(0); }});
    }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t n = size_t(1) << 20;
  constexpr Grid grid{.blocks = 8};  // chunks of 512 words: each lane has a sector of its own
  std::vector<CountedLaunch> all;
  for (const Kernel* k : {&kernel("chunks_at_once"), &kernel("interleaved_at_once")}) {
    const double requests = double(n) / 32;
    const double sums = double(grid.threads()) / 32;  // stores; another one is of the cycles
    all.push_back(counted_launch(
        k->key, "1048576 words", {requests, requests * sectors(load(k->split, grid.threads(), n))},
        {sums + 1, 4 * sums + 1},
        [k] { return task_of(k->key, Shared(Squares(n, Grid{.blocks = 8})), *k); }));
  }
  return all;
}

}  // namespace

extern const Experiment work_split_experiment{
    .name = "work_split",
    .about = "a chunk for each thread, or threads interleaved",
    .run = run_work_split,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
