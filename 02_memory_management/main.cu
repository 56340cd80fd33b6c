// Memory management: what it costs to allocate memory and to carry data to the GPU and back.
// Options and the list of experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment allocation_experiment;
[[gnu::weak]] extern const samples::Experiment transfer_experiment;
[[gnu::weak]] extern const samples::Experiment batching_experiment;
[[gnu::weak]] extern const samples::Experiment keep_on_device_experiment;
[[gnu::weak]] extern const samples::Experiment zero_copy_experiment;
[[gnu::weak]] extern const samples::Experiment pitch_experiment;
[[gnu::weak]] extern const samples::Experiment overlap_experiment;
[[gnu::weak]] extern const samples::Experiment peer_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample(
      {.topic = "02_memory_management",
       .about = "What it costs to allocate memory, and to carry data to the GPU and back",
       .experiments =
           {
               listed(&allocation_experiment),
               listed(&transfer_experiment),
               listed(&batching_experiment),
               listed(&keep_on_device_experiment),
               listed(&zero_copy_experiment),
               listed(&pitch_experiment),
               listed(&overlap_experiment),
               listed(&peer_experiment),
           },
       .options =
           {
               {"size",
                "bytes that are moved: transfer's largest copy, batching's total, overlap's array",
                "each experiment's own",
                {"transfer", "batching", "overlap"},
                [&](const std::string& text) {
                  options.size =
                      size_t(parse_number("--size", text, 1, (long long)Options::largest_size));
                }},
           }},
      argc, argv);
}
