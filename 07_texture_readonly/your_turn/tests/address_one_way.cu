// answer: not yet: mirror, n = 2: [0-9]+ of 1200 texels are wrong, the first at x = -98.875:
// expected 1, found 0
#include <cmath>
#include "address.hpp"

namespace {

int clamp(float x, int n) {
  return int(std::fmin(std::fmax(std::floor(x * float(n)), 0.0f), float(n - 1)));
}

int wrap(float x, int n) { return int((x - std::floor(x)) * float(n)); }

int mirror(float x, int n) { return wrap(x, n); }

}  // namespace

YOUR_TURN(address, Address, {clamp, wrap, mirror});
