// A warp's lanes and what moves for them, drawn: memory from an aligned address on, a character for
// 4 bytes.
#pragma once

#include "transactions.hpp"

constexpr long drawn_bytes = 256;  // two lines

/// Where the character of a byte stands: a bar begins each sector of 32 bytes.
inline size_t column_of(long byte) { return size_t(1 + byte / 4 + byte / 32); }

/// The lane that wants a word (0 to 9, a to v), * for several lanes, . for none.
inline std::string draw_lanes(const Warp& warp) {
  std::string text(column_of(drawn_bytes), '.');
  for (long byte = 0; byte <= drawn_bytes; byte += 32) text[column_of(byte) - 1] = '|';
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (warp.address[lane] < 0 || warp.address[lane] >= drawn_bytes) continue;
    char& cell = text[column_of(warp.address[lane])];
    cell = cell == '.' ? "0123456789abcdefghijklmnopqrstuv"[lane] : '*';
  }
  return text;
}

/// <------> for a transaction, with how often it moves; what overlaps goes into a further row.
inline std::vector<std::string> draw_transactions(const Transactions& moved) {
  std::vector<std::string> rows(1, std::string(column_of(drawn_bytes), ' '));
  for (auto t = moved.begin(); t != moved.end(); ++t) {
    if (t->start + t->bytes > drawn_bytes || std::find(moved.begin(), t, *t) != t) continue;
    const size_t first = column_of(t->start), width = column_of(t->start + t->bytes) - 1 - first;
    std::string drawn = "<" + std::string(width - 2, '-') + ">";
    const std::string often = std::to_string(std::count(t, moved.end(), *t)) + "x";
    if (often != "1x") drawn.replace((width - often.size()) / 2, often.size(), often);
    size_t row = 0;
    while (row < rows.size() && rows[row].find_first_not_of(' ', first) < first + width) ++row;
    if (row == rows.size()) rows.emplace_back(column_of(drawn_bytes), ' ');
    rows[row].replace(first, width, drawn);
  }
  return rows;
}

inline void explain_drawing(Run& run) {
  run.note("a character is 4 bytes of memory: the lane that wants them, 0 to 9 and a to v; * for");
  run.note(
      "several lanes; | begins 32 bytes; <---> one transaction; at the right: how many, bytes");
}

inline void draw(Run& run, const std::string& name, const Warp& warp) {
  const auto line = [&](std::string label, const std::string& drawn, const std::string& text) {
    label.resize(13, ' ');
    std::string all = label + drawn + " " + text;
    run.note(all.erase(all.find_last_not_of(' ') + 1));
  };
  const long last = *std::max_element(warp.address.begin(), warp.address.end()) + warp.word;
  line(name, draw_lanes(warp), last > drawn_bytes ? "... " + std::to_string(last) : "");
  for (const Generation generation : generations) {
    const Transactions moved = transactions(generation, warp);
    std::string label = std::string(" ") + generation_names[generation];
    std::string text = std::to_string(moved.size()) + ", " + std::to_string(bytes_of(moved)) + " B";
    for (const std::string& row : draw_transactions(moved)) {
      line(label, row, text);
      label = text = "";  // said once
    }
  }
}
