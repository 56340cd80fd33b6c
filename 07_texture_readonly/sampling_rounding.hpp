// What sampling.cu and its appendix, sampling_rounding.cu, share: a texture as the host sees it.
// The appendix computes what a texture returns to the last bit. CUDA documents the modes and 8 bits
// of fraction, which is all that sampling.cu needs; where the hardware rounds was found by reading
// an H200, and another GPU may do it otherwise.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <vector>

namespace rounding {

/// How a texture is read, the same along all of its dimensions.
struct Sampling {
  cudaTextureAddressMode address = cudaAddressModeClamp;
  cudaTextureFilterMode filter = cudaFilterModePoint;
  bool normalized = false;  ///< coordinates are counted in widths, not in texels

  /// Wrap and mirror exist for widths alone; of texels CUDA takes clamp for them.
  bool exists() const {
    return normalized || address == cudaAddressModeClamp || address == cudaAddressModeBorder;
  }
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

/// What is rounded to what; 0 means not at all. The defaults are the hardware's, others serve to
/// show that they matter.
struct Precision {
  double weight = 1 / 256.;   ///< places and weights in linear mode, in texels; halves go up
  double width = 0x1p-21;     ///< coordinates in widths; cut off downwards, also below 0
  bool fixed_weights = true;  ///< the weights of 4 or 8 texels are rounded, too
};

/// What is read at a place.
double value_at(const Image& image, const Sampling& s, const Place& at, const Precision& = {});

/// How far a reading lies from the model, in roundings of 2^-23 of the largest texel, and whether
/// that is more than the model leaves open.
struct Deviation {
  double ulp;
  bool off;
};
Deviation deviation(const Image& image, const Sampling& s, const Place& at, double read);

/// Whether a reading in linear mode is more than those roundings away from what weights give that
/// are not rounded: without such readings the model would show nothing.
bool unlike_exact_weights(const Image& image, const Sampling& s, const Place& at, double read);

}  // namespace rounding
