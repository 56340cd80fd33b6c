#include "counters.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "files.hpp"
#include "report.hpp"

namespace {

bool given = false;
counters::Counts of_this_run;

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

std::string operation(bool loads) { return loads ? "ld" : "st"; }

}  // namespace

std::string results_folder(const std::string& sources, const std::string& installed) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return sources;
  const std::filesystem::path folder = (program.parent_path() / installed).lexically_normal();
  return std::filesystem::is_directory(folder, error) ? folder.string() : sources;
}

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

double count_of_this_run(const std::string& kernel, const std::string& parameter,
                         const std::string& metric) {
  return of_this_run.find(kernel, parameter, metric);
}

bool counted_in_this_run() { return given; }

namespace counters {

double Counts::find(const std::string& kernel, const std::string& parameter,
                    const std::string& metric) const {
  const std::string name = kernel + "," + parameter + "," + metric;
  for (const auto& [counted, count] : all)
    if (counted == name) return count;
  return NAN;
}

Counts read_counts(std::istream& file) {
  Counts counts;
  for (std::string line; std::getline(file, line);) {
    const size_t comma = line.rfind(',');
    if (comma == std::string::npos) continue;
    const char* const value = line.c_str() + comma + 1;
    char* end = nullptr;
    const double count = std::strtod(value, &end);
    if (end != value && line[0] != '#') counts.all.push_back({line.substr(0, comma), count});
  }
  return counts;
}

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
