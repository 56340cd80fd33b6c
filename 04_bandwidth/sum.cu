// sum: how fast can a kernel read? The study of 2007 adds up 12288 x 12288 numbers [BW]. By rows it
// reads at 82% of the theoretical rate, by columns at 1%, in words of 16 bytes slower by rows and
// four times as fast by columns. It expects random order to be like columns, and does not try it.
//
// Look at the first three rows. float4 is faster today, but not because its words are wide: eight
// loads of 4 bytes in flight do as well. What counts is the number of bytes on their way at once.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o sum sum.cu ../common/*.cpp
//
//   1  Sum_h        by rows; the study's, and in words of float4
//   2  eight_loads  by rows, each thread has eight loads in flight
//   3  sum_columns  by columns
//   4  sum_random   in random order
//   5  no_reads     Sum_h with `sum += 1` in its loop; without rows it is the empty kernel
#include <algorithm>
#include <map>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "theory.hpp"

namespace {

// ---- kernels: `rows` rows of `columns` words. A word, FTYPE, is a float or a float4. Each thread
// leaves its own sum ----

__device__ float total(float word) { return word; }
__device__ float total(float4 word) { return (word.x + word.y) + (word.z + word.w); }

// A block takes every gridDim.x-th row. A warp reads 32 neighbouring words: 4 sectors of 32 bytes,
// or 16 with float4. A thread has one load in flight: nvcc does not unroll the inner loop. (With
// `#pragma unroll 1` nvcc 13.0 makes the same machine code.) The study's first argument, `run`, is
// left out: nothing uses it. Its SIZE became `rows` and `columns`.
template <class FTYPE>
__global__ void Sum_h(const FTYPE* g_idata, float* g_odata, unsigned rows, unsigned columns) {
  const unsigned blocks = gridDim.x;
  const unsigned threads = blockDim.x;
  const unsigned tid = threadIdx.x;
  const unsigned bx = blockIdx.x;
  float sum = 0;
  for (unsigned rowN = bx; rowN < rows; rowN += blocks)
    for (unsigned colN = tid; colN < columns; colN += threads)
      sum += total(g_idata[size_t(rowN) * columns + colN]);
  g_odata[bx * threads + tid] = sum;
}

// Sum_h<float> with eight loads of each thread in flight before the first addition.
__global__ void eight_loads(const float* in, float* out, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* line = in + size_t(row) * columns;
    unsigned col = threadIdx.x;
    for (; col + 7 * blockDim.x < columns; col += 8 * blockDim.x) {
      float word[8];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) word[k] = line[col + k * blockDim.x];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += word[k];
    }
    for (; col < columns; col += blockDim.x) sum += line[col];  // the remaining words
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A block takes every gridDim.x-th column. The lanes of a warp are a row apart: 32 sectors, of each
// of which a lane uses one word. The blocks beside it want the rest at about the same time, and
// find it in L2.
template <class FTYPE>
__global__ void sum_columns(const FTYPE* in, float* out, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned col = blockIdx.x; col < columns; col += gridDim.x)
    for (unsigned row = threadIdx.x; row < rows; row += blockDim.x)
      sum += total(in[size_t(row) * columns + col]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Puts the numbers below `count` into an order without pattern, each once. Every line of the loop
/// maps 0 to `ones` one to one (x ^ x >> s and odd factors can be undone), and a number beyond the
/// count goes round again until it is inside.
__host__ __device__ unsigned shuffled(unsigned x, unsigned count) {
  unsigned ones = count - 1;  // made the least 2^k - 1 that is not below it
  for (unsigned s = 1; s < 32; s *= 2) ones |= ones >> s;
  do {
    x = (x ^ x >> 14) * 0x85ebca6bu & ones;
    x = (x ^ x >> 14) * 0xc2b2ae35u & ones;
    x ^= x >> 14;
  } while (x >= count);
  return x;
}

// As by rows, but each lane reads the word that its own is shuffled to: 32 sectors per warp, and
// nobody wants their other bytes soon.
template <class FTYPE>
__global__ void sum_random(const FTYPE* in, float* out, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += total(in[shuffled(row * columns + col, rows * columns)]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// What the loop and the additions of Sum_h take. Without rows: what a launch and the results take,
// which the study subtracts from all its times. Here it is only shown.
__global__ void no_reads(const float*, float* out, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x) sum += 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- what must come out ----

/// Word i: a whole number from 1 to 255 without pattern. Sums of up to 65,000 of them are exact in
/// float. The study's words are fractions, whose sum depends on the order.
__host__ __device__ unsigned number(size_t i) { return 1 + hash(i) % 255; }

/// rows x columns floats, and room for the sums of so many threads.
struct Matrix {
  unsigned rows, columns;
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  unsigned long long sum;  ///< of all its numbers
};
Matrix matrix(unsigned rows, unsigned columns, size_t threads) {
  const size_t n = size_t(rows) * columns;
  return {rows, columns, filled<float>(n, [] __device__(size_t i) { return float(number(i)); }),
          GuardedBuffer<float>(threads), sum_of(n, [] __device__(size_t i) { return number(i); })};
}

/// So many threads have left one sum each, together `right`, and nobody has left more.
Check adds_up_to(unsigned long long right, const GuardedBuffer<float>& out, unsigned threads) {
  constexpr auto never = 1ull << 40;  // no sum of so few small numbers
  const auto sum_at = [sums = out.data(), threads] __device__(size_t i) {
    const float sum = sums[i];
    const bool written = sum == sum;  // the poison is NaN
    return written != (i < threads) ? never : written ? (unsigned long long)sum : 0;
  };
  const auto find_error = [=]() -> std::string {
    const auto found = sum_of(out.size(), sum_at);
    if (found >= never) return "not every thread left one sum";
    if (found != right) return "the sum is " + std::to_string(found);
    return guard_error(out);
  };
  return {[=] { out.poison(); }, find_error};
}

// ---- the prediction ----

/// The order in which a grid takes the words of a matrix. A block takes every gridDim.x-th line of
/// `line` words, and its threads take the words of a line in turn.
struct Order {
  unsigned line;
  std::function<size_t(size_t i)> word;  ///< the i-th
};
Order by_rows(unsigned, unsigned columns) {
  return {columns, [](size_t i) { return i; }};
}
Order by_columns(unsigned rows, unsigned columns) {
  return {rows, [=](size_t i) { return i % rows * columns + i / rows; }};
}
Order at_random(unsigned rows, unsigned columns) {
  return {columns, [=](size_t i) { return shuffled(unsigned(i), rows * columns); }};
}

/// Sectors of a warp's request for words of so many bytes.
size_t sectors_of(const Order& order, size_t word) { return sectors(word, order.word); }

struct Launch {
  unsigned blocks, threads;
  unsigned total() const { return blocks * threads; }
  std::string text() const { return std::to_string(blocks) + " x " + std::to_string(threads); }
};
constexpr Launch text_launch{1024, 192};  // the study's best

/// Bytes that are on their way at once: each resident thread waits for so many.
double bytes_in_flight(size_t of_thread, Launch l, unsigned resident) {
  return double(of_thread) * std::min(l.blocks, resident) * l.threads;
}

// ---- the launches ----

/// A kernel whose words are floats or float4. Launched, it goes over `rows` rows of a matrix.
struct Kernel {
  size_t word;  ///< its bytes
  std::function<void(Launch l, const Matrix& m, unsigned rows)> launch;

  template <class FTYPE>
  Kernel(void (*kernel)(const FTYPE*, float*, unsigned rows, unsigned columns))
      : word(sizeof(FTYPE)), launch([=](Launch l, const Matrix& m, unsigned rows) {
          const unsigned columns = m.columns / unsigned(sizeof(FTYPE) / sizeof(float));
          kernel<<<l.blocks, l.threads>>>(m.in.as<FTYPE>(), m.out, rows, columns);
        }) {}
  unsigned floats() const { return unsigned(word / sizeof(float)); }  // in a word
};

struct Facts {
  Order (*order)(unsigned rows, unsigned columns) = by_rows;
  unsigned in_flight = 1;           ///< loads of a thread
  bool reads = true;                ///< false: it adds 1 for each word
  bool empty = false;               ///< it goes over no rows
  const char* launch_of = nullptr;  ///< the row above whose launch it takes; none: the fastest
  double gbs_then = NAN;            ///< in the study, on an 8800 GTX
};

struct Row {
  const char* name;
  Kernel kernel;
  Facts facts = {};
};
// Add yours here.
const Row rows_of_table[] = {
    {"by rows, float", Sum_h<float>, {.gbs_then = 70.52}},
    {"by rows, float4", Sum_h<float4>, {.gbs_then = 38.83}},
    {"by rows, 8 floats", eight_loads, {.in_flight = 8}},
    {"by columns, float", sum_columns<float>, {.order = by_columns, .gbs_then = 0.92}},
    {"by columns, float4", sum_columns<float4>, {.order = by_columns, .gbs_then = 3.73}},
    {"random, float", sum_random<float>, {.order = at_random, .launch_of = "by columns, float"}},
    {"random, float4", sum_random<float4>, {.order = at_random, .launch_of = "by columns, float4"}},
    {"sum += 1", no_reads, {.reads = false}},
    {"empty kernel", no_reads, {.reads = false, .empty = true}},
};

Benchmark benchmark_of(const std::string& name, const Row& row, Launch l, const Matrix& m) {
  const unsigned rows = row.facts.empty ? 0 : m.rows;
  const auto right = row.facts.reads ? m.sum : (unsigned long long)rows * m.columns;
  const auto work = [=, launch = row.kernel.launch] { launch(l, m, rows); };
  return {name, work, adds_up_to(right, m.out, l.total())};
}

// ---- the experiment ----

Launch best_launch(const Run& run, const Row& row, const Matrix& m,
                   const std::vector<Launch>& launches) {
  std::vector<Benchmark> candidates;
  for (size_t i = 0; i < launches.size(); ++i)
    candidates.push_back(benchmark_of(std::to_string(i), row, launches[i], m));
  Timer timer = run.timer;
  timer.rounds = 6;
  timer.warm_up_ms = 5;
  const Timings timed = timer.interleaved(candidates);
  const auto ms = [&](size_t i) { return timed[std::to_string(i)].median(); };
  size_t best = 0;
  for (size_t i = 1; i < launches.size(); ++i)
    if (ms(i) < ms(best)) best = i;
  return launches[best];
}

}  // namespace

void sum(Run& run) {
  unsigned side = run.quick ? 8192 : 12288;
  while (!run.fits(4.0 * side * side)) side /= 2;
  const double bytes = 4.0 * side * side, theory = theoretical_gbs();
  std::vector<Launch> launches{text_launch};  // and blocks that fill the GPU once, and four times
  for (const unsigned threads : {192, 512, 1024})
    for (const unsigned times : {1, 4})
      launches.push_back({times * run.resident_blocks(threads), threads});
  size_t threads = 0;
  for (const Launch l : launches) threads = std::max<size_t>(threads, l.total());
  const Matrix m = matrix(side, side, threads);
  run.title(bytes_text(bytes) + " of floats are added up; theory: " + digits(theory) + " GB/s");

  std::map<std::string, Launch> chosen;
  std::map<std::string, double> shares;  // of theory
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows_of_table) {
    const Launch l = !row.facts.reads      ? text_launch
                     : row.facts.launch_of ? chosen.at(row.facts.launch_of)
                                           : best_launch(run, row, m, launches);
    chosen[row.name] = l;
    benchmarks.push_back(benchmark_of(row.name, row, l, m));
  }
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("order", {"launch", "sectors", "in flight", "ms", "GB/s", "theory", "in 2007", ""});
  for (const auto& [name, kernel, facts] : rows_of_table) {
    const Launch l = chosen.at(name);
    const Times& times = timed[name];
    if (!facts.reads) {
      table.row(name, {l.text(), "", "", times.ms_interval(), "", "", "", ""});
      continue;
    }
    const double share = times.gbs(bytes) / theory;
    shares[name] = share;
    const Order order = facts.order(side, side / kernel.floats());
    const double in_flight =
        bytes_in_flight(kernel.word * facts.in_flight, l, run.resident_blocks(l.threads));
    table.row(name, {l.text(), sectors_of(order, kernel.word), in_flight / MiB, times.ms_interval(),
                     times.gbs_interval(bytes), percent(share), facts.gbs_then, bar(share)});
  }
  run.print(table);
  note_above_theory(run, shares);
  run.note("launch: blocks x threads, the best of seven; sectors of 32 bytes per request");
  run.note("in flight: MiB that resident threads wait for; 8 floats: eight loads of 4 bytes each");
  run.note("columns: other blocks find the rest of a sector in L2; in random order nobody does");
  run.note("in 2007: GB/s of an 8800 GTX, whose theory is 86.4; random order was not tried");
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: in part the cache's rate");

  const auto of_2007 = [](const char* id, const char* statement, const char* figure) {
    return Claim{id, statement, "[BW] " + std::string(figure) + ", 8800 GTX", Hardware::g80};
  };
  const Interval share = timed["by rows, float"].gbs_interval(bytes) / theory;
  const Claim most =
      of_2007("04.1", "reading floats by rows reaches 82% of the theoretical bandwidth",
              "82%, 70.52 of 86.4 GB/s");
  run.claim(most, {share, "of the theoretical rate, by rows, float"}, share_of(0.82));
  run.claim(of_2007("04.2a", "reading by columns is slower by almost two orders of magnitude",
                    "77 times (70.52 against 0.92 GB/s)"),
            timed.speedup({.of = "by rows, float", .over = "by columns, float"}), faster_by(77));
  run.claim(of_2007("04.2b", "columns are read as slowly as random order would be",
                    "\"to be expected of random access, too\""),
            timed.speedup({.of = "by columns, float", .over = "random, float"}), no_faster());
  run.claim(of_2007("04.3", "by rows, reading float4 is 1.5 to 2 times slower than float",
                    "1.5-2 times; 38.83 against 70.52 GB/s"),
            timed.speedup({.of = "by rows, float", .over = "by rows, float4"}), faster_by(1.5, 2));
  run.claim(of_2007("04.4a", "by columns, reading float4 in place of float quadruples the rate",
                    "4 times; 3.73 against 0.92 GB/s"),
            timed.speedup({.of = "by columns, float4", .over = "by columns, float"}), faster_by(4));
  // a load of float4 brings four words: so its kernel does a quarter of the loads
  const Interval all = ratio(timed["random, float4"], timed["random, float"]);
  run.claim({"04.4b", "loading 128 bits takes as long as loading 32 bits",
             "[BW] \"loading 32 bits and 128 bits takes the same time\""},
            {4 * all, "times as long for a load of float4 as of float, in random order"},
            as_much());
}
SAMPLE(5, sum, "the study's sum by rows, by columns, in random order");

TEST_CASE("sum: the study's array adds up to its size, and three more") {
  constexpr double SIZE = 512;
  double sum = 0;
  for (int i = 0; i < SIZE * SIZE; i += 4) {  // the study's data[i] to data[i + 3]
    sum += 1.0 + (SIZE * SIZE - i - 1) / (SIZE * SIZE);
    sum += 1.0 - 2.0 * i / (SIZE * SIZE);
    sum += 1.0 + 3.0 * (SIZE * SIZE - i - 1) / (SIZE * SIZE);
    sum += 1.0 - 2.0 * i / (SIZE * SIZE);
  }
  CHECK(sum == doctest::Approx(SIZE * SIZE + 3).epsilon(1e-12));
}

TEST_CASE("sum: the random order takes every word once") {
  for (unsigned count : {1u, 2u, 3u, 31u, 64u, 101u, 10007u, 65536u, 90000u}) {
    std::vector<unsigned> taken(count, 0);
    for (unsigned x = 0; x < count; ++x) ++taken.at(shuffled(x, count));
    CHECK(taken == std::vector<unsigned>(count, 1));
  }
}

TEST_CASE("sum: sectors of a request, and bytes in flight, by hand") {
  constexpr unsigned side = 12288, quads = side / 4;
  CHECK(sectors_of(by_rows(side, side), sizeof(float)) == 4);
  CHECK(sectors_of(by_rows(side, quads), sizeof(float4)) == 16);
  CHECK(sectors_of(by_columns(side, side), sizeof(float)) == 32);
  CHECK(sectors_of(by_columns(side, quads), sizeof(float4)) == 32);
  CHECK(sectors_of(at_random(side, side), sizeof(float)) == 32);
  CHECK(sectors_of(at_random(side, quads), sizeof(float4)) == 32);
  // of 10 blocks of 100 threads 8 are resident: 800 loads of 4 bytes, or of 16; eight of 4 by 400
  CHECK(bytes_in_flight(4, {10, 100}, 8) == 3200);
  CHECK(bytes_in_flight(16, {10, 100}, 8) == 12800);
  CHECK(bytes_in_flight(8 * 4, {4, 100}, 8) == 12800);
}

/// What each thread must find, from words to threads.
std::vector<float> sums_by_host(const Row& row, Launch l, unsigned rows, unsigned columns) {
  std::vector<float> sums(l.total(), 0);
  if (row.facts.empty) return sums;
  const unsigned floats = row.kernel.floats();
  const Order order = row.facts.order(rows, columns / floats);
  for (size_t i = 0; i < rows * columns / floats; ++i) {
    float& sum = sums[i / order.line % l.blocks * l.threads + i % order.line % l.threads];
    for (unsigned k = 0; k < floats; ++k)
      sum += row.facts.reads ? float(number(order.word(i) * floats + k)) : 1.0f;
  }
  return sums;
}

TEST_CASE("sum: every thread's sum is right at awkward sizes") {
  if (skip_without_gpu()) return;
  const std::pair<unsigned, unsigned> sizes[] = {{1, 1}, {1, 4}, {31, 101}, {257, 20}, {7, 9000}};
  for (const auto& [rows, columns] : sizes)
    for (const Launch l : {Launch{1, 1024}, Launch{7, 33}, Launch{300, 192}}) {
      const Matrix m = matrix(rows, columns, l.total());
      for (const Row& row : rows_of_table) {
        if (columns % row.kernel.floats()) continue;  // a row is no whole number of words
        INFO(row.name, ": ", rows, " x ", columns, ", ", l.text());
        CHECK_NOTHROW(require_right(benchmark_of(row.name, row, l, m)));
        CHECK(m.out.to_host() == sums_by_host(row, l, rows, columns));
      }
    }
}

TEST_CASE("sum: the check finds a wrong sum, one that is missing and one too many") {
  if (skip_without_gpu()) return;
  const Row row{"by rows, float", Sum_h<float>};
  const Launch l{7, 33};
  const Matrix m = matrix(31, 101, l.total() + 1);
  const Benchmark benchmark = benchmark_of(row.name, row, l, m);
  const auto error_with = [&](size_t thread, float sum) {
    benchmark.check.poison();
    benchmark.work();
    CUDA_CHECK(cudaMemcpy(m.out + thread, &sum, sizeof sum, cudaMemcpyHostToDevice));
    return benchmark.check.find_error();
  };
  const std::vector<float> right = sums_by_host(row, l, m.rows, m.columns);
  CHECK(error_with(5, right[5]) == "");
  CHECK(error_with(5, right[5] + 1) != "");
  CHECK(error_with(5, NAN) != "");
  CHECK(error_with(l.total(), 0) != "");
}
