// What is checked of the prediction. Included behind the answer.
#pragma once

#include <algorithm>

#include "../../common/exercise.hpp"

/// Blocks that are resident on a multiprocessor of an H100, by its four limits.
int blocks(int threads, int registers_each, int shared_kib = 0) {
  return std::min({2048 / threads, 65536 / (threads * registers_each), 228 / (shared_kib + 1), 32});
}

inline void check(const int (&yours)[6]) {
  const struct {
    std::string name;
    int yours, right;
    std::string hint;
  } predictions[] = {
      {"narrow", yours[0], blocks(256, 32), "which of the four limits is reached first?"},
      {"wide", yours[1], blocks(256, 40), "a block needs 10,240 registers, and has all or none"},
      {"large", yours[2], blocks(1024, 40), "how many registers do two blocks need?"},
      {"single", yours[3], blocks(32, 32), "neither threads nor registers are the limit"},
      {"sharing", yours[4], blocks(128, 32, 48), "each block takes 49 KiB of the 228"},
      {"registers", yours[5], 65536 / (6 * 256) / 8 * 8,
       "six blocks share 65,536 registers, by eights per thread"},
  };
  for (const auto& [name, number, right, hint] : predictions)
    if (number != right) FAIL(name << " is not " << number << ": " << hint);
}

TEST_CASE("right: all six numbers") { check({narrow, wide, large, single, sharing, registers}); }
