// answer: right, but [0-9]+ local bytes a thread; 0 will do
#include "arrays.hpp"

namespace {

__host__ __device__ unsigned most_frequent(const unsigned* samples) {
  unsigned count[16] = {};
  for (unsigned i = 0; i < 32; ++i) ++count[samples[i]];
  unsigned best = 0;
  for (unsigned value = 1; value < 16; ++value)
    if (count[value] > count[best]) best = value;
  return best;
}

__global__ void most_frequent_of_each(unsigned* out, const unsigned* in) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = most_frequent(in + size_t(32) * i);
}

}  // namespace

YOUR_TURN(arrays, Arrays, {most_frequent, most_frequent_of_each, __FILE__});
