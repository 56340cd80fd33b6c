// The topic's own options.
#pragma once

#include "../framework/common/report.hpp"

struct Options {
  static constexpr size_t largest_size =
      65536;  ///< N: the widest 2D texture of linear memory on any GPU is 131072

  /// Rows, and columns, of locality's image; read_only reads N x N floats. 0: each experiment's
  /// own.
  size_t size = 0;
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
