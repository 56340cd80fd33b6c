// Access patterns: which memory transactions a warp's addresses become, and what they cost. Options
// and the list of experiments; each stands in its own file.
#include "../common/command_line.hpp"
#include "../common/files.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] void coalescing(const Run&);
[[gnu::weak]] void offset(const Run&);
[[gnu::weak]] extern const samples::Experiment stride_experiment;
[[gnu::weak]] void word_size(const Run&);
[[gnu::weak]] void yours(const Run&);
[[gnu::weak]] extern const samples::Experiment caching_experiment;
[[gnu::weak]] void l2_window(const Run&);
[[gnu::weak]] extern const samples::Experiment structs_experiment;
[[gnu::weak]] extern const samples::Experiment stores_experiment;
[[gnu::weak]] extern const samples::Experiment reverse_experiment;
[[gnu::weak]] extern const samples::Experiment work_split_experiment;
[[gnu::weak]] void matmul(const Run&);
[[gnu::weak]] extern const samples::Experiment unroll_experiment;
[[gnu::weak]] void compare(const Run&);
[[gnu::weak]] void dictionary(const Run&, const Options&);
[[gnu::weak]] void dictionary_fits(const Run&, const Options&);

int main(int argc, char** argv) {
  Options options;
  return run_sample(
      {.topic = "03_access_patterns",
       .about = "Which memory transactions a warp's addresses become, and what they cost",
       .experiments =
           {
               {"coalescing",
                "a model of five generations, drawn: transactions of one warp's addresses",
                &coalescing},
               {"offset", "reading from 0 to 64 words past the alignment", &offset},
               listed(&stride_experiment),
               {"word_size",
                "words of 4, 8, 16 bytes, coalesced and each in 32 or 128 bytes of its own",
                &word_size},
               {"yours", "your own pattern: drawn, predicted, and measured", &yours},
               listed(&caching_experiment),
               {"l2_window", "an array that is to stay in the L2 while a stream passes by",
                &l2_window},
               listed(&structs_experiment),
               listed(&stores_experiment),
               listed(&reverse_experiment),
               listed(&work_split_experiment),
               {"matmul", "A x B, and A x the transposed B", &matmul},
               listed(&unroll_experiment),
               {"compare", "every X against every Y, and what storing the results costs", &compare},
               {"dictionary", "where each of 16384 words first occurs in a text",
                with(options, dictionary), with(options, dictionary_fits)},
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
