// latency, near and far: an L2 of two halves, each beside half of the multiprocessors. A line has
// its home in one of them. A multiprocessor of the other side finds it there, further away, when it
// reads it for the first time; after that its own half holds a copy, so that a ring which is read
// again and again is near. Here each multiprocessor in turn reads a ring into the emptied L2, and
// then one thread of another follows that ring for the first time. For the map, one multiprocessor
// of each side reads the ring, and a thread of each multiprocessor follows it.
//
//   1  place       each block says on which multiprocessor it is
//   2  read_there  one multiprocessor reads the ring
//   3  read_first  one thread of another follows it, and times each load
#include <algorithm>

#include "chase.cuh"

namespace {

using chase::slot_at, chase::slot_bytes;

constexpr unsigned most_reads = 8192;  // whose clocks fit in shared memory
constexpr unsigned readers = 1024;     // threads of the block that reads the ring

// ---- kernels ----

// The number of a multiprocessor: not all below the largest one exist on a slice of a GPU.
__global__ void place(unsigned* numbers) {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  if (threadIdx.x == 0) numbers[blockIdx.x] = number;
}

// The block that finds itself on the multiprocessor `reader` reads all of the ring into the L2,
// past its L1; each thread leaves the sum of the addresses that it read.
__global__ void read_there(unsigned long long* sums, size_t ring, unsigned slots, unsigned reader) {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  if (number != reader) return;
  unsigned long long sum = 0;
  for (unsigned slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    size_t address;
    asm volatile("ld.global.cg.u64 %0, [%1];"
                 : "=l"(address)
                 : "l"(ring + slot_bytes * size_t(slot))
                 : "memory");
    sum += address;
  }
  sums[threadIdx.x] = sum;  // of two blocks on that multiprocessor both leave the same
}

/// What read_first() leaves beside the cycles.
struct Walk {
  unsigned long long end;  // where it stood after the last load
  long long cycles;        // of the whole walk,
  unsigned long long ns;   // and nanoseconds
};

// [read_first]
// On the multiprocessor `walker` one thread follows the ring for the first time and notes the clock
// behind each load: the next load waits for this one's answer, and the clock is read when it has
// been sent. So two readings are one answer apart.
__global__ void read_first(unsigned* cycles, Walk* walk, unsigned* walks, size_t ring,
                           unsigned slots, unsigned reads, unsigned walker) {
  __shared__ unsigned clocks[most_reads + 1];
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  if (number != walker || threadIdx.x != 0) return;
  if (atomicAdd(walks, 1u) != 0) return;  // of two blocks on that multiprocessor one
  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
  for (unsigned k = 0; k <= reads; ++k) {
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clocks[k])::"memory");
  }
  const long long all = clock64() - start;
  const unsigned long long all_ns = timer_ns() - start_ns;
  for (unsigned k = 0; k < reads; ++k) cycles[k] = clocks[k + 1] - clocks[k];
  *walk = {address - ring, all, all_ns};
}
// [/read_first]

// ---- what is right ----

/// What each thread of read_there() must have summed up: thread t reads every `readers`-th slot
/// from t on, and each slot says where the walk goes next.
std::vector<unsigned long long> sums_by_host(size_t ring, unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  std::vector<unsigned long long> sums(readers, 0);
  for (unsigned slot = 0; slot < slots; ++slot)
    sums[slot % readers] += ring + (unsigned long long)slot_bytes * next[slot];
  return sums;
}

/// The numbers of the multiprocessors that blocks of this program run on.
std::vector<unsigned> multiprocessors(const Device& device) {
  const unsigned blocks = unsigned(device.prop.multiProcessorCount) * 4;
  DeviceBuffer<unsigned> numbers(blocks);
  numbers.poison();
  place<<<blocks, 1024>>>(numbers.data());
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> found = numbers.to_host();
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Loads that are timed: the walk must not come round, and the clocks have to fit.
unsigned reads_of(unsigned slots, unsigned reads) {
  return std::min({reads, most_reads, slots - 2});
}

/// On each multiprocessor fewer do: there are two walks on each.
unsigned reads_of_the_map(unsigned reads) { return std::min(reads, 2048u); }

// ---- one walk ----

/// A ring, and what reads it on one multiprocessor and follows it on another.
class Halves {
 public:
  Halves(const Device& device, unsigned slots)
      : blocks_(unsigned(device.prop.multiProcessorCount)),
        slots_(slots),
        memory_(size_t(slots) * slot_bytes),
        ring_(chase::linked(memory_, slots)),
        flush_(device.l2_bytes()),
        sums_(readers),
        cycles_(most_reads),
        walk_(1),
        walks_(1) {
    right = sums_by_host(ring_, slots);
  }

  std::vector<unsigned long long> right;  ///< what read_there() must leave

  /// Reads the ring on one multiprocessor into the L2. False if no block was placed there.
  bool read_on(unsigned reader) {
    sums_.poison();
    read_there<<<blocks_, readers>>>(sums_.data(), ring_, slots_, reader);
    CUDA_CHECK_LAUNCH();
    const std::vector<unsigned long long> found = sums_.to_host();
    if (found[0] == ~0ull) return false;
    require_right(found == right, "latency: what was read into the L2");
    return true;
  }

  /// The cycles of each of the first loads on `walker`, and the nanoseconds of a cycle meanwhile.
  struct Loads {
    std::vector<unsigned> cycles;  ///< none if no block was placed on one of the two
    double ns_per_cycle = NAN;
  };
  Loads walk_on(unsigned walker, unsigned reader, unsigned reads) {
    flush_();
    if (!read_on(reader)) return {};
    cycles_.poison();
    walk_.poison();
    walks_.copy_from(std::vector<unsigned>{0});
    read_first<<<blocks_, readers>>>(cycles_.data(), walk_.data(), walks_.data(), ring_, slots_,
                                     reads, walker);
    CUDA_CHECK_LAUNCH();
    if (walks_.to_host()[0] == 0) return {};
    const Walk found = walk_.to_host()[0];
    const unsigned long long end =
        (unsigned long long)slot_bytes * chase::slot_at(reads + 1, slots_);
    require_right(found.end == end, "latency: a first walk ended elsewhere");
    std::vector<unsigned> cycles = cycles_.to_host();
    cycles.resize(reads);
    return {std::move(cycles), exact_ns(found.ns) / double(found.cycles)};
  }

 private:
  unsigned blocks_, slots_;
  DeviceBuffer<char> memory_;
  size_t ring_;
  chase::Flush flush_;
  DeviceBuffer<unsigned long long> sums_;
  DeviceBuffer<unsigned> cycles_;
  DeviceBuffer<Walk> walk_;
  DeviceBuffer<unsigned> walks_;
};

// ---- what the cycles say ----

/// At three quarters of the values in order. After a reader on the same side all loads are near.
/// After one on the other side half of the lines have their home here and are near, half have it
/// there: the slower half of the loads, whose median is the third quartile.
double third_quartile(const std::vector<unsigned>& in_order) {
  return in_order[in_order.size() * 3 / 4];
}

/// Which walks, whose third quartiles these are, followed a reader of the other side. Walks after
/// readers of one side differ far less than by 1.2.
std::vector<bool> which_are_far(const std::vector<double>& quartiles) {
  double least = INFINITY, most = 0;
  for (const double q : quartiles) least = std::min(least, q), most = std::max(most, q);
  std::vector<bool> far;
  for (const double q : quartiles) far.push_back(most > 1.2 * least && q > (least + most) / 2);
  return far;
}

std::vector<double> third_quartiles(std::vector<std::vector<unsigned>>& of_walks) {
  std::vector<double> all;
  for (std::vector<unsigned>& cycles : of_walks) {
    std::sort(cycles.begin(), cycles.end());
    all.push_back(third_quartile(cycles));
  }
  return all;
}

/// `of_readers`: the cycles of each load, after each reader in turn. `ns_per_cycle`: what the clock
/// of the multiprocessor was during each of these walks, by the GPU's timer.
chase::Distances distances_of(std::vector<std::vector<unsigned>> of_readers,
                              const std::vector<double>& ns_per_cycle) {
  const std::vector<double> quartiles = third_quartiles(of_readers);
  const std::vector<bool> is_far = which_are_far(quartiles);
  std::vector<double> near, far;
  Readings near_ns, far_ns;
  for (size_t i = 0; i < of_readers.size(); ++i) {
    const std::vector<unsigned>& cycles = of_readers[i];
    const double found = is_far[i] ? quartiles[i] : double(cycles[cycles.size() / 2]);
    (is_far[i] ? far : near).push_back(found);
    (is_far[i] ? far_ns : near_ns).ms.push_back(found * ns_per_cycle[i]);
  }
  chase::Distances found;
  if (!near.empty()) found.near = summarize(near);
  if (!far.empty()) found.far = summarize(far);
  found.near_ns = statistics_in_ns(near_ns);
  found.far_ns = statistics_in_ns(far_ns);
  found.same_side = int(near.size());
  found.other_side = int(far.size());
  return found;
}

/// What one multiprocessor's loads took after the reader of one side, and after that of the other;
/// with one reader, where there is one side, all are near.
chase::OfMultiprocessor on_the_map(unsigned number, std::vector<std::vector<unsigned>> walks) {
  const std::vector<double> quartiles = third_quartiles(walks);
  const size_t far = quartiles.size() > 1 && quartiles[1] > quartiles[0];
  const auto all_from = [](const std::vector<unsigned>& cycles, size_t first) {
    return summarize(std::vector<double>(cycles.begin() + long(first), cycles.end()));
  };
  chase::OfMultiprocessor found{number, {}, {}};
  found.near = all_from(walks[walks.size() > 1 ? 1 - far : 0], 0);
  if (walks.size() > 1) found.far = all_from(walks[far], walks[far].size() / 2);  // the slower half
  return found;
}

}  // namespace

chase::Distances chase::measure_halves(const Device& device, unsigned reads) {
  const unsigned slots = unsigned(l2_ring_bytes(device.l2_bytes()) / slot_bytes);
  reads = reads_of(slots, reads);
  Halves halves(device, slots);
  const std::vector<unsigned> numbers = multiprocessors(device);
  std::vector<unsigned> readers_found;
  std::vector<std::vector<unsigned>> of_readers;
  std::vector<double> ns_per_cycle;
  for (const unsigned reader : numbers) {
    Halves::Loads loads = halves.walk_on(numbers.front(), reader, reads);
    if (loads.cycles.empty()) continue;
    readers_found.push_back(reader);
    of_readers.push_back(std::move(loads.cycles));
    ns_per_cycle.push_back(loads.ns_per_cycle);
  }
  Distances found = distances_of(of_readers, ns_per_cycle);

  const std::vector<bool> is_far = which_are_far(third_quartiles(of_readers));
  std::vector<unsigned> of_each_side;  // a reader of this side, and one of the other
  for (const bool side : {false, true}) {
    const auto first = std::find(is_far.begin(), is_far.end(), side);
    if (first != is_far.end()) of_each_side.push_back(readers_found[first - is_far.begin()]);
  }
  for (const unsigned walker : numbers) {
    std::vector<std::vector<unsigned>> walks;
    for (const unsigned reader : of_each_side) {
      std::vector<unsigned> cycles = halves.walk_on(walker, reader, reads_of_the_map(reads)).cycles;
      if (!cycles.empty()) walks.push_back(std::move(cycles));
    }
    if (!walks.empty() && walks.size() == of_each_side.size())
      found.map.push_back(on_the_map(walker, std::move(walks)));
  }
  return found;
}
