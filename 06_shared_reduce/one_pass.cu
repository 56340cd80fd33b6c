// one_pass: a sum in one launch, as fast as memory. The guide [KP] ends its reduction with one sum
// per block, and adds these in further launches: no claim here. For a small array the launches are
// most of the time.
//
// The blocks of sum_once leave their sums in slots, and the last block adds them up: one launch,
// without an atomic. Look at the small sizes, where one launch less shows; then at the large ones,
// where both are as fast as memory. Then look at atomics, with which no block waits: who may add to
// the one sum, each thread, each warp, or each block alone?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o one_pass one_pass.cu ../common/*.cpp
//
//   1  sum_once        beside cub::DeviceReduce::Sum
//   2  sum_by_atomics  the same threads add the same words, and then atomicAdd
#include <algorithm>

#include "../common/sample.hpp"
#include "sums.cuh"

namespace {

// Two blocks of 512 threads on a multiprocessor leave each thread the registers for eight loads of
// 16 bytes that are in flight together.
constexpr unsigned tile_threads = 512, tile_loads = 8, tile_blocks_each = 2;
constexpr unsigned tile_quads = tile_threads * tile_loads;  // 64 KiB

using Slot = unsigned long long;

// The sum of a block's values, in its thread 0: each warp adds its own, one warp adds the warps'.
__device__ float block_sum(float value, float* of_warps) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  return warp_sum(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0);
}

// Leaves a block's sum in its slot: 8 bytes, the sum's bits and above them a 1, written by one
// store and read by one load. No thread sees one half without the other, so that no fence and no
// atomic is needed. In PTX `volatile` is a relaxed access of system scope; in C++ this is a race.
// cuda::atomic_ref would be no race, but is compiled to generic loads and stores (LD and ST instead
// of LDG and STG).
__device__ void put(volatile Slot* slot, float sum) {
  Slot marked = Slot(1) << 32;
  memcpy(&marked, &sum, sizeof sum);
  *slot = marked;
}

// Waits for the sums in a thread's slots and adds them. All loads of a round are issued before the
// first wait. Each slot is left at 0, as it was before the launch.
__device__ float take(volatile Slot* slots, unsigned count) {
  float sum = 0;
  for (unsigned first = threadIdx.x; first < count; first += tile_quads) {
    Slot found[tile_loads];
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const unsigned i = first + k * tile_threads;
      found[k] = i < count ? slots[i] : 0;
    }
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const unsigned i = first + k * tile_threads;
      if (i >= count) break;
      while (found[k] >> 32 == 0) found[k] = slots[i];
      slots[i] = 0;
      float there;
      memcpy(&there, &found[k], sizeof there);
      sum += there;
    }
  }
  return sum;
}

// A block takes tiles of 64 KiB, one grid apart: the sum of a thread's words.
__device__ float sum_of_tiles(const float* d_in, size_t n) {
  const unsigned tid = threadIdx.x;
  const Quads quads(d_in, n);
  float sum = quads.ends(d_in, n);
#pragma unroll 1
  for (size_t tile = blockIdx.x; tile * tile_quads < quads.count; tile += gridDim.x) {
    float4 v[tile_loads];
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) {
      const size_t i = tile * tile_quads + k * tile_threads + tid;
      v[k] = i < quads.count ? quads.quad[i] : float4{};
    }
#pragma unroll
    for (unsigned k = 0; k < tile_loads; ++k) sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
  }
  return sum;
}

// A block leaves its sum in a slot. The last block waits for all slots and adds them; the others wait
// for nothing. It keeps its place while it waits: so all blocks before it must have started, or find
// room on the GPU beside it. A launch that was aborted leaves marks in slots, which the next would
// take for its own: before it, set them to 0. Two launches at once need slots of their own.
__global__ void __launch_bounds__(tile_threads, tile_blocks_each)
    sum_once(const float* d_in, float* d_out, size_t n, Slot* slots) {
  __shared__ float of_block[tile_threads / 32], of_grid[tile_threads / 32];
  const unsigned tid = threadIdx.x;
  float sum = block_sum(sum_of_tiles(d_in, n), of_block);
  if (tid == 0) put(slots + blockIdx.x, sum);
  if (blockIdx.x < gridDim.x - 1) return;
  sum = block_sum(take(slots, gridDim.x), of_grid);
  if (tid == 0) *d_out = sum;
}

// The sum of a warp's whole numbers, as long as it is below 2^24: one instruction where the
// capability has it, for integers alone.
__device__ float warp_sum_of_integers(float value) {
#if __CUDA_ARCH__ >= 800
  return float(__reduce_add_sync(~0u, int(value)));
#else
  return warp_sum(value);
#endif
}

enum class Each { thread, warp, block };

// What each thread, each warp or each block has found is added to the one sum, which was 0 before:
// one addition after the other, in the L2. No block waits for another.
template <Each each>
__global__ void __launch_bounds__(tile_threads, tile_blocks_each)
    sum_by_atomics(const float* d_in, float* d_out, size_t n) {
  __shared__ float of_block[tile_threads / 32];
  float sum = sum_of_tiles(d_in, n);
  if (each == Each::warp) sum = warp_sum_of_integers(sum);
  if (each == Each::block) sum = block_sum(sum, of_block);
  constexpr unsigned threads = each == Each::thread ? 1 : each == Each::warp ? 32 : tile_threads;
  if (threadIdx.x % threads == 0) atomicAdd(d_out, sum);
}

/// Blocks of a launch: one per tile until every multiprocessor is full, then one per four tiles. So
/// at the end all multiprocessors have work, and the last block has few slots to read.
size_t tile_blocks(size_t n, size_t multiprocessors) {
  const size_t tiles = (n + 4 * tile_quads - 1) / (4 * tile_quads);
  return std::max(std::min(tiles, tile_blocks_each * multiprocessors), (tiles + 3) / 4);
}

/// Up to n words, and the memory that their sums take.
struct Words {
  size_t multiprocessors, n, offset = 0;
  DeviceBuffer<float> words = filled_words(offset, n);
  const float* in = words + offset;
  GuardedBuffer<float> out{1};
  DeviceBuffer<Slot> slots{std::vector<Slot>(tile_blocks(n, multiprocessors), 0)};
  Cub cub{n};

  unsigned blocks(size_t first) const { return unsigned(tile_blocks(first, multiprocessors)); }
};

// ---- the launches: add yours here ----

template <Each each>
void by_atomics(const Words& x, size_t n) {
  CUDA_CHECK(cudaMemsetAsync(x.out, 0, sizeof(float)));
  sum_by_atomics<each><<<x.blocks(n), tile_threads>>>(x.in, x.out, n);
}

/// A way to add the first n words.
struct Way {
  const char* name;
  void (*launch)(const Words& x, size_t n);
};
const Way once{"sum_once", [](const Words& x, size_t n) {
                 sum_once<<<x.blocks(n), tile_threads>>>(x.in, x.out, n, x.slots);
               }};
const Way ways[] = {
    once,
    {"CUB", [](const Words& x, size_t n) { x.cub.sum(x.in, x.out, n); }},
    {"per thread", by_atomics<Each::thread>},
    {"per warp", by_atomics<Each::warp>},
    {"per block", by_atomics<Each::block>},
};

Benchmark benchmark_of(const Way& way, const Words& x, size_t n, const std::string& size = "") {
  return {way.name + size, [=] { way.launch(x, n); }, is_sum(x.out, n, [=] { x.out.poison(); })};
}

}  // namespace

void one_pass(Run& run) {
  const Words x{size_t(run.gpu.multiProcessorCount),
                run.fitting(size_t(1) << (run.quick ? 26 : 30), 4.1)};
  run.title("a sum in one launch, and by CUB, of up to " + bytes_text(4.0 * double(x.n)));
  std::vector<int> powers;
  std::vector<Benchmark> benchmarks;
  for (const int power : {20, 24, 28, 30})
    if (const size_t n = size_t(1) << power; n <= x.n) {
      powers.push_back(power);
      for (const Way& way : ways)
        benchmarks.push_back(benchmark_of(way, x, n, " 2^" + std::to_string(power)));
    }
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("floats", {"sum_once us", "CUB us", "sum_once GB/s", "CUB GB/s", "CUB / sum_once"});
  Table atomics("floats, atomics", {"blocks", "per thread GB/s", "per warp GB/s", "per block GB/s",
                                    "per block / sum_once"});
  for (const int power : powers) {
    const std::string row = "2^" + std::to_string(power);
    const size_t n = size_t(1) << power;
    const auto times = [&](const std::string& way) { return timed[way + " " + row]; };
    const auto gbs = [&](const std::string& way) {
      return times(way).gbs_interval(4.0 * double(n));
    };
    table.row(row, {times("sum_once").us_interval(), times("CUB").us_interval(), gbs("sum_once"),
                    gbs("CUB"), ratio(times("CUB"), times("sum_once"))});
    atomics.row(row, {x.blocks(n), gbs("per thread"), gbs("per warp"), gbs("per block"),
                      ratio(times("per block"), times("sum_once"))});
  }
  run.print(table);
  run.note("an array that fits into the L2, " + bytes_text(run.gpu.l2CacheSize) +
           ", is read from there: 2^20 floats are 4 MiB");
  run.print(atomics);
  run.note("per thread, per warp, per block: who adds to the one sum; a block has " +
           std::to_string(tile_threads) + " threads. The");
  run.note(
      "cudaMemset to 0 that they need before is in their time; per block / sum_once: of times");
}
SAMPLE(2, one_pass, "a sum in one launch, as fast as memory, beside CUB and atomics");

TEST_CASE("one_pass: blocks, by hand: one per tile, at last one per four") {
  CHECK(tile_blocks(1, 1) == 1);
  CHECK(tile_blocks(16385, 1) == 2);
  CHECK(tile_blocks(8 * 16384, 1) == 2);
  CHECK(tile_blocks(8 * 16384 + 1, 1) == 3);
  CHECK(tile_blocks(size_t(1) << 28, 132) == 4096);
}

// Few words, in many blocks of one multiprocessor, so that racecheck comes to its end.
TEST_CASE("one_pass: the sum is right at awkward sizes and alignments, and again") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 33, 257, 1009, 65539, 8 * 16384 + 1})
    for (const size_t offset : {0, 1, 31}) {
      const Words x{1, n, offset};
      for (const Way& way : ways) {
        CAPTURE(way.name);
        CAPTURE(n);
        CAPTURE(offset);
        CHECK_NOTHROW(require_right(benchmark_of(way, x, n)));
      }
      // other words, and then all once more, over what the launches before left in the slots
      CHECK_NOTHROW(require_right(benchmark_of(once, x, (n + 1) / 2)));
      CHECK_NOTHROW(require_right(benchmark_of(once, x, n)));
    }
}

TEST_CASE("one_pass: one word taken twice in another's place is noticed") {
  if (skip_without_gpu()) return;
  const size_t n = 1009;
  const Words x{1, n};
  REQUIRE(word_at(0) != word_at(1008));
  CUDA_CHECK(cudaMemcpy(x.words.data(), x.words + 1008, sizeof(float), cudaMemcpyDeviceToDevice));
  for (const Way& way : ways) {
    CAPTURE(way.name);
    CHECK_THROWS_AS(require_right(benchmark_of(way, x, n)), WrongResult);
  }
}
