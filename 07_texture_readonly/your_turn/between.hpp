// What between.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Between {
  double border;   ///< x = 1
  double quarter;  ///< x = 1.75
  double before;   ///< x = 0.25
  double behind;   ///< x = 9
  double wrapped;  ///< x = 1, if places are normalised and the address mode is wrap
};

void check_between(const Between& yours, const Between& solution);
