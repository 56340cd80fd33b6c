// What a texture returns, computed on the host: address modes, filters, and the fixed-point numbers that the hardware
// computes with. That there are 8 bits of fraction is documented; the rest is what an H200 was seen to do.
//
// A coordinate becomes a place u, counted in texels, of which texel i covers [i, i + 1). Point mode returns texel
// floor(u). Linear mode rounds u to the nearest multiple of 1/256, halves upwards, and blends texels i and i + 1 with
// weights 1 - alpha and alpha, where u - 0.5 = i + alpha. The weights of 4 or 8 texels are multiples of 1/256 too.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

/// How a texture is read, the same along all of its dimensions.
struct Sampling {
  cudaTextureAddressMode address = cudaAddressModeClamp;
  cudaTextureFilterMode filter = cudaFilterModePoint;
  bool normalized = false;  ///< coordinates are counted in widths, not in texels
};

/// Wrap and mirror exist for normalised coordinates alone; otherwise CUDA takes clamp for them.
inline bool supported(const Sampling& s) {
  return s.normalized || s.address == cudaAddressModeClamp || s.address == cudaAddressModeBorder;
}
inline cudaTextureAddressMode effective_address(const Sampling& s) {
  return supported(s) ? s.address : cudaAddressModeClamp;
}

/// The texels as numbers, x fastest; a dimension that is not there has size 1.
struct Image {
  std::array<int, 3> size{1, 1, 1};
  int dims = 1;
  std::vector<double> texel = {};
  double border = 0;  ///< what border mode finds outside
  double step = 0;    ///< a blend is rounded to a multiple of it: 1/32767 or 1/65535 for fractions; 0: it is not
  double lowest = -std::numeric_limits<double>::infinity();  ///< a blend below it becomes it: -1 for signed fractions
  bool signed_bytes = false;  ///< texels of -128 to 127 are blended as they are, and widened afterwards
};

/// A blend of fractions has 16 bits, whatever the texels have.
template <class Element>
constexpr double blend_step = 1. / (std::is_signed_v<Element> ? 32767 : 65535);

/// What a texel is read as, or blended as. Fractions are of the largest Element; in a blend the most negative one stays
/// below -1 (-32768 / 32767), which a result, blended or not, never is.
template <class Element, class Result>
double number_of(Element value, cudaTextureFilterMode filter) {
  const bool byte = std::is_same_v<Element, signed char> && filter == cudaFilterModeLinear;
  if (std::is_same_v<Element, Result> || byte) return double(value);
  const double fraction = double(value) / double(std::numeric_limits<Element>::max());
  return filter == cudaFilterModeLinear ? fraction : std::max(-1.0, fraction);
}

/// The fraction that a blend of signed bytes becomes. 32767/127 is 258 and 1/127; the hardware takes 256 and 2, and in
/// place of the rest an eighth of a step for each 16 that the blend is above 0, rounding what is lost: found from 2671
/// readings of an H200, which it gives to the last bit. It is nowhere a whole step from the true fraction.
inline double widened(double blend) { return std::floor(258 * blend + std::floor(blend / 16) / 8 + 0.5) / 32767; }

/// Texels as the model wants them; a dimension of `extent` that is 0 is not there. The border is 1, exact as anything.
template <class Element, class Result>
Image image_of(const cudaExtent& extent, const std::vector<Element>& texels, cudaTextureFilterMode filter) {
  const auto size = [](size_t n) { return std::max(1, int(n)); };
  Image image{{size(extent.width), size(extent.height), size(extent.depth)}, 1 + !!extent.height + !!extent.depth};
  image.border = 1;
  for (const Element& each : texels) image.texel.push_back(number_of<Element, Result>(each, filter));
  if (std::is_same_v<Element, Result>) return image;
  image.signed_bytes = std::is_same_v<Element, signed char> && filter == cudaFilterModeLinear;
  if (image.signed_bytes) image.border = 127;
  if (!image.signed_bytes) image.step = blend_step<Element>;
  if (std::is_signed_v<Element>) image.lowest = -1;
  return image;
}

/// What the hardware rounds to; 0 means not at all. The defaults are its own, others serve to show that they matter.
struct Precision {
  double weight = 1 / 256.;  ///< places and weights in linear mode, in texels; halves go up
  double width = 0x1p-21;    ///< a normalised coordinate, in widths; it is cut off downwards, also below 0
  double round_weight(double w) const { return weight ? std::floor(w / weight + 0.5) * weight : w; }
  double cut_width(double x) const { return width ? std::floor(x / width) * width : x; }
};

/// How far float arithmetic may raise a coordinate before the cut: what is left of it without its whole part is rounded
/// by 2^-25 at most, and a denormal may count as 0.
inline constexpr double coordinate_slack = 0x1p-25;

/// Two neighbours along one dimension (-1: the border) and the weight of the second.
struct Pick {
  int first = 0, second = 0;
  double alpha = 0;
};
using Picks = std::array<Pick, 3>;

/// What coordinate `x` picks along a dimension of `size` texels.
inline Pick pick_at(const Sampling& s, double x, int size, const Precision& precision = {}) {
  const auto address = effective_address(s);
  double u = s.normalized ? precision.cut_width(x) : x;
  const double period = std::floor(u);  // of wrap and mirror; odd ones are mirrored
  const bool mirrored = address == cudaAddressModeMirror && std::fmod(period, 2) != 0;
  if (address == cudaAddressModeWrap || address == cudaAddressModeMirror) u -= period;
  if (s.normalized) u *= size;
  // clamp keeps to the centres of the outer texels, where alpha is 0; two texels outside is as good as a thousand
  const double rim = address == cudaAddressModeClamp ? 0.5 : -2;
  u = std::clamp(u, rim, size - rim);
  const auto texel = [&](int i) {
    if (mirrored) i = size - 1 - i;  // the texels change places; how u is rounded does not
    if (i >= 0 && i < size) return i;
    if (address == cudaAddressModeBorder) return -1;
    return address == cudaAddressModeWrap ? (i + size) % size : std::clamp(i, 0, size - 1);  // the latter of mirror too
  };
  if (s.filter == cudaFilterModePoint) return {texel(int(std::floor(u))), texel(int(std::floor(u))), 0};
  u = precision.round_weight(u) - 0.5;
  const int i = int(std::floor(u));
  return {texel(i), texel(i + 1), u - i};
}

/// The weights of 2, 4 or 8 texels, bit d of the index saying whether it is the second along dimension d: multiples of
/// 1/256 that sum to 1. z splits 1 between two slices, x a slice between two columns, y a column between two texels; of
/// these the outer ones (second of the second, first of the first) are rounded, the others get what is left.
inline std::array<double, 8> weights_of(int dims, const Picks& pick, const Precision& precision = {}) {
  std::array<double, 8> weights{};
  for (int z = 0; z < (dims == 3 ? 2 : 1); ++z) {
    const double slice = dims < 3 ? 1 : z ? pick[2].alpha : 1 - pick[2].alpha;
    const double right = precision.round_weight(slice * pick[0].alpha), left = slice - right;
    const double upper_left = dims < 2 ? left : precision.round_weight(left * (1 - pick[1].alpha));
    const double lower_right = dims < 2 ? 0 : precision.round_weight(right * pick[1].alpha);
    double* const w = &weights[4 * z];
    w[0] = upper_left, w[1] = right - lower_right, w[2] = left - upper_left, w[3] = lower_right;
  }
  return weights;
}

/// The weighted mean of the texels picked, not yet rounded to image.step.
inline double blend(const Image& image, const Picks& pick, const Precision& precision = {}) {
  const auto weights = weights_of(image.dims, pick, precision);
  double sum = 0;
  for (int corner = 0; corner < 1 << image.dims; ++corner) {
    if (weights[corner] == 0) continue;
    int at[3] = {};
    for (int d = 0; d < image.dims; ++d) at[d] = corner >> d & 1 ? pick[d].second : pick[d].first;
    const bool outside = at[0] < 0 || at[1] < 0 || at[2] < 0;
    sum += weights[corner] *
           (outside ? image.border : image.texel[(size_t(at[2]) * image.size[1] + at[1]) * image.size[0] + at[0]]);
  }
  return std::max(image.signed_bytes ? widened(sum) : sum, image.lowest);
}

inline double value_at(const Image& image, const Sampling& s, const std::array<float, 3>& at,
                       const Precision& precision = {}) {
  Picks pick{};
  for (int d = 0; d < image.dims; ++d) pick[d] = pick_at(s, at[d], image.size[d], precision);
  return blend(image, pick, precision);
}

/// How far `measured` is from the value at a point or at one raised by coordinate_slack; infinite if it is not a
/// number.
inline double deviation(const Image& image, const Sampling& s, const std::array<float, 3>& at, double measured) {
  double nearest = std::numeric_limits<double>::infinity();
  for (int shifted = 0; shifted < 1 << image.dims; ++shifted) {
    Picks pick{};
    for (int d = 0; d < image.dims; ++d)
      pick[d] = pick_at(s, double(at[d]) + (shifted >> d & 1 ? coordinate_slack : 0), image.size[d]);
    nearest = std::min(nearest, std::abs(blend(image, pick) - measured));
  }
  return nearest;
}
