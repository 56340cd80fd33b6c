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
  double right;
  std::string consider;
};
const Prediction predictions[] = {
    {"x = 1", reading(1), "between which two centres is that?"},
    {"x = 1.75", reading(1.75), "how far is it from the centre at 1.5?"},
    {"x = 0.25", reading(0.25), "what lies to the left of the first texel?"},
    {"x = 9", reading(9), "what lies to the right of the last texel?"},
    {"x = 1 by wrap", reading(4, true), "what lies to the right of the last texel?"},
};

inline void check(const double (&yours)[5]) {
  for (size_t k = 0; k < 5; ++k) {
    const auto& [at, right, consider] = predictions[k];
    if (yours[k] != right) FAIL_CHECK(at << ": not " << yours[k] << "; " << consider);
  }
}

TEST_CASE("right: all five") { check({border, quarter, before, behind, wrapped}); }
