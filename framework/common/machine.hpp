// The gate between an experiment and the machine. Whatever a run learns from hardware passes it
// under a key, so that an experiment runs unchanged on a GPU, without one, on a made-up one, and as
// a replay of what a GPU gave before.
#pragma once

#include <string_view>

#include "report.hpp"

namespace samples {

/// Names a row in its experiment. `key` is [a-z0-9_]+: the kernel's name where the row is one
/// kernel's. `at` is the value of the sweep, if there is one.
struct Ref {
  std::string key;
  double at;

  Ref(const char* key = "", double at = NAN);  // not inline: rows of tables compile faster
  Ref(std::string key, double at = NAN);
  Ref(std::string_view key, double at = NAN);
};

bool same(const Ref& a, const Ref& b);
/// `at` as it is saved; empty if there is none.
std::string at_text(const Ref& ref);
/// "read_stride at 2". A task has this as its name: the gate refuses a task with another name.
std::string text(const Ref& ref);
/// The metric under which the ratio of two rows is saved with the slower one.
std::string ratio_to(const Ref& other);

/// The name of a kernel. A row whose key comes from here cannot launch another kernel.
template <auto kernel>
constexpr std::string_view name_of() {
  std::string_view name = __PRETTY_FUNCTION__;  // "... [with auto kernel = read_stride; ...]"
  name.remove_prefix(name.find("kernel = ") + 9);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

/// The times of one row. `groups`: the readings of each group of rounds; a replay has none.
struct Timed {
  Statistics ms = {};
  std::vector<Readings> groups = {};
};

/// A row that was measured.
struct Measured {
  Ref ref;
  std::string words = {};
  double bytes = NAN;
  Timed time = {};
  int turn = 0;              ///< rows with the same number were measured in turn; 0: alone
  bool regrouped = false;    ///< in six groups, with memory allocated anew for each
  std::string missing = {};  ///< what this machine lacks for the row; it was then not measured
};

/// A row that is to be measured. `make` allocates what the task needs.
struct Job {
  Ref ref;
  Function<Task()> make = {};
  bool on_host = false;
};

class Machine {
 public:
  virtual ~Machine() = default;
  /// Times of jobs that are measured together, in `groups` groups of rounds. All tasks of a group
  /// are made before its first measurement, and destroyed before the next group's are made.
  virtual std::vector<Timed> times(const std::vector<Job>& jobs, bool in_turn, int groups) = 0;
  /// Anything else that only a machine knows: a count, an attribute, a time stamp.
  virtual Statistics value(const Ref& ref, const std::string& metric, bool on_host,
                           const Function<Statistics()>& how) = 0;
  /// How many times as long `a` took as `b`.
  virtual Interval ratio(const Measured& a, const Measured& b);
  /// What follows from the row's time, as in a rate, with its 95% range.
  virtual Interval level(const Measured& row, const std::string& metric,
                         const Function<double(double ms)>& of_ms);
};

/// The machine that the program runs on. Without a GPU it measures what needs the host alone.
class ThisMachine final : public Machine {
 public:
  explicit ThisMachine(const Run& run) : run_(run) {}
  std::vector<Timed> times(const std::vector<Job>& jobs, bool in_turn, int groups) override;
  Statistics value(const Ref& ref, const std::string& metric, bool on_host,
                   const Function<Statistics()>& how) override;

 private:
  const Run& run_;
};

/// For self-checks: answers by key. On a computer without a GPU it makes each task, and looks
/// whether it is its row's.
class MadeUpMachine final : public Machine {
 public:
  using Answer = Function<double(const Ref&, const std::string& metric)>;
  /// Without a device nothing is measured.
  MadeUpMachine(const Device* device, Answer answer)
      : device_(device), answer_(std::move(answer)) {}
  std::vector<Timed> times(const std::vector<Job>& jobs, bool in_turn, int groups) override;
  Statistics value(const Ref& ref, const std::string& metric, bool on_host,
                   const Function<Statistics()>& how) override;

 private:
  const Device* device_;
  Answer answer_;
};

// ---- what a GPU gave before ----

/// What a results file holds of one experiment, and the device that it came from. `gpu` is empty if
/// the file is missing or holds nothing of the experiment.
struct Recording {
  std::string gpu = {}, date = {};
  bool of_several_runs = false;  ///< values are medians over runs, ranges reach over them
  Device device = {};
  std::vector<Record> records = {};

  /// A measured or counted record of that row; a ratio or a level; null if there is none.
  const Record* find_measured(const Ref& ref, const std::string& metric) const;
  const Record* find_ratio(const Ref& ref, const std::string& metric) const;
};
Recording read_recording(const std::string& path, const std::string& experiment);

/// Answers with recorded values. What was not recorded is not measured.
class RecordedMachine final : public Machine {
 public:
  explicit RecordedMachine(const Recording& recording) : recording_(recording) {}
  std::vector<Timed> times(const std::vector<Job>& jobs, bool in_turn, int groups) override;
  Statistics value(const Ref& ref, const std::string& metric, bool on_host,
                   const Function<Statistics()>& how) override;
  Interval ratio(const Measured& a, const Measured& b) override;
  Interval level(const Measured& row, const std::string& metric,
                 const Function<double(double ms)>& of_ms) override;

 private:
  const Recording& recording_;
};

}  // namespace samples
