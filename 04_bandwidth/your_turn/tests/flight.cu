// Answers to flight that are wrong, and what the check has to say of them.
#include "flight.hpp"

namespace {

// answer flight_micro: not yet: bytes: not 2400; 1 GB/s is one byte per ns; how many ns long are
// they in flight[?]
namespace micro {

constexpr Flight answer = {2400, 142, 1802, 36};

YOUR_TURN_TEST(flight, micro, Flight, (answer));

}  // namespace micro

// answer flight_of_threads: not yet: warps: not 4545; a warp has 32 words of 4 bytes in flight, a
// multiprocessor a 132nd of all
namespace of_threads {

constexpr Flight answer = {2.4e6, 4545, 1802, 36};

YOUR_TURN_TEST(flight, of_threads, Flight, (answer));

}  // namespace of_threads

// answer flight_full_rate: not yet: rate: not 4000; what is in flight now comes within 600 ns, and
// is asked for once more
namespace full_rate {

constexpr Flight answer = {2.4e6, 142, 4000, 36};

YOUR_TURN_TEST(flight, full_rate, Flight, (answer));

}  // namespace full_rate

// answer flight_same_warps: not yet: warps_of_quads: not 142; a load brings four times as much
namespace same_warps {

constexpr Flight answer = {2.4e6, 142, 1802, 142};

YOUR_TURN_TEST(flight, same_warps, Flight, (answer));

}  // namespace same_warps

}  // namespace
