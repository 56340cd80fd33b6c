// What ladder and one_pass share: a warp's sum, an array in words of 16 bytes, the words to add up,
// and CUB, NVIDIA's library.
#pragma once

#include <cub/device/device_reduce.cuh>

#include "../common/arrays.cuh"

// The sum of a warp's 32 values, in every lane: five exchanges of registers, no shared memory and
// no barrier. (Older code adds words in shared memory without a barrier, "because a warp runs in
// step". Since compute capability 7.0 it need not, and that code is wrong.)
inline __device__ float warp_sum(float value) {
  for (unsigned lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
  return value;
}

// An array in 16-byte quads. They begin at the first multiple of 128 bytes, so that a warp's load
// covers whole lines. Up to 31 words lie before the first quad, and up to 3 behind the last one.
struct Quads {
  size_t head, count, tail;
  const float4* quad;

  __device__ Quads(const float* in, size_t n) {
    const size_t to_line = (128 - reinterpret_cast<size_t>(in) % 128) % 128 / 4;
    head = to_line < n ? to_line : n;
    count = (n - head) / 4;
    tail = (n - head) % 4;
    quad = reinterpret_cast<const float4*>(in + head);
  }
  /// The words outside the quads: the first threads of block 0 take them.
  __device__ float ends(const float* in, size_t n) const {
    const unsigned tid = threadIdx.x;
    float sum = 0;
    if (blockIdx.x == 0) sum = (tid < head ? in[tid] : 0) + (tid < tail ? in[n - tail + tid] : 0);
    return sum;
  }
};

/// Word i, odd, from -127 to 127. The sum of up to 2^30 of them, in any order, stays below 2^24: a
/// float holds it exactly.
__host__ __device__ inline int word_at(size_t i) { return int(hash(i) >> 25) * 2 - 127; }

/// n words, behind `offset` others and before three others that nobody may add.
inline DeviceBuffer<float> filled_words(size_t offset, size_t n) {
  return filled<float>(offset + n + 3, [offset, n] __device__(size_t i) {
    return i >= offset && i < offset + n ? float(word_at(i - offset)) : 1e6f;
  });
}

/// Whether `out` holds the sum of the first n words. `poison` makes all wrong that a sum needs.
inline Check is_sum(const GuardedBuffer<float>& out, size_t n, std::function<void()> poison) {
  const auto value = [] __device__(size_t i) { return (unsigned long long)(word_at(i)); };
  const float right = float((long long)(sum_of(n, value)));  // modulo 2^64: signs are right
  const auto find_error = [out, right]() -> std::string {
    const float found = out.to_host()[0];
    return found == right ? guard_error(out) : "the sum is " + std::to_string(found);
  };
  return {std::move(poison), find_error};
}

/// cub::DeviceReduce::Sum, and the memory that it takes for n words.
class Cub {
 public:
  explicit Cub(size_t n) : memory_(bytes_for(n)) {}
  void sum(const float* in, float* out, size_t n) const {
    size_t bytes = memory_.size();
    CUDA_CHECK(cub::DeviceReduce::Sum(memory_.data(), bytes, in, out, int(n)));
  }

 private:
  static size_t bytes_for(size_t n) {
    size_t bytes = 0;
    CUDA_CHECK(
        cub::DeviceReduce::Sum(nullptr, bytes, (const float*)nullptr, (float*)nullptr, int(n)));
    return bytes;
  }
  DeviceBuffer<char> memory_;
};
