// Self-checks of latency.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

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
  CHECK(predicted_of(local, c, 9) == 30);
  CHECK(predicted_of(read_only, c, 9) == 30);
  CHECK(std::isnan(predicted_of(texture, c, 9)));
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

TEST_CASE("latency: rings fit made-up GPUs, and the largest is beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const size_t bytes = largest_ring(run);
    CHECK(bytes % slot_bytes == 0);
    CHECK(footprints(run, bytes).back() == bytes);
    const double from_memory = double(dram_ring_bytes(*run.device, bytes));
    return Needs{1.1 * double(bytes) + beside_the_ring(*run.device), from_memory};
  });
}

TEST_CASE("latency: each claim compares the text's pair, the right way round") {
  const Device device = made_up(9, 228 << 10, 60 << 20);
  std::string printed;
  Report report("latency", &printed);
  const Run run{report, &device, {}};
  const auto verdicts = [&](std::initializer_list<double> cycles, bool past_l2 = true) {
    std::vector<Readings> places;
    for (const double each : cycles) places.push_back({std::vector<double>(15, each)});
    printed.clear();
    judge(run, places, past_l2);
  };
  const auto says = [&](const char* line) { return printed.find(line) != std::string::npos; };
  verdicts({0.5, 1, 1.2, 1.1, 1.2, 1.2, 90, 150, 250});  // register, shared ... texture, L2, DRAM
  for (const char* line : {"01.1a  holds  ", "01.1b  holds  ", "01.1c  holds  ", "01.1d  holds  ",
                           "01.2   holds  ", "01.10a holds, stronger"})
    CHECK(says(line));
  verdicts({4, 23, 29, 28, 32, 32, 88, 280, 659});
  for (const char* line : {"01.1a  does not hold", "01.1b  holds  ", "01.1c  no longer",
                           "01.1d  holds  ", "01.2   holds  ", "01.10a holds, weaker"})
    CHECK(says(line));
  CHECK(says("28.7x slower"));
  CHECK(says("20.6x slower"));
  verdicts({4, 40, 29, 28, 32, 32, 88, 280, 30});  // local before shared, memory before L1
  for (const char* line : {"01.1b  does not hold", "01.1d  does not hold", "01.2   does not hold",
                           "01.10a does not hold"})
    CHECK(says(line));
  verdicts({30, 23, 29, 28, 32, 32, 88, 280, 659}, false);
  CHECK(says("01.2   does not hold"));  // registers slower than shared memory
  for (const char* line :
       {"01.1b  not judged", "01.1c  not judged", "01.1d  not judged", "01.10a not judged"})
    CHECK(says(line));
}

TEST_CASE("latency: the rows of a made-up device that are predicted") {
  const Device device = made_up(9, 228 << 10, 60 << 20);
  std::string printed;
  Report report("latency", &printed);
  const Run run{report, &device, {}};
  std::vector<Chase> chases;
  std::vector<Readings> cycles, ns;
  for (const double each : {4.0, 23.0, 29.0, 28.0, 32.0, 32.0, 88.0, 280.0, 659.0, 190.0}) {
    chases.push_back({std::to_string(each), 1024, "-", {}, {}});
    cycles.push_back({std::vector<double>(15, each)});
    ns.push_back({std::vector<double>(15, each / 2)});  // as at 2 GHz
  }
  chase::Distances halves;
  halves.near = {279, 279, 279, 66};
  halves.far = {457, 457, 457, 66};
  halves.far_ns = {228, 228, 229, 66};
  show_places(run, chases, cycles, ns, halves);
  const std::string csv = report.csv("2026-01-01");
  const auto timed = [&](double cycles_of_row) {
    return csv.find(std::to_string(cycles_of_row) + ",,,measured,time of a load,ns,") !=
           std::string::npos;
  };
  for (const double outside : {280.0, 659.0, 190.0}) CHECK(timed(outside));
  for (const double inside : {4.0, 23.0, 29.0, 28.0, 32.0, 88.0}) CHECK_FALSE(timed(inside));
  CHECK(csv.find("\"L2, far\",,,measured,time of a load,ns,228,228,229,66,") != std::string::npos);
  for (size_t line = 0; line < printed.size(); line = printed.find('\n', line) + 1)
    CHECK(printed.find('\n', line) - line <= 100);
  REQUIRE(report.predictions().size() == 4);
  const double expected[][2] = {{4, 4}, {32, 29}, {32, 32}, {280, 279}};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(report.predictions()[i].predicted == expected[i][0]);
    CHECK(report.predictions()[i].measured == expected[i][1]);
  }
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
  const Chase ring = in_global("L2", "", chase_l2, chase::linked(memory, slots), slots);
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
    const size_t ring = chase::linked(memory, slots);
    std::vector<Chase> chases;
    chases.push_back(in_register());
    chases.push_back(in_shared(slots));
    chases.push_back(in_local(slots));
    chases.push_back(in_constant(slots));
    chases.push_back(in_texture(slots));
    chases.push_back(in_global("L1", "", chase_l1, ring, slots));
    chases.push_back(in_global("read-only", "", chase_read_only, ring, slots));
    chases.push_back(in_global("L2", "", chase_l2, ring, slots));
    if (no_clusters(device).empty()) chases.push_back(in_cluster(slots));
    for (const Chase& chase : chases)
      for (const unsigned timed : {256u, 768u, 1024u}) {
        CAPTURE(chase.name);
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
  const Chase ring = in_global("L2", "", chase_l2, chase::linked(memory, slots), slots);
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

TEST_CASE("latency: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { latency(run); });
}
