#include "judging.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace {

/// What one run cannot see: another run of the same program may differ by as much.
constexpr double unseen_share = 0.01;

/// A figure that a text states is met within a quarter of it.
constexpr double stated_tolerance = 0.25;

/// The largest k for which the k-th smallest and the k-th largest of n values enclose the median
/// with at least 95%: P(fewer than k of n fair coins fall heads) is at most 2.5%. 0: there is none.
int order_statistic(int n) {
  double logarithm =
      -n * std::log(2.0);              // of the probability of 0 heads, which may be below 1e-308
  double below = std::exp(logarithm);  // probability of at most k - 1 heads
  int k = 0;
  while (below <= 0.025) {
    ++k;
    logarithm += std::log(double(n - k + 1) / k);
    below += std::exp(logarithm);
  }
  return k;
}

Verdict compare(bool all_inside, bool all_outside, Verdict inside) {
  if (all_inside) return inside;
  return all_outside ? Verdict::does_not_hold : Verdict::too_close;
}

std::string text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

/// A factor's digits without the x: three of them.
std::string digits(double factor) {
  return text(factor < 9.995 ? "%.2f" : factor < 99.95 ? "%.1f" : "%.0f", factor);
}

std::string compared(const Interval& r, const char* above, const char* below) {
  if (!r.measured()) return "-";
  const bool turned = r.value < 1;
  const double value = turned ? 1 / r.value : r.value;
  const double low = turned ? 1 / r.high : r.low;
  const double high = turned ? 1 / r.low : r.high;
  return factor_text(value) + " " + (turned ? below : above) + " (" + digits(low) + " to " +
         digits(high) + ")";
}

}  // namespace

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::holds_by_less:
      return "holds, by less";
    case Verdict::holds_by_more:
      return "holds, by more";
    case Verdict::too_close:
      return "too close to call";
    case Verdict::does_not_hold:
      return "does not hold";
    case Verdict::not_judged:
      return "not judged";
  }
  return "";
}

Interval interval_of_median(std::vector<double> values) {
  const int n = static_cast<int>(values.size());
  if (n == 0) return {};
  for (double value : values)
    if (!std::isfinite(value)) return {};
  const int k = order_statistic(n);
  if (k == 0) return not_measured("fewer than 6 pairs leave no range");
  const double median = summarize(values).median;
  std::sort(values.begin(), values.end());
  const double least = std::abs(median) * unseen_share;
  return {median, std::min(values[k - 1], median - least), std::max(values[n - k], median + least),
          n, ""};
}

Interval ratio(const Readings& a, const Readings& b) {
  if (a.ms.size() != b.ms.size())
    throw std::logic_error("ratio: what is compared was not measured in turn");
  std::vector<double> ratios;
  for (size_t r = 0; r < a.ms.size(); ++r) ratios.push_back(a.ms[r] / b.ms[r]);
  return interval_of_median(ratios);
}

Interval level(double amount, double unit, const Readings& times) {
  std::vector<double> rates;
  for (double ms : times.ms) rates.push_back(amount / unit / (ms * 1e-3));
  return interval_of_median(rates);
}

Interval scaled(const Interval& interval, double factor) {
  Interval result = interval;
  result.value *= factor;
  result.low *= factor;
  result.high *= factor;
  return result;
}

Interval exactly(double value) { return {value, value, value, 0, ""}; }

Interval not_measured(const std::string& why) { return {NAN, NAN, NAN, 0, why}; }

Criterion beats(double factor, double or_up_to) {
  return {Criterion::beats, factor, or_up_to > 0 ? or_up_to : factor};
}
Criterion much_beats(double factor) { return {Criterion::beats, factor, factor, much}; }
Criterion gains_nothing() { return {Criterion::gains_nothing}; }
Criterion about(double level) { return {Criterion::about, level, level}; }
Criterion at_least(double level) { return {Criterion::at_least, level}; }
Criterion at_most(double level) { return {Criterion::at_most, 0, level}; }
Criterion from_to(double from, double to) { return {Criterion::from_to, from, to}; }

Verdict judge(const Criterion& rule, const Interval& r) {
  if (!r.measured()) return Verdict::not_judged;
  const double least = rule.from * (1 - stated_tolerance);
  const double most = rule.to * (1 + stated_tolerance);
  switch (rule.kind) {
    case Criterion::beats: {
      Verdict strength = Verdict::holds;
      if (rule.from > 0 && r.high - 1 < (1 - stated_tolerance) * (rule.from - 1))
        strength = Verdict::holds_by_less;
      if (rule.to > 0 && r.low - 1 > (1 + stated_tolerance) * (rule.to - 1))
        strength = Verdict::holds_by_more;
      return compare(r.low > rule.bound, r.high < rule.bound, strength);
    }
    case Criterion::gains_nothing:
      return compare(r.high<rule.bound, r.low> rule.bound, Verdict::holds);
    case Criterion::about:
    case Criterion::from_to:
      return compare(r.low >= least && r.high <= most, r.high < least || r.low > most,
                     Verdict::holds);
    case Criterion::at_least:
      return compare(r.low >= least, r.high < least, Verdict::holds);
    case Criterion::at_most:
      return compare(r.high <= most, r.low > most, Verdict::holds);
  }
  return Verdict::not_judged;
}

Verdict judge_many(const std::vector<Verdict>& each) {
  size_t decided = 0, holding = 0, open = 0;
  for (Verdict verdict : each) {
    if (verdict == Verdict::too_close) ++open;
    if (verdict == Verdict::too_close || verdict == Verdict::not_judged) continue;
    ++decided;
    holding += verdict != Verdict::does_not_hold;
  }
  if (decided == 0) return open ? Verdict::too_close : Verdict::not_judged;
  if (4 * holding >= 3 * decided) return Verdict::holds;
  return 4 * holding < decided ? Verdict::does_not_hold : Verdict::too_close;
}

std::string factor_text(double factor) {
  return std::isfinite(factor) ? digits(factor) + "x" : "-";
}

std::string slower(const Interval& ratio) { return compared(ratio, "slower", "faster"); }

std::string faster(const Interval& ratio) { return compared(ratio, "faster", "slower"); }

std::string share_text(const Interval& share) {
  if (!share.measured()) return "-";
  const char* format = share.value < 0.2 ? "%.1f" : "%.0f";
  const std::string value = text(format, 100 * share.value) + "%";
  if (share.low == share.high) return value;
  return value + " (" + text(format, 100 * share.low) + " to " + text(format, 100 * share.high) +
         "%)";
}

std::string range_text(const Interval& interval, int decimals) {
  if (!interval.measured()) return "-";
  char buffer[160];
  if (interval.low == interval.high)
    std::snprintf(buffer, sizeof buffer, "%.*f", decimals, interval.value);
  else
    std::snprintf(buffer, sizeof buffer, "%.*f (%.*f to %.*f)", decimals, interval.value, decimals,
                  interval.low, decimals, interval.high);
  return buffer;
}
