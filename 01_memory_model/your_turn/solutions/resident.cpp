// resident: a prediction. A multiprocessor of an H100 has 65,536 registers, room for 2048 threads
// and for 32 blocks, and 228 KiB of shared memory. Each block takes 1 KiB of shared memory more
// than it asks for. How many blocks of a kernel are resident on a multiprocessor at the same time?
// All four limits apply. The comments below name the threads per block, the registers per thread,
// and the shared memory per block if there is any.
//
// With __launch_bounds__(256, 6) the compiler has to leave room for six blocks of 256 threads. How
// many registers may a thread have then? A thread gets registers in multiples of eight.
//
// Right: all six numbers.
//
// Difficulty 2 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_resident
//   build/release/01_memory_model/your_resident

// [your turn]

// The limit that is reached first decides: threads (8 x 256 = 2048); registers (65,536 over 256 x
// 40 is 6.4); registers (a second block of 1024 x 40 does not fit, and half of the threads stay
// away); blocks (32, with 1024 threads in all); shared memory (228 over 48 + 1 is 4.7). Six blocks
// of 256 threads leave 65,536 / 1536 = 42.7 registers to each thread, by eights 40.

/// Resident blocks per multiprocessor; the last is registers per thread.
constexpr int narrow = 8;      // 256 threads, 32 registers
constexpr int wide = 6;        // 256 threads, 40 registers
constexpr int large = 1;       // 1024 threads, 40 registers
constexpr int single = 32;     // 32 threads, 32 registers
constexpr int sharing = 4;     // 128 threads, 32 registers, 48 KiB of shared memory
constexpr int registers = 40;  // that a thread may have under __launch_bounds__(256, 6)

// [/your turn]

#include "../resident_check.hpp"

WRONG_ANSWER("small blocks by the limit of threads alone") {
  check({narrow, wide, large, 64, sharing, registers});
}
WRONG_ANSWER("registers are not given out by eights") {
  check({narrow, wide, large, single, sharing, 65536 / (6 * 256)});
}
