// The appendix of sampling: what a texture returns, to the last bit. SAMPLING.md says it in words.
//
// A coordinate becomes a place u, counted in texels, of which texel i covers [i, i + 1). Point mode
// returns texel floor(u). Linear mode rounds u to the nearest multiple of 1/256, halves upwards,
// and blends texels i and i + 1 with weights 1 - alpha and alpha, where u - 0.5 = i + alpha. The
// weights of 4 or 8 texels are multiples of 1/256, too. Found on an H200; it held on an H100. Of
// rows of thousands of texels a few readings differ.
#include "sampling_rounding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

namespace rounding {
namespace {

/// How far float arithmetic may raise a coordinate before it is cut: what is left of it without its
/// whole part is rounded by 2^-25 at most, and a denormal may count as 0.
constexpr double coordinate_slack = 0x1p-25;

double rounded(double value, double unit) {
  return unit > 0 ? std::floor(value / unit + 0.5) * unit : value;
}
double cut(double value, double unit) { return unit > 0 ? std::floor(value / unit) * unit : value; }

// ---- along one dimension ----

/// Two neighbours along one dimension (-1: the border) and the weight of the second.
struct Pick {
  int first = 0, second = 0;
  double alpha = 0;
};
using Picks = std::array<Pick, 3>;

/// What coordinate `x` picks along a dimension of `size` texels.
Pick pick_at(const Sampling& s, double x, int size, const Precision& precision) {
  const cudaTextureAddressMode address = s.exists() ? s.address : cudaAddressModeClamp;
  const bool repeats = address == cudaAddressModeWrap || address == cudaAddressModeMirror;
  double u = s.normalized ? cut(x, precision.width) : x;
  const double period = std::floor(u);
  const bool mirrored = address == cudaAddressModeMirror && std::fmod(period, 2) != 0;
  if (repeats) u -= period;
  if (s.normalized) u *= size;
  // clamp keeps to the centres of the outer texels, where alpha is 0; two texels outside is as good
  // as a thousand
  const double rim = address == cudaAddressModeClamp ? 0.5 : -2;
  u = std::clamp(u, rim, size - rim);

  const auto texel = [&](int i) {
    if (mirrored) i = size - 1 - i;  // the texels change places; how u is rounded does not
    if (i >= 0 && i < size) return i;
    if (address == cudaAddressModeBorder) return -1;
    if (address == cudaAddressModeWrap) return (i + size) % size;
    return std::clamp(i, 0, size - 1);
  };
  if (s.filter == cudaFilterModePoint) {
    const int i = texel(int(std::floor(u)));
    return {i, i, 0};
  }
  u = rounded(u, precision.weight) - 0.5;
  const int i = int(std::floor(u));
  return {texel(i), texel(i + 1), u - i};
}

// ---- the weights of 2, 4 or 8 texels ----

/// Bit d of the index says whether a texel is the second along dimension d. Multiples of 1/256 that
/// sum to 1: z splits 1 between two slices, x a slice between two columns, y a column between two
/// texels. Of these the outer ones (second of the second, first of the first) are rounded, and the
/// others get what is left.
std::array<double, 8> weights_of(int dims, const Picks& pick, const Precision& precision) {
  const double unit = precision.fixed_weights ? precision.weight : 0;
  std::array<double, 8> weights{};
  for (int z = 0; z < (dims == 3 ? 2 : 1); ++z) {
    const double slice = dims < 3 ? 1 : z ? pick[2].alpha : 1 - pick[2].alpha;
    const double right = rounded(slice * pick[0].alpha, unit);
    const double left = slice - right;
    const double upper_left = dims < 2 ? left : rounded(left * (1 - pick[1].alpha), unit);
    const double lower_right = dims < 2 ? 0 : rounded(right * pick[1].alpha, unit);
    double* const w = &weights[4 * z];
    w[0] = upper_left;
    w[1] = right - lower_right;
    w[2] = left - upper_left;
    w[3] = lower_right;
  }
  return weights;
}

// ---- what is blended ----

/// Signed bytes are blended as they are, and the blend is widened to 16 bits afterwards. All other
/// fractions are taken first.
bool blends_bytes(const Image& image, const Sampling& s) {
  return s.filter == cudaFilterModeLinear && image.kind.largest == 127;
}

/// The fraction that a blend of signed bytes becomes. 32767/127 is 258 and 1/127; the hardware
/// takes 256 and 2, and in place of the rest an eighth of a step for each 16 that the blend is
/// above 0, rounding what is lost: found from 2671 readings of an H200, which it gives to the last
/// bit. It is nowhere a whole step from the true fraction.
double widened(double blend) {
  return std::floor(258 * blend + std::floor(blend / 16) / 8 + 0.5) / 32767;
}

/// A texel as it goes into a blend. The most negative one stays below -1 there (-32768 / 32767),
/// which a result never is.
double number_at(const Image& image, const Sampling& s, const std::array<int, 3>& at) {
  const bool bytes = blends_bytes(image, s);
  const bool outside = at[0] < 0 || at[1] < 0 || at[2] < 0;
  if (outside) return bytes ? image.border * image.kind.largest : image.border;
  const double stored = image.stored_at(at);
  return bytes || image.kind.largest == 0 ? stored : stored / image.kind.largest;
}

/// The weighted mean of the texels picked, not yet rounded to a fraction of 16 bits.
double blend(const Image& image, const Sampling& s, const Picks& pick, const Precision& precision) {
  const std::array<double, 8> weights = weights_of(image.dims, pick, precision);
  double sum = 0;
  for (int corner = 0; corner < 1 << image.dims; ++corner) {
    if (weights[corner] == 0) continue;
    std::array<int, 3> at{};
    for (int d = 0; d < image.dims; ++d) at[d] = corner >> d & 1 ? pick[d].second : pick[d].first;
    sum += weights[corner] * number_at(image, s, at);
  }
  if (blends_bytes(image, s)) sum = widened(sum);
  const bool never_below_minus_1 = image.kind.largest != 0 && image.kind.is_signed;
  return never_below_minus_1 ? std::max(sum, -1.0) : sum;
}

// ---- how far off a reading may be ----

double ulp_of(const Image& image) { return image.largest * 0x1p-23; }

/// A result that is otherwise right may have been rounded by an ulp: once for a fraction, and
/// 2^dims times in a blend, for the products, together parts of one texel, and each sum. A blend of
/// fractions is the nearest one of 16 bits, half a step off, but for signed bytes, whose rounding
/// the model knows. Weights are exact, and a texel by itself is not rounded.
double allowed(const Image& image, const Sampling& s, double ulp) {
  const bool blended = s.filter == cudaFilterModeLinear;
  const bool rounds_to_16_bits = image.kind.largest != 0 && !blends_bytes(image, s);
  const double roundings = (rounds_to_16_bits ? 1 : 0) + (blended ? 1 << image.dims : 0);
  const double step = image.kind.is_signed ? 1 / 32767. : 1 / 65535.;
  return ulp * roundings + (blended && rounds_to_16_bits ? step / 2 : 0);
}

}  // namespace

double value_at(const Image& image, const Sampling& s, const Place& at,
                const Precision& precision) {
  Picks pick{};
  for (int d = 0; d < image.dims; ++d) pick[d] = pick_at(s, at[d], image.size[d], precision);
  return blend(image, s, pick, precision);
}

Deviation deviation(const Image& image, const Sampling& s, const Place& at, double read) {
  const double ulp = ulp_of(image);
  const double most = allowed(image, s, ulp);
  double nearest = std::numeric_limits<double>::infinity();
  // as it is, then with each set of coordinates raised by what float arithmetic may add
  for (int raised = 0; raised < 1 << image.dims; ++raised) {
    Picks pick{};
    for (int d = 0; d < image.dims; ++d)
      pick[d] =
          pick_at(s, double(at[d]) + (raised >> d & 1 ? coordinate_slack : 0), image.size[d], {});
    const double away = std::abs(blend(image, s, pick, {}) - read);
    nearest = std::min(nearest, std::isnan(away) ? nearest : away);
    if (nearest <= most) break;
  }
  return {nearest / ulp, !(nearest <= most)};
}

bool unlike_exact_weights(const Image& image, const Sampling& s, const Place& at, double read) {
  const double exact = value_at(image, s, at, {0, 0, false});
  return s.filter == cudaFilterModeLinear &&
         !(std::abs(exact - read) <= allowed(image, s, ulp_of(image)));
}

}  // namespace rounding

// ---- self-checks ----

namespace {

using rounding::Image, rounding::Place, rounding::Sampling;

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp,
               mirror = cudaAddressModeMirror, border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;

/// A reading in a row of two texels, 10 and 20, with a border of 100.
struct ByHand {
  Sampling s;
  float x;
  double right;
};

}  // namespace

TEST_CASE("sampling: the rounding model by hand") {
  const Image pair{{2, 1, 1}, 1, {"float", 0, true}, {10, 20}, 100};
  const ByHand cases[] = {
      {{clamp, point, false}, 0, 10},
      {{clamp, point, false}, 1, 20},
      {{clamp, point, false}, -7, 10},
      {{clamp, point, false}, 1e9f, 20},
      {{clamp, linear, false}, 0.5f, 10},
      {{clamp, linear, false}, 1, 15},
      {{clamp, linear, false}, 1.25f, 17.5},
      {{clamp, linear, false}, 0, 10},
      {{clamp, linear, false}, 0.50195f, 10},  // just below half a step of the weights, and above
      {{clamp, linear, false}, 0.502f, 10 + 10. / 256},
      {{clamp, linear, true}, 0.5f, 15},
      {{clamp, linear, true}, 3, 20},
      {{wrap, point, true}, -0.25f, 20},
      {{wrap, point, true}, 1.25f, 10},
      {{wrap, linear, true}, 0, 15},
      {{wrap, linear, true}, 7.875f, 17.5},
      {{mirror, point, true}, -0.25f, 10},
      {{mirror, point, true}, 1.25f, 20},
      {{mirror, point, true}, 2.25f, 10},
      {{mirror, linear, true}, -0.5f, 15},
      {{mirror, linear, true}, 0.0625f, 10},
      {{mirror, linear, true}, -999.5f, 15},
      {{border, point, true}, -0.25f, 100},
      {{border, point, true}, 1, 100},
      {{border, linear, false}, 0, 55},
      {{border, linear, false}, 2.25f, 80},
      {{wrap, linear, false}, 2.5f, 20},
      {{wrap, linear, false}, -1.5f, 10},  // as clamp
  };
  for (const ByHand& each : cases) {
    CAPTURE(int(each.s.address));
    CAPTURE(each.x);
    CHECK(rounding::value_at(pair, each.s, {each.x, 0, 0}) == each.right);
    CHECK(rounding::deviation(pair, each.s, {each.x, 0, 0}, each.right).ulp == 0);
  }
  CHECK(rounding::deviation(pair, {}, {0.5f, 0, 0}, NAN).off);
  const Image square{{2, 2, 1}, 2, {"float", 0, true}, {0, 1, 2, 3}};
  const Image cube{{1, 2, 2}, 3, {"float", 0, true}, {0, 8, 16, 24}};
  CHECK(rounding::value_at(square, {clamp, linear, false}, {1.25f, 0.75f, 0}) == 1.25);
  CHECK(rounding::value_at(cube, {border, linear, false}, {0, 1, 1}) == 6);
}

TEST_CASE("sampling: the rounding model's weights and fractions by hand") {
  const rounding::Picks halves{{{0, 1, 0.5}, {0, 1, 129 / 256.}, {}}};
  // of 63.5, 63.5, 64.5 and 64.5
  CHECK(rounding::weights_of(2, halves, {}) ==
        std::array<double, 8>{64 / 256., 63 / 256., 64 / 256., 65 / 256.});
  const Image bytes{{1, 1, 1}, 1, {"signed char", 127, true}, {-128}};
  CHECK(rounding::value_at(bytes, {clamp, point, false}, {0.5f, 0, 0}) == -1);
  // as an H200 reads them
  const std::initializer_list<std::pair<double, int>> steps = {
      {127., 32767}, {-100., -25801}, {-56., -14448}, {50 / 256., 50}, {-50 / 256., -51}};
  for (const std::pair<double, int>& each : steps)
    CHECK(rounding::widened(each.first) * 32767 == doctest::Approx(each.second).epsilon(1e-12));
  for (int s = -128 * 256; s <= 127 * 256; ++s) {
    const double away = rounding::widened(s / 256.) * 32767 - s / 256. * 32767 / 127;
    CHECK(std::abs(away) < 1);
  }
}

TEST_CASE("sampling: another precision is off the rounding model") {
  Image row{{31, 1, 1}, 1, {"float", 0, true}, {}, 1};
  for (int i = 0; i < 31; ++i) row.stored.push_back(std::sin(i * i));  // no pattern
  const auto count_off = [&](const Sampling& s, const rounding::Precision& precision) {
    size_t off = 0;
    for (int k = -8000; k < 24000; ++k) {  // at every step of the weights, and between them
      const double place = k / 512.;
      const Place at{float(s.normalized ? place / 31 : place), 0, 0};
      const float read = float(rounding::value_at(row, s, at, precision));
      off += rounding::deviation(row, s, at, read).off;
    }
    return off;
  };
  for (const auto address : {wrap, clamp, mirror, border})
    for (const bool normalized : {false, true}) {
      const Sampling s{address, linear, normalized};
      CAPTURE(int(address));
      CAPTURE(normalized);
      CHECK(count_off(s, {}) == 0);
      CHECK(count_off(s, {0, 0x1p-21, true}) > 0);
      CHECK(count_off(s, {1 / 128., 0x1p-21, true}) > 0);
      CHECK(count_off(s, {1 / 512., 0x1p-21, true}) > 0);
      CHECK((count_off(s, {1 / 256., 0, true}) > 0) == normalized);
      CHECK((count_off(s, {1 / 256., 0x1p-16, true}) > 0) == normalized);
    }
  const Image square{{2, 2, 1}, 2, {"float", 0, true}, {0, 1, 1, 0}};
  const double product = rounding::value_at(square, {clamp, linear, false}, {1, 1 + 1 / 256.f, 0},
                                            {1 / 256., 0x1p-21, false});
  CHECK(rounding::deviation(square, {clamp, linear, false}, {1, 1 + 1 / 256.f, 0}, product).off);
}
