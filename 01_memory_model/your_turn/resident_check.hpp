// What is checked of the prediction. Included behind the answer.
#pragma once

#include <algorithm>

#include "../../common/exercise.hpp"

/// Blocks that are resident on a multiprocessor of an H100, by its four limits.
int blocks(int threads, int registers_each, int shared_kib = 0) {
  return std::min({2048 / threads, 65536 / (threads * registers_each), 228 / (shared_kib + 1), 32});
}

TEST_CASE("right: all six numbers") {
  const struct {
    std::string name;
    int yours, right;
    std::string hint;
  } predictions[] = {
      {"narrow", narrow, blocks(256, 32), "which of the four limits is reached first?"},
      {"wide", wide, blocks(256, 40), "a block needs 10,240 registers, and has all or none"},
      {"large", large, blocks(1024, 40), "how many registers do two blocks need?"},
      {"single", single, blocks(32, 32), "neither threads nor registers are the limit"},
      {"sharing", sharing, blocks(128, 32, 48), "each block takes 49 KiB of the 228"},
      {"registers", registers, 65536 / (6 * 256) / 8 * 8,
       "six blocks share 65,536 registers, by eights per thread"},
  };
  for (const auto& [name, yours, right, hint] : predictions)
    if (yours != right) FAIL(name << " is not " << yours << ": " << hint);
}
