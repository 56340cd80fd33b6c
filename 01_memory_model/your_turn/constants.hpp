// What constants.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Constants {
  double same;     ///< table[blockIdx.x]
  double lane;     ///< table[threadIdx.x % 32]
  double fours;    ///< table[threadIdx.x % 4]
  double eighths;  ///< table[threadIdx.x % 32 / 8]
  double warps;    ///< table[threadIdx.x / 32]
};

void check_constants(const Constants& yours, const Constants& solution);
