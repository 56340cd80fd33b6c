// Self-checks of yours.cu, compiled in its place where BUILD_TESTING is on.
#include "../yours.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

namespace {

template <class Word>
Pattern pattern_of(size_t warp_words, const Word& word) {
  Pattern pattern{warp_words, {}};
  for (unsigned lane = 0; lane < 32; ++lane) pattern.word[lane] = word(lane);
  return pattern;
}

const Pattern line = pattern_of(32, [](unsigned lane) { return int(lane); });
const Pattern point = pattern_of(96, [](unsigned lane) { return int(3 * lane); });
const Pattern column = pattern_of(1, [](unsigned lane) { return int(1000 * lane); });
const Pattern halo = pattern_of(32, [](unsigned lane) { return int(lane + 31); });
const Pattern edge = pattern_of(1000, [](unsigned lane) { return lane % 31 ? -1 : int(lane); });

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
}

TEST_CASE("yours: the slowest part decides") {
  const Calibrated c{28, 17, 3.8};
  CHECK(predicted_ns({1, 4, 2}, c) == 28);
  CHECK(predicted_ns({3, 12, 6}, c) == 84);
  CHECK(predicted_ns({32, 4, 2}, c) == doctest::Approx(121.6));
  CHECK(predicted_ns({1, 8, 2}, c) == 34);
  CHECK(predicted_ns({32, 4, 2}, {28, 17, NAN}) == 28);  // no clock reported
}

TEST_CASE("yours: a pattern that cannot be run is refused") {
  const auto all = [](int word) { return [word](unsigned) { return word; }; };
  CHECK_THROWS_WITH_AS(require_possible(pattern_of(32, all(-1))), "yours: all lanes are idle",
                       UsageError);
  CHECK_THROWS_AS(require_possible(pattern_of(0, all(1))), UsageError);
  CHECK_THROWS_AS(require_possible(pattern_of(32, all(1 << 26))), UsageError);
  CHECK(loads_in(1000, line) == 31);
  CHECK(loads_in(1024, line) == 32);
  CHECK(loads_in(32 * 96 - 2, point) == 32);  // ends with the last x
  CHECK(loads_in(32 * 96 - 3, point) == 31);
}

TEST_CASE("yours: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  const Pattern p = your_pattern();
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t loads : {size_t(1), size_t(31), size_t(1009)}) {
      Words memory(std::max((loads - 1) * p.warp_words + size_t(p.last()) + 1, 32 * loads), grid);
      CHECK(wrong_after(in_order_task(memory, loads)) == 0);
      CHECK(wrong_after(in_l2_task(memory, loads)) == 0);
      const Task task = your_task(memory, loads);
      task.check.poison();
      CHECK(task.check.wrong() == grid.threads());
      CHECK(wrong_after(task) == 0);
      CHECK(memory.canaries_stand());
      std::vector<unsigned> expected(grid.threads(), 0);
      for (size_t load = 0; load < loads; ++load)
        for (unsigned lane = 0; lane < 32; ++lane)
          if (p.word[lane] >= 0)
            expected[(32 * load + lane) % grid.threads()] +=
                word_at(load * p.warp_words + size_t(p.word[lane]));
      std::vector<unsigned> sums = memory.sums.to_host();
      sums.resize(grid.threads());
      CHECK(sums == expected);
      sums[0] += 1;
      memory.sums.copy_from(sums);
      CHECK(task.check.wrong() == 1);
    }
}

TEST_CASE("yours: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { yours(run); });
}
