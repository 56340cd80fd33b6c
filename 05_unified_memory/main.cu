// Unified memory: one pointer for both sides, what moves behind it, and what that costs. Options
// and the list of experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "../framework/common/files.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment managed_experiment;
[[gnu::weak]] extern const samples::Experiment page_faults_experiment;
[[gnu::weak]] extern const samples::Experiment fault_times_experiment;
[[gnu::weak]] extern const samples::Experiment fault_tree_experiment;
[[gnu::weak]] extern const samples::Experiment advise_experiment;
[[gnu::weak]] extern const samples::Experiment sort_file_experiment;
[[gnu::weak]] extern const samples::Experiment linked_list_experiment;
[[gnu::weak]] extern const samples::Experiment system_memory_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample(
      {.topic = "05_unified_memory",
       .about = "One pointer for both sides, what moves behind it, and what that costs",
       .experiments =
           {
               listed(&managed_experiment),
               listed(&page_faults_experiment),
               listed(&fault_times_experiment),
               listed(&fault_tree_experiment),
               listed(&advise_experiment),
               listed(&sort_file_experiment),
               listed(&linked_list_experiment),
               listed(&system_memory_experiment),
           },
       .options =
           {
               {"size",
                "floats in an array",
                "each experiment's own",
                {"managed", "page_faults"},
                [&](const std::string& text) {
                  options.size =
                      size_t(parse_number("--size", text, 1, (long long)Options::largest_size));
                }},
               {"file",
                "the file to sort",
                "16 MiB of random bytes",
                {"sort_file"},
                [&](const std::string& path) {
                  options.file = path;
                  options.file_bytes = read_input("--file", path, Options::largest_file);
                },
                TopicOption::read},
               {"output",
                "the file for the sorted bytes",
                "none is written",
                {"sort_file"},
                [&](const std::string& path) { options.output = path; },
                TopicOption::written,
                [&] { return std::string_view(options.sorted); }},
           }},
      argc, argv);
}
