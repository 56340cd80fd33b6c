// Answers to sectors that are wrong, and what the check has to say of them.
#include "sectors.hpp"

namespace {

// answer sectors_shift_is_free: not yet: in[[]i [+] 1[]]: not 4; in which sectors do the first word
// and the last one lie[?]
namespace shift_is_free {

constexpr Sectors answer = {4, 4, 32, 1, 4};

YOUR_TURN_TEST(sectors, shift_is_free, Sectors, (answer));

}  // namespace shift_is_free

// answer sectors_by_lines: not yet: in[[]i[]]: not 1; 32 words of 4 bytes, in sectors of 32 bytes
namespace by_lines {

constexpr Sectors answer = {1, 2, 8, 1, 1};

YOUR_TURN_TEST(sectors, by_lines, Sectors, (answer));

}  // namespace by_lines

// answer sectors_per_lane: not yet: in[[]i / 4[]]: not 4; how many different words are read[?]
namespace per_lane {

constexpr Sectors answer = {4, 5, 32, 4, 4};

YOUR_TURN_TEST(sectors, per_lane, Sectors, (answer));

}  // namespace per_lane

// answer sectors_order_counts: not yet: in[[]31 - i[]]: not 32; which words are read, in whatever
// order[?]
namespace order_counts {

constexpr Sectors answer = {4, 5, 32, 1, 32};

YOUR_TURN_TEST(sectors, order_counts, Sectors, (answer));

}  // namespace order_counts

}  // namespace
