// Access patterns: which memory transactions a warp's addresses become, and what they cost. Options
// and the list of experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "../framework/common/files.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment coalescing_experiment;
[[gnu::weak]] extern const samples::Experiment stride_experiment;
[[gnu::weak]] extern const samples::Experiment structs_experiment;
[[gnu::weak]] extern const samples::Experiment matmul_experiment;
[[gnu::weak]] extern const samples::Experiment offset_experiment;
[[gnu::weak]] extern const samples::Experiment word_size_experiment;
[[gnu::weak]] extern const samples::Experiment yours_experiment;
[[gnu::weak]] extern const samples::Experiment caching_experiment;
[[gnu::weak]] extern const samples::Experiment stores_experiment;
[[gnu::weak]] extern const samples::Experiment reverse_experiment;
[[gnu::weak]] extern const samples::Experiment work_split_experiment;
[[gnu::weak]] extern const samples::Experiment unroll_experiment;
[[gnu::weak]] extern const samples::Experiment compare_experiment;
[[gnu::weak]] extern const samples::Experiment dictionary_experiment;
[[gnu::weak]] extern const samples::Experiment l2_window_experiment;
[[gnu::weak]] extern const samples::Experiment fetch_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample(
      {.topic = "03_access_patterns",
       .about = "Which memory transactions a warp's addresses become, and what they cost",
       .experiments =
           {
               listed(&coalescing_experiment),
               listed(&stride_experiment),
               listed(&structs_experiment),
               listed(&matmul_experiment),
               listed(&offset_experiment),
               listed(&word_size_experiment),
               listed(&yours_experiment),
               listed(&caching_experiment),
               listed(&stores_experiment),
               listed(&reverse_experiment),
               listed(&work_split_experiment),
               listed(&unroll_experiment),
               listed(&compare_experiment),
               listed(&dictionary_experiment),
               listed(&l2_window_experiment),
               listed(&fetch_experiment),
           },
       .options =
           {
               {"text",
                "a file to search, as it is, byte by byte",
                "a text made with a fixed seed",
                {"dictionary"},
                [&](const std::string& path) {
                  options.text = path;
                  options.text_bytes = read_input("--text", path, Options::largest_text);
                },
                TopicOption::read},
           }},
      argc, argv);
}
