// latency: how long does a load take to answer? The lectures put registers, shared memory, L1 and
// hits in the constant and read-only caches at about a cycle, global memory at 200-800 [PR]; the
// wiki has an order [LC]; Dr. Dobb's has global memory 100-150 times slower than shared memory
// [DD]. Here one thread follows a ring in which the answer of each load is the address of the next.
// Look at the gap between those "about a cycle" and what such a thread waits, and at the footprints
// at which the curve rises: there the ring no longer fits L1, then the L2.
//   cmake -S 01_memory_model -B build/latency -DEXPERIMENTS=latency
//   cmake --build build/latency && build/latency/01_memory_model
//
//   1  chase_register   no memory: a multiply-add needs the result of the one before
//   2  chase_shared     a ring in shared memory
//   3  chase_local      a ring in the thread's own array
//   4  chase_constant   a ring in constant memory that its cache holds
//   5  chase_l1         global memory through L1; also the curve over the footprint
//   6  chase_read_only  the same by what __ldg() compiles to
//   7  chase_texture    a ring of texels
//   8  chase_l2         global memory past L1: the L2 answers, or memory
//   9  chase_cluster    the shared memory of another block of the cluster (9.0 and later)
// latency_halves.cu: near and far in the L2; latency_bandwidth.cu: what the whole GPU reads.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "chase.cuh"

namespace {

using chase::Answer, chase::slot_at, chase::slot_bytes;

constexpr unsigned unroll = 32;     // loads in a turn of the loop, behind which its branch hides
constexpr unsigned mads = 256;      // multiply-adds in a turn: they are shorter
constexpr unsigned untimed = 2048;  // steps before those that are timed: once round a small ring

// ---- kernels: one thread goes `untimed`, then `timed` steps. Each clock is read while the load
// before it is still under way, so that exactly `timed` answers lie between the two. Loads that
// leave the multiprocessor are timed in nanoseconds, too: around what the cycles are counted of
// ----

// No memory: each multiply-add needs the register that the one before wrote. threadIdx.x, here and
// below, is 0, but not to the compiler: what it knows to be the same in all lanes it would move to
// the uniform registers, which are another path.
__global__ void chase_register(Answer* answer, unsigned factor, unsigned addend, unsigned timed) {
  unsigned x = threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += mads)
#pragma unroll
      for (unsigned u = 0; u < mads; ++u)
        asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(factor), "r"(addend));
    steps = timed;
  }
  *answer = {clock64() - start, x};
}

// [chase_shared]
// The ring holds addresses in shared memory, as the load takes them. Each answer is the next
// address: no two loads overlap.
__global__ void chase_shared(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  extern __shared__ unsigned ring[];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];

  unsigned address = first + 4 * threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {  // the second pass is timed
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address)::"memory");
    steps = timed;
  }
  *answer = {clock64() - start, address - first};
}
// [/chase_shared]

constexpr unsigned local_words = 256;  // 128 bytes apart, other lanes' words between: 32 KiB of L1

// The thread's own array, which lies in local memory and is cached in L1.
__global__ void chase_local(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  unsigned ring[local_words];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];

  unsigned address = first + 4 * threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.local.u32 %0, [%0];" : "+r"(address)::"memory");
    steps = timed;
  }
  *answer = {clock64() - start, address - first};
}

constexpr unsigned constant_words = 256;  // 1 KiB, which the constant cache holds
__constant__ unsigned constant_ring[constant_words];

// The ring holds offsets in bytes: the load itself adds where the table begins.
__global__ void chase_constant(Answer* answer, unsigned timed) {
  unsigned offset = 4 * threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        offset = *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(constant_ring) +
                                                    offset);
    steps = timed;
  }
  *answer = {clock64() - start, offset};
}

// [chase_l1]
// First the whole block reads the ring twice in the walk's order, and leaves L1, the L2 and the
// translation of addresses as one finds them who has always gone round. Then its first thread goes
// round. Each slot holds the address of the next; the load may find it in L1.
__global__ void chase_l1(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      asm volatile("ld.global.u64 %0, [%0];" : "+l"(address)::"memory");
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;  // never: addresses of slots are even
  if (threadIdx.x != 0) return;

  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  unsigned steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.global.u64 %0, [%0];" : "+l"(address)::"memory");
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *answer = {cycles, address - ring, timer_ns() - start_ns};
}
// [/chase_l1]

// The same by the instruction of __ldg(), which reads through the cache for data that no one
// writes.
__global__ void chase_read_only(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      asm volatile("ld.global.nc.u64 %0, [%0];" : "+l"(address)::"memory");
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;
  if (threadIdx.x != 0) return;

  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.global.nc.u64 %0, [%0];" : "+l"(address)::"memory");
    steps = timed;
  }
  *answer = {clock64() - start, address - ring};
}

// A texel's value is the index of the next texel, which is what the fetch takes.
__global__ void chase_texture(Answer* answer, cudaTextureObject_t texels, unsigned timed) {
  unsigned index = threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("{ .reg .b32 y, z, w; tex.1d.v4.u32.s32 {%0, y, z, w}, [%1, {%0}]; }"
                     : "+r"(index)
                     : "l"(texels));
    steps = timed;
  }
  *answer = {clock64() - start, index};
}

// As chase_l1, but past L1: the L2 answers, or memory where the ring is larger.
__global__ void chase_l2(Answer* answer, size_t ring, unsigned slots, unsigned timed) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;
  if (threadIdx.x != 0) return;

  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  unsigned steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *answer = {cycles, address - ring, timer_ns() - start_ns};
}

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

  if (blockIdx.x == 0) {
    unsigned address = first + 4 * threadIdx.x;
    unsigned steps = untimed;
    long long start = 0;
    unsigned long long start_ns = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      start_ns = timer_ns();
      start = clock64();
#pragma unroll 1
      for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
        for (unsigned u = 0; u < unroll; ++u)
          asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(address)::"memory");
      steps = timed;
    }
    const long long cycles = clock64() - start;
    *answer = {cycles, address - first, timer_ns() - start_ns};
  }
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");  // block 1 stays
#endif
}
// [/chase_cluster]

// ---- the story in order: a function a space ----

/// A ring, or what takes its place.
struct Chase {
  std::string name;
  double bytes;      ///< of the ring; 0: there is none
  const char* then;  ///< cycles in the lectures
  Function<void(Answer*, unsigned timed)> launch;
  Function<unsigned long long(unsigned steps)> end;  ///< where it stands after so many steps
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
  return {"register", 0, "1",
          [](Answer* answer, unsigned timed) {
            chase_register<<<1, 1>>>(answer, factor, addend, timed);
          },
          end};
}

Chase in_shared(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  return {"shared", 4.0 * slots, "~1",
          [slots, on_device = DeviceBuffer<unsigned>(next)](Answer* answer, unsigned timed) {
            chase_shared<<<1, 1, 4 * slots>>>(answer, on_device.data(), slots, timed);
          },
          [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}

Chase in_local(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  return {"local, in L1", 4.0 * slots, "-",
          [slots, on_device = DeviceBuffer<unsigned>(next)](Answer* answer, unsigned timed) {
            chase_local<<<1, 1>>>(answer, on_device.data(), slots, timed);
          },
          [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}

Chase in_constant(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  std::vector<unsigned> offsets;
  for (const unsigned slot : next) offsets.push_back(4 * slot);
  return {"constant, hit", 4.0 * slots, "~1",
          [offsets](Answer* answer, unsigned timed) {
            CUDA_CHECK(cudaMemcpyToSymbol(constant_ring, offsets.data(), 4 * offsets.size()));
            chase_constant<<<1, 1>>>(answer, timed);
          },
          [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}

using GlobalKernel = void (*)(Answer*, size_t ring, unsigned slots, unsigned timed);

/// A ring in the first `slots` slots of memory that must be kept, and linked, by the caller.
Chase in_global(const std::string& name, const char* then, GlobalKernel kernel, size_t ring,
                unsigned slots) {
  // where shared memory and L1 are one array, all that may be L1 shall be
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxL1));
  return {name, double(slots) * slot_bytes, then,
          [kernel, ring, slots](Answer* answer, unsigned timed) {
            kernel<<<1, 1024>>>(answer, ring, slots, timed);
          },
          [slots](unsigned steps) {
            return (unsigned long long)slot_bytes * slot_at(steps % slots, slots);
          }};
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
  return {"texture, hit", 4.0 * slots, "1",
          [texture = Texture(next)](Answer* answer, unsigned timed) {
            chase_texture<<<1, 1>>>(answer, texture.object(), timed);
          },
          [next](unsigned steps) { return slot_after(next, steps); }};
}

/// Why blocks cannot read each other's shared memory here; empty if they can.
std::string no_clusters(const Device& device) {
  if (device.prop.major < 9) return "clusters of blocks need compute capability 9.0";
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, chase_cluster));
  return attributes.ptxVersion < 90 ? "this build is for older GPUs, which have no clusters" : "";
}

Chase in_cluster(unsigned slots) {
  const std::vector<unsigned> next = chase::next_slots(slots);
  return {"shared, another block's", 4.0 * slots, "-",
          [slots, on_device = DeviceBuffer<unsigned>(next)](Answer* answer, unsigned timed) {
            cudaLaunchAttribute cluster{};
            cluster.id = cudaLaunchAttributeClusterDimension;
            cluster.val.clusterDim = {2, 1, 1};
            cudaLaunchConfig_t config{};
            config.gridDim = 2;
            config.blockDim = 1;
            config.dynamicSmemBytes = 4 * slots;
            config.attrs = &cluster;
            config.numAttrs = 1;
            const unsigned* next_of = on_device.data();
            CUDA_CHECK(cudaLaunchKernelEx(&config, chase_cluster, answer, next_of, slots, timed));
          },
          [next](unsigned steps) { return 4 * slot_after(next, steps); }};
}

// ---- measuring ----

/// Launches a chase once. Throws unless it ends where the ring leads.
chase::Load load_of(const Chase& chase, DeviceBuffer<Answer>& answer, unsigned timed) {
  answer.poison();
  chase.launch(answer.data(), timed);
  CUDA_CHECK_LAUNCH();
  const Answer found = answer.to_host()[0];
  require_right(found.end == chase.end(untimed + timed), chase.name + ": ended elsewhere");
  require_right(found.cycles > 0, chase.name + ": took no time");
  return {double(found.cycles) / timed, found.ns ? exact_ns(found.ns) / timed : NAN};
}

// ---- what to expect ----

/// The guide on arithmetic: "typically 4 clock cycles" from 7.0 on, about 6 on 5.x and 6.x.
double dependent_arithmetic_cycles(int major) { return major >= 7 ? 4 : 6; }

/// Bytes that L1 may hold. From 7.0 on it is one array with shared memory, and may take about what
/// shared memory may. Before, no call reports it; the guide has 24 to 48 KiB.
double l1_bytes(const cudaDeviceProp& prop) {
  return prop.major >= 7 ? double(prop.sharedMemPerMultiprocessor) : 24 * 1024.0;
}

/// The share of loads that miss when a ring is gone round again and again in a cache that evicts at
/// random. Between two visits of a slot ring / slot x m others have come in, and each left it there
/// with 1 - slot / cache: so 1 - m = exp(-m x ring / cache).
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

// ---- the experiment ----

enum Place { reg, shared, local, constant_hit, l1, read_only, texture, near_l2, dram, cluster };

constexpr unsigned small_slots = 32;     // 2 KiB, which every L1 holds
constexpr unsigned shared_slots = 1024;  // 4 KiB
constexpr unsigned texel_slots = 512;    // 2 KiB

/// The smallest power of two beyond the L2, or as much as there is.
size_t dram_ring_bytes(const Device& device, size_t there) {
  size_t bytes = 1 << 20;
  while (!beyond_l2(device, double(bytes))) bytes *= 2;
  return std::min(bytes, there);
}

/// Bytes of the largest ring, if all fits.
size_t wanted_ring(const Run& run) {
  return std::min((run.quick ? 4 : 8) * run.device->l2_bytes(), size_t(1) << 30) / slot_bytes *
         slot_bytes;
}
/// What is there beside it: what empties the L2, and small rings.
double beside_the_ring(const Device& device) {
  return 2.0 * double(device.l2_bytes()) + (16 << 20);
}
/// Bytes of the largest ring.
size_t largest_ring(const Run& run) {
  const double others = beside_the_ring(*run.device);
  const size_t fitting = fitting_size("latency", 0, wanted_ring(run), run.memory_there(),
                                      [&](size_t n) { return 1.1 * double(n) + others; });
  return std::max<size_t>(fitting / slot_bytes * slot_bytes, slot_bytes);
}

/// Each at its Place; the cluster's is missing where there are none.
std::vector<Chase> all_chases(const Device& device, const DeviceBuffer<char>& small,
                              const DeviceBuffer<char>& medium, const DeviceBuffer<char>& large) {
  const auto slots = [](double bytes) { return unsigned(bytes / slot_bytes); };
  const unsigned medium_slots = slots(double(medium.bytes()));
  const unsigned large_slots = slots(double(dram_ring_bytes(device, large.bytes())));
  const size_t in_small = chase::linked(small, small_slots);
  const size_t in_medium = chase::linked(medium, medium_slots);
  const size_t in_large = chase::linked(large, large_slots);
  std::vector<Chase> all(cluster);  // the places before it
  all[reg] = in_register();
  all[shared] = in_shared(shared_slots);
  all[local] = in_local(local_words);
  all[constant_hit] = in_constant(constant_words);
  all[l1] = in_global("L1", "1", chase_l1, in_small, small_slots);
  all[read_only] = in_global("read-only, hit", "1", chase_read_only, in_small, small_slots);
  all[texture] = in_texture(texel_slots);
  all[near_l2] = in_global("L2, near", "-", chase_l2, in_medium, medium_slots);
  all[dram] = in_global("DRAM", "200-800", chase_l2, in_large, large_slots);
  if (no_clusters(device).empty()) all.push_back(in_cluster(shared_slots));
  return all;
}

/// What is known of a place before it is measured; not a number: nothing is.
double predicted_of(Place place, const Calibrated& c, int major) {
  if (place == reg) return dependent_arithmetic_cycles(major);
  if (place == local || place == read_only) return c.l1;  // the same cache
  return NAN;
}

void show_places(const Run& run, const std::vector<Chase>& chases,
                 const std::vector<Readings>& cycles, const std::vector<Readings>& ns,
                 const chase::Distances& halves) {
  const Calibrated c{cycles[l1].median(), cycles[near_l2].median(), cycles[dram].median()};
  Table table(run.report, "memory",
              {shown("footprint"), compared("cycles", "latency", "cycles", 1),
               measured("ns", "time of a load", "ns", 1), shown("lectures")});
  const auto add = [&](const std::string& name, double bytes, const Cell& cell,
                       const Statistics& in_ns, const char* then) {
    table.row({name}, {bytes > 0 ? bytes_text(bytes) : "-", cell, in_ns, then});
  };
  for (size_t i = 0; i < chases.size(); ++i) {
    const Statistics s = cycles[i].statistics();
    const Place place = Place(i);
    const bool calibrates = place == l1 || place == near_l2 || place == dram;
    const double expected = predicted_of(place, c, run.device->prop.major);
    const Cell cell =
        calibrates ? Cell(Calibration{s}) : Cell(Compared{expected, s, Model::traffic});
    const bool leaves = place == near_l2 || place == dram || place == cluster;
    const Statistics in_ns = leaves ? statistics_in_ns(ns[i]) : Statistics{};
    add(chases[i].name, chases[i].bytes, cell, in_ns, chases[i].then);
  }
  add("L2, first read after a neighbour's", chases[near_l2].bytes,
      Compared{c.l2, halves.near, Model::traffic}, halves.near_ns, "-");
  if (halves.far.repeats)
    add("L2, far", chases[near_l2].bytes, Compared{NAN, halves.far}, halves.far_ns, "-");
  table.print();
  run.report.note("ns: by the GPU's timer, of loads that leave the multiprocessor");
  run.report.note(
      halves.far.repeats
          ? "far: lines that one of " + std::to_string(halves.other_side) +
                " multiprocessors on the L2's other side read before; on this side are " +
                std::to_string(halves.same_side)
          : "this L2 has no far half: whichever multiprocessor read a line before, it is as near");
}

/// What the text says, where nothing can be measured.
void show_lectures(const Run& run) {
  Table table(run.report, "memory", {shown("cycles in the lectures")});
  table.row({"register, L1, read-only hit"}, {"1"});
  table.row({"shared, constant hit"}, {"~1"});
  table.row({"global"}, {"200-800"});
  table.print();
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

/// The curve, through L1.
void measure_curve(const Run& run, const DeviceBuffer<char>& memory, const Capacity& holds,
                   const Calibrated& c, unsigned timed) {
  constexpr int launches = 5;  // of one ring: they differ by 1%
  Table curve(run.report, "bytes",
              {shown("footprint"), compared("cycles", "latency", "cycles", 1), shown("spread"),
               measured("ns", "time of a load", "ns", 1), shown("")});
  const std::vector<size_t> sizes = footprints(run, memory.bytes());
  DeviceBuffer<Answer> answer(1);
  Progress progress("latency, footprints", int(sizes.size()));
  for (const size_t size : sizes) {
    const unsigned slots = unsigned(size / slot_bytes);
    const Chase ring = in_global("curve", "", chase_l1, chase::linked(memory, slots), slots);
    Readings cycles, ns;
    for (int k = 0; k < launches; ++k) {
      const chase::Load load = load_of(ring, answer, timed);
      cycles.ms.push_back(load.cycles);
      ns.ms.push_back(load.ns);
    }
    const Statistics s = cycles.statistics();
    const Statistics in_ns =
        ring.bytes > holds.l1 ? statistics_in_ns(ns) : Statistics{};  // some loads leave it
    const double expected = predicted_cycles(ring.bytes, holds, c);
    // that caches evict at random was found on 9.0 only
    const Model model = run.device->prop.major == 9 ? Model::traffic : Model::host;
    curve.row({"load", "footprint", std::to_string(size)},
              {bytes_text(ring.bytes), Compared{expected, s, model}, spread_text(s), in_ns,
               bar(s.median / c.dram)});
    progress.step();
  }
  curve.print();
  run.report.note("predicted: L1 holds " + bytes_text(holds.l1) + ", the L2 " +
                  bytes_text(holds.l2) + ", and both evict at random");
}

/// The slowest of some places.
Place slowest(const std::vector<Readings>& cycles, std::initializer_list<Place> places) {
  Place found = *places.begin();
  for (const Place place : places)
    if (cycles[place].median() > cycles[found].median()) found = place;
  return found;
}

/// `cycles`: of the places up to `dram`. `past_l2`: whether DRAM's ring is beyond the L2.
void judge(const Run& run, const std::vector<Readings>& cycles, bool past_l2) {
  const auto level_of = [&](Place place) { return interval_of_median(cycles[place].ms); };
  const auto in_memory = [&](const Interval& r) {
    return past_l2 ? r : not_measured("too little memory is free for a ring beyond the L2");
  };
  const bool there = !cycles[dram].ms.empty();
  const auto text = [&](Place place) { return fixed(cycles[place].median(), 1); };

  const Place worst = slowest(cycles, {shared, l1, constant_hit, read_only});
  run.report.judge({"01.1a", "shared memory, L1, constant and read-only hits take about a cycle",
                    "~1", "lectures"},
                   at_most(2), there ? level_of(worst) : Interval{},
                   "shared " + text(shared) + ", L1 " + text(l1) + ", constant " +
                       text(constant_hit) + ", read-only " + text(read_only) + " cycles",
                   "cycles");
  const Interval memory = there ? in_memory(level_of(dram)) : Interval{};
  run.report.judge({"01.1b", "global memory takes 200-800 cycles", "200-800", "lectures"},
                   from_to(200, 800), memory, range_text(memory, 0) + " cycles", "cycles");
  run.report.judge({"01.1c", "global memory takes 200-300 cycles", "200-300", "8800 GTX", g80},
                   from_to(200, 300), memory, range_text(memory, 0) + " cycles", "cycles");
  const Interval lower = there ? in_memory(ratio(cycles[dram], cycles[worst])) : Interval{};
  run.report.judge({"01.1d", "on-chip memories have much lower latency than global memory",
                    "~1 against 200-800", "lectures"},
                   much_beats(), lower, "global memory is " + slower(lower, "the slowest of them"));

  // local and global memory at their fastest, out of L1: further out the order is plain
  const Place next = cycles[local].median() < cycles[l1].median() ? local : l1;
  const Interval first = there ? ratio(cycles[shared], cycles[reg]) : Interval{};
  const Interval second = there ? ratio(cycles[next], cycles[shared]) : Interval{};
  const Interval closer = second.value < first.value ? second : first;
  run.report.judge({"01.2", "registers are fastest, then shared memory, then local and global",
                    "the order", "wiki"},
                   beats(), closer,
                   "a multiply-add " + text(reg) + " cycles, shared " + text(shared) +
                       ", local and global out of L1 " + text(local) + " and " + text(l1));

  const Interval apart = there ? in_memory(ratio(cycles[dram], cycles[shared])) : Interval{};
  run.report.judge({"01.10a", "global memory is 100-150 times slower than shared, in latency",
                    "100-150x slower", "Dr. Dobb's"},
                   beats(100, 150), apart, slower(apart));
}

void measure(const Run& run, size_t bytes) {
  const Device& device = *run.device;
  const unsigned timed = run.quick ? 4096 : 16384;
  const DeviceBuffer<char> small(size_t(small_slots) * slot_bytes);
  const DeviceBuffer<char> medium(chase::l2_ring_bytes(device.l2_bytes()));
  const DeviceBuffer<char> large(bytes);
  const std::vector<Chase> chases = all_chases(device, small, medium, large);

  DeviceBuffer<Answer> answer(1);
  std::vector<chase::Counting> in_turn;
  for (const Chase& each : chases) in_turn.push_back([&] { return load_of(each, answer, timed); });
  std::vector<Readings> ns;
  const std::vector<Readings> cycles = chase::cycles_in_turn(run.measuring, in_turn, ns);
  const chase::Distances halves = chase::measure_halves(device, timed / 2);
  show_places(run, chases, cycles, ns, halves);
  if (chases.size() <= cluster)
    run.report.left_out("the shared memory of another block", no_clusters(device));

  const Calibrated c{cycles[l1].median(), cycles[near_l2].median(), cycles[dram].median()};
  measure_curve(run, large, capacity_of(device, halves.far.repeats > 0), c, timed);
  judge(run, cycles, beyond_l2(device, chases[dram].bytes));
}

}  // namespace

void latency(const Run& run) {
  run.report.begin("latency", "one thread, each load's address is the answer of the load before");
  if (run.device) {
    const size_t bytes = largest_ring(run);
    if (bytes < wanted_ring(run)) run.report.note("rings end at " + bytes_text(double(bytes)));
    measure(run, bytes);
  } else {
    show_lectures(run);
    run.report.left_out("cycles of every space, the curve over the footprint, bandwidths");
    judge(run, std::vector<Readings>(cluster), true);
  }
  chase::measure_bandwidth(run);
}
