// What advise.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Advise {
  double mapped;         ///< ms: one pass over the array, mapped
  double moved;          ///< ms: one pass, moved
  double passes;         ///< from so many passes on moving takes less time
  double sparse_mapped;  ///< KiB over the link: one word of each 64 KiB, mapped
  double sparse_moved;   ///< KiB over the link: the same, moved
};

void check_advise(const Advise& yours, const Advise& solution);
