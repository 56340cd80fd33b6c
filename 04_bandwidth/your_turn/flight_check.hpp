// What is checked of the four predictions, by Little's law. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"

inline void check(const double (&yours)[4]) {
  const auto compare = [](const std::string& name, double yours, double right,
                          const std::string& consider) {
    if (yours < 0.75 * right || yours > 1.25 * right)
      FAIL_CHECK(name << ": not " << digits(yours) << "; " << consider);
  };
  const double bytes_per_ns = 4000, ns = 600, multiprocessors = 132;
  const double in_flight = bytes_per_ns * ns;
  compare("bytes", yours[0], in_flight,
          "1 GB/s is one byte per ns; how many ns are they in flight?");
  compare("warps", yours[1], in_flight / multiprocessors / (32 * 4),
          "a warp has 32 words of 4 bytes in flight, a multiprocessor a 132nd of all bytes");
  compare("rate", yours[2], multiprocessors * 64 * (32 * 4) / ns,
          "what is in flight now comes within 600 ns, and is asked for once more");
  compare("warps_of_quads", yours[3], in_flight / multiprocessors / (32 * 16),
          "a load brings four times as much");
}

TEST_CASE("right: all four, within 25%") { check({bytes, warps, rate, warps_of_quads}); }
