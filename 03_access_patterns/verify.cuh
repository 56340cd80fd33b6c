// Inputs and checks on the device, for arrays too large to be carried to the host for every kernel.
#pragma once

#include <algorithm>

#include "../common/memory.hpp"

/// A word without pattern for every index.
__host__ __device__ inline unsigned scrambled(size_t i) {
  unsigned x = unsigned(i) * 0x9e3779b1u + unsigned(i >> 32);
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

inline unsigned blocks_to_walk(size_t n) {
  return unsigned(std::min<size_t>((n + 255) / 256, 4096));
}

template <class T, class Value>
__global__ void fill_words(T* out, size_t n, Value value) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    out[i] = value(i);
}

template <class T, class Right>
__global__ void count_wrong(const T* out, size_t n, Right right, unsigned long long* wrong) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    if (!right(i, out[i])) atomicAdd(wrong, 1ull);
}

/// Sets every word i of `out` to value(i). `value` is a struct with a __device__ operator().
template <class T, class Value>
void fill(const DeviceBuffer<T>& out, Value value) {
  fill_words<<<blocks_to_walk(out.size()), 256>>>(out.data(), out.size(), value);
  CUDA_CHECK_LAUNCH();
}

/// How many words i of `out` are not right(i, word), after everything queued before has ended.
template <class T, class Right>
unsigned long long wrong_words(const DeviceBuffer<T>& out, Right right) {
  const DeviceBuffer<unsigned long long> wrong(std::vector<unsigned long long>{0});
  count_wrong<<<blocks_to_walk(out.size()), 256>>>(out.data(), out.size(), right, wrong.data());
  CUDA_CHECK_LAUNCH();
  return wrong.to_host()[0];
}
