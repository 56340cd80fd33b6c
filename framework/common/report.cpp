#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <stdexcept>

#include <unistd.h>

// ---- numbers as text ----

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string times(double factor) {
  return fixed(factor, factor < 2 ? 2 : factor < 100 ? 1 : 0) + "x";
}

std::string bytes_text(double bytes) {
  static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  const bool whole = bytes == std::floor(bytes) && (unit < 3 || bytes >= 100);
  return fixed(bytes, whole ? 0 : 2) + " " + units[unit];
}

std::string spread_text(const Statistics& s) {
  return std::isfinite(s.median) ? fixed(100 * s.spread(), 1) + "%" : "-";
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return fixed(100 * share, 0) + "%" + (share > 1.02 ? " (cache)" : "");
}

std::string bar(double share) {
  static const char* const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!std::isfinite(share) || share <= 0) return {};
  const int filled = static_cast<int>(std::lround(80 * std::min(share, 1.0)));
  std::string text;
  for (int i = 0; i < filled / 8; ++i) text += "█";
  return text + eighths[filled % 8];
}

size_t display_width(const std::string& text) {
  size_t width = 0;
  for (unsigned char byte : text) width += (byte & 0xc0) != 0x80;
  return width;
}

// ---- the device ----

Device Device::select(int number) {
  Device device;
  device.number = number;
  CUDA_CHECK(cudaSetDevice(number));
  CUDA_CHECK(cudaGetDeviceProperties(&device.prop, number));
  CUDA_CHECK(cudaDriverGetVersion(&device.driver));
  // cudaDeviceProp lost its clocks in CUDA 13; the attributes exist in 12 and 13
  if (cudaDeviceGetAttribute(&device.sm_clock_khz, cudaDevAttrClockRate, number) != cudaSuccess)
    cudaGetLastError();
  if (cudaDeviceGetAttribute(&device.memory_clock_khz, cudaDevAttrMemoryClockRate, number) !=
      cudaSuccess)
    cudaGetLastError();
  device.theoretical_gbs =
      2.0 * device.memory_clock_khz * 1e3 * device.prop.memoryBusWidth / 8 * 1e-9;
  return device;
}

Device Device::current() {
  int number = 0;
  CUDA_CHECK(cudaGetDevice(&number));
  return select(number);
}

size_t Device::free_bytes() {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

double Device::memory_there() const {
  return number < 0 ? double(prop.totalGlobalMem) : double(free_bytes());
}

std::string Device::capability() const {
  return std::to_string(prop.major) + "." + std::to_string(prop.minor);
}

std::string Device::uuid() const {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(prop.uuid.bytes[i]));
    text += digits;
  }
  return text;
}

bool beyond_l2(const Device& device, double bytes) {
  constexpr double enough = 4;
  return bytes >= enough * double(device.l2_bytes());
}

void require_fits(const std::string& what, double bytes_needed, double bytes_there) {
  if (bytes_needed > bytes_there)
    throw UsageError(what + " needs " + bytes_text(bytes_needed) + ", but " +
                     bytes_text(bytes_there) + " are free");
}

size_t fitting_size(const std::string& what, size_t typed, size_t by_default, double bytes_there,
                    const Function<double(size_t)>& bytes_of) {
  if (typed) {
    require_fits(what, bytes_of(typed), bytes_there);
    return typed;
  }
  size_t size = by_default;
  while (size > 1 && bytes_of(size) > 0.9 * bytes_there) size /= 2;
  return size;
}

bool Hardware::includes(const cudaDeviceProp& prop) const {
  const int capability = 10 * prop.major + prop.minor;
  return from <= capability && capability <= to;
}

// ---- the report ----

const char* const csv_header =
    "topic,experiment,case,parameter,at,kind,metric,unit,value,low,high,repeats,gpu,cc,driver,"
    "toolkit,date,words,runs,cards";

namespace {

/// Quotes a CSV field if it has to be (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_number(double value, int digits) {
  if (!std::isfinite(value)) return {};
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

/// `text` filled with spaces to a width on the terminal.
std::string padded(const std::string& text, size_t width, bool left) {
  const size_t shown = display_width(text);
  const std::string space(width > shown ? width - shown : 0, ' ');
  return left ? text + space : space + text;
}

}  // namespace

void Report::print(const std::string& line) const {
  if (printed_) {
    *printed_ += line + "\n";
    return;
  }
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Report::heading(const Device* device, const std::string& no_gpu) {
  if (!device) {
    print(topic_ + ": no usable GPU (" + no_gpu + ")");
    print(
        "Models, predictions and host experiments run; what needs a GPU is left out, and said "
        "to be.");
    return;
  }
  device_ = device;
  gpu_ = device->prop.name;
  capability_ = device->capability();
  driver_ = cuda_version_text(device->driver);
  print(topic_ + " on " + gpu_ + " (compute capability " + capability_ + ", driver for CUDA " +
        driver_ + ", toolkit " + cuda_version_text(CUDART_VERSION) + ")");
  const std::string theoretical = device->theoretical_gbs > 0
                                      ? fixed(device->theoretical_gbs, 0) + " GB/s in theory"
                                      : "theoretical bandwidth unknown";
  print(std::to_string(device->prop.multiProcessorCount) + " multiprocessors, " +
        bytes_text(double(device->prop.totalGlobalMem)) + " of memory, " + theoretical + ", L2 " +
        (device->prop.l2CacheSize > 0 ? bytes_text(device->prop.l2CacheSize) : "not reported"));
}

void Report::begin(const std::string& experiment, const std::string& size) {
  experiment_ = experiment;
  said_once_.clear();
  print("\n" + experiment + ": " + size);
}

void Report::note(const std::string& text) { print("  " + text); }

void Report::note_once(const std::string& text) {
  if (std::find(said_once_.begin(), said_once_.end(), text) != said_once_.end()) return;
  said_once_.push_back(text);
  note(text);
}

void Report::left_out(const std::string& what, const std::string& why) {
  print("  left out (" + why + "): " + what);
  save({experiment_, what, "", why, "left out", "left out", "", NAN});
}

void Report::judge(const Part& part, const Criterion& rule, const Interval& value,
                   const std::string& here, const std::string& unit) {
  judged(part, ::judge(rule, value), value, here, unit);
}

void Report::judge_fact(const Part& part, bool holds, const std::string& here) {
  judged(part, holds ? Verdict::holds : Verdict::does_not_hold, exactly(holds), here, "");
}

void Report::not_judged(const Part& part, const std::string& why) {
  judged(part, Verdict::not_judged, not_measured(why), "");
}

void Report::judged(const Part& part, Verdict verdict, const Interval& value,
                    const std::string& here, const std::string& unit) {
  const bool is_that_hardware = device_ && part.of.includes(device_->prop);
  if (verdict == Verdict::does_not_hold && part.of.named() && !is_that_hardware)
    verdict = Verdict::no_longer;
  std::string found = here;
  if (verdict == Verdict::not_judged) {
    found = value.why_not;
    if (found.empty() && value.measured()) found = "not seen here: " + here;
    if (found.empty() && !gpu_.empty())
      throw std::logic_error(part.id + ": nothing was measured, and nobody said why");
    if (found.empty()) found = "no GPU";
  }
  const std::string then =
      part.then.empty() ? "" : part.then + (part.then_on.empty() ? "" : " (" + part.then_on + ")");
  const std::string dagger = part.by_construction ? " †" : "";
  print("  " + padded(part.id, 6, true) + " " + padded(verdict_text(verdict) + dagger, 18, true) +
        " " + part.statement);
  const std::string answer = verdict == Verdict::not_judged ? found : "here " + found;
  print("         " + answer + (then.empty() ? "" : "; then " + then));
  if (part.by_construction && verdict != Verdict::not_judged)
    ++by_construction_;
  else
    ++verdicts_[static_cast<int>(verdict)];
  save({experiment_, part.id, part.statement, found, "claim", verdict_text(verdict),
        value.measured() ? unit : "", value.value, value.low, value.high, value.pairs,
        part.by_construction ? "by construction" : ""});
  save({experiment_, part.id, part.then_on, part.then, "then", "reported", "", NAN});
}

void Report::finding(const std::string& id, const std::string& text) {
  if (text.empty()) return;
  print("         found: " + text);
  save({experiment_, id, "", text, "finding", "finding", "", NAN});
}

void Report::summary() const {
  std::string line;
  for (int v = 0; v < verdict_count; ++v) {
    if (!verdicts_[v]) continue;
    line += (line.empty() ? "" : "; ") + std::string(verdict_text(static_cast<Verdict>(v))) + ": " +
            std::to_string(verdicts_[v]);
  }
  if (by_construction_)
    line += (line.empty() ? "" : "; ") + std::string("by construction (†): ") +
            std::to_string(by_construction_);
  if (!line.empty()) print("\nclaims: " + line);
}

void Report::save(Record record) {
  if (record.experiment.empty()) record.experiment = experiment_;
  records_.push_back(std::move(record));
}

std::string Report::csv(const std::string& date) const {
  std::string text = std::string(csv_header) + "\n";
  for (const Record& r : records_) {
    // counts and sizes are exact
    const bool exact = r.kind == "counted" || r.kind == "predicted" || r.kind == "machine";
    const int digits = exact ? 12 : 6;
    for (const std::string& field :
         {topic_, r.experiment, r.name, r.parameter, r.at, r.kind, r.metric, r.unit,
          csv_number(r.value, digits), csv_number(r.low, digits), csv_number(r.high, digits),
          r.repeats ? std::to_string(r.repeats) : "", gpu_, capability_, driver_,
          cuda_version_text(CUDART_VERSION)})
      text += csv_field(field) + ",";
    // runs and cards: of a file that was made from several runs (tools/combine.py)
    text += date + "," + csv_field(r.words) + ",,\n";
  }
  return text;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// ---- tables ----

Column measured(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "measured", std::move(metric), std::move(unit), decimals};
}

Column predicted(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "predicted", std::move(metric), std::move(unit), decimals};
}

Column compared(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "compared", std::move(metric), std::move(unit), decimals};
}

Column counted(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "counted", std::move(metric), std::move(unit), decimals};
}

Column then(std::string heading, std::string metric, std::string unit, int decimals) {
  return {std::move(heading), "then", std::move(metric), std::move(unit), decimals};
}

Column shown(std::string heading) { return {std::move(heading), "", "", "", 0}; }

Column saved_only(Column column) {
  column.printed = false;
  return column;
}

Cell::Cell() = default;
Cell::Cell(const Cell&) = default;
Cell::Cell(Cell&&) noexcept = default;
Cell& Cell::operator=(const Cell&) = default;
Cell& Cell::operator=(Cell&&) noexcept = default;
Cell::~Cell() = default;

template class std::vector<Cell>;
template class std::vector<Column>;

Cell::Cell(double value) : kind(number), value(value) {}

Cell::Cell(const Statistics& s)
    : kind(number), value(s.median), low(s.low), high(s.high), repeats(s.repeats) {}

Cell::Cell(const Compared& c) : Cell(c.measured) {
  kind = compared;
  predicted = c.predicted;
  model = c.model;
}

Cell::Cell(const Calibration& c) : Cell(c.measured) { kind = calibration; }

Cell::Cell(std::string words) : kind(Kind::words), text(std::move(words)) {}

Cell::Cell(const char* words) : kind(Kind::words), text(words) {}

Table::Table(Report& report, std::string rows, std::vector<Column> columns)
    : report_(report), rows_(std::move(rows)), columns_(std::move(columns)) {
  for (const Column& column : columns_) {
    if (column.kind == "compared") {
      const std::string heading = column.heading + " predicted";
      shown_.push_back({heading, column.printed, heading});
      shown_.push_back({"measured", column.printed, column.heading});
      shown_.push_back({"ratio", column.printed, ""});
    } else {
      shown_.push_back({column.heading, column.printed, column.heading});
    }
  }
}

void Table::row(const Key& key, const std::vector<Cell>& cells, bool printed) {
  if (cells.size() != columns_.size())
    throw std::logic_error("Table::row: a row has one cell for each column");
  std::vector<std::string> line;
  line.push_back(!key.words.empty() ? key.words
                 : key.at.empty()   ? key.name
                 : key.name.empty() ? key.at
                                    : key.name + ", " + key.at);
  for (size_t i = 0; i < cells.size(); ++i)
    for (std::string& text : show(key, columns_[i], cells[i])) line.push_back(std::move(text));
  if (printed) lines_.push_back(std::move(line));
}

/// Saves a cell and returns what is printed of it.
std::vector<std::string> Table::show(const Key& key, const Column& column, const Cell& cell) {
  const bool pair = column.kind == "compared";
  const auto save = [&](const char* kind, double value, double low, double high, int repeats) {
    if (!column.metric.empty() && std::isfinite(value))
      report_.save({"", key.name, key.parameter, key.at, kind, column.metric, column.unit, value,
                    low, high, repeats, key.words == key.at ? "" : key.words});
  };
  if (!pair) {
    if (cell.kind == Cell::words) return {cell.text};
    save(column.kind.c_str(), cell.value, cell.low, cell.high, cell.repeats);
    return {fixed(cell.value, column.decimals)};
  }
  const std::string value = fixed(cell.value, column.decimals);
  if (cell.kind == Cell::calibration) {
    save("calibration", cell.value, cell.low, cell.high, cell.repeats);
    return {std::isfinite(cell.value) ? "calibration" : "-", value, "-"};
  }
  save("predicted", cell.predicted, NAN, NAN, 0);
  save("measured", cell.value, cell.low, cell.high, cell.repeats);
  const double ratio = cell.value / cell.predicted;
  if (std::isfinite(ratio))
    report_.predict({key.name + (key.at.empty() ? "" : ", " + key.at), cell.predicted, cell.value,
                     cell.model, column.unit});
  return {fixed(cell.predicted, column.decimals), value, fixed(ratio, 2)};
}

void Table::print() const {
  const auto empty = [](const std::string& text) { return text.empty() || text == "-"; };
  std::vector<size_t> kept;
  std::string missing;
  for (size_t i = 0; i < shown_.size(); ++i) {
    if (!shown_[i].printed) continue;
    const bool all_empty =
        !lines_.empty() && std::all_of(lines_.begin(), lines_.end(),
                                       [&](const auto& line) { return empty(line[i + 1]); });
    if (!all_empty) {
      kept.push_back(i);
    } else if (!shown_[i].left_out.empty()) {
      missing += (missing.empty() ? "" : ", ") + shown_[i].left_out;
    }
  }
  if (!kept.empty()) {
    std::vector<std::vector<std::string>> printed;
    std::vector<std::string> headings{rows_};
    for (size_t i : kept) headings.push_back(shown_[i].heading);
    printed.push_back(headings);
    for (const auto& line : lines_) {
      printed.push_back({line[0]});
      for (size_t i : kept) printed.back().push_back(line[i + 1]);
    }
    std::vector<size_t> width(headings.size(), 0);
    for (const auto& line : printed)
      for (size_t i = 0; i < line.size(); ++i)
        width[i] = std::max(width[i], display_width(line[i]));
    for (const auto& line : printed) {
      std::string text = "  " + padded(line[0], width[0], true);
      for (size_t i = 1; i < line.size(); ++i) {
        const bool left = i + 1 == line.size() && headings[i].empty();
        text += "  " + padded(line[i], width[i], left);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      report_.print(text);
    }
  }
  if (!missing.empty())
    report_.print("  not measured here" +
                  (kept.empty() && !rows_.empty() ? " (" + rows_ + ")" : std::string()) + ": " +
                  missing);
}

Progress::Progress(std::string what, int total)
    : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void Progress::step() {
  ++done_;
  if (shown_) std::fprintf(stderr, "\r%s %d/%d", what_.c_str(), done_, total_);
}

// ---- what every experiment is given ----

Readings Run::time(const Task& task) const {
  if (!device && !task.on_host) return {};
  if (!task.check.unchecked.empty())
    report.note_once(task.name + " is not checked: " + task.check.unchecked);
  return time_alone(measuring, task);
}

std::vector<Readings> Run::time_in_turn(const std::vector<Task>& tasks) const {
  bool on_device = false;
  for (const Task& task : tasks) on_device = on_device || !task.on_host;
  if (on_device && !device) return std::vector<Readings>(tasks.size());
  for (const Task& task : tasks)
    if (!task.check.unchecked.empty())
      report.note_once(task.name + " is not checked: " + task.check.unchecked);
  return ::time_in_turn(measuring, tasks);
}
