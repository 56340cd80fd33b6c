// add: the text has all threads of a block run `devData += 2`. Each of them reads the variable,
// adds, and writes it; what others wrote in between is lost. Of 64 threads' additions as few as one
// may be left. Repair it in two ways, so that each thread's amount is added: first with an atomic,
// then without any. Both are launched as <<<1, 64>>>.
//
// Right: *value has grown by all 64 amounts, in each of 54 launches; in the last four one of the
// two warps is held up at its first load. The second kernel is compiled to no atomic instruction,
// in shared memory neither. This needs a GPU.
//
// Difficulty 1 of 5, about 15 minutes.
//
//   cmake --build build/release --target your_add
//   build/release/01_memory_model/your_add
#include "add.hpp"

namespace {

// [your turn]

// An atomic's reading, adding and writing cannot be torn apart; the 64 additions come one after the
// other. Without atomics only one thread may write: the others hand their amounts over in shared
// memory, and the barrier says when all of them are there. It does not matter that one thread adds
// 64 words: a block with more to add halves them in steps (06_shared_reduce).

/// Adds amount[0] to amount[63] to *value.
__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  atomicAdd(value, amount[threadIdx.x]);
}

/// The same without an atomic.
__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  __shared__ unsigned shared[64];
  shared[threadIdx.x] = amount[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 64; ++i) sum += shared[i];
    *value += sum;
  }
}

// [/your turn]

}  // namespace

YOUR_TURN(add, Add, {with_an_atomic, without_atomics, __FILE__});
