// Self-checks of local_arrays.cu, compiled in its place where BUILD_TESTING is on.
#include "../local_arrays.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

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
  CHECK(predicted_ms(comparing, 8, true, load, c) == 5);
  CHECK(predicted_ms(by_index, 8, true, load, c) == 5);
  CHECK(predicted_ms(read_only, 8, true, load, c) == 3);
  CHECK(predicted_ms(by_index, 16, false, load, c) == doctest::Approx(1 + 0.001 * moved_16));
  CHECK(predicted_ms(read_only, 16, false, load, c) ==
        doctest::Approx(1 + lines_an_access(16) / 2));
  CHECK(std::isnan(predicted_ms(read_only, 32, false, load, c)));   // half of it is not in L1
  CHECK(std::isnan(predicted_ms(comparing, 300, false, load, c)));  // spilled counts
  const Calibrated same = calibrated(2, 17, 1 + 0.001 * moved_16, load);
  CHECK(same.start_ms == 1);
  CHECK(same.element_ms == 0.5);
  CHECK(same.sector_ms == doctest::Approx(0.001));
}

TEST_CASE("local_arrays: the claim holds where no array with a run-time index escapes") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("local_arrays", &printed);
  const Run run{report, &device, {}};
  judge(run, {2, 4}, {}, {});
  CHECK(printed.find("01.5   holds") != std::string::npos);
  printed.clear();
  judge(run, {2, 4}, {2}, {2, 4});
  CHECK(printed.find("01.5   does not hold") != std::string::npos);
  CHECK(printed.find("int[2] (written), int[2], int[4] (only read)") != std::string::npos);
  printed.clear();
  judge(run, {2, 4}, {}, {2});
  CHECK(printed.find("01.5   does not hold") != std::string::npos);
  printed.clear();
  judge(run, {}, {}, {});
  CHECK(printed.find("does not optimise") != std::string::npos);
}

namespace {

void check_all(int smallest, int below) {
  for (const size_t n : {1, 31, 127, 129, 1009, 40007})
    for (const Arrays& arrays : all_arrays)
      if (smallest <= arrays.size && arrays.size < below) {
        CAPTURE(n);
        CAPTURE(arrays.size);
        Work work(n, 37);
        for (const Task& task : work.tasks(arrays)) CHECK(wrong_after(task) == 0);
      }
}

}  // namespace

TEST_CASE("local_arrays: every kernel counts and reads right") {
  if (skip_without_gpu()) return;
  check_all(0, 100);
}

// the driver keeps 1.4 KB for every thread that can reside
TEST_CASE("local_arrays: arrays of 100 and more" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  check_all(100, largest + 1);
}

TEST_CASE("local_arrays: the check finds a wrong count and a result too many") {
  if (skip_without_gpu()) return;
  Work work(129, 5);
  const std::vector<Task> tasks = work.tasks(all_arrays[0]);
  tasks[0].check.poison();
  CHECK(tasks[0].check.wrong() == 129);
  REQUIRE(wrong_after(tasks[0]) == 0);
  std::vector<unsigned> out = work.out.to_host();
  out[128] += 1;
  out[129] = 0;
  work.out.copy_from(out);
  CHECK(tasks[0].check.wrong() == 2);
}

TEST_CASE("local_arrays: what must live in local memory does") {
  if (skip_without_gpu()) return;
  const Arrays& most = all_arrays.back();
  const auto local_bytes = [&](Way way) { return compiled(most.kernel[way]).localSizeBytes; };
  CHECK(local_bytes(by_index) >= size_t(array_bytes(most.size)));
  CHECK(local_bytes(read_only) >= size_t(array_bytes(most.size)));
  CHECK(local_bytes(comparing) >= (most.size - 255) * sizeof(unsigned));
}

TEST_CASE("local_arrays: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { local_arrays(run); });
}
