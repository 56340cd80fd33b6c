// The command line of every program.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>

#define CXXOPTS_NO_REGEX
#include <cxxopts.hpp>

#include "../sample.hpp"
#include "output_file.hpp"
#include "self_check.cpp"

/// "9.0" of 900.
std::string capability_text(int architecture) {
  return std::to_string(architecture / 100) + "." + std::to_string(architecture % 100 / 10);
}

/// ", code for 7.5": the newest that this GPU can run, if none is its own.
std::string code_of_another(const std::set<int>& compiled_for, int gpu) {
  const auto newer = compiled_for.upper_bound(gpu);
  if (newer == compiled_for.begin() || compiled_for.count(gpu)) return "";
  return ", code for " + capability_text(*std::prev(newer));
}

namespace {

// ---- errors ----

/// One line on standard error, whatever was typed: control characters are shown as '?', and what is
/// longer than 400 bytes is cut, between characters.
void say_error(const std::string& program, const std::string& what) {
  std::string line = program + ": " + what;
  for (char& c : line)
    if ((unsigned char)c < 0x20 || c == 0x7f) c = '?';
  if (line.size() > 400) {
    size_t end = 400;
    while (end > 0 && (line[end] & 0xc0) == 0x80) --end;  // inside a character of UTF-8
    line = line.substr(0, end) + "...";
  }
  std::cerr << line << std::endl;
}

/// Throws if the disk is full.
void require_printed() {
  if (!std::cout.flush()) throw std::runtime_error("cannot write standard output");
}

// ---- what the program consists of ----

/// In the order of the text.
std::vector<Sample>& samples() {
  static std::vector<Sample> samples;
  return samples;
}
std::vector<SampleOption>& sample_options() {
  static std::vector<SampleOption> options;
  return options;
}
std::set<int>& architectures() {
  static std::set<int> architectures;
  return architectures;
}
bool is_exercise = false;

/// The folder of its source file. nvcc keeps a file's name as it was typed, relative to the folder in
/// which it ran: the program usually lies there, or is started there. (A whole name stays as it is.)
std::filesystem::path folder_of(const Sample& sample) {
  namespace fs = std::filesystem;
  std::error_code none;  // then the path is empty
  const fs::path beside = fs::read_symlink("/proc/self/exe", none).parent_path() / sample.file;
  const fs::path here = fs::current_path(none) / sample.file;
  const bool is_here = !fs::exists(beside, none) && fs::exists(here, none);
  return (is_here ? here : beside).lexically_normal().parent_path();
}

/// "03_access_patterns": the folder of the file; the sample's name if it was moved elsewhere.
std::string topic_of(const Sample& sample) {
  const std::string folder = folder_of(sample).filename();
  const bool numbered = folder.size() > 3 && std::isdigit((unsigned char)folder[0]) &&
                        std::isdigit((unsigned char)folder[1]) && folder[2] == '_';
  return numbered ? folder : sample.name;
}

/// What runs if nothing is typed: a program that is called as one of its samples runs that one, which
/// may need the files of others; any other program runs all.
std::vector<Sample> samples_by_default(const std::string& program) {
  const std::string name = std::filesystem::path(program).stem();
  for (const Sample& sample : samples())
    if (sample.name == name) return {sample};
  return samples();
}

// ---- what is shown ----

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

/// "05_unified_memory on NVIDIA H200, compute capability 9.0, CUDA 13.0, 2026-11-24"; of several GPUs
/// it says which.
std::string heading_on(const cudaDeviceProp& gpu) {
  int count = 0, device = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  CUDA_CHECK(cudaGetDevice(&device));
  const int capability = gpu.major * 100 + gpu.minor * 10;
  return topic_of(samples()[0]) + " on " + gpu.name + ", compute capability " +
         capability_text(capability) + ", CUDA " + cuda_version(CUDART_VERSION) +
         code_of_another(architectures(), capability) +
         (count > 1 ? ", device " + std::to_string(device) + " of " + std::to_string(count) : "") +
         ", " + today();
}

/// What a GPU printed of an experiment, but for the first titles, which have been printed here.
void show_recorded(const std::vector<std::string>& recorded, const std::string& experiment,
                   int titles_to_skip) {
  bool show = false, is_there = recorded.empty();  // then a line says so already
  for (const std::string& line : recorded) {
    if (line.starts_with("== ")) {
      const bool of_it = line.starts_with("== " + experiment + ":");
      is_there |= of_it;
      show = of_it && titles_to_skip-- <= 0;
    }
    if (line.starts_with("claims: ")) show = false;
    if (show) std::cout << "| " << line << '\n';
  }
  if (!is_there) std::cout << "nothing is recorded of " << experiment << " yet\n";
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// What needs no GPU, and what an H100 printed of the rest.
void show_without_gpu(Run& run, const std::vector<Sample>& chosen) {
  std::filesystem::path shown;
  for (const Sample& sample : chosen) {
    const auto results = folder_of(sample) / "results";
    const std::vector<std::string> recorded = lines_of(results / "nvidia-h100-80gb-hbm3.txt");
    if (results != shown)
      std::cout << (recorded.empty() ? "no recorded run is in " + results.string()
                                     : "recorded: " + recorded.front())
                << '\n';
    shown = results;
    run.begin_experiment(sample.name);
    if (sample.without_gpu) sample.without_gpu(run);
    std::cout << '\n';
    show_recorded(recorded, sample.name, run.titles());
  }
}

// ---- the command line ----

cxxopts::Options declared(const std::string& program) {
  cxxopts::Options options(program);
  options.positional_help(samples().size() > 1 ? "[sample ...]" : "");
  auto add = options.add_options();
  add("sample", "", cxxopts::value<std::vector<std::string>>());
  add("list", "print the samples");
  add("quick", "smaller sizes, fewer rounds");
  add("csv", "save every number to FILE", cxxopts::value<std::string>(), "FILE");
  add("device", "number of the GPU", cxxopts::value<int>()->default_value("0"), "N");
  for (const SampleOption& option : sample_options())
    add(option.name, option.about, cxxopts::value<std::string>());
  add("self-check", "run the doctest cases; takes --test-case=PATTERN");
  add("help", "print this");
  options.parse_positional("sample");
  return options;
}

std::vector<Sample> chosen_samples(const cxxopts::ParseResult& typed, const std::string& program) {
  if (!typed.count("sample")) return samples_by_default(program);
  std::vector<Sample> chosen;
  for (const std::string& name : typed["sample"].as<std::vector<std::string>>()) {
    const auto found = std::find_if(samples().begin(), samples().end(),
                                    [&](const Sample& sample) { return sample.name == name; });
    if (found == samples().end())
      throw UsageError("unknown sample '" + name + "'; --list prints their names");
    const auto is_it = [&](const Sample& sample) { return sample.name == name; };
    if (std::none_of(chosen.begin(), chosen.end(), is_it)) chosen.push_back(*found);
  }
  return chosen;
}

/// Runs the samples. One that fails costs itself: the others run, unless the GPU's context is lost.
/// False if one failed.
bool run_all(Run& run, const std::vector<Sample>& chosen, const std::string& program) {
  bool all_right = true;
  for (const Sample& sample : chosen) {
    run.begin_experiment(sample.name);
    try {
      if (sample.without_gpu) sample.without_gpu(run);
      sample.run(run);
      run.end_experiment();
    } catch (const std::exception& error) {
      all_right = false;
      std::cout << std::flush;
      say_error(program, std::string(sample.name) + ": " + error.what());
      run.failed(error.what());
      if (cudaDeviceSynchronize() != cudaSuccess) {  // such an error stays until the process ends
        say_error(program, "the GPU takes no more work from this process: the rest is not run");
        break;
      }
    }
    std::cout << std::flush;
  }
  return all_right;
}

/// A file that is read must not be the one that is written.
void refuse_input_as_output(const Run& run, const std::string& csv) {
  for (const auto& [name, path] : run.options) {
    std::error_code none;
    if (std::filesystem::equivalent(path, csv, none))
      throw UsageError("--csv would overwrite what --" + name + " reads");
  }
}

void select_device(int device) {
  int count = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count)
    throw UsageError("there is no device " + std::to_string(device));
  CUDA_CHECK(cudaSetDevice(device));
}

}  // namespace

bool register_sample(const Sample& sample) {
  const auto after = [&](const Sample& other) {  // those of one place by name, as files stand
    return std::pair(other.place, std::string(other.name)) >
           std::pair(sample.place, std::string(sample.name));
  };
  samples().insert(std::find_if(samples().begin(), samples().end(), after), sample);
  return true;
}

bool register_option(const SampleOption& option) {
  sample_options().push_back(option);
  return true;
}

bool register_code(std::initializer_list<int> compiled_for) {
  architectures().insert(compiled_for);
  return true;
}

bool register_exercise() { return is_exercise = true; }

// ---- main ----

/// Of a program without a sample: runs its doctest cases. All of them are an exercise, "done" or "not
/// yet".
int run_without_sample(int argc, char** argv) try {
  const bool checks = argc > 1 && is_self_check(argc, argv);
  if (!checks && !is_exercise)
    throw UsageError("no file of it has a SAMPLE(place, function, \"about\"); below its function");
  if (argc > 1 && !checks)
    throw UsageError("'" + std::string(argv[1]) + "' is no option of an exercise");
  const int code = self_check(argc, argv);
  const char* const done = cases_skipped ? "done, as far as it can be checked here" : "done";
  if (!checks)
    std::cout << (code == success ? done : code == skipped ? "not checked" : "not yet") << '\n';
  require_printed();
  return code;
} catch (const UsageError& error) {
  say_error(argv[0], error.what());
  return usage;
} catch (const std::exception& error) {
  say_error(argv[0], error.what());
  return failure;
}

/// Lists, helps, shows what was recorded, or measures.
int measure(int argc, char** argv) {
  cxxopts::Options options = declared(std::filesystem::path(argv[0]).filename());
  const cxxopts::ParseResult typed = options.parse(argc, argv);
  const std::vector<Sample> chosen = chosen_samples(typed, argv[0]);
  if (typed.count("help") || typed.count("list")) {
    if (typed.count("help")) std::cout << options.help() << '\n';
    for (const Sample& sample : samples()) {
      const size_t width = std::strlen(sample.name);
      std::cout << sample.name << std::string(std::max<size_t>(18, width + 2) - width, ' ')
                << sample.about << '\n';
    }
    return success;
  }

  Run run;
  for (const SampleOption& option : sample_options()) {
    if (typed.count(option.name)) run.options[option.name] = typed[option.name].as<std::string>();
    option.check(run);
  }

  if (const std::string reason = no_gpu_reason(); !reason.empty()) {
    if (typed.count("device") || typed.count("csv"))
      throw std::runtime_error("nothing can be measured: " + reason);
    std::cout << "nothing is measured: " << reason << '\n';
    show_without_gpu(run, chosen);
    return success;
  }

  select_device(typed["device"].as<int>());
  run.gpu = current_gpu();
  if (typed.count("quick")) {
    run.quick = true;
    run.timer = {.rounds = 12, .warm_up_ms = 10};
  }
  std::optional<OutputFile> csv;
  if (typed.count("csv")) {
    refuse_input_as_output(run, typed["csv"].as<std::string>());
    csv.emplace(typed["csv"].as<std::string>());
  }

  const std::string heading = heading_on(run.gpu);
  std::cout << heading << std::endl;
  const bool all_right = run_all(run, chosen, argv[0]);
  if (!run.totals().empty())
    std::cout << '\n' << in_lines("claims: " + run.totals(), 8) << std::flush;
  if (csv) {
    const std::string how = run.quick ? ", quick" : "";
    std::vector<std::string> lines{"# " + heading + how,
                                   "experiment,table,row,column,value,low,high"};
    lines.insert(lines.end(), run.csv_lines().begin(), run.csv_lines().end());
    csv->write(lines);
  }
  return all_right ? success : failure;
}

int run_samples(int argc, char** argv) try {
  const int code = is_self_check(argc, argv) ? self_check(argc, argv) : measure(argc, argv);
  require_printed();
  return code;
} catch (const UsageError& error) {
  say_error(argv[0], error.what());
  return usage;
} catch (const cxxopts::exceptions::exception& error) {
  say_error(argv[0], error.what() + std::string("; --help lists the options"));
  return usage;
} catch (const std::exception& error) {
  say_error(argv[0], error.what());
  return failure;
}
