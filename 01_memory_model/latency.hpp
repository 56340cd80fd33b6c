// latency's other file: what all multiprocessors together read in a second.
#pragma once

#include "../common/experiment.hpp"

// latency_bandwidth.cu
void run_bandwidth(const Run& run);
samples::Claim bandwidth_claim(const Run& run);
samples::Needs bandwidth_needs(const Run& run);
std::vector<samples::Checked> bandwidth_tasks(size_t n);
