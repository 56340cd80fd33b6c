// What only this topic's command line has.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../framework/common/report.hpp"

/// Filled by main.cu, read by the experiments.
struct Options {
  size_t size = 0;   ///< --size: floats in an array of managed and page_faults; 0: not typed; at
                     ///< most largest_size
  std::string file;  ///< --file: what sort_file sorts; empty: a generated one
  std::vector<char> file_bytes;
  std::string output;          ///< --output: where the sorted bytes go; empty: nowhere
  mutable std::string sorted;  ///< what sort_file leaves for it

  /// managed holds three managed arrays of so many floats: 768 MiB, with room left below the
  /// topic's 1 GiB.
  static constexpr size_t largest_size = size_t(1) << 26;
  /// Bytes that sort_file takes: they lie in managed memory, and Thrust needs as many again.
  static constexpr size_t largest_file = size_t(1) << 29;
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
