// What is checked of the sum. Included behind the answer.
#pragma once

#include <cub/device/device_reduce.cuh>

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"

constexpr size_t most_words = (1 << 28) + 3;

using Answer = void (*)(unsigned* out, const unsigned* in, size_t n);

inline void launch(Answer kernel, unsigned* out, const unsigned* in, size_t n) {
  static const unsigned blocks = 8 * unsigned(current_gpu().multiProcessorCount);
  CUDA_CHECK(cudaMemsetAsync(out, 0, sizeof *out));
  kernel<<<blocks, 256>>>(out, in, n);
}

/// n words to be added, and three more, which are not.
inline DeviceBuffer<unsigned> input_words(size_t n) {
  return filled<unsigned>(n + 3, [] __device__(size_t i) { return hash(i) | 1; });
}

inline void check_sums(Answer kernel) {
  for (const size_t n : {size_t(1), size_t(2), size_t(31), size_t(33), size_t(256), size_t(1009),
                         size_t(1012), size_t(1000003), most_words}) {
    CAPTURE(n);
    const auto in = input_words(n);
    const GuardedBuffer<unsigned> out(1);
    launch(kernel, out, in, n);
    CUDA_CHECK_LAUNCH();
    const unsigned found = out.to_host()[0];
    const auto right = unsigned(sum_of(n, [] __device__(size_t i) { return hash(i) | 1; }));
    if (found != right) FAIL("the sum is " << found << "; it should be " << right);
    CHECK(guard_error(out) == "");
  }
}

TEST_CASE("right: every word is added, and none behind the last") {
  if (!skip_without_gpu()) check_sums(sum);
}

inline void check_time(Answer kernel) {
  const size_t n = most_words;
  const auto in = input_words(n);
  const GuardedBuffer<unsigned> out(1);
  size_t bytes = 0;  // of memory that CUB needs
  CUDA_CHECK(cub::DeviceReduce::Sum(nullptr, bytes, in.data(), out.data(), int(n)));
  const DeviceBuffer<char> memory(bytes);
  const auto by_cub = [&] {
    CUDA_CHECK(cub::DeviceReduce::Sum(memory.data(), bytes, in.data(), out.data(), int(n)));
  };
  const Timings timings = Timer{.rounds = 12}.interleaved(
      {{.name = "CUB", .work = by_cub},
       {.name = "yours", .work = [&] { launch(kernel, out, in, n); }}});
  const double times = timings["yours"].median() / timings["CUB"].median();
  // of the page's kernels on an H100, reduce_shuffle takes 1.5 and reduce_vector 1.01
  CHECK_MESSAGE(times < 1.25, "it takes " << digits(times) << " times as long as CUB");
}

TEST_CASE("cheap: at most 1.25 times as long as cub::DeviceReduce::Sum") {
  if (!skip_without_gpu()) check_time(sum);
}
