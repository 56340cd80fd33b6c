// One run of a program: its options, sizes that fit, tables, notes, claims, the CSV.
#pragma once

#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "verdict.hpp"

/// Three or four digits, no exponent: "4499", "562.4", "0.240"; "-" if it is not a number.
std::string digits(double value);
/// "64 KiB", "1.50 GiB".
std::string bytes_text(double bytes);
/// "3.43x [3.40, 3.47]".
std::string factor_text(const Interval& factor);
/// The text in lines of at most 100 columns; all but the first begin with `indent` spaces.
std::string in_lines(std::string text, size_t indent);

/// A cell of a table: words, a number, or a number with its interval.
struct Cell {
  Cell(const char* text) : words(text) {}
  Cell(std::string text) : words(std::move(text)) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Cell(Number value)
      : words(digits(double(value))), number{double(value), double(value), double(value)} {}
  Cell(const Interval& interval) : words(digits(interval.value)), number(interval) {}

  std::string words;
  Interval number = {NAN, NAN, NAN};  ///< saved in the CSV
};
/// "12.5%" of 0.125.
Cell percent(double share);
/// A share of a limit, as a bar of ten characters.
Cell bar(double share);

/// A table is printed aligned. Its numbers are saved under `rows` (what the rows are), the row's
/// name and the column's heading. A column without a heading holds bars.
class Table {
 public:
  Table(std::string rows, std::initializer_list<std::string> columns)
      : heading_(std::move(rows)), columns_(columns) {}
  /// One cell per column; throws std::logic_error otherwise.
  void row(std::string name, std::initializer_list<Cell> cells);
  /// A row that this machine cannot measure, and why.
  void missing(std::string name, const std::string& why);

 private:
  friend class Run;
  struct Row {
    std::string name;
    std::vector<Cell> cells;
  };
  std::string heading_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

/// The hardware that a text speaks of, by compute capability. On a newer GPU a claim that fails
/// holds "no longer".
enum class Hardware { any = 0, g80 = 1, fermi = 2, kepler = 3, maxwell = 5, pascal = 6 };

/// A statement of the texts. Its id is used once.
struct Claim {
  std::string id;         ///< "04.8"
  std::string statement;  ///< in a line that can be read without the one above it
  std::string source;     ///< where it stands, and its own figure or words: "[BW] 77 times"
  Hardware of = Hardware::any;
};

/// What a hardware counter gave on one GPU, and nothing but a counter can tell.
struct Count {
  std::string gpu;  ///< "NVIDIA H100 80GB HBM3"
  double value;
  std::string when;  ///< "ncu, CUDA 13.0, 2026-11-28"
};

/// One run of a program on a GPU.
class Run {
 public:
  cudaDeviceProp gpu{};
  Timer timer;
  bool quick = false;                          ///< smaller sizes, fewer rounds
  std::map<std::string, std::string> options;  ///< of samples, as typed; others are not there

  /// An option as typed, or what it is otherwise.
  std::string option(const std::string& name, const std::string& otherwise) const;

  /// Whether so many bytes of device memory are free, and a tenth more.
  bool fits(double bytes) const;
  /// `by_default` elements of `bytes_each`, halved until they fit.
  size_t fitting(size_t by_default, double bytes_each) const;
  /// The same of host memory that is pinned: at most a quarter of what is free.
  bool fits_on_host(double bytes) const;
  size_t fitting_on_host(size_t by_default, double bytes_each) const;
  /// Blocks of so many threads that are resident on the whole GPU at once, if nothing else limits.
  unsigned resident_blocks(unsigned threads) const;
  /// Whether so many bytes come from memory, not from the L2: at least four times its size.
  bool beyond_l2(double bytes) const { return bytes >= 4.0 * gpu.l2CacheSize; }

  void title(const std::string& line);
  void note(const std::string& line);
  void print(const Table& table);
  void save(const Table& table);  ///< in the CSV alone: a sweep finer than a page shows

  /// A claim, what was measured, and what the claim says of it:
  ///   run.claim({...}, timed.speedup({.of = "SoA", .over = "AoS"}), faster_by(2));
  ///   run.claim({...}, {cycles, "cycles"}, between(200, 800));
  /// Throws std::logic_error if the run has had a claim of that id, as all of these do.
  void claim(const Claim& claim, const Measured& measured, const Rule& rule);
  /// The same of the ratios of several sizes or shapes, each of which has a vote.
  void claim_each(const Claim& claim, const std::vector<Interval>& numbers, const std::string& what,
                  const Rule& rule);
  /// What was seen or counted here: so, or not so.
  void observed(const Claim& claim, bool so, const std::string& here);
  /// What follows by arithmetic, and was not measured: "computed, holds", in totals of its own.
  void computed(const Claim& claim, bool so, const std::string& here);
  /// What a counter gave on this GPU: "counted, holds", in totals of its own. On a GPU that is not
  /// among the counts it is not judged.
  void counted(const Claim& claim, const std::vector<Count>& counts, const std::string& what,
               const Rule& rule);
  void claim_skipped(const Claim& claim, const std::string& why);

 private:
  enum Printed { nothing, title_line, table_lines, claim_lines };
  void begin(Printed what);  ///< an empty line between a title's tables, and before its claims
  enum Known { measured, computed_only, counted_before };  ///< how a claim's number is known
  static constexpr int known_ways = 3;
  void judged(const Claim& claim, Verdict verdict, const std::string& here, const Interval& number,
              Known how = measured);
  void save(const std::string& table, const std::string& row, const std::string& column,
            const Interval& value);
  /// What is compared, and the text's figure, if it has one: of a factor, or of a level.
  void save_compared(const Claim& claim, const Rule& rule, const std::string& what);

  std::string experiment_;
  Printed printed_ = nothing;
  int titles_ = 0;
  std::vector<std::string> csv_;
  int verdicts_[known_ways][verdict_count] = {};
  std::set<std::string> ids_;

  // for command_line.cpp
 public:
  void begin_experiment(const std::string& name);
  /// Throws std::logic_error if the experiment has timed what it shows nowhere.
  void end_experiment() const;
  /// Keeps in the CSV that the experiment failed, and why.
  void failed(const std::string& why);
  /// How many titles the experiment has printed.
  int titles() const { return titles_; }
  /// "holds 3, weaker 1; computed: holds 2; counted: holds 1"
  std::string totals() const;
  const std::vector<std::string>& csv_lines() const { return csv_; }
};
