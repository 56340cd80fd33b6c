// How large an array must be so that the L2 cannot hold it, what fits, and how many blocks run at
// once.
#pragma once

#include "../framework/common/report.hpp"

/// Elements of an experiment without an option for its size: `by_default`, doubled until the bytes
/// that it touches are beyond the L2, then halved until those that it needs fit. Both are given for
/// one element.
inline size_t size_beyond_l2(const Run& run, const std::string& what, size_t by_default,
                             double bytes_touched, double bytes_needed) {
  size_t n = by_default;
  while (run.device && !beyond_l2(*run.device, bytes_touched * double(n))) n *= 2;
  return fitting_size(what, 0, n, run.memory_there(),
                      [&](size_t count) { return bytes_needed * double(count); });
}

/// Blocks of so many threads that are resident on the whole GPU at once, if nothing but the number
/// of threads limits them.
inline unsigned resident_blocks(const cudaDeviceProp& device, unsigned threads) {
  const unsigned each = unsigned(device.maxThreadsPerMultiProcessor) / threads;
  return unsigned(device.multiProcessorCount) * each;
}
