// The topic's own options.
#pragma once

#include <cstddef>

struct Options {
  static constexpr size_t largest_size =
      size_t(16) << 30;  ///< bytes: above that nothing new is seen on any link

  /// Bytes that are moved: transfer's largest copy, batching's total, overlap's array. 0: each
  /// experiment's own.
  size_t size = 0;
};
