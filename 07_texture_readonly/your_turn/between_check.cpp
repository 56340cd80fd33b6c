// Checks between.cu: each of two texels weighted by how near its centre is.
#include <algorithm>
#include <cmath>

#include "between.hpp"

namespace {

constexpr int n = 4;
constexpr double texel[n] = {2, 8, 4, 6};

double read(double x, bool wrap) {
  const double left = std::floor(x - 0.5), share = x - 0.5 - left;
  const auto at = [&](int k) { return texel[wrap ? (k % n + n) % n : std::clamp(k, 0, n - 1)]; };
  return (1 - share) * at(int(left)) + share * at(int(left) + 1);
}

}  // namespace

void check_between(const Between& yours, const Between&) {
  your_turn::watch("five numbers");
  your_turn::require_predicted({
      {"x = 1", yours.border, read(1, false), "between which two centres is that?"},
      {"x = 1.75", yours.quarter, read(1.75, false), "how far is it from the centre at 1.5?"},
      {"x = 0.25", yours.before, read(0.25, false), "what lies to the left of the first texel?"},
      {"x = 9", yours.behind, read(9, false), "what lies to the right of the last texel?"},
      {"x = 1 of wrap", yours.wrapped, read(n * 1.0, true),
       "what lies to the right of the last texel?"},
  });
}
