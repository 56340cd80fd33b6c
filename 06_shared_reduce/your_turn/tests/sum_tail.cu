// answer: not yet: n = 1: the sum is wrong: expected [0-9]+, found 0
#include "sum.hpp"

namespace {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned mine = 0;
  for (size_t i = tid; i < n / 4; i += size_t(gridDim.x) * blockDim.x)
    mine += in[4 * i] + in[4 * i + 1] + in[4 * i + 2] + in[4 * i + 3];
  atomicAdd(out, mine);
}

}  // namespace

YOUR_TURN(sum, Sum, {sum});
