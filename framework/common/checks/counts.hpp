// Self-checks by Nsight Compute's counts: those of this run, and those that were recorded.
#pragma once

#include "../counters.hpp"

/// All of the case "<experiment>: profile launches": launches all in order, each after the line by
/// which tools/counters.py knows it, and checks their results.
void launch_counted(const std::vector<CountedLaunch>& all);

/// All of a case "<experiment>: counts of this GPU equal the model": each expected count is the one
/// in the file of --counters, without which the case is skipped. Prints both.
void compare_with_counts_of_this_run(const std::vector<CountedLaunch>& all);

/// The same of launches whose parameters chance made, too many to read: prints those that differ,
/// and how many do not.
void compare_patterns_with_counts_of_this_run(const std::vector<CountedLaunch>& all);

/// All of a case named after `gpu`: the model against counts recorded on it, `file` as in
/// results_file("<gpu>-counters.csv"). Tests the model, not the kernels of this build.
void compare_with_recorded_counts(const std::vector<CountedLaunch>& all, const std::string& file);
