// texture_unit: what does the texture unit gain where it computes? A texture can beat the read-only
// path where it interpolates, where it makes fractions of bytes (normalisation), and where it finds
// texels in 2D and 3D, say the lectures [PR]. For 2D see `locality`.
//
// Look at the interpolation: one fetch does the work of four loads and of mixing what they bring.
// Then look at the bytes. To make fractions of them costs a few instructions behind each load.
// These show only where the L2 holds the image.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o texture_unit texture_unit.cu ../common/*.cpp
//
//   1  read_and_compute  a thread adds up what it makes of its reads at eight places
//      (the walks stand in walks.cuh)
#include <cmath>

#include "../common/sample.hpp"
#include "walks.cuh"

namespace {

// ---- kinds of read: by the texture unit, and by loads (walks.cuh) ----

// A colour's four channels of 8 bits become fractions of 255: of a fetch in the texture unit.
struct FetchColour {
  cudaTextureObject_t image;
  __device__ float4 operator()(Texel p) const {
    return tex2D<float4>(image, p.x + 0.5f, p.y + 0.5f);
  }
};

struct FetchVolume {
  cudaTextureObject_t volume;
  __device__ float operator()(Texel p) const {
    return tex3D<float>(volume, p.x + 0.5f, p.y + 0.5f, p.z + 0.5f);
  }
};

/// How far beyond a texel's centre an interpolated place lies: quarters, which the texture unit's
/// weights, of 8 bits, hold exactly.
__host__ __device__ unsigned quarters(unsigned i) { return i % 4; }

// One fetch of a texture with a linear filter: the texture unit finds four texels, and mixes them.
struct FetchBetween {
  cudaTextureObject_t image;
  __device__ float operator()(Texel p) const {
    return tex2D<float>(image, p.x + 0.5f + 0.25f * quarters(p.x),
                        p.y + 0.5f + 0.25f * quarters(p.y));
  }
};

struct Corners {
  float a, b, c, d;
};
// Four loads; the edge's texels go on outside.
struct LoadBetween {
  Load<float, true> load;
  __device__ Corners operator()(Texel p) const {
    const unsigned right = min(p.x + 1, load.n - 1), below = min(p.y + 1, load.n - 1);
    return {load(p), load({right, p.y, 0}), load({p.x, below, 0}), load({right, below, 0})};
  }
};

// What is made of a read.
__device__ float value(float texel, Texel) { return texel; }
__device__ float value(float4 c, Texel) { return c.x + 2 * c.y + 4 * c.z + 8 * c.w; }
__device__ float value(uchar4 c, Texel p) {
  constexpr float f = 1 / 255.0f;
  return value(float4{c.x * f, c.y * f, c.z * f, c.w * f}, p);
}
__device__ float value(const Corners& t, Texel p) {
  const float across = 0.25f * quarters(p.x), down = 0.25f * quarters(p.y);
  const float upper = t.a + across * (t.b - t.a), lower = t.c + across * (t.d - t.c);
  return upper + down * (lower - upper);
}

// All reads are in flight before the first addition. Where a tile hangs over the image, the edge is
// read and not added: so no read waits for a condition.
template <int w, class Read>
__global__ void read_and_compute(float* out, Read read, unsigned n) {
  constexpr Walk walk = walks[w];
  const Texel first = walk.first(blockIdx.x, blockIdx.y, blockIdx.z);
  decltype(read(first)) texel[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k);
    texel[k] = read({min(p.x, n - 1), min(p.y, n - 1), min(p.z, n - 1)});
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k);
    if (p.x < n && p.y < n && p.z < n) sum += value(texel[k], p);
  }
  const size_t block = (size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * threads + threadIdx.x] = sum;
}

// ---- what is right: sixteen times what a read at p has to give, in whole numbers ----

struct OfColour {
  __host__ __device__ unsigned operator()(Texel p) const { return 16 * (texel_at(p) % 16); }
};
struct Between {
  unsigned n;
  __host__ __device__ unsigned operator()(Texel p) const {
    const unsigned across = quarters(p.x), down = quarters(p.y);
    const unsigned x = p.x + 1 < n ? p.x + 1 : p.x, y = p.y + 1 < n ? p.y + 1 : p.y;
    return (4 - across) * (4 - down) * texel_at(p) + across * (4 - down) * texel_at({x, p.y, 0}) +
           (4 - across) * down * texel_at({p.x, y, 0}) + across * down * texel_at({x, y, 0});
  }
};

// ---- images, and all that reads them ----

cudaTextureDesc linear() { return texture_desc(cudaAddressModeClamp, cudaFilterModeLinear); }
cudaTextureDesc fractions() {
  return texture_desc(cudaAddressModeClamp, cudaFilterModePoint, false,
                      cudaReadModeNormalizedFloat);
}

/// An image in rows, and its two textures.
template <class T>
struct Plane {
  Image<T> image;
  Texture array, pitched;
  Plane(unsigned n, const cudaTextureDesc& desc)
      : image(n), array(image.array_texture(desc)), pitched(image.pitched_texture(desc)) {}
};

struct Work {
  unsigned n, n_in_l2, n_of_volume;
  Plane<float> between{n, linear()};
  Plane<uchar4> colours{n, fractions()}, colours_in_l2{n_in_l2, fractions()};
  Image<float> volume{n_of_volume, true};
  Texture volume_array = volume.array_texture(texture_desc());
  GuardedBuffer<float> out{most_threads(std::max(n, n_in_l2), n_of_volume)};
};

/// A row of the table: a walk by __ldg, through an array, and through rows where a texture can.
struct Row {
  std::string name;
  double bytes;  ///< of the texels that are read, each counted once
  std::vector<Benchmark> benchmarks = {};
};

template <int w, class Sixteenths, class... Reads>
Row row_of(const std::string& what, const Work& x, unsigned n, Sixteenths right, Reads... reads) {
  Row row{what + walks[w].name, walks[w].bytes_read(n)};
  const Check check = adds_up<w>(x.out, n, right);
  const auto add = [&](auto read) {
    const char* const hows[] = {", __ldg", ", array", ", pitched"};
    const auto work = [&x, read, n] {
      read_and_compute<w><<<walks[w].blocks(n), threads>>>(x.out, read, n);
    };
    row.benchmarks.push_back({row.name + hows[row.benchmarks.size()], work, check});
  };
  (add(reads), ...);
  return row;
}

template <int w>
Row row_of_colours(const std::string& what, const Work& x, const Plane<uchar4>& colours) {
  return row_of<w>(what, x, colours.image.n, OfColour{}, colours.image.load<true>(),
                   FetchColour{colours.array}, FetchColour{colours.pitched});
}

std::vector<Row> rows_of(const Work& x) {
  const auto loads = x.volume.load<true>();
  const FetchVolume fetches{x.volume_array};
  return {row_of<p8x4>("interpolation, ", x, x.n, Between{x.n},
                       LoadBetween{x.between.image.load<true>()}, FetchBetween{x.between.array},
                       FetchBetween{x.between.pitched}),
          row_of_colours<row>("normalisation, ", x, x.colours),
          row_of_colours<p8x4>("normalisation, ", x, x.colours),
          row_of_colours<row>("normalisation in L2, ", x, x.colours_in_l2),
          row_of_colours<p8x4>("normalisation in L2, ", x, x.colours_in_l2),
          row_of<box>("volume, ", x, x.n_of_volume, OfTexel{}, loads, fetches),
          row_of<depth>("volume, ", x, x.n_of_volume, OfTexel{}, loads, fetches)};
}

/// The rows whose names begin so: how many times as long as by the textures do they take by __ldg?
std::vector<Interval> gains(const Timings& timed, const std::vector<Row>& rows,
                            const std::string& begins) {
  std::vector<Interval> all;
  for (const Row& row : rows)
    if (row.name.rfind(begins, 0) == 0)
      for (size_t i = 1; i < row.benchmarks.size(); ++i)
        all.push_back(ratio(timed[row.benchmarks[0].name], timed[row.benchmarks[i].name]));
  return all;
}

}  // namespace

void texture_unit(Run& run) {
  const double of_l2 = double(run.gpu.l2CacheSize) / sizeof(float);
  // a texel stands in memory six times, and sides are rounded up
  const double texels = double(run.fitting(size_t((run.quick ? 4 : 8) * of_l2), 40));
  const unsigned n = side(std::ceil(std::sqrt(texels)), 2048);
  const unsigned n_in_l2 = std::max(256u, unsigned(std::sqrt(of_l2 / 3)) / 256 * 256);
  const unsigned n_of_volume = side(std::ceil(std::cbrt(std::min(texels, 6 * of_l2))), 32);
  const double volume_bytes = 4.0 * n_of_volume * n_of_volume * n_of_volume;
  const bool beyond = run.beyond_l2(4.0 * n * n) && run.beyond_l2(volume_bytes);
  run.title("images of " + std::to_string(n) + " rows and columns, a volume of " +
            std::to_string(n_of_volume) + " each way; " +
            (beyond ? "beyond the L2" : "partly from the L2"));

  const Work work{n, n_in_l2, n_of_volume};
  const std::vector<Row> rows = rows_of(work);
  std::vector<Benchmark> all;
  for (const Row& row : rows) all.insert(all.end(), row.benchmarks.begin(), row.benchmarks.end());
  const Timings timed = run.timer.interleaved(all);

  Table table("read, GB/s", {"__ldg", "array", "pitched", "array gain"});
  for (const Row& row : rows) {
    const auto gbs = [&](const std::string& how) {
      return timed[row.name + how].gbs_interval(row.bytes);
    };
    const bool has_pitched = row.benchmarks.size() == 3;
    table.row(row.name,
              {gbs(", __ldg"), gbs(", array"), has_pitched ? Cell(gbs(", pitched")) : Cell("-"),
               ratio(timed[row.name + ", __ldg"], timed[row.name + ", array"])});
  }
  run.print(table);
  run.note(
      "array, pitched: textures of a CUDA array, and of the rows that the loads read; a texture");
  run.note("of rows has no third dimension. array gain: over __ldg");
  run.note("in L2: images of " + std::to_string(n_in_l2) + " rows and columns");

  const auto claim = [&](const char* id, const std::string& kind, const std::string& words,
                         const std::string& begins, const std::string& what) {
    run.claim_each(
        {id, "textures can outperform the read-only cache: " + kind, "[PR 3] \"" + words + "\""},
        gains(timed, rows, begins), what, can_be_faster());
  };
  claim("07.6a", "interpolation", "Normalisation/interpolation", "interpolation",
        "time by __ldg / by array, pitched");
  claim("07.6b", "normalisation", "Normalisation/interpolation", "normalisation",
        "time by __ldg / by array, pitched");
  claim("07.6d", "3D loads", "2D and 3D loads", "volume", "time by __ldg / by array");
}
SAMPLE(5, texture_unit, "interpolation, fractions of bytes, 3D: fetches and loads");

TEST_CASE("texture_unit: what is right at a place, by hand") {
  const auto v = [](unsigned x, unsigned y) { return texel_at({x, y, 0}); };
  CHECK(v(3, 4) != v(4, 3));
  CHECK(OfColour{}({3, 4, 0}) == 16 * (v(3, 4) % 16));
  CHECK(Between{9}({4, 8, 0}) == 16 * v(4, 8));  // no quarter beyond
  CHECK(Between{9}({1, 2, 0}) ==
        3 * 2 * v(1, 2) + 1 * 2 * v(2, 2) + 3 * 2 * v(1, 3) + 1 * 2 * v(2, 3));
  CHECK(Between{3}({1, 2, 0}) == 3 * 4 * v(1, 2) + 1 * 4 * v(2, 2));
}

TEST_CASE("texture_unit: every read is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1, 7, 33, 257, 2049}) {
    CAPTURE(n);
    const Work work{n, n, std::min(n, 65u)};
    for (const Row& row : rows_of(work))
      for (const Benchmark& benchmark : row.benchmarks) {
        CAPTURE(benchmark.name);
        CHECK_NOTHROW(require_right(benchmark));
      }
  }
}
