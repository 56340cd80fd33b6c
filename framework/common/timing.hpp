// Measuring: the time of one piece of work, alone or in turn with others, and its statistics.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory.hpp"

// ---- statistics ----

/// What repeated measurements of one thing gave, in the unit of the values. `low` and `high` are
/// the 10th and the 90th percentile; both equal the median when there is one value. What was not
/// measured is not a number: it prints as "-", is not saved and is not judged.
struct Statistics {
  double median = NAN;
  double low = NAN;
  double high = NAN;
  int repeats = 0;

  /// Width of the spread as a share of the median, 0 to 1 and beyond.
  double spread() const { return median != 0 ? (high - low) / std::abs(median) : 0; }
};

/// Median, 10th and 90th percentile of `values` by linear interpolation between order statistics
/// (Hyndman and Fan's type 7, the default of R and NumPy). Throws std::invalid_argument if there is
/// none.
Statistics summarize(std::vector<double> values);

/// `amount` divided by each of the times, scaled: rate({8e9 bytes}, ms) * 1e-6 is GB/s. The order
/// of low and high turns.
Statistics rate(double amount, const Statistics& time);

/// Bandwidth in GB/s (1e9 bytes a second) of `bytes` moved in `ms` milliseconds.
Statistics gigabytes_per_second(double bytes, const Statistics& ms);

/// `factor` times the values.
Statistics scaled(const Statistics& s, double factor);

// ---- work ----

template <class Signature>
class Function;

/// Something that can be called later, as in std::function, whose header alone takes as long to
/// compile as a kernel. Copies share it.
template <class Result, class... Arguments>
class Function<Result(Arguments...)> {
 public:
  Function() = default;
  template <class Callable,
            class = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, Function>>>
  Function(Callable&& callable)
      : held_(new Holder<std::decay_t<Callable>>(std::forward<Callable>(callable))) {}
  Function(const Function& other) : held_(other.held_) {
    if (held_) ++held_->owners;
  }
  Function(Function&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Function& operator=(Function other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Function() {
    if (held_ && --held_->owners == 0) delete held_;
  }

  explicit operator bool() const { return held_ != nullptr; }
  Result operator()(Arguments... arguments) const { return held_->call(arguments...); }

 private:
  struct Base {
    int owners = 1;
    virtual ~Base() = default;
    virtual Result call(Arguments... arguments) = 0;
  };
  template <class Callable>
  struct Holder final : Base {
    Callable callable;
    explicit Holder(Callable c) : callable(std::move(c)) {}
    Result call(Arguments... arguments) override { return callable(arguments...); }
  };
  Base* held_ = nullptr;
};

/// How a result is proved right before its time is believed.
struct Check {
  Function<void()> poison;   ///< makes the output wrong everywhere
  Function<size_t()> wrong;  ///< waits, compares all of it, returns the number of wrong elements
  std::string unchecked;     ///< instead of both: why there is no result to check
};

/// Task without a result. The reason is printed with the first measurement.
Check unchecked(std::string why);

/// A piece of work to be measured.
struct Task {
  std::string name;         ///< as errors name it
  Function<void()> launch;  ///< does it once; device work into the default stream, without waiting
  Check check;
  bool on_host = false;  ///< done when `launch` returns, and timed by the host's steady clock
  /// What the task needs set, and what would disturb the others: `enter` is called before the task
  /// is run, `leave` after it was measured or has failed. Neither is timed. `leave` throws nothing.
  Function<void()> enter = {}, leave = {};
};

/// Milliseconds that one piece of work took, one value a round. Empty: not measured.
struct Readings {
  std::vector<double> ms;

  Statistics statistics() const { return ms.empty() ? Statistics{} : summarize(ms); }
  double median() const { return statistics().median; }
};

/// After the host was busy the same work runs for so many milliseconds before it is measured.
inline constexpr double warming_ms = 50;

/// How often to measure.
struct Measuring {
  int repeats = 20;        ///< of work that is timed by itself, at most
  bool typed = false;      ///< the user typed `repeats`: exactly so many of both, however long
  double budget_ms = 250;  ///< unless typed: fewer, once one piece of work would take longer
  int rounds = 18;         ///< of work that is timed in turn: nine blocks A B B A
  double warm_up_ms = warming_ms;  ///< --quick warms up for less, and may find lower clocks

  static constexpr int fewest_repeats = 5;
  static constexpr int quick_rounds = 12;  ///< six blocks: fewer leave no 95% range of their median

  /// Repeats of work that takes `ms` milliseconds once and is timed by itself.
  int repeats_for(double ms) const;
  /// Rounds of work in turn. Never fewer than `rounds` unless the user typed another number.
  int rounds_in_turn() const { return typed ? repeats : rounds; }
};

/// Device work so short that its events count is launched several times between them, until they
/// are at least this many milliseconds apart. A pair of events shows about 1 us more than the work
/// (01_memory_model timing: "events" against "events, 100 launches"), 2% of 0.05 ms.
inline constexpr double shortest_measurement_ms = 0.2;

/// Poisons the output, does the work once and compares: the number of wrong elements.
size_t wrong_after(const Task& task);
/// The same; throws WrongResult if any element is wrong, unless there is no result to check.
void require_right(const Task& task);

/// Checks the work, warms up and times it by itself, and checks it once more after the last repeat:
/// what was timed must have left its inputs as they were.
Readings time_alone(const Measuring& measuring, const Task& task);

/// Checks all tasks, warms up, times them in turn, and checks them once more after the last round.
/// A round is A B C or C B A, one after the other, so that two rounds are a block A B B A: in the
/// block's ratio (judging.hpp: ratio) a steady drift cancels, and so does what the second place
/// costs. Value r of each task is of round r.
/// Before each device measurement the same task runs once untimed: it then finds in the caches what
/// it left there itself, not lines of the task before it that are still to be written. (A transpose
/// that follows the copy engine would lose 3%.)
std::vector<Readings> time_in_turn(const Measuring& measuring, const std::vector<Task>& tasks);
