// Self-checks of constant_miss.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant_miss.cu"

#include <doctest/doctest.h>

TEST_CASE("constant: a walk visits every node once and stays in the table") {
  for (const Path path :
       {Path{64, 64}, Path{128, 64}, Path{192, 64}, Path{1024, 64}, longest, first_touches}) {
    CAPTURE(path.bytes);
    const std::vector<unsigned> words = path.words();
    std::vector<bool> seen(path.nodes(), false);
    unsigned at = 0;
    for (unsigned step = 0; step < path.nodes(); ++step) {
      REQUIRE(at == path.offset_after(step));
      REQUIRE(at % path.stride == 0);
      REQUIRE(at < path.bytes);
      CHECK_FALSE(seen[at / path.stride]);
      seen[at / path.stride] = true;
      at = words[at / sizeof(unsigned)];
    }
    CHECK(at == 0);
  }
}

TEST_CASE("constant: predicted walks, by hand") {
  const Calibrated c{30, 98, 290, 667};
  CHECK(predicted_again(512, c) == 30);
  CHECK(predicted_again(2048, c) == 30);
  CHECK(predicted_again(4096, c) == 98);
  CHECK(predicted_again(63 << 10, c) == 98);
  CHECK(predicted_first(false, c) == 388);
  CHECK(predicted_first(true, c) == 765);
  CHECK(again_bytes[in_first] <= first_cache_bytes);
  CHECK(again_bytes[in_second] > first_cache_bytes);
}

TEST_CASE("constant: all walks of a made-up device but four are predicted") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  std::string printed;
  Report report("constant", &printed);
  const double recorded[] = {30, 30, 31, 98, 98, 98, 98, 98, 350, 723, 290, 667, 680};
  std::vector<Readings> cycles;
  for (const double each : recorded) cycles.push_back({std::vector<double>(15, each)});
  REQUIRE(cycles.size() == row_count);
  std::vector<Readings> ns;  // half of the cycles, as at 2 GHz
  for (const double each : recorded) ns.push_back({std::vector<double>(15, each / 2)});
  show({report, &device, {}}, cycles, ns);
  const std::string csv = report.csv("2026-01-01");
  CHECK(csv.find("\"constant, first touch\",,,measured,time of a load,ns,361.5,") !=
        std::string::npos);
  CHECK(csv.find(",bytes,1024,measured,time of a load") == std::string::npos);
  CHECK(report.predictions().size() == 9);
  for (const Prediction& p : report.predictions()) {
    CAPTURE(p.row);
    CHECK(p.measured / p.predicted > 0.8);
    CHECK(p.measured / p.predicted < 1.25);
  }
}

TEST_CASE("constant: misses are judged the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("constant", &printed);
  const Run run{report, &device, {}};
  const auto verdicts = [&](double hit, double miss, double from_memory, double by_read_only) {
    std::vector<Readings> cycles(row_count, Readings{std::vector<double>(15, 1)});
    cycles[in_first].ms.assign(15, hit);
    cycles[constant_memory].ms.assign(15, miss);
    cycles[memory].ms.assign(15, from_memory);
    cycles[read_only].ms.assign(15, by_read_only);
    printed.clear();
    judge(run, cycles);
  };
  verdicts(30, 723, 667, 680);
  CHECK(printed.find("01.6b  holds  ") != std::string::npos);
  CHECK(printed.find("24.1x slower") != std::string::npos);
  CHECK(printed.find("01.6c  holds  ") != std::string::npos);
  verdicts(723, 30, 667, 1300);
  CHECK(printed.find("01.6b  does not hold") != std::string::npos);
  CHECK(printed.find("01.6c  does not hold") != std::string::npos);
}

TEST_CASE("constant: walks end where they should") {
  if (skip_without_gpu()) return;
  Walks walks(1 << 20);  // each throws if it ends elsewhere
  for (const Path path : {Path{64, 64}, Path{192, 64}, longest, first_touches})
    CHECK(walks.constant_again(path).cycles > 0);
  CHECK(walks.constant_first(false).cycles > 0);
  CHECK(walks.constant_first(true).cycles > 0);
  CHECK(walks.global_again().cycles > 0);
  CHECK(walks.global_first().cycles > 0);
  CHECK(walks.read_only_first().cycles > 0);
}

// Else what was flushed would still have come from the L2, of which nothing else would tell.
TEST_CASE("constant: its first touches come from memory" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  Walks walks(Device::current().l2_bytes());
  std::vector<Readings> ns;
  const std::vector<Readings> cycles = chase::cycles_in_turn(
      {},
      {[&] { return walks.constant_first(false); }, [&] { return walks.constant_first(true); },
       [&] { return walks.global_again(); }, [&] { return walks.global_first(); },
       [&] { return walks.read_only_first(); }},
      ns);
  CHECK(cycles[1].median() > 1.5 * cycles[0].median());
  CHECK(cycles[3].median() > 1.5 * cycles[2].median());
  CHECK(cycles[4].median() > 1.5 * cycles[2].median());
}
