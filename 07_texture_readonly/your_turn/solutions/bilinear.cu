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

// Half a texel back, as centres are what is weighted; down, not towards 0. Each of the four texels
// is clamped by itself, so that beyond a side both neighbours are the border. Four loads, which hit
// L1 for neighbouring places, and three blends.

/// The image at (x, y). Texel (column, row) is image[row * width + column].
__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  const float left = floorf(x - 0.5f), top = floorf(y - 0.5f);
  const float across = x - 0.5f - left, down = y - 0.5f - top;  // from 0 to 1
  const int x0 = min(max(int(left), 0), width - 1), x1 = min(max(int(left) + 1, 0), width - 1);
  const int y0 = min(max(int(top), 0), height - 1), y1 = min(max(int(top) + 1, 0), height - 1);
  const float* above = image + size_t(y0) * width;
  const float* below = image + size_t(y1) * width;
  const float upper = above[x0] + across * (above[x1] - above[x0]);
  const float lower = below[x0] + across * (below[x1] - below[x0]);
  return upper + down * (lower - upper);
}

// [/your turn]

#include "../bilinear_check.hpp"

WRONG_ANSWER("centres at whole numbers") {
  if (skip_without_gpu()) FAIL("not run");
  check_places([] __device__(const float* image, int width, int height, float x, float y) {
    return bilinear(image, width, height, x + 0.5f, y + 0.5f);
  });
}
WRONG_ANSWER("the place is clamped, so that the border has no width") {
  if (skip_without_gpu()) FAIL("not run");
  check_places([] __device__(const float* image, int width, int height, float x, float y) {
    return bilinear(image, width, height, fminf(fmaxf(x, 0), width - 1),
                    fminf(fmaxf(y, 0), height - 1));
  });
}
WRONG_ANSWER("places by 32nds of a texel are too coarse") {
  if (skip_without_gpu()) FAIL("not run");
  check_places([] __device__(const float* image, int width, int height, float x, float y) {
    return bilinear(image, width, height, rintf(x * 32) / 32, rintf(y * 32) / 32);
  });
}
