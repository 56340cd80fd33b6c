// Bandwidth: how close a kernel gets to what the memory can do. Options and the list of
// experiments; each stands in its own file.
#include "../framework/common/command_line.hpp"
#include "options.hpp"

// weak: a build with -DEXPERIMENTS=... leaves the others out
[[gnu::weak]] extern const samples::Experiment peak_experiment;
[[gnu::weak]] extern const samples::Experiment in_flight_experiment;
[[gnu::weak]] extern const samples::Experiment transpose_experiment;
[[gnu::weak]] extern const samples::Experiment sum_experiment;
[[gnu::weak]] extern const samples::Experiment threads_experiment;
[[gnu::weak]] extern const samples::Experiment blocks_experiment;
[[gnu::weak]] extern const samples::Experiment block_shape_experiment;
[[gnu::weak]] extern const samples::Experiment async_copy_experiment;

namespace {

constexpr long long most_threads = 1024;  // of a block, on every GPU since 2010

/// Takes "WxH", as in 32x8, into `options`.
void take_block(const std::string& text, Options& options) {
  const size_t x = text.find('x');
  if (x == std::string::npos) throw UsageError("--block: '" + text + "' is not WxH, as in 32x8");
  const long long width =
      parse_number("--block, threads across", text.substr(0, x), 1, most_threads);
  const long long height =
      parse_number("--block, threads down", text.substr(x + 1), 1, most_threads);
  if (width * height > most_threads)
    throw UsageError("--block: " + text + " are " + std::to_string(width * height) +
                     " threads; a block has at most " + std::to_string(most_threads));
  options.block_x = unsigned(width), options.block_y = unsigned(height);
}

}  // namespace

int main(int argc, char** argv) {
  Options& options = typed_options();
  return run_sample({.topic = "04_bandwidth",
                     .about = "How close a kernel gets to what the memory can do",
                     .experiments =
                         {
                             listed(&peak_experiment),
                             listed(&in_flight_experiment),
                             listed(&transpose_experiment),
                             listed(&sum_experiment),
                             listed(&threads_experiment),
                             listed(&blocks_experiment),
                             listed(&block_shape_experiment),
                             listed(&async_copy_experiment),
                         },
                     .options =
                         {
                             {"size",
                              "rows, and columns, of the matrices; peak's arrays hold N x N floats",
                              "each experiment's own",
                              {"peak", "transpose", "sum"},
                              [&](const std::string& text) {
                                options.size = size_t(parse_number(
                                    "--size", text, 1, (long long)Options::largest_size));
                              }},
                             {"block",
                              "threads of a block across and down, WxH, in one-element kernels",
                              "32x8",
                              {"transpose"},
                              [&](const std::string& text) { take_block(text, options); }},
                         }},
                    argc, argv);
}
