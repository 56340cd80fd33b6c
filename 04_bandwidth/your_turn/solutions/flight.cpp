// flight: a prediction. The memory of a GPU delivers up to 4000 GB/s (1 GB is 1e9 bytes), and a
// word arrives 600 ns after a thread asks for it. The GPU has 132 multiprocessors, each with room
// for 64 warps of 32 threads. Each thread waits for one load before it asks for the next one.
//
//   bytes           How many bytes have to be in flight on the whole GPU, so that the memory is
//                   never idle?
//   warps           How many warps does each multiprocessor need for that, if a load is of 4 bytes?
//                   (There may be no room for so many.)
//   rate            How many GB/s are possible with 64 such warps on each multiprocessor?
//   warps_of_quads  How many warps does each multiprocessor need, if a load is of 16 bytes?
//
// Right: all four within 25%.
//
// Difficulty 2 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_flight
//   build/release/04_bandwidth/your_flight

// [your turn]

// Little's law: bytes in flight = rate x latency, here 4000 bytes per ns x 600 ns. A multiprocessor
// has a 132nd of them, 18,182; a warp has 128 in flight with words of 4 bytes, and 512 with 16. So
// 142 warps, which do not fit, or 36. With the 64 that fit it is the latency that limits the rate:
// 132 x 64 x 128 bytes every 600 ns. More words for each thread do the same as longer ones.

constexpr double bytes = 2.4e6;
constexpr double warps = 142;
constexpr double rate = 1802;
constexpr double warps_of_quads = 35.5;

// [/your turn]

#include "../flight_check.hpp"

WRONG_ANSWER("a thread's word, not a warp's") { check({bytes, warps * 32, rate, warps_of_quads}); }
WRONG_ANSWER("all bytes by one multiprocessor") {
  check({bytes, bytes / (32 * 4), rate, warps_of_quads});
}
