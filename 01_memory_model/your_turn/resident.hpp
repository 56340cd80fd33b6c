// What resident.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Resident {
  double narrow;     ///< 256 threads, 32 registers
  double wide;       ///< 256 threads, 40 registers
  double large;      ///< 1024 threads, 40 registers
  double single;     ///< 32 threads, 32 registers
  double sharing;    ///< 128 threads, 32 registers, 48 KiB of shared memory
  double registers;  ///< that a thread may have under __launch_bounds__(256, 6)
};

void check_resident(const Resident& yours, const Resident& solution);
