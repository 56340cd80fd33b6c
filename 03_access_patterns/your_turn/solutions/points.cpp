// points: n points have fields x, y and z of 4 bytes each. A struct { float x, y, z; } puts them 12
// bytes apart, and a warp whose lanes read x of 32 neighbouring points moves 12 sectors of 32
// bytes, of which it uses a third. Find a layout in which it moves 4, for each of the three fields.
//
// Write two functions. The array begins on a sector, and may have up to 96 words more than the
// 3 * n that are needed. Right: every field of every point has a word of its own, for every n.
// Cheap: 4 sectors for the same field of points 0 to 31, 32 to 63, and so on.
//
// Difficulty 2 of 5, about 15 minutes. Needs no GPU.
//
//   cmake --build build/release --target your_points
//   build/release/03_access_patterns/your_points
#include <cstddef>

enum Field { x, y, z };

// [your turn]

// Tiles of 32 points: 32 words of x, then 32 of y, then 32 of z. A warp's 32 words are neighbours
// and begin on a line, whatever n is. (A whole array for each field does as well if each begins on
// a sector: with n words apart, y and z of n = 1009 lie across 5.)
constexpr size_t tile = 32;

/// Words of 4 bytes that the array has for n points.
size_t words_for(size_t n) { return (n + tile - 1) / tile * tile * 3; }

/// The index of the word in which a field (x, y or z) of point i lies.
size_t word_of(size_t i, Field field, size_t n) {
  return i / tile * tile * 3 + field * tile + i % tile;
}

// [/your turn]

#include "../points_check.hpp"

WRONG_ANSWER("an array of structures") {
  check_sectors([](size_t i, Field field, size_t) { return 3 * i + field; });
}
WRONG_ANSWER("three arrays that follow each other at once") {
  check_sectors([](size_t i, Field field, size_t n) { return field * n + i; });
}
WRONG_ANSWER("tiles, without room for the last one's gaps") {
  check_words([](size_t n) { return 3 * n; }, word_of);
}
