// sum: how fast can a kernel read? The study of 2007 adds up 12288 x 12288 numbers [BW]. By rows it
// reads at 82% of the theoretical rate, by columns at 1%, in words of 16 bytes slower by rows and
// four times as fast by columns. It expects random order to be like columns, and does not try it.
//
// Look at the first three rows. float4 is faster today, but not because its words are wide: eight
// loads of 4 bytes in flight do as well. Then see what moves: by columns, and in random order.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o sum sum.cu ../common/*.cpp
//
//   1  Sum_h        by rows; the study's, and in words of float4
//   2  eight_loads  by rows, each thread has eight loads in flight
//   3  sum_columns  by columns
//   4  sum_random   in random order
//   5  no_reads     Sum_h with `sum += 1` in its loop; without rows it is the empty kernel
#include <algorithm>

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
// find it in L1 or in L2.
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
__host__ __device__ size_t shuffled(size_t x, size_t count) {
  size_t ones = count - 1;  // made the least 2^k - 1 that is not below it
  for (unsigned s = 1; s < 64; s *= 2) ones |= ones >> s;
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
      sum += total(in[shuffled(size_t(row) * columns + col, size_t(rows) * columns)]);
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

/// rows x columns floats.
struct Matrix {
  unsigned rows, columns;
  DeviceBuffer<float> in;
};
Matrix matrix(unsigned rows, unsigned columns) {
  const auto value = [] __device__(size_t i) { return float(number(i)); };
  return {rows, columns, filled<float>(size_t(rows) * columns, value)};
}

/// Every thread has left a sum, together `right`.
Check adds_up_to(unsigned long long right, const GuardedBuffer<float>& out) {
  const auto sum_at = [sums = out.data()] __device__(size_t i) {
    const bool written = sums[i] == sums[i];  // the poison is NaN
    return written ? (unsigned long long)sums[i] : 1ull << 40;
  };
  const auto find_error = [=]() -> std::string {
    const auto found = sum_of(out.size(), sum_at);
    return found == right ? guard_error(out) : "the sum is " + std::to_string(found);
  };
  return {[=] { out.poison(); }, find_error};
}

// ---- the prediction ----

enum Order { by_rows, by_columns, at_random, no_words };

/// What a request of a warp asks of L1, and what memory sends for each byte that is read: pieces of
/// 64 bytes, the rest of which nobody wants soon in random order.
struct Moved {
  size_t sectors, lines;
  double from_memory;
};
Moved moved(Order order, size_t word) {
  constexpr double piece = 64;  // of an H100; fetch_size, in 03_access_patterns, looks for others
  const size_t step = order == by_rows ? 1 : 12288;
  const auto word_of = [=](size_t lane) { return lane * step; };
  return {sectors(word, word_of), segments_touched(128, word, word_of),
          order == at_random ? piece / double(word) : 1};
}

/// The least time of so many requests, in ms: L1 serves one line per cycle and multiprocessor.
double l1_ms(double requests, size_t lines, int multiprocessors, double kHz) {
  return requests * double(lines) / multiprocessors / kHz;
}

// ---- the launches ----

struct Launch {
  unsigned blocks, threads;
  std::string text() const { return std::to_string(blocks) + " x " + std::to_string(threads); }
};

template <auto kernel, class FTYPE>
void launch(Launch l, const Matrix& m, unsigned rows, float* sums) {
  const unsigned columns = m.columns / unsigned(sizeof(FTYPE) / sizeof(float));
  kernel<<<l.blocks, l.threads>>>(m.in.as<FTYPE>(), sums, rows, columns);
}

struct Row {
  const char* name;
  void (*launch)(Launch l, const Matrix& m, unsigned rows, float* sums);
  Order order;
  size_t word = sizeof(float);  ///< bytes
  double gbs_then = NAN;        ///< in the study, on an 8800 GTX
  unsigned in_flight = 1;       ///< loads of a thread
  bool empty = false;           ///< it goes over no rows
};
// Add yours here.
const Row rows_of_table[] = {
    {"by rows, float", launch<Sum_h<float>, float>, by_rows, 4, 70.52},
    {"by rows, float4", launch<Sum_h<float4>, float4>, by_rows, 16, 38.83},
    {"by rows, 8 floats", launch<eight_loads, float>, by_rows, 4, NAN, 8},
    {"by columns, float", launch<sum_columns<float>, float>, by_columns, 4, 0.92},
    {"by columns, float4", launch<sum_columns<float4>, float4>, by_columns, 16, 3.73},
    {"random, float", launch<sum_random<float>, float>, at_random, 4},
    {"random, float4", launch<sum_random<float4>, float4>, at_random, 16},
    {"sum += 1", launch<no_reads, float>, no_words},
    {"empty kernel", launch<no_reads, float>, no_words, 4, NAN, 1, true},
};

Benchmark benchmark_of(const std::string& name, const Row& row, Launch l, const Matrix& m) {
  const GuardedBuffer<float> sums(size_t(l.blocks) * l.threads);
  const unsigned rows = row.empty ? 0 : m.rows;
  const size_t n = size_t(rows) * m.columns;
  const auto added = [order = row.order] __device__(size_t i) {
    return order == no_words ? 1 : number(i);
  };
  return {name, [=, launch = row.launch] { launch(l, m, rows, sums); },
          adds_up_to(sum_of(n, added), sums)};
}

// ---- the experiment ----

/// KiB in flight on a multiprocessor: each resident thread waits for its loads.
double kib_in_flight(const Run& run, const Row& row, Launch l) {
  const double threads = l.threads * std::min(l.blocks, run.resident_blocks(l.threads));
  return double(row.word * row.in_flight) * threads / run.gpu.multiProcessorCount / double(KiB);
}

/// The study's best, or blocks that fill the GPU once or four times.
Launch best_launch(const Run& run, const Row& row, const Matrix& m) {
  std::map<std::string, Launch> launches{{"1024 x 192", {1024, 192}}};
  for (const unsigned threads : {192, 512, 1024})
    for (const unsigned times : {1, 4}) {
      const Launch l{times * run.resident_blocks(threads), threads};
      launches[l.text()] = l;
    }
  std::vector<Benchmark> candidates;
  for (const auto& [name, l] : launches) candidates.push_back(benchmark_of(name, row, l, m));
  Timer timer = run.timer;
  timer.rounds = 6;
  const Timings timed = timer.interleaved(candidates);
  const auto faster = [&](const auto& a, const auto& b) {
    return timed[a.first].median() < timed[b.first].median();
  };
  return std::min_element(launches.begin(), launches.end(), faster)->second;
}

}  // namespace

void sum(Run& run) {
  unsigned side = run.quick ? 8192 : 12288;
  while (!run.fits(4.0 * side * side)) side /= 2;
  const double bytes = 4.0 * side * side, theory = theoretical_gbs();
  const Matrix m = matrix(side, side);
  run.title(bytes_text(bytes) + " of floats are added up; theory: " + digits(theory) + " GB/s");

  std::map<std::string, Launch> chosen;
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows_of_table) {
    chosen[row.name] = best_launch(run, row, m);
    benchmarks.push_back(benchmark_of(row.name, row, chosen[row.name], m));
  }
  const Timings timed = run.timer.interleaved(benchmarks);

  std::map<std::string, double> shares;  // of theory
  Table table("order", {"launch", "KiB in flight", "ms", "GB/s", "theory", "in 2007", ""});
  Table moves("moved",
              {"sectors/request", "lines", "L1, at least ms", "memory, MiB", "memory, GB/s", "ms"});
  for (const Row& row : rows_of_table) {
    const Launch l = chosen[row.name];
    const Times& times = timed[row.name];
    if (row.order == no_words)
      table.row(row.name, {l.text(), "", times.ms_interval(), "", "", "", ""});
    if (row.order == no_words) continue;
    const Moved of = moved(row.order, row.word);
    const double requests = bytes / double(32 * row.word), from_memory = of.from_memory * bytes;
    moves.row(row.name, {of.sectors, of.lines,
                         l1_ms(requests, of.lines, run.gpu.multiProcessorCount,
                               device_attribute(cudaDevAttrClockRate)),
                         from_memory / MiB, times.gbs_interval(from_memory), times.ms_interval()});
    const double share = shares[row.name] = times.gbs(bytes) / theory;
    table.row(row.name, {l.text(), kib_in_flight(run, row, l), times.ms_interval(),
                         times.gbs_interval(bytes), percent(share), row.gbs_then, bar(share)});
  }
  run.print(table);
  note_above_theory(run, shares);
  run.note("launch: blocks x threads, the best of seven; KiB in flight on a multiprocessor");
  run.note("in 2007: GB/s of an 8800 GTX, whose theory is 86.4; random order was not tried");
  run.note("04.1, 04.3, the cause: bytes in flight; eight floats of a thread reach " +
           percent(shares["by rows, 8 floats"]).words + " of theory");
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: in part the cache's rate");
  run.print(moves);
  run.note("lines: of a request; L1, at least: if it serves one line of 128 bytes per cycle");
  run.note("memory, predicted: each byte once, or 64 bytes for a random word");

  const auto of_2007 = [](const char* id, const char* statement, const char* figure) {
    return Claim{id, statement, "[BW] " + std::string(figure) + ", 8800 GTX", Hardware::g80};
  };
  run.claim(of_2007("04.1", "reading floats by rows reaches 82% of the theoretical bandwidth",
                    "82%, 70.52 of 86.4 GB/s"),
            {timed["by rows, float"].gbs_interval(bytes) / theory,
             "of the theoretical rate, by rows, float"},
            share_of(0.82));
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
  const auto per_load = [&](const std::string& order) {
    return 4 * ratio(timed[order + ", float4"], timed[order + ", float"]);
  };
  run.claim(of_2007("04.4b", "by columns, loading 128 bits takes as long as loading 32 bits",
                    "\"loading 32 bits and 128 bits takes the same time\""),
            {per_load("by columns"), "times as long for a load of 128 bits"}, as_much());
  run.note("04.4b, in random order: " + digits(per_load("random").value) + " times as long");
}
SAMPLE(5, sum, "the study's sum by rows, by columns, in random order");

TEST_CASE("sum: the random order takes every word once, beyond 32 bits, too") {
  for (const size_t count : {1, 2, 3, 31, 64, 101, 10007, 65536, 90000}) {
    std::vector<unsigned> taken(count, 0);
    for (size_t x = 0; x < count; ++x) ++taken.at(shuffled(x, count));
    CHECK(taken == std::vector<unsigned>(count, 1));
  }
  CHECK(shuffled(1, size_t(65536) * 65536) < size_t(65536) * 65536);
}

TEST_CASE("sum: what a request asks of L1, and what memory sends, by hand") {
  const auto check = [](Moved here, size_t sectors, size_t lines, double from_memory) {
    CHECK(here.sectors == sectors);
    CHECK(here.lines == lines);
    CHECK(here.from_memory == from_memory);
  };
  check(moved(by_rows, 4), 4, 1, 1);
  check(moved(by_rows, 16), 16, 4, 1);
  check(moved(by_columns, 4), 32, 32, 1);
  check(moved(by_columns, 16), 32, 32, 1);
  check(moved(at_random, 4), 32, 32, 16);  // of 64 bytes a lane wants 4
  check(moved(at_random, 16), 32, 32, 4);
  CHECK(l1_ms(2000, 32, 2, 1000) == 32);  // 64,000 lines, 2000 each ms
}

TEST_CASE("sum: every sum is right at awkward sizes") {
  if (skip_without_gpu()) return;
  const std::pair<unsigned, unsigned> sizes[] = {{1, 1}, {1, 4}, {31, 101}, {257, 20}, {7, 9000}};
  for (const auto& [rows, columns] : sizes)
    for (const Launch l : {Launch{1, 1024}, Launch{7, 33}, Launch{300, 192}}) {
      const Matrix m = matrix(rows, columns);
      for (const Row& row : rows_of_table) {
        if (columns * sizeof(float) % row.word) continue;  // a row is no whole number of words
        INFO(row.name, ": ", rows, " x ", columns, ", ", l.text());
        CHECK_NOTHROW(require_right(benchmark_of(row.name, row, l, m)));
      }
    }
}
