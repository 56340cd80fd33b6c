// The appendix of sampling: what a texture returns, to the last bit. SAMPLING.md says it in words.
//
// A coordinate becomes a place u, counted in texels, of which texel i covers [i, i + 1). Point mode
// returns texel floor(u). Linear mode rounds u to the nearest multiple of 1/256, halves upwards,
// and blends texels i and i + 1 with weights 1 - alpha and alpha, where u - 0.5 = i + alpha. The
// weights of 4 or 8 texels are multiples of 1/256, too. Found on an H200; it held on an H100. Of
// rows of thousands of texels a few readings differ.
#include "sampling_rounding.hpp"

#include <algorithm>
#include <cmath>
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
