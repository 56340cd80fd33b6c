// What is checked of the three answers: a wrong one is told what speaks against it. Included behind
// the answer.
#pragma once

#include "../../common/exercise.hpp"

inline void check_seconds(double seconds) {
  const double right = 2 * 50e6 * 300 / 1.35e9;  // loads x cycles / cycles per second
  if (seconds < 0.75 * right || seconds > 1.25 * right)
    FAIL("not " << digits(seconds) << " s; count the loads, then their cycles, then the seconds");
}

inline void check_limit(Limit limit) {
  switch (limit) {
    case Limit::unknown:
      FAIL("choose one of the list");
    case Limit::device_memory:
      FAIL("a word in the last 10 MB is found, so all of the text is there");
    case Limit::memory_bounds:
      FAIL("the thread stops at the end of the text, wherever it begins");
    case Limit::grid_size:
      FAIL("a block of one thread is within every limit of a launch");
    case Limit::registers:
      FAIL("one thread has more than enough of them");
    case Limit::run_time:
      break;
  }
}

inline void check_line(Line line) {
  switch (line) {
    case Line::unknown:
      FAIL("choose one of the list");
    case Line::malloc_text:
    case Line::copy_text:
    case Line::malloc_found:
      FAIL("nothing had gone wrong by then");
    case Line::launch:
      FAIL("the kernel started well, and this line returns long before the kernel ends");
    case Line::copy_found:
      break;
  }
}

TEST_CASE("right: how long the kernel takes") { check_seconds(seconds); }
TEST_CASE("right: the limit that ended it") { check_limit(limit); }
TEST_CASE("right: the line that returned the error") { check_line(line); }
