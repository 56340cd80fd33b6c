// What is checked of the five predictions. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"
#include "../../common/sectors.hpp"

struct Prediction {
  std::string expression;
  size_t (*index)(size_t lane);
  std::string consider;
};
const Prediction predictions[] = {
    {"in[i]", [](size_t i) { return i; }, "it is 32 words of 4 bytes, in sectors of 32 bytes"},
    {"in[i + 1]", [](size_t i) { return i + 1; },
     "in which sectors do the first word and the last one lie?"},
    {"in[8 * i]", [](size_t i) { return 8 * i; }, "how many words does a sector have?"},
    {"in[i / 4]", [](size_t i) { return i / 4; }, "how many different words are read?"},
    {"in[31 - i]", [](size_t i) { return 31 - i; }, "which words are read, in whatever order?"},
};

inline void check(const size_t (&yours)[5]) {
  for (size_t k = 0; k < 5; ++k) {
    const auto& [expression, index, consider] = predictions[k];
    if (yours[k] != sectors(4, index))
      FAIL_CHECK(expression << ": not " << yours[k] << "; " << consider);
  }
}

TEST_CASE("right: all five") { check({straight, shifted, strided, fourfold, backwards}); }
