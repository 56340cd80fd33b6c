// What transpose.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Transpose {
  void (*kernel)(unsigned* out, const unsigned* in, unsigned nx, unsigned ny);
};

void check_transpose(const Transpose& yours, const Transpose& solution);
