// Self-checks of timing.cu, compiled in its place where BUILD_TESTING is on.
#include "../timing.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("timing: predictions, by hand") {
  const Calibrated c{0.2, 0.003, 0.008, 2e6};
  CHECK(predicted_ms("not_waiting", c) == 0.003);
  CHECK(predicted_ms("waiting", c) == doctest::Approx(0.208));
  CHECK(predicted_ms("between_events", c) == 0.2);
  CHECK(predicted_cycles(2112, 1056, c) == doctest::Approx(2e5));  // half of 0.2 ms
  CHECK(predicted_cycles(100, 1056, c) == doctest::Approx(4e5));   // one round
  CHECK(blocks_for(1, 1056) == 1);
  CHECK(blocks_for(257, 1056) == 2);
  CHECK(blocks_for(1 << 26, 1056) == 2112);
}

TEST_CASE("timing: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(timing_experiment, part, given);
  };
  const char *const holds = verdict_text(Verdict::holds), *const does_not =
                                                              verdict_text(Verdict::does_not_hold);
  CHECK(verdict("01.9", {{"between_events", 57, over_launch}}) == holds);
  CHECK(verdict("01.9", {{"between_events", 57, "time"}}) == does_not);
  CHECK(verdict("01.12", {{"wait_each", 2.5}}) == holds);
  CHECK(verdict("01.12", {{"wait_each", 1.25}}) == verdict_text(Verdict::holds_weaker));
  CHECK(verdict("01.12", {{"wait_once", 2.5}}) == does_not);
}

TEST_CASE("timing: arrays of made-up devices") {
  std::string printed;
  Report report("timing", &printed);
  for (const int l2_mib : {0, 4, 60, 126, 300}) {
    Device device;
    device.number = -1;
    device.prop.l2CacheSize = l2_mib << 20;
    device.prop.totalGlobalMem = size_t(80) << 30;
    CHECK(beyond_l2(device, 8.0 * double(elements({report, &device, {}}))));
    device.prop.totalGlobalMem = size_t(256) << 20;  // little is free: less, and no failure
    CHECK(8.0 * double(elements({report, &device, {}})) <= 0.9 * (256 << 20));
  }
}

TEST_CASE("timing: the device's own clocks go on") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 257, 1000003}) {
    const Shared arrays(Arrays(n, 100));
    CHECK(wrong_after(clocked_task(arrays)) == 0);
    const Clocks clocks = arrays->clocks.to_host()[0];
    CHECK(clocks.last_end >= clocks.first_start);
    CHECK(clocks.block_cycles > 0);
  }
}

// A kernel of known length: what waits takes at least as long, and leaves nothing running.
TEST_CASE("timing: each way waits for the kernel where it says so, and not where it does not") {
  if (skip_without_gpu()) return;
  DeviceBuffer<long long> cycles(1);
  cycles.poison();
  for (const Way& way : ways) {
    CAPTURE(std::string(way.words));
    const double kernel_ms = way.ms == between_events_many ? 1 : 100;
    const Function<void()> launch = [&] {
      spin<<<1, 1>>>(cycles.data(), (unsigned long long)(kernel_ms * 1e6));
    };
    waiting(launch);  // loads the code
    const double ms = way.ms(launch);
    const bool ended = cudaStreamQuery(nullptr) == cudaSuccess;
    CUDA_CHECK(cudaDeviceSynchronize());
    cudaGetLastError();  // "not ready" is no error
    CHECK(ended == way.waits);
    CHECK((ms > 0.98 * kernel_ms) == way.waits);
  }
  CHECK(cycles.to_host()[0] > 0);
}

EXPERIMENT_CHECKS(timing)
