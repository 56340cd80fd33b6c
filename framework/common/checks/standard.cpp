#include "standard.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "made_up_devices.hpp"
#include "plausible.hpp"

namespace samples {
namespace {

void rehearse(const Experiment& experiment, const Device* device, bool quick, bool full) {
  std::string printed;
  Report report("rehearsal", &printed);
  // no two rows alike, and none that is zero: an exchange shows
  MadeUpMachine machine(device, [](const Ref& ref, const std::string& metric) {
    const size_t hash = std::hash<std::string_view>{}(text(ref) + metric);
    return 1 + double(hash >> 11) / double(size_t(1) << 53);
  });
  CAPTURE(std::string(device ? device->prop.name : "no GPU"));
  CAPTURE(quick);
  CAPTURE(full);
  report.heading(device, "none");
  REQUIRE_NOTHROW(carry_out(experiment, Run{report, device, {}, quick, full}, machine));
  for (const Record& r : report.records()) {
    CAPTURE(r.name);
    CAPTURE(r.metric);
    CHECK((!std::isfinite(r.value) || r.value >= 0));
    if (r.kind == "ratio") CHECK(r.value != 1);  // else a row is compared with itself
  }
}

/// What a record is of. Claims of the same number are told apart by their statements.
bool same_thing(const Record& a, const Record& b) {
  if (a.name != b.name || a.kind != b.kind) return false;
  if (a.kind == "claim") return a.parameter == b.parameter;
  return a.at == b.at && a.metric == b.metric && a.unit == b.unit;
}

/// Not the device itself, nor sentences.
bool is_compared(const Record& r) {
  return r.kind != "machine" && r.kind != "model" && r.kind != "left out" && r.kind != "finding";
}

/// Whether a recorded claim has since got another statement, and so waits for another run.
bool is_restated(const Record& then, const std::vector<Record>& now) {
  return then.kind == "claim" && std::any_of(now.begin(), now.end(), [&](const Record& r) {
           return r.kind == "claim" && r.name == then.name && r.parameter != then.parameter;
         });
}

bool equal(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

/// Of several runs each part has the verdict of most of them: it is compared without its strength.
std::string direction(const std::string& verdict) {
  if (verdict.starts_with("holds")) return "holds";
  return verdict == "no longer" ? "does not hold" : verdict;
}

/// The runs' medians may decide what some of the runs left open, but nothing against them.
bool agree(const std::string& then, const std::string& now) {
  const auto is_open = [](const std::string& verdict) {
    return verdict == verdict_text(Verdict::depends) || verdict == verdict_text(Verdict::too_close);
  };
  return direction(then) == direction(now) || is_open(then) || is_open(now);
}

void compare(const Record& then, const Record& now, bool of_several_runs) {
  constexpr double six_digits = 2e-5;
  // the median of predictions is not the prediction from medians: runs differ by 1%, and by 5%
  // where the host or the driver gives the constants. Nor is the median of what decides a part that
  // has several pairs: each pair's own ratio is compared exactly
  constexpr double of_runs = 0.06;
  // what follows from times is counted with their repeats, and a count of launches without
  const bool over_runs = then.kind == "predicted" || then.kind == "claim" ||
                         (then.kind == "counted" && then.repeats > 0);
  const double tolerance = of_several_runs && over_runs ? of_runs : six_digits;
  CAPTURE(then.name);
  CAPTURE(then.at);
  CAPTURE(then.metric);
  CAPTURE(now.value);
  CAPTURE(then.value);
  CHECK(equal(now.value, then.value, tolerance));
  // the second edition saved what follows from a time (a share, a latency) without its range; what
  // each run gives once has one only over several runs
  const bool once_per_run = of_several_runs && then.repeats == 0;
  if ((then.kind != "measured" || std::isfinite(then.low)) && !once_per_run) {
    CHECK(equal(now.low, then.low, tolerance));
    CHECK(equal(now.high, then.high, tolerance));
  }
  if (of_several_runs && then.kind == "claim")
    CHECK(agree(then.metric, now.metric));
  else
    CHECK(now.metric == then.metric);
}

}  // namespace

void check_needs(const Experiment& experiment) {
  if (experiment.needs) check_on_made_up_devices(experiment.needs);
}

void check_rehearsal(const Experiment& experiment) {
  rehearse(experiment, nullptr, false, false);
  for (const Device& device : made_up_devices())
    for (const bool quick : {false, true}) rehearse(experiment, &device, quick, !quick);
}

void check_replay(const Experiment& experiment, const std::string& results) {
  const Recording recording = read_recording(results, experiment.name);
  if (recording.gpu.empty()) return skip_self_check("nothing of this experiment was recorded");
  std::string printed;
  Report report("replay", &printed);
  report.heading(&recording.device, "");
  RecordedMachine machine(recording);
  carry_out(experiment, Run{report, &recording.device, {}}, machine);

  const std::vector<Record>& now = report.records();
  for (const Record& then : recording.records) {
    if (!is_compared(then)) continue;
    const auto found =
        std::find_if(now.begin(), now.end(), [&](const Record& r) { return same_thing(r, then); });
    if (found != now.end()) {
      compare(then, *found, recording.of_several_runs);
    } else if (is_restated(then, now)) {
      std::printf("  %s has another statement since it was recorded: not compared\n",
                  then.name.c_str());
    } else {
      CAPTURE(then.name);
      CAPTURE(then.at);
      CAPTURE(then.kind);
      CAPTURE(then.metric);
      FAIL_CHECK("was recorded, and is no longer there");
    }
  }
}

void check_tasks(const Experiment& experiment, const std::vector<size_t>& sizes) {
  if (!experiment.tasks || skip_without_gpu()) return;
  for (const size_t n : sizes)
    for (const Checked& each : experiment.tasks(n)) {
      CAPTURE(n);
      CAPTURE(each.task.name);
      CHECK(wrong_after(each.task) == 0);
      REQUIRE(bool(each.change_one));
      each.change_one();
      CHECK(each.task.check.wrong() == 1);
      each.task.check.poison();
      CHECK(each.task.check.wrong() == each.elements);
    }
}

std::string verdict_if(const Experiment& experiment, const std::string& part,
                       const std::vector<Given>& given) {
  std::string printed;
  Report report("given times", &printed);
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 100;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.l2CacheSize = 1 << 20;
  device.prop.totalGlobalMem = size_t(64) << 30;
  report.heading(&device, "");
  MadeUpMachine machine(&device, [&given](const Ref& ref, const std::string& metric) {
    for (const Given& each : given)
      if (same(each.ref, ref) && each.metric == metric) return each.value;
    return 1.0;
  });
  carry_out(experiment, Run{report, &device, {}}, machine);
  for (const Record& r : report.records())
    if (r.kind == "claim" && r.name == part) return r.metric;
  return "no part " + part;
}

void check_plausible(const Experiment& experiment) {
  ::check_plausible([&](const Run& run) {
    ThisMachine machine(run);
    carry_out(experiment, run, machine);
  });
}

}  // namespace samples
