// dimensions: the lectures list seven types of texture [PR]. Here each type is made, 1D and 2D from
// both kinds of memory that they can stand on. Each texture is filled, and read back texel by
// texel. Three things to look at:
//   - How a kernel's coordinates reach a texel.
//   - How large each texture may be.
//   - What the driver answers to wrong calls.
// Set right: the header numbers the types otherwise; textures of double or long long do not exist
// (such a value travels as an int2); and an object has no member addressMode.
//
//   cmake -S 07_texture_readonly -B build/dimensions -DEXPERIMENTS=dimensions
//   cmake --build build/dimensions && build/dimensions/07_texture_readonly
//
//   1  read_linear           1D, plain memory: an index
//   2  read_1d               1D, array: a coordinate
//   3  read_2d               2D, pitched memory or array
//   4  read_3d               3D
//   5  read_1d_layered       rows that are numbered
//   6  read_2d_layered       planes that are numbered
//   7  read_cubemap          six faces, by a direction
//   8  read_cubemap_layered  numbered cubemaps
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "../framework/common/experiment.hpp"
#include "texture.cuh"

using namespace samples;

namespace {

struct Extent {
  int width, height, depth;  ///< depth: slices, layers or faces, six to a cube; what lacks is 1
  __host__ __device__ int texels() const { return width * height * depth; }
};

// ---- kernels: a warp reads 32 texels that follow each other in the source's order, x fastest, and
// writes them in that order. Texel i reaches from i to i + 1: its centre is at i + 0.5 ----

// Plain memory is counted, not measured: no filter, no edge.
template <class T>
__global__ void read_linear(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x)
    out[i] = tex1Dfetch<T>(tex, i);
}

// A row in the GPU's own order.
template <class T>
__global__ void read_1d(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x)
    out[i] = tex1D<T>(tex, i + 0.5f);
}

// [read_2d]
// The lanes' texels lie in a row of the image, and at its end in the next.
template <class T>
__global__ void read_2d(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x) {
    const int x = i % size.width, y = i / size.width;
    out[i] = tex2D<T>(tex, x + 0.5f, y + 0.5f);
  }
}
// [/read_2d]

// Slice z is measured, too: a filter would blend two of them.
template <class T>
__global__ void read_3d(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x) {
    const int x = i % size.width, y = i / size.width % size.height;
    const int z = i / size.width / size.height;
    out[i] = tex3D<T>(tex, x + 0.5f, y + 0.5f, z + 0.5f);
  }
}

// A layer is counted: an integer.
template <class T>
__global__ void read_1d_layered(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x)
    out[i] = tex1DLayered<T>(tex, i % size.width + 0.5f, i / size.width);
}

// [read_2d_layered]
template <class T>
__global__ void read_2d_layered(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x) {
    const int x = i % size.width, y = i / size.width % size.height;
    const int layer = i / size.width / size.height;
    out[i] = tex2DLayered<T>(tex, x + 0.5f, y + 0.5f, layer);
  }
}
// [/read_2d_layered]

/// Where to look from the middle of a cube to see place (u, v) of a face, each from -1 to 1.
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
__global__ void read_cubemap(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x) {
    const int x = i % size.width, y = i / size.width % size.width;
    const int face = i / size.width / size.width;
    const float3 to = face_direction(face, centre(x, size.width), centre(y, size.width));
    out[i] = texCubemap<T>(tex, to.x, to.y, to.z);
  }
}

template <class T>
__global__ void read_cubemap_layered(T* out, cudaTextureObject_t tex, Extent size) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size.texels();
       i += gridDim.x * blockDim.x) {
    const int x = i % size.width, y = i / size.width % size.width;
    const int face = i / size.width / size.width % 6, layer = i / size.width / size.width / 6;
    const float3 to = face_direction(face, centre(x, size.width), centre(y, size.width));
    out[i] = texCubemapLayered<T>(tex, to.x, to.y, to.z, layer);
  }
}

// ---- the nine kinds ----

/// 1D and 2D textures stand on plain memory or on an array, the others on arrays.
enum class Kind {
  linear_1d,
  array_1d,
  pitched_2d,
  array_2d,
  array_3d,
  layered_1d,
  layered_2d,
  cubemap,
  layered_cubemap
};

template <class T>
void read_back(Kind kind, T* out, cudaTextureObject_t tex, Extent size) {
  switch (kind) {
    case Kind::linear_1d:
      return read_linear<<<3, 96>>>(out, tex, size);
    case Kind::array_1d:
      return read_1d<<<3, 96>>>(out, tex, size);
    case Kind::pitched_2d:
    case Kind::array_2d:
      return read_2d<<<3, 96>>>(out, tex, size);
    case Kind::array_3d:
      return read_3d<<<3, 96>>>(out, tex, size);
    case Kind::layered_1d:
      return read_1d_layered<<<3, 96>>>(out, tex, size);
    case Kind::layered_2d:
      return read_2d_layered<<<3, 96>>>(out, tex, size);
    case Kind::cubemap:
      return read_cubemap<<<3, 96>>>(out, tex, size);
    case Kind::layered_cubemap:
      return read_cubemap_layered<<<3, 96>>>(out, tex, size);
  }
}

struct KindOfTexture {
  Kind kind;
  const char *key, *words;
  int header, text;           ///< number of its type, in the header and in the text
  const char* fetch;          ///< what reaches texel (x, y, z)
  std::vector<Extent> sizes;  ///< one texel, odd, prime; one layer and several
};
const std::vector<Extent> rows{{1, 1, 1}, {7, 1, 1}, {1009, 1, 1}},
    images{{1, 1, 1}, {5, 3, 1}, {33, 17, 1}};
const KindOfTexture kinds[] = {
    {Kind::linear_1d, "linear_1d", "1D, linear memory", cudaTextureType1D, 1, "tex1Dfetch(x)",
     rows},
    {Kind::array_1d, "array_1d", "1D, array", cudaTextureType1D, 1, "tex1D(x + 0.5)", rows},
    {Kind::pitched_2d, "pitched_2d", "2D, pitched memory", cudaTextureType2D, 2,
     "tex2D(x + 0.5, y + 0.5)", images},
    {Kind::array_2d, "array_2d", "2D, array", cudaTextureType2D, 2, "tex2D(x + 0.5, y + 0.5)",
     images},
    {Kind::array_3d,
     "array_3d",
     "3D",
     cudaTextureType3D,
     3,
     "tex3D(x + 0.5, y + 0.5, z + 0.5)",
     {{1, 1, 1}, {5, 3, 7}}},
    {Kind::layered_1d,
     "layered_1d",
     "1D layered",
     cudaTextureType1DLayered,
     4,
     "tex1DLayered(x + 0.5, z)",
     {{7, 1, 1}, {1009, 1, 3}}},
    {Kind::layered_2d,
     "layered_2d",
     "2D layered",
     cudaTextureType2DLayered,
     5,
     "tex2DLayered(x + 0.5, y + 0.5, z)",
     {{1, 1, 1}, {5, 3, 1}, {33, 17, 3}}},
    {Kind::cubemap,
     "cubemap",
     "cubemap",
     cudaTextureTypeCubemap,
     6,
     "texCubemap(face z)",
     {{1, 1, 6}, {8, 8, 6}, {17, 17, 6}}},
    {Kind::layered_cubemap,
     "layered_cubemap",
     "cubemap layered",
     cudaTextureTypeCubemapLayered,
     7,
     "texCubemapLayered(face z % 6, z / 6)",
     {{1, 1, 6}, {8, 8, 6}, {17, 17, 12}}}};

bool is_cube(Kind kind) { return kind == Kind::cubemap || kind == Kind::layered_cubemap; }

/// Makes a texture of this kind and hands it to `use`. It holds `texels`, x fastest, unless there
/// are none.
template <class T, class Use>
void with_texture(Kind kind, Extent e, const std::vector<T>& texels, Use&& use) {
  const auto go = [&](auto& memory, auto&& resource_of) {
    if (!texels.empty()) memory.copy_from(texels);
    // a direction is not counted in texels: cubemaps want the normalised kind of coordinates
    use(Texture(resource_of(memory),
                texture_desc(cudaAddressModeClamp, cudaFilterModePoint, is_cube(kind))));
  };
  if (kind == Kind::linear_1d) {
    DeviceBuffer<T> memory(e.texels());
    return go(memory, [](auto& m) {
      return linear_resource(m.data(), cudaCreateChannelDesc<T>(), m.bytes());
    });
  }
  if (kind == Kind::pitched_2d) {
    PitchedBuffer<T> memory(e.width, e.height);
    return go(memory, [](auto& m) { return pitched_resource(m); });
  }
  // in an array's extent a dimension that it lacks is 0; layers and faces are counted in the depth
  const bool layered =
      kind == Kind::layered_1d || kind == Kind::layered_2d || kind == Kind::layered_cubemap;
  const bool thin = kind == Kind::array_1d || kind == Kind::layered_1d,
             flat = kind == Kind::array_1d || kind == Kind::array_2d;
  CudaArray array =
      CudaArray::of<T>({size_t(e.width), thin ? 0 : size_t(e.height), flat ? 0 : size_t(e.depth)},
                       (layered ? cudaArrayLayered : 0) | (is_cube(kind) ? cudaArrayCubemap : 0));
  go(array, [](auto& m) { return array_resource(m); });
}

/// Texels whose every channel is a hash of its place: all bits of an integer, a whole number of 24
/// bits as a float.
template <class T>
std::vector<T> source(size_t n) {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc<T>();
  const size_t bytes = desc.x / 8;
  std::vector<T> texels(n);
  for (unsigned i = 0; i < n * sizeof(T) / bytes; ++i) {
    const unsigned mixed = (i + 1) * 0x9e3779b1u, word = mixed ^ mixed >> 15;
    const float number = float(int(word) >> 8);
    const void* from =
        desc.f == cudaChannelFormatKindFloat ? static_cast<const void*>(&number) : &word;
    std::memcpy(reinterpret_cast<char*>(texels.data()) + i * bytes, from, bytes);
  }
  return texels;
}

/// How many of what came back equal what was sent, bit for bit.
template <class T>
int count_equal(const std::vector<T>& sent, const std::vector<T>& read) {
  int equal = 0;
  for (size_t i = 0; i < sent.size(); ++i) equal += std::memcmp(&read[i], &sent[i], sizeof(T)) == 0;
  return equal;
}

constexpr size_t canaries = 64;  // elements behind the output

/// Whether all bytes are those of a poisoned buffer.
template <class T>
bool still_poisoned(const T* first, size_t count) {
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(first);
  return std::count(bytes, bytes + count * sizeof(T), 0xff) == long(count * sizeof(T));
}

/// How many texels of all sizes come back as they went in. None of a size behind which something
/// was written.
template <class T>
int equal_texels(const KindOfTexture& k) {
  int equal = 0;
  for (const Extent& size : k.sizes) {
    const std::vector<T> sent = source<T>(size.texels());
    DeviceBuffer<T> out(sent.size() + canaries);
    out.poison();
    with_texture(k.kind, size, sent, [&](cudaTextureObject_t tex) {
      read_back(k.kind, out.data(), tex, size);
      CUDA_CHECK_LAUNCH();
      const std::vector<T> read = out.to_host();
      if (still_poisoned(read.data() + sent.size(), canaries)) equal += count_equal(sent, read);
    });
  }
  return equal;
}
int all_texels(const KindOfTexture& k) {
  int all = 0;
  for (const Extent& size : k.sizes) all += size.texels();
  return all;
}

struct ElementType {
  const char* name;
  int (*equal[3])(const KindOfTexture&);  ///< one, two and four channels; three do not exist
};
const ElementType element_types[] = {
    {"char", {equal_texels<signed char>, equal_texels<char2>, equal_texels<char4>}},
    {"uchar", {equal_texels<unsigned char>, equal_texels<uchar2>, equal_texels<uchar4>}},
    {"short", {equal_texels<short>, equal_texels<short2>, equal_texels<short4>}},
    {"ushort", {equal_texels<unsigned short>, equal_texels<ushort2>, equal_texels<ushort4>}},
    {"int", {equal_texels<int>, equal_texels<int2>, equal_texels<int4>}},
    {"uint", {equal_texels<unsigned>, equal_texels<uint2>, equal_texels<uint4>}},
    {"float", {equal_texels<float>, equal_texels<float2>, equal_texels<float4>}}};

/// The largest extent of bytes, each dimension by itself (3D may be deeper where it is narrower).
Extent largest(Kind kind, const Device& device) {
  const cudaDeviceProp& p = device.prop;
  size_t linear = 0;
  const cudaChannelFormatDesc byte = cudaCreateChannelDesc<unsigned char>();
  CUDA_CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&linear, &byte, device.number));
  if (kind == Kind::linear_1d) return {int(linear), 1, 1};
  if (kind == Kind::array_1d) return {p.maxTexture1D, 1, 1};
  if (kind == Kind::pitched_2d) return {p.maxTexture2DLinear[0], p.maxTexture2DLinear[1], 1};
  if (kind == Kind::array_2d) return {p.maxTexture2D[0], p.maxTexture2D[1], 1};
  if (kind == Kind::array_3d)
    return {p.maxTexture3D[0], p.maxTexture3D[1],
            std::max(p.maxTexture3D[2], p.maxTexture3DAlt[2])};
  if (kind == Kind::layered_1d) return {p.maxTexture1DLayered[0], 1, p.maxTexture1DLayered[1]};
  if (kind == Kind::layered_2d)
    return {p.maxTexture2DLayered[0], p.maxTexture2DLayered[1], p.maxTexture2DLayered[2]};
  if (kind == Kind::cubemap) return {p.maxTextureCubemap, p.maxTextureCubemap, 6};
  return {p.maxTextureCubemapLayered[0], p.maxTextureCubemapLayered[0],
          p.maxTextureCubemapLayered[1] / 6 * 6};
}

/// `more` than the largest in one dimension, and in the others as little as can be.
std::vector<Extent> near_limit(Kind kind, Extent most, int more) {
  if (is_cube(kind))
    return {{most.width + more, most.width + more, 6}, {1, 1, most.depth + 6 * more}};
  std::vector<Extent> extents{{most.width + more, 1, 1}};
  if (most.height > 1) extents.push_back({1, most.height + more, 1});
  if (most.depth > 1) extents.push_back({1, 1, most.depth + more});
  return extents;
}

/// What the driver answers: cudaSuccess, or the error, which is cleared.
cudaError_t answer(auto&& call) {
  try {
    call();
    return cudaSuccess;
  } catch (const CudaError& error) {
    return error.code;
  }
}
cudaError_t answer_to(Kind kind, Extent e) {
  return answer([&] { with_texture<unsigned char>(kind, e, {}, [](cudaTextureObject_t) {}); });
}

/// Of extents that are one too large in one dimension, how many are refused.
int refused(const KindOfTexture& k, Extent most) {
  int count = 0;
  for (const Extent& e : near_limit(k.kind, most, 1)) count += answer_to(k.kind, e) != cudaSuccess;
  return count;
}

cudaError_t answer_to_array(const cudaChannelFormatDesc& desc, cudaExtent extent, unsigned flags) {
  return answer([&] { CudaArray(desc, extent, flags); });
}

/// Calls that no device takes.
struct WrongCall {
  const char *key, *words;
  cudaError_t (*answered)();
};
const cudaChannelFormatDesc of_floats = cudaCreateChannelDesc<float>();
const WrongCall wrong_calls[] = {
    {"doubles", "texels of double",
     [] {
       return answer_to_array(cudaCreateChannelDesc<double>(), {8, 0, 0}, 0);
     }},
    {"three_floats", "texels of three floats",
     [] {
       return answer_to_array({32, 32, 32, 0, cudaChannelFormatKindFloat}, {8, 0, 0}, 0);
     }},
    {"oblong_cubemap", "a cubemap that is not square",
     [] {
       return answer_to_array(of_floats, {8, 4, 6}, cudaArrayCubemap);
     }},
    {"misaligned", "linear memory off its alignment",
     [] {
       const DeviceBuffer<float> memory(4096);
       return answer([&] { Texture(linear_resource(memory.data() + 1, of_floats, 64)); });
     }},
    {"misaligned_pitch", "a pitch off its alignment", [] {
       const DeviceBuffer<float> memory(4096);
       return answer([&] { Texture(pitched_resource(memory.data(), of_floats, 8, 2, 516)); });
     }}};

/// Which texel a direction meets, counted over all faces: the component of the largest magnitude
/// tells the face, the two others, divided by it, the place on the face.
int texel_seen(float3 d, int width) {
  const float ax = std::abs(d.x), ay = std::abs(d.y), az = std::abs(d.z),
              most = std::max({ax, ay, az});
  const int face = most == ax   ? (d.x > 0 ? 0 : 1)
                   : most == ay ? (d.y > 0 ? 2 : 3)
                   : d.z > 0    ? 4
                                : 5;
  const float u[] = {-d.z, d.z, d.x, d.x, d.x, -d.x}, v[] = {-d.y, -d.y, d.z, -d.z, -d.y, -d.y};
  const auto at = [&](float place) { return int((place / most + 1) / 2 * float(width)); };
  return (face * width + at(v[face])) * width + at(u[face]);
}

int led_back(int width) {  // how many directions to texels do
  int right = 0;
  for (int i = 0; i < 6 * width * width; ++i) {
    const float u = centre(i % width, width), v = centre(i / width % width, width);
    right += texel_seen(face_direction(i / width / width, u, v), width) == i;
  }
  return right;
}

// ---- the experiment ----

void show_kinds(const Run& run) {
  Table table(run.report, "kind",
              {shown("type's number"), shown("in the text"), shown("texel (x, y, z) is at")});
  for (const KindOfTexture& k : kinds) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "0x%02x", unsigned(k.header));
    table.row({k.key, "", "", k.words}, {hex, std::to_string(k.text), k.fetch});
  }
  table.print();
  run.report.note("z counts layers, of cubemaps faces: +x, -x, +y, -y, +z, -z");
  run.report.note("by the rule of the largest component " + std::to_string(led_back(17)) + " of " +
                  std::to_string(6 * 17 * 17) +
                  " directions to texels of a 17 x 17 cubemap lead back");
}

void show_what_comes_back(const Run& run) {
  std::vector<Column> columns{counted("texels", "texels", "", 0)};
  for (const ElementType& type : element_types)
    columns.push_back(counted(type.name, type.name, "", 0));
  Table table(run.report, "come back equal, as 1, 2 and 4", columns);
  for (const KindOfTexture& k : kinds) {
    const double texels = 3.0 * all_texels(k);
    std::vector<Cell> cells(1, texels);
    for (const ElementType& type : element_types)
      cells.emplace_back(ask_for_table(run, k.key, type.name, "", [&] {
                           const int equal = type.equal[0](k) + type.equal[1](k) + type.equal[2](k);
                           require_right(equal == texels,
                                         std::string(k.words) + " of " + type.name);
                           return single(equal);
                         }).median);
    table.row({k.key, "", "", k.words}, cells);
  }
  table.print();
}

void show_limits(const Run& run) {
  Table table(
      run.report, "at most, each by itself",
      {counted("width", "largest width", "", 0), counted("height", "largest height", "", 0),
       counted("depth", "largest depth", "", 0), counted("one more: tried", "larger by one", "", 0),
       counted("refused", "larger by one and refused", "", 0)});
  for (const KindOfTexture& k : kinds) {
    const auto asked = [&](const char* metric, int Extent::*side) {
      return ask_for_table(run, k.key, metric, "",
                           [&] { return single(largest(k.kind, *run.device).*side); })
          .median;
    };
    const double width = asked("largest width", &Extent::width),
                 height = asked("largest height", &Extent::height),
                 depth = asked("largest depth", &Extent::depth);
    const Extent most{int(width), int(height), int(depth)};
    const double refusals = ask_for_table(run, k.key, "larger by one and refused", "", [&] {
                              return single(refused(k, most));
                            }).median;
    table.row({k.key, "", "", k.words},
              {width, height, depth, double(near_limit(k.kind, most, 1).size()), refusals});
  }
  table.print();
}

void show_wrong_calls(const Run& run) {
  Table table(run.report, "wrong calls", {counted("answer", "answer", "", 0), shown("its name")});
  for (const WrongCall& call : wrong_calls) {
    const double code =
        ask_for_table(run, call.key, "answer", "", [&] { return single(call.answered()); }).median;
    table.row({call.key, "", "", call.words},
              {code, std::isnan(code) ? "" : cudaGetErrorName(cudaError_t(int(code)))});
  }
  table.print();
}

void run_dimensions(const Run& run) {
  run.report.begin("dimensions", "all kinds of texture, each with 21 types of element");
  show_kinds(run);
  if (!run.device)
    return run.report.left_out("the textures, what comes back of them, and the device's limits");
  show_what_comes_back(run);
  show_limits(run);
  show_wrong_calls(run);
  const cudaDeviceProp& p = run.device->prop;
  if (p.textureAlignment > 0)  // of a GPU that was recorded it is not known
    run.report.note("linear and pitched memory begins at a multiple of " +
                    std::to_string(p.textureAlignment) + " bytes, pitches are multiples of " +
                    std::to_string(p.texturePitchAlignment));
}

}  // namespace

extern const Experiment dimensions_experiment{
    .name = "dimensions",
    .about = "all kinds of texture, created, read back and compared",
    .run = run_dimensions};
