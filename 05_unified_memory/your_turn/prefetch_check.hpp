// What is checked of the prefetches. Included behind the answer.
#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"

__global__ void add_one(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

constexpr size_t n = (size_t(1) << 24) + 5;  // 64 MiB and a little, twice

/// Two managed arrays, and the task's steps.
struct Steps {
  unsigned *out = nullptr, *in = nullptr;
  Event first, last;

  Steps() {
    CUDA_CHECK(cudaMallocManaged(&out, n * sizeof(unsigned)));
    CUDA_CHECK(cudaMallocManaged(&in, n * sizeof(unsigned)));
  }
  ~Steps() {
    cudaFree(out);
    cudaFree(in);
  }
  void host_writes() {
    std::iota(in, in + n, 1u);
    std::fill_n(out, n, 0u);
  }
  double kernel_ms() {
    CUDA_CHECK(cudaEventRecord(first));
    add_one<<<unsigned((n + 255) / 256), 256>>>(out, in, n);
    CUDA_CHECK(cudaEventRecord(last));
    CUDA_CHECK(cudaDeviceSynchronize());
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, first, last));
    return ms;
  }
  double host_ms() {
    const auto start = std::chrono::steady_clock::now();
    const volatile unsigned* const words = out;
    for (size_t i = 0; i < n; i += 16) (void)words[i];  // a word of each line of the host's caches
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool pages_move() {
  if (skip_without_gpu()) return false;
  if (!current_gpu().concurrentManagedAccess) skip("pages do not move on demand to this GPU");
  return current_gpu().concurrentManagedAccess;
}

using Prefetch = void (*)(unsigned* out, const unsigned* in, size_t n);

inline void check_words(Prefetch before_kernel, Prefetch after_kernel) {
  Steps steps;
  steps.host_writes();
  before_kernel(steps.out, steps.in, n);
  steps.kernel_ms();
  after_kernel(steps.out, steps.in, n);
  CUDA_CHECK(cudaDeviceSynchronize());
  const auto right = [](size_t i) { return unsigned(i) + 2; };
  CHECK(find_mismatch_on_host(steps.out, n, right) == "");
}

TEST_CASE("right: out is in + 1") {
  if (pages_move()) check_words(before_kernel, after_kernel);
}

inline void check_time(Prefetch before_kernel, Prefetch after_kernel) {
  Steps steps;
  std::vector<double> kernel, host, kernel_again, host_again;
  for (int round = 0; round < 11; ++round) {
    steps.host_writes();
    before_kernel(steps.out, steps.in, n);
    kernel.push_back(steps.kernel_ms());
    kernel_again.push_back(steps.kernel_ms());  // now all pages are there
    after_kernel(steps.out, steps.in, n);
    CUDA_CHECK(cudaDeviceSynchronize());
    host.push_back(steps.host_ms());
    host_again.push_back(steps.host_ms());
  }
  const double of_kernel = median(kernel) / median(kernel_again);
  const double of_host = median(host) / median(host_again);
  // With page faults the kernel takes tens of times as long. The host's caches help it once more.
  if (of_kernel > 1.25)
    FAIL_CHECK("the kernel takes " << digits(of_kernel)
                                   << " times as long as with its pages there");
  if (of_host > 2)
    FAIL_CHECK("the host takes " << digits(of_host) << " times as long as with its pages there");
}

TEST_CASE("cheap: the kernel and the host find their pages there") {
  if (pages_move()) check_time(before_kernel, after_kernel);
}
