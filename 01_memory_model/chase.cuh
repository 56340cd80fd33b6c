// Rings of pointers that one thread goes round, each load waiting for the one before: for `latency`,
// `carveout` and `constant_cache`.
#pragma once

#include <functional>

#include "../common/arrays.cuh"

/// A pointer in each 64 bytes, which memory delivers together: no slot comes along with another.
constexpr unsigned slot_bytes = 64;

/// The slot that a walk over `slots` slots visits at `position`: an order without pattern, in which
/// every slot comes once. Odd factors and shifted xors permute the numbers of `bits` bits; a number
/// that falls outside goes round again.
__host__ __device__ inline unsigned slot_at(unsigned position, unsigned slots) {
  int bits = 1;
  while ((1u << bits) < slots) ++bits;
  unsigned x = position % slots;
  do {
    for (int round = 0; round < 3; ++round) {
      x = (x * 0x9e3779b1u + 0x85ebca6bu) & ((1u << bits) - 1);
      x ^= x >> ((bits + 1) / 2);
    }
  } while (x >= slots);
  return x;
}

/// Writes a ring into the first `slots` slots of `memory`: in each the address of the next one. Its
/// address.
inline size_t linked(const DeviceBuffer<char>& memory, unsigned slots) {
  const size_t ring = reinterpret_cast<size_t>(memory.data());
  for_each_index<<<1024, 256>>>(slots, [ring, slots] __device__(size_t k) {
    const size_t next = ring + slot_bytes * size_t(slot_at(unsigned(k) + 1, slots));
    *reinterpret_cast<size_t*>(ring + slot_bytes * size_t(slot_at(unsigned(k), slots))) = next;
  });
  CUDA_CHECK_LAUNCH();
  return ring;
}

/// What a chase leaves: the cycles of its timed loads, and where it stood after the last one.
struct Answer {
  long long cycles;
  unsigned long long end;
};

/// Cycles of one of `loads` loads: the median of twelve launches, by the multiprocessor's own clock,
/// which does not care how fast it runs. Throws WrongResult if a chase does not end at `end`.
inline Interval cycles_per_load(const std::string& name, const std::function<void(Answer*)>& launch,
                                unsigned loads, unsigned long long end) {
  const DeviceBuffer<Answer> answer(1);
  std::vector<double> cycles;
  for (int round = 0; round < 13; ++round) {  // the first one warms up
    CUDA_CHECK(cudaMemset(answer, 0xff, answer.bytes()));
    launch(answer);
    CUDA_CHECK_LAUNCH();
    const Answer found = answer.to_host()[0];
    if (found.end != end || found.cycles <= 0) throw WrongResult(name + ": the chase went astray");
    if (round > 0) cycles.push_back(double(found.cycles) / loads);
  }
  return interval_of_median(cycles, run_to_run_device);
}

/// The largest multiple of `step`, up to `most`, that `fits` accepts, found by bisection. 0: not even
/// the smallest.
template <class Fits>
int largest_fitting(int step, int most, Fits fits) {
  int fitting = 0, too_large = most / step + 1;
  while (too_large - fitting > 1) {
    const int middle = (fitting + too_large) / 2;
    (fits(middle * step) ? fitting : too_large) = middle;
  }
  return fitting * step;
}

/// Whether all loads of a ring hit, if one that hits takes `hit` cycles: a tenth more is one miss in
/// a hundred.
constexpr bool all_hit(double cycles, double hit) { return cycles < 1.1 * hit; }
