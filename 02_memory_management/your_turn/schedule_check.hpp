// What is checked of the prediction. Included behind the answer.
#pragma once

#include <cmath>

#include "../../common/exercise.hpp"

/// Milliseconds until the last chunk is back; a copy takes `start` ms more, whatever its size.
double ms(int chunks, double start = 0) {
  const double copy = 4.0 / chunks + start, kernel = 2.0 / chunks;
  return copy + kernel + copy + (chunks - 1) * copy;  // a copy is the slowest of the three
}

inline void check(const double (&yours)[5]) {
  const struct {
    std::string name;
    double yours, right, share;  ///< by which yours may differ
    std::string hint;
  } predictions[] = {
      {"whole", yours[0], ms(1), 0.01, "one after the other"},
      {"halves", yours[1], ms(2), 0.01,
       "draw three lines, one for each engine: when can the second chunk's copy begin?"},
      {"eighths", yours[2], ms(8), 0.01,
       "the copies there are 4 ms; what is left after the last one?"},
      {"one_stream", yours[3], ms(1), 0.01, "what may overlap within a stream?"},
      {"crumbs", yours[4], ms(1000, 0.005), 0.25, "how long does one copy of a thousandth take?"},
  };
  for (const auto& [name, time, right, share, hint] : predictions)
    if (std::abs(time - right) > share * right)
      FAIL(name << " is not " << digits(time) << " ms: " << hint);
}

TEST_CASE("right: all five times") { check({whole, halves, eighths, one_stream, crumbs}); }
