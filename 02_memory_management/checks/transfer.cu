// Self-checks of transfer.cu, compiled in its place where BUILD_TESTING is on.
#include "../transfer.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

TEST_CASE("transfer: every byte differs from one round to the next") {
  size_t same = 0, alike = 0;
  for (size_t i = 0; i < 100000; ++i) {
    for (unsigned later : {1u, 2u, 128u, 255u}) same += byte_at(i, 7) == byte_at(i, 7 + later);
    alike += byte_at(i, 7) == byte_at(i + 65536, 7);
  }
  CHECK(same == 0);
  CHECK(alike < 1000);  // 1 in 256 by chance, in no order
}

TEST_CASE("transfer: what a link carries, and what none can") {
  CHECK(link_gbs(2.5, 16) == doctest::Approx(4));  // the figures by which generations are known
  CHECK(link_gbs(8, 16) == doctest::Approx(15.754).epsilon(1e-4));
  CHECK(link_gbs(32, 16) == doctest::Approx(63.015).epsilon(1e-4));
  CHECK_NOTHROW(require_possible("a copy", 55, 63));
  CHECK_NOTHROW(require_possible("a copy", 55, NAN));  // a link of which nothing is known
  CHECK_THROWS_AS(require_possible("a copy", 75 * 63, 63), WrongResult);
}

TEST_CASE("transfer: copies fit made-up GPUs, and hosts that have less to pin") {
  for (const double host : {double(INFINITY), 1e9, 1e8})
    check_on_made_up_devices([host](const Run& run) {
      const double bytes = double(largest_copy(run, 0, host));
      CHECK(bytes <= 0.9 * host);
      return Needs{bytes};
    });
}

TEST_CASE("transfer: a rate is held to the link of a card that has one") {
  cudaDeviceProp jetson{};
  jetson.integrated = 1;
  CHECK(std::isnan(link_gbs(jetson)));
  cudaDeviceProp nowhere{};
  nowhere.pciDomainID = 0xffff;  // as in WSL2: the bus does not have it
  CHECK(std::isnan(link_gbs(nowhere)));
  CHECK_NOTHROW(require_possible("copies", 1e6, NAN));
}

TEST_CASE("transfer: predictions, by hand") {
  const Calibrated c{Way(0.01, 1e6, 0.03), Way(0.02, 1e6, 0.06)};  // 50 and 25 GB/s
  CHECK(c.up.gbs == doctest::Approx(50));
  CHECK(predicted_ms(pinned, to_device, 1e8, c) == doctest::Approx(2.01));
  CHECK(predicted_ms(pinned, to_host, 1e8, c) == doctest::Approx(4.02));
  CHECK(predicted_ms(pinned, both_ways, 1e8, c) == doctest::Approx(2.02));    // the slower half
  CHECK(predicted_ms(pageable, both_ways, 1e8, c) == doctest::Approx(3.03));  // one after the other
  CHECK(c.up.half_bytes() == doctest::Approx(5e5));
  CHECK(model_of(pinned, 1e7, c) == Model::traffic);
  CHECK(model_of(pinned, 1e6, c) == Model::latency);
  CHECK(model_of(pageable, 1e7, c) == Model::host);
}

TEST_CASE("transfer: the host reads every word once") {
  const HostMemory memory(pageable, HostReads::bytes);
  HostReads reads(memory);
  const Task task = reads.task("the host reads");
  CHECK(wrong_after(task) == 0);
  Task idle = task;  // after a right run: what it left must be wrong now
  idle.launch = [] {};
  CHECK(wrong_after(idle) == 1);
  for (const size_t i : {size_t(0), reads.count / 2, reads.count - 1}) {
    ++reads.words[i];
    CHECK(wrong_after(task) == 1);
    --reads.words[i];
  }
  reads.words[1] = reads.words[2];  // one left out, and another taken twice
  CHECK(wrong_after(task) == 1);
}

TEST_CASE("transfer: sizes begin with the call and end with the largest") {
  for (const size_t largest : {size_t(1), size_t(1000), size_t(1024), 3 * mib, 1024 * mib})
    for (const bool quick : {false, true}) {
      const Sizes sizes = sizes_of(largest, quick, false);
      CHECK(sizes.all.back() == largest);
      CHECK(sizes.all.front() == std::min(largest, small_copy));
      CHECK(std::is_sorted(sizes.all.begin(), sizes.all.end()));
      for (const size_t n : {sizes.small, sizes.calibrating})
        CHECK(std::count(sizes.all.begin(), sizes.all.end(), n) == 1);
      CHECK(!sizes.some.empty());
    }
}

TEST_CASE("transfer: each claim compares the text's pair, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("transfer", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  Largest then;  // 1 GB/s back to pageable memory, twice that to pinned, as much up
  then.up[0] = then.down[0] = always(1000);
  then.up[1] = then.down[1] = always(500);
  judge_largest(run, then, 1000000000);
  for (const char* line : {"02.2a  holds  ", "02.2b  holds  ", "02.9   holds  "}) {
    CAPTURE(std::string(line));
    CHECK(printed.find(line) != std::string::npos);
  }
  printed.clear();
  judge_largest(run, {{always(10), always(10)}, {always(10), always(8)}}, 1000000000);
  for (const char* line : {"02.2a  does not hold", "02.2b  holds, weaker", "02.9   no longer"})
    CHECK(printed.find(line) != std::string::npos);
  printed.clear();
  judge_largest(run, then, 1000000);
  CHECK(printed.find("02.2a  not judged") != std::string::npos);
}

TEST_CASE("transfer: every kind and direction arrives and leaves its neighbours alone") {
  if (skip_without_gpu()) return;
  constexpr size_t guard = 64;
  for (int k = 0; k < kind_count; ++k)
    for (const size_t n : {size_t(1), size_t(3), size_t(4095), mib + 1}) {
      INFO(kind_names[k] << ", bytes: " << n);
      DeviceBuffer<Byte> device(std::vector<Byte>(n + 2 * guard, 0x5a));
      Ends ends(Kind(k), n, device.data() + guard, guard);
      std::fill_n(ends.on_host - guard, n + 2 * guard, Byte(0x5a));
      for (const Direction d : {to_device, to_host, both_ways}) {
        const Task task = ends.task(d, n);
        CHECK(wrong_after(task) == 0);
        Task idle = task;  // after a right copy: what it left must be wrong now
        idle.launch = [] {};
        CHECK(wrong_after(idle) == n);
        CHECK(wrong_after(task) == 0);
      }
      const Task several = ends.queued_task(n);
      CHECK(wrong_after(several) == 0);
      const std::vector<Byte> all = device.to_host();
      const Byte* const edges[] = {&all[0], &all[guard + n], ends.on_host - guard,
                                   ends.on_host + n};
      for (const Byte* edge : edges) CHECK(std::count(edge, edge + guard, 0x5a) == long(guard));
    }
}

TEST_CASE("transfer: the host has what was sent down, byte for byte") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 65537;
  const DeviceBuffer<Byte> device(n);
  Ends ends(pinned, n, device.data());
  REQUIRE(wrong_after(ends.task(to_host, n)) == 0);
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += ends.on_host[i] != byte_at(i, ends.round);
  CHECK(wrong == 0);
  ends.on_host[n - 1] ^= 1;
  CHECK(ends.wrong_on_host(0, n) == 1);
}

TEST_CASE("transfer: a copy that nobody waited for is found" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = 48 * mib;
  if (pinned_budget() < n) return skip_self_check("needs 48 MiB of pinned memory");
  const DeviceBuffer<Byte> device(n);
  Ends ends(pinned, n, device.data());
  for (const Direction d : {to_device, to_host, both_ways})
    CHECK(wrong_after(ends.task(d, n)) == 0);
  CHECK(wrong_after(ends.queued_task(n / 8)) == 0);
  Task task = ends.task(to_device, n);
  task.launch = [&] {
    CUDA_CHECK(cudaMemcpyAsync(ends.device, ends.on_host, n, cudaMemcpyHostToDevice, ends.up));
  };
  CHECK(wrong_after(task) > 0);
  ends.up.wait();
}

TEST_CASE("transfer: registered memory is pinned as long as it is there") {
  if (skip_without_gpu()) return;
  const auto type_of = [](const void* data) {
    cudaPointerAttributes attributes{};
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
    return attributes.type;
  };
  const HostMemory ordinary(pageable, mib), locked(registered, mib);
  CHECK(type_of(ordinary.data()) != cudaMemoryTypeHost);
  CHECK(type_of(locked.data()) == cudaMemoryTypeHost);
  CHECK_THROWS_AS(Registration(locked.data(), mib), CudaError);  // twice
  CHECK(cudaGetLastError() == cudaSuccess);
  { const Registration brief(ordinary.data(), mib); }
  CHECK(type_of(ordinary.data()) != cudaMemoryTypeHost);  // ended
}

TEST_CASE("transfer: memory that is refused is an error that names it, and leaves none behind") {
  if (skip_without_gpu()) return;
  for (const Kind kind : {pinned, portable, mapped, combined}) {
    CHECK_THROWS_AS(HostMemory(kind, size_t(1) << 60), CudaError);  // more than there are addresses
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

TEST_CASE("transfer: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { transfer(run, by_default); });
}
