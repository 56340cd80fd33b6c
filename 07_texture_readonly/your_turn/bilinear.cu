// bilinear: an image is read between its texels, as the texture unit does it with linear filtering:
// from the four texels around the place, each weighted by how near it is. Texel (0, 0) is the
// square from (0, 0) to (1, 1), so its centre is at (0.5, 0.5). Beyond its sides the image goes on
// as its border (clamp).
//
// Right: as the texture unit within 1/128, for texels from 0 to 1, inside and beyond the image. No
// texel out of bounds is read. (The unit rounds places to 1/256 of a texel; you need not.)
//
// Difficulty 3 of 5, about 30 minutes. Needs a GPU.
//
//   cmake --build build/release --target your_bilinear
//   build/release/07_texture_readonly/your_bilinear

// [your turn]

/// The image at (x, y). Texel (column, row) is image[row * width + column].
__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  return 0;  // write it
}

// [/your turn]

#include "bilinear_check.hpp"
