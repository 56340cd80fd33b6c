// What is checked of the four predictions, by Little's law. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"

TEST_CASE("right: all four, within 25%") {
  const auto check = [](const std::string& name, double yours, double right,
                        const std::string& consider) {
    if (yours < 0.75 * right || yours > 1.25 * right)
      FAIL_CHECK(name << ": not " << digits(yours) << "; " << consider);
  };
  const double bytes_per_ns = 4000, ns = 600, multiprocessors = 132;
  const double in_flight = bytes_per_ns * ns;
  check("bytes", bytes, in_flight, "1 GB/s is one byte per ns; how many ns are they in flight?");
  check("warps", warps, in_flight / multiprocessors / (32 * 4),
        "a warp has 32 words of 4 bytes in flight, a multiprocessor a 132nd of all bytes");
  check("rate", rate, multiprocessors * 64 * (32 * 4) / ns,
        "what is in flight now comes within 600 ns, and is asked for once more");
  check("warps_of_quads", warps_of_quads, in_flight / multiprocessors / (32 * 16),
        "a load brings four times as much");
}
