// latency, bandwidth: Dr. Dobb's has global memory 100-150 times slower than shared memory [DD].
// Beside the latency of one load stands what all multiprocessors together read in a second.
//
//   1  read_shared  every warp reads 512 neighbouring bytes of shared memory, again and again
//   2  read_global  every warp reads 512 neighbouring bytes of global memory, then the next
#include <algorithm>

#include "chase.cuh"

namespace {

constexpr unsigned block_threads = 1024;
// Two at once where a multiprocessor surely has room for 2048 threads. Where it has not (7.5, 8.6
// to 8.9, 12.x), ptxas would refuse the wish.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900 && \
    __CUDA_ARCH__ != 1000 && __CUDA_ARCH__ != 1030
constexpr int blocks_at_once = 1;
#else
constexpr int blocks_at_once = 2;
#endif
constexpr unsigned loads_a_turn = 8;  // so that the loop around them hardly counts
constexpr unsigned tile_words = block_threads + loads_a_turn;

// ---- kernels: thread t leaves the sum of what it read in sums[t] ----

// [read_shared]
// The block fills shared memory with quads of 16 bytes. Then, over and over, each warp loads 32
// neighbouring quads, without a bank conflict: 4 passes through 32 banks of 4 bytes.
__global__ void __launch_bounds__(block_threads, blocks_at_once)
    read_shared(unsigned* sums, const uint4* in, unsigned turns) {
  __shared__ uint4 tile[tile_words];
  for (unsigned i = threadIdx.x; i < tile_words; i += blockDim.x) tile[i] = in[i];  // fill
  __syncthreads();

  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same quads have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) {
      const uint4 quad = tile[threadIdx.x + load];
      sum += quad.x + quad.y + quad.z + quad.w;
    }
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/read_shared]

// Four loads of each thread are under way at a time.
__global__ void __launch_bounds__(block_threads, blocks_at_once)
    read_global(unsigned* sums, const uint4* in, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 3 * threads < n; i += 4 * threads) {
    const uint4 a = in[i];
    const uint4 b = in[i + threads];
    const uint4 c = in[i + 2 * threads];
    const uint4 d = in[i + 3 * threads];
    sum += (a.x + a.y + a.z + a.w) + (b.x + b.y + b.z + b.w);
    sum += (c.x + c.y + c.z + c.w) + (d.x + d.y + d.z + d.w);
  }
  for (; i < n; i += threads) {  // what is left, one at a time
    const uint4 a = in[i];
    sum += a.x + a.y + a.z + a.w;
  }
  sums[tid] = sum;
}

// ---- what is right ----

/// Word i: without pattern, so that no two words stand in for two others.
__host__ __device__ unsigned word_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

__global__ void fill(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = word_at(i);
}

/// Hands every word of global memory to the thread that has to read it: from words to threads,
/// where the kernel goes from threads to words.
__global__ void add_to_readers(unsigned* right, unsigned readers, size_t words) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += threads)
    atomicAdd(&right[i / 4 % readers], word_at(i));
}

/// What every thread of a block sums up in shared memory.
std::vector<unsigned> shared_sums(unsigned blocks, unsigned turns) {
  std::vector<unsigned> sums;
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < block_threads; ++thread) {
      unsigned once = 0;
      for (unsigned word = 4 * thread; word < 4 * (thread + loads_a_turn); ++word)
        once += word_at(word);
      sums.push_back(once * turns);
    }
  return sums;
}

/// What both kernels read, and what their threads find.
struct Memory {
  static constexpr size_t canaries = 64;  ///< behind the sums

  unsigned blocks;
  DeviceBuffer<unsigned> words;
  DeviceBuffer<unsigned> sums{size_t(blocks) * block_threads + canaries};
  DeviceBuffer<unsigned> right{size_t(blocks) * block_threads};

  /// `quads`: of 16 bytes, at least as many as fill a block's shared memory.
  Memory(unsigned blocks, size_t quads) : blocks(blocks), words(4 * quads) {
    fill<<<1024, 256>>>(words.data(), words.size());
    CUDA_CHECK_LAUNCH();
  }
  const uint4* quads() const { return reinterpret_cast<const uint4*>(words.data()); }
  double bytes() const { return double(words.bytes()); }
  unsigned threads() const { return blocks * block_threads; }

  /// Sums that are not these; nothing behind them may have been written.
  size_t wrong(std::vector<unsigned> expected) const {
    expected.resize(sums.size(), ~0u);  // as poisoned
    const std::vector<unsigned> found = sums.to_host();
    size_t wrong = 0;
    for (size_t t = 0; t < found.size(); ++t) wrong += found[t] != expected[t];
    return wrong;
  }
  std::vector<unsigned> global_sums() {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_readers<<<1024, 256>>>(right.data(), threads(), words.size());
    CUDA_CHECK_LAUNCH();
    return right.to_host();
  }
  Task shared_task(unsigned turns) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, turns] { return wrong(shared_sums(blocks, turns)); };
    return {"read_shared",
            [this, turns] { read_shared<<<blocks, block_threads>>>(sums.data(), quads(), turns); },
            std::move(check)};
  }
  Task global_task() {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this] { return wrong(global_sums()); };
    return {
        "read_global",
        [this] { read_global<<<blocks, block_threads>>>(sums.data(), quads(), words.size() / 4); },
        std::move(check)};
  }
};

// ---- what to expect ----

/// Bytes that the loads of a launch take out of shared memory.
double bytes_from_shared(double threads, double turns) {
  return threads * turns * loads_a_turn * sizeof(uint4);
}

/// GB/s of 32 banks of 4 bytes in every cycle, at the highest clock that the device reports.
double banks_gbs(const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  return 128e-6 * device.sm_clock_khz * device.prop.multiProcessorCount;
}

/// Two transfers a clock over the width of the interface, where they are reported.
double interface_gbs(const Device& device) {
  return device.theoretical_gbs > 0 ? device.theoretical_gbs : NAN;
}

// ---- the experiment ----

/// How many times as many bytes a second as from global memory.
Interval times_as_fast(const Readings& shared, double shared_bytes, const Readings& global,
                       double global_bytes) {
  return scaled(ratio(global, shared), shared_bytes / global_bytes);
}

/// Bytes of the array in global memory: beyond the L2, or what fits.
size_t global_bytes(const Run& run) {
  size_t wanted = size_t(256) << 20;
  while (!beyond_l2(*run.device, double(wanted))) wanted *= 2;
  return fitting_size("latency", 0, wanted, run.memory_there(),
                      [](size_t n) { return 1.1 * double(n); });
}

void judge_bandwidth(const Run& run, const Interval& r) {
  run.report.judge({"01.10b", "global memory is 100-150 times slower than shared, in bandwidth",
                    "100-150x slower", "Dr. Dobb's"},
                   beats(100, 150), r, slower(r) + ", all multiprocessors reading");
}

}  // namespace

void chase::measure_bandwidth(const Run& run) {
  if (!run.device) return judge_bandwidth(run, {});
  const Device& device = *run.device;
  const size_t bytes = global_bytes(run);
  constexpr unsigned turns = 512;  // 0.5 ms on 9.0, beside which filling the tile hardly counts
  Memory memory(2 * unsigned(device.prop.multiProcessorCount),
                std::max<size_t>(bytes / sizeof(uint4), tile_words));
  const std::vector<Readings> times =
      run.time_in_turn({memory.shared_task(turns), memory.global_task()});

  const double from_shared = bytes_from_shared(memory.threads(), turns);
  const Statistics shared = gigabytes_per_second(from_shared, times[0].statistics());
  const Statistics global = gigabytes_per_second(memory.bytes(), times[1].statistics());
  Table table(run.report, "all multiprocessors read",
              {compared("GB/s", "bandwidth", "GB/s", 0), shown("spread")});
  table.row({"shared"}, {Compared{banks_gbs(device), shared}, spread_text(shared)});
  table.row({"global"}, {Compared{interface_gbs(device), global}, spread_text(global)});
  table.print();
  run.report.note("predicted: 32 banks of 4 bytes a cycle; the memory's clock and width");
  const bool past_l2 = beyond_l2(device, memory.bytes());
  judge_bandwidth(run, past_l2 ? times_as_fast(times[0], from_shared, times[1], memory.bytes())
                               : not_measured("too little memory is free to read beyond the L2"));
}
