// The data sheet's bandwidth, by which peak and sum divide what they reach, and what lies above it.
#pragma once

#include <cmath>
#include <map>
#include <string>

#include "../common/check.hpp"
#include "../common/run.hpp"

/// 2 x memory clock x width, in GB/s: two transfers per cycle. NAN where the driver does not say.
inline double theoretical_gbs() {
  const int kHz = device_attribute(cudaDevAttrMemoryClockRate);
  const int bits = device_attribute(cudaDevAttrGlobalMemoryBusWidth);
  return kHz > 0 && bits > 0 ? 2e3 * kHz * bits / 8 * 1e-9 : NAN;
}

/// Notes which rows' shares of theory are above 1, and why that can be.
inline void note_above_theory(Run& run, const std::map<std::string, double>& shares) {
  for (const auto& [row, share] : shares)
    if (share > 1)
      run.note(row + ": above theory: the L2 serves a part, or the driver reports a wrong clock");
}
