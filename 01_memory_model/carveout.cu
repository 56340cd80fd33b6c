// carveout: how much of L1 does shared memory take? Both are parts of one memory in each
// multiprocessor: "the same 64 KB", says the wiki [LC 1]; since Volta "configurable at runtime", say
// the lectures [PR]. Here one thread goes round rings in L1, after shared memory was given more and
// more. The largest ring that still hits tells what L1 has.
//
// Look at who has the last word: the hint, or the block that needs shared memory. The older call,
// cudaFuncSetCacheConfig, gives the same hint in three steps.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o carveout carveout.cu ../common/*.cpp
//
//   1  chase_split  one thread goes round a ring in global memory, through L1
#include <algorithm>
#include <optional>

#include "../common/sample.hpp"
#include "chase.cuh"

namespace {

constexpr unsigned unroll = 16;  // loads in a turn of the loop, behind which its branch hides

// First the whole block reads the ring in the walk's order, and fills L1 with it. Then its first
// thread goes round: each slot holds the address of the next. Shared memory that the launch asks
// for is not used; it only has to be there.
__global__ void chase_split(Answer* answer, size_t ring, unsigned slots, unsigned untimed,
                            unsigned timed) {
  size_t seen = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass)
#pragma unroll 1
    for (unsigned k = threadIdx.x; k < slots; k += blockDim.x) {
      size_t address = ring + slot_bytes * size_t(slot_at(k, slots));
      asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(address)::"memory");
      seen ^= address;
    }
  if (__syncthreads_or(seen == 1)) return;  // never: addresses of slots are even
  if (threadIdx.x != 0) return;

  size_t address = ring + slot_bytes * size_t(slot_at(0, slots));
  unsigned steps = untimed;  // a round that finds what the block's reading has left
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned i = 0; i < steps; i += unroll)
#pragma unroll
      for (unsigned u = 0; u < unroll; ++u)
        asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(address)::"memory");
    steps = timed;
  }
  *answer = {clock64() - start, address - ring};
}

// ---- prediction ----

/// All KiB of the memory, and the amounts that shared memory may have: the CUDA Programming Guide's
/// tables by compute capability, as no call reports them. Empty where L1 is a memory of its own
/// (before 7.0), or where no table is known.
struct Splits {
  int total;
  std::vector<int> shared;
};
Splits splits_of(int major, int minor) {
  if (major == 7 && minor < 5) return {128, {0, 8, 16, 32, 64, 96}};
  if (major == 7) return {96, {32, 64}};
  if (major == 8 && (minor == 0 || minor == 7)) return {192, {0, 8, 16, 32, 64, 100, 132, 164}};
  if (major == 8 || major == 12) return {128, {0, 8, 16, 32, 64, 100}};
  if (major == 9 || major == 10) return {256, {0, 8, 16, 32, 64, 100, 132, 164, 196, 228}};
  return {0, {}};
}

/// What a launch asks for: a hint, in percent of the most that shared memory may have, or in the
/// older call's words; and its block's KiB.
struct Wish {
  std::string name;
  int percent = 0;
  int block_kib = 0;
  std::optional<cudaFuncCache> config = {};
};

/// The smallest amount that fulfils both; each block needs `reserved` KiB beside its own.
int shared_kib(const Splits& splits, const Wish& wish, int reserved) {
  const double hinted = wish.percent / 100.0 * splits.shared.back();
  const double needed = std::max<double>(hinted, wish.block_kib + reserved);
  for (const int kib : splits.shared)
    if (kib >= needed) return kib;
  return splits.shared.back();
}

/// Whole percent, rounded down, are still more than the amount below.
int percent_of(int kib, const Splits& splits) { return 100 * kib / splits.shared.back(); }

// ---- measuring ----

/// Cycles per load of a ring of so many KiB in `memory`.
double cycles(const DeviceBuffer<char>& memory, int kib, const Wish& wish) {
  const unsigned slots = (unsigned(kib) << 10) / slot_bytes;
  const unsigned untimed = (slots + unroll - 1) / unroll * unroll;
  const unsigned timed = std::max(2 * untimed, 2048u);
  const size_t ring = linked(memory, slots);
  const int block_bytes = wish.block_kib << 10;
  const int carveout = wish.config ? cudaSharedmemCarveoutDefault : wish.percent;
  CUDA_CHECK(
      cudaFuncSetAttribute(chase_split, cudaFuncAttributePreferredSharedMemoryCarveout, carveout));
  CUDA_CHECK(
      cudaFuncSetAttribute(chase_split, cudaFuncAttributeMaxDynamicSharedMemorySize, block_bytes));
  CUDA_CHECK(cudaFuncSetCacheConfig(chase_split, wish.config.value_or(cudaFuncCachePreferNone)));
  const DeviceBuffer<Answer> answer(1);
  chase_split<<<1, 1024, size_t(block_bytes)>>>(answer, ring, slots, untimed, timed);
  CUDA_CHECK_LAUNCH();
  const Answer found = answer.to_host()[0];
  if (found.end != slot_bytes * size_t(slot_at(untimed + timed, slots)) || found.cycles <= 0)
    throw WrongResult("carveout: the chase went astray");
  return double(found.cycles) / timed;
}

}  // namespace

void carveout(Run& run) {
  const Splits splits = splits_of(run.gpu.major, run.gpu.minor);
  run.title("rings in L1, which shares a memory with shared memory");
  if (splits.shared.empty())
    return run.note(run.gpu.major < 7 ? "before compute capability 7.0 L1 is a memory of its own"
                                      : "the splits of this GPU are not known here");

  std::vector<Wish> wishes;
  for (const int kib : splits.shared)
    wishes.push_back({"hint, " + std::to_string(kib) + " KiB", percent_of(kib, splits)});
  for (const int kib : {16, 48, 96, 160, 224})
    if (kib << 10 <= int(run.gpu.sharedMemPerBlockOptin))
      wishes.push_back({"a block needs " + std::to_string(kib) + " KiB", 0, kib});
  wishes.push_back({"cudaFuncCachePreferL1", 0, 0, cudaFuncCachePreferL1});
  wishes.push_back({"cudaFuncCachePreferEqual", 0, 0, cudaFuncCachePreferEqual});
  wishes.push_back({"cudaFuncCachePreferShared", 0, 0, cudaFuncCachePreferShared});

  constexpr int beyond = 16;  // KiB that rings exceed the whole memory at most
  const DeviceBuffer<char> memory(size_t(splits.total + beyond) << 10);
  const double hit = cycles(memory, 4, {});
  const int reserved = int((run.gpu.reservedSharedMemPerBlock + 1023) >> 10);
  int edge = 0;  // the first row's ring
  Table table("asked for", {"shared KiB", "L1 KiB predicted", "largest ring, KiB", ""});
  for (const Wish& wish : wishes) {
    const int ring = largest_fitting(
        1, splits.total, [&](int kib) { return all_hit(cycles(memory, kib, wish), hit); });
    if (&wish == &wishes[0]) edge = ring;
    const int shared = shared_kib(splits, wish, reserved);
    table.row(wish.name, {wish.config ? Cell("") : Cell(shared),
                          wish.config ? Cell("") : Cell(splits.total - shared), ring,
                          bar(double(ring) / splits.total)});
  }
  run.print(table);
  run.note("shared KiB: the smallest amount that is enough; L1 has the rest of " +
           std::to_string(splits.total) + " KiB");
  run.note("a load that hits takes " + digits(hit) + " cycles; rings differ by 1 KiB");

  Table slope("a ring around the first row's edge", {"cycles"});
  for (const int more : {-2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 16})
    if (edge + more > 0)
      slope.row(std::to_string(edge + more) + " KiB", {cycles(memory, edge + more, wishes[0])});
  run.print(slope);
}
SAMPLE(10, carveout, "one memory, split into L1 and shared memory");

TEST_CASE("carveout: the smallest amount that is enough, by hand") {
  const Splits h200 = splits_of(9, 0);
  CHECK(shared_kib(h200, {"", 0, 0}, 1) == 8);  // a block's reserved KiB
  CHECK(shared_kib(h200, {"", percent_of(100, h200), 0}, 1) == 100);
  CHECK(shared_kib(h200, {"", percent_of(228, h200), 0}, 1) == 228);
  CHECK(shared_kib(h200, {"", 0, 99}, 1) == 100);
  CHECK(shared_kib(h200, {"", 0, 100}, 1) == 132);
  CHECK(splits_of(6, 1).shared.empty());
}

TEST_CASE("carveout: the largest that fits") {
  for (const int step : {1, 4})
    for (const int last : {0, 4, 100, 252, 256})
      CHECK(largest_fitting(step, 256, [last](int kib) { return kib <= last; }) == last);
}

TEST_CASE("carveout: the chase goes round rings of all sizes") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<char> memory(256 << 10);
  for (const int kib : {1, 4, 63, 256}) CHECK(cycles(memory, kib, {}) > 1);
}
