// What is checked of the five predictions. Included behind the answer.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "../../common/exercise.hpp"

/// Of the two texels around x, each weighted by how near its centre is. x counts texels.
inline double reading(double x, bool wrap = false) {
  constexpr double texel[] = {2, 8, 4, 6};
  const auto at = [&](int k) { return texel[wrap ? (k + 4) % 4 : std::clamp(k, 0, 3)]; };
  const double left = std::floor(x - 0.5), share = x - 0.5 - left;
  return (1 - share) * at(int(left)) + share * at(int(left) + 1);
}

struct Prediction {
  std::string at;
  double yours, right;
  std::string consider;
};
const Prediction predictions[] = {
    {"x = 1", border, reading(1), "between which two centres is that?"},
    {"x = 1.75", quarter, reading(1.75), "how far is it from the centre at 1.5?"},
    {"x = 0.25", before, reading(0.25), "what lies to the left of the first texel?"},
    {"x = 9", behind, reading(9), "what lies to the right of the last texel?"},
    {"x = 1 by wrap", wrapped, reading(4, true), "what lies to the right of the last texel?"},
};

TEST_CASE("right: all five") {
  for (const auto& [at, yours, right, consider] : predictions)
    if (yours != right) FAIL_CHECK(at << ": not " << yours << "; " << consider);
}
