// What diagnose.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

enum class Cause {
  unknown,
  scattered_loads,   ///< the lanes of a warp read from as many sectors as there are lanes
  scattered_stores,  ///< they write to as many
  misaligned_loads,  ///< neighbours, but the first one is not at the beginning of a sector
  bank_conflicts,    ///< lanes meet in a bank of shared memory
  nothing            ///< neither a sector nor a wavefront too many
};

struct Diagnose {
  Cause a, b, c, d, e;
};

void check_diagnose(const Diagnose& yours, const Diagnose& solution);
