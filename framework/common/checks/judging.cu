// Self-checks of judging.hpp: every rule at its bounds, the range of a median, figures in words,
// and runs that are simulated.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>

#include "../judging.hpp"

namespace {

/// A step beyond a bound.
constexpr double bit = 1e-9;

/// What a rule says of a range, in words.
std::string said(const Criterion& rule, double low, double high) {
  return verdict_text(judge(rule, {(low + high) / 2, low, high, 15, ""}));
}

/// What several verdicts amount to: so many hold, do not hold, are open and are not judged.
std::string said_of_many(int holding, int failing, int open = 0, int not_judged = 0) {
  std::vector<Verdict> each(holding, Verdict::holds);
  each.insert(each.end(), failing, Verdict::does_not_hold);
  each.insert(each.end(), open, Verdict::too_close);
  each.insert(each.end(), not_judged, Verdict::not_judged);
  return verdict_text(judge_many(each));
}

}  // namespace

// ---- the rules -------------------------------------------------------------------------------

TEST_CASE("judging: A beats B from 2% on") {
  CHECK(said(beats(), 1.02 + bit, 1.5) == "holds");
  CHECK(said(beats(), 1.02, 1.5) == "too close to call");  // on the bound is on neither side
  CHECK(said(beats(), 1.01, 1.03) == "too close to call");
  CHECK(said(beats(), 0.5, 1.02) == "too close to call");
  CHECK(said(beats(), 0.5, 1.02 - bit) == "does not hold");
  CHECK(said(beats(), 0.5, 0.6) == "does not hold");
}

TEST_CASE("judging: much, or significantly, is from 1.5 times on") {
  CHECK(said(much_beats(), 1.5, 9) == "holds");
  CHECK(said(much_beats(), 1.5 - bit, 9) == "holds, size open");
  CHECK(said(much_beats(), 1.4, 1.6) == "holds, size open");
  CHECK(said(much_beats(), 1.05 + bit, 1.5 - bit) == "holds, weaker");
  CHECK(said(much_beats(), 1.05, 1.4) == "too close to call");
  CHECK(said(much_beats(), 1.0, 1.6) == "too close to call");
  CHECK(said(much_beats(), 1.01, 1.05 - bit) == "does not hold");  // it costs as much
  CHECK(said(much_beats(), 0.9, 1.02 - bit) == "does not hold");
  CHECK(said(much_beats(9), 1.5 + bit, 2) == "holds, weaker");
  CHECK(said(much_beats(9), 7, 11) == "holds");
  CHECK(said(much_beats(9), 12, 13) == "holds, stronger");
  CHECK(said(much_beats(1.2), 1.4, 1.45) == "holds, weaker");  // "much" asks for more than 1.2
}

TEST_CASE("judging: A gains nothing over B") {
  CHECK(said(gains_nothing(), 0.5, 1.02 - bit) == "holds");
  CHECK(said(gains_nothing(), 0.5, 1.02) == "too close to call");
  CHECK(said(gains_nothing(), 1.01, 1.03) == "too close to call");
  CHECK(said(gains_nothing(), 1.02, 1.03) == "too close to call");
  CHECK(said(gains_nothing(), 1.02 + bit, 1.03) == "does not hold");
}

TEST_CASE("judging: A costs as much as B within 5%") {
  CHECK(said(costs_as_much(), 0.95, 1.05) == "holds");
  CHECK(said(costs_as_much(), 0.95 - bit, 1.01) == "too close to call");
  CHECK(said(costs_as_much(), 1.01, 1.05 + bit) == "too close to call");
  CHECK(said(costs_as_much(), 1.05 + bit, 1.1) == "does not hold");
  CHECK(said(costs_as_much(), 0.9, 0.95 - bit) == "does not hold");
}

TEST_CASE("judging: some, or can: the best case shows it, or it was not seen") {
  const auto said_of_best = [](double low, double high) {
    return std::string(verdict_text(judge_some(beats(), {(low + high) / 2, low, high, 9, ""})));
  };
  CHECK(said_of_best(1.03, 1.05) == "holds");
  CHECK(said_of_best(1.01, 1.05) == "too close to call");
  CHECK(said_of_best(0.9, 1.01) == "not judged");
  CHECK(judge_some(beats(), {}) == Verdict::not_judged);
}

TEST_CASE("judging: a stated factor of 5 is met from 4 to 6") {
  // weaker: the whole of r - 1 is under 0.75 x 4 = 3; stronger: it is over 1.25 x 4 = 5
  CHECK(said(beats(5), 3, 4 - bit) == "holds, weaker");
  CHECK(said(beats(5), 3, 4) == "holds, size open");
  CHECK(said(beats(5), 3.9, 4.1) == "holds, size open");
  CHECK(said(beats(5), 4, 6) == "holds");
  CHECK(said(beats(5), 1.1, 99) == "holds, size open");
  CHECK(said(beats(5), 6, 7) == "holds, size open");
  CHECK(said(beats(5), 6 + bit, 7) == "holds, stronger");
  CHECK(said(beats(5), 1.02 + bit, 1.03) == "holds, weaker");
  CHECK(said(beats(5), 1.01, 1.03) == "too close to call");  // the direction comes first
  CHECK(said(beats(5), 0.2, 0.3) == "does not hold");
}

TEST_CASE("judging: a stated factor of 3 to 5 is met from 2.5 to 6") {
  CHECK(said(beats(3, 5), 2, 2.5 - bit) == "holds, weaker");
  CHECK(said(beats(3, 5), 2, 2.5) == "holds, size open");
  CHECK(said(beats(3, 5), 2.5, 6) == "holds");
  CHECK(said(beats(3, 5), 6, 7) == "holds, size open");
  CHECK(said(beats(3, 5), 6 + bit, 7) == "holds, stronger");
}

TEST_CASE("judging: a stated level of 8 is met within a quarter") {
  CHECK(said(about(8), 6, 10) == "holds");
  CHECK(said(about(8), 6 - bit, 7) == "too close to call");
  CHECK(said(about(8), 9, 10 + bit) == "too close to call");
  CHECK(said(about(8), 5, 11) == "too close to call");
  CHECK(said(about(8), 5, 6) == "too close to call");
  CHECK(said(about(8), 10, 11) == "too close to call");
  CHECK(said(about(8), 5, 6 - bit) == "does not hold");
  CHECK(said(about(8), 10 + bit, 11) == "does not hold");

  CHECK(said(at_least(8), 6, 7) == "holds");
  CHECK(said(at_least(8), 6, 99) == "holds");
  CHECK(said(at_least(8), 6 - bit, 99) == "too close to call");
  CHECK(said(at_least(8), 5, 6) == "too close to call");
  CHECK(said(at_least(8), 5, 6 - bit) == "does not hold");

  CHECK(said(at_most(8), 0, 10) == "holds");
  CHECK(said(at_most(8), 9, 10 + bit) == "too close to call");
  CHECK(said(at_most(8), 10, 11) == "too close to call");
  CHECK(said(at_most(8), 10 + bit, 11) == "does not hold");
}

TEST_CASE("judging: a level stated as 16 to 20 is met from 12 to 25") {
  CHECK(said(from_to(16, 20), 12, 25) == "holds");
  CHECK(said(from_to(16, 20), 12 - bit, 20) == "too close to call");
  CHECK(said(from_to(16, 20), 20, 25 + bit) == "too close to call");
  CHECK(said(from_to(16, 20), 11, 12) == "too close to call");
  CHECK(said(from_to(16, 20), 25, 26) == "too close to call");
  CHECK(said(from_to(16, 20), 11, 12 - bit) == "does not hold");
  CHECK(said(from_to(16, 20), 25 + bit, 26) == "does not hold");
}

TEST_CASE("judging: a figure that was computed or counted has no range") {
  CHECK(judge(about(0.125), exactly(0.125)) == Verdict::holds);
  CHECK(judge(about(0.125), exactly(0.25)) == Verdict::does_not_hold);
  CHECK(judge(beats(), exactly(1.02)) == Verdict::too_close);
  CHECK(exactly(3).pairs == 0);
}

TEST_CASE("judging: what was not measured is not judged") {
  for (const Criterion& rule :
       {beats(), beats(2), beats(2, 3), much_beats(), gains_nothing(), costs_as_much(), about(1),
        at_least(1), at_most(1), from_to(1, 2)}) {
    CHECK(judge(rule, {}) == Verdict::not_judged);
    CHECK(judge(rule, not_measured("one GPU")) == Verdict::not_judged);
  }
  CHECK(not_measured("one GPU").why_not == "one GPU");
  CHECK(!not_measured("one GPU").measured());
}

TEST_CASE("judging: over several shapes three quarters hold, or fewer than a quarter") {
  CHECK(said_of_many(4, 0) == "holds");
  CHECK(said_of_many(3, 1) == "holds");
  CHECK(said_of_many(2, 1) == "depends");
  CHECK(said_of_many(74, 26) == "depends");
  CHECK(said_of_many(75, 25) == "holds");
  CHECK(said_of_many(1, 3) == "depends");  // a quarter is not fewer
  CHECK(said_of_many(25, 75) == "depends");
  CHECK(said_of_many(24, 76) == "does not hold");
  CHECK(said_of_many(0, 1) == "does not hold");
  CHECK(said_of_many(3, 1, 4, 90) == "holds");  // half of the judged ones are decided
  CHECK(said_of_many(3, 1, 5) == "too close to call");
  CHECK(said_of_many(0, 1, 90) == "too close to call");
  CHECK(said_of_many(0, 0, 1, 5) == "too close to call");
  CHECK(said_of_many(0, 0, 0, 5) == "not judged");
  CHECK(said_of_many(0, 0) == "not judged");
  CHECK(judge_many({Verdict::holds_weaker, Verdict::holds_stronger, Verdict::holds_size_open,
                    Verdict::does_not_hold}) == Verdict::holds);
}

// ---- the range -------------------------------------------------------------------------------

namespace {

/// 1 to n in no order.
std::vector<double> shuffled_ranks(int n) {
  std::vector<double> ranks;
  for (int i = 0; i < n; ++i) ranks.push_back(1 + (i * 7919LL + 3) % n);  // 7919 is prime
  return ranks;
}

/// The largest k such that fewer than k of n fair coins fall heads with at most 2.5%.
int expected_order_statistic(int n) {
  std::vector<double> heads{1};  // heads[i]: probability of i heads of the coins so far
  for (int coin = 0; coin < n; ++coin) {
    heads.push_back(0);
    for (size_t i = heads.size() - 1; i > 0; --i) heads[i] = (heads[i] + heads[i - 1]) / 2;
    heads[0] /= 2;
  }
  int k = 0;
  for (double sum = heads[0]; sum <= 0.025; sum += heads[k]) ++k;
  return k;
}

}  // namespace

TEST_CASE("judging: order statistics enclose the median with 95%") {
  const auto range = [](int n) { return interval_of_median(shuffled_ranks(n)); };
  CHECK(range(6).low == 1);
  CHECK(range(6).high == 6);
  CHECK(range(7).low == 1);
  CHECK(range(7).high == 7);
  CHECK(range(9).low == 2);
  CHECK(range(9).high == 8);
  CHECK(range(15).low == 4);
  CHECK(range(15).value == 8);
  CHECK(range(15).high == 12);
  CHECK(range(15).pairs == 15);
  std::vector<int> counts;
  for (int n = 6; n <= 100; ++n) counts.push_back(n);
  counts.insert(counts.end(), {1000, 1100, 3000});  // 0.5 to the power of 1100 is 0 in a double
  for (int n : counts) {
    CAPTURE(n);
    const int k = expected_order_statistic(n);
    CHECK(range(n).low == k);
    CHECK(range(n).high == n + 1 - k);
  }
}

TEST_CASE("judging: fewer than 6 blocks leave no range") {
  for (int n = 1; n <= 5; ++n) {
    const Interval none = interval_of_median(shuffled_ranks(n));
    CHECK(!none.measured());
    CHECK(none.why_not == "fewer than 6 blocks of two rounds leave no range");
  }
  CHECK(!interval_of_median({}).measured());
  CHECK(interval_of_median({}).why_not.empty());
  CHECK(!interval_of_median({1, 1, 1, 1, 1, NAN}).measured());
}

TEST_CASE("judging: a range is never narrower than 1% to either side") {
  const Interval same = interval_of_median(std::vector<double>(15, 2));
  CHECK(same.low == doctest::Approx(1.98).epsilon(1e-12));
  CHECK(same.value == 2);
  CHECK(same.high == doctest::Approx(2.02).epsilon(1e-12));
  const Interval below = interval_of_median({1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(below.low == 1);  // each side by itself
  CHECK(below.high == doctest::Approx(2.02).epsilon(1e-12));
  const Interval above = interval_of_median({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3});
  CHECK(above.low == doctest::Approx(1.98).epsilon(1e-12));
  CHECK(above.high == 3);
}

TEST_CASE("judging: a ratio is the median of the blocks' ratios") {
  // blocks of A: 1, 2, 3, 4, 5, 60; of B: 1, 1, 1, 1, 10, 10
  const Readings a{{0.5, 2, 1, 4, 3, 3, 2, 8, 5, 5, 30, 120}};
  const Readings b{{1, 1, 2, 0.5, 1, 1, 1, 1, 5, 20, 10, 10}};
  CHECK(of_blocks(a) == std::vector<double>{1, 2, 3, 4, 5, 60});
  CHECK(ratio(a, b).value == 2.5);
  CHECK(ratio(a, b).low == 0.5);
  CHECK(ratio(a, b).high == 6);
  CHECK(ratio(a, b).pairs == 6);
  CHECK(of_blocks({{4, 9, 7}}) == std::vector<double>{6});  // the last has no second
  CHECK(!ratio(Readings{}, Readings{}).measured());
  CHECK(ratio(Readings{}, Readings{}).why_not.empty());
  CHECK(!ratio(Readings{{1}}, Readings{{1}}).measured());
  CHECK_THROWS_AS(ratio(a, Readings{{1, 2, 3}}), std::logic_error);
  CHECK_THROWS_AS(ratio(a, Readings{}), std::logic_error);
}

TEST_CASE("judging: a ratio of groups reaches from the smallest group's median to the largest") {
  const auto groups = [](std::vector<double> times) {
    std::vector<Readings> all;
    for (const double ms : times) all.push_back({{ms, ms, ms, ms}});
    return all;
  };
  const std::vector<Readings> one = groups({1, 1, 1, 1, 1, 1});
  const Interval r = ratio_of_groups(groups({2, 3, 2.5, 2.5, 2.5, 1}), one);
  CHECK(r.value == 2.5);
  CHECK(r.low == 1);
  CHECK(r.high == 3);
  CHECK(r.pairs == 6);
  const Interval same = ratio_of_groups(groups({2, 2, 2, 2, 2, 2}), one);
  CHECK(same.low == doctest::Approx(1.8));  // at least 10% to either side
  CHECK(same.high == doctest::Approx(2.2));
  CHECK(!ratio_of_groups(groups({2, 2, 2}), groups({1, 1, 1})).measured());
  CHECK(!ratio_of_groups({}, {}).measured());
  CHECK_THROWS_AS(ratio_of_groups(groups({2, 2}), one), std::logic_error);
}

TEST_CASE("judging: a level is an amount over each block's time in seconds") {
  const Interval gbs = level(8e9, 1e9, Readings{{2, 2, 3, 3, 4, 4, 2, 8, 5, 5, 4, 16}});
  CHECK(gbs.value == doctest::Approx(2000));
  CHECK(gbs.low == doctest::Approx(1000));
  CHECK(gbs.high == doctest::Approx(4000));
  CHECK(gbs.pairs == 6);
  CHECK(!level(8e9, 1e9, Readings{}).measured());
  const Interval half = scaled(gbs, 0.5);
  CHECK(half.value == doctest::Approx(1000));
  CHECK(half.low == doctest::Approx(500));
  CHECK(half.high == doctest::Approx(2000));
  CHECK(half.pairs == 6);
  CHECK(scaled(not_measured("why"), 2).why_not == "why");
}

// ---- in words --------------------------------------------------------------------------------

TEST_CASE("judging: verdicts, factors, shares and levels in words") {
  CHECK(std::string(verdict_text(Verdict::holds)) == "holds");
  CHECK(std::string(verdict_text(Verdict::holds_weaker)) == "holds, weaker");
  CHECK(std::string(verdict_text(Verdict::holds_stronger)) == "holds, stronger");
  CHECK(std::string(verdict_text(Verdict::holds_size_open)) == "holds, size open");
  CHECK(std::string(verdict_text(Verdict::depends)) == "depends");
  CHECK(std::string(verdict_text(Verdict::no_longer)) == "no longer");
  CHECK(std::string(verdict_text(Verdict::too_close)) == "too close to call");
  CHECK(std::string(verdict_text(Verdict::does_not_hold)) == "does not hold");
  CHECK(std::string(verdict_text(Verdict::not_judged)) == "not judged");

  CHECK(factor_text(1) == "1.00x");
  CHECK(factor_text(3.0649) == "3.06x");
  CHECK(factor_text(9.994) == "9.99x");
  CHECK(factor_text(9.996) == "10.0x");
  CHECK(factor_text(99.94) == "99.9x");
  CHECK(factor_text(99.96) == "100x");
  CHECK(factor_text(1234) == "1234x");
  CHECK(factor_text(NAN) == "-");

  CHECK(slower({3.06, 3.03, 3.09, 15, ""}) == "3.06x slower (3.03 to 3.09)");
  CHECK(faster({3.06, 3.03, 3.09, 15, ""}) == "3.06x faster (3.03 to 3.09)");
  CHECK(slower({0.5, 0.4, 0.625, 15, ""}) == "2.00x faster (1.60 to 2.50)");
  CHECK(faster({0.5, 0.4, 0.625, 15, ""}) == "2.00x slower (1.60 to 2.50)");
  CHECK(slower({99.5, 9.5, 120, 15, ""}) == "99.5x slower (9.50 to 120)");
  CHECK(slower({3.06, 3.03, 3.09, 9, ""}, "rows") == "3.06x slower than rows (3.03 to 3.09)");
  CHECK(slower({1.001, 0.99, 1.01, 9, ""}) == "equal within 1%");
  CHECK(faster({1.001, 0.99, 1.01, 9, ""}, "rows") == "equal to rows within 1%");
  CHECK(faster({1.01, 0.96, 1.02, 9, ""}) == "equal within 4%");
  CHECK(faster({1.02, 1.005, 1.03, 9, ""}) == "1.02x faster (1.00 to 1.03)");
  CHECK(slower({}) == "-");
  CHECK(faster(not_measured("why")) == "-");

  CHECK(share_text({0.52, 0.511, 0.534, 15, ""}) == "52% (51 to 53%)");
  CHECK(share_text({0.125, 0.12, 0.13, 15, ""}) == "12.5% (12.0 to 13.0%)");
  CHECK(share_text(exactly(0.125)) == "12.5%");
  CHECK(share_text(exactly(1)) == "100%");
  CHECK(share_text({}) == "-");

  CHECK(range_text({412, 408, 415, 15, ""}, 0) == "412 (408 to 415)");
  CHECK(range_text({4.125, 4, 4.25, 15, ""}, 3) == "4.125 (4.000 to 4.250)");
  CHECK(range_text(exactly(16), 0) == "16");
  CHECK(range_text({}, 1) == "-");
}

TEST_CASE("judging: the figures of a line point the same way") {
  for (double value : {0.01, 0.3, 0.96, 0.99, 1.01, 1.04, 3.5, 250.0}) {
    CAPTURE(value);
    const Interval r{value, value * 0.995, value * 1.005, 9, ""};
    const Interval inverse{1 / value, 1 / r.high, 1 / r.low, 9, ""};
    double factor = 0, low = 0, high = 0;
    char direction[8] = {};
    const std::string text = slower(r);
    REQUIRE(std::sscanf(text.c_str(), "%lfx %7s (%lf to %lf)", &factor, direction, &low, &high) ==
            4);
    CHECK(factor >= 1);  // "slower" and "faster" tell the direction, the factor does not
    CHECK(low <= factor);
    CHECK(factor <= high);
    CHECK(std::string(direction) == (value < 1 ? "faster" : "slower"));
    CHECK(faster(inverse) == text);
  }
}

// ---- simulated runs --------------------------------------------------------------------------

namespace {

/// Normal numbers by Box and Muller's method: the same with every library.
class Noise {
 public:
  double uniform() { return (double(bits_() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
  double normal() {
    constexpr double two_pi = 6.283185307179586;
    const double length = std::sqrt(-2 * std::log(uniform()));
    return length * std::cos(two_pi * uniform());
  }

 private:
  std::mt19937_64 bits_{20261122};
};

/// What may be wrong while a run measures.
enum class Disturbance {
  none,          ///< 1% noise alone, as in all others
  second_place,  ///< whoever comes second in a round pays 5%
  drift,         ///< everything becomes 10% slower or faster from first to last
  step,          ///< the same at one moment
  two_clocks,    ///< the clock falls by 5% for a while, and rises again: one change in 20
                 ///< measurements
  outliers,      ///< one measurement in ten takes half as long again
};
constexpr Disturbance disturbances[] = {Disturbance::none,       Disturbance::second_place,
                                        Disturbance::drift,      Disturbance::step,
                                        Disturbance::two_clocks, Disturbance::outliers};
const char* const disturbance_names[] = {"noise alone", "second place 5%", "drift 10%",
                                         "step 10%",    "two clocks 5%",   "outliers 50%"};

/// What one run reads of A and B, where A takes `truth` times as long: rounds in turn, A B, B A.
Interval simulated_ratio(Noise& noise, Disturbance disturbance, double truth, int rounds) {
  const int measurements = 2 * rounds;
  const bool rising = noise.uniform() < 0.5;
  const int step_at = 1 + static_cast<int>(noise.uniform() * (measurements - 1));
  bool slow_clock = noise.uniform() < 0.5;
  const auto time = [&](int m, double undisturbed) {
    double state = 1;
    double progress = double(m) / (measurements - 1);
    if (disturbance == Disturbance::step) progress = m < step_at ? 0 : 1;
    if (disturbance == Disturbance::drift || disturbance == Disturbance::step)
      state = 1 + (rising ? 0.1 : -0.1) * progress;
    if (disturbance == Disturbance::second_place && m % 2) state = 1.05;
    if (disturbance == Disturbance::two_clocks) {
      if (noise.uniform() < 0.05) slow_clock = !slow_clock;
      if (slow_clock) state = 1.05;
    }
    if (disturbance == Disturbance::outliers && noise.uniform() < 0.1) state = 1.5;
    return undisturbed * state * (1 + 0.01 * noise.normal());
  };
  Readings a, b;
  for (int round = 0; round < rounds; ++round) {
    const bool a_first = round % 2 == 0;
    const int m = 2 * round;
    if (a_first) a.ms.push_back(time(m, truth));
    b.ms.push_back(time(a_first ? m + 1 : m, 1));
    if (!a_first) a.ms.push_back(time(m + 1, truth));
  }
  return ratio(a, b);
}

/// What many runs come to.
struct Simulated {
  double bias = 0;                      ///< of the ratio's median over the runs, as a share
  double coverage = 0;                  ///< share of runs whose range has the truth in it
  double width = 0;                     ///< median of the ranges' widths, as a share of the truth
  double beats = 0, gains_nothing = 0;  ///< shares of runs that say so
};

Simulated simulate(Disturbance disturbance, double truth, int rounds) {
  constexpr int runs = 20000;
  Noise noise;
  Simulated all;
  std::vector<double> values, widths;
  for (int run = 0; run < runs; ++run) {
    const Interval r = simulated_ratio(noise, disturbance, truth, rounds);
    values.push_back(r.value);
    widths.push_back((r.high - r.low) / truth);
    if (r.low <= truth && truth <= r.high) all.coverage += 1.0 / runs;
    if (judge(beats(), r) == Verdict::holds) all.beats += 1.0 / runs;
    if (judge(gains_nothing(), r) == Verdict::holds) all.gains_nothing += 1.0 / runs;
  }
  all.bias = summarize(values).median / truth - 1;
  all.width = summarize(widths).median;
  return all;
}

}  // namespace

TEST_CASE("judging: simulated: no bias, and a range that has the truth in it") {
  for (const int rounds : {18, 12})
    for (const Disturbance disturbance : disturbances) {
      const char* const name = disturbance_names[int(disturbance)];
      const Simulated s = simulate(disturbance, 1.3, rounds);
      std::printf("  %2d rounds, %-16s bias %+.2f%%, coverage %.1f%%, width %.1f%%\n", rounds, name,
                  100 * s.bias, 100 * s.coverage, 100 * s.width);
      CAPTURE(std::string(name));
      CAPTURE(rounds);
      CHECK(std::abs(s.bias) <= 0.002);
      CHECK(s.coverage >= 0.95);
    }
}

TEST_CASE("judging: simulated: noise or a disturbance is not taken for a difference") {
  for (const Disturbance disturbance : disturbances) {
    CAPTURE(std::string(disturbance_names[int(disturbance)]));
    CHECK(simulate(disturbance, 1.00, 18).beats < 0.002);
    const Simulated on_the_bound = simulate(disturbance, 1.02, 18);
    CHECK(on_the_bound.beats <= 0.025);
    CHECK(on_the_bound.gains_nothing <= 0.025);
    if (disturbance != Disturbance::outliers) CHECK(simulate(disturbance, 1.05, 18).beats > 0.9);
  }
}

// What one run cannot see, and so does not claim to: a state that outlives it, as another card or
// another placement of the data in memory. Only more runs do (tools/combine.py).
