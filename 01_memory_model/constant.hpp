// The parts of the experiment `constant`, each in a file of its own.
#pragma once

#include "../common/report.hpp"

namespace constants {

void measure_misses(const Run& run);        ///< constant_miss.cu: 01.6b, 01.6c
void measure_literals(const Run& run);      ///< constant_literal.cu: 01.7
void measure_coefficients(const Run& run);  ///< constant_coefficient.cu: 01.11

}  // namespace constants
