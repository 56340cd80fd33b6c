// latency, near and far: an L2 of two halves, each beside half of the multiprocessors. A line has
// its home in one of them. A multiprocessor of the other side finds it there, further away, when it
// reads it for the first time; after that its own half holds a copy, so that a ring which is read
// again and again is near. Here each multiprocessor in turn reads a ring into the emptied L2, and
// then one thread follows that ring for the first time.
//
//   1  place       each block says on which multiprocessor it is
//   2  read_there  one multiprocessor reads the ring
//   3  read_first  one thread follows it, and times each load
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
  unsigned long long end;   // where it stood after the last load
  unsigned multiprocessor;  // where it ran
  long long cycles;         // of the whole walk,
  unsigned long long ns;    // and nanoseconds
};

// [read_first]
// One thread follows the ring for the first time and notes the clock behind each load: the next
// load waits for this one's answer, and the clock is read when it has been sent. So two readings
// are one answer apart.
__global__ void read_first(unsigned* cycles, Walk* walk, size_t ring, unsigned slots,
                           unsigned reads) {
  __shared__ unsigned clocks[most_reads + 1];
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
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  *walk = {address - ring, number, all, all_ns};
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

/// Reads the ring on one multiprocessor into the L2. False if no block was placed there.
bool read_on(unsigned reader, const Device& device, size_t ring, unsigned slots,
             const std::vector<unsigned long long>& right, DeviceBuffer<unsigned long long>& sums) {
  sums.poison();
  read_there<<<device.prop.multiProcessorCount, readers>>>(sums.data(), ring, slots, reader);
  CUDA_CHECK_LAUNCH();
  const std::vector<unsigned long long> found = sums.to_host();
  if (found[0] == ~0ull) return false;
  require_right(found == right, "latency: what was read into the L2");
  return true;
}

/// Loads that are timed: the walk must not come round, and the clocks have to fit.
unsigned reads_of(unsigned slots, unsigned reads) {
  return std::min({reads, most_reads, slots - 2});
}

// ---- what the cycles say ----

/// At three quarters of the values in order. After a reader on the same side all loads are near.
/// After one on the other side half of the lines have their home here and are near, half have it
/// there: the slower half of the loads, whose median is the third quartile.
double third_quartile(const std::vector<unsigned>& in_order) {
  return in_order[in_order.size() * 3 / 4];
}

/// `of_readers`: the cycles of each load, after each reader in turn. `ns_per_cycle`: what the clock
/// of the multiprocessor was during each of these walks, by the GPU's timer.
chase::Distances distances_of(std::vector<std::vector<unsigned>> of_readers,
                              const std::vector<double>& ns_per_cycle) {
  double least = INFINITY, most = 0;
  for (std::vector<unsigned>& cycles : of_readers) {
    std::sort(cycles.begin(), cycles.end());
    least = std::min(least, third_quartile(cycles));
    most = std::max(most, third_quartile(cycles));
  }
  const bool two_sides = most > 1.2 * least;  // runs after readers of one side differ far less
  std::vector<double> near, far;
  Readings near_ns, far_ns;
  for (size_t i = 0; i < of_readers.size(); ++i) {
    const std::vector<unsigned>& cycles = of_readers[i];
    const bool is_far = two_sides && third_quartile(cycles) > (least + most) / 2;
    const double found = is_far ? third_quartile(cycles) : double(cycles[cycles.size() / 2]);
    (is_far ? far : near).push_back(found);
    (is_far ? far_ns : near_ns).ms.push_back(found * ns_per_cycle[i]);
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

}  // namespace

chase::Distances chase::measure_halves(const Device& device, unsigned reads) {
  const unsigned ring_slots = unsigned(l2_ring_bytes(device.l2_bytes()) / slot_bytes);
  reads = reads_of(ring_slots, reads);
  const DeviceBuffer<char> memory(size_t(ring_slots) * slot_bytes);
  const size_t ring = linked(memory, ring_slots);
  const std::vector<unsigned long long> right = sums_by_host(ring, ring_slots);
  const unsigned long long end = (unsigned long long)slot_bytes * slot_at(reads + 1, ring_slots);
  const Flush flush(device.l2_bytes());
  DeviceBuffer<unsigned long long> sums(readers);
  DeviceBuffer<unsigned> cycles(reads);
  DeviceBuffer<Walk> walk(1);
  int here = -1;  // the multiprocessor on which the walks run
  std::vector<std::vector<unsigned>> of_readers;
  std::vector<double> ns_per_cycle;
  for (const unsigned reader : multiprocessors(device)) {
    flush();
    if (!read_on(reader, device, ring, ring_slots, right, sums)) continue;
    cycles.poison();
    walk.poison();
    read_first<<<1, 1>>>(cycles.data(), walk.data(), ring, ring_slots, reads);
    CUDA_CHECK_LAUNCH();
    const Walk found = walk.to_host()[0];
    require_right(found.end == end, "latency: a first walk ended elsewhere");
    if (here < 0) here = int(found.multiprocessor);
    if (int(found.multiprocessor) != here) continue;
    of_readers.push_back(cycles.to_host());
    ns_per_cycle.push_back(exact_ns(found.ns) / double(found.cycles));
  }
  return distances_of(of_readers, ns_per_cycle);
}
