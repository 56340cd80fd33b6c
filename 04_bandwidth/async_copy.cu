// async_copy: what do copies gain that need no registers? An ordinary load has registers of its
// thread waiting for it. cp.async (compute capability 8.0) brings data into shared memory, and no
// register waits. No text asks for it.
//
// Look at the gain over plain loads with as many bytes in flight: there is next to none. So a ring
// saves registers, and does not make memory faster.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o async_copy async_copy.cu ../common/*.cpp
//
//   1  plain       loads into registers
//   2  async_ring  cp.async: each thread copies 16 bytes at a time into a ring of stages
#include <cuda_pipeline_primitives.h>
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels that sum n words of 16 bytes: block b takes the tiles b, b + blocks, b + 2 blocks
// ... Each thread sums `words` words of every tile, and stores its sum at the end ----

// A thread loads all its words of a tile before it adds the first: each holds four registers from
// then on. A warp loads 32 neighbouring words, 512 bytes, with one instruction. The launch bounds
// say that one resident block is enough. Without them the compiler uses only 32 registers, so that
// many blocks fit, and at most six words are in flight.
template <unsigned words>
__global__ void __launch_bounds__(256, 1) plain(unsigned* out, const uint4* in, size_t n) {
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t first = size_t(blockIdx.x) * tile;
  unsigned sum = 0;
#pragma unroll 1  // else the compiler would put the words of several tiles in flight
  for (; first + tile <= n; first += step) {
    uint4 word[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) word[k] = in[first + k * blockDim.x + threadIdx.x];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
#pragma unroll 1
  for (size_t i = first + threadIdx.x; i < n; i += blockDim.x)  // the last tile, if it is not full
    sum += in[i].x + in[i].y + in[i].z + in[i].w;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Adds this thread's words of a tile in shared memory: words `first` and on of the array's n.
template <unsigned words>
__device__ void add_words(unsigned& sum, const uint4* tile, size_t first, size_t n) {
#pragma unroll
  for (unsigned k = 0; k < words; ++k) {
    const unsigned i = k * blockDim.x + threadIdx.x;
    if (first + i < n) {
      const uint4 word = tile[i];
      sum += word.x + word.y + word.z + word.w;
    }
  }
}

// The same tiles, but `stages` of them are in flight to shared memory. A warp still issues one
// instruction for each 512 bytes, but no register waits. Each thread reads only the words that it
// asked for itself, so the block needs no barrier. `stages` is a constant because the instruction
// that waits contains it.
template <unsigned stages, unsigned words>
__global__ void async_ring(unsigned* out, const uint4* in, size_t n) {
  extern __shared__ __align__(128) uint4 ring[];
  const unsigned tile = words * blockDim.x;
  const size_t step = size_t(gridDim.x) * tile;
  size_t next = size_t(blockIdx.x) * tile;  // the next tile to ask for
  const auto ask_for_next = [&](unsigned stage) {
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {
      const unsigned i = k * blockDim.x + threadIdx.x;
      if (next + i < n) __pipeline_memcpy_async(&ring[stage * tile + i], &in[next + i], 16);
    }
    __pipeline_commit();  // even if the array has ended: waiting counts commits
    next += step;
  };
#pragma unroll 1
  for (unsigned stage = 0; stage < stages; ++stage) ask_for_next(stage);
  unsigned sum = 0;
  unsigned stage = 0;
#pragma unroll 1
  for (size_t first = size_t(blockIdx.x) * tile; first < n; first += step) {
    __pipeline_wait_prior(stages - 1);  // until only so many are in flight: the oldest has arrived
    __syncwarp();                       // the compiler reads nothing before
    add_words<words>(sum, &ring[stage * tile], first, n);
    ask_for_next(stage);
    stage = (stage + 1) % stages;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- the rows of the table: one block of 128 threads on each multiprocessor ----

constexpr unsigned threads = 128;

struct Sum {
  const char* name;
  void (*kernel)(unsigned* out, const uint4* in, size_t n);
  bool ring;               ///< in shared memory
  unsigned stages, words;  ///< of each stage `words` words per thread are in flight
  size_t in_flight() const { return sizeof(uint4) * stages * words * threads; }
};
/// In pairs with as many bytes in flight, plain loads first.
const Sum sums[] = {
    {"plain, 4 loads", plain<4>, false, 1, 4},
    {"async_ring, 4 x 2 KiB", async_ring<4, 1>, true, 4, 1},
    {"plain, 16 loads", plain<16>, false, 1, 16},
    {"async_ring, 4 x 8 KiB", async_ring<4, 4>, true, 4, 4},
    {"plain, 32 loads", plain<32>, false, 1, 32},
    {"async_ring, 4 x 16 KiB", async_ring<4, 8>, true, 4, 8},
};

/// Why this GPU, or this build, has no cp.async; or nothing.
std::string lacking(const Sum& sum, const cudaDeviceProp& gpu) {
  if (!sum.ring) return "";
  if (gpu.major < 8) return "needs compute capability 8.0";
  cudaFuncAttributes code{};
  CUDA_CHECK(cudaFuncGetAttributes(&code, sum.kernel));
  return code.ptxVersion < 80 ? "this build has no code for compute capability 8.0" : "";
}

// ---- the experiment ----

DeviceBuffer<unsigned> filled_words(size_t n) {
  return filled<unsigned>(n, [] __device__(size_t i) { return hash(i); });
}

/// What is summed, and the sums that so many blocks leave.
struct Words {
  size_t n;
  unsigned blocks;
  DeviceBuffer<unsigned> in = filled_words(4 * n);
  GuardedBuffer<unsigned> out{size_t(blocks) * threads};
  const uint4* words() const { return reinterpret_cast<const uint4*>(in.data()); }
};

unsigned total_of(const DeviceBuffer<unsigned>& x) {
  return unsigned(sum_of(x.size(), [x = x.data()] __device__(size_t i) { return size_t(x[i]); }));
}

/// More than half of a multiprocessor's shared memory keeps others off it.
Benchmark benchmark_of(const Sum& sum, const Words& x, const cudaDeviceProp& gpu) {
  const size_t shared =
      std::max(sum.ring ? sum.in_flight() : 0,
               std::min(gpu.sharedMemPerMultiprocessor / 2 + 1024, gpu.sharedMemPerBlockOptin));
  CUDA_CHECK(  // more than 48 KiB have to be allowed
      cudaFuncSetAttribute(sum.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  const auto work = [=, kernel = sum.kernel] {
    kernel<<<x.blocks, threads, shared>>>(x.out, x.words(), x.n);
  };
  const auto find_error = [x, total = total_of(x.in)] {
    return total_of(x.out) == total ? guard_error(x.out) : "the sum is wrong";
  };
  return {sum.name, work, {[x] { x.out.poison(); }, find_error}};
}

}  // namespace

void async_copy(Run& run) {
  const size_t n = run.fitting(run.quick ? 1 << 24 : 1 << 26, sizeof(uint4));
  const Words x{n, unsigned(run.gpu.multiProcessorCount)};
  const double bytes = double(x.in.bytes());
  run.title(bytes_text(bytes) + " summed by one block of 128 threads on each multiprocessor");
  std::vector<Benchmark> benchmarks;
  for (const Sum& sum : sums)
    if (lacking(sum, run.gpu).empty()) benchmarks.push_back(benchmark_of(sum, x, run.gpu));
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("sum", {"KiB in flight", "ms", "spread", "GB/s", "gain over plain"});
  std::string loads;
  for (const Sum& sum : sums) {
    if (!sum.ring) loads = sum.name;
    if (const std::string why = lacking(sum, run.gpu); !why.empty()) {
      table.missing(sum.name, why);
      continue;
    }
    const Times& times = timed[sum.name];
    table.row(sum.name,
              {sum.in_flight() / 1024, times.ms_interval(), percent(times.spread()),
               times.gbs_interval(bytes), sum.ring ? Cell(ratio(timed[loads], times)) : Cell("")});
  }
  run.print(table);
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: its rates, not the memory's");
  run.note("KiB in flight: on a multiprocessor, which has one block");
  run.note("gain: the time of plain loads with as many bytes in flight, over the row's");
}
SAMPLE(8, async_copy, "copies without registers, which gain next to nothing");

TEST_CASE("async_copy: bytes in flight, by hand") {
  const size_t KiB[] = {8, 8, 32, 32, 64, 64};
  for (size_t i = 0; i < std::size(sums); ++i) CHECK(sums[i].in_flight() == 1024 * KiB[i]);
}

TEST_CASE("async_copy: each thread sums its words, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const Sum& sum : sums)
    for (const size_t n : {1, 127, 128, 1009, 20011, 98304}) {
      if (!lacking(sum, current_gpu()).empty()) continue;
      CAPTURE(std::string(sum.name));
      CAPTURE(n);
      const Words x{n, 3};
      CHECK_NOTHROW(require_right(benchmark_of(sum, x, current_gpu())));
      const size_t tile = size_t(sum.words) * threads;
      std::vector<unsigned> right(x.out.size(), 0);
      for (size_t i = 0; i < n; ++i)  // tiles go round the blocks, their words round the threads
        for (size_t part = 0; part < 4; ++part)
          right[i / tile % x.blocks * threads + i % tile % threads] += hash(4 * i + part);
      CHECK(x.out.to_host() == right);
    }
}
