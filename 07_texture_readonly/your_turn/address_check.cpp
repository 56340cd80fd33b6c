// Checks address.cu against what the modes mean, counted in whole texels: texel k lies at
// coordinates from k / n to (k + 1) / n, for negative k and those beyond n as well.
#include <cstdio>

#include "address.hpp"

namespace {

using your_turn::NotYet;

int clamped(int k, int n) { return k < 0 ? 0 : k < n ? k : n - 1; }
int wrapped(int k, int n) { return (k % n + n) % n; }
int mirrored(int k, int n) {  // there and back again is 2 n
  const int there = wrapped(k, 2 * n);
  return there < n ? there : 2 * n - 1 - there;
}

struct Mode {
  const char* name;
  int (*yours)(float x, int n);
  int (*right)(int k, int n);
};

std::string shown(float x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", double(x));
  return text;
}

/// All places of `periods` widths to both sides, a quarter off and in the middle of each texel.
void require_right(const Mode& mode, int n, int periods) {
  const std::string what = std::string(mode.name) + ", n = " + std::to_string(n);
  your_turn::watch(what);
  your_turn::Wrong wrong(what, "texels");
  for (int k = -periods * n; k < periods * n; ++k)
    for (const float inside : {0.25f, 0.5f, 0.75f}) {
      const float x = (float(k) + inside) / float(n);
      const int found = mode.yours(x, n), expected = mode.right(k, n);
      if (found < 0 || found >= n)
        throw NotYet(what + ": at x = " + shown(x) + " texel " + std::to_string(found) +
                     " is out of bounds");
      wrong.add(found == expected, [&] {
        return "at x = " + shown(x) + ": expected " + std::to_string(expected) + ", found " +
               std::to_string(found);
      });
    }
  wrong.require_none();
}

/// A long way out, where x * n is beyond 32 bits, or beyond the 24 that a float has.
void require_right_far_out(const Mode& mode, int n) {
  const std::string what = std::string(mode.name) + ", n = " + std::to_string(n);
  your_turn::watch(what);
  your_turn::Wrong wrong(what, "texels");
  const auto look = [&](float x, int expected) {
    const int found = mode.yours(x, n);
    wrong.add(found == expected, [&] {
      return "at x = " + shown(x) + ": expected " + std::to_string(expected) + ", found " +
             std::to_string(found);
    });
  };
  for (const int period : {-3000001, -3000000, -99999, 99998, 3000000, 3000001})
    for (const float inside : {0.25f, 0.5f, 0.75f}) {
      const int k = int(inside * float(n));
      if (float(k) == inside * float(n)) continue;  // the border of two texels
      const int in_two_periods = period % 2 == 0 ? k : n + k;
      const int beyond = period < 0 ? -1 : n;  // all that clamp looks at
      look(float(period) + inside, mode.right(mode.right == clamped ? beyond : in_two_periods, n));
    }
  if (mode.right == clamped)
    for (const float x : {1e10f, 3e38f}) {
      look(x, n - 1);
      look(-x, 0);
    }
  wrong.require_none();
}

}  // namespace

void check_address(const Address& yours, const Address&) {
  const Mode modes[] = {{"clamp", yours.clamp, clamped},
                        {"wrap", yours.wrap, wrapped},
                        {"mirror", yours.mirror, mirrored}};
  for (const Mode& mode : modes)
    for (const int n : {1, 2, 7, 8, 1009}) require_right(mode, n, n < 10 ? 100 : 3);
  for (const Mode& mode : modes)
    for (const int n : {1, 2, 7, 1009, 131071}) require_right_far_out(mode, n);
}
