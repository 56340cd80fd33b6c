// What only this topic's command line has.
#pragma once

#include <string>
#include <vector>

#include "../framework/common/report.hpp"

/// Filled by main.cu, read by the experiments. Empty: not typed, the experiment's default holds.
struct Options {
  std::string text;  ///< --text: a file for dictionary to search
  std::vector<char> text_bytes;

  /// Bytes of a text: dictionary's index is an unsigned int, its largest value means "nowhere".
  static constexpr size_t largest_text = (size_t(1) << 31) - 1;
};

/// What was typed; main.cu fills it.
inline Options& typed_options() {
  static Options typed;
  return typed;
}
/// What was typed, but of a recorded or made-up GPU (its number is negative) the defaults, with
/// which it was recorded.
inline const Options& options_of(const Run& run) {
  static const Options defaults;
  return run.device && run.device->number < 0 ? defaults : typed_options();
}
