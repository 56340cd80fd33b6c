// locality: which walks through an image does a texture read faster than loads do? Threads of a warp
// that access 2D data through a texture "will achieve the best performance" [LC 1]. Columns should
// be far faster [BW]. A texture can win by interpolation, normalisation, 2D and 3D reads, and the
// read-only path by reads of 4 bytes [PR].
//
// Look at the columns. A CUDA array keeps neighbours of all directions near each other, and a
// texture of it reads columns fast. A texture of plain rows reads a column as slowly as loads do: so
// the order of the texels helps, and not the texture unit. Then look at the row and the patches.
//
//   build/release/07_texture_readonly/07_texture_readonly locality
//
//   1  read_image  a thread adds up what it reads at eight places, by any walk and any kind of read
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../common/arrays.cuh"
#include "../common/run.hpp"
#include "../common/sectors.hpp"
#include "texture.cuh"

namespace {

constexpr unsigned threads = 256;  // of a block: eight warps
constexpr unsigned steps = 8;      // reads of a thread, all in flight at once
constexpr unsigned block_reads = threads * steps;

struct Texel {
  unsigned x, y, z;
};

/// How many parts of `size` cover n.
__host__ __device__ constexpr unsigned parts(unsigned n, unsigned size) {
  return n / size + (n % size != 0);
}

// ---- walks: which texel does a thread read, and when? ----

struct Walk {
  const char* name;
  Texel warp;             ///< the shape of what a warp reads together, lane by lane along x
  Texel warps;            ///< a block's eight warps: side by side, below, behind
  Texel step;             ///< from a thread's read to its next
  unsigned overlap = 1;   ///< 2: a patch begins half a patch after the last, to the right and down
  bool anywhere = false;  ///< no order at all

  /// Texels by which one block's begin after another's.
  __host__ __device__ constexpr Texel tile() const {
    if (anywhere) return {128, 128, 1};  // an eighth as many reads as texels
    return {step.x ? steps * step.x : warps.x * warp.x / overlap,
            step.y ? steps * step.y : warps.y * warp.y / overlap,
            step.z ? steps * step.z : warps.z * warp.z};
  }
  __host__ __device__ Texel first(unsigned x, unsigned y, unsigned z) const {
    return {x * tile().x, y * tile().y, z * tile().z};
  }
  __host__ __device__ Texel place(Texel first, unsigned tid, unsigned k, unsigned n) const {
    if (anywhere) return random_place(first, tid, k, n);
    const unsigned lane = tid % 32, w = tid / 32;
    return {
        first.x + k * step.x + w % warps.x * (warp.x / overlap) + lane % warp.x,
        first.y + k * step.y + w / warps.x % warps.y * (warp.y / overlap) + lane / warp.x % warp.y,
        first.z + k * step.z + w / warps.x / warps.y * warp.z + lane / warp.x / warp.y};
  }
  __host__ __device__ Texel random_place(Texel first, unsigned tid, unsigned k, unsigned n) const {
    const unsigned block = first.y / tile().y * parts(n, tile().x) + first.x / tile().x;
    const unsigned i = block * block_reads + k * threads + tid, x = hash(i), y = hash(x);
    return {unsigned(size_t(x) * n >> 32), unsigned(size_t(y) * n >> 32), 0};
  }
  bool in_volume() const { return warp.z > 1; }
  dim3 blocks(unsigned n) const {
    return {parts(n, tile().x), parts(n, tile().y), in_volume() ? parts(n, tile().z) : 1};
  }
  size_t all_threads(unsigned n) const {
    return size_t(blocks(n).x) * blocks(n).y * blocks(n).z * threads;
  }
};

enum { row, column, columns, p8x4, p4x8, p16x2, o8x4, o4x8, o16x2, scattered, box, depth };
constexpr Walk walks[] = {
    {"row", {32, 1, 1}, {8, 1, 1}, {256, 0, 0}},
    {"column", {1, 32, 1}, {1, 8, 1}, {0, 256, 0}},
    // the next read wants the texel beside it: the same sectors of the rows
    {"columns side by side", {1, 32, 1}, {1, 8, 1}, {1, 0, 0}},
    {"8 x 4", {8, 4, 1}, {4, 2, 1}, {0, 8, 0}},
    {"4 x 8", {4, 8, 1}, {8, 1, 1}, {0, 8, 0}},
    {"16 x 2", {16, 2, 1}, {2, 4, 1}, {0, 8, 0}},
    // each texel is read four times, at the image's left and upper edge less often
    {"overlapping 8 x 4", {8, 4, 1}, {8, 1, 1}, {0, 2, 0}, 2},
    {"overlapping 4 x 8", {4, 8, 1}, {8, 1, 1}, {0, 4, 0}, 2},
    {"overlapping 16 x 2", {16, 2, 1}, {8, 1, 1}, {0, 1, 0}, 2},
    {"random", {}, {}, {}, 1, true},
    {"4 x 4 x 2", {4, 4, 2}, {2, 2, 2}, {0, 0, 4}},
    {"by depth", {1, 1, 32}, {8, 1, 1}, {0, 1, 0}},
};

// ---- kinds of read ----

/// From rows `stride` texels apart. A volume's planes are n rows apart.
template <class T, bool read_only>
struct Load {
  const T* texels;
  size_t stride;
  unsigned n;
  __device__ T operator()(Texel p) const {
    const T* const texel = &texels[(size_t(p.z) * n + p.y) * stride + p.x];
    return read_only ? __ldg(texel) : *texel;
  }
};

// Texel i reaches from i to i + 1, so its centre is at i + 0.5.
template <class T>
struct Fetch {
  cudaTextureObject_t image;
  __device__ T operator()(Texel p) const { return tex2D<T>(image, p.x + 0.5f, p.y + 0.5f); }
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

// What is made of a read. A colour's four channels of 8 bits become fractions of 255: of a load
// here, of a fetch in the texture unit.
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
__global__ void read_image(float* out, Read read, unsigned n) {
  constexpr Walk walk = walks[w];
  const Texel first = walk.first(blockIdx.x, blockIdx.y, blockIdx.z);
  decltype(read(first)) texel[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k, n);
    texel[k] = read({min(p.x, n - 1), min(p.y, n - 1), min(p.z, n - 1)});
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk.place(first, threadIdx.x, k, n);
    if (p.x < n && p.y < n && p.z < n) sum += value(texel[k], p);
  }
  const size_t block = (size_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * threads + threadIdx.x] = sum;
}

// ---- what is right ----

/// Texel p of every image: a whole number from 1 to 256 without pattern.
__host__ __device__ unsigned texel_at(Texel p) {
  return 1 + (hash(p.x + (size_t(p.y) << 20) + (size_t(p.z) << 40)) >> 24);
}
__device__ void set(float& texel, unsigned v) { texel = float(v); }
/// A colour's channels are 0 or 255, by the lowest four bits.
__device__ void set(uchar4& texel, unsigned v) {
  const auto channel = [v](unsigned bit) { return (unsigned char)(v >> bit & 1 ? 255 : 0); };
  texel = {channel(0), channel(1), channel(2), channel(3)};
}

enum class Kind { texel, between, colour };

/// Sixteen times what a read at p has to give, in whole numbers.
__host__ __device__ unsigned sixteenths(Kind kind, Texel p, unsigned n) {
  if (kind == Kind::texel) return 16 * texel_at(p);
  if (kind == Kind::colour) return 16 * (texel_at(p) % 16);
  const unsigned across = quarters(p.x), down = quarters(p.y);
  const unsigned x = p.x + 1 < n ? p.x + 1 : p.x, y = p.y + 1 < n ? p.y + 1 : p.y;
  return (4 - across) * (4 - down) * texel_at(p) + across * (4 - down) * texel_at({x, p.y, 0}) +
         (4 - across) * down * texel_at({p.x, y, 0}) + across * down * texel_at({x, y, 0});
}

/// Every thread's sum is right, and behind the last thread's the poison still stands.
template <int w>
Check adds_up(const GuardedBuffer<float>& out, Kind kind, unsigned n) {
  const unsigned across = walks[w].blocks(n).x, down = walks[w].blocks(n).y;
  const size_t all = walks[w].all_threads(n);
  const auto bits = [kind, n, across, down, all] __device__(size_t i) {
    constexpr Walk walk = walks[w];
    if (i >= all) return ~0u;
    const unsigned block = unsigned(i / threads);
    const Texel first = walk.first(block % across, block / across % down, block / across / down);
    unsigned sum = 0;
    for (unsigned k = 0; k < steps; ++k) {
      const Texel p = walk.place(first, unsigned(i % threads), k, n);
      if (p.x < n && p.y < n && p.z < n) sum += sixteenths(kind, p, n);
    }
    return __float_as_uint(float(sum) / 16);
  };
  const auto find_error = [&out, bits] {
    const auto* found = reinterpret_cast<const unsigned*>(out.data());
    const std::string error = find_mismatch(found, out.size(), bits);
    return error.empty() ? guard_error(out) : error;
  };
  return {[&out] { out.poison(); }, find_error};
}

// ---- images: rows in plain memory, and the same texels in a CUDA array ----

template <class T>
DeviceBuffer<T> filled_rows(unsigned n, unsigned planes, size_t stride) {
  return filled<T>((size_t(n) * planes - 1) * stride + n, [n, stride] __device__(size_t i) {
    const size_t row = i / stride;
    T texel;
    set(texel, texel_at({unsigned(i % stride), unsigned(row % n), unsigned(row / n)}));
    return texel;
  });
}

/// An odd number of sectors: then a column's words lie in several banks of L1, and not in one.
size_t odd_stride(unsigned n) { return (parts(n, 8) | 1) * size_t(8); }

/// n x n texels, or n x n x n.
template <class T>
struct Image {
  unsigned n, depth;
  size_t stride;  ///< whole pieces of 512 bytes, as cudaMallocPitch would have it
  DeviceBuffer<T> texels;
  CudaArray array;

  explicit Image(unsigned n, bool is_volume = false)
      : n(n),
        depth(is_volume ? n : 0),
        stride(is_volume ? n : parts(n, 128) * size_t(128)),
        texels(filled_rows<T>(n, is_volume ? n : 1, stride)),
        array(CudaArray::of<T>({n, n, depth})) {
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(texels.data(), stride * sizeof(T), n, n);
    copy.dstArray = array;
    copy.extent = {n, n, is_volume ? n : 1};
    copy.kind = cudaMemcpyDeviceToDevice;
    CUDA_CHECK(cudaMemcpy3D(&copy));
  }
  template <bool read_only>
  Load<T, read_only> load() const {
    return {texels, stride, n};
  }
  Texture array_texture(const cudaTextureDesc& desc) const {
    return Texture(array_resource(array), desc);
  }
  Texture pitched_texture(const cudaTextureDesc& desc) const {
    const auto format = cudaCreateChannelDesc<T>();
    return Texture(pitched_resource(texels, format, n, n, stride * sizeof(T)), desc);
  }
};

cudaTextureDesc linear() { return texture_desc(cudaAddressModeClamp, cudaFilterModeLinear); }
cudaTextureDesc fractions() {
  return texture_desc(cudaAddressModeClamp, cudaFilterModePoint, false,
                      cudaReadModeNormalizedFloat);
}

/// Room for all threads' sums of any walk.
size_t most_threads(unsigned n, unsigned n_of_volume) {
  size_t most = 0;
  for (const Walk& walk : walks)
    most = std::max(most, walk.all_threads(walk.in_volume() ? n_of_volume : n));
  return most;
}

// ---- the rows of the table: a row's benchmarks have its name, and say behind it how they read ----

struct Row {
  std::string name;
  double bytes;    ///< of the texels that are read, each counted once
  double sectors;  ///< of a load's request
  std::vector<std::string> hows;
};

/// Sectors of a warp's request to rows, on average over a block amid the image.
double sectors_per_request(const Walk& walk, unsigned n, size_t stride) {
  const dim3 blocks = walk.blocks(n);
  const Texel first = walk.first(blocks.x / 2, blocks.y / 2, blocks.z / 2);
  size_t all = 0;
  for (unsigned i = 0; i < block_reads; i += 32)
    all += sectors(sizeof(float), [&](size_t lane) {
      const Texel p = walk.place(first, i % threads + unsigned(lane), i / threads, n);
      return (size_t(p.z) * n + p.y) * stride + p.x;
    });
  return double(all) / (block_reads / 32);
}

double bytes_read(const Walk& walk, unsigned n) {
  const Texel tile = walk.tile();
  const unsigned texels_of_a_block = std::min(tile.x * tile.y * tile.z, block_reads);
  return 4.0 * double(walk.all_threads(n) / threads * texels_of_a_block);
}

template <class Read>
struct How {
  const char* name;
  Read read;
};

/// Images, and all that reads them.
struct Work {
  Image<float> image, volume;
  Image<uchar4> colours{image.n}, colours_in_l2;
  DeviceBuffer<float> odd_rows = filled_rows<float>(image.n, 1, odd_stride(image.n));
  Texture array = image.array_texture(texture_desc());
  Texture pitched = image.pitched_texture(texture_desc());
  Texture array_linear = image.array_texture(linear());
  Texture pitched_linear = image.pitched_texture(linear());
  Texture array_colours = colours.array_texture(fractions());
  Texture pitched_colours = colours.pitched_texture(fractions());
  Texture array_in_l2 = colours_in_l2.array_texture(fractions());
  Texture pitched_in_l2 = colours_in_l2.pitched_texture(fractions());
  Texture array_volume = volume.array_texture(texture_desc());
  GuardedBuffer<float> out{most_threads(image.n, volume.n)};
  std::vector<Benchmark> benchmarks;
  std::vector<Row> rows;

  Work(unsigned n, unsigned n_in_l2, unsigned n_of_volume)
      : image(n), volume(n_of_volume, true), colours_in_l2(n_in_l2) {
    add_walks<row, column, columns, p8x4, p4x8, p16x2, o8x4, o4x8, o16x2, scattered>();
    add<p8x4>("interpolation, ", Kind::between, n, How{", __ldg", LoadBetween{image.load<true>()}},
              How{", array", FetchBetween{array_linear}},
              How{", pitched", FetchBetween{pitched_linear}});
    add_colours<row, p8x4>("normalisation, ", colours, array_colours, pitched_colours);
    add_colours<row, p8x4>("normalisation in L2, ", colours_in_l2, array_in_l2, pitched_in_l2);
    add_volumes<box, depth>();
  }
  Work(const Work&) = delete;

  template <int... w>
  void add_walks() {
    const Load<float, false> odd{odd_rows, odd_stride(image.n), image.n};
    (add<w>("", Kind::texel, image.n, How{"", image.load<false>()}, How{", odd rows", odd},
            How{", __ldg", image.load<true>()}, How{", array", Fetch<float>{array}},
            How{", pitched", Fetch<float>{pitched}}),
     ...);
  }
  template <int... w>
  void add_colours(const char* what, const Image<uchar4>& of, const Texture& array,
                   const Texture& pitched) {
    (add<w>(what, Kind::colour, of.n, How{", __ldg", of.load<true>()},
            How{", array", Fetch<float4>{array}}, How{", pitched", Fetch<float4>{pitched}}),
     ...);
  }
  template <int... w>
  void add_volumes() {
    (add<w>("volume, ", Kind::texel, volume.n, How{", __ldg", volume.load<true>()},
            How{", array", FetchVolume{array_volume}}),
     ...);
  }

  /// A row.
  template <int w, class... Reads>
  void add(const std::string& what, Kind kind, unsigned n, const How<Reads>&... hows) {
    const std::string name = what + walks[w].name;
    const size_t stride = walks[w].in_volume() ? volume.stride : image.stride;
    rows.push_back({name,
                    bytes_read(walks[w], n),
                    kind == Kind::between ? NAN : sectors_per_request(walks[w], n, stride),
                    {hows.name...}});
    (benchmarks.push_back({name + hows.name, reading<w>(hows.read, n), adds_up<w>(out, kind, n)}),
     ...);
  }
  template <int w, class Read>
  std::function<void()> reading(Read read, unsigned n) const {
    return [sums = out.data(), read, n] {
      read_image<w><<<walks[w].blocks(n), threads>>>(sums, read, n);
    };
  }
};

// ---- the experiment ----

using Words = std::vector<std::string>;

/// How many times as long as read in `fast` ways do these rows take, read in `slow` ways?
std::vector<Interval> ratios(const Timings& timed, const Words& rows, const Words& slow,
                             const Words& fast) {
  std::vector<Interval> all;
  for (const std::string& row : rows)
    for (const std::string& s : slow)
      for (const std::string& f : fast) all.push_back(ratio(timed[row + s], timed[row + f]));
  return all;
}

void judge_all(Run& run, const Timings& timed) {
  const Words columns{"column", "columns side by side"};
  const Words planes{"column",
                     "columns side by side",
                     "8 x 4",
                     "4 x 8",
                     "16 x 2",
                     "overlapping 8 x 4",
                     "overlapping 4 x 8",
                     "overlapping 16 x 2"};
  const Words loads{"", ", odd rows"}, textures{", array", ", pitched"};

  run.claim_each({"07.3a", "2D data are read best through textures", "the wiki, no figure"},
                 beats(), ratios(timed, planes, loads, {", array"}),
                 "columns and patches, even and odd rows");
  run.claim_each({"07.3b", "columns are read far faster through textures",
                  "the study of 2007, no figure: it did not try"},
                 much_beats(), ratios(timed, columns, loads, {", array"}), "even and odd rows");
  const auto can_win = [&](const char* id, const std::string& kind, const Words& rows,
                           const Words& textures_of) {
    run.claim_each(
        {id, "a texture can outperform the read-only path: " + kind, "the lectures, no figure"},
        can_beat(), ratios(timed, rows, {", __ldg"}, textures_of), "both textures");
  };
  can_win("07.6a", "interpolation", {"interpolation, 8 x 4"}, textures);
  can_win("07.6b", "normalisation",
          {"normalisation, row", "normalisation, 8 x 4", "normalisation in L2, row",
           "normalisation in L2, 8 x 4"},
          textures);
  can_win("07.6c", "2D reads", planes, textures);
  can_win("07.6d", "3D reads", {"volume, 4 x 4 x 2", "volume, by depth"}, {", array"});
  run.claim_each({"07.6e", "the read-only path can outperform textures: reads of 4 bytes",
                  "the lectures, no figure"},
                 can_beat(),
                 ratios(timed, {"row", "8 x 4", "4 x 8", "16 x 2"}, textures, {", __ldg"}),
                 "both textures");
}

/// The next multiple of `step`.
unsigned side(double texels, unsigned step) { return parts(unsigned(texels), step) * step; }

}  // namespace

void locality(Run& run) {
  const double of_l2 = double(run.gpu.l2CacheSize) / sizeof(float);
  // a texel stands in memory six times, and sides are rounded up
  const double texels = double(run.fitting(size_t((run.quick ? 4 : 8) * of_l2), 40));
  const unsigned n = side(std::ceil(std::sqrt(texels)), 2048);
  const unsigned n_of_volume = side(std::ceil(std::cbrt(std::min(texels, 6 * of_l2))), 32);
  const double volume_bytes = 4.0 * n_of_volume * n_of_volume * n_of_volume;
  const bool beyond = run.beyond_l2(4.0 * n * n) && run.beyond_l2(volume_bytes);
  run.title("images of " + std::to_string(n) + " rows and columns, a volume of " +
            std::to_string(n_of_volume) + " each way; " +
            (beyond ? "beyond the L2" : "partly from the L2"));

  const unsigned n_in_l2 = std::max(256u, unsigned(std::sqrt(of_l2 / 3)) / 256 * 256);
  const Work work(n, n_in_l2, n_of_volume);
  const Timings timed = run.timer.interleaved(work.benchmarks);
  Table table("walk, GB/s",
              {"sectors/request", "loads", "odd rows", "__ldg", "array", "pitched", "array gain"});
  for (const Row& row : work.rows) {
    const auto gbs = [&](const std::string& how) -> Cell {
      if (std::count(row.hows.begin(), row.hows.end(), how) == 0) return "-";
      return timed[row.name + how].gbs(row.bytes);
    };
    table.row(row.name,
              {row.sectors, gbs(""), gbs(", odd rows"), gbs(", __ldg"), gbs(", array"),
               gbs(", pitched"), ratio(timed[row.name + ", __ldg"], timed[row.name + ", array"])});
  }
  run.print(table);
  run.note("array, pitched: textures of a CUDA array, and of the rows that the loads read");
  run.note("sectors/request: of a warp's load from rows, predicted; array gain: over __ldg");
  run.note("odd rows: loads from rows that begin an odd number of sectors apart");
  judge_all(run, timed);
}

/// How often each texel is read; texels outside are not.
static std::vector<unsigned> times_read(const Walk& walk, unsigned n) {
  std::vector<unsigned> times(size_t(n) * n * (walk.in_volume() ? n : 1));
  const dim3 blocks = walk.blocks(n);
  for (unsigned b = 0; b < blocks.x * blocks.y * blocks.z; ++b)
    for (unsigned i = 0; i < block_reads; ++i) {
      const Texel first =
          walk.first(b % blocks.x, b / blocks.x % blocks.y, b / blocks.x / blocks.y);
      const Texel p = walk.place(first, i % threads, i / threads, n);
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
      if (walk.anywhere) continue;
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
    const Texel p = walks[w].place({100, 200, 300}, tid, k, 1000);
    return std::vector<unsigned>{p.x - 100, p.y - 200, p.z - 300};
  };
  using Place = std::vector<unsigned>;
  CHECK(at(row, 33, 2) == Place{2 * 256 + 33, 0, 0});
  CHECK(at(columns, 33, 2) == Place{2, 33, 0});
  CHECK(at(p8x4, 4 * 32 + 9, 1) == Place{1, 8 + 4 + 1, 0});  // warp 4 is the first of those below
  CHECK(at(o8x4, 32, 1) == Place{4, 2, 0});  // half a patch on, and half a patch down
  CHECK(at(box, 7 * 32 + 31, 1) == Place{7, 7, 4 + 3});
  CHECK(at(depth, 33, 2) == Place{1, 2, 1});

  // sectors of 8 words: of rows, and where each second patch, or fourth, begins amid a sector
  const auto sectors_of = [](int w) { return sectors_per_request(walks[w], 8192, 8192); };
  const double known[] = {4, 32, 32, 4, 8, 4, (4 + 8) / 2., (3 * 8 + 16) / 4., 4};
  for (int w = row; w <= o16x2; ++w) CHECK(sectors_of(w) == known[w]);
  CHECK(sectors_of(scattered) == doctest::Approx(32).epsilon(0.005));  // two lanes may meet
  CHECK(odd_stride(8192) == 8200);
  CHECK(bytes_read(walks[o4x8], 2048) == 4 * 2048. * 2048);
  CHECK(bytes_read(walks[scattered], 2048) == 4 * 2048. * 2048 / 8);
  CHECK(bytes_read(walks[depth], 64) == 4 * 64. * 64 * 64);
}

TEST_CASE("locality: what is right at a place, by hand") {
  const auto v = [](unsigned x, unsigned y) { return texel_at({x, y, 0}); };
  CHECK(v(3, 4) != v(4, 3));
  CHECK(sixteenths(Kind::texel, {3, 4, 0}, 9) == 16 * v(3, 4));
  CHECK(sixteenths(Kind::colour, {3, 4, 0}, 9) == 16 * (v(3, 4) % 16));
  CHECK(sixteenths(Kind::between, {4, 8, 0}, 9) == 16 * v(4, 8));  // no quarter beyond
  CHECK(sixteenths(Kind::between, {1, 2, 0}, 9) ==
        3 * 2 * v(1, 2) + 1 * 2 * v(2, 2) + 3 * 2 * v(1, 3) + 1 * 2 * v(2, 3));
  CHECK(sixteenths(Kind::between, {1, 2, 0}, 3) == 3 * 4 * v(1, 2) + 1 * 4 * v(2, 2));
}

TEST_CASE("locality: every walk by every read is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1, 7, 33, 257, 2049}) {
    CAPTURE(n);
    const Work work(n, n, std::min(n, 65u));
    CHECK(work.benchmarks.size() == 10 * 5 + 5 * 3 + 2 * 2);
    for (const Benchmark& benchmark : work.benchmarks) CHECK_NOTHROW(require_right(benchmark));
    if (n == 1) continue;
    require_right(work.benchmarks[0]);
    CHECK(work.benchmarks[5].check.find_error() != "");  // of columns: a row's sums are others
  }
}
