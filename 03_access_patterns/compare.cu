// compare: every X with every Y, and a result for each pair. A reader of the 2007 study compares
// 1.5 million X with 100,000 Y. It takes 20 minutes if the results are stored, and one if not. The
// author replies: neighbouring threads should store neighbouring words of 4 bytes, and bits should
// be packed into such words; but the transfer of the results to the host will be the bottleneck
// [BW].
//
// Compare the stores of words that lie apart with those of neighbours, and both with the transfer to
// the host. The reader's factor of 20 depends on his comparison, which nobody knows: the more work
// it is, the less the stores matter (second table).
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o compare compare.cu ../common/*.cpp
//
//   1  store_scattered     most likely the reader's: each thread fills a row of its own
//   2  store_side_by_side  neighbouring threads write neighbouring words
//   3  store_bits          a warp packs 32 answers into a word
//   4  count_only          compares, and stores a sum for 64 pairs
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned y_of_block = 64;         // Y that a thread compares its X with: X is loaded once
constexpr unsigned packed_y_of_block = 16;  // where a lane has 32 X: so there are enough blocks

// ---- comparisons ----

// The most neighbouring bits in which x and y agree: each step takes a bit from every run of ones.
__device__ unsigned longest_run(unsigned x, unsigned y) {
  unsigned run = 0;
  for (unsigned same = ~(x ^ y); same != 0; same &= same << 1) ++run;
  return run;
}
constexpr unsigned alike = 6;  // a run of so many makes two numbers alike: one pair in five

// One instruction.
__device__ unsigned exclusive_or(unsigned x, unsigned y) { return x ^ y; }
using Comparison = unsigned (*)(unsigned x, unsigned y);

// ---- kernels: nx X, a multiple of 1024, and ny Y ----

// Result [ix][iy]: the lanes of a warp are ny words apart. A store touches 32 sectors, and writes 4
// bytes of each.
template <Comparison compared>
__global__ void store_scattered(unsigned* results, const unsigned* xs, const unsigned* ys,
                                size_t nx, size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = compared(x, ys[iy]);
}

// Result [iy][ix]: a warp writes 32 neighbours, 4 sectors.
__global__ void store_side_by_side(unsigned* results, const unsigned* xs, const unsigned* ys,
                                   size_t nx, size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[iy * nx + ix] = longest_run(x, ys[iy]);
}

// One bit per pair: whether two numbers are alike. A warp has 1024 X, 32 per lane. A ballot packs
// the answers of 32 lanes into a word that all lanes get; lane k keeps the k-th word, and the warp
// writes 32 neighbours.
__global__ void store_bits(unsigned* results, const unsigned* xs, const unsigned* ys, size_t nx,
                           size_t ny) {
  const size_t warp = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  if (warp >= nx / 1024) return;
  unsigned x[32];
#pragma unroll
  for (unsigned k = 0; k < 32; ++k) x[k] = xs[warp * 1024 + 32 * k + lane];
  const size_t end = min((blockIdx.y + size_t(1)) * packed_y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(packed_y_of_block); iy < end; ++iy) {
    const unsigned y = ys[iy];
    unsigned kept = 0;
#pragma unroll
    for (unsigned k = 0; k < 32; ++k) {
      const unsigned answers = __ballot_sync(0xffffffffu, longest_run(x[k], y) >= alike);
      if (lane == k) kept = answers;
    }
    results[iy * (nx / 32) + warp * 32 + lane] = kept;
  }
}

// Without the sums the compiler would drop the comparisons.
template <Comparison compared>
__global__ void count_only(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                           size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  unsigned sum = 0;
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy) sum += compared(x, ys[iy]);
  sums[blockIdx.y * nx + ix] = sum;
}

// ---- what is right: from a stored word to its pairs, bit by bit ----

struct X {
  __host__ __device__ unsigned operator()(size_t i) const { return hash(i); }
};
struct Y {  // other numbers than X
  __host__ __device__ unsigned operator()(size_t i) const { return hash((size_t(1) << 31) + i); }
};

__host__ __device__ unsigned right_run(unsigned x, unsigned y) {
  unsigned longest = 0;
  for (unsigned bit = 0, run = 0; bit < 32; ++bit) {
    run = (x >> bit & 1) == (y >> bit & 1) ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

enum Format { sums, scattered, words, bits };

constexpr struct {
  Format format;
  const char* name;  ///< of its row in the table
  double bytes_per_pair;
  const char* to_host = "";  ///< none: it is not copied to the host
} formats[] = {{sums, "not stored", 0},
               {scattered, "scattered words", 4},
               {words, "words side by side", 4, "words to host"},
               {bits, "bits packed by a warp", 1 / 8.0, "bits to host"}};

/// Word i of the results. What lies behind them stays poisoned.
struct RightWord {
  Format format;
  size_t nx, ny;
  bool runs = true;  ///< or exclusive or

  __host__ __device__ unsigned pair(size_t ix, size_t iy) const {
    const unsigned x = X{}(ix), y = Y{}(iy);
    return runs ? right_run(x, y) : x ^ y;
  }
  __host__ __device__ unsigned operator()(size_t i) const {
    if (format == scattered) return pair(i / ny, i % ny);
    unsigned word = 0;
    if (format == sums) {
      for (size_t iy = i / nx * y_of_block; iy < ny && iy < (i / nx + 1) * y_of_block; ++iy)
        word += pair(i % nx, iy);
      return i < nx * ceil_div(ny, y_of_block) ? word : ~0u;
    }
    if (i >= nx * ny / (format == words ? 1 : 32)) return ~0u;
    if (format == words) return pair(i % nx, i / nx);
    for (unsigned k = 0; k < 32; ++k)
      word |= unsigned(pair(32 * i % nx + k, 32 * i / nx) >= alike) << k;
    return word;
  }
};

// ---- the work ----

/// Both arrays, and room for a word per pair.
struct Pairs {
  size_t nx, ny;
  DeviceBuffer<unsigned> x = filled<unsigned>(nx, X{});
  DeviceBuffer<unsigned> y = filled<unsigned>(ny, Y{});
  GuardedBuffer<unsigned> results{nx * ny};
};

using Kernel = void(unsigned*, const unsigned*, const unsigned*, size_t, size_t);

Benchmark storing(const char* name, const Pairs& p, Kernel* kernel, Format format,
                  bool runs = true) {
  const size_t threads = format == bits ? p.nx / 32 : p.nx;
  const size_t of_block = format == bits ? packed_y_of_block : y_of_block;
  const dim3 grid(unsigned(ceil_div(threads, block_threads)), unsigned(ceil_div(p.ny, of_block)));
  const auto work = [=] { kernel<<<grid, block_threads>>>(p.results, p.x, p.y, p.nx, p.ny); };
  return {name, work, equals(p.results, RightWord{format, p.nx, p.ny, runs})};
}

std::vector<Benchmark> of_formats(const Pairs& p) {
  return {storing("words side by side", p, store_side_by_side, words),
          storing("bits packed by a warp", p, store_bits, bits)};
}
std::vector<Benchmark> all_stores(const Pairs& p) {
  std::vector<Benchmark> all = of_formats(p);
  all.push_back(storing("not stored", p, count_only<longest_run>, sums));
  all.push_back(storing("scattered words", p, store_scattered<longest_run>, scattered));
  all.push_back(storing("exclusive or", p, count_only<exclusive_or>, sums, false));
  all.push_back(
      storing("exclusive or, stored", p, store_scattered<exclusive_or>, scattered, false));
  return all;
}

/// The host's memory is poisoned, and looked at by the device, which is faster than the host.
Benchmark carrying(const Pairs& p, const PinnedBuffer<unsigned>& host, Format format) {
  const size_t count = size_t(double(p.nx * p.ny) * formats[format].bytes_per_pair / 4);
  const auto work = [=] {
    CUDA_CHECK(cudaMemcpy(host, p.results, 4 * count, cudaMemcpyDeviceToHost));
  };
  const auto poison = [=] {
    p.results.poison();
    CUDA_CHECK(cudaMemcpy(host, p.results, 4 * count, cudaMemcpyDeviceToHost));
    for_each_index<<<1024, 256>>>(
        count, [to = p.results.data()] __device__(size_t i) { to[i] = hash(i); });
    CUDA_CHECK_LAUNCH();
  };
  const auto find_error = [=] {
    p.results.poison();
    CUDA_CHECK(cudaMemcpy(p.results, host, 4 * count, cudaMemcpyHostToDevice));
    return find_mismatch(p.results.data(), count, [] __device__(size_t i) { return hash(i); });
  };
  return {formats[format].to_host, work, {poison, find_error}, true};  // timed by the host
}

/// Sectors of memory that a store of a warp touches.
size_t sectors_of(Format format, size_t ny) {
  const size_t apart = format == scattered ? ny : 1;
  return sectors(4, [=](size_t lane) { return lane * apart; });
}

constexpr double readers_pairs = 1500000.0 * 100000.0;
/// The reader's arrays, both smaller by a factor.
size_t nx_over(size_t factor) { return std::max<size_t>(1500000 / factor / 1024, 1) * 1024; }
size_t ny_over(size_t factor) { return 100000 / factor; }
double pairs_over(size_t factor) { return double(nx_over(factor)) * double(ny_over(factor)); }

}  // namespace

void compare(Run& run) {
  size_t factor = 48;  // 244 MiB of words
  while (factor > 1 && !run.beyond_l2(4 * pairs_over(factor))) --factor;
  const size_t nx = nx_over(factor), ny = ny_over(factor);
  const double pairs = pairs_over(factor);
  run.title(std::to_string(nx) + " X, " + std::to_string(ny) + " Y (the reader's over " +
            std::to_string(factor) + "): " + bytes_text(4 * pairs) + " of 4-byte words");

  const Timings timed = [&] {
    const Pairs p{nx, ny};
    return run.timer.interleaved(all_stores(p));
  }();
  // What a copy to the host takes depends on the host's pages: each group has its own.
  Timings carried;
  const bool carries = run.fits_on_host(4 * pairs);
  const auto allocated = [=] {
    const Pairs p{nx, ny};
    const PinnedBuffer<unsigned> host(nx * ny);
    std::vector<Benchmark> benchmarks = of_formats(p);
    for (const Format format : std::initializer_list<Format>{words, bits})
      benchmarks.push_back(carrying(p, host, format));
    return benchmarks;
  };
  if (carries) carried = run.timer.with_fresh_memory(allocated, 2);

  Table table("results",
              {"sectors", "ms", "spread", "times as long", "GB/s", "to host: ms", "to host: GB/s"});
  for (const auto& [format, name, bytes_per_pair, to_host] : formats) {
    const double stored = bytes_per_pair * pairs;
    const bool is_carried = carries && *to_host;
    table.row(name, {stored ? Cell(sectors_of(format, ny)) : Cell(""), timed[name].ms_interval(),
                     percent(timed[name].spread()), ratio(timed[name], timed["not stored"]),
                     stored ? Cell(timed[name].gbs_interval(stored)) : Cell(""),
                     is_carried ? Cell(carried[to_host].ms_interval()) : Cell(""),
                     is_carried ? Cell(carried[to_host].gbs_interval(stored)) : Cell("")});
  }
  run.print(table);
  const auto all_s = [&](const char* name) {
    return digits(1e-3 * timed[name].median() * readers_pairs / pairs) + " s";
  };
  run.note("sectors: that a store of a warp touches; times as long: as not stored");
  run.note("to host: copied into pinned memory, and timed by the host's clock");
  run.note("all of the reader's pairs would take " + all_s("not stored") + " here, stored " +
           all_s("scattered words") + "; his took 60 and 1200 s");

  Table costs("comparison", {"not stored: ms", "scattered words: ms", "times as long"});
  const auto cost = [&](const char* name, const std::string& slow, const std::string& fast) {
    costs.row(name, {timed[fast].ms_interval(), timed[slow].ms_interval(),
                     ratio(timed[slow], timed[fast])});
  };
  cost("exclusive or", "exclusive or, stored", "exclusive or");
  cost("longest run of equal bits", "scattered words", "not stored");
  run.print(costs);

  run.claim({"03.12", "storing the results takes most of a comparison of all pairs",
             "[BW, letter 2] 20 minutes against 1 without storing", Hardware::g80},
            timed.speedup({.of = "not stored", .over = "scattered words"}), much_faster());
  const Claim bottleneck{"03.17",
                         "the bottleneck is carrying results to the host, not writing them",
                         "[BW, reply 2] about 1 GB/s, against tens of GB/s"};
  if (carries)
    run.claim(bottleneck,
              carried.speedup({.of = "words side by side", .over = formats[words].to_host}),
              faster());
  else
    run.claim_skipped(bottleneck, "the host has too little memory to pin");
}
SAMPLE(12, compare, "every X with every Y, and what storing the results costs");

TEST_CASE("compare: the longest run of equal bits, by hand") {
  CHECK(right_run(0, ~0u) == 0);
  CHECK(right_run(7, 7) == 32);
  CHECK(right_run(0x0f07fffeu, ~0u) == 18);
  CHECK(right_run(0x80000001u, ~0u) == 1);
}

TEST_CASE("compare: every format holds the results, each where it belongs") {
  constexpr size_t nx = 1024, ny = 70;
  for (const auto& [ix, iy] : std::initializer_list<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {1023, 0}, {0, 69}, {517, 33}, {1023, 69}}) {
    const unsigned run = right_run(X{}(ix), Y{}(iy));
    const auto word = [](Format format, size_t i) { return RightWord{format, nx, ny}(i); };
    CHECK(word(words, iy * nx + ix) == run);
    CHECK(word(scattered, ix * ny + iy) == run);
    CHECK((word(bits, (iy * nx + ix) / 32) >> ix % 32 & 1) == (run >= alike));
  }
  unsigned sum = 0;
  for (size_t iy = 64; iy < 70; ++iy) sum += right_run(X{}(5), Y{}(iy));
  CHECK(RightWord{sums, nx, ny}(nx + 5) == sum);
  CHECK(RightWord{sums, nx, ny}(2 * nx) == ~0u);
  CHECK(RightWord{bits, nx, ny}(nx * ny / 32) == ~0u);
  CHECK(sectors_of(scattered, 2083) == 32);
  CHECK(sectors_of(words, 2083) == 4);
}

TEST_CASE("compare: every kernel is right for any number of Y, and so is what the host gets") {
  if (skip_without_gpu()) return;
  for (const size_t nx : {1024, 3072})
    for (const size_t ny : {1, 63, 67, 1009}) {
      CAPTURE(nx);
      CAPTURE(ny);
      const Pairs p{nx, ny};
      const PinnedBuffer<unsigned> host(nx * ny);
      std::vector<Benchmark> all = all_stores(p);
      for (const Format format : std::initializer_list<Format>{words, bits})
        all.push_back(carrying(p, host, format));
      for (const Benchmark& benchmark : all) {
        CAPTURE(benchmark.name);
        CHECK_NOTHROW(require_right(benchmark));
        benchmark.check.poison();
        CHECK(benchmark.check.find_error() != "");
      }
    }
}
