#include "../run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

// ---- numbers as text ----

namespace {

std::string format(const char* how, double value) {
  char text[64];
  std::snprintf(text, sizeof text, how, value);
  return text;
}

/// Columns that it takes on a terminal: UTF-8's code points.
size_t width(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string doubled;
  for (const char c : field) doubled += c == '"' ? "\"\"" : std::string(1, c);
  return '"' + doubled + '"';
}

}  // namespace

std::string in_lines(std::string text, size_t indent) {
  std::string lines;
  while (width(text) > 100) {
    const size_t space = text.rfind(' ', 100);
    if (space == std::string::npos || space <= indent) break;
    lines += text.substr(0, space) + '\n';
    text = std::string(indent, ' ') + text.substr(space + 1);
  }
  return lines + text + '\n';
}

std::string digits(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (value == std::round(value) || size >= 1000) return format("%.0f", value);
  const int before = int(std::floor(std::log10(size)));  // 2 for 562.4, -3 for 0.0086
  const int after = std::clamp((size >= 1 ? 3 : 2) - before, 1, 9);
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", after, value);
  return text;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; unit < 3 && bytes >= 1024; ++unit) bytes /= 1024;
  return format(bytes == std::round(bytes) ? "%.0f " : "%.2f ", bytes) + units[unit];
}

std::string factor_text(const Interval& f) {
  const char* how = f.value < 9.95 ? "%.2f" : f.value < 99.5 ? "%.1f" : "%.0f";
  return format(how, f.value) + "x [" + format(how, f.low) + ", " + format(how, f.high) + "]";
}

Cell percent(double share) {
  const double value = 100 * share;
  Cell cell(format(value == std::round(value) || value >= 20 ? "%.0f%%" : "%.1f%%", value));
  cell.number = {share, share, share};
  return cell;
}

Cell bar(double share) {
  constexpr const char* parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::isfinite(share) ? int(std::clamp(share, 0.0, 1.0) * 80 + 0.5) : 0;
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  return text + parts[eighths % 8];
}

// ---- tables ----

void Table::row(std::string name, std::initializer_list<Cell> cells) {
  if (cells.size() != columns_.size())
    throw std::logic_error("row '" + name + "' has not one cell per column");
  rows_.push_back({std::move(name), cells});
}

void Table::missing(std::string name, const std::string& why) {
  rows_.push_back({std::move(name), {why}});
}

void Run::begin(Printed what) {
  if (what == title_line || (printed_ != title_line && (what == table_lines || printed_ != what)))
    std::cout << '\n';
  printed_ = what;
}

void Run::title(const std::string& line) {
  begin(title_line);
  ++titles_;
  std::cout << "== " << experiment_ << ": " << line << '\n';
}

void Run::note(const std::string& line) {
  if (printed_ == title_line) printed_ = table_lines;
  std::cout << "  " << line << '\n';
}

void Run::print(const Table& table) {
  begin(table_lines);
  size_t first = width(table.heading_);
  std::vector<size_t> widths;
  for (const std::string& column : table.columns_) widths.push_back(width(column));
  for (const auto& row : table.rows_) {
    first = std::max(first, width(row.name));
    if (row.cells.size() == widths.size())
      for (size_t c = 0; c < widths.size(); ++c)
        widths[c] = std::max(widths[c], width(row.cells[c].words));
  }
  const auto print_line = [&](const std::string& name, const auto& cells, const auto& words_of) {
    std::string line = "  " + name + std::string(first - width(name), ' ');
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string& words = words_of(cells[c]);
      const size_t pad = width(words) < widths[c] ? widths[c] - width(words) : 0;
      line += "  ";
      line += table.columns_[c].empty() ? words : std::string(pad, ' ') + words;
    }
    std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  };
  print_line(table.heading_, table.columns_,
             [](const std::string& s) -> const std::string& { return s; });
  for (const auto& row : table.rows_)
    print_line(row.name, row.cells, [](const Cell& c) -> const std::string& { return c.words; });
  save(table);
}

void Run::save(const Table& table) {
  for (const auto& row : table.rows_)
    for (size_t c = 0; c < row.cells.size(); ++c)
      if (std::isfinite(row.cells[c].number.value))
        save(table.heading_, row.name, table.columns_.at(c), row.cells[c].number);
}

void Run::save(const std::string& table, const std::string& row, const std::string& column,
               const Interval& value) {
  std::string line = experiment_ + ',' + quoted(table) + ',' + quoted(row) + ',' + quoted(column);
  for (const double number : {value.value, value.low, value.high})
    line += ',' + (std::isfinite(number) ? format("%.7g", number) : "");
  csv_.push_back(line);
}

// ---- claims ----

/// Before the verdict's words, by how the number is known.
constexpr const char* known[] = {"", "computed, ", "counted, "};

void Run::judged(const Claim& claim, Verdict verdict, const std::string& here,
                 const Interval& number, Known how) {
  if (!ids_.insert(claim.id).second) throw std::logic_error("two claims are called " + claim.id);
  if (verdict == Verdict::does_not_hold && claim.of != Hardware::any && gpu.major > int(claim.of))
    verdict = Verdict::no_longer;
  ++verdicts_[how][int(verdict)];
  begin(claim_lines);
  const std::string id = claim.id + std::string(claim.id.size() < 7 ? 7 - claim.id.size() : 1, ' ');
  const std::string words = known[how] + text(verdict);
  std::cout << "  " << id << words << ": " << claim.statement << '\n';
  std::cout << in_lines("         here: " + here, 15)
            << in_lines("         source: " + claim.source, 15);
  save("claim", claim.id + ": " + claim.statement, words, number);
}

void Run::claim(const Claim& claim, const Measured& measured, const Rule& rule) {
  const Interval& n = measured.number;
  std::string here = digits(n.value);
  if (n.low < n.high) here += " [" + digits(n.low) + ", " + digits(n.high) + "]";  // else: counted
  if (measured.is_factor) here = factor_text(n);
  here += " " + measured.what;
  if (const auto [low, high] = judge_ends(rule, n); low != high)
    here += "; at its ends " + text(low) + ", and " + text(high);
  save_compared(claim, rule, measured.what);
  judged(claim, judge(rule, n), here, n);
}

void Run::claim_each(const Claim& claim, const std::vector<Interval>& numbers,
                     const std::string& what, const Rule& rule) {
  if (numbers.empty()) return claim_skipped(claim, "nothing was measured");
  const auto by_value = [](const Interval& a, const Interval& b) { return a.value < b.value; };
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end(), by_value);
  const Ballot votes = judge_each(rule, numbers);
  std::string count = std::to_string(votes.in_favour) + " of " + std::to_string(votes.all);
  if (const size_t open = votes.all - votes.in_favour - votes.against; open > 0)
    count += " (" + std::to_string(open) + " too close)";
  const auto number = [](size_t n) { return Interval{double(n), double(n), double(n)}; };
  save("votes", claim.id, "in favour", number(votes.in_favour));
  save("votes", claim.id, "against", number(votes.against));
  save_compared(claim, rule, what);
  judged(claim, votes.verdict,
         count + ": " + factor_text(*least) + " to " + factor_text(*most) + ", " + what, *most);
}

void Run::observed(const Claim& claim, bool so, const std::string& here) {
  judged(claim, so ? Verdict::holds : Verdict::does_not_hold, here, {NAN, NAN, NAN});
}

void Run::computed(const Claim& claim, bool so, const std::string& here) {
  judged(claim, so ? Verdict::holds : Verdict::does_not_hold, here, {NAN, NAN, NAN}, computed_only);
}

void Run::counted(const Claim& claim, const std::vector<Count>& counts, const std::string& what,
                  const Rule& rule) {
  const auto here = std::find_if(counts.begin(), counts.end(),
                                 [this](const Count& count) { return count.gpu == gpu.name; });
  if (here == counts.end()) return claim_skipped(claim, "nobody has counted it on this GPU");
  const Interval number{here->value, here->value, here->value};
  save_compared(claim, rule, what);
  judged(claim, judge(rule, number), digits(here->value) + " " + what + ", by " + here->when,
         number, counted_before);
}

void Run::claim_skipped(const Claim& claim, const std::string& why) {
  judged(claim, Verdict::not_judged, why, {NAN, NAN, NAN});
}

void Run::save_compared(const Claim& claim, const Rule& rule, const std::string& what) {
  save("compared", claim.id, what, {NAN, NAN, NAN});
  const bool is_factor = rule.kind == Rule::more || what.starts_with("times");
  if (rule.low > 0 || rule.high > 0)
    save("stated", claim.id, is_factor ? "times" : "level",
         {std::max(rule.low, rule.high), rule.low, rule.high});
}

// ---- sizes, options ----

namespace {

/// Bytes of the host's memory that are free; none where Linux's file does not say so.
double free_on_host() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;)
    if (double kib = 0; word == "MemAvailable:" && file >> kib) return 1024 * kib;
  return 0;
}

template <class Fits>
size_t halved_until(size_t n, double bytes_each, Fits fits) {
  while (n > 1 && !fits(double(n) * bytes_each)) n /= 2;
  return n;
}

}  // namespace

bool Run::fits(double bytes) const {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return bytes <= 0.9 * double(free);
}

size_t Run::fitting(size_t by_default, double bytes_each) const {
  return halved_until(by_default, bytes_each, [this](double bytes) { return fits(bytes); });
}

bool Run::fits_on_host(double bytes) const { return bytes <= 0.25 * free_on_host(); }

size_t Run::fitting_on_host(size_t by_default, double bytes_each) const {
  return halved_until(by_default, bytes_each, [this](double bytes) { return fits_on_host(bytes); });
}

std::string Run::option(const std::string& name, const std::string& otherwise) const {
  const auto typed = options.find(name);
  return typed == options.end() ? otherwise : typed->second;
}

unsigned Run::resident_blocks(unsigned threads) const {
  const unsigned warps = (threads + 31) / 32;
  const unsigned by_threads = unsigned(gpu.maxThreadsPerMultiProcessor) / 32 / warps;
  return unsigned(gpu.multiProcessorCount) *
         std::min(by_threads, unsigned(gpu.maxBlocksPerMultiProcessor));
}

// ---- for command_line.cpp ----

void Run::begin_experiment(const std::string& name) {
  experiment_ = name;
  titles_ = 0;
}

void Run::end_experiment() const {
  if (const std::vector<std::string> names = never_asked_for(); !names.empty())
    throw std::logic_error(experiment_ + " times '" + names[0] + "' and shows it nowhere");
}

void Run::failed(const std::string& why) {
  never_asked_for();  // it was timed, and not shown any more
  save("failed", why, "", {NAN, NAN, NAN});
}

std::string Run::totals() const {
  const auto listed = [](const int(&counts)[verdict_count]) {
    std::string list;
    for (int v = 0; v < verdict_count; ++v) {
      if (!counts[v]) continue;
      std::string name = text(Verdict(v));
      if (name.starts_with("holds, ")) name = name.substr(7);  // "weaker"
      list += (list.empty() ? "" : ", ") + name + " " + std::to_string(counts[v]);
    }
    return list;
  };
  std::string all;
  for (const Known how : {measured, computed_only, counted_before})
    if (const std::string list = listed(verdicts_[how]); !list.empty()) {
      const std::string name = known[how];  // "computed, "
      all += (all.empty() ? "" : "; ") + name.substr(0, name.find(',')) +
             (name.empty() ? "" : ": ") + list;
    }
  return all;
}
