// Showing and saving what was measured: the heading, tables, bars against a limit, claims with verdicts, and the CSV.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include <unistd.h>

#include "timing.cuh"

// ---- numbers as text ------------------------------------------------------------------------------------------------

/// `value` with so many digits after the point; "-" if it is not finite.
inline std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// A factor as in "3.5x": two digits after the point below 2, one below 100, none above.
inline std::string times(double factor) { return fixed(factor, factor < 2 ? 2 : factor < 100 ? 1 : 0) + "x"; }

/// A number of bytes in binary units: "400 B", "64 KiB", "1.50 GiB".
inline std::string bytes_text(double bytes) {
  static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return fixed(bytes, bytes == std::floor(bytes) && (unit < 3 || bytes >= 100) ? 0 : 2) + " " + units[unit];
}

/// Width of the spread as a share of the median: "0.4%".
inline std::string spread_text(const Statistics& s) { return fixed(100 * s.spread(), 1) + "%"; }

/// `share` of a limit (1 is all of it) as "12%". More than all of a memory's limit can only come out of a cache, and
/// says so.
inline std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return fixed(100 * share, 0) + "%" + (share > 1.02 ? " (cache)" : "");
}

/// `share` of a limit as a bar of ten cells, in eighths of a cell; longer shares are cut at the limit.
inline std::string bar(double share) {
  static const char* const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!std::isfinite(share) || share <= 0) return {};
  const int filled = static_cast<int>(std::lround(80 * std::min(share, 1.0)));
  std::string text;
  for (int i = 0; i < filled / 8; ++i) text += "█";
  return text + eighths[filled % 8];
}

/// Columns that `text` takes on a terminal: its code points, as far as nothing wider or combining is used.
inline size_t display_width(const std::string& text) {
  size_t width = 0;
  for (unsigned char byte : text) width += (byte & 0xc0) != 0x80;
  return width;
}

// ---- the device -----------------------------------------------------------------------------------------------------

/// "13.0" from 13000, as the runtime and the driver give their versions.
inline std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The device that a run measures.
struct Device {
  int number = 0;
  cudaDeviceProp prop{};
  int driver = 0;              ///< CUDA version that the driver supports, 13000 for 13.0
  int sm_clock_khz = 0;        ///< 0 if not reported
  int memory_clock_khz = 0;    ///< 0 if not reported
  double theoretical_gbs = 0;  ///< 2 x memory clock x bus width in GB/s (1e9); 0 if the clock is not reported

  /// Selects device `number` and reads what it is.
  static Device select(int number) {
    Device device;
    device.number = number;
    CUDA_CHECK(cudaSetDevice(number));
    CUDA_CHECK(cudaGetDeviceProperties(&device.prop, number));
    CUDA_CHECK(cudaDriverGetVersion(&device.driver));
    // cudaDeviceProp lost its clocks in CUDA 13; the attributes exist in 12 and 13
    if (cudaDeviceGetAttribute(&device.sm_clock_khz, cudaDevAttrClockRate, number) != cudaSuccess) cudaGetLastError();
    if (cudaDeviceGetAttribute(&device.memory_clock_khz, cudaDevAttrMemoryClockRate, number) != cudaSuccess)
      cudaGetLastError();
    device.theoretical_gbs = 2.0 * device.memory_clock_khz * 1e3 * device.prop.memoryBusWidth / 8 * 1e-9;
    return device;
  }
  size_t l2_bytes() const { return static_cast<size_t>(prop.l2CacheSize); }
  std::string capability() const { return std::to_string(prop.major) + "." + std::to_string(prop.minor); }
  /// Device memory that is free now, in bytes.
  static size_t free_bytes() {
    size_t free = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  }
};

/// Refuses a typed size that does not fit: throws UsageError with the bytes needed and the bytes there.
inline void require_fits(const std::string& what, double bytes_needed, double bytes_there) {
  if (bytes_needed > bytes_there)
    throw UsageError(what + " needs " + bytes_text(bytes_needed) + ", but " + bytes_text(bytes_there) + " are free");
}

// ---- verdicts -------------------------------------------------------------------------------------------------------

enum class Verdict { holds, holds_by_less, holds_by_more, no_longer_holds, not_judged };

inline const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::holds_by_less:
      return "holds, by less";
    case Verdict::holds_by_more:
      return "holds, by more";
    case Verdict::no_longer_holds:
      return "no longer holds";
    case Verdict::not_judged:
      return "not judged";
  }
  return "";
}

/// A claim of the material.
struct Claim {
  std::string id;       ///< as in "04.8"
  std::string text;     ///< what it says, in a line
  std::string then_on;  ///< the hardware or the text it stands in
  std::string then;     ///< what was reported there; empty if no figure was
};

/// What measuring says of a claim. `here` is the finding in words; `value` in `unit` is what it rests on, NaN if
/// nothing was measured.
struct Judgement {
  Verdict verdict;
  std::string here;
  double value = NAN;
  std::string unit = "x";
};

inline Judgement not_judged(const std::string& reason) { return {Verdict::not_judged, reason}; }

/// A factor that a text states is met if the one measured lies within this share of it.
inline constexpr double stated_factor_tolerance = 0.25;

/// Judges "`larger` exceeds `smaller`", and by the factor `stated` if the text states one (0 if not). The direction
/// holds if the 10th percentile of the larger lies above the 90th percentile of the smaller.
inline Judgement judge_ratio(const Statistics& larger, const Statistics& smaller, double stated = 0) {
  const double ratio = larger.median / smaller.median;
  Verdict verdict = Verdict::holds;
  if (!(larger.low > smaller.high))
    verdict = Verdict::no_longer_holds;
  else if (stated > 0 && ratio < stated * (1 - stated_factor_tolerance))
    verdict = Verdict::holds_by_less;
  else if (stated > 0 && ratio > stated * (1 + stated_factor_tolerance))
    verdict = Verdict::holds_by_more;
  return {verdict, times(ratio), ratio};
}

/// Judges "`changed` gains nothing over `base`", both times: holds unless it is faster beyond the spread of both and by
/// more than the share `tolerance`.
inline Judgement judge_no_gain(const Statistics& base, const Statistics& changed, double tolerance) {
  const double ratio = base.median / changed.median;
  const bool gain = base.low > changed.high && ratio > 1 + tolerance;
  return {gain ? Verdict::no_longer_holds : Verdict::holds, times(ratio), ratio};
}

/// Judges a fact that is true or not and has no spread (a count, an error code).
inline Judgement judge_fact(bool holds, const std::string& here, double value = NAN, const std::string& unit = "") {
  return {holds ? Verdict::holds : Verdict::no_longer_holds, here, value, unit};
}

// ---- the report -----------------------------------------------------------------------------------------------------

/// One line of the CSV, less what is the same in all of them.
struct Record {
  std::string experiment, name, parameter, at, kind, metric, unit;  ///< `name` goes into the column "case"
  double value = NAN, low = NAN, high = NAN;                        ///< NaN is saved as an empty field
  int repeats = 0;
};

/// Quotes a CSV field if it has to be (RFC 4180).
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

inline constexpr const char* csv_header =
    "topic,experiment,case,parameter,at,kind,metric,unit,value,low,high,repeats,gpu,cc,driver,toolkit,date";

/// Prints what a sample finds and keeps it for the CSV.
class Report {
 public:
  explicit Report(std::string topic) : topic_(std::move(topic)) {}

  /// The first lines: the device, or why there is none.
  void heading(const Device* device, const std::string& no_gpu) {
    if (!device) {
      std::cout << topic_ << ": no usable GPU (" << no_gpu << ")\n"
                << "Models, predictions and host experiments run; what needs a GPU is left out, and said to be.\n";
      return;
    }
    gpu_ = device->prop.name;
    capability_ = device->capability();
    driver_ = cuda_version_text(device->driver);
    const std::string theoretical = device->theoretical_gbs > 0 ? fixed(device->theoretical_gbs, 0) + " GB/s in theory"
                                                                : "theoretical bandwidth unknown";
    std::cout << topic_ << " on " << gpu_ << " (compute capability " << capability_ << ", driver for CUDA " << driver_
              << ", toolkit " << cuda_version_text(CUDART_VERSION) << ")\n"
              << device->prop.multiProcessorCount << " multiprocessors, "
              << bytes_text(double(device->prop.totalGlobalMem)) << " of memory, " << theoretical << ", L2 "
              << bytes_text(double(device->l2_bytes())) << "\n";
  }

  /// Begins an experiment: its name as on the command line and its size in words and bytes.
  void begin(const std::string& experiment, const std::string& size) {
    experiment_ = experiment;
    std::cout << "\n" << experiment << ": " << size << "\n" << std::flush;
  }
  /// A line of explanation under a table.
  void note(const std::string& text) { std::cout << "  " << text << "\n"; }
  /// Says what an experiment did not do, and why.
  void left_out(const std::string& what, const std::string& why = "no GPU") {
    std::cout << "  left out (" << why << "): " << what << "\n";
  }
  /// The same for want of a GPU, and the claims that are not judged for it.
  void left_out(const std::string& what, const std::vector<Claim>& claims) {
    left_out(what);
    for (const Claim& each : claims) claim(each, not_judged("no GPU"));
  }
  /// Prints and keeps a claim with its verdict.
  void claim(const Claim& claim, const Judgement& judged) {
    std::string line = "  " + claim.id + "  " + verdict_text(judged.verdict);
    line.resize(std::max<size_t>(line.size() + 2, 25), ' ');
    line += claim.text + (judged.verdict == Verdict::not_judged ? ": " : ": here ") + judged.here;
    if (!claim.then.empty())
      line += "; then" + (claim.then_on.empty() ? "" : " (" + claim.then_on + ")") + ": " + claim.then;
    std::cout << line << "\n" << std::flush;
    ++verdicts_[static_cast<int>(judged.verdict)];
    save({experiment_, claim.id, claim.text, judged.here, "claim", verdict_text(judged.verdict), judged.unit,
          judged.value});
    save({experiment_, claim.id, claim.then_on, claim.then, "then", "reported", "", NAN});
  }
  /// The last line: how many claims got which verdict.
  void summary() const {
    std::string line;
    for (int v = 0; v < 5; ++v)
      if (verdicts_[v])
        line += (line.empty() ? "" : "; ") + std::string(verdict_text(static_cast<Verdict>(v))) + ": " +
                std::to_string(verdicts_[v]);
    if (!line.empty()) std::cout << "\nclaims: " << line << "\n";
  }

  /// Keeps a record for the CSV; tables and claims do so by themselves.
  void save(Record record) {
    if (record.experiment.empty()) record.experiment = experiment_;
    records_.push_back(std::move(record));
  }
  const std::vector<Record>& records() const { return records_; }

  /// The whole CSV. `date` as YYYY-MM-DD.
  std::string csv(const std::string& date) const {
    const auto number = [](double value, int digits) {
      if (!std::isfinite(value)) return std::string();
      char text[32];
      std::snprintf(text, sizeof text, "%.*g", digits, value);
      return std::string(text);
    };
    std::string text = std::string(csv_header) + "\n";
    for (const Record& r : records_) {
      const int digits = r.kind == "counted" || r.kind == "predicted" ? 12 : 6;  // what is counted is exact
      for (const std::string& field :
           {topic_, r.experiment, r.name, r.parameter, r.at, r.kind, r.metric, r.unit, number(r.value, digits),
            number(r.low, digits), number(r.high, digits), r.repeats ? std::to_string(r.repeats) : "", gpu_,
            capability_, driver_, cuda_version_text(CUDART_VERSION)})
        text += csv_field(field) + ",";
      text += date + "\n";
    }
    return text;
  }

 private:
  std::string topic_, experiment_, gpu_, capability_, driver_;
  std::vector<Record> records_;
  int verdicts_[5] = {};
};

/// Today in UTC as YYYY-MM-DD.
inline std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

/// A column of a table. One with a metric is saved to the CSV under its kind, metric and unit; one without is only
/// shown.
struct Column {
  std::string heading;  ///< as printed, with the unit
  std::string kind;     ///< measured, predicted, counted or then
  std::string metric;   ///< what it is, as saved; empty for a column that is only shown
  std::string unit;
  int decimals = 1;
};

inline Column measured(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "measured", std::move(metric), std::move(unit), decimals};
}
inline Column predicted(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "predicted", std::move(metric), std::move(unit), decimals};
}
/// Read exactly, not timed: bytes of a compiled kernel, resident blocks, device attributes, hardware counters.
inline Column counted(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "counted", std::move(metric), std::move(unit), decimals};
}
/// The text's own figure.
inline Column then(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "then", std::move(metric), std::move(unit), decimals};
}
/// Shown, not saved: a spread, a share, a bar, words.
inline Column shown(std::string heading) { return {std::move(heading), "", "", "", 0}; }

/// A cell: a number, measurements (median shown, spread saved too), words (shown, never saved), or nothing.
using Cell = std::variant<std::monostate, double, Statistics, std::string>;

/// What a row is about: `name`, and for a sweep the parameter and the value that it has here.
struct Key {
  std::string name;
  std::string parameter = {};
  std::string at = {};
};

/// Collects rows, keeps their numbers for the CSV, prints itself aligned.
class Table {
 public:
  /// `rows`: heading of the first column, in which a row's name (and its parameter's value) stands.
  Table(Report& report, std::string rows, std::vector<Column> columns)
      : report_(report), columns_(std::move(columns)), lines_{{std::move(rows)}} {
    for (const Column& column : columns_) lines_[0].push_back(column.heading);
  }

  /// One cell for each column, in their order; throws std::logic_error if the number differs.
  void row(const Key& key, const std::vector<Cell>& cells) {
    if (cells.size() != columns_.size()) throw std::logic_error("Table::row: a row has one cell for each column");
    std::vector<std::string> line{key.at.empty() ? key.name : key.name.empty() ? key.at : key.name + ", " + key.at};
    for (size_t i = 0; i < cells.size(); ++i) {
      const Column& column = columns_[i];
      Record record{"", key.name, key.parameter, key.at, column.kind, column.metric, column.unit};
      std::string shown = "-";
      if (const auto* value = std::get_if<double>(&cells[i])) {
        shown = fixed(*value, column.decimals);
        record.value = *value;
      } else if (const auto* s = std::get_if<Statistics>(&cells[i])) {
        shown = fixed(s->median, column.decimals);
        record.value = s->median, record.low = s->low, record.high = s->high, record.repeats = s->repeats;
      } else if (const auto* words = std::get_if<std::string>(&cells[i])) {
        shown = *words;
      }
      if (!column.metric.empty() && std::isfinite(record.value)) report_.save(record);
      line.push_back(shown);
    }
    lines_.push_back(std::move(line));
  }

  /// Prints the heading and all rows; numbers to the right, the first column and a last column without heading (a bar)
  /// to the left.
  void print() const {
    std::vector<size_t> width(columns_.size() + 1, 0);
    for (const auto& line : lines_)
      for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], display_width(line[i]));
    for (const auto& line : lines_) {
      std::string text = "  " + line[0];
      text.append(width[0] - display_width(line[0]), ' ');
      for (size_t i = 1; i < line.size(); ++i) {
        text += "  ";
        const bool left = i + 1 == line.size() && lines_[0][i].empty();
        if (!left) text.append(width[i] - display_width(line[i]), ' ');
        text += line[i];
      }
      text.erase(text.find_last_not_of(' ') + 1);
      std::cout << text << "\n";
    }
    std::cout << std::flush;
  }

 private:
  Report& report_;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> lines_;
};

/// A counter on standard error for sweeps that take a while; silent where that is not a terminal. Clears itself.
class Progress {
 public:
  Progress(std::string what, int total) : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO)) {}
  Progress(const Progress&) = delete;
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  void step() {
    ++done_;
    if (shown_) std::fprintf(stderr, "\r%s %d/%d", what_.c_str(), done_, total_);
  }

 private:
  std::string what_;
  int total_, done_ = 0;
  bool shown_;
};

/// What every experiment is given.
struct Run {
  Report& report;
  const Device* device;  ///< null where there is no usable GPU
  Measuring measuring;
  bool quick = false;
  bool full = false;
};
