// What both files of `pointers` share: the six places that one pointer refers to in turn, and the
// second table.
#pragma once

#include "../framework/common/experiment.hpp"

enum Place { in_variable, in_allocation, in_pinned, in_shared, in_local, in_constant, places };

/// The word that a thread finds at a place: shared storage has one for each block, local storage
/// one for each thread. Far enough apart that no two places share a word.
constexpr __host__ __device__ int word(Place place, unsigned block, unsigned threads,
                                       unsigned thread) {
  const int first = 100000000 * (place + 1);
  if (place == in_shared) return first + int(block);
  if (place == in_local) return first + int(block * threads + thread);
  return first;
}

/// pointers_generic.cu: what a generic load costs, beside the loads that spaces have for
/// themselves.
void run_generic(const Run& run);
