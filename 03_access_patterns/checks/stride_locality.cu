// Self-checks of stride_locality.cu, compiled in its place where BUILD_TESTING is on.
#include "../stride_locality.cu"

#include <doctest/doctest.h>

TEST_CASE("stride: locality: predictions, by hand") {
  Device device;
  device.prop.multiProcessorCount = 100;
  device.sm_clock_khz = 2000000;  // 200 lines a nanosecond
  CHECK(predicted_ns(Locality::none, 0.9, device) == doctest::Approx(14.4));
  CHECK(predicted_ns(Locality::spatial, 0.9, device) == doctest::Approx(0.9));
  CHECK(predicted_ns(Locality::temporal, 0.9, device) == doctest::Approx(5));
  CHECK(predicted_ns(Locality::both, 0.9, device) == doctest::Approx(5.0 / 32));
  device.sm_clock_khz = 0;  // not reported
  CHECK_FALSE(std::isfinite(predicted_ns(Locality::temporal, 0.9, device)));
}

TEST_CASE("stride: locality: every thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const unsigned turns : {1u, 63u, 200u})
    for (const size_t lines : {size_t(3 * own_lines), size_t(3 * own_lines + 1009)}) {
      Words memory(lines * line_words, Grid{3});
      for (const Locality which : localities) {
        CAPTURE(std::string(name_of(which)));
        CAPTURE(turns);
        const Task task = task_of(memory, which, turns);
        CHECK(wrong_after(task) == 0);
        CHECK(memory.canaries_stand());
        for (const Locality other : localities)  // and none has another's
          if (other != which && turns == 200)
            CHECK(task_of(memory, other, turns).check.wrong() > memory.grid.threads() / 2);
        task.check.poison();
        CHECK(task.check.wrong() == memory.grid.threads());
      }
    }
}
