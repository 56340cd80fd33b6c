// What is checked of the prediction. Included behind the answer.
#pragma once

#include <cmath>

#include "../../common/exercise.hpp"

/// Milliseconds until the last chunk is back; a copy takes `start` ms more, whatever its size.
double ms(int chunks, double start = 0) {
  const double copy = 4.0 / chunks + start, kernel = 2.0 / chunks;
  return copy + kernel + copy + (chunks - 1) * copy;  // a copy is the slowest of the three
}

TEST_CASE("right: all five times") {
  const struct {
    std::string name;
    double yours, right, share;  ///< by which yours may differ
    std::string hint;
  } predictions[] = {
      {"whole", whole, ms(1), 0.01, "one after the other"},
      {"halves", halves, ms(2), 0.01,
       "draw three lines, one for each engine: when can the second chunk's copy begin?"},
      {"eighths", eighths, ms(8), 0.01,
       "the copies there are 4 ms; what is left after the last one?"},
      {"one_stream", one_stream, ms(1), 0.01, "what may overlap within a stream?"},
      {"crumbs", crumbs, ms(1000, 0.005), 0.25, "how long does one copy of a thousandth take?"},
  };
  for (const auto& [name, yours, right, share, hint] : predictions)
    if (std::abs(yours - right) > share * right)
      FAIL(name << " is not " << digits(yours) << " ms: " << hint);
}
