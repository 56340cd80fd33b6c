// The options of measuring, the exit codes, and main's work. main.cu includes it; the parser
// (cxxopts) is compiled once, in command_line.cpp.
#pragma once

#include <functional>
#include <string_view>

#include "experiment.hpp"

/// What a sample's process exits with; CONTRIBUTING.md and cmake/contract.cmake say when.
namespace exit_code {
inline constexpr int success = 0, failure = 1, usage = 2, skipped = 77;
}

/// The whole number `text` from `least` to `most`; throws UsageError for anything but plain decimal
/// digits in that range (no sign, no exponent, no hexadecimal, no separators). `what` names the
/// option or the part of it.
long long parse_number(const std::string& what, const std::string& text, long long least,
                       long long most);

/// An option that only this topic has: `--name VALUE`.
struct TopicOption {
  enum File { none, read, written };

  std::string name;                    ///< without the dashes
  std::string help;                    ///< what it is, with its unit
  std::string by_default;              ///< shown by --help
  std::vector<std::string> heeded_by;  ///< names of experiments; on others it has no effect
  /// Called with the value; throws UsageError, e.g. by parse_number. The name of a file is taken
  /// only if an experiment that heeds it is run; one that is read is read here.
  std::function<void(const std::string&)> take;
  File file = none;  ///< whether the value names a file, and what becomes of it
  /// What is written to the file at the end of the run.
  std::function<std::string_view()> text = nullptr;
};

/// One experiment of the sample, as named on the command line and in --list. One whose function is
/// null (a weak symbol that a build with -DEXPERIMENTS=... leaves out) is not there.
struct Experiment {
  std::string name;
  std::string about;
  std::function<void(const Run&)> run;
  /// Throws UsageError if what was typed does not fit on this device: called before anything is
  /// printed or allocated, and only if an option was typed that the experiment heeds.
  std::function<void(const Run&)> check_typed = nullptr;
};

/// What main.cu declares.
struct Sample {
  std::string topic;
  std::string about;
  std::vector<Experiment> experiments;
  std::vector<TopicOption> options = {};
};

/// A function of an experiment that is given the topic's options, or null where the function is.
template <class Options>
std::function<void(const Run&)> with(const Options& options,
                                     void (*function)(const Run&, const Options&)) {
  if (!function) return nullptr;
  return [&options, function](const Run& run) { function(run, options); };
}

/// One that declares itself, or nothing where the build leaves it out.
inline Experiment listed(const samples::Experiment* declared) {
  if (!declared) return {};
  Experiment experiment{declared->name, declared->about, [declared](const Run& run) {
                          samples::carry_out(*declared, run, results_file("nvidia-h200.csv"));
                        }};
  if (declared->check_typed) experiment.check_typed = declared->check_typed;
  return experiment;
}

/// All of main: `return run_sample({...}, argc, argv);`.
int run_sample(Sample sample, int argc, char** argv);
