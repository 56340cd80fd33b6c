// A warp's lanes and what is moved for them, as text: memory from address 0 on, a character for 4
// bytes.
#pragma once

#include <algorithm>
#include <string>

#include "../framework/common/report.hpp"
#include "transactions.hpp"

/// So much of memory is drawn: two lines of 128 bytes.
inline constexpr unsigned drawn_bytes = 256;

/// Where the character of a byte stands: there is one for 4 bytes, and a bar before each sector.
inline size_t drawn_column(long long byte) { return size_t(1 + byte / 4 + byte / 32); }

/// The words of memory, each with the lane that takes it (0 to 9, a to v), `*` for several lanes,
/// `.` for none; a word of more than four bytes goes on in `=`.
inline std::string draw_lanes(const Warp& warp) {
  std::string text(drawn_column(drawn_bytes), '.');
  for (unsigned byte = 0; byte <= drawn_bytes; byte += 32) text[drawn_column(byte) - 1] = '|';
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!warp.active(lane) || warp.address[lane] >= drawn_bytes) continue;
    char& cell = text[drawn_column(warp.address[lane])];
    cell = cell == '.' ? "0123456789abcdefghijklmnopqrstuv"[lane] : '*';
    for (unsigned more = 4; more < warp.word && warp.address[lane] + more < drawn_bytes; more += 4)
      text[drawn_column(warp.address[lane] + more)] = '=';
  }
  return text;
}

/// Rows of transactions as far as they lie in the drawing: `<------>`, and how often if more than
/// once. What overlaps goes into a further row.
inline std::vector<std::string> draw_transactions(const Transactions& moved) {
  std::vector<std::string> rows(1, std::string(drawn_column(drawn_bytes), ' '));
  std::vector<Transaction> done;
  const auto equal = [](const Transaction& a) {
    return [&a](const Transaction& b) { return a.start == b.start && a.bytes == b.bytes; };
  };
  for (const Transaction& t : moved.list) {
    if (t.start + t.bytes > drawn_bytes || std::any_of(done.begin(), done.end(), equal(t)))
      continue;
    done.push_back(t);
    const size_t first = drawn_column(t.start), width = drawn_column(t.start + t.bytes) - 1 - first;
    std::string drawn(width, '-');
    drawn.front() = '<', drawn.back() = '>';
    const long count = std::count_if(moved.list.begin(), moved.list.end(), equal(t));
    if (count > 1) {
      const std::string often = std::to_string(count) + "x";
      drawn.replace((width - often.size()) / 2, often.size(), often);
    }
    size_t row = 0;
    while (row < rows.size() && rows[row].find_first_not_of(' ', first) < first + width) ++row;
    if (row == rows.size()) rows.emplace_back(drawn_column(drawn_bytes), ' ');
    rows[row].replace(first, width, drawn);
  }
  return rows;
}

/// What stands above drawings.
inline void explain_drawing(Report& report) {
  report.note("memory from an aligned address on; a character is 4 bytes, | begins 32 bytes;");
  report.note(
      "0 to 9, a to v: the lane that takes the word; *: several lanes; =: more of this word;");
  report.note("<--->: one transaction, by the rules of each compute capability");
}

/// A pattern, called `words`: its lanes, and below them what each generation moves for one load.
/// What it moves is saved under `key`.
inline void draw_rules(Report& report, const std::string& key, const std::string& words,
                       const Warp& warp) {
  const auto line = [&](std::string label, const std::string& strip, const std::string& text) {
    label.resize(std::max<size_t>(label.size(), 18), ' ');
    std::string all = label + strip + "  " + text;
    all.erase(all.find_last_not_of(' ') + 1);
    report.note(all);
  };
  const long long last = *std::max_element(warp.address.begin(), warp.address.end()) + warp.word;
  line(words, "", "");
  line("  lanes", draw_lanes(warp), last > drawn_bytes ? "to byte " + std::to_string(last) : "");
  for (const Rule rule : rules) {
    const Transactions moved = under(rule, warp);
    const std::string count = std::to_string(moved.count());
    const std::string bytes = std::to_string(moved.bytes());
    const char* const noun = moved.count() == 1 ? " transaction, " : " transactions, ";
    std::string label = std::string("  ") + rule_name(rule), text = count + noun + bytes + " B";
    for (const std::string& row : draw_transactions(moved)) {
      line(label, row, text);
      label.clear();  // said once
      text.clear();
    }
    report.save({"", key, "rules", rule_name(rule), "predicted", "transactions", "",
                 double(moved.count())});
    report.save({"", key, "rules", rule_name(rule), "predicted", "bytes moved", "B",
                 double(moved.bytes())});
  }
}
