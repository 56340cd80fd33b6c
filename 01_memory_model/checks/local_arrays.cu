// Self-checks of local_arrays.cu, compiled in its place where BUILD_TESTING is on.
#include "../local_arrays.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("local_arrays: an element is in bounds and every element occurs") {
  for (const Arrays& arrays : all_arrays) {
    CAPTURE(arrays.size);
    CHECK(element_of(0, arrays.size) == 0);
    CHECK(element_of(~0u, arrays.size) == size_t(arrays.size - 1));
    for (int k = 1; k < arrays.size; ++k) {  // its first word, and the last of the one before
      const unsigned first = unsigned(((1ull << 32) * k + arrays.size - 1) / arrays.size);
      CHECK(element_of(first, arrays.size) == size_t(k));
      CHECK(element_of(first - 1, arrays.size) == size_t(k - 1));
    }
  }
}

TEST_CASE("local_arrays: counts that roll are the counts of each window") {
  std::vector<unsigned> words(186);
  for (size_t i = 0; i < words.size(); ++i) words[i] = unsigned(i * 2654435769u);
  const size_t n = 150;
  const int length = 37, size = 7;
  const std::vector<unsigned> rolled = expected_counts(words, n, length, size);
  for (size_t i = 0; i < n; ++i) {
    std::vector<unsigned> count(size, 0);
    for (int step = 0; step < length; ++step) ++count[element_of(words[i + step], size)];
    CHECK(rolled[i] == number_of(count));
  }
  CHECK(number_of({2, 0, 5}) == unsigned(2ull * 1000003 * 1000003 + 5));
}

TEST_CASE("local_arrays: what a warp's access touches, by hand") {
  CHECK(lines_an_access(1) == 1);
  CHECK(sectors_an_access(1) == 4);  // all lanes: a whole line
  CHECK(different_elements(2, 2) == doctest::Approx(1.5));
  CHECK(lines_an_access(1000000) == doctest::Approx(32).epsilon(1e-4));  // each lane its own
  CHECK(sectors_an_access(1000000) == doctest::Approx(32).epsilon(1e-4));
}

TEST_CASE("local_arrays: predicted times, by hand") {
  // 10 warps of 100 steps; 10 multiprocessors, 100 cycles a ms
  const Load load{10, 100, 10, 100, 1000, 64000};
  CHECK(missing_share(load, 16) == 0);
  CHECK(missing_share(load, 32) == doctest::Approx(0.5));
  const double moved_16 = 640 + 1000 * sectors_an_access(16);
  CHECK(sectors_moved(load, 16) == doctest::Approx(moved_16));
  CHECK(sectors_moved(load, 32) == doctest::Approx(1.5 * (1280 + 1000 * sectors_an_access(32))));
  const Calibrated c{1, 0.5, 0.001};
  CHECK(predicted_ms(by_comparing, 8, true, load, c) == 5);
  CHECK(predicted_ms(by_index, 8, true, load, c) == 5);
  CHECK(predicted_ms(only_read, 8, true, load, c) == 3);
  CHECK(predicted_ms(by_index, 16, false, load, c) == doctest::Approx(1 + 0.001 * moved_16));
  CHECK(predicted_ms(only_read, 16, false, load, c) ==
        doctest::Approx(1 + lines_an_access(16) / 2));
  CHECK(std::isnan(predicted_ms(only_read, 32, false, load, c)));      // half of it is not in L1
  CHECK(std::isnan(predicted_ms(by_comparing, 300, false, load, c)));  // spilled counts
  const Calibrated same = calibrated(2, 17, 1 + 0.001 * moved_16, load);
  CHECK(same.start_ms == 1);
  CHECK(same.element_ms == 0.5);
  CHECK(same.sector_ms == doctest::Approx(0.001));
}

TEST_CASE("local_arrays: the part holds where no array with a run-time index escapes") {
  // a made-up kernel has one byte of local memory if nothing else is given
  const auto verdict = [](std::vector<Given> given) {
    return verdict_if(local_arrays_experiment, "01.5", given);
  };
  const Given constant{{by_comparing, 2}, 0, local_memory};
  CHECK(verdict({constant}) == verdict_text(Verdict::holds));
  for (const char* way : {by_index, only_read})
    for (const double size : {2, 300})
      CHECK(verdict({constant, {{way, size}, 0, local_memory}}) ==
            verdict_text(Verdict::does_not_hold));
  CHECK(verdict({}) == verdict_text(Verdict::not_judged));  // this build does not optimise
  CHECK(verdict({{{by_index, 2}, 0, local_memory}}) == verdict_text(Verdict::not_judged));
}

TEST_CASE("local_arrays: every row is its kernel's") {
  CHECK((kernel_of({by_comparing, 300}) == count_by_comparing<300>));
  CHECK((kernel_of({by_index, 8}) == count_by_index<8>));
  CHECK((kernel_of({only_read, 2}) == look_up<2>));
  CHECK_THROWS(kernel_of({only_read, 3}));
}

// the driver keeps 1.4 KB for every thread that can reside
TEST_CASE("local_arrays: arrays of 100 and more" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 40007}) {
    const Shared memory(Threads(n, 37));
    for (const Way& way : ways)
      for (const double size : {100, 300}) {
        CAPTURE(n);
        CAPTURE(size);
        CAPTURE(std::string(way.key));
        CHECK(wrong_after(task_of({way.key, size}, memory)) == 0);
      }
  }
}

TEST_CASE("local_arrays: what must live in local memory does") {
  if (skip_without_gpu()) return;
  const auto local_bytes_of = [](const char* way) {
    cudaFuncAttributes attributes;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel_of({way, double(largest)})));
    return attributes.localSizeBytes;
  };
  CHECK(local_bytes_of(by_index) >= size_t(array_bytes(largest)));
  CHECK(local_bytes_of(only_read) >= size_t(array_bytes(largest)));
  CHECK(local_bytes_of(by_comparing) >= (largest - 255) * sizeof(unsigned));
}

EXPERIMENT_CHECKS(local_arrays)
