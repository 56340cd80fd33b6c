// Owners of device memory, pinned memory, events and streams: they free what they hold. The host's
// own memory is the standard library's; memory.cpp only lets `new` say how much was asked for.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.hpp"

/// What DeviceBuffer<T> does with bytes; compiled once, in memory.cpp. Throw CudaError.
namespace device_memory {
/// While it stands, nothing is allocated and no CUDA error is thrown: a self-check without a GPU
/// can then make tasks, to see their names and what they would allocate. They cannot run.
class Pretence {
 public:
  Pretence();
  Pretence(const Pretence&) = delete;
  ~Pretence();
  static bool stands();
  /// Bytes of device memory that would have been allocated since it began.
  static double bytes();
};
void* allocate(size_t bytes);
void release(void* data) noexcept;
void to_device(void* to, const void* from, size_t bytes);
void to_host(void* to, const void* from, size_t bytes);
void set(void* data, unsigned char value, size_t bytes);
void* allocate_pinned(size_t bytes, unsigned flags);
void release_pinned(void* data) noexcept;
[[noreturn]] void refuse_length();
}  // namespace device_memory

/// Owns `size` elements of device memory (cudaMalloc). Zero elements own nothing. Moves, never
/// copies.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t size) : size_(size) {
    data_ = static_cast<T*>(device_memory::allocate(bytes()));
  }
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) { copy_from(host); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer old(std::move(*this));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~DeviceBuffer() { device_memory::release(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

  /// Copies all of `host`, which must not be larger than the buffer, and waits.
  void copy_from(const std::vector<T>& host) {
    if (host.size() > size_) device_memory::refuse_length();
    device_memory::to_device(data_, host.data(), host.size() * sizeof(T));
  }
  /// The whole buffer on the host, after everything queued before has ended.
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    device_memory::to_host(host.data(), data_, bytes());
    return host;
  }
  /// Sets every byte to 0xff (NaN in float, -1 in int), so that a kernel that writes nothing is not
  /// taken for right.
  void poison() { device_memory::set(data_, 0xff, bytes()); }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Owns `size` elements of page-locked host memory (cudaHostAlloc with `flags`).
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PinnedBuffer(size_t size, unsigned flags = cudaHostAllocDefault) : size_(size) {
    data_ = static_cast<T*>(device_memory::allocate_pinned(bytes(), flags));
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer() { device_memory::release_pinned(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Owns a CUDA event; with cudaEventDisableTiming one that only orders work, which costs the
/// streams less.
class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault);
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();
  operator cudaEvent_t() const { return event_; }

  void record(cudaStream_t stream = nullptr) const;
  void wait() const;
  /// Milliseconds from `start` to this event; both must have been recorded, this one waited for.
  double ms_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Owns a CUDA stream that does not wait for the default stream.
class Stream {
 public:
  Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();
  operator cudaStream_t() const { return stream_; }
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};
