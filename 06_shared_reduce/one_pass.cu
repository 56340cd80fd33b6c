// one_pass: a sum in one launch, as fast as memory. The guide [KP] ends its reduction with one sum
// per block, and adds these in further launches: no claim here. For a small array the launches are
// most of the time.
//
// The blocks of sum_once leave their sums in slots, and the last block adds them up: one launch,
// without an atomic. Look at the small sizes, where one launch less shows; then at the large ones,
// where both are as fast as memory.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o one_pass one_pass.cu ../common/*.cpp
//
//   1  sum_once  beside cub::DeviceReduce::Sum
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
// atomic is needed.
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

// A block takes tiles of 64 KiB, one grid apart, and leaves its sum in a slot. The last block waits
// for all slots and adds them. The others wait for nothing: all blocks end, in whatever order they
// start.
__global__ void __launch_bounds__(tile_threads, tile_blocks_each)
    sum_once(const float* d_in, float* d_out, size_t n, Slot* slots) {
  __shared__ float of_block[tile_threads / 32], of_grid[tile_threads / 32];
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
  sum = block_sum(sum, of_block);
  if (tid == 0) put(slots + blockIdx.x, sum);
  if (blockIdx.x < gridDim.x - 1) return;
  sum = block_sum(take(slots, gridDim.x), of_grid);
  if (tid == 0) *d_out = sum;
}

/// Blocks of sum_once: one per tile until every multiprocessor is full, then one per four tiles. So
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
};

/// The first n words, added up by ours or by CUB.
Benchmark by_one_launch(const std::string& name, const Words& x, size_t n) {
  const unsigned blocks = unsigned(tile_blocks(n, x.multiprocessors));
  const auto work = [&x, n, blocks] {
    sum_once<<<blocks, tile_threads>>>(x.in, x.out, n, x.slots);
  };
  return {name, work, is_sum(x.out, n, [&x] { x.out.poison(); })};
}
Benchmark by_cub(const std::string& name, const Words& x, size_t n) {
  return {name, [&x, n] { x.cub.sum(x.in, x.out, n); }, is_sum(x.out, n, [&x] { x.out.poison(); })};
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
      benchmarks.push_back(by_one_launch("sum_once 2^" + std::to_string(power), x, n));
      benchmarks.push_back(by_cub("CUB 2^" + std::to_string(power), x, n));
    }
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("floats", {"sum_once us", "CUB us", "sum_once GB/s", "CUB GB/s", "CUB / sum_once"});
  for (const int power : powers) {
    const std::string row = "2^" + std::to_string(power);
    const Times &ours = timed["sum_once " + row], &cub = timed["CUB " + row];
    const double bytes = 4.0 * double(size_t(1) << power);
    table.row(row, {ours.us_interval(), cub.us_interval(), ours.gbs_interval(bytes),
                    cub.gbs_interval(bytes), ratio(cub, ours)});
  }
  run.print(table);
  run.note("an array that fits into the L2, " + bytes_text(run.gpu.l2CacheSize) +
           ", is read from there: 2^20 floats are 4 MiB");
}
SAMPLE(2, one_pass, "a sum in one launch, as fast as memory, beside CUB");

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
      for (const Benchmark& benchmark : {by_one_launch("sum_once", x, n), by_cub("CUB", x, n)}) {
        CAPTURE(benchmark.name);
        CAPTURE(n);
        CAPTURE(offset);
        CHECK_NOTHROW(require_right(benchmark));
      }
      // other words, and then all once more, over what the launches before left in the slots
      CHECK_NOTHROW(require_right(by_one_launch("half", x, (n + 1) / 2)));
      CHECK_NOTHROW(require_right(by_one_launch("again", x, n)));
    }
}

TEST_CASE("one_pass: one word taken twice in another's place is noticed") {
  if (skip_without_gpu()) return;
  const size_t n = 1009;
  const Words x{1, n};
  REQUIRE(word_at(0) != word_at(1008));
  CUDA_CHECK(cudaMemcpy(x.words.data(), x.words + 1008, sizeof(float), cudaMemcpyDeviceToDevice));
  CHECK_THROWS_AS(require_right(by_one_launch("sum_once", x, n)), WrongResult);
}
