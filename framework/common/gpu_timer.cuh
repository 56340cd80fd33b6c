// The GPU's own timer, which counts nanoseconds evenly, whatever clock its multiprocessors have.
//
// The L2 and the memory have clocks of their own. How many cycles of a multiprocessor their answer
// takes changes with that multiprocessor's clock, so such a latency is measured in nanoseconds,
// too. The timer is read before and after what the cycles are counted of, not within it.
#pragma once

#include <algorithm>
#include <cmath>

#include "memory.hpp"
#include "timing.hpp"

/// The timer's value.
__device__ inline unsigned long long timer_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

/// Nanoseconds from one value of that timer to the next: no document has them.
[[maybe_unused]] static __global__ void step_of_timer(unsigned long long* least) {
  *least = ~0ull;
  unsigned long long before = timer_ns();
  for (int steps = 0; steps < 16;) {
    const unsigned long long now = timer_ns();
    if (now == before) continue;
    *least = min(*least, now - before);
    before = now;
    ++steps;
  }
}

/// The time that a launch took by that timer, where it went on by a hundred steps at least; else
/// not a number.
inline double exact_ns(unsigned long long ns, unsigned long long step) {
  return ns >= 100 * step ? double(ns) : NAN;
}
[[maybe_unused]] static double exact_ns(unsigned long long ns) {
  static const unsigned long long step = [] {
    DeviceBuffer<unsigned long long> least(1);
    step_of_timer<<<1, 1>>>(least.data());
    CUDA_CHECK_LAUNCH();
    return least.to_host()[0];
  }();
  return exact_ns(ns, step);
}

/// Readings without those that were not measured.
[[maybe_unused]] static Statistics statistics_in_ns(Readings ns) {
  ns.ms.erase(std::remove_if(ns.ms.begin(), ns.ms.end(), [](double v) { return std::isnan(v); }),
              ns.ms.end());
  return ns.statistics();
}
