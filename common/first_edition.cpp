#include "first_edition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

// ---- measuring ----

ColdCache::ColdCache(size_t l2_bytes) : filler_(2 * std::max<size_t>(l2_bytes, 1 << 20)) {}

void ColdCache::flush() const {
  CUDA_CHECK(cudaMemsetAsync(filler_.data(), 0x5a, filler_.bytes()));
}

Statistics time_device(const Measuring& measuring, const Call& launch, Timed how) {
  Event first, last;
  launch();  // loads the code, fills caches and translation buffers
  first.record();
  launch();
  last.record();
  last.wait();
  const int repeats = measuring.repeats_for(last.ms_since(first) * how.launches);

  std::vector<Event> start(repeats), stop(repeats);
  for (int r = 0; r < repeats; ++r) {
    start[r].record();
    for (int i = 0; i < how.launches; ++i) launch();
    stop[r].record();
  }
  stop.back().wait();
  std::vector<double> ms(repeats);
  for (int r = 0; r < repeats; ++r) ms[r] = stop[r].ms_since(start[r]) / how.launches;
  return summarize(ms);
}

double host_ms(const Call& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Statistics time_host(const Measuring& measuring, const Call& work) {
  const int repeats = measuring.repeats_for(host_ms(work));
  std::vector<double> ms(repeats);
  for (double& value : ms) value = host_ms(work);
  return summarize(ms);
}

// ---- judging ----

Judgement not_judged(const std::string& reason) { return {Verdict::not_judged, reason}; }

Judgement judge_ratio(const Statistics& larger, const Statistics& smaller, double stated) {
  const double ratio = larger.median / smaller.median;
  Verdict verdict = Verdict::holds;
  if (!(larger.low > smaller.high))
    verdict = Verdict::does_not_hold;
  else if (stated > 0 && ratio < stated * (1 - stated_factor_tolerance))
    verdict = Verdict::holds_by_less;
  else if (stated > 0 && ratio > stated * (1 + stated_factor_tolerance))
    verdict = Verdict::holds_by_more;
  return {verdict, times(ratio), ratio};
}

Judgement judge_no_gain(const Statistics& base, const Statistics& changed, double tolerance) {
  const double ratio = base.median / changed.median;
  const bool gain = base.low > changed.high && ratio > 1 + tolerance;
  return {gain ? Verdict::does_not_hold : Verdict::holds, times(ratio), ratio};
}

Judgement judge_fact(bool holds, const std::string& here, double value, const std::string& unit) {
  return {holds ? Verdict::holds : Verdict::does_not_hold, here, value, unit};
}

void Report::claim(const Claim& claim, const Judgement& judged) {
  std::string line = "  " + claim.id + "  " + verdict_text(judged.verdict);
  line.resize(std::max<size_t>(line.size() + 2, 25), ' ');
  line += claim.text + (judged.verdict == Verdict::not_judged ? ": " : ": here ") + judged.here;
  if (!claim.then.empty())
    line +=
        "; then" + (claim.then_on.empty() ? "" : " (" + claim.then_on + ")") + ": " + claim.then;
  print(line);
  ++verdicts_[static_cast<int>(judged.verdict)];
  save({experiment_, claim.id, claim.text, judged.here, "claim", verdict_text(judged.verdict),
        judged.unit, judged.value});
  save({experiment_, claim.id, claim.then_on, claim.then, "then", "reported", "", NAN});
}

void Report::left_out(const std::string& what, const std::vector<Claim>& claims) {
  left_out(what);
  for (const Claim& each : claims) claim(each, ::not_judged("no GPU"));
}

// ---- counting ----

// of counters.hpp, whose other names are those of first_edition
double count_of_this_run(const std::string& kernel, const std::string& parameter,
                         const std::string& metric);
bool counted_in_this_run();
namespace counters {
void announce();
}

namespace first_edition {

namespace {

std::string operation(bool loads) { return loads ? "ld" : "st"; }

using Counts = std::map<std::string, double>;  // by "kernel,parameter,metric"

/// The counts recorded in a topic's results/, whichever GPU's they are.
Counts recorded_counts(const std::string& folder) {
  Counts counts;
  if (folder.empty() || !std::filesystem::is_directory(folder)) return counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string ending = "-counters.csv";
    if (name.size() < ending.size() || name.substr(name.size() - ending.size()) != ending) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      const size_t comma = line.rfind(',');
      if (comma != std::string::npos)
        counts[line.substr(0, comma)] = std::atof(line.c_str() + comma + 1);
    }
  }
  return counts;
}

}  // namespace

Expected expected_requests(bool loads, double requests) {
  const std::string op = operation(loads);
  return {op + " requests", "l1tex__t_requests_pipe_lsu_mem_global_op_" + op + ".sum", requests,
          ""};
}

Expected expected_sectors(bool loads, double sectors) {
  const std::string op = operation(loads);
  return {op + " sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_" + op + ".sum", sectors, ""};
}

Expected expected_sectors_a_request(bool loads, double sectors) {
  return {operation(loads) + " sectors/request", expected_sectors(loads, 0).metric, sectors,
          expected_requests(loads, 0).metric};
}

Expected expected_wavefronts(bool loads, double wavefronts) {
  const std::string op = operation(loads);
  return {"shared " + op + " wavefronts",
          "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum", wavefronts, ""};
}

void launch_counted(const std::vector<CountedLaunch>& all) {
  counters::announce();
  for (const CountedLaunch& each : all) {
    CAPTURE(each.kernel);
    CAPTURE(each.parameter);
    std::printf("launch: %s,%s\n", each.kernel.c_str(), each.parameter.c_str());
    CHECK(each.launch());
  }
}

void compare_with_counters(const std::vector<CountedLaunch>& all,
                           const std::string& results_folder) {
  const bool fresh = counted_in_this_run();
  const Counts recorded = fresh ? Counts{} : recorded_counts(results_folder);
  if (!fresh && recorded.empty())
    return skip_self_check("no counts are recorded in results/, or built without it");
  const auto count_of = [&](const CountedLaunch& launch, const std::string& metric) {
    if (fresh) return count_of_this_run(launch.kernel, launch.parameter, metric);
    const auto found = recorded.find(launch.kernel + "," + launch.parameter + "," + metric);
    return found == recorded.end() ? NAN : found->second;
  };
  for (const CountedLaunch& each : all)
    for (const Expected& expected : each.expected) {
      const double times = expected.per.empty() ? 1 : count_of(each, expected.per);
      const double count = count_of(each, expected.metric);
      CAPTURE(each.kernel);
      CAPTURE(each.parameter);
      CAPTURE(expected.what);
      if (!expected.per.empty()) CHECK((times > 0) == (expected.value > 0));
      CHECK(count == std::round(expected.value * times));  // a mean may be no whole number
      if (fresh)
        std::printf("  %-24s %-40s %-22s %12.6g %12.6g\n", each.kernel.c_str(),
                    each.parameter.c_str(), expected.what.c_str(), expected.value,
                    times > 0 ? count / times : count);
    }
}

}  // namespace first_edition
