// Device memory, pinned memory, events and streams: handles, whose last copy frees what they hold.
#pragma once

#include <memory>
#include <vector>

#include "check.hpp"

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

__host__ __device__ constexpr size_t ceil_div(size_t n, size_t by) { return (n + by - 1) / by; }

/// `size` elements of device memory. A copy is the same memory: work captures its buffers by value,
/// [=], and so keeps them; a lambda of the device captures data(). The memory ends where the
/// allocation ends, so that compute-sanitizer sees a read beyond.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  ///< of nothing, so far
  explicit DeviceBuffer(size_t size) : DeviceBuffer(size, 0) {}
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) {
    CUDA_CHECK(cudaMemcpy(data(), host.data(), bytes(), cudaMemcpyHostToDevice));
  }

  T* data() const { return data_.get(); }
  operator T*() const { return data(); }  // so that a kernel takes it as it is
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  /// The same memory, as elements of another type.
  template <class U>
  DeviceBuffer<U> as() const {
    return {{data_, reinterpret_cast<U*>(data())}, bytes() / sizeof(U)};
  }
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    CUDA_CHECK(cudaMemcpy(host.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 protected:
  DeviceBuffer(size_t size, size_t guard_bytes) : size_(size) {  // on each side
    char* all = nullptr;
    CUDA_CHECK(cudaMalloc(&all, bytes() + 2 * guard_bytes));
    const std::shared_ptr<char> owner(all, [](char* p) { cudaFree(p); });
    data_ = {owner, reinterpret_cast<T*>(all + guard_bytes)};
  }

 private:
  template <class U>
  friend class DeviceBuffer;
  DeviceBuffer(std::shared_ptr<T> data, size_t size) : data_(std::move(data)), size_(size) {}

  std::shared_ptr<T> data_;
  size_t size_ = 0;
};

/// What a kernel writes: `size` elements, and guards before and behind them that must stay as they are.
template <class T>
class GuardedBuffer : public DeviceBuffer<T> {
 public:
  static constexpr size_t guard_bytes = 256;  // keeps the alignment that cudaMalloc gives
  static constexpr unsigned char guard = 0xa5, poisoned_byte = 0xff;

  GuardedBuffer() = default;
  explicit GuardedBuffer(size_t size) : DeviceBuffer<T>(size, guard_bytes) { poison(); }
  unsigned char* guard_before() const { return bytes_at() - guard_bytes; }
  unsigned char* guard_behind() const { return bytes_at() + this->bytes(); }
  /// Every byte becomes 0xff (NaN, -1): what a kernel does not write is not taken for right. Waits.
  void poison() const {
    CUDA_CHECK(cudaMemset(guard_before(), guard, guard_bytes));
    CUDA_CHECK(cudaMemset(this->data(), poisoned_byte, this->bytes()));
    CUDA_CHECK(cudaMemset(guard_behind(), guard, guard_bytes));
    CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for a memset
  }

 private:
  unsigned char* bytes_at() const { return reinterpret_cast<unsigned char*>(this->data()); }
};

/// `size` elements of pinned host memory, which copy engines and kernels reach by themselves. Throws
/// CudaError if the host has not enough.
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
  Event() {
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreate(&event));
    event_ = {event, [](cudaEvent_t e) { cudaEventDestroy(e); }};
  }
  operator cudaEvent_t() const { return event_.get(); }

 private:
  std::shared_ptr<CUevent_st> event_;
};

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream() {
    cudaStream_t stream = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stream_ = {stream, [](cudaStream_t s) { cudaStreamDestroy(s); }};
  }
  operator cudaStream_t() const { return stream_.get(); }

 private:
  std::shared_ptr<CUstream_st> stream_;
};
