// Rings that one thread goes round, and cycles that are measured in turn: for `latency`, `carveout`
// and `constant`.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "../framework/common/gpu_timer.cuh"
#include "../framework/common/report.hpp"

namespace chase {

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

/// For each slot the one that comes next.
inline std::vector<unsigned> next_slots(unsigned slots) {
  std::vector<unsigned> next(slots);
  for (unsigned k = 0; k < slots; ++k) next[slot_at(k, slots)] = slot_at(k + 1, slots);
  return next;
}

/// Writes into each slot the address of the slot that the walk visits next.
[[maybe_unused]] static __global__ void link(size_t ring, unsigned slots) {
  for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < slots; k += gridDim.x * blockDim.x) {
    const size_t next = ring + slot_bytes * size_t(slot_at(k + 1, slots));
    *reinterpret_cast<size_t*>(ring + slot_bytes * size_t(slot_at(k, slots))) = next;
  }
}

/// A ring in the first `slots` slots of `memory`; returns its address.
[[maybe_unused]] static size_t linked(const DeviceBuffer<char>& memory, unsigned slots) {
  const size_t ring = reinterpret_cast<size_t>(memory.data());
  link<<<1024, 256>>>(ring, slots);
  CUDA_CHECK_LAUNCH();
  return ring;
}

/// What a chase leaves: the cycles of its timed loads, where it stood after the last one, and, of
/// loads beyond the multiprocessor, their nanoseconds.
struct Answer {
  long long cycles;
  unsigned long long end;
  unsigned long long ns = 0;
};

/// A load from launch to launch; no nanoseconds: it does not leave the multiprocessor, or the timer
/// is too coarse.
struct Load {
  double cycles, ns = NAN;
};
/// Launches once, checks the result, and says what a load took.
using Counting = Function<Load()>;

/// Cycles of all in turn, A B C, C B A, A B C ..., value r of each being of round r; into `ns` the
/// nanoseconds. Before that all run for as long as time_in_turn() warms a GPU up: an idle one
/// lowers its clock.
inline std::vector<Readings> cycles_in_turn(const Measuring& measuring,
                                            const std::vector<Counting>& all,
                                            std::vector<Readings>& ns) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  do
    for (const Counting& each : all) each();
  while (std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < warming_ms);
  const int rounds = measuring.rounds_in_turn();
  std::vector<Readings> cycles(all.size());
  ns.assign(all.size(), {});
  for (int r = 0; r < rounds; ++r)
    for (size_t k = 0; k < all.size(); ++k) {
      const size_t i = r % 2 ? all.size() - 1 - k : k;
      const Load load = all[i]();
      cycles[i].ms.push_back(load.cycles);
      ns[i].ms.push_back(load.ns);
    }
  return cycles;
}

/// Bytes of a ring that the L2 holds, also where it has halves.
inline size_t l2_ring_bytes(size_t l2) {
  return std::min<size_t>(4 << 20, l2 / 4) / slot_bytes * slot_bytes;
}

/// Pushes all that was read before out of the L2: twice as much is written.
class Flush {
 public:
  explicit Flush(size_t l2_bytes) : filler_(2 * l2_bytes) {}
  void operator()() const { CUDA_CHECK(cudaMemsetAsync(filler_.data(), 0x5a, filler_.bytes())); }

 private:
  DeviceBuffer<unsigned char> filler_;
};

// ---- latency_halves.cu ----

/// Of one multiprocessor: cycles of a load from its own side of the L2, and from the other side.
struct OfMultiprocessor {
  unsigned number;
  Statistics near, far;
};

/// Cycles of a load that finds its line in the L2, where another multiprocessor's read has left it.
struct Distances {
  Statistics near;
  Statistics far;  ///< none where no multiprocessor is on another side
  Statistics near_ns, far_ns;
  int same_side = 0, other_side = 0;
  std::vector<OfMultiprocessor> map;  ///< of those that a block was placed on
};
Distances measure_halves(const Device& device, unsigned reads);

}  // namespace chase
