// Managed memory: its owner, prefetching and advising in the spelling of CUDA 12 and of CUDA 13,
// and how far the device goes with it.
#pragma once

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "../framework/common/experiment.hpp"

/// An attribute of the current device.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

/// The device can allocate managed memory at all.
inline bool has_managed_memory() { return device_attribute(cudaDevAttrManagedMemory) != 0; }

/// Managed memory moves page by page when it is touched, and host and device may use it at the same
/// time. Elsewhere (before Pascal, on Windows, in WSL) all of it moves at every launch, or stays
/// where host and device have one memory (a Jetson); nothing can be prefetched or advised, and a
/// host that touches it while a kernel runs is killed.
inline bool pages_on_demand() { return device_attribute(cudaDevAttrConcurrentManagedAccess) != 0; }

/// Kernels may follow any host pointer, that of malloc too.
inline bool reads_pageable_memory() {
  return device_attribute(cudaDevAttrPageableMemoryAccess) != 0;
}

/// What a device does with managed memory, in words.
inline std::string managed_memory_text(bool managed, bool on_demand, bool integrated, bool pageable,
                                       bool host_tables) {
  if (!managed) return "this device has no managed memory";
  std::string text =
      on_demand    ? "pages move on demand, host and device may use them at the same time"
      : integrated ? "host and device have one memory, and the host must wait for the "
                     "kernel"
                   : "all of it moves at each launch, and the host must wait for the "
                     "kernel";
  if (!pageable) return text + "; memory of malloc stays the host's";
  return text + "; kernels read memory of malloc too" +
         (host_tables ? ", through the host's page tables" : "");
}
/// What the current device does with it.
inline std::string managed_memory_text() {
  return managed_memory_text(
      has_managed_memory(), pages_on_demand(), device_attribute(cudaDevAttrIntegrated) != 0,
      reads_pageable_memory(),
      device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables) != 0);
}

/// What this device can do with managed memory, asked through the gate. Of a recorded GPU that was
/// not asked: what every GPU here could.
struct Abilities {
  bool managed, on_demand, pageable;
  std::string in_words;  ///< of this machine's device
  /// Why a row is not there.
  std::string why() const { return in_words.empty() ? "not recorded" : in_words; }
};
inline Abilities ask_abilities(const Run& run) {
  const auto yes = [&run](const char* metric, bool if_unknown, bool (*asked)()) {
    const Statistics answer = samples::ask(run, "managed_memory", metric, "",
                                           [asked] { return samples::single(asked()); });
    return std::isnan(answer.median) ? if_unknown : answer.median != 0;
  };
  const bool here = run.device && run.device->number >= 0;
  return {yes("supported", true, has_managed_memory), yes("on demand", true, pages_on_demand),
          yes("memory of malloc", false, reads_pageable_memory),
          here ? managed_memory_text() : std::string()};
}

/// More managed memory than the device has free makes pages move out while others move in, which
/// can bring a GPU that others share to a halt. So all of this topic's together stays below this.
inline constexpr size_t most_managed_bytes = size_t(1) << 30;
inline size_t managed_bytes = 0;  ///< of all owners now

/// The current device's number, as a place to prefetch to.
inline int this_device() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

#if CUDART_VERSION >= 13000
using Place = cudaMemLocation;
inline Place place(int where) {
  if (where == cudaCpuDeviceId) return {cudaMemLocationTypeHost, 0};
  return {cudaMemLocationTypeDevice, where};
}
#else
using Place = int;
inline Place place(int where) { return where; }
#endif

/// Owns `size` elements of managed memory (cudaMallocManaged). Zero elements own nothing. Moves,
/// never copies.
template <class T>
class Managed {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Managed(size_t size) : size_(size) {
    if (!size) return;
    if (device_memory::Pretence::stands()) {
      device_memory::allocate(bytes());  // counts them
      managed_bytes += bytes();
      return;
    }
    const size_t most = std::min(most_managed_bytes - managed_bytes, Device::free_bytes());
    if (size > most / sizeof(T))
      throw std::runtime_error("managed memory of " + bytes_text(double(size) * sizeof(T)) +
                               " is refused: " + bytes_text(double(most)) +
                               " are free, of the device or of this sample's " +
                               bytes_text(double(most_managed_bytes)));
    CUDA_CHECK(cudaMallocManaged(&data_, bytes()));
    managed_bytes += bytes();
  }
  explicit Managed(const std::vector<T>& host) : Managed(host.size()) {
    std::copy(host.begin(), host.end(), data_);
  }
  Managed(Managed&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Managed& operator=(Managed&&) = delete;
  ~Managed() {
    cudaFree(data_);
    managed_bytes -= bytes();
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) const { return data_[i]; }

  /// Queues in the default stream that the pages move to `where`: a device's number, or
  /// cudaCpuDeviceId.
  void prefetch(int where) const {
    if (!size_) return;
#if CUDART_VERSION >= 13000
    CUDA_CHECK(cudaMemPrefetchAsync(data_, bytes(), place(where), 0, nullptr));
#else
    CUDA_CHECK(cudaMemPrefetchAsync(data_, bytes(), place(where), nullptr));
#endif
  }
  /// Where all pages were last prefetched to: a device's number, cudaCpuDeviceId, or
  /// cudaInvalidDeviceId if they were not, or not all to one place.
  int last_prefetched_to() const {
    int where = cudaInvalidDeviceId;
    CUDA_CHECK(cudaMemRangeGetAttribute(&where, sizeof where,
                                        cudaMemRangeAttributeLastPrefetchLocation, data_, bytes()));
    return where;
  }
  /// Advises the driver of how the pages will be used; `where` does not matter to read-mostly.
  void advise(cudaMemoryAdvise advice, int where) const {
    if (size_) CUDA_CHECK(cudaMemAdvise(data_, bytes(), advice, place(where)));
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Waits for everything that was queued: what managed memory needs before the host touches it.
inline void wait_for_device() { CUDA_CHECK(cudaDeviceSynchronize()); }

/// The host reads a word of every page of its own, and so has all of the array.
template <class T>
void read_every_page(const T* data, size_t size) {
  constexpr size_t host_page = 4096;
  const auto* bytes = reinterpret_cast<const volatile char*>(data);
  for (size_t at = 0; at < size * sizeof(T); at += host_page) static_cast<void>(bytes[at]);
}

/// The number of elements that was typed (0: none was), or `by_default`, halved until it fits. Each
/// needs so many bytes of managed memory, and of device memory in all, the managed ones included.
inline size_t fitting_elements(const Run& run, size_t typed, size_t by_default, double managed_each,
                               double device_each) {
  const double most = double(most_managed_bytes) * device_each / managed_each;
  const double there = run.device ? std::min(run.memory_there(), most) : INFINITY;
  return fitting_size("--size", typed, by_default, there,
                      [&](size_t n) { return double(n) * device_each; });
}

/// Milliseconds since `start`.
inline double ms_since(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  return passed.count();
}
