// Of locality: the ways through an image and through a volume, which thread has to read what, and
// what a warp asks of the memory on each way. A walk is a function: the place that thread `tid` of
// a block with tile `tile` reads in its step `step`.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "../common/counters.hpp"
#include "../common/report.hpp"

constexpr unsigned threads = 256;  // of a block: eight warps
constexpr unsigned steps = 8;      // reads of a thread, all under way at once
constexpr unsigned tile_texels = threads * steps;

struct Texel {
  unsigned x, y, z;
};

/// How many parts of `size` cover n.
__host__ __device__ inline unsigned parts(unsigned n, unsigned size) {
  return n / size + (n % size != 0);
}

// ---- the walks. Tiles are numbered along the rows of an image of n x n texels. ----

// [by_row]
/// A warp: 32 texels of a row. Its block goes on along the row.
__host__ __device__ inline Texel by_row(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 2048);
  return {tile % across * 2048 + step * 256 + tid, tile / across, 0};
}

/// A warp: 32 texels of a column. Its block goes on down the column.
__host__ __device__ inline Texel by_column(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  return {tile % n, tile / n * 2048 + step * 256 + tid, 0};
}
// [/by_row]

/// A warp: 32 texels of a column, and then of the column beside it.
__host__ __device__ inline Texel aside(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 8);
  return {tile % across * 8 + step, tile / across * 256 + tid, 0};
}

/// A warp: 8 x 4 texels; a block 32 x 8, and then those below.
__host__ __device__ inline Texel by_8x4(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 32), warp = tid / 32, lane = tid % 32;
  return {tile % across * 32 + warp % 4 * 8 + lane % 8,
          tile / across * 64 + step * 8 + warp / 4 * 4 + lane / 8, 0};
}

/// A warp: 4 x 8 texels; a block 32 x 8, and then those below.
__host__ __device__ inline Texel by_4x8(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 32), warp = tid / 32, lane = tid % 32;
  return {tile % across * 32 + warp * 4 + lane % 4, tile / across * 64 + step * 8 + lane / 4, 0};
}

/// A block: 16 x 16 texels, so a warp 16 x 2; and then those below.
__host__ __device__ inline Texel by_16x16(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 16);
  return {tile % across * 16 + tid % 16, tile / across * 128 + step * 16 + tid / 16, 0};
}

/// A warp: 32 texels of a row; a block 32 x 8, and then those below.
__host__ __device__ inline Texel by_32x8(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 32);
  return {tile % across * 32 + tid % 32, tile / across * 64 + step * 8 + tid / 32, 0};
}

/// Any texel, without pattern. There are as many reads as texels; n, n: none is left.
__host__ __device__ inline Texel anywhere(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const size_t i = size_t(tile) * tile_texels + step * threads + tid;
  if (i >= size_t(n) * n) return {n, n, 0};
  unsigned h = unsigned(i) * 0x9e3779b1u;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  const unsigned x = unsigned(size_t(h) * n >> 32);
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return {x, unsigned(size_t(h) * n >> 32), 0};
}

// ---- through a volume of n x n x n ----

/// A warp: 8 x 2 x 2 texels; a block 8 x 8 x 4, and then those behind.
__host__ __device__ inline Texel by_8x2x2(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 8), warp = tid / 32, lane = tid % 32;
  return {tile % across * 8 + lane % 8, tile / across % across * 8 + warp % 4 * 2 + lane / 8 % 2,
          tile / across / across * 32 + step * 4 + warp / 4 * 2 + lane / 16};
}

/// A warp: 4 x 4 x 2 texels; a block 8 x 8 x 4, and then those behind.
__host__ __device__ inline Texel by_4x4x2(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 8), warp = tid / 32, lane = tid % 32;
  return {tile % across * 8 + warp % 2 * 4 + lane % 4,
          tile / across % across * 8 + warp / 2 % 2 * 4 + lane / 4 % 4,
          tile / across / across * 32 + step * 4 + warp / 4 * 2 + lane / 16};
}

/// A warp: 32 texels one behind the other; its block's warps side by side, and then those below.
__host__ __device__ inline Texel by_depth(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const unsigned across = parts(n, 8);
  return {tile % across * 8 + tid / 32, tile / across % across * 8 + step,
          tile / across / across * 32 + tid % 32};
}

using Place = Texel (*)(unsigned tile, unsigned tid, unsigned step, unsigned n);

/// The tile of a block. Where there are more blocks than tiles they pass over the image again, each
/// time by another 1009 tiles (a prime) aside: a multiprocessor, which gets blocks in much the same
/// order each time, finds none of its new tiles in its L1.
__host__ __device__ inline unsigned tile_of(unsigned block, unsigned tiles) {
  return (block % tiles + block / tiles * 1009) % tiles;
}

// ---- what is right: which thread has to read a texel, from the walk's description ----

/// Blocks before the one that has this texel, and its thread there.
struct Taker {
  unsigned tile, tid;
};
using TakerOf = Taker (*)(Texel, unsigned n);

__host__ __device__ inline Taker taker_by_row(Texel p, unsigned n) {
  return {p.y * parts(n, 2048) + p.x / 2048, p.x % 256};
}
__host__ __device__ inline Taker taker_by_column(Texel p, unsigned n) {
  return {p.y / 2048 * n + p.x, p.y % 256};
}
__host__ __device__ inline Taker taker_aside(Texel p, unsigned n) {
  return {p.y / 256 * parts(n, 8) + p.x / 8, p.y % 256};
}
__host__ __device__ inline Taker taker_by_8x4(Texel p, unsigned n) {
  const unsigned warp = p.y / 4 % 2 * 4 + p.x / 8 % 4;
  return {p.y / 64 * parts(n, 32) + p.x / 32, warp * 32 + p.y % 4 * 8 + p.x % 8};
}
__host__ __device__ inline Taker taker_by_4x8(Texel p, unsigned n) {
  return {p.y / 64 * parts(n, 32) + p.x / 32, p.x / 4 % 8 * 32 + p.y % 8 * 4 + p.x % 4};
}
__host__ __device__ inline Taker taker_by_16x16(Texel p, unsigned n) {
  return {p.y / 128 * parts(n, 16) + p.x / 16, p.y % 16 * 16 + p.x % 16};
}
__host__ __device__ inline Taker taker_by_32x8(Texel p, unsigned n) {
  return {p.y / 64 * parts(n, 32) + p.x / 32, p.y % 8 * 32 + p.x % 32};
}
/// A tile is 8 x 8 x 32.
__host__ __device__ inline unsigned deep_tile(Texel p, unsigned n) {
  return (p.z / 32 * parts(n, 8) + p.y / 8) * parts(n, 8) + p.x / 8;
}
__host__ __device__ inline Taker taker_by_8x2x2(Texel p, unsigned n) {
  const unsigned warp = p.z / 2 % 2 * 4 + p.y / 2 % 4;
  return {deep_tile(p, n), warp * 32 + p.z % 2 * 16 + p.y % 2 * 8 + p.x % 8};
}
__host__ __device__ inline Taker taker_by_4x4x2(Texel p, unsigned n) {
  const unsigned warp = p.z / 2 % 2 * 4 + p.y / 4 % 2 * 2 + p.x / 4 % 2;
  return {deep_tile(p, n), warp * 32 + p.z % 2 * 16 + p.y % 4 * 4 + p.x % 4};
}
__host__ __device__ inline Taker taker_by_depth(Texel p, unsigned n) {
  return {deep_tile(p, n), p.x % 8 * 32 + p.z % 32};
}

/// Texel (x, y, z) of every image: a whole number from 1 to 256 without pattern.
__host__ __device__ inline unsigned value_of(unsigned x, unsigned y, unsigned z = 0) {
  unsigned h = x * 0x9e3779b1u ^ y * 0x85ebca6bu ^ z * 0x27d4eb2fu;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  return 1 + (h >> 24);
}

/// What a thread makes of a place: one texel, a sum of nine, one between four, or a colour whose
/// four channels are the low bits of the texel's value.
enum class Kind { point, stencil, bilinear, colour };

/// Quarters of a texel that an interpolated read lies beyond it. The texture unit's weights, of 8
/// bits, hold them exactly.
__host__ __device__ inline unsigned quarters_beyond(unsigned i) { return i % 4; }

__host__ __device__ inline unsigned clamped(int i, unsigned n) {
  return i < 0 ? 0 : unsigned(i) < n ? unsigned(i) : n - 1;
}

/// Sixteen times what a read at (x, y) has to give, in whole numbers.
__host__ __device__ inline unsigned sixteenfold(Kind kind, unsigned x, unsigned y, unsigned z,
                                                unsigned n) {
  if (kind == Kind::point) return 16 * value_of(x, y, z);
  if (kind == Kind::colour) return 16 * (value_of(x, y) % 16);
  unsigned sum = 0;
  if (kind == Kind::stencil) {
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        sum += 16 * value_of(clamped(int(x) + dx, n), clamped(int(y) + dy, n));
    return sum;
  }
  const unsigned right = quarters_beyond(x), down = quarters_beyond(y);
  for (unsigned dy = 0; dy < 2; ++dy)
    for (unsigned dx = 0; dx < 2; ++dx)
      sum += (dx ? right : 4 - right) * (dy ? down : 4 - down) *
             value_of(clamped(int(x + dx), n), clamped(int(y + dy), n));
  return sum;
}

/// Hands what each place gives to the thread that has to read there: from texels to threads, where
/// the kernels go from threads to texels.
template <TakerOf taker>
static __global__ void add_to_takers(unsigned* right, Kind kind, unsigned n, unsigned depth) {
  const size_t all = size_t(n) * n * depth, at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < all; i += at_once) {
    const Texel p{unsigned(i % n), unsigned(i / n % n), unsigned(i / n / n)};
    const Taker by = taker(p, n);
    atomicAdd(&right[size_t(by.tile) * threads + by.tid], sixteenfold(kind, p.x, p.y, p.z, n));
  }
}
/// The same of reads of any texel, of which each thread has every 256th of its block.
static __global__ void add_to_takers_anywhere(unsigned* right, unsigned n) {
  const size_t all = size_t(n) * n, at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < all; i += at_once) {
    const unsigned tile = unsigned(i / tile_texels), in_tile = unsigned(i % tile_texels);
    const Texel p = anywhere(tile, in_tile % threads, in_tile / threads, n);
    atomicAdd(&right[size_t(tile) * threads + in_tile % threads], 16 * value_of(p.x, p.y));
  }
}

static __global__ void count_wrong(const float* out, const unsigned* right, size_t n,
                                   unsigned* wrong) {
  const size_t at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += at_once)
    if (!(16 * out[i] == float(right[i]))) atomicAdd(wrong, 1u);
}

/// A walk, its tile, and who reads what.
struct Walk {
  const char* name;
  unsigned wide, high, deep;  ///< texels of a tile; 0: any
  Place place;
  void (*add)(unsigned* right, Kind kind, unsigned n);  ///< to the threads that read
  TakerOf taker;

  unsigned tiles(unsigned n) const {
    if (wide == 0) return unsigned((size_t(n) * n + tile_texels - 1) / tile_texels);
    return parts(n, wide) * parts(n, high) * (deep ? parts(n, deep) : 1);
  }
  /// Texels that the whole walk reads.
  double texels(unsigned n) const { return double(n) * n * (deep ? n : 1); }
};

template <TakerOf taker>
void add_in_image(unsigned* right, Kind kind, unsigned n) {
  add_to_takers<taker><<<2048, 256>>>(right, kind, n, 1);
}
template <TakerOf taker>
void add_in_volume(unsigned* right, Kind kind, unsigned n) {
  add_to_takers<taker><<<2048, 256>>>(right, kind, n, n);
}
inline void add_anywhere(unsigned* right, Kind, unsigned n) {
  add_to_takers_anywhere<<<2048, 256>>>(right, n);
}

template <TakerOf taker>
Walk in_image(const char* name, unsigned wide, unsigned high, Place place) {
  return {name, wide, high, 0, place, add_in_image<taker>, taker};
}
template <TakerOf taker>
Walk in_volume(const char* name, Place place) {
  return {name, 8, 8, 32, place, add_in_volume<taker>, taker};
}

/// What the threads of a launch write, and what is right.
struct Sums {
  static constexpr size_t canaries = 64;  ///< behind what the threads write

  DeviceBuffer<float> out;
  DeviceBuffer<unsigned> right, wrong_sums{1};

  explicit Sums(size_t most_threads) : out(most_threads + canaries), right(most_threads) {}

  size_t wrong(const Walk& walk, Kind kind, unsigned n) {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    walk.add(right.data(), kind, n);
    CUDA_CHECK_LAUNCH();
    wrong_sums.copy_from({0});
    const size_t count = size_t(walk.tiles(n)) * threads;
    count_wrong<<<1024, 256>>>(out.data(), right.data(), count, wrong_sums.data());
    CUDA_CHECK_LAUNCH();
    return wrong_sums.to_host()[0];
  }
  Task task(std::string name, const Walk& walk, Kind kind, unsigned n, Function<void()> launch) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, walk, kind, n] { return wrong(walk, kind, n); };
    return {std::move(name), std::move(launch), std::move(check)};
  }
  /// Whether nothing was written behind the sums of a launch.
  bool canaries_stand(const Walk& walk, unsigned n) const {
    const size_t count = size_t(walk.tiles(n)) * threads;
    std::vector<unsigned> behind(canaries);
    device_memory::to_host(behind.data(), out.data() + count, canaries * sizeof(unsigned));
    return std::count(behind.begin(), behind.end(), ~0u) == long(canaries);
  }
};

// ---- what to expect ----

/// Where texel (x, y, z) lies. In rows a sector of 32 bytes has 8 x 1 texels and a line of 128
/// bytes 32 x 1; in an array they have 4 x 2 and 8 x 4. (The array's sectors were counted on an
/// H200; CUDA documents neither.)
struct Layout {
  bool array;
  size_t row_words, plane_words;  ///< from row to row, and from plane to plane

  size_t word(Texel p) const { return p.z * plane_words + p.y * row_words + p.x; }
  size_t sector(Texel p) const { return array ? part(p, 4, 2) : word(p) / 8; }
  size_t line(Texel p) const { return array ? part(p, 8, 4) : word(p) / 32; }

 private:
  static size_t part(Texel p, unsigned wide, unsigned high) {
    return (size_t(p.z) << 40) + (size_t(p.y / high) << 20) + p.x / wide;
  }
};

/// How a warp's lanes get their texels.
enum class Path { loads, fetches };

/// What 32 texels of a walk cost on average.
struct Cost {
  double requests = 0;  ///< to L1: of 32 lanes by loads, of 4 lanes by fetches
  double sectors = 0;   ///< that these want
  double passes = 0;    ///< through the 32 banks of L1, by loads: words of one bank come in turn
  double to_l2 = 0;     ///< requests of L1 to L2: one for each line of which a sector is missing
  double fetches = 0;   ///< of the texture units, for each lane
};

/// The texels that a lane wants at once: of a filtered fetch those whose weight is not 0.
inline std::vector<Texel> wanted_by(Kind kind, Path path, unsigned tap, Texel p, unsigned n) {
  if (kind == Kind::stencil)
    return {{clamped(int(p.x + tap % 3) - 1, n), clamped(int(p.y + tap / 3) - 1, n), 0}};
  if (kind != Kind::bilinear) return {p};
  std::vector<Texel> all;
  for (unsigned corner = 0; corner < 4; ++corner) {
    const unsigned dx = corner % 2, dy = corner / 2;
    if (path == Path::loads && corner != tap) continue;
    if (path == Path::fetches && dx && quarters_beyond(p.x) == 0) continue;
    if (path == Path::fetches && dy && quarters_beyond(p.y) == 0) continue;
    all.push_back({clamped(int(p.x + dx), n), clamped(int(p.y + dy), n), 0});
  }
  return all;
}

/// Reads that a place takes.
inline unsigned taps_of(Kind kind, Path path) {
  if (kind == Kind::stencil) return 9;
  return kind == Kind::bilinear && path == Path::loads ? 4 : 1;
}

/// Words of the fullest bank.
inline double passes_of(const std::set<size_t>& words) {
  unsigned of_bank[32] = {};
  unsigned most = 0;
  for (const size_t word : words) most = std::max(most, ++of_bank[word % 32]);
  return most;
}

/// Of `tiles` tiles from `first` on, all reads in the order of steps and warps. What a block has
/// read it finds in L1 again.
inline Cost total_cost(const Walk& walk, Kind kind, Path path, const Layout& layout, unsigned n,
                       unsigned first, unsigned tiles) {
  const unsigned at_once = path == Path::loads ? 32 : 4;  // lanes that share a request
  Cost all;
  for (unsigned tile = first; tile < first + tiles; ++tile) {
    std::set<size_t> in_l1;  // sectors
    for (unsigned i = 0; i < tile_texels; i += 32)
      for (unsigned tap = 0; tap < taps_of(kind, path); ++tap) {
        std::set<size_t> words, missing;  // of the warp
        for (unsigned lane = 0; lane < 32; lane += at_once) {
          std::set<size_t> sectors;  // of the request
          for (unsigned k = lane; k < lane + at_once; ++k) {
            Texel p = walk.place(tile, (i + k) % threads, i / threads, n);
            p = {std::min(p.x, n - 1), std::min(p.y, n - 1), std::min(p.z, n - 1)};
            for (const Texel& t : wanted_by(kind, path, tap, p, n)) {
              words.insert(layout.word(t));
              sectors.insert(layout.sector(t));
              if (in_l1.insert(layout.sector(t)).second) missing.insert(layout.line(t));
            }
          }
          all.sectors += double(sectors.size());
          all.requests += 1;
        }
        all.to_l2 += double(missing.size());
        if (path == Path::loads) all.passes += passes_of(words);
        if (path == Path::fetches) all.fetches += 32;
      }
  }
  return all;
}

/// Of 32 texels in the middle of an image whose rows lie so many words apart.
inline Cost cost_of(const Walk& walk, Kind kind, Path path, bool array, unsigned n,
                    size_t row_words) {
  const unsigned rows_of_tiles = walk.wide ? parts(n, walk.wide) : 1;
  const unsigned tile = std::min(walk.tiles(n) / 2 + rows_of_tiles / 2, walk.tiles(n) - 1);
  Cost c = total_cost(walk, kind, path, {array, row_words, row_words * n}, n, tile, 1);
  for (double* each : {&c.requests, &c.sectors, &c.passes, &c.to_l2, &c.fetches})
    *each /= tile_texels / 32;
  return c;
}

/// Measured in the same run.
struct Calibrated {
  double memory_gbs = NAN;   ///< of loads by rows from memory
  double l2_gbs = NAN;       ///< of loads by rows from L2
  double requests_ns = NAN;  ///< of L1 to L2 in a nanosecond, each for another line
  double lone_gbs = NAN;     ///< of lone words from memory
  double fetch_gbs = NAN;    ///< of fetches by rows from memory
};

/// A prediction, and the limit from which it follows.
struct Expected32 {
  double gbs = NAN;
  const char* limit = "";
};

/// Where an image is when it is read.
enum class From { l2, memory };

/// Cycles of all multiprocessors in a nanosecond; not a number where the clock is not reported.
inline double cycles_ns(const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  return 1e-6 * device.sm_clock_khz * device.prop.multiProcessorCount;
}

/// Texture units of a multiprocessor, each of which answers a lane of tex2D in a cycle.
inline double texture_units(const Device& device) { return device.prop.major >= 7 ? 4 : 8; }

/// The slowest of the things that apply to 32 texels of 4 bytes. `instructions`: that a warp issues
/// for them, four schedulers a multiprocessor; 0: few.
inline Expected32 expected_gbs(const Walk& walk, Path path, const Cost& cost, From from,
                               double instructions, const Calibrated& c, const Device& device) {
  struct Limit {
    const char* name;
    double ns;
  };
  const double bytes = 32 * 4, cycles = cycles_ns(device);
  const bool memory = from == From::memory, any = walk.wide == 0;
  const Limit limits[] = {
      {"L2's requests", cost.to_l2 / c.requests_ns},
      {"the memory, a word at a time", memory && any ? bytes / c.lone_gbs : 0},
      {"memory", memory && path == Path::loads ? bytes / c.memory_gbs : 0},
      {"L2's bytes", !memory && path == Path::loads ? bytes / c.l2_gbs : 0},
      {"L1's banks", path == Path::loads ? cost.passes / cycles : 0},
      {"instructions", path == Path::loads ? instructions / 4 / cycles : 0},
      {"fetches from memory", memory && path == Path::fetches ? bytes / c.fetch_gbs : 0},
      {"texture units", path == Path::fetches ? cost.fetches / texture_units(device) / cycles : 0},
  };
  Expected32 expected;
  double most = 0;
  for (const Limit& limit : limits) {
    if (std::isnan(limit.ns)) return {};  // a constant is missing
    if (limit.ns <= most) continue;
    most = limit.ns;
    expected = {bytes / limit.ns, limit.name};
  }
  return expected;
}

/// The order of texels in arrays, L2's requests and L1's banks were found on compute capability 9.0
/// only; a test holds rows to them there.
inline Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

/// What Nsight Compute counts of fetches.
inline std::vector<Expected> fetch_counts(const Cost& cost) {
  return {{"tex requests", "l1tex__t_requests_pipe_tex_mem_texture.sum", cost.requests},
          {"tex sectors", "l1tex__t_sectors_pipe_tex_mem_texture.sum", cost.sectors}};
}

/// locality_kinds.cu: the read-only path beside textures, on an image of n x n.
void locality_kinds(const Run& run, unsigned n, const Calibrated& c);
