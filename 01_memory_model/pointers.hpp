// The second table of `pointers`: what a generic load costs.
#pragma once

#include "../common/report.hpp"

/// Measures and shows it beside the loads that spaces have for themselves.
void show_generic_price(const Run& run);
