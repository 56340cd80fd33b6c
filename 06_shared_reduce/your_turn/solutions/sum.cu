// sum: one launch adds up n words, for any n from 1 to 2^30. A block has 256 threads, and there are
// eight blocks per multiprocessor, whatever n is. *out is 0 before the launch. Sums are modulo
// 2^32, so that their order makes no difference. `in` begins at a multiple of 16 bytes.
//
// Right: the sum to the last bit, for every n; the words behind the last are not added. Cheap: at
// most 1.25 times as long as cub::DeviceReduce::Sum, for 268,435,459 words.
//
// Difficulty 4 of 5, about 40 minutes. Needs a GPU.
//
//   cmake --build build/release --target your_sum
//   build/release/06_shared_reduce/your_sum
#include <cstddef>

// [your turn]

// Memory decides: each thread loads 16 bytes at a time, and a warp's 512 bytes are neighbours. Five
// shuffles add what a warp has, and its first lane hands it on: an atomic per warp, of which there
// are a few thousand, not per word. Up to three words are left behind the last 16 bytes, one for
// each of the first threads.

/// Adds the sum of in[0] to in[n - 1] to *out.
__global__ void sum(unsigned* out, const unsigned* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  for (size_t i = tid; i < n / 4; i += threads) {
    const uint4 quad = quads[i];
    mine += quad.x + quad.y + quad.z + quad.w;
  }
  const size_t rest = n / 4 * 4 + tid;
  if (rest < n) mine += in[rest];
  for (int distance = 16; distance > 0; distance /= 2)
    mine += __shfl_down_sync(0xffffffff, mine, distance);
  if (threadIdx.x % 32 == 0) atomicAdd(out, mine);
}

// [/your turn]

#include "../sum_check.hpp"

/// An atomic per thread, after words that are loaded one by one.
__global__ void sum_of_words(unsigned* out, const unsigned* in, size_t n) {
  unsigned mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    mine += in[i];
  atomicAdd(out, mine);
}

/// As the solution, up to the last whole 16 bytes.
__global__ void sum_of_quads(unsigned* out, const unsigned* in, size_t n) {
  const uint4* quads = reinterpret_cast<const uint4*>(in);
  unsigned mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n / 4;
       i += size_t(gridDim.x) * blockDim.x)
    mine += quads[i].x + quads[i].y + quads[i].z + quads[i].w;
  atomicAdd(out, mine);
}

WRONG_ANSWER("one word at a time") {
  if (skip_without_gpu()) FAIL("not run");
  check_time(sum_of_words);
}
WRONG_ANSWER("the last words are forgotten") {
  if (skip_without_gpu()) FAIL("not run");
  check_sums(sum_of_quads);
}
