// compare: every X against every Y, one result for each pair. A reader of the 2007 study [BW]
// compares each pair "bitwise, by a tricky algorithm"; with the results stored that took 20
// minutes, without storing them one. The reply: store 4-byte words side by side. Look at what the
// order of the stores costs, and at how little is left of it once they lie side by side: some
// warps' results are then stored while other warps compare.
//   cmake -S 03_access_patterns -B build/compare -DEXPERIMENTS=compare
//   cmake --build build/compare && build/compare/03_access_patterns
//
//   1  count_only        compares, and stores only a sum a thread
//   2  store_scattered   most likely the reader's: a thread writes a row of its own
//   3  store_words       neighbouring threads write neighbouring words
//   4  store_bytes       neighbouring bytes
//   5  store_bits        a warp packs 32 answers into a word
//   6  scatter_only      the stores of 2 without the comparisons
#include <algorithm>
#include <cstdint>
#include <memory>

#include "../common/report.hpp"

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned y_of_block = 64;         // Y that a thread goes through: its X is loaded once
constexpr unsigned packed_y_of_block = 16;  // where a lane has 32 X: so there are enough blocks

// ---- kernels: nx X, a multiple of 1024, and ny Y ----

// [longest_run]
// The most neighbouring bits in which x and y agree: each turn takes one from every run of ones.
__device__ unsigned longest_run(unsigned x, unsigned y) {
  unsigned run = 0;
  for (unsigned same = ~(x ^ y); same != 0; same &= same << 1) ++run;
  return run;
}
// [/longest_run]
constexpr unsigned alike = 6;  // so many in a row make two numbers alike: one pair in five

// Compares, and stores a sum for every 64 pairs; without it the compiler would drop the
// comparisons.
__global__ void count_only(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                           size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  unsigned sum = 0;
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy) sum += longest_run(x, ys[iy]);
  sums[blockIdx.y * nx + ix] = sum;
}

// [store_scattered]
// Result [ix][iy]: a thread fills a row of its own. The lanes of a warp are ny words apart: 32
// sectors, of which each store writes 4 bytes.
__global__ void store_scattered(unsigned* results, const unsigned* xs, const unsigned* ys,
                                size_t nx, size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = longest_run(x, ys[iy]);
}
// [/store_scattered]

// [store_words]
// Result [iy][ix]: a warp writes 32 neighbours, 4 sectors.
__global__ void store_words(unsigned* results, const unsigned* xs, const unsigned* ys, size_t nx,
                            size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[iy * nx + ix] = longest_run(x, ys[iy]);
}
// [/store_words]

// The same in bytes: a warp writes 32 of them, one sector.
__global__ void store_bytes(uint8_t* results, const unsigned* xs, const unsigned* ys, size_t nx,
                            size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[iy * nx + ix] = uint8_t(longest_run(x, ys[iy]));
}

// [store_bits]
// Only whether two numbers are alike, a bit. A warp has 1024 X, 32 a lane. A ballot packs 32
// answers into a word that all lanes get; lane k keeps the k-th, and the warp writes 32 neighbours.
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
// [/store_bits]

// The stores of store_scattered alone: what is stored costs nothing.
__global__ void scatter_only(unsigned* results, const unsigned* xs, const unsigned* ys, size_t nx,
                             size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = x ^ ys[iy];
}

// ---- what is right ----

/// Number i: 32 bits without pattern.
__host__ __device__ unsigned number_at(size_t i) {
  unsigned x = unsigned(i) * 0x9e3779b1u + unsigned(i >> 32);
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}
__host__ __device__ unsigned x_at(size_t i) { return number_at(i); }
__host__ __device__ unsigned y_at(size_t i) { return number_at(i + (size_t(1) << 31)); }

/// The longest run of equal bits of a pair, bit by bit.
__host__ __device__ unsigned right_run(size_t ix, size_t iy) {
  unsigned run = 0, longest = 0;
  for (unsigned bit = 1; bit != 0; bit *= 2) {
    run = (x_at(ix) & bit) == (y_at(iy) & bit) ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

/// What is stored of a comparison, and where.
enum class Format { sums, scattered_words, words, bytes, bits, scattered_xor };

/// The word that must stand at `i`; rows of results are whole words.
__host__ __device__ unsigned right_word(Format format, size_t i, size_t nx, size_t ny) {
  unsigned word = 0;
  switch (format) {
    case Format::sums:
      for (size_t iy = i / nx * y_of_block; iy < ny && iy < (i / nx + 1) * y_of_block; ++iy)
        word += right_run(i % nx, iy);
      return word;
    case Format::scattered_words:
      return right_run(i / ny, i % ny);
    case Format::words:
      return right_run(i % nx, i / nx);
    case Format::bytes:
      for (unsigned k = 0; k < 4; ++k) word |= right_run(4 * i % nx + k, 4 * i / nx) << 8 * k;
      return word;
    case Format::bits:
      for (unsigned k = 0; k < 32; ++k)
        word |= unsigned(right_run(32 * i % nx + k, 32 * i / nx) >= alike) << k;
      return word;
    case Format::scattered_xor:
      return x_at(i / ny) ^ y_at(i % ny);
  }
  return 0;
}

__global__ void fill(unsigned* out, size_t n, size_t from) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = number_at(from + i);
}

/// Counts words that are wrong, and canaries behind them that somebody wrote.
__global__ void count_wrong(const unsigned* results, Format format, size_t words, size_t size,
                            size_t nx, size_t ny, unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < size; i += threads) {
    const unsigned right = i < words ? right_word(format, i, nx, ny) : ~0u;
    if (results[i] != right) atomicAdd(wrong, 1ull);
  }
}

// ---- the story in order ----

struct Pairs;  // both arrays, and room for the results

struct Kernel {
  const char *name, *symbol;
  Format format;
  double size;  ///< bytes stored for a pair
  bool scattered;
  bool compares;
  double then_seconds;  ///< what the reader's took
  void (*launch)(const Pairs& p, dim3 grid);
};

constexpr size_t multiple_of_x = 1024;  // what a warp that packs bits takes at a time

struct Pairs {
  static constexpr size_t canaries = 4096;  ///< words behind the results

  size_t nx, ny;
  DeviceBuffer<unsigned> x{nx}, y{ny}, results{nx * ny + canaries};
  DeviceBuffer<unsigned long long> wrong_words{1};

  Pairs(size_t nx, size_t ny) : nx(nx), ny(ny) {
    fill<<<256, 256>>>(x.data(), nx, 0);
    fill<<<256, 256>>>(y.data(), ny, size_t(1) << 31);
    CUDA_CHECK_LAUNCH();
  }
  /// 4-byte words that a kernel stores.
  size_t words(const Kernel& k) const {
    if (k.format == Format::sums) return nx * ((ny + y_of_block - 1) / y_of_block);
    return size_t(double(nx * ny) * k.size / 4);
  }
  dim3 grid(const Kernel& k) const {
    const bool packs = k.format == Format::bits;
    const size_t across = packs ? nx / 32 : nx;
    const size_t down = packs ? packed_y_of_block : y_of_block;
    return dim3(unsigned((across + block_threads - 1) / block_threads),
                unsigned((ny + down - 1) / down));
  }
  void launch(const Kernel& k) const { k.launch(*this, grid(k)); }
  size_t wrong(const Kernel& k) {
    wrong_words.copy_from({0});
    count_wrong<<<4096, 256>>>(results.data(), k.format, words(k), words(k) + canaries, nx, ny,
                               wrong_words.data());
    CUDA_CHECK_LAUNCH();
    return wrong_words.to_host()[0];
  }
};

const Kernel kernels[] = {
    {"not stored", "count_only", Format::sums, 0, false, true, 60,
     [](const Pairs& p, dim3 grid) {
       count_only<<<grid, block_threads>>>(p.results.data(), p.x.data(), p.y.data(), p.nx, p.ny);
     }},
    {"scattered words, not compared", "scatter_only", Format::scattered_xor, 4, true, false, NAN,
     [](const Pairs& p, dim3 grid) {
       scatter_only<<<grid, block_threads>>>(p.results.data(), p.x.data(), p.y.data(), p.nx, p.ny);
     }},
    {"scattered words", "store_scattered", Format::scattered_words, 4, true, true, 20 * 60,
     [](const Pairs& p, dim3 grid) {
       store_scattered<<<grid, block_threads>>>(p.results.data(), p.x.data(), p.y.data(), p.nx,
                                                p.ny);
     }},
    {"words side by side", "store_words", Format::words, 4, false, true, NAN,
     [](const Pairs& p, dim3 grid) {
       store_words<<<grid, block_threads>>>(p.results.data(), p.x.data(), p.y.data(), p.nx, p.ny);
     }},
    {"bytes side by side", "store_bytes", Format::bytes, 1, false, true, NAN,
     [](const Pairs& p, dim3 grid) {
       store_bytes<<<grid, block_threads>>>(reinterpret_cast<uint8_t*>(p.results.data()),
                                            p.x.data(), p.y.data(), p.nx, p.ny);
     }},
    {"bits packed by the warp", "store_bits", Format::bits, 1 / 8.0, false, true, NAN,
     [](const Pairs& p, dim3 grid) {
       store_bits<<<grid, block_threads>>>(p.results.data(), p.x.data(), p.y.data(), p.nx, p.ny);
     }},
};
enum { not_stored, scatters, scattered, words, bytes, bits };
constexpr size_t kernel_count = std::size(kernels);

Task task_of(const Kernel& k, Pairs& p) {
  Check check;
  check.poison = [&p] { p.results.poison(); };
  check.wrong = [&k, &p] { return p.wrong(k); };
  return {k.name, [&k, &p] { p.launch(k); }, std::move(check)};
}

/// As many bytes as the words, written without a kernel: what the memory takes.
Task memset_task(Pairs& p) {
  const size_t bytes = p.nx * p.ny * 4;
  return {"memset", [&p, bytes] { CUDA_CHECK(cudaMemsetAsync(p.results.data(), 0, bytes)); },
          unchecked("the driver's memset is taken at its word")};
}

// ---- what to expect ----

/// Measured in the same run, milliseconds for all pairs.
struct Calibrated {
  double comparing = NAN;   ///< without storing
  double scattering = NAN;  ///< without comparing
  double filling = NAN;     ///< as many words, by memset
};

/// While some warps wait for the memory to take their results, others compare: the longer of the
/// two decides.
double predicted_ms(const Kernel& k, const Calibrated& c) {
  const double storing = k.scattered ? c.scattering : c.filling * k.size / 4;
  return std::max(c.comparing, storing);
}

/// Sectors that a warp's store touches.
double sectors_a_store(const Kernel& k) {
  if (k.scattered) return 32;
  return k.format == Format::bytes ? 1 : 4;
}

// ---- the experiment ----

constexpr double whole_x = 1500000, whole_y = 100000;  // the reader's arrays

/// Both arrays, smaller by the same factor.
struct Sizes {
  size_t shrink, nx, ny;
  double pairs() const { return double(nx) * double(ny); }
};
Sizes sizes_over(size_t shrink) {
  const size_t nx = std::max<size_t>(size_t(whole_x) / shrink / multiple_of_x, 1) * multiple_of_x;
  return {shrink, nx, std::max<size_t>(size_t(whole_y) / shrink, 1)};
}

/// A twelfth makes 4 GiB of words. Less where they do not fit, more where the L2 would hold them.
Sizes default_sizes(bool quick, const Device* device) {
  Sizes sizes = sizes_over(quick ? 32 : 12);
  if (!device) return sizes;
  while (sizes.shrink > 1 && !beyond_l2(*device, 4 * sizes.pairs()))
    sizes = sizes_over(sizes.shrink - 1);
  while (4 * sizes.pairs() > 0.9 * device->memory_there()) sizes = sizes_over(sizes.shrink + 4);
  return sizes;
}

struct Times {
  Readings memset;
  std::vector<Readings> kernel = std::vector<Readings>(kernel_count);
  Statistics host_gbs;  ///< of carrying results to the host
};

Times measure(const Run& run, const Sizes& sizes) {
  Pairs pairs(sizes.nx, sizes.ny);
  std::vector<Task> tasks{memset_task(pairs)};
  for (const Kernel& k : kernels) tasks.push_back(task_of(k, pairs));
  std::vector<Readings> readings = run.time_in_turn(tasks);
  Times times;
  times.memset = readings[0];
  times.kernel.assign(readings.begin() + 1, readings.end());

  const PinnedBuffer<unsigned> part(std::min<size_t>(size_t(1) << 24, pairs.results.size()));
  Measuring briefly = run.measuring;
  briefly.budget_ms = 50;
  const Readings carried =
      time_alone(briefly, {"to the host",
                           [&] {
                             CUDA_CHECK(cudaMemcpyAsync(part.data(), pairs.results.data(),
                                                        part.bytes(), cudaMemcpyDeviceToHost));
                           },
                           unchecked("the copy engine is taken at its word")});
  times.host_gbs = gigabytes_per_second(double(part.bytes()), carried.statistics());
  return times;
}

void show(const Run& run, const Times& times, const Sizes& sizes) {
  Table table(
      run.report, "result",
      {predicted("sectors", "sectors a store request", "", 0), compared("ms", "time", "ms", 3),
       shown("spread"), measured("1e9 pairs/s", "comparisons", "1e9/s", 0),
       measured("GB/s stored", "result bandwidth", "GB/s", 0),
       then("all: then s", "time of all", "s", 0), predicted("here s", "time of all", "s", 2),
       predicted("to the host s", "carrying all", "s", 2)});
  const Calibrated c{times.kernel[not_stored].median(), times.kernel[scatters].median(),
                     times.memset.median()};
  const double pairs = sizes.pairs();
  const double whole = whole_x * whole_y / pairs;
  if (run.device) {
    const Statistics ms = times.memset.statistics();
    table.row({"memset, as many words"}, {{},
                                          Calibration{ms},
                                          spread_text(ms),
                                          {},
                                          gigabytes_per_second(4 * pairs, ms),
                                          {},
                                          {},
                                          {}});
  }
  for (size_t i = 0; i < kernel_count; ++i) {
    const Kernel& k = kernels[i];
    const Statistics ms = times.kernel[i].statistics();
    const double stored = k.size * pairs;  // bytes
    Cell time;
    if (run.device && (i == not_stored || i == scatters))
      time = Calibration{ms};
    else if (run.device)
      time = Compared{predicted_ms(k, c), ms};
    table.row(
        {k.name},
        {i == not_stored ? NAN : sectors_a_store(k), time, spread_text(ms),
         k.compares ? Cell(scaled(rate(pairs, ms), 1e-6)) : Cell(),
         i == not_stored ? Cell() : Cell(gigabytes_per_second(stored, ms)), k.then_seconds,
         k.compares ? whole * ms.median * 1e-3 : NAN,
         k.compares && i != not_stored ? whole * stored * 1e-9 / times.host_gbs.median : NAN});
  }
  table.print();
}

void judge(const Run& run, const Times& times, const Sizes& sizes) {
  const Part part{"03.12", "storing the results dominates a comparison of all pairs",
                  "20x slower: 20 minutes, 1 without", "8800 GTX"};
  if (run.device && !beyond_l2(*run.device, 4 * sizes.pairs()))
    return run.report.not_judged(part, "the words are less than four times the L2");
  const Interval cost = ratio(times.kernel[scattered], times.kernel[not_stored]);
  run.report.judge(part, much_beats(20), cost,
                   "stored as most likely the reader did it is " + slower(cost));
  if (!cost.measured()) return;
  const auto against = [&](int k) {
    return slower(ratio(times.kernel[k], times.kernel[not_stored]));
  };
  run.report.finding("03.12", "the same words side by side: " + against(words));
  run.report.finding("03.12", "bytes: " + against(bytes) + "; bits: " + against(bits));
}

}  // namespace

void compare(const Run& run) {
  const Sizes sizes = default_sizes(run.quick, run.device);
  const double pairs = sizes.pairs();
  run.report.begin("compare", std::to_string(sizes.nx) + " X against " + std::to_string(sizes.ny) +
                                  " Y (the reader's over " + std::to_string(sizes.shrink) + "), " +
                                  bytes_text(4 * pairs) + " as 4-byte words");
  Times times;
  if (run.device) times = measure(run, sizes);
  show(run, times, sizes);
  run.report.note(
      "all: 1500000 x 100000, 600 GB of words, for which the reply expected 10 minutes "
      "on the way to the host");
  if (run.device) {
    run.report.note(
        "calibration: comparing alone, storing alone; predicted: the longer of the two");
    run.report.note("to the host: at the " + fixed(times.host_gbs.median, 1) +
                    " GB/s of a pinned copy of 64 MiB");
    if (!beyond_l2(*run.device, pairs / 8))
      run.report.note("the bits are " + bytes_text(pairs / 8) + ": the L2 may hold a part of them");
  } else {
    run.report.left_out("the times of every format");
  }
  judge(run, times, sizes);
}
