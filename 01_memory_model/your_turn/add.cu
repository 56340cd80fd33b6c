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

/// Adds 64 amounts to value[blockIdx.x].
__global__ void with_an_atomic(unsigned* value, const unsigned* amount) {
  value[blockIdx.x] += amount[64 * blockIdx.x + threadIdx.x];  // a race: repair it
}

/// The same without an atomic.
__global__ void without_atomics(unsigned* value, const unsigned* amount) {
  value[blockIdx.x] += amount[64 * blockIdx.x + threadIdx.x];  // repair it in another way
}

// [/your turn]

#include "add_check.hpp"
