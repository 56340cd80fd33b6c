// answer: not yet: n = 1: (the kernel reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|the sum is wrong: expected [0-9]+, found [0-9]+)
#include "sum.hpp"

namespace {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned mine = 0;
  for (size_t first = 0; first < n; first += threads) mine += in[first + tid];
  atomicAdd(out, mine);
}

}  // namespace

YOUR_TURN(sum, Sum, {sum});
