// What the times of `ladder`'s rungs say of the guide's two statements, and of the division.
#include <doctest/doctest.h>

#include <cmath>

#include "ladder.hpp"

namespace reduce {

namespace {

/// What part of the time that `better` saves against kernel 1 the mask alone saves, round by round.
Interval share_of_gain(const Times& times, int better) {
  std::vector<double> shares;
  for (size_t i = 0; i < times[modulo].ms.size(); ++i) {
    const double first = times[modulo].ms[i];
    shares.push_back((first - times[mask].ms[i]) / (first - times[better].ms[i]));
  }
  return shares.size() < Measuring::fewest_pairs ? not_measured("too few pairs")
                                                 : interval_of_median(shares);
}

/// The same in words. Where nothing is gained there is no share of it.
std::string division_text(const Times& times, int better, const std::string& name) {
  if (judge(beats(), ratio(times[modulo], times[better])) != Verdict::holds) return "";
  return ": the division alone is " + share_text(share_of_gain(times, better)) + " of what " +
         name + " gains on the first";
}

/// Whether of two gains that both have to be there `a` decides: the one that is not there, or not
/// clearly; else the smaller one.
bool weaker(const Interval& a, const Interval& b) {
  const auto rank = [](const Interval& gain) {
    const Verdict verdict = judge(beats(), gain);
    return verdict == Verdict::does_not_hold ? 0 : verdict == Verdict::too_close ? 1 : 2;
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : a.value < b.value;
}

/// What `fast` gains on `slow`: measured, and predicted by instructions.
struct Gain {
  int fast, slow;
  const char* on;
};
constexpr Gain gains[] = {
    {strided, modulo, "on modulo"},    {mask, modulo, "on modulo"},
    {descending, modulo, "on modulo"}, {descending, strided, "on strided"},
    {descending, mask, "on mask"},
};

/// A claim's line has one ratio; the file has all of them.
void save_gains(const Run& run, const Times& times, size_t n, const Calibrated& c) {
  for (const Gain& gain : gains) {
    const char* const name = rungs[gain.fast].name;
    const double expected = predicted_ms(rungs[gain.slow], n, c, *run.device) /
                            predicted_ms(rungs[gain.fast], n, c, *run.device);
    const Interval found = ratio(times[gain.slow], times[gain.fast]);
    if (std::isfinite(expected))
      run.report.save({"", name, "gain", gain.on, "predicted", "gain", "x", expected, NAN, NAN, 0});
    run.report.save({"", name, "gain", gain.on, "measured", "gain", "x", found.value, found.low,
                     found.high, found.pairs});
  }
}

}  // namespace

void judge_ladder(const Run& run, const Times& times, size_t n, const Calibrated& c) {
  const bool in_cache = run.device && !beyond_l2(*run.device, 4.0 * double(n));
  const auto gain = [&](int slow, int fast) {
    if (in_cache) return not_measured("the words are less than four times the L2");
    return ratio(times[slow], times[fast]);
  };
  const Interval packed = gain(modulo, strided);
  run.report.judge({"06.1", "strided indices without divergence beat the divergent version",
                    "faster, no figure", "vendor's guide"},
                   beats(), packed, faster(packed));
  if (packed.measured())
    run.report.finding("06.1", "a mask for %, with the same divergence, is " +
                                   faster(gain(modulo, mask)) +
                                   division_text(times, strided, "the strided index"));

  const Interval divergent = gain(modulo, descending);
  const Interval conflicts = gain(strided, descending);
  const bool divergent_decides = weaker(divergent, conflicts);
  const Interval& deciding = divergent_decides ? divergent : conflicts;
  run.report.judge(
      {"06.2", "descending strides without bank conflicts beat both", "faster, no figure",
       "vendor's guide"},
      beats(), deciding,
      faster(divergent) + " than the first, " + faster(conflicts) + " than the second");
  if (divergent.measured())
    run.report.finding("06.2", faster(gain(mask, descending)) + " than the mask" +
                                   division_text(times, descending, "the descending stride"));
  if (divergent.measured()) save_gains(run, times, n, c);
}

}  // namespace reduce

// ---- self-checks ----

using namespace reduce;

TEST_CASE("ladder: each claim compares the text's kernels, the right way round") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  std::string printed;
  Report report("ladder", &printed);
  const Run run{report, &device, {}};
  Times times(rung_count);
  const auto judged = [&](double of_modulo, double of_mask, double of_strided, double of_descending,
                          size_t n) {
    const double ms[] = {of_modulo, of_mask, of_strided, of_descending};
    for (const int rung : {modulo, mask, strided, descending}) times[rung].ms.assign(15, ms[rung]);
    printed.clear();
    judge_ladder(run, times, n, {});
  };
  const auto says = [&](const char* text) { return printed.find(text) != std::string::npos; };
  constexpr size_t enough = 1 << 20;
  judged(2.6, 1.3, 1.6, 1.25, enough);
  CHECK(says("06.1   holds  "));
  CHECK(says("here 1.62x faster"));
  CHECK(says("a mask for %, with the same divergence, is 2.00x faster"));
  CHECK(says("the division alone is 130%"));
  CHECK(says("06.2   holds  "));
  CHECK(says("2.08x faster (2.06 to 2.10) than the first, 1.28x faster (1.27 to 1.29) than the"));
  CHECK(says("found: 1.04x faster"));
  CHECK(says("the division alone is 96%"));
  judged(1.5, 1.3, 1.6, 1.25, enough);
  CHECK(says("06.1   does not hold"));
  CHECK(says("06.2   holds  "));
  judged(2.6, 1.3, 1.6, 1.6, enough);  // beats the first only
  CHECK(says("06.2   does not hold"));
  judged(1.2, 1.3, 1.6, 1.25, enough);  // and here the second only
  CHECK(says("06.2   does not hold"));
  CHECK_FALSE(says("the division alone"));  // nothing is gained on the first
  judged(1.2, 1.1, 1.6, 1.25, enough);
  CHECK(says("06.1   does not hold"));
  CHECK(says("a mask for %, with the same divergence, is 1.09x faster"));
  CHECK_FALSE(says("the division alone"));
  judged(1.28, 1.3, 1.275, 1.25, enough);  // neither is clear
  CHECK(says("06.2   too close to call"));
  judged(2.6, 1.3, 1.6, 1.25, 1000);
  CHECK(says("06.1   not judged"));
  CHECK(says("06.2   not judged"));
}

TEST_CASE("ladder: of two gains the one that is less certain decides, and both are saved") {
  const auto gain = [](double low, double value, double high) {
    Interval interval;
    interval.low = low;
    interval.value = value;
    interval.high = high;
    return interval;
  };
  // the larger median straddles the bound
  CHECK(weaker(gain(0.9, 1.5, 2.1), gain(1.2, 1.3, 1.4)));
  CHECK_FALSE(weaker(gain(1.2, 1.3, 1.4), gain(0.9, 1.5, 2.1)));
  CHECK(weaker(gain(0.9, 0.95, 1.0), gain(0.9, 1.5, 2.1)));
  CHECK(weaker(gain(1.2, 1.3, 1.4), gain(1.4, 1.5, 1.6)));
  std::string printed;
  Report report("ladder", &printed);
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  Times times(rung_count);
  const double ms[] = {2.6, 1.3, 1.6, 1.25};
  for (const int rung : {modulo, mask, strided, descending}) times[rung].ms.assign(15, ms[rung]);
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1024;
  device.sm_clock_khz = 1000000;
  device.theoretical_gbs = 1000;
  // no launch and no wait: instructions only, 1115 over 859
  judge_ladder({report, &device, {}}, times, 1 << 20, {0, 0, 0});
  const std::string csv = report.csv("2026-01-01");
  CHECK(csv.find("descending,gain,on modulo,measured,gain,x,2.08") != std::string::npos);
  CHECK(csv.find("descending,gain,on strided,measured,gain,x,1.28") != std::string::npos);
  CHECK(csv.find("descending,gain,on mask,measured,gain,x,1.04") != std::string::npos);
  CHECK(csv.find("descending,gain,on strided,predicted,gain,x,1.298") != std::string::npos);
}
