// sampling: what does a texture make of a coordinate? The lectures name two address modes for what
// lies outside, clamp and wrap, and two filters: point takes a texel, linear interpolates [PR].
// There are two more address modes, mirror and border.
//
// The first table reads the row 1 4 2 3, inside and outside. Texel i reaches from i to i + 1. Its
// centre is at i + 0.5: there linear gives the texel itself, and at an edge the mean of two. Then
// all modes read images of several sizes, and each value is compared with the rules below.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o sampling sampling.cu ../common/*.cpp
//
//   1  read_image  thread i reads an image at its own place
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "texture.cuh"

// The kernel hands the texture unit two coordinates. What they mean stands in the texture's
// description.
static __global__ void read_image(float* out, cudaTextureObject_t image, const float2* at,
                                  unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(image, at[i].x, at[i].y);
}

namespace {

// ---- the description ----

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp,
               mirror = cudaAddressModeMirror, border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;

/// How a texture is read, the same along both dimensions.
struct Sampling {
  cudaTextureAddressMode address;
  cudaTextureFilterMode filter;
  bool normalized;  ///< coordinates are counted in widths and heights, not in texels
};

/// The lectures write `tex.addressMode = ...` of an object, too. But an object has no members: the
/// modes stand in the description that it is made of.
Texture texture_of(const CudaArray& array, const Sampling& s) {
  cudaTextureDesc desc{};
  desc.addressMode[0] = desc.addressMode[1] = s.address;
  desc.filterMode = s.filter;
  desc.readMode = cudaReadModeElementType;
  desc.normalizedCoords = s.normalized;
  return Texture(array_resource(array), desc);  // desc.borderColor stays 0
}

std::vector<Sampling> all_modes() {
  std::vector<Sampling> all;
  for (const auto address : {wrap, clamp, mirror, border})
    for (const auto filter : {point, linear}) all.push_back({address, filter, true});
  return all;
}

std::string name_of(const Sampling& s) {
  const char* const names[] = {"wrap", "clamp", "mirror", "border"};  // as the header counts them
  return names[s.address] + std::string(s.filter == point ? ", point" : ", linear");
}

// ---- the rules ----

constexpr int border_texel = -1;

/// Address modes: texel i of n, where i may lie outside. A row of 1 4 2 3 goes on as
///   clamp   ... 1 1 1 | 1 4 2 3 | 3 3 3 ...   its ends for ever
///   wrap    ... 4 2 3 | 1 4 2 3 | 1 4 2 ...   from the beginning
///   mirror  ... 2 4 1 | 1 4 2 3 | 3 2 4 ...   every second time backwards
///   border  ... B B B | 1 4 2 3 | B B B ...   the border's value, here 0
int addressed(cudaTextureAddressMode address, int i, int n) {
  const int j = (i % (2 * n) + 2 * n) % (2 * n);  // of two widths: the row, and one behind it
  if (address == clamp) return std::clamp(i, 0, n - 1);
  if (address == wrap) return j % n;
  if (address == mirror) return j < n ? j : 2 * n - 1 - j;
  return i < 0 || i >= n ? border_texel : i;
}

/// Wrap and mirror exist for widths alone. If texels are counted, CUDA takes clamp for them.
cudaTextureAddressMode address_in_force(const Sampling& s) {
  return s.normalized || s.address == border ? s.address : clamp;
}

/// Two neighbours, and the weight of the second.
struct Pick {
  int first, second;
  double alpha;
};

/// Filters: a place u counts texels. Point takes the texel in which it lies, linear the two between
/// whose centres it lies.
Pick pick(const Sampling& s, double u) {
  if (s.filter == point) return {int(std::floor(u)), int(std::floor(u)), 0};
  const int left = int(std::floor(u - 0.5));
  return {left, left + 1, u - 0.5 - left};
}

struct Image {
  int width, height;
  std::vector<float> texels;  ///< x fastest
};

double texel(const Image& image, const Sampling& s, int i, int j) {
  const cudaTextureAddressMode address = address_in_force(s);
  const int x = addressed(address, i, image.width), y = addressed(address, j, image.height);
  return x == border_texel || y == border_texel ? 0 : image.texels[y * image.width + x];
}

/// What is read by these rules at a place in texels, in exact numbers.
double by_the_rules(const Image& image, const Sampling& s, const double2& u) {
  const Pick x = pick(s, u.x), y = pick(s, u.y);
  const auto along_x = [&](int j) {
    return (1 - x.alpha) * texel(image, s, x.first, j) + x.alpha * texel(image, s, x.second, j);
  };
  return (1 - y.alpha) * along_x(y.first) + y.alpha * along_x(y.second);
}

/// The guide: weights are "9-bit fixed point with 8 bits of fractional value".
constexpr double unit = 1 / 256.;

/// Point: one of the texels in which the place lies, give or take a unit. Linear: interpolated, and
/// the weight along each of two dimensions may be a unit off.
bool is_as_documented(const Image& image, const Sampling& s, const double2& u, double read) {
  double least = INFINITY, most = -INFINITY;  // of the texels that it may be made of
  bool is_texel = false;
  for (int j = pick(s, u.y - unit).first; j <= pick(s, u.y + unit).second; ++j)
    for (int i = pick(s, u.x - unit).first; i <= pick(s, u.x + unit).second; ++i) {
      const double value = texel(image, s, i, j);
      least = std::min(least, value);
      most = std::max(most, value);
      is_texel = is_texel || value == read;
    }
  if (s.filter == point) return is_texel;
  constexpr double float_rounding = 1e-6;  // texels lie between 0 and 1
  const double allowed = 2 * unit * (most - least) + float_rounding;
  return std::abs(by_the_rules(image, s, u) - read) <= allowed;
}

// ---- reading on the GPU ----

CudaArray array_of(const Image& image) {
  CudaArray array = CudaArray::of<float>(make_cudaExtent(image.width, image.height, 0));
  array.copy_from(image.texels);
  return array;
}

std::vector<float> read(const CudaArray& array, const Sampling& s, const std::vector<float2>& at) {
  const Texture texture = texture_of(array, s);
  const DeviceBuffer<float2> places(at);
  const GuardedBuffer<float> out(at.size());
  const unsigned n = unsigned(at.size());
  read_image<<<(n + 127) / 128, 128>>>(out, texture, places, n);
  CUDA_CHECK_LAUNCH();
  const std::string error = guard_error(out);
  if (!error.empty()) throw WrongResult("sampling: " + error);
  return out.to_host();
}

/// Rows are images one texel high. In texels and in heights 0.5 is the middle.
std::vector<float2> on_a_row(const std::vector<float>& x) {
  std::vector<float2> places;
  for (const float each : x) places.push_back({each, 0.5f});
  return places;
}

/// No neighbours alike, and no symmetry.
const Image shown_row{4, 1, {1, 4, 2, 3}};

/// "   1    4  2.5"
std::string in_a_line(const std::vector<float>& values) {
  std::string line;
  char text[16];
  for (const float value : values) {
    std::snprintf(text, sizeof text, " %4g", value);
    line += text;
  }
  return line;
}

void show_row(Run& run) {
  const std::vector<float> x{-1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2.5, 3.5, 4, 4.5, 5, 5.5};
  std::vector<float> widths;
  for (const float texels : x) widths.push_back(texels / 4);
  const CudaArray row = array_of(shown_row);
  Table table("x, in texels", {in_a_line(x)});
  for (const Sampling& s : all_modes())
    table.row(name_of(s), {in_a_line(read(row, s, on_a_row(widths)))});
  run.print(table);
}

// ---- all modes, on several sizes ----

/// From 0 to 1.
float random_of(size_t i) { return float(hash(i) >> 8) * 0x1p-24f; }

Image random_image(int width, int height) {
  Image image{width, height, std::vector<float>(width * height)};
  for (size_t i = 0; i < image.texels.size(); ++i) image.texels[i] = random_of(i);
  return image;
}

/// Edges, centres, quarters, and any part of a texel, or a float next to these; inside, a few
/// widths and a thousand widths outside.
float random_coordinate(size_t i, int size, bool normalized) {
  const unsigned k = hash(3 * i), texel = hash(3 * i + 1) % unsigned(size);
  const double widths[] = {0, 0, -1, 1, -2, 3, -1000, 1000};
  const double parts[] = {0, 0.25, 0.5, 1 / 512., 0.999, random_of(3 * i + 2)};
  const double place = widths[k % 8] * size + texel + parts[k / 8 % 6];
  const float x = float(normalized ? place / size : place);
  const float near[] = {x, x, std::nextafter(x, -INFINITY), std::nextafter(x, INFINITY)};
  return near[k / 48 % 4];
}

constexpr size_t places_of_an_image = 1009;

std::vector<float2> random_places(const Image& image, bool normalized) {
  std::vector<float2> places;
  for (size_t i = 0; i < places_of_an_image; ++i)
    places.push_back({random_coordinate(2 * i, image.width, normalized),
                      random_coordinate(2 * i + 1, image.height, normalized)});
  return places;
}

constexpr int sizes[][2] = {{1, 1}, {2, 1}, {3, 1}, {7, 1}, {1000, 1}, {5, 3}, {2, 9}, {40, 129}};
constexpr size_t readings_of_a_mode = 2 * std::size(sizes) * places_of_an_image;

/// Reads images of all sizes in a mode, in texels and in widths. How many are not as documented?
size_t count_wrong(Sampling s) {
  size_t wrong = 0;
  for (const auto& [width, height] : sizes)
    for (const bool normalized : {false, true}) {
      s.normalized = normalized;
      const Image image = random_image(width, height);
      const std::vector<float2> at = random_places(image, normalized);
      const std::vector<float> values = read(array_of(image), s, at);
      const double2 texels = normalized ? double2{double(width), double(height)} : double2{1, 1};
      for (size_t i = 0; i < at.size(); ++i)
        wrong += !is_as_documented(image, s, {at[i].x * texels.x, at[i].y * texels.y}, values[i]);
    }
  return wrong;
}

/// How many different values are read on the way from the centre of a texel 0 to that of a texel 1?
/// With 8 bits of fraction 257: the multiples of 1/256.
size_t values_from_centre_to_centre() {
  constexpr int steps = 1 << 14;
  std::vector<float> walk;
  for (int k = 0; k <= steps; ++k) walk.push_back(0.5f + float(k) / steps);
  const CudaArray edge = array_of({2, 1, {0, 1}});
  const std::vector<float> values = read(edge, {clamp, linear, false}, on_a_row(walk));
  return std::set<float>(values.begin(), values.end()).size();
}

}  // namespace

void sampling(Run& run) {
  run.title("a row of 4 texels, 1 4 2 3; then random ones, 1 to 1000 in a row, in all modes");
  show_row(run);

  struct Deviations {
    size_t wrong = 0, readings = 0;
    void add(size_t more_wrong) {
      wrong += more_wrong;
      readings += readings_of_a_mode;
    }
    std::string text() const {
      return std::to_string(wrong) + " of " + std::to_string(readings) + " readings deviate";
    }
  };
  Deviations of_linear, outside;
  Table table("in texels and in widths", {"readings", "not as documented"});
  for (const Sampling& s : all_modes()) {
    const size_t wrong = count_wrong(s);
    table.row(name_of(s), {readings_of_a_mode, wrong});
    if (s.filter == linear)
      of_linear.add(wrong);
    else if (s.address == clamp || s.address == wrap)
      outside.add(wrong);
  }
  run.print(table);
  run.note("wrap and mirror need widths: if texels are counted, CUDA takes clamp for them");

  const size_t values = values_from_centre_to_centre();
  run.observed({"07.4a", "cudaFilterModeLinear interpolates linearly between points",
                "[PR 3] \"Linearly interpolates between points\""},
               of_linear.wrong == 0 && values == 257,
               of_linear.text() + " from weights of 8 bits; " + std::to_string(values) +
                   " values from 0 to 1");
  run.observed({"07.4b", "clamp clamps addresses out of bounds to the range, wrap wraps them",
                "[PR 3] \"will be clamped to range\", \"will wrap\""},
               outside.wrong == 0, outside.text() + " from the rules of clamp and wrap");
}
SAMPLE(3, sampling, "every address mode with every filter, against a reference");

TEST_CASE("sampling: the address modes by hand") {
  const auto goes_on = [](cudaTextureAddressMode address) {
    std::vector<float> values;
    for (int i = -6; i < 10; ++i) {
      const int texel = addressed(address, i, 4);
      values.push_back(texel == border_texel ? 0 : shown_row.texels[texel]);
    }
    return values;
  };
  CHECK(goes_on(clamp) == std::vector<float>{1, 1, 1, 1, 1, 1, 1, 4, 2, 3, 3, 3, 3, 3, 3, 3});
  CHECK(goes_on(wrap) == std::vector<float>{2, 3, 1, 4, 2, 3, 1, 4, 2, 3, 1, 4, 2, 3, 1, 4});
  CHECK(goes_on(mirror) == std::vector<float>{2, 3, 3, 2, 4, 1, 1, 4, 2, 3, 3, 2, 4, 1, 1, 4});
  CHECK(goes_on(border) == std::vector<float>{0, 0, 0, 0, 0, 0, 1, 4, 2, 3, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("sampling: the filters by hand") {
  const auto at = [](const Sampling& s, double x) { return by_the_rules(shown_row, s, {x, 0.5}); };
  CHECK(at({clamp, point, false}, 1.99) == 4);
  CHECK(at({clamp, linear, false}, 1.5) == 4);     // a centre
  CHECK(at({clamp, linear, false}, 1.75) == 3.5);  // a quarter of the way to 2
  CHECK(at({wrap, linear, true}, 0) == 2);         // of 3 and 1
  CHECK(at({wrap, linear, false}, 0) == 1);        // in texels: clamp
  CHECK(at({border, linear, true}, 4) == 1.5);
  CHECK(at({border, point, true}, -0.01) == 0);
  const Image square{2, 2, {0, 1, 2, 3}};
  CHECK(by_the_rules(square, {clamp, linear, false}, {1.25, 0.75}) == 1.25);
}

TEST_CASE("sampling: what is as documented, by hand") {
  const auto takes = [](const Sampling& s, double x, double read) {
    return is_as_documented(shown_row, s, {x, 0.5}, read);
  };
  CHECK(takes({clamp, linear, false}, 1.75, 3.5));
  CHECK(takes({clamp, linear, false}, 1.75, 3.5 + 2 / 256.));  // the weight is a unit off
  CHECK(!takes({clamp, linear, false}, 1.75, 3.5 + 2 / 16.));  // 4 bits of fraction
  CHECK(takes({clamp, point, false}, 1.999, 2));               // a unit beyond lies the next texel
  CHECK(!takes({clamp, point, false}, 1.75, 2));
  CHECK(!takes({wrap, point, true}, -0.5, 1));  // clamp's
  CHECK(!takes({wrap, point, true}, 0.5, NAN));
}

TEST_CASE("sampling: every mode on every size is as documented") {
  if (skip_without_gpu()) return;
  for (const Sampling& s : all_modes()) {
    CAPTURE(name_of(s));
    CHECK(count_wrong(s) == 0);
  }
  CHECK(values_from_centre_to_centre() == 257);
}
