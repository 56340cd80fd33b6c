// Self-checks of yours.cu, compiled in its place where BUILD_TESTING is on.
#include "../yours.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Pattern line = Pattern::of(32, [](unsigned lane) { return lane; });
const Pattern point = Pattern::of(96, [](unsigned lane) { return 3 * lane; });
const Pattern column = Pattern::of(1, [](unsigned lane) { return 1000 * lane; });
const Pattern halo = Pattern::of(32, [](unsigned lane) { return lane + 31; });
const Pattern edge = Pattern::of(1000, [](unsigned lane) { return lane % 31 ? -1 : int(lane); });

}  // namespace

TEST_CASE("yours: what the patterns of the comments cost, by hand") {
  const auto check = [](const Pattern& p, double lines, double sectors, double pieces) {
    const Cost cost = cost_of(p);
    CHECK(cost.lines == lines);
    CHECK(cost.sectors == doctest::Approx(sectors).epsilon(0.01));
    CHECK(cost.pieces == doctest::Approx(pieces).epsilon(0.01));
    CHECK_NOTHROW(require_possible(p));
  };
  check(line, 1, 4, 2);
  check(point, 3, 12, 6);
  check(column, 32, 4, 1.955);     // a block's eight columns share 32 sectors; 32024 words in all
  check(halo, 2, 4 + 1.0 / 8, 2);  // a word of the line before: once for a block
  check(edge, 1, 2, 2);
  CHECK(cost_of(memory_row()).pieces == 2);
  CHECK(cost_of(l2_row()).pieces == 0);
  CHECK(cost_of(l2_row()).sectors == 4);
}

TEST_CASE("yours: the slowest part decides") {
  const Calibrated c{28, 17, 3.8};
  CHECK(predicted_ns({1, 4, 2}, c) == 28);
  CHECK(predicted_ns({3, 12, 6}, c) == 84);
  CHECK(predicted_ns({32, 4, 2}, c) == doctest::Approx(121.6));
  CHECK(predicted_ns({1, 8, 2}, c) == 34);
  CHECK(predicted_ns({32, 4, 2}, {28, 17, NAN}) == 28);  // no clock reported
  Device device;
  device.prop.multiProcessorCount = 100;
  device.sm_clock_khz = 2000000;  // 200 lines in a nanosecond
  CHECK(line_ns(device) == doctest::Approx(5));
}

// Of the pattern as handed out both constants are multiplied by three: a replay sees no exchange.
TEST_CASE("yours: each constant comes from its row") {
  std::string printed;
  Report report("yours", &printed);
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 100;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.l2CacheSize = 60 << 20;
  device.prop.totalGlobalMem = size_t(64) << 30;
  Results results;
  results.keep(Measured{.ref = "read_in_order", .time = {single(8)}});
  results.keep(Measured{.ref = "read_in_l2", .time = {single(2)}});
  const Run run{report, &device, {}, false, false, nullptr, &results};
  const Calibrated c = calibrated(run);
  CHECK(c.memory_ns == doctest::Approx(8e9 / (1 << 23)));
  // a quarter of the L2 holds two steps of the grid, of 8 words per thread, and is read 32 times
  CHECK(c.l2_ns == doctest::Approx(2e9 / (2 * 8 * 204800)));
}

TEST_CASE("yours: a pattern that cannot be run is refused") {
  const auto all = [](int word) { return [word](unsigned) { return word; }; };
  CHECK_THROWS_WITH_AS(require_possible(Pattern::of(32, all(-1))), "yours: all lanes are idle",
                       UsageError);
  CHECK_THROWS_AS(require_possible(Pattern::of(0, all(1))), UsageError);
  CHECK_THROWS_AS(require_possible(Pattern::of(32, all(1 << 26))), UsageError);
  CHECK(loads_in(1000, line) == 31);
  CHECK(loads_in(1024, line) == 32);
  CHECK(loads_in(32 * 96 - 2, point) == 32);  // ends with the last x
  CHECK(loads_in(32 * 96 - 3, point) == 31);
  CHECK(point.words(32) == 32 * 96 - 2);
}

// Load after load, lane after lane; warps take turns, and the L2 is read 32 times.
TEST_CASE("yours: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t loads : {size_t(1), size_t(31), size_t(1009)})
      for (const Ref& ref : {yours_row(), memory_row(), l2_row()}) {
        CAPTURE(loads);
        CAPTURE(ref.key);
        const Pattern p = ref.key == yours_row().key ? your_pattern() : line;
        const unsigned passes = ref.key == "read_in_l2" ? 32 : 1;
        const Shared memory(Words(p.words(loads), grid));
        CHECK(wrong_after(read_task(memory, ref, loads)) == 0);
        std::vector<unsigned> sums(grid.threads(), 0);
        for (size_t load = 0; load < loads; ++load)
          for (unsigned lane = 0; lane < 32; ++lane)
            if (p.word[lane] >= 0)
              sums[(32 * load + lane) % sums.size()] +=
                  passes * word_at(load * p.warp_words + size_t(p.word[lane]));
        CHECK(memory->sums.to_host() == sums);
      }
}

// EXPERIMENT_CHECKS(yours), but for a reader's own pattern, of which nothing was recorded.

TEST_CASE("yours: needs, on made-up GPUs") { check_needs(yours_experiment); }
TEST_CASE("yours: rehearsal with made-up times") { check_rehearsal(yours_experiment); }
TEST_CASE("yours: replay of what an NVIDIA H200 and an NVIDIA H100 gave") {
  if (!as_handed_out()) return skip_self_check("nothing was recorded of this pattern");
  for (const char* file : {"nvidia-h200.csv", "nvidia-h100-80gb-hbm3.csv"})
    check_replay(yours_experiment, results_file(file));
}
TEST_CASE("yours: tasks at awkward sizes") { check_tasks(yours_experiment, {1, 31, 257, 1009}); }
TEST_CASE("yours: tasks at large awkward sizes" * doctest::test_suite("long")) {
  check_tasks(yours_experiment, {65537, 1000003});
}
TEST_CASE("yours: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible(yours_experiment);
}
