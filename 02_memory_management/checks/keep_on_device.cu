// Self-checks of keep_on_device.cu, compiled in its place where BUILD_TESTING is on.
#include "../keep_on_device.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("keep_on_device: sizes fit made-up GPUs, and hosts that have less to pin") {
  for (const double host : {double(INFINITY), 1e6})
    check_on_made_up_devices([host](const Run& run) {
      const std::vector<size_t> sizes = fitting_sizes(run, host);
      CHECK(sizes.size() >= 2);
      CHECK(double(sizes.back()) <= host);
      return Needs{2.0 * double(sizes.back())};
    });
}

TEST_CASE("keep_on_device: the host steps each chain as if it were alone") {
  for (const size_t n : {1, 2, 1023, 1024, 1025, 5000})
    for (const size_t chain_count : {size_t(1), size_t(chains)}) {
      std::vector<unsigned> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = 0x9e3779b1u * unsigned(i + 1);
      step_on_host(x.data(), n, chain_count);
      for (unsigned& word : x) word ^= word >> 15;
      CHECK(x == expected(n, chain_count));
    }
}

TEST_CASE("keep_on_device: runs of steps can be joined") {
  std::vector<unsigned> whole(1009), parts(1009);
  std::iota(whole.begin(), whole.end(), 7u);
  const std::vector<unsigned> in = whole;
  step_on_host(whole.data(), whole.size(), 1);
  for (unsigned cut : {1u, 2u, 512u, 1008u}) {
    std::copy(in.begin(), in.end(), parts.begin());
    step_on_host(parts.data() + cut, parts.size() - cut,
                 1);  // from zero, not from where it was cut
    for (unsigned k = cut; k < parts.size(); ++k)
      REQUIRE(parts[k] + power(k - cut + 1) * whole[cut - 1] == whole[k]);
  }
}

TEST_CASE("keep_on_device: predictions, by hand") {
  const Line line(10, 0, 110, 1000);
  CHECK(line.us(500) == doctest::Approx(60));
  CHECK(stepped_bytes(4) == 0);
  CHECK(stepped_bytes(4 * chains) == 0);
  CHECK(stepped_bytes(4 * chains + 8) == 8);
}

TEST_CASE("keep_on_device: 02.8 goes by the block, size by size") {
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const auto at = [&](size_t bytes, double block, double trip) {
    return Times{bytes, always(block), always(trip), {}, {}, always(1), always(2)};
  };
  Device device;
  device.number = -1;
  std::string printed;
  Report report("keep_on_device", &printed);
  const Run run{report, &device, {}};
  judge(run, {at(4, 1, 2), at(1024, 1, 1.5), at(4096, 2, 3), at(16384, 4, 3)});
  CHECK(printed.find("02.8   holds  ") != std::string::npos);  // three of four
  CHECK(printed.find("at 4 B, 1.00 KiB, 4.00 KiB") == std::string::npos);
  CHECK(printed.find("at 4 B, 1 KiB, 4 KiB; at the least 1.33x slower") != std::string::npos);
  printed.clear();
  judge(run, {at(4, 1, 2), at(1024, 1, 1.5)});
  CHECK(printed.find("at every size up to 1 KiB") != std::string::npos);
  printed.clear();
  judge(run, {at(4, 2, 1), at(1024, 2, 1.5)});
  CHECK(printed.find("02.8   does not hold") != std::string::npos);
  CHECK(printed.find("at no size") != std::string::npos);
}

TEST_CASE("keep_on_device: every way steps right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 33, 1023, 1024, 1025, 4097, 8192, 65537, 1048583}) {
    CAPTURE(n);
    Work work(n);
    const Task ways[] = {work.by_block(), work.by_round_trip(), work.chain_by_thread(),
                         work.chain_by_scan(), work.chain_by_round_trip()};
    for (const Task& task : ways) {
      CAPTURE(task.name);
      CHECK(wrong_after(task) == 0);
    }
    Task idle = ways[0];
    idle.launch = [] {};
    CHECK(wrong_after(idle) == n);
  }
}

TEST_CASE("keep_on_device: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { keep_on_device(run); });
}
