// What is checked of a transpose. Included behind the answer.
#pragma once

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"

using Answer = void (*)(float* out, const float* in, unsigned nx, unsigned ny);

inline void launch(Answer kernel, float* out, const float* in, unsigned nx, unsigned ny) {
  kernel<<<dim3((nx + 31) / 32, (ny + 31) / 32), dim3(32, 8)>>>(out, in, nx, ny);
}

inline void check_words(Answer kernel) {
  constexpr std::pair<unsigned, unsigned> shapes[] = {
      {1, 1}, {1009, 1}, {33, 31}, {63, 65}, {260, 516}};
  for (const auto& [nx, ny] : shapes) {
    CAPTURE(nx);
    CAPTURE(ny);
    const size_t n = size_t(nx) * ny;
    const auto in = filled<float>(n, [] __device__(size_t i) { return float(hash(i) >> 8); });
    const GuardedBuffer<float> out(n);
    launch(kernel, out, in, nx, ny);
    CUDA_CHECK_LAUNCH();
    const auto right = [x = nx, y = ny] __device__(size_t i) {
      return float(hash(i % y * x + i / y) >> 8);
    };
    const std::string error = find_mismatch(out, right);
    if (!error.empty()) FAIL(error);
  }
}

TEST_CASE("right: every word, at awkward shapes, and nothing behind the end") {
  if (!skip_without_gpu()) check_words(transpose);
}

inline void check_time(Answer kernel) {
  constexpr unsigned side = 8192;
  const size_t n = size_t(side) * side;
  const auto in = filled<float>(n, [] __device__(size_t i) { return float(hash(i) >> 8); });
  const GuardedBuffer<float> out(n);
  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(out, in, in.bytes(), cudaMemcpyDeviceToDevice));
  };
  const Timings timings = Timer{.rounds = 12}.interleaved(
      {{.name = "copy", .work = copy},
       {.name = "yours", .work = [&] { launch(kernel, out, in, side, side); }}});
  const double times = timings["yours"].median() / timings["copy"].median();
  // columns written: 8; a tile whose columns lie in one bank: 2.5; without conflicts: 1.3
  if (times > 1.6) FAIL("it takes " << digits(times) << " times as long as a copy");
}

TEST_CASE("cheap: at most 1.6 times as long as a copy of the same bytes") {
  if (!skip_without_gpu()) check_time(transpose);
}
