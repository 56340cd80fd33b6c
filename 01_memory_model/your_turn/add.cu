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

/// Adds amount[0] to amount[63] to *value.
__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  *value += amount[threadIdx.x];  // a race: repair it
}

/// The same without an atomic.
__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  *value += amount[threadIdx.x];  // repair it in another way
}

// [/your turn]

}  // namespace

YOUR_TURN(add, Add, {with_an_atomic, without_atomics, __FILE__});
