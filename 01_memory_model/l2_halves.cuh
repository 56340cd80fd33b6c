// Near and far in an L2 of two halves. Each half serves half of the multiprocessors; a line has its home in one of
// them, and a multiprocessor of the other side finds it there, further away, when it reads it for the first time (after
// that its own half holds a copy, so a ring that is read again and again is near). Part of the experiment `latency`.
#pragma once

#include <algorithm>
#include <vector>

#include "../common/first_edition.hpp"

namespace l2_halves {

constexpr unsigned slot_bytes = 64;  // a pointer in each 64 bytes, as in the rings of `latency`
constexpr unsigned most_reads = 8192;

// A ring of so many slots in a scrambled order: the step is odd, and so meets every one of a power of two.
__global__ void link(size_t ring, unsigned slots) {
  for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < slots; k += gridDim.x * blockDim.x)
    *reinterpret_cast<size_t*>(ring + slot_bytes * size_t(k)) = ring + slot_bytes * size_t((k + 25117) & (slots - 1));
}

__device__ inline unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

// The block that finds itself on the multiprocessor `reader` reads all of the ring into the L2, past its L1.
__global__ void read_there(size_t ring, unsigned slots, unsigned reader, unsigned* blocks) {
  if (multiprocessor() != reader) return;
  size_t seen = 0;
  for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
    size_t word;
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(word) : "l"(ring + slot_bytes * size_t(k)) : "memory");
    seen ^= word;
  }
  if (__syncthreads_or(seen == 1)) return;  // never, slots have even addresses; but unused reads would be dropped
  if (threadIdx.x == 0) atomicAdd(blocks, 1);
}

// One thread follows the ring for the first time and notes the clock behind each load: the next load waits for this
// one's answer, and the clock is read when it has been sent, so that two readings are one answer apart.
__global__ void read_first(size_t ring, unsigned reads, unsigned* cycles, size_t* end) {
  __shared__ unsigned clocks[most_reads + 1];
  size_t a = ring;
  for (unsigned k = 0; k <= reads; ++k) {
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(a)::"memory");
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clocks[k])::"memory");
  }
  for (unsigned k = 0; k < reads; ++k) cycles[k] = clocks[k + 1] - clocks[k];
  *end = (a - ring) / slot_bytes;
}

/// What one thread finds after each multiprocessor in turn has read a ring of 4 MiB. `near` and `far` in cycles a load;
/// far has no repeats where no multiprocessor is on another side. `other_side` counts those that are.
struct Distances {
  Statistics near, far;
  int same_side = 0, other_side = 0;
};

/// `reads` loads after each of `multiprocessors`; `l2_bytes`: what is flushed between them. Throws WrongResult if a
/// chase ends elsewhere than it should.
inline Distances distances(unsigned multiprocessors, size_t l2_bytes, unsigned reads) {
  constexpr unsigned slots = 1 << 16;
  const DeviceBuffer<char> memory(size_t(slots) * slot_bytes);
  const size_t ring = reinterpret_cast<size_t>(memory.data());
  link<<<256, 256>>>(ring, slots);
  CUDA_CHECK_LAUNCH();
  const ColdCache cold(l2_bytes);
  DeviceBuffer<unsigned> cycles(reads), blocks(1);
  DeviceBuffer<size_t> end(1);

  std::vector<std::vector<unsigned>> sorted;  // for each multiprocessor that got a block
  for (unsigned reader = 0; reader < multiprocessors; ++reader) {
    CUDA_CHECK(cudaMemset(blocks.data(), 0, blocks.bytes()));
    cold.flush();
    read_there<<<multiprocessors, 1024>>>(ring, slots, reader, blocks.data());
    read_first<<<1, 1>>>(ring, reads, cycles.data(), end.data());
    CUDA_CHECK_LAUNCH();
    require_right(end.to_host()[0] == (size_t(reads) + 1) * 25117 % slots, "read_first ended elsewhere");
    if (blocks.to_host()[0] == 0) continue;  // no block was placed there
    sorted.push_back(cycles.to_host());
    std::sort(sorted.back().begin(), sorted.back().end());
  }

  // After a reader on the same side all loads are near. After one on the other side half of the lines have their home
  // here and are near, half have it there: the slower half of the loads, whose median is the third quartile.
  const auto third_quartile = [&](const std::vector<unsigned>& s) { return double(s[s.size() * 3 / 4]); };
  double least = 1e9, most = 0;
  for (const auto& s : sorted) least = std::min(least, third_quartile(s)), most = std::max(most, third_quartile(s));
  std::vector<double> near, far;
  for (const auto& s : sorted)
    if (most > 1.2 * least && third_quartile(s) > (least + most) / 2)  // 1.2: far more than runs of one side differ
      far.push_back(third_quartile(s));
    else
      near.push_back(double(s[s.size() / 2]));
  Distances found{near.empty() ? Statistics{} : summarize(near), far.empty() ? Statistics{} : summarize(far)};
  found.same_side = int(near.size()), found.other_side = int(far.size());
  return found;
}

}  // namespace l2_halves
