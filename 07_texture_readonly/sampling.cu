// sampling: address and filter modes. The text names two of each: outside the texture, clamp repeats the edge and wrap
// starts again; point takes a texel, linear blends neighbours. There are two more address modes, coordinates counted in
// texels or in widths, and integers read as they are or as fractions of their largest. Look at what one row becomes in
// each mode, at how many results lie off the host's model, and at the mode of a dimension that is not there.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "../common/first_edition.hpp"
#include "sampler.hpp"
#include "texture.cuh"

namespace {

// Each lane reads one point of the texture; points of neighbouring lanes need not lie near each other.
template <class Result, int dims>
__global__ void fetch(float* out, cudaTextureObject_t texture, const float3* at, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if constexpr (dims == 1) out[i] = float(tex1D<Result>(texture, at[i].x));
  if constexpr (dims == 2) out[i] = float(tex2D<Result>(texture, at[i].x, at[i].y));
  if constexpr (dims == 3) out[i] = float(tex3D<Result>(texture, at[i].x, at[i].y, at[i].z));
}

// From plain memory, by index: there is no coordinate to fold and no neighbour to blend with.
__global__ void fetch_by_index(float* out, cudaTextureObject_t texture) {
  out[threadIdx.x] = tex1Dfetch<float>(texture, int(threadIdx.x));
}

using Points = std::vector<std::array<float, 3>>;

/// Reads a texture of `dims` dimensions at all points.
template <class Result>
std::vector<float> read(cudaTextureObject_t texture, int dims, const Points& points) {
  std::vector<float3> places;
  for (const auto& p : points) places.push_back({p[0], p[1], p[2]});
  const DeviceBuffer<float3> at(places);
  DeviceBuffer<float> out(at.size());
  out.poison();
  const int n = int(at.size()), threads = 128;
  const auto kernel = dims == 1 ? fetch<Result, 1> : dims == 2 ? fetch<Result, 2> : fetch<Result, 3>;
  kernel<<<(n + threads - 1) / threads, threads>>>(out.data(), texture, at.data(), n);
  CUDA_CHECK_LAUNCH();
  return out.to_host();
}

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp, mirror = cudaAddressModeMirror,
               border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;
constexpr auto as_stored = cudaReadModeElementType, as_fraction = cudaReadModeNormalizedFloat;

std::string mode_name(const Sampling& s) {
  static const char* const names[] = {"wrap", "clamp", "mirror", "border"};
  return std::string(names[s.address]) + (s.filter == linear ? " linear" : " point");
}

/// Calls `use` for the 16 combinations of address, filter and coordinates; 12 of them are supported().
void each_sampling(auto&& use) {
  for (bool normalized : {true, false})
    for (auto filter : {point, linear})
      for (auto address : {wrap, clamp, mirror, border}) use(Sampling{address, filter, normalized});
}

/// Calls `use` for the kinds of element, 8 and 16 bits also as fractions. Only what is read as float can be filtered.
void each_kind(auto&& use) {
  use.template operator()<float, float>("float");
  use.template operator()<unsigned char, float>("unsigned char as a fraction");
  use.template operator()<signed char, float>("char as a fraction");
  use.template operator()<unsigned short, float>("unsigned short as a fraction");
  use.template operator()<short, float>("short as a fraction");
  use.template operator()<unsigned char, unsigned char>("unsigned char");
  use.template operator()<signed char, signed char>("char");
  use.template operator()<unsigned short, unsigned short>("unsigned short");
  use.template operator()<short, short>("short");
  use.template operator()<unsigned, unsigned>("unsigned int");
  use.template operator()<int, int>("int");
}

/// Along each dimension: edges and centres of texels, quarters, steps of the weights, each with the floats next to it,
/// inside, a few widths and a thousand widths outside; then random ones; all in random order.
Points points_for(const Image& image, bool normalized, size_t random_ones, std::mt19937& random) {
  std::uniform_real_distribution<double> anywhere(-2.5, 3.5);
  Points points;
  for (int d = 0; d < image.dims; ++d) {
    const int size = image.size[d];
    std::vector<float> all;
    for (double widths : {0.0, -1.0, 1.0, -2.0, 3.0, -1000.0, 1000.0})
      for (int i : {0, 1, size / 2, size - 1})
        for (double part : {0.0, 0.25, 0.5, 1 / 256., 1 / 512., 0.999}) {
          const float x = float(normalized ? widths + (i + part) / size : widths * size + i + part);
          for (float each : {x, std::nextafter(x, -INFINITY), std::nextafter(x, INFINITY)}) all.push_back(each);
        }
    for (size_t i = 0; i < random_ones; ++i) all.push_back(float(anywhere(random) * (normalized ? 1 : size)));
    std::shuffle(all.begin(), all.end(), random);
    points.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) points[i][d] = all[i];
  }
  return points;
}

/// What a comparison with the model found.
struct Tally {
  size_t samples = 0, off = 0, unlike_plain = 0;
  double worst = 0;   // largest deviation, in units of a rounding
  std::string first;  // the first sample off the model, in words
  void add(const Tally& t) {
    samples += t.samples, off += t.off, unlike_plain += t.unlike_plain, worst = std::max(worst, t.worst);
    if (first.empty()) first = t.first;
  }
};

/// Compares what was read with the model, and with interpolation in exact weights. A result that is otherwise right may
/// have been rounded by 2^-23 of the largest texel (to nearest: half of it): once for a fraction, and 2^dims times in a
/// blend, for the products, together parts of one texel, and each sum. A blend of fractions is the nearest multiple of
/// image.step: half of it off, but for signed bytes, whose rounding the model knows. Weights, multiples of 1/256, are
/// exact; a texel by itself is not rounded.
Tally compare(const Image& image, const Sampling& s, const Points& at, const std::vector<float>& out) {
  Tally tally;
  double largest = image.signed_bytes ? 1 : std::abs(image.border);
  for (double texel : image.texel) largest = std::max(largest, image.signed_bytes ? 1 : std::abs(texel));
  const bool blended = s.filter == linear;
  const double unit = largest * 0x1p-23, roundings = (image.step > 0) + (blended ? 1 << image.dims : 0);
  const double allowed = unit * roundings + (blended ? image.step / 2 : 0);
  for (size_t i = 0; i < at.size(); ++i) {
    const double deviates = deviation(image, s, at[i], out[i]);
    ++tally.samples;
    tally.worst = std::max(tally.worst, deviates / unit);
    tally.unlike_plain += blended && !(std::abs(value_at(image, s, at[i], {0, 0}) - out[i]) <= allowed);
    if (deviates <= allowed || tally.off++) continue;
    char text[200];
    std::snprintf(text, sizeof text, ", %s, %d x %d x %d, at %.9g %.9g %.9g: read %.9g, model %.9g",
                  s.normalized ? "widths" : "texels", image.size[0], image.size[1], image.size[2], at[i][0], at[i][1],
                  at[i][2], out[i], value_at(image, s, at[i]));
    tally.first = mode_name(s) + text;
  }
  return tally;
}

/// 1D, 2D, 3D; a dimension of 0 is not there.
constexpr cudaExtent sizes[] = {{1, 0, 0},    {2, 0, 0}, {3, 0, 0}, {7, 0, 0},   {31, 0, 0}, {64, 0, 0},
                                {1000, 0, 0}, {1, 1, 0}, {5, 3, 0}, {33, 17, 0}, {1, 1, 1},  {3, 5, 2}};

/// Random texels for the extent; the numbers are of 24 bits at most: the kernel hands integers on as float.
template <class Element>
std::vector<Element> random_texels(const cudaExtent& size, std::mt19937& random) {
  std::vector<Element> texels(size.width * std::max<size_t>(1, size.height) * std::max<size_t>(1, size.depth));
  for (Element& each : texels) {
    const int bits = int(random() >> 8);
    each = std::is_floating_point_v<Element> ? Element(bits * 0x1p-23 - 1)
                                             : Element(bits - (std::is_signed_v<Element> << 23));
  }
  return texels;
}

/// Reads textures of all sizes and kinds in all modes, and compares; calls `use` for each texture.
void check_all(size_t random_ones, unsigned seed,
               const std::function<void(const std::string& kind, const Sampling&, const Tally&)>& use) {
  std::mt19937 random(seed);
  for (const cudaExtent& size : sizes)
    each_kind([&]<class Element, class Result>(const char* kind) {
      const auto texels = random_texels<Element>(size, random);
      const Image as_is = image_of<Element, Result>(size, texels, point);
      const Image to_blend = image_of<Element, Result>(size, texels, linear);
      CudaArray array = CudaArray::of<Element>(size);
      array.copy_from(texels);
      const Points in_texels = points_for(as_is, false, random_ones, random);
      const Points in_widths = points_for(as_is, true, random_ones, random);
      each_sampling([&](const Sampling& s) {
        if (s.filter == linear && !std::is_same_v<Result, float>) return;  // refused, as answer() shows
        const Points& at = s.normalized ? in_widths : in_texels;
        const Image& image = s.filter == linear ? to_blend : as_is;
        const auto mode = std::is_same_v<Element, Result> ? as_stored : as_fraction;
        cudaTextureDesc desc = texture_desc(s.address, s.filter, s.normalized, mode, image.dims);
        const Result outside = Result(image.border);
        std::memcpy(desc.borderColor, &outside, sizeof outside);  // an integer's bits stand in the float
        const Texture texture(array_resource(array), desc);
        use(kind, s, compare(image, s, at, read<Result>(texture, image.dims, at)));
      });
    });
}

const std::vector<float> marks{1, 4, 2, 3};  // the row that is shown

/// A row of texels on the GPU in one mode, which is set for `dims` dimensions, of which the row has one.
std::vector<float> read_row(const std::vector<float>& texels, const Sampling& s, const Points& at, int dims = 1) {
  CudaArray row = CudaArray::of<float>(make_cudaExtent(texels.size(), 0, 0));
  row.copy_from(texels);
  const Texture texture(array_resource(row), texture_desc(s.address, s.filter, s.normalized, as_stored, dims));
  return read<float>(texture, 1, at);
}

/// The trap of the second mode: a row is read as an image one texel high at y = 0, its upper edge. That is half a texel
/// from the row's centre, so where y too has border mode, half of every blend is border.
constexpr Sampling border_linear{border, linear, false};
const Image row_as_2d{{int(marks.size()), 1, 1}, 2, {marks.begin(), marks.end()}};

/// Prints what the row becomes in each mode at some places, and saves a fine sweep. All places lie off the edges.
void show_row(const Run& run) {
  const Image image{{4, 1, 1}, 1, {marks.begin(), marks.end()}, 0};
  Points at = {{-1.2f}, {-0.7f}, {-0.1f}, {0.1f}, {0.4f}, {0.6f}, {0.9f}, {1.1f}, {1.6f}, {2.3f}};
  const size_t printed = at.size();
  for (int k = 0; k < 128; ++k) at.push_back({-1.5f + (float(k) + 0.5f) / 32});
  std::vector<Column> columns;
  for (size_t i = 0; i < printed; ++i) columns.push_back(shown(fixed(at[i][0], 1)));
  Table table(run.report, "x, in widths", columns);
  each_sampling([&](const Sampling& s) {
    for (bool on_gpu : {false, true}) {
      if (!s.normalized || (on_gpu && !run.device)) continue;
      std::vector<float> value;
      for (const auto& x : at) value.push_back(float(value_at(image, s, x)));
      if (on_gpu) value = read_row(marks, s, at);
      std::vector<Cell> cells;
      for (size_t i = 0; i < printed; ++i) cells.push_back(fixed(value[i], 3));
      table.row({on_gpu ? "  this GPU" : mode_name(s) + ", model"}, cells);
      for (size_t i = printed; i < at.size(); ++i)
        run.report.save({"", mode_name(s), "x, widths", fixed(at[i][0], 6), on_gpu ? "measured" : "predicted", "value",
                         "", value[i]});
    }
  });
  table.print();
}

/// From the centre of a texel 0 to that of a texel 1: how many values linear mode gives, and from where on, in texels,
/// it gives more than 0, and point mode does.
std::array<double, 3> count_steps() {
  Points walk;
  for (int k = 0; k <= 1 << 14; ++k) walk.push_back({0.5f + float(k) * 0x1p-14f});
  const auto blended = read_row({0, 1}, {clamp, linear}, walk), nearest = read_row({0, 1}, {clamp, point}, walk);
  const auto from = [&](const std::vector<float>& values) {
    return walk.at(std::find_if(values.begin(), values.end(), [](float v) { return v > 0; }) - values.begin())[0];
  };
  return {double(std::set<float>(blended.begin(), blended.end()).size()), from(blended), from(nearest)};
}

/// What CUDA says to a row of Elements in these modes; where it says yes, what the second texel is read as.
template <class Element>
std::string answer(cudaTextureFilterMode filter, cudaTextureReadMode mode) {
  CudaArray row = CudaArray::of<Element>(make_cudaExtent(marks.size(), 0, 0));
  row.copy_from(std::vector<Element>(marks.begin(), marks.end()));
  try {
    const Texture texture(array_resource(row), texture_desc(clamp, filter, false, mode));
    return "taken: 4 is read as " + fixed(read<Element>(texture, 1, {{1.5f}})[0], 3);
  } catch (const CudaError& error) {
    return "refused: " + error.name();
  }
}

/// True if plain memory comes texel by texel, though the texture asks for wrap and linear.
bool plain_memory_ignores_modes() {
  DeviceBuffer<float> data(marks), out(marks.size());
  out.poison();
  const Texture texture(linear_resource(data.data(), cudaCreateChannelDesc<float>(), data.bytes()),
                        texture_desc(wrap, linear));
  fetch_by_index<<<1, unsigned(marks.size())>>>(out.data(), texture);
  CUDA_CHECK_LAUNCH();
  return out.to_host() == marks;
}
const Claim claim{"07.4", "linear interpolates, clamp and wrap treat what lies outside", "lecture", "no figure"};

}  // namespace

void sampling(const Run& run) {
  run.report.begin("sampling", "a row of 4 texels (1 4 2 3); then textures of 1 to 3 dimensions and 1 to 1000 texels");
  show_row(run);
  run.report.note("counted in texels: clamp and border are the same at x times 4, wrap and mirror do not exist");
  if (!run.device) return run.report.left_out("all modes and elements on a GPU against the model", {claim});

  const auto [values, linear_from, point_from] = count_steps();
  run.report.note("centre to centre: " + fixed(values, 0) + " values, the first after " +
                  fixed((linear_from - 0.5) * 512, 2) + "/512 texel; point mode changes at " + fixed(point_from, 5));
  std::map<std::string, Tally> modes, elements;
  Tally all;
  const size_t random_ones = run.quick ? 50 : run.full ? 20000 : 300;
  check_all(random_ones, 1, [&](const std::string& kind, const Sampling& s, const Tally& t) {
    modes[mode_name(s) + (s.normalized ? ", widths" : supported(s) ? ", texels" : ", texels: as clamp")].add(t);
    if (!supported(s)) return;
    elements[kind + (s.filter == linear ? ", linear" : ", point")].add(t);
    all.add(t);
  });
  int told = 0;
  for (const auto* tallies : {&modes, &elements}) {
    Table table(run.report, tallies == &modes ? "mode, coordinates in" : "element, filter",
                {counted("samples", "samples", "", 0), counted("off the model", "off the model", "", 0),
                 counted("deviation at most, ulp", "deviation", "ulp", 2),
                 counted("unlike exact weights", "unlike exact weights", "", 0)});
    for (const auto& [name, t] : *tallies) {
      table.row({name}, {double(t.samples), double(t.off), t.worst, double(t.unlike_plain)});
      if (t.off && told++ < 4) run.report.note("off the model: " + name + ": " + t.first);
    }
    table.print();
  }
  run.report.note(
      "ulp: 2^-23 of the largest texel; allowed: 1 for a fraction; 2, 4, 8 for a blend in 1D, 2D, 3D; and half");
  run.report.note(
      "a step for a blend of short or unsigned fractions, which is a fraction of 16 bits: 128 ulp if signed, otherwise "
      "64");
  const auto four = [](int dims) { return fixed(read_row(marks, border_linear, {{1.5f}}, dims)[0], 3); };
  run.report.note("border and linear in 1D: 4 is read as " + four(1) + ", with border set for y too as " + four(2));
  Table refusals(run.report, "not allowed", {shown("")});
  refusals.row({"unsigned char as stored, linear"}, {answer<unsigned char>(linear, as_stored)});
  refusals.row({"int as a fraction"}, {answer<int>(point, as_fraction)});
  refusals.row({"float as a fraction"}, {answer<float>(point, as_fraction)});
  refusals.row({"plain memory, wrap and linear"},
               {std::string(plain_memory_ignores_modes() ? "ignored: read texel by texel" : "not ignored")});
  refusals.print();
  const std::string here = std::to_string(all.off) + " of " + std::to_string(all.samples) + " samples off the model";
  run.report.claim(claim, judge_fact(all.off == 0, here, double(all.off), "samples"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("sampling: the model by hand") {
  const Image pair{{2, 1, 1}, 1, {10, 20}, 100};
  const std::vector<std::pair<Sampling, std::vector<std::pair<float, double>>>> cases = {
      {{clamp, point, false}, {{0, 10}, {1, 20}, {-7, 10}, {1e9f, 20}}},
      {{clamp, linear, false}, {{0.5f, 10}, {1, 15}, {1.25f, 17.5}, {0, 10}, {0.50195f, 10}, {0.502f, 10 + 10. / 256}}},
      {{clamp, linear, true}, {{0.5f, 15}, {3, 20}}},
      {{wrap, point, true}, {{-0.25f, 20}, {1.25f, 10}}},
      {{wrap, linear, true}, {{0, 15}, {7.875f, 17.5}}},
      {{mirror, point, true}, {{-0.25f, 10}, {1.25f, 20}, {2.25f, 10}}},
      {{mirror, linear, true}, {{-0.5f, 15}, {0.0625f, 10}, {-999.5f, 15}}},
      {{border, point, true}, {{-0.25f, 100}, {1, 100}}},
      {{border, linear, false}, {{0, 55}, {2.25f, 80}}},
      {{wrap, linear, false}, {{2.5f, 20}, {-1.5f, 10}}},  // as clamp
  };
  for (const auto& [s, rights] : cases)
    for (const auto& [x, right] : rights) {
      INFO(mode_name(s), " ", x);
      CHECK(value_at(pair, s, {x}) == right);
      CHECK(deviation(pair, s, {x}, right) == 0);
    }
  CHECK(std::isinf(deviation(pair, {}, {0.5f}, NAN)));
  const Image square{{2, 2, 1}, 2, {0, 1, 2, 3}}, cube{{1, 2, 2}, 3, {0, 8, 16, 24}};
  CHECK(value_at(square, {clamp, linear, false}, {1.25f, 0.75f}) == 1.25);
  CHECK(value_at(cube, {border, linear, false}, {0, 1, 1}) == 6);
  CHECK(number_of<signed char, float>(-128, point) == -1);
  for (const auto& [blend, steps] : std::initializer_list<std::pair<double, int>>{
           {127., 32767}, {-100., -25801}, {-56., -14448}, {50 / 256., 50}, {-50 / 256., -51}})
    CHECK(widened(blend) * 32767 == doctest::Approx(steps).epsilon(1e-12));  // as an H200 reads them
  for (int s = -128 * 256; s <= 127 * 256; ++s) CHECK(std::abs(widened(s / 256.) * 32767 - s / 256. * 32767 / 127) < 1);
  const auto w = weights_of(2, {{{0, 1, 0.5}, {0, 1, 129 / 256.}}});
  CHECK(w == std::array<double, 8>{64 / 256., 63 / 256., 64 / 256., 65 / 256.});  // of 63.5 63.5 64.5 64.5
  CHECK(value_at(row_as_2d, border_linear, {1.5f, 0}) == 2);
}

TEST_CASE("sampling: the hardware's precision passes and all others are noticed") {
  std::mt19937 random(5);
  each_sampling([&](const Sampling& s) {
    const Precision right;
    size_t not_cut = 0, cut_coarsely = 0;  // over all sizes: few points lie so close to an edge that this matters
    for (const cudaExtent& size : {cudaExtent{31, 0, 0}, cudaExtent{33, 17, 0}, cudaExtent{3, 5, 2}}) {
      const Image image = image_of<float, float>(size, random_texels<float>(size, random), point);
      const Points at = points_for(image, s.normalized, 300, random);
      const auto off = [&](cudaTextureAddressMode address, const Precision& precision) {
        std::vector<float> out;
        for (const auto& x : at) out.push_back(float(value_at(image, {address, s.filter, s.normalized}, x, precision)));
        return compare(image, s, at, out).off;
      };
      CAPTURE(mode_name(s));
      CHECK(off(s.address, right) == 0);
      for (double weight : {0., 1 / 128., 1 / 512.})
        CHECK((off(s.address, {weight, right.width}) > 0) == (s.filter == linear));
      not_cut += off(s.address, {right.weight, 0}), cut_coarsely += off(s.address, {right.weight, 0x1p-16});
      for (auto address : {wrap, clamp, mirror, border})
        if (effective_address({address, point, s.normalized}) != effective_address(s)) CHECK(off(address, right) > 0);
    }
    CHECK((not_cut > 0) == s.normalized);
    CHECK((cut_coarsely > 0) == s.normalized);
  });
}

TEST_CASE("sampling: every mode and element on every size") {
  if (skip_without_gpu()) return;
  std::map<std::string, Tally> tallies;
  check_all(50, 2, [&](const std::string& kind, const Sampling& s, const Tally& t) {
    tallies[kind + ", " + mode_name(s) + (s.normalized ? ", widths" : ", texels")].add(t);
  });
  CHECK(tallies.size() == 5 * 16 + 6 * 8);  // 5 kinds are read as float
  for (const auto& [name, t] : tallies) {
    INFO(name, ": ", t.first);
    CHECK(t.off == 0);
    if (name.find("linear") != std::string::npos) CHECK(t.unlike_plain > 0);
  }
}

TEST_CASE("sampling: 257 values from centre to centre and the trap and what is not allowed") {
  if (skip_without_gpu()) return;
  const auto [values, linear_from, point_from] = count_steps();
  CHECK(values == 257);
  CHECK(linear_from == 0.5 + 1 / 512.);  // halfway, and up
  CHECK(point_from == 1);
  CHECK(answer<unsigned char>(linear, as_stored).substr(0, 7) == "refused");
  CHECK(answer<int>(linear, as_stored).substr(0, 7) == "refused");
  CHECK(answer<float>(linear, as_stored) == "taken: 4 is read as 4.000");
  CHECK(plain_memory_ignores_modes());
  for (float x : {0.5f, 1.f, 1.5f, 2.25f, 3.5f, 4.25f}) {
    const double right = value_at(row_as_2d, border_linear, {x, 0});
    CHECK(read_row(marks, border_linear, {{x}}, 2)[0] == right);
    CHECK(read_row(marks, border_linear, {{x}})[0] == 2 * right);
  }
}
