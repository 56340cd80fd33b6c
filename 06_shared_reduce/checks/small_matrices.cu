// Self-checks of small_matrices.cu, compiled in its place where BUILD_TESTING is on.
#include "../small_matrices.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// Gauss and Jordan as the kernel does it, lane by lane on the host; `in` has n x n words.
std::vector<double> inverted(const std::vector<double>& in, unsigned n) {
  std::vector<std::vector<double>> lane(n, std::vector<double>(n));
  for (unsigned j = 0; j < n; ++j)
    for (unsigned i = 0; i < n; ++i) lane[j][i] = in[i * n + j];
  std::vector<unsigned> row(n, n), pivot_of(n);
  for (unsigned k = 0; k < n; ++k) {
    unsigned pivot = n;
    for (unsigned j = 0; j < n; ++j)
      if (row[j] == n && (pivot == n || std::fabs(lane[j][k]) > std::fabs(lane[pivot][k])))
        pivot = j;
    row[pivot] = k;
    pivot_of[k] = pivot;
    const std::vector<double> column = lane[pivot];
    for (unsigned j = 0; j < n; ++j) {
      const double factor = j == pivot ? -1 / column[k] : lane[j][k] / column[k];
      for (unsigned i = 0; i < n; ++i)
        lane[j][i] = (j == pivot ? 0 : lane[j][i]) - factor * column[i];
      lane[j][k] = -factor;
    }
  }
  std::vector<double> out(size_t(n) * n);
  for (unsigned j = 0; j < n; ++j)
    for (unsigned i = 0; i < n; ++i) out[pivot_of[i] * n + row[j]] = lane[j][i];
  return out;
}

}  // namespace

TEST_CASE("small_matrices: the kernel's steps, on the host, give the inverse") {
  for (const unsigned n : {1, 2, 3, 5, 8, 32}) {
    CAPTURE(n);
    std::vector<double> a(size_t(n) * n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = WordOf{n}(i);
    const std::vector<double> x = inverted(a, n);
    for (unsigned i = 0; i < n; ++i)
      for (unsigned j = 0; j < n; ++j) {
        double product = 0;
        for (unsigned k = 0; k < n; ++k) product += a[i * n + k] * x[k * n + j];
        CHECK(product == doctest::Approx(i == j).epsilon(1e-6));
      }
  }
}

TEST_CASE("small_matrices: hard matrices are where they are said to be") {
  for (const unsigned n : {2, 32}) {
    const WordOf word{n};
    const size_t size = size_t(n) * n;
    for (unsigned j = 0; j < n; ++j) {
      CHECK(word(100 * size + (n - 1) * n + j) == 0);  // the last row of the 101st
      CHECK(word(101 * size + (n - 1) * n + j) != 0);
      const float first = word(102 * size + j), last = word(102 * size + (n - 1) * n + j);
      CHECK(std::fabs(first - last) <= 1.01e-5f);
      CHECK(first != last);
    }
  }
}

TEST_CASE("small_matrices: the longest of four limits, by hand") {
  Device device;
  device.prop.multiProcessorCount = 100;
  device.sm_clock_khz = 1000000;
  CHECK(instructions(32) == 32 * (10 + 8 + 32 + 8 + 32 + 12) + 96);
  CHECK(path_cycles(32) == 32 * (8 + 16 + 5 + 1) + 32 + 2 * 32);  // 1056; 1048 are counted
  CHECK(path_cycles(4) == 4 * (1 + 2 + 2 + 1) + 4 + 2 * 4 * 4);   // 8 rows in 4 lines
  CHECK(path_cycles(16) == 16 * (4 + 8 + 4 + 1) + 16 + 2 * 16 * 2);
  // 1e6 warps, 10,000 on each multiprocessor, of 1056 cycles on the path
  CHECK(predicted_ms(32, 1e6, false, {1, 0, 1000}, device) == doctest::Approx(10.56));
  CHECK(predicted_ms(32, 1e6, false, {19, 0, 1000}, device) == doctest::Approx(19));
  // 8 groups in turn: 8 x 116 instructions, 4 per cycle, by each of 1250 warps
  CHECK(instructions(4) == 4 * (4 + 1 + 4 + 1 + 4 + 12) + 12);
  CHECK(predicted_ms(4, 1e6, true, {0, 0, 1000}, device) == doctest::Approx(1250 * 8 * 116 / 4e6));
  CHECK(predicted_ms(4, 1e6, false, {0, 0, 1000}, device) == doctest::Approx(1250 * 60 / 1e6));
  // 250 blocks in one round, 32 steps
  CHECK(predicted_ms(32, 1e3, false, {0, 0.001, 1000}, device) == doctest::Approx(0.032));
  CHECK(predicted_ms(32, 1e3, false, {0, 0.001, 100}, device) == doctest::Approx(0.096));
}

TEST_CASE(
    "small_matrices: an exchanged row, a scaled inverse and an unreported singular one fail") {
  if (skip_without_gpu()) return;
  const Shared matrices{Matrices(7, 300)};
  const Task task = invert_task<false>(matrices, row_of(inverting(), 7, 300));
  CHECK(wrong_after(task) == 0);
  const std::vector<float> right_words = matrices->out.to_host();
  std::vector<float> words = right_words;
  for (unsigned j = 0; j < 7; ++j) std::swap(words[j], words[7 + j]);
  matrices->out.copy_from(words);
  CHECK(task.check.wrong() == 1);
  words = right_words;
  for (unsigned i = 0; i < 49; ++i) words[49 + i] *= 1.01f;
  matrices->out.copy_from(words);
  CHECK(task.check.wrong() == 1);
  matrices->out.copy_from(right_words);
  std::vector<int> singular = matrices->singular.to_host();
  CHECK(singular[100] == 7);
  singular[100] = 0;
  matrices->singular.copy_from(singular);
  CHECK(task.check.wrong() == 1);
}

EXPERIMENT_CHECKS(small_matrices)
