// What is checked of the predictions: the driver's rule, step by step. Included behind the answer.
#pragma once

#include <algorithm>
#include <vector>

#include "../../common/exercise.hpp"

/// Faults, and KiB on the host, when it touches parts in this order.
struct Host {
  int faults_served = 0;
  std::vector<bool> here = std::vector<bool>(32);
  double kib_here() const { return 64.0 * double(std::count(here.begin(), here.end(), true)); }

  explicit Host(const std::vector<int>& order) {
    for (const int part : order) {
      if (here[part]) continue;
      ++faults_served;
      here[part] = true;
      const std::vector<bool> there = here;
      for (int size = 2; size <= 32; size *= 2) {
        const int begin = part / size * size;
        const auto first = there.begin() + begin;
        if (2 * std::count(first, first + size, true) > size)
          std::fill_n(here.begin() + begin, size, true);
      }
    }
  }
};

std::vector<int> every(int step) {
  std::vector<int> parts;
  for (int part = 0; part < 32; part += step) parts.push_back(part);
  return parts;
}

inline void check_in_order(double in_order) {
  if (in_order != Host(every(1)).faults_served)
    FAIL("in_order: after the fault at part 2, which parts are there?");
}

inline void check_kib(double kib) {
  if (kib != Host({0, 1, 2, 4}).kib_here())
    FAIL("kib: how much of the 512 KiB from part 0 on is there with part 4?");
}

inline void check_every_second(double every_second, double kib_of_every_second) {
  const Host host(every(2));
  if (every_second != host.faults_served) FAIL_CHECK("every_second: is there ever more than half?");
  if (kib_of_every_second != host.kib_here())
    FAIL_CHECK("kib_of_every_second: what does each fault bring?");
}

TEST_CASE("right: all parts in order") { check_in_order(in_order); }
TEST_CASE("right: parts 0, 1, 2 and 4") { check_kib(kib); }
TEST_CASE("right: every second part") { check_every_second(every_second, kib_of_every_second); }
