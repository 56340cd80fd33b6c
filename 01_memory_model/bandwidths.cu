// bandwidths: how fast do all multiprocessors read? Dr. Dobb's has global memory 100-150 times
// slower than shared memory [DD], and does not say whether it means the latency (see `latency`) or
// the rate.
//
// Look at the two rates: they differ by much less than the latencies. Loads that are in flight at
// the same time do not wait for each other.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o bandwidths bandwidths.cu ../common/*.cpp
//
//   1  read_shared  all threads read a tile in shared memory, over and over
//   2  read_global  all threads read a large array once
#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels: thread t of the grid leaves the sum of what it read in sums[t] ----

constexpr unsigned block_threads = 1024;
constexpr unsigned loads_per_turn = 8;  // so that the loop around them hardly counts
constexpr unsigned tile_quads = block_threads + loads_per_turn;

__device__ unsigned added(uint4 quad) { return quad.x + quad.y + quad.z + quad.w; }

// The block fills shared memory with quads of 16 bytes. Then, over and over, each warp loads 32
// neighbouring quads, without a bank conflict: 4 passes through 32 banks of 4 bytes.
__global__ void __launch_bounds__(block_threads)
    read_shared(unsigned* sums, const uint4* in, unsigned turns) {
  __shared__ uint4 tile[tile_quads];
  for (unsigned i = threadIdx.x; i < tile_quads; i += blockDim.x) tile[i] = in[i];
  __syncthreads();

  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same quads have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_per_turn; ++load) sum += added(tile[threadIdx.x + load]);
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each warp reads 32 neighbouring quads, 512 bytes. Four loads of each thread are in flight.
__global__ void __launch_bounds__(block_threads)
    read_global(unsigned* sums, const uint4* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) sum += added(in[i + k * threads]);
  }
  for (; i < n; i += threads) sum += added(in[i]);  // what is left, one at a time
  sums[tid] = sum;
}

// ---- the readers and their checks: word i of what they read is hash(i) ----

__host__ __device__ unsigned sum_of_words(size_t first, size_t count) {
  unsigned sum = 0;
  for (size_t i = first; i < first + count; ++i) sum += hash(i);
  return sum;
}

/// Both readers of words that are at least a tile. Of n quads, a thread of read_global sums every
/// quad q with q % threads == thread; of a tile, a thread of read_shared eight quads in each turn.
std::vector<Benchmark> readers(const DeviceBuffer<unsigned>& words,
                               const GuardedBuffer<unsigned>& sums, unsigned turns) {
  const size_t n = words.size() / 4, threads = sums.size();
  const unsigned blocks = unsigned(threads / block_threads);
  const auto* in = reinterpret_cast<const uint4*>(words.data());
  const auto shared = [=, &sums] { read_shared<<<blocks, block_threads>>>(sums, in, turns); };
  const auto global = [=, &sums] { read_global<<<blocks, block_threads>>>(sums, in, n); };
  const auto of_tile = [=] __device__(size_t thread) {
    return turns * sum_of_words(4 * (thread % block_threads), 4 * loads_per_turn);
  };
  const auto of_quads = [=] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t quad = thread; quad < n; quad += threads) sum += sum_of_words(4 * quad, 4);
    return sum;
  };
  return {{"shared", shared, equals(sums, of_tile)}, {"global", global, equals(sums, of_quads)}};
}

DeviceBuffer<unsigned> hashes(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

}  // namespace

void bandwidths(Run& run) {
  size_t bytes = size_t(256) << 20;
  while (!run.beyond_l2(double(bytes))) bytes *= 2;
  run.title("all multiprocessors read: shared memory, and " + bytes_text(double(bytes)) +
            " of global memory");
  if (!run.fits(double(bytes))) return run.note("left out: too little memory is free");
  constexpr unsigned turns = 512;  // 0.5 ms on 9.0, beside which filling the tile hardly counts
  const DeviceBuffer<unsigned> words = hashes(bytes / sizeof(unsigned));
  const GuardedBuffer<unsigned> sums(2 * size_t(run.gpu.multiProcessorCount) * block_threads);
  const Timings timed = run.timer.interleaved(readers(words, sums, turns));
  const double shared_bytes = 16.0 * double(sums.size()) * turns * loads_per_turn;
  const Interval shared = timed["shared"].gbs_interval(shared_bytes);
  const Interval global = timed["global"].gbs_interval(double(bytes));
  const double banks =
      128e-6 * device_attribute(cudaDevAttrClockRate) * run.gpu.multiProcessorCount;
  const double memory =
      2e-6 * device_attribute(cudaDevAttrMemoryClockRate) * run.gpu.memoryBusWidth / 8;

  Table table("all multiprocessors read", {"theory, GB/s", "GB/s", "of theory", ""});
  table.row("shared", {banks, shared, percent(shared.value / banks), bar(1)});
  table.row("global",
            {memory, global, percent(global.value / memory), bar(global.value / shared.value)});
  run.print(table);
  run.note("theory: 32 banks of 4 bytes per cycle; 2 transfers per memory clock x width");

  const double per_byte = shared_bytes / double(bytes);
  const Interval r = ratio(timed["global"], timed["shared"]);
  run.claim({"01.10b", "global memory is 100 to 150 times slower than shared, in bandwidth",
             "[DD] \"between 100x-150x slower\""},
            {per_byte * r, "times as long for a byte of global memory as for one of shared memory"},
            more_by(100, 150));
}
SAMPLE(8, bandwidths, "what all multiprocessors read per second");

TEST_CASE("bandwidths: both readers read every word, and write nothing behind their sums") {
  if (skip_without_gpu()) return;
  for (const size_t blocks : {1, 3, 7})
    for (const unsigned quads : {1u, 1009u, tile_quads, 65537u})
      for (const unsigned turns : {1u, 2u, 31u}) {
        CAPTURE(blocks);
        CAPTURE(quads);
        const DeviceBuffer<unsigned> words = hashes(4 * quads);
        const GuardedBuffer<unsigned> sums(blocks * block_threads);
        for (const Benchmark& reader : readers(words, sums, turns))
          if (reader.name == "global" || quads >= tile_quads) CHECK_NOTHROW(require_right(reader));
      }
}
