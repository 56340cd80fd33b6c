// latency, bandwidth: Dr. Dobb's has global memory 100-150 times slower than shared memory [DD].
// Beside the latency of one load stands what all multiprocessors together read in a second.
//
//   1  read_shared  every warp reads 512 neighbouring bytes of shared memory, again and again
//   2  read_global  every warp reads 512 neighbouring bytes of global memory, then the next
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "latency.hpp"

using namespace samples;

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

// Four loads of each thread are in flight at a time.
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

/// Word i of what is read.
struct Word {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// Hands every word of global memory to the thread that has to read it: from words to threads,
/// where the kernel goes from threads to words.
__global__ void add_to_readers(unsigned* right, unsigned readers, size_t words) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += threads)
    atomicAdd(&right[i / 4 % readers], scrambled(i));
}

/// What every thread of a block sums up in shared memory.
std::vector<unsigned> shared_sums(unsigned blocks, unsigned turns) {
  std::vector<unsigned> sums;
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < block_threads; ++thread) {
      unsigned once = 0;
      for (unsigned word = 4 * thread; word < 4 * (thread + loads_a_turn); ++word)
        once += scrambled(word);
      sums.push_back(once * turns);
    }
  return sums;
}

struct IsSum {
  const unsigned* right;
  __device__ bool operator()(size_t thread, unsigned found) const { return found == right[thread]; }
};

/// What both kernels read, and what their threads find.
struct Memory {
  unsigned blocks;
  DeviceBuffer<unsigned> words;
  Output<unsigned> sums;
  DeviceBuffer<unsigned> right;

  /// `quads`: of 16 bytes, at least as many as fill a block's shared memory.
  Memory(unsigned blocks, size_t quads)
      : blocks(blocks),
        words(filled<unsigned>(4 * quads, Word{})),
        sums(threads()),
        right(threads()) {}
  unsigned threads() const { return blocks * block_threads; }
  const uint4* quads() const { return reinterpret_cast<const uint4*>(words.data()); }

  size_t wrong_from_shared(unsigned turns) {
    right.copy_from(shared_sums(blocks, turns));
    return sums.wrong(IsSum{right.data()});
  }
  size_t wrong_from_global() {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_readers<<<1024, 256>>>(right.data(), threads(), words.size());
    CUDA_CHECK_LAUNCH();
    return sums.wrong(IsSum{right.data()});
  }
};

Task shared_task(const Shared<Memory>& m, unsigned turns) {
  return {
      std::string(name_of<read_shared>()),
      [m, turns] { read_shared<<<m->blocks, block_threads>>>(m->sums.data(), m->quads(), turns); },
      {[m] { m->sums.poison(); }, [m, turns] { return m->wrong_from_shared(turns); }, ""}};
}
Task global_task(const Shared<Memory>& m) {
  return {std::string(name_of<read_global>()),
          [m] {
            read_global<<<m->blocks, block_threads>>>(m->sums.data(), m->quads(),
                                                      m->words.size() / 4);
          },
          {[m] { m->sums.poison(); }, [m] { return m->wrong_from_global(); }, ""}};
}

// ---- prediction ----

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

// ---- the table ----

/// Bytes of the array in global memory: beyond the L2, or what fits.
size_t global_bytes(const Run& run) {
  size_t wanted = size_t(256) << 20;
  while (run.device && !beyond_l2(*run.device, double(wanted))) wanted *= 2;
  const size_t bytes = fitting_size("latency", 0, wanted, run.memory_there(),
                                    [](size_t n) { return 1.1 * double(n); });
  return std::max(bytes / sizeof(uint4), size_t(tile_words)) * sizeof(uint4);
}

unsigned blocks_of(const Run& run) {
  return run.device ? 2 * unsigned(run.device->prop.multiProcessorCount) : 2;
}

}  // namespace

void run_bandwidth(const Run& run) {
  constexpr unsigned turns = 512;  // 0.5 ms on 9.0, beside which filling the tile hardly counts
  const double from_shared = bytes_from_shared(double(blocks_of(run)) * block_threads, turns);
  Sheet sheet(run, "all multiprocessors read", {gigabytes_per_second(), spread()});
  sheet.add({.ref = name_of<read_shared>(), .words = "shared", .bytes = from_shared});
  sheet.add({.ref = name_of<read_global>(), .words = "global", .bytes = double(global_bytes(run))});
  SharedByTasks memory(
      [&run] { return Memory(blocks_of(run), global_bytes(run) / sizeof(uint4)); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return row.ref.key == name_of<read_shared>() ? shared_task(memory(), turns)
                                                 : global_task(memory());
  });
  sheet.predict(
      [&](const Row& row) {
        if (!run.device) return double(NAN);
        const bool shared = row.ref.key == name_of<read_shared>();
        return row.bytes * 1e-6 / (shared ? banks_gbs(*run.device) : interface_gbs(*run.device));
      },
      Basis::from_device);
  sheet.print({"predicted: 32 banks of 4 bytes per cycle; the memory's clock and width"});
}

Claim bandwidth_claim(const Run& run) {
  const bool past_l2 = !run.device || beyond_l2(*run.device, double(global_bytes(run)));
  return {
      .part = {"01.10b", "global memory is 100-150 times slower than shared, in bandwidth",
               "100-150x slower", "Dr. Dobb's"},
      .rule = beats(100, 150),
      .pairs = {{.slow = name_of<read_global>(), .fast = name_of<read_shared>(), .per_byte = true}},
      .here = "all multiprocessors reading",
      .unless = past_l2 ? "" : "too little memory is free to read beyond the L2"};
}

Needs bandwidth_needs(const Run& run) {
  const double bytes = double(global_bytes(run));
  return {.allocated = bytes + 8.0 * blocks_of(run) * block_threads, .touched = bytes};
}

std::vector<Checked> bandwidth_tasks(size_t n) {
  const Shared memory(Memory(3, n + tile_words));
  std::vector<Checked> all;
  for (const Task& task : {shared_task(memory, 31), global_task(memory)})
    all.push_back({.task = task, .elements = memory->threads(), .change_one = [memory] {
                     memory->sums.change(7);
                   }});
  return all;
}
