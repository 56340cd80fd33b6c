// compare: every X against every Y, one result per pair. A reader of the 2007 study [BW] compares
// 1.5 million X with 100,000 Y, "bitwise, by a tricky algorithm". It took 20 minutes with the
// results stored, and one without. The author replied: store 4-byte words side by side; but the
// bottleneck will be carrying the results back to the host. Three things to look at:
//   - What the order of the stores costs. It decides, whatever the comparison is.
//   - How little is left of that cost once neighbouring lanes write neighbouring words: some warps
//     store while others compare.
//   - How long the same results take to the host.
//
//   cmake -S 03_access_patterns -B build/compare -DEXPERIMENTS=compare
//   cmake --build build/compare && build/compare/03_access_patterns
//
//   1  count_only          compares, and stores only a sum per thread and 64 pairs
//   2  store_scattered     most likely the reader's: each thread writes a row of its own
//   3  store_words         neighbouring threads write neighbouring words
//   4  store_bytes         neighbouring bytes
//   5  store_bits          a warp packs 32 answers into a word
//   6  scatter_only        the stores of kernel 2 without the comparisons
//   7  count_bits_apart    kernels 1 and 2 with a cheaper comparison ...
//   8  scatter_bits_apart
//   9  count_longest_of_four    ... and with a dearer one
//  10  scatter_longest_of_four
#include <algorithm>
#include <cstdint>

#include "../common/checked.cuh"
#include "../common/experiment.hpp"

using namespace samples;

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned y_of_block = 64;  // Y that a thread compares its X with: X is loaded once
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

// Cheaper: in how many bits they differ.
__device__ unsigned bits_apart(unsigned x, unsigned y) { return __popc(x ^ y); }

// Dearer: the longest run at four rotations of y.
__device__ unsigned longest_of_four(unsigned x, unsigned y) {
  unsigned longest = 0;
  for (unsigned k = 0; k < 4; ++k)
    longest = max(longest, longest_run(x, __funnelshift_l(y, y, 8 * k)));
  return longest;
}

// ---- kernels 1 to 6: nx X, a multiple of 1024, and ny Y ----

// Stores a sum for every 64 pairs; without it the compiler would drop the comparisons.
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

// The stores of store_scattered alone: what is stored costs one instruction.
__global__ void scatter_only(unsigned* results, const unsigned* xs, const unsigned* ys, size_t nx,
                             size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = x ^ ys[iy];
}

// ---- kernels 7 to 10: kernels 1 and 2 with other comparisons ----

using Compare = unsigned (*)(unsigned x, unsigned y);

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
template <Compare compare>
__device__ void scatter(unsigned* results, const unsigned* xs, const unsigned* ys, size_t,
                        size_t ny) {
  const size_t ix = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned x = xs[ix];
  const size_t end = min((blockIdx.y + size_t(1)) * y_of_block, ny);
  for (size_t iy = blockIdx.y * size_t(y_of_block); iy < end; ++iy)
    results[ix * ny + iy] = compare(x, ys[iy]);
}

__global__ void count_bits_apart(unsigned* sums, const unsigned* xs, const unsigned* ys, size_t nx,
                                 size_t ny) {
  count<bits_apart>(sums, xs, ys, nx, ny);
}
__global__ void scatter_bits_apart(unsigned* results, const unsigned* xs, const unsigned* ys,
                                   size_t nx, size_t ny) {
  scatter<bits_apart>(results, xs, ys, nx, ny);
}
__global__ void count_longest_of_four(unsigned* sums, const unsigned* xs, const unsigned* ys,
                                      size_t nx, size_t ny) {
  count<longest_of_four>(sums, xs, ys, nx, ny);
}
__global__ void scatter_longest_of_four(unsigned* results, const unsigned* xs, const unsigned* ys,
                                        size_t nx, size_t ny) {
  scatter<longest_of_four>(results, xs, ys, nx, ny);
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

enum class Comparison { exclusive_or, bits_apart, longest_run, longest_of_four };

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

__host__ __device__ unsigned right_result(Comparison comparison, size_t ix, size_t iy) {
  const unsigned x = X{}(ix), y = Y{}(iy);
  unsigned result = 0;
  switch (comparison) {
    case Comparison::exclusive_or:
      return x ^ y;
    case Comparison::bits_apart:
      for (unsigned bit = 0; bit < 32; ++bit) result += (x >> bit & 1) != (y >> bit & 1);
      return result;
    case Comparison::longest_run:
      return right_run(x, y);
    case Comparison::longest_of_four:
      for (unsigned rotated = 0; rotated < 32; rotated += 8) {
        const unsigned run = right_run(x, y, rotated);
        result = run > result ? run : result;
      }
      return result;
  }
  return 0;
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
  Comparison comparison;
  size_t nx, ny;

  size_t words() const {
    if (format == Format::sums) return nx * ((ny + y_of_block - 1) / y_of_block);
    return size_t(double(nx * ny) * bytes_per_pair(format) / 4);
  }
  __host__ __device__ unsigned pair(size_t ix, size_t iy) const {
    return right_result(comparison, ix, iy);
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
  Comparison comparison = Comparison::longest_run;
  double then_seconds = NAN;  ///< what the reader's took
  void (*launch)(const Pairs&, dim3 grid) = nullptr;

  Right right(size_t nx, size_t ny) const { return {format, comparison, nx, ny}; }
};

template <class Word>
void launch(void (*kernel)(Word*, const unsigned*, const unsigned*, size_t, size_t),
            const Pairs& p, dim3 grid) {
  kernel<<<grid, block_threads>>>(reinterpret_cast<Word*>(p.results.data()), p.x.data(),
                                  p.y.data(), p.nx, p.ny);
}
template <auto kernel>
Kernel named(Kernel k) {
  k.key = name_of<kernel>();
  k.launch = [](const Pairs& p, dim3 grid) { launch(kernel, p, grid); };
  return k;
}

using enum Comparison;

const Kernel kernels[] = {
    named<count_only>({.words = "not stored", .then_seconds = 60}),
    named<scatter_only>({.words = "scattered words, not compared",
                         .format = Format::scattered,
                         .comparison = exclusive_or}),
    named<store_scattered>(
        {.words = "scattered words", .format = Format::scattered, .then_seconds = 20 * 60}),
    named<store_words>({.words = "words side by side", .format = Format::words}),
    named<store_bytes>({.words = "bytes side by side", .format = Format::bytes}),
    named<store_bits>({.words = "bits packed by the warp", .format = Format::bits}),
};
/// The same pair of kernels with comparisons of three costs.
const Kernel by_cost[] = {
    named<count_bits_apart>({.words = "bits apart, not stored", .comparison = bits_apart}),
    named<scatter_bits_apart>(
        {.words = "bits apart, scattered", .format = Format::scattered, .comparison = bits_apart}),
    named<count_only>({.words = "longest run, not stored"}),
    named<store_scattered>({.words = "longest run, scattered", .format = Format::scattered}),
    named<count_longest_of_four>(
        {.words = "longest of four, not stored", .comparison = longest_of_four}),
    named<scatter_longest_of_four>({.words = "longest of four, scattered",
                                    .format = Format::scattered,
                                    .comparison = longest_of_four}),
};

dim3 grid_of(Format format, size_t nx, size_t ny) {
  const bool packs = format == Format::bits;
  const size_t across = packs ? nx / 32 : nx;
  const size_t down = packs ? packed_y_of_block : y_of_block;
  return dim3(unsigned((across + block_threads - 1) / block_threads),
              unsigned((ny + down - 1) / down));
}

Task task_of(const Shared<Pairs>& p, const Kernel& k, const Ref& ref) {
  const Right right = k.right(p->nx, p->ny);
  return {text(ref), [p, &k] { k.launch(*p, grid_of(k.format, p->nx, p->ny)); },
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
                const Carrying& c, const Ref& ref) {
  const size_t count = size_t(double(p->nx * p->ny) * bytes_per_pair(c.format) / 4);
  const size_t bytes = count * sizeof(unsigned);
  const auto launch = [p, host, bytes] {
    CUDA_CHECK(cudaMemcpyAsync(host->data(), p->results.data(), bytes, cudaMemcpyDeviceToHost));
  };
  const auto poison = [p, host, count] {
    fill_kernel<<<1024, 256>>>(p->results.data(), p->results.size(), Carried{count});
    std::fill_n(host->data(), host->size(), ~0u);
  };
  const auto wrong = [p, host, bytes, count] {
    CUDA_CHECK(cudaDeviceSynchronize());
    p->results.poison();
    CUDA_CHECK(cudaMemcpy(p->results.data(), host->data(), bytes, cudaMemcpyHostToDevice));
    return p->results.wrong(Carried{count});
  };
  return {text(ref), launch, {poison, wrong, ""}};
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
    if (std::isnan(row.bytes) && row.ref.key != "count_only") return double(NAN);
    return whole_x * whole_y / sizes.pairs() * (*run.results)(row.ref).time.ms.median * 1e-3;
  });
}
