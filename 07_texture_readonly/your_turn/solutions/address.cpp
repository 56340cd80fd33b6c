// address: a texture of n texels is read at a normalised coordinate x, in point mode: texel k lies
// at x from k / n to (k + 1) / n. Beyond 0 and 1 the address mode decides:
//
//   clamp   the first texel, or the last:                  ... 0 0 0 | 0 1 2 3 | 3 3 3 3 ...
//   wrap    the texels once more, from the beginning:      ... 1 2 3 | 0 1 2 3 | 0 1 2 3 ...
//   mirror  the texels there and back again:               ... 2 1 0 | 0 1 2 3 | 3 2 1 0 ...
//
// Write the three in plain code. Right: the texel for every n up to 131,071 and every x, on both
// sides, also where x * n is too large for an int. (No x is so near the border of two texels that
// rounding decides.)
//
// Difficulty 2 of 5, about 20 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_address
//   build/release/07_texture_readonly/your_address
#include <algorithm>
#include <cmath>

// [your turn]

// Down, not towards 0: floor(-0.25) is -1, and int(-0.25) is 0. So what lies left of 0 counts on
// from the right end. Each takes a few instructions; the texture unit does it for nothing.

/// Each the number of the texel, 0 to n - 1, that is read at x.
int clamp(float x, int n) {
  return int(std::fmin(std::fmax(std::floor(x * float(n)), 0.0f), float(n - 1)));
}

int wrap(float x, int n) {
  const float within = x - std::floor(x);  // from 0 to 1, which -1e-9 is rounded to
  return std::min(int(within * float(n)), n - 1);
}

int mirror(float x, int n) {
  const float period = std::floor(x);
  float within = x - period;
  if (std::fmod(period, 2.0f) != 0) within = 1 - within;  // every second one goes back
  return std::min(int(within * float(n)), n - 1);
}

// [/your turn]

#include "../address_check.hpp"

WRONG_ANSWER("wrap: towards 0, not down") {
  check_near([](float x, int n) { return (int(x * float(n)) % n + n) % n; }, wrapped);
}
WRONG_ANSWER("wrap: the texels on from 0 are counted in an int") {
  check_far([](float x, int n) { return (int((long long)(std::floor(x * float(n)))) % n + n) % n; },
            wrapped);
}
WRONG_ANSWER("mirror: every width goes back") {
  check_near([](float x, int n) { return n - 1 - wrap(x, n); }, mirrored);
}
WRONG_ANSWER("clamp: the place is counted in an int") {
  check_clamp_far([](float x, int n) {
    return std::clamp(int((long long)(std::floor(x * float(n)))), 0, n - 1);
  });
}
