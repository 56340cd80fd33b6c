// What only this topic's command line has.
#pragma once

#include "../framework/common/report.hpp"

/// Filled by main.cu, read by the experiments. Zero: not typed, the experiment's default holds.
struct Options {
  size_t size = 0;  ///< --size: 4-byte words that ladder sums; at most largest_size

  static constexpr size_t largest_size = size_t(1) << 40;
};

/// What was typed; main.cu fills it.
inline Options& typed_options() {
  static Options typed;
  return typed;
}
/// What was typed, but of a recorded or made-up GPU (its number is negative) the defaults, with
/// which it was recorded.
inline Options options_of(const Run& run) {
  return run.device && run.device->number < 0 ? Options{} : typed_options();
}
