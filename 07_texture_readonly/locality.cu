// locality: "threads in a warp that use texture memory to access 2D data will achieve the best
// performance", says the wiki [LC]; the study of 2007 [BW] hoped that textures would read columns
// far faster; the lectures [PR] give interpolation and 2D reads to textures, 4-byte reads to the
// read-only path. Here an image is read by nine walks, each by loads, through a texture of an array
// (whose texels the GPU keeps in an order of its own) and through one of the same rows. Look at
// what limits each: banks of L1, requests to L2, or the texture units.
//   cmake -S 07_texture_readonly -B build/locality -DEXPERIMENTS=locality
//   cmake --build build/locality && build/locality/07_texture_readonly
//
//   1  read_rows             loads, by any walk (by_row, by_column ...: in walks.cuh)
//   2  read_rows_ldg         1 by __ldg
//   3  fetch                 1 through a texture
//   4  stencil_rows          nine loads for each texel
//   5  stencil_fetch         4 through a texture
//   6  interpolate_rows      four loads, and the interpolation, for each texel
//   7  interpolate_rows_ldg  6 by __ldg
//   8  interpolate_fetch     6 by one filtered fetch
#include "../common/counters.hpp"
#include "options.hpp"
#include "texture.cuh"
#include "walks.cuh"

namespace {

// ---- kernels: a thread adds up what it reads at its eight places, into out[tile * threads + tid].
// A place outside of the image, where a tile hangs over, is read at the edge and not added, so that
// no read waits for a condition. ----

// [read_rows]
// All eight loads are under way before the first addition. What a warp's 32 lanes want is the
// walk's: by_row 4 sectors of 32 bytes, by_column 32.
template <Place walk>
__global__ void read_rows(float* out, const float* rows, size_t stride, unsigned n,
                          unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = rows[min(p.y, n - 1) * stride + min(p.x, n - 1)];
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n) sum += word[k];
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}
// [/read_rows]

// The same on the read-only path.
template <Place walk>
__global__ void read_rows_ldg(float* out, const float* rows, size_t stride, unsigned n,
                              unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = __ldg(&rows[min(p.y, n - 1) * stride + min(p.x, n - 1)]);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n) sum += word[k];
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// [fetch]
// The texture unit takes four lanes at a time: eight requests of a warp. Texel i reaches from i to
// i + 1, so its centre is at i + 0.5.
template <Place walk>
__global__ void fetch(float* out, cudaTextureObject_t image, unsigned n, unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    word[k] = tex2D<float>(image, min(p.x, n - 1) + 0.5f, min(p.y, n - 1) + 0.5f);
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n) sum += word[k];
  }
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
// loads of two places are under way at once.
template <Place walk>
__global__ void interpolate_rows(float* out, const float* rows, size_t stride, unsigned n,
                                 unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
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
      a[k] = here[x];
      b[k] = here[right];
      c[k] = below[x];
      d[k] = below[right];
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
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// The same on the read-only path.
template <Place walk>
__global__ void interpolate_rows_ldg(float* out, const float* rows, size_t stride, unsigned n,
                                     unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
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
      a[k] = __ldg(&here[x]);
      b[k] = __ldg(&here[right]);
      c[k] = __ldg(&below[x]);
      d[k] = __ldg(&below[right]);
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
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

// One fetch: addresses, edge and mixtures are the texture unit's.
template <Place walk>
__global__ void interpolate_fetch(float* out, cudaTextureObject_t image, unsigned n,
                                  unsigned tiles) {
  const unsigned tile = tile_of(blockIdx.x, tiles);
  float word[steps];
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    const unsigned x = min(p.x, n - 1), y = min(p.y, n - 1);
    word[k] = tex2D<float>(image, x + 0.5f + 0.25f * quarters_beyond(x),
                           y + 0.5f + 0.25f * quarters_beyond(y));
  }
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < steps; ++k) {
    const Texel p = walk(tile, threadIdx.x, k, n);
    if (p.x < n && p.y < n) sum += word[k];
  }
  out[size_t(tile) * threads + threadIdx.x] = sum;
}

__global__ void fill(float* rows, size_t stride, unsigned n) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned y = blockIdx.y; y < n && x < n; y += gridDim.y)
    rows[y * stride + x] = float(value_of(x, y));
}

}  // namespace

namespace {

/// n x n texels as rows and as an array, and textures of both.
struct Image {
  unsigned n;
  size_t stride;  ///< words from row to row
  DeviceBuffer<float> rows;
  CudaArray array = CudaArray::of<float>({n, n, 0});
  std::vector<Texture> textures;  ///< of the array, point and linear; of the rows, the same

  Image(unsigned n, size_t stride) : n(n), stride(stride), rows((n - 1) * stride + n) {
    fill<<<dim3(parts(n, 256), std::min(n, 4096u)), 256>>>(rows.data(), stride, n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaMemcpy2DToArray(array, 0, 0, rows.data(), stride * sizeof(float),
                                   n * sizeof(float), n, cudaMemcpyDefault));
    const cudaResourceDesc pitched =
        pitched_resource(rows.data(), cudaCreateChannelDesc<float>(), n, n, stride * sizeof(float));
    for (const cudaResourceDesc& resource : {array_resource(array), pitched})
      for (const auto filter : {cudaFilterModePoint, cudaFilterModeLinear})
        textures.emplace_back(resource, texture_desc(cudaAddressModeClamp, filter));
  }
};

/// Words from row to row as cudaMallocPitch would have them: whole pieces of 512 bytes.
size_t even_stride(unsigned n) { return parts(n, 128) * size_t(128); }
/// The control: an odd number of sectors, so that the texels of a column lie in several banks.
size_t odd_stride(unsigned n) { return (parts(n, 8) | 1u) * size_t(8); }

// ---- the story in order ----

enum PathNumber { plain, read_only, array_texture, pitched_texture };
const char* const path_names[] = {"loads", "__ldg", "array", "pitched"};

bool is_texture(int path) { return path == array_texture || path == pitched_texture; }

struct Launch {
  unsigned blocks, tiles;
};

template <Place walk>
void read_points(int path, const Image& m, float* out, Launch l) {
  if (path == plain)
    read_rows<walk><<<l.blocks, threads>>>(out, m.rows.data(), m.stride, m.n, l.tiles);
  if (path == read_only)
    read_rows_ldg<walk><<<l.blocks, threads>>>(out, m.rows.data(), m.stride, m.n, l.tiles);
  if (is_texture(path))
    fetch<walk>
        <<<l.blocks, threads>>>(out, m.textures[path == array_texture ? 0 : 2], m.n, l.tiles);
}

void read_stencil(int path, const Image& m, float* out, Launch l) {
  if (path == plain)
    stencil_rows<by_32x8><<<l.blocks, threads>>>(out, m.rows.data(), m.stride, m.n, l.tiles);
  if (is_texture(path))
    stencil_fetch<by_32x8>
        <<<l.blocks, threads>>>(out, m.textures[path == array_texture ? 0 : 2], m.n, l.tiles);
}

void interpolate(int path, const Image& m, float* out, Launch l) {
  if (path == plain)
    interpolate_rows<by_8x4><<<l.blocks, threads>>>(out, m.rows.data(), m.stride, m.n, l.tiles);
  if (path == read_only)
    interpolate_rows_ldg<by_8x4><<<l.blocks, threads>>>(out, m.rows.data(), m.stride, m.n, l.tiles);
  if (is_texture(path))
    interpolate_fetch<by_8x4>
        <<<l.blocks, threads>>>(out, m.textures[path == array_texture ? 1 : 3], m.n, l.tiles);
}

struct Case {
  Walk walk;
  Kind kind;
  double instructions;  ///< of a warp for 32 texels by loads, as compiled for 9.0; 0: few
  bool by_ldg;          ///< timed on the read-only path as well
  void (*launch)(int path, const Image&, float* out, Launch);
};

const Case cases[] = {
    {in_image<taker_by_row>("row", 2048, 1, by_row), Kind::point, 0, true, read_points<by_row>},
    {in_image<taker_by_column>("column", 1, 2048, by_column), Kind::point, 0, false,
     read_points<by_column>},
    {in_image<taker_aside>("column aside", 8, 256, aside), Kind::point, 0, false,
     read_points<aside>},
    {in_image<taker_by_8x4>("8 x 4", 32, 64, by_8x4), Kind::point, 0, true, read_points<by_8x4>},
    {in_image<taker_by_4x8>("4 x 8", 32, 64, by_4x8), Kind::point, 0, true, read_points<by_4x8>},
    {in_image<taker_by_16x16>("16 x 16", 16, 128, by_16x16), Kind::point, 0, true,
     read_points<by_16x16>},
    {in_image<taker_by_32x8>("3 x 3 stencil", 32, 64, by_32x8), Kind::stencil, 74, false,
     read_stencil},
    {in_image<taker_by_8x4>("bilinear", 32, 64, by_8x4), Kind::bilinear, 50, true, interpolate},
    {{"random", 0, 0, 0, anywhere, add_anywhere, nullptr},
     Kind::point,
     0,
     false,
     read_points<anywhere>},
};
enum CaseNumber { row, column, column_aside, p8x4, p4x8, p16x16, stencil, bilinear, random_reads };

/// A case on a path.
struct Row {
  int number, path;
  const Case& way() const { return cases[number]; }
  std::string name() const { return std::string(way().walk.name) + ", " + path_names[path]; }
};

Path path_of(const Row& row) { return is_texture(row.path) ? Path::fetches : Path::loads; }

/// The rows of a table, in the order of the story.
std::vector<Row> rows_of(bool with_ldg) {
  std::vector<Row> rows;
  for (int number = 0; number < int(std::size(cases)); ++number)
    for (int path = plain; path <= pitched_texture; ++path)
      if (path != read_only || (with_ldg && cases[number].by_ldg)) rows.push_back({number, path});
  return rows;
}

size_t most_threads(unsigned n) {
  size_t most = 0;
  for (const Case& way : cases) most = std::max(most, size_t(way.walk.tiles(n)) * threads);
  return most;
}

/// An image, and what is made of it.
struct Work {
  Image image;
  Sums sums;
  unsigned passes;  ///< of a launch over the image

  Work(unsigned n, size_t stride, unsigned passes = 1)
      : image(n, stride), sums(most_threads(n)), passes(passes) {}
  Task task(const Row& row) {
    const Walk& walk = row.way().walk;
    const unsigned tiles = walk.tiles(image.n);
    const auto launch = [this, row, tiles] {
      row.way().launch(row.path, image, sums.out.data(), {tiles * passes, tiles});
    };
    return sums.task(row.name(), walk, row.way().kind, image.n, launch);
  }
  double bytes() const { return 4.0 * image.n * image.n; }
};

// ---- what to expect ----

Cost cost_of(const Row& row, unsigned n, size_t stride) {
  return cost_of(row.way().walk, row.way().kind, path_of(row), row.path == array_texture, n,
                 stride);
}

Expected32 expected_gbs(const Row& row, const Cost& cost, From from, const Calibrated& c,
                        const Device& device) {
  return expected_gbs(row.way().walk, path_of(row), cost, from, row.way().instructions, c, device);
}

// ---- the experiment ----

/// An image's rows and their times.
struct Results {
  From from;
  const char* where;
  unsigned n;
  size_t stride;
  double bytes;  ///< of texels that a launch reads, each counted once a pass
  std::vector<Row> rows;
  std::vector<Readings> times;

  const Readings& of(int number, int path) const {
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i].number == number && rows[i].path == path) return times[i];
    throw std::logic_error(Row{number, path}.name() + " was not timed");
  }
  double gbs(int number, int path) const { return 1e-6 * bytes / of(number, path).median(); }
};

Results measure(const Run& run, Work& work, From from, const char* where, bool with_ldg) {
  Results found{
      from, where, work.image.n, work.image.stride, work.bytes() * work.passes, rows_of(with_ldg),
      {}};
  std::vector<Task> tasks;
  for (const Row& row : found.rows) tasks.push_back(work.task(row));
  found.times = run.time_in_turn(tasks);
  return found;
}

/// Takes from the rows of an image what they calibrate.
void calibrate(Calibrated& c, const Results& found) {
  if (found.from == From::l2) {
    c.l2_gbs = found.gbs(row, plain);
    const double loads_ns = found.gbs(random_reads, plain) / (32 * 4);  // of warps
    c.requests_ns = loads_ns * cost_of({random_reads, plain}, found.n, found.stride).to_l2;
    return;
  }
  c.memory_gbs = found.gbs(row, plain);
  c.lone_gbs = found.gbs(random_reads, plain);
  c.fetch_gbs = found.gbs(row, pitched_texture);
}

/// Whether a row gives a constant of the model, of the image that calibrates.
bool calibrates(const Row& r, From from) {
  if (r.path == plain) return r.number == row || r.number == random_reads;
  return from == From::memory && r.number == row && r.path == pitched_texture;
}

/// `calibrating`: its rows gave the constants; else they are predicted like all others.
void show(const Run& run, const Results& found, const Calibrated& c, bool calibrating) {
  Table table(run.report, "walk, path",
              {compared("GB/s", "rate", "GB/s", 0), shown("spread"), shown("limited by"),
               predicted("sectors", "sectors of 32 texels", "", 1),
               predicted("banks", "passes of 32 texels", "", 1),
               predicted("to L2", "requests to L2 of 32 texels", "", 1), shown("")});
  // of the control column aside misses by 1.8, and why was not found out: no test holds its rows
  const Model held = calibrating ? model_of(*run.device) : Model::host;
  for (size_t i = 0; i < found.rows.size(); ++i) {
    const Row& r = found.rows[i];
    const Cost cost = cost_of(r, found.n, found.stride);
    const Expected32 expected = expected_gbs(r, cost, found.from, c, *run.device);
    const Statistics gbs = gigabytes_per_second(found.bytes, found.times[i].statistics());
    const bool constant = calibrating && calibrates(r, found.from);
    Cell rate = Compared{expected.gbs, gbs, held};
    if (constant) rate = Calibration{gbs};
    table.row({r.name(), "image", found.where},
              {rate, spread_text(gbs), constant ? "" : expected.limit, cost.sectors,
               is_texture(r.path) ? NAN : cost.passes, cost.to_l2,
               bar(gbs.median / found.gbs(row, plain))});
  }
  table.print();
}

/// Without a GPU: what 32 texels of each walk ask for.
void show_costs(const Run& run, unsigned n) {
  Table table(run.report, "32 texels want",
              {predicted("sectors in rows", "sectors in rows", "", 1),
               predicted("in an array", "sectors in an array", "", 1),
               predicted("banks", "passes of loads", "", 1),
               predicted("banks, odd rows", "passes of loads, odd rows", "", 1),
               predicted("to L2 from rows", "requests to L2 from rows", "", 1),
               predicted("from an array", "requests to L2 from an array", "", 1)});
  for (int i = 0; i < int(std::size(cases)); ++i) {
    const Cost loads = cost_of(Row{i, plain}, n, even_stride(n));
    const Cost fetches = cost_of(Row{i, array_texture}, n, even_stride(n));
    const double odd = cost_of(Row{i, plain}, n, odd_stride(n)).passes;
    table.row({cases[i].walk.name},
              {loads.sectors, fetches.sectors, loads.passes, odd, loads.to_l2, fetches.to_l2});
  }
  table.print();
}

/// What the claims compare, of one image.
struct Judged {
  const char* where = "";
  std::vector<Interval> patches;  ///< loads over the array texture: 8 x 4, 4 x 8, 16 x 16
  Interval columns;               ///< the same
};

constexpr int patch_cases[] = {p8x4, p4x8, p16x16};

Judged ratios_of(const Results& found) {
  Judged j{found.where, {}, ratio(found.of(column, plain), found.of(column, array_texture))};
  for (const int patch : patch_cases)
    j.patches.push_back(ratio(found.of(patch, plain), found.of(patch, array_texture)));
  return j;
}

const Part local_part{"07.3a", "patches that are local in 2D are read best through textures",
                      "no figure", "the wiki"};
const Part columns_part{"07.3b", "columns are read far faster through textures", "an open question",
                        "the study of 2007"};
const Part mixed_part{"07.6a", "a texture can outperform the read-only path: interpolation",
                      "no figure", "the lectures"};
const Part plane_part{"07.6c", "a texture can outperform the read-only path: 2D reads", "no figure",
                      "the lectures"};
const Part words_part{"07.6e", "the read-only path can outperform textures: 4-byte reads",
                      "no figure", "the lectures"};

/// 07.3, by the images, the control among them. `why_not`: of images that were not measured.
void judge_local(const Run& run, const std::vector<Judged>& images, const std::string& why_not) {
  std::vector<Verdict> patches, columns;
  std::string each, of_columns;
  for (const Judged& image : images) {
    for (size_t i = 0; i < image.patches.size(); ++i) {
      patches.push_back(judge(beats(), image.patches[i]));
      if (&image == images.data())
        each += (i ? ", " : "") + std::string(cases[patch_cases[i]].walk.name) + " " +
                faster(image.patches[i]);
    }
    columns.push_back(judge(much_beats(), image.columns));
    of_columns +=
        (of_columns.empty() ? "" : "; ") + std::string(image.where) + " " + faster(image.columns);
  }
  if (images.empty() || !images[0].columns.measured()) {
    const Interval none = not_measured(why_not);
    run.report.judged(local_part, Verdict::not_judged, none, "");
    return run.report.judged(columns_part, Verdict::not_judged, none, "");
  }
  const auto holding = std::count(patches.begin(), patches.end(), Verdict::holds);
  run.report.judged(local_part, judge_many(patches), images[0].patches[0],
                    each + "; with the control " + std::to_string(holding) + " of " +
                        std::to_string(patches.size()) + " shapes");
  run.report.judged(columns_part, judge_many(columns), images[0].columns, of_columns);
}

/// Two rows that a part compares: how many times as fast is the second?
struct Contest {
  Row slower, faster;
};

/// Of several cases, the texture (or, for `ldg_wins`, the read-only path) that leads the most.
Contest best_of(const Results& found, const std::vector<int>& numbers, bool ldg_wins) {
  Contest best{};
  double most = -1;
  for (const int number : numbers) {
    const double ldg = found.of(number, read_only).median();
    const double array = found.of(number, array_texture).median();
    const double pitched = found.of(number, pitched_texture).median();
    const int texture = array < pitched ? array_texture : pitched_texture;
    const double lead = ldg_wins ? std::min(array, pitched) / ldg : ldg / std::min(array, pitched);
    if (lead <= most) continue;
    most = lead;
    best = {{number, read_only}, {number, texture}};
    if (ldg_wins) std::swap(best.slower, best.faster);
  }
  return best;
}

/// A part of 07.6 and what was measured for it.
struct Answer {
  Part part;
  Interval gain;
  std::string here;
};

/// A winner that was picked is measured again, in fresh pairs.
Answer measure_again(const Run& run, Work& work, const Part& part, const Contest& contest) {
  const std::vector<Readings> times =
      run.time_in_turn({work.task(contest.slower), work.task(contest.faster)});
  const Interval gain = ratio(times[0], times[1]);
  return {part, gain, contest.faster.name() + " " + faster(gain, path_names[contest.slower.path])};
}

/// 07.6, as far as this file measures it. `why_not`: of an image that was too small.
std::vector<Answer> unanswered(const std::string& why_not) {
  std::vector<Answer> all;
  for (const Part& part : {mixed_part, plane_part, words_part})
    all.push_back({part, not_measured(why_not), ""});
  return all;
}
std::vector<Answer> answered(const Run& run, Work& work, const Results& found) {
  const auto again = [&](const Part& part, const std::vector<int>& numbers, bool ldg_wins) {
    return measure_again(run, work, part, best_of(found, numbers, ldg_wins));
  };
  return {again(mixed_part, {bilinear}, false), again(plane_part, {p8x4, p4x8, p16x16}, false),
          again(words_part, {row, p8x4, p4x8, p16x16}, true)};
}
void judge_kinds(const Run& run, const std::vector<Answer>& answers) {
  for (const Answer& a : answers) run.report.judge(a.part, beats(), a.gain, a.here);
}

double bytes_needed(double n) {  // rows, array, sums and what they must be
  const double wide = std::ceil((n + 8) / 128) * 128;
  return 2 * 4 * wide * wide + 2 * 4 * (n * n / steps + 256 * n) + (64 << 20);
}

/// Side of a square of floats of so many bytes, the next that is a multiple of `step`.
unsigned side_of(double bytes, unsigned step) {
  return unsigned(std::ceil(std::sqrt(bytes / 4) / step)) * step;
}

unsigned fitting_side(const Run& run, size_t typed) {
  const double l2 = run.device ? double(run.device->l2_bytes()) : double(60 << 20);
  const unsigned by_default = side_of((run.quick ? 4 : 8) * l2, 2048);
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
                               [](size_t n) { return bytes_needed(double(n)); }));
}

/// A texture cannot stand on rows of any stride.
bool takes_odd_rows(const Device& device) {
  const size_t alignment = device.prop.texturePitchAlignment;
  return alignment > 0 && 32 % alignment == 0;
}

/// An image of a quarter of the L2, over and over: L2's rates, which calibrate.
void within_the_l2(const Run& run, Calibrated& c) {
  const unsigned n = side_of(double(run.device->l2_bytes()) / 4, 256);
  const double enough = run.quick ? 128e6 : 512e6;  // so that the launch itself hardly counts
  Work work(n, even_stride(n), unsigned(enough / (4.0 * n * n)) + 1);
  const Results found = measure(run, work, From::l2, "within the L2", false);
  calibrate(c, found);
  show(run, found, c, true);
}

}  // namespace

void locality_fits(const Run& run, const Options& options) { fitting_side(run, options.size); }

void locality(const Run& run, const Options& options) {
  const unsigned n = fitting_side(run, options.size);
  run.report.begin("locality", std::to_string(n) + " x " + std::to_string(n) + " float, " +
                                   bytes_text(4.0 * n * n));
  if (!run.device) {
    show_costs(run, n);
    run.report.left_out("the walks on a GPU");
    judge_local(run, {}, "");
    judge_kinds(run, unanswered(""));
    return locality_kinds(run, n, {});
  }

  Calibrated c;
  within_the_l2(run, c);
  const bool beyond = beyond_l2(*run.device, 4.0 * n * n);
  const std::string small = "the image is less than four times the L2";
  std::vector<Judged> images;
  std::vector<Answer> answers = unanswered(small);
  {
    Work work(n, even_stride(n));
    const Results found =
        measure(run, work, From::memory, beyond ? "beyond the L2" : "not beyond the L2", true);
    if (beyond) calibrate(c, found);
    show(run, found, c, beyond);
    if (beyond) images.push_back(ratios_of(found));
    if (beyond) answers = answered(run, work, found);
  }
  if (takes_odd_rows(*run.device)) {
    Work work(n, odd_stride(n));
    const Results found = measure(run, work, From::memory, "odd rows", false);
    show(run, found, c, false);
    if (beyond) images.push_back(ratios_of(found));
  } else {
    run.report.left_out("rows that lie an odd number of sectors apart", "no texture takes them");
  }
  run.report.note("calibration: loads and random words from L2 and from memory, fetches by rows");
  judge_local(run, images, small);
  judge_kinds(run, answers);
  locality_kinds(run, n, c);
}
