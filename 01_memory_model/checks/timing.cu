// Self-checks of timing.cu, compiled in its place where BUILD_TESTING is on.
#include "../timing.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("timing: predictions, by hand") {
  const Calibrated c{0.2, 0.003, 0.008, 2e6};
  CHECK(predicted_ms(host_only, c) == 0.003);
  CHECK(predicted_ms(host_waits, c) == doctest::Approx(0.208));
  CHECK(predicted_ms(events, c) == 0.2);
  CHECK(predicted_cycles(2112, 1056, c) == doctest::Approx(2e5));  // half of 0.2 ms
  CHECK(predicted_cycles(100, 1056, c) == doctest::Approx(4e5));   // one round
  CHECK(blocks_for(1, 1056) == 1);
  CHECK(blocks_for(257, 1056) == 2);
  CHECK(blocks_for(1 << 26, 1056) == 2112);
}

TEST_CASE("timing: all clocks of a made-up device but the calibrating one are predicted") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("timing", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const Calibrated c{0.1774, 0.0032, 0.0085, 1.98e6};
  // as recorded
  show(run, {always(0.0031), always(0.1834), always(0.1783), always(0.1774)},
       {always(0.1753), always(168e3)}, c);
  CHECK(report.predictions().size() == 4);
  for (const Prediction& p : report.predictions()) {
    CAPTURE(p.row);
    CHECK(p.measured / p.predicted > 0.9);
    CHECK(p.measured / p.predicted < 1.1);
  }
}

TEST_CASE("timing: each claim compares its pair, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("timing", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  judge(run, always(0.178), always(0.00315), {always(0.85), always(0.32)});
  CHECK(printed.find("01.9   holds  ") != std::string::npos);
  CHECK(printed.find("56.5x as long") != std::string::npos);
  CHECK(printed.find("01.12  holds  ") != std::string::npos);
  CHECK(printed.find("2.66x slower") != std::string::npos);
  printed.clear();
  judge(run, always(0.178), always(0.18), {always(0.4), always(0.32)});
  CHECK(printed.find("01.9   does not hold") != std::string::npos);
  CHECK(printed.find("01.12  holds, weaker") != std::string::npos);
  printed.clear();
  judge(run, always(0.178), always(0.18), {always(0.32), always(0.32)});
  CHECK(printed.find("01.12  does not hold") != std::string::npos);
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

TEST_CASE("timing: arrays fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = 8.0 * double(elements(run));
    return Needs{bytes, bytes};
  });
}

TEST_CASE("timing: both kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 257, 1009, 65537, 1000003}) {
    CAPTURE(n);
    Work work(n, 100);
    CHECK(wrong_after(work.task()) == 0);
    CHECK(wrong_after(work.task_with_clocks()) == 0);
    const Clocks clocks = work.clocks.to_host()[0];
    CHECK(clocks.last_end >= clocks.first_start);
    CHECK(clocks.block_cycles > 0);
    std::vector<unsigned> behind(Work::canaries);
    device_memory::to_host(behind.data(), work.out.data() + n, behind.size() * sizeof(unsigned));
    CHECK(std::count(behind.begin(), behind.end(), ~0u) == long(behind.size()));
    work.out.poison();
    CHECK(work.wrong() == n);
  }
}

// A kernel of known length: what waits takes at least as long, and leaves nothing running.
TEST_CASE("timing: each way waits for the kernel where it says so, and not where it does not") {
  if (skip_without_gpu()) return;
  DeviceBuffer<long long> cycles(1);
  cycles.poison();
  for (const Way& way : ways) {
    CAPTURE(std::string(way.name));
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

TEST_CASE("timing: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { timing(run); });
}
