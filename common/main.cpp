// The command line of every topic, and its self-checks.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <optional>

#define CXXOPTS_NO_REGEX
#include <cxxopts.hpp>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "output_file.hpp"
#include "run.hpp"

#ifndef SAMPLES_SOURCE_DIR  // a build by one line of nvcc looks where it is started
#define SAMPLES_SOURCE_DIR "."
#endif

namespace {

enum Exit { success = 0, failure = 1, usage = 2, skipped = 77 };

// ---- self-checks ----

unsigned cases_skipped = 0, cases_run = 0;

struct CountCases : doctest::IReporter {
  explicit CountCases(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("count", 1, CountCases);

/// `--self-check`, and the options that ctest uses. An option that is none of doctest's would be
/// taken in silence.
bool is_self_check(int argc, char** argv) {
  const auto of_doctest = [](const std::string& argument) {
    return argument == "--self-check" || argument == "--list-test-cases" ||
           argument.starts_with("--test-case=") || argument.starts_with("--test-case-exclude=");
  };
  if (std::none_of(argv + 1, argv + argc, of_doctest)) return false;
  for (int i = 1; i < argc; ++i)
    if (!of_doctest(argv[i]))
      throw UsageError("'" + std::string(argv[i]) + "' is no option of --self-check");
  return true;
}

int self_check(int argc, char** argv) {
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);  // it offers options that are not there
  const int code = context.run();
  if (context.shouldExit()) return code;  // the cases were listed
  if (cases_run == 0) throw UsageError("no self-check has such a name");
  return code == 0 && cases_skipped > 0 && cases_skipped == cases_run ? skipped : code;
}

// ---- what is shown ----

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

/// "05_unified_memory on NVIDIA H200, compute capability 9.0, CUDA 13.0, 2026-11-24"
std::string heading_of(const Topic& topic, const cudaDeviceProp& gpu) {
  const auto version = [](int major, int minor) {
    return std::to_string(major) + "." + std::to_string(minor);
  };
  return std::string(topic.name) + " on " + gpu.name + ", compute capability " +
         version(gpu.major, gpu.minor) + ", CUDA " +
         version(CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10) + ", " + today();
}

/// What a GPU printed of an experiment, but for the first titles, which have been printed here.
void show_recorded(const std::vector<std::string>& recorded, const std::string& experiment,
                   int titles_to_skip) {
  bool show = false;
  for (const std::string& line : recorded) {
    if (line.starts_with("== "))
      show = line.starts_with("== " + experiment + ":") && titles_to_skip-- <= 0;
    if (line.starts_with("claims: ")) show = false;
    if (show) std::cout << "| " << line << '\n';
  }
}

/// What needs no GPU, and what an H100 printed of the rest.
void show_without_gpu(Run& run, const Topic& topic, const std::vector<Experiment>& chosen) {
  const std::string path =
      std::string(SAMPLES_SOURCE_DIR "/") + topic.name + "/results/nvidia-h100-80gb-hbm3.txt";
  std::ifstream file(path);
  std::vector<std::string> recorded;
  for (std::string line; std::getline(file, line);) recorded.push_back(line);
  std::cout << (recorded.empty() ? "no recorded run is there: " + path
                                 : "recorded: " + recorded.front())
            << '\n';
  for (const Experiment& e : chosen) {
    run.begin_experiment(e.name);
    if (e.without_gpu) e.without_gpu(run);
    std::cout << '\n';
    show_recorded(recorded, e.name, run.titles());
  }
}

// ---- the command line ----

cxxopts::Options declared(const Topic& topic) {
  cxxopts::Options options(topic.name, topic.about);
  options.positional_help("[experiment ...]");
  auto add = options.add_options();
  add("experiment", "", cxxopts::value<std::vector<std::string>>());
  add("list", "print the experiments");
  add("quick", "smaller sizes, fewer rounds");
  add("csv", "save every number to FILE", cxxopts::value<std::string>(), "FILE");
  add("device", "number of the GPU", cxxopts::value<int>()->default_value("0"), "N");
  for (const auto& [name, about] : topic.options) add(name, about, cxxopts::value<std::string>());
  add("self-check", "run the doctest cases; takes --test-case=PATTERN");
  add("help", "print this");
  options.parse_positional("experiment");
  return options;
}

std::vector<Experiment> chosen_experiments(const Topic& topic, const cxxopts::ParseResult& typed) {
  if (!typed.count("experiment")) return topic.experiments;
  std::vector<Experiment> chosen;
  for (const std::string& name : typed["experiment"].as<std::vector<std::string>>()) {
    const auto found = std::find_if(topic.experiments.begin(), topic.experiments.end(),
                                    [&](const Experiment& e) { return e.name == name; });
    if (found == topic.experiments.end())
      throw UsageError("unknown experiment '" + name + "'; --list prints their names");
    chosen.push_back(*found);
  }
  return chosen;
}

void select_device(int device) {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count)
    throw UsageError("there is no device " + std::to_string(device));
  CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace

// ---- in doctest cases ----

void skip(const std::string& why) {
  ++cases_skipped;
  std::cout << "skipped: " << why << '\n';
}

bool skip_without_gpu() {
  const std::string reason = no_gpu_reason();
  if (reason.empty()) return false;
  const char* required = std::getenv("SAMPLES_REQUIRE_GPU");
  if (required && std::string(required) == "1") FAIL("a GPU is required: " << reason);
  skip(reason);
  return true;
}

cudaDeviceProp current_gpu() {
  int device = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties;
}

int run_exercise(int argc, char** argv) try {
  if (argc > 1 && !is_self_check(argc, argv))
    throw UsageError("'" + std::string(argv[1]) + "' is no option of an exercise");
  const int code = self_check(argc, argv);
  const char* const done = cases_skipped ? "done, as far as it can be checked here" : "done";
  std::cout << (code == success ? done : code == skipped ? "not checked" : "not yet") << '\n';
  return code;
} catch (const UsageError& error) {
  std::cerr << argv[0] << ": " << error.what() << '\n';
  return usage;
}

/// Lists, helps, shows what was recorded, or measures.
int measure(int argc, char** argv, const Topic& topic) {
  cxxopts::Options options = declared(topic);
  const cxxopts::ParseResult typed = options.parse(argc, argv);
  const std::vector<Experiment> chosen = chosen_experiments(topic, typed);
  if (typed.count("help") || typed.count("list")) {
    if (typed.count("help")) std::cout << options.help() << '\n';
    for (const Experiment& e : topic.experiments)
      std::cout << e.name
                << std::string(std::max<size_t>(18, std::strlen(e.name) + 2) - std::strlen(e.name),
                               ' ')
                << e.about << '\n';
    return success;
  }

  Run run;
  for (const auto& [name, about] : topic.options)
    if (typed.count(name)) run.options[name] = typed[name].as<std::string>();
  if (topic.check_options) topic.check_options(run);

  if (const std::string reason = no_gpu_reason(); !reason.empty()) {
    if (typed.count("device") || typed.count("csv"))
      throw std::runtime_error("nothing can be measured: " + reason);
    std::cout << "nothing is measured: " << reason << '\n';
    show_without_gpu(run, topic, chosen);
    return success;
  }

  select_device(typed["device"].as<int>());
  run.gpu = current_gpu();
  if (typed.count("quick")) {
    run.quick = true;
    run.timer = {.rounds = 12, .warm_up_ms = 10};
  }
  std::optional<OutputFile> csv;
  if (typed.count("csv")) csv.emplace(typed["csv"].as<std::string>());

  const std::string heading = heading_of(topic, run.gpu);
  std::cout << heading << std::endl;
  for (const Experiment& e : chosen) {
    run.begin_experiment(e.name);
    if (e.without_gpu) e.without_gpu(run);
    e.run(run);
    std::cout << std::flush;
  }
  if (!run.totals().empty()) std::cout << "\nclaims: " << run.totals() << std::endl;
  if (csv) {
    std::vector<std::string> lines{"# " + heading, "experiment,table,row,column,value,low,high"};
    lines.insert(lines.end(), run.csv_lines().begin(), run.csv_lines().end());
    csv->write(lines);
  }
  return success;
}

int run_topic(int argc, char** argv, const Topic& topic) try {
  const int code = is_self_check(argc, argv) ? self_check(argc, argv) : measure(argc, argv, topic);
  if (!std::cout.flush()) throw std::runtime_error("cannot write standard output");
  return code;
} catch (const UsageError& error) {
  std::cerr << topic.name << ": " << error.what() << '\n';
  return usage;
} catch (const cxxopts::exceptions::exception& error) {
  std::cerr << topic.name << ": " << error.what() << "; --help lists the options\n";
  return usage;
} catch (const std::exception& error) {
  std::cerr << topic.name << ": " << error.what() << '\n';
  return failure;
}
