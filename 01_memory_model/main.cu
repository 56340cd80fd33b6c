// Memory spaces: what each kind of memory on a GPU is, holds and costs. Options and the list of
// experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment device_experiment;
[[gnu::weak]] extern const samples::Experiment symbols_experiment;
[[gnu::weak]] extern const samples::Experiment pointers_experiment;
[[gnu::weak]] extern const samples::Experiment registers_experiment;
[[gnu::weak]] extern const samples::Experiment local_arrays_experiment;
[[gnu::weak]] extern const samples::Experiment constant_experiment;
[[gnu::weak]] extern const samples::Experiment latency_experiment;
[[gnu::weak]] extern const samples::Experiment carveout_experiment;
[[gnu::weak]] extern const samples::Experiment timing_experiment;

int main(int argc, char** argv) {
  return run_sample({.topic = "01_memory_model",
                     .about = "What each kind of memory on a GPU is, holds and costs",
                     .experiments =
                         {
                             listed(&device_experiment),
                             listed(&symbols_experiment),
                             listed(&pointers_experiment),
                             listed(&registers_experiment),
                             listed(&local_arrays_experiment),
                             listed(&constant_experiment),
                             listed(&latency_experiment),
                             listed(&carveout_experiment),
                             listed(&timing_experiment),
                         }},
                    argc, argv);
}
