// What is checked of the seven predictions. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"
#include "../banks.hpp"

struct Prediction {
  std::string expression;
  long (*index)(long lane);
  std::string consider;
};
const Prediction predictions[] = {
    {"tile[i / 2]", [](long i) { return i / 2; }, "two lanes want the same word"},
    {"tile[2 * i]", [](long i) { return 2 * i; }, "which lanes are in bank 0?"},
    {"tile[3 * i]", [](long i) { return 3 * i; }, "lane 11 is in bank 1; is any other lane?"},
    {"tile[8 * i]", [](long i) { return 8 * i; }, "how many banks are used?"},
    {"tile[32 * i]", [](long i) { return 32 * i; }, "how many banks are used?"},
    {"tile[33 * i]", [](long i) { return 33 * i; }, "in which bank is lane i?"},
    {"tile[32 * (i % 2)]", [](long i) { return 32 * (i % 2); },
     "how many different words, and in which banks?"},
};

inline void check(const int (&yours)[7]) {
  for (size_t k = 0; k < 7; ++k) {
    const auto& [expression, index, consider] = predictions[k];
    if (yours[k] != wavefronts(4, index))
      FAIL_CHECK(expression << ": not " << yours[k] << "; " << consider);
  }
}

TEST_CASE("right: all seven") {
  check({halved, doubled, tripled, eightfold, column, padded, two_words});
}
