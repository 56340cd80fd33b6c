// Self-checks of latency.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

/// A device of no GPU, as tests make them up.
Device made_up(int major, size_t shared_bytes, int l2) {
  Device device;
  device.number = -1;
  device.prop.major = major;
  device.prop.sharedMemPerMultiprocessor = shared_bytes;
  device.prop.l2CacheSize = l2;
  return device;
}

/// Whether the prediction of a recorded row lies within a factor.
bool close(double measured, double predicted, double factor) {
  return measured / predicted < factor && predicted / measured < factor;
}

}  // namespace

TEST_CASE("latency: the walk is one cycle over all slots, and it leaps") {
  for (const unsigned slots : {1u, 2u, 3u, 16u, 31u, 97u, 1000u, 4096u, 65537u, 131072u}) {
    CAPTURE(slots);
    const std::vector<unsigned> next = chase::next_slots(slots);
    std::vector<char> visited(slots, 0);
    unsigned slot = 0, met = 0, neighbours = 0;
    for (; met < slots && slot < slots && !visited[slot]; ++met) {
      visited[slot] = 1;
      neighbours += next[slot] == slot + 1 || next[slot] + 1 == slot;
      slot = next[slot];
    }
    CHECK(met == slots);  // in bounds and none twice, so that all were met
    CHECK(slot == 0);     // and it closes
    // two on average in a random order; 20 or more once in 1e13 orders
    if (slots > 1000) CHECK(neighbours < 20);
  }
  const std::vector<unsigned> ring{2, 0, 3, 1};  // 0 2 3 1
  for (unsigned steps = 0; steps < 4; ++steps)
    CHECK(slot_after(ring, steps + 8) == std::vector<unsigned long long>{0, 2, 3, 1}[steps]);
}

TEST_CASE("latency: predictions, by hand") {
  CHECK(missed(100, 100) == 0);
  CHECK(missed(1, 100) == 0);
  CHECK(missed(2 * std::log(2.0) * 100, 100) == doctest::Approx(0.5));  // 1/2 = exp(-ln 2)
  CHECK(missed(1e6, 100) == doctest::Approx(1));
  const Calibrated c{30, 280, 660};
  CHECK(predicted_cycles(100, {100, 1000}, c) == doctest::Approx(30));
  CHECK(predicted_cycles(138.629436, {100, 1000}, c) == doctest::Approx(155));
  CHECK(predicted_cycles(1e4, {1, 2e4}, c) == doctest::Approx(280));
  CHECK(predicted_cycles(1386.29436, {1, 1000}, c) == doctest::Approx(470));
  CHECK(predicted_cycles(1e6, {1, 1}, c) == doctest::Approx(660));
  CHECK(dependent_arithmetic_cycles(9) == 4);
  CHECK(dependent_arithmetic_cycles(6) == 6);
}

// Recorded on one H200, whose L2 of 60 MiB has two halves.
TEST_CASE("latency: the model fits the curve that it was found on") {
  const Device h200 = made_up(9, 228 << 10, 60 << 20);
  const Capacity holds = capacity_of(h200, true);
  const Calibrated c{32, 280.2, 659.3};
  const double kib_and_cycles[][2] = {{128, 32},      {256, 101.3},    {512, 248.6},
                                      {1024, 267.4},  {4096, 276.6},   {16384, 279.4},
                                      {32768, 382.5}, {65536, 586.7},  {131072, 660.1},
                                      {1, 32},        {262144, 658.3}, {491520, 664.7}};
  for (const auto& [kib, cycles] : kib_and_cycles) {
    CAPTURE(kib);
    CHECK(close(cycles, predicted_cycles(kib * 1024, holds, c), 1.25));
  }
}

TEST_CASE("latency: rings of made-up devices") {
  const size_t MiB = 1 << 20;
  const Device t4 = made_up(7, 64 << 10, 4 << 20), b200 = made_up(10, 228 << 10, 126 << 20);
  const Device silent = made_up(5, 96 << 10, 0);  // reports no L2
  CHECK(dram_ring_bytes(t4, 1 << 30) == 16 * MiB);
  CHECK(dram_ring_bytes(b200, 1 << 30) == 512 * MiB);
  CHECK(dram_ring_bytes(b200, 96 * MiB) == 96 * MiB);
  CHECK(beyond_l2(silent, double(dram_ring_bytes(silent, 1 << 30))));
  CHECK(chase::l2_ring_bytes(t4.l2_bytes()) == MiB);
  CHECK(chase::l2_ring_bytes(silent.l2_bytes()) > 0);
  CHECK(capacity_of(t4, false).l1 == 65536);
  CHECK(capacity_of(silent, false).l1 == 24576);
  CHECK(capacity_of(b200, true).l2 == 63.0 * 1048576);
  std::string printed;
  Report report("latency", &printed);
  for (const bool full : {false, true}) {
    const std::vector<size_t> sizes = footprints({report, &b200, {}, false, full}, 480 * MiB);
    CHECK(sizes.size() == (full ? 77 : 20));
    CHECK(sizes.front() == 1024);
    CHECK(sizes.back() == 480 * MiB);
    for (const size_t size : sizes) CHECK(size % slot_bytes == 0);
  }
}

TEST_CASE("latency: footprints of made-up GPUs end with the largest ring") {
  std::string printed;
  Report report("latency", &printed);
  for (const Device& device : made_up_devices()) {
    const Run run{report, &device, {}};
    const size_t bytes = largest_ring(run);
    CHECK(bytes % slot_bytes == 0);
    CHECK(footprints(run, bytes).back() == bytes);
  }
}

TEST_CASE("latency: the ratio of two places, the right way round") {
  OfPlaces found;
  for (size_t i = 0; i < std::size(places); ++i)
    found.cycles.push_back({std::vector<double>(15, double(i + 1))});
  REQUIRE(places[1].key == std::string("chase_shared"));
  REQUIRE(places[8].key == std::string("chase_dram"));
  CHECK(found.ratio_of("chase_dram", "chase_shared").median == doctest::Approx(4.5));
  CHECK(found.ratio_of("chase_shared", "chase_dram").median == doctest::Approx(2.0 / 9));
  found.cycles[8].ms.clear();  // a place that this GPU does not have
  found.cycles[1].ms.clear();
  CHECK(std::isnan(found.ratio_of("chase_dram", "chase_shared").median));
}

TEST_CASE("latency: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(latency_experiment, part, given);
  };
  const auto cycles = [](const char* key, double value) { return Given{key, value, "latency"}; };
  const auto times = [](const char* slow, const char* fast, double value) {
    return Given{slow, value, "latency over that of " + std::string(fast)};
  };
  const char *const holds = verdict_text(Verdict::holds), *const does_not =
                                                              verdict_text(Verdict::does_not_hold);
  CHECK(verdict("01.1a", {}) == holds);
  CHECK(verdict("01.1a", {cycles("chase_local", 30), cycles("chase_texture", 88)}) == holds);
  CHECK(verdict("01.1a", {cycles("chase_shared", 23), cycles("chase_l1", 32),
                          cycles("chase_constant", 28), cycles("chase_read_only", 32)}) ==
        does_not);
  CHECK(verdict("01.1a", {cycles("chase_shared", 23), cycles("chase_l1", 32)}) ==
        verdict_text(Verdict::depends));
  CHECK(verdict("01.1b", {cycles("chase_dram", 659)}) == holds);
  CHECK(verdict("01.1b", {cycles("chase_l2", 659)}) == does_not);
  CHECK(verdict("01.1c", {cycles("chase_dram", 250)}) == holds);
  CHECK(verdict("01.1c", {cycles("chase_dram", 659)}) == verdict_text(Verdict::no_longer));
  CHECK(verdict("01.1d",
                {times("chase_dram", "chase_l1", 20), times("chase_dram", "chase_read_only", 20),
                 times("chase_dram", "chase_constant", 20),
                 times("chase_dram", "chase_shared", 20)}) == holds);
  CHECK(verdict("01.1d", {}) == does_not);
  CHECK(verdict("01.2",
                {times("chase_local", "chase_shared", 1.3), times("chase_l1", "chase_shared", 1.3),
                 times("chase_shared", "chase_register", 5)}) == holds);
  CHECK(verdict("01.2", {times("chase_shared", "chase_register", 5)}) ==
        verdict_text(Verdict::depends));
  CHECK(verdict("01.2", {}) == does_not);
  CHECK(verdict("01.10a", {times("chase_dram", "chase_shared", 28)}) ==
        verdict_text(Verdict::holds_weaker));
  CHECK(verdict("01.10a", {times("chase_dram", "chase_l1", 28)}) == does_not);
  // the rows have as many bytes as 200 blocks read, and as the memory beyond an L2 of 1 MiB
  CHECK(verdict("01.10b", {{"read_shared", 1}, {"read_global", 10}}).starts_with("holds"));
  CHECK(verdict("01.10b", {{"read_shared", 1e4}, {"read_global", 1}}) == does_not);
}

TEST_CASE("latency: a launch too short for the timer has no nanoseconds") {
  CHECK(exact_ns(100000, 1000) == 100000);
  CHECK(std::isnan(exact_ns(99999, 1000)));
  CHECK(exact_ns(3200, 32) == 3200);
  CHECK(statistics_in_ns({{NAN, 4, NAN, 6}}).median == 5);
  CHECK(statistics_in_ns({{NAN, NAN}}).repeats == 0);
}

TEST_CASE("latency: the GPU's timer and its clock agree") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  constexpr unsigned slots = 4096;
  const DeviceBuffer<char> memory(size_t(slots) * slot_bytes);
  DeviceBuffer<Answer> answer(1);
  const Chase ring = in_global(chase_l2, memory, slots);
  const chase::Load load = load_of(ring, answer, 16384);
  CAPTURE(load.cycles);
  CAPTURE(load.ns);
  if (std::isnan(load.ns)) return skip_self_check("this GPU's timer is too coarse");
  CHECK(load.cycles / load.ns > 0.1);  // GHz
  if (device.sm_clock_khz > 0) CHECK(load.cycles / load.ns < 1.1e-6 * device.sm_clock_khz);
}

TEST_CASE("latency: every chase ends where the ring leads") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  DeviceBuffer<Answer> answer(1);
  for (const unsigned slots : {1u, 2u, 31u, 97u, 256u}) {
    const DeviceBuffer<char> memory(size_t(slots) * slot_bytes);
    std::vector<Chase> chases;
    chases.push_back(in_register());
    chases.push_back(in_shared(slots));
    chases.push_back(in_local(slots));
    chases.push_back(in_constant(slots));
    chases.push_back(in_texture(slots));
    for (const GlobalKernel kernel : {chase_l1, chase_read_only, chase_l2})
      chases.push_back(in_global(kernel, memory, slots));
    if (no_clusters(device).empty()) chases.push_back(in_cluster(slots));
    for (const Chase& chase : chases)
      for (const unsigned timed : {256u, 768u, 1024u}) {
        CAPTURE(slots);
        CHECK(load_of(chase, answer, timed).cycles > 0);  // throws if it ends elsewhere
        CHECK_THROWS_AS(
            [&] {  // and does so: these two differ by a step on every ring of two slots or more
              Chase wrong = chase;
              wrong.end = [&](unsigned steps) { return chase.end(steps + 1) + (slots == 1); };
              load_of(wrong, answer, timed);
            }(),
            WrongResult);
      }
  }
}

TEST_CASE("latency: a ring of more slots than link() has threads") {
  if (skip_without_gpu()) return;
  constexpr unsigned slots = 300007;
  const DeviceBuffer<char> memory(size_t(slots) * slot_bytes);
  DeviceBuffer<Answer> answer(1);
  const Chase ring = in_global(chase_l2, memory, slots);
  CHECK(load_of(ring, answer, 300032).cycles > 0);  // all of its slots
}

TEST_CASE("latency: the texture lives as long as its chase") {
  if (skip_without_gpu()) return;
  DeviceBuffer<Answer> answer(1);
  const Chase chase = in_texture(97);
  const Texture other(std::vector<unsigned>(97, 5));  // would take the place of one that is gone
  CHECK(chase.end(untimed + 256) != 5);
  CHECK(load_of(chase, answer, 256).cycles > 0);  // throws if it went round the other
}

EXPERIMENT_CHECKS(latency)
