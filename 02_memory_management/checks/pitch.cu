// Self-checks of pitch.cu, compiled in its place where BUILD_TESTING is on.
#include "../pitch.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

/// Launches that the hardware counts. No requests: a load of which no lane is left in the row may
/// be one.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const unsigned width : {1u, 31u, 33u, 257u, 4097u, 100u, 132u, 1028u, 4092u})
    for (const size_t pitch : {size_t(width), size_t((width + 511) / 512 * 512)}) {
      const Rows rows = rows_of(width, pitch, 1024);
      const double sectors = 1024.0 * sectors_of_row(rows, word_of(width));
      const auto right = [=] {
        const Arrays arrays(1025 * pitch);
        return wrong_after(arrays.task(word_of(width), "counted rows", rows)) == 0;
      };
      all.push_back({"add_one",
                     "row bytes " + std::to_string(width) + " pitch " + std::to_string(pitch),
                     {expected_sectors(true, sectors), expected_sectors(false, sectors)},
                     right});
    }
  return all;
}

}  // namespace

TEST_CASE("pitch: sectors of aligned and unaligned rows") {
  CHECK(sectors_of_row({512, 32, 100}, 4) == 4);
  CHECK(sectors_of_row({512, 32, 100}, 1) == 1);
  CHECK(sectors_of_row({33, 33, 100}, 4) ==
        (5 * 7 + 4 + 8) / 8.0);                  // one start in eight is aligned
  CHECK(sectors_of_row({1023, 1023, 100}, 4) ==  // 31 whole requests and one of 31 lanes
        (31 * (5 * 7 + 4) + 5 * 6 + 4 * 2) / 8.0);
}

TEST_CASE("pitch: predictions, by hand") {
  const Calibrated c{3, 1, 0.01};
  CHECK(ns_of_row({1, 1, 9}, 1, c) == doctest::Approx(3).epsilon(1e-4));          // a warp's time
  CHECK(ns_of_row({100, 100, 9}, 4, c) == doctest::Approx(std::hypot(4, 8)));     // 4 requests
  CHECK(ns_of_row({128, 100, 9}, 4, c) == doctest::Approx(std::hypot(4, 8.32)));  // 13 sectors
  CHECK(beside_bytes(5, 4) == doctest::Approx(3));
  const CopyModel copies{1e-6, 50};
  CHECK(copies.ms(1000, 1e6) == doctest::Approx(0.021));
}

TEST_CASE("pitch: rows of made-up GPUs fit, and are beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = packed_bytes(run);
    CHECK(padded * bytes > 512.0 * (1 << 15));  // the rows that cudaMemcpy2D carries
    return Needs{2 * (padded * bytes + guard_bytes), 2 * bytes};
  });
}

TEST_CASE("pitch: 02.7 goes by all widths that are not aligned and beyond the L2") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("pitch", &printed);
  const Run run{report, &device, {}};
  const auto gain = [](double r) { return Interval{r, r * 0.99, r * 1.01, 15, ""}; };
  judge(run, {{33, true, gain(1.2)},
              {100, true, gain(1.3)},
              {132, true, gain(1.1)},
              {129, true, gain(0.8)},
              {128, true, gain(0.5)},
              {1, false, gain(0.5)}});
  CHECK(printed.find("02.7   holds  ") != std::string::npos);  // three of four
  CHECK(printed.find("faster at 3 of 4 widths") != std::string::npos);
  CHECK(printed.find("nothing at 129 bytes") != std::string::npos);
  printed.clear();
  judge(run, {{33, true, gain(1.2)},
              {100, true, gain(0.9)},
              {132, true, gain(0.9)},
              {129, true, gain(0.8)},
              {127, true, gain(0.8)}});
  CHECK(printed.find("02.7   does not hold") != std::string::npos);
}

TEST_CASE("pitch: rows are right and what lies between them is left alone") {
  if (skip_without_gpu()) return;
  const Arrays arrays(1001 * 8192);
  for (const unsigned height : {1, 2, 3, 7, 9, 1000})
    for (const unsigned width :
         {1, 3, 31, 33, 127, 129, 257, 1025, 4097, 4, 100, 128, 132, 1028, 4092, 4096})
      for (const size_t pitch : {size_t(width), Pitched(width).pitch}) {
        const Rows rows = rows_of(width, pitch, height);
        CAPTURE(std::to_string(width) + " x " + std::to_string(height) + ", pitch " +
                std::to_string(pitch));
        const Task task = arrays.task(word_of(width), "rows", rows);
        CHECK(wrong_after(task) == 0);
        // a guard touched is found
        CUDA_CHECK(cudaMemset(arrays.out.data() + (height + 1) * pitch - 1, 0, 1));
        CHECK(task.check.wrong() == 1);
        Task idle = task;
        idle.launch = [] {};
        CHECK(wrong_after(idle) == size_t(rows.width) * rows.height);
      }
}

TEST_CASE("pitch: cudaMemcpy2D there and back, and sectors begin with the rows") {
  if (skip_without_gpu()) return;
  PinnedBuffer<unsigned char> from(1 << 16), to(1 << 16);
  fill_host(from);
  const Arrays arrays(1 << 17);
  for (const unsigned width : {1, 3, 31, 129, 1025, 4097}) {
    const Pitched rows(width);
    CHECK((reinterpret_cast<size_t>(rows.data) | rows.pitch) % 32 == 0);  // predictions rest on it
    for (const size_t pitch : {size_t(width), rows.pitch}) {
      const Copies copies{arrays, width, pitch, 7, from, to};
      CHECK(wrong_after(copies.up()) == 0);
      CHECK(wrong_after(copies.down()) == 0);
    }
  }
}

TEST_CASE("pitch: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("pitch: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("pitch: counted sectors of an NVIDIA H200 equal the model") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("pitch: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { pitch(run); });
}
