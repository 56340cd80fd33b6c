// What search.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

enum class Line { unknown, malloc_text, copy_text, malloc_found, launch, copy_found };

enum class Limit {
  unknown,
  device_memory,  ///< the text does not fit
  memory_bounds,  ///< a thread reads beyond the text
  grid_size,      ///< more blocks or threads than a launch may have
  registers,      ///< more than a thread, or a multiprocessor, has
  run_time        ///< a kernel takes longer than the system lets it
};

struct Search {
  double seconds;
  Limit limit;
  Line line;
};

void check_search(const Search& yours, const Search& solution);
