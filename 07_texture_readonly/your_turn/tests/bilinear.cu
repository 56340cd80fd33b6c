// Answers to bilinear that are wrong or dear, and what the check has to say of them.
#include "bilinear.hpp"

namespace {

// answer bilinear_nearest: not yet: image of 2 x 3: [0-9]+ of 10007 samples are wrong, the first at
// [(].+[)]: expected [0-9.]+, found [0-9.]+
namespace nearest {

__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  const int column = min(max(int(floorf(x)), 0), width - 1);
  const int row = min(max(int(floorf(y)), 0), height - 1);
  return image[row * width + column];
}

__global__ void sample(float* out, const float* image, int width, int height, const float2* at,
                       size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = bilinear(image, width, height, at[i].x, at[i].y);
}

YOUR_TURN_TEST(bilinear, nearest, Bilinear, {sample});

}  // namespace nearest

// answer bilinear_unclamped: not yet: image of 1 x 1: (the kernel reads or writes out of bounds
// [(]cudaErrorIllegalAddress[)]|[0-9]+ of 10007 samples are wrong, .+)
namespace unclamped {

__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  const float left = floorf(x - 0.5f), top = floorf(y - 0.5f);
  const float across = x - 0.5f - left, down = y - 0.5f - top;
  const float* above = image + (long long)(top)*width + (long long)(left);
  const float* below = above + width;
  const float upper = above[0] + across * (above[1] - above[0]);
  const float lower = below[0] + across * (below[1] - below[0]);
  return upper + down * (lower - upper);
}

__global__ void sample(float* out, const float* image, int width, int height, const float2* at,
                       size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = bilinear(image, width, height, at[i].x, at[i].y);
}

YOUR_TURN_TEST(bilinear, unclamped, Bilinear, {sample});

}  // namespace unclamped

// answer bilinear_coarse: not yet: image of 2 x 3: [0-9]+ of 10007 samples are wrong, the first at
// [(].+[)]: expected [0-9.]+, found [0-9.]+
namespace coarse {

__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  const float left = floorf(x - 0.5f), top = floorf(y - 0.5f);
  const float across = rintf(16 * (x - 0.5f - left)) / 16;  // weights of 1/16: off by up to 1/32
  const float down = rintf(16 * (y - 0.5f - top)) / 16;
  const int x0 = min(max(int(left), 0), width - 1), x1 = min(max(int(left) + 1, 0), width - 1);
  const int y0 = min(max(int(top), 0), height - 1), y1 = min(max(int(top) + 1, 0), height - 1);
  const float* above = image + size_t(y0) * width;
  const float* below = image + size_t(y1) * width;
  const float upper = above[x0] + across * (above[x1] - above[x0]);
  const float lower = below[x0] + across * (below[x1] - below[x0]);
  return upper + down * (lower - upper);
}

__global__ void sample(float* out, const float* image, int width, int height, const float2* at,
                       size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = bilinear(image, width, height, at[i].x, at[i].y);
}

YOUR_TURN_TEST(bilinear, coarse, Bilinear, {sample});

}  // namespace coarse

// answer bilinear_endless: not yet: image of 1 x 1: does not end within [0-9]+ s
namespace endless {

__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  volatile const float* first = image;
  while (*first >= 0) continue;
  return image[0];
}

__global__ void sample(float* out, const float* image, int width, int height, const float2* at,
                       size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = bilinear(image, width, height, at[i].x, at[i].y);
}

YOUR_TURN_TEST(bilinear, endless, Bilinear, {sample});

}  // namespace endless

// answer bilinear_empty_endless: not yet: image of 1 x 1: does not end within [0-9]+ s
namespace empty_endless {

__device__ float bilinear(const float* image, int width, int height, float x, float y) {
  const float left = floorf(x - 0.5f), top = floorf(y - 0.5f);
  const float across = x - 0.5f - left, down = y - 0.5f - top;
  while (across >= 0) continue;  // always; the compiler leaves it there
  const int x0 = min(max(int(left), 0), width - 1), x1 = min(max(int(left) + 1, 0), width - 1);
  const int y0 = min(max(int(top), 0), height - 1), y1 = min(max(int(top) + 1, 0), height - 1);
  const float* above = image + size_t(y0) * width;
  const float* below = image + size_t(y1) * width;
  const float upper = above[x0] + across * (above[x1] - above[x0]);
  const float lower = below[x0] + across * (below[x1] - below[x0]);
  return upper + down * (lower - upper);
}

__global__ void sample(float* out, const float* image, int width, int height, const float2* at,
                       size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = bilinear(image, width, height, at[i].x, at[i].y);
}

YOUR_TURN_TEST(bilinear, empty_endless, Bilinear, {sample});

}  // namespace empty_endless

}  // namespace
