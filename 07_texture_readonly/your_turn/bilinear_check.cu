// Checks bilinear.cu against the texture unit, at many places, inside and beyond the image; then
// the time beside the solution's.
#include <cmath>
#include <cstring>

#include "../../framework/common/your_turn_gpu.hpp"
#include "bilinear.hpp"

namespace {

using your_turn::NotYet;

/// The texture unit rounds a place to 1/256 of a texel, and so each of two weights by up to 1/512.
/// Of texels from 0 to 1 that is 1/256 at most; twice as much is allowed.
constexpr float tolerance = 1.0f / 128;

__global__ void fetch(float* out, cudaTextureObject_t texture, const float2* at, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = tex2D<float>(texture, at[i].x, at[i].y);
}

unsigned blocks_for(size_t n) { return unsigned((n + 255) / 256); }

void launch(const Bilinear& work, float* out, const float* image, int2 size, const float2* at,
            size_t n) {
  work.kernel<<<blocks_for(n), 256>>>(out, image, size.x, size.y, at, n);
}

/// An image as a texture with linear filtering; beyond its sides it goes on as its border.
class Texture {
 public:
  Texture(const std::vector<float>& image, int2 size) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CUDA_CHECK(cudaMallocArray(&array_, &format, size_t(size.x), size_t(size.y)));
    const size_t row = size_t(size.x) * sizeof(float);
    CUDA_CHECK(cudaMemcpy2DToArray(array_, 0, 0, image.data(), row, row, size_t(size.y),
                                   cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array_;
    cudaTextureDesc texture{};
    texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
    texture.filterMode = cudaFilterModeLinear;
    texture.readMode = cudaReadModeElementType;
    CUDA_CHECK(cudaCreateTextureObject(&object_, &resource, &texture, nullptr));
  }
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  ~Texture() {
    cudaDestroyTextureObject(object_);
    cudaFreeArray(array_);
  }
  operator cudaTextureObject_t() const { return object_; }

 private:
  cudaArray_t array_ = nullptr;
  cudaTextureObject_t object_ = 0;
};

/// A number from 0 to 1.
float share_at(size_t i) { return float(your_turn::number_at(i) >> 8) * 0x1p-24f; }

/// Words as they lie in memory.
template <class T>
std::vector<unsigned> words_of(const std::vector<T>& values) {
  std::vector<unsigned> words(values.size() * sizeof(T) / sizeof(unsigned));
  std::memcpy(words.data(), values.data(), values.size() * sizeof(T));
  return words;
}

std::vector<float> image_of(int2 size) {
  std::vector<float> image(size_t(size.x) * size_t(size.y));
  for (size_t i = 0; i < image.size(); ++i) image[i] = share_at(i);
  return image;
}

/// Places from three texels before the image to three behind it.
std::vector<float2> places(int2 size, size_t n) {
  std::vector<float2> at(n);
  for (size_t i = 0; i < n; ++i)
    at[i] = {share_at(2 * i + 7) * float(size.x + 6) - 3,
             share_at(2 * i + 8) * float(size.y + 6) - 3};
  return at;
}

void require_right(const Bilinear& yours, int2 size) {
  constexpr size_t n = 10007;
  const std::string what = "image of " + your_turn::sides(size_t(size.x), size_t(size.y));
  const std::vector<float> image = image_of(size);
  const std::vector<float2> at = places(size, n);
  const Texture texture(image, size);
  const your_turn::Guarded in(words_of(image)), where(words_of(at)), out(n);
  const auto* place = reinterpret_cast<const float2*>(where.data());
  DeviceBuffer<float> fetched(n);
  fetch<<<blocks_for(n), 256>>>(fetched.data(), texture, place, n);
  CUDA_CHECK_LAUNCH();
  const std::vector<float> expected = fetched.to_host();
  out.fill(0xff);
  your_turn::run_kernel(what, [&] {
    launch(yours, reinterpret_cast<float*>(out.data()), reinterpret_cast<const float*>(in.data()),
           size, place, n);
  });
  const std::vector<unsigned> words = out.to_host();
  your_turn::Wrong wrong(what, "samples");
  for (size_t i = 0; i < n; ++i) {
    float found = 0;
    std::memcpy(&found, &words[i], sizeof found);
    wrong.add(std::fabs(found - expected[i]) <= tolerance, [&] {  // not so if it is not a number
      return "at (" + std::to_string(at[i].x) + ", " + std::to_string(at[i].y) + "): expected " +
             std::to_string(expected[i]) + ", found " + std::to_string(found);
    });
  }
  wrong.require_none();
  out.require_untouched_around(what);
  in.require_untouched_around(what);
}

void require_cheap(const Bilinear& yours, const Bilinear& solution) {
  constexpr size_t n = size_t(1) << 22;
  constexpr int2 size{1024, 1024};
  your_turn::watch("4194304 samples", 6);
  const DeviceBuffer<float> image(image_of(size));
  const DeviceBuffer<float2> at(places(size, n));
  DeviceBuffer<float> out(n);
  launch(solution, out.data(), image.data(), size, at.data(), n);
  const std::vector<float> expected = out.to_host();
  const auto wrong = [&] {
    const std::vector<float> found = out.to_host();
    size_t count = 0;
    for (size_t i = 0; i < n; ++i) count += !(std::fabs(found[i] - expected[i]) <= tolerance);
    return count;
  };
  your_turn::require_near(
      "4194304 samples", [&] { launch(yours, out.data(), image.data(), size, at.data(), n); },
      [&] { launch(solution, out.data(), image.data(), size, at.data(), n); },
      {[&] { out.poison(); }, wrong, {}});
}

}  // namespace

void check_bilinear(const Bilinear& yours, const Bilinear& solution) {
  your_turn::require_gpu();
  for (const int2 size : {int2{1, 1}, int2{2, 3}, int2{61, 37}}) require_right(yours, size);
  require_cheap(yours, solution);
}
