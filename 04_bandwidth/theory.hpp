// The data sheet's bandwidth, by which peak and sum divide what they reach.
#pragma once

#include <cmath>

#include "../common/check.hpp"

/// 2 x memory clock x width, in GB/s: two transfers per cycle. NAN where the driver does not say.
inline double theoretical_gbs() {
  int device = 0, kHz = 0, bits = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&kHz, cudaDevAttrMemoryClockRate, device));
  CUDA_CHECK(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device));
  return kHz > 0 && bits > 0 ? 2e3 * kHz * bits / 8 * 1e-9 : NAN;
}
