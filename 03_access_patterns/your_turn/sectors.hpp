// What sectors.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Sectors {
  double straight;   ///< in[i]
  double shifted;    ///< in[i + 1]
  double strided;    ///< in[8 * i]
  double fourfold;   ///< in[i / 4]
  double backwards;  ///< in[31 - i]
};

void check_sectors(const Sectors& yours, const Sectors& solution);
