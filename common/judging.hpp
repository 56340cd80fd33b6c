// Judging: the range that a run leaves open for a ratio, and what it says of a text's statement.
//
// A verdict is given only when the whole range lies on one side of the bound; what straddles it is
// too close to call. README.md says the same in words.
#pragma once

#include <string>
#include <vector>

#include "timing.hpp"

enum class Verdict {
  holds,
  holds_by_less,
  holds_by_more,
  too_close,
  does_not_hold,
  not_judged,
};
inline constexpr int verdict_count = 6;

/// As printed and saved: "holds, by less".
const char* verdict_text(Verdict verdict);

/// A figure and the range that this run leaves open for it (95%). Not a number: not measured.
struct Interval {
  double value = NAN;
  double low = NAN;
  double high = NAN;
  int pairs = 0;        ///< measurements that it rests on; 0 where it was computed or counted
  std::string why_not;  ///< of one that was not measured though there is a GPU

  bool measured() const { return std::isfinite(value); }
};

/// The median of `values`, between the order statistics that cover it with at least 95% (of 15 the
/// 4th and the 12th), and never narrower than 1% to either side: what one run cannot see. Fewer
/// than 6 values have no such range.
Interval interval_of_median(std::vector<double> values);

/// How many times as long as `b` did `a` take: the ratios of their rounds.
Interval ratio(const Readings& a, const Readings& b);

/// `amount` (bytes, words) over each time in seconds, divided by `unit`: level(bytes, 1e9, t) is
/// the rate in GB/s.
Interval level(double amount, double unit, const Readings& times);

Interval scaled(const Interval& interval, double factor);

/// A figure that was computed or counted: it has no range.
Interval exactly(double value);

/// Why there is no figure on a machine that has a GPU.
Interval not_measured(const std::string& why);

// ---- the texts' kinds of statement ----

/// An effect counts from 2% on; where the text says "much" or "significantly", from 1.5 times on.
inline constexpr double least_effect = 1.02;
inline constexpr double much = 1.5;

/// What a statement says of a ratio or a level r.
struct Criterion {
  enum Kind { beats, gains_nothing, about, at_least, at_most, from_to } kind;
  double from = 0;  ///< the stated factor or level, and for a range its other end
  double to = 0;
  double bound = least_effect;  ///< from where on an effect counts
};

/// r is above 1; where the text states a factor (or a range of it), less or more is said too.
Criterion beats(double factor = 0, double or_up_to = 0);
/// r is above 1.5: "much faster".
Criterion much_beats(double factor = 0);
/// r is not above 1: nothing is gained.
Criterion gains_nothing();
/// r lies within a quarter of `level`.
Criterion about(double level);
/// r is not below, or not above, `level`, a quarter of it allowed.
Criterion at_least(double level);
Criterion at_most(double level);
/// r lies between two levels, a quarter of each allowed.
Criterion from_to(double from, double to);

/// What the interval says. Not measured: not judged.
Verdict judge(const Criterion& rule, const Interval& r);

/// Over many shapes or widths: holds if three quarters of the decided ones do, does not if fewer
/// than a quarter do, else too close to call. Nothing decided: too close, or not judged.
Verdict judge_many(const std::vector<Verdict>& each);

// ---- in words ----

/// A factor with three digits: "3.06x".
std::string factor_text(double factor);
/// "3.06x slower (3.03 to 3.09)" of a ratio of times above 1, "1.74x faster (...)" below.
std::string slower(const Interval& ratio);
/// The same of a ratio that says how many times as fast.
std::string faster(const Interval& ratio);
/// "52% (51 to 53%)" of a share, where 1 is all.
std::string share_text(const Interval& share);
/// "412 (408 to 415)" with so many digits after the point.
std::string range_text(const Interval& interval, int decimals);
