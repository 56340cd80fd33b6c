// Answers to schedule that are wrong, and what the check has to say of them.
#include "schedule.hpp"

namespace {

// answer schedule_sum: not yet: halves: not 10; draw three lines, one for each engine: when can the
// second chunk's copy begin[?]
namespace sum {

constexpr Schedule answer = {10, 10, 10, 10, 10};

YOUR_TURN_TEST(schedule, sum, Schedule, (answer));

}  // namespace sum

// answer schedule_slowest_only: not yet: eighths: not 4; the copies there are 4 ms; what is left
// after the last one[?]
namespace slowest_only {

constexpr Schedule answer = {10, 7, 4, 10, 9};

YOUR_TURN_TEST(schedule, slowest_only, Schedule, (answer));

}  // namespace slowest_only

// answer schedule_free_chunks: not yet: crumbs: not 4; how long does one copy of a thousandth
// take[?]
namespace free_chunks {

constexpr Schedule answer = {10, 7, 4.75, 10, 4};

YOUR_TURN_TEST(schedule, free_chunks, Schedule, (answer));

}  // namespace free_chunks

}  // namespace
