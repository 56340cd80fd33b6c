// Self-checks of latency_warps.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency_warps.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/made_up_devices.hpp"

TEST_CASE("latency: chains of multiply-adds, by hand") {
  // a warp alone waits 4 cycles for itself; 16 warps of 32 lanes fill 128 lanes for 4 cycles
  CHECK(cycles_of_a_step(1, 4, 128) == 4);
  CHECK(cycles_of_a_step(16, 4, 128) == 4);
  CHECK(cycles_of_a_step(32, 4, 128) == 8);
  CHECK(cycles_of_a_step(6, 4, 64) == 4);
  CHECK(cycles_of_a_step(16, 4, 64) == 8);
  // the text's own GPU: 8 lanes, and 192 threads are enough if the latency is 24 cycles
  CHECK(cycles_of_a_step(5, 24, 8) == 24);
  CHECK(cycles_of_a_step(6, 24, 8) == 24);
  CHECK(cycles_of_a_step(7, 24, 8) == 28);

  Device device;
  device.number = -1;
  CHECK(std::isnan(predicted_ms(device, 1, 100)));
  device.sm_clock_khz = 2000000;
  device.prop.major = 9;
  CHECK(predicted_ms(device, 8, 1000000) == doctest::Approx(2));  // 4 cycles of half a nanosecond
  CHECK(predicted_ms(device, 32, 250000) == doctest::Approx(1));  // the same work by 32 warps
  CHECK(multiply_adds_per_cycle(7, 5) == 64);
  CHECK(multiply_adds_per_cycle(8, 6) == 128);
}

TEST_CASE("latency: every count of warps does the same work, which floats count exactly") {
  std::string printed;
  Report report("latency", &printed);
  for (const bool quick : {false, true}) {
    const unsigned steps = all_steps({report, nullptr, {}, quick});
    for (const unsigned warps : counts) CHECK(steps % (256 * warps) == 0);
    CHECK(steps + 1024 < 1u << 24);
  }
}

TEST_CASE("latency: the slowest count above 192 threads") {
  const auto found = [](std::vector<std::pair<unsigned, double>> of) {
    return slowest([&of](unsigned warps) {
      for (const auto& [w, ms] : of)
        if (w == warps) return ms;
      return 1.0;
    });
  };
  CHECK(found({{1, 9}, {6, 5}, {8, 2}, {12, 1.4}}) == 8);  // 6 warps are 192 threads
  CHECK(found({{12, 1.4}, {8, 1.2}}) == 12);
  CHECK(found({{6, 5}}) == full);
  CHECK(slowest([](unsigned) { return double(NAN); }) == full);
}

TEST_CASE("latency: chains end where counting on the host ends") {
  if (skip_without_gpu()) return;
  for (const unsigned steps : {0u, 1u, 255u, 256u, 257u, 1009u}) {
    const Shared chains(Chains(2, 96, steps));
    REQUIRE(wrong_after(chain_task(chain(3), chains)) == 0);
    const std::vector<float> found = chains->out.to_host();
    size_t differ = 0;
    for (unsigned thread = 0; thread < 192; ++thread) {
      float x = float(thread % 96);
      for (unsigned step = 0; step < steps; ++step) x = x * 1.f + 1.f;
      differ += found[thread] != x;
    }
    CHECK(differ == 0);
    const Shared longer(Chains(2, 96, steps + 1));  // a step more is wrong everywhere
    longer->out.poison();
    longer->out.copy_from(found);
    CHECK(longer->out.wrong(IsCount{96, steps + 1}) == 192);
  }
}
