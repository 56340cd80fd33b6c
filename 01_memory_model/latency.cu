// latency: how long does a load take to answer? The lectures put registers, shared memory, L1 and
// hits in the constant and read-only caches at about a cycle, global memory at 200-800 [PR: memory
// latencies]. The study has 200-300 [BW]. The wiki has an order: registers, shared, then local and
// global memory [LC 1], and adds a "significant" latency for the host's [LC 2]. Dr. Dobb's has global
// memory 100-150 times slower than shared memory [DD].
//
// One thread follows a ring: the answer of each load is the address of the next. Look at what it
// waits, beside "about a cycle". Then look where the curve rises.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o latency latency.cu ../common/*.cpp
//
//   1  chase_register, chase_shared, chase_local, chase_constant, chase_texture: small rings
//   2  chase_l1, chase_read_only, chase_l2: rings of any size in global memory
//   3  chase_host: a ring in pinned memory of the host
#include <algorithm>

#include "../common/sample.hpp"
#include "chase.cuh"

namespace {

// ---- kernels: one thread goes round, and times its loads ----

constexpr unsigned untimed = 2048;  // steps before those that are timed: once round a small ring

// Goes `untimed`, then `timed` steps. Each step needs the answer of the step before, so that no two
// loads overlap. Each clock is read while the load before it is still in flight: exactly `timed`
// answers lie between the two. The loop's branch hides behind `unroll` steps.
template <unsigned unroll = 32, class Address, class Step>
__device__ void walk(Answer* answer, Address at, Address first, unsigned timed, Step step) {
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {  // the second pass is timed
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u) step(at);
    steps = timed;
  }
  *answer = {clock64() - start, at - first};
}

// No memory: each multiply-add needs the register that the one before wrote. threadIdx.x, here and
// below, is 0, but not to the compiler: what it knows to be the same in all lanes it would move to
// the uniform registers, which are another path.
__global__ void chase_register(Answer* answer, unsigned factor, unsigned addend, unsigned timed) {
  walk<256>(answer, threadIdx.x, 0u, timed, [=](unsigned& x) {
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(factor), "r"(addend));
  });
}

// The ring holds addresses in shared memory, as the load takes them.
__global__ void chase_shared(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  extern __shared__ unsigned ring[];
  const unsigned first = unsigned(__cvta_generic_to_shared(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];
  walk(answer, first + 4 * threadIdx.x, first, timed, [](unsigned& address) {
    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address)::"memory");
  });
}

constexpr unsigned few = 256;  // words: 1 KiB, which the constant cache holds

// The thread's own array, which lies in local memory and is cached in L1. Its words are 128 bytes
// apart, since other lanes' words lie between: 32 KiB.
__global__ void chase_local(Answer* answer, const unsigned* next, unsigned slots, unsigned timed) {
  unsigned ring[few];
  const unsigned first = unsigned(__cvta_generic_to_local(ring));
  for (unsigned slot = 0; slot < slots; ++slot) ring[slot] = first + 4 * next[slot];
  walk(answer, first + 4 * threadIdx.x, first, timed, [](unsigned& address) {
    asm volatile("ld.local.u32 %0, [%0];" : "+r"(address)::"memory");
  });
}

__constant__ unsigned constant_ring[few];

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

// First the whole block reads the ring twice in the walk's order, so that L1, the L2 and the
// translation of addresses are as a long walk would leave them. Then its first thread goes round.
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

// Past L1 to the host's memory, with nothing read before: a ring of as many slots as there are steps
// has each line once. No cache has it from the launch before, since the host may have written.
__global__ void chase_host(Answer* answer, size_t ring, size_t first, unsigned timed) {
  walk(answer, first + threadIdx.x, ring, timed, [](size_t& address) {
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
  });
}

// ---- cycles of a load in each memory: rings whose end the host can compute ----

/// For each slot of a small ring the one that comes next.
std::vector<unsigned> next_slots(unsigned slots) {
  std::vector<unsigned> next(slots);
  for (unsigned k = 0; k < slots; ++k) next[slot_at(k, slots)] = slot_at(k + 1, slots);
  return next;
}

/// The slot in which a walk that begins in slot 0 stands after all of its steps.
unsigned last_slot(const std::vector<unsigned>& next, unsigned timed) {
  unsigned slot = 0;
  for (unsigned k = (untimed + timed) % unsigned(next.size()); k != 0; --k) slot = next[slot];
  return slot;
}

Interval in_register(unsigned timed) {
  constexpr unsigned factor = 1664525, addend = 1013904223;
  unsigned end = 0;
  for (unsigned k = 0; k < untimed + timed; ++k) end = end * factor + addend;
  const auto launch = [=](Answer* a) { chase_register<<<1, 1>>>(a, factor, addend, timed); };
  return cycles_per_load("register", launch, timed, end);
}

using WordKernel = void (*)(Answer*, const unsigned* next, unsigned slots, unsigned timed);

/// A ring that the kernel fills itself: in shared memory, or in its own array.
Interval in_words(WordKernel kernel, unsigned slots, unsigned shared_bytes, unsigned timed) {
  const std::vector<unsigned> next = next_slots(slots);
  const DeviceBuffer<unsigned> on_device(next);
  const auto launch = [&](Answer* a) {
    kernel<<<1, 1, shared_bytes>>>(a, on_device, slots, timed);
  };
  return cycles_per_load("shared or local", launch, timed, 4 * last_slot(next, timed));
}

Interval in_constant(unsigned slots, unsigned timed) {
  const std::vector<unsigned> next = next_slots(slots);
  std::vector<unsigned> offsets;
  for (const unsigned slot : next) offsets.push_back(4 * slot);
  CUDA_CHECK(cudaMemcpyToSymbol(constant_ring, offsets.data(), 4 * offsets.size()));
  const auto launch = [=](Answer* a) { chase_constant<<<1, 1>>>(a, timed); };
  return cycles_per_load("constant", launch, timed, 4 * last_slot(next, timed));
}

/// A texture of linear memory, whose texels are read as they are.
Interval in_texture(unsigned slots, unsigned timed) {
  const std::vector<unsigned> next = next_slots(slots);
  const DeviceBuffer<unsigned> memory(next);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {memory.data(), cudaCreateChannelDesc<unsigned>(), memory.bytes()};
  const cudaTextureDesc plain{};
  cudaTextureObject_t texels = 0;
  CUDA_CHECK(cudaCreateTextureObject(&texels, &resource, &plain, nullptr));
  const auto launch = [=](Answer* a) { chase_texture<<<1, 1>>>(a, texels, timed); };
  const Interval cycles = cycles_per_load("texture", launch, timed, last_slot(next, timed));
  CUDA_CHECK(cudaDestroyTextureObject(texels));
  return cycles;
}

using GlobalKernel = void (*)(Answer*, size_t ring, unsigned slots, unsigned timed);

/// A ring in the first `bytes` bytes of memory.
Interval in_global(GlobalKernel kernel, const DeviceBuffer<char>& memory, size_t bytes,
                   unsigned timed) {
  // shared memory and L1 are one array: all that may be L1 shall be
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxL1));
  const unsigned slots = unsigned(bytes / slot_bytes);
  const size_t ring = linked(memory, slots);
  const auto launch = [=](Answer* a) { kernel<<<1, 1024>>>(a, ring, slots, timed); };
  return cycles_per_load("a ring of " + bytes_text(double(bytes)), launch, timed,
                         size_t(slot_bytes) * slot_at(untimed + timed, slots));
}

constexpr unsigned line_bytes = 256;  // more than a line of any cache

/// A ring in pinned memory of the host, a slot in each line.
Interval in_host(unsigned slots, unsigned timed) {
  const PinnedBuffer<char> memory(size_t(slots) * line_bytes, cudaHostAllocMapped);
  const auto at = [&](unsigned k) { return memory.data() + line_bytes * slot_at(k, slots); };
  for (unsigned k = 0; k < slots; ++k) *reinterpret_cast<char**>(at(k)) = at(k + 1);
  const size_t ring = size_t(memory.data()), first = size_t(at(0));
  const auto launch = [=](Answer* a) { chase_host<<<1, 1>>>(a, ring, first, timed); };
  return cycles_per_load("host", launch, timed, size_t(at(untimed + timed)) - ring);
}

/// Nanoseconds of `cycles`, at `kHz` cycles per millisecond.
constexpr double ns_of(double cycles, double kHz) { return 1e6 * cycles / kHz; }
static_assert(ns_of(1980, 1980000) == 1000);

/// Throws WrongResult if no load, not even over the link, can take so few or so many cycles: a unit or
/// a factor is wrong.
void require_possible(const std::string& name, double cycles, double kHz) {
  if (cycles >= 1 && ns_of(cycles, kHz) <= 10000) return;
  throw WrongResult(name + ": " + digits(cycles) +
                    " cycles, where 1 is the least and 10 us the most");
}

// ---- the curve over the footprint ----

void print_curve(Run& run, const DeviceBuffer<char>& memory, unsigned timed, double most) {
  Table curve("a ring of", {"cycles through L1", ""});
  for (size_t bytes = 16 << 10; bytes <= memory.size(); bytes *= run.quick ? 4 : 2) {
    const Interval cycles = in_global(chase_l1, memory, bytes, timed);
    curve.row(bytes_text(double(bytes)), {cycles, bar(cycles.value / most)});
  }
  run.print(curve);
  run.note("the L2 has " + bytes_text(double(run.gpu.l2CacheSize)));
  if (run.gpu.major == 9)
    run.note("it has two halves: what one multiprocessor loads stays in the one that is near");
}

}  // namespace

void latency(Run& run) {
  const unsigned timed = run.quick ? 4096 : 8192;
  const size_t within = std::min(size_t(run.gpu.l2CacheSize) / 4, size_t(4) << 20);
  size_t beyond = size_t(256) << 20;  // the ring in memory
  while (!run.beyond_l2(double(beyond))) beyond *= 2;
  run.title("one thread; the answer of each load is the address of the next");
  if (!run.fits(double(beyond))) return run.note("left out: too little memory is free");
  const DeviceBuffer<char> memory(beyond);
  const DeviceBuffer<Answer> answer(1);
  const auto busy = [&] { chase_register<<<1, 1>>>(answer, 1, 1, 1 << 16); };
  run.timer.alone({"warm-up", busy});  // memory's cycles depend on how fast the clock runs
  const Interval global = in_global(chase_l2, memory, beyond, timed);
  const unsigned few_timed = timed / 8, lines = untimed + few_timed;  // each is read once
  const Interval host = in_host(lines, few_timed);

  Table table("a load from", {"footprint", "the lectures", "cycles", ""});
  const double kHz = device_attribute(cudaDevAttrClockRate);
  const auto row = [&](const char* name, size_t bytes, const char* lectures, const Interval& i) {
    require_possible(name, i.value, kHz);
    const std::string footprint = bytes > 0 ? bytes_text(double(bytes)) : "-";
    table.row(name, {footprint, lectures, i, bar(i.value / host.value)});
    return i;
  };
  const Interval reg = row("register: a multiply-add", 0, "1", in_register(timed));
  const Interval shared = row("shared", 4096, "~1", in_words(chase_shared, 1024, 4096, timed));
  const Interval local = row("local, in L1", 1024, "", in_words(chase_local, few, 0, timed));
  const Interval constant = row("constant, hit", 1024, "~1", in_constant(few, timed));
  const Interval l1 = row("global, in L1", 2048, "1", in_global(chase_l1, memory, 2048, timed));
  const Interval read_only =
      row("read-only, hit", 2048, "1", in_global(chase_read_only, memory, 2048, timed));
  row("texture, hit", 2048, "1", in_texture(512, timed));
  row("global, in the L2", within, "", in_global(chase_l2, memory, within, timed));
  row("global, in memory", beyond, "200-800", global);
  row("host, pinned", size_t(lines) * line_bytes, "", host);
  run.print(table);
  run.note("01.1a leaves out the multiply-add, which is no load, and the texture");
  run.note("host, pinned: each load is of another line, so no cache of the GPU can answer");
  run.note(digits(global.value) + " cycles are " + digits(ns_of(global.value, kHz)) +
           " ns at the highest clock; 200-300 of an 8800 GTX were 148-222 ns");
  print_curve(run, memory, timed, global.value);

  run.claim_each({"01.1a", "shared memory, L1, constant and read-only hits take about a cycle",
                  "[PR 1] ~1, 1, ~1 and 1 cycles"},
                 {shared, l1, constant, read_only}, "cycles of each (1x is one cycle)", at_most(2));
  run.claim({"01.1b", "a load from global memory takes 200 to 800 cycles", "[PR 1] 200-800"},
            {global, "cycles for a load from beyond the L2"}, between(200, 800));
  run.claim({"01.1c", "a load from global memory takes 200 to 300 cycles",
             "[BW, quoting the guide] 200-300 cycles, 8800 GTX", Hardware::g80},
            {global, "cycles for a load from beyond the L2"}, between(200, 300));
  run.claim_each({"01.1d", "on-chip caches have much lower latency than global memory",
                  "[PR 1] \"MUCH lower latency\""},
                 {global / shared, global / l1, global / constant, global / read_only},
                 "cycles of global memory / of each", much_more());
  // a multiply-add's latency contains a register's; local and global memory at their fastest
  run.claim_each({"01.2", "registers are fastest, then shared memory, then local and global",
                  "[LC 1] \"registers > shared memory > local memory ~ global memory\""},
                 {shared / reg, local / shared, l1 / shared},
                 "cycles: shared/register, local/shared, L1/shared", more());
  run.claim({"01.10a", "global memory is 100 to 150 times slower than shared, in latency",
             "[DD] \"between 100x-150x slower\""},
            {global / shared, "times as many cycles as a load from shared memory"},
            more_by(100, 150));
  run.claim({"01.19", "mapped host memory adds a significant latency over global memory",
             "[LC 2] \"a significant amount of latency is added\""},
            {host / global, "times as many cycles as a load from global memory"}, much_more());
}
SAMPLE(7, latency, "how long a load from each memory takes");

TEST_CASE("latency: the walk is one ring over all slots") {
  for (const unsigned slots : {1u, 2u, 3u, 16u, 31u, 97u, 1000u, 4096u, 65537u, 131072u}) {
    CAPTURE(slots);
    const std::vector<unsigned> next = next_slots(slots);
    unsigned slot = next[0], steps = 1;
    for (; slot != 0 && steps <= slots; ++steps) slot = next[slot];
    CHECK(steps == slots);  // until it closes: none was met twice
  }
  const std::vector<unsigned> ring{2, 0, 3, 1};  // 0 2 3 1; the untimed steps are whole rounds
  CHECK(last_slot(ring, 256) == 0);
  CHECK(last_slot(ring, 257) == 2);
  CHECK(last_slot(ring, 259) == 1);
}

TEST_CASE("latency: a load takes a cycle or more, and 10 us or less") {
  constexpr double kHz = 1e6;  // a cycle is a ns
  CHECK_NOTHROW(require_possible("a load", 1, kHz));
  CHECK_NOTHROW(require_possible("a load", 10000, kHz));
  CHECK_THROWS_AS(require_possible("a load", 0.99, kHz), WrongResult);
  CHECK_THROWS_AS(require_possible("a load", 10001, kHz), WrongResult);
}

TEST_CASE("latency: every chase ends where its ring leads") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<char> memory(256 * slot_bytes);
  for (const unsigned timed : {256u, 768u}) {
    CHECK_NOTHROW(in_register(timed));
    for (const unsigned slots : {1u, 2u, 31u, 97u, 256u}) {
      CAPTURE(slots);
      CHECK_NOTHROW(in_words(chase_shared, slots, 4 * slots, timed));
      CHECK_NOTHROW(in_words(chase_local, slots, 0, timed));
      CHECK_NOTHROW(in_constant(slots, timed));
      CHECK_NOTHROW(in_texture(slots, timed));
      CHECK_NOTHROW(in_host(slots, timed));
      for (const auto kernel : {chase_l1, chase_read_only, chase_l2})
        CHECK_NOTHROW(in_global(kernel, memory, slots * slot_bytes, timed));
    }
  }
}
