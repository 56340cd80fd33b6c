// What is checked of the prediction. Included behind the answer.
#pragma once

#include <set>

#include "../../common/exercise.hpp"

inline void check(const int (&yours)[5]) {
  const struct {
    std::string name;
    int yours;
    int (*index)(int thread);  ///< which word the thread wants
    std::string hint;
  } predictions[] = {
      {"same", yours[0], [](int) { return 5; }, "in which lanes does blockIdx.x differ?"},
      {"lane", yours[1], [](int t) { return t % 32; },
       "how many different words does a warp want?"},
      {"fours", yours[2], [](int t) { return t % 4; },
       "lanes that want the same word need not be neighbours"},
      {"eighths", yours[3], [](int t) { return t % 32 / 8; },
       "how many different words does a warp want?"},
      {"warps", yours[4], [](int t) { return t / 32; }, "count for one warp, not for the block"},
  };
  for (const auto& [name, number, index, hint] : predictions) {
    std::set<int> words;
    for (int thread = 32; thread < 64; ++thread) words.insert(index(thread));  // any warp will do
    if (number != int(words.size())) FAIL(name << " is not " << number << ": " << hint);
  }
}

TEST_CASE("right: all five numbers") { check({same, lane, fours, eighths, warps}); }
