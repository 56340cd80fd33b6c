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
  holds_stronger,   ///< the direction holds, the effect is larger than stated
  holds_weaker,     ///< the direction holds, the effect is smaller than stated
  holds_size_open,  ///< the direction holds, the range crosses a bound of the stated size
  depends,          ///< true of some of the cases, which the line names
  too_close,
  no_longer,  ///< reported of hardware that the text names; this GPU does otherwise
  does_not_hold,
  not_judged,
};
inline constexpr int verdict_count = 9;

/// As printed and saved: "holds, weaker".
const char* verdict_text(Verdict verdict);
/// Whether it holds, in whatever strength.
bool holds(Verdict verdict);

/// A figure and the range that this run leaves open for it (95%). Not a number: not measured.
struct Interval {
  double value = NAN;
  double low = NAN;
  double high = NAN;
  int pairs = 0;        ///< blocks or groups that it rests on; 0 where it was computed or counted
  std::string why_not;  ///< of one that was not measured though there is a GPU

  bool measured() const { return std::isfinite(value); }
};

/// The median of `values`, between the order statistics that cover it with at least 95% (of 9 the
/// 2nd and the 8th, of 6 the smallest and the largest), and never narrower than 1% to either side:
/// what one run cannot see. Fewer than 6 values have no such range.
Interval interval_of_median(std::vector<double> values);

/// Rounds 0 and 1, 2 and 3 ... as blocks A B B A: the geometric mean of each two readings. A last
/// one without a second is left out.
std::vector<double> of_blocks(const Readings& times);

/// How many times as long as `b` did `a` take: the median of the blocks' ratios, and its range.
/// Both were timed in turn. A block's ratio is the geometric mean of its two rounds' ratios, so
/// that what the second place costs is in both, and cancels.
Interval ratio(const Readings& a, const Readings& b);

/// The same of what the host, the driver or an allocation decides: each group was measured with
/// memory of its own. The median of the groups' medians; the range reaches from the smallest
/// group's to the largest one's, and at least 10% to either side, which is how much other runs
/// differ. Fewer than 6 groups have no range.
Interval ratio_of_groups(const std::vector<Readings>& a, const std::vector<Readings>& b);

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
  enum Kind { beats, gains_nothing, costs_as_much, about, at_least, at_most, from_to } kind;
  double from = 0;  ///< the stated factor or level, and for a range its other end
  double to = 0;
  double bound = least_effect;  ///< from where on an effect counts
};

/// r is above 1; where the text states a factor (or a range of it), less or more is said too.
Criterion beats(double factor = 0, double or_up_to = 0);
/// r is above 1.5: "much faster". Between 1.05 and 1.5 it holds, weaker; what lies within 5% costs
/// as much, and does not hold.
Criterion much_beats(double factor = 0);
/// r is not above 1: nothing is gained.
Criterion gains_nothing();
/// r is 1 within 5%.
Criterion costs_as_much();
/// r lies within a quarter of `level`.
Criterion about(double level);
/// r is not below, or not above, `level`, a quarter of it allowed.
Criterion at_least(double level);
Criterion at_most(double level);
/// r lies between two levels, a quarter of each allowed.
Criterion from_to(double from, double to);

/// What the interval says. Not measured: not judged. "Always", "never" and "no harm" are judged by
/// the worst case that the text covers, measured again.
Verdict judge(const Criterion& rule, const Interval& r);

/// "Some", "can", "in some cases": the best case, measured again. What it does not show was not
/// seen here, which refutes nothing: not judged.
Verdict judge_some(const Criterion& rule, const Interval& best);

/// Over several shapes, widths or counts, fixed before anything is measured: holds if three
/// quarters of the decided ones do, does not if fewer than a quarter do, else it depends. Fewer
/// than half of the judged ones decided: too close to call. None judged: not judged.
Verdict judge_many(const std::vector<Verdict>& each);

// ---- in words ----

/// A factor with three digits: "3.06x".
std::string factor_text(double factor);
/// "3.06x slower than rows (3.03 to 3.09)" of a ratio of times above 1, "1.74x faster than ..."
/// below, "equal to rows within 1%" where the range reaches one. `than` may be empty.
std::string slower(const Interval& ratio, const std::string& than = "");
/// The same of a ratio that says how many times as fast.
std::string faster(const Interval& ratio, const std::string& than = "");
/// "52% (51 to 53%)" of a share, where 1 is all.
std::string share_text(const Interval& share);
/// "412 (408 to 415)" with so many digits after the point.
std::string range_text(const Interval& interval, int decimals);
