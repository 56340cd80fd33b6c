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

// answer address_clamp_of_32_bits: not yet: clamp, n = 2: 2 of [0-9]+ texels are wrong, the first
// at x = 1e[+]10: expected 1, found 0
namespace clamp_of_32_bits {

int clamp(float x, int n) {
  const float k = std::floor(x * float(n));
  const int texel = std::fabs(k) < 2147483648.0f ? int(k) : -1;  // what a CPU makes of such an int
  return texel < 0 ? 0 : texel < n ? texel : n - 1;
}

int wrap(float x, int n) { return int((x - std::floor(x)) * float(n)); }

int mirror(float x, int n) {
  const float within = x / 2 - std::floor(x / 2);
  const int there = int(within * float(2 * n));
  return there < n ? there : 2 * n - 1 - there;
}

YOUR_TURN_TEST(address, clamp_of_32_bits, Address, {clamp, wrap, mirror});

}  // namespace clamp_of_32_bits

// answer address_of_32_bits: not yet: wrap, n = 1009: [0-9]+ of 18 texels are wrong, the first at x
// = -3e[+]06: expected [0-9]+, found [0-9]+
namespace of_32_bits {

int clamp(float x, int n) {
  return int(std::fmin(std::fmax(std::floor(x * float(n)), 0.0f), float(n - 1)));
}

int wrap(float x, int n) {
  const double k = std::floor(double(x) * n);
  const int texel = std::fabs(k) < 2147483648.0 ? int(k) : -2147483647 - 1;
  return (texel % n + n) % n;
}

int mirror(float x, int n) {
  const int there = wrap(x / 2, 2 * n);
  return there < n ? there : 2 * n - 1 - there;
}

YOUR_TURN_TEST(address, of_32_bits, Address, {clamp, wrap, mirror});

}  // namespace of_32_bits

}  // namespace
