// Owners of device memory, events and streams: they free what they hold.
#pragma once

#include <utility>
#include <vector>

#include "check.hpp"

/// `size` elements of device memory. They end where the allocation ends, so that compute-sanitizer
/// sees a read beyond.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t size) : DeviceBuffer(size, 0) {}
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) {
    CUDA_CHECK(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  operator T*() const { return data_; }  // so that a kernel takes it as it is
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    CUDA_CHECK(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 protected:
  DeviceBuffer(size_t size, size_t more_bytes) : size_(size) {
    CUDA_CHECK(cudaMalloc(&data_, bytes() + more_bytes));
  }

 private:
  T* data_ = nullptr;
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
