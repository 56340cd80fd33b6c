// Access patterns: which memory transactions a warp's addresses become, and what they cost. Options
// and the list of experiments; each stands in its own file.
#include "../common/command_line.hpp"
#include "../common/files.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment coalescing_experiment;
[[gnu::weak]] extern const samples::Experiment offset_experiment;
[[gnu::weak]] extern const samples::Experiment stride_experiment;
[[gnu::weak]] extern const samples::Experiment word_size_experiment;
[[gnu::weak]] extern const samples::Experiment yours_experiment;
[[gnu::weak]] void caching(const Run&);
[[gnu::weak]] extern const samples::Experiment l2_window_experiment;
[[gnu::weak]] extern const samples::Experiment structs_experiment;
[[gnu::weak]] void stores(const Run&);
[[gnu::weak]] void reverse(const Run&);
[[gnu::weak]] void work_split(const Run&);
[[gnu::weak]] extern const samples::Experiment matmul_experiment;
[[gnu::weak]] void unroll(const Run&);
[[gnu::weak]] extern const samples::Experiment compare_experiment;
[[gnu::weak]] extern const samples::Experiment dictionary_experiment;

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample(
      {.topic = "03_access_patterns",
       .about = "Which memory transactions a warp's addresses become, and what they cost",
       .experiments =
           {
               listed(&coalescing_experiment),
               listed(&offset_experiment),
               listed(&stride_experiment),
               listed(&word_size_experiment),
               listed(&yours_experiment),
               {"caching", "the same loads through L1 and past it", &caching},
               listed(&l2_window_experiment),
               listed(&structs_experiment),
               {"stores", "stores of one, two and four segments, coalesced and strided", &stores},
               {"reverse", "an array reversed in global memory, and through shared memory",
                &reverse},
               {"work_split", "a chunk for each thread, or threads interleaved", &work_split},
               listed(&matmul_experiment),
               {"unroll", "1 to 8 elements a thread, words of 4 to 16 bytes", &unroll},
               listed(&compare_experiment),
               listed(&dictionary_experiment),
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
