// A sheet: one table of an experiment, declared row by row, then measured, predicted and printed.
// What it measures is kept under the rows' keys: other sheets take constants from it, and claims
// compare it.
#pragma once

#include <optional>

#include "machine.hpp"

namespace samples {

/// A number of a row that is no time.
struct Value {
  Ref ref;
  std::string metric = {}, unit = {};
  Statistics value = {};
};

/// All that an experiment has measured. Looking up a key that is not there is an error of the
/// program: std::logic_error.
class Results {
 public:
  void keep(Measured row);
  void keep(Value value);
  const Measured& operator()(const Ref& ref) const;
  const Value& value(const Ref& ref, const std::string& metric) const;
  /// A number for rows that are measured in turn with each other.
  int new_turn() { return ++turns_; }

 private:
  std::vector<Measured> rows_;
  std::vector<Value> values_;
  int turns_ = 0;
};

/// Keeps a number that is no time under a row's key, for claims, and saves it.
void keep(const Run& run, const Ref& ref, const std::string& metric, const std::string& unit,
          const Statistics& value);
/// Asks the machine for such a number, and keeps it. Ask for what was counted; compute from the
/// answer what follows from it, so that a replay computes it again.
Statistics ask(const Run& run, const Ref& ref, const std::string& metric, const std::string& unit,
               const Function<Statistics()>& how);
/// The same of a number that the host knows without a GPU.
Statistics ask_host(const Run& run, const Ref& ref, const std::string& metric,
                    const std::string& unit, const Function<Statistics()>& how);
/// The same of a number that a table shows and therefore saves: here it is only kept.
Statistics ask_for_table(const Run& run, const Ref& ref, const std::string& metric,
                         const std::string& unit, const Function<Statistics()>& how);
/// A number without a spread: a count, an attribute.
Statistics single(double value);

/// What one call measures and several questions are answered from: measured when the first of them
/// is asked, never where all answers were recorded.
template <class T>
struct Once {
  Function<T()> measure;
  std::optional<T> found = {};
  const T& operator()() {
    if (!found) found = measure();
    return *found;
  }
};

/// One row of a sheet; only `ref` is required.
struct Row {
  Ref ref;
  std::string words = {};   ///< as shown; if empty, the value of the sweep or the key
  double bytes = NAN;       ///< that the work must move
  bool calibrates = false;  ///< the model takes a constant from the row, and does not predict it
  bool on_host = false;
  Model model = Model::traffic;
  std::string missing = {};  ///< not empty: the row is not measured, and why ("needs 2 GPUs")
  bool printed = true;       ///< false: saved only, as most rows of a long sweep are
};

/// The entry of a table of kernels whose `key` a row has, or null.
template <class Kernel, size_t count>
const Kernel* with_key(const Kernel (&kernels)[count], const Ref& ref) {
  for (const Kernel& k : kernels)
    if (ref.key == k.key) return &k;
  return nullptr;
}

/// How rows are measured.
enum class Timing {
  alone,      ///< one after the other: no claim compares them
  in_turn,    ///< in the same rounds, A B B A: claims compare them
  regrouped,  ///< in turn, in six groups with memory allocated anew for each: for rows whose time
              ///< the host, the driver or the place in memory decides; --quick measures one group
};

/// What predictions are made from; told in the table's foot.
enum class Basis {
  from_device,  ///< indices and documented properties alone
  calibrated,   ///< constants from rows of this run
  fitted,       ///< the model's form was chosen on such rows
};

/// A column, and what it shows of a row: a number that is not timed, or the row's time in the
/// column's unit, or words.
struct Shown {
  Column column;
  Function<double(const Row&)> number = {};
  Function<double(const Row&, double ms)> of_time = {};
  Function<std::string(const Row&, const Statistics& ms)> words = {};
};
/// A column of computed or counted numbers.
Shown number(Column column, Function<double(const Row&)> of_row);
/// A column of times in another unit.
Shown in_unit(Column column, Function<double(const Row&, double ms)> of_time);
/// The rate of the row's bytes, for in_unit.
double gbs_of(const Row& row, double ms);
/// Times, or rates of the rows' bytes: predicted, measured, and their ratio.
Shown milliseconds(int decimals);
Shown gigabytes_per_second(int decimals = 0);
Shown spread();
/// The row's rate as a share of the rate of row `full`: a bar, or percent.
Shown bar_against(const Run& run, Ref full);
Shown share_against(const Run& run, Ref full, std::string heading);

class Sheet {
 public:
  /// `heading`: of the first column; saved as the parameter of rows that have a value `at`.
  /// `swept`: what that value is, if the heading does not say it.
  Sheet(const Run& run, std::string heading, std::vector<Shown> columns, std::string swept = "");

  void add(Row row);
  /// Measures all rows. `make(row)` makes the task of a row, with text(row.ref) as its name, and
  /// is called only where the task can run, once for each group. The task owns what it uses. CUDA
  /// calls of a row (memory, handles, occupancy) stand in `make` or in the task, nowhere else.
  void measure(Timing timing, const Function<Task(const Row&)>& make);
  /// Milliseconds of a measured row, of this sheet or of another sheet of the experiment.
  double ms(const Ref& ref) const;
  /// `of_row(row)`: milliseconds, or not a number for a row that no model covers. Rows that
  /// calibrate are not predicted.
  void predict(const Function<double(const Row&)>& of_row, Basis basis = Basis::calibrated);
  /// Prints and saves all rows, with lines of explanation beneath.
  void print(std::initializer_list<std::string> notes = {});

 private:
  void print_basis() const;

  const Run& run_;
  std::string heading_, swept_;
  std::vector<Shown> columns_;
  std::vector<Row> rows_;
  std::vector<double> predicted_;  ///< of each row
  Basis basis_ = Basis::calibrated;
};

/// Something that several tasks own together, destroyed with the last of them: std::shared_ptr
/// without its header, which takes half a second to compile.
template <class T>
class Shared {
 public:
  explicit Shared(T thing) : held_(new Held{std::move(thing)}) {}
  Shared(const Shared& other) : held_(other.held_) { ++held_->owners; }
  Shared& operator=(const Shared&) = delete;
  ~Shared() { leave(held_); }
  T* operator->() const { return &held_->thing; }
  T& operator*() const { return held_->thing; }

 private:
  template <class Make>
  friend class SharedByTasks;
  struct Held {
    T thing;
    int owners = 1;
    Held** seen_by = nullptr;
  };
  explicit Shared(Held* held) : held_(held) { ++held->owners; }
  [[gnu::noinline]] static void leave(Held* held) {  // inline, GCC 12 warns of what cannot happen
    if (--held->owners > 0) return;
    if (held->seen_by) *held->seen_by = nullptr;
    delete held;
  }
  Held* held_;
};

/// Memory that the tasks of a group share: `SharedByTasks memory([n] { return Words(n); });`, and
/// `memory()` where a task is made. It is allocated with the first task, and freed with the last.
template <class Make>
class SharedByTasks {
  using Thing = decltype(std::declval<Make>()());

 public:
  explicit SharedByTasks(Make make) : make_(std::move(make)) {}
  SharedByTasks(const SharedByTasks&) = delete;
  ~SharedByTasks() {
    if (there_) there_->seen_by = nullptr;
  }
  Shared<Thing> operator()() {
    if (there_) return Shared<Thing>(there_);
    Shared<Thing> made(make_());
    there_ = made.held_;
    there_->seen_by = &there_;
    return made;
  }

 private:
  Make make_;
  typename Shared<Thing>::Held* there_ = nullptr;
};

}  // namespace samples
