// What diverge.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Diverge {
  double even;         ///< threadIdx.x % 2 == 0
  double first;        ///< threadIdx.x < 100
  double whole_warps;  ///< threadIdx.x / 32 % 2 == 0
  double quarter;      ///< threadIdx.x % 64 < 16
  double upper;        ///< threadIdx.x >= 128
};

void check_diverge(const Diverge& yours, const Diverge& solution);
