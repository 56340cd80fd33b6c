// The topic's own options.
#pragma once

#include <cstddef>

struct Options {
  static constexpr size_t largest_size =
      65536;  ///< N: the widest 2D texture of linear memory on any GPU is 131072

  /// Rows, and columns, of locality's image; read_only reads N x N floats. 0: each experiment's
  /// own.
  size_t size = 0;
};
