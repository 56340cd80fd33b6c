// The words that `ladder` sums, and their sum by other means.
#include <algorithm>

#include "ladder.hpp"

namespace reduce {

namespace {

constexpr size_t poison_words = 64;
constexpr unsigned threads = 256;

/// Enough for n words, and to fill the GPU.
unsigned blocks_for(size_t n) { return unsigned(std::min<size_t>(n / threads + 1, 4096)); }

/// Spreads i over 32 bits. Below 2^32 no two are the same: every line maps 0 to 2^32 - 1 one to one
/// (x ^ x >> s and odd factors can be undone).
__host__ __device__ unsigned scattered(size_t i) {
  unsigned x = unsigned(i) + unsigned(i >> 32) * 0x9e3779b9u;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

/// Word i in units in which all words are whole.
template <class T>
__host__ __device__ long long units_of(unsigned digit, size_t i) {
  const unsigned x = scattered(i);
  if (std::is_same_v<T, unsigned>) return x;
  if (digit == fractions) return x >> 8;
  return int(x >> 4 * digit & 15) * 2 - 15;
}

template <class T>
__global__ void fill_words(T* out, size_t n, unsigned digit) {
  const float unit = digit == fractions ? 0x1p-24f : 1.0f;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    const long long units = units_of<T>(digit, i);
    out[i] = std::is_same_v<T, float> ? T(float(units) * unit) : T(units);
  }
}

// One 64-bit atomic a thread: nothing of it is in shared memory, and no order matters.
template <class T>
__global__ void add_units(unsigned long long* sum, const T* in, size_t n, float units_in_one) {
  long long mine = 0;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step)
    mine +=
        std::is_same_v<T, float> ? (long long)(float(in[i]) * units_in_one) : (long long)(in[i]);
  atomicAdd(sum, (unsigned long long)(mine));
}

}  // namespace

template <class T>
Words<T>::Words(size_t n, size_t offset) : all(offset + n + (offset ? poison_words : 0)), n(n) {
  all.poison();
  in = all.data() + offset;
  fill(0);
}

template <class T>
void Words<T>::fill(unsigned which) {
  digit = which;
  fill_words<<<blocks_for(n), threads>>>(const_cast<T*>(in), n, digit);
  CUDA_CHECK_LAUNCH();
}

template <class T>
long long Words<T>::sum(size_t count) const {
  DeviceBuffer<unsigned long long> sum(std::vector<unsigned long long>{0});
  add_units<<<blocks_for(count), threads>>>(sum.data(), in, count,
                                            digit == fractions ? 0x1p24f : 1.0f);
  CUDA_CHECK_LAUNCH();
  return (long long)(sum.to_host()[0]);
}

template <class T>
long long Words<T>::sum_by_host(unsigned digit, size_t count) {
  long long sum = 0;
  for (size_t i = 0; i < count; ++i) sum += units_of<T>(digit, i);
  return sum;
}

template struct Words<float>;
template struct Words<unsigned>;

}  // namespace reduce
