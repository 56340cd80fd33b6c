#include "experiment.hpp"

#include <algorithm>
#include <stdexcept>

namespace samples {
namespace {

/// A number with its range, and what a reader sees of it.
struct Judged {
  Interval interval;
  std::string words;
  std::string name = {};  ///< of the case, where a part has many
};

Interval ratio_of_times(const Run& run, const Measured& slow, const Measured& fast) {
  if (slow.turn == 0 || slow.turn != fast.turn)
    throw std::logic_error("'" + text(slow.ref) + "' and '" + text(fast.ref) +
                           "' were not measured in turn");
  for (const Measured* row : {&slow, &fast})
    if (!row->missing.empty() && run.device) return not_measured(row->missing);
  if (slow.regrouped && run.quick && run.device)
    return not_measured("--quick measures this once; its range needs six groups");
  return run.machine->ratio(slow, fast);
}

/// The same as the pair says. What is saved is always the ratio of the rows' times.
Interval as_compared(const Comparison& pair, const Measured& slow, const Measured& fast,
                     const Interval& of_times) {
  const double works = pair.per_byte ? fast.bytes / slow.bytes : pair.works;
  return works == 1 ? of_times : scaled(of_times, works);
}

Judged judged(const Run& run, const Comparison& pair) {
  const Measured &slow = (*run.results)(pair.slow), &fast = (*run.results)(pair.fast);
  const Interval times = ratio_of_times(run, slow, fast);
  if (!times.measured()) return {times, ""};
  run.report.save({"", slow.ref.key, "", at_text(slow.ref), "ratio", ratio_to(fast.ref), "x",
                   times.value, times.low, times.high, times.pairs, slow.words});
  const Interval r = as_compared(pair, slow, fast, times);
  const std::string per = pair.works == 1 ? "" : std::string(", per ") + pair.per;
  return {r, slower(r, fast.words) + (pair.per_byte ? ", per byte" : per), slow.words};
}

/// As many decimals as leave three digits.
int decimals(double value) { return value >= 100 ? 0 : value >= 10 ? 1 : 2; }

Judged judged(const Run& run, const Level& level, const std::string& needs) {
  Interval v;
  std::string unit = level.unit;
  if (level.of_ms) {
    const Measured& row = (*run.results)(level.ref);
    v = row.missing.empty() || !run.device ? run.machine->level(row, level.metric, level.of_ms)
                                           : not_measured(row.missing);
    if (v.measured())
      run.report.save({"", level.ref.key, "", at_text(level.ref), "ratio", level.metric, unit,
                       v.value, v.low, v.high, v.pairs, row.words});
  } else {
    const Value& kept = run.results->value(level.ref, level.metric);
    const Statistics& s = kept.value;
    unit = kept.unit;
    v = std::isnan(s.median) ? not_measured(needs)
                             : Interval{s.median, s.low, s.high, s.repeats > 1 ? s.repeats : 0, ""};
  }
  const std::string figure =
      unit.empty() ? share_text(v)
                   : range_text(v, decimals(v.value)) + (unit == "x" ? "" : " ") + unit;
  return {v, figure + " " + level.metric, ""};
}

/// What was found for each of a few cases: "64: 2.79x slower than 192, 3.55x slower than 256".
std::string each_in_words(const std::vector<Judged>& all) {
  std::string words, subject;
  for (const Judged& one : all) {
    if (!one.interval.measured()) continue;
    const bool same_subject = !words.empty() && one.name == subject;
    if (!words.empty()) words += same_subject ? ", " : "; ";
    if (!same_subject && !one.name.empty()) words += one.name + ": ";
    words += one.words;
    subject = one.name;
  }
  return words;
}

/// What was found for many cases: how many hold and which, or which do not, and the figures' ends.
std::string many_in_words(const std::vector<Judged>& all, const std::vector<Verdict>& verdicts) {
  std::vector<std::string> holding, others;
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].interval.measured()) continue;
    (holds(verdicts[i]) ? holding : others).push_back(all[i].name);
    least = std::min(least, all[i].interval.value);
    most = std::max(most, all[i].interval.value);
  }
  const size_t cases = holding.size() + others.size();
  if (cases == 0) return "";
  const auto list = [](const char* before, const std::vector<std::string>& names) {
    std::string words;
    for (const std::string& name : names) words += (words.empty() ? before : ", ") + name;
    return words;
  };
  std::string words = std::to_string(holding.size()) + " of " + std::to_string(cases) + " hold";
  if (holding.size() <= others.size())
    words += list(": ", holding);
  else
    words += list(", but not ", others);
  return words + "; from " + factor_text(least) + " to " + factor_text(most);
}

void judge(const Run& run, const Claim& claim) {
  if (!claim.unless.empty()) return run.report.not_judged(claim.part, claim.unless);
  if (claim.fact != Fact::none)
    return run.report.judge_fact(claim.part, claim.fact == Fact::so, claim.here);

  std::vector<Judged> all;
  for (const Comparison& pair : claim.pairs) all.push_back(judged(run, pair));
  for (const Level& level : claim.levels) all.push_back(judged(run, level, claim.needs));
  if (all.empty()) throw std::logic_error(claim.part.id + " names nothing that decides it");
  std::vector<Verdict> verdicts;
  for (const Judged& each : all)
    verdicts.push_back(claim.some ? judge_some(claim.rule, each.interval)
                                  : judge(claim.rule, each.interval));
  constexpr size_t few = 4;  // as many as a line has room for
  std::string here =
      all.size() <= few || claim.pairs.empty() ? each_in_words(all) : many_in_words(all, verdicts);
  if (!here.empty() && !claim.here.empty()) here += "; " + claim.here;
  const Verdict verdict = verdicts.size() == 1 ? verdicts[0] : judge_many(verdicts);
  // of several the least is saved, or why there is none
  const auto least = std::min_element(all.begin(), all.end(), [](const Judged& a, const Judged& b) {
    return a.interval.value < b.interval.value;
  });
  run.report.judged(claim.part, verdict, least->interval, here, claim.pairs.empty() ? "" : "x");
}

/// Prints what a recorded GPU gave, in a report that is not saved.
void show_recorded(const Experiment& experiment, const Run& run, const std::string& path) {
  const Recording recording = read_recording(path, experiment.name);
  if (recording.gpu.empty())
    return run.report.note("no recorded GPU's rows are shown: " +
                           (path.empty() ? "this build knows no results/" : path) +
                           " has none of this experiment");
  std::string printed;
  Report report("", &printed);
  RecordedMachine machine(recording);
  Experiment shown = experiment;
  shown.claims = nullptr;  // recorded values are not judged
  carry_out(shown, Run{report, &recording.device, {}}, machine);
  if (!printed.empty()) printed.pop_back();  // the last line's end
  run.report.print("\n  Recorded: " + recording.gpu + ", " + recording.date +
                   " (not measured now; neither saved nor judged)" + printed);
}

}  // namespace

Interval ratio_of(const Run& run, const Comparison& pair) {
  const Measured &slow = (*run.results)(pair.slow), &fast = (*run.results)(pair.fast);
  return as_compared(pair, slow, fast, ratio_of_times(run, slow, fast));
}

void find(const Run& run, const std::string& id, const Comparison& pair, const std::string& where) {
  const Judged found = judged(run, pair);
  if (found.interval.measured())
    run.report.finding(id, where + (*run.results)(pair.slow).words + ": " + found.words);
}

Statistics ask_count(const Run& run, const std::string& kernel, const std::string& parameter,
                     const std::string& metric) {
  return ask(run, kernel, metric, "",
             [&] { return single(count_of_this_run(kernel, parameter, metric)); });
}

CountedLaunch counted_launch(std::string kernel, std::string parameter, Requested loads,
                             Requested stores, Function<Task()> make) {
  CountedLaunch launch{
      std::move(kernel), std::move(parameter), {}, [make] { return wrong_after(make()) == 0; }};
  for (const bool of_loads : {true, false}) {
    const Requested& all = of_loads ? loads : stores;
    if (all.requests == 0) continue;
    launch.expected.push_back(expected_requests(of_loads, all.requests));
    launch.expected.push_back(expected_sectors(of_loads, all.sectors));
  }
  return launch;
}

void carry_out(const Experiment& experiment, Run run, Machine& machine) {
  Results results;
  run.machine = &machine;
  run.results = &results;
  experiment.run(run);
  if (!experiment.claims) return;
  for (const Claim& claim : experiment.claims(run)) {
    judge(run, claim);
    for (const Comparison& pair : claim.found) find(run, claim.part.id, pair);
  }
}

void carry_out(const Experiment& experiment, const Run& run, const std::string& recorded) {
  ThisMachine machine(run);
  carry_out(experiment, run, machine);
  if (!run.device) show_recorded(experiment, run, recorded);
}

}  // namespace samples
