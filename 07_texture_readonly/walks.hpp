// Of locality.cu: the image, the seven walks over it, where a thread is in each step, what it adds up, and which
// 32-byte sectors its warp asks for. Kernel, reference, prediction and self-checks share it; none of it needs a GPU.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "../common/host_threads.hpp"

enum Walk { row, column, column_aside, patch, stencil, bilinear, anywhere, walks };
inline const char* const walk_names[] = {"row",           "column",   "column aside", "8 x 4 patch",
                                         "3 x 3 stencil", "bilinear", "random"};

constexpr unsigned threads = 128, steps = 16, in_tile = threads * steps;  // a block walks over a tile of 2048 texels

struct Texel {
  unsigned x, y;
};
/// Tiles cover the image; they are numbered along its rows. (Computed: the kernels would load braced constants.)
__host__ __device__ inline Texel tile_shape(Walk w) {
  Texel shape;
  shape.x = w == row ? in_tile : w == column ? 1 : w == column_aside ? steps : w == stencil ? 32 : 64;
  shape.y = in_tile / shape.x;
  return shape;
}
__host__ __device__ inline unsigned parts(unsigned n, unsigned size) { return (n + size - 1) / size; }
inline unsigned tiles_of(Walk w, unsigned n) {
  if (w == anywhere) return unsigned((size_t(n) * n + in_tile - 1) / in_tile);
  return parts(n, tile_shape(w).x) * parts(n, tile_shape(w).y);
}

/// The tile of a block. Where there are more blocks than tiles they pass over the image again, each time by another
/// 1009 tiles (a prime) aside: a multiprocessor, which gets blocks in much the same order each time, finds none of its
/// new tiles in its L1.
__host__ __device__ inline unsigned tile_of(unsigned block, unsigned tiles) {
  return (block % tiles + block / tiles * 1009) % tiles;
}

/// Where a thread is in a step. Outside of the image where a tile hangs over its edge.
__host__ __device__ inline Texel place(Walk w, unsigned n, unsigned tile, unsigned tid, unsigned step) {
  const unsigned i = step * threads + tid, warp = tid / 32, lane = tid % 32;
  if (w == anywhere) {  // as many reads as there are texels, each of any
    if (size_t(tile) * in_tile + i >= size_t(n) * n) return {n, n};
    unsigned h = (tile * in_tile + i) * 0x9e3779b1u;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    return {unsigned(size_t(h) * n >> 32), unsigned(size_t((h ^ h >> 13) * 0xc2b2ae35u) * n >> 32)};
  }
  Texel in{};
  if (w == row) in = {i, 0};                       // a warp: 32 of a row, then on along it
  if (w == column) in = {0, i};                    // 32 of a column, then on down it
  if (w == column_aside) in = {step, tid};         // 32 of a column, then the next column
  if (w == stencil) in = {lane, step * 4 + warp};  // 32 of a row, then the fourth row below
  if (w == patch || w == bilinear)                 // 8 x 4, a block 32 x 4; twice beside, then below
    in = {(step % 2 * 4 + warp) * 8 + lane % 8, step / 2 * 4 + lane / 8};
  const Texel shape = tile_shape(w);
  return {tile % parts(n, shape.x) * shape.x + in.x, tile / parts(n, shape.x) * shape.y + in.y};
}

__host__ __device__ inline int clamped(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/// The image: a whole number from 1 to 16 without pattern, so that sums of so few are exact in any order.
__host__ __device__ inline float value(unsigned x, unsigned y) {
  unsigned h = x * 0x9e3779b1u ^ y * 0x85ebca6bu;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  return float(1 + (h >> 28));
}
__host__ __device__ inline float between(float a, float b, float t) { return a + t * (b - a); }
/// How far beyond its texel an interpolated read lies: quarters, which the texture unit's weights hold exactly.
__host__ __device__ inline float beyond_texel(unsigned i) { return 0.25f * float(i % 4); }

/// What the kernel's threads add up, from the formula, on the host's cores.
template <Walk w>
std::vector<float> expected(unsigned n) {
  std::vector<float> out(size_t(tiles_of(w, n)) * threads);
  const auto v = [n](int x, int y) { return value(clamped(x, n), clamped(y, n)); };
  const auto read = [&](int x, int y, float right, float down) {
    if (w == bilinear)
      return between(between(v(x, y), v(x + 1, y), right), between(v(x, y + 1), v(x + 1, y + 1), right), down);
    float sum = 0;
    for (int k = w == stencil ? 0 : 4, last = 8 - k; k <= last; ++k) sum += v(x + k % 3 - 1, y + k / 3 - 1);
    return sum;
  };
  const auto share = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      for (unsigned step = 0; step < steps; ++step)
        if (const Texel p = place(w, n, unsigned(i / threads), unsigned(i % threads), step); p.x < n && p.y < n)
          out[i] += read(int(p.x), int(p.y), beyond_texel(p.x), beyond_texel(p.y));
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  on_threads(cores, [&](size_t c) { share(out.size() * c / cores, out.size() * (c + 1) / cores); });
  return out;
}

/// What a walk asks of the memory: requests, and the 32-byte sectors that these touch.
struct Asked {
  size_t requests = 0, sectors = 0;
  double each() const { return double(sectors) / double(requests); }  ///< sectors a request
};
/// Of `tiles` tiles from `first` on, outside of the image at its edge, as the kernel has it. In rows a sector holds
/// 8 x 1 texels; in an array 4 x 2. A load's request is that of 32 lanes; the texture unit takes 4 lanes at a time, and
/// of the four texels of a filtered fetch only those whose weight is not 0. (That it does so, and the array's order,
/// is what explains the counts of an H200; CUDA documents neither.)
inline Asked asked(Walk w, unsigned n, unsigned first, unsigned tiles, bool in_array, bool fetched) {
  const int least = w == stencil ? -1 : 0, most = w == stencil || w == bilinear ? 1 : 0;
  const bool filtered = fetched && w == bilinear;
  const unsigned lanes = fetched ? 4 : 32;
  Asked all;
  std::vector<size_t> wanted;
  for (size_t i = size_t(first) * in_tile; i < size_t(first + tiles) * in_tile; i += lanes)
    for (int dy = least; dy <= most; ++dy)
      for (int dx = least; dx <= most; ++dx) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
          const unsigned in_block = unsigned(i % in_tile) + lane;
          const Texel p = place(w, n, unsigned(i / in_tile), in_block % threads, in_block / threads);
          if (filtered && ((dx && beyond_texel(p.x) == 0) || (dy && beyond_texel(p.y) == 0))) continue;
          const size_t x = clamped(int(p.x) + dx, int(n)), y = clamped(int(p.y) + dy, int(n));
          wanted.push_back(in_array ? y / 2 * n + x / 4 : y * n + x / 8);
        }
        if (filtered && (dx < most || dy < most)) continue;  // one request for all of them
        std::sort(wanted.begin(), wanted.end());
        all.sectors += size_t(std::unique(wanted.begin(), wanted.end()) - wanted.begin());
        ++all.requests;
        wanted.clear();
      }
  return all;
}
/// Sectors that the 32 lanes of a warp ask for in one read inside of an image: loads from rows, or fetches from an
/// array.
inline double sectors(Walk w, bool in_array) {
  return asked(w, 8192, tiles_of(w, 8192) / 2 + 1, 1, in_array, in_array).each() * (in_array ? 8 : 1);
}
