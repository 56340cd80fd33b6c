// What only this topic's command line has.
#pragma once

#include "../framework/common/report.hpp"

/// Filled by main.cu, read by the experiments. Zero: not typed, the experiment's default holds.
struct Options {
  size_t size = 0;  ///< --size: rows, and columns, of the matrices; at most largest_size
  unsigned block_x = 0,
           block_y = 0;  ///< --block: threads of a block across and down; at most 1024 in all

  static constexpr size_t largest_size = 1000000;
};

/// What was typed; main.cu fills it.
inline Options& typed_options() {
  static Options typed;
  return typed;
}
/// For experiments that declare themselves: what was typed, but of a recorded or made-up GPU (its
/// number is negative) the defaults, with which it was recorded.
inline Options options_of(const Run& run) {
  return run.device && run.device->number < 0 ? Options{} : typed_options();
}
