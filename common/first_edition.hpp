// What the experiments of the first edition still use and those of the second do not. An experiment
// that moves includes report.hpp and counters.hpp instead; the last one to move deletes this file,
// first_edition.cpp, and the two lines in report.hpp that name it.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "report.hpp"

// ---- measuring ----

/// Refers to something that can be called, for as long as the call lasts that it is handed to.
class Call {
 public:
  template <class Callable>
  Call(Callable&& callable)
      : object_((void*)&callable),
        call_([](void* object) { (*static_cast<std::remove_reference_t<Callable>*>(object))(); }) {}
  void operator()() const { call_(object_); }

 private:
  void* object_;
  void (*call_)(void*);
};

/// Pushes everything else out of the L2 cache by writing twice its size. Holds that memory.
class ColdCache {
 public:
  /// `l2_bytes`: size of the L2 cache of the current device.
  explicit ColdCache(size_t l2_bytes);
  void flush() const;

 private:
  DeviceBuffer<unsigned char> filler_;
};

/// How one measurement is made up.
struct Timed {
  int launches = 1;  ///< launches between the two events, whose time is divided by their number
};

/// Device time of `launch()` in milliseconds, by events in the default stream, after two launches
/// to warm up. All repeats are queued before any is waited for.
Statistics time_device(const Measuring& measuring, const Call& launch, Timed how = {});

/// Milliseconds that one call of `work` takes by the host's steady clock.
double host_ms(const Call& work);

/// Host time of `work()` in milliseconds by a steady clock, after one call to warm up. Device work
/// counts only if `work` waits for it.
Statistics time_host(const Measuring& measuring, const Call& work);

// ---- judging ----

/// A claim of the material.
struct Claim {
  std::string id;       ///< as in "04.8"
  std::string text;     ///< what it says, in a line
  std::string then_on;  ///< the hardware or the text it stands in
  std::string then;     ///< what was reported there; empty if no figure was
};

/// What measuring says of a claim. `here` is the finding in words; `value` in `unit` is what it
/// rests on, NaN if nothing was measured.
struct Judgement {
  Verdict verdict;
  std::string here;
  double value = NAN;
  std::string unit = "x";
};

Judgement not_judged(const std::string& reason);

/// A factor that a text states is met if the one measured lies within this share of it.
inline constexpr double stated_factor_tolerance = 0.25;

/// Judges "`larger` exceeds `smaller`", and by the factor `stated` if the text states one (0 if
/// not). The direction holds if the 10th percentile of the larger lies above the 90th of the
/// smaller.
Judgement judge_ratio(const Statistics& larger, const Statistics& smaller, double stated = 0);

/// Judges "`changed` gains nothing over `base`", both times: holds unless it is faster beyond the
/// spread of both and by more than the share `tolerance`.
Judgement judge_no_gain(const Statistics& base, const Statistics& changed, double tolerance);

/// Judges a fact that is true or not and has no spread (a count, an error code).
Judgement judge_fact(bool holds, const std::string& here, double value = NAN,
                     const std::string& unit = "");

// ---- counting ----

namespace first_edition {

/// What a model says of one counter of a launch.
struct Expected {
  std::string what;    ///< as shown
  std::string metric;  ///< Nsight Compute's name of the counter
  double value;        ///< predicted: the count itself, or the count for each of `per`
  std::string per;     ///< the metric by whose count `value` is multiplied; empty: by none
};

Expected expected_requests(bool loads, double requests);
Expected expected_sectors(bool loads, double sectors);
/// The same for each request that is counted.
Expected expected_sectors_a_request(bool loads, double sectors);
Expected expected_wavefronts(bool loads, double wavefronts);

/// A launch that is counted, known by the pair of its kernel's plain name and a parameter.
struct CountedLaunch {
  std::string kernel, parameter;
  std::vector<Expected> expected;
  Function<bool()> launch;  ///< launches that kernel once and says whether it was right

  CountedLaunch(std::string kernel, std::string parameter, std::vector<Expected> expected,
                Function<bool()> launch)
      : kernel(std::move(kernel)),
        parameter(std::move(parameter)),
        expected(std::move(expected)),
        launch(std::move(launch)) {}
  /// The usual case: sectors of global memory for each request of a warp, 0 where there is none.
  CountedLaunch(std::string kernel, std::string parameter, double load_sectors,
                double store_sectors, Function<bool()> launch)
      : CountedLaunch(std::move(kernel), std::move(parameter),
                      {expected_sectors_a_request(true, load_sectors),
                       expected_sectors_a_request(false, store_sectors)},
                      std::move(launch)) {}
};

/// All of the case "<experiment>: profile launches".
void launch_counted(const std::vector<CountedLaunch>& all);

/// All of the case "<experiment>: counted ... equal the model", against the file of --counters or
/// else the counts recorded in this topic's results/.
void compare_with_counters(const std::vector<CountedLaunch>& all,
                           const std::string& results_folder);
inline void compare_with_counters(const std::vector<CountedLaunch>& all) {
#ifdef SAMPLE_RESULTS_DIR
  compare_with_counters(all, SAMPLE_RESULTS_DIR);
#else
  compare_with_counters(all, "");
#endif
}

}  // namespace first_edition

using first_edition::compare_with_counters;
using first_edition::CountedLaunch;
using first_edition::Expected;
using first_edition::expected_requests;
using first_edition::expected_sectors;
using first_edition::expected_sectors_a_request;
using first_edition::expected_wavefronts;
using first_edition::launch_counted;
