#include "sheet.hpp"

#include <algorithm>
#include <stdexcept>

namespace samples {

void Results::keep(Measured row) {
  for (const Measured& other : rows_)
    if (same(other.ref, row.ref)) throw std::logic_error("two rows are '" + text(row.ref) + "'");
  rows_.push_back(std::move(row));
}

void Results::keep(Value value) {
  for (const Value& other : values_)
    if (same(other.ref, value.ref) && other.metric == value.metric)
      throw std::logic_error("two values are '" + value.metric + "' of '" + text(value.ref) + "'");
  values_.push_back(std::move(value));
}

const Measured& Results::operator()(const Ref& ref) const {
  for (const Measured& row : rows_)
    if (same(row.ref, ref)) return row;
  throw std::logic_error("no row of this experiment is '" + text(ref) + "'");
}

const Value& Results::value(const Ref& ref, const std::string& metric) const {
  for (const Value& each : values_)
    if (same(each.ref, ref) && each.metric == metric) return each;
  throw std::logic_error("nobody asked for '" + metric + "' of '" + text(ref) + "'");
}

void keep(const Run& run, const Ref& ref, const std::string& metric, const std::string& unit,
          const Statistics& value) {
  run.results->keep({ref, metric, unit, value});
  if (!std::isfinite(value.median)) return;
  Record record{"", ref.key, "", at_text(ref), "counted", metric, unit, value.median};
  if (value.repeats > 1) {
    record.low = value.low, record.high = value.high;
    record.repeats = value.repeats;
  }
  run.report.save(std::move(record));
}

Statistics ask(const Run& run, const Ref& ref, const std::string& metric, const std::string& unit,
               const Function<Statistics()>& how) {
  const Statistics value = run.machine->value(ref, metric, false, how);
  keep(run, ref, metric, unit, value);
  return value;
}

Statistics ask_host(const Run& run, const Ref& ref, const std::string& metric,
                    const std::string& unit, const Function<Statistics()>& how) {
  const Statistics value = run.machine->value(ref, metric, true, how);
  keep(run, ref, metric, unit, value);
  return value;
}

Statistics ask_for_table(const Run& run, const Ref& ref, const std::string& metric,
                         const std::string& unit, const Function<Statistics()>& how) {
  const Statistics value = run.machine->value(ref, metric, false, how);
  run.results->keep({ref, metric, unit, value});
  return value;
}

Statistics single(double value) { return {value, value, value, 1}; }

// ---- columns ----

Shown number(Column column, Function<double(const Row&)> of_row) {
  return {std::move(column), std::move(of_row)};
}

Shown in_unit(Column column, Function<double(const Row&, double)> of_time) {
  return {std::move(column), {}, std::move(of_time)};
}

double gbs_of(const Row& row, double ms) { return row.bytes * 1e-6 / ms; }

Shown milliseconds(int decimals) {
  return in_unit(compared("ms", "time", "ms", decimals), [](const Row&, double ms) { return ms; });
}

Shown gigabytes_per_second(int decimals) {
  return in_unit(compared("GB/s", "bandwidth", "GB/s", decimals), gbs_of);
}

Shown spread() {
  return {
      shown("spread"), {}, {}, [](const Row&, const Statistics& ms) { return spread_text(ms); }};
}

namespace {

double share_of(const Run& run, const Ref& full, const Row& row, const Statistics& ms) {
  const Measured& f = (*run.results)(full);
  return row.bytes / ms.median * f.time.ms.median / f.bytes;
}

}  // namespace

Shown bar_against(const Run& run, Ref full) {
  return {shown(""), {}, {}, [&run, full](const Row& row, const Statistics& ms) {
            return bar(share_of(run, full, row, ms));
          }};
}

Shown share_against(const Run& run, Ref full, std::string heading) {
  return {shown(std::move(heading)), {}, {}, [&run, full](const Row& row, const Statistics& ms) {
            const double share = share_of(run, full, row, ms);
            return std::isfinite(share) ? fixed(100 * share, 1) + "%" : std::string("-");
          }};
}

// ---- the sheet ----

Sheet::Sheet(const Run& run, std::string heading, std::vector<Shown> columns, std::string swept)
    : run_(run),
      heading_(std::move(heading)),
      swept_(swept.empty() ? heading_ : std::move(swept)),
      columns_(std::move(columns)) {}

void Sheet::add(Row row) {
  const std::string& key = row.ref.key;
  if (key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != key.npos)
    throw std::logic_error("'" + key + "' is no key: a-z, 0-9 and _");
  if (row.words.empty()) row.words = std::isnan(row.ref.at) ? key : at_text(row.ref);
  rows_.push_back(std::move(row));
  predicted_.push_back(NAN);
}

void Sheet::measure(Timing timing, const Function<Task(const Row&)>& make) {
  constexpr int groups_of_a_full_run = 6;
  const bool regrouped = timing == Timing::regrouped;
  const int groups = regrouped && !run_.quick ? groups_of_a_full_run : 1;
  const int turn = timing == Timing::alone ? 0 : run_.results->new_turn();

  std::vector<Job> jobs;
  for (const Row& row : rows_)
    if (row.missing.empty())
      jobs.push_back({row.ref, [&make, &row] { return make(row); }, row.on_host});
  std::vector<Timed> times = run_.machine->times(jobs, timing != Timing::alone, groups);

  size_t job = 0;
  for (const Row& row : rows_) {
    Timed timed = row.missing.empty() ? std::move(times[job++]) : Timed{};
    run_.results->keep(
        {row.ref, row.words, row.bytes, std::move(timed), turn, regrouped, row.missing});
  }
}

double Sheet::ms(const Ref& ref) const { return (*run_.results)(ref).time.ms.median; }

void Sheet::predict(const Function<double(const Row&)>& of_row, Basis basis) {
  basis_ = basis;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (!rows_[i].calibrates) predicted_[i] = of_row(rows_[i]);
}

namespace {

/// The statistics in a column's unit; a rate is high where the time is low.
Statistics converted(const Shown& shown, const Row& row, const Statistics& ms) {
  const double low = shown.of_time(row, ms.low), high = shown.of_time(row, ms.high);
  return {shown.of_time(row, ms.median), std::min(low, high), std::max(low, high), ms.repeats};
}

Cell cell_of(const Shown& shown, const Row& row, const Statistics& ms, double predicted_ms) {
  if (shown.number) return shown.number(row);
  if (shown.words) return shown.words(row, ms);
  const Statistics value = converted(shown, row, ms);
  if (shown.column.kind != "compared") return value;
  if (row.calibrates) return Calibration{value};
  return Compared{shown.of_time(row, predicted_ms), value, row.model};
}

}  // namespace

void Sheet::print_basis() const {
  if (std::none_of(predicted_.begin(), predicted_.end(), [](double p) { return std::isfinite(p); }))
    return;
  const char* const names[] = {"from the device", "calibrated", "fitted"};
  const char* const name = names[static_cast<int>(basis_)];
  run_.report.save({"", heading_, "", "", "model", name, "", NAN});
  std::string rows;
  for (const Row& row : rows_)
    if (row.calibrates) rows += (rows.empty() ? "" : "; ") + row.words;
  if (basis_ == Basis::from_device) return run_.report.note("predicted from the device alone");
  run_.report.note("predicted by a " + std::string(name) + " model" +
                   (rows.empty() ? "" : ", with constants from: " + rows));
}

void Sheet::print(std::initializer_list<std::string> notes) {
  std::vector<Column> columns;
  bool time_is_shown = false;
  for (const Shown& shown : columns_) {
    columns.push_back(shown.column);
    time_is_shown = time_is_shown || shown.column.metric == "time";
  }
  // the time is always saved: a rate alone does not reveal wrong bytes
  if (!time_is_shown) columns.push_back(saved_only(measured("ms", "time", "ms", 4)));

  Table table(run_.report, heading_, columns);
  bool any_timed = false;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const Statistics& ms = (*run_.results)(row.ref).time.ms;
    any_timed = any_timed || ms.repeats > 0;
    std::vector<Cell> cells;
    for (const Shown& shown : columns_) cells.push_back(cell_of(shown, row, ms, predicted_[i]));
    if (!time_is_shown) cells.push_back(ms);
    const std::string at = at_text(row.ref);
    table.row({row.ref.key, at.empty() ? "" : swept_, at, row.words}, cells, row.printed);
  }
  table.print();
  print_basis();
  for (const std::string& note : notes) run_.report.note(note);
  for (const Row& row : rows_)
    if (!row.missing.empty() && run_.device) run_.report.left_out(row.words, row.missing);
  if (!any_timed && !run_.device) run_.report.left_out("times (" + heading_ + ")");
}

}  // namespace samples
