// Showing and saving what was measured: the heading, tables, predictions, bars, claims, the CSV;
// and what an experiment is given.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "judging.hpp"

// ---- numbers as text ----

/// `value` with so many digits after the point; "-" if it is not finite.
std::string fixed(double value, int decimals);
/// A factor as in "3.5x": two digits after the point below 2, one below 100, none above.
std::string times(double factor);
/// A number of bytes in binary units: "400 B", "64 KiB", "1.50 GiB".
std::string bytes_text(double bytes);
/// Width of the spread as a share of the median: "0.4%".
std::string spread_text(const Statistics& s);
/// `share` of a limit (1 is all of it) as "12%". More than all of a memory's limit can only come
/// out of a cache, and says so.
std::string percent(double share);
/// `share` of a limit as a bar of ten cells, in eighths of a cell; longer ones are cut at the
/// limit.
std::string bar(double share);
/// Columns that `text` takes on a terminal: its code points, as far as none is wide or combining.
size_t display_width(const std::string& text);

// ---- the device ----

/// The device that a run measures. Tests make devices up: those have a negative number.
struct Device {
  int number = 0;
  cudaDeviceProp prop{};
  int driver = 0;              ///< CUDA version that the driver supports, 13000 for 13.0
  int sm_clock_khz = 0;        ///< 0 if not reported
  int memory_clock_khz = 0;    ///< 0 if not reported
  double theoretical_gbs = 0;  ///< 2 x memory clock x bus width in GB/s (1e9); 0 if not reported

  /// Selects device `number` and reads what it is.
  static Device select(int number);
  /// The device that the command line chose, for self-checks.
  static Device current();
  /// Device memory of the current device that is free now, in bytes.
  static size_t free_bytes();

  /// Bytes of the L2 cache. One that reports none is taken to have more than any GPU so far.
  size_t l2_bytes() const { return prop.l2CacheSize > 0 ? size_t(prop.l2CacheSize) : 128u << 20; }
  /// Memory for an experiment: what is free now; of a made-up device all that it has.
  double memory_there() const;
  std::string capability() const;
  /// As nvidia-smi writes it: "GPU-" and 32 hexadecimal digits in five groups.
  std::string uuid() const;
};

/// Whether data of so many bytes comes from memory whatever was read before: it is at least four
/// times the L2. The one rule of every topic.
bool beyond_l2(const Device& device, double bytes);

/// Refuses a typed size that does not fit: throws UsageError with the bytes needed and there.
void require_fits(const std::string& what, double bytes_needed, double bytes_there);

/// The size that an experiment takes: the `typed` one, which has to fit in `bytes_there`, or, where
/// none was typed (0), `by_default`, halved until it needs at most nine tenths of them.
/// `bytes_of(n)`: bytes that size n needs. Throws UsageError.
size_t fitting_size(const std::string& what, size_t typed, size_t by_default, double bytes_there,
                    const Function<double(size_t)>& bytes_of);

// ---- claims ----

/// The hardware that a text speaks of, by its compute capabilities times ten: {20, 37} is Fermi and
/// Kepler. By default CUDA in general.
struct Hardware {
  int from = 0, to = 0;

  bool named() const { return to > 0; }
  bool includes(const cudaDeviceProp& prop) const;
};
inline constexpr Hardware g80{10, 11}, fermi_and_kepler{20, 37}, kepler{30, 37}, pascal{60, 62};

/// A statement of the texts, which gets one verdict.
struct Part {
  std::string id;         ///< as in "04.2a"
  std::string statement;  ///< what it says, in a line
  std::string then;       ///< what was reported; empty if no figure was
  std::string then_on;    ///< the hardware, or the text that it stands in
  Hardware of = {};       ///< what it is said of: elsewhere "does not hold" becomes "no longer"
  bool by_construction = false;  ///< it cannot come out otherwise on any GPU: gets a dagger
};

// ---- the report ----

/// One line of the CSV, less what is the same in all of them.
struct Record {
  std::string experiment, name, parameter, at;  ///< `name` goes into the column "case"
  std::string kind, metric, unit;
  double value = NAN, low = NAN, high = NAN;  ///< NaN is saved as an empty field
  int repeats = 0;
  std::string words = {};  ///< what a reader sees of the case, where that is not its name
};

extern const char* const csv_header;

/// What a prediction is made from, which says how far a test may hold a row to it.
enum class Model {
  traffic,  ///< bytes, documented sectors, wavefronts: within a factor of 1.6
  latency,  ///< latency or launches, over 20 us: within 2.5
  host,     ///< host, driver, allocation, faults, or found on one GPU only: not at all
};

/// A measured row with its prediction, for the preset "plausible".
struct Prediction {
  std::string row;
  double predicted, measured;
  Model model;
  std::string unit;
};

/// Prints what a sample finds and keeps it for the CSV.
class Report {
 public:
  explicit Report(std::string topic) : topic_(std::move(topic)) {}
  /// One that prints into a string, for tests.
  Report(std::string topic, std::string* printed) : topic_(std::move(topic)), printed_(printed) {}

  /// The first lines: the device, or why there is none.
  void heading(const Device* device, const std::string& no_gpu);
  /// Begins an experiment: its name as on the command line and its size in words and bytes.
  void begin(const std::string& experiment, const std::string& size);
  /// A line of explanation under a table.
  void note(const std::string& text);
  /// The same, but once in an experiment however often it is said.
  void note_once(const std::string& text);
  /// Says what an experiment did not do, and why.
  void left_out(const std::string& what, const std::string& why = "no GPU");

  /// Judges a statement by the range of a ratio or a level, prints `here` beside what the text
  /// reports, and keeps both. Not measured: "not judged", with the interval's reason; without a
  /// reason there must be no GPU, else std::logic_error.
  void judge(const Part& part, const Criterion& rule, const Interval& value,
             const std::string& here, const std::string& unit = "x");
  /// The same of a fact. `computed`: the text computes it too; the profile preset counts it.
  void judge_fact(const Part& part, bool holds, const std::string& here);
  /// The same of a verdict that several shapes or widths have found.
  void judged(const Part& part, Verdict verdict, const Interval& value, const std::string& here,
              const std::string& unit = "x");
  void not_judged(const Part& part, const std::string& why);
  /// What was found beside a claim, which nobody judges. Not measured (empty): nothing is printed.
  void finding(const std::string& id, const std::string& text);

  /// The last line: how many claims got which verdict, those by construction counted apart.
  void summary() const;

  /// Keeps a record for the CSV; tables and claims do so by themselves.
  void save(Record record);
  /// The whole CSV. `date` as YYYY-MM-DD.
  std::string csv(const std::string& date) const;

  /// Of tables: prints a line, keeps a prediction.
  void print(const std::string& line) const;
  void predict(Prediction prediction) { predictions_.push_back(std::move(prediction)); }
  const std::vector<Prediction>& predictions() const { return predictions_; }
  const std::vector<Record>& records() const { return records_; }

 private:
  std::string topic_, experiment_, gpu_, capability_, driver_;
  std::string* printed_ = nullptr;
  std::vector<Record> records_;
  std::vector<Prediction> predictions_;
  std::vector<std::string> said_once_;
  const Device* device_ = nullptr;
  int verdicts_[verdict_count] = {};
  int by_construction_ = 0;
};

/// Today in UTC as YYYY-MM-DD.
std::string today();

// ---- tables ----

/// A column of a table. One with a metric is saved under its kind, metric and unit.
struct Column {
  std::string heading;  ///< as printed, with the unit
  std::string kind;     ///< measured, predicted, compared, counted, then; empty: only shown
  std::string metric;   ///< what it is, as saved; empty for a column that is only shown
  std::string unit;
  int decimals = 1;
  bool printed = true;
};

Column measured(std::string heading, std::string metric, std::string unit, int decimals);
Column predicted(std::string heading, std::string metric, std::string unit, int decimals);
/// Three columns: predicted, measured and their ratio. Its cells are Compared or Calibration.
Column compared(std::string heading, std::string metric, std::string unit, int decimals);
/// Read exactly, not timed: bytes of a compiled kernel, resident blocks, device attributes, counts.
Column counted(std::string heading, std::string metric, std::string unit, int decimals);
/// The text's own figure.
Column then(std::string heading, std::string metric, std::string unit, int decimals);
/// Shown, not saved: a spread, a share, a bar, words.
Column shown(std::string heading);
/// Saved, not shown: a table has no more columns than a screen has room for.
Column saved_only(Column column);

/// A cell's prediction, made before it was measured, and what was measured.
struct Compared {
  double predicted;
  Statistics measured;
  Model model = Model::traffic;
};
/// The row from which a constant of the model comes: neither measured nor predicted.
struct Calibration {
  Statistics measured;
};

/// A cell: a number, measurements (median shown, spread saved too), words, or nothing.
struct Cell {
  enum Kind { nothing, number, words, compared, calibration } kind = nothing;
  double value = NAN, low = NAN, high = NAN;
  int repeats = 0;
  double predicted = NAN;
  Model model = Model::traffic;
  std::string text;

  Cell();
  Cell(double value);
  Cell(const Statistics& s);
  Cell(const Compared& c);
  Cell(const Calibration& c);
  Cell(std::string words);
  Cell(const char* words);

  Cell(const Cell&);
  Cell(Cell&&) noexcept;
  Cell& operator=(const Cell&);
  Cell& operator=(Cell&&) noexcept;
  ~Cell();
};

// compiled once, in report.cpp: every row of every table would instantiate it again
extern template class std::vector<Cell>;
extern template class std::vector<Column>;

/// What a row is about: `name`, and for a sweep the parameter and the value that it has here.
struct Key {
  std::string name;
  std::string parameter = {};
  std::string at = {};
  std::string words = {};  ///< printed instead of both
};

/// Collects rows, keeps their numbers for the CSV, prints itself aligned. Columns in which nothing
/// stands are left out and named; so is a table of bare names.
class Table {
 public:
  /// `rows`: heading of the first column: a row's name, and its parameter's value.
  Table(Report& report, std::string rows, std::vector<Column> columns);

  /// One cell for each column, in their order; throws std::logic_error if the number differs. A row
  /// that is not to be printed is saved all the same.
  void row(const Key& key, const std::vector<Cell>& cells, bool printed = true);
  /// Prints the heading and all rows; numbers to the right, the first column and a last column
  /// without heading (a bar) to the left.
  void print() const;

 private:
  struct Shown {
    std::string heading;
    bool printed;
    std::string left_out;  ///< what it is called when nothing stands in it; empty: not mentioned
  };
  std::vector<std::string> show(const Key& key, const Column& column, const Cell& cell);

  Report& report_;
  std::string rows_;
  std::vector<Column> columns_;
  std::vector<Shown> shown_;
  std::vector<std::vector<std::string>> lines_;
};

/// A counter on standard error for sweeps that take a while; silent where that is not a terminal.
/// Clears itself.
class Progress {
 public:
  Progress(std::string what, int total);
  Progress(const Progress&) = delete;
  ~Progress();
  void step();

 private:
  std::string what_;
  int total_, done_ = 0;
  bool shown_;
};

// ---- what every experiment is given ----

namespace samples {
class Machine;
class Results;
}  // namespace samples

struct Run {
  Report& report;
  const Device* device;  ///< null where there is no usable GPU
  Measuring measuring;
  bool quick = false;
  bool full = false;
  samples::Machine* machine = nullptr;  ///< the gate, and what passed it: of declared experiments
  samples::Results* results = nullptr;

  /// Device memory for a typed or a shrinking size, in bytes; unlimited where there is no GPU, as
  /// then nothing is allocated.
  double memory_there() const { return device ? device->memory_there() : INFINITY; }
  /// Checks and times work by itself, or returns no times where it needs a GPU and there is none.
  Readings time(const Task& task) const;
  /// The same of several in turn, whose ratios can be judged.
  std::vector<Readings> time_in_turn(const std::vector<Task>& tasks) const;
};
