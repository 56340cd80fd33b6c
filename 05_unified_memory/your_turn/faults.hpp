// What faults.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Faults {
  double in_order;             ///< faults, if the host touches parts 0, 1, 2 ... 31
  double kib;                  ///< that the host has after it touched parts 0, 1, 2 and 4
  double every_second;         ///< faults, if it touches parts 0, 2, 4 ... 30
  double kib_of_every_second;  ///< that it has then
};

void check_faults(const Faults& yours, const Faults& solution);
