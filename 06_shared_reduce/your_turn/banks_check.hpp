// What is checked of the seven predictions. Included behind the answer.
#pragma once

#include <string>

#include "../../common/exercise.hpp"
#include "../banks.hpp"

struct Prediction {
  std::string expression;
  int yours;
  long (*index)(long lane);
  std::string consider;
};
const Prediction predictions[] = {
    {"tile[i / 2]", halved, [](long i) { return i / 2; }, "two lanes want the same word"},
    {"tile[2 * i]", doubled, [](long i) { return 2 * i; }, "which lanes are in bank 0?"},
    {"tile[3 * i]", tripled, [](long i) { return 3 * i; },
     "lane 11 is in bank 1; is any other lane?"},
    {"tile[8 * i]", eightfold, [](long i) { return 8 * i; }, "how many banks are used?"},
    {"tile[32 * i]", column, [](long i) { return 32 * i; }, "how many banks are used?"},
    {"tile[33 * i]", padded, [](long i) { return 33 * i; }, "in which bank is lane i?"},
    {"tile[32 * (i % 2)]", two_words, [](long i) { return 32 * (i % 2); },
     "how many different words, and in which banks?"},
};

TEST_CASE("right: all seven") {
  for (const auto& [expression, yours, index, consider] : predictions)
    if (yours != wavefronts(4, index))
      FAIL_CHECK(expression << ": not " << yours << "; " << consider);
}
