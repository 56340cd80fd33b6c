// keep_on_device's two files: the step, and the work of one operation per word.
#pragma once

#include "../framework/common/experiment.hpp"

// keep_on_device_carried.cu
void run_carried(const Run& run);
samples::Claim carried_claim(const Run& run);
double carried_bytes(const Run& run);  ///< on the GPU
void add_carried_tasks(std::vector<samples::Checked>& all, size_t n);
