#include "counts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include <doctest/doctest.h>

namespace {

double found(const CountedLaunch& launch, const Expected& expected) {
  return count_of_this_run(launch.kernel, launch.parameter, expected.metric);
}

bool skipped_without_counts() {
  if (counted_in_this_run()) return false;
  skip_self_check("needs counts of this run: cmake --workflow --preset profile");
  return true;
}

void compare(const CountedLaunch& launch, const Expected& expected, double count) {
  CAPTURE(launch.kernel);
  CAPTURE(launch.parameter);
  CAPTURE(expected.what);
  CHECK(count == std::round(expected.value));
}

}  // namespace

void launch_counted(const std::vector<CountedLaunch>& all) {
  counters::announce();
  for (const CountedLaunch& each : all) {
    CAPTURE(each.kernel);
    CAPTURE(each.parameter);
    std::printf("launch: %s,%s\n", each.kernel.c_str(), each.parameter.c_str());
    CHECK(each.launch());
  }
}

void compare_with_counts_of_this_run(const std::vector<CountedLaunch>& all) {
  if (skipped_without_counts()) return;
  for (const CountedLaunch& launch : all)
    for (const Expected& expected : launch.expected) {
      const double count = found(launch, expected);
      compare(launch, expected, count);
      std::printf("  %-24s %-40s %-22s %12.12g %12.12g\n", launch.kernel.c_str(),
                  launch.parameter.c_str(), expected.what.c_str(), expected.value, count);
    }
}

void compare_patterns_with_counts_of_this_run(const std::vector<CountedLaunch>& all) {
  if (skipped_without_counts()) return;
  size_t equal = 0;
  for (const CountedLaunch& launch : all) {
    bool as_expected = true;
    for (const Expected& expected : launch.expected) {
      const double count = found(launch, expected);
      if (count == expected.value) continue;
      as_expected = false;
      std::printf("  %s %s %s %g %g\n", launch.kernel.c_str(), launch.parameter.c_str(),
                  expected.what.c_str(), expected.value, count);
    }
    equal += as_expected;
  }
  std::printf("  %zu random patterns: %zu equal the model\n", all.size(), equal);
  CHECK(equal == all.size());
}

void compare_with_recorded_counts(const std::vector<CountedLaunch>& all, const std::string& file) {
  std::ifstream input(file);
  if (!input) return skip_self_check("built without " + (file.empty() ? "results/" : file));
  const counters::Counts counts = counters::read_counts(input);
  size_t compared = 0;
  for (const CountedLaunch& launch : all) {
    const auto recorded = [&](const Expected& expected) {
      return counts.find(launch.kernel, launch.parameter, expected.metric);
    };
    if (std::none_of(launch.expected.begin(), launch.expected.end(),
                     [&](const Expected& e) { return std::isfinite(recorded(e)); })) {
      std::printf("  %s was not counted on that GPU: not compared\n", launch.kernel.c_str());
      continue;  // a kernel that was added since
    }
    for (const Expected& expected : launch.expected) compare(launch, expected, recorded(expected));
    ++compared;
  }
  CHECK(compared > 0);
}
