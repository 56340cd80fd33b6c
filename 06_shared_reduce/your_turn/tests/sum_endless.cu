// answer: not yet: n = 1: does not end within [0-9]+ s
#include "sum.hpp"

namespace {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  volatile const unsigned* zero = out;
  while (*zero == 0) continue;  // for what no one will write
  atomicAdd(out, in[0]);
}

}  // namespace

YOUR_TURN(sum, Sum, {sum});
