// An owner of pinned host memory, which copy engines and kernels reach by themselves.
#pragma once

#include <cuda_runtime.h>

#include "../common/check.hpp"

/// n elements. Throws CudaError if the host has not enough.
template <class T>
class Pinned {
 public:
  explicit Pinned(size_t n) { CUDA_CHECK(cudaMallocHost(&data_, n * sizeof(T))); }
  Pinned(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  T* data() const { return data_; }
  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
};
