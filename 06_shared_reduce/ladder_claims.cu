// What the times of `ladder`'s rungs say of the guide's two statements, and of the division.
#include <cmath>

#include "ladder.hpp"

namespace reduce {

namespace {

/// What part of the time that `better` saves against kernel 1 the mask alone saves, block by block
/// of two rounds.
Interval share_of_gain(const Times& times, int better) {
  std::vector<double> shares;
  const auto block = [&](int rung, size_t i) { return times[rung].ms[i] + times[rung].ms[i + 1]; };
  for (size_t i = 0; i + 1 < times[modulo].ms.size(); i += 2) {
    const double first = block(modulo, i);
    shares.push_back((first - block(mask, i)) / (first - block(better, i)));
  }
  return interval_of_median(shares);
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
  run.report.judge({"06.2", "descending strides without bank conflicts beat both",
                    "faster, no figure", "vendor's guide"},
                   beats(), deciding,
                   faster(divergent, "the first") + ", " + faster(conflicts, "the second"));
  if (divergent.measured())
    run.report.finding("06.2", faster(gain(mask, descending), "the mask") +
                                   division_text(times, descending, "the descending stride"));
  if (divergent.measured()) save_gains(run, times, n, c);
}

}  // namespace reduce
