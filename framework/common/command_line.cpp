#include "command_line.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <optional>
#include <set>

// its own parser of words instead of <regex>, which takes seconds to compile
#define CXXOPTS_NO_REGEX
#include <cxxopts.hpp>

#include "checks/self_checking.hpp"
#include "counters.hpp"
#include "files.hpp"
#include "machine_state.hpp"

long long parse_number(const std::string& what, const std::string& text, long long least,
                       long long most) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  errno = 0;
  const long long value = digits ? std::strtoll(text.c_str(), nullptr, 10) : 0;
  if (!digits || errno == ERANGE || value < least || value > most)
    throw UsageError(what + ": '" + text + "' is not a whole number from " + std::to_string(least) +
                     " to " + std::to_string(most));
  return value;
}

// ---- the command line ----

namespace {

using Typed = cxxopts::ParseResult;

/// Runs a sample: parses the command line, runs what it asks for, answers with the exit code.
class CommandLine {
 public:
  explicit CommandLine(Sample sample) : sample_(std::move(sample)) {
    const auto left_out = [](const Experiment& experiment) { return !experiment.run; };
    auto& all = sample_.experiments;
    all.erase(std::remove_if(all.begin(), all.end(), left_out), all.end());
  }

  int main(int argc, char** argv) noexcept {
    try {
      require_standard_streams();
      // a closed pipe and a file that is too large become writes that fail
      std::signal(SIGPIPE, SIG_IGN);
      std::signal(SIGXFSZ, SIG_IGN);
      cxxopts::Options options = declared();
      const Typed typed = parse(options, argc, argv);
      const int code = is_self_check(typed) ? self_check(options, typed) : measure(options, typed);
      flush_standard_output();
      return code;
    } catch (const UsageError& error) {
      return complain(error.what(), exit_code::usage);
    } catch (const std::bad_alloc&) {
      return complain("out of host memory", exit_code::failure);
    } catch (const std::exception& error) {
      return complain(error.what(), exit_code::failure);
    }
  }

 private:
  // ---- what there is, and what was typed ----

  cxxopts::Options declared() {
    cxxopts::Options options(sample_.topic, sample_.about);
    options.custom_help("[experiment ...] [options]");
    options.positional_help("");
    options.set_width(110);
    const auto has_value = [&](const char* group, const std::string& name, const std::string& help,
                               const std::string& value) {
      options.add_options(group)(name, help, cxxopts::value<std::string>(), value);
      valued_.insert(name);
    };
    auto is_switch = options.add_options();
    is_switch("list", "print the experiments' names, one per line, and end");
    is_switch("h,help", "print this and end");
    has_value("", "device", "number of the GPU", "N (default: 0)");
    has_value("", "repeats", "exactly N timed repeats per row, however long they take",
              "N (default: up to 20 within 250 ms; 18 of what is compared)");
    is_switch("quick", "fewer repeats and smaller sizes: at most 4 s instead of 20 s");
    is_switch("full", "fine sweeps instead of coarse ones");
    has_value("", "csv", "save every number to FILE", "FILE");
    has_value("", "counters", "what the profile preset counted with this program on this GPU",
              "FILE");
    is_switch("require-gpu", "exit with 1 if there is no usable GPU");
    for (const TopicOption& option : sample_.options) {
      std::string heeded_by;
      for (const std::string& name : option.heeded_by)
        heeded_by += (heeded_by.empty() ? "" : ", ") + name;
      has_value("Topic", option.name, option.help + " (" + heeded_by + ")",
                "(default: " + option.by_default + ")");
    }
    auto check_switch = options.add_options(self_checks);
    check_switch("self-check", "run the self-checks; the options below imply it");
    check_switch("list-test-cases", "print the self-checks' names and end");
    has_value(self_checks, "test-case", "only those whose names match, as in '*grid*,*tile*'",
              "PATTERN");
    has_value(self_checks, "test-suite", "only those of these suites: large, race, plausible",
              "PATTERN");
    has_value(self_checks, "test-suite-exclude", "only those of other suites", "PATTERN");
    has_value(self_checks, "reporters", "how they are reported: console, xml or junit", "NAME");
    has_value(self_checks, "out", "save the report to FILE", "FILE");
    return options;
  }

  /// cxxopts takes in silence an option that is given twice, a value for a switch, and an option
  /// where a value is due.
  Typed parse(cxxopts::Options& options, int argc, char** argv) const {
    const Typed typed = [&] {
      try {
        return options.parse(argc, argv);
      } catch (const std::exception& error) {  // its name differs between versions of cxxopts
        throw UsageError(std::string(error.what()) + "; --help lists the options");
      }
    }();
    for (const auto& each : typed.arguments()) {
      const std::string name = "--" + each.key(), value = each.value();
      if (typed.count(each.key()) > 1) throw UsageError(name + " is given twice");
      if (!valued_.count(each.key())) {
        if (value != "true") throw UsageError(name + " takes no value");
      } else if (value.empty()) {
        throw UsageError(name + ": its value is missing");
      } else if (value[0] == '-' && !(value[1] >= '0' && value[1] <= '9')) {
        throw UsageError(name + ": '" + value + "' is no value; a file of that name is ./" + value);
      }
    }
    return typed;
  }

  static std::string value_of(const Typed& typed, const std::string& name) {
    return typed.count(name) ? typed[name].as<std::string>() : "";
  }

  static std::optional<int> device_number(const Typed& typed) {
    if (!typed.count("device")) return std::nullopt;
    return static_cast<int>(parse_number("--device", value_of(typed, "device"), 0, INT_MAX));
  }

  // ---- measuring ----

  int measure(const cxxopts::Options& options, const Typed& typed) {
    // everything typed is checked before anything is printed, so that a wrong command line prints
    // one line only
    const std::vector<const Experiment*> selected = select(typed.unmatched());
    const bool quick = typed.count("quick"), full = typed.count("full");
    if (quick && full) throw UsageError("--quick and --full exclude each other");
    const Measuring measuring = measuring_of(typed);
    const std::optional<int> number = device_number(typed);
    std::vector<const TopicOption*> heeded;
    std::string ignored;
    std::vector<NamedFile> files;
    for (const char* name : {"csv", "counters"})
      if (typed.count(name))
        files.push_back(
            {std::string("--") + name, value_of(typed, name), std::string(name) == "csv"});
    for (const TopicOption& option : sample_.options) {
      if (!typed.count(option.name)) continue;
      const std::string value = value_of(typed, option.name);
      if (option.file == TopicOption::none) option.take(value);
      if (!heeds(selected, option)) {
        ignored += (ignored.empty() ? "--" : ", --") + option.name;
        continue;
      }
      heeded.push_back(&option);
      if (option.file != TopicOption::none)
        files.push_back({"--" + option.name, value, option.file == TopicOption::written});
    }
    if (typed.count("help")) return help(options);
    if (typed.count("list")) return list();

    require_usable(files);
    for (const TopicOption* option : heeded)
      if (option->file != TopicOption::none) option->take(value_of(typed, option->name));
    const std::string no_gpu = no_gpu_reason();
    std::optional<Device> device;
    if (no_gpu.empty())
      device = Device::select(existing_device(number.value_or(0)));
    else if (number || typed.count("require-gpu"))
      throw no_usable_gpu(no_gpu);
    if (typed.count("counters"))
      counters::take_file(value_of(typed, "counters"), device.has_value());

    Report report(sample_.topic);
    const Run run{report, device ? &*device : nullptr, measuring, quick, full};
    for (const Experiment* experiment : selected)
      if (experiment->check_typed && heeds_any(experiment, heeded)) experiment->check_typed(run);
    report.heading(run.device, no_gpu);
    if (!ignored.empty()) report.note("without effect on what is run: " + ignored);
    MachineWatch watch(report, run.device);
    for (const Experiment* experiment : selected) {
      carry_out(*experiment, run);
      watch.after(experiment->name);
    }
    report.summary();
    flush_standard_output();
    if (typed.count("csv")) write_whole(value_of(typed, "csv"), report.csv(today()));
    for (const TopicOption* option : heeded)
      if (option->text) write_whole(value_of(typed, option->name), option->text());
    return exit_code::success;
  }

  std::vector<const Experiment*> select(const std::vector<std::string>& names) const {
    std::vector<const Experiment*> selected;
    for (const std::string& name : names) {
      selected.push_back(&experiment(name));
      if (std::count(selected.begin(), selected.end(), selected.back()) > 1)
        throw UsageError("experiment '" + name + "' is named twice");
    }
    if (names.empty())
      for (const Experiment& each : sample_.experiments) selected.push_back(&each);
    return selected;
  }

  static Measuring measuring_of(const Typed& typed) {
    Measuring measuring;
    if (typed.count("quick")) {
      measuring.repeats = 5;
      measuring.rounds = Measuring::quick_rounds;
      measuring.budget_ms = 50;
      measuring.warm_up_ms = 10;
    }
    if (typed.count("repeats")) {
      measuring.repeats =
          static_cast<int>(parse_number("--repeats", value_of(typed, "repeats"), 1, 1000000));
      measuring.typed = true;
    }
    return measuring;
  }

  static bool heeds(const std::vector<const Experiment*>& selected, const TopicOption& option) {
    const auto& names = option.heeded_by;
    return std::any_of(selected.begin(), selected.end(), [&](const Experiment* experiment) {
      return std::find(names.begin(), names.end(), experiment->name) != names.end();
    });
  }

  static bool heeds_any(const Experiment* experiment, const std::vector<const TopicOption*>& all) {
    return std::any_of(all.begin(), all.end(),
                       [&](const TopicOption* option) { return heeds({experiment}, *option); });
  }

  static void carry_out(const Experiment& experiment, const Run& run) {
    try {
      experiment.run(run);
    } catch (const std::bad_alloc&) {
      throw std::runtime_error(experiment.name + ": out of host memory");
    }
  }

  const Experiment& experiment(const std::string& name) const {
    for (const Experiment& experiment : sample_.experiments)
      if (experiment.name == name) return experiment;
    throw UsageError("unknown experiment '" + name + "'; --list prints their names");
  }

  static std::runtime_error no_usable_gpu(const std::string& why) {
    return std::runtime_error("a GPU was asked for, but there is no usable one (" + why + ")");
  }

  static int existing_device(int number) {
    int count = 0;
    CUDA_CHECK(cudaGetDeviceCount(&count));
    if (number >= count)
      throw UsageError("--device: there is no device " + std::to_string(number) +
                       "; the last one is " + std::to_string(count - 1));
    return number;
  }

  int help(const cxxopts::Options& options) const {
    std::vector<std::string> groups{"", "Topic", self_checks};
    if (sample_.options.empty()) groups.erase(groups.begin() + 1);
    std::cout << options.help(groups) << "\nExperiments:\n";
    size_t width = 0;
    for (const Experiment& experiment : sample_.experiments)
      width = std::max(width, experiment.name.size());
    for (const Experiment& experiment : sample_.experiments)
      std::cout << "  " << experiment.name << std::string(width + 2 - experiment.name.size(), ' ')
                << experiment.about << "\n";
    std::cout << "\nFILE is written when all is measured, whole or not at all.\n"
                 "\nExit codes: 0 done, 1 failed, 2 wrong command line, 77 every self-check "
                 "skipped, 128 + n ended by\nsignal n\n";
    return exit_code::success;
  }

  int list() const {
    for (const Experiment& experiment : sample_.experiments) std::cout << experiment.name << "\n";
    return exit_code::success;
  }

  // ---- self-checks ----

  static bool is_of_self_checks(const std::string& option) {
    static const std::set<std::string> all{"self-check", "list-test-cases",    "test-case",
                                           "test-suite", "test-suite-exclude", "reporters",
                                           "out"};
    return all.count(option) > 0;
  }

  static bool is_self_check(const Typed& typed) {
    const auto& all = typed.arguments();
    return std::any_of(all.begin(), all.end(),
                       [](const auto& each) { return is_of_self_checks(each.key()); });
  }

  int self_check(const cxxopts::Options& options, const Typed& typed) {
    if (!run_self_checks)
      throw UsageError(
          "--self-check: this program was built without its self-checks "
          "(-DBUILD_TESTING=OFF, or by one line of nvcc)");
    if (!typed.unmatched().empty())
      throw UsageError("'" + typed.unmatched().front() + "' is no option of --self-check");
    const std::set<std::string> too{"device", "counters", "require-gpu", "help"};
    for (const auto& each : typed.arguments())
      if (!too.count(each.key()) && !is_of_self_checks(each.key()))
        throw UsageError("--" + each.key() + " is no option of --self-check");
    const std::optional<int> device = device_number(typed);
    if (typed.count("help")) return help(options);

    const std::string out = value_of(typed, "out"), counts = value_of(typed, "counters");
    std::vector<NamedFile> files;
    if (!out.empty()) files.push_back({"--out", out, true});
    if (!counts.empty()) files.push_back({"--counters", counts});
    require_usable(files);
    if (typed.count("require-gpu")) setenv("SAMPLES_REQUIRE_GPU", "1", 1);
    const std::string no_gpu = no_gpu_reason();
    if (device && !no_gpu.empty()) throw no_usable_gpu(no_gpu);
    if (no_gpu.empty()) CUDA_CHECK(cudaSetDevice(existing_device(device.value_or(0))));
    if (!counts.empty()) counters::take_file(counts, no_gpu.empty());
    return run_self_checks({value_of(typed, "test-case"), value_of(typed, "test-suite"),
                            value_of(typed, "test-suite-exclude"), value_of(typed, "reporters"),
                            out, typed.count("list-test-cases") > 0});
  }

  // ---- ends ----

  static void flush_standard_output() {
    std::cout.flush();
    if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout))
      throw std::runtime_error("cannot write standard output");
  }

  /// A closed standard stream's number would be given to the next file that is opened, the CSV or
  /// the driver's, and what is printed would end up there. Input and errors are then nobody's;
  /// output that nobody gets is an error.
  static void require_standard_streams() {
    const auto closed = [](int stream) { return fcntl(stream, F_GETFD) == -1 && errno == EBADF; };
    const bool no_output = closed(STDOUT_FILENO);
    while (closed(STDIN_FILENO) || closed(STDOUT_FILENO) || closed(STDERR_FILENO))
      if (open("/dev/null", O_RDWR) < 0) break;  // takes the lowest number that is free
    if (no_output) throw std::runtime_error("cannot write standard output: it is closed");
  }

  /// One line, whatever was typed.
  int complain(const std::string& message, int code) const {
    std::cout.flush();
    std::cerr << sample_.topic << ": " << printable(message) << std::endl;
    return code;
  }

  static constexpr const char* self_checks = "Self-checks";
  Sample sample_;
  std::set<std::string> valued_;  ///< names of options that have a value
};

}  // namespace

int run_sample(Sample sample, int argc, char** argv) {
  return CommandLine(std::move(sample)).main(argc, argv);
}
