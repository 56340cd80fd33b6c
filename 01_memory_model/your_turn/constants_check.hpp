// What is checked of the prediction. Included behind the answer.
#pragma once

#include <set>

#include "../../common/exercise.hpp"

TEST_CASE("right: all five numbers") {
  const struct {
    std::string name;
    int yours;
    int (*index)(int thread);  ///< which word the thread wants
    std::string hint;
  } predictions[] = {
      {"same", same, [](int) { return 5; }, "in which lanes does blockIdx.x differ?"},
      {"lane", lane, [](int t) { return t % 32; }, "how many different words does a warp want?"},
      {"fours", fours, [](int t) { return t % 4; },
       "lanes that want the same word need not be neighbours"},
      {"eighths", eighths, [](int t) { return t % 32 / 8; },
       "how many different words does a warp want?"},
      {"warps", warps, [](int t) { return t / 32; }, "count for one warp, not for the block"},
  };
  for (const auto& [name, yours, index, hint] : predictions) {
    std::set<int> words;
    for (int thread = 32; thread < 64; ++thread) words.insert(index(thread));  // any warp will do
    if (yours != int(words.size())) FAIL(name << " is not " << yours << ": " << hint);
  }
}
