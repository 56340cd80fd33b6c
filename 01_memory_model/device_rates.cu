// device, the rates: what all multiprocessors together read in a second, out of L1, L2, device
// memory and the host's memory. (Shared memory is `latency`'s.) The lecture's table of sizes has no
// such column [PR]; the drawing on the page does.
//
//   1  read_l1   every block reads its own few words over and over, out of L1
//   2  read_l2   all blocks read what the L2 holds, over and over, past L1
//   3  read_far  all blocks read an array once: device memory, or the host's
#include "device_rates.hpp"

#include <algorithm>

namespace {

constexpr unsigned block_threads = 1024;
/// Of a thread, under way at once, 16 bytes each: enough for any of the memories.
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

/// 4-byte word i: without pattern.
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

/// Hands each of n 4-byte words to the thread that has to read it: from words to threads, where the
/// kernels go from threads to words.
__global__ void add_to_readers(unsigned* right, unsigned readers, size_t n, unsigned rounds) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    atomicAdd(&right[i / 4 % readers], rounds * word_at(i));
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
        for (size_t k = 0; k < 4; ++k) sum += word_at(4 * word + k);
      }
      sums.push_back(rounds * sum);
    }
  return sums;
}

/// What a row reads, and what its threads find; canaries stand behind that.
struct Rate {
  static constexpr size_t canaries = 32;

  const char* name;
  unsigned blocks;
  size_t n;  ///< words of 16 bytes
  unsigned rounds;

  unsigned threads() const { return blocks * block_threads; }
};

struct Reader {
  Rate rate;
  unsigned* words;  ///< of the device or of the host
  DeviceBuffer<unsigned> sums, right;

  Reader(const Rate& rate, unsigned* words)
      : rate(rate), words(words), sums(rate.threads() + Rate::canaries), right(rate.threads()) {
    fill<<<1024, 256>>>(words, 4 * rate.n);
    CUDA_CHECK_LAUNCH();
  }
  const uint4* quads() const { return reinterpret_cast<const uint4*>(words); }

  size_t differing(std::vector<unsigned> expected) const {
    expected.resize(sums.size(), ~0u);  // as poisoned
    const std::vector<unsigned> found = sums.to_host();
    size_t wrong = 0;
    for (size_t t = 0; t < found.size(); ++t) wrong += found[t] != expected[t];
    return wrong;
  }
  size_t wrong_shares() {
    CUDA_CHECK(cudaMemset(right.data(), 0, right.bytes()));
    add_to_readers<<<1024, 256>>>(right.data(), rate.threads(), 4 * rate.n, rate.rounds);
    CUDA_CHECK_LAUNCH();
    return differing(right.to_host());
  }
  Task from_l1() {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this] { return differing(sums_of_own(rate.blocks, rate.rounds)); };
    return {rate.name,
            [this] { read_l1<<<rate.blocks, block_threads>>>(sums.data(), quads(), rate.rounds); },
            std::move(check)};
  }
  Task from_l2() {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this] { return wrong_shares(); };
    return {rate.name,
            [this] {
              read_l2<<<rate.blocks, block_threads>>>(sums.data(), quads(), rate.n, rate.rounds);
            },
            std::move(check)};
  }
  Task from_far() {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this] { return wrong_shares(); };
    return {rate.name,
            [this] { read_far<<<rate.blocks, block_threads>>>(sums.data(), quads(), rate.n); },
            std::move(check)};
  }
};

/// The copy engine's way over the link, into device memory.
Task copied(unsigned* to, const unsigned* from, size_t words) {
  Check check;
  check.poison = [=] { CUDA_CHECK(cudaMemset(to, 0xff, words * sizeof *to)); };
  check.wrong = [=] {
    std::vector<unsigned> found(words);
    device_memory::to_host(found.data(), to, words * sizeof *to);
    size_t wrong = 0;
    for (size_t i = 0; i < words; ++i) wrong += found[i] != word_at(i);
    return wrong;
  };
  return {
      "the copy engine",
      [=] {
        CUDA_CHECK(cudaMemcpyAsync(to, from, words * sizeof *to, cudaMemcpyHostToDevice, nullptr));
      },
      std::move(check)};
}

// ---- what to expect ----

/// Bytes of so many rounds.
double bytes_of(double quads, double rounds) { return 16 * quads * rounds; }

/// GB/s out of L1: a line of 128 bytes a cycle, at the highest clock that the device reports.
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

// ---- the experiment ----

/// The table, and the array that most of its rows read: more than any cache holds.
struct Rates {
  const Run& run;
  unsigned blocks;
  DeviceBuffer<unsigned> memory;
  Table table;

  Rates(const Run& run, size_t bytes)
      : run(run),
        blocks(resident_blocks(run.device->prop)),
        memory(bytes / sizeof(unsigned)),
        table(run.report, "all multiprocessors read",
              {shown("of"), compared("GB/s", "bandwidth", "GB/s", 0), shown("spread")}) {}

  Statistics rate(double bytes, const Task& task) const {
    return gigabytes_per_second(bytes, run.time(task).statistics());
  }
  void add(const char* name, double bytes_there, const Cell& cell, const Statistics& gbs) {
    table.row({name}, {bytes_text(bytes_there), cell, spread_text(gbs)});
  }
};

/// Bytes that an array of n takes: where the GPU's memory is the host's, the host's array is taken
/// from it too.
double bytes_needed(const Device& device, double n) {
  return (device.prop.integrated ? 2.1 : 1.1) * n;
}

/// Bytes of the array: beyond the L2, or what fits.
size_t bytes_of_array(const Run& run) {
  size_t bytes = size_t(256) << 20;
  while (!beyond_l2(*run.device, double(bytes))) bytes *= 2;
  return fitting_size("device", 0, bytes, run.memory_there(),
                      [&](size_t n) { return bytes_needed(*run.device, double(n)); });
}

/// 16 KiB a block, which an L1 holds; and a part of what L2 holds.
void measure_caches(Rates& rates) {
  const Device& device = *rates.run.device;
  constexpr unsigned l1_rounds = 256, l2_rounds = 16;  // beside which the first hardly counts
  const size_t own = size_t(rates.blocks) * block_threads;
  Reader l1({"L1", rates.blocks, own, l1_rounds}, rates.memory.data());
  Statistics gbs = rates.rate(bytes_of(double(own), loads * l1_rounds), l1.from_l1());
  const Model on_9 = device.prop.major == 9 ? Model::traffic : Model::host;
  rates.add("L1", bytes_of(double(own), 1), Compared{l1_gbs(device), gbs, on_9}, gbs);

  const size_t quads = std::min(quads_in_l2(device), rates.memory.size() / 4);
  Reader l2({"L2", rates.blocks, quads, l2_rounds}, rates.memory.data());
  gbs = rates.rate(bytes_of(double(quads), l2_rounds), l2.from_l2());
  rates.add("L2", bytes_of(double(quads), 1), Compared{NAN, gbs, Model::host}, gbs);
}

void measure_memory(Rates& rates) {
  const Device& device = *rates.run.device;
  const double bytes = double(rates.memory.bytes());
  Reader far({"device memory", rates.blocks, rates.memory.size() / 4, 1}, rates.memory.data());
  const Statistics gbs = rates.rate(bytes, far.from_far());
  const Model model = beyond_l2(device, bytes) ? Model::traffic : Model::host;
  rates.add("device memory", bytes, Compared{memory_gbs(device), gbs, model}, gbs);
}

/// As many bytes of the host's memory, by the copy engine and by loads.
void measure_host(Rates& rates) {
  const double bytes = double(rates.memory.bytes());
  PinnedBuffer<unsigned> pinned(rates.memory.size(), cudaHostAllocMapped);
  Reader host({"host memory", rates.blocks, pinned.size() / 4, 1}, pinned.data());
  const Statistics engine =
      rates.rate(bytes, copied(rates.memory.data(), pinned.data(), pinned.size()));
  rates.add("copy engine, from the host", bytes, Calibration{engine}, engine);
  const Statistics mapped = rates.rate(bytes, host.from_far());
  rates.add("host memory", bytes, Compared{engine.median, mapped, Model::host}, mapped);
}

}  // namespace

void show_rates(const Run& run) {
  Rates rates(run, bytes_of_array(run));
  measure_caches(rates);
  measure_memory(rates);
  measure_host(rates);
  rates.table.print();
  run.report.note(
      "predicted: a line a cycle out of L1; device memory: in theory; the host's: as "
      "the copy engine; nothing documented says what L2 gives");
}
