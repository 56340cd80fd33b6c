// Error checks: checked calls, one exception type, owners that free what they hold, and skips of self-checks.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// A CUDA runtime call or a kernel launch that failed. `what()` is one line that names the call, the place and the
/// error.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, std::string call, const char* file, int line)
      : std::runtime_error(call + " failed: " + cudaGetErrorName(code) + " (" + cudaGetErrorString(code) + ") at " +
                           base_name(file) + ":" + std::to_string(line)),
        code(code),
        call(std::move(call)),
        file(file),
        line(line) {}

  const cudaError_t code;
  const std::string call;
  const char* const file;
  const int line;
  std::string name() const { return cudaGetErrorName(code); }
  std::string description() const { return cudaGetErrorString(code); }

 private:
  static const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
  }
};

/// A command line that cannot be carried out (exit code 2), such as a typed size that does not fit the device.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A kernel's output that differs from its reference (exit code 1). Thrown before anything of that kernel is timed.
class WrongResult : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a failure that is reported here must not be reported again by the next check
  throw CudaError(code, call, file, line);
}

/// Makes a CUDA runtime call and throws CudaError if it fails.
#define CUDA_CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)

/// Stands after `kernel<<<...>>>(...)`: throws CudaError if the launch was refused. What goes wrong while the kernel
/// runs shows at the next call that waits for it.
#define CUDA_CHECK_LAUNCH() check_cuda(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

/// Throws WrongResult with `message` unless `right`.
inline void require_right(bool right, const std::string& message) {
  if (!right) throw WrongResult("wrong result: " + message);
}

/// Owns `size` elements of device memory (cudaMalloc). Zero elements own nothing. Moves, never copies.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t size) : size_(size) {
    if (size) CUDA_CHECK(cudaMalloc(&data_, bytes()));
  }
  explicit DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) { copy_from(host); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    DeviceBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

  /// Copies all of `host`, which must not be larger than the buffer, and waits.
  void copy_from(const std::vector<T>& host) {
    if (host.size() > size_) throw std::length_error("DeviceBuffer::copy_from: more elements than the buffer has");
    if (!host.empty()) CUDA_CHECK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  /// The whole buffer on the host, after everything queued before has ended.
  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    if (size_) CUDA_CHECK(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }
  /// Sets every byte to 0xff (NaN in float, -1 in int), so that a kernel that writes nothing is not taken for right.
  void poison() { CUDA_CHECK(cudaMemset(data_, 0xff, bytes())); }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Owns `size` elements of page-locked host memory (cudaHostAlloc with `flags`).
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PinnedBuffer(size_t size, unsigned flags = cudaHostAllocDefault) : size_(size) {
    if (size) CUDA_CHECK(cudaHostAlloc(&data_, bytes(), flags));
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer() { cudaFreeHost(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Owns a CUDA event; with cudaEventDisableTiming one that only orders work, which costs the streams less.
class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_) cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }

  void record(cudaStream_t stream = nullptr) const { CUDA_CHECK(cudaEventRecord(event_, stream)); }
  void wait() const { CUDA_CHECK(cudaEventSynchronize(event_)); }
  /// Milliseconds from `start` to this event; both must have been recorded, and this one waited for.
  double ms_since(const Event& start) const {
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Owns a CUDA stream that does not wait for the default stream.
class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (stream_) cudaStreamDestroy(stream_);
  }
  operator cudaStream_t() const { return stream_; }
  void wait() const { CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Why no GPU can be used, or an empty string if one can. Any failure to count devices means "none": without a driver
/// the runtime answers cudaErrorInsufficientDriver, not cudaErrorNoDevice.
inline std::string no_gpu_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  if (code == cudaSuccess) return "no device is visible";
  if (int driver = 0; code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
    const auto text = [](int version) {
      return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    };
    if (driver == 0) return "there is no NVIDIA driver";
    return "the driver is for CUDA " + text(driver) + ", this program for " + text(CUDART_VERSION);
  }
  return std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
}

/// The self-check that runs now was skipped; read and cleared by whoever runs the cases (common/command_line.hpp).
inline bool self_check_skipped = false;

/// Ends a self-check that lacks something: `if (!enough) return skip_self_check("needs 8 GiB");`. Prints the reason. A
/// case that skips asserts nothing, and a run in which every case skips exits with 77.
inline void skip_self_check(const std::string& reason) {
  self_check_skipped = true;
  std::printf("skipped: %s\n", reason.c_str());
}

/// True if there is no GPU, in which case the self-check is skipped: `if (skip_without_gpu()) return;`. Where
/// SAMPLES_REQUIRE_GPU=1 is set a missing GPU throws instead, and so fails the case.
inline bool skip_without_gpu() {
  const std::string reason = no_gpu_reason();
  if (reason.empty()) return false;
  const char* required = std::getenv("SAMPLES_REQUIRE_GPU");
  if (required && std::string(required) == "1") throw std::runtime_error("a GPU is required: " + reason);
  skip_self_check("no usable GPU (" + reason + ")");
  return true;
}
