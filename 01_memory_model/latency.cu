// latency: how long does a load take to answer? The lectures put registers, shared memory, L1 and
// hits in the constant and read-only caches at about a cycle, global memory at 200-800 [PR]. The
// wiki has an order [LC]. Dr. Dobb's has global memory 100-150 times slower than shared memory
// [DD]. Here one thread follows a ring: the answer of each load is the address of the next.
// Two things to look at:
//   - What such a thread waits, beside "about a cycle".
//   - The footprints at which the curve rises: the ring no longer fits L1, then the L2.
//
//   cmake -S 01_memory_model -B build/latency -DEXPERIMENTS=latency
//   cmake --build build/latency && build/latency/01_memory_model
//
// latency_halves.cu: near and far in the L2; latency_bandwidth.cu: what the whole GPU reads;
// latency_warps.cu: what many warps make of the latency of registers.
#include "latency.hpp"

#include <algorithm>
#include <cmath>

#include "chase.cuh"

using namespace samples;

namespace {

using chase::Answer, chase::slot_at, chase::slot_bytes;

// ---- kernels: one thread goes round, and times its loads ----

constexpr unsigned untimed = 2048;  // steps before those that are timed: once round a small ring

// [walk]
// Goes `untimed`, then `timed` steps. Each step needs the answer of the step before, so that no two
// loads overlap. Each clock is read while the load before it is still in flight: exactly `timed`
// answers lie between the two. The loop's branch hides behind `unroll` steps.
template <unsigned unroll = 32, class Address, class Step>
__device__ void walk(Answer* answer, Address at, Address first, unsigned timed, Step step) {
  unsigned steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {  // the second pass is timed
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u) step(at);
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *answer = {cycles, at - first, timer_ns() - start_ns};
}
// [/walk]

// No memory: each multiply-add needs the register that the one before wrote. threadIdx.x, here and
// below, is 0, but not to the compiler: what it knows to be the same in all lanes it would move to
// the uniform registers, which are another path.
__global__ void chase_register(Answer* answer, unsigned factor, unsigned addend, unsigned timed) {
  walk<256>(answer, threadIdx.x, 0u, timed, [=](unsigned& x) {
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(factor), "r"(addend));
  });
}

// [chase_shared]
// The ring holds addresses in shared memory, as the load takes them.
__global__ void chase_shared(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  extern __shared__ unsigned ring[];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];
  walk(answer, first + 4 * threadIdx.x, first, timed, [](unsigned& address) {
    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address)::"memory");
  });
}
// [/chase_shared]

constexpr unsigned local_words = 256;  // 128 bytes apart, other lanes' words between: 32 KiB of L1

// The thread's own array, which lies in local memory and is cached in L1.
__global__ void chase_local(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  unsigned ring[local_words];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];
  walk(answer, first + 4 * threadIdx.x, first, timed, [](unsigned& address) {
    asm volatile("ld.local.u32 %0, [%0];" : "+r"(address)::"memory");
  });
}

constexpr unsigned constant_words = 256;  // 1 KiB, which the constant cache holds
__constant__ unsigned constant_ring[constant_words];

// The ring holds offsets in bytes: the load itself adds where the table begins.
__global__ void chase_constant(Answer* answer, unsigned timed) {
  walk(answer, 4 * threadIdx.x, 0u, timed, [](unsigned& offset) {
    const char* const table = reinterpret_cast<const char*>(constant_ring);
    offset = *reinterpret_cast<const unsigned*>(table + offset);
  });
}

// A texel's value is the index of the next texel, which is what the fetch takes.
__global__ void chase_texture(Answer* answer, cudaTextureObject_t texels, unsigned timed) {
  walk(answer, threadIdx.x, 0u, timed, [=](unsigned& index) {
    asm volatile("{ .reg .b32 y, z, w; tex.1d.v4.u32.s32 {%0, y, z, w}, [%1, {%0}]; }"
                 : "+r"(index)
                 : "l"(texels));
  });
}

// First the whole block reads the ring twice in the walk's order, and leaves L1, the L2 and the
// translation of addresses as one finds them who has always gone round. Then its first thread goes
// round. Each slot holds the address of the next.
template <class Load>
__device__ void chase_global(Answer* answer, size_t ring, unsigned slots, unsigned timed,
                             Load load) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      load(address);
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;  // never: addresses of slots are even
  if (threadIdx.x != 0) return;
  walk(answer, ring + slot_bytes * size_t(slot_at(0, slots)), ring, timed, load);
}

// [chase_global]
// Through L1; also the curve over the footprint.
__global__ void chase_l1(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  chase_global(answer, ring, slots, timed, [](size_t& address) {
    asm volatile("ld.global.u64 %0, [%0];" : "+l"(address)::"memory");
  });
}
// By the instruction of __ldg(), which reads through the cache for data that no one writes.
__global__ void chase_read_only(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  chase_global(answer, ring, slots, timed, [](size_t& address) {
    asm volatile("ld.global.nc.u64 %0, [%0];" : "+l"(address)::"memory");
  });
}
// Past L1: the L2 answers, or memory where the ring is larger.
__global__ void chase_l2(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  chase_global(answer, ring, slots, timed, [](size_t& address) {
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
  });
}
// [/chase_global]

// [chase_cluster]
// A cluster of two blocks on two multiprocessors. Block 1 fills a ring in its own shared memory,
// and the thread of block 0 goes round it: each load crosses from one multiprocessor to the other.
__global__ void chase_cluster([[maybe_unused]] Answer* answer,
                              [[maybe_unused]] const unsigned* next,
                              [[maybe_unused]] unsigned slots, [[maybe_unused]] unsigned timed) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ unsigned ring[];
  const unsigned own = unsigned(__cvta_generic_to_shared(ring));
  unsigned first;  // where the cluster sees block 1's ring
  asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(first) : "r"(own));
  if (blockIdx.x == 1)
    for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");  // it is filled
  if (blockIdx.x == 0)
    walk(answer, first + 4 * threadIdx.x, first, timed, [](unsigned& address) {
      asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(address)::"memory");
    });
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");  // block 1 stays
#endif
}
// [/chase_cluster]

// ---- a chase in each memory ----

/// A ring, or what takes its place, and where a walk on it ends.
struct Chase {
  Function<void(Answer*, unsigned timed)> launch;
  Function<unsigned long long(unsigned steps)> end;
};

/// The slot in which a walk that begins in slot 0 stands after `steps`.
unsigned long long slot_after(const std::vector<unsigned>& next, unsigned steps) {
  unsigned slot = 0;
  for (unsigned k = steps % unsigned(next.size()); k != 0; --k) slot = next[slot];
  return slot;
}

Chase in_register() {
  constexpr unsigned factor = 1664525, addend = 1013904223;
  const auto end = [](unsigned steps) {
    unsigned x = 0;
    for (unsigned k = 0; k < steps; ++k) x = x * factor + addend;
    return (unsigned long long)x;
  };
  return {[](Answer* answer, unsigned timed) {
            chase_register<<<1, 1>>>(answer, factor, addend, timed);
          },
          end};
}

using WordKernel = void (*)(Answer*, const unsigned* next, unsigned slots, unsigned timed);

/// A ring that the kernel fills itself, in shared memory or its own array. Of two blocks one
/// follows the ring of the other, in a cluster.
Chase in_words(WordKernel kernel, unsigned slots, unsigned shared_bytes, unsigned blocks = 1) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  auto launch = [=, on_device = DeviceBuffer<unsigned>(next)](Answer* answer, unsigned timed) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {blocks, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = 1;
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &cluster;
    config.numAttrs = blocks > 1;
    const unsigned* const next_of = on_device.data();
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, answer, next_of, slots, timed));
  };
  return {std::move(launch), [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}
Chase in_shared(unsigned slots) { return in_words(chase_shared, slots, 4 * slots); }
Chase in_local(unsigned slots) { return in_words(chase_local, slots, 0); }
Chase in_cluster(unsigned slots) { return in_words(chase_cluster, slots, 4 * slots, 2); }

Chase in_constant(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  std::vector<unsigned> offsets;
  for (const unsigned slot : next) offsets.push_back(4 * slot);
  return {[offsets](Answer* answer, unsigned timed) {
            CUDA_CHECK(cudaMemcpyToSymbol(constant_ring, offsets.data(), 4 * offsets.size()));
            chase_constant<<<1, 1>>>(answer, timed);
          },
          [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}

/// A texture of linear memory. Asks the runtime for itself, so that one that is gone is found.
class Texture {
 public:
  explicit Texture(const std::vector<unsigned>& texels) : memory_(texels) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {memory_.data(), cudaCreateChannelDesc<unsigned>(), memory_.bytes()};
    const cudaTextureDesc plain{};  // texels as they are
    CUDA_CHECK(cudaCreateTextureObject(&object_, &resource, &plain, nullptr));
  }
  Texture(Texture&& other) noexcept
      : memory_(std::move(other.memory_)), object_(std::exchange(other.object_, 0)) {}
  Texture& operator=(Texture&&) = delete;
  ~Texture() {
    if (object_) cudaDestroyTextureObject(object_);
  }
  cudaTextureObject_t object() const {
    cudaResourceDesc resource{};
    CUDA_CHECK(cudaGetTextureObjectResourceDesc(&resource, object_));
    require_right(resource.res.linear.devPtr == memory_.data(), "the texture is another one");
    return object_;
  }

 private:
  DeviceBuffer<unsigned> memory_;
  cudaTextureObject_t object_ = 0;
};

Chase in_texture(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  return {[texture = Texture(next)](Answer* answer, unsigned timed) {
            chase_texture<<<1, 1>>>(answer, texture.object(), timed);
          },
          [next](unsigned steps) { return slot_after(next, steps); }};
}

using GlobalKernel = void (*)(Answer*, size_t ring, unsigned slots, unsigned timed);

/// A ring in the first `slots` slots of memory that the caller keeps.
Chase in_global(GlobalKernel kernel, const DeviceBuffer<char>& memory, unsigned slots) {
  // where shared memory and L1 are one array, all that may be L1 shall be
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxL1));
  const size_t ring = chase::linked(memory, slots);
  return {[kernel, ring, slots](Answer* answer, unsigned timed) {
            kernel<<<1, 1024>>>(answer, ring, slots, timed);
          },
          [slots](unsigned steps) {
            return (unsigned long long)slot_bytes * slot_at(steps % slots, slots);
          }};
}

/// Why blocks cannot read each other's shared memory here; empty if they can.
std::string no_clusters(const Device& device) {
  if (device.prop.major < 9) return "clusters of blocks need compute capability 9.0";
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, chase_cluster));
  return attributes.ptxVersion < 90 ? "this build is for older GPUs, which have no clusters" : "";
}

/// Launches a chase once. Throws unless it ends where the ring leads.
chase::Load load_of(const Chase& chase, DeviceBuffer<Answer>& answer, unsigned timed) {
  answer.poison();
  chase.launch(answer.data(), timed);
  CUDA_CHECK_LAUNCH();
  const Answer found = answer.to_host()[0];
  require_right(found.end == chase.end(untimed + timed), "a walk ended elsewhere");
  require_right(found.cycles > 0, "a walk took no time");
  return {double(found.cycles) / timed, exact_ns(found.ns) / timed};
}

// ---- prediction ----

/// Bytes that L1 may hold. From 7.0 on it is one array with shared memory, and may take about what
/// shared memory may. Before, no call reports it; the guide has 24 to 48 KiB.
double l1_bytes(const cudaDeviceProp& prop) {
  return prop.major >= 7 ? double(prop.sharedMemPerMultiprocessor) : 24 * 1024.0;
}

/// The share m of loads that miss when a ring is gone round again and again in a cache that evicts
/// at random. Between two visits of a slot, ring / slot x m others have come in. Each of them left
/// the slot there with probability 1 - slot / cache. So 1 - m = exp(-m x ring / cache).
double missed(double ring, double cache) {
  if (ring <= cache) return 0;
  double low = 1e-9, high = 1;  // m = 0 always solves it; the other solution is wanted
  for (int step = 0; step < 60; ++step) {
    const double m = (low + high) / 2;
    (1 - m > std::exp(-m * ring / cache) ? low : high) = m;
  }
  return low;
}

/// Cycles of a load from each place, measured in the same run.
struct Calibrated {
  double l1 = NAN, l2 = NAN, dram = NAN;
};
/// Bytes that the two caches hold.
struct Capacity {
  double l1, l2;
};

/// What misses L1 goes to the L2, and what misses that goes to memory.
double predicted_cycles(double ring, const Capacity& holds, const Calibrated& c) {
  return c.l1 + missed(ring, holds.l1) * (c.l2 - c.l1) + missed(ring, holds.l2) * (c.dram - c.l2);
}

/// Where there are two halves, whatever one multiprocessor reads goes through its own.
Capacity capacity_of(const Device& device, bool two_halves) {
  const double l2 = double(device.l2_bytes());
  return {l1_bytes(device.prop), two_halves ? l2 / 2 : l2};
}

// ---- sizes ----

constexpr unsigned small_slots = 32;     // 2 KiB, which every L1 holds
constexpr unsigned shared_slots = 1024;  // 4 KiB
constexpr unsigned texel_slots = 512;    // 2 KiB

/// Bytes of the largest ring, if all fits.
size_t wanted_ring(const Run& run) {
  return std::min((run.quick ? 4 : 8) * run.device->l2_bytes(), size_t(1) << 30) / slot_bytes *
         slot_bytes;
}
/// What is there beside it: what empties the L2, and small rings.
double beside_the_ring(const Device& device) {
  return 2.0 * double(device.l2_bytes()) + (16 << 20);
}
size_t largest_ring(const Run& run) {
  const double others = beside_the_ring(*run.device);
  const size_t fitting = fitting_size("latency", 0, wanted_ring(run), run.memory_there(),
                                      [&](size_t n) { return 1.1 * double(n) + others; });
  return std::max<size_t>(fitting / slot_bytes * slot_bytes, slot_bytes);
}
/// The smallest power of two beyond the L2, or as much as there is.
size_t dram_ring_bytes(const Device& device, size_t there) {
  size_t bytes = 1 << 20;
  while (!beyond_l2(device, double(bytes))) bytes *= 2;
  return std::min(bytes, there);
}

/// Footprints from 1 KiB on.
std::vector<size_t> footprints(const Run& run, size_t most) {
  const double factor = run.quick ? 4 : run.full ? std::pow(2, 0.25) : 2;
  std::vector<size_t> sizes;
  for (double bytes = 1024; bytes < double(most); bytes *= factor)
    sizes.push_back(size_t(bytes) / slot_bytes * slot_bytes);
  sizes.push_back(most);
  return sizes;
}

unsigned slots_of(size_t bytes) { return unsigned(bytes / slot_bytes); }

// ---- the places ----

/// Memory for the rings in global memory.
struct Rings {
  DeviceBuffer<char> small, medium, large;
  explicit Rings(const Run& run)
      : small(size_t(small_slots) * slot_bytes),
        medium(chase::l2_ring_bytes(run.device->l2_bytes())),
        large(largest_ring(run)) {}
};

struct Place {
  const char* key = "";
  const char* words = "";
  const char* lectures = "-";  ///< cycles
  Chase (*chase)(const Run&, const Rings&) = nullptr;
  double (*footprint)(const Run&) = nullptr;  ///< bytes
  bool leaves = false;                        ///< the multiprocessor: timed in ns, too
  bool calibrates = false;                    ///< the curve's model
};
const Place places[] = {
    {.key = "chase_register",
     .words = "register",
     .lectures = "1",
     .chase = [](const Run&, const Rings&) { return in_register(); }},
    {.key = "chase_shared",
     .words = "shared",
     .lectures = "~1",
     .chase = [](const Run&, const Rings&) { return in_shared(shared_slots); },
     .footprint = [](const Run&) { return 4.0 * shared_slots; }},
    {.key = "chase_local",
     .words = "local, in L1",
     .chase = [](const Run&, const Rings&) { return in_local(local_words); },
     .footprint = [](const Run&) { return 4.0 * local_words; }},
    {.key = "chase_constant",
     .words = "constant, hit",
     .lectures = "~1",
     .chase = [](const Run&, const Rings&) { return in_constant(constant_words); },
     .footprint = [](const Run&) { return 4.0 * constant_words; }},
    {.key = "chase_l1",
     .words = "L1",
     .lectures = "1",
     .chase = [](const Run&, const Rings& r) { return in_global(chase_l1, r.small, small_slots); },
     .footprint = [](const Run&) { return double(small_slots) * slot_bytes; },
     .calibrates = true},
    {.key = "chase_read_only",
     .words = "read-only, hit",
     .lectures = "1",
     .chase = [](const Run&,
                 const Rings& r) { return in_global(chase_read_only, r.small, small_slots); },
     .footprint = [](const Run&) { return double(small_slots) * slot_bytes; }},
    {.key = "chase_texture",
     .words = "texture, hit",
     .lectures = "1",
     .chase = [](const Run&, const Rings&) { return in_texture(texel_slots); },
     .footprint = [](const Run&) { return 4.0 * texel_slots; }},
    {.key = "chase_l2",
     .words = "L2, near",
     .chase =
         [](const Run&, const Rings& r) {
           return in_global(chase_l2, r.medium, slots_of(r.medium.bytes()));
         },
     .footprint =
         [](const Run& run) { return double(chase::l2_ring_bytes(run.device->l2_bytes())); },
     .leaves = true,
     .calibrates = true},
    {.key = "chase_dram",
     .words = "DRAM",
     .lectures = "200-800",
     .chase =
         [](const Run& run, const Rings& r) {
           return in_global(chase_l2, r.large,
                            slots_of(dram_ring_bytes(*run.device, r.large.bytes())));
         },
     .footprint =
         [](const Run& run) { return double(dram_ring_bytes(*run.device, largest_ring(run))); },
     .leaves = true,
     .calibrates = true},
    {.key = "chase_cluster",
     .words = "shared, another block's",
     .chase = [](const Run&, const Rings&) { return in_cluster(shared_slots); },
     .footprint = [](const Run&) { return 4.0 * shared_slots; },
     .leaves = true},
};

// ---- measuring ----

const char* const latency = "latency";
const char* const in_ns = "time of a load";

std::string over(const char* fast) { return std::string("latency over that of ") + fast; }

/// Launch by launch, all places in turn; nothing of a place that this GPU does not have.
struct OfPlaces {
  std::vector<Readings> cycles, ns;

  const Readings& cycles_of(const char* key) const {
    return cycles[size_t(with_key(places, key) - places)];
  }
  Statistics ratio_of(const char* slow, const char* fast) const {
    const Interval r = ratio(cycles_of(slow), cycles_of(fast));
    return {r.value, r.low, r.high, r.pairs};
  }
};

OfPlaces measure_in_turn(const Run& run, const Rings& rings, unsigned timed) {
  std::vector<Chase> chases;
  for (const Place& p : places)
    if (p.key != std::string("chase_cluster") || no_clusters(*run.device).empty())
      chases.push_back(p.chase(run, rings));
  DeviceBuffer<Answer> answer(1);
  std::vector<chase::Counting> in_turn;
  for (const Chase& each : chases) in_turn.push_back([&] { return load_of(each, answer, timed); });
  OfPlaces found;
  found.cycles = chase::cycles_in_turn(run.measuring, in_turn, found.ns);
  found.cycles.resize(std::size(places));
  found.ns.resize(std::size(places));
  return found;
}

/// Loads of one ring through L1, launch by launch.
struct OfRing {
  Readings cycles, ns;
};
OfRing measure_ring(const DeviceBuffer<char>& memory, size_t bytes, unsigned timed) {
  constexpr int launches = 5;  // they differ by 1%
  const Chase ring = in_global(chase_l1, memory, slots_of(bytes));
  DeviceBuffer<Answer> answer(1);
  OfRing found;
  for (int k = 0; k < launches; ++k) {
    const chase::Load load = load_of(ring, answer, timed);
    found.cycles.ms.push_back(load.cycles);
    found.ns.ms.push_back(load.ns);
  }
  return found;
}

// ---- the experiment ----

double cycles_of(const Run& run, const Ref& ref) {
  return run.results->value(ref, latency).value.median;
}

/// What is known of a place before it is measured; not a number: nothing is.
double predicted_of(const Run& run, const std::string& key) {
  if (key == "chase_register" && run.device)
    return dependent_arithmetic_cycles(run.device->prop.major);
  const bool through_l1 = key == "chase_local" || key == "chase_read_only";
  return through_l1 ? cycles_of(run, "chase_l1") : double(NAN);
}

Column cycles_column() { return compared("cycles", latency, "cycles", 1); }
Column ns_column() { return measured("ns", in_ns, "ns", 1); }

/// Slow and fast: what 01.1d, 01.10a and 01.2 compare.
const std::pair<const char*, const char*> compared_places[] = {
    {"chase_dram", "chase_l1"},        {"chase_dram", "chase_read_only"},
    {"chase_dram", "chase_constant"},  {"chase_dram", "chase_shared"},
    {"chase_local", "chase_shared"},   {"chase_l1", "chase_shared"},
    {"chase_shared", "chase_register"}};

void measure_places(const Run& run, Once<OfPlaces> found) {
  for (size_t i = 0; i < std::size(places); ++i) {
    ask_for_table(run, places[i].key, latency, "cycles",
                  [&] { return found().cycles[i].statistics(); });
    if (places[i].leaves)
      ask_for_table(run, places[i].key, in_ns, "ns",
                    [&] { return statistics_in_ns(found().ns[i]); });
  }
  for (const auto& [slow, fast] : compared_places)
    ask(run, slow, over(fast), "x", [&] { return found().ratio_of(slow, fast); });

  Table table(
      run.report, "memory",
      {shown("footprint"), cycles_column(), shown("spread"), ns_column(), shown("lectures")});
  for (const Place& p : places) {
    const Statistics s = run.results->value(p.key, latency).value;
    const Cell cycles = p.calibrates ? Cell(Calibration{s})
                                     : Cell(Compared{predicted_of(run, p.key), s, Model::traffic});
    const Statistics ns = p.leaves ? run.results->value(p.key, in_ns).value : Statistics{};
    table.row({p.key, "", "", p.words},
              {run.device && p.footprint ? bytes_text(p.footprint(run)) : "-", cycles,
               spread_text(s), ns, p.lectures});
  }
  table.print();
  run.report.note("ns: by the GPU's timer, of loads that leave the multiprocessor");
}

/// The same two distances of each multiprocessor: saved, and told in a line. The keys' `at` is the
/// number of the multiprocessor.
void keep_map(const Run& run, Once<chase::Distances>& found) {
  const auto of_each = [&](const char* key, Statistics chase::OfMultiprocessor::*side) {
    double least = INFINITY, most = 0;
    const int count = run.device ? run.device->prop.multiProcessorCount : 0;
    for (int number = 0; number < count; ++number) {
      const double cycles = ask(run, Ref(key, number), latency, "cycles", [&] {
                              for (const chase::OfMultiprocessor& each : found().map)
                                if (int(each.number) == number) return each.*side;
                              return Statistics{};
                            }).median;
      if (cycles > 0) least = std::min(least, cycles), most = std::max(most, cycles);
    }
    return most > 0 ? fixed(least, 0) + " to " + fixed(most, 0) : std::string();
  };
  const std::string near = of_each("near_by_multiprocessor", &chase::OfMultiprocessor::near);
  const std::string far = of_each("far_by_multiprocessor", &chase::OfMultiprocessor::far);
  if (!near.empty())
    run.report.note("by multiprocessor: near " + near + " cycles" +
                    (far.empty() ? "" : ", far " + far) +
                    "; saved, and drawn by tools/draw_map.py");
}

/// First reads of a line that another multiprocessor has read into the L2. Returns whether some of
/// them are far.
bool measure_sides(const Run& run, Once<chase::Distances> found) {
  Table table(run.report, "first read of a line in the L2",
              {cycles_column(), shown("spread"), ns_column()});
  const auto row = [&](const char* key, const char* words, Statistics chase::Distances::*cycles,
                       Statistics chase::Distances::*ns, double predicted) {
    const Statistics s =
        ask_for_table(run, key, latency, "cycles", [&] { return found().*cycles; });
    table.row({key, "", "", words},
              {Compared{predicted, s, Model::traffic}, spread_text(s),
               ask_for_table(run, key, in_ns, "ns", [&] { return found().*ns; })});
    return s.repeats > 0;
  };
  row("read_first_near", "near", &chase::Distances::near, &chase::Distances::near_ns,
      cycles_of(run, "chase_l2"));
  const bool far =
      row("read_first_far", "far", &chase::Distances::far, &chase::Distances::far_ns, NAN);
  table.print();
  const Statistics other = ask(run, "read_first_far", "multiprocessors on the other side", "",
                               [&] { return single(found().other_side); });
  if (far && other.repeats > 0)
    run.report.note(
        "far: a multiprocessor on the L2's other side read the line before; there are " +
        fixed(other.median, 0));
  if (!far && run.device)
    run.report.note("this L2 has no far half: whichever multiprocessor read a line, it is as near");
  keep_map(run, found);
  return far;
}

/// The curve, through L1.
void measure_curve(const Run& run, const Capacity& holds,
                   const Function<OfRing(size_t bytes)>& measure) {
  const Calibrated c{cycles_of(run, "chase_l1"), cycles_of(run, "chase_l2"),
                     cycles_of(run, "chase_dram")};
  const std::vector<size_t> sizes = footprints(run, largest_ring(run));
  Table curve(run.report, "footprint", {cycles_column(), shown("spread"), ns_column(), shown("")});
  Progress progress("latency, footprints", int(sizes.size()));
  for (const size_t size : sizes) {
    const Ref row("chase_l1", double(size));
    Once<OfRing> found{[&] { return measure(size); }};
    const Statistics s =
        ask_for_table(run, row, latency, "cycles", [&] { return found().cycles.statistics(); });
    Statistics ns;
    if (double(size) > holds.l1)  // some loads leave the multiprocessor
      ns = ask_for_table(run, row, in_ns, "ns", [&] { return statistics_in_ns(found().ns); });
    // that caches evict at random was found on 9.0 only
    const Model model = run.device->prop.major == 9 ? Model::traffic : Model::host;
    curve.row({row.key, "footprint", at_text(row), bytes_text(double(size))},
              {Compared{predicted_cycles(double(size), holds, c), s, model}, spread_text(s), ns,
               bar(s.median / c.dram)});
    progress.step();
  }
  curve.print();
  run.report.note("predicted: L1 holds " + bytes_text(holds.l1) + ", the L2 " +
                  bytes_text(holds.l2) + ", and both evict at random");
}

void run_latency(const Run& run) {
  run.report.begin("latency", "one thread, each load's address is the answer of the load before");
  const unsigned timed = run.quick ? 4096 : 16384;
  Once<Rings> rings{[&] { return Rings(run); }};
  measure_places(run, {[&] { return measure_in_turn(run, rings(), timed); }});
  const bool two_halves =
      measure_sides(run, {[&] { return chase::measure_halves(*run.device, timed / 2); }});
  if (run.device) {
    const size_t largest = largest_ring(run);
    if (largest < wanted_ring(run)) run.report.note("rings end at " + bytes_text(double(largest)));
    measure_curve(run, capacity_of(*run.device, two_halves),
                  [&](size_t bytes) { return measure_ring(rings().large, bytes, timed); });
    if (run.device->number >= 0 && !no_clusters(*run.device).empty())
      run.report.left_out("the shared memory of another block", no_clusters(*run.device));
  }
  rings.found.reset();
  run_bandwidth(run);
  run_warps(run);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const auto cycles = [](const char* key) { return Level{.ref = key, .metric = latency}; };
  const auto times = [](const char* slow, const char* fast) {
    return Level{.ref = slow, .metric = over(fast)};
  };
  const bool past_l2 =
      !run.device ||
      beyond_l2(*run.device, double(dram_ring_bytes(*run.device, largest_ring(run))));
  const char* const too_small = past_l2 ? "" : "too little memory is free for a ring beyond the L2";
  return {{.part = {"01.1a", "shared memory, L1, constant and read-only hits take about a cycle",
                    "~1", "lectures"},
           .rule = at_most(2),
           .levels = {cycles("chase_shared"), cycles("chase_l1"), cycles("chase_constant"),
                      cycles("chase_read_only")}},
          {.part = {"01.1b", "global memory takes 200-800 cycles", "200-800", "lectures"},
           .rule = from_to(200, 800),
           .levels = {cycles("chase_dram")},
           .unless = too_small},
          {.part = {"01.1c", "global memory takes 200-300 cycles", "200-300", "8800 GTX", g80},
           .rule = from_to(200, 300),
           .levels = {cycles("chase_dram")},
           .unless = too_small},
          {.part = {"01.1d", "on-chip memories have much lower latency than global memory",
                    "~1 against 200-800", "lectures"},
           .rule = much_beats(),
           .levels = {times("chase_dram", "chase_l1"), times("chase_dram", "chase_read_only"),
                      times("chase_dram", "chase_constant"), times("chase_dram", "chase_shared")},
           .unless = too_small},
          // local and global memory at their fastest, out of L1: further out the order is plain
          {.part = {"01.2", "registers are fastest, then shared memory, then local and global",
                    "the order", "wiki"},
           .rule = beats(),
           .levels = {times("chase_local", "chase_shared"), times("chase_l1", "chase_shared"),
                      times("chase_shared", "chase_register")}},
          {.part = {"01.10a", "global memory is 100-150 times slower than shared, in latency",
                    "100-150x slower", "Dr. Dobb's"},
           .rule = beats(100, 150),
           .levels = {times("chase_dram", "chase_shared")},
           .unless = too_small},
          bandwidth_claim(run),
          warps_claim()};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double ring = double(largest_ring(run));
  const Needs bandwidth = bandwidth_needs(run);
  return {
      .allocated = std::max(1.1 * ring + beside_the_ring(*run.device), bandwidth.allocated),
      .touched = std::min(double(dram_ring_bytes(*run.device, size_t(ring))), bandwidth.touched)};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all = bandwidth_tasks(n);
  for (Checked& each : warps_tasks(n)) all.push_back(std::move(each));
  return all;
}

}  // namespace

extern const Experiment latency_experiment{
    .name = "latency",
    .about = "cycles until a load answers, in every memory space",
    .run = run_latency,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
