// What is checked of the places. Included behind the answer.
#pragma once

#include <vector>

#include "../../common/exercise.hpp"
#include "../banks.hpp"

using Answer = unsigned (*)(unsigned row, unsigned column);

inline void check_words(Answer place) {
  std::vector<bool> taken(1024);
  for (unsigned row = 0; row < 32; ++row)
    for (unsigned column = 0; column < 32; ++column) {
      CAPTURE(row);
      CAPTURE(column);
      const unsigned word = place(row, column);
      if (word >= 1024) FAIL("it is in word " << word << " of 1024");
      if (taken[word]) FAIL("it is in word " << word << ", and so is another");
      taken[word] = true;
    }
}

inline void check_wavefronts(Answer place) {
  for (unsigned i = 0; i < 32; ++i) {
    const int row = wavefronts(4, [&](unsigned lane) { return place(i, lane); });
    const int column = wavefronts(4, [&](unsigned lane) { return place(lane, i); });
    if (row > 1) FAIL("row " << i << " takes " << row << " wavefronts; 1 will do");
    if (column > 1) FAIL("column " << i << " takes " << column << " wavefronts; 1 will do");
  }
}

TEST_CASE("right: each of the 1024 elements has a word of its own") { check_words(place); }
TEST_CASE("cheap: 1 wavefront for every row and every column, not 32") { check_wavefronts(place); }
