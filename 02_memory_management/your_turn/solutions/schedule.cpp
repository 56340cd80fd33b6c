// schedule: a prediction. An array is copied to the device in 4 ms, a kernel works on it for 2 ms,
// and it is copied back in 4 ms. Now it is cut into equal chunks. The copy, the kernel and the copy
// of one chunk are in one stream, and each chunk has a stream of its own unless the comment says
// otherwise. The device can copy in, compute and copy out at the same time, one chunk each. The
// time of each part is proportional to its size. How many milliseconds pass from the start of the
// first copy to the end of the last one?
//
// Right: the first four exactly, the last within 25%.
//
// Difficulty 2 of 5, about 15 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_schedule
//   build/release/02_memory_management/your_schedule

// [your turn]

// The first chunk passes all three stages; then one chunk more is back each time the slowest stage
// has done one: (4 + 2 + 4 + (chunks - 1) x 4) / chunks. That is 10, 7 and 4.75 ms, and never less
// than the 4 ms of one copy. In one stream nothing overlaps. A thousand copies of 4 us that take 5
// us to start take 9 ms: the cure is worse than two chunks.

/// Milliseconds.
constexpr double whole = 10;       // 1 chunk
constexpr double halves = 7;       // 2 chunks
constexpr double eighths = 4.75;   // 8 chunks
constexpr double one_stream = 10;  // 8 chunks, all in one stream
constexpr double crumbs = 9;       // 1000 chunks, and each copy takes 5 us more, to start

// [/your turn]

#include "../schedule_check.hpp"

WRONG_ANSWER("the copies back begin when all are there") {
  check({whole, 4 + 4 / 2.0 + 2 / 2.0, 4 + 4 / 8.0, one_stream, crumbs});
}
WRONG_ANSWER("starting a copy costs nothing") { check({whole, halves, eighths, one_stream, 4}); }
