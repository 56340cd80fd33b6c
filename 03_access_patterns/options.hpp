// What only this topic's command line has.
#pragma once

#include <string>
#include <vector>

/// Filled by main.cu, read by the experiments. Empty: not typed, the experiment's default holds.
struct Options {
  std::string text;  ///< --text: a file for dictionary to search
  std::vector<char> text_bytes;

  /// Bytes of a text: dictionary's index is an unsigned int, its largest value means "nowhere".
  static constexpr size_t largest_text = (size_t(1) << 31) - 1;
};
