// latency's other files: what all multiprocessors together read in a second, and what many warps
// make of the latency of registers.
#pragma once

#include "../framework/common/experiment.hpp"

// latency_bandwidth.cu
void run_bandwidth(const Run& run);
samples::Claim bandwidth_claim(const Run& run);
samples::Needs bandwidth_needs(const Run& run);
std::vector<samples::Checked> bandwidth_tasks(size_t n);

// latency_warps.cu
void run_warps(const Run& run);
samples::Claim warps_claim();
std::vector<samples::Checked> warps_tasks(size_t n);
/// Cycles from an arithmetic instruction to the next that needs its result. The guide: "typically 4
/// clock cycles" from 7.0 on, about 6 on 5.x and 6.x.
double dependent_arithmetic_cycles(int major);
/// Multiply-adds of 32-bit floats that a multiprocessor can begin in each cycle, as the guide's
/// table of throughput has them.
double multiply_adds_per_cycle(int major, int minor);
