// What a texture is made of: the memory (a CUDA array, or pitched rows) and the texture object
// itself. All are handles: a copy is the same thing, and the last one frees it.
//
//   CudaArray array = CudaArray::of<float>({width, height, 0});
//   array.copy_from(texels);
//   Texture texture(array_resource(array), texture_desc(cudaAddressModeClamp));
//   kernel<<<grid, block>>>(texture, ...);  // whose parameter is a cudaTextureObject_t
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../common/memory.hpp"

/// Owns a CUDA array (cudaMalloc3DArray), in the GPU's own order of texels.
///
/// The extent, in elements, tells the kind: {w, 0, 0} is 1D, {w, h, 0} 2D, {w, h, d} 3D; with
/// cudaArrayLayered in `flags` the depth counts layers ({w, 0, layers}, {w, h, layers}), with
/// cudaArrayCubemap it is {w, w, 6}, with both {w, w, 6 x cubemaps}.
class CudaArray {
 public:
  /// Throws CudaError where the device refuses the element type or the extent.
  CudaArray(const cudaChannelFormatDesc& desc, cudaExtent extent, unsigned flags = cudaArrayDefault)
      : extent_(extent) {
    cudaArray_t array = nullptr;
    CUDA_CHECK(cudaMalloc3DArray(&array, &desc, extent, flags));
    array_ = {array, [](cudaArray_t a) { cudaFreeArray(a); }};
  }
  /// An array of elements of type T: char, short, int, float and their vectors of 2 and 4.
  template <class T>
  static CudaArray of(cudaExtent extent, unsigned flags = cudaArrayDefault) {
    return {cudaCreateChannelDesc<T>(), extent, flags};
  }

  operator cudaArray_t() const { return array_.get(); }
  cudaExtent extent() const { return extent_; }
  /// Elements that the array holds; a dimension that it lacks counts once.
  size_t size() const { return extent_.width * rows() * slices(); }

  /// Copies all texels, x fastest, then y, then z or layer, and waits. T is the element type.
  template <class T>
  void copy_from(const std::vector<T>& host) {
    if (host.size() != size())
      throw std::length_error("CudaArray::copy_from: the array holds another number of texels");
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<T*>(host.data()), extent_.width * sizeof(T),
                                      extent_.width, rows());
    copy.dstArray = array_.get();
    copy.extent = make_cudaExtent(extent_.width, rows(), slices());
    copy.kind = cudaMemcpyHostToDevice;
    CUDA_CHECK(cudaMemcpy3D(&copy));
  }

 private:
  size_t rows() const { return std::max<size_t>(extent_.height, 1); }
  size_t slices() const { return std::max<size_t>(extent_.depth, 1); }
  std::shared_ptr<cudaArray> array_;
  cudaExtent extent_;
};

/// Owns rows of `width` elements in plain device memory (cudaMallocPitch), each row beginning where
/// a texture may.
template <class T>
class PitchedBuffer {
 public:
  PitchedBuffer(size_t width, size_t height) : width_(width), height_(height) {
    T* data = nullptr;
    CUDA_CHECK(cudaMallocPitch(&data, &pitch_, width * sizeof(T), height));
    data_ = {data, [](T* p) { cudaFree(p); }};
  }

  T* data() const { return data_.get(); }
  size_t pitch() const { return pitch_; }  ///< bytes from row to row
  size_t width() const { return width_; }
  size_t height() const { return height_; }

  /// Copies `width` x `height` elements without gaps, row by row, and waits.
  void copy_from(const std::vector<T>& host) {
    if (host.size() != width_ * height_)
      throw std::length_error("PitchedBuffer::copy_from: another number of elements");
    const size_t row = width_ * sizeof(T);
    CUDA_CHECK(
        cudaMemcpy2D(data(), pitch_, host.data(), row, row, height_, cudaMemcpyHostToDevice));
  }

 private:
  std::shared_ptr<T> data_;
  size_t pitch_ = 0, width_, height_;
};

/// Plain device memory of `bytes` bytes as what a texture reads (by tex1Dfetch alone).
inline cudaResourceDesc linear_resource(void* data, const cudaChannelFormatDesc& desc,
                                        size_t bytes) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = data;
  resource.res.linear.desc = desc;
  resource.res.linear.sizeInBytes = bytes;
  return resource;
}

/// Pitched rows as what a 2D texture reads; `width` and `height` in elements, `pitch` in bytes.
inline cudaResourceDesc pitched_resource(void* data, const cudaChannelFormatDesc& desc,
                                         size_t width, size_t height, size_t pitch) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = data;
  resource.res.pitch2D.desc = desc;
  resource.res.pitch2D.width = width;
  resource.res.pitch2D.height = height;
  resource.res.pitch2D.pitchInBytes = pitch;
  return resource;
}
template <class T>
cudaResourceDesc pitched_resource(const PitchedBuffer<T>& rows) {
  return pitched_resource(rows.data(), cudaCreateChannelDesc<T>(), rows.width(), rows.height(),
                          rows.pitch());
}

/// A CUDA array as what a texture reads.
inline cudaResourceDesc array_resource(cudaArray_t array) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

/// How a texture reads. `address` is applied to the first `dims` dimensions, which should be no
/// more than the texture has: a 1D texture is read as a 2D one at y = 0, and with linear filtering
/// a border mode for y shows. As it stands: texel by texel, clamped at the edges, coordinates
/// counted in texels, values as they are stored.
inline cudaTextureDesc texture_desc(cudaTextureAddressMode address = cudaAddressModeClamp,
                                    cudaTextureFilterMode filter = cudaFilterModePoint,
                                    bool normalized = false,
                                    cudaTextureReadMode read = cudaReadModeElementType,
                                    int dims = 3) {
  cudaTextureDesc desc{};
  std::fill_n(desc.addressMode, dims, address);
  desc.filterMode = filter;
  desc.readMode = read;
  desc.normalizedCoords = normalized;
  return desc;
}

/// A texture object. It does not hold the memory that it reads.
class Texture {
 public:
  Texture() = default;
  /// Throws CudaError where the combination does not exist.
  explicit Texture(const cudaResourceDesc& resource, const cudaTextureDesc& desc = texture_desc()) {
    cudaTextureObject_t object = 0;
    CUDA_CHECK(cudaCreateTextureObject(&object, &resource, &desc, nullptr));
    object_ = {new cudaTextureObject_t(object), [](cudaTextureObject_t* o) {
                 cudaDestroyTextureObject(*o);
                 delete o;
               }};
  }
  operator cudaTextureObject_t() const { return *object_; }

 private:
  std::shared_ptr<cudaTextureObject_t> object_;
};
