// Self-checks of transfer.cu, compiled in its place where BUILD_TESTING is on.
#include "../transfer.cu"

#include "../../framework/common/checks/standard.hpp"

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
  const Lines c{Line(0.01, 1e6, 0.03), Line(0.02, 1e6, 0.06)};  // 50 and 25 GB/s
  CHECK(c.up.gbs == doctest::Approx(50));
  const auto ms = [&](Kind kind, Direction d) { return predicted_ms(kind, d, 1e8, c); };
  CHECK(ms(Kind::pinned, Direction::to_device) == doctest::Approx(2.01));
  CHECK(ms(Kind::pinned, Direction::to_host) == doctest::Approx(4.02));
  CHECK(ms(Kind::pinned, Direction::both_ways) == doctest::Approx(2.02));    // the slower half
  CHECK(ms(Kind::pageable, Direction::both_ways) == doctest::Approx(3.03));  // one after the other
  CHECK(c.up.half_bytes() == doctest::Approx(5e5));
}

TEST_CASE("transfer: kinds and ways stand where their names say") {
  for (const Memory& kind : kinds) CHECK(&memory_of(kind.kind) == &kind);
  CHECK(direction_of("pageable_to_device") == Direction::to_device);
  CHECK(direction_of("pinned_to_host") == Direction::to_host);
  CHECK(direction_of("pinned_both_ways") == Direction::both_ways);
  CHECK(ways[0].direction == Direction::to_device);
  CHECK(ways[1].direction == Direction::to_host);
  for (const Direction d : {Direction::to_device, Direction::to_host, Direction::both_ways})
    CHECK(Ends::bytes_up(d, 7) == (d == Direction::to_device ? 7
                                   : d == Direction::to_host ? 0
                                                             : 3));
}

TEST_CASE("transfer: the host reads every word once") {
  const Shared reads(HostReads(Kind::pageable));
  const Task task = read_task("pinned_read", reads);
  CHECK(wrong_after(task) == 0);
  Task idle = task;  // after a right run: what it left must be wrong now
  idle.launch = [] {};
  CHECK(wrong_after(idle) == 1);
  for (const size_t i : {size_t(0), reads->count / 2, reads->count - 1}) {
    ++reads->words()[i];
    CHECK(wrong_after(task) == 1);
    --reads->words()[i];
  }
  reads->words()[1] = reads->words()[2];  // one left out, and another taken twice
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

TEST_CASE("transfer: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(transfer_experiment, part, given);
  };
  const char* const holds = verdict_text(Verdict::holds);
  const char* const does_not_hold = verdict_text(Verdict::does_not_hold);
  CHECK(verdict("02.2a", {{"pageable_to_device", 2}}) == holds);
  CHECK(verdict("02.2a", {{"pinned_to_device", 2}}) == does_not_hold);
  CHECK(verdict("02.2b", {{"pageable_to_host", 2}}) == holds);
  CHECK(verdict("02.2b", {{"pageable_to_host", 1.3}}) == verdict_text(Verdict::holds_weaker));
  CHECK(verdict("02.2b", {{"pinned_to_host", 2}}) == does_not_hold);
  CHECK(verdict("02.9", {{"pageable_to_host", 256 * 1.048576}}) == holds);  // 1 GB/s
  CHECK(verdict("02.9", {}) == verdict_text(Verdict::no_longer));
  const Given bare{"host", 0, "virtual machine"};
  CHECK(verdict("02.3a", {bare, {"pinned_piece_to_device", 2}}) == holds);
  CHECK(verdict("02.3b", {bare, {"write_combined_read", 2}}) == holds);
  for (const char* part :
       {"02.3a", "02.3b"}) {  // on some systems: what is not seen refutes nothing
    CHECK(verdict(part, {bare}) == verdict_text(Verdict::not_judged));
    CHECK(verdict(part, {{"pinned_piece_to_device", 2}, {"write_combined_read", 2}}) ==
          verdict_text(Verdict::not_judged));  // a virtual machine
  }
}

TEST_CASE("transfer: every kind and direction leaves its neighbours alone") {
  if (skip_without_gpu()) return;
  constexpr size_t guard = 64;
  for (const Memory& kind : kinds)
    for (const size_t n : {size_t(1), size_t(3), size_t(4095), mib + 1}) {
      INFO(kind.key << ", bytes: " << n);
      const Shared device(DeviceBuffer<Byte>(std::vector<Byte>(n + 2 * guard, 0x5a)));
      const Shared ends(Ends(kind.kind, n, device, guard));
      std::fill_n(ends->on_host - guard, n + 2 * guard, Byte(0x5a));
      for (const Way& way : ways) CHECK(wrong_after(copy_task(key_of(kind, way), ends, n)) == 0);
      CHECK(wrong_after(queued_task(key_of(kind, ways[0]), ends, n)) == 0);
      const std::vector<Byte> all = device->to_host();
      const Byte* const edges[] = {&all[0], &all[guard + n], ends->on_host - guard,
                                   ends->on_host + n};
      for (const Byte* edge : edges) CHECK(std::count(edge, edge + guard, 0x5a) == long(guard));
    }
}

TEST_CASE("transfer: the host has what was sent down, byte for byte") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 65537;
  const Shared ends(Ends(Kind::pinned, n, Shared(DeviceBuffer<Byte>(n))));
  REQUIRE(wrong_after(copy_task("pinned_to_host", ends, n)) == 0);
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += ends->on_host[i] != byte_at(i, ends->round);
  CHECK(wrong == 0);
}

TEST_CASE("transfer: a copy that nobody waited for is found" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = 48 * mib;
  if (pinned_budget() < n) return skip_self_check("needs 48 MiB of pinned memory");
  const Shared ends(Ends(Kind::pinned, n, Shared(DeviceBuffer<Byte>(n))));
  Task task = copy_task("pinned_to_device", ends, n);
  CHECK(wrong_after(task) == 0);
  task.launch = [ends] {
    CUDA_CHECK(cudaMemcpyAsync(ends->device, ends->on_host, n, cudaMemcpyHostToDevice, ends->up));
  };
  CHECK(wrong_after(task) > 0);
  ends->up.wait();
}

TEST_CASE("transfer: registered memory is pinned as long as it is there") {
  if (skip_without_gpu()) return;
  const auto type_of = [](const void* data) {
    cudaPointerAttributes attributes{};
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
    return attributes.type;
  };
  const HostMemory ordinary(memory_of(Kind::pageable), mib);
  const HostMemory locked(memory_of(Kind::registered), mib);
  CHECK(type_of(ordinary.data()) != cudaMemoryTypeHost);
  CHECK(type_of(locked.data()) == cudaMemoryTypeHost);
  CHECK_THROWS_AS(Registration(locked.data(), mib), CudaError);  // twice
  CHECK(cudaGetLastError() == cudaSuccess);
  { const Registration brief(ordinary.data(), mib); }
  CHECK(type_of(ordinary.data()) != cudaMemoryTypeHost);  // ended
}

TEST_CASE("transfer: memory that is refused is an error that names it, and leaves none behind") {
  if (skip_without_gpu()) return;
  for (const Memory& kind : kinds) {
    if (kind.by_malloc()) continue;
    CHECK_THROWS_AS(HostMemory(kind, size_t(1) << 60), CudaError);  // more than there are addresses
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

EXPERIMENT_CHECKS(transfer)
