// compare: every X against every Y, one result for each pair. A reader of the 2007 study found that storing the results
// took 20 minutes and comparing alone one; the reply was to store 4-byte words side by side, and that carrying the
// results to the host would take longer still. Look at how far apart "not stored" and each format of the result lie.
#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <numeric>

#include "../common/first_edition.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

__host__ __device__ bool before(int x, int y) { return x < y; }

/// X is padded to a multiple of this with the largest int, which lies before nothing: so no kernel asks where X ends.
constexpr unsigned tile = 1024;  // 32 words of 32 bits: what a warp that packs bits takes at a time
__host__ __device__ size_t padded(size_t nx) { return (nx + tile - 1) / tile * tile; }
constexpr unsigned threads = 256;
constexpr unsigned rows = 64;         // values of Y that a block goes through: enough to make the loads of X few
constexpr unsigned packed_rows = 16;  // the same where a lane takes 32 X: enough blocks for all multiprocessors

/// Where the result of column x and row y stands: a row holds all of X.
__host__ __device__ size_t result_index(size_t x, size_t y, size_t pitch) { return y * pitch + x; }
/// The X that lane `lane` of a warp that packs bits compares in its step k.
__host__ __device__ size_t packed_x(size_t warp, unsigned k, unsigned lane) { return warp * tile + 32 * k + lane; }
/// The word that this lane stores: the ballot of step k = lane.
__host__ __device__ size_t packed_word(size_t warp, unsigned lane) { return warp * (tile / 32) + lane; }

__device__ size_t end_row(unsigned rows, size_t ny) { return min((blockIdx.y + size_t(1)) * rows, ny); }
__device__ size_t thread_number() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A lane keeps one x and goes down a column; its warp stores 32 neighbouring words, 128 bytes, in each row.
__global__ void store_words(unsigned* result, const int* x, size_t pitch, const int* y, size_t ny) {
  const size_t column = thread_number();
  const int mine = x[column];
  for (size_t row = blockIdx.y * rows; row < end_row(rows, ny); ++row)
    result[result_index(column, row, pitch)] = before(mine, y[row]);
}

// The same with bytes: its warp stores 32 bytes at a time.
__global__ void store_bytes(uint8_t* result, const int* x, size_t pitch, const int* y, size_t ny) {
  const size_t column = thread_number();
  const int mine = x[column];
  for (size_t row = blockIdx.y * rows; row < end_row(rows, ny); ++row)
    result[result_index(column, row, pitch)] = before(mine, y[row]);
}

// A warp keeps 1024 x, 32 a lane. Each ballot packs 32 results into a word that every lane gets, lane k keeps the k-th,
// and the warp stores 32 neighbouring words.
__global__ void store_bits(unsigned* result, const int* x, size_t pitch, const int* y, size_t ny) {
  const size_t warp = thread_number() / 32;
  const unsigned lane = threadIdx.x % 32;
  if (warp >= pitch / tile) return;
  int mine[32];
  for (unsigned k = 0; k < 32; ++k) mine[k] = x[packed_x(warp, k, lane)];
  for (size_t row = blockIdx.y * packed_rows; row < end_row(packed_rows, ny); ++row) {
    const int other = y[row];
    unsigned kept = 0;
    for (unsigned k = 0; k < 32; ++k) {
      const unsigned ballot = __ballot_sync(~0u, before(mine[k], other));
      if (lane == k) kept = ballot;
    }
    result[result_index(packed_word(warp, lane), row, pitch / 32)] = kept;
  }
}

// The first kernel without its stores: one word a lane at the end keeps the compiler from dropping the comparisons.
__global__ void count_only(unsigned* result, const int* x, size_t pitch, const int* y, size_t ny) {
  const size_t column = thread_number();
  const int mine = x[column];
  unsigned count = 0;
  for (size_t row = blockIdx.y * rows; row < end_row(rows, ny); ++row) count += before(mine, y[row]);
  result[result_index(column, blockIdx.y, pitch)] = count;
}

enum { words, bytes, bits, none };  // the formats of the results, in this order

struct Format {
  const char *name, *kernel;
  double size;          ///< bytes a result
  double then_seconds;  ///< what the reader's comparison took
};
constexpr Format formats[] = {{"4-byte words", "store_words", 4, 20 * 60.0},
                              {"bytes", "store_bytes", 1, NAN},
                              {"bits packed by the warp", "store_bits", 1 / 8.0, NAN},
                              {"not stored", "count_only", 0, 60}};

/// Sectors of a warp's store. (Its loads: four of X, at first, and one of the Y that all its lanes want, in each row.)
int store_sectors(int f) {
  return sectors(warp_of(f == bytes ? 1 : 4, [&](unsigned lane) {
    return f == bits ? packed_word(0, lane) : result_index(lane, 0, tile);
  }));
}

/// `n` numbers in all of int's range, neither sorted nor constant, and padding.
std::vector<int> numbers(size_t n, size_t seed, size_t padding = 0) {
  std::vector<int> all(n);
  for (size_t i = 0; i < n; ++i) all[i] = int(scrambled(seed + i));
  all.resize(n + padding, INT_MAX);
  return all;
}
std::vector<int> some_x(size_t n) { return numbers(n, 1, padded(n) - n); }
std::vector<int> some_y(size_t n) { return numbers(n, size_t(1) << 31); }

/// The bit matrix by the host: bit c % 32 of word c / 32 of row y is the result of column c. `x` is padded.
std::vector<unsigned> bits_by_host(const std::vector<int>& x, const std::vector<int>& y) {
  unsigned bit[32];  // in place of a shift: so the compiler makes vectors of it
  for (unsigned k = 0; k < 32; ++k) bit[k] = 1u << k;
  std::vector<unsigned> packed(x.size() / 32 * y.size());
  unsigned* next = packed.data();
  for (const int other : y)
    for (size_t c = 0; c < x.size(); c += 32) {
      unsigned word = 0;
      for (unsigned k = 0; k < 32; ++k) word |= before(x[c + k], other) ? bit[k] : 0;
      *next++ = word;
    }
  return packed;
}

/// The number of ones in it, by another way.
unsigned long long ones_by_host(std::vector<int> x, const std::vector<int>& y) {
  std::sort(x.begin(), x.end());
  unsigned long long ones = 0;
  for (const int other : y) ones += size_t(std::lower_bound(x.begin(), x.end(), other) - x.begin());
  return ones;
}

/// Whether word i of a result agrees with the host's bits. Rows are whole words, so that no pitch is needed.
struct RightWord {
  const unsigned* right;
  int format;
  __device__ bool operator()(size_t i, unsigned word) const {
    if (format == bits) return word == right[i];
    if (format == words) return word == (right[i / 32] >> i % 32 & 1);
    const unsigned four = right[i / 8] >> i % 8 * 4;  // bytes: results 4 i to 4 i + 3
    return word == ((four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21);
  }
};

/// X, Y and the host's bits, on the device.
struct Work {
  std::vector<int> host_x, host_y;
  DeviceBuffer<int> x{host_x}, y{host_y};
  DeviceBuffer<unsigned> right_bits{bits_by_host(host_x, host_y)};

  Work(size_t nx, size_t ny) : host_x(some_x(nx)), host_y(some_y(ny)) {}
  size_t blocks_down(int f) const {
    const unsigned each = f == bits ? packed_rows : rows;
    return (y.size() + each - 1) / each;
  }
  /// Words that a launch stores: the results, or a count a lane.
  size_t stored(int f) const {
    return f == none ? x.size() * blocks_down(f) : size_t(double(x.size() * y.size()) * formats[f].size / 4);
  }
  void launch(int f, unsigned* out) const {
    const size_t pitch = x.size(), ny = y.size(), lanes = f == bits ? pitch / 32 : pitch;
    const dim3 grid(unsigned((lanes + threads - 1) / threads), unsigned(blocks_down(f)));
    const int *px = x.data(), *py = y.data();
    if (f == words) store_words<<<grid, threads>>>(out, px, pitch, py, ny);
    if (f == bytes) store_bytes<<<grid, threads>>>((uint8_t*)out, px, pitch, py, ny);
    if (f == bits) store_bits<<<grid, threads>>>(out, px, pitch, py, ny);
    if (f == none) count_only<<<grid, threads>>>(out, px, pitch, py, ny);
  }
  /// Launches once into a poisoned output and compares all of it with the host's bits, or the sum of the counts with
  /// their number.
  bool right(int f) const {
    DeviceBuffer<unsigned> out(stored(f));
    out.poison();
    launch(f, out.data());
    CUDA_CHECK_LAUNCH();
    if (f != none) return wrong_words(out, RightWord{right_bits.data(), f}) == 0;
    const std::vector<unsigned> counts = out.to_host();
    return std::accumulate(counts.begin(), counts.end(), 0ull) == ones_by_host(host_x, host_y);
  }
};

constexpr size_t whole_x = 1500000, whole_y = 100000;  // the reader's arrays
constexpr double whole_results = double(whole_x * whole_y);

const Claim storing_claim{"03.12", "storing the results dominates a comparison of all pairs", "8800 GTX",
                          "20 min stored, 1 min not stored"};

}  // namespace

void compare(const Run& run) {
  // 4 GiB of words, and bits that the host checks in 0.2 s; both arrays shrink by the same factor
  size_t shrink = run.quick ? 40 : 12;
  while (run.device && 8 * whole_results / double(shrink * shrink) > double(Device::free_bytes())) shrink += 4;
  const size_t nx = whole_x / shrink, ny = whole_y / shrink;
  const double results = double(nx) * double(ny);
  run.report.begin("compare", std::to_string(nx) + " X against " + std::to_string(ny) + " Y (the text's over " +
                                  std::to_string(shrink) + "), " + bytes_text(4 * results) + " as 4-byte words");
  Table table(run.report, "result",
              {predicted("sectors/store", "sectors a store request", "", 0), measured("median ms", "time", "ms", 3),
               shown("spread"), measured("1e9 comparisons/s", "comparisons", "1e9/s", 0),
               measured("GB/s stored", "result bandwidth", "GB/s", 0), shown("of theory"),
               then("all: then s", "time of all", "s", 0), predicted("all: here s", "time of all", "s", 3),
               predicted("to the host s", "carrying all", "s", 2)});
  Statistics time[std::size(formats)], to_host;
  if (run.device) {
    const Work work(nx, ny);
    for (int f = words; f <= none; ++f) require_right(work.right(f), formats[f].kernel);
    const DeviceBuffer<unsigned> out(work.stored(words));
    for (int f = words; f <= none; ++f) time[f] = time_device(run.measuring, [&] { work.launch(f, out.data()); });
    CUDA_CHECK_LAUNCH();
    const PinnedBuffer<unsigned> part(std::min(size_t(1) << 24, out.size()));
    const auto carry = [&] { CUDA_CHECK(cudaMemcpy(part.data(), out.data(), part.bytes(), cudaMemcpyDeviceToHost)); };
    to_host = gigabytes_per_second(double(part.bytes()), time_host(run.measuring, carry));
  }
  for (int f = words; f <= none; ++f) {
    std::vector<Cell> cells(9);
    if (f != none) cells[0] = double(store_sectors(f));
    cells[6] = formats[f].then_seconds;
    if (run.device) {
      const double gb = results * formats[f].size * 1e-9;
      const Statistics gbs = scaled(rate(gb, time[f]), 1e3);
      cells[1] = time[f], cells[2] = spread_text(time[f]), cells[3] = scaled(rate(results, time[f]), 1e-6);
      if (f != none) cells[4] = gbs, cells[5] = percent(gbs.median / run.device->theoretical_gbs);
      cells[7] = whole_results / results * time[f].median * 1e-3;
      if (f != none) cells[8] = whole_results / results * gb / to_host.median;
    }
    table.row({formats[f].name}, cells);
  }
  table.print();
  run.report.note("all: 1500000 x 100000, 600 GB of words, for which the reply expected 10 minutes to the host");
  if (!run.device) return run.report.left_out("the times of every format", {storing_claim});
  run.report.note("to host: scaled from a pinned copy of 64 MiB, measured at " + fixed(to_host.median, 1) + " GB/s");
  const double l2 = double(run.device->l2_bytes());
  if (results / 8 < 4 * l2) run.report.note("the L2 may hold a part of the bits: they are " + bytes_text(results / 8));
  if (4 * results < 2 * l2) return run.report.claim(storing_claim, not_judged("the words fit in the L2"));
  const auto ratio = [&](int f) { return times(time[f].median / time[none].median); };
  Judgement judged = judge_ratio(time[words], time[none], 20);  // 20 minutes against 1
  judged.here = ratio(words) + " as long with words as without, bytes " + ratio(bytes) + ", bits " + ratio(bits);
  run.report.claim(storing_claim, judged);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (int f = words; f <= none; ++f) {
    // a lane loads its X once and then a Y in each row; so many rows that the quotient is exact in binary
    const unsigned xs = f == bits ? 32 : 1, ys = f == bits ? 16 : 63;
    const double loads = double(4 * xs + ys) / (xs + ys), stores = store_sectors(f);
    all.push_back({formats[f].kernel, "4096 X", loads, stores, [=] { return Work(4096, ys).right(f); }});
  }
  return all;
}

}  // namespace

TEST_CASE("compare: a packed word holds 32 neighbouring results and a store is 4 sectors or 1") {
  for (int f = words; f <= none; ++f) CHECK(store_sectors(f) == (f == bytes ? 1 : 4));
  size_t next = 0;
  for (size_t warp = 0; warp < 3; ++warp)
    for (unsigned k = 0; k < 32; ++k)
      for (unsigned lane = 0; lane < 32; ++lane, ++next)
        CHECK((packed_x(warp, k, lane) == next && packed_word(warp, k) == next / 32));
}

TEST_CASE("compare: bits of the host are the comparisons one by one") {
  const std::vector<int> x = some_x(1009), y = some_y(37);
  const std::vector<unsigned> packed = bits_by_host(x, y);
  REQUIRE(packed.size() == 32 * 37);
  size_t wrong = 0, ones = 0;
  for (size_t i = 0; i < 1024 * 37; ++i) {
    const unsigned bit = packed[i / 32] >> i % 32 & 1;
    wrong += bit != unsigned(i % 1024 < 1009 && x[i % 1024] < y[i / 1024]);
    ones += bit;
  }
  CHECK(wrong == 0);
  CHECK(ones == ones_by_host(x, y));
  CHECK(ones > 1009 * 37 / 4);  // both answers are frequent
  CHECK(ones < 1009 * 37 * 3 / 4);
}

TEST_CASE("compare: every format is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t nx : {1, 31, 1009, 1025, 9001})
    for (const size_t ny : {1, 63, 65, 1009}) {
      const Work work(nx, ny);
      for (int f = words; f <= none; ++f) {
        CAPTURE(std::to_string(nx) + " x " + std::to_string(ny) + ", " + formats[f].name);
        CHECK(work.right(f));
      }
    }
}

TEST_CASE("compare: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("compare: counted sectors equal the model") { compare_with_counters(counted_launches()); }
