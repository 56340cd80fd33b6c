// dimensions: the lectures list seven types of texture [PR]. Each is made here, and read back texel
// by texel; 1D and 2D stand on plain memory or on an array. Their listings use texture<>, which is
// gone since CUDA 12: the old lines stand above the function that took their place.
//
// Look at how a kernel reaches a texel. Plain memory and layers are counted. Other coordinates are
// measured: texel x reaches from x to x + 1, its centre is at x + 0.5. A cubemap takes a direction.
// Set right: from 1DLayered on the header numbers the types in another way; textures of double or
// long long do not exist (such a value travels as an int2).
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o dimensions dimensions.cu ../common/*.cpp
//
//   read_back, whose fetch is one of
//   1  fetch_linear, fetch_1d    1D: plain memory, array    4  fetch_1d_layered, fetch_2d_layered
//   2  fetch_2d                  2D: pitched rows, array    5  fetch_cubemap
//   3  fetch_3d                                             6  fetch_cubemap_layered
#include <cstdio>
#include <cstring>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "texture.cuh"

namespace {

// ---- how texel (x, y, z) is reached; z is a slice, a layer or a face, six to a cube ----

// Plain memory is counted, not measured: no filter, no edge.
//   then  texture<float, 1, cudaReadModeElementType> tex;     now  a parameter cudaTextureObject_t
//         cudaBindTexture(0, tex, buffer, N*sizeof(float));        Texture(linear_resource(...))
//         float x = tex1Dfetch(tex, i);                            tex1Dfetch<float>(tex, i)
template <class T>
__device__ T fetch_linear(cudaTextureObject_t tex, int x, int, int, int) {
  return tex1Dfetch<T>(tex, x);
}

// A row in the GPU's own order.
//   then  cudaBindTextureToArray(tex, array);                 now  Texture(array_resource(array))
template <class T>
__device__ T fetch_1d(cudaTextureObject_t tex, int x, int, int, int) {
  return tex1D<T>(tex, x + 0.5f);
}

//   then  texture<float, 2, cudaReadModeElementType> tex;
//         cudaBindTexture2D(0, tex, buffer, desc, W, H,       now  Texture(pitched_resource(...))
//                           W*sizeof(float));
//         float v = tex2D(tex, x, y);                              tex2D<float>(tex, x + 0.5f, ...)
template <class T>
__device__ T fetch_2d(cudaTextureObject_t tex, int x, int y, int, int) {
  return tex2D<T>(tex, x + 0.5f, y + 0.5f);
}

// Slice z is measured, too: a filter would blend two of them.
template <class T>
__device__ T fetch_3d(cudaTextureObject_t tex, int x, int y, int z, int) {
  return tex3D<T>(tex, x + 0.5f, y + 0.5f, z + 0.5f);
}

// A layer is counted: no filter blends two of them.
//   then  texture<float, cudaTextureType1DLayered> tex;
template <class T>
__device__ T fetch_1d_layered(cudaTextureObject_t tex, int x, int, int z, int) {
  return tex1DLayered<T>(tex, x + 0.5f, z);
}
template <class T>
__device__ T fetch_2d_layered(cudaTextureObject_t tex, int x, int y, int z, int) {
  return tex2DLayered<T>(tex, x + 0.5f, y + 0.5f, z);
}

/// Where to look from the middle of a cube to see place (u, v) of a face, each from -1 to 1: the
/// component of the largest magnitude tells the face, the two others the place on it.
__host__ __device__ float3 face_direction(int face, float u, float v) {
  const float3 to[] = {{1, -v, -u}, {-1, -v, u}, {u, 1, v},      // +x, -x, +y
                       {u, -1, -v}, {u, -v, 1},  {-u, -v, -1}};  // -y, +z, -z
  return to[face];
}

/// Centre of texel `i` of `width`, from -1 to 1.
__host__ __device__ float centre(int i, int width) {
  return float(2 * i + 1) / float(width) - 1.0f;
}

// A texel of a cubemap has no coordinates: the kernel looks where it is.
template <class T>
__device__ T fetch_cubemap(cudaTextureObject_t tex, int x, int y, int z, int width) {
  const float3 to = face_direction(z, centre(x, width), centre(y, width));
  return texCubemap<T>(tex, to.x, to.y, to.z);
}
template <class T>
__device__ T fetch_cubemap_layered(cudaTextureObject_t tex, int x, int y, int z, int width) {
  const float3 to = face_direction(z % 6, centre(x, width), centre(y, width));
  return texCubemapLayered<T>(tex, to.x, to.y, to.z, z / 6);
}

template <class T>
using Fetch = T (*)(cudaTextureObject_t tex, int x, int y, int z, int width);

// A warp reads 32 texels that follow each other, x fastest, and writes them in that order.
template <class T, Fetch<T> fetch>
__global__ void read_back(T* out, cudaTextureObject_t tex, int width, int height, int depth) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < width * height * depth;
       i += gridDim.x * blockDim.x)
    out[i] = fetch(tex, i % width, i / width % height, i / width / height, width);
}

// ---- the seven types, 1D and 2D on both kinds of memory ----

enum class On { linear_memory, pitched_memory, array };

struct Kind {
  const char* name;
  const char* read;  ///< what reaches texel (x, y, z)
  int type;          ///< the header's number
  On memory;
  unsigned flags;                 ///< of cudaMalloc3DArray
  unsigned width, height, depth;  ///< as cudaMalloc3DArray takes them: a side that lacks is 0

  cudaExtent extent() const { return {width, height, depth}; }
  /// One texel; of a cube six.
  cudaExtent least() const {
    return {1, std::min(height, 1u), std::min(depth, is_cube() ? 6u : 1u)};
  }
  bool is_cube() const { return flags & cudaArrayCubemap; }
};

constexpr unsigned layered = cudaArrayLayered, cube = cudaArrayCubemap;
const Kind kinds[] = {
    {"1D, linear memory", "tex1Dfetch(x)", cudaTextureType1D, On::linear_memory, 0, 1009, 0, 0},
    {"1D, array", "tex1D(x + 0.5)", cudaTextureType1D, On::array, 0, 1009, 0, 0},
    {"2D, pitched memory", "tex2D(x + 0.5, y + 0.5)", cudaTextureType2D, On::pitched_memory, 0, 31,
     17, 0},
    {"2D, array", "tex2D(x + 0.5, y + 0.5)", cudaTextureType2D, On::array, 0, 31, 17, 0},
    {"3D", "tex3D(x + 0.5, y + 0.5, z + 0.5)", cudaTextureType3D, On::array, 0, 13, 7, 5},
    {"1D layered", "tex1DLayered(x + 0.5, z)", cudaTextureType1DLayered, On::array, layered, 1009,
     0, 3},
    {"2D layered", "tex2DLayered(x + 0.5, y + 0.5, z)", cudaTextureType2DLayered, On::array,
     layered, 31, 17, 3},
    {"cubemap", "texCubemap(to face z)", cudaTextureTypeCubemap, On::array, cube, 17, 17, 6},
    {"cubemap layered", "texCubemapLayered(to face z % 6, z / 6)", cudaTextureTypeCubemapLayered,
     On::array, cube | layered, 17, 17, 12}};

/// In the order of `kinds`.
template <class T>
void (*const kernels[])(T* out, cudaTextureObject_t tex, int width, int height, int depth) = {
    read_back<T, fetch_linear<T>>,
    read_back<T, fetch_1d<T>>,
    read_back<T, fetch_2d<T>>,
    read_back<T, fetch_2d<T>>,
    read_back<T, fetch_3d<T>>,
    read_back<T, fetch_1d_layered<T>>,
    read_back<T, fetch_2d_layered<T>>,
    read_back<T, fetch_cubemap<T>>,
    read_back<T, fetch_cubemap_layered<T>>};

/// The largest sides, each by itself; of linear memory in bytes. In the order of `kinds`.
cudaExtent largest(const Kind& kind, const cudaDeviceProp& p) {
  const cudaChannelFormatDesc byte = cudaCreateChannelDesc<unsigned char>();
  int device = 0;
  size_t linear = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&linear, &byte, device));
  const auto extent = [](auto... sides) { return cudaExtent{size_t(sides)...}; };
  const cudaExtent most[] = {
      extent(linear, 0, 0),
      extent(p.maxTexture1D, 0, 0),
      extent(p.maxTexture2DLinear[0], p.maxTexture2DLinear[1], 0),
      extent(p.maxTexture2D[0], p.maxTexture2D[1], 0),
      extent(p.maxTexture3D[0], p.maxTexture3D[1], p.maxTexture3D[2]),
      extent(p.maxTexture1DLayered[0], 0, p.maxTexture1DLayered[1]),
      extent(p.maxTexture2DLayered[0], p.maxTexture2DLayered[1], p.maxTexture2DLayered[2]),
      extent(p.maxTextureCubemap, p.maxTextureCubemap, 6),
      extent(p.maxTextureCubemapLayered[0], p.maxTextureCubemapLayered[0],
             p.maxTextureCubemapLayered[1])};
  return most[&kind - kinds];
}

/// "131072 x 65000"
std::string text(cudaExtent extent) {
  std::string words;
  for (const size_t side : {extent.width, extent.height, extent.depth})
    if (side) words += (words.empty() ? "" : " x ") + std::to_string(side);
  return words;
}

// ---- there and back ----

/// Makes a texture of this kind with `texels`, x fastest, and hands it to `use`.
template <class T, class Use>
void with_texture(const Kind& kind, cudaExtent extent, const std::vector<T>& texels, Use use) {
  // a direction is not counted in texels: cubemaps want the normalised kind of coordinates
  const cudaTextureDesc desc =
      texture_desc(cudaAddressModeClamp, cudaFilterModePoint, kind.is_cube());
  if (kind.memory == On::linear_memory) {
    const DeviceBuffer<T> memory(texels);
    use(Texture(linear_resource(memory.data(), cudaCreateChannelDesc<T>(), memory.bytes()), desc));
  } else if (kind.memory == On::pitched_memory) {
    PitchedBuffer<T> rows(extent.width, extent.height);
    rows.copy_from(texels);
    use(Texture(pitched_resource(rows), desc));
  } else {
    CudaArray array = CudaArray::of<T>(extent, kind.flags);
    array.copy_from(texels);
    use(Texture(array_resource(array), desc));
  }
}

/// Texel i of an input: the bits of floats that are whole numbers, made by a hash.
template <class T>
T texel(size_t i) {
  const float numbers[] = {float(hash(2 * i) >> 8), float(hash(2 * i + 1) >> 8)};
  T value;
  static_assert(sizeof value <= sizeof numbers);
  std::memcpy(&value, numbers, sizeof value);
  return value;
}

/// Whether all texels come back bit for bit, and nothing is written behind them.
template <class T>
bool comes_back_of(const Kind& kind, cudaExtent extent) {
  const int width = int(extent.width), height = std::max(int(extent.height), 1),
            depth = std::max(int(extent.depth), 1);
  std::vector<T> sent;
  for (int i = 0; i < width * height * depth; ++i) sent.push_back(texel<T>(i));
  const GuardedBuffer<T> out(sent.size());
  with_texture(kind, extent, sent, [&](cudaTextureObject_t tex) {
    kernels<T>[&kind - kinds]<<<3, 96>>>(out, tex, width, height, depth);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());  // before texture and memory go
  });
  return std::memcmp(sent.data(), out.to_host().data(), out.bytes()) == 0 && guard_error(out) == "";
}
bool comes_back(const Kind& kind, cudaExtent extent) {
  return comes_back_of<unsigned char>(kind, extent) && comes_back_of<short2>(kind, extent) &&
         comes_back_of<uchar4>(kind, extent) && comes_back_of<float>(kind, extent) &&
         comes_back_of<int2>(kind, extent);
}

/// What the driver answers to who wants such an array.
std::string answer(const cudaChannelFormatDesc& desc, cudaExtent extent, unsigned flags = 0) {
  try {
    CudaArray(desc, extent, flags);
    return "accepted";
  } catch (const CudaError& error) {
    return cudaGetErrorName(error.code);
  }
}

}  // namespace

void dimensions(Run& run) {
  run.title("seven types of texture, each made, and read back texel by texel");
  Table table("kind", {"type", "texel (x, y, z) is read by", "largest"});
  for (const Kind& kind : kinds) {
    if (!comes_back(kind, kind.extent())) throw WrongResult(std::string(kind.name) + " is wrong");
    char number[8];
    std::snprintf(number, sizeof number, "0x%02x", unsigned(kind.type));
    table.row(kind.name, {number, kind.read, text(largest(kind, run.gpu))});
  }
  run.print(table);
  run.note("every texel came back as it went in: bytes, short2, uchar4, floats, int2");
  run.note("z counts layers; of cubemaps faces: +x, -x, +y, -y, +z, -z");
  run.note("type: the header's number; the lectures count from 1 to 7");
  run.note("plain memory begins at a multiple of " + std::to_string(run.gpu.textureAlignment) +
           " bytes, its pitch is a multiple of " + std::to_string(run.gpu.texturePitchAlignment));

  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>(),
                              doubles = cudaCreateChannelDesc<double>();
  const size_t too_wide = size_t(run.gpu.maxTexture2D[0]) + 1;
  Table wrong("wrong array", {"the driver answers"});
  wrong.row("of doubles", {answer(doubles, {8, 0, 0})});
  wrong.row("of three floats", {answer({32, 32, 32, 0, cudaChannelFormatKindFloat}, {8, 0, 0})});
  wrong.row("a cubemap that is not square", {answer(floats, {8, 4, 6}, cudaArrayCubemap)});
  wrong.row("one texel too wide", {answer(floats, {too_wide, 1, 0})});
  run.print(wrong);
}
SAMPLE(2, dimensions, "seven kinds of texture, each made and read back");

TEST_CASE("dimensions: directions to texels of a cube, by hand") {
  const auto to = [](int face, float u, float v) {
    const float3 d = face_direction(face, u, v);
    return std::vector<float>{d.x, d.y, d.z};
  };
  using Direction = std::vector<float>;
  CHECK(to(0, 0.5f, 0.25f) == Direction{1, -0.25f, -0.5f});   // +x: u is -z, v is -y
  CHECK(to(3, 0.5f, 0.25f) == Direction{0.5f, -1, -0.25f});   // -y: u is x, v is -z
  CHECK(to(5, 0.5f, 0.25f) == Direction{-0.5f, -0.25f, -1});  // -z: u is -x, v is -y
  CHECK(centre(0, 1) == 0);
  CHECK(centre(0, 4) == -0.75f);
  CHECK(centre(3, 4) == 0.75f);
}

TEST_CASE("dimensions: the input, its texels and its extents") {
  for (size_t i = 0; i < 1009; ++i) CHECK(texel<float>(i) != texel<float>(i + 1));
  CHECK(texel<float>(7) == float(hash(14) >> 8));
  for (const Kind& kind : kinds) {
    CHECK(text(kind.least()).size() > 0);
    CHECK((!kind.is_cube() || kind.depth % 6 == 0));
  }
  CHECK(text(kinds[5].extent()) == "1009 x 3");
  CHECK(text(kinds[5].least()) == "1 x 1");
  CHECK(text(kinds[8].least()) == "1 x 1 x 6");
}

TEST_CASE("dimensions: every texel comes back bit for bit") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : kinds) {
    CAPTURE(kind.name);
    CHECK(comes_back(kind, kind.extent()));
    CHECK(comes_back(kind, kind.least()));
  }
}

TEST_CASE("dimensions: an array may be as large as the device says, in each dimension") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp gpu = current_gpu();
  for (const Kind& kind : kinds) {
    if (kind.memory != On::array || kind.is_cube()) continue;  // cubes take gigabytes
    CAPTURE(kind.name);
    const cudaExtent most = largest(kind, gpu), least = kind.least();
    for (const cudaExtent& extent :
         std::initializer_list<cudaExtent>{{most.width, least.height, least.depth},
                                           {least.width, most.height, least.depth},
                                           {least.width, least.height, most.depth}})
      CHECK_NOTHROW(CudaArray::of<unsigned char>(extent, kind.flags));
  }
}
