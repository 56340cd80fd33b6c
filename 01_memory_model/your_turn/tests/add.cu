// Answers to add that are wrong or dear, and what the check has to say of them.
#include "add.hpp"

namespace {

// answer add_one_warp: not yet: without_atomics, launch 0: expected [0-9]+, found [0-9]+
namespace one_warp {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  unsigned sum = amount[threadIdx.x];  // of the first warp only
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, distance);
  if (threadIdx.x == 0) *value += sum;
}

YOUR_TURN_TEST(add, one_warp, Add, {with_an_atomic, without_atomics});

}  // namespace one_warp

// answer add_outside: not yet: without_atomics, launch 0: (the kernel reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|expected [0-9]+, found [0-9]+)
namespace outside {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  if (threadIdx.x > 0) return;
  unsigned sum = 0;
  for (unsigned i = 1; i <= 64; ++i) sum += amount[i];
  *value += sum;
}

YOUR_TURN_TEST(add, outside, Add, {with_an_atomic, without_atomics});

}  // namespace outside

}  // namespace
