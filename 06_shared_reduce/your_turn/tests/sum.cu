// Answers to sum that are wrong or dear, and what the check has to say of them; one is done, as the
// task allows what it does.
#include "sum.hpp"

namespace {

// answer sum_tail: not yet: n = 1: the sum is wrong: expected [0-9]+, found 0
namespace tail {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned mine = 0;
  for (size_t i = tid; i < n / 4; i += size_t(gridDim.x) * blockDim.x)
    mine += in[4 * i] + in[4 * i + 1] + in[4 * i + 2] + in[4 * i + 3];
  atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, tail, Sum, {sum});

}  // namespace tail

// answer sum_torn: not yet: n = [0-9]+: the sum is wrong: expected [0-9]+, found [0-9]+
namespace torn {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  for (size_t i = tid; i < n; i += size_t(gridDim.x) * blockDim.x) *out += in[i];  // a race
}

YOUR_TURN_TEST(sum, torn, Sum, {sum});

}  // namespace torn

// answer sum_by_one_block: right, but ([0-9.]+x slower [(][0-9.]+ to [0-9.]+[)]|about [0-9]+x
// slower) than the solution
namespace by_one_block {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  unsigned mine = 0;
  if (blockIdx.x == 0)
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) mine += in[i];
  if (mine != 0) atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, by_one_block, Sum, {sum});

}  // namespace by_one_block

// answer sum_outside: not yet: n = 1: (the kernel reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|the sum is wrong: expected [0-9]+, found [0-9]+)
namespace outside {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned mine = 0;
  for (size_t first = 0; first < n; first += threads) mine += in[first + tid];
  atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, outside, Sum, {sum});

}  // namespace outside

// answer sum_endless: not yet: n = 1: does not end within [0-9]+ s
namespace endless {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  volatile const unsigned* zero = out;
  while (*zero == 0) continue;  // for what no one will write
  atomicAdd(out, in[0]);
}

YOUR_TURN_TEST(sum, endless, Sum, {sum});

}  // namespace endless

// answer sum_of_32_bits: not yet: n = 17188257791: the sum is wrong: expected [0-9]+, found [0-9]+
namespace of_32_bits {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  const unsigned count = unsigned(n);  // modulo 2^32
  for (size_t i = tid; i < count / 4; i += threads) {
    const uint4 quad = quads[i];
    mine += quad.x + quad.y + quad.z + quad.w;
  }
  const size_t rest = count / 4 * 4 + tid;
  if (rest < count) mine += in[rest];
  for (int distance = 16; distance > 0; distance /= 2)
    mine += __shfl_down_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, of_32_bits, Sum, {sum});

}  // namespace of_32_bits

// answer sum_index_endless: not yet: n = 17188257791: does not end within [0-9]+ s
namespace index_endless {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  for (unsigned i = unsigned(tid); i < n / 4; i += unsigned(threads)) {  // begins again after 2^32
    const uint4 quad = quads[i];
    mine += quad.x + quad.y + quad.z + quad.w;
  }
  const size_t rest = n / 4 * 4 + tid;
  if (rest < n) mine += in[rest];
  for (int distance = 16; distance > 0; distance /= 2)
    mine += __shfl_down_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, index_endless, Sum, {sum});

}  // namespace index_endless

// answer sum_behind: not yet: n = 1: the sum is wrong: expected [0-9]+, found [0-9]+
namespace behind {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  for (size_t i = tid; i < (n + 3) / 4; i += threads) {  // up to three words too many
    const uint4 quad = quads[i];
    mine += quad.x + quad.y + quad.z + quad.w;
  }
  for (int distance = 16; distance > 0; distance /= 2)
    mine += __shfl_down_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, behind, Sum, {sum});

}  // namespace behind

// answer sum_whole_quads: done
namespace whole_quads {

__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  for (size_t i = tid; i < (n + 3) / 4; i += threads) {
    const uint4 quad = quads[i];  // up to 12 bytes behind the words are read, and not added
    mine += quad.x;
    if (4 * i + 1 < n) mine += quad.y;
    if (4 * i + 2 < n) mine += quad.z;
    if (4 * i + 3 < n) mine += quad.w;
  }
  for (int distance = 16; distance > 0; distance /= 2)
    mine += __shfl_down_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, mine);
}

YOUR_TURN_TEST(sum, whole_quads, Sum, {sum});

}  // namespace whole_quads

}  // namespace
