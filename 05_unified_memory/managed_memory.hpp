// Managed memory: who owns it, whether its pages move when they are touched, who moves them before,
// and what a time of it cannot be.
#pragma once

#include <string>

#include "../common/memory.hpp"

/// `size` elements of managed memory: both sides read and write them by the same pointer. A handle,
/// as DeviceBuffer is.
template <class T>
class ManagedBuffer {
 public:
  ManagedBuffer() = default;  ///< of nothing, so far
  explicit ManagedBuffer(size_t size) : size_(size) {
    T* data = nullptr;
    CUDA_CHECK(cudaMallocManaged(&data, bytes()));
    data_ = {data, [](T* p) { cudaFree(p); }};
  }

  T* data() const { return data_.get(); }
  operator T*() const { return data(); }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  std::shared_ptr<T> data_;
  size_t size_ = 0;
};

/// Why pages do not move when they are touched; empty if they do. Before Pascal, and on Windows, all
/// of an array moves at each launch, and nothing can be prefetched.
inline std::string nothing_moves_because(const cudaDeviceProp& gpu) {
  if (!gpu.managedMemory) return "this device has no managed memory";
  if (!gpu.concurrentManagedAccess) return "this device does not move managed pages on demand";
  if (gpu.pageableMemoryAccessUsesHostPageTables)
    return "this device reads the host's pages where they are";
  return "";
}

/// The number of the current GPU.
inline int current_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

/// Where cudaMemPrefetchAsync can move pages: to the current GPU, or to the host.
inline cudaMemLocation gpu_memory() { return {cudaMemLocationTypeDevice, current_device()}; }
#if CUDART_VERSION >= 13000
constexpr cudaMemLocation host_memory{cudaMemLocationTypeHost, 0};
#else
constexpr cudaMemLocation host_memory{cudaMemLocationTypeInvalid, cudaCpuDeviceId};
/// The call as CUDA 13 has it, by that of CUDA 12.
inline cudaError_t cudaMemPrefetchAsync(const void* array, size_t bytes, cudaMemLocation to,
                                        unsigned, cudaStream_t stream) {
  return cudaMemPrefetchAsync(array, bytes, to.id, stream);
}
#endif

/// The host reads a word of each of its pages (4 KiB).
inline void read_every_page(const void* array, size_t bytes) {
  const volatile char* page = static_cast<const char*>(array);
  for (size_t at = 0; at < bytes; at += 4096) static_cast<void>(page[at]);
}

/// A law, with a tenth for what differs from run to run: what is done at once takes at least as
/// long as the longest of its parts, measured alone. Throws WrongResult: a shorter time has not waited for all.
inline void require_no_shorter(const std::string& what, double ms, double longest_ms) {
  if (ms < 0.9 * longest_ms)
    throw WrongResult(what + ": " + std::to_string(ms) + " ms, and a part alone takes " +
                      std::to_string(longest_ms) + " ms: not waited for");
}
