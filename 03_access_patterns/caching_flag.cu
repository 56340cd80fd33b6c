// The kernel of caching whose loads leave it to the compiler. CMakeLists.txt compiles it with the
// wiki's flag, -Xptxas -dlcm=cg, which sends all loads of a file past L1, and defines DLCM_CG.
#include "caching.cuh"

#ifdef DLCM_CG
static __global__ void time_flag(unsigned* data, long long* cycles) {
  time_loads<load_plain>(data, cycles);
}
[[maybe_unused]] static const bool is_linked = (time_loads_by_flag = time_flag, true);
#endif
