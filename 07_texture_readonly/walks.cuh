// Of locality: the ways through an image and through a volume, what each of their texels is worth,
// and what a warp asks of the memory on each way. A walk is a function: the place that thread `tid`
// of a block with tile `tile` reads in its step `step`.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <vector>

constexpr unsigned threads = 256;  // of a block: eight warps
constexpr unsigned steps = 8;      // reads of a thread, all in flight at once
constexpr unsigned tile_reads = threads * steps;

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

/// A warp: a patch of `wide` x 32 / `wide` texels; its neighbours to all sides begin half a patch
/// away, so that each texel is read four times (in the first half patch of the image less often). A
/// block's eight warps stand side by side, and then below.
template <unsigned wide>
__host__ __device__ inline Texel overlapping(unsigned tile, unsigned tid, unsigned step,
                                             unsigned n) {
  constexpr unsigned right = wide / 2, down = 32 / wide / 2;  // from patch to patch
  const unsigned across = parts(n, 8 * right), warp = tid / 32, lane = tid % 32;
  return {(tile % across * 8 + warp) * right + lane % wide,
          (tile / across * 8 + step) * down + lane / wide, 0};
}

/// Any texel, without pattern. There are as many reads as texels; n, n: none is left.
__host__ __device__ inline Texel anywhere(unsigned tile, unsigned tid, unsigned step, unsigned n) {
  const size_t i = size_t(tile) * tile_reads + step * threads + tid;
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

/// The tile of a block. Where there are more blocks than tiles they pass over the image again, each
/// time by another 1009 tiles (a prime) aside: a multiprocessor, which gets blocks in much the same
/// order each time, finds none of its new tiles in its L1.
__host__ __device__ inline unsigned tile_of(unsigned block, unsigned tiles) {
  return (block % tiles + block / tiles * 1009) % tiles;
}

using Place = Texel (*)(unsigned tile, unsigned tid, unsigned step, unsigned n);

/// A walk, and the texels by which its tiles follow each other; 0: they are no part of an image.
struct Walk {
  Place place = nullptr;
  unsigned wide = 0, high = 0, deep = 0;
  unsigned reads = 1;  ///< of each texel

  unsigned tiles(unsigned n) const {
    if (wide == 0) return unsigned((size_t(n) * n + tile_reads - 1) / tile_reads);
    return parts(n, wide) * parts(n, high) * (deep ? parts(n, deep) : 1);
  }
};

// ---- what is right ----

/// Texel (x, y, z) of every image: a whole number from 1 to 256 without pattern.
__host__ __device__ inline unsigned value_of(unsigned x, unsigned y, unsigned z = 0) {
  unsigned h = x * 0x9e3779b1u ^ y * 0x85ebca6bu ^ z * 0x27d4eb2fu;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  return 1 + (h >> 24);
}

/// What a thread makes of a place: one texel, a sum of nine, one between four, or a colour, whose
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

/// How lanes get their texels: by two kinds of load, or through a texture of an array or of rows.
enum class Path { loads, ldg, array, pitched };
inline bool is_fetch(Path path) { return path == Path::array || path == Path::pitched; }

/// What 32 texels of an image cost on average, all reads of each included.
struct Cost {
  double requests = 0;  ///< to L1: of 32 lanes by loads, of 4 lanes by fetches
  double sectors = 0;   ///< that these want
  double wavefronts =
      0;               ///< of L1, by loads: words of one of its 32 banks come one after the other
  double to_l2 = 0;    ///< requests of L1 to L2: one for each line of which a sector is missing
  double fetches = 0;  ///< of the texture units, for each lane
};

/// Appends the texels that a lane wants at once: of a filtered fetch those whose weight is not 0.
inline void add_wanted(std::vector<Texel>& all, Kind kind, Path path, unsigned tap, Texel p,
                       unsigned n) {
  if (kind == Kind::stencil) {
    all.push_back({clamped(int(p.x + tap % 3) - 1, n), clamped(int(p.y + tap / 3) - 1, n), 0});
    return;
  }
  if (kind != Kind::bilinear) {
    all.push_back(p);
    return;
  }
  for (unsigned corner = 0; corner < 4; ++corner) {
    const unsigned dx = corner % 2, dy = corner / 2;
    if (!is_fetch(path) && corner != tap) continue;
    if (is_fetch(path) && dx && quarters_beyond(p.x) == 0) continue;
    if (is_fetch(path) && dy && quarters_beyond(p.y) == 0) continue;
    all.push_back({clamped(int(p.x + dx), n), clamped(int(p.y + dy), n), 0});
  }
}

/// Reads that a place takes.
inline unsigned taps_of(Kind kind, Path path) {
  if (kind == Kind::stencil) return 9;
  return kind == Kind::bilinear && !is_fetch(path) ? 4 : 1;
}

/// Sorts, and leaves each once.
template <class T>
void make_distinct(std::vector<T>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

/// Words of the fullest bank.
inline double wavefronts_of(const std::vector<size_t>& distinct_words) {
  unsigned of_bank[32] = {}, most = 0;
  for (const size_t word : distinct_words) most = std::max(most, ++of_bank[word % 32]);
  return most;
}

/// Of `tiles` tiles from `first` on, all reads in the order of steps and warps. What a block has
/// read it finds in L1 again. The image's rows lie `row_words` apart.
inline Cost total_cost(const Walk& walk, Kind kind, Path path, unsigned n, size_t row_words,
                       unsigned first, unsigned tiles) {
  const Layout layout{path == Path::array, row_words, row_words * n};
  const unsigned at_once = is_fetch(path) ? 4 : 32;  // lanes that share a request
  Cost all;
  std::unordered_set<size_t> in_l1;    // sectors, of a tile
  std::vector<size_t> words, missing;  // of a warp; missing: lines
  std::vector<Texel> texels;           // of a request
  std::vector<size_t> sectors;
  for (unsigned tile = first; tile < first + tiles; ++tile) {
    in_l1.clear();
    for (unsigned i = 0; i < tile_reads; i += 32)
      for (unsigned tap = 0; tap < taps_of(kind, path); ++tap) {
        words.clear(), missing.clear();
        for (unsigned lane = 0; lane < 32; lane += at_once) {
          texels.clear(), sectors.clear();
          for (unsigned k = lane; k < lane + at_once; ++k) {
            const Texel p = walk.place(tile, (i + k) % threads, i / threads, n);
            add_wanted(texels, kind, path, tap,
                       {std::min(p.x, n - 1), std::min(p.y, n - 1), std::min(p.z, n - 1)}, n);
          }
          for (const Texel& t : texels) {
            words.push_back(layout.word(t));
            sectors.push_back(layout.sector(t));
            if (in_l1.insert(sectors.back()).second) missing.push_back(layout.line(t));
          }
          make_distinct(sectors);
          all.sectors += double(sectors.size());
          all.requests += 1;
        }
        make_distinct(missing);
        all.to_l2 += double(missing.size());
        if (is_fetch(path)) {
          all.fetches += 32;
        } else {
          make_distinct(words);
          all.wavefronts += wavefronts_of(words);
        }
      }
  }
  return all;
}

/// Of 32 texels in the middle of an image. Each is computed once in a run.
inline const Cost& cost_of(const Walk& walk, Kind kind, Path path, unsigned n, size_t row_words) {
  static std::map<std::tuple<Place, Kind, Path, unsigned, size_t>, Cost> known;
  const auto [found, is_new] = known.try_emplace({walk.place, kind, path, n, row_words});
  Cost& c = found->second;
  if (!is_new) return c;
  const unsigned rows_of_tiles = walk.wide ? parts(n, walk.wide) : 1;
  const unsigned tile = std::min(walk.tiles(n) / 2 + rows_of_tiles / 2, walk.tiles(n) - 1);
  c = total_cost(walk, kind, path, n, row_words, tile, 1);
  for (double* each : {&c.requests, &c.sectors, &c.wavefronts, &c.to_l2, &c.fetches})
    *each *= 32.0 / tile_reads * walk.reads;
  return c;
}
