// work_split: a sum of squares by 256 threads. Each thread takes a chunk of the array, or the
// threads are interleaved over it. The guide calls the second 15 times as fast, in one block, since
// it "eliminates GPU thread switching" [KP].
//
// Look at one warp alone, which has no other to switch to: does it gain, too? Then look at the
// loads in flight. Interleaved threads wait for memory at each load, a chunk's thread at one out of
// eight: the next seven words lie in a sector that it has.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o work_split work_split.cu ../common/*.cpp
//
//   1  chunks::squaresSum       the guide's first: in one block, thread t takes the t-th chunk
//   2  interleaved::squaresSum  the guide's second: thread t takes every 256th word
//   3  chunks::at_once          1 in many blocks, with so many loads of a thread in flight
//   4  interleaved::at_once     2 likewise
#include <algorithm>
#include <ctime>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

// ---- the kernels: thread t leaves its sum of squares in sum[t], thread 0 its cycles in *time ----

// The guide's constants DATA_SIZE and THREAD_NUM are parameters here.
namespace chunks {

// The lanes of a warp are a chunk apart: 32 sectors, and each lane walks on through its own.
template <int THREAD_NUM>
__global__ static void squaresSum(int* data, int* sum, clock_t* time, int DATA_SIZE) {
  const int size = (DATA_SIZE + THREAD_NUM - 1) / THREAD_NUM;
  const int tid = threadIdx.x;
  const int end = min((tid + 1) * size, DATA_SIZE);
  int tmp_sum = 0;
  clock_t start = 0;
  if (tid == 0) start = clock();
  for (int i = tid * size; i < end; i++) {
    tmp_sum += data[i] * data[i];
  }
  sum[tid] = tmp_sum;
  if (tid == 0) *time = clock() - start;
}

// `loads` loads of a thread are in flight before the first square, whatever the compiler would do.
// The launch bounds leave it the registers.
template <unsigned loads>
__global__ void __launch_bounds__(256, 4) at_once(int* data, int* sum, clock_t* time, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t size = (n + threads - 1) / threads;
  const size_t end = min((tid + 1) * size, n);
  int squares = 0;
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

}  // namespace chunks

namespace interleaved {

// The lanes of a warp take neighbours, 4 sectors, and all step on together.
template <int THREAD_NUM>
__global__ static void squaresSum(int* data, int* sum, clock_t* time, int DATA_SIZE) {
  const int tid = threadIdx.x;
  int tmp_sum = 0;
  clock_t start = 0;
  if (tid == 0) start = clock();
  for (int i = tid; i < DATA_SIZE; i += THREAD_NUM) {
    tmp_sum += data[i] * data[i];
  }
  sum[tid] = tmp_sum;
  if (tid == 0) *time = clock() - start;
}

template <unsigned loads>
__global__ void __launch_bounds__(256, 4) at_once(int* data, int* sum, clock_t* time, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  int squares = 0;
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

}  // namespace interleaved

// ---- what must come out ----

enum Split { by_chunks, by_interleaving };

/// Of 6 bits, so that no sum exceeds an int.
__host__ __device__ int value_at(size_t i) { return int(hash(i) >> 26); }

/// The thread that takes word i.
__host__ __device__ size_t taker(Split split, size_t i, size_t n, size_t threads) {
  return split == by_chunks ? i / ((n + threads - 1) / threads) : i % threads;
}

/// What each thread has to find, from words to threads (the kernels go from threads to words).
DeviceBuffer<int> right_sums(Split split, size_t n, size_t threads) {
  auto right = filled<int>(threads, [] __device__(size_t) { return 0; });
  const auto add = [sums = right.data(), split, n, threads] __device__(size_t i) {
    atomicAdd(&sums[taker(split, i, n, threads)], value_at(i) * value_at(i));
  };
  for_each_index<<<1024, 256>>>(n, add);
  CUDA_CHECK_LAUNCH();
  return right;
}

/// The squares of n words, and what the threads of a grid leave.
struct Squares {
  Split split;
  unsigned blocks, of_block;
  DeviceBuffer<int> data;
  size_t n;
  size_t threads = size_t(blocks) * of_block;
  DeviceBuffer<int> right = right_sums(split, n, threads);
  GuardedBuffer<int> sum{threads};
  GuardedBuffer<clock_t> time{1};

  /// clock() has 64 bits with nvcc 13, and 32 before: below 2^32 cycles this is right with both.
  unsigned cycles() const { return unsigned(time.to_host()[0]); }
  std::string find_error() const {
    const auto right_sum = [sums = right.data()] __device__(size_t thread) { return sums[thread]; };
    const std::string error = find_mismatch(sum, right_sum);
    if (!error.empty()) return error;
    return cycles() == ~0u ? "no cycles were written" : guard_error(time);
  }
  void poison() const {
    sum.poison();
    time.poison();
  }
};

DeviceBuffer<int> values(size_t n) {
  return filled<int>(n, [] __device__(size_t i) { return value_at(i); });
}

// ---- the prediction ----

/// Words from a lane's word to that of the next lane.
size_t words_apart(Split split, size_t n, size_t threads) {
  return split == by_chunks ? (n + threads - 1) / threads : 1;
}

size_t sectors_of(Split split, size_t n, size_t threads) {
  const size_t apart = words_apart(split, n, threads);
  return sectors(sizeof(int), [=](size_t lane) { return lane * apart; });
}

/// Cycles per word at least: L1 has 32 banks of 4 bytes, as shared memory has, and each gives one
/// word per cycle. The lanes of chunks of 2^k words all want the same bank.
double least_cycles(Split split, size_t n, size_t threads) {
  size_t lanes_of_bank[32] = {};
  for (size_t lane = 0; lane < 32; ++lane)
    ++lanes_of_bank[lane * words_apart(split, n, threads) % 32];
  return double(*std::max_element(lanes_of_bank, lanes_of_bank + 32)) / 32;
}

// ---- the launches: add yours here ----

template <auto kernel>
void by(const Squares& s) {
  kernel<<<s.blocks, s.of_block>>>(s.data, s.sum, s.time, s.n);
}

enum Grid { one_block, whole_gpu };

struct Launch {
  const char* name;
  Split split;
  Grid grid;
  unsigned of_block;
  void (*launch)(const Squares& squares);

  Benchmark benchmark(const Squares& s) const {
    const auto work = [s, launch = launch] { launch(s); };
    return {name, work, {[s] { s.poison(); }, [s] { return s.find_error(); }}};
  }
};
const Launch launches[] = {
    {"one block, chunks", by_chunks, one_block, 256, by<chunks::squaresSum<256>>},
    {"one block, interleaved", by_interleaving, one_block, 256, by<interleaved::squaresSum<256>>},
    {"one warp, chunks", by_chunks, one_block, 32, by<chunks::squaresSum<32>>},
    {"one warp, interleaved", by_interleaving, one_block, 32, by<interleaved::squaresSum<32>>},
    {"1 in flight, chunks", by_chunks, one_block, 256, by<chunks::at_once<1>>},
    {"1 in flight, interleaved", by_interleaving, one_block, 256, by<interleaved::at_once<1>>},
    {"4 in flight, chunks", by_chunks, one_block, 256, by<chunks::at_once<4>>},
    {"4 in flight, interleaved", by_interleaving, one_block, 256, by<interleaved::at_once<4>>},
    {"whole GPU, chunks", by_chunks, whole_gpu, 256, by<chunks::at_once<4>>},
    {"whole GPU, interleaved", by_interleaving, whole_gpu, 256, by<interleaved::at_once<4>>},
};

}  // namespace

void work_split(Run& run) {
  const size_t n_of_gpu = run.fitting(size_t(1) << (run.quick ? 26 : 28), sizeof(int));
  const size_t n = size_t(1) << (run.quick ? 20 : 22);
  const auto data = values(n_of_gpu);
  const DeviceBuffer<char> other(4 * size_t(run.gpu.l2CacheSize));
  run.title("squares of " + bytes_text(4.0 * double(n)) + " of 4-byte words; of the whole GPU, " +
            bytes_text(4.0 * double(n_of_gpu)));

  // one block or warp: other data fill the L2 before each run, so that the words come from memory
  const auto fill_l2 = [other] { CUDA_CHECK(cudaMemsetAsync(other, 0, other.bytes())); };
  std::vector<Squares> memory;
  std::vector<Benchmark> benchmarks;
  for (const Launch& launch : launches) {
    const bool alone = launch.grid == one_block;
    const unsigned blocks = alone ? 1 : run.resident_blocks(launch.of_block);
    memory.push_back({launch.split, blocks, launch.of_block, data, alone ? n : n_of_gpu});
    benchmarks.push_back(launch.benchmark(memory.back()));
    if (alone) benchmarks.back().before = fill_l2;
  }
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("who adds up, and how",
              {"sectors/request", "cycles/word: least", "found", "ms", "spread", "GB/s"});
  for (size_t b = 0; b < benchmarks.size(); ++b) {
    const Squares& of = memory[b];
    const Times& times = timed[benchmarks[b].name];
    const bool alone = of.blocks == 1;
    table.row(benchmarks[b].name,
              {double(sectors_of(of.split, of.n, of.threads)),
               alone ? Cell(least_cycles(of.split, of.n, of.threads)) : Cell(""),
               alone ? Cell(double(of.cycles()) / double(of.n)) : Cell(""), times.ms_interval(),
               percent(times.spread()), times.gbs(4.0 * double(of.n))});
  }
  run.print(table);
  run.note("one block, one warp: the guide's kernels; nvcc 12.4 and 13.0 unroll both by 16");
  run.note("in flight: loads of a thread, in one block; whole GPU: 4 in flight");
  run.note("least: 32 banks of L1, a word per cycle each; the lanes of these chunks share one");
  run.note("whole GPU, chunks: the lanes of a multiprocessor use " +
           bytes_text(128.0 * run.gpu.maxThreadsPerMultiProcessor) +
           " of lines, more than L1 keeps");
  run.note("one warp, where no threads are switched: interleaved is " +
           factor_text(ratio(timed["one warp, chunks"], timed["one warp, interleaved"])) +
           " as fast as chunks");

  run.claim({"03.7a", "interleaved threads are 15 times as fast as threads with chunks",
             "[KP] \"15 times higher\""},
            timed.speedup({.of = "one block, interleaved", .over = "one block, chunks"}),
            faster_by(15));
  const size_t in_turn = sectors_of(by_interleaving, n, 256);
  run.computed({"03.7b", "interleaved threads make what a warp reads contiguous",
                "[KP] \"all memory operations are unified\""},
               in_turn * sector_bytes == 32 * sizeof(int),
               std::to_string(in_turn) + " sectors per request in place of " +
                   std::to_string(sectors_of(by_chunks, n, 256)));
}
SAMPLE(9, work_split, "a chunk for each thread, or threads interleaved");

TEST_CASE("work_split: sectors and the least cycles of a warp's load, by hand") {
  CHECK(sectors_of(by_chunks, 1 << 20, 256) == 32);
  CHECK(sectors_of(by_chunks, 1 << 15, 8192) == 16);  // chunks of 4 words: two lanes to a sector
  CHECK(sectors_of(by_interleaving, 1 << 20, 256) == 4);
  CHECK(least_cycles(by_chunks, 1 << 20, 256) == 1);            // 4096 words: one bank
  CHECK(least_cycles(by_chunks, 256 * 4097, 256) == 1.0 / 32);  // odd: a bank for each lane
  CHECK(least_cycles(by_chunks, 256 * 12, 256) == 4.0 / 32);    // eight banks
  CHECK(least_cycles(by_interleaving, 1 << 20, 256) == 1.0 / 32);
}

namespace {

/// The guide's loops, for any number of threads.
std::vector<int> sums_by_host(Split split, size_t n, size_t threads) {
  const size_t size = (n + threads - 1) / threads;
  std::vector<int> sums(threads, 0);
  for (size_t tid = 0; tid < threads; ++tid) {
    const auto add = [&](size_t i) { sums[tid] += value_at(i) * value_at(i); };
    if (split == by_chunks)
      for (size_t i = tid * size; i < std::min((tid + 1) * size, n); ++i) add(i);
    else
      for (size_t i = tid; i < n; i += threads) add(i);
  }
  return sums;
}

}  // namespace

TEST_CASE("work_split: the words' takers are those of the guide's loops") {
  for (const size_t n : {1, 31, 256, 1009, 65537})
    for (const size_t threads : {1, 32, 256, 8192})
      for (const Split split : std::initializer_list<Split>{by_chunks, by_interleaving}) {
        std::vector<int> sums(threads, 0);
        for (size_t i = 0; i < n; ++i)
          sums.at(taker(split, i, n, threads)) += value_at(i) * value_at(i);
        CHECK(sums == sums_by_host(split, n, threads));
      }
}

TEST_CASE("work_split: every thread's sum is that of the guide's loop, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 1009, 100003}) {
    const auto data = values(n);
    for (const Launch& launch : launches)
      for (const unsigned blocks : {1u, 7u, 300u}) {
        if (blocks > 1 && launch.grid == one_block) continue;
        const Squares squares{launch.split, blocks, launch.of_block, data, n};
        const Benchmark benchmark = launch.benchmark(squares);
        CAPTURE(launch.name);
        CAPTURE(n);
        CAPTURE(blocks);
        benchmark.check.poison();
        benchmark.work();
        CHECK(benchmark.check.find_error() == "");
        CHECK(squares.sum.to_host() == sums_by_host(launch.split, n, squares.threads));
        benchmark.check.poison();
        CHECK(benchmark.check.find_error() != "");
      }
  }
}
