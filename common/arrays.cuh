// Arrays whose contents are known: filled by a formula and compared with a formula, on the device.
#pragma once

#include <type_traits>

#include "timing.hpp"

/// Word i of an input: a hash, so that no two words stand in for each other.
__host__ __device__ inline unsigned hash(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

template <class F>
__global__ void for_each_index(size_t n, F f) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) f(i);
}

/// A lambda of the device that captured a buffer, and not its data(), would carry a handle there.
template <class F>
constexpr void requires_plain_captures() {
  static_assert(std::is_trivially_copyable_v<F>, "capture buffer.data(), not the buffer");
}

/// n elements value(i). `value` is a lambda: [=] __device__(size_t i) { return ...; }
template <class T, class Value>
DeviceBuffer<T> filled(size_t n, Value value) {
  requires_plain_captures<Value>();
  DeviceBuffer<T> buffer(n);
  for_each_index<<<1024, 256>>>(
      n, [out = buffer.data(), value] __device__(size_t i) { out[i] = value(i); });
  CUDA_CHECK_LAUNCH();
  return buffer;
}

template <class F>
__global__ void sum_kernel(size_t n, F f, unsigned long long* sum) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned long long own = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) own += f(i);
  if (own) atomicAdd(sum, own);
}

/// The sum of f(i) over all i < n, modulo 2^64.
template <class F>
unsigned long long sum_of(size_t n, F f) {
  requires_plain_captures<F>();
  const DeviceBuffer<unsigned long long> sum(std::vector<unsigned long long>{0});
  sum_kernel<<<1024, 256>>>(n, f, sum.data());
  CUDA_CHECK_LAUNCH();
  return sum.to_host()[0];
}

/// "something was written behind the end", or before the beginning; or nothing.
template <class T>
std::string guard_error(const GuardedBuffer<T>& out) {
  const auto is_written = [](const unsigned char* bytes) {
    const auto differs = [bytes] __device__(size_t i) {
      return bytes[i] != GuardedBuffer<T>::guard;
    };
    return sum_of(GuardedBuffer<T>::guard_bytes, differs) > 0;
  };
  if (is_written(out.guard_before())) return "something was written before the beginning";
  return is_written(out.guard_behind()) ? "something was written behind the end" : "";
}

/// "7 of 1009 are wrong, the first at 31".
inline std::string mismatch_text(size_t wrong, size_t n, size_t first) {
  return std::to_string(wrong) + " of " + std::to_string(n) + " are wrong, the first at " +
         std::to_string(first);
}

/// What is wrong if element i of n in device or managed memory should be value(i); or nothing.
template <class T, class Value>
std::string find_mismatch(const T* array, size_t n, Value value) {
  const auto is_wrong = [array, value] __device__(size_t i) { return !(array[i] == value(i)); };
  const auto wrong = sum_of(n, is_wrong);
  if (wrong == 0) return "";
  const DeviceBuffer<unsigned long long> first(std::vector<unsigned long long>{n});
  for_each_index<<<1024, 256>>>(n, [is_wrong, first = first.data()] __device__(size_t i) {
    if (is_wrong(i)) atomicMin(first, (unsigned long long)i);
  });
  CUDA_CHECK_LAUNCH();
  return mismatch_text(wrong, n, first.to_host()[0]);
}

/// The same of a kernel's output, and of the guard behind it.
template <class T, class Value>
std::string find_mismatch(const GuardedBuffer<T>& out, Value value) {
  const std::string error = find_mismatch(out.data(), out.size(), value);
  return error.empty() ? guard_error(out) : error;
}

/// The same of an array that the host reads. `value` is a lambda of the host.
template <class T, class Value>
std::string find_mismatch_on_host(const T* array, size_t n, Value value) {
  size_t wrong = 0, first = n;
  for (size_t i = n; i-- > 0;)
    if (!(array[i] == value(i))) {
      ++wrong;
      first = i;
    }
  return wrong ? mismatch_text(wrong, n, first) : "";
}

/// The check of work that leaves value(i) in element i of `out`.
template <class T, class Value>
Check equals(const GuardedBuffer<T>& out, Value value) {
  return {[out] { out.poison(); }, [out, value] { return find_mismatch(out, value); }};
}

/// The bits of a word that nobody wrote: floats of them are NaN, and equal nothing.
constexpr unsigned poisoned = ~0u;

/// The check of work that leaves the 32 bits bits(i) in element i of `out`.
template <class T, class Bits>
Check equals_bits(const GuardedBuffer<T>& out, Bits bits) {
  const auto find_error = [out, bits] {
    const auto words = out.template as<unsigned>();
    const std::string error = find_mismatch(words.data(), words.size(), bits);
    return error.empty() ? guard_error(out) : error;
  };
  return {[out] { out.poison(); }, find_error};
}
