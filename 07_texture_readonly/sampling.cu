// sampling: what a texture makes of a coordinate. The lecture has two address modes, clamp and wrap
// for what lies outside, and two filters: point takes a texel, linear interpolates [PR]. There are
// two more modes, mirror and border; coordinates are counted in texels or in widths; and integers
// may be read as fractions of their largest. Look at the modes below, ten lines for all of them, at
// what a row of four texels becomes in each, and at how precise the interpolation is.
//   cmake -S 07_texture_readonly -B build/sampling -DEXPERIMENTS=sampling
//   cmake --build build/sampling && build/sampling/07_texture_readonly
//
//   1  read_row        thread i reads a row of texels at its own place
//   2  read_image      an image
//   3  read_volume     a volume
//   4  fetch_by_index  plain memory, by tex1Dfetch
// sampling_rounding.cu: the appendix, which says what is read to the last bit.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>
#include <set>

#include "../common/report.hpp"
#include "sampling_rounding.hpp"
#include "texture.cuh"

namespace {

// ---- kernels: thread i reads at place i; places of neighbours need not lie near each other ----

// [read_row]
// The kernel hands the texture unit a coordinate. What it means stands in the texture's
// description.
__global__ void read_row(float* out, cudaTextureObject_t row, const float3* at, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1D<float>(row, at[i].x);
}
// [/read_row]

__global__ void read_image(float* out, cudaTextureObject_t image, const float3* at, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(image, at[i].x, at[i].y);
}

__global__ void read_volume(float* out, cudaTextureObject_t volume, const float3* at, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex3D<float>(volume, at[i].x, at[i].y, at[i].z);
}

// By index: there is no coordinate to fold, and no neighbour to blend with.
__global__ void fetch_by_index(float* out, cudaTextureObject_t texels) {
  out[threadIdx.x] = tex1Dfetch<float>(texels, int(threadIdx.x));
}

// ---- what the modes do ----

// [address]
// Address modes: texel i of n, where i may lie outside. A row of 1 4 2 3 goes on as

/// ... 1 1 1 | 1 4 2 3 | 3 3 3 ... : its ends for ever
int clamped(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/// ... 4 2 3 | 1 4 2 3 | 1 4 2 ... : from the beginning
int wrapped(int i, int n) { return (i % n + n) % n; }

/// ... 2 4 1 | 1 4 2 3 | 3 2 4 ... : every second time backwards
int mirrored(int i, int n) {
  const int j = wrapped(i, 2 * n);
  return j < n ? j : 2 * n - 1 - j;
}

/// ... B B B | 1 4 2 3 | B B B ... : the border's value, which the description names
constexpr int border_texel = -1;
int bordered(int i, int n) { return i < 0 || i >= n ? border_texel : i; }
// [/address]

// [filter]
// Filters: place u counts texels, of which texel i reaches from i to i + 1, its centre at i + 0.5.

/// Two neighbours, and the weight of the second.
struct Pick {
  int first, second;
  double alpha;
};

/// The texel in which the place lies.
Pick by_point(double u) {
  const int i = int(std::floor(u));
  return {i, i, 0};
}

/// The two texels between whose centres it lies: half a texel from the left edge all is the left's.
Pick by_linear(double u) {
  const int left = int(std::floor(u - 0.5));
  return {left, left + 1, u - 0.5 - left};
}
// [/filter]

using rounding::Image, rounding::Kind, rounding::Place, rounding::Sampling;

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp,
               mirror = cudaAddressModeMirror, border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;

int addressed(const Sampling& s, int i, int n) {
  if (s.address == border) return bordered(i, n);
  if (s.address == wrap && s.exists()) return wrapped(i, n);
  if (s.address == mirror && s.exists()) return mirrored(i, n);
  return clamped(i, n);  // of texels wrap and mirror do not exist, and CUDA takes clamp
}

/// Coordinate `x` as a place: widths times texels.
double place_of(const Sampling& s, double x, int n) { return s.normalized ? x * n : x; }

/// A texel as it goes into a blend: integers as fractions of their largest.
double texel_at(const Image& image, const Sampling& s, const std::array<int, 3>& i) {
  std::array<int, 3> at;
  for (int d = 0; d < 3; ++d) at[d] = addressed(s, i[d], image.size[d]);
  if (*std::min_element(at.begin(), at.end()) == border_texel) return image.border;
  const double stored = image.stored_at(at);
  return image.kind.largest ? stored / image.kind.largest : stored;
}

/// A fraction that is read is never below -1, though the most negative texel is: -128 of 127.
double as_read(const Image& image, double value) {
  return image.kind.largest ? std::max(-1.0, value) : value;
}

/// What is read at a place by the rules above, in exact numbers: blended along each dimension.
double by_the_rules(const Image& image, const Sampling& s, const Place& at) {
  Pick pick[3] = {};
  for (int d = 0; d < image.dims; ++d) {
    const double u = place_of(s, at[d], image.size[d]);
    pick[d] = s.filter == point ? by_point(u) : by_linear(u);
  }
  double sum = 0;
  for (int corner = 0; corner < 1 << image.dims; ++corner) {
    double weight = 1;
    std::array<int, 3> i{};
    for (int d = 0; d < image.dims; ++d) {
      const bool second = corner >> d & 1;
      weight *= second ? pick[d].alpha : 1 - pick[d].alpha;
      i[d] = second ? pick[d].second : pick[d].first;
    }
    if (weight != 0) sum += weight * texel_at(image, s, i);
  }
  return as_read(image, sum);
}

// ---- what is right: the rules, with the documented precision ----

constexpr double fraction_unit = 1 / 256.;  // "9-bit fixed point with 8 bits of fractional value"

/// The texels that a place may touch if it is a unit off, along each dimension.
struct Near {
  std::array<int, 3> first{}, last{};
};

Near near(const Image& image, const Sampling& s, const Place& at) {
  Near all;
  for (int d = 0; d < image.dims; ++d) {
    const double u = place_of(s, at[d], image.size[d]);
    const bool blends = s.filter == linear;
    all.first[d] = int(std::floor(u - fraction_unit - (blends ? 0.5 : 0)));
    all.last[d] = int(std::floor(u + fraction_unit - (blends ? 0.5 : 0))) + (blends ? 1 : 0);
  }
  return all;
}

/// The smallest and the largest of them, and whether `read` is one of them.
struct Texels {
  double smallest = INFINITY, largest = -INFINITY;
  bool has_read = false;
};

Texels texels_in(const Image& image, const Sampling& s, const Near& near, double read) {
  constexpr double one_rounding = 0x1p-22;  // of a fraction, which is a float
  Texels all;
  for (int z = near.first[2]; z <= near.last[2]; ++z)
    for (int y = near.first[1]; y <= near.last[1]; ++y)
      for (int x = near.first[0]; x <= near.last[0]; ++x) {
        const double texel = texel_at(image, s, {x, y, z});
        all.smallest = std::min(all.smallest, texel);
        all.largest = std::max(all.largest, texel);
        const double away = std::abs(as_read(image, texel) - read);
        all.has_read = all.has_read || away <= (image.kind.largest ? one_rounding : 0);
      }
  return all;
}

/// Point: one of the texels in which the place may lie. Linear: interpolated, where each of the 2,
/// 4 or 8 weights may be 1/256 off (what one gets another loses, so half of them count). How a
/// blend of fractions is rounded is not documented: it may be off by one of 16 bits, and the most
/// negative texel may have become -1 before or after.
bool is_as_documented(const Image& image, const Sampling& s, const Place& at, double read) {
  const Texels texels = texels_in(image, s, near(image, s, at), read);
  if (s.filter == point) return texels.has_read;
  const double of_weights =
      fraction_unit * (1 << image.dims) / 2 * (texels.largest - texels.smallest);
  double of_result = image.largest * 0x1p-20;
  if (image.kind.largest) of_result = 1 / 32767. + std::max(0.0, -1 - texels.smallest);
  return std::abs(by_the_rules(image, s, at) - read) <= of_weights + of_result;
}

// ---- reading on the GPU ----

/// Places, and what was read there.
class Reader {
 public:
  static constexpr size_t canaries = 32;  ///< behind what the threads write

  explicit Reader(const std::vector<Place>& places) : at_(places.size()), out_(n() + canaries) {
    std::vector<float3> all;
    for (const Place& p : places) all.push_back({p[0], p[1], p[2]});
    at_.copy_from(all);
  }
  unsigned n() const { return unsigned(at_.size()); }

  /// What `launch` leaves in an output in which nothing stood before.
  std::vector<float> read(const Function<void(float* out, const float3* at)>& launch) {
    out_.poison();
    launch(out_.data(), at_.data());
    CUDA_CHECK_LAUNCH();
    std::vector<float> values = out_.to_host();
    const auto end = values.begin() + n();
    require_right(std::all_of(end, values.end(), [](float v) { return std::isnan(v); }),
                  "sampling: something was written behind the output");
    values.resize(n());
    return values;
  }
  std::vector<float> read(cudaTextureObject_t texture, int dims) {
    return read([this, texture, dims](float* out, const float3* at) {
      constexpr unsigned threads = 128;
      const unsigned blocks = (n() + threads - 1) / threads;
      if (dims == 1) read_row<<<blocks, threads>>>(out, texture, at, n());
      if (dims == 2) read_image<<<blocks, threads>>>(out, texture, at, n());
      if (dims == 3) read_volume<<<blocks, threads>>>(out, texture, at, n());
    });
  }

 private:
  DeviceBuffer<float3> at_;
  DeviceBuffer<float> out_;
};

constexpr auto as_stored = cudaReadModeElementType, as_fraction = cudaReadModeNormalizedFloat;

/// The image in a CUDA array; integers are read as fractions.
CudaArray array_of(const Image& image) {
  const std::array<int, 3>& n = image.size;
  const cudaExtent extent = make_cudaExtent(n[0], image.dims > 1 ? n[1] : 0,  //
                                            image.dims > 2 ? n[2] : 0);
  const auto filled = [&]<class Element>(Element) {
    CudaArray array = CudaArray::of<Element>(extent);
    array.copy_from(std::vector<Element>(image.stored.begin(), image.stored.end()));
    return array;
  };
  switch (image.kind.largest) {
    case 127:
      return filled((signed char)0);
    case 255:
      return filled((unsigned char)0);
    case 32767:
      return filled(short(0));
    case 65535:
      return filled((unsigned short)0);
    default:
      return filled(0.0f);
  }
}

/// The texture of an array in one mode, which is set for `dims` dimensions.
Texture texture_of(const CudaArray& array, const Image& image, const Sampling& s, int dims) {
  cudaTextureDesc desc = texture_desc(s.address, s.filter, s.normalized,
                                      image.kind.largest ? as_fraction : as_stored, dims);
  desc.borderColor[0] = float(image.border);
  return Texture(array_resource(array), desc);
}

/// Reads an image of few places; for many of the same image see compare_all().
std::vector<float> read_once(const Image& image, const Sampling& s,
                             const std::vector<Place>& places, int dims) {
  const CudaArray array = array_of(image);
  Reader reader(places);
  return reader.read(texture_of(array, image, s, dims), image.dims);
}

std::string name_of(const Sampling& s) {
  static const char* const names[] = {"wrap", "clamp", "mirror", "border"};
  return std::string(names[s.address]) + (s.filter == linear ? " linear" : " point");
}

/// Wrap, clamp, mirror, border; by point, by linear.
std::vector<Sampling> all_samplings(bool normalized) {
  std::vector<Sampling> all;
  for (const auto filter : {point, linear})
    for (const auto address : {wrap, clamp, mirror, border})
      all.push_back({address, filter, normalized});
  return all;
}

// ---- a row in each mode ----

/// 1 4 2 3: no neighbours alike, and no symmetry.
Image shown_row() {
  Image row{{4, 1, 1}, 1, {"float", 0, true}, {1, 4, 2, 3}};
  row.largest = 4;
  return row;
}

void show_row(const Run& run) {
  const Image row = shown_row();
  // off the edges and centres of texels, so that rounding decides nothing
  std::vector<Place> at;
  for (const float x : {-1.2f, -0.7f, -0.1f, 0.1f, 0.4f, 0.6f, 0.9f, 1.1f, 1.6f, 2.3f})
    at.push_back({x, 0, 0});
  const size_t printed = at.size();
  for (int k = 0; k < 128; ++k) at.push_back({-1.5f + (float(k) + 0.5f) / 32, 0, 0});

  std::vector<Column> columns;
  for (size_t i = 0; i < printed; ++i) columns.push_back(shown(fixed(at[i][0], 1)));
  Table table(run.report, "x, in widths", columns);
  const auto add = [&](const std::string& shown_as, const Sampling& s, const char* kind,
                       const std::vector<float>& values) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < printed; ++i) cells.push_back(fixed(values[i], 3));
    table.row({shown_as}, cells);
    for (size_t i = printed; i < at.size(); ++i)  // the figures' sweep
      run.report.save(
          {"", name_of(s), "x, widths", fixed(at[i][0], 6), kind, "value", "", values[i]});
  };
  for (const Sampling& s : all_samplings(true)) {
    std::vector<float> rules;
    for (const Place& x : at) rules.push_back(float(by_the_rules(row, s, x)));
    add(name_of(s) + ", by the rules", s, "predicted", rules);
    if (run.device) add("  this GPU", s, "measured", read_once(row, s, at, 1));
  }
  table.print();
}

/// What is no ordinary coordinate.
struct Special {
  const char* name;
  float x;
};

const Special specials[] = {{"0", 0.0f},
                            {"-0", -0.0f},
                            {"1e-40, a denormal", 1e-40f},
                            {"-1e-40", -1e-40f},
                            {"1e9", 1e9f},
                            {"-1e9", -1e9f},
                            {"3e38", 3e38f},
                            {"-3e38", -3e38f},
                            {"infinity", INFINITY},
                            {"-infinity", -INFINITY},
                            {"NaN", NAN}};

/// What nobody documents: only shown.
void show_specials(const Run& run) {
  std::vector<Place> at;
  for (const Special& each : specials) at.push_back({each.x, 0, 0});
  std::vector<Column> columns;
  std::vector<std::vector<float>> by_point, by_linear;
  for (const auto address : {wrap, clamp, mirror, border}) {
    const Sampling nearest{address, point, true}, blended{address, linear, true};
    columns.push_back(shown(name_of(nearest) + ", linear"));
    columns.push_back(saved_only(counted("", name_of(nearest), "", 3)));
    columns.push_back(saved_only(counted("", name_of(blended), "", 3)));
    by_point.push_back(read_once(shown_row(), nearest, at, 1));
    by_linear.push_back(read_once(shown_row(), blended, at, 1));
  }
  Table table(run.report, "special x, in widths", columns);
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<Cell> cells;
    for (size_t mode = 0; mode < by_point.size(); ++mode) {
      const double nearest = by_point[mode][i], blended = by_linear[mode][i];
      cells.push_back((std::isnan(nearest) ? "NaN" : fixed(nearest, 3)) + "  " +
                      (std::isnan(blended) ? "NaN" : fixed(blended, 3)));
      cells.push_back(nearest);
      cells.push_back(blended);
    }
    table.row({specials[i].name}, cells);
  }
  table.print();
}

/// How a walk in small steps from the centre of a texel 0 to that of a texel 1 goes up.
struct Steps {
  size_t values = 0;      ///< different ones
  double first_at = NAN;  ///< the place, in texels, of the first that is not 0
};

constexpr int walk_steps = 1 << 14;
std::vector<Place> centre_to_centre() {
  std::vector<Place> walk;
  for (int k = 0; k <= walk_steps; ++k) walk.push_back({0.5f + float(k) / walk_steps, 0, 0});
  return walk;
}

Steps steps_of(const std::vector<float>& values) {
  Steps steps;
  steps.values = std::set<float>(values.begin(), values.end()).size();
  for (size_t k = values.size(); k-- > 0;)
    if (values[k] > 0) steps.first_at = 0.5 + double(k) / walk_steps;
  return steps;
}

Steps count_steps() {
  const Image edge{{2, 1, 1}, 1, {"float", 0, true}, {0, 1}};
  return steps_of(read_once(edge, {clamp, linear, false}, centre_to_centre(), 1));
}

// ---- every mode and kind, on many sizes ----

const Kind kinds[] = {{"float", 0, true},
                      {"char as a fraction", 127, true},
                      {"unsigned char as a fraction", 255, false},
                      {"short as a fraction", 32767, true},
                      {"unsigned short as a fraction", 65535, false}};

using Size = std::array<int, 3>;  // a dimension of 0 is not there

/// Textures that are compared with the rules, and with the model of rounding.
struct Group {
  const char* name;
  std::vector<Size> sizes;
  bool own_places;  ///< edges, centres and steps of the weights; false: random ones only
  bool judged;
};

/// Rows of thousands of texels are not judged: nobody documents how many bits a coordinate in
/// widths has. By the model the last of them is half a weight's 1/256 of a texel in the shorter
/// row, and two of these in the longer.
std::vector<Group> groups() {
  return {{"fitted to",
           {{1, 0, 0},
            {2, 0, 0},
            {3, 0, 0},
            {7, 0, 0},
            {31, 0, 0},
            {64, 0, 0},
            {1000, 0, 0},
            {1, 1, 0},
            {5, 3, 0},
            {33, 17, 0},
            {1, 1, 1},
            {3, 5, 2}},
           true,
           true},
          {"other sizes and places",
           {{5, 0, 0},
            {13, 0, 0},
            {100, 0, 0},
            {777, 0, 0},
            {2, 9, 0},
            {40, 129, 0},
            {640, 3, 0},
            {7, 6, 5},
            {16, 16, 16},
            {2, 31, 11}},
           false,
           true},
          {"rows of 4099 and 16384 texels", {{4099, 0, 0}, {16384, 0, 0}}, false, false}};
}

Image random_image(const Size& size, const Kind& kind, std::mt19937& random) {
  Image image{{size[0], std::max(1, size[1]), std::max(1, size[2])},
              1 + (size[1] > 0) + (size[2] > 0),
              kind};
  image.border = 1;  // all of the scale: off by a half of it if another dimension's border shows
  const size_t texels = size_t(image.size[0]) * image.size[1] * image.size[2];
  for (size_t i = 0; i < texels; ++i) {
    const int bits = int(random() >> 8);  // 24 of them
    const int lowest = kind.is_signed ? -kind.largest - 1 : 0;
    const int number = kind.largest ? bits % (kind.largest - lowest + 1) + lowest : 0;
    image.stored.push_back(kind.largest ? number : bits * 0x1p-23 - 1);
  }
  return image;
}

/// How many places are read in each texture.
struct Effort {
  size_t random_ones, most;
};

/// Along each dimension edges and centres of texels, quarters, steps of the weights, each with the
/// floats next to it, inside, a few widths and a thousand widths outside; then random ones, all in
/// random order. Without `own_places` random ones only, further out.
std::vector<Place> random_places(const Image& image, bool normalized, bool own_places,
                                 Effort effort, std::mt19937& random) {
  std::uniform_real_distribution<double> anywhere(own_places ? -2.5 : -9, own_places ? 3.5 : 10);
  std::vector<Place> places;
  for (int d = 0; d < image.dims; ++d) {
    const int size = image.size[d];
    std::vector<float> all;
    const auto add_near = [&](double place) {  // in texels
      const float x = float(normalized ? place / size : place);
      for (const float each : {x, std::nextafter(x, -INFINITY), std::nextafter(x, INFINITY)})
        all.push_back(each);
    };
    if (own_places)
      for (const double widths : {0.0, -1.0, 1.0, -2.0, 3.0, -1000.0, 1000.0})
        for (const int i : {0, 1, size / 2, size - 1})
          for (const double part : {0.0, 0.25, 0.5, 1 / 256., 1 / 512., 0.999})
            add_near(widths * size + i + part);
    for (size_t i = 0; i < effort.random_ones; ++i)
      all.push_back(float(anywhere(random) * (normalized ? 1 : size)));
    std::shuffle(all.begin(), all.end(), random);
    all.resize(std::min(all.size(), effort.most));
    places.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) places[i][d] = all[i];
  }
  return places;
}

/// What comparing found.
struct Tally {
  size_t readings = 0;
  size_t undocumented = 0;  ///< not as documented
  size_t off_model = 0;     ///< not as the model of rounding says
  size_t unlike_exact = 0;  ///< not explained by weights that are not rounded
  double worst_ulp = 0;     ///< largest deviation from the model
  std::string first;        ///< the first that is not as documented, in words

  void add(const Tally& t) {
    readings += t.readings;
    undocumented += t.undocumented;
    off_model += t.off_model;
    unlike_exact += t.unlike_exact;
    worst_ulp = std::max(worst_ulp, t.worst_ulp);
    if (first.empty()) first = t.first;
  }
};

std::string in_words(const Image& image, const Sampling& s, const Place& at, float read) {
  char text[200];
  std::snprintf(text, sizeof text,
                " of %s, %d x %d x %d, at %.9g %.9g %.9g: read %.9g, by the rules %.9g",
                s.normalized ? "widths" : "texels", image.size[0], image.size[1], image.size[2],
                at[0], at[1], at[2], read, by_the_rules(image, s, at));
  return name_of(s) + text;
}

Tally compare(const Image& image, const Sampling& s, const std::vector<Place>& at,
              const std::vector<float>& read) {
  Tally tally;
  for (size_t i = 0; i < at.size(); ++i) {
    const bool documented = is_as_documented(image, s, at[i], read[i]);
    const rounding::Deviation deviation = rounding::deviation(image, s, at[i], read[i]);
    ++tally.readings;
    tally.undocumented += !documented;
    tally.off_model += deviation.off;
    tally.unlike_exact += rounding::unlike_exact_weights(image, s, at[i], read[i]);
    tally.worst_ulp = std::max(tally.worst_ulp, deviation.ulp);
    if (!documented && tally.first.empty()) tally.first = in_words(image, s, at[i], read[i]);
  }
  return tally;
}

using Use = Function<void(const Group&, const Kind&, const Sampling&, const Tally&)>;

/// Reads all textures in all modes, and compares.
void compare_all(Effort effort, unsigned seed, const Use& use) {
  std::mt19937 random(seed);
  for (const Group& group : groups())
    for (const Size& size : group.sizes)
      for (const Kind& kind : kinds) {
        const Image image = random_image(size, kind, random);
        const CudaArray array = array_of(image);
        for (const bool normalized : {false, true}) {
          const std::vector<Place> places =
              random_places(image, normalized, group.own_places, effort, random);
          Reader reader(places);
          for (const Sampling& s : all_samplings(normalized)) {
            const Texture texture = texture_of(array, image, s, image.dims);
            use(group, kind, s, compare(image, s, places, reader.read(texture, image.dims)));
          }
        }
      }
}

/// Tallies under names, in the order in which these came first.
struct Tallies {
  std::vector<std::pair<std::string, Tally>> all;

  void add(const std::string& name, const Tally& t) {
    for (auto& [known, tally] : all)
      if (known == name) return tally.add(t);
    all.emplace_back(name, t);
  }
};

/// What the claim needs to know.
struct Found {
  Tally blends;                   ///< all readings in linear mode
  Tally outside;                  ///< in clamp and wrap mode, by point
  Tally other_modes;              ///< in mirror and border mode, by point
  Tally model_fitted, model_new;  ///< by what the model of rounding was fitted to
  Tallies modes, elements, groups;

  void add(const Group& group, const Kind& kind, const Sampling& s, const Tally& t) {
    groups.add(group.name, t);
    if (!group.judged) return model_new.add(t);
    const char* const counts = s.normalized ? "" : s.exists() ? "" : ", in texels: as clamp";
    modes.add(name_of(s) + counts, t);
    if (!s.exists()) return;
    elements.add(std::string(kind.name) + (s.filter == linear ? ", linear" : ", point"), t);
    (group.own_places ? model_fitted : model_new).add(t);
    if (s.filter == linear) return blends.add(t);
    (s.address == clamp || s.address == wrap ? outside : other_modes).add(t);
  }
};

void show_tallies(const Run& run, const char* heading, const Tallies& tallies) {
  Table table(run.report, heading,
              {counted("readings", "readings", "", 0),
               counted("not as documented", "not as documented", "", 0),
               counted("off the model", "off the model", "", 0),
               counted("unlike exact", "unlike exact weights", "", 0),
               saved_only(counted("deviation, ulp", "deviation", "ulp", 2))});
  for (const auto& [name, t] : tallies.all) {
    table.row({name}, {double(t.readings), double(t.undocumented), double(t.off_model),
                       double(t.unlike_exact), t.worst_ulp});
    if (t.undocumented) run.report.note("not as documented: " + t.first);
  }
  table.print();
}

std::string count_text(size_t off, size_t readings, const std::string& what) {
  return std::to_string(off) + " of " + std::to_string(readings) + " readings " + what;
}

// ---- what else is worth knowing ----

/// The trap of the second address mode: a row is read as an image one texel high at y = 0, its
/// upper edge. That is half a texel from the row's centre, so where y too has border mode, half of
/// every blend is border.
constexpr Sampling border_linear{border, linear, false};
/// What a row is read as at `x` in that mode, set for so many dimensions.
double read_with_border(float x, int dims) {
  return read_once(shown_row(), border_linear, std::vector<Place>{Place{x, 0, 0}}, dims)[0];
}

/// What CUDA says to a row of Elements in these modes; where it says yes, what texel 1 is read as.
template <class Element>
std::string answer(cudaTextureFilterMode filter, cudaTextureReadMode mode) {
  CudaArray row = CudaArray::of<Element>(make_cudaExtent(4, 0, 0));
  row.copy_from(std::vector<Element>{Element(1), Element(4), Element(2), Element(3)});
  try {
    const Texture texture(array_resource(row), texture_desc(clamp, filter, false, mode));
    Reader reader(std::vector<Place>{Place{1.5f, 0, 0}});
    return "taken: 4 is read as " + fixed(reader.read(texture, 1)[0], 3);
  } catch (const CudaError& error) {
    return "refused: " + error.name();
  }
}

/// Plain memory of 1 4 2 3 through a texture that asks for wrap and linear.
std::vector<float> read_plain_memory() {
  const Image row = shown_row();
  const DeviceBuffer<float> plain(std::vector<float>(row.stored.begin(), row.stored.end()));
  const Texture texture(
      linear_resource(plain.data(), cudaCreateChannelDesc<float>(), plain.bytes()),
      texture_desc(wrap, linear));
  Reader reader(std::vector<Place>(row.stored.size()));
  return reader.read([&](float* out, const float3*) {
    fetch_by_index<<<1, unsigned(row.stored.size())>>>(out, texture);
  });
}
bool plain_memory_ignores_modes() { return read_plain_memory() == std::vector<float>{1, 4, 2, 3}; }

void show_refusals(const Run& run) {
  Table table(run.report, "what is not allowed", {shown("")});
  table.row({"unsigned char as stored, linear"}, {answer<unsigned char>(linear, as_stored)});
  table.row({"int as a fraction"}, {answer<int>(point, as_fraction)});
  table.row({"float as a fraction"}, {answer<float>(point, as_fraction)});
  table.row({"plain memory, wrap and linear"},
            {plain_memory_ignores_modes() ? "ignored: read texel by texel" : "not ignored"});
  table.print();
}

// ---- the claims ----

void judge(const Run& run, const Found& found, const Steps& steps) {
  const Part interpolates{"07.4a", "linear filtering interpolates, with 8 bits of fraction",
                          "no figure", "lecture; the guide has the bits"};
  const Part folds{"07.4b", "clamp and wrap treat what lies outside as documented", "no figure",
                   "lecture"};
  if (!run.device) {
    run.report.not_judged(interpolates, "no GPU");
    return run.report.not_judged(folds, "no GPU");
  }
  constexpr size_t values = 257;  // multiples of 1/256 from 0 to 1
  run.report.judge_fact(interpolates, found.blends.undocumented == 0 && steps.values == values,
                        count_text(found.blends.undocumented, found.blends.readings, "not so; ") +
                            std::to_string(steps.values) + " values from one texel to the next");
  run.report.finding("07.4a", "the rounding model, found on an H200: " +
                                  count_text(found.model_fitted.off_model,
                                             found.model_fitted.readings, "off it, and ") +
                                  count_text(found.model_new.off_model, found.model_new.readings,
                                             "that it was not fitted to"));
  run.report.judge_fact(
      folds, found.outside.undocumented == 0,
      count_text(found.outside.undocumented, found.outside.readings, "by point are another texel"));
  run.report.finding(
      "07.4b", "in mirror and border mode " +
                   count_text(found.other_modes.undocumented, found.other_modes.readings, "are"));
}

}  // namespace

void sampling(const Run& run) {
  run.report.begin("sampling",
                   "a row of 4 texels (1 4 2 3); then textures of 1 to 3 dimensions, of 1 to 16384 "
                   "texels in a row");
  show_row(run);
  run.report.note(
      "counted in texels: clamp and border are the same at x times 4, wrap and mirror "
      "do not exist");
  Found found;
  Steps steps;
  if (run.device) {
    show_specials(run);
    steps = count_steps();
    run.report.note("from centre to centre: " + std::to_string(steps.values) +
                    " values, the first new one after " + fixed((steps.first_at - 0.5) * 512, 2) +
                    "/512 texel");
    run.report.note("border and linear in a row: 4 is read as " +
                    fixed(read_with_border(1.5f, 1), 3) + ", with border set for y too as " +
                    fixed(read_with_border(1.5f, 2), 3));
    show_refusals(run);
    const Effort effort = run.quick ? Effort{50, 200} : Effort{run.full ? 20000u : 300u, 30000};
    compare_all(effort, 1,
                [&](const Group& group, const Kind& kind, const Sampling& s, const Tally& t) {
                  found.add(group, kind, s, t);
                });
    show_tallies(run, "mode", found.modes);
    show_tallies(run, "element, filter", found.elements);
    show_tallies(run, "sizes and places", found.groups);
    run.report.note(
        "the model: of rounding, found on an H200 (SAMPLING.md); unlike exact: what "
        "weights that are not rounded would not give");
  } else {
    run.report.left_out("all modes and kinds of texel on a GPU");
  }
  judge(run, found, steps);
}
