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

/// What is read there.
constexpr double border = 0;   // x = 1
constexpr double quarter = 0;  // x = 1.75
constexpr double before = 0;   // x = 0.25
constexpr double behind = 0;   // x = 9
constexpr double wrapped = 0;  // x = 1, if coordinates are normalised and the address mode is wrap

// [/your turn]

#include "between_check.hpp"
