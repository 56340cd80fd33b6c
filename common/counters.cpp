#include "counters.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "files.hpp"
#include "report.hpp"

namespace {

using Counts = std::map<std::string, double>;  // by "kernel,parameter,metric"

bool given = false;
Counts of_this_run;

Counts read_counts(std::istream& file) {
  Counts counts;
  for (std::string line; std::getline(file, line);) {
    const size_t comma = line.rfind(',');
    if (comma == std::string::npos) continue;
    const char* const value = line.c_str() + comma + 1;
    char* end = nullptr;
    const double count = std::strtod(value, &end);
    if (end != value && line[0] != '#') counts[line.substr(0, comma)] = count;
  }
  return counts;
}

/// 64-bit FNV-1a over the executable: another build is another program.
std::string program_hash() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  uint64_t hash = 0xcbf29ce484222325u;
  std::vector<char> block(1 << 16);
  while (program.read(block.data(), std::streamsize(block.size())) || program.gcount() > 0)
    for (std::streamsize i = 0; i < program.gcount(); ++i)
      hash = (hash ^ static_cast<unsigned char>(block[size_t(i)])) * 0x100000001b3u;
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// How the first line of a counters file ends.
std::string program_text() { return ", program " + program_hash(); }

double find(const Counts& counts, const std::string& kernel, const std::string& parameter,
            const std::string& metric) {
  const auto found = counts.find(kernel + "," + parameter + "," + metric);
  return found == counts.end() ? NAN : found->second;
}

void compare(const std::vector<CountedLaunch>& all, const Counts& counts, bool print) {
  for (const CountedLaunch& launch : all) {
    for (const Expected& expected : launch.expected) {
      const double count = find(counts, launch.kernel, launch.parameter, expected.metric);
      CAPTURE(launch.kernel);
      CAPTURE(launch.parameter);
      CAPTURE(expected.what);
      CHECK(count == std::round(expected.value));
      if (print)
        std::printf("  %-24s %-40s %-22s %12.12g %12.12g\n", launch.kernel.c_str(),
                    launch.parameter.c_str(), expected.what.c_str(), expected.value, count);
    }
  }
}

std::string operation(bool loads) { return loads ? "ld" : "st"; }

}  // namespace

Expected expected_requests(bool loads, double requests) {
  const std::string op = operation(loads);
  return {op + " requests", "l1tex__t_requests_pipe_lsu_mem_global_op_" + op + ".sum", requests};
}

Expected expected_sectors(bool loads, double sectors) {
  const std::string op = operation(loads);
  return {op + " sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_" + op + ".sum", sectors};
}

Expected expected_wavefronts(bool loads, double wavefronts) {
  const std::string op = operation(loads);
  return {"shared " + op + " wavefronts",
          "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum", wavefronts};
}

void launch_counted(const std::vector<CountedLaunch>& all) {
  counters::announce();
  for (const CountedLaunch& each : all) {
    CAPTURE(each.kernel);
    CAPTURE(each.parameter);
    std::printf("launch: %s,%s\n", each.kernel.c_str(), each.parameter.c_str());
    CHECK(each.launch());
  }
}

void compare_with_counts_of_this_run(const std::vector<CountedLaunch>& all) {
  if (!given) return skip_self_check("needs counts of this run: cmake --workflow --preset profile");
  compare(all, of_this_run, true);
}

void compare_patterns_with_counts_of_this_run(const std::vector<CountedLaunch>& all) {
  if (!given) return skip_self_check("needs counts of this run: cmake --workflow --preset profile");
  size_t equal = 0;
  for (const CountedLaunch& launch : all) {
    bool as_expected = true;
    for (const Expected& expected : launch.expected) {
      const double count = find(of_this_run, launch.kernel, launch.parameter, expected.metric);
      if (count == expected.value) continue;
      as_expected = false;
      std::printf("  %s %s %s %g %g\n", launch.kernel.c_str(), launch.parameter.c_str(),
                  expected.what.c_str(), expected.value, count);
    }
    equal += as_expected;
  }
  std::printf("  %zu random patterns: %zu equal the model\n", all.size(), equal);
  CHECK(equal == all.size());
}

void compare_with_recorded_counts(const std::vector<CountedLaunch>& all, const std::string& file) {
  std::ifstream recorded(file);
  if (!recorded) return skip_self_check("built without " + (file.empty() ? "results/" : file));
  compare(all, read_counts(recorded), false);
}

double count_of_this_run(const std::string& kernel, const std::string& parameter,
                         const std::string& metric) {
  return find(of_this_run, kernel, parameter, metric);
}

bool counted_in_this_run() { return given; }

namespace counters {

std::string identity() { return Device::current().uuid() + program_text(); }

void take_file(const std::string& path, bool has_gpu) {
  constexpr size_t most = 64 << 20;  // bytes; a thousand launches take 100 KB
  const std::vector<char> bytes = read_input("--counters", path, most);
  std::istringstream file(std::string(bytes.begin(), bytes.end()));
  std::string first;
  if (!std::getline(file, first)) throw UsageError("--counters: '" + path + "' is empty");
  const std::string begin = has_gpu ? "# gpu " + Device::current().uuid() : "# gpu GPU-";
  const std::string end = program_text();
  if (!first.starts_with(begin) || !first.ends_with(end))
    throw UsageError("--counters: '" + path + "' was counted on another GPU or with another " +
                     "program: it begins with '" + first.substr(0, 100) + "', not with '" + begin +
                     (has_gpu ? "" : "...") + end + "'");
  if (!has_gpu) return;
  of_this_run = read_counts(file);
  given = true;
}

void announce() {
  static bool announced = false;
  if (!announced) std::printf("counted on: gpu %s\n", identity().c_str());
  announced = true;
}

}  // namespace counters
