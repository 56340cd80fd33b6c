// Self-checks of latency_halves.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency_halves.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"

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
  DeviceBuffer<unsigned long long> sums(readers);
  for (const unsigned slots : {1u, 31u, 1009u, 4097u}) {
    const DeviceBuffer<char> memory(size_t(slots) * slot_bytes);
    const size_t ring = chase::linked(memory, slots);
    const std::vector<unsigned long long> right = sums_by_host(ring, slots);
    CHECK(read_on(numbers.front(), device, ring, slots, right, sums));  // throws if a sum is wrong
    CHECK_FALSE(read_on(~0u, device, ring, slots, right, sums));        // there is no such one
    std::vector<unsigned long long> other = right;
    other[slots % readers / 2] += slot_bytes;  // a slot left out and its neighbour taken twice
    CHECK_THROWS_AS(read_on(numbers.front(), device, ring, slots, other, sums), WrongResult);
  }
}

TEST_CASE("latency: first reads of the L2 are answered from one side or the other") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const chase::Distances halves = chase::measure_halves(device, 1024);  // checks its walks
  CHECK(halves.same_side > 0);  // at least the one that walks
  CHECK(halves.same_side + halves.other_side <= device.prop.multiProcessorCount);
  CHECK(halves.near.median > 0);
}
