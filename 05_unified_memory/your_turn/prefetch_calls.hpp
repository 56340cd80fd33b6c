// cudaMemPrefetchAsync, whose arguments CUDA 13 changed.
#pragma once

#include "../../common/check.hpp"

/// Queues the prefetch of so many bytes of managed memory to the current device.
inline void prefetch_to_device(const void* data, size_t bytes) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
#if CUDART_VERSION >= 13000
  CUDA_CHECK(cudaMemPrefetchAsync(data, bytes, {cudaMemLocationTypeDevice, device}, 0, nullptr));
#else
  CUDA_CHECK(cudaMemPrefetchAsync(data, bytes, device, nullptr));
#endif
}

/// The same to the host.
inline void prefetch_to_host(const void* data, size_t bytes) {
#if CUDART_VERSION >= 13000
  CUDA_CHECK(cudaMemPrefetchAsync(data, bytes, {cudaMemLocationTypeHost, 0}, 0, nullptr));
#else
  CUDA_CHECK(cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId, nullptr));
#endif
}
