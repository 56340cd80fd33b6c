// latency: how long a load takes to answer when the next load's address is that answer. The lectures put registers,
// shared memory, L1, constant and read-only hits at about a cycle and global memory at 200-800; the wiki has an order;
// Dr. Dobb's has global memory 100-150 times slower than shared. Look at the gap between those ~1s and what a chain of
// loads really waits, and at the footprints at which the curve rises: there the ring no longer fits L1, then L2.
#include <doctest/doctest.h>

#include <numeric>
#include <optional>

#include "../common/first_edition.hpp"
#include "l2_halves.cuh"

namespace {

constexpr unsigned unroll = 32;      // loads in a turn of the chase's loop: its counter and branch hide behind them
constexpr unsigned untimed = 2048;   // loads before the clock starts: then a small ring is in its cache
constexpr unsigned mads = 8;         // multiply-adds that take the place of a load in the chain of registers
constexpr unsigned slot_bytes = 64;  // a pointer in each 64 bytes, which DRAM delivers together: none rides along
constexpr unsigned shared_words = 1024, small_words = 256, read_threads = 1024;

/// The slot that a walk over `slots` slots visits at `position`: a scrambled order, all over the memory, in which every
/// slot comes once. Odd factors and shifted xors permute the numbers of `bits` bits; what falls outside goes round
/// again.
__host__ __device__ unsigned slot_at(unsigned position, unsigned slots) {
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

// ---- kernels: one thread goes round a ring --------------------------------------------------------------------------

/// What every chase is given. `ring` is an address, a texture, or (in registers) a factor.
struct Chase {
  size_t ring;
  unsigned slots, timed;  ///< slots of the ring; loads to be timed, a multiple of `unroll`
  long long* answer;      ///< cycles of the timed loads; where the chase stood after the last one
};

// `load` answers with the next address, and nothing is done to it in between. Each of the two clocks is read while the
// load before it still flies, so that exactly `timed` answers lie between them.
template <class Address, class Load>
__device__ void chase(const Chase& c, Address a, Address first, Load load) {
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = pass ? c.timed : untimed; i != 0; i -= unroll) {
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u) a = load(a);
    }
  }
  c.answer[0] = clock64() - start;
  c.answer[1] = a - first;
}

// One PTX instruction, whose answer takes the place of its address; the compiler can neither drop nor change it.
#define LOAD(instruction, type)                                     \
  [](auto a) {                                                      \
    asm volatile(instruction " %0, [%0];" : "+" type(a)::"memory"); \
    return a;                                                       \
  }

// No memory: each multiply-add needs the register that the one before wrote. threadIdx.x, here and below, is 0, but not
// to the compiler: a chain that it knows to be the same in all lanes it moves to the uniform registers, another path.
__global__ void chase_register(Chase c) {
  chase(c, threadIdx.x, 0u, [f = unsigned(c.ring), addend = c.slots](unsigned a) {
#pragma unroll
    for (unsigned i = 0; i < mads; ++i) asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(a) : "r"(f), "r"(addend));
    return a;
  });
}

// The ring holds 32-bit shared addresses, which is what the load takes: no arithmetic, no generic address.
__global__ void chase_shared(Chase c) {
  __shared__ unsigned ring[shared_words];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned k = 0; k < c.slots; ++k) ring[slot_at(k, c.slots)] = first + 4 * slot_at(k + 1, c.slots);
  chase(c, first + 4 * slot_at(threadIdx.x, c.slots), first, LOAD("ld.shared.u32", "r"));
}

// The thread's own array. Its words lie 128 bytes apart, the other lanes' between them: 1 KiB of it fills 32 KiB of L1.
__global__ void chase_local(Chase c) {
  unsigned ring[small_words];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned k = 0; k < c.slots; ++k) ring[slot_at(k, c.slots)] = first + 4 * slot_at(k + 1, c.slots);
  chase(c, first + 4 * slot_at(threadIdx.x, c.slots), first, LOAD("ld.local.u32", "r"));
}

// The ring holds byte offsets: the load's instruction itself adds where the table begins.
__constant__ unsigned constant_ring[small_words];
__global__ void chase_constant(Chase c) {
  chase(c, 4 * slot_at(threadIdx.x, c.slots), 0u, [](unsigned a) {
    return *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(constant_ring) + a);
  });
}

// A texel's value is the index of the next texel, which is what the fetch takes.
__global__ void chase_texture(Chase c) {
  chase(c, slot_at(threadIdx.x, c.slots), 0u, [texture = c.ring](unsigned a) {
    asm volatile("{ .reg .b32 y, z, w; tex.1d.v4.u32.s32 {%0, y, z, w}, [%1, {%0}]; }" : "+r"(a) : "l"(texture));
    return a;
  });
}

// Each slot gets the address of the slot that the walk visits next.
__global__ void link_ring(size_t ring, unsigned slots) {
  for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < slots; k += gridDim.x * blockDim.x)
    *reinterpret_cast<size_t*>(ring + slot_bytes * size_t(slot_at(k, slots))) =
        ring + slot_bytes * size_t(slot_at(k + 1, slots));
}

// First the block reads the ring twice in the walk's order. That leaves the caches as whoever has always been going
// round finds them (what came too long ago for a cache to hold is gone), and the translation of addresses too.
template <class Load>
__device__ void chase_global(const Chase& c, Load load) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < c.slots; k += blockDim.x)
      seen ^= load(c.ring + slot_bytes * size_t(slot_at(k, c.slots)));
  if (__syncthreads_or(seen == 1)) return;  // never, slots have even addresses; but unused reads would be dropped
  if (threadIdx.x == 0) chase(c, c.ring + slot_bytes * size_t(slot_at(0, c.slots)), c.ring, load);
}

// Through L1, where the ring fits it (also the curve's kernel); what __ldg compiles to, through the cache for data that
// no one writes; and past L1, so that L2 answers, or DRAM.
__global__ void chase_l1(Chase c) { chase_global(c, LOAD("ld.global.u64", "l")); }
__global__ void chase_read_only(Chase c) { chase_global(c, LOAD("ld.global.nc.u64", "l")); }
__global__ void chase_l2(Chase c) { chase_global(c, LOAD("ld.global.cg.u64", "l")); }

// ---- kernels: the whole GPU reads -----------------------------------------------------------------------------------

__global__ void fill_words(unsigned* words, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    words[i] = unsigned(i + 1);
}

// A warp reads 512 neighbouring bytes of shared memory, without a bank conflict, again and again.
__global__ void read_shared(unsigned* sums, unsigned rounds) {
  __shared__ uint4 tile[read_threads];
  const unsigned t = threadIdx.x, own = unsigned(__cvta_generic_to_shared(tile + t));
  tile[t] = make_uint4(4 * t + 1, 4 * t + 2, 4 * t + 3, 4 * t + 4);
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned r = 0; r < rounds; ++r) {
    uint4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(own)
                 : "memory");
    sum += v.x + v.y + v.z + v.w;
  }
  sums[blockIdx.x * blockDim.x + t] = sum;
}

// A warp reads 512 neighbouring bytes of global memory; four such reads are under way at a time.
__global__ void read_global(unsigned* sums, const uint4* data, size_t n) {
  const auto total = [](uint4 v) { return v.x + v.y + v.z + v.w; };
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, step = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = thread;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = data[i], b = data[i + step], c = data[i + 2 * step], d = data[i + 3 * step];
    sum += total(a) + total(b) + total(c) + total(d);
  }
  for (; i < n; i += step) sum += total(data[i]);
  sums[thread] = sum;
}

// ---- prediction -----------------------------------------------------------------------------------------------------

std::string predicted_level(size_t footprint, size_t l1, size_t l2) {
  return footprint <= l1 ? "L1" : footprint <= l2 ? "L2" : "DRAM";
}

// ---- experiment -----------------------------------------------------------------------------------------------------

struct Space {
  const char* name;
  void (*kernel)(Chase);
  unsigned slots, step;  ///< slots of the ring, and what lies between two of them in the unit of its addresses
  const char* lectures;
  size_t bytes() const { return kernel == chase_register ? 0 : size_t(slots) * std::max(step, 4u); }
};
enum { in_register, in_shared, in_local, in_constant, in_l1, read_only, in_texture, in_l2, in_far_l2, in_dram };

/// Every space, in the order above. DRAM's ring is the power of two of at least twice the L2.
std::vector<Space> all_spaces(size_t l2, size_t largest) {
  size_t past_l2 = 1;
  while (past_l2 < 2 * l2) past_l2 *= 2;
  const auto slots = [&](size_t bytes) { return unsigned(std::min(bytes, largest) / slot_bytes); };
  return {{"register", chase_register, 1013904223, 1, "1"},  // no ring: the number that is added
          {"shared", chase_shared, shared_words, 4, "~1"},
          {"local, in L1", chase_local, small_words, 4, "-"},
          {"constant, hit", chase_constant, small_words, 4, "~1"},
          {"L1", chase_l1, 32, slot_bytes, "1"},
          {"read-only, hit", chase_read_only, 32, slot_bytes, "1"},
          {"texture, hit", chase_texture, 512, 1, "1"},
          {"L2, near", chase_l2, slots(std::min<size_t>(4 << 20, l2 / 4)), slot_bytes, "-"},
          {"L2, far", nullptr, 0, slot_bytes, "-"},  // measured by l2_halves.cuh
          {"DRAM", chase_l2, slots(past_l2), slot_bytes, "200-800"}};
}

/// The ring of a small space as the host fills it: `step` times the slot that comes next.
std::vector<unsigned> ring_words(unsigned slots, unsigned step) {
  std::vector<unsigned> words(slots);
  for (unsigned k = 0; k < slots; ++k) words[slot_at(k, slots)] = step * slot_at(k + 1, slots);
  return words;
}

struct Texture {
  cudaTextureObject_t object = 0;
  Texture(void* texels, size_t n) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {texels, cudaCreateChannelDesc<unsigned>(), n * sizeof(unsigned)};
    const cudaTextureDesc plain{};  // texels as they are
    CUDA_CHECK(cudaCreateTextureObject(&object, &resource, &plain, nullptr));
  }
  Texture(const Texture&) = delete;
  ~Texture() { cudaDestroyTextureObject(object); }
};

/// Cycles a load of `timed` loads; throws unless every chase ends where the host says. `memory` is for a ring that lies
/// in device memory.
Statistics cycles_a_load(const Measuring& measuring, const Space& space, unsigned timed,
                         const DeviceBuffer<char>& memory) {
  const unsigned steps = untimed + timed;
  long long end = (long long)space.step * slot_at(steps, space.slots);
  size_t ring = 0;  // the kernel's first argument
  std::optional<Texture> texture;
  if (space.kernel == chase_register) {
    unsigned x = 0, factor = 1664525;
    for (unsigned i = 0; i < steps * mads; ++i) x = x * factor + space.slots;
    ring = factor, end = x;
  } else if (space.kernel == chase_constant) {
    const std::vector<unsigned> offsets = ring_words(space.slots, space.step);
    CUDA_CHECK(cudaMemcpyToSymbol(constant_ring, offsets.data(), offsets.size() * sizeof offsets[0]));
  } else if (space.kernel == chase_texture) {
    const std::vector<unsigned> texels = ring_words(space.slots, space.step);
    CUDA_CHECK(cudaMemcpy(memory.data(), texels.data(), texels.size() * sizeof texels[0], cudaMemcpyHostToDevice));
    ring = texture.emplace(memory.data(), texels.size()).object;
  } else if (space.step == slot_bytes) {
    ring = reinterpret_cast<size_t>(memory.data());
    link_ring<<<1024, 256>>>(ring, space.slots);
    CUDA_CHECK_LAUNCH();
    // where L1 and shared memory are one, all that may be L1 shall be
    CUDA_CHECK(
        cudaFuncSetAttribute(space.kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxL1));
  }
  DeviceBuffer<long long> answer(2);
  const auto once = [&] {
    answer.poison();
    space.kernel<<<1, space.step == slot_bytes ? 1024 : 1>>>({ring, space.slots, timed, answer.data()});
    CUDA_CHECK_LAUNCH();
    const std::vector<long long> is = answer.to_host();
    require_right(is[1] == end, std::string(space.name) + ": the chase ended elsewhere");
    return double(is[0]) / (space.kernel == chase_register ? timed * mads : timed);
  };
  once();
  std::vector<double> cycles(measuring.repeats_for(host_ms(once)));
  for (double& value : cycles) value = once();
  return summarize(cycles);
}

/// Whether both bandwidth kernels sum up the words 1, 2, 3 ... of their memory, modulo 2^32. Fills `memory` with those.
bool both_read_all(unsigned blocks, unsigned rounds, const DeviceBuffer<char>& memory) {
  DeviceBuffer<unsigned> sums(size_t(blocks) * read_threads);
  const auto sum_is = [&](unsigned times, size_t words) {
    CUDA_CHECK_LAUNCH();
    const std::vector<unsigned> of_threads = sums.to_host();
    return std::accumulate(of_threads.begin(), of_threads.end(), 0u) == times * unsigned(words * (words + 1) / 2);
  };
  sums.poison();
  read_shared<<<blocks, read_threads>>>(sums.data(), rounds);
  const bool shared_right = sum_is(blocks * rounds, 4 * read_threads);
  fill_words<<<1024, 256>>>(reinterpret_cast<unsigned*>(memory.data()), memory.bytes() / 4);
  sums.poison();
  read_global<<<blocks, read_threads>>>(sums.data(), reinterpret_cast<uint4*>(memory.data()), memory.bytes() / 16);
  return sum_is(1, memory.bytes() / 4) && shared_right;
}

const Claim about_a_cycle{
    "01.1", "registers, shared memory, L1, constant and read-only hits take about a cycle, global memory 200-800",
    "lectures; 8800 GTX", "~1 and 200-800; 200-300"};
const Claim in_order{"01.2", "registers are fastest, then shared memory, then local and global", "wiki", "the order"};
const Claim hundredfold{"01.10", "global memory is 100-150 times slower than shared", "Dr. Dobb's", "100-150x"};

}  // namespace

void latency(const Run& run) {
  run.report.begin("latency", "one thread, each load's address is the answer of the load before");
  if (!run.device) {
    Table table(run.report, "memory", {shown("cycles in the lectures")});
    for (const Space& space : all_spaces(0, 0)) table.row({space.name}, {space.lectures});
    table.print();
    return run.report.left_out("cycles of every space, the curve over the footprint, bandwidths",
                               {about_a_cycle, in_order, hundredfold});
  }
  const Device& gpu = *run.device;
  // no call reports L1; from 7.0 on shared memory and it are one array, of which either may take about this much
  const size_t l1 = gpu.prop.major >= 7 ? gpu.prop.sharedMemPerMultiprocessor : 24 << 10, l2 = gpu.l2_bytes();
  const size_t wanted = std::min((run.quick ? 4 : 8) * l2, size_t(1) << 30), half_of_free = Device::free_bytes() / 2;
  if (wanted > half_of_free) run.report.note("rings end at " + bytes_text(half_of_free) + ", half of what is free");
  const DeviceBuffer<char> memory(std::min(wanted, half_of_free) / slot_bytes * slot_bytes);
  const unsigned loads = run.quick ? 4096 : 16384, rounds = loads / 4;
  Measuring measuring = run.measuring;
  measuring.budget_ms = run.quick ? 4 : 25;  // some thirty rows in a second

  // bandwidth of the whole GPU, before the rings go into the same memory
  const unsigned blocks = 2 * gpu.prop.multiProcessorCount;
  const uint4* const data = reinterpret_cast<uint4*>(memory.data());
  DeviceBuffer<unsigned> sums(size_t(blocks) * read_threads);
  require_right(both_read_all(blocks, rounds, memory), "a sum of all that was read");
  const Statistics shared_ms =
      time_device(measuring, [&] { read_shared<<<blocks, read_threads>>>(sums.data(), rounds); });
  const Statistics global_ms =
      time_device(measuring, [&] { read_global<<<blocks, read_threads>>>(sums.data(), data, memory.bytes() / 16); });
  CUDA_CHECK_LAUNCH();
  const Statistics shared_gbs = gigabytes_per_second(16.0 * sums.size() * rounds, shared_ms);
  const Statistics global_gbs = gigabytes_per_second(double(memory.bytes()), global_ms);

  const std::vector<Space> spaces = all_spaces(l2, memory.bytes());
  std::vector<Statistics> cycles;
  const l2_halves::Distances halves = l2_halves::distances(gpu.prop.multiProcessorCount, l2, loads / 2);
  for (const Space& space : spaces)
    cycles.push_back(space.kernel ? cycles_a_load(measuring, space, loads, memory) : halves.far);
  const Statistics &shared = cycles[in_shared], &dram = cycles[in_dram];
  const auto row = [&](Table& table, const Key& key, size_t bytes, const Statistics& s, const std::string& text) {
    table.row(key, {bytes ? bytes_text(bytes) : "-", s, spread_text(s), text, bar(s.median / dram.median)});
  };
  const Column load_cycles = measured("cycles a load", "latency", "cycles", 1);
  Table table(run.report, "memory", {shown("footprint"), load_cycles, shown("spread"), shown("lectures"), shown("")});
  for (size_t i = 0; i < spaces.size(); ++i)
    if (cycles[i].repeats) row(table, {spaces[i].name}, spaces[i].bytes(), cycles[i], spaces[i].lectures);
  table.print();
  run.report.note(halves.far.repeats
                      ? "far: lines that one of " + std::to_string(halves.other_side) +
                            " multiprocessors on the L2's other side read before; near, after one of " +
                            std::to_string(halves.same_side) + " on this side: " + fixed(halves.near.median, 0) +
                            " cycles"
                      : "this L2 has no far half: whichever multiprocessor read a line before, it is as near");

  Table curve(run.report, "bytes", {shown("footprint"), load_cycles, shown("spread"), shown("predicted"), shown("")});
  const double factor = run.quick ? 4 : run.full ? std::pow(2, 0.25) : 2;
  std::vector<size_t> sizes;
  for (double bytes = 1024; bytes < memory.bytes(); bytes *= factor) sizes.push_back(size_t(bytes));
  sizes.push_back(memory.bytes());
  for (size_t size : sizes) {
    const Space space{"curve", chase_l1, unsigned(size / slot_bytes), slot_bytes, ""};
    row(curve, {"load", "footprint", std::to_string(space.bytes())}, space.bytes(),
        cycles_a_load(measuring, space, loads, memory), predicted_level(space.bytes(), l1, l2));
  }
  curve.print();
  run.report.note("predicted: L1 up to " + bytes_text(l1) + ", L2 up to " + bytes_text(l2) +
                  "; bars: of DRAM's cycles");

  // 32 banks of 4 bytes a cycle, at the highest clock that the device reports
  const double banks_gbs = 128e-6 * gpu.sm_clock_khz * gpu.prop.multiProcessorCount;
  Table rates(
      run.report, "all multiprocessors read",
      {measured("GB/s", "bandwidth", "GB/s", 0), shown("spread"), predicted("in theory", "bandwidth", "GB/s", 0)});
  rates.row({"shared"}, {shared_gbs, spread_text(shared_gbs), banks_gbs > 0 ? banks_gbs : NAN});
  rates.row({"global"}, {global_gbs, spread_text(global_gbs), gpu.theoretical_gbs > 0 ? gpu.theoretical_gbs : NAN});
  rates.print();

  // "about a cycle": below two, for the slowest of those that are said to take one
  std::string here;
  double slowest = 0;
  for (int i : {in_register, in_shared, in_l1, in_constant, read_only}) {
    here += std::string(spaces[i].name) + " " + fixed(cycles[i].median, 1) + "; ";
    slowest = std::max(slowest, cycles[i].median);
  }
  const bool stated = dram.median >= 200 && dram.median <= 800;
  here += "L2 " + fixed(cycles[in_l2].median, 0) + "; DRAM " + fixed(dram.median, 0) + " cycles";
  const Judgement in_cache = not_judged("too little memory is free for a footprint beyond the L2");
  const bool past_l2 = spaces[in_dram].bytes() > l2;
  run.report.claim(about_a_cycle, past_l2 ? judge_fact(slowest < 2 && stated, here, slowest, "cycles") : in_cache);

  // local and global memory are held against shared memory at their fastest, out of L1: further out the order is plain
  Judgement order = judge_ratio(cycles[in_local].low < cycles[in_l1].low ? cycles[in_local] : cycles[in_l1], shared);
  if (judge_ratio(shared, cycles[in_register]).verdict != Verdict::holds) order.verdict = Verdict::does_not_hold;
  order.here = "register " + fixed(cycles[in_register].median, 1) + ", shared " + fixed(shared.median, 1) + ", local " +
               fixed(cycles[in_local].median, 1) + " and global " + fixed(cycles[in_l1].median, 1) + " out of L1";
  run.report.claim(in_order, order);

  // 125 is the middle of 100-150; 25% either way are 94 and 156
  Judgement slower = judge_ratio(dram, shared, 125);
  slower.here += " in latency, " + times(shared_gbs.median / global_gbs.median) + " in bandwidth";
  run.report.claim(hundredfold, past_l2 ? slower : in_cache);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("latency: the walk is one cycle over all slots and it leaps") {
  for (unsigned slots : {1u, 2u, 3u, 16u, 31u, 97u, 1000u, 4096u, 65537u, 131072u}) {
    CAPTURE(slots);
    const std::vector<unsigned> next = ring_words(slots, 1);
    std::vector<char> visited(slots, 0);
    unsigned slot = slot_at(0, slots), met = 0, neighbours = 0;
    for (; met < slots && slot < slots && !visited[slot]; ++met) {
      visited[slot] = 1;
      neighbours += next[slot] == slot + 1 || next[slot] + 1 == slot;
      slot = next[slot];
    }
    CHECK(met == slots);                       // in bounds and none twice, so that all were met
    CHECK(slot == slot_at(0, slots));          // and it closes
    if (slots > 1000) CHECK(neighbours < 20);  // two on average in a random order; 20 or more once in 1e13 orders
  }
}

TEST_CASE("latency: prediction and sizes") {
  const size_t KiB = 1 << 10, MiB = 1 << 20;
  CHECK(predicted_level(228 * KiB, 228 * KiB, 60 * MiB) == "L1");
  CHECK(predicted_level(228 * KiB + 1, 228 * KiB, 60 * MiB) == "L2");
  CHECK(predicted_level(60 * MiB + 1, 228 * KiB, 60 * MiB) == "DRAM");
  const std::vector<Space> h200 = all_spaces(60 * MiB, 480 * MiB);
  CHECK(h200[in_l2].bytes() == 4 * MiB);
  CHECK(h200[in_dram].bytes() == 128 * MiB);
}

TEST_CASE("latency: every chase ends where the host says") {
  if (skip_without_gpu()) return;
  const Measuring once{.repeats = 1, .typed = true};
  const DeviceBuffer<char> memory(size_t(300007) * slot_bytes);
  for (Space space : all_spaces(1 << 20, memory.bytes())) {
    if (!space.kernel) continue;
    CAPTURE(space.name);
    for (unsigned slots : {1u, 2u, 31u, 97u, 256u})
      for (unsigned timed : {32u, 96u, 992u}) {
        space.slots = slots;
        CHECK(cycles_a_load(once, space, timed, memory).median > 0);  // throws if it ends elsewhere
      }
  }
  // every slot of a ring that has more of them than link_ring has threads
  CHECK(cycles_a_load(once, {"", chase_l2, 300007, slot_bytes, ""}, 300032, memory).median > 0);
}

TEST_CASE("latency: first reads of the L2 are answered from one side or the other") {
  if (skip_without_gpu()) return;
  int number = 0;
  CUDA_CHECK(cudaGetDevice(&number));
  const Device gpu = Device::select(number);
  const int multiprocessors = gpu.prop.multiProcessorCount;
  const l2_halves::Distances halves = l2_halves::distances(multiprocessors, gpu.l2_bytes(), 1024);  // checks its chases
  CHECK(halves.same_side > 0);  // at least the reader itself
  CHECK(halves.same_side + halves.other_side <= multiprocessors);
  CHECK(halves.near.median > 0);
  if (halves.far.repeats) CHECK(halves.far.low > halves.near.high);
}

TEST_CASE("latency: both bandwidth kernels read every word") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1u, 3u, 7u})
    for (size_t words16 : {1, 1023, 4097, 65537}) {
      const DeviceBuffer<char> memory(16 * words16);
      CHECK(both_read_all(blocks, unsigned(words16 % 31), memory));
    }
}
