// Self-checks against hardware counters: launches that Nsight Compute counts, and their counts beside a model's.
#pragma once

#include <doctest/doctest.h>

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "check.cuh"

/// What a model says of one counter of a launch.
struct Expected {
  std::string what;    ///< as shown
  std::string metric;  ///< Nsight Compute's name of the counter
  double value;        ///< predicted: the count itself, or the count for each of `per`
  std::string per;     ///< the metric by whose count `value` is multiplied; empty: by none
};

/// Requests of a warp to global memory, loads or stores, that a launch makes.
inline Expected expected_requests(bool loads, double requests) {
  const std::string op = loads ? "ld" : "st";
  return {op + " requests", "l1tex__t_requests_pipe_lsu_mem_global_op_" + op + ".sum", requests, ""};
}
/// Sectors of 32 bytes of global memory that these requests touch.
inline Expected expected_sectors(bool loads, double sectors) {
  const std::string op = loads ? "ld" : "st";
  return {op + " sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_" + op + ".sum", sectors, ""};
}
/// The same for each request that is counted.
inline Expected expected_sectors_a_request(bool loads, double sectors) {
  return {std::string(loads ? "ld" : "st") + " sectors/request", expected_sectors(loads, 0).metric, sectors,
          expected_requests(loads, 0).metric};
}
/// Passes through shared memory that the launch's loads or stores take.
inline Expected expected_wavefronts(bool loads, double wavefronts) {
  const std::string op = loads ? "ld" : "st";
  return {"shared " + op + " wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_" + op + ".sum", wavefronts,
          ""};
}

/// A launch that is counted, known by the pair of its kernel's plain name and a parameter, both without commas.
struct CountedLaunch {
  std::string kernel, parameter;
  std::vector<Expected> expected;
  std::function<bool()> launch;  ///< launches that kernel once and says whether its result was right

  CountedLaunch(std::string kernel, std::string parameter, std::vector<Expected> expected, std::function<bool()> launch)
      : kernel(std::move(kernel)),
        parameter(std::move(parameter)),
        expected(std::move(expected)),
        launch(std::move(launch)) {}
  /// The usual case: sectors of global memory for each request of a warp, 0 where the kernel makes none.
  CountedLaunch(std::string kernel, std::string parameter, double load_sectors, double store_sectors,
                std::function<bool()> launch)
      : CountedLaunch(
            std::move(kernel), std::move(parameter),
            {expected_sectors_a_request(true, load_sectors), expected_sectors_a_request(false, store_sectors)},
            std::move(launch)) {}
};

/// What was counted, by "kernel,parameter,metric": in the file that $SAMPLE_COUNTERS names (the profile preset counts
/// on this machine's GPU), else in the one kept for `gpu`, written by tools/counters.py: "NVIDIA H200" has
/// results/nvidia-h200-counters.csv. Empty where there is neither.
inline std::map<std::string, double> read_counters([[maybe_unused]] std::string gpu) {
  const char* named = std::getenv("SAMPLE_COUNTERS");
  std::string path = named ? named : "";
#ifdef SAMPLE_RESULTS_DIR
  for (char& c : gpu) c = c == ' ' ? '-' : char(std::tolower(static_cast<unsigned char>(c)));
  if (!named) path = SAMPLE_RESULTS_DIR "/" + gpu + "-counters.csv";
#endif
  std::map<std::string, double> counted;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t comma = line.rfind(',');
    if (comma != std::string::npos) counted[line.substr(0, comma)] = std::atof(line.c_str() + comma + 1);
  }
  return counted;
}

/// All of the case "<experiment>: profile launches": launches all in order, each after the line by which
/// tools/counters.py knows it, and checks their results.
inline void launch_counted(const std::vector<CountedLaunch>& all) {
  for (const CountedLaunch& each : all) {
    CAPTURE(each.kernel);
    CAPTURE(each.parameter);
    std::printf("launch: %s,%s\n", each.kernel.c_str(), each.parameter.c_str());
    CHECK(each.launch());
  }
}

/// All of the case "<experiment>: counted ... equal the model": every expected count is the one counted. Under the
/// profile preset it prints both.
inline void compare_with_counters(const std::vector<CountedLaunch>& all) {
  const std::map<std::string, double> counters = read_counters("NVIDIA H200");
  const bool shown = std::getenv("SAMPLE_COUNTERS") != nullptr;
  if (counters.empty() && !shown) return skip_self_check("no results/nvidia-h200-counters.csv, or built without it");
  for (const CountedLaunch& each : all)
    for (const Expected& expected : each.expected) {
      const auto counted = [&](const std::string& metric) {
        const auto found = counters.find(each.kernel + "," + each.parameter + "," + metric);
        CAPTURE(each.kernel);
        CAPTURE(each.parameter);
        CAPTURE(metric);
        CHECK(found != counters.end());
        return found != counters.end() ? found->second : NAN;
      };
      const double times = expected.per.empty() ? 1 : counted(expected.per), count = counted(expected.metric);
      CAPTURE(each.kernel);
      CAPTURE(each.parameter);
      CAPTURE(expected.what);
      if (!expected.per.empty()) CHECK((times > 0) == (expected.value > 0));
      CHECK(count == std::round(expected.value * times));  // a mean over unlike requests may be no whole number
      if (shown)
        std::printf("  %-24s %-40s %-22s %12.6g %12.6g\n", each.kernel.c_str(), each.parameter.c_str(),
                    expected.what.c_str(), expected.value, times > 0 ? count / times : count);
    }
}
