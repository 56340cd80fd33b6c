// Textures and the read-only path: what today's GPUs make of them. Options and the list of
// experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment read_only_experiment;
[[gnu::weak]] extern const samples::Experiment dimensions_experiment;
[[gnu::weak]] extern const samples::Experiment sampling_experiment;
[[gnu::weak]] extern const samples::Experiment locality_experiment;
[[gnu::weak]] extern const samples::Experiment objects_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample(
      {.topic = "07_texture_readonly",
       .about = "Textures and the read-only path: what they do, and what they still gain",
       .experiments =
           {
               listed(&read_only_experiment),
               listed(&dimensions_experiment),
               listed(&sampling_experiment),
               listed(&locality_experiment),
               listed(&objects_experiment),
           },
       .options =
           {
               {"size",
                "rows, and columns, of the image; read_only reads N x N floats",
                "each experiment's own",
                {"read_only", "locality"},
                [&](const std::string& text) {
                  options.size =
                      size_t(parse_number("--size", text, 1, (long long)Options::largest_size));
                }},
           }},
      argc, argv);
}
