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

}  // namespace

void check_address(const Address& yours, const Address&) {
  for (const Mode& mode : {Mode{"clamp", yours.clamp, clamped}, Mode{"wrap", yours.wrap, wrapped},
                           Mode{"mirror", yours.mirror, mirrored}})
    for (const int n : {1, 2, 7, 8, 1009}) require_right(mode, n, n < 10 ? 100 : 3);
}
