// What prefetch.cu hands in, and who checks it.
#pragma once

#include <cstddef>

#include "../../framework/common/your_turn.hpp"

/// Queues the prefetch of so many bytes of managed memory to the device, or to the host
/// (cudaMemPrefetchAsync, whose spelling CUDA 13 changed).
void prefetch_to_device(const void* data, size_t bytes);
void prefetch_to_host(const void* data, size_t bytes);

struct Prefetch {
  void (*before_kernel)(unsigned* out, const unsigned* in, size_t n);
  void (*after_kernel)(unsigned* out, const unsigned* in, size_t n);
};

void check_prefetch(const Prefetch& yours, const Prefetch& solution);
