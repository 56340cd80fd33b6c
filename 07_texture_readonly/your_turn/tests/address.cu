// Answers to address that are wrong or dear, and what the check has to say of them.
#include <cmath>
#include "address.hpp"

namespace {

// answer address_truncated: not yet: wrap, n = 2: at x = -99.875 texel -1 is out of bounds
namespace truncated {

int clamp(float x, int n) {
  return int(std::fmin(std::fmax(std::floor(x * float(n)), 0.0f), float(n - 1)));
}

int wrap(float x, int n) { return int((x - float(int(x))) * float(n)); }

int mirror(float x, int n) { return wrap(x, n); }

YOUR_TURN_TEST(address, truncated, Address, {clamp, wrap, mirror});

}  // namespace truncated

// answer address_one_way: not yet: mirror, n = 2: [0-9]+ of 1200 texels are wrong, the first at x =
// -98.875: expected 1, found 0
namespace one_way {

int clamp(float x, int n) {
  return int(std::fmin(std::fmax(std::floor(x * float(n)), 0.0f), float(n - 1)));
}

int wrap(float x, int n) { return int((x - std::floor(x)) * float(n)); }

int mirror(float x, int n) { return wrap(x, n); }

YOUR_TURN_TEST(address, one_way, Address, {clamp, wrap, mirror});

}  // namespace one_way

}  // namespace
