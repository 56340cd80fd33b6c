#include "command_line.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>
#include <optional>

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

/// The words of a command line, read strictly: an option at most once, a switch without a value,
/// and a value that is no option's name unless it stands behind '='. cxxopts takes all of these in
/// silence, and not as they were meant.
class Typed {
 public:
  /// `switches` and `valued`: options as in "--quick"; -h is --help. Throws UsageError.
  Typed(const std::vector<std::string>& words, const std::vector<std::string>& switches,
        const std::vector<std::string>& valued) {
    const auto is_one = [](const std::vector<std::string>& options, const std::string& name) {
      return std::find(options.begin(), options.end(), name) != options.end();
    };
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--") {  // the rest are no options
        names_.insert(names_.end(), words.begin() + long(i) + 1, words.end());
        break;
      }
      const size_t equals = words[i].find('=');
      const std::string name = words[i] == "-h" ? "--help" : words[i].substr(0, equals);
      if (is_one(switches, name)) {
        if (equals != std::string::npos) throw UsageError(name + " takes no value");
        take(name, "");
      } else if (is_one(valued, name)) {
        const bool joined = equals != std::string::npos;
        if (!joined) ++i;
        take(name, joined ? words[i].substr(equals + 1) : i < words.size() ? words[i] : "");
        if (values_[name].empty() || (!joined && looks_like_option(values_[name])))
          throw UsageError(name + ": its value is missing");
      } else if (looks_like_option(words[i])) {
        unknown_.push_back(words[i]);
      } else {
        names_.push_back(words[i]);
      }
    }
  }

  bool has(const std::string& option) const { return values_.count(option) > 0; }
  /// Empty if it was not typed.
  std::string value(const std::string& option) const {
    return has(option) ? values_.at(option) : "";
  }
  /// Options that are none of those.
  const std::vector<std::string>& unknown() const { return unknown_; }
  /// Words that are no options, nor values of one.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void take(const std::string& name, const std::string& value) {
    if (!values_.emplace(name, value).second) throw UsageError(name + " is given twice");
  }
  /// -1 does not: it is a number, and refused as one.
  static bool looks_like_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
  }

  std::map<std::string, std::string> values_;
  std::vector<std::string> unknown_, names_;
};

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
      std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes a failed write, which is reported
      remove_unfinished_at_signals(sample_.topic);
      const std::vector<std::string> words(argv + 1, argv + argc);
      const int code = asks_for_self_check(words) ? self_check(words) : measure(words);
      flush_standard_output();
      return code;
    } catch (const UsageError& error) {
      return complain(error.what(), exit_code::usage);
    } catch (const std::exception& error) {
      return complain(error.what(), exit_code::failure);
    }
  }

 private:
  // ---- measuring ----

  int measure(const std::vector<std::string>& words) {
    // everything typed is checked before anything is printed, so that a wrong command line prints
    // one line only
    const Typed typed(words, {"--list", "--help", "--quick", "--full", "--require-gpu"}, valued());
    cxxopts::Options options = described();
    refuse_unknown(options, typed.unknown());
    const std::vector<const Experiment*> selected = select(typed.names());
    const bool quick = typed.has("--quick"), full = typed.has("--full");
    if (quick && full) throw UsageError("--quick and --full exclude each other");
    const Measuring measuring = measuring_of(typed);
    const std::optional<int> number = device_number(typed);
    std::vector<const TopicOption*> heeded;
    std::string ignored;
    for (const TopicOption& option : sample_.options) {
      if (!typed.has("--" + option.name)) continue;
      if (option.file == TopicOption::none) option.take(typed.value("--" + option.name));
      if (heeds(selected, option))
        heeded.push_back(&option);
      else
        ignored += (ignored.empty() ? "--" : ", --") + option.name;
    }
    require_files(files(typed, heeded));

    if (typed.has("--help")) return help(options);
    if (typed.has("--list")) return list();

    for (const TopicOption* option : heeded)
      if (option->file != TopicOption::none) option->take(typed.value("--" + option->name));
    std::optional<OutputFile> csv;
    if (typed.has("--csv")) csv.emplace(typed.value("--csv"));
    const std::string no_gpu = no_gpu_reason();
    std::optional<Device> device;
    if (no_gpu.empty())
      device = Device::select(existing_device(number.value_or(0)));
    else if (number || typed.has("--require-gpu"))
      throw no_usable_gpu(no_gpu);
    if (typed.has("--counters")) counters::take_file(typed.value("--counters"), device.has_value());

    Report report(sample_.topic);
    const Run run{report, device ? &*device : nullptr, measuring, quick, full};
    rehearse(selected, heeded, run);
    report.heading(run.device, no_gpu);
    if (!ignored.empty()) report.note("without effect on what is run: " + ignored);
    MachineWatch watch(report, run.device);
    for (const Experiment* experiment : selected) {
      carry_out(*experiment, run);
      watch.after(experiment->name);
    }
    report.summary();
    if (csv) csv->write(report.csv(today()));
    flush_standard_output();
    // all is written; the files take their places together
    for (const TopicOption* option : heeded)
      if (option->done) option->done();
    if (csv) csv->finish();
    return exit_code::success;
  }

  /// Options that have a value.
  std::vector<std::string> valued() const {
    std::vector<std::string> names{"--device", "--repeats", "--csv", "--counters"};
    for (const TopicOption& option : sample_.options) names.push_back("--" + option.name);
    return names;
  }

  cxxopts::Options described() const {
    cxxopts::Options options(sample_.topic, sample_.about);
    options.custom_help("[experiment ...] [options]");
    options.positional_help("");
    options.set_width(110);
    const auto word = [] { return cxxopts::value<std::string>(); };
    auto add = options.add_options();
    add("list", "print the experiments' names, one a line, and end");
    add("h,help", "print this and end");
    add("device", "number of the GPU", word(), "N (default: 0)");
    add("repeats", "exactly N timed repeats a row, however long they take", word(),
        "N (default: up to 20 within 250 ms; 18 of what is compared)");
    add("quick", "fewer repeats and smaller sizes: at most 4 s instead of 20 s");
    add("full", "fine sweeps instead of coarse ones");
    add("csv", "save every number to FILE", word(), "FILE");
    add("counters", "what the profile preset counted with this program on this GPU", word(),
        "FILE");
    add("require-gpu", "exit with 1 if there is no usable GPU");
    add("self-check", "run the self-checks; doctest's options may follow");
    for (const TopicOption& option : sample_.options) {
      std::string heeded_by;
      for (const std::string& name : option.heeded_by)
        heeded_by += (heeded_by.empty() ? "" : ", ") + name;
      options.add_options("Topic")(option.name, option.help + " (" + heeded_by + ")",
                                   cxxopts::value<std::string>(),
                                   "(default: " + option.by_default + ")");
    }
    return options;
  }

  /// cxxopts says what is wrong with options that it does not know.
  static void refuse_unknown(cxxopts::Options& options, const std::vector<std::string>& unknown) {
    std::vector<const char*> arguments{""};
    for (const std::string& word : unknown) arguments.push_back(word.c_str());
    try {
      options.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const std::exception&
                 error) {  // the name of cxxopts' base class differs between its versions
      throw UsageError(std::string(error.what()) + "; --help lists the options");
    }
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
    if (typed.has("--quick")) {
      measuring.repeats = 5;
      measuring.rounds = Measuring::quick_rounds;
      measuring.budget_ms = 50;
      measuring.warm_up_ms = 10;
    }
    if (typed.has("--repeats")) {
      measuring.repeats =
          static_cast<int>(parse_number("--repeats", typed.value("--repeats"), 1, 1000000));
      measuring.typed = true;
    }
    return measuring;
  }

  static std::optional<int> device_number(const Typed& typed) {
    if (!typed.has("--device")) return std::nullopt;
    return static_cast<int>(parse_number("--device", typed.value("--device"), 0, INT_MAX));
  }

  static bool heeds(const std::vector<const Experiment*>& selected, const TopicOption& option) {
    const auto& names = option.heeded_by;
    return std::any_of(selected.begin(), selected.end(), [&](const Experiment* experiment) {
      return std::find(names.begin(), names.end(), experiment->name) != names.end();
    });
  }

  /// The files that a run will read and write.
  static std::vector<NamedFile> files(const Typed& typed,
                                      const std::vector<const TopicOption*>& heeded) {
    std::vector<NamedFile> all;
    if (typed.has("--csv")) all.push_back({"--csv", typed.value("--csv"), true});
    if (typed.has("--counters")) all.push_back({"--counters", typed.value("--counters")});
    for (const TopicOption* option : heeded)
      if (option->file != TopicOption::none)
        all.push_back({"--" + option->name, typed.value("--" + option->name),
                       option->file == TopicOption::written, option->replaces});
    return all;
  }

  static void require_files(const std::vector<NamedFile>& files) {
    for (const NamedFile& file : files)
      if (file.path == "-")
        throw UsageError(file.option +
                         ": '-' is not taken for a standard stream; a file of that name is ./-");
    require_different(files);
  }

  /// Lets each experiment that heeds a typed option refuse what this device cannot hold, which it
  /// does before it calls begin(); later the numbers of those before it would be lost.
  static void rehearse(const std::vector<const Experiment*>& selected,
                       const std::vector<const TopicOption*>& heeded, const Run& run) {
    for (const Experiment* experiment : selected) {
      const auto concerns = [&](const TopicOption* option) { return heeds({experiment}, *option); };
      if (std::none_of(heeded.begin(), heeded.end(), concerns)) continue;
      Report rehearsal = Report::rehearsal();
      try {
        carry_out(*experiment, Run{rehearsal, run.device, run.measuring, run.quick, run.full});
      } catch (const Report::Begun&) {
      }
    }
  }

  static void carry_out(const Experiment& experiment, const Run& run) {
    try {
      experiment.run(run);
    } catch (const std::bad_alloc& error) {
      throw std::runtime_error(experiment.name + ": " + error.what());
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
    std::cout << options.help(sample_.options.empty() ? std::vector<std::string>{""}
                                                      : std::vector<std::string>{"", "Topic"});
    std::cout << "\nExperiments:\n";
    size_t width = 0;
    for (const Experiment& experiment : sample_.experiments)
      width = std::max(width, experiment.name.size());
    for (const Experiment& experiment : sample_.experiments)
      std::cout << "  " << experiment.name << std::string(width + 2 - experiment.name.size(), ' ')
                << experiment.about << "\n";
    std::cout << "\nFILE is replaced when all is measured, whole or not at all, and keeps its mode "
                 "and owner; it is\nrefused before if that cannot be done: it has other names "
                 "(hard links), its owner would change, or\nits folder takes no new file. A pipe "
                 "has to have a reader.\n"
                 "\nExit codes: 0 done, 1 failed, 2 wrong command line, 77 every self-check "
                 "skipped, 130 interrupted\n(128 + the number of any signal that ended it)\n";
    return exit_code::success;
  }

  int list() const {
    for (const Experiment& experiment : sample_.experiments) std::cout << experiment.name << "\n";
    return exit_code::success;
  }

  // ---- self-checks ----

  static bool asks_for_self_check(const std::vector<std::string>& words) {
    for (const std::string& word : words)
      if (word == "--self-check" || word.rfind("--self-check=", 0) == 0) return true;
    return is_doctest_command && is_doctest_command(words);
  }

  int self_check(const std::vector<std::string>& words) {
    if (!run_self_checks)
      throw UsageError(
          "--self-check: this program was built without its self-checks "
          "(-DBUILD_TESTING=OFF, or by one line of nvcc)");
    const Typed typed(words, {"--self-check", "--require-gpu", "--help"},
                      {"--device", "--counters"});
    if (!typed.names().empty())
      throw UsageError("'" + typed.names().front() + "' is no option of --self-check");
    const std::vector<std::string>& of_doctest = typed.unknown();
    require_doctest_options(of_doctest);
    const std::optional<int> device = device_number(typed);
    const std::optional<std::string> path = doctest_output(of_doctest);
    std::vector<NamedFile> files;
    if (path) files.push_back({"--out", *path, true});
    if (typed.has("--counters")) files.push_back({"--counters", typed.value("--counters")});
    require_files(files);
    if (typed.has("--help")) return measure({"--help"});

    std::optional<OutputFile> output;
    if (path) output.emplace(*path);
    if (typed.has("--require-gpu")) setenv("SAMPLES_REQUIRE_GPU", "1", 1);
    const std::string no_gpu = no_gpu_reason();
    if (device && !no_gpu.empty()) throw no_usable_gpu(no_gpu);
    if (no_gpu.empty()) CUDA_CHECK(cudaSetDevice(existing_device(device.value_or(0))));
    if (typed.has("--counters")) counters::take_file(typed.value("--counters"), no_gpu.empty());
    return run_self_checks(sample_.topic, of_doctest, output ? &*output : nullptr);
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

  /// One line, whatever was typed: a character that would end it is written as its number.
  int complain(const std::string& message, int code) const {
    std::string line;
    for (const char c : message) {
      char number[5];
      std::snprintf(number, sizeof number, "\\x%02x", static_cast<unsigned char>(c));
      line += std::iscntrl(static_cast<unsigned char>(c)) ? number : std::string(1, c);
    }
    std::cout.flush();
    std::cerr << sample_.topic << ": " << line << std::endl;
    return code;
  }

  Sample sample_;
};

}  // namespace

int run_sample(Sample sample, int argc, char** argv) {
  return CommandLine(std::move(sample)).main(argc, argv);
}
