// The second table of `device`: how fast the memories are.
#pragma once

#include "../common/report.hpp"

/// Measures and shows what all multiprocessors together read in a second. Needs a GPU.
void show_rates(const Run& run);
