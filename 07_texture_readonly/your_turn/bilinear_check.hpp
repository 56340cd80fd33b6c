// What is checked of the interpolation. Included behind the answer.
#pragma once

#include <cmath>

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"
#include "../texture.cuh"

// The texture unit rounds a place to 1/256 of a texel, and so each of two weights by up to 1/512.
// Of texels from 0 to 1 that is 1/256 at most; twice as much is allowed.
constexpr float tolerance = 1.0f / 128;

struct Yours {
  __device__ float operator()(const float* image, int width, int height, float x, float y) const {
    return bilinear(image, width, height, x, y);
  }
};

template <class Read>
static __global__ void sample(Read read, float* out, const float* image, int width, int height,
                              const float2* at, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = read(image, width, height, at[i].x, at[i].y);
}

static __global__ void fetch(float* out, cudaTextureObject_t texture, const float2* at, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(texture, at[i].x, at[i].y);
}

inline unsigned blocks_for(size_t n) { return unsigned((n + 255) / 256); }

/// A number from 0 to 1.
__host__ __device__ inline float share(size_t i) { return float(hash(i) >> 8) * 0x1p-24f; }

/// n texels from 0 to 1, behind and before `border` words that are not a number.
inline DeviceBuffer<float> bordered_texels(size_t border, size_t n) {
  return filled<float>(n + 2 * border, [border, n] __device__(size_t i) {
    return i >= border && i < border + n ? share(i) : NAN;
  });
}

/// An image in plain memory, whose reads out of bounds show, and as a texture.
struct Image {
  int width, height;
  size_t border = 4 * (size_t(width) + 1);  // up to four rows out of bounds
  DeviceBuffer<float> words = bordered_texels(border, size_t(width) * size_t(height));
  const float* rows = words + border;
  CudaArray array = CudaArray::of<float>({size_t(width), size_t(height), 0});
  Texture texture{array_resource(array), texture_desc(cudaAddressModeClamp, cudaFilterModeLinear)};

  Image(int width, int height) : width(width), height(height) {
    const size_t row = size_t(width) * sizeof(float);
    CUDA_CHECK(
        cudaMemcpy2DToArray(array, 0, 0, rows, row, row, size_t(height), cudaMemcpyDeviceToDevice));
  }
};

template <class Read>
void launch_answer(Read read, float* out, const Image& image, const float2* at, size_t n) {
  sample<<<blocks_for(n), 256>>>(read, out, image.rows, image.width, image.height, at, n);
}

inline void launch_fetches(float* out, const Image& image, const float2* at, size_t n) {
  fetch<<<blocks_for(n), 256>>>(out, image.texture, at, n);
}

template <class Read>
void check_places(Read read) {
  constexpr size_t n = 10007;
  constexpr std::pair<int, int> shapes[] = {{1, 1}, {2, 3}, {61, 37}};
  for (const auto& [width, height] : shapes) {
    CAPTURE(width);
    CAPTURE(height);
    const Image image(width, height);
    const auto place = [w = width, h = height] __device__(size_t i) {  // up to 3 texels beyond
      return float2{share(2 * i) * float(w + 6) - 3, share(2 * i + 1) * float(h + 6) - 3};
    };
    const auto at = filled<float2>(n, place);
    const GuardedBuffer<float> out(n), fetched(n);
    launch_answer(read, out, image, at, n);
    launch_fetches(fetched, image, at, n);
    CUDA_CHECK_LAUNCH();
    const auto found = out.to_host(), right = fetched.to_host();
    const auto places = at.to_host();
    for (size_t i = 0; i < n; ++i)
      if (!(std::fabs(found[i] - right[i]) <= tolerance))  // not so either if it is no number
        FAIL("at (" << places[i].x << ", " << places[i].y << ") it is " << found[i]
                    << "; the texture unit has " << right[i]);
    CHECK(guard_error(out) == "");
  }
}

TEST_CASE("right: as the texture unit, inside and beyond the image") {
  if (!skip_without_gpu()) check_places(Yours{});
}
