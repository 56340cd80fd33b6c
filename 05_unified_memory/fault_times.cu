// fault_times: when do the pages of page_faults move? The wiki's note names the tool that showed it,
// nvprof --print-gpu-trace [LC A]. Here a line per version shows one run of it, all on one scale.
// Look at the pauses: the driver serves faults in bursts, and a prefetch has none. The text makes
// no claim.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o fault_times fault_times.cu page_faults.cu ../common/*.cpp
//
//   the kernels and the four versions stand in page_faults.cu
#include <algorithm>

#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"
#include "page_faults.hpp"

namespace {

constexpr size_t cells = 72;

double us_since(uint64_t begin, uint64_t time) { return double(time - begin) * 1e-3; }

/// When the first of the records began, and when the last ended. The host's faults, which came
/// before, have no part in it.
struct Span {
  uint64_t begin = UINT64_MAX, end = 0;
};
Span span_of(const std::vector<Record>& records) {
  Span span;
  for (const Record& record : records) {
    if (record.what == cpu_faults) continue;
    span.begin = std::min(span.begin, record.begin);
    span.end = std::max(span.end, record.end);
  }
  return span;
}

/// What is shown: by its sign on the line (a later one hides an earlier), and in its column.
struct Shown {
  What what;
  char sign;
  const char* column;
};
constexpr Shown shown[] = {{fault_groups, 'f', "groups of GPU faults"},
                           {to_device, '>', "bytes to device"},
                           {to_host, '<', "bytes to host"}};

/// A run on one line, a sign for each `us_per_cell`: f faults of the GPU are served, > pages move to
/// the device, < to the host. What moves hides a fault.
std::string time_line(const std::vector<Record>& records, double us_per_cell) {
  std::string line(cells, '.');
  const Span span = span_of(records);
  const auto cell_at = [&](uint64_t time) {
    return std::min(size_t(us_since(span.begin, time) / us_per_cell), cells - 1);
  };
  for (const auto& [what, sign, column] : shown)
    for (const Record& record : records)
      if (record.what == what)
        std::fill(line.begin() + long(cell_at(record.begin)),
                  line.begin() + long(cell_at(record.end)) + 1, sign);
  return line;
}

/// Each event in the CSV.
void save(Run& run, const std::string& version, const std::vector<Record>& records) {
  const Span span = span_of(records);
  Table table(version, {"since the first, us", "lasts, us", shown[0].column, shown[1].column,
                        shown[2].column});
  int event = 0;
  for (const Record& record : records) {
    if (record.what == cpu_faults) continue;
    const auto value_in = [&](int column) {
      return record.what == shown[column].what ? record.value : NAN;
    };
    table.row(std::to_string(++event),
              {us_since(span.begin, record.begin), us_since(record.begin, record.end), value_in(0),
               value_in(1), value_in(2)});
  }
  run.save(table);
}

}  // namespace

void fault_times(Run& run) {
  run.title("when pages move: one run of each version of page_faults");
  if (const std::string why = nothing_moves_because(run.gpu); !why.empty()) return run.note(why);
  const auto benchmarks = copies_from_host_to_host();
  const Counted counted = count_migrations(benchmarks, 3);
  if (!counted.missing.empty()) return run.note(counted.missing);

  double longest_us = 0;
  size_t longest_name = 0, lost = 0, of = 0;
  for (const auto& [name, runs] : counted.runs) {
    const Span span = span_of(fullest(runs).records);
    if (span.end <= span.begin) return run.note("CUPTI recorded nothing of " + name);
    longest_us = std::max(longest_us, us_since(span.begin, span.end));
    longest_name = std::max(longest_name, name.size());
    lost += runs_with_fewer_bytes(runs);
    of += runs.size();
  }
  const double us_per_cell = longest_us / cells;
  for (const Benchmark& benchmark : benchmarks) {
    const auto& records = fullest(counted.runs.at(benchmark.name)).records;
    const std::string blanks(longest_name + 2 - benchmark.name.size(), ' ');
    run.note(benchmark.name + blanks + time_line(records, us_per_cell));
    save(run, benchmark.name, records);
  }
  run.note("a sign is " + digits(us_per_cell) +
           " us: f GPU faults are served, > to the device, < to the host");
  run.note("the fullest of three runs of each; CUPTI had fewer bytes in " + std::to_string(lost) +
           " of " + std::to_string(of) + " runs");
}
SAMPLE(3, fault_times, "when the pages of page_faults move: a time line");

TEST_CASE("fault_times: a line, by hand") {
  const std::vector<Record> records = {{cpu_faults, 0, 100, 0},         // before, and left out
                                       {fault_groups, 1, 1000, 3000},   // cells 0 to 2
                                       {to_device, 65536, 2500, 2900},  // in cell 1
                                       {to_host, 4096, 11000, 11500},   // in cell 10
                                       {to_host, 4096, 900'000, 901'000}};
  const std::string line = time_line(records, 1);
  CHECK(line.substr(0, 12) == "f>f.......<.");
  CHECK(line.size() == cells);
  CHECK(line.back() == '<');  // what would lie beyond stands in the last cell
}

TEST_CASE("fault_times: one run has faults on demand, and none with a prefetch") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  const Counted counted = count_migrations(copies_from_host_to_host(), 1);
  if (!counted.missing.empty()) return skip(counted.missing);
  const auto line_of = [&](const char* version) {
    return time_line(counted.runs.at(version).front().records, 50);
  };
  CHECK(line_of("stream_thread").find('f') != std::string::npos);
  CHECK(line_of("prefetched").find('f') == std::string::npos);
  CHECK(line_of("prefetched").find('<') != std::string::npos);
}
