// constant_cache: what does a load from constant memory cost if it hits, and if it misses? The
// lectures call a hit "very fast" and a miss "very slow" [PR: constant memory]. Each multiprocessor of
// their GPUs has 8 KB of cache for it [PR: cache and memory sizes], and a read-only load that misses
// costs as much as one from global memory [PR: memory latencies].
//
// One thread follows rings of constants: the answer of each load says where the next word is. Look at
// the ring from which on the cycles rise, and at the first touch, when no cache has the word. Then at
// the same constants through a pointer whose target the compiler does not know.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o constant_cache constant_cache.cu ../common/*.cpp
//
//   1  walk  one thread, load after load, by one of four loads: Constant, ByPointer, PastL1, ReadOnly
#include <algorithm>

#include "../common/sample.hpp"
#include "chase.cuh"

namespace {

// ---- kernel: one thread goes round, and times its loads ----

constexpr unsigned ring_kib = 60;  // all constants of a file together have 64 KiB
constexpr unsigned ring_words = ring_kib * 1024 / sizeof(unsigned);
__constant__ unsigned ring[ring_words];

// The word at an offset in bytes, since an index would cost each step a multiplication.
__device__ const unsigned* word_in(const void* memory, unsigned offset) {
  return reinterpret_cast<const unsigned*>(static_cast<const char*>(memory) + offset);
}

// By the name of the variable, and so through the constant caches.
struct Constant {
  __device__ unsigned operator()(unsigned at) const { return *word_in(ring, at); }
};

// Behind the asm the compiler does not know where `memory` points: a generic load, through L1.
struct ByPointer {
  __device__ unsigned operator()(unsigned at) const {
    const void* memory = ring;
    asm volatile("" : "+l"(memory));
    return *word_in(memory, at);
  }
};

// A global load of the same words, past L1. Constant memory is a part of global memory.
struct PastL1 {
  const void* memory;
  __device__ unsigned operator()(unsigned at) const { return __ldcg(word_in(memory, at)); }
};

// The same through the cache for data that no one writes.
struct ReadOnly {
  const void* memory;
  __device__ unsigned operator()(unsigned at) const { return __ldg(word_in(memory, at)); }
};

// `at` loads a word, which is the offset of the next, so that no loads overlap. The second pass is
// timed, after its code was fetched. That threadIdx.x is 0 the compiler does not know.
template <class At>
__global__ void walk(Answer* answer, unsigned first, unsigned untimed, unsigned timed, At at) {
  unsigned offset = first + threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) offset = at(offset);
    asm volatile("" : "+r"(offset));  // the clock is read after the last step
    steps = timed;
  }
  *answer = {clock64() - start, offset};
}

// ---- what must come out: each walk ends where its ring leads ----

/// The contents of `ring`: words that lie `stride` bytes apart, each the offset of the next.
std::vector<unsigned> ring_content(unsigned slots, unsigned stride) {
  std::vector<unsigned> content(ring_words, 4);  // what lies between leads astray
  for (unsigned k = 0; k < slots; ++k)
    content[stride * slot_at(k, slots) / 4] = stride * slot_at(k + 1, slots);
  return content;
}

// ---- the launches ----

/// Cycles of a load that goes round and round; or, with a `filler` of twice the L2, of one whose line
/// no cache has. Writing the ring empties the constant caches, and writing the filler the L2.
template <class At>
Interval cycles(unsigned slots, unsigned stride, At at, const DeviceBuffer<char>& filler = {}) {
  const bool first_touch = filler.size() > 0;
  const unsigned untimed = first_touch ? 4 : 2 * slots;  // 4 fetch code and page translation
  const unsigned timed = first_touch ? slots - untimed : std::max(512u, slots);
  const auto launch = [&](Answer* answer) {
    CUDA_CHECK(cudaMemcpyToSymbol(ring, ring_content(slots, stride).data(), sizeof ring));
    if (first_touch) CUDA_CHECK(cudaMemset(filler, 0x5a, filler.bytes()));
    walk<<<1, 1>>>(answer, stride * slot_at(0, slots), untimed, timed, at);
  };
  return cycles_per_load("walk", launch, timed, stride * slot_at(untimed + timed, slots));
}

/// Of a ring that is walked round and round.
template <class At>
Interval ring_of(double kib, At at) {
  return cycles(unsigned(kib * KiB) / slot_bytes, slot_bytes, at);
}

/// Of words that no cache has, each in a line of its own in any cache.
template <class At>
Interval first_touch(At at, const DeviceBuffer<char>& filler) {
  constexpr unsigned stride = 256;
  return cycles(sizeof ring / stride, stride, at, filler);
}

/// Where `ring` lies in global memory.
const void* address_of_ring() {
  void* address = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress(&address, ring));
  return address;
}

}  // namespace

void constant_cache(Run& run) {
  run.title("hits and misses of constant memory, by one thread");
  const void* const memory = address_of_ring();
  const DeviceBuffer<char> filler(2 * size_t(run.gpu.l2CacheSize));
  const DeviceBuffer<Answer> answer(1);
  const auto busy = [&] { walk<<<1, 1>>>(answer, 0, 0, 1 << 16, Constant{}); };
  run.timer.alone({"warm-up", busy});  // memory's cycles depend on how fast the clock runs
  Table table("one thread, each load waits for the one before", {"cycles"});
  const Interval hit = ring_of(1, Constant{});
  table.row("constant, ring of 1 KiB", {hit});
  for (const int kib : {2, 4, 8, 32, 60})
    table.row("constant, ring of " + std::to_string(kib) + " KiB", {ring_of(kib, Constant{})});
  for (const int kib : {1, 32})
    table.row("by a pointer, ring of " + std::to_string(kib) + " KiB", {ring_of(kib, ByPointer{})});
  const auto is_fast = [&](int quarters) {  // a twentieth more is one miss in fifty on an H100
    return ring_of(quarters / 4., Constant{}).value < 1.05 * hit.value;
  };
  const double fast = largest_fitting(1, 4 * ring_kib, is_fast) / 4.;
  const Interval miss = first_touch(Constant{}, filler);
  const Interval global = first_touch(PastL1{memory}, filler);
  const Interval read_only = first_touch(ReadOnly{memory}, filler);
  table.row("constant, first touch", {miss});
  table.row("global, first touch", {global});
  table.row("read-only, first touch", {read_only});
  run.print(table);
  run.note("up to " + digits(fast) + " KiB a ring is as fast as one of 1 KiB, by steps of 1/4 KiB");
  run.note("by a pointer: of the same constants, which the compiler does not see");

  run.claim({"01.6b", "constant memory is very fast on a hit, and very slow on a miss",
             "[PR 2] \"Very fast when cache hit\", \"Very slow when no cache hit\""},
            {miss / hit, "times as many cycles for a miss as for a hit"}, much_more());
  run.claim({"01.6c", "a read-only load that misses costs as much as a global load",
             "[PR 1] \"1 if cached (same as global if not)\""},
            {read_only / global, "times the cycles of a global load that misses"}, as_much());
  run.claim({"01.18", "each multiprocessor has 8 KB of constant cache",
             "[PR 1] \"8KB Cache per SM\", P100 and V100", Hardware::pascal},
            {{fast, fast, fast + 0.25}, "KiB is the largest ring as fast as one of 1 KiB"},
            about(8));
}
SAMPLE(6, constant_cache, "constant memory: cycles of hits and misses");

TEST_CASE("constant_cache: a ring leads through all of its words, and comes round") {
  for (const unsigned stride : {4u, slot_bytes, 256u})
    for (const unsigned slots : {1u, 2u, 31u, 97u, 240u}) {
      CAPTURE(stride);
      CAPTURE(slots);
      const std::vector<unsigned> content = ring_content(slots, stride);
      const unsigned first = stride * slot_at(0, slots);
      unsigned offset = content[first / 4], steps = 1;
      for (; offset != first && steps <= slots; ++steps) offset = content[offset / 4];
      CHECK(steps == slots);  // none was met twice
    }
}

TEST_CASE("constant_cache: every walk ends where its ring leads") {
  if (skip_without_gpu()) return;
  const void* const memory = address_of_ring();
  const DeviceBuffer<char> filler(1 << 20);  // the walk is the same; whether it misses is no matter
  for (const unsigned slots : {1, 3, 97, 960}) {
    CAPTURE(slots);
    CHECK(cycles(slots, slot_bytes, Constant{}).value > 0);
    CHECK(cycles(slots, slot_bytes, ByPointer{}).value > 0);
    CHECK(cycles(slots, slot_bytes, PastL1{memory}).value > 0);
    CHECK(cycles(slots, slot_bytes, ReadOnly{memory}).value > 0);
  }
  CHECK(first_touch(Constant{}, filler).value > 0);
  CHECK(first_touch(PastL1{memory}, filler).value > 0);
  CHECK(first_touch(ReadOnly{memory}, filler).value > 0);
}
