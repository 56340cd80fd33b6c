#include "judging.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace {

/// What one run cannot see: another run of the same program may differ by as much.
constexpr double unseen_share = 0.01;

/// The same of what the host, the driver or an allocation decides.
constexpr double unseen_of_host = 0.1;

/// What costs as much costs the same within this share.
constexpr double same_cost = 0.05;

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

Verdict compare(bool all_inside, bool all_outside) {
  if (all_inside) return Verdict::holds;
  return all_outside ? Verdict::does_not_hold : Verdict::too_close;
}

/// "A beats B": the direction decides whether it holds, the stated size how strongly.
Verdict judge_beats(const Criterion& rule, const Interval& r) {
  // what costs as much within 5% is not "much" slower, whatever its direction
  const double effect = rule.bound >= much ? 1 + same_cost : least_effect;
  const Verdict direction = compare(r.low > effect, r.high < effect);
  if (direction != Verdict::holds) return direction;
  const bool stated = rule.from > 0;
  double least = stated ? 1 + (1 - stated_tolerance) * (rule.from - 1) : 0;
  const double most = stated ? 1 + (1 + stated_tolerance) * (rule.to - 1) : INFINITY;
  if (rule.bound > least_effect) least = std::max(least, rule.bound);
  if (r.high < least) return Verdict::holds_weaker;
  if (r.low > most) return Verdict::holds_stronger;
  return r.low >= least && r.high <= most ? Verdict::holds : Verdict::holds_size_open;
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

/// "equal to rows within 1%" where the range reaches one.
std::string equal(const Interval& r, const std::string& to) {
  const double off = std::max(1 - r.low, r.high - 1);
  return "equal" + (to.empty() ? "" : " to " + to) + " within " +
         text("%.0f%%", std::ceil(100 * off - 1e-9));
}

std::string compared(const Interval& r, const char* above, const char* below,
                     const std::string& than) {
  if (!r.measured()) return "-";
  if (r.low <= 1 && r.high >= 1 && r.low < r.high) return equal(r, than);
  const bool turned = r.value < 1;
  const double value = turned ? 1 / r.value : r.value;
  const double low = turned ? 1 / r.high : r.low;
  const double high = turned ? 1 / r.low : r.high;
  return factor_text(value) + " " + (turned ? below : above) + (than.empty() ? "" : " than ") +
         than + " (" + digits(low) + " to " + digits(high) + ")";
}

}  // namespace

const char* verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::holds_stronger:
      return "holds, stronger";
    case Verdict::holds_weaker:
      return "holds, weaker";
    case Verdict::holds_size_open:
      return "holds, size open";
    case Verdict::depends:
      return "depends";
    case Verdict::too_close:
      return "too close to call";
    case Verdict::no_longer:
      return "no longer";
    case Verdict::does_not_hold:
      return "does not hold";
    case Verdict::not_judged:
      return "not judged";
  }
  return "";
}

bool holds(Verdict verdict) {
  return verdict == Verdict::holds || verdict == Verdict::holds_stronger ||
         verdict == Verdict::holds_weaker || verdict == Verdict::holds_size_open;
}

Interval interval_of_median(std::vector<double> values) {
  const int n = static_cast<int>(values.size());
  if (n == 0) return {};
  for (double value : values)
    if (!std::isfinite(value)) return {};
  const int k = order_statistic(n);
  if (k == 0) return not_measured("fewer than 6 blocks of two rounds leave no range");
  const double median = summarize(values).median;
  std::sort(values.begin(), values.end());
  const double least = std::abs(median) * unseen_share;
  return {median, std::min(values[k - 1], median - least), std::max(values[n - k], median + least),
          n, ""};
}

std::vector<double> of_blocks(const Readings& times) {
  std::vector<double> blocks;
  for (size_t r = 0; r + 1 < times.ms.size(); r += 2)
    blocks.push_back(std::sqrt(times.ms[r] * times.ms[r + 1]));
  return blocks;
}

Interval ratio(const Readings& a, const Readings& b) {
  if (a.ms.size() != b.ms.size())
    throw std::logic_error("ratio: what is compared was not measured in turn");
  const std::vector<double> of_a = of_blocks(a), of_b = of_blocks(b);
  std::vector<double> ratios;
  for (size_t i = 0; i < of_a.size(); ++i) ratios.push_back(of_a[i] / of_b[i]);
  return a.ms.empty() ? Interval{} : interval_of_median(ratios);
}

Interval ratio_of_groups(const std::vector<Readings>& a, const std::vector<Readings>& b) {
  constexpr size_t fewest_groups = 6;
  if (a.size() != b.size())
    throw std::logic_error("ratio_of_groups: what is compared was not measured in turn");
  if (a.empty()) return {};
  std::vector<double> medians;
  for (size_t g = 0; g < a.size(); ++g) {
    if (a[g].ms.size() != b[g].ms.size())
      throw std::logic_error("ratio_of_groups: what is compared was not measured in turn");
    const std::vector<double> of_a = of_blocks(a[g]), of_b = of_blocks(b[g]);
    std::vector<double> ratios;
    for (size_t i = 0; i < of_a.size(); ++i) ratios.push_back(of_a[i] / of_b[i]);
    if (ratios.empty()) return not_measured("a group has fewer than two rounds");
    medians.push_back(summarize(ratios).median);
  }
  if (medians.size() < fewest_groups) return not_measured("fewer than 6 groups leave no range");
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  const double median = summarize(medians).median;
  return {median, std::min(*least, median * (1 - unseen_of_host)),
          std::max(*most, median * (1 + unseen_of_host)), int(medians.size()), ""};
}

Interval level(double amount, double unit, const Readings& times) {
  if (times.ms.empty()) return {};
  std::vector<double> rates;
  for (double ms : of_blocks(times)) rates.push_back(amount / unit / (ms * 1e-3));
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
Criterion costs_as_much() { return {Criterion::costs_as_much}; }
Criterion about(double level) { return {Criterion::about, level, level}; }
Criterion at_least(double level) { return {Criterion::at_least, level}; }
Criterion at_most(double level) { return {Criterion::at_most, 0, level}; }
Criterion from_to(double from, double to) { return {Criterion::from_to, from, to}; }

Verdict judge(const Criterion& rule, const Interval& r) {
  if (!r.measured()) return Verdict::not_judged;
  const double least = rule.from * (1 - stated_tolerance);
  const double most = rule.to * (1 + stated_tolerance);
  switch (rule.kind) {
    case Criterion::beats:
      return judge_beats(rule, r);
    case Criterion::gains_nothing:
      return compare(r.high<rule.bound, r.low> rule.bound);
    case Criterion::costs_as_much:
      return compare(r.low >= 1 - same_cost && r.high <= 1 + same_cost,
                     r.high < 1 - same_cost || r.low > 1 + same_cost);
    case Criterion::about:
    case Criterion::from_to:
      return compare(r.low >= least && r.high <= most, r.high < least || r.low > most);
    case Criterion::at_least:
      return compare(r.low >= least, r.high < least);
    case Criterion::at_most:
      return compare(r.high <= most, r.low > most);
  }
  return Verdict::not_judged;
}

Verdict judge_some(const Criterion& rule, const Interval& best) {
  const Verdict verdict = judge(rule, best);
  return verdict == Verdict::does_not_hold ? Verdict::not_judged : verdict;
}

Verdict judge_many(const std::vector<Verdict>& each) {
  size_t judged = 0, decided = 0, holding = 0;
  for (Verdict verdict : each) {
    if (verdict == Verdict::not_judged) continue;
    ++judged;
    if (verdict == Verdict::too_close) continue;
    ++decided;
    holding += holds(verdict);
  }
  if (judged == 0) return Verdict::not_judged;
  if (2 * decided < judged) return Verdict::too_close;
  if (4 * holding >= 3 * decided) return Verdict::holds;
  return 4 * holding < decided ? Verdict::does_not_hold : Verdict::depends;
}

std::string factor_text(double factor) {
  return std::isfinite(factor) ? digits(factor) + "x" : "-";
}

std::string slower(const Interval& ratio, const std::string& than) {
  return compared(ratio, "slower", "faster", than);
}

std::string faster(const Interval& ratio, const std::string& than) {
  return compared(ratio, "faster", "slower", than);
}

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
