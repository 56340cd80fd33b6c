// What caching.cu and caching_flag.cu have in common: kernels that are launched alike.
#pragma once

#include <cstddef>

/// What walking a chain took.
struct Walked {
  long long cycles;
  unsigned long long ns;  ///< by the GPU's timer
};

/// One kind of load: kernels 1 to 3, and 4 to 6, of caching.cu.
struct LoadKernels {
  void (*read)(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride);
  void (*chase)(Walked* walked, unsigned* end, const unsigned* next, unsigned steps);
};

/// The kernels of caching_flag.cu; none if it was compiled without the flag.
LoadKernels kernels_by_flag();
