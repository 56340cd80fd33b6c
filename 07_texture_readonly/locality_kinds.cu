// locality, by kinds of texel: the lectures name normalisation and 3D reads, too, as what textures
// do better than the read-only path [PR]. Here colours of four bytes are read as fractions of 255,
// and a volume by three walks. Look at the walk into the depth, whose lanes lie planes apart.
//   cmake -S 07_texture_readonly -B build/locality -DEXPERIMENTS=locality
//   cmake --build build/locality && build/locality/07_texture_readonly
//
//   1  colours_ldg    four bytes a load, made fractions by the kernel
//   2  colours_fetch  one fetch, made fractions by the texture unit
//   3  volume_ldg     loads from planes of rows
//   4  volume_fetch   fetches from a 3D array
#include "../common/counters.hpp"
#include "../common/report.hpp"
#include "texture.cuh"
#include "walks.cuh"

namespace {

// ---- kernels: a thread adds up what it reads at its eight places, into out[tile * threads + tid].
// Outside of an image it reads at the edge and does not add. ----

// [colours_ldg]
// A load brings four channels of 8 bits. Each has to be converted, and multiplied.
template <Place walk>
__global__ void colours_ldg(float* out, const uchar4* rows, size_t stride, unsigned n,
                            unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  uchar4 word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = __ldg(&rows[min(p.y, n - 1) * stride + min(p.x, n - 1)]);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    const float x = word[k].x * (1 / 255.0f), y = word[k].y * (1 / 255.0f);
    const float z = word[k].z * (1 / 255.0f), w = word[k].w * (1 / 255.0f);
    if (p.x < n && p.y < n) sum += x + 2 * y + 4 * z + 8 * w;
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}
// [/colours_ldg]

// A fetch brings four floats from 0 to 1.
template <Place walk>
__global__ void colours_fetch(float* out, cudaTextureObject_t image, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float4 word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = tex2D<float4>(image, min(p.x, n - 1) + 0.5f, min(p.y, n - 1) + 0.5f);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n) sum += word[k].x + 2 * word[k].y + 4 * word[k].z + 8 * word[k].w;
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// Planes of n x n words. By depth the lanes of a warp are a plane apart: 32 sectors.
template <Place walk>
__global__ void volume_ldg(float* out, const float* planes, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    const unsigned x = min(p.x, n - 1), y = min(p.y, n - 1), z = min(p.z, n - 1);
    word[k] = __ldg(&planes[(size_t(z) * n + y) * n + x]);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n && p.z < n) sum += word[k];
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// [volume_fetch]
// A 3D array has an order of its own, in which neighbours of all three dimensions are near.
template <Place walk>
__global__ void volume_fetch(float* out, cudaTextureObject_t volume, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = tex3D<float>(volume, min(p.x, n - 1) + 0.5f, min(p.y, n - 1) + 0.5f,
                           min(p.z, n - 1) + 0.5f);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n && p.z < n) sum += word[k];
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}
// [/volume_fetch]

__global__ void fill_colours(uchar4* rows, size_t stride, unsigned n) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned y = blockIdx.y; y < n && x < n; y += gridDim.y) {
    const unsigned v = value_of(x, y);
    rows[y * stride + x] =
        make_uchar4(v % 2 * 255, v / 2 % 2 * 255, v / 4 % 2 * 255, v / 8 % 2 * 255);
  }
}

__global__ void fill_volume(float* planes, unsigned n) {
  const size_t all = size_t(n) * n * n, at_once = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < all; i += at_once)
    planes[i] = float(value_of(unsigned(i % n), unsigned(i / n % n), unsigned(i / n / n)));
}

}  // namespace

namespace {

/// Colours of four bytes as rows and as an array, and textures of both that read fractions.
struct Colours {
  unsigned n;
  size_t stride;  ///< texels from row to row
  DeviceBuffer<uchar4> rows;
  CudaArray array = CudaArray::of<uchar4>({n, n, 0});
  std::vector<Texture> textures;  ///< of the array, of the rows

  explicit Colours(unsigned n)
      : n(n), stride(parts(n, 128) * size_t(128)), rows((n - 1) * stride + n) {
    const size_t pitch = stride * sizeof(uchar4), width = n * sizeof(uchar4);
    fill_colours<<<dim3(parts(n, 256), std::min(n, 4096u)), 256>>>(rows.data(), stride, n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaMemcpy2DToArray(array, 0, 0, rows.data(), pitch, width, n, cudaMemcpyDefault));
    const cudaTextureDesc fractions =
        texture_desc(cudaAddressModeClamp, cudaFilterModePoint, false, cudaReadModeNormalizedFloat);
    textures.emplace_back(array_resource(array), fractions);
    textures.emplace_back(
        pitched_resource(rows.data(), cudaCreateChannelDesc<uchar4>(), n, n, pitch), fractions);
  }
};

/// n x n x n floats as planes of rows and as a 3D array, and a texture of that.
struct Volume {
  unsigned n;
  DeviceBuffer<float> planes;
  CudaArray array = CudaArray::of<float>({n, n, n});
  std::vector<Texture> textures;

  explicit Volume(unsigned n) : n(n), planes(size_t(n) * n * n) {
    fill_volume<<<2048, 256>>>(planes.data(), n);
    CUDA_CHECK_LAUNCH();
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(planes.data(), n * sizeof(float), n, n);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(n, n, n);
    copy.kind = cudaMemcpyDefault;
    CUDA_CHECK(cudaMemcpy3D(&copy));
    textures.emplace_back(array_resource(array), texture_desc());
  }
};

// ---- the story in order ----

enum PathNumber { read_only, array_texture, pitched_texture };
const char* const path_names[] = {"__ldg", "array", "pitched"};

template <Place walk>
void read_colours(int path, const Colours& m, float* out, unsigned tiles) {
  if (path == read_only)
    colours_ldg<walk><<<tiles, threads>>>(out, m.rows.data(), m.stride, m.n, tiles);
  else
    colours_fetch<walk><<<tiles, threads>>>(out, m.textures[path - array_texture], m.n, tiles);
}

template <Place walk>
void read_volume(int path, const Volume& m, float* out, unsigned tiles) {
  if (path == read_only)
    volume_ldg<walk><<<tiles, threads>>>(out, m.planes.data(), m.n, tiles);
  else
    volume_fetch<walk><<<tiles, threads>>>(out, m.textures[0], m.n, tiles);
}

/// A walk through one kind of memory.
template <class Memory>
struct Case {
  Walk walk;
  double instructions;  ///< of a warp for 32 texels by loads, as compiled for 9.0
  void (*launch)(int path, const Memory&, float* out, unsigned tiles);
};

const Case<Colours> colour_cases[] = {
    {in_image<taker_by_row>("row", 2048, 1, by_row), 42, read_colours<by_row>},
    {in_image<taker_by_8x4>("8 x 4", 32, 64, by_8x4), 42, read_colours<by_8x4>},
};
const Case<Volume> volume_cases[] = {
    {in_volume<taker_by_8x2x2>("8 x 2 x 2", by_8x2x2), 0, read_volume<by_8x2x2>},
    {in_volume<taker_by_4x4x2>("4 x 4 x 2", by_4x4x2), 0, read_volume<by_4x4x2>},
    {in_volume<taker_by_depth>("by depth", by_depth), 0, read_volume<by_depth>},
};

/// Paths of each: a volume has no pitched texture.
constexpr int colour_paths = 3, volume_paths = 2;

template <class Memory>
size_t most_threads(const Case<Memory>* first, const Case<Memory>* last, unsigned n) {
  size_t most = 0;
  for (; first != last; ++first) most = std::max(most, size_t(first->walk.tiles(n)) * threads);
  return most;
}

template <class Memory>
Task task_of(const Case<Memory>& way, int path, const Memory& memory, Sums& sums, Kind kind) {
  const unsigned tiles = way.walk.tiles(memory.n);
  return sums.task(
      std::string(way.walk.name) + ", " + path_names[path], way.walk, kind, memory.n,
      [&way, path, &memory, &sums, tiles] { way.launch(path, memory, sums.out.data(), tiles); });
}

// ---- what to expect ----

template <class Memory>
Cost cost_of(const Case<Memory>& way, int path, Kind kind, unsigned n, size_t row_words) {
  const Path by = path == read_only ? Path::loads : Path::fetches;
  return cost_of(way.walk, kind, by, path == array_texture, n, row_words);
}

// ---- the experiment ----

/// What a claim compares: of a case's paths the read-only one and the best texture.
struct Contest {
  int number = 0, texture = array_texture;
};

/// The times of all cases on all paths, case by case.
template <class Memory>
std::vector<Readings> measure(const Run& run, const Case<Memory>* cases, int count, int paths,
                              const Memory& memory, Sums& sums, Kind kind) {
  std::vector<Task> tasks;
  for (int i = 0; i < count; ++i)
    for (int path = 0; path < paths; ++path)
      tasks.push_back(task_of(cases[i], path, memory, sums, kind));
  return run.time_in_turn(tasks);
}

/// The case and the texture that lead the read-only path by the most.
Contest best_of(const std::vector<Readings>& times, int paths) {
  Contest best;
  double most = -1;
  for (int i = 0; i < int(times.size()); ++i) {
    if (i % paths == read_only) continue;
    const double lead = times[i / paths * paths].median() / times[i].median();
    if (lead <= most) continue;
    most = lead;
    best = {i / paths, i % paths};
  }
  return best;
}

template <class Memory>
void show(const Run& run, const char* image, const Case<Memory>* cases, int count, int paths,
          unsigned n, size_t row_words, Kind kind, const std::vector<Readings>& times,
          const Calibrated& c) {
  Table table(run.report, "walk, path",
              {compared("GB/s", "rate", "GB/s", 0), shown("spread"), shown("limited by"),
               predicted("sectors", "sectors of 32 texels", "", 1),
               predicted("banks", "passes of 32 texels", "", 1),
               predicted("to L2", "requests to L2 of 32 texels", "", 1)});
  for (int i = 0; i < count * paths; ++i) {
    const Case<Memory>& way = cases[i / paths];
    const int path = i % paths;
    const Cost cost = cost_of(way, path, kind, n, row_words);
    Cell rate, spread, limit;
    if (run.device) {
      const Path by = path == read_only ? Path::loads : Path::fetches;
      const Expected32 expected =
          expected_gbs(way.walk, by, cost, From::memory, way.instructions, c, *run.device);
      const Statistics ms = times[i].statistics();
      const Statistics gbs = gigabytes_per_second(4 * way.walk.texels(n), ms);
      rate = Compared{expected.gbs, gbs, Model::host};  // by depth misses by 1.8: not held
      spread = spread_text(ms);
      limit = expected.limit;
    }
    table.row(
        {std::string(way.walk.name) + ", " + path_names[path], "image", image},
        {rate, spread, limit, cost.sectors, path == read_only ? cost.passes : NAN, cost.to_l2});
  }
  table.print();
}

const Part fractions_part{"07.6b", "a texture can outperform the read-only path: normalisation",
                          "no figure", "the lectures"};
const Part volume_part{"07.6d", "a texture can outperform the read-only path: 3D reads",
                       "no figure", "the lectures"};

/// A winner that was picked is measured again, in fresh pairs.
template <class Memory>
void judge_best(const Run& run, const Part& part, const Case<Memory>* cases, const Contest& best,
                const Memory& memory, Sums& sums, Kind kind) {
  const Case<Memory>& way = cases[best.number];
  const std::vector<Readings> again =
      run.time_in_turn({task_of(way, read_only, memory, sums, kind),
                        task_of(way, best.texture, memory, sums, kind)});
  const Interval gain = ratio(again[0], again[1]);
  run.report.judge(
      part, beats(), gain,
      std::string(way.walk.name) + ", " + path_names[best.texture] + " " + faster(gain, "__ldg"));
}

double volume_bytes(double n) { return 2 * 4 * n * n * n + n * n * n + (64 << 20); }

/// Side of a volume beyond the L2, a multiple of 32.
unsigned side_of_volume(const Run& run) {
  const double l2 = run.device ? double(run.device->l2_bytes()) : double(60 << 20);
  const double texels = (run.quick ? 4.1 : 6) * l2 / 4;
  unsigned n = unsigned(std::ceil(std::cbrt(texels) / 32)) * 32;
  while (n > 32 && volume_bytes(n) > 0.9 * run.memory_there()) n -= 32;
  return n;
}

constexpr int colour_count = int(std::size(colour_cases));
constexpr int volume_count = int(std::size(volume_cases));

void show_colours(const Run& run, unsigned n, const std::vector<Readings>& times,
                  const Calibrated& c) {
  show(run, "colours", colour_cases, colour_count, colour_paths, n, parts(n, 128) * size_t(128),
       Kind::colour, times, c);
}
void show_volume(const Run& run, unsigned n, const std::vector<Readings>& times,
                 const Calibrated& c) {
  show(run, "volume", volume_cases, volume_count, volume_paths, n, n, Kind::point, times, c);
}

void read_fractions(const Run& run, unsigned n, const Calibrated& c) {
  const Colours colours(n);
  Sums sums(most_threads(colour_cases, std::end(colour_cases), n));
  const std::vector<Readings> times =
      measure(run, colour_cases, colour_count, colour_paths, colours, sums, Kind::colour);
  show_colours(run, n, times, c);
  if (!beyond_l2(*run.device, 4.0 * n * n))
    return run.report.not_judged(fractions_part, "the image is less than four times the L2");
  judge_best(run, fractions_part, colour_cases, best_of(times, colour_paths), colours, sums,
             Kind::colour);
}

void read_volumes(const Run& run, const Calibrated& c) {
  const unsigned n = side_of_volume(run);
  const Volume volume(n);
  Sums sums(most_threads(volume_cases, std::end(volume_cases), n));
  const std::vector<Readings> times =
      measure(run, volume_cases, volume_count, volume_paths, volume, sums, Kind::point);
  run.report.note("the volume: " + std::to_string(n) + " x " + std::to_string(n) + " x " +
                  std::to_string(n) + " float, " + bytes_text(4.0 * n * n * n));
  show_volume(run, n, times, c);
  if (!beyond_l2(*run.device, 4.0 * n * n * n))
    return run.report.not_judged(volume_part, "the volume is less than four times the L2");
  judge_best(run, volume_part, volume_cases, best_of(times, volume_paths), volume, sums,
             Kind::point);
}

}  // namespace

void locality_kinds(const Run& run, unsigned n, const Calibrated& c) {
  if (run.device) {
    read_fractions(run, n, c);
    return read_volumes(run, c);
  }
  show_colours(run, n, {}, c);
  show_volume(run, side_of_volume(run), {}, c);
  run.report.judge(fractions_part, beats(), {}, "");
  run.report.judge(volume_part, beats(), {}, "");
}
