// diagnose: name the cause. A profiler counted on an H200 what five kernels do: the requests of
// their warps to global memory, the sectors of 32 bytes that a request moves, and the wavefronts
// that a request to shared memory takes. Four of the kernels transpose 4096 x 4096 words of 4
// bytes; d reads 4 Mi words and writes few. In c a thread moves 16 bytes with each request, in the
// others 4.
//
//            loads                  stores                 shared memory
//            requests   sectors     requests   sectors     load   store
//       a     524,288       4        524,288      32         -       -
//       b     524,288       4        524,288       4       32.4     1.0
//       c     131,072      16        131,072      16        4.1     4.0
//       d     131,072       5          8,448       4         -       -
//       e     524,288      32        524,288       4         -       -
//
// What is wrong with each of them, if anything is? Right: all five.
//
// Difficulty 2 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_diagnose
//   build/release/04_bandwidth/your_diagnose

enum class Cause {
  unknown,
  scattered_loads,   // the lanes of a warp read from as many sectors as there are lanes
  scattered_stores,  // they write to as many
  misaligned_loads,  // neighbours, but the first one is not at the beginning of a sector
  bank_conflicts,    // lanes meet in a bank of shared memory
  nothing            // neither a sector nor a wavefront too many
};

// [your turn]

constexpr Cause a = Cause::unknown;
constexpr Cause b = Cause::unknown;
constexpr Cause c = Cause::unknown;
constexpr Cause d = Cause::unknown;
constexpr Cause e = Cause::unknown;

// [/your turn]

#include "diagnose_check.hpp"
