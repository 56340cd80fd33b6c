// Shared memory, seen through one task: the sum of an array. Options and the list of experiments;
// each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment ladder_experiment;
[[gnu::weak]] extern const samples::Experiment divergence_experiment;
[[gnu::weak]] extern const samples::Experiment branches_experiment;
[[gnu::weak]] extern const samples::Experiment barriers_experiment;
[[gnu::weak]] extern const samples::Experiment bank_strides_experiment;
[[gnu::weak]] extern const samples::Experiment bank_steps_experiment;
[[gnu::weak]] extern const samples::Experiment bank_tile_experiment;
[[gnu::weak]] extern const samples::Experiment shared_size_experiment;
[[gnu::weak]] extern const samples::Experiment small_matrices_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample({.topic = "06_shared_reduce",
                     .about = "Divergence, bank conflicts, and a sum as fast as memory",
                     .experiments =
                         {
                             listed(&ladder_experiment),
                             listed(&divergence_experiment),
                             listed(&branches_experiment),
                             listed(&barriers_experiment),
                             listed(&bank_strides_experiment),
                             listed(&bank_steps_experiment),
                             listed(&bank_tile_experiment),
                             listed(&shared_size_experiment),
                             listed(&small_matrices_experiment),
                         },
                     .options = {{"size",
                                  "elements to sum, 4-byte words",
                                  "268435456",
                                  {"ladder"},
                                  [&](const std::string& text) {
                                    const long long most = (long long)Options::largest_size;
                                    options.size = size_t(parse_number("--size", text, 1, most));
                                  }}}},
                    argc, argv);
}
