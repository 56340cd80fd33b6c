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

/// Each the number of the texel, 0 to n - 1, that is read at x.
int clamp(float x, int n) {
  return 0;  // write it
}

int wrap(float x, int n) {
  return 0;  // write it
}

int mirror(float x, int n) {
  return 0;  // write it
}

// [/your turn]

#include "address_check.hpp"
