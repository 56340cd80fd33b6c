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

// 32 lanes of 4 bytes need 4 sectors. a stores 32 sectors per request: its lanes write to different
// rows of the output. e is the other way round. b is coalesced on both sides, but its loads from
// shared memory take 32 wavefronts: a column of a tile that is 32 words wide. d needs a fifth
// sector, as its words begin in the middle of one. c has a quarter of the requests, with 16 sectors
// each: 32 lanes of 16 bytes, as few as there can be. Its 512 bytes per request pass 32 banks of 4
// bytes in 4 wavefronts.

constexpr Cause a = Cause::scattered_stores;
constexpr Cause b = Cause::bank_conflicts;
constexpr Cause c = Cause::nothing;
constexpr Cause d = Cause::misaligned_loads;
constexpr Cause e = Cause::scattered_loads;

// [/your turn]

#include "../diagnose_check.hpp"

WRONG_ANSWER("16 sectors per request are scattered") {
  check({a, b, Cause::scattered_loads, d, e});
}
WRONG_ANSWER("loads and stores exchanged") {
  check({Cause::scattered_loads, b, c, d, Cause::scattered_stores});
}
