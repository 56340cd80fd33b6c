// What fault_times has from page_faults.
#pragma once

#include <vector>

#include "../common/timing.hpp"

/// The four versions of the copy, each from inputs on the host to results there.
std::vector<Benchmark> copies_from_host_to_host();
