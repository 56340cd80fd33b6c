// Self-checks of blocks.cu, compiled in its place where BUILD_TESTING is on.
#include "../blocks.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("blocks: rows in turn and their balance") {
  CHECK(balance(12288, 1024, 1320) == 1);  // twelve rows each
  CHECK(balance(12288, 1023, 1320) == doctest::Approx(12288.0 / (1023 * 13)));
  CHECK(balance(12288, 2048, 1320) == doctest::Approx(12288.0 / (1320 * 12)));  // 6 and 6
  for (unsigned b = 1; b <= most; ++b) {
    unsigned slowest = 0;  // by counting, as the kernel's loop deals the rows out
    for (unsigned row = 0; row < 12288; row += b) ++slowest;
    CHECK(ceil_div(12288, b) == slowest);
    CHECK(loads_in_turn(text_size, {b, block_threads}, most) == slowest * 64.0);
    CHECK(balance(12288, b, 100) <= 1);
  }
  CHECK(loads_in_turn(text_size, {1321, block_threads}, 1320) == 2 * 10 * 64);
}

TEST_CASE("blocks: few blocks read a part of the rows") {
  CHECK(part_of(12288, 1) == 48);
  CHECK(part_of(12288, 255) == 255 * 48);
  CHECK(part_of(12288, 256) == 12288);
  CHECK(part_of(12288, 2048) == 12288);
}

TEST_CASE("blocks: what a sweep chooses, by hand") {
  const std::set<unsigned> counts{1, 16, 17, 32, 512, 513, 1024, 1300, 1301, 2048};
  const Chosen nothing = choose(counts, 16, [](unsigned) { return double(NAN); });
  CHECK(nothing.best == 1024);
  CHECK(nothing.worst == 2048);
  CHECK(counts.count(nothing.before_fall) == 1);
  CHECK(!std::isfinite(nothing.fall_few));
  const Chosen chosen = choose(counts, 16, [](unsigned b) {
    switch (b) {
      case 1:
        return 1.0;
      case 16:
        return 40.0;
      case 17:
        return 30.0;  // a quarter is lost
      case 513:
        return 70.0;
      case 1300:
        return 80.0;
      case 1301:
        return 76.0;  // a twentieth
      case 2048:
        return 78.0;
      default:
        return 60.0;
    }
  });
  CHECK(chosen.best == 1300);
  CHECK(chosen.best_few == 513);
  CHECK(chosen.worst == 1301);
  CHECK(chosen.before_fall == 16);
  CHECK(chosen.fall_few == doctest::Approx(0.25));
  CHECK(chosen.fall_many == doctest::Approx(0.05));
}

TEST_CASE("blocks: each launch reads the next rows") {
  if (skip_without_gpu()) return;
  RowArray array({12288, 8}, 1);
  std::set<unsigned> firsts;
  for (int launch = 0; launch < 256; ++launch) {
    const unsigned first = array.take(48);
    CHECK(first + 48 <= 12288);
    firsts.insert(first);
  }
  CHECK(firsts.size() == 256);  // no rows twice before all were read
  CHECK(array.take(48) == 0);   // then from the start
  CHECK(array.take(12288) == 0);
  CHECK(array.take(12288) == 0);
}

TEST_CASE("blocks: the numbers of a sweep on made-up devices, and what the claims need") {
  for (const unsigned multiprocessors : {1u, 16u, 24u, 132u, 300u}) {
    const Places places{multiprocessors, 10 * multiprocessors};
    CAPTURE(multiprocessors);
    const std::set<unsigned> counts = swept(12288, places, false);
    CHECK(counts.size() < 250);
    if (multiprocessors >= 16) CHECK(counts.size() < 70);
    CHECK(*counts.begin() == 1);
    CHECK(*counts.rbegin() == places.most_blocks());
    for (const unsigned times : {1u, 2u, 4u}) {
      CHECK(counts.count(times * multiprocessors) == 1);
      CHECK(counts.count(times * multiprocessors + 1) == 1);
    }
    for (const unsigned rounds : {1u, 2u}) {
      CHECK(counts.count(rounds * places.fit) == 1);
      CHECK(counts.count(rounds * places.fit + 1) == 1);
    }
    for (const unsigned b : {256u, 512u, 640u, 768u, 100u, 1000u}) CHECK(counts.count(b) == 1);
    CHECK(swept(12288, places, true).size() >= most);
  }
}

namespace {

/// Verdicts on made-up rates, in rows a millisecond, by the number of blocks.
std::string verdict_by(const char* part, const Function<double(unsigned)>& rate,
                       const Function<double(Launch)>& of_few = {}) {
  constexpr Places places{100, 1000};  // the GPU that verdict_if makes up has 100 multiprocessors
  std::vector<Given> rows{{"resident", 1000, "blocks at once"}};
  const auto give = [&](const Ref& ref, unsigned blocks, double rows_per_ms) {
    rows.push_back({ref, part_of(text_size.rows, blocks) / rows_per_ms});
  };
  const std::set<unsigned> counts = swept(text_size.rows, places, false);
  for (const unsigned b : counts) {
    give(row_of(b), b, rate(b));
    give(again(b), b, rate(b));
  }
  const Chosen chosen = choose(counts, places.multiprocessors, rate);
  give("two_thirds", two_thirds(places), rate(two_thirds(places)));
  give(best, chosen.best, rate(chosen.best));
  give(best_few, chosen.best_few, rate(chosen.best_few));
  give(worst, chosen.worst, rate(chosen.worst));
  give(before_fall, chosen.before_fall, rate(chosen.before_fall));
  give(after_fall, chosen.before_fall + 1, rate(chosen.before_fall + 1));
  rows.push_back({best, double(chosen.best), "blocks"});
  rows.push_back({best_few, double(chosen.best_few), "blocks"});
  rows.push_back({worst, double(chosen.worst), "blocks"});
  rows.push_back({before_fall, double(chosen.before_fall), "blocks"});
  rows.push_back({"falls", 100 * chosen.fall_few, "the largest of few blocks"});
  rows.push_back({"falls", chosen.fall_many / chosen.fall_few, "of many over few"});
  for (const Launch l : few) give(row_of(l), l.blocks, of_few ? of_few(l) : rate(l.blocks));
  return verdict_if(blocks_experiment, part, rows);
}

}  // namespace

TEST_CASE("blocks: what decides each part") {
  const auto then = [](unsigned b) {  // few blocks jump at a block more than the multiprocessors'
    if (b < 800 && b % 100 == 1) return 57.0;
    return b == 100 ? 60.0 : b == 1024 ? 70.1 : 70.0;
  };
  const auto now = [](unsigned b) {  // bytes in flight, and a second round behind 1000 blocks
    return b <= 1000 ? double(b) : b / 2.5;
  };
  const auto two_rounds = [](unsigned b) { return b == 1001 || b == 2001 ? 40.0 : 70.0; };
  CHECK(verdict_by("04.7a", then) == "holds");
  CHECK(verdict_by("04.7a", now) == "no longer");
  CHECK(verdict_by("04.7b", then) == "holds");
  CHECK(verdict_by("04.7b", now) == "not judged");
  CHECK(verdict_by("04.7c", then) == "holds");
  CHECK(verdict_by("04.7c", now) == "no longer");
  CHECK(verdict_by("04.7d", then) == "holds");
  CHECK(verdict_by("04.7d", now) == "does not hold");
  CHECK(verdict_by("04.12", then) == "holds");
  CHECK(verdict_by("04.12", now) == "no longer");
  CHECK(verdict_by("04.12", then, [](Launch l) { return l.threads == 256 ? 70.0 : 35.0; }) !=
        "holds");
  CHECK(verdict_by("04.13b", then) == "holds");
  CHECK(verdict_by("04.13b", two_rounds) == "does not hold");
  CHECK(verdict_by("04.13c", then) == "holds");
  CHECK(verdict_by("04.13c", [](unsigned b) { return std::min(b, 1500u); }) == "does not hold");
  CHECK(verdict_by("04.14", two_rounds) == "holds");
  CHECK(verdict_by("04.14", [](unsigned) { return 70.0; }) == "does not hold");
  CHECK(verdict_by("04.16", [](unsigned b) { return b % 100 == 1 ? 57.0 : 70.0; }) == "holds");
  CHECK(verdict_by("04.16", now) == "does not hold");
}

TEST_CASE("blocks: each thread's sum is that of the text's loops") {
  if (skip_without_gpu()) return;
  for (const Size size : {Size{1, 1}, Size{7, 1009}, Size{1031, 257}, Size{3, 12288}})
    for (const unsigned b : {1u, 33u, 132u, 2048u}) {
      CAPTURE(size.rows);
      CAPTURE(b);
      const Launch l{b, block_threads};
      const Shared array(RowArray(size, l.total()));
      CHECK(wrong_after(row_task(array, row_of(b), sum_rows, l, size.rows)) == 0);
      CHECK(array->out.to_host() == sums_by_host(size, l));
    }
}

EXPERIMENT_CHECKS(blocks)
