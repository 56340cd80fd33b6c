// shared_size: "each SM has a limited amount of shared memory that is partitioned among thread
// blocks. Over-utilizing shared memory will limit the number of active warps" [LC 1]. Here the
// blocks of a copy ask for shared memory and never touch it, so that all that changes is how many
// of them are resident, and with them how many bytes are in flight. Look at how few blocks the
// bandwidth needs, and at the 48 KiB beyond which a kernel must be allowed to ask.
//   cmake -S 06_shared_reduce -B build/shared_size -DEXPERIMENTS=shared_size
//   cmake --build build/shared_size && build/shared_size/06_shared_reduce
//
//   1  copy             a thread copies one word of 16 bytes
//   2  count_residents  blocks sign in and out on their multiprocessor
#include <algorithm>
#include <set>

#include "../common/report.hpp"

namespace {

constexpr unsigned block_threads = 256;
constexpr size_t kib = 1024;

// ---- kernels ----

// [copy]
// Each warp reads and writes 32 neighbouring words of 16 bytes, one a lane, which is all that a
// thread ever has in flight.
__global__ void copy(uint4* out, const uint4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}
// [/copy]

constexpr unsigned sm_slots = 1024;  // more than any GPU has multiprocessors

/// How many blocks are on each multiprocessor now and were at most, and how many have come in all.
struct Residents {
  unsigned now[sm_slots], peak[sm_slots], arrived;
};

// Each block's first thread signs in on its multiprocessor, stays until all `expected` blocks have
// come (some 0.1 s at most, so that a wrong expectation ends too) and some 20 us more, in which one
// block too many would show.
__global__ void count_residents(Residents* residents, unsigned expected) {
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sm %= sm_slots;
    atomicMax(&residents->peak[sm], atomicAdd(&residents->now[sm], 1u) + 1);
    atomicAdd(&residents->arrived, 1u);
    long long start = clock64();
    while (atomicAdd(&residents->arrived, 0u) < expected && clock64() - start < 200'000'000)
      continue;
    start = clock64();
    while (clock64() - start < 40'000) continue;
    atomicSub(&residents->now[sm], 1u);
  }
  __syncthreads();  // the block's other warps stay as long
}

// ---- what is right ----

/// Word i of the input, without pattern.
__host__ __device__ uint4 word_at(size_t i) {
  unsigned x = (unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u) * 0x85ebca6bu;
  x ^= x >> 15;
  return {x, x * 3 + 1, x ^ 0x5bd1e995u, ~x};
}

__host__ __device__ bool same(const uint4& a, const uint4& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

__global__ void fill(uint4* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = word_at(i);
}

/// The first n words are those of the input, the others the poison.
__global__ void count_wrong(const uint4* out, size_t n, size_t all, unsigned* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < all; i += threads)
    if (!same(out[i], i < n ? word_at(i) : uint4{~0u, ~0u, ~0u, ~0u})) atomicAdd(wrong, 1u);
}

/// Two arrays of n words, and canaries behind each.
struct Arrays {
  static constexpr size_t canaries = 16;

  size_t n;
  DeviceBuffer<uint4> in, out;
  DeviceBuffer<unsigned> wrong_words{1};

  explicit Arrays(size_t n) : n(n), in(n), out(n + canaries) {
    fill<<<1024, 256>>>(in.data(), n);
    CUDA_CHECK_LAUNCH();
  }
  static double bytes(size_t n) { return 2.0 * sizeof(uint4) * double(n); }

  unsigned blocks() const { return unsigned((n + block_threads - 1) / block_threads); }
  /// A launch whose blocks ask for `shared` bytes each.
  void launch(size_t shared) {
    copy<<<blocks(), block_threads, shared>>>(out.data(), in.data(), n);
  }
  /// Words that are no copy, or that lie behind the copy and were written.
  size_t wrong() {
    wrong_words.copy_from({0});
    count_wrong<<<1024, 256>>>(out.data(), n, out.size(), wrong_words.data());
    CUDA_CHECK_LAUNCH();
    return wrong_words.to_host()[0];
  }
  Task task(size_t shared) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    return {"copy, " + std::to_string(shared) + " shared bytes a block",
            [this, shared] { launch(shared); }, std::move(check)};
  }
};

// ---- what to expect ----

/// What a multiprocessor has: bytes of shared memory, of which the system takes `reserved` for each
/// block and hands out multiples of `unit`.
struct Multiprocessor {
  size_t shared, reserved, unit, limit;  ///< `limit`: the most that one block can ask for
  int max_threads, max_blocks;

  static Multiprocessor of(const cudaDeviceProp& prop) {
    return {prop.sharedMemPerMultiprocessor,
            prop.reservedSharedMemPerBlock,
            size_t(prop.major >= 8 ? 128 : 256),
            std::max(prop.sharedMemPerBlock, prop.sharedMemPerBlockOptin),
            prop.maxThreadsPerMultiProcessor,
            prop.maxBlocksPerMultiProcessor};
  }
};

// the programming guide's tables, by compute capability
constexpr Multiprocessor cc_90{228 * kib, 1 * kib, 128, 227 * kib, 2048, 32};

/// How many blocks fit at once, and what of the multiprocessor they use up first.
struct Fit {
  int blocks;
  std::string limited_by;
};

/// Blocks of `threads` threads, each of which asks for `bytes`. Registers set no limit here: these
/// kernels need at most 32 a thread, of which every multiprocessor has enough for all its threads.
Fit resident_blocks(const Multiprocessor& has, int threads, size_t bytes) {
  const size_t taken = (bytes + has.reserved + has.unit - 1) / has.unit * has.unit;
  const int by_threads = has.max_threads / 32 / ((threads + 31) / 32);
  const int by_shared = taken ? int(has.shared / taken) : has.max_blocks;
  const int blocks = std::min({by_threads, has.max_blocks, by_shared});
  if (blocks == by_threads) return {blocks, "threads"};
  return {blocks, blocks == has.max_blocks ? "blocks" : "shared memory"};
}

/// Bytes that a multiprocessor's threads have in flight, one word each.
double in_flight(int blocks) { return double(blocks) * block_threads * sizeof(uint4); }

/// What limits a copy: the time until a thread's word is there and the next block's thread takes
/// its place, and the memory's rate. Found from two numbers of resident blocks; nanoseconds, GB/s.
struct Limits {
  double latency = NAN, memory = NAN;

  /// `bytes` in flight on the whole GPU, and what came of it.
  struct Seen {
    double bytes, gbs;
  };
  static Limits of(const Seen& few, const Seen& many) {
    if (!(many.bytes > few.bytes)) return {};
    const double few_2 = 1 / (few.bytes * few.bytes), many_2 = 1 / (many.bytes * many.bytes);
    const double latency_2 =
        (1 / (few.gbs * few.gbs) - 1 / (many.gbs * many.gbs)) / (few_2 - many_2);
    const double memory_2 = 1 / (many.gbs * many.gbs) - latency_2 * many_2;
    return {std::sqrt(latency_2), 1 / std::sqrt(memory_2)};
  }
  /// GB/s, if all that is in flight arrives in a turn. It lasts no less than a word's latency, and
  /// no less than the memory needs for the bytes: between the longer of the two and their sum, and
  /// is taken as the root of the sum of their squares (04_bandwidth in_flight looks into that).
  double gbs(double bytes) const { return bytes / std::hypot(latency, bytes / memory); }
};

/// The sizes of the table: every `step` up to the limit, the last bytes without asking and the
/// first with, the limit.
std::vector<size_t> sizes_up_to(size_t limit, size_t unasked, size_t step) {
  std::set<size_t> sizes{unasked, limit};
  if (limit > unasked) sizes.insert(unasked + 1);
  for (size_t bytes = 0; bytes < limit; bytes += step) sizes.insert(bytes);
  return {sizes.begin(), sizes.end()};
}

// ---- the experiment ----

/// Allows `kernel` to ask for up to `bytes`. Of the memory that shared memory and L1 divide, shared
/// memory gets all it can have, so that the division is the same for every size.
template <class Kernel>
void allow(Kernel* kernel, size_t bytes) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  int(cudaSharedmemCarveoutMaxShared)));
}

/// What the runtime's occupancy calculator says of the copy.
int calculated_blocks(int threads, size_t bytes) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, copy, threads, bytes));
  return blocks;
}

/// The most blocks that were seen on one multiprocessor at once, of twice as many launched as all
/// of them should hold.
int counted_blocks(const cudaDeviceProp& prop, int threads, size_t bytes, int expected) {
  DeviceBuffer<Residents> residents(std::vector<Residents>{Residents{}});
  const unsigned all = unsigned(expected) * unsigned(prop.multiProcessorCount);
  count_residents<<<2 * all, threads, bytes>>>(residents.data(), all);
  CUDA_CHECK_LAUNCH();
  const Residents seen = residents.to_host()[0];
  require_right(seen.arrived == 2 * all, "count_residents: blocks went missing");
  return int(*std::max_element(std::begin(seen.peak), std::end(seen.peak)));
}

/// What the error is if a kernel that was not allowed to asks for a byte more.
std::string refused(size_t unasked) {
  allow(copy, unasked);
  Arrays(1).launch(unasked + 1);
  return cudaGetErrorName(cudaGetLastError());
}

/// Words of 16 bytes: an array of them is more than the L2 can keep, or all that fits.
size_t words_of(const Run& run) {
  size_t by_default = 1 << 23;
  while (run.device && !beyond_l2(*run.device, double(by_default) * sizeof(uint4))) by_default *= 2;
  return fitting_size("shared_size", 0, by_default, run.memory_there(), Arrays::bytes);
}

/// GB/s of the copy with each of the sizes, timed in turn.
std::vector<Statistics> measure(const Run& run, size_t n, const std::vector<size_t>& sizes) {
  Arrays arrays(n);
  std::vector<Task> tasks;
  for (const size_t bytes : sizes) tasks.push_back(arrays.task(bytes));
  std::vector<Statistics> gbs;
  for (const Readings& ms : run.time_in_turn(tasks))
    gbs.push_back(gigabytes_per_second(Arrays::bytes(n), ms.statistics()));
  return gbs;
}

/// `gbs`: of each size; empty where there is no GPU.
void show(const Run& run, const Multiprocessor& has, const std::vector<size_t>& sizes,
          const std::vector<Statistics>& gbs, const std::vector<int>& calculated,
          const std::vector<int>& counted_ones) {
  Table table(
      run.report, "shared bytes a block",
      {predicted("blocks", "resident blocks", "blocks", 0),
       counted("calculated", "calculated blocks", "blocks", 0),
       counted("counted", "counted blocks", "blocks", 0), shown("limited by"),
       predicted("KiB in flight", "in flight", "KiB", 0), compared("GB/s", "rate", "GB/s", 0),
       shown("spread"), shown("of the first"), shown("")});
  const auto bytes_of = [&](size_t size) {
    const int multiprocessors = run.device ? run.device->prop.multiProcessorCount : 1;
    return multiprocessors * in_flight(resident_blocks(has, block_threads, size).blocks);
  };
  Limits limits;
  if (!gbs.empty())
    limits = Limits::of({bytes_of(sizes.back()), gbs.back().median},
                        {bytes_of(sizes.front()), gbs.front().median});
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Fit fit = resident_blocks(has, block_threads, sizes[i]);
    std::vector<Cell> cells{
        double(fit.blocks), {}, {}, fit.limited_by, in_flight(fit.blocks) / kib, {}, {}, {}, ""};
    if (!gbs.empty()) {
      const double share = gbs[i].median / gbs.front().median;
      cells[1] = double(calculated[i]);
      cells[2] = double(counted_ones[i]);
      cells[5] = i == 0 || i + 1 == sizes.size()
                     ? Cell(Calibration{gbs[i]})
                     : Cell(Compared{limits.gbs(bytes_of(sizes[i])), gbs[i]});
      cells[6] = spread_text(gbs[i]);
      cells[7] = fixed(100 * share, 0) + "%";
      cells[8] = bar(share);
    }
    table.row({"", "shared bytes", std::to_string(sizes[i])}, cells);
  }
  table.print();
}

}  // namespace

void shared_size(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("shared_size", "a copy of " + std::to_string(n) + " words of 16 bytes, " +
                                      bytes_text(Arrays::bytes(n)) + " moved, in blocks of " +
                                      std::to_string(block_threads) + " threads");
  const Multiprocessor has = run.device ? Multiprocessor::of(run.device->prop) : cc_90;
  const size_t unasked = run.device ? run.device->prop.sharedMemPerBlock : 48 * kib;
  const size_t step = run.full ? 4 * kib : run.quick ? 32 * kib : 16 * kib;
  const std::vector<size_t> sizes = sizes_up_to(has.limit, unasked, step);
  run.report.note(std::string(run.device ? "" : "as published for compute capability 9.0: ") +
                  "a multiprocessor has " + bytes_text(double(has.shared)) +
                  ", of which the system takes " + bytes_text(double(has.reserved)) +
                  " for each block; a block can ask for up to " + bytes_text(double(has.limit)));
  std::vector<Statistics> gbs;
  std::vector<int> calculated, counted_ones;
  if (run.device) {
    run.report.note("a kernel that asks for a byte more than " + bytes_text(double(unasked)) +
                    " and was not allowed to: " + refused(unasked));
    allow(copy, has.limit);
    allow(count_residents, has.limit);
    gbs = measure(run, n, sizes);
    for (const size_t bytes : sizes) {
      const int expected = std::max(resident_blocks(has, block_threads, bytes).blocks, 1);
      calculated.push_back(calculated_blocks(block_threads, bytes));
      counted_ones.push_back(counted_blocks(run.device->prop, block_threads, bytes, expected));
    }
  }
  show(run, has, sizes, gbs, calculated, counted_ones);
  if (!run.device)
    return run.report.left_out("what the runtime calculates, blocks counted, bandwidth");
  run.report.note("predicted: a turn takes the root of latency^2 + (bytes / memory's rate)^2");
  if (!beyond_l2(*run.device, double(n) * sizeof(uint4)))
    run.report.note("an array is less than four times the L2: part of this is the cache's rate");
}
