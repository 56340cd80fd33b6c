// answer: right, but ([0-9.]+x slower [(][0-9.]+ to [0-9.]+[)]|about [0-9]+x slower) than the
// solution
#include "sum.hpp"

namespace {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  unsigned mine = 0;
  if (blockIdx.x == 0)
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) mine += in[i];
  if (mine != 0) atomicAdd(out, mine);
}

}  // namespace

YOUR_TURN(sum, Sum, {sum});
