// work_split: a sum of squares with the array cut into a chunk for each thread, or with the threads interleaved over
// it. The text calls the second 15 times faster, in one block. Look at the sectors a request: the lanes of a warp that
// work on 32 chunks want 32 sectors at once. What that costs is decided by the cache, which may keep those sectors
// until the lanes have walked through them: it can for one block, and no longer when every multiprocessor is full of
// threads. In one block look at the cycles, too: about one for each word, from memory as from L2.
#include <doctest/doctest.h>

#include <array>
#include <optional>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

/// The words of one thread: first, first + step, ..., `count` of them.
struct Words {
  size_t first, step, count;
};

/// A chunk for each thread, the last ones shorter or empty.
__host__ __device__ Words chunk(size_t thread, size_t threads, size_t n) {
  const size_t share = (n + threads - 1) / threads, first = thread * share;
  return {first, 1, first >= n ? 0 : first + share < n ? share : n - first};
}

/// Every `threads`-th word.
__host__ __device__ Words interleaved(size_t thread, size_t threads, size_t n) {
  return {thread, threads, thread >= n ? 0 : (n - thread + threads - 1) / threads};
}

__device__ void sum_squares(Words words, const int* data, unsigned* sum, long long* cycles) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const long long start = clock64();
  unsigned squares = 0;  // wraps round, alike in any order
  // told to, the compiler has 16 loads on their way before it adds; by itself it would do so for the chunks only
#pragma unroll 16
  for (size_t k = 0; k < words.count; ++k) {
    const int value = data[words.first + k * words.step];
    squares += unsigned(value * value);
  }
  sum[tid] = squares;
  if (tid == 0) *cycles = clock64() - start;
}

// A warp's lanes are a chunk apart, and each walks through its own.
__global__ void squares_by_chunks(const int* data, size_t n, unsigned* sum, long long* cycles) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x, threads = size_t(gridDim.x) * blockDim.x;
  sum_squares(chunk(tid, threads, n), data, sum, cycles);
}

// A warp's lanes are neighbours, and all step on together.
__global__ void squares_interleaved(const int* data, size_t n, unsigned* sum, long long* cycles) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x, threads = size_t(gridDim.x) * blockDim.x;
  sum_squares(interleaved(tid, threads, n), data, sum, cycles);
}

/// 0 to 9, as in the text.
__host__ __device__ int digit(size_t i) { return int(scrambled(i) % 10); }

struct Digit {
  __device__ int operator()(size_t i) const { return digit(i); }
};
struct SumIsRight {
  size_t threads, n;
  bool chunks;
  __device__ bool operator()(size_t thread, unsigned found) const {
    const Words words = chunks ? chunk(thread, threads, n) : interleaved(thread, threads, n);
    unsigned squares = 0;
    for (size_t k = 0; k < words.count; ++k) {
      const int value = digit(words.first + k * words.step);
      squares += unsigned(value * value);
    }
    return found == squares;
  }
};

constexpr unsigned threads = reading_threads;  // of a block, 256

struct Work {
  DeviceBuffer<int> data;
  DeviceBuffer<unsigned> sum;
  DeviceBuffer<long long> cycles{1};
  unsigned blocks;
  Work(size_t n, unsigned blocks) : data(n), sum(size_t(blocks) * threads), blocks(blocks) { fill(data, Digit{}); }
  void launch(bool chunks) {
    (chunks ? squares_by_chunks : squares_interleaved)<<<blocks, threads>>>(data.data(), data.size(), sum.data(),
                                                                            cycles.data());
    CUDA_CHECK_LAUNCH();
  }
  bool right(bool chunks) {
    sum.poison();
    launch(chunks);
    return wrong_words(sum, SumIsRight{sum.size(), data.size(), chunks}) == 0;
  }
};

/// A warp's load in the middle of the array.
Warp load(bool chunks, size_t all_threads, size_t n) {
  return warp_of(4, [&](unsigned lane) {
    const Words words = (chunks ? chunk : interleaved)(lane, all_threads, n);
    return words.first + words.count / 2 * words.step;
  });
}

const Claim interleaving_wins{"03.7", "interleaved threads are faster than a chunk a thread, in one block", "guide",
                              "15x"};

}  // namespace

void work_split(const Run& run) {
  // 2^20 words lie in L2; 2^25 for one block, which takes milliseconds for them, and 2^28 for the whole GPU do not
  struct Case {
    const char* name;
    size_t n;
    unsigned blocks;
  };
  const unsigned all_blocks = run.device ? reading_blocks() : 1056;
  const Case cases[] = {{"one block, in L2", size_t(1) << 20, 1},
                        {"one block", size_t(1) << (run.quick ? 22 : 25), 1},
                        {"whole GPU", size_t(1) << (run.quick ? 24 : 28), all_blocks}};
  run.report.begin("work_split", "squares of " + std::to_string(cases[0].n) + " to " + std::to_string(cases[2].n) +
                                     " ints, " + bytes_text(4.0 * double(cases[0].n)) + " to " +
                                     bytes_text(4.0 * double(cases[2].n)) + ", blocks of 256 threads");
  Table table(
      run.report, "threads, words",
      {predicted("sectors/request", "sectors a request", "", 0), measured("median ms", "time", "ms", 3),
       shown("spread"), measured("GB/s", "bandwidth", "GB/s", 1),
       measured("cycles of thread 0", "cycles of thread 0", "cycles", 0), shown("gain"), then("then", "gain", "x", 0)});
  std::array<Statistics, 2> ms[3];  // [case][chunks]
  for (int c = 0; c < 3; ++c) {
    const size_t n = run.device ? shrunk_to_fit(4 * cases[c].n) / 4 : cases[c].n;
    std::optional<Work> work;
    if (run.device) work.emplace(n, cases[c].blocks);
    for (const bool chunks : {true, false}) {
      const std::string name = std::string(cases[c].name) + (chunks ? ", a chunk a thread" : ", interleaved");
      std::vector<Cell> cells(7);
      cells[0] = double(sectors(load(chunks, size_t(cases[c].blocks) * threads, n)));
      if (!chunks && c < 2) cells[6] = 15.0;
      if (run.device) {
        require_right(work->right(chunks), name);
        Measuring measuring = run.measuring;
        measuring.budget_ms = 100;  // one block alone is slow
        Statistics& t = ms[c][chunks] = time_device(measuring, [&] { work->launch(chunks); });
        cells[1] = t, cells[2] = spread_text(t), cells[3] = gigabytes_per_second(4.0 * double(n), t);
        cells[4] = double(work->cycles.to_host()[0]);
        if (!chunks) cells[5] = times(ms[c][true].median / t.median);
      }
      table.row({name, "words", std::to_string(n)}, cells);
    }
  }
  table.print();
  if (!run.device) return run.report.left_out("the times", {interleaving_wins});

  run.report.claim(interleaving_wins, [&] {
    if (4 * cases[1].n < 2 * run.device->l2_bytes())
      return not_judged("what one block reads is less than twice the L2");
    Judgement j = judge_ratio(ms[1][true], ms[1][false], 15);
    j.here = times(j.value) + " in one block; " + times(ms[0][true].median / ms[0][false].median) + " out of L2; " +
             times(ms[2][true].median / ms[2][false].median) + " over the whole GPU";
    return j;
  }());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

constexpr size_t profiled_words = 1 << 20;
constexpr unsigned profiled_blocks = 8,
                   profiled_warps =
                       profiled_blocks * threads / 32;  // with chunks of 512 words every lane has a sector for itself

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const bool chunks : {true, false})
    all.push_back({chunks ? "squares_by_chunks" : "squares_interleaved", "1048576 words",
                   double(sectors(load(chunks, profiled_blocks * threads, profiled_words))),
                   (4.0 * profiled_warps + 1) / (profiled_warps + 1),  // the sums, and one thread's cycles
                   [=] { return Work(profiled_words, profiled_blocks).right(chunks); }});
  return all;
}

}  // namespace

TEST_CASE("work_split: every word belongs to one thread") {
  for (size_t n : {1, 31, 256, 1009, 65537})
    for (size_t all_threads : {1, 32, 256, 8192})
      for (auto* split : {chunk, interleaved}) {
        std::vector<int> taken(n);
        for (size_t thread = 0; thread < all_threads; ++thread) {
          const Words words = split(thread, all_threads, n);
          for (size_t k = 0; k < words.count; ++k) ++taken.at(words.first + k * words.step);
        }
        CHECK(taken == std::vector<int>(n, 1));
      }
}

TEST_CASE("work_split: sectors of a warp's load") {
  CHECK(sectors(load(true, 256, 1 << 20)) == 32);
  CHECK(sectors(load(true, 8192, 1 << 15)) == 16);  // chunks of 4 words: two lanes a sector
  CHECK(sectors(load(false, 256, 1 << 20)) == 4);
}

TEST_CASE("work_split: every thread's sum is right and so is the total") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 255, 257, 1009, 1000003})
    for (unsigned blocks : {1, 7, 300}) {
      CAPTURE(n);
      CAPTURE(blocks);
      unsigned total = 0;
      for (size_t i = 0; i < n; ++i) total += unsigned(digit(i) * digit(i));
      Work work(n, blocks);
      for (const bool chunks : {true, false}) {
        CAPTURE(chunks);
        CHECK(work.right(chunks));
        unsigned sum = 0;
        for (unsigned of_thread : work.sum.to_host()) sum += of_thread;
        CHECK(sum == total);
        CHECK(work.cycles.to_host()[0] > 0);
      }
      if (n > work.sum.size())  // where a chunk is more than a word: the check can fail
        CHECK(wrong_words(work.sum, SumIsRight{work.sum.size(), n, true}) > 0);
    }
}

TEST_CASE("work_split: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("work_split: counted sectors equal the model") { compare_with_counters(counted_launches()); }
