// locality: the wiki says that textures are best where a warp reads what lies close together in two dimensions; the
// 2007 study expected columns to be read far faster through them, and left it open; the lectures name interpolation and
// 2D reads as the texture's, 4-byte reads as the read-only path's. Here an image is read by seven walks, each by plain
// loads, by __ldg, through a texture of an array (whose texels the GPU keeps in its own order) and through a texture of
// the same pitched rows. Look at how many 32-byte sectors a warp wants, and at the texture unit's own rate.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "../common/first_edition.hpp"
#include "options.hpp"
#include "texture.cuh"
#include "walks.hpp"

namespace {

// Loads: the edge and the interpolation are the kernel's work.
template <bool read_only>
struct Loads {
  static constexpr unsigned corners = 4;  // reads that an interpolation takes
  const float* rows;
  size_t stride;
  int n;
  __device__ float texel(int x, int y) const { return read_only ? __ldg(rows + y * stride + x) : rows[y * stride + x]; }
  __device__ float at_edge(int x, int y) const { return texel(clamped(x, n), clamped(y, n)); }
  __device__ float interpolated(int x, int y, float right, float down) const {
    return between(between(at_edge(x, y), at_edge(x + 1, y), right),
                   between(at_edge(x, y + 1), at_edge(x + 1, y + 1), right), down);
  }
};
// Textures: both are the texture unit's.
struct Textured {
  static constexpr unsigned corners = 1;
  cudaTextureObject_t point, linear;
  __device__ float texel(int x, int y) const { return tex2D<float>(point, x + 0.5f, y + 0.5f); }
  __device__ float at_edge(int x, int y) const { return texel(x, y); }
  __device__ float interpolated(int x, int y, float right, float down) const {
    return tex2D<float>(linear, x + 0.5f + right, y + 0.5f + down);
  }
};

template <Walk w, class Path>
__device__ float read(const Path& image, Texel p, unsigned n) {
  if (w == bilinear) return image.interpolated(p.x, p.y, beyond_texel(p.x), beyond_texel(p.y));
  if (w != stencil) return image.texel(min(p.x, n - 1), min(p.y, n - 1));
  float sum = 0;
  for (int k = 0; k < 9; ++k) sum += image.at_edge(int(p.x) + k % 3 - 1, int(p.y) + k / 3 - 1);
  return sum;
}
// Each thread adds up what it reads in its steps. 8 reads are under way at once, in the stencil 9, on every path: to
// that end what lies outside of the image is read from its edge and not added. (Under a condition nvcc 13 lets plain
// loads wait together, but has each __ldg wait for the one before.)
template <Walk w, class Path>
__global__ void walk(float* out, Path image, unsigned n, unsigned tiles) {
  constexpr unsigned at_once = w == stencil ? 1 : w == bilinear ? 8 / Path::corners : 8;
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float sum = 0;
#pragma unroll 1
  for (unsigned first = 0; first < steps; first += at_once) {
    const auto at = [&](unsigned k) { return place(w, n, tile, threadIdx.x, first + k); };
    float word[at_once];
    for (unsigned k = 0; k < at_once; ++k) word[k] = read<w>(image, at(k), n);
    for (unsigned k = 0; k < at_once; ++k) sum += at(k).x < n && at(k).y < n ? word[k] : 0;
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

__global__ void fill(float* rows, size_t stride, unsigned n) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned y = blockIdx.y; y < n && x < n; y += gridDim.y) rows[y * stride + x] = value(x, y);
}

/// N x N texels as pitched rows and as an array, and textures of both.
struct Image {
  unsigned n;
  PitchedBuffer<float> rows{n, n};
  CudaArray array = CudaArray::of<float>({n, n, 0});
  std::vector<Texture> textures;

  explicit Image(unsigned n) : n(n) {
    fill<<<dim3(parts(n, 256), std::min(n, 4096u)), 256>>>(rows.data(), rows.pitch() / sizeof(float), n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaMemcpy2DToArray(array, 0, 0, rows.data(), rows.pitch(), n * sizeof(float), n, cudaMemcpyDefault));
    for (const cudaResourceDesc& resource : {array_resource(array), pitched_resource(rows)})
      for (const auto filter : {cudaFilterModePoint, cudaFilterModeLinear})
        textures.emplace_back(resource, texture_desc(cudaAddressModeClamp, filter));
  }
};

enum PathNumber { plain, read_only, array_texture, pitched_texture, paths };
const char* const path_names[] = {"plain", "read-only", "array texture", "pitched texture"};

template <Walk w>
void launch(int path, const Image& image, float* out, unsigned passes) {
  const unsigned n = image.n, tiles = tiles_of(w, n), blocks = tiles * passes;
  const auto go = [&](auto with) { walk<w><<<blocks, threads>>>(out, with, n, tiles); };
  if (path == plain) go(Loads<false>{image.rows.data(), image.rows.pitch() / sizeof(float), int(n)});
  if (path == read_only) go(Loads<true>{image.rows.data(), image.rows.pitch() / sizeof(float), int(n)});
  if (path == array_texture) go(Textured{image.textures[0], image.textures[1]});
  if (path == pitched_texture) go(Textured{image.textures[2], image.textures[3]});
}
std::vector<float> (*const expected_of[])(unsigned n) = {expected<row>,     expected<column>,  expected<column_aside>,
                                                         expected<patch>,   expected<stencil>, expected<bilinear>,
                                                         expected<anywhere>};
void (*const launch_of[])(int path, const Image& image, float* out, unsigned passes) = {
    launch<row>,     launch<column>,   launch<column_aside>, launch<patch>,
    launch<stencil>, launch<bilinear>, launch<anywhere>};

bool right(int w, int path, const Image& image, unsigned passes, const std::vector<float>& expected) {
  DeviceBuffer<float> out(expected.size());
  out.poison();
  launch_of[w](path, image, out.data(), passes);
  CUDA_CHECK_LAUNCH();
  return out.to_host() == expected;
}

using Times = std::array<std::array<Statistics, paths>, walks>;

/// Checks and times every walk on every path; prints GB/s, in which each texel counts once a pass.
Times measure(const Run& run, const std::string& where, unsigned n, unsigned passes) {
  const Image image(n);
  Measuring measuring = run.measuring;
  if (!measuring.typed) measuring.budget_ms = run.quick ? 5 : 20;
  std::vector<Column> columns;
  for (const char* path : path_names) columns.push_back(measured(path, path, "GB/s", 0));
  for (const char* what : {"spread", "array to plain"}) columns.push_back(shown(what));
  Table table(run.report, bytes_text(4.0 * n * n) + ", GB/s", columns);
  Times ms;
  for (int w = 0; w < walks; ++w) {
    const std::vector<float> sums = expected_of[w](n);
    DeviceBuffer<float> out(sums.size());
    std::vector<Cell> cells;
    double spread = 0;
    for (int path = 0; path < paths; ++path) {
      require_right(right(w, path, image, passes, sums), std::string(walk_names[w]) + ", " + path_names[path]);
      ms[w][path] = time_device(measuring, [&] { launch_of[w](path, image, out.data(), passes); });
      CUDA_CHECK_LAUNCH();
      cells.emplace_back(gigabytes_per_second(4.0 * n * n * passes, ms[w][path]));
      spread = std::max(spread, ms[w][path].spread());
    }
    cells.emplace_back(fixed(100 * spread, 1) + "%");
    cells.emplace_back(times(ms[w][plain].median / ms[w][array_texture].median));
    table.row({where, "walk", walk_names[w]}, cells);
  }
  table.print();
  return ms;
}

/// Every walk on every path, over images at whose edge no tile hangs over.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (int w = 0; w < walks; ++w)
    for (int path = 0; path < paths; ++path) {
      const unsigned n = w == row || w == column ? in_tile : 512;
      const bool in_array = path == array_texture, fetched = in_array || path == pitched_texture;
      const double each = asked(Walk(w), n, 0, tiles_of(Walk(w), n), in_array, fetched).each();
      all.push_back({"walk", std::string(walk_names[w]) + "; " + path_names[path], fetched ? 0 : each, 4,
                     [=] { return right(w, path, Image(n), 1, expected_of[w](n)); }});
      if (fetched)
        all.back().expected.push_back({"tex sectors/request", "l1tex__t_sectors_pipe_tex_mem_texture.sum", each,
                                       "l1tex__t_requests_pipe_tex_mem_texture.sum"});
    }
  return all;
}

// Which walks count was fixed before measuring: the wiki's is the patch, the study's the column.
const Claim local_claim{"07.3", "textures are best for 2D-local walks, and read columns far faster", "wiki, 2007 study",
                        "an open question"};
constexpr double far_faster = 2;  // the study says "far" without a figure: less than twice is not
const Claim kind_claim{"07.6", "textures win for interpolation and 2D reads, the read-only path for 4-byte reads",
                       "lectures", "no figure"};

Judgement judge_local(const Times& ms) {
  const Judgement local = judge_ratio(ms[patch][plain], ms[patch][array_texture]);
  Judgement judged = judge_ratio(ms[column][plain], ms[column][array_texture]);
  if (judged.verdict == Verdict::holds && judged.value < far_faster) judged.verdict = Verdict::holds_by_less;
  if (local.verdict != Verdict::holds) judged.verdict = Verdict::does_not_hold;
  judged.here = "patches " + times(local.value) + " the rate of plain loads, columns " + times(judged.value);
  return judged;
}
Judgement judge_kinds(const Times& ms) {  // all three must hold, for the faster of the two textures
  const auto texture = [&](Walk w) {
    return std::min(ms[w][array_texture], ms[w][pitched_texture], [](auto& a, auto& b) { return a.median < b.median; });
  };
  const Judgement mixed = judge_ratio(ms[bilinear][read_only], texture(bilinear));
  const Judgement local = judge_ratio(ms[patch][read_only], texture(patch));
  Judgement judged = judge_ratio(texture(row), ms[row][read_only]);  // of 4-byte reads; what the verdict rests on
  judged.here = "textures interpolate " + times(mixed.value) + ", read patches " + times(local.value) +
                " as fast as the read-only path; that reads rows " + times(judged.value) + " as fast as they";
  for (const Judgement& j : {mixed, local})
    if (j.verdict != Verdict::holds) judged.verdict = Verdict::does_not_hold;
  return judged;
}

double bytes_needed(unsigned n) {  // image, array, and two outputs, of which the row's tiles make the largest
  return 2.0 * 4 * n * (parts(n, 128) * 128.0) + 2.0 * 4 * threads * (tiles_of(row, n) + 1.0);
}
// Of a square of floats, the next that is a multiple of `step`.
unsigned side_of(double bytes, unsigned step) { return unsigned(std::ceil(std::sqrt(bytes / 4) / step)) * step; }

}  // namespace

void locality(const Run& run, const Options& options) {
  const double l2 = run.device ? double(run.device->l2_bytes()) : 0;
  unsigned n = options.size ? unsigned(options.size) : side_of((run.quick ? 4 : 8) * l2, in_tile);
  if (run.device) {
    const cudaDeviceProp& p = run.device->prop;
    const int most = std::min({p.maxTexture2D[0], p.maxTexture2D[1], p.maxTexture2DLinear[0], p.maxTexture2DLinear[1]});
    const double there = double(Device::free_bytes());
    const std::string typed = "--size " + std::to_string(n);
    if (options.size > size_t(most))
      throw UsageError(typed + ": a texture has at most " + std::to_string(most) + " rows and columns here");
    if (options.size) require_fits(typed, bytes_needed(n), there);
    while (!options.size && (n > unsigned(most) || bytes_needed(n) > 0.9 * there)) n /= 2;
  }
  run.report.begin("locality", n ? std::to_string(n) + " x " + std::to_string(n) + " float, " + bytes_text(4.0 * n * n)
                                 : "an image of floats, by seven walks");
  Table table(run.report, "32-byte sectors of a warp's read",
              {predicted("loads from rows", "sectors in rows", "", 1),
               predicted("fetches from an array", "sectors in an array", "", 1)});
  for (int w = 0; w < walks; ++w) table.row({walk_names[w]}, {sectors(Walk(w), false), sectors(Walk(w), true)});
  table.print();
  run.report.note(
      "a sector holds 8 x 1 texels of pitched rows, 4 x 2 of an array: half the sectors by columns; a load takes the "
      "32 "
      "lanes at once, a fetch 4 at a time, so that lanes share less");
  if (!run.device) return run.report.left_out("the walks on a GPU", {local_claim, kind_claim});

  const int units = run.device->prop.major >= 7 ? 4 : 8;  // of a multiprocessor; before Volta most have 8
  if (run.device->sm_clock_khz)
    run.report.note("a multiprocessor's " + std::to_string(units) + " texture units answer as many fetches a cycle: " +
                    fixed(4e-6 * units * run.device->prop.multiProcessorCount * run.device->sm_clock_khz, 0) +
                    " GB/s of texels at most, in the stencil a ninth of it; a load answers 32 lanes");
  const bool beyond = 4.0 * n * n >= 4 * l2;
  const Times ms = measure(run, beyond ? "beyond the L2" : "not beyond the L2", n, 1);
  if (!options.size) {  // a quarter of the L2, so often that the launch's own time is small beside it
    const unsigned inside = side_of(l2 / 4, 256);
    measure(run, "within the L2", inside, unsigned((run.quick ? 128e6 : 512e6) / (4.0 * inside * inside)) + 1);
  }
  const Judgement small = not_judged("the image is not several times the L2");
  run.report.claim(local_claim, beyond ? judge_local(ms) : small);
  run.report.claim(kind_claim, beyond ? judge_kinds(ms) : small);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("locality: a walk reads every texel once") {
  for (int w = 0; w < walks; ++w)
    for (unsigned n : {1u, 31u, 257u, 600u}) {
      CAPTURE(walk_names[w]);
      CAPTURE(n);
      std::vector<unsigned> reads(n * n);
      for (unsigned i = 0; i < tiles_of(Walk(w), n) * in_tile; ++i)
        if (const Texel p = place(Walk(w), n, i / in_tile, i % threads, i % in_tile / threads); p.x < n && p.y < n)
          ++reads[p.y * n + p.x];
      CHECK(std::accumulate(reads.begin(), reads.end(), 0u) == n * n);
      if (w != anywhere) CHECK(std::count(reads.begin(), reads.end(), 1u) == long(n * n));
    }
}

TEST_CASE("locality: predicted sectors") {
  const double rows[] = {4, 32, 32, 4, 14.0 / 3, 6, 32}, array[] = {8, 16, 16, 8, 40.0 / 3, 24, 32};
  for (int w = 0; w < walks; ++w) {
    CAPTURE(walk_names[w]);
    const double tolerance = w == anywhere ? 0.1 : 1e-9;  // two lanes may meet in a sector
    CHECK(std::abs(sectors(Walk(w), false) - rows[w]) < tolerance);
    CHECK(std::abs(sectors(Walk(w), true) - array[w]) < tolerance);
  }
}

TEST_CASE("locality: each pass takes every tile once and by other blocks") {
  for (unsigned tiles : {1u, 2u, 31u, 1009u, 2048u, 3000u}) {
    std::vector<unsigned> taken(tiles);
    for (unsigned block = 0; block < 5 * tiles; ++block) CHECK(taken[tile_of(block, tiles)]++ == block / tiles);
  }
  CHECK(tile_of(7, 2048) != tile_of(7 + 2048, 2048));
}

TEST_CASE("locality: every walk is right on every path") {
  if (skip_without_gpu()) return;
  for (unsigned n : {1u, 31u, 257u, 1000u}) {
    const Image image(n);
    for (int w = 0; w < walks; ++w)
      for (int path = 0; path < paths; ++path)
        CHECK_MESSAGE(right(w, path, image, 1 + n % 3, expected_of[w](n)), walk_names[w], ", ", path_names[path]);
  }
}

TEST_CASE("locality: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("locality: counted sectors equal the model") { compare_with_counters(counted_launches()); }
