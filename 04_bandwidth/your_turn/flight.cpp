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

constexpr double bytes = 0;
constexpr double warps = 0;
constexpr double rate = 0;
constexpr double warps_of_quads = 0;

// [/your turn]

#include "flight_check.hpp"
