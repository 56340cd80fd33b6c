// The checks that every experiment gets: `EXPERIMENT_CHECKS(stride)` stands at the end of
// checks/stride.cu.
#pragma once

#include <doctest/doctest.h>

#include "../experiment.hpp"
#include "counts.hpp"

namespace samples {

/// What the experiment takes fits seven made-up GPUs, and lies beyond the L2.
void check_needs(const Experiment& experiment);
/// With made-up times, on these GPUs and without one: every key is legal, unique and found, every
/// task is its row's, every claim compares two rows that were measured in turn.
void check_rehearsal(const Experiment& experiment);
/// The recorded times and counts give every recorded rate, prediction, ratio and verdict again.
void check_replay(const Experiment& experiment, const std::string& results);
/// Every task is right at awkward sizes, wrong after poison, and notices one changed element.
void check_tasks(const Experiment& experiment, const std::vector<size_t>& sizes);
void check_plausible(const Experiment& experiment);

/// A number for a row with this key and `at`, or for its metric where it is no time. Rows that are
/// not named have 1.
struct Given {
  Ref ref;
  double value;
  std::string metric = "time";
};
/// The verdict on a part if rows take these times (in ms) on a made-up GPU: for self-checks that
/// say which pair decides.
std::string verdict_if(const Experiment& experiment, const std::string& part,
                       const std::vector<Given>& given);

}  // namespace samples

/// Of an experiment that predicts no time: facts, right or wrong.
#define EXPERIMENT_CHECKS_OF_FACTS(name)                                                         \
  TEST_CASE(#name ": needs, on made-up GPUs") { check_needs(name##_experiment); }                \
  TEST_CASE(#name ": rehearsal with made-up times") { check_rehearsal(name##_experiment); }      \
  TEST_CASE(#name ": replay of what an NVIDIA H200 gave") {                                      \
    check_replay(name##_experiment, results_file("nvidia-h200.csv"));                            \
  }                                                                                              \
  TEST_CASE(#name ": replay of what an NVIDIA H100 gave") {                                      \
    check_replay(name##_experiment, results_file("nvidia-h100-80gb-hbm3.csv"));                  \
  }                                                                                              \
  TEST_CASE(#name ": tasks at awkward sizes") {                                                  \
    check_tasks(name##_experiment, {1, 31, 257, 1009});                                          \
  }                                                                                              \
  TEST_CASE(#name ": tasks at large awkward sizes" * doctest::test_suite("long")) {              \
    check_tasks(name##_experiment, {65537, 1000003});                                            \
  }                                                                                              \
  TEST_CASE(#name ": the model equals what was counted on an NVIDIA H200") {                     \
    if (name##_experiment.counted)                                                               \
      compare_with_recorded_counts(name##_experiment.counted(),                                  \
                                   results_file("nvidia-h200-counters.csv"));                    \
  }                                                                                              \
  TEST_CASE(#name ": counts of this GPU equal the model") {                                      \
    if (name##_experiment.counted) compare_with_counts_of_this_run(name##_experiment.counted()); \
  }                                                                                              \
  TEST_CASE(#name ": profile launches") {                                                        \
    if (skip_without_gpu()) return;                                                              \
    if (name##_experiment.counted) launch_counted(name##_experiment.counted());                  \
  }

#define EXPERIMENT_CHECKS(name)                                         \
  EXPERIMENT_CHECKS_OF_FACTS(name)                                      \
  TEST_CASE(#name ": measured rows lie where its models predict them" * \
            doctest::test_suite("plausible") * doctest::skip()) {       \
    check_plausible(name##_experiment);                                 \
  }
