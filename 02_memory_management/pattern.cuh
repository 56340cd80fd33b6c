// What is carried from place to place, so that whatever is lost, shifted, doubled, late or left
// over shows: bytes without a period, all of which differ from one round to the next.
#pragma once

#include "../framework/common/memory.hpp"

/// Byte `i` in a round. The same byte of any of the next 255 rounds is another one.
__host__ __device__ inline unsigned char byte_at(size_t i, unsigned round) {
  return static_cast<unsigned char>(((i + 1) * 0x9e3779b97f4a7c15ull >> 56) + 37 * round);
}

// Each warp writes 32 neighbouring bytes of the pattern, from its byte `first` on, and steps on by
// the whole grid.
static __global__ void fill_bytes(unsigned char* out, size_t first, size_t n, unsigned round) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = byte_at(first + i, round);
}

// Each warp reads 32 neighbouring bytes and counts those that are not the pattern's.
static __global__ void count_wrong_bytes(const unsigned char* in, size_t first, size_t n,
                                         unsigned round, unsigned long long* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (in[i] != byte_at(first + i, round)) atomicAdd(wrong, 1ull);
}

/// Writes the pattern from its byte `first` on, and waits.
inline void put_pattern(unsigned char* device, size_t n, unsigned round, size_t first = 0) {
  fill_bytes<<<1024, 256>>>(device, first, n, round);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
}

/// Bytes on the device that are not the pattern's at this moment. `count` is there already: to
/// allocate or to fill it from the host would wait for copies in flight, and hide those that nobody
/// waited for.
inline size_t wrong_bytes(const unsigned char* device, size_t n, unsigned round, size_t first,
                          const DeviceBuffer<unsigned long long>& count) {
  CUDA_CHECK(cudaMemsetAsync(count.data(), 0, sizeof(unsigned long long)));
  count_wrong_bytes<<<1024, 256>>>(device, first, n, round, count.data());
  CUDA_CHECK_LAUNCH();
  return count.to_host()[0];
}

/// The same after all that was queued has ended.
inline size_t wrong_bytes(const unsigned char* device, size_t n, unsigned round, size_t first = 0) {
  CUDA_CHECK(cudaDeviceSynchronize());
  return wrong_bytes(device, n, round, first, DeviceBuffer<unsigned long long>(1));
}
