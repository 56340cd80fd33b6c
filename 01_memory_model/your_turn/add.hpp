// What add.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Add {
  void (*with_an_atomic)(unsigned* value, const unsigned* amount);
  void (*without_atomics)(unsigned* value, const unsigned* amount);
  const char* file;                      ///< the source, which the check compiles
  const char* name = "without_atomics";  ///< of the second kernel, in that file
};

void check_add(const Add& yours, const Add& solution);
