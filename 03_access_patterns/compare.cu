// compare: every X against every Y, one result per pair. A reader of the 2007 study [BW] compares
// 1.5 million X with 100,000 Y, "bitwise, by a tricky algorithm". It took 20 minutes with the
// results stored, and one without. The author replied: store 4-byte words side by side; but the
// bottleneck will be carrying the results back to the host. Three things to look at:
//   - What the order of the stores costs, for comparisons of three costs.
//   - How little is left of that cost once neighbouring lanes write neighbouring words: some warps
//     store while others compare.
//   - How long the same results take to the host.
//
//   cmake -S 03_access_patterns -B build/compare -DEXPERIMENTS=compare
//   cmake --build build/compare && build/compare/03_access_patterns
//
//   1  store_scattered  most likely the reader's: each thread writes a row of its own
//   2  store_words      neighbouring threads write neighbouring words
//   3  store_bytes      neighbouring bytes
//   4  store_bits       a warp packs 32 answers into a word
//   5  count_only       compares, and stores only a sum per thread
//   6  scatter_only     the stores of kernel 1 without the comparison
//   7  count_xor        kernel 5 without it
//   8  count_longest_of_four, scatter_longest_of_four: kernels 5 and 1 with a dearer comparison
#include <algorithm>
#include <cstdint>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned y_of_block = 64;         // Y that a thread compares its X with: X is loaded once
constexpr unsigned packed_y_of_block = 16;  // where a lane has 32 X: so there are enough blocks

// ---- comparisons ----

// [longest_run]
// The most neighbouring bits in which x and y agree: each step takes one bit from every run of
// ones.
__device__ unsigned longest_run(unsigned x, unsigned y) {
  unsigned run = 0;
  for (unsigned same = ~(x ^ y); same != 0; same &= same << 1) ++run;
  return run;
}
// [/longest_run]
constexpr unsigned alike = 6;  // a run of so many makes two numbers alike: one pair in five

// Dearer: the longest run at four rotations of y.
__device__ unsigned longest_of_four(unsigned x, unsigned y) {
  unsigned longest = 0;
  for (unsigned k = 0; k < 4; ++k)
    longest = max(longest, longest_run(x, __funnelshift_l(y, y, 8 * k)));
  return longest;
}

// As good as none: one instruction.
__device__ unsigned exclusive_or(unsigned x, unsigned y) { return x ^ y; }

using Compare = unsigned (*)(unsigned x, unsigned y);

// ---- kernels 1 to 4: nx X, a multiple of 1024, and ny Y ----

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

// The same in bytes: a warp writes 32 neighbours, 1 sector.
__global__ void store_bytes(uint8_t* results, const unsigned* xs, const unsigned* ys, size_t nx,
                            size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[iy * nx + ix] = uint8_t(longest_run(x, ys[iy]));
}

// [store_bits]
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
// [/store_bits]

// ---- the other kernels differ in the comparison ----

// Stores a sum for every 64 pairs: without it the compiler would drop the comparisons.
template <Compare compare>
__device__ void count(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                      size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  unsigned sum = 0;
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy) sum += compare(x, ys[iy]);
  sums[blockIdx.y * nx + ix] = sum;
}
// As store_scattered.
template <Compare compare>
__device__ void scatter(unsigned* results, const unsigned* xs, const unsigned* ys, size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = compare(x, ys[iy]);
}

__global__ void count_only(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                           size_t ny) {
  count<longest_run>(sums, xs, ys, nx, ny);
}
__global__ void count_xor(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                          size_t ny) {
  count<exclusive_or>(sums, xs, ys, nx, ny);
}
// The stores of store_scattered alone.
__global__ void scatter_only(unsigned* results, const unsigned* xs, const unsigned* ys, size_t,
                             size_t ny) {
  scatter<exclusive_or>(results, xs, ys, ny);
}
__global__ void count_longest_of_four(unsigned* sums, const unsigned* xs, const unsigned* ys,
                                      size_t nx, size_t ny) {
  count<longest_of_four>(sums, xs, ys, nx, ny);
}
__global__ void scatter_longest_of_four(unsigned* results, const unsigned* xs, const unsigned* ys,
                                        size_t, size_t ny) {
  scatter<longest_of_four>(results, xs, ys, ny);
}

// ---- what is right: a comparison bit by bit, and from a stored word to its pairs ----

struct X {
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct Y {  // other numbers than X
  __host__ __device__ unsigned operator()(size_t i) const {
    return scrambled((size_t(1) << 31) + i);
  }
};

/// What a comparison gives.
enum class Answer { exclusive_or, run, run_of_four };

/// The longest run of bits in which x and y, rotated to the left by `rotated` bits, agree.
__host__ __device__ unsigned right_run(unsigned x, unsigned y, unsigned rotated = 0) {
  unsigned run = 0, longest = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    const unsigned of_x = x >> bit & 1, of_y = y >> (bit + 32 - rotated) % 32 & 1;
    run = of_x == of_y ? run + 1 : 0;
    longest = run > longest ? run : longest;
  }
  return longest;
}

__host__ __device__ unsigned right_result(Answer answer, size_t ix, size_t iy) {
  const unsigned x = X{}(ix), y = Y{}(iy);
  if (answer == Answer::exclusive_or) return x ^ y;
  const unsigned rotations = answer == Answer::run_of_four ? 4 : 1;
  unsigned longest = 0;
  for (unsigned k = 0; k < rotations; ++k) {
    const unsigned run = right_run(x, y, 8 * k);
    longest = run > longest ? run : longest;
  }
  return longest;
}

/// What is stored of a comparison, and where: `scattered` is [ix][iy], the others [iy][ix].
enum class Format { sums, scattered, words, bytes, bits };

/// Bytes stored per pair; of sums none is stored per pair.
double bytes_per_pair(Format format) {
  if (format == Format::sums) return NAN;
  return format == Format::bytes ? 1 : format == Format::bits ? 1 / 8.0 : 4;
}

/// The words that a kernel stores; what is behind them stays poisoned.
struct Right {
  Format format;
  Answer answer;
  size_t nx, ny;

  size_t words() const {
    if (format == Format::sums) return nx * ((ny + y_of_block - 1) / y_of_block);
    return size_t(double(nx * ny) * bytes_per_pair(format) / 4);
  }
  __host__ __device__ unsigned pair(size_t ix, size_t iy) const {
    return right_result(answer, ix, iy);
  }
  /// Rows of results are whole words.
  __host__ __device__ unsigned word(size_t i) const {
    unsigned word = 0;
    switch (format) {
      case Format::sums:
        for (size_t iy = i / nx * y_of_block; iy < ny && iy < (i / nx + 1) * y_of_block; ++iy)
          word += pair(i % nx, iy);
        return word;
      case Format::scattered:
        return pair(i / ny, i % ny);
      case Format::words:
        return pair(i % nx, i / nx);
      case Format::bytes:
        for (unsigned k = 0; k < 4; ++k) word |= pair(4 * i % nx + k, 4 * i / nx) << 8 * k;
        return word;
      case Format::bits:
        for (unsigned k = 0; k < 32; ++k)
          word |= unsigned(pair(32 * i % nx + k, 32 * i / nx) >= alike) << k;
        return word;
    }
    return 0;
  }
};
struct RightWords {
  Right right;
  size_t words;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == (i < words ? right.word(i) : ~0u);
  }
};
struct Zero {
  __device__ bool operator()(size_t, unsigned found) const { return found == 0; }
};

// ---- the rows ----

/// How many there are of each. Both arrays are the reader's, smaller by the same factor.
struct Sizes {
  size_t shrink, nx, ny;
  double pairs() const { return double(nx) * double(ny); }
};
constexpr double whole_x = 1500000, whole_y = 100000;  // the reader's arrays
constexpr size_t multiple_of_x = 1024;                 // X that a warp packs at a time

Sizes sizes_over(size_t shrink) {
  const size_t nx = std::max<size_t>(size_t(whole_x) / shrink / multiple_of_x, 1) * multiple_of_x;
  return {shrink, nx, std::max<size_t>(size_t(whole_y) / shrink, 1)};
}

/// Both arrays, and room for a word per pair.
struct Pairs {
  size_t nx, ny;
  DeviceBuffer<unsigned> x = filled<unsigned>(nx, X{});
  DeviceBuffer<unsigned> y = filled<unsigned>(ny, Y{});
  Output<unsigned> results{nx * ny};

  explicit Pairs(const Sizes& sizes) : nx(sizes.nx), ny(sizes.ny) {}
};

struct Kernel {
  std::string_view key = {};  ///< its name
  const char* words = "";
  Format format = Format::sums;
  Answer answer = Answer::run;
  double then_seconds = NAN;  ///< what the reader's took
  void (*launch)(const Pairs&, dim3 grid) = nullptr;

  Right right(size_t nx, size_t ny) const { return {format, answer, nx, ny}; }
};

template <class Word>
void launch(void (*kernel)(Word*, const unsigned*, const unsigned*, size_t, size_t), const Pairs& p,
            dim3 grid) {
  kernel<<<grid, block_threads>>>(reinterpret_cast<Word*>(p.results.data()), p.x.data(), p.y.data(),
                                  p.nx, p.ny);
}
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.launch = [](const Pairs& p, dim3 grid) { launch(kernel, p, grid); };
  return k;
}

const Kernel kernels[] = {
    named<count_only>({.words = "not stored", .then_seconds = 60}),
    named<scatter_only>({.words = "scattered words, not compared",
                         .format = Format::scattered,
                         .answer = Answer::exclusive_or}),
    named<store_scattered>(
        {.words = "scattered words", .format = Format::scattered, .then_seconds = 20 * 60}),
    named<store_words>({.words = "words side by side", .format = Format::words}),
    named<store_bytes>({.words = "bytes side by side", .format = Format::bytes}),
    named<store_bits>({.words = "bits packed by the warp", .format = Format::bits}),
};
/// Stored as the reader did, and not stored: comparisons of three costs.
const Kernel by_cost[] = {
    named<count_xor>({.words = "exclusive or, not stored", .answer = Answer::exclusive_or}),
    named<scatter_only>({.words = "exclusive or, scattered words",
                         .format = Format::scattered,
                         .answer = Answer::exclusive_or}),
    named<count_only>({.words = "longest run, not stored"}),
    named<store_scattered>({.words = "longest run, scattered words", .format = Format::scattered}),
    named<count_longest_of_four>(
        {.words = "longest of four, not stored", .answer = Answer::run_of_four}),
    named<scatter_longest_of_four>({.words = "longest of four, scattered words",
                                    .format = Format::scattered,
                                    .answer = Answer::run_of_four}),
};

dim3 grid_of(Format format, size_t nx, size_t ny) {
  const bool packs = format == Format::bits;
  const size_t across = packs ? nx / 32 : nx;
  const size_t down = packs ? packed_y_of_block : y_of_block;
  return dim3(unsigned((across + block_threads - 1) / block_threads),
              unsigned((ny + down - 1) / down));
}

Task task_of(const Shared<Pairs>& p, const Kernel& k, double at = NAN) {
  const Right right = k.right(p->nx, p->ny);
  return {text(Ref(k.key, at)), [p, &k] { k.launch(*p, grid_of(k.format, p->nx, p->ny)); },
          p->results.check(RightWords{right, right.words()})};
}

/// As many bytes as the words, written without a kernel: what the memory takes.
Task memset_task(const Shared<Pairs>& p) {
  const auto launch = [p] {
    CUDA_CHECK(cudaMemsetAsync(p->results.data(), 0, p->results.size() * sizeof(unsigned)));
  };
  return {"memset", launch, p->results.check(Zero{})};
}

/// What carries results to the host: as many words as a format takes.
struct Carrying {
  std::string_view key;
  const char* words;
  Format format;
};
const Carrying carryings[] = {
    {"carry_words", "words to the host", Format::words},
    {"carry_bytes", "bytes to the host", Format::bytes},
    {"carry_bits", "bits to the host", Format::bits},
};

/// Word i on the device, and `count` of them again when they have come back from the host.
struct Carried {
  size_t count;
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == (i < count ? scrambled(i) : ~0u);
  }
};

Task carry_task(const Shared<Pairs>& p, const Shared<PinnedBuffer<unsigned>>& host,
                const Carrying& c, double at = NAN) {
  const size_t count = size_t(double(p->nx * p->ny) * bytes_per_pair(c.format) / 4);
  const size_t bytes = count * sizeof(unsigned);
  const auto launch = [p, host, bytes] {
    CUDA_CHECK(cudaMemcpyAsync(host->data(), p->results.data(), bytes, cudaMemcpyDeviceToHost));
  };
  const auto poison = [p, host, count] {
    fill_kernel<<<1024, 256>>>(p->results.data(), p->results.size(), Carried{count});
    std::fill_n(host->data(), count, ~0u);
  };
  const auto wrong = [p, host, bytes, count] {
    CUDA_CHECK(cudaDeviceSynchronize());
    p->results.poison();
    CUDA_CHECK(cudaMemcpy(p->results.data(), host->data(), bytes, cudaMemcpyHostToDevice));
    return p->results.wrong(Carried{count});
  };
  return {text(Ref(c.key, at)), launch, {poison, wrong, ""}};
}

// ---- prediction ----

/// Sectors that a store of a warp touches.
double sectors_per_store(Format format) {
  if (format == Format::scattered) return 32;
  return format == Format::bytes ? 1 : 4;
}

/// Measured in the same run; milliseconds for all pairs.
struct Calibrated {
  double count_only = NAN;    ///< comparing without storing
  double scatter_only = NAN;  ///< storing without comparing
  double memset = NAN;        ///< as many words
};

/// While some warps wait for the memory to take their results, others compare: the longer of the
/// two times decides.
double predicted_ms(const Kernel& k, const Calibrated& c) {
  const bool scattered = k.format == Format::scattered;
  const double storing = scattered ? c.scatter_only : c.memset * bytes_per_pair(k.format) / 4;
  return std::max(c.count_only, storing);
}

// ---- the experiment ----

/// Less where the words do not fit, more where the L2 would hold them.
Sizes fitted(Sizes sizes, const Device* device) {
  if (!device) return sizes;
  while (sizes.shrink > 1 && !beyond_l2(*device, 4 * sizes.pairs()))
    sizes = sizes_over(sizes.shrink - 1);
  while (4 * sizes.pairs() > 0.9 * device->memory_there()) sizes = sizes_over(sizes.shrink + 4);
  return sizes;
}
/// A twelfth of the reader's arrays makes 4 GiB of words.
Sizes sizes_of(const Run& run) { return fitted(sizes_over(run.quick ? 32 : 12), run.device); }
/// 244 MiB of words, which pinned memory can take six times anew.
Sizes smaller_sizes(const Run& run) { return fitted(sizes_over(48), run.device); }

/// Seconds that all of the reader's pairs would take.
Shown time_of_all(const Run& run, Sizes sizes) {
  return number(predicted("all: here s", "time of all", "s", 2), [&run, sizes](const Row& row) {
    const Kernel* k = with_key(kernels, row.ref);
    if (row.ref.key == "memset" || (k && k->answer == Answer::exclusive_or)) return double(NAN);
    return whole_x * whole_y / sizes.pairs() * (*run.results)(row.ref).time.ms.median * 1e-3;
  });
}

std::string pairs_text(const Sizes& sizes) {
  return std::to_string(sizes.nx) + " X, " + std::to_string(sizes.ny) + " Y";
}
Shown comparisons_per_s(const Sizes& sizes) {
  return in_unit(
      measured("1e9 pairs/s", "comparisons", "1e9/s", 0), [sizes](const Row& row, double ms) {
        const Kernel* k = with_key(kernels, row.ref);
        return k && k->answer != Answer::exclusive_or ? sizes.pairs() * 1e-6 / ms : double(NAN);
      });
}
Shown stored_gbs() {
  return in_unit(measured("GB/s stored", "result bandwidth", "GB/s", 0), gbs_of);
}

/// All formats, in turn.
void measure_formats(const Run& run, const Sizes& sizes) {
  SharedByTasks pairs([sizes] { return Pairs(sizes); });
  const auto of_kernel = [](Column column, double (*value)(const Kernel&)) {
    return number(std::move(column), [value](const Row& row) {
      const Kernel* k = with_key(kernels, row.ref);
      return k ? value(*k) : double(NAN);
    });
  };
  Sheet sheet(run, "result",
              {of_kernel(predicted("sectors/store", "sectors a store request", "", 0),
                         [](const Kernel& k) {
                           return k.format == Format::sums ? NAN : sectors_per_store(k.format);
                         }),
               milliseconds(3), spread(), comparisons_per_s(sizes), stored_gbs(),
               of_kernel(then("all: then s", "time of all", "s", 0),
                         [](const Kernel& k) { return k.then_seconds; }),
               time_of_all(run, sizes)});
  sheet.add({.ref = "memset",
             .words = "memset, as many words",
             .bytes = 4 * sizes.pairs(),
             .calibrates = true});
  for (const Kernel& k : kernels)
    sheet.add({.ref = k.key,
               .words = k.words,
               .bytes = bytes_per_pair(k.format) * sizes.pairs(),
               .calibrates = k.key == "count_only" || k.key == "scatter_only"});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Kernel* k = with_key(kernels, row.ref);
    return k ? task_of(pairs(), *k) : memset_task(pairs());
  });
  const Calibrated c{sheet.ms("count_only"), sheet.ms("scatter_only"), sheet.ms("memset")};
  sheet.predict([&](const Row& row) { return predicted_ms(*with_key(kernels, row.ref), c); });
  sheet.print({"the model: comparing alone or storing alone, whichever takes longer",
               "all: 1500000 x 100000 pairs, 600 GB of words"});
  if (run.device && !beyond_l2(*run.device, sizes.pairs() / 8))
    run.report.note("the bits are " + bytes_text(sizes.pairs() / 8) +
                    ": the L2 may hold a part of them");
}

/// What the reader's order of stores costs, for comparisons of three costs. No model.
void measure_comparisons(const Run& run, const Sizes& sizes) {
  SharedByTasks pairs([sizes] { return Pairs(sizes); });
  Sheet sheet(run, "comparison, " + pairs_text(sizes),
              {in_unit(measured("ms", "time", "ms", 3), [](const Row&, double ms) { return ms; }),
               spread()},
              "reader's arrays over");
  for (const Kernel& k : by_cost)
    sheet.add({.ref = Ref(k.key, double(sizes.shrink)), .words = k.words});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(pairs(), *with_key(by_cost, row.ref), row.ref.at);
  });
  sheet.print();
}

const Format written[] = {Format::words, Format::bytes, Format::bits};

/// The same results, written and carried to the host. The host and the place in memory decide: six
/// groups with memory allocated anew.
void measure_carrying(const Run& run, const Sizes& sizes) {
  SharedByTasks pairs([sizes] { return Pairs(sizes); });
  SharedByTasks host([sizes] { return PinnedBuffer<unsigned>(sizes.nx * sizes.ny); });
  Sheet sheet(run, "written, carried, " + pairs_text(sizes),
              {milliseconds(3), spread(), stored_gbs(), time_of_all(run, sizes)},
              "reader's arrays over");
  const double at = double(sizes.shrink);
  for (const Kernel& k : kernels)
    if (std::ranges::count(written, k.format))
      sheet.add({.ref = Ref(k.key, at),
                 .words = k.words,
                 .bytes = bytes_per_pair(k.format) * sizes.pairs(),
                 .model = Model::host});
  for (const Carrying& c : carryings)
    sheet.add({.ref = Ref(c.key, at),
               .words = c.words,
               .bytes = bytes_per_pair(c.format) * sizes.pairs(),
               .calibrates = c.format == Format::words,
               .model = Model::host});
  sheet.measure(Timing::regrouped, [&](const Row& row) {
    const Carrying* c = with_key(carryings, row.ref);
    if (!c) return task_of(pairs(), *with_key(kernels, row.ref), at);
    return carry_task(pairs(), host(), *c, at);
  });
  // the link takes a time in proportion to the bytes
  sheet.predict([&](const Row& row) {
    if (!with_key(carryings, row.ref)) return double(NAN);
    return sheet.ms({"carry_words", at}) * row.bytes / (4 * sizes.pairs());
  });
  sheet.print();
}

void run_compare(const Run& run) {
  const Sizes sizes = sizes_of(run);
  run.report.begin("compare", pairs_text(sizes) + " (the reader's over " +
                                  std::to_string(sizes.shrink) + "), " +
                                  bytes_text(4 * sizes.pairs()) + " as 4-byte words");
  measure_formats(run, sizes);
  measure_comparisons(run, smaller_sizes(run));
  measure_carrying(run, smaller_sizes(run));
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double smaller = double(smaller_sizes(run).shrink);
  const auto at = [smaller](const char* key) { return Ref(key, smaller); };
  const auto in_cache = [&](const Sizes& sizes) {
    return run.device && !beyond_l2(*run.device, 4 * sizes.pairs())
               ? "the words are less than four times the L2"
               : "";
  };
  return {
      {.part = {"03.12", "storing the results dominates a comparison of all pairs",
                "20x slower: 20 minutes, 1 without", "8800 GTX"},
       .rule = much_beats(),  // the reader's 20 depend on a comparison that nobody knows
       .pairs = {{.slow = "store_scattered", .fast = "count_only"}},
       .here = "stored as most likely the reader did",
       .unless = in_cache(sizes_of(run)),
       .found = {{.slow = "store_words", .fast = "count_only"},
                 {.slow = "store_bytes", .fast = "count_only"},
                 {.slow = "store_bits", .fast = "count_only"},
                 {.slow = at("scatter_only"), .fast = at("count_xor")},
                 {.slow = at("store_scattered"), .fast = at("count_only")},
                 {.slow = at("scatter_longest_of_four"), .fast = at("count_longest_of_four")}}},
      {.part = {"03.17", "the bottleneck is not writing the results but carrying them to the host",
                "tens of GB/s against about 1, expected", "the reply"},
       .rule = beats(),
       .pairs = {{.slow = at("carry_words"), .fast = at("store_words")}},
       .unless = in_cache(smaller_sizes(run)),
       .found = {{.slow = at("carry_bytes"), .fast = at("store_bytes")},
                 {.slow = at("carry_bits"), .fast = at("store_bits")}}},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = 4 * sizes_of(run).pairs();
  return {.allocated = bytes, .touched = bytes};
}

/// Sizes that are no multiple of anything but 1024 X.
Sizes awkward_sizes(size_t n) {
  const size_t nx = multiple_of_x * (1 + n % 3);
  return {0, nx, n / nx + 1};
}

std::vector<Checked> tasks(size_t n) {
  const Sizes sizes = awkward_sizes(n);
  std::vector<Checked> all;
  const auto add = [&](const Kernel& k) {
    const Shared pairs{Pairs(sizes)};
    all.push_back({.task = task_of(pairs, k),
                   .elements = k.right(sizes.nx, sizes.ny).words(),
                   .change_one = [pairs] { pairs->results.change(0); }});
  };
  for (const Kernel& k : kernels) add(k);
  for (const Kernel& k : by_cost) add(k);
  for (const Carrying& c : carryings) {
    const Shared pairs{Pairs(sizes)};
    const Shared host(PinnedBuffer<unsigned>(sizes.nx * sizes.ny));
    const Task task = carry_task(pairs, host, c);
    all.push_back({.task = task,
                   .elements = size_t(double(sizes.nx * sizes.ny) * bytes_per_pair(c.format) / 4),
                   .change_one = [host] { (*host)[0] += 1; }});
  }
  return all;
}

/// A thread loads its X, and then all lanes of a warp one Y per row of results.
CountedLaunch counted_launch_of(const Kernel& k, size_t nx, size_t ny) {
  const double rows = double(nx) / 32 * double(ny);  // of warps
  const double warps = double(nx) / 32 * std::ceil(double(ny) / y_of_block);
  Requested loads{warps + rows, 4 * warps + rows}, stores{rows, rows * sectors_per_store(k.format)};
  if (k.format == Format::sums) stores = {warps, 4 * warps};
  if (k.format == Format::bits) {  // a lane loads 32 X, and a row is 32 times as short
    const double packing = double(nx) / 1024 * std::ceil(double(ny) / packed_y_of_block);
    loads = {32 * packing + rows / 32, 4 * 32 * packing + rows / 32};
    stores = {rows / 32, 4 * rows / 32};
  }
  return counted_launch(std::string(k.key), std::to_string(nx) + " X " + std::to_string(ny) + " Y",
                        loads, stores, [&k, nx, ny] {
                          return task_of(Shared(Pairs({0, nx, ny})), k);
                        });
}

std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)  // two whole blocks of Y, and one of two
    all.push_back(counted_launch_of(k, 4096, 130));
  return all;
}

}  // namespace

extern const Experiment compare_experiment{
    .name = "compare",
    .about = "every X against every Y, and what storing the results costs",
    .run = run_compare,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
