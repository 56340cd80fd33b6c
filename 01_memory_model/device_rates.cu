// device, the rates: what all multiprocessors together read in a second, out of L1, L2, device
// memory and the host's memory. (Shared memory is `latency`'s.) The lecture's table of sizes has no
// such column [PR]; the drawing on the page does.
//
//   1  read_l1   every block reads its own few words over and over, out of L1
//   2  read_l2   all blocks read what the L2 holds, over and over, past L1
//   3  read_far  all blocks read an array once: device memory, or the host's
#include "device_rates.hpp"

#include <algorithm>

#include "../framework/common/checked.cuh"

using namespace samples;

namespace {

constexpr unsigned block_threads = 1024;
/// Of a thread, in flight at once, 16 bytes each: enough for any of the memories.
constexpr unsigned loads = 4;

// ---- kernels: thread t adds up the words of 16 bytes that it reads, into sums[t] ----

// [read_l1]
// Each block has 16 KiB of its own. A warp reads 512 neighbouring bytes at a time, four lines.
__global__ void __launch_bounds__(block_threads)
    read_l1(unsigned* sums, const uint4* words, unsigned rounds) {
  const uint4* own = words + blockIdx.x * size_t(blockDim.x);
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) {
      const uint4 word = own[(threadIdx.x + 32 * k) % block_threads];
      sum += word.x + word.y + word.z + word.w;
    }
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/read_l1]

// Thread t reads words t, t + threads, t + 2 threads ... of n. Past L1: the L2 answers.
__global__ void __launch_bounds__(block_threads)
    read_l2(unsigned* sums, const uint4* words, size_t n, unsigned rounds) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
    size_t i = tid;
    for (; i + (loads - 1) * threads < n; i += loads * threads) {
      uint4 word[loads];
#pragma unroll
      for (unsigned k = 0; k < loads; ++k) word[k] = __ldcg(words + i + k * threads);
#pragma unroll
      for (unsigned k = 0; k < loads; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
    }
    for (; i < n; i += threads) {  // what is left, one at a time
      const uint4 word = __ldcg(words + i);
      sum += word.x + word.y + word.z + word.w;
    }
  }
  sums[tid] = sum;
}

// The same words once, by plain loads.
__global__ void __launch_bounds__(block_threads)
    read_far(unsigned* sums, const uint4* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + (loads - 1) * threads < n; i += loads * threads) {
    uint4 word[loads];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) word[k] = words[i + k * threads];
#pragma unroll
    for (unsigned k = 0; k < loads; ++k) sum += word[k].x + word[k].y + word[k].z + word[k].w;
  }
  for (; i < n; i += threads) {
    const uint4 word = words[i];
    sum += word.x + word.y + word.z + word.w;
  }
  sums[tid] = sum;
}

// ---- what is right ----

/// 4-byte word i of what is read.
struct Word {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsWord {
  __device__ bool operator()(size_t i, unsigned found) const { return found == scrambled(i); }
};
struct IsSum {
  const unsigned* right;
  __device__ bool operator()(size_t thread, unsigned found) const { return found == right[thread]; }
};

/// Hands each of n 4-byte words to the thread that has to read it: from words to threads, where the
/// kernels go from threads to words.
__global__ void add_to_readers(unsigned* right, unsigned readers, size_t n, unsigned rounds) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    atomicAdd(&right[i / 4 % readers], rounds * scrambled(i));
}

/// Sums of blocks that read their own words: thread t reads those of threads t, t + 32, t + 64 and
/// t + 96, round the block.
std::vector<unsigned> sums_of_own(unsigned blocks, unsigned rounds) {
  std::vector<unsigned> sums;
  for (size_t block = 0; block < blocks; ++block)
    for (size_t thread = 0; thread < block_threads; ++thread) {
      unsigned sum = 0;
      for (size_t ahead = 0; ahead < 128; ahead += 32) {
        const size_t word = block * block_threads + (thread + ahead) % block_threads;
        for (size_t k = 0; k < 4; ++k) sum += scrambled(4 * word + k);
      }
      sums.push_back(rounds * sum);
    }
  return sums;
}

/// What a launch reads: n words of 16 bytes, so many times over.
struct Launch {
  unsigned blocks;
  size_t n;
  unsigned rounds;
  unsigned threads() const { return blocks * block_threads; }
};

/// What threads find in memory of the device or, mapped, of the host.
template <class Memory>
struct Reader {
  Launch launch;
  Memory words;
  Output<unsigned> sums;
  DeviceBuffer<unsigned> right;

  Reader(const Launch& launch, Memory memory)
      : launch(launch), words(std::move(memory)), sums(launch.threads()), right(launch.threads()) {
    fill_kernel<<<1024, 256>>>(words.data(), 4 * launch.n, Word{});
    CUDA_CHECK_LAUNCH();
  }
  const uint4* quads() const { return reinterpret_cast<const uint4*>(words.data()); }

  size_t wrong_own() {
    right.copy_from(sums_of_own(launch.blocks, launch.rounds));
    return sums.wrong(IsSum{right.data()});
  }
  size_t wrong_shares() {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_readers<<<1024, 256>>>(right.data(), launch.threads(), 4 * launch.n, launch.rounds);
    CUDA_CHECK_LAUNCH();
    return sums.wrong(IsSum{right.data()});
  }
};
using OnDevice = Reader<DeviceBuffer<unsigned>>;
using OnHost = Reader<PinnedBuffer<unsigned>>;

OnDevice on_device(const Launch& launch) {
  return OnDevice(launch, DeviceBuffer<unsigned>(4 * launch.n));
}
OnHost on_host(const Launch& launch) {
  return OnHost(launch, PinnedBuffer<unsigned>(4 * launch.n, cudaHostAllocMapped));
}

Task l1_task(const Ref& ref, const Shared<OnDevice>& r) {
  const Launch& l = r->launch;
  return {text(ref),
          [r, l] { read_l1<<<l.blocks, block_threads>>>(r->sums.data(), r->quads(), l.rounds); },
          {[r] { r->sums.poison(); }, [r] { return r->wrong_own(); }, ""}};
}
Task l2_task(const Ref& ref, const Shared<OnDevice>& r) {
  const Launch& l = r->launch;
  return {
      text(ref),
      [r, l] { read_l2<<<l.blocks, block_threads>>>(r->sums.data(), r->quads(), l.n, l.rounds); },
      {[r] { r->sums.poison(); }, [r] { return r->wrong_shares(); }, ""}};
}
template <class R>
Task far_task(const Ref& ref, const Shared<R>& r) {
  const Launch& l = r->launch;
  return {text(ref),
          [r, l] { read_far<<<l.blocks, block_threads>>>(r->sums.data(), r->quads(), l.n); },
          {[r] { r->sums.poison(); }, [r] { return r->wrong_shares(); }, ""}};
}
/// The copy engine's way over the link, into device memory.
Task copy_task(const Ref& ref, const Shared<OnHost>& from) {
  const Shared to(Output<unsigned>(4 * from->launch.n));
  const auto copy = [from, to] {
    CUDA_CHECK(cudaMemcpyAsync(to->data(), from->words.data(), to->size() * sizeof(unsigned),
                               cudaMemcpyHostToDevice));
  };
  return {text(ref), copy, to->check(IsWord{})};
}

// ---- prediction ----

/// Bytes of so many rounds.
double bytes_of(double quads, double rounds) { return 16 * quads * rounds; }

/// GB/s out of L1: a line of 128 bytes per cycle, at the highest clock that the device reports.
double l1_gbs(const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  return 128e-6 * device.sm_clock_khz * device.prop.multiProcessorCount;
}

double memory_gbs(const Device& device) {
  return device.theoretical_gbs > 0 ? device.theoretical_gbs : NAN;
}

/// A quarter of the L2: as far as is known each half of one holds that.
size_t quads_in_l2(const Device& device) { return device.l2_bytes() / 4 / sizeof(uint4); }

/// As many blocks as are there at once.
unsigned resident_blocks(const cudaDeviceProp& p) {
  return unsigned(p.multiProcessorCount * (p.maxThreadsPerMultiProcessor / int(block_threads)));
}

// ---- the table ----

/// Bytes of the GPU's memory beside an array of n: another one for the copy engine and, where the
/// GPU's memory is the host's, the host's.
double bytes_needed(const Device& device, double n) {
  return (device.prop.integrated ? 3.1 : 2.1) * n;
}

/// Bytes of the array: beyond the L2, or what fits.
size_t bytes_of_array(const Run& run) {
  size_t bytes = size_t(256) << 20;
  while (!beyond_l2(*run.device, double(bytes))) bytes *= 2;
  return fitting_size("device", 0, bytes, run.memory_there(),
                      [&](size_t n) { return bytes_needed(*run.device, double(n)); });
}

constexpr unsigned l1_rounds = 256, l2_rounds = 16;  // beside which the first hardly counts

}  // namespace

void run_rates(const Run& run) {
  const Device none;
  const Device& device = run.device ? *run.device : none;
  const size_t array = run.device ? bytes_of_array(run) : 0;
  const unsigned blocks = run.device ? resident_blocks(device.prop) : 0;
  const size_t own = size_t(blocks) * block_threads;  // 16 KiB per block, which an L1 holds
  const size_t in_l2 = run.device ? std::min(quads_in_l2(device), array / 16) : 0;
  const Launch of_l1{blocks, own, l1_rounds}, of_l2{blocks, in_l2, l2_rounds},
      of_array{blocks, array / 16, 1};
  const Model on_9 = device.prop.major == 9 ? Model::traffic : Model::host;

  const auto footprint = [&](const Row& row, const Statistics&) {
    const Launch& l = row.ref.key == name_of<read_l1>()   ? of_l1
                      : row.ref.key == name_of<read_l2>() ? of_l2
                                                          : of_array;
    return run.device ? bytes_text(bytes_of(double(l.n), 1)) : std::string("-");
  };
  Sheet sheet(run, "all multiprocessors read",
              {{shown("of"), {}, {}, footprint}, gigabytes_per_second(), spread()});
  sheet.add({.ref = name_of<read_l1>(),
             .words = "L1",
             .bytes = bytes_of(double(own), loads * l1_rounds),
             .model = on_9});
  sheet.add({.ref = name_of<read_l2>(),
             .words = "L2",
             .bytes = bytes_of(double(in_l2), l2_rounds),
             .model = Model::host});
  const bool beyond = run.device && beyond_l2(device, double(array));
  sheet.add({.ref = "read_device",
             .words = "device memory",
             .bytes = double(array),
             .model = beyond ? Model::traffic : Model::host});
  sheet.add({.ref = "copy_engine",
             .words = "copy engine, from the host",
             .bytes = double(array),
             .calibrates = true});
  sheet.add(
      {.ref = "read_host", .words = "host memory", .bytes = double(array), .model = Model::host});
  SharedByTasks pinned([&] { return on_host(of_array); });
  sheet.measure(Timing::alone, [&](const Row& row) {
    const std::string& key = row.ref.key;
    if (key == name_of<read_l1>()) return l1_task(row.ref, Shared(on_device(of_l1)));
    if (key == name_of<read_l2>()) return l2_task(row.ref, Shared(on_device(of_l2)));
    if (key == "read_device") return far_task(row.ref, Shared(on_device(of_array)));
    return key == "read_host" ? far_task(row.ref, pinned()) : copy_task(row.ref, pinned());
  });
  sheet.predict([&](const Row& row) {
    const std::string& key = row.ref.key;
    if (key == name_of<read_l1>()) return row.bytes * 1e-6 / l1_gbs(device);
    if (key == "read_device") return row.bytes * 1e-6 / memory_gbs(device);
    return key == "read_host" ? sheet.ms("copy_engine") : double(NAN);
  });
  sheet.print(
      {"predicted: a line per cycle out of L1; device memory: in theory; the host's: as the copy "
       "engine; nothing documented says what L2 gives"});
}

Needs rates_needs(const Run& run) {
  const double bytes = double(bytes_of_array(run));
  return {.allocated = bytes_needed(*run.device, bytes), .touched = bytes};
}

std::vector<Checked> rates_tasks(size_t n) {
  const Launch launch{3, n, 3}, once{3, n, 1}, own{3, 3 * size_t(block_threads), 3};
  std::vector<Checked> all;
  const auto add = [&all](const Task& task, const auto& reader) {
    all.push_back({.task = task, .elements = reader->launch.threads(), .change_one = [reader] {
                     reader->sums.change(7);
                   }});
  };
  const Shared l1(on_device(own)), l2(on_device(launch)), far(on_device(once));
  add(l1_task(name_of<read_l1>(), l1), l1);
  add(l2_task(name_of<read_l2>(), l2), l2);
  add(far_task("read_device", far), far);
  const Shared host(on_host(once));
  add(far_task("read_host", host), host);
  return all;
}
