// What banks.cu hands in, and who checks it.
#pragma once

#include "../../framework/common/your_turn.hpp"

struct Banks {
  double halved;     ///< tile[i / 2]
  double doubled;    ///< tile[2 * i]
  double tripled;    ///< tile[3 * i]
  double eightfold;  ///< tile[8 * i]
  double column;     ///< tile[32 * i]
  double padded;     ///< tile[33 * i]
  double two_words;  ///< tile[32 * (i % 2)]
};

void check_banks(const Banks& yours, const Banks& solution);
