// The options of measuring, the exit codes, and main's work. main.cu includes it; the parser
// (cxxopts) and doctest's runner are compiled once, in command_line.cpp.
#pragma once

#include <doctest/doctest.h>

#include <functional>

#include "report.hpp"

/// What a sample's process exits with; CONTRIBUTING.md and cmake/contract.cmake say when.
namespace exit_code {
inline constexpr int success = 0, failure = 1, usage = 2, skipped = 77, interrupted = 130;
}

/// The whole number `text` from `least` to `most`; throws UsageError for anything but plain decimal
/// digits in that range (no sign, no exponent, no hexadecimal, no separators). `what` names the
/// option or the part of it.
long long parse_number(const std::string& what, const std::string& text, long long least,
                       long long most);

/// An option that only this topic has: `--name VALUE`.
struct TopicOption {
  std::string name;        ///< without the dashes
  std::string help;        ///< what it is, with its unit
  std::string by_default;  ///< shown by --help
  /// Called with the value; throws UsageError, e.g. by parse_number.
  std::function<void(const std::string&)> take;
};

/// One experiment of the sample, as named on the command line and in --list. One whose function is
/// null (a weak symbol that a build with -DEXPERIMENTS=... leaves out) is not there.
struct Experiment {
  std::string name;
  std::string about;
  std::function<void(const Run&)> run;
};

/// What main.cu declares.
struct Sample {
  std::string topic;
  std::string about;
  std::vector<Experiment> experiments;
  std::vector<TopicOption> options = {};
};

/// An experiment that is given the topic's options, or null where the experiment is.
template <class Options>
std::function<void(const Run&)> with(const Options& options,
                                     void (*experiment)(const Run&, const Options&)) {
  if (!experiment) return nullptr;
  return [&options, experiment](const Run& run) { experiment(run, options); };
}

/// A file that is written whole or not at all. Opening probes it: a regular file's text goes to a
/// new file beside it, renamed when all of it is on the disk; a device or pipe is written directly.
class OutputFile {
 public:
  /// Throws std::runtime_error if `path` cannot be written.
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  ~OutputFile();

  /// Writes all of `text` and puts the file in its place; throws std::runtime_error if any of it
  /// could not be written.
  void finish(const std::string& text);

  /// Safe in a signal handler.
  static void remove_temporary();

 private:
  [[noreturn]] void fail(const std::string& why);

  std::string path_, target_;
  unsigned mode_ = 0666;
  int file_ = -1;
};

/// All of main: `return run_sample({...}, argc, argv);`.
int run_sample(Sample sample, int argc, char** argv);
