#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "machine_state.hpp"

namespace samples {
namespace {

/// Makes a job's task. One that measures another row than its own would give right results and
/// wrong numbers.
Task made(const Job& job) {
  Task task = job.make();
  if (task.name != text(job.ref))
    throw std::logic_error("the task of row '" + text(job.ref) + "' is that of '" + task.name +
                           "'");
  return task;
}

/// Makes all tasks of a group, to see whose they are, and whether their memory fits.
void make_without_gpu(const std::vector<Job>& jobs, const Device& device) {
  const device_memory::Pretence pretence;
  std::vector<Task> tasks;
  for (const Job& job : jobs) tasks.push_back(made(job));
  if (pretence.bytes() > device.memory_there())
    throw std::logic_error("the tasks from '" + text(jobs[0].ref) + "' on allocate " +
                           bytes_text(pretence.bytes()) + " of " +
                           bytes_text(device.memory_there()));
}

Statistics statistics_of(const std::vector<Readings>& groups) {
  Readings all;
  for (const Readings& group : groups)
    all.ms.insert(all.ms.end(), group.ms.begin(), group.ms.end());
  return all.statistics();
}

}  // namespace

Ref::Ref(const char* key, double at) : key(key), at(at) {}
Ref::Ref(std::string key, double at) : key(std::move(key)), at(at) {}
Ref::Ref(std::string_view key, double at) : key(key), at(at) {}

bool same(const Ref& a, const Ref& b) {
  return a.key == b.key && (a.at == b.at || (std::isnan(a.at) && std::isnan(b.at)));
}

std::string at_text(const Ref& ref) {
  if (std::isnan(ref.at)) return {};
  if (ref.at == std::floor(ref.at)) return fixed(ref.at, 0);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", ref.at);
  return digits;
}

std::string text(const Ref& ref) {
  return std::isnan(ref.at) ? ref.key : ref.key + " at " + at_text(ref);
}

std::string ratio_to(const Ref& other) { return "time over that of " + text(other); }

Interval Machine::ratio(const Measured& a, const Measured& b) {
  if (a.time.groups.empty() || b.time.groups.empty()) return {};
  return a.regrouped ? ratio_of_groups(a.time.groups, b.time.groups)
                     : ::ratio(a.time.groups[0], b.time.groups[0]);
}

Interval Machine::level(const Measured& row, const std::string&,
                        const Function<double(double)>& of_ms) {
  std::vector<double> values;
  for (const Readings& group : row.time.groups)
    for (const double ms : of_blocks(group)) values.push_back(of_ms(ms));
  return values.empty() ? Interval{} : interval_of_median(std::move(values));
}

// ---- this machine ----

std::vector<Timed> ThisMachine::times(const std::vector<Job>& jobs, bool in_turn, int groups) {
  std::vector<size_t> possible;
  for (size_t j = 0; j < jobs.size(); ++j)
    if (run_.device || jobs[j].on_host) possible.push_back(j);

  Run run = run_;
  constexpr int rounds_of_a_group = 4;
  if (groups > 1) run.measuring.rounds = rounds_of_a_group;

  std::vector<Timed> all(jobs.size());
  for (int g = 0; g < groups && !possible.empty(); ++g) {
    std::vector<Task> tasks;
    for (const size_t j : possible) tasks.push_back(made(jobs[j]));
    std::vector<Readings> times;
    if (in_turn) {
      times = run.time_in_turn(tasks);
    } else {
      Progress progress(jobs[0].ref.key, int(tasks.size()));
      for (const Task& task : tasks) {
        times.push_back(run.time(task));
        progress.step();
      }
    }
    for (size_t i = 0; i < possible.size(); ++i)
      all[possible[i]].groups.push_back(std::move(times[i]));
  }
  for (Timed& timed : all) timed.ms = statistics_of(timed.groups);
  return all;
}

Statistics ThisMachine::value(const Ref&, const std::string&, bool on_host,
                              const Function<Statistics()>& how) {
  return run_.device || on_host ? how() : Statistics{};
}

// ---- a made-up one ----

std::vector<Timed> MadeUpMachine::times(const std::vector<Job>& jobs, bool, int groups) {
  static const bool can_pretend = !no_gpu_reason().empty();
  if (!device_) return std::vector<Timed>(jobs.size());
  if (can_pretend && !jobs.empty()) make_without_gpu(jobs, *device_);
  std::vector<Timed> all;
  for (const Job& job : jobs) {
    Timed timed;
    const std::vector<double> readings(18, answer_(job.ref, "time"));
    timed.groups.assign(size_t(groups), Readings{readings});
    timed.ms = statistics_of(timed.groups);
    all.push_back(std::move(timed));
  }
  return all;
}

Statistics MadeUpMachine::value(const Ref& ref, const std::string& metric, bool,
                                const Function<Statistics()>&) {
  if (!device_) return {};
  const double value = answer_(ref, metric);
  return {value, value, value, 1};
}

// ---- a recorded one ----

namespace {

/// The fields of a line of CSV (RFC 4180; no line breaks within a field).
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  return fields;
}

double number(const std::string& text) {
  return text.empty() ? NAN : std::strtod(text.c_str(), nullptr);
}

/// The columns of a results file by name; a file of an earlier edition lacks some.
struct Columns {
  std::vector<std::string> names;

  std::string field(const std::vector<std::string>& fields, const char* name) const {
    const size_t i = size_t(std::find(names.begin(), names.end(), name) - names.begin());
    return i < fields.size() ? fields[i] : std::string();
  }
  Record record(const std::vector<std::string>& fields) const {
    const auto text = [&](const char* name) { return field(fields, name); };
    return {text("experiment"),
            text("case"),
            text("parameter"),
            text("at"),
            text("kind"),
            text("metric"),
            text("unit"),
            number(text("value")),
            number(text("low")),
            number(text("high")),
            std::atoi(text("repeats").c_str()),
            text("words")};
  }
};

}  // namespace

Recording read_recording(const std::string& path, const std::string& experiment) {
  Recording recording;
  recording.device.number = -1;  // nothing of it is asked of the runtime
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const Columns columns{fields_of(line)};
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = fields_of(line);
    Record r = columns.record(fields);
    if (r.kind == "machine" && r.experiment.empty())
      for (const DeviceProperty& p : device_properties())
        if (r.metric == p.metric && std::isfinite(r.value)) p.set(recording.device, r.value);
    if (r.experiment != experiment) continue;
    recording.gpu = columns.field(fields, "gpu");
    std::snprintf(recording.device.prop.name, sizeof recording.device.prop.name, "%s",
                  recording.gpu.c_str());
    recording.date = columns.field(fields, "date");
    recording.of_several_runs |= std::atoi(columns.field(fields, "runs").c_str()) > 1;
    const std::string capability = columns.field(fields, "cc");
    std::sscanf(capability.c_str(), "%d.%d", &recording.device.prop.major,
                &recording.device.prop.minor);
    recording.records.push_back(std::move(r));
  }
  return recording;
}

namespace {

const Record* find(const std::vector<Record>& records, std::initializer_list<const char*> kinds,
                   const Ref& ref, const std::string& metric) {
  for (const Record& r : records)
    if (std::find(kinds.begin(), kinds.end(), r.kind) != kinds.end() && r.metric == metric &&
        same({r.name, number(r.at)}, ref))
      return &r;
  return nullptr;
}

}  // namespace

const Record* Recording::find_measured(const Ref& ref, const std::string& metric) const {
  return find(records, {"measured", "calibration", "counted"}, ref, metric);
}

const Record* Recording::find_ratio(const Ref& ref, const std::string& metric) const {
  return find(records, {"ratio"}, ref, metric);
}

Statistics RecordedMachine::value(const Ref& ref, const std::string& metric, bool,
                                  const Function<Statistics()>&) {
  const Record* r = recording_.find_measured(ref, metric);
  if (!r) return {};
  const bool has_range = std::isfinite(r->low) && std::isfinite(r->high);
  return {r->value, has_range ? r->low : r->value, has_range ? r->high : r->value,
          std::max(r->repeats, 1)};
}

std::vector<Timed> RecordedMachine::times(const std::vector<Job>& jobs, bool, int) {
  std::vector<Timed> all;
  for (const Job& job : jobs) all.push_back({value(job.ref, "time", false, {}), {}});
  return all;
}

namespace {

Interval interval_of(const Record* r) {
  return r ? Interval{r->value, r->low, r->high, r->repeats, ""} : not_measured("was not recorded");
}

}  // namespace

Interval RecordedMachine::ratio(const Measured& a, const Measured& b) {
  return interval_of(recording_.find_ratio(a.ref, ratio_to(b.ref)));
}

Interval RecordedMachine::level(const Measured& row, const std::string& metric,
                                const Function<double(double)>&) {
  return interval_of(recording_.find_ratio(row.ref, metric));
}

}  // namespace samples
