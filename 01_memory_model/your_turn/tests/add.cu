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

YOUR_TURN_TEST(add, one_warp, Add, {with_an_atomic, without_atomics, __FILE__});

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

YOUR_TURN_TEST(add, outside, Add, {with_an_atomic, without_atomics, __FILE__});

}  // namespace outside

// answer add_atomics_in_both: not yet: without_atomics: it has an atomic, (atom|red)[.].*
namespace atomics_in_both {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void by_an_atomic_too(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

YOUR_TURN_TEST(add, atomics_in_both, Add,
               {with_an_atomic, by_an_atomic_too, __FILE__, "by_an_atomic_too"});

}  // namespace atomics_in_both

// answer add_atomics_in_shared: not yet: without_atomics: it has an atomic, atom[.]shared[.].*
namespace atomics_in_shared {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void by_a_shared_atomic(unsigned* value, const unsigned* amount) {
  __shared__ unsigned sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, amount[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) *value += sum;
}

YOUR_TURN_TEST(add, atomics_in_shared, Add,
               {with_an_atomic, by_a_shared_atomic, __FILE__, "by_a_shared_atomic"});

}  // namespace atomics_in_shared

// answer add_no_barrier: not yet: without_atomics, launch [0-9]+(, in which the second warp is held
// up)?: expected [0-9]+, found [0-9]+
namespace no_barrier {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  __shared__ unsigned shared[64];
  shared[threadIdx.x] = amount[threadIdx.x];
  if (threadIdx.x > 0) return;
  unsigned sum = 0;
  for (unsigned i = 0; i < 64; ++i) sum += shared[i];
  *value += sum;
}

YOUR_TURN_TEST(add, no_barrier, Add, {with_an_atomic, without_atomics, __FILE__});

}  // namespace no_barrier

// answer add_waits_a_while: not yet: without_atomics, launch 50, in which the second warp is held
// up: expected [0-9]+, found [0-9]+
namespace waits_a_while {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  __shared__ volatile unsigned shared[64];
  shared[threadIdx.x] = amount[threadIdx.x];
  if (threadIdx.x > 0) return;
  const long long start = clock64();
  while (clock64() - start < 4000) continue;  // about 2 us, in place of a barrier
  unsigned sum = 0;
  for (unsigned i = 0; i < 64; ++i) sum += shared[i];
  *value += sum;
}

YOUR_TURN_TEST(add, waits_a_while, Add, {with_an_atomic, without_atomics, __FILE__});

}  // namespace waits_a_while

// answer add_sets: not yet: without_atomics, launch 0: expected [0-9]+, found 128
namespace sets {

__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  if (threadIdx.x > 0) return;
  unsigned sum = 0;  // and not what the value was before
  for (unsigned i = 0; i < 64; ++i) sum += amount[i];
  *value = sum;
}

YOUR_TURN_TEST(add, sets, Add, {with_an_atomic, without_atomics, __FILE__});

}  // namespace sets

}  // namespace
