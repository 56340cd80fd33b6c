// locality: which walks through an image does a texture read faster than loads do? Threads of a
// warp that access 2D data through a texture "will achieve the best performance" [LC 1]. Columns
// should be far faster [BW]. A texture can win by 2D reads, the read-only path by reads of 4 bytes
// [PR].
//
// `layout` shows which neighbours come along with a texel. Predict with it how many lines a warp
// touches for a column, a row and a patch, in rows and in a CUDA array. Then compare the textures
// of both: is it the texture unit that helps, or the order of the texels?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o locality locality.cu ../common/*.cpp
//
//   1  read_image  a thread adds up what it reads at eight places, by any walk and any kind of read
//      (the walks stand in walks.cuh)
#include <cmath>

#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "walks.cuh"

namespace {

// A texture's read; a load is in walks.cuh. Texel i reaches from i to i + 1, so its centre is at
// i + 0.5.
struct Fetch {
  cudaTextureObject_t image;
  __device__ float operator()(Texel p) const { return tex2D<float>(image, p.x + 0.5f, p.y + 0.5f); }
};

// All reads are in flight before the first addition. Where a tile hangs over the image, the edge is
// read and not added: so no read waits for a condition.
template <int w, class Read>
__global__ void read_image(float* out, Read read, unsigned n) {
  constexpr Walk walk = walks[w];
  const Texel first = walk.first(blockIdx.x, blockIdx.y, blockIdx.z);
  float texel[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k);
    texel[k] = read({min(p.x, n - 1), min(p.y, n - 1), min(p.z, n - 1)});
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k);
    if (p.x < n && p.y < n && p.z < n) sum += texel[k];
  }
  const size_t block = (size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * threads + threadIdx.x] = sum;
}

// ---- the prediction ----

/// Sectors of a warp's request to rows, on average over a block amid the image.
double sectors_per_request(const Walk& walk, unsigned n, size_t stride) {
  const dim3 blocks = walk.blocks(n);
  const Texel first = walk.first(blocks.x / 2, blocks.y / 2, 0);
  size_t all = 0;
  for (unsigned i = 0; i < block_reads; i += 32)
    all += sectors(sizeof(float), [&](size_t lane) {
      const Texel p = walk.place(first, i % threads + unsigned(lane), i / threads);
      return p.y * stride + p.x;
    });
  return double(all) / (block_reads / 32);
}

// ---- an image, and all that reads it ----

/// An odd number of sectors: then a column's words lie in several banks of L1, and not in one.
size_t odd_stride(unsigned n) { return (parts(n, 8) | 1) * size_t(8); }

struct Work {
  unsigned n;
  Image<float> image{n};
  DeviceBuffer<float> odd_rows = filled_rows<float>(n, 1, odd_stride(n));
  Texture array = image.array_texture(texture_desc());
  Texture pitched = image.pitched_texture(texture_desc());
  GuardedBuffer<float> out{most_threads(n, 1)};
};

/// A walk, by each kind of read.
template <int w>
void add_walk(std::vector<Benchmark>& all, const Work& x) {
  const Check check = adds_up<w>(x.out, x.n, OfTexel{});
  const auto add = [&](const char* how, auto read) {
    const auto work = [&x, read] {
      read_image<w><<<walks[w].blocks(x.n), threads>>>(x.out, read, x.n);
    };
    all.push_back({std::string(walks[w].name) + how, work, check});
  };
  add(", loads", x.image.load<false>());
  add(", odd rows", Load<float, false>{x.odd_rows, odd_stride(x.n), x.n});
  add(", __ldg", x.image.load<true>());
  add(", array", Fetch{x.array});
  add(", pitched", Fetch{x.pitched});
}

std::vector<Benchmark> all_of(const Work& x) {
  std::vector<Benchmark> all;
  add_walk<row>(all, x);
  add_walk<column>(all, x);
  add_walk<columns>(all, x);
  add_walk<p8x4>(all, x);
  add_walk<p4x8>(all, x);
  add_walk<o8x4>(all, x);
  add_walk<o4x8>(all, x);
  return all;
}

// ---- the experiment ----

using Words = std::vector<std::string>;

void judge_all(Run& run, const Timings& timed) {
  // how many times as long do these walks take, read in `slow` ways, as read in `fast` ways?
  const auto ratios = [&timed](const Words& names, const Words& slow, const Words& fast) {
    std::vector<Interval> all;
    for (const std::string& name : names)
      for (const std::string& s : slow)
        for (const std::string& f : fast) all.push_back(ratio(timed[name + s], timed[name + f]));
    return all;
  };
  const Words columns{"column", "columns side by side"};
  const Words planes{"column", "columns side by side", "8 x 4",
                     "4 x 8",  "overlapping 8 x 4",    "overlapping 4 x 8"};
  const Words loads{", loads", ", odd rows"}, textures{", array", ", pitched"};

  run.claim_each({"07.3a", "threads that read 2D data do best through texture memory",
                  "[LC 1] \"will achieve the best performance\""},
                 ratios(planes, loads, {", array"}), "time by loads, odd rows / by array",
                 faster());
  run.claim_each({"07.3b", "columns should be read much faster through textures",
                  "[BW] \"should in principle be much faster\", not tried there"},
                 ratios(columns, loads, textures), "loads, odd rows / array, pitched",
                 much_faster());
  run.claim_each({"07.6c", "textures can outperform the read-only cache: 2D loads",
                  "[PR 3] \"2D and 3D loads\""},
                 ratios(planes, {", __ldg"}, textures), "time by __ldg / by array, pitched",
                 can_be_faster());
  run.claim_each({"07.6e", "the read-only cache can outperform textures: loads of 4 bytes",
                  "[PR 3] \"Loads of 4 byte values\""},
                 ratios({"row", "8 x 4", "4 x 8"}, textures, {", __ldg"}),
                 "time by array, pitched / by __ldg", can_be_faster());
}

}  // namespace

void locality(Run& run) {
  const double of_l2 = double(run.gpu.l2CacheSize) / sizeof(float);
  // a texel stands in memory three times, and the side is rounded up
  const double texels = double(run.fitting(size_t((run.quick ? 4 : 8) * of_l2), 24));
  const unsigned n = side(std::ceil(std::sqrt(texels)), 2048);
  run.title("an image of " + std::to_string(n) + " rows and columns; " +
            (run.beyond_l2(4.0 * n * n) ? "beyond the L2" : "partly from the L2"));

  const Work work{n};
  const Timings timed = run.timer.interleaved(all_of(work));
  Table table("walk, GB/s",
              {"sectors/request", "loads", "odd rows", "__ldg", "array", "pitched", "array gain"});
  Table counted("walk", {"load"});  // for tools/profile.py
  for (const Walk& walk : walks) {
    if (walk.in_volume()) continue;
    const auto gbs = [&](const std::string& how) {
      return timed[walk.name + how].gbs_interval(walk.bytes_read(n));
    };
    const std::string name = walk.name;
    const double sectors = sectors_per_request(walk, n, work.image.stride);
    table.row(name, {sectors, gbs(", loads"), gbs(", odd rows"), gbs(", __ldg"), gbs(", array"),
                     gbs(", pitched"), ratio(timed[name + ", __ldg"], timed[name + ", array"])});
    counted.row(name + ", loads", {sectors});
    counted.row(name + ", __ldg", {sectors});
  }
  run.print(table);
  run.save(counted);
  run.note("array, pitched: textures of a CUDA array, and of the rows that the loads read");
  run.note("sectors/request: of a warp's load from rows, predicted; array gain: over __ldg");
  run.note("odd rows: loads from rows that begin an odd number of sectors apart");
  judge_all(run, timed);
}
SAMPLE(4, locality, "rows, columns, patches: textures against plain loads");

/// How often each texel is read; texels outside are not.
static std::vector<unsigned> times_read(const Walk& walk, unsigned n) {
  std::vector<unsigned> times(size_t(n) * n * (walk.in_volume() ? n : 1));
  const dim3 blocks = walk.blocks(n);
  for (unsigned b = 0; b < blocks.x * blocks.y * blocks.z; ++b)
    for (unsigned i = 0; i < block_reads; ++i) {
      const Texel first =
          walk.first(b % blocks.x, b / blocks.x % blocks.y, b / blocks.x / blocks.y);
      const Texel p = walk.place(first, i % threads, i / threads);
      const bool inside = p.x < n && p.y < n && p.z < (walk.in_volume() ? n : 1);
      if (inside) ++times[(size_t(p.z) * n + p.y) * n + p.x];
    }
  return times;
}

TEST_CASE("locality: every walk reads each texel once, or four times") {
  for (const unsigned n : {1, 7, 33, 65})
    for (const Walk& walk : walks) {
      CAPTURE(std::string(walk.name));
      CAPTURE(n);
      const auto times = times_read(walk, n);
      size_t wrong = 0;
      for (unsigned i = 0; i < times.size(); ++i) {
        // two patches overlap along each side, but at the left and the upper edge there is one
        const bool left = i % n < walk.warp.x / 2, upper = i / n < walk.warp.y / 2;
        wrong += times[i] != (walk.overlap == 1 ? 1u : (left ? 1u : 2u) * (upper ? 1u : 2u));
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("locality: what a warp reads, by hand") {
  const auto at = [](int w, unsigned tid, unsigned k) {
    const Texel p = walks[w].place({100, 200, 300}, tid, k);
    return std::vector<unsigned>{p.x - 100, p.y - 200, p.z - 300};
  };
  using Place = std::vector<unsigned>;
  CHECK(at(row, 33, 2) == Place{2 * 256 + 33, 0, 0});
  CHECK(at(columns, 33, 2) == Place{2, 33, 0});
  CHECK(at(p8x4, 4 * 32 + 9, 1) == Place{1, 8 + 4 + 1, 0});  // warp 4 is the first of those below
  CHECK(at(o8x4, 32, 1) == Place{4, 2, 0});  // half a patch on, and half a patch down
  CHECK(at(box, 7 * 32 + 31, 1) == Place{7, 7, 4 + 3});
  CHECK(at(depth, 33, 2) == Place{1, 2, 1});

  // sectors of 8 words: of rows, and where each second patch begins amid a sector
  const double known[] = {4, 32, 32, 4, 8, (4 + 8) / 2., (3 * 8 + 16) / 4.};
  for (int w = row; w <= o4x8; ++w) CHECK(sectors_per_request(walks[w], 8192, 8192) == known[w]);
  // rows begin at multiples of 512 bytes, or an odd number of sectors of 8 words apart
  CHECK(pitched_stride<float>(8192) == 8192);
  CHECK(pitched_stride<float>(8193) == 8192 + 128);
  CHECK(odd_stride(8192) == 8200);
  CHECK(odd_stride(8200) == 8200);
  CHECK(odd_stride(8201) == 8216);
  CHECK(walks[o4x8].bytes_read(2048) == 4 * 2048. * 2048);
  CHECK(walks[depth].bytes_read(64) == 4 * 64. * 64 * 64);
}

TEST_CASE("locality: every walk by every read is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1, 7, 33, 257, 2049}) {
    CAPTURE(n);
    const Work work{n};
    for (const Benchmark& benchmark : all_of(work)) {
      CAPTURE(benchmark.name);
      CHECK_NOTHROW(require_right(benchmark));
    }
  }
}
