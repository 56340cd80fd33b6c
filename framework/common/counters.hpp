// Launches that Nsight Compute counts, and their counts beside a model's.
//
// The profile preset runs the cases "<experiment>: profile launches" under ncu and keeps what it
// counted in a file, which begins with the GPU and the program that were counted. `--counters FILE`
// hands it to a run of the same program on the same GPU: to its self-checks, which hold the model
// against it, and to claims whose text counted too.
#pragma once

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "timing.hpp"

/// What a model says of one counter of a launch.
struct Expected {
  std::string what;    ///< as shown
  std::string metric;  ///< Nsight Compute's name of the counter
  double value;        ///< predicted count of the whole launch
};

/// Requests of a warp to global memory, loads or stores, that a launch makes.
Expected expected_requests(bool loads, double requests);
/// Sectors of 32 bytes of global memory that these requests touch.
Expected expected_sectors(bool loads, double sectors);
/// Passes through shared memory that the launch's loads or stores take.
Expected expected_wavefronts(bool loads, double wavefronts);

/// A launch that is counted, known by the pair of its kernel's plain name and a parameter, both
/// without commas.
struct CountedLaunch {
  std::string kernel, parameter;
  std::vector<Expected> expected;
  Function<bool()> launch;  ///< launches that kernel once and says whether its result was right
};

/// A count of the file that --counters names; not a number without one, or where it has none.
/// `metric` is Nsight Compute's name.
double count_of_this_run(const std::string& kernel, const std::string& parameter,
                         const std::string& metric);
/// Whether --counters was given.
bool counted_in_this_run();

/// Where a topic's recorded results are: `installed`, a path as seen from the folder of this
/// program, if it is there, and else `sources`.
std::string results_folder(const std::string& sources, const std::string& installed);

/// The path of a file of this topic's results/; empty in a build by one line of nvcc.
inline std::string results_file([[maybe_unused]] const std::string& name) {
#ifdef SAMPLE_RESULTS_DIR
  return results_folder(SAMPLE_RESULTS_DIR, SAMPLE_INSTALLED_RESULTS) + "/" + name;
#else
  return {};
#endif
}

namespace counters {

/// Counts of launches, by "kernel,parameter,metric".
struct Counts {
  std::vector<std::pair<std::string, double>> all;

  /// Not a number where it was not counted.
  double find(const std::string& kernel, const std::string& parameter,
              const std::string& metric) const;
};
/// Those of a counters file; lines of another kind are passed over.
Counts read_counts(std::istream& file);

/// "GPU-..., program ..." of the current device and of this program: the first line of a counters
/// file says it after "# gpu ".
std::string identity();
/// Takes the file of --counters. Throws UsageError if it cannot be read, or if another GPU or
/// another program was counted. Without a GPU any GPU will do, and nothing of the file is kept.
void take_file(const std::string& path, bool has_gpu);
/// Prints what the first line of a counters file is made from, once.
void announce();

}  // namespace counters
