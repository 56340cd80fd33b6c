// answer: not yet: 1 x 1: the kernel is not launched: .+ [(]cudaError[A-Za-z]+[)]
#include "transpose.hpp"

namespace {

// the check launches 256 threads a block
__global__ void __launch_bounds__(128)
    transpose(unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  if (nx == 0) out[0] = in[ny];
}

}  // namespace

YOUR_TURN(transpose, Transpose, {transpose});
