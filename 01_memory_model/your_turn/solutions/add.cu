// add: the text has all 64 threads of a block run `devData += 2`. Each of them reads the variable,
// adds, and writes it. What others wrote in between is lost: as few as one of the 64 additions may
// be left. Here block b adds 64 amounts to value[b], amount[64 * b] to amount[64 * b + 63]. Repair
// it in two ways: first with an atomic, then without any. Both are launched as <<<blocks, 64>>>.
//
// Right: each value has grown by its 64 amounts, for 1 to 100,049 blocks. The second kernel is
// compiled to no atomic instruction, in shared memory neither. A missing barrier shows by chance
// only; this finds it:
//
//   compute-sanitizer --tool racecheck build/release/01_memory_model/your_add
//
// Difficulty 1 of 5, about 15 minutes. Needs a GPU.
//
//   cmake --build build/release --target your_add
//   build/release/01_memory_model/your_add

// [your turn]

// An atomic's reading, adding and writing cannot be torn apart; the 64 additions come one after the
// other. Without atomics only one thread may write: the others hand their amounts over in shared
// memory, and the barrier says when all of them are there. It does not matter that one thread adds
// 64 words: a block with more to add halves them in steps (06_shared_reduce).

/// Adds 64 amounts to value[blockIdx.x].
__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(&value[blockIdx.x], amount[64 * blockIdx.x + threadIdx.x]);
}

/// The same without an atomic.
__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  __shared__ unsigned shared[64];
  shared[threadIdx.x] = amount[64 * blockIdx.x + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 64; ++i) sum += shared[i];
    value[blockIdx.x] += sum;
  }
}

// [/your turn]

#include "../add_check.hpp"

/// As the text has it.
__global__ void all_at_once(unsigned* value, const unsigned* amount) {
  value[blockIdx.x] += amount[64 * blockIdx.x + threadIdx.x];
}

WRONG_ANSWER("each thread adds for itself") {
  if (skip_without_gpu()) FAIL("not run");
  check_sums(all_at_once);
}
WRONG_ANSWER("an atomic in the second kernel, too") {
  if (machine_code("with_an_atomic").empty()) FAIL("not seen: no machine code is shown here");
  check_atomics("with_an_atomic", "with_an_atomic");
}
