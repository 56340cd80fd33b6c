// What only this topic's command line has.
#pragma once

#include <cstddef>

/// Filled by main.cu, read by the experiments. Zero: not typed, the experiment's default holds.
struct Options {
  size_t size = 0;  ///< --size: 4-byte words that ladder sums; at most largest_size

  static constexpr size_t largest_size = size_t(1) << 40;
};
