// between: a prediction. A one-dimensional texture has four texels, 2, 8, 4 and 6, and is read with
// linear filtering. Texel k lies from x = k to x = k + 1, and its centre is in the middle. Unless
// the comment says otherwise, coordinates are not normalised and the address mode is clamp. Which
// values are read?
//
// Right: all five.
//
// Difficulty 2 of 5, about 10 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_between
//   build/release/07_texture_readonly/your_between

// [your turn]

// Centres are at 0.5, 1.5, 2.5 and 3.5. x = 1 is halfway from 2 to 8; x = 1.75 is a quarter of the
// way from 8 to 4. x = 0.25 is before the first centre, where clamp has the first texel on both
// sides; x = 9 is behind the last. Normalised, x = 1 is the border of the last texel and the first,
// which wrap makes neighbours.

/// What is read there.
constexpr double border = 5;   // x = 1
constexpr double quarter = 7;  // x = 1.75
constexpr double before = 2;   // x = 0.25
constexpr double behind = 6;   // x = 9
constexpr double wrapped = 4;  // x = 1, if coordinates are normalised and the address mode is wrap

// [/your turn]

#include "../between_check.hpp"

WRONG_ANSWER("centres at whole numbers") { check({8, 5, 3.5, 6, 2}); }
WRONG_ANSWER("beyond the image there is nothing") { check({border, quarter, 1, 0, wrapped}); }
