// answer: not yet: n = [0-9]+: the sum is wrong: expected [0-9]+, found [0-9]+
#include "sum.hpp"

namespace {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  for (size_t i = tid; i < n; i += size_t(gridDim.x) * blockDim.x) *out += in[i];  // a race
}

}  // namespace

YOUR_TURN(sum, Sum, {sum});
