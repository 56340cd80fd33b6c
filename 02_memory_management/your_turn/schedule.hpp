// What schedule.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Schedule {
  double whole;       ///< 1 chunk
  double halves;      ///< 2 chunks
  double eighths;     ///< 8 chunks
  double one_stream;  ///< 8 chunks, all in one stream
  double crumbs;      ///< 1000 chunks, and each copy takes 5 us more, to start
};

void check_schedule(const Schedule& yours, const Schedule& solution);
