// sampling: what a texture makes of a coordinate. The lecture has two address modes, clamp and
// wrap, for what lies outside, and two filters: point takes a texel, linear interpolates [PR].
// There are two more address modes, mirror and border. Coordinates are counted in texels or in
// widths, and integers may be read as fractions of their largest value. Three things to look at:
//   - The four modes below, ten lines for all of them.
//   - What a row of four texels becomes in each mode.
//   - How precise the interpolation is: 8 bits of fraction.
//
//   cmake -S 07_texture_readonly -B build/sampling -DEXPERIMENTS=sampling
//   cmake --build build/sampling && build/sampling/07_texture_readonly
//
//   1  read_row        thread i reads a row of texels at its own place
//   2  read_image      an image
//   3  read_volume     a volume
//   4  fetch_by_index  plain memory, by tex1Dfetch
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "texture.cuh"

using namespace samples;

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

// ---- a texture as the host sees it ----

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp,
               mirror = cudaAddressModeMirror, border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;

/// How a texture is read, the same along all of its dimensions.
struct Sampling {
  cudaTextureAddressMode address = clamp;
  cudaTextureFilterMode filter = point;
  bool normalized = false;  ///< coordinates are counted in widths, not in texels

  /// Wrap and mirror exist for widths alone; of texels CUDA takes clamp for them.
  bool exists() const { return normalized || address == clamp || address == border; }
};

/// What a texel is: a float, or an integer that is read as a fraction of its largest value.
struct Kind {
  const char* name;
  int largest;     ///< 127, 255, 32767, 65535; 0: a float
  bool is_signed;  ///< of integers; the fraction is then never below -1
};

/// The texels of a texture, x fastest.
struct Image {
  std::array<int, 3> size{1, 1, 1};  ///< a dimension that is not there has one texel
  int dims = 1;
  Kind kind{"float", 0, true};
  std::vector<double> stored = {};  ///< as they lie in memory
  double border = 0;                ///< what border mode finds outside
  double largest = 1;               ///< magnitude of what is read, texels and border

  double stored_at(const std::array<int, 3>& i) const {
    return stored[(size_t(i[2]) * size[1] + i[1]) * size[0] + i[0]];
  }
};

using Place = std::array<float, 3>;  ///< the coordinates of one reading

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

/// Wrap, clamp, mirror, border; by point, by linear.
std::vector<Sampling> all_samplings(bool normalized) {
  std::vector<Sampling> all;
  for (const auto filter : {point, linear})
    for (const auto address : {wrap, clamp, mirror, border})
      all.push_back({address, filter, normalized});
  return all;
}

std::string key_of(const Sampling& s) {
  static const char* const names[] = {"wrap", "clamp", "mirror", "border"};
  return std::string(names[s.address]) + (s.filter == linear ? "_linear" : "_point");
}
std::string in_words(const Sampling& s) {
  std::string words = key_of(s);
  words[words.find('_')] = ' ';
  return words;
}

// ---- a row in each mode ----

/// 1 4 2 3: no neighbours alike, and no symmetry.
Image shown_row() {
  Image row{{4, 1, 1}, 1, {"float", 0, true}, {1, 4, 2, 3}};
  row.largest = 4;
  return row;
}

/// Off the edges and centres of texels, so that rounding decides nothing: few to print, and many
/// for a figure.
// double: a key is found again as the decimals that were saved
constexpr double printed_x[] = {-1.2, -0.7, -0.1, 0.1, 0.4, 0.6, 0.9, 1.1, 1.6, 2.3};
constexpr int figure_points = 128;
float figure_x(int k) { return -1.5f + (float(k) + 0.5f) / 32; }

/// Reads the row at each place on first demand, and remembers.
class RowReading {
 public:
  RowReading(const Sampling& s, std::vector<Place> at) : s_(s), at_(std::move(at)) {}
  double operator()(size_t i) {
    if (values_.empty()) values_ = read_once(shown_row(), s_, at_, 1);
    return values_.at(i);
  }

 private:
  Sampling s_;
  std::vector<Place> at_;
  std::vector<float> values_;
};

void show_row(const Run& run) {
  std::vector<Place> printed, figure;
  std::vector<Column> columns;
  for (const double x : printed_x) {
    printed.push_back({float(x), 0, 0});
    columns.push_back(shown(fixed(x, 1)));
  }
  for (int k = 0; k < figure_points; ++k) figure.push_back({figure_x(k), 0, 0});
  Table table(run.report, "x, in widths", columns);
  for (const Sampling& s : all_samplings(true)) {
    RowReading of_printed(s, printed), of_figure(s, figure);
    std::vector<Cell> rules, found;
    for (size_t i = 0; i < printed.size(); ++i) {
      rules.emplace_back(fixed(by_the_rules(shown_row(), s, printed[i]), 3));
      const double value = ask(run, {key_of(s), printed_x[i]}, "value", "", [&] {
                             return single(of_printed(i));
                           }).median;
      found.emplace_back(std::isnan(value) ? "" : fixed(value, 3));
    }
    table.row({key_of(s), "", "", in_words(s) + ", by the rules"}, rules);
    table.row({key_of(s) + "_here", "", "", "  this GPU"}, found);
    for (size_t k = 0; k < figure.size(); ++k) {
      const Ref ref{key_of(s), double(figure_x(int(k)))};
      const double value =
          run.machine->value(ref, "value", false, [&] { return single(of_figure(k)); }).median;
      const auto save = [&](const char* kind, double number) {
        if (std::isfinite(number))
          run.report.save({"", ref.key, "x, widths", at_text(ref), kind, "value", "", number});
      };
      save("predicted", float(by_the_rules(shown_row(), s, figure[k])));
      save("measured", value);
    }
  }
  table.print();
}

/// What is no ordinary coordinate.
struct Special {
  const char *key, *words;
  float x;
};

constexpr Special specials[] = {{"zero", "0", 0.0f},
                                {"minus_zero", "-0", -0.0f},
                                {"denormal", "1e-40, a denormal", 1e-40f},
                                {"minus_denormal", "-1e-40", -1e-40f},
                                {"large", "1e9", 1e9f},
                                {"minus_large", "-1e9", -1e9f},
                                {"huge", "3e38", 3e38f},
                                {"minus_huge", "-3e38", -3e38f},
                                {"infinity", "infinity", INFINITY},
                                {"minus_infinity", "-infinity", -INFINITY},
                                {"nan", "NaN", NAN}};

/// What nobody documents: only shown.
void show_specials(const Run& run) {
  std::vector<Place> at;
  for (const Special& each : specials) at.push_back({each.x, 0, 0});
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows(std::size(specials));
  for (const Sampling& s : all_samplings(true)) {
    columns.push_back(counted(in_words(s), in_words(s), "", 3));
    RowReading reading(s, at);
    for (size_t i = 0; i < at.size(); ++i)
      rows[i].push_back(ask_for_table(run, specials[i].key, in_words(s), "", [&] {
                          return single(reading(i));
                        }).median);
  }
  Table table(run.report, "special x, in widths", columns);
  for (size_t i = 0; i < at.size(); ++i)
    table.row({specials[i].key, "", "", specials[i].words}, rows[i]);
  table.print();
}

/// A walk in small steps from the centre of a texel 0 to that of a texel 1: so many different
/// values are read.
constexpr int walk_steps = 1 << 14;
size_t values_in(const std::vector<float>& walk) {
  return std::set<float>(walk.begin(), walk.end()).size();
}
size_t count_values() {
  const Image edge{{2, 1, 1}, 1, {"float", 0, true}, {0, 1}};
  std::vector<Place> walk;
  for (int k = 0; k <= walk_steps; ++k) walk.push_back({0.5f + float(k) / walk_steps, 0, 0});
  return values_in(read_once(edge, {clamp, linear, false}, walk, 1));
}

// ---- every mode and kind, on many sizes ----

const Kind kinds[] = {{"float", 0, true},
                      {"char as a fraction", 127, true},
                      {"unsigned char as a fraction", 255, false},
                      {"short as a fraction", 32767, true},
                      {"unsigned short as a fraction", 65535, false}};

using Size = std::array<int, 3>;  // a dimension of 0 is not there

/// Textures whose readings are compared with the rules. Not longer than 1000 texels along any
/// dimension: nobody documents how many bits a coordinate in widths has.
struct Group {
  const char *key, *words;
  std::vector<Size> sizes;
  bool own_places;  ///< edges, centres and steps of the weights; false: random ones only
};

const Group groups[] = {{"edges_and_centres",
                         "edges, centres, outside, anywhere",
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
                         true},
                        {"anywhere",
                         "other sizes, anywhere",
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
                         false}};

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
  std::string first = {};   ///< the first of these, in words

  void add(const Tally& t) {
    readings += t.readings;
    undocumented += t.undocumented;
    if (first.empty()) first = t.first;
  }
};

std::string in_words(const Image& image, const Sampling& s, const Place& at, float read) {
  char text[200];
  std::snprintf(text, sizeof text,
                " of %s, %d x %d x %d, at %.9g %.9g %.9g: read %.9g, by the rules %.9g",
                s.normalized ? "widths" : "texels", image.size[0], image.size[1], image.size[2],
                at[0], at[1], at[2], read, by_the_rules(image, s, at));
  return in_words(s) + text;
}

Tally compare(const Image& image, const Sampling& s, const std::vector<Place>& at,
              const std::vector<float>& read) {
  Tally tally;
  for (size_t i = 0; i < at.size(); ++i) {
    const bool documented = is_as_documented(image, s, at[i], read[i]);
    ++tally.readings;
    tally.undocumented += !documented;
    if (!documented && tally.first.empty()) tally.first = in_words(image, s, at[i], read[i]);
  }
  return tally;
}

using Use = Function<void(const Group&, const Kind&, const Sampling&, const Tally&)>;

/// Reads all textures in all modes, and compares.
void compare_all(Effort effort, unsigned seed, const Use& use) {
  std::mt19937 random(seed);
  for (const Group& group : groups)
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

/// Tallies under keys.
struct Tallies {
  std::vector<std::pair<std::string, Tally>> all;

  void add(const std::string& key, const Tally& t) {
    for (auto& [known, tally] : all)
      if (known == key) return tally.add(t);
    all.emplace_back(key, t);
  }
  const Tally& of(const std::string& key) const {
    for (const auto& [known, tally] : all)
      if (known == key) return tally;
    throw std::logic_error("no readings of " + key);
  }
};

/// A mode as a row: in texels wrap and mirror are another one, which is not asked for.
std::string row_key(const Sampling& s) { return key_of(s) + (s.exists() ? "" : "_texels"); }

/// All that comparing found, made on first demand.
class AllCompared {
 public:
  explicit AllCompared(Effort effort) : effort_(effort) {}
  const Tally& of(const std::string& key) {
    if (tallies_.all.empty())
      compare_all(effort_, 1,
                  [&](const Group& group, const Kind&, const Sampling& s, const Tally& t) {
                    tallies_.add(row_key(s), t);
                    tallies_.add(group.key, t);
                  });
    return tallies_.of(key);
  }

 private:
  Effort effort_;
  Tallies tallies_;
};

const char *const all_readings = "readings", *const not_documented = "not as documented";

// ---- what else is worth knowing ----

/// The trap of the second address mode: a row is read as an image one texel high at y = 0, its
/// upper edge. That is half a texel from the row's centre, so where y too has border mode, half of
/// every blend is border.
constexpr Sampling border_linear{border, linear, false};
/// What a row is read as at `x` in that mode, set for so many dimensions.
double read_with_border(float x, int dims) {
  return read_once(shown_row(), border_linear, std::vector<Place>{Place{x, 0, 0}}, dims)[0];
}

/// What CUDA says to a row of Elements in these modes.
template <class Element, cudaTextureFilterMode filter, cudaTextureReadMode mode>
cudaError_t answer() {
  CudaArray row = CudaArray::of<Element>(make_cudaExtent(4, 0, 0));
  try {
    const Texture texture(array_resource(row), texture_desc(clamp, filter, false, mode));
    return cudaSuccess;
  } catch (const CudaError& error) {
    return error.code;
  }
}
struct Combination {
  const char *key, *words;
  cudaError_t (*answered)();
};
const Combination combinations[] = {
    {"bytes_linear", "unsigned char as stored, linear", answer<unsigned char, linear, as_stored>},
    {"ints_as_fractions", "int as a fraction", answer<int, point, as_fraction>},
    {"floats_as_fractions", "float as a fraction", answer<float, point, as_fraction>}};

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

// ---- the experiment ----

void show_readings(const Run& run) {
  AllCompared compared(run.quick ? Effort{50, 200} : Effort{run.full ? 20000u : 300u, 30000});
  const std::vector<Column> columns{counted("readings", all_readings, "", 0),
                                    counted("not as documented", not_documented, "", 0)};
  const auto cells = [&](const std::string& key) {
    const double readings = ask_for_table(run, key, all_readings, "", [&] {
                              return single(double(compared.of(key).readings));
                            }).median;
    const double wrong = ask_for_table(run, key, not_documented, "", [&] {
                           return single(double(compared.of(key).undocumented));
                         }).median;
    if (wrong > 0 && run.device->number >= 0)
      run.report.note("not as documented: " + compared.of(key).first);
    return std::vector<Cell>{readings, wrong};
  };
  Table modes(run.report, "mode", columns);
  for (const Sampling& s : all_samplings(true))
    modes.row({key_of(s), "", "", in_words(s)}, cells(key_of(s)));
  for (const Sampling& s : all_samplings(false))
    if (!s.exists())
      modes.row({row_key(s), "", "", in_words(s) + ", in texels: as clamp"}, cells(row_key(s)));
  modes.print();
  Table sizes(run.report, "sizes and places", columns);
  for (const Group& group : groups) sizes.row({group.key, "", "", group.words}, cells(group.key));
  sizes.print();
}

void show_refusals(const Run& run) {
  Table table(run.report, "what is not allowed", {counted("answer", "answer", "", 0), shown("")});
  for (const Combination& each : combinations) {
    const double code =
        ask_for_table(run, each.key, "answer", "", [&] { return single(each.answered()); }).median;
    table.row({each.key, "", "", each.words},
              {code, std::isnan(code) ? "" : cudaGetErrorName(cudaError_t(int(code)))});
  }
  table.print();
}

void run_sampling(const Run& run) {
  run.report.begin("sampling",
                   "a row of 4 texels (1 4 2 3); then textures of 1 to 3 dimensions, of 1 to 1000 "
                   "texels in a row");
  show_row(run);
  run.report.note(
      "counted in texels: clamp and border are the same at x times 4, wrap and mirror "
      "do not exist");
  if (run.device) {
    show_specials(run);
    show_readings(run);
    show_refusals(run);
  } else {
    run.report.left_out("all modes and kinds of texel on a GPU");
  }
  const double values = ask(run, "centre_to_centre", "values", "", [] {
                          return single(double(count_values()));
                        }).median;
  const double alone = ask(run, "border_of_row", "value", "", [] {
                         return single(read_with_border(1.5f, 1));
                       }).median;
  const double both = ask(run, "border_of_image", "value", "", [] {
                        return single(read_with_border(1.5f, 2));
                      }).median;
  const double ignored = ask(run, "plain_memory", "modes ignored", "", [] {
                           return single(plain_memory_ignores_modes());
                         }).median;
  if (std::isfinite(values))
    run.report.note("from centre to centre: " + fixed(values, 0) + " values");
  if (std::isfinite(alone))
    run.report.note("border and linear in a row: 4 is read as " + fixed(alone, 3) +
                    ", with border set for y too as " + fixed(both, 3));
  if (ignored == 1) run.report.note("plain memory ignores wrap and linear: texel by texel");
}

// ---- claims ----

/// The sum over modes.
Tally tally_of(const Run& run, std::initializer_list<const char*> keys) {
  Tally all;
  for (const char* key : keys) {
    const double readings = run.results->value(key, all_readings).value.median;
    const double wrong = run.results->value(key, not_documented).value.median;
    if (std::isnan(readings) || std::isnan(wrong)) return {};
    all.add({size_t(readings), size_t(wrong)});
  }
  return all;
}

std::string count_text(const Tally& t, const std::string& what) {
  return std::to_string(t.undocumented) + " of " + std::to_string(t.readings) + " readings " + what;
}

std::vector<Claim> claims(const Run& run) {
  Claim interpolates{.part = {"07.4a", "linear filtering interpolates, with 8 bits of fraction",
                              "no figure", "lecture; the guide has the bits"}};
  Claim folds{.part = {"07.4b", "clamp and wrap treat what lies outside as documented", "no figure",
                       "lecture"}};
  if (!run.device) {
    interpolates.unless = folds.unless = "no GPU";
    return {interpolates, folds};
  }
  const Tally blends =
      tally_of(run, {"wrap_linear", "clamp_linear", "mirror_linear", "border_linear"});
  const Tally outside = tally_of(run, {"wrap_point", "clamp_point"});
  const Tally others = tally_of(run, {"mirror_point", "border_point"});
  const double values = run.results->value("centre_to_centre", "values").value.median;
  if (blends.readings == 0 || outside.readings == 0) {
    interpolates.unless = folds.unless = "the readings were not recorded";
    return {interpolates, folds};
  }
  // 257: the multiples of 1/256 from 0 to 1. Files of the second edition do not have the number
  const bool in_steps = std::isnan(values) || values == 257;
  interpolates.fact = blends.undocumented == 0 && in_steps ? Fact::so : Fact::not_so;
  interpolates.here = count_text(blends, "not so");
  if (!std::isnan(values))
    interpolates.here += "; " + fixed(values, 0) + " values from one texel to the next";
  folds.fact = outside.undocumented == 0 ? Fact::so : Fact::not_so;
  folds.here = count_text(outside, "by point are another texel; in mirror and border mode ") +
               count_text(others, "are");
  return {interpolates, folds};
}

}  // namespace

extern const Experiment sampling_experiment{
    .name = "sampling",
    .about = "what clamp, wrap, mirror, border, point and linear make of a coordinate",
    .run = run_sampling,
    .claims = claims};
