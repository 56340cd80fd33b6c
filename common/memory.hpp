// Device memory, pinned memory, events and streams.
#pragma once

#include <memory>
#include <vector>

#include "check.hpp"

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

__host__ __device__ constexpr size_t ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }

/// `size` elements of device memory. A handle: a copy means the same memory, and the last one frees
/// it. So work captures its buffers by value, [=], and keeps them alive. A kernel, or a lambda of
/// the device, takes data(). The memory ends where the allocation ends, so that compute-sanitizer
/// sees a read beyond.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t size) : DeviceBuffer(size, 0) {}
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) {
    CUDA_CHECK(cudaMemcpy(data(), host.data(), bytes(), cudaMemcpyHostToDevice));
  }

  T* data() const { return data_.get(); }
  operator T*() const { return data(); }  // so that a kernel takes it as it is
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  /// The same memory, seen as another type.
  template <class U>
  U* as() const {
    return reinterpret_cast<U*>(data());
  }
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    CUDA_CHECK(cudaMemcpy(host.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 protected:
  DeviceBuffer(size_t size, size_t more_bytes) : size_(size) {
    T* data = nullptr;
    CUDA_CHECK(cudaMalloc(&data, bytes() + more_bytes));
    data_ = {data, [](T* p) { cudaFree(p); }};
  }

 private:
  std::shared_ptr<T> data_;
  size_t size_ = 0;
};

/// What a kernel writes: `size` elements, and behind them a guard that nobody may write.
template <class T>
class GuardedBuffer : public DeviceBuffer<T> {
 public:
  static constexpr size_t guard_bytes = 256;

  explicit GuardedBuffer(size_t size) : DeviceBuffer<T>(size, guard_bytes) { poison(); }
  /// Every byte becomes 0xff (NaN, -1): what a kernel does not write is not taken for right. Waits.
  void poison() const {
    CUDA_CHECK(cudaMemset(this->data(), 0xff, this->bytes() + guard_bytes));
    CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for a memset
  }
};

/// `size` elements of pinned host memory, which copy engines and kernels reach by themselves. A
/// handle, too. Throws CudaError if the host has not enough.
template <class T>
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t size, unsigned flags = cudaHostAllocDefault) : size_(size) {
    T* data = nullptr;
    CUDA_CHECK(cudaHostAlloc(&data, bytes(), flags));
    data_ = {data, [](T* p) { cudaFreeHost(p); }};
  }

  T* data() const { return data_.get(); }
  operator T*() const { return data(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  std::shared_ptr<T> data_;
  size_t size_ = 0;
};

class Event {
 public:
  Event() { CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};
