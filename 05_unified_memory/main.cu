// Unified memory: one pointer for both sides, what moves behind it, and what that costs. Options and the list of
// experiments; each stands in its own file.
#include "../common/command_line.hpp"
#include "options.hpp"
#include "whole_file.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] void managed(const Run&, const Options&);
[[gnu::weak]] void page_faults(const Run&, const Options&);
[[gnu::weak]] void advise(const Run&);
[[gnu::weak]] void sort_file(const Run&, const Options&);
[[gnu::weak]] void linked_list(const Run&);

int main(int argc, char** argv) {
  Options options;
  return run_sample(
      {.topic = "05_unified_memory",
       .about = "One pointer for both sides, what moves behind it, and what that costs",
       .experiments =
           {
               {"managed", "managed memory, explicit copies and zero-copy side by side", with(options, managed)},
               {"page_faults", "transfers and faults of four ways to touch pages, counted", with(options, page_faults)},
               {"advise", "what each advice changes, where it helps and where it hurts", &advise},
               {"sort_file", "a file sorted on the host, and by the GPU in managed memory", with(options, sort_file)},
               {"linked_list", "a list and a tree used by both sides, with and without a deep copy", &linked_list},
           },
       .options =
           {
               {"size", "floats in an array of managed and of page_faults", "each experiment's own",
                [&](const std::string& text) {
                  options.size = size_t(parse_number("--size", text, 1, (long long)Options::largest_size));
                }},
               {"file", "the file that sort_file sorts", "16 MiB of random bytes",
                [&](const std::string& text) { require_readable(text), options.file = text; }},
               {"output", "the file that sort_file writes the sorted bytes to", "none is written",
                [&](const std::string& text) { write_whole(text, nullptr), options.output = text; }},
           }},
      argc, argv);
}
