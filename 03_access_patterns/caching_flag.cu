// caching, 2 of 2: kernels 3 and 6, which say nothing of the cache, once more. The build compiles
// this file with -Xptxas -dlcm=cg, which sends all loads of a file past L1, and defines DLCM_CG
// where it does.
#include "caching.cuh"

#ifdef DLCM_CG

__global__ void read_by_flag(unsigned* sums, const unsigned* in, size_t n, size_t first,
                             size_t stride) {
  add_up<load_plain>(sums, in, n, first, stride);
}
__global__ void chase_by_flag(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  walk<load_plain>(walked, end, next, steps);
}

LoadKernels kernels_by_flag() { return {read_by_flag, chase_by_flag}; }

#else

LoadKernels kernels_by_flag() { return {}; }

#endif
