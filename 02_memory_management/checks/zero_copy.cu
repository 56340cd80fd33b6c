// Self-checks of zero_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../zero_copy.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("zero_copy: the sum of all passes, by a loop") {
  unsigned sum = 0;
  for (size_t n = 0; n < 1000; sum += word_at(n++)) CHECK(sum_of_passes(n, 3) == sum * (1 + 2 + 3));
}

TEST_CASE("zero_copy: predictions, by hand") {
  const Rates r{50, 40, 40, 4000, 4000};
  CHECK(copies_ms(0.03, 1e8, r) == doctest::Approx(6.03));
  CHECK(in_place_ms(0.01, 1e8, r) == doctest::Approx(5.01));
  CHECK(reads_that_pay(r) == 1);  // the copy engine is the better reader
  CHECK(reads_that_pay({50, 50, 50, 4000, 4000}) == 2);
  CHECK(reads_that_pay({300, 300, 300, 400, 400}) == 4);
  CHECK(reads_that_pay({500, 500, 500, 400, 400}) == INFINITY);
}

TEST_CASE("zero_copy: arrays and grids of made-up GPUs") {
  for (const double host : {double(INFINITY), 1e9})
    check_on_made_up_devices([host](const Run& run) {
      const Grid grid = filling(run.device->prop);
      CHECK(grid.total() == size_t(run.device->prop.multiProcessorCount) *
                                size_t(run.device->prop.maxThreadsPerMultiProcessor));
      const double bytes = 4.0 * double(words_of(run, host));
      CHECK(bytes <= 0.4 * host);
      const double sums = 4.0 * 4 * double(grid.total());
      return Needs{bytes + sums, host == INFINITY ? bytes : NAN};
    });
}

TEST_CASE("zero_copy: each claim compares the text's pair, the right way round") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  std::string printed;
  Report report("zero_copy", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const Passes far{always(1), always(80), 8}, near{always(80), always(79), 8};
  judge(run, far, far, 1 << 22, 2, {});
  CHECK(printed.find("02.5a  holds  ") != std::string::npos);
  CHECK(printed.find("02.5b  holds  ") != std::string::npos);
  printed.clear();
  judge(run, near, near, 1 << 22, 2, {});
  CHECK(printed.find("02.5a  does not hold") != std::string::npos);
  CHECK(printed.find("02.5b  does not hold") != std::string::npos);
  printed.clear();
  judge(run, far, far, 1 << 21, 2, {});
  CHECK(printed.find("02.5a  not judged") != std::string::npos);
}

TEST_CASE("zero_copy: sums are right by every pointer") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 257, 65537, 600007}) {
    CAPTURE(n);
    const HostWords host(3 * n, cudaHostAllocMapped);
    fill(host.data(), 3 * n);
    const Arrays arrays(host.data(), n);
    const Task ways[] = {arrays.by_copies(n), arrays.by_device_pointer(n),
                         arrays.by_host_pointer(n)};
    for (const Task& task : ways) {
      CAPTURE(task.name);
      CHECK(wrong_after(task) == 0);
      Task idle = task;
      idle.launch = [] {};
      CHECK(wrong_after(idle) == n);
    }
  }
}

TEST_CASE("zero_copy: every pass reads and writes every word once") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 3, 31, 257, 65537, 1200007}) {  // the last is more than one grid
    CAPTURE(n);
    const HostWords host(n, cudaHostAllocMapped);
    fill(host.data(), n);
    Grid grid;
    Sums sums(grid, 4);
    Words device(n), quarter((n + 3) / 4);
    device.copy_from(std::vector<unsigned>(host.data(), host.data() + n));
    for (const unsigned passes : {1u, 5u}) {
      CHECK(wrong_after(reading("host", sums, host.data(), n, passes)) == 0);
      CHECK(wrong_after(reading("device", sums, device.data(), n, passes)) == 0);
      CHECK(wrong_after(copying(sums, device, host.data(), n, passes)) == 0);
    }
    CHECK(wrong_after(copying_pieces(sums, quarter, host.data(), n)) == 0);
    std::vector<unsigned> end(Sums::canaries);
    device_memory::to_host(end.data(), sums.of(4), end.size() * sizeof(unsigned));
    CHECK(std::count(end.begin(), end.end(), ~0u) == long(end.size()));

    REQUIRE(wrong_words(device.data(), n, 0) == 0);
    REQUIRE(wrong_words_on_host(host.data(), n, 0) == 0);
    const unsigned off_by_one = word_at(n - 1) + 1;
    device_memory::to_device(device.data() + n - 1, &off_by_one, sizeof off_by_one);
    CHECK(wrong_words(device.data(), n, 0) == 1);
    CHECK(wrong_words(device.data(), n, 1) == n - 1);

    host[n / 2] += 1;  // the check finds one wrong word
    CHECK(wrong_after(reading("host", sums, host.data(), n, 1)) == 1);
    DeviceBuffer<unsigned> out(n + 64);
    out.poison();
    for (const unsigned passes : {1u, 5u}) {
      CHECK(wrong_after(writing("device", grid, out.data(), n, passes, wrong_words)) == 0);
      CHECK(wrong_after(writing("host", grid, host.data(), n, passes, wrong_words_on_host)) == 0);
    }
    const std::vector<unsigned> all = out.to_host();
    CHECK(std::count(all.begin() + long(n), all.end(), ~0u) == 64);
  }
}

TEST_CASE("zero_copy: pinned memory has one address, and sums by it are right") {
  if (skip_without_gpu()) return;
  for (const unsigned flags : {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped})
    CHECK(one_pointer(flags, 1009));
  CHECK_NOTHROW(one_pointer(cudaHostAllocWriteCombined, 1009));
}

TEST_CASE("zero_copy: the host reads a late write once it has synchronised") {
  if (skip_without_gpu()) return;
  const auto [at_once, after] = late_write(-3, 7);
  if (after == -7) return skip_self_check("launches wait for their kernels");
  CHECK(at_once == -3);
  CHECK(after == 7);
}

TEST_CASE("zero_copy: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { zero_copy(run); });
}
