// pointers, the price: "be careful not to confuse the compiler", says the lecture, where a pointer
// may point to two spaces [PR]. It is not confused: it takes a generic load, which fits them all.
// Look at what that costs beside the load that a space has for itself, one by one and with all
// warps of a multiprocessor.
//
//   1  chase_shared    one thread, one load after another, each by the space's own instruction
//   2  chase_local
//   3  chase_global
//   4  list_in_shared  the same chases along a list: its pointers say nothing of a space
//   5  list_in_local
//   6  list_in_global
//   7  sum_shared      32 warps load, each by the space's own instruction
//   8  sum_global
//   9  sum_either      7 or 8 by one pointer, as in the lecture
#include <algorithm>

#include "pointers.hpp"

using namespace samples;

namespace {

// ---- chases: one thread goes round a ring of slots, twice, and times the second time, when its
// instructions have been fetched. threadIdx.x is 0, but not to the compiler: a chain that it knows
// to be the same in all lanes it may give to another path. ----

constexpr unsigned slots = 61;   // few enough for L1; prime, so that any stride visits them all
constexpr unsigned stride = 17;  // from slot to slot: the walk does not go to the neighbour

// [chase_shared]
// Each word is the shared address of the next one: all that the load of shared memory takes.
__global__ void chase_shared(long long* cycles, unsigned* end, unsigned steps) {
  __shared__ unsigned ring[slots];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * ((slot + stride) % slots);
  unsigned at = first + 4 * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = (at - first) / 4;  // waits for the last load
  *cycles = clock64() - start;
}
// [/chase_shared]

// The same in local memory, out of L1.
__global__ void chase_local(long long* cycles, unsigned* end, unsigned steps) {
  unsigned ring[slots];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * ((slot + stride) % slots);
  unsigned at = first + 4 * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.local.u32 %0, [%0];" : "+r"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = (at - first) / 4;
  *cycles = clock64() - start;
}

/// An element of a list. Its pointer is a generic one, as every pointer in memory is: what it
/// refers to is known only when it has been loaded.
struct Node {
  const Node* next;
};

// The same in global memory, out of L1.
__global__ void chase_global(long long* cycles, unsigned* end, const Node* ring, unsigned steps) {
  const unsigned long long first = reinterpret_cast<unsigned long long>(ring);
  unsigned long long at = first + sizeof(Node) * threadIdx.x;
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step)
      asm volatile("ld.global.u64 %0, [%0];" : "+l"(at)::"memory");
  }
  *static_cast<volatile unsigned*>(end) = unsigned((at - first) / sizeof(Node));
  *cycles = clock64() - start;
}

// [list_in_shared]
// A list whose elements lie in shared memory. Nobody tells the compiler, and so it takes the load
// that fits all spaces.
__global__ void list_in_shared(long long* cycles, unsigned* end, unsigned steps) {
  __shared__ Node ring[slots];
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot].next = &ring[(slot + stride) % slots];
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}
// [/list_in_shared]

// The same list in a thread's own memory.
__global__ void list_in_local(long long* cycles, unsigned* end, unsigned steps) {
  Node ring[slots];
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot].next = &ring[(slot + stride) % slots];
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}

// And in global memory.
__global__ void list_in_global(long long* cycles, unsigned* end, const Node* ring, unsigned steps) {
  const Node* at = &ring[threadIdx.x];
  long long start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    start = clock64();
#pragma unroll 8
    for (unsigned step = 0; step < steps; ++step) at = at->next;
  }
  *static_cast<volatile unsigned*>(end) = unsigned(at - ring);
  *cycles = clock64() - start;
}

// ---- sums: one block, alone on its multiprocessor. At each load a warp reads 32 neighbours, one
// line of 128 bytes; eight loads a turn are in flight at once ----

constexpr unsigned loads_a_turn = 8;
constexpr unsigned tile_words = 32 * loads_a_turn;
constexpr unsigned sum_threads = 1024;  // 32 warps: there is always one whose load is due

// The tile in shared memory. The compiler sees where p points, and takes the load of that space.
__global__ void sum_shared(unsigned* sums, long long* cycles, const unsigned* words,
                           unsigned turns) {
  __shared__ unsigned tile[tile_words];
  for (unsigned i = threadIdx.x; i < tile_words; i += blockDim.x) tile[i] = words[i];
  __syncthreads();
  const unsigned* p = tile;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();  // waits for the last warp
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// The same words in global memory, out of L1.
__global__ void sum_global(unsigned* sums, long long* cycles, const unsigned* words,
                           unsigned turns) {
  const unsigned* p = words;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// [sum_either]
// As in the lecture: p is one or the other, and the compiler cannot know which.
__global__ void sum_either(unsigned* sums, long long* cycles, const unsigned* words, unsigned turns,
                           bool something) {
  __shared__ unsigned tile[tile_words];
  for (unsigned i = threadIdx.x; i < tile_words; i += blockDim.x) tile[i] = words[i];
  __syncthreads();
  const unsigned* p;
  if (something)
    p = tile;
  else
    p = words;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += p[32 * load + threadIdx.x % 32];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
// [/sum_either]

// ---- what is launched, and what is right ----

/// Where the slots of the ring in global memory lie.
struct Ring {
  DeviceBuffer<Node> nodes{slots};

  Ring() {
    std::vector<Node> linked;
    for (unsigned slot = 0; slot < slots; ++slot)
      linked.push_back({nodes.data() + (slot + stride) % slots});
    nodes.copy_from(linked);
  }
};

enum Space { shared_space, local_space, global_space, spaces };

struct Chase {
  Space space;
  bool generic;
  const char *key, *words;
  void (*launch)(long long* cycles, unsigned* end, const Ring& ring, unsigned steps);
};

const Chase chases[] = {
    {shared_space, false, "chase_shared", "shared, its own load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       chase_shared<<<1, 1>>>(cycles, end, steps);
     }},
    {shared_space, true, "list_in_shared", "shared, a generic load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       list_in_shared<<<1, 1>>>(cycles, end, steps);
     }},
    {local_space, false, "chase_local", "local, its own load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       chase_local<<<1, 1>>>(cycles, end, steps);
     }},
    {local_space, true, "list_in_local", "local, a generic load",
     [](long long* cycles, unsigned* end, const Ring&, unsigned steps) {
       list_in_local<<<1, 1>>>(cycles, end, steps);
     }},
    {global_space, false, "chase_global", "global, its own load",
     [](long long* cycles, unsigned* end, const Ring& ring, unsigned steps) {
       chase_global<<<1, 1>>>(cycles, end, ring.nodes.data(), steps);
     }},
    {global_space, true, "list_in_global", "global, a generic load",
     [](long long* cycles, unsigned* end, const Ring& ring, unsigned steps) {
       list_in_global<<<1, 1>>>(cycles, end, ring.nodes.data(), steps);
     }},
};

/// The slot at which a chase ends, from slot 0: it takes all its steps twice.
unsigned expected_end(unsigned steps) {
  unsigned slot = 0;
  for (unsigned step = 0; step < 2 * steps; ++step) {
    slot += stride;
    if (slot >= slots) slot -= slots;
  }
  return slot;
}

/// Cycles of so many launches of a chase, each of whose ends is checked.
std::vector<double> chase_cycles(const Chase& chase, unsigned steps, unsigned launches) {
  const Ring ring;
  DeviceBuffer<long long> cycles(launches);
  DeviceBuffer<unsigned> ends(launches);
  cycles.poison();
  ends.poison();
  for (unsigned i = 0; i < launches; ++i)
    chase.launch(cycles.data() + i, ends.data() + i, ring, steps);
  CUDA_CHECK_LAUNCH();
  for (const unsigned end : ends.to_host())
    require_right(end == expected_end(steps), std::string(chase.words) + ": where the chase ended");
  std::vector<double> each;
  for (const long long c : cycles.to_host()) {
    require_right(c > 0, std::string(chase.words) + ": cycles");
    each.push_back(double(c));
  }
  return each;
}

/// A word without pattern.
unsigned tile_word(unsigned i) { return (i + 1) * 2654435769u; }

std::vector<unsigned> tile() {
  std::vector<unsigned> words;
  for (unsigned i = 0; i < tile_words; ++i) words.push_back(tile_word(i));
  return words;
}

/// What threads find. Every turn a lane reads its column of the tile.
std::vector<unsigned> expected_sums(unsigned threads, unsigned turns) {
  std::vector<unsigned> column(32, 0), sums;
  for (unsigned i = 0; i < tile_words; ++i) column[i % 32] += tile_word(i);
  for (unsigned thread = 0; thread < threads; ++thread) sums.push_back(turns * column[thread % 32]);
  return sums;
}

struct Sum {
  Space space;
  bool generic;
  const char *key, *words;
  void (*launch)(unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
                 unsigned turns);
};

const Sum sum_kernels[] = {
    {shared_space, false, "sum_shared", "shared, its own load",
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_shared<<<1, threads>>>(sums, cycles, words, turns); }},
    {shared_space, true, "sum_either_shared", "shared, a generic load",
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_either<<<1, threads>>>(sums, cycles, words, turns, true); }},
    {global_space, false, "sum_global", "global, its own load",
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_global<<<1, threads>>>(sums, cycles, words, turns); }},
    {global_space, true, "sum_either_global", "global, a generic load",
     [](unsigned threads, unsigned* sums, long long* cycles, const unsigned* words,
        unsigned turns) { sum_either<<<1, threads>>>(sums, cycles, words, turns, false); }},
};

/// Cycles of a launch, whose every sum is checked; canaries stand behind the sums.
double sum_cycles(const Sum& sum, unsigned threads, unsigned turns) {
  constexpr size_t canaries = 32;
  const DeviceBuffer<unsigned> words(tile());
  DeviceBuffer<unsigned> sums(threads + canaries);
  DeviceBuffer<long long> cycles(1);
  sums.poison();
  cycles.poison();
  sum.launch(threads, sums.data(), cycles.data(), words.data(), turns);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> right = expected_sums(threads, turns);
  right.resize(sums.size(), ~0u);
  require_right(sums.to_host() == right, "sums by pointers");
  const double found = double(cycles.to_host()[0]);
  require_right(found > 0, "sums by pointers: cycles");
  return found;
}

// ---- prediction ----

/// Cycles that a load waits for the one before, from those of the spaces' own loads: a generic one
/// takes L1's way, whatever it finds at its end, and is no faster than the space. (On an H200 one
/// from shared memory is faster than that: 26 cycles where L1 takes 32.)
double predicted_latency(Space space, const double (&own)[spaces]) {
  return std::max(own[space], own[global_space]);
}

/// Cycles that a warp's load keeps its path busy: 32 neighbours are one wavefront, in shared memory
/// and in L1, and comparing the address with the windows takes none.
constexpr double predicted_cycles = 1;

// ---- the experiment ----

const char* const latency = "latency";
const char* const per_load = "cycles per load of a warp";

/// Cycles per step of a chase.
Statistics latency_of(const Chase& chase, int launches) {
  constexpr unsigned steps = 1024;  // beside which start and end hardly count
  return scaled(summarize(chase_cycles(chase, steps, unsigned(launches))), 1.0 / steps);
}

/// Cycles per load of a warp while all 32 warps load.
Statistics cycles_per_load(const Sum& sum, int launches) {
  constexpr unsigned turns = 256;  // beside which the first load of each word hardly counts
  const double loads = double(sum_threads / 32) * turns * loads_a_turn;
  std::vector<double> each;
  for (int i = 0; i < launches; ++i) each.push_back(sum_cycles(sum, sum_threads, turns) / loads);
  return summarize(each);
}

/// A wavefront per cycle is documented of shared memory; the rest was found on 9.0.
Model model_of(const Run& run, const Sum& sum) {
  const bool documented = sum.space == shared_space && !sum.generic;
  return documented || (run.device && run.device->prop.major == 9) ? Model::traffic : Model::host;
}

}  // namespace

void run_generic(const Run& run) {
  const int launches = run.measuring.repeats;
  Table one(run.report, "one thread, a load from", {compared("cycles", latency, "cycles", 1)});
  double own[spaces] = {NAN, NAN, NAN};
  for (const Chase& chase : chases) {
    const Statistics found = ask_for_table(run, chase.key, latency, "cycles",
                                           [&] { return latency_of(chase, launches); });
    if (!chase.generic) own[chase.space] = found.median;
  }
  for (const Chase& chase : chases) {
    const Statistics found = run.results->value(chase.key, latency).value;
    const Cell cell =
        chase.generic ? Cell(Compared{predicted_latency(chase.space, own), found, Model::latency})
                      : Cell(Calibration{found});
    one.row({chase.key, "", "", chase.words}, {cell});
  }
  one.print();
  Table all(run.report, "32 warps, a load from",
            {compared("cycles per warp", per_load, "cycles", 2)});
  for (const Sum& sum : sum_kernels) {
    const Statistics found = ask_for_table(run, sum.key, per_load, "cycles",
                                           [&] { return cycles_per_load(sum, launches); });
    all.row({sum.key, "", "", sum.words}, {Compared{predicted_cycles, found, model_of(run, sum)}});
  }
  all.print();
  run.report.note(
      "all out of L1 where it is not shared memory; calibration: the spaces' own loads");
}
