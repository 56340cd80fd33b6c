// locality: "threads in a warp that use texture memory to access 2D data will achieve the best
// performance", says the wiki [LC]. The study of 2007 [BW] hoped that textures would read columns
// far faster. The lectures [PR] give interpolation, normalisation, 2D and 3D reads to textures, and
// 4-byte reads to the read-only path. Here images are read by many walks. Each walk is run by
// loads, through a texture of an array (whose texels the GPU keeps in an order of its own), and
// through a texture of the same rows that the loads read. Two things to look at:
//   - What limits a row: the banks of L1, requests to L2, the texture units, or the memory.
//   - Patches that overlap: their texels are read four times, so that a cache has something to win.
//
//   cmake -S 07_texture_readonly -B build/locality -DEXPERIMENTS=locality
//   cmake --build build/locality && build/locality/07_texture_readonly
//
//   1  read_rows             loads, by any walk (by_row, by_column ...: in walks.cuh)
//   2  read_rows_ldg         kernel 1 by __ldg
//   3  fetch                 kernel 1 through a texture
//   4  stencil_rows          nine loads for each texel
//   5  stencil_fetch         kernel 4 through a texture
//   6  interpolate_rows      four loads, and the interpolation, for each texel
//   7  interpolate_rows_ldg  kernel 6 by __ldg
//   8  interpolate_fetch     kernel 6 by one filtered fetch
//   9  colours_ldg           four bytes per load, made fractions of 255 by the kernel
//  10  colours_fetch         one fetch, made fractions by the texture unit
//  11  volume_ldg            loads from planes of rows
//  12  volume_fetch          fetches from a 3D array
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "options.hpp"
#include "texture.cuh"
#include "walks.cuh"

using namespace samples;

namespace {

// ---- kernels: a thread adds up what it reads at its eight places, into out[tile * threads + tid].
// A place outside of the image, where a tile hangs over, is read at the edge and not added, so that
// no read waits for a condition. ----

// What a texel adds to the sum. A colour's four channels of 8 bits are converted, and multiplied.
__device__ float added(float texel) { return texel; }
__device__ float added(float4 c) { return c.x + 2 * c.y + 4 * c.z + 8 * c.w; }
__device__ float added(uchar4 c) {
  const float x = c.x * (1 / 255.0f), y = c.y * (1 / 255.0f);
  const float z = c.z * (1 / 255.0f), w = c.w * (1 / 255.0f);
  return x + 2 * y + 4 * z + 8 * w;
}

// [add_up]
// All eight reads are in flight before the first addition. What a warp's 32 lanes want is the
// walk's: by_row 4 sectors of 32 bytes, by_column 32. An image is 1 deep.
template <Place walk, class Read>
__device__ float add_up(unsigned tile, unsigned n, unsigned deep, Read read) {
  decltype(read(0, 0, 0)) texel[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    texel[k] = read(min(p.x, n - 1), min(p.y, n - 1), min(p.z, deep - 1));
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n && p.z < deep) sum += added(texel[k]);
  }
  return sum;
}

struct ReadRows {
  const float* rows;
  size_t stride;
  __device__ float operator()(unsigned x, unsigned y, unsigned) const {
    return rows[y * stride + x];
  }
};
template <Place walk>
__global__ void read_rows(float* out, const float* rows, size_t stride, unsigned n,
                          unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, ReadRows{rows, stride});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}
// [/add_up]

// The same on the read-only path.
struct ReadRowsLdg {
  const float* rows;
  size_t stride;
  __device__ float operator()(unsigned x, unsigned y, unsigned) const {
    return __ldg(&rows[y * stride + x]);
  }
};
template <Place walk>
__global__ void read_rows_ldg(float* out, const float* rows, size_t stride, unsigned n,
                              unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, ReadRowsLdg{rows, stride});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// [fetch]
// The texture unit takes four lanes at a time: eight requests of a warp. Texel i reaches from i to
// i + 1, so its centre is at i + 0.5.
struct Fetch {
  cudaTextureObject_t image;
  __device__ float operator()(unsigned x, unsigned y, unsigned) const {
    return tex2D<float>(image, x + 0.5f, y + 0.5f);
  }
};
template <Place walk>
__global__ void fetch(float* out, cudaTextureObject_t image, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, Fetch{image});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}
// [/fetch]

// A place's nine texels, of which those outside are the edge's: three rows of three. A warp wants
// 32 texels of a row, three times, one texel further each time.
template <Place walk>
__global__ void stencil_rows(float* out, const float* rows, size_t stride, unsigned n,
                             unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    const unsigned x = min(p.x, n - 1), y = min(p.y, n - 1);
    const unsigned left = max(x, 1) - 1, right = min(x + 1, n - 1);
    const float* above = rows + (max(y, 1) - 1) * stride;
    const float* here = rows + y * stride;
    const float* below = rows + min(y + 1, n - 1) * stride;
    const float nine = (above[left] + above[x] + above[right]) +
                       (here[left] + here[x] + here[right]) +
                       (below[left] + below[x] + below[right]);
    if (p.x < n && p.y < n) sum += nine;
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// The same: the texture unit keeps to the edge by itself.
template <Place walk>
__global__ void stencil_fetch(float* out, cudaTextureObject_t image, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    const float x = min(p.x, n - 1) + 0.5f, y = min(p.y, n - 1) + 0.5f;
    float nine = 0;
#pragma unroll
    for (int tap = 0; tap < 9; ++tap)
      nine += tex2D<float>(image, x + float(tap % 3 - 1), y + float(tap / 3 - 1));
    if (p.x < n && p.y < n) sum += nine;
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// A place lies quarters of a texel beyond texel (x, y): four loads, and three mixtures of two. All
// loads of two places are in flight at once.
template <Place walk, class Load>
__device__ float interpolate(unsigned tile, const float* rows, size_t stride, unsigned n,
                             Load load) {
  float sum = 0;
#pragma unroll 1
  for (unsigned first = 0; first < steps; first += 2) {
    float a[2], b[2], c[2], d[2];
#pragma unroll
    for (unsigned k = 0; k < 2; ++k) {  // eight loads
      const Texel p = walk(tile, threadIdx.x, first + k, n);
      const unsigned x = min(p.x, n - 1), y = min(p.y, n - 1), right = min(x + 1, n - 1);
      const float* here = rows + y * stride;
      const float* below = rows + min(y + 1, n - 1) * stride;
      a[k] = load(&here[x]);
      b[k] = load(&here[right]);
      c[k] = load(&below[x]);
      d[k] = load(&below[right]);
    }
    __syncwarp();  // keeps the compiler from waiting for some of them before it asks for others
#pragma unroll
    for (unsigned k = 0; k < 2; ++k) {
      const Texel p = walk(tile, threadIdx.x, first + k, n);
      const float across = 0.25f * quarters_beyond(p.x), down = 0.25f * quarters_beyond(p.y);
      const float upper = a[k] + across * (b[k] - a[k]), lower = c[k] + across * (d[k] - c[k]);
      if (p.x < n && p.y < n) sum += upper + down * (lower - upper);
    }
  }
  return sum;
}

struct LoadWord {
  __device__ float operator()(const float* word) const { return *word; }
};
template <Place walk>
__global__ void interpolate_rows(float* out, const float* rows, size_t stride, unsigned n,
                                 unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = interpolate<walk>(tile, rows, stride, n, LoadWord{});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// The same on the read-only path.
struct LoadWordLdg {
  __device__ float operator()(const float* word) const { return __ldg(word); }
};
template <Place walk>
__global__ void interpolate_rows_ldg(float* out, const float* rows, size_t stride, unsigned n,
                                     unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = interpolate<walk>(tile, rows, stride, n, LoadWordLdg{});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// One fetch: addresses, edge and mixtures are the texture unit's.
struct FetchBetween {
  cudaTextureObject_t image;
  __device__ float operator()(unsigned x, unsigned y, unsigned) const {
    return tex2D<float>(image, x + 0.5f + 0.25f * quarters_beyond(x),
                        y + 0.5f + 0.25f * quarters_beyond(y));
  }
};
template <Place walk>
__global__ void interpolate_fetch(float* out, cudaTextureObject_t image, unsigned n,
                                  unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, FetchBetween{image});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// A load brings four channels of 8 bits, which the kernel converts.
struct ReadColours {
  const uchar4* rows;
  size_t stride;
  __device__ uchar4 operator()(unsigned x, unsigned y, unsigned) const {
    return __ldg(&rows[y * stride + x]);
  }
};
template <Place walk>
__global__ void colours_ldg(float* out, const uchar4* rows, size_t stride, unsigned n,
                            unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, ReadColours{rows, stride});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// A fetch brings four floats from 0 to 1.
struct FetchColour {
  cudaTextureObject_t image;
  __device__ float4 operator()(unsigned x, unsigned y, unsigned) const {
    return tex2D<float4>(image, x + 0.5f, y + 0.5f);
  }
};
template <Place walk>
__global__ void colours_fetch(float* out, cudaTextureObject_t image, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, 1, FetchColour{image});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// Planes of n x n words. By depth the lanes of a warp are a plane apart: 32 sectors.
struct ReadPlanes {
  const float* planes;
  unsigned n;
  __device__ float operator()(unsigned x, unsigned y, unsigned z) const {
    return __ldg(&planes[(size_t(z) * n + y) * n + x]);
  }
};
template <Place walk>
__global__ void volume_ldg(float* out, const float* planes, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, n, ReadPlanes{planes, n});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// A 3D array has an order of its own, in which neighbours of all three dimensions are near.
struct FetchVolume {
  cudaTextureObject_t volume;
  __device__ float operator()(unsigned x, unsigned y, unsigned z) const {
    return tex3D<float>(volume, x + 0.5f, y + 0.5f, z + 0.5f);
  }
};
template <Place walk>
__global__ void volume_fetch(float* out, cudaTextureObject_t volume, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  const float sum = add_up<walk>(tile, n, n, FetchVolume{volume});
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// ---- the images: all texels have 4 bytes ----

enum class Texels { floats, colours, volume };

/// An image, or a volume, and where it is when it is read.
struct Setting {
  const char *key = "", *words = "";  ///< words: behind those of the walk and the path
  Texels texels = Texels::floats;
  unsigned n = 0;           ///< texels of a row, a column, and into the depth of a volume
  size_t stride = 0;        ///< words from row to row
  unsigned passes = 1;      ///< of a launch over the image
  bool in_l2 = false;       ///< else it comes from memory
  bool calibrates = false;  ///< gives the model its constants
  bool by_ldg = true;       ///< __ldg, too
  std::string missing = {};

  unsigned deep() const { return texels == Texels::volume ? n : 1; }
  double bytes() const { return 4.0 * n * n * deep() * passes; }  ///< each texel once per pass
};

/// Word i of rows and planes.
struct WordAt {
  Texels texels;
  unsigned n;
  size_t stride;
  __device__ unsigned operator()(size_t i) const {
    const size_t row = i / stride;
    const unsigned v = value_of(unsigned(i % stride), unsigned(row % n), unsigned(row / n));
    if (texels != Texels::colours) return __float_as_uint(float(v));
    return (v % 2 | v / 2 % 2 << 8 | v / 4 % 2 << 16 | v / 8 % 2 << 24) * 255;
  }
};

/// The texels as rows and as an array, and textures of both.
struct Image {
  unsigned n;
  size_t stride;
  DeviceBuffer<unsigned> words;
  CudaArray array;
  std::vector<Texture> textures;  ///< of the array, point and linear; of the rows, the same

  explicit Image(const Setting& s)
      : n(s.n),
        stride(s.stride),
        words(
            filled<unsigned>((size_t(n) * s.deep() - 1) * stride + n, WordAt{s.texels, n, stride})),
        array(channels(s.texels), {n, n, s.texels == Texels::volume ? n : 0}) {
    const size_t pitch = stride * sizeof(unsigned), width = n * sizeof(unsigned);
    std::vector<cudaResourceDesc> resources{array_resource(array)};
    if (s.texels == Texels::volume) {
      cudaMemcpy3DParms copy{};
      copy.srcPtr = make_cudaPitchedPtr(words.data(), pitch, n, n);
      copy.dstArray = array;
      copy.extent = make_cudaExtent(n, n, n);
      copy.kind = cudaMemcpyDefault;
      CUDA_CHECK(cudaMemcpy3D(&copy));
    } else {
      CUDA_CHECK(
          cudaMemcpy2DToArray(array, 0, 0, words.data(), pitch, width, n, cudaMemcpyDefault));
      resources.push_back(pitched_resource(words.data(), channels(s.texels), n, n, pitch));
    }
    const auto read =
        s.texels == Texels::colours ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    for (const cudaResourceDesc& resource : resources)
      for (const auto filter : {cudaFilterModePoint, cudaFilterModeLinear})
        textures.emplace_back(resource, texture_desc(cudaAddressModeClamp, filter, false, read));
  }
  static cudaChannelFormatDesc channels(Texels texels) {
    return texels == Texels::colours ? cudaCreateChannelDesc<uchar4>()
                                     : cudaCreateChannelDesc<float>();
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(words.data());
  }
  cudaTextureObject_t texture(Path path, bool linear = false) const {
    return textures[(path == Path::pitched ? 2 : 0) + linear];
  }
};

// ---- the walks ----

struct Launch {
  unsigned blocks, tiles;
};

struct Case {
  const char *key = "", *words = "";
  Walk walk = {};
  bool by_ldg = false;      ///< read on the read-only path, too
  double instructions = 0;  ///< of a warp for 32 texels by loads, as compiled for 9.0; 0: few
  Kind kind = Kind::point;
  Texels texels = Texels::floats;
  const char *load = "", *load_ldg = "", *fetch = "";  ///< its kernels
  void (*launch)(Path, const Image&, float* out, Launch) = nullptr;
  size_t (*wrong)(const Output<float>&, const Case&, unsigned n) = nullptr;
};

/// What each thread of all tiles has to find. Behind them the poison must still stand.
template <Place walk>
struct IsSum {
  Kind kind;
  unsigned n, deep, tiles;
  __device__ bool operator()(size_t i, float found) const {
    if (i >= size_t(tiles) * threads) return found != found;
    unsigned right = 0;
    for (unsigned k = 0; k < steps; ++k) {
      const Texel p = walk(unsigned(i / threads), unsigned(i % threads), k, n);
      if (p.x < n && p.y < n && p.z < deep) right += sixteenfold(kind, p.x, p.y, p.z, n);
    }
    return 16 * found == float(right);
  }
};

template <Place walk>
Case walking(Case c) {
  c.walk.place = walk;
  c.wrong = [](const Output<float>& out, const Case& way, unsigned n) {
    return out.wrong(IsSum<walk>{way.kind, n, way.walk.deep ? n : 1, way.walk.tiles(n)});
  };
  return c;
}

template <Place walk>
Case reads(Case c) {
  c.load = "read_rows", c.load_ldg = "read_rows_ldg", c.fetch = "fetch";
  c.launch = [](Path path, const Image& m, float* out, Launch l) {
    if (path == Path::loads)
      read_rows<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.stride, m.n, l.tiles);
    else if (path == Path::ldg)
      read_rows_ldg<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.stride, m.n, l.tiles);
    else
      fetch<walk><<<l.blocks, threads>>>(out, m.texture(path), m.n, l.tiles);
  };
  return walking<walk>(c);
}

template <Place walk>
Case stencil(Case c) {
  c.kind = Kind::stencil;
  c.load = "stencil_rows", c.fetch = "stencil_fetch";
  c.launch = [](Path path, const Image& m, float* out, Launch l) {
    if (path == Path::loads)
      stencil_rows<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.stride, m.n, l.tiles);
    else
      stencil_fetch<walk><<<l.blocks, threads>>>(out, m.texture(path), m.n, l.tiles);
  };
  return walking<walk>(c);
}

template <Place walk>
Case interpolates(Case c) {
  c.kind = Kind::bilinear;
  c.load = "interpolate_rows", c.load_ldg = "interpolate_rows_ldg", c.fetch = "interpolate_fetch";
  c.launch = [](Path path, const Image& m, float* out, Launch l) {
    if (path == Path::loads)
      interpolate_rows<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.stride, m.n, l.tiles);
    else if (path == Path::ldg)
      interpolate_rows_ldg<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.stride, m.n, l.tiles);
    else
      interpolate_fetch<walk><<<l.blocks, threads>>>(out, m.texture(path, true), m.n, l.tiles);
  };
  return walking<walk>(c);
}

template <Place walk>
Case reads_colours(Case c) {
  c.kind = Kind::colour, c.texels = Texels::colours;
  c.load_ldg = "colours_ldg", c.fetch = "colours_fetch";
  c.launch = [](Path path, const Image& m, float* out, Launch l) {
    if (path == Path::ldg)
      colours_ldg<walk><<<l.blocks, threads>>>(out, m.as<uchar4>(), m.stride, m.n, l.tiles);
    else
      colours_fetch<walk><<<l.blocks, threads>>>(out, m.texture(path), m.n, l.tiles);
  };
  return walking<walk>(c);
}

template <Place walk>
Case reads_volume(Case c) {
  c.texels = Texels::volume;
  c.walk.wide = 8, c.walk.high = 8, c.walk.deep = 32;
  c.load_ldg = "volume_ldg", c.fetch = "volume_fetch";
  c.launch = [](Path path, const Image& m, float* out, Launch l) {
    if (path == Path::ldg)
      volume_ldg<walk><<<l.blocks, threads>>>(out, m.as<float>(), m.n, l.tiles);
    else
      volume_fetch<walk><<<l.blocks, threads>>>(out, m.texture(path), m.n, l.tiles);
  };
  return walking<walk>(c);
}

const Case cases[] = {
    reads<by_row>(
        {.key = "row", .words = "row", .walk = {.wide = 2048, .high = 1}, .by_ldg = true}),
    reads<by_column>(
        {.key = "column", .words = "column", .walk = {.wide = 1, .high = 2048}, .by_ldg = true}),
    reads<aside>({.key = "aside", .words = "column aside", .walk = {.wide = 8, .high = 256}}),
    reads<by_8x4>(
        {.key = "8x4", .words = "8 x 4", .walk = {.wide = 32, .high = 64}, .by_ldg = true}),
    reads<by_4x8>(
        {.key = "4x8", .words = "4 x 8", .walk = {.wide = 32, .high = 64}, .by_ldg = true}),
    reads<by_16x16>(
        {.key = "16x16", .words = "16 x 16", .walk = {.wide = 16, .high = 128}, .by_ldg = true}),
    reads<overlapping<8>>({.key = "overlap_8x4",
                           .words = "overlapping 8 x 4",
                           .walk = {.wide = 32, .high = 16, .reads = 4},
                           .by_ldg = true}),
    reads<overlapping<4>>({.key = "overlap_4x8",
                           .words = "overlapping 4 x 8",
                           .walk = {.wide = 16, .high = 32, .reads = 4},
                           .by_ldg = true}),
    reads<overlapping<16>>({.key = "overlap_16x2",
                            .words = "overlapping 16 x 2",
                            .walk = {.wide = 64, .high = 8, .reads = 4},
                            .by_ldg = true}),
    stencil<by_32x8>({.key = "stencil",
                      .words = "3 x 3 stencil",
                      .walk = {.wide = 32, .high = 64},
                      .instructions = 74}),
    interpolates<by_8x4>({.key = "bilinear",
                          .words = "bilinear",
                          .walk = {.wide = 32, .high = 64},
                          .by_ldg = true,
                          .instructions = 50}),
    reads<anywhere>({.key = "random", .words = "random"}),
    reads_colours<by_row>({.key = "row",
                           .words = "row",
                           .walk = {.wide = 2048, .high = 1},
                           .by_ldg = true,
                           .instructions = 42}),
    reads_colours<by_8x4>({.key = "8x4",
                           .words = "8 x 4",
                           .walk = {.wide = 32, .high = 64},
                           .by_ldg = true,
                           .instructions = 42}),
    reads_volume<by_8x2x2>({.key = "8x2x2", .words = "8 x 2 x 2", .by_ldg = true}),
    reads_volume<by_4x4x2>({.key = "4x4x2", .words = "4 x 4 x 2", .by_ldg = true}),
    reads_volume<by_depth>({.key = "depth", .words = "by depth", .by_ldg = true}),
};

constexpr Path paths[] = {Path::loads, Path::ldg, Path::array, Path::pitched};
const char* key_of(Path path) {
  const char* const keys[] = {"loads", "ldg", "array", "pitched"};
  return keys[int(path)];
}
const char* words_of(Path path) { return path == Path::ldg ? "__ldg" : key_of(path); }

/// Whether this image is read by this walk on this path.
bool is_read(const Setting& s, const Case& c, Path path) {
  if (s.texels != c.texels) return false;
  if (path == Path::loads) return c.load[0] != 0;
  if (path == Path::ldg) return s.by_ldg && c.by_ldg;
  return path == Path::array || s.texels != Texels::volume;
}

Ref ref_of(const Setting& s, const char* walk, Path path) {
  return std::string(walk) + "_" + key_of(path) + "_" + s.key;
}

/// An image, and the sums of all threads of any walk over it.
struct Work {
  Image image;
  Output<float> sums;

  explicit Work(const Setting& s) : image(s), sums(most_threads(s)) {}
  static size_t most_threads(const Setting& s) {
    size_t most = 0;
    for (const Case& c : cases)
      if (c.texels == s.texels) most = std::max(most, size_t(c.walk.tiles(s.n)) * threads);
    return most;
  }
};

Task task_of(const Shared<Work>& work, const Ref& ref, const Case& c, Path path, unsigned passes) {
  const unsigned n = work->image.n, tiles = c.walk.tiles(n);
  Check check;
  check.poison = [work] { work->sums.poison(); };
  check.wrong = [work, &c, n] { return c.wrong(work->sums, c, n); };
  return {text(ref),
          [work, &c, path, passes, tiles] {
            c.launch(path, work->image, work->sums.data(), {tiles * passes, tiles});
          },
          std::move(check)};
}

// ---- prediction ----

/// Measured in the same run.
struct Calibrated {
  double memory_gbs = NAN;   ///< of loads by rows from memory
  double l2_gbs = NAN;       ///< of loads by rows from L2
  double requests_ns = NAN;  ///< of L1 to L2 in a nanosecond, each for another line
  double lone_gbs = NAN;     ///< of lone words from memory
  double fetch_gbs = NAN;    ///< of fetches by rows from memory
};

/// A prediction, and the limit from which it follows.
struct Predicted {
  double gbs = NAN;
  const char* limit = "";
};

/// Cycles of all multiprocessors in a nanosecond; not a number where the clock is not reported.
double cycles_ns(const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  return 1e-6 * device.sm_clock_khz * device.prop.multiProcessorCount;
}

/// Texture units of a multiprocessor, each of which answers a lane of tex2D in a cycle.
double texture_units(const Device& device) { return device.prop.major >= 7 ? 4 : 8; }

/// The slowest of the things that apply to 32 texels. Four schedulers of a multiprocessor issue the
/// instructions. Per texel read once there is an eighth of a sum to be stored.
Predicted predicted_gbs(const Case& way, Path path, const Cost& cost, bool in_l2,
                        const Calibrated& c, const Device& device) {
  const double bytes = 32 * 4, cycles = cycles_ns(device);
  const bool fetches = is_fetch(path), lone = way.walk.wide == 0;
  const double with_sums = bytes * (1 + way.walk.reads / 8.0) / (1 + 1 / 8.0);
  const struct {
    const char* name;
    bool applies;
    double ns;
  } limits[] = {
      {"L2's requests", true, cost.to_l2 / c.requests_ns},
      {"the memory, a word at a time", !in_l2 && lone, bytes / c.lone_gbs},
      {"memory", !in_l2 && !fetches, with_sums / c.memory_gbs},
      {"L2's bytes", in_l2 && !fetches, with_sums / c.l2_gbs},
      {"L1's banks", !fetches, cost.wavefronts / cycles},
      {"instructions", !fetches && way.instructions > 0, way.instructions / 4 / cycles},
      {"fetches from memory", !in_l2 && fetches, with_sums / c.fetch_gbs},
      {"texture units", fetches, cost.fetches / texture_units(device) / cycles},
  };
  Predicted expected;
  double most = 0;
  for (const auto& limit : limits) {
    if (!limit.applies) continue;
    if (std::isnan(limit.ns)) return {};  // a constant is missing
    if (limit.ns <= most) continue;
    most = limit.ns;
    expected = {bytes / limit.ns, limit.name};
  }
  return expected;
}

/// The order of texels in arrays, L2's requests and L1's banks were found on compute capability 9.0
/// only. With other rows, colours and volumes the model misses by up to 1.8, by loads of patches
/// that overlap by up to 2.2, and nobody knows why. No test holds those rows to it.
Model model_of(const Run& run, const Setting& s, const Case& c) {
  const bool held = s.calibrates && c.walk.reads == 1;
  return held && run.device && run.device->prop.major == 9 ? Model::traffic : Model::host;
}

/// Whether a row gives a constant of the model.
bool gives_constant(const Setting& s, const Case& c, Path path) {
  if (!s.calibrates) return false;
  const std::string row = std::string(c.key) + "_" + key_of(path);
  return row == "row_loads" || row == "random_loads" || (!s.in_l2 && row == "row_pitched");
}

// ---- the experiment ----

/// Side of a square of words of so many bytes, the next that is a multiple of `step`.
unsigned side_of(double bytes, unsigned step) {
  return unsigned(std::ceil(std::sqrt(bytes / 4) / step)) * step;
}
double l2_bytes(const Run& run) {
  return run.device ? double(run.device->l2_bytes()) : double(60 << 20);
}

double image_bytes(double n) {  // rows, array, sums
  const double wide = std::ceil((n + 8) / 128) * 128;
  return 2 * 4 * wide * wide + 4 * (n * n / 2 + 256 * n) + (64 << 20);
}
double volume_bytes(double n) { return 2 * 4 * n * n * n + n * n * n / 2 + (64 << 20); }

unsigned image_side(const Run& run) {
  const size_t typed = options_of(run).size;
  const unsigned by_default = side_of((run.quick ? 4 : 8) * l2_bytes(run), 2048);
  if (run.device && typed) {
    const cudaDeviceProp& p = run.device->prop;
    const int most = std::min(
        {p.maxTexture2D[0], p.maxTexture2D[1], p.maxTexture2DLinear[0], p.maxTexture2DLinear[1]});
    if (typed > size_t(most))
      throw UsageError("--size " + std::to_string(typed) + ": a texture has at most " +
                       std::to_string(most) + " rows and columns here");
  }
  return unsigned(fitting_size("locality of --size " + std::to_string(typed), typed, by_default,
                               run.memory_there(),
                               [](size_t n) { return image_bytes(double(n)); }));
}

/// Side of a volume beyond the L2, a multiple of 32.
unsigned volume_side(const Run& run) {
  const double texels = (run.quick ? 4.1 : 6) * l2_bytes(run) / 4;
  unsigned n = unsigned(std::ceil(std::cbrt(texels) / 32)) * 32;
  while (n > 32 && volume_bytes(n) > 0.9 * run.memory_there()) n -= 32;
  return n;
}

/// Words from row to row as cudaMallocPitch would have them: whole pieces of 512 bytes.
size_t even_stride(unsigned n) { return parts(n, 128) * size_t(128); }
/// The control: an odd number of sectors, so that the texels of a column lie in several banks.
size_t odd_stride(unsigned n) { return (parts(n, 8) | 1u) * size_t(8); }

/// A texture cannot stand on rows of any stride. (Of a recorded GPU the alignment is not known: 0.)
bool takes_odd_rows(const Device& device) {
  const size_t alignment = device.prop.texturePitchAlignment;
  return alignment == 0 || 32 % alignment == 0;
}

bool in_cache(const Run& run, double bytes) { return run.device && !beyond_l2(*run.device, bytes); }

std::vector<Setting> settings(const Run& run) {
  const unsigned n = image_side(run), deep = volume_side(run);
  const unsigned small = side_of(l2_bytes(run) / 4, 256);
  const double enough = run.quick ? 128e6 : 512e6;  // so that the launch itself hardly counts
  const unsigned passes = unsigned(enough / (4.0 * small * small)) + 1;
  const bool odd = !run.device || takes_odd_rows(*run.device);
  return {
      {.key = "l2",
       .words = ", from L2",
       .n = small,
       .stride = even_stride(small),
       .passes = passes,
       .in_l2 = true,
       .calibrates = true,
       .by_ldg = false},
      {.key = "memory",
       .words = "",
       .n = n,
       .stride = even_stride(n),
       .calibrates = !in_cache(run, 4.0 * n * n)},
      {.key = "odd",
       .words = ", odd rows",
       .n = n,
       .stride = odd_stride(n),
       .by_ldg = false,
       .missing = odd ? "" : "no texture takes such rows"},
      {.key = "colours",
       .words = ", colours",
       .texels = Texels::colours,
       .n = n,
       .stride = even_stride(n)},
      {.key = "colours_l2",
       .words = ", colours, from L2",
       .texels = Texels::colours,
       .n = small,
       .stride = even_stride(small),
       .passes = passes,
       .in_l2 = true},
      {.key = "volume", .words = ", volume", .texels = Texels::volume, .n = deep, .stride = deep}};
}

/// A row of a table.
struct Reading {
  const Case& way;
  Path path;
  Ref ref;
  Cost cost;
  Predicted expected = {};
};

std::vector<Reading> readings_of(const Setting& s) {
  std::vector<Reading> all;
  for (const Case& c : cases)
    for (const Path path : paths)
      if (is_read(s, c, path))
        all.push_back(
            {c, path, ref_of(s, c.key, path), cost_of(c.walk, c.kind, path, s.n, s.stride)});
  return all;
}

std::string words_of(const Setting& s, const Reading& r) {
  return std::string(r.way.words) + ", " + words_of(r.path) + s.words;
}

const Reading& reading_of(const std::vector<Reading>& readings, const Ref& ref) {
  for (const Reading& r : readings)
    if (same(r.ref, ref)) return r;
  throw std::logic_error("no walk is " + text(ref));
}

/// Takes from the rows of an image what they calibrate.
void calibrate(Calibrated& c, const Setting& s, const std::vector<Reading>& readings,
               const Sheet& sheet) {
  const auto gbs = [&](const char* walk, Path path) {
    return 1e-6 * s.bytes() / sheet.ms(ref_of(s, walk, path));
  };
  if (s.in_l2) {
    const Cost& lone = reading_of(readings, ref_of(s, "random", Path::loads)).cost;
    c.l2_gbs = gbs("row", Path::loads);
    c.requests_ns = gbs("random", Path::loads) / (32 * 4) * lone.to_l2;
    return;
  }
  c.memory_gbs = gbs("row", Path::loads);
  c.lone_gbs = gbs("random", Path::loads);
  c.fetch_gbs = gbs("row", Path::pitched);
}

void measure(const Run& run, const Setting& s, Calibrated& c) {
  std::vector<Reading> readings = readings_of(s);
  const auto of = [&readings](const Row& row) -> const Reading& {
    return reading_of(readings, row.ref);
  };
  Sheet sheet(run, std::string("walk, path") + s.words,
              {in_unit(compared("GB/s", "rate", "GB/s", 0), gbs_of),
               spread(),
               {shown("limited by"),
                {},
                {},
                [&](const Row& row, const Statistics&) {
                  return std::string(row.calibrates ? "" : of(row).expected.limit);
                }},
               number(predicted("sectors", "sectors of 32 texels", "", 1),
                      [&](const Row& row) { return of(row).cost.sectors; }),
               number(predicted("banks", "wavefronts of 32 texels", "", 1),
                      [&](const Row& row) {
                        return is_fetch(of(row).path) ? NAN : of(row).cost.wavefronts;
                      }),
               number(predicted("to L2", "requests to L2 of 32 texels", "", 1),
                      [&](const Row& row) { return of(row).cost.to_l2; }),
               bar_against(run, readings[0].ref)});
  for (const Reading& r : readings)
    sheet.add({.ref = r.ref,
               .words = words_of(s, r),
               .bytes = s.bytes(),
               .calibrates = gives_constant(s, r.way, r.path),
               .model = model_of(run, s, r.way),
               .missing = s.missing});
  SharedByTasks work([&s] { return Work(s); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(work(), row.ref, of(row).way, of(row).path, s.passes);
  });
  if (s.calibrates) calibrate(c, s, readings, sheet);
  for (Reading& r : readings)
    if (run.device) r.expected = predicted_gbs(r.way, r.path, r.cost, s.in_l2, c, *run.device);
  sheet.predict([&](const Row& row) { return 1e-6 * row.bytes / of(row).expected.gbs; });
  sheet.print();
}

// ---- 07.6: what the text says that textures, or the read-only path, can do better ----

/// The walks of one kind. Of those the one that leads most is measured again, in fresh pairs.
struct Contest {
  const char *id, *key, *statement;
  std::vector<const char*> settings, walks;
  bool by_loads = false;  ///< the read-only path is to win, else a texture
};
const Contest contests[] = {
    {"07.6a",
     "interpolation",
     "a texture can outperform the read-only path: interpolation",
     {"memory"},
     {"bilinear"}},
    {"07.6b",
     "normalisation",
     "a texture can outperform the read-only path: normalisation",
     {"colours", "colours_l2"},
     {"row", "8x4"}},
    {"07.6c",
     "plane",
     "a texture can outperform the read-only path: 2D reads",
     {"memory"},
     {"column", "8x4", "4x8", "16x16", "overlap_8x4", "overlap_4x8", "overlap_16x2"}},
    {"07.6d",
     "space",
     "a texture can outperform the read-only path: 3D reads",
     {"volume"},
     {"8x2x2", "4x4x2", "depth"}},
    {.id = "07.6e",
     .key = "words",
     .statement = "the read-only path can outperform textures: 4-byte reads",
     .settings = {"memory"},
     .walks = {"row", "8x4", "4x8", "16x16"},
     .by_loads = true},
};
Ref by_ldg(const Contest& contest) { return std::string(contest.key) + "_ldg"; }
Ref by_texture(const Contest& contest) { return std::string(contest.key) + "_texture"; }

/// A walk through an image, and the faster of its textures.
struct Best {
  Setting setting;
  const char* walk = "";
  Path texture = Path::array;
};

/// The one that leads most, by the times of the tables; without times the first.
Best best_of(const Run& run, const std::vector<Setting>& settings, const Contest& contest) {
  const auto ms = [&](const Setting& s, const char* walk, Path path) {
    return (*run.results)(ref_of(s, walk, path)).time.ms.median;
  };
  Best best;
  double most = 0;
  for (const char* key : contest.settings)
    for (const char* walk : contest.walks)
      for (const Setting& s : settings) {
        if (std::string(s.key) != key) continue;
        const bool pitched =
            s.texels != Texels::volume && ms(s, walk, Path::pitched) < ms(s, walk, Path::array);
        const Path texture = pitched ? Path::pitched : Path::array;
        const double gain = ms(s, walk, Path::ldg) / ms(s, walk, texture);
        const double lead = contest.by_loads ? 1 / gain : gain;
        if (best.walk[0] != 0 && !(lead > most)) continue;
        most = std::isnan(lead) ? 0 : lead;
        best = {s, walk, texture};
      }
  return best;
}

void measure_again(const Run& run, const std::vector<Setting>& settings, const Contest& contest) {
  const Best best = best_of(run, settings, contest);
  const std::vector<Reading> readings = readings_of(best.setting);
  const auto of = [&](const Row& row) -> const Reading& {
    const Path path = same(row.ref, by_ldg(contest)) ? Path::ldg : best.texture;
    return reading_of(readings, ref_of(best.setting, best.walk, path));
  };
  Sheet sheet(run, std::string("again, ") + contest.id, {milliseconds(4), spread()});
  for (const Ref& ref : {by_ldg(contest), by_texture(contest)}) {
    Row row{.ref = ref, .bytes = best.setting.bytes(), .model = Model::host};
    row.words = words_of(best.setting, of(row));
    sheet.add(row);
  }
  SharedByTasks work([&best] { return Work(best.setting); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return task_of(work(), row.ref, of(row).way, of(row).path, best.setting.passes);
  });
  sheet.print();
}

void run_locality(const Run& run) {
  const std::vector<Setting> all = settings(run);
  const std::string side = std::to_string(all[1].n), deep = std::to_string(all.back().n);
  run.report.begin("locality", side + " x " + side + " texels, " + bytes_text(all[1].bytes()) +
                                   "; a volume of " + deep + " x " + deep + " x " + deep + ", " +
                                   bytes_text(all.back().bytes()));
  Calibrated c;
  for (const Setting& s : all) measure(run, s, c);
  for (const Contest& contest : contests) measure_again(run, all, contest);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double n = image_side(run), deep = volume_side(run);
  const std::string small =
      in_cache(run, 4 * n * n) ? "the image is less than four times the L2" : "";
  const std::string small_volume =
      in_cache(run, 4 * deep * deep * deep) ? "the volume is less than four times the L2" : "";
  std::vector<Comparison> patches, columns;
  for (const std::string where : {"memory", "odd"}) {
    for (const std::string walk :
         {"8x4", "4x8", "16x16", "overlap_8x4", "overlap_4x8", "overlap_16x2"})
      patches.push_back({.slow = walk + "_loads_" + where, .fast = walk + "_array_" + where});
    columns.push_back({.slow = "column_loads_" + where, .fast = "column_array_" + where});
  }
  std::vector<Claim> all{
      {.part = {"07.3a", "patches that are local in 2D are read best through textures", "no figure",
                "the wiki"},
       .rule = beats(),
       .pairs = patches,
       .unless = small,
       .found = {{.slow = "stencil_loads_memory", .fast = "stencil_array_memory"}}},
      {.part = {"07.3b", "columns are read far faster through textures", "an open question",
                "the study of 2007"},
       .rule = much_beats(),
       .pairs = columns,
       .unless = small}};
  for (const Contest& contest : contests) {
    Comparison pair{.slow = by_ldg(contest), .fast = by_texture(contest)};
    if (contest.by_loads) std::swap(pair.slow, pair.fast);
    all.push_back({.part = {contest.id, contest.statement, "no figure", "the lectures"},
                   .rule = beats(),
                   .pairs = {pair},
                   .some = true,
                   .unless = contest.settings[0] == std::string("volume") ? small_volume : small});
  }
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double n = image_side(run), deep = volume_side(run);
  return {.allocated = std::max(image_bytes(n), volume_bytes(deep)),
          .touched = 4 * std::min(n * n, deep * deep * deep)};
}

/// All walks through images, and a volume, of about so many texels.
std::vector<Checked> tasks(size_t texels) {
  const unsigned n = unsigned(std::ceil(std::sqrt(double(texels))));
  const unsigned deep = unsigned(std::ceil(std::cbrt(double(texels))));
  const bool odd = takes_odd_rows(Device::current());
  std::vector<Checked> all;
  for (const Setting& s :
       {Setting{.key = "even", .n = n, .stride = even_stride(n), .passes = 1 + n % 3},
        Setting{.key = "odd", .n = n, .stride = odd ? odd_stride(n) : even_stride(n)},
        Setting{.key = "colours", .texels = Texels::colours, .n = n, .stride = even_stride(n)},
        Setting{.key = "volume", .texels = Texels::volume, .n = deep, .stride = deep}}) {
    const Shared work{Work(s)};
    for (const Case& c : cases)
      for (const Path path : paths)
        if (is_read(s, c, path))
          all.push_back({.task = task_of(work, ref_of(s, c.key, path), c, path, s.passes),
                         .elements = size_t(c.walk.tiles(s.n)) * threads,
                         .change_one = [work] { work->sums.change(5); }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Setting& s : {Setting{.n = 512, .stride = 512},
                           Setting{.texels = Texels::colours, .n = 512, .stride = 512},
                           Setting{.texels = Texels::volume, .n = 64, .stride = 64}})
    for (const Case& c : cases)
      for (const Path path : paths) {
        if (!is_read(s, c, path)) continue;
        const unsigned tiles = c.walk.tiles(s.n);
        const Cost cost = total_cost(c.walk, c.kind, path, s.n, s.stride, 0, tiles);
        const bool fetches = is_fetch(path);
        CountedLaunch launch = counted_launch(
            fetches               ? c.fetch
            : path == Path::loads ? c.load
                                  : c.load_ldg,
            std::string(c.words) + "; " + words_of(path),
            fetches ? Requested{} : Requested{cost.requests, cost.sectors}, {},
            [s, &c, path] { return task_of(Shared(Work(s)), "counted", c, path, 1); });
        if (fetches)
          launch.expected = {
              {"tex requests", "l1tex__t_requests_pipe_tex_mem_texture.sum", cost.requests},
              {"tex sectors", "l1tex__t_sectors_pipe_tex_mem_texture.sum", cost.sectors}};
        all.push_back(std::move(launch));
      }
  return all;
}

}  // namespace

extern const Experiment locality_experiment{
    .name = "locality",
    .about = "walks over an image through textures, the read-only path and plain loads",
    .run = run_locality,
    .check_typed = [](const Run& run) { image_side(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
