// Self-checks of latency_halves.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency_halves.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/made_up_devices.hpp"

namespace {

/// So many loads near, and so many far.
std::vector<unsigned> loads(int near, int far) {
  std::vector<unsigned> cycles(near, 280);
  cycles.insert(cycles.begin(), far, 457);
  return cycles;
}

}  // namespace

TEST_CASE("latency: made-up first walks are near or far") {
  // two readers on this side, three on the other; a few loads are late wherever the line was
  const chase::Distances two = distances_of(
      {loads(990, 10), loads(500, 500), loads(480, 520), loads(985, 15), loads(520, 480)},
      {0.5, 0.5, 1.0, 0.5, NAN});  // the clock fell in the third walk; the last was too short
  CHECK(two.near_ns.median == 140);
  CHECK(two.far_ns.low == doctest::Approx(228.5 * 1.1));  // 228.5 and 457
  CHECK(two.far_ns.high == doctest::Approx(228.5 * 1.9));
  CHECK(two.far_ns.repeats == 2);
  CHECK(two.same_side == 2);
  CHECK(two.other_side == 3);
  CHECK(two.near.median == 280);
  CHECK(two.far.median == 457);
  const chase::Distances one =
      distances_of({loads(990, 10), loads(1000, 0), loads(960, 40)}, {0.5, 0.5, 0.5});
  CHECK(one.same_side == 3);
  CHECK(one.other_side == 0);
  CHECK(one.near.median == 280);
  CHECK(one.far.repeats == 0);
  CHECK(one.far_ns.repeats == 0);
  CHECK(third_quartile({1, 2, 3, 4, 5, 6, 7, 8}) == 7);
  CHECK(distances_of({}, {}).near.repeats == 0);
}

TEST_CASE("latency: the map of a made-up multiprocessor") {
  // of two walks the slower one followed the reader of the other side: the slower half is far
  for (const bool turned : {false, true}) {
    std::vector<std::vector<unsigned>> walks{loads(980, 20), loads(490, 510)};
    if (turned) std::swap(walks[0], walks[1]);
    const chase::OfMultiprocessor found = on_the_map(7, walks);
    CHECK(found.number == 7);
    CHECK(found.near.median == 280);
    CHECK(found.near.repeats == 1000);
    CHECK(found.far.median == 457);
    CHECK(found.far.low == 457);
    CHECK(found.far.repeats == 500);
  }
  const chase::OfMultiprocessor one_side = on_the_map(0, {loads(900, 100)});
  CHECK(one_side.near.median == 280);
  CHECK(one_side.far.repeats == 0);
  CHECK(which_are_far({280, 457, 281}) == std::vector<bool>{false, true, false});
  CHECK(which_are_far({280, 300}) == std::vector<bool>{false, false});
}

TEST_CASE("latency: the ring of near and far fits half of the L2 of made-up GPUs") {
  for (const Device& device : made_up_devices()) {
    CAPTURE(std::string(device.prop.name));
    const size_t bytes = chase::l2_ring_bytes(device.l2_bytes());
    CHECK(bytes <= device.l2_bytes() / 2);
    CHECK(bytes <= size_t(4) << 20);  // as recorded on Hopper
    const unsigned slots = unsigned(bytes / slot_bytes);
    for (const unsigned reads : {2048u, 8192u, 100000u}) {
      CHECK(reads_of(slots, reads) < slots - 1);
      CHECK(reads_of(slots, reads) >= 2048);
    }
  }
  CHECK(reads_of(65536, 8192) == 8192);
  CHECK(reads_of(1024, 8192) == 1022);
}

TEST_CASE("latency: one multiprocessor reads all of the ring") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const std::vector<unsigned> numbers = multiprocessors(device);
  CHECK(numbers.size() >= 1);
  CHECK(numbers.size() <= size_t(device.prop.multiProcessorCount));
  for (const unsigned slots : {1u, 31u, 1009u, 4097u}) {
    Halves halves(device, slots);
    CHECK(halves.read_on(numbers.front()));           // throws if a sum is wrong
    CHECK_FALSE(halves.read_on(~0u));                 // there is no such one
    halves.right[slots % readers / 2] += slot_bytes;  // a slot left out, its neighbour taken twice
    CHECK_THROWS_AS(halves.read_on(numbers.front()), WrongResult);
    halves.right[slots % readers / 2] -= slot_bytes;
    if (slots < 3) continue;
    const unsigned reads = reads_of(slots, 1024);
    CHECK(halves.walk_on(numbers.back(), numbers.front(), reads).cycles.size() == reads);
    CHECK(halves.walk_on(~0u, numbers.front(), reads).cycles.empty());
    CHECK(halves.walk_on(numbers.front(), ~0u, reads).cycles.empty());
  }
}

TEST_CASE("latency: first reads of the L2 are answered from one side or the other") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const chase::Distances halves = chase::measure_halves(device, 1024);  // checks its walks
  CHECK(halves.same_side > 0);  // at least the one that walks
  CHECK(halves.same_side + halves.other_side <= device.prop.multiProcessorCount);
  CHECK(halves.near.median > 0);
  CHECK(halves.map.size() > 0);
  CHECK(halves.map.size() <= size_t(device.prop.multiProcessorCount));
  for (const chase::OfMultiprocessor& each : halves.map) {
    CAPTURE(each.number);
    CHECK(each.near.median > 0);
    CHECK((each.far.repeats > 0) == (halves.other_side > 0));
    if (each.far.repeats > 0) CHECK(each.far.median > each.near.median);
  }
}
