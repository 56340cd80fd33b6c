#include "command_line.hpp"

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

// its own parser of words instead of <regex>, which takes seconds to compile
#define CXXOPTS_NO_REGEX
#include <cxxopts.hpp>

#include "counters.hpp"

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

// ---- a file that is written whole or not at all ----

namespace {

/// The name of the new file beside the old one; plain characters, for the signal handler.
char temporary_path[PATH_MAX] = {};

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail("it is a directory");
    if (access(path.c_str(), W_OK) != 0) fail(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) {
      file_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (file_ < 0) fail(std::strerror(errno));
      return;
    }
    target_ = std::filesystem::canonical(path).string();  // through a symbolic link, which stays
    mode_ = status.st_mode & 07777;
  } else {
    target_ = path;
    const mode_t mask = umask(0);
    umask(mask);
    mode_ = 0666 & ~mask;
  }
  std::string pattern = target_ + ".tmp.XXXXXX";
  if (pattern.size() >= sizeof temporary_path) fail("the path is too long");
  file_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (file_ < 0) fail(std::strerror(errno));
  std::strcpy(temporary_path, pattern.c_str());
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  remove_temporary();
}

void OutputFile::finish(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(file_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  if (temporary_path[0] && (fchmod(file_, mode_) != 0 || fsync(file_) != 0))
    fail(std::strerror(errno));
  if (close(std::exchange(file_, -1)) != 0) fail(std::strerror(errno));
  if (temporary_path[0] && std::rename(temporary_path, target_.c_str()) != 0)
    fail(std::strerror(errno));
  temporary_path[0] = 0;
}

void OutputFile::remove_temporary() {
  if (temporary_path[0]) unlink(temporary_path);
  temporary_path[0] = 0;
}

void OutputFile::fail(const std::string& why) {
  throw std::runtime_error("cannot write '" + path_ + "': " + why);
}

// ---- the command line ----

namespace {

/// Counts what doctest ran, which its exit code does not tell: cases that passed the filters, and
/// skipped ones.
struct CaseCounter : doctest::IReporter {
  static inline unsigned matched = 0, skipped = 0;

  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData& query) override {
    if (query.run_stats) matched = query.run_stats->numTestCasesPassingFilters;
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    matched = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override { self_check_skipped = false; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    skipped += self_check_skipped;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("case_counter", 1, CaseCounter);

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
      std::signal(SIGINT, on_interrupt);
      const std::vector<std::string> words(argv + 1, argv + argc);
      const int code = asks_for_self_check(words) ? self_check(words) : measure(words);
      std::cout.flush();
      if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout))
        throw std::runtime_error("cannot write standard output");
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
    cxxopts::Options options(sample_.topic, sample_.about);
    options.custom_help("[experiment ...] [options]");
    options.positional_help("");
    options.set_width(110);
    // values are read as words and checked by parse_number: cxxopts would take 0x10 and 1e3, and
    // refuse in its own words
    const auto word = [] { return cxxopts::value<std::string>(); };
    auto add = options.add_options();
    add("list", "print the experiments' names, one a line, and end");
    add("h,help", "print this and end");
    add("device", "number of the GPU", word(), "N (default: 0)");
    add("repeats", "exactly N timed repeats a row, however long they take", word(),
        "N (default: up to 20 within 250 ms; 15 of what is compared)");
    add("quick", "fewer repeats and smaller sizes: at most 4 s instead of 20 s");
    add("full", "fine sweeps instead of coarse ones");
    add("csv", "save every number to FILE", word(), "FILE");
    add("counters", "what the profile preset counted with this program on this GPU", word(),
        "FILE");
    add("require-gpu", "exit with 1 if there is no usable GPU");
    add("self-check", "run the self-checks; doctest's options may follow");
    add("experiment", "", cxxopts::value<std::vector<std::string>>());
    for (const TopicOption& option : sample_.options)
      options.add_options("Topic")(option.name, option.help, cxxopts::value<std::string>(),
                                   "(default: " + option.by_default + ")");
    options.parse_positional({"experiment"});
    require_values(words);

    std::vector<const char*> arguments{sample_.topic.c_str()};
    for (const std::string& word : words) arguments.push_back(word.c_str());
    const cxxopts::ParseResult given = parse(options, arguments);

    // everything typed is checked before anything is printed, so that a wrong command line prints
    // one line only
    std::vector<const Experiment*> selected;
    if (given.count("experiment"))
      for (const std::string& name : given["experiment"].as<std::vector<std::string>>())
        selected.push_back(&experiment(name));
    else
      for (const Experiment& experiment : sample_.experiments) selected.push_back(&experiment);
    Measuring measuring;
    const bool quick = given.count("quick"), full = given.count("full");
    if (quick && full) throw UsageError("--quick and --full exclude each other");
    if (quick) {
      measuring.repeats = 5;
      measuring.pairs = 7;
      measuring.budget_ms = 50;
    }
    if (given.count("repeats")) {
      measuring.repeats = static_cast<int>(
          parse_number("--repeats", given["repeats"].as<std::string>(), 1, 1000000));
      measuring.typed = true;
    }
    std::optional<int> device_number;
    if (given.count("device"))
      device_number =
          static_cast<int>(parse_number("--device", given["device"].as<std::string>(), 0, INT_MAX));
    for (const TopicOption& option : sample_.options)
      if (given.count(option.name)) option.take(given[option.name].as<std::string>());
    const std::string csv_path = given.count("csv") ? given["csv"].as<std::string>() : "";
    if (given.count("csv") && csv_path.empty())
      throw UsageError("--csv: the file's name is missing");

    if (given.count("help")) return help(options);
    if (given.count("list")) return list();

    std::optional<OutputFile> csv;
    if (!csv_path.empty()) csv.emplace(csv_path);
    const std::string no_gpu = no_gpu_reason();
    std::optional<Device> device;
    if (no_gpu.empty())
      device = Device::select(existing_device(device_number.value_or(0)));
    else if (device_number || given.count("require-gpu"))
      throw std::runtime_error("a GPU was asked for, but there is no usable one (" + no_gpu + ")");

    if (given.count("counters"))
      counters::take_file(given["counters"].as<std::string>(), device.has_value());

    Report report(sample_.topic);
    report.heading(device ? &*device : nullptr, no_gpu);
    const Run run{report, device ? &*device : nullptr, measuring, quick, full};
    for (const Experiment* experiment : selected) experiment->run(run);
    report.summary();
    if (csv) csv->finish(report.csv(today()));
    return exit_code::success;
  }

  const Experiment& experiment(const std::string& name) const {
    for (const Experiment& experiment : sample_.experiments)
      if (experiment.name == name) return experiment;
    throw UsageError("unknown experiment '" + name + "'; --list prints their names");
  }

  static int existing_device(int number) {
    int count = 0;
    CUDA_CHECK(cudaGetDeviceCount(&count));
    if (number >= count)
      throw UsageError("--device: there is no device " + std::to_string(number) +
                       "; the last one is " + std::to_string(count - 1));
    return number;
  }

  static cxxopts::ParseResult parse(cxxopts::Options& options,
                                    const std::vector<const char*>& arguments) {
    try {
      return options.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const std::exception&
                 error) {  // the name of cxxopts' base class differs between its versions
      throw UsageError(std::string(error.what()) + "; --help lists the options");
    }
  }

  /// A value that begins with "--" is a missing value: `--csv --quick` forgot the file's name.
  void require_values(const std::vector<std::string>& words) const {
    std::vector<std::string> valued{"--device", "--repeats", "--csv", "--counters"};
    for (const TopicOption& option : sample_.options) valued.push_back("--" + option.name);
    for (size_t i = 0; i < words.size(); ++i)
      for (const std::string& option : valued) {
        const bool separate = words[i] == option, joined = words[i].rfind(option + "=", 0) == 0;
        if (!separate && !joined) continue;
        const std::string value = joined                 ? words[i].substr(option.size() + 1)
                                  : i + 1 < words.size() ? words[i + 1]
                                                         : "";
        if (value.empty() || value.rfind("--", 0) == 0)
          throw UsageError(option + ": its value is missing");
      }
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
    std::cout << "\nExit codes: 0 done, 1 failed, 2 wrong command line, 77 every self-check "
                 "skipped, 130 interrupted\n";
    return exit_code::success;
  }

  int list() const {
    for (const Experiment& experiment : sample_.experiments) std::cout << experiment.name << "\n";
    return exit_code::success;
  }

  // ---- self-checks ----

  /// One option of doctest (2.4.9 to 2.5.2). doctest itself ignores what it does not know, so this
  /// table decides.
  struct DoctestOption {
    enum Kind { query, flag, number, words } kind;
    const char *name, *shorthand;
  };
  static const DoctestOption* doctest_option(const std::string& word) {
    using D = DoctestOption;
    static constexpr DoctestOption options[] = {
        {D::query, "--count", "-c"},
        {D::query, "--list-test-cases", "-ltc"},
        {D::query, "--list-test-suites", "-lts"},
        {D::words, "--test-case", "-tc"},
        {D::words, "--test-case-exclude", "-tce"},
        {D::words, "--source-file", "-sf"},
        {D::words, "--source-file-exclude", "-sfe"},
        {D::words, "--test-suite", "-ts"},
        {D::words, "--test-suite-exclude", "-tse"},
        {D::words, "--subcase", "-sc"},
        {D::words, "--subcase-exclude", "-sce"},
        {D::words, "--reporters", "-r"},
        {D::words, "--out", "-o"},
        {D::words, "--order-by", "-ob"},
        {D::number, "--rand-seed", "-rs"},
        {D::number, "--first", "-f"},
        {D::number, "--last", "-l"},
        {D::number, "--abort-after", "-aa"},
        {D::number, "--subcase-filter-levels", "-scfl"},
        {D::flag, "--success", "-s"},
        {D::flag, "--case-sensitive", "-cs"},
        {D::flag, "--duration", "-d"},
        {D::flag, "--minimal", "-m"},
        {D::flag, "--quiet", "-q"},
        {D::flag, "--no-throw", "-nt"},
        {D::flag, "--no-intro", "-ni"},
        {D::flag, "--no-version", "-nv"},
        {D::flag, "--no-colors", "-nc"},
        {D::flag, "--force-colors", "-fc"},
        {D::flag, "--no-breaks", "-nb"},
        {D::flag, "--no-skip", "-ns"},
        {D::flag, "--gnu-file-line", "-gfl"},
        {D::flag, "--no-path-filenames", "-npf"},
        {D::flag, "--no-line-numbers", "-nln"},
        {D::flag, "--no-debug-output", "-ndo"},
        {D::flag, "--no-skipped-summary", "-nss"},
        {D::flag, "--no-time-in-output", "-ntio"},
    };
    const std::string name = word.substr(0, word.find('='));
    for (const DoctestOption& option : options)
      if (name == option.name || name == option.shorthand) return &option;
    return nullptr;
  }

  static bool asks_for_self_check(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (word == "--self-check") return true;
      const DoctestOption* option = doctest_option(word);
      const std::string name = option ? option->name : "";
      if (name == "--test-case" || name == "--list-test-cases") return true;
    }
    return false;
  }

  /// Throws UsageError unless doctest knows `word` and its value is of the right kind.
  static void require_doctest_option(const std::string& word) {
    const DoctestOption* option = doctest_option(word);
    if (!option) throw UsageError("'" + word + "' is no option of --self-check, nor of doctest");
    const size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const bool has_value = equals != std::string::npos;
    const bool needs_value =
        option->kind == DoctestOption::number || option->kind == DoctestOption::words;
    if (needs_value && value.empty())
      throw UsageError(std::string(option->name) + ": its value is missing; it follows '='");
    if (option->kind == DoctestOption::number) parse_number(option->name, value, 0, INT_MAX);
    if (option->kind == DoctestOption::query && has_value)
      throw UsageError(std::string(option->name) + " takes no value");
    if (option->kind == DoctestOption::flag && has_value && value != "true" && value != "false")
      throw UsageError(std::string(option->name) + ": '" + value + "' is neither true nor false");
  }

  int self_check(const std::vector<std::string>& words) {
    std::vector<const char*> arguments{sample_.topic.c_str()};
    int device = 0;
    std::string counters_file;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--self-check") continue;
      if (words[i] == "--require-gpu") {
        setenv("SAMPLES_REQUIRE_GPU", "1", 1);
      } else if (words[i] == "--device" && i + 1 < words.size()) {
        device = static_cast<int>(parse_number("--device", words[++i], 0, INT_MAX));
      } else if (words[i] == "--counters" && i + 1 < words.size()) {
        counters_file = words[++i];
      } else if (words[i] == "--help" || words[i] == "-h") {
        return measure({"--help"});
      } else {
        require_doctest_option(words[i]);
        arguments.push_back(words[i].c_str());
      }
    }
    const bool has_gpu = no_gpu_reason().empty();
    if (has_gpu) CUDA_CHECK(cudaSetDevice(existing_device(device)));
    if (!counters_file.empty()) counters::take_file(counters_file, has_gpu);

    doctest::Context context;
    context.applyCommandLine(static_cast<int>(arguments.size()), arguments.data());
    const int failed = context.run();
    if (CaseCounter::matched == 0)
      throw UsageError("no self-check matches; --list-test-cases prints their names");
    if (failed) return exit_code::failure;
    return CaseCounter::skipped == CaseCounter::matched ? exit_code::skipped : exit_code::success;
  }

  // ---- ends ----

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

  int complain(const std::string& message, int code) const {
    std::cout.flush();
    std::cerr << sample_.topic << ": " << message << std::endl;
    return code;
  }

  static void on_interrupt(int) {
    OutputFile::remove_temporary();
    _exit(exit_code::interrupted);
  }

  Sample sample_;
};

}  // namespace

int run_sample(Sample sample, int argc, char** argv) {
  return CommandLine(std::move(sample)).main(argc, argv);
}
