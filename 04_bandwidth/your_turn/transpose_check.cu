// Checks transpose.cu: every word at awkward sizes, then the time beside the solution's.
#include "../../framework/common/your_turn_gpu.hpp"
#include "transpose.hpp"

namespace {

constexpr unsigned side = 32, rows_at_once = 8;

/// Times the solution. A tile with conflicts takes 1.9 (an H200), a plain padded one up to 1.3.
constexpr double enough = 1.5;

void launch(const Transpose& work, unsigned* out, const unsigned* in, unsigned nx, unsigned ny) {
  const dim3 grid((nx + side - 1) / side, (ny + side - 1) / side);
  work.kernel<<<grid, dim3(side, rows_at_once)>>>(out, in, nx, ny);
}

void require_right(const Transpose& yours, unsigned nx, unsigned ny) {
  const std::string what = your_turn::sides(nx, ny);
  std::vector<unsigned> input(size_t(nx) * ny), expected(input.size());
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = your_turn::number_at(i) >> 1;  // never the poison
    expected[i % nx * ny + i / nx] = input[i];
  }
  const your_turn::Guarded in(input), out(input.size());
  out.fill(0xff);
  your_turn::run_kernel(what, [&] { launch(yours, out.data(), in.data(), nx, ny); });
  your_turn::require_equal(what, out.to_host(), expected, ~0u);
  out.require_untouched_around(what);
  in.require_untouched_around(what);
}

/// How many words of two arrays differ.
__global__ void count_different(unsigned long long* count, const unsigned* a, const unsigned* b,
                                size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (a[i] != b[i]) atomicAdd(count, 1ull);
}

void require_cheap(const Transpose& yours, const Transpose& solution) {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const unsigned n = free > size_t(2) << 30 ? 8192 : 2048;
  const size_t words = size_t(n) * n;
  const std::string what = your_turn::sides(n, n);
  your_turn::watch(what, 6);
  std::vector<unsigned> input(words);
  for (size_t i = 0; i < words; ++i) input[i] = your_turn::number_at(i);
  const DeviceBuffer<unsigned> in(input);
  DeviceBuffer<unsigned> out(words), expected(words);
  DeviceBuffer<unsigned long long> count(1);
  launch(solution, expected.data(), in.data(), n, n);
  const Check check{[&] { out.poison(); },
                    [&] {
                      count.copy_from({0});
                      count_different<<<1024, 256>>>(count.data(), out.data(), expected.data(),
                                                     words);
                      CUDA_CHECK_LAUNCH();
                      return size_t(count.to_host()[0]);
                    },
                    {}};
  your_turn::require_near(
      what, [&] { launch(yours, out.data(), in.data(), n, n); },
      [&] { launch(solution, out.data(), in.data(), n, n); }, check, false, enough);
}

}  // namespace

void check_transpose(const Transpose& yours, const Transpose& solution) {
  your_turn::require_gpu();
  require_right(yours, 1, 1);
  require_right(yours, 32, 32);
  require_right(yours, 33, 31);
  require_right(yours, 7, 1000);
  require_right(yours, 1012, 96);
  require_right(yours, 1009, 997);
  require_cheap(yours, solution);
}
