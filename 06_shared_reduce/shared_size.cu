// shared_size: a multiprocessor has one shared memory for all its blocks, so a block that asks for more of it leaves
// room for fewer neighbours (the wiki: over-using it limits the active warps). Here a block asks and never touches it:
// all that changes is how many blocks are resident, and with them how many bytes of a copy are in flight. Look at how
// few blocks the bandwidth needs, and at the 48 KiB beyond which a kernel must be allowed to ask.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "../common/first_edition.hpp"

namespace {

constexpr int threads = 256;
constexpr size_t kib = 1024;

// ---- kernels --------------------------------------------------------------------------------------------------------

// Each warp reads and writes 32 neighbouring 16-byte words, one a thread, which is all that a thread has in flight.
__global__ void copy(float4* out, const float4* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

constexpr unsigned sm_slots = 1024;  // more than any GPU has multiprocessors
/// How many blocks are on each multiprocessor now and were at most, and how many have come in all.
struct Residents {
  unsigned now[sm_slots], peak[sm_slots], arrived;
};

// Each block's first thread signs in on its multiprocessor by atomics, stays until all `expected` blocks have come
// (some 0.1 s at most, so that a wrong expectation ends too) and some 20 us more, in which one block too many would
// show.
__global__ void count_residents(Residents* residents, unsigned expected) {
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sm %= sm_slots;
    atomicMax(&residents->peak[sm], atomicAdd(&residents->now[sm], 1u) + 1);
    atomicAdd(&residents->arrived, 1u);
    long long start = clock64();
    while (atomicAdd(&residents->arrived, 0u) < expected && clock64() - start < 200'000'000) continue;
    start = clock64();
    while (clock64() - start < 40'000) continue;
    atomicSub(&residents->now[sm], 1u);
  }
  __syncthreads();  // the block's other warps stay as long
}

// ---- prediction -----------------------------------------------------------------------------------------------------

/// What a multiprocessor has: bytes of shared memory, of which the system takes `reserved` for each block and hands out
/// multiples of `unit`.
struct Multiprocessor {
  size_t shared, reserved, unit;
  int max_threads, max_blocks;
  static Multiprocessor of(const cudaDeviceProp& prop) {
    return {prop.sharedMemPerMultiprocessor, prop.reservedSharedMemPerBlock, size_t(prop.major >= 8 ? 128 : 256),
            prop.maxThreadsPerMultiProcessor, prop.maxBlocksPerMultiProcessor};
  }
};
constexpr Multiprocessor h200{228 * kib, 1 * kib, 128, 2048, 32};
constexpr Multiprocessor gtx_1080_ti{96 * kib, 0, 256, 2048, 32};

/// Blocks that fit at once, and what of the multiprocessor they use up first.
struct Fit {
  int blocks;
  std::string limited_by;
};

/// How many blocks of `block` threads fit when each asks for `bytes`. Registers set no limit here: these kernels need
/// at most 32 a thread, of which every multiprocessor has enough for all its threads.
Fit resident_blocks(const Multiprocessor& has, int block, size_t bytes) {
  const size_t taken = (bytes + has.reserved + has.unit - 1) / has.unit * has.unit;
  const int by_warps = has.max_threads / 32 / ((block + 31) / 32);
  const int by_shared = taken ? int(has.shared / taken) : has.max_blocks;
  const int blocks = std::min({by_warps, has.max_blocks, by_shared});
  return {blocks, blocks == by_warps ? "threads" : blocks == has.max_blocks ? "blocks" : "shared memory"};
}

/// The sizes of the table: every `step` up to the limit, the last bytes without asking and the first with, the limit.
std::vector<size_t> sizes_up_to(size_t limit, size_t step) {
  std::set<size_t> sizes{48 * kib, limit};
  if (limit > 48 * kib) sizes.insert(48 * kib + 1);
  for (size_t bytes = 0; bytes < limit; bytes += step) sizes.insert(bytes);
  return {sizes.begin(), sizes.end()};
}

// ---- the experiment -------------------------------------------------------------------------------------------------

/// The most that a block may ask for if its kernel is allowed to.
size_t opt_in_limit(const cudaDeviceProp& p) { return std::max(p.sharedMemPerBlock, p.sharedMemPerBlockOptin); }

/// Allows `kernel` to ask for up to `bytes`. Of the memory that shared memory and L1 divide, shared memory gets all it
/// can have, so that the division is the same for every size.
template <class Kernel>
void allow(Kernel* kernel, size_t bytes) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  int(cudaSharedmemCarveoutMaxShared)));
}

/// What the runtime's occupancy calculator says of the copy.
int calculated_blocks(int block, size_t bytes) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, copy, block, bytes));
  return blocks;
}

/// The most blocks that were seen on one multiprocessor at once, of twice as many launched as all of them should hold.
int counted_blocks(const cudaDeviceProp& prop, int block, size_t bytes, int expected) {
  DeviceBuffer<Residents> residents(std::vector<Residents>{Residents{}});
  const unsigned all = unsigned(expected) * unsigned(prop.multiProcessorCount);
  count_residents<<<2 * all, block, bytes>>>(residents.data(), all);
  CUDA_CHECK_LAUNCH();
  const Residents seen = residents.to_host()[0];
  require_right(seen.arrived == 2 * all, "count_residents: blocks went missing");
  return int(*std::max_element(std::begin(seen.peak), std::end(seen.peak)));
}

/// Two arrays of n 16-byte words, the first with a pattern.
struct Work {
  std::vector<float4> words;
  DeviceBuffer<float4> in, out;

  explicit Work(size_t n) : words(n), in(n), out(n) {
    for (size_t i = 0; i < n; ++i)
      words[i] = {float(i % 8191) + 1, float(i % 127) - 0.5f, float(i % 1021) * 0.25f, -1.0f - float(i % 3)};
    in.copy_from(words);
    out.poison();
  }
  void launch(size_t bytes) {
    const size_t n = words.size();
    copy<<<unsigned((n + threads - 1) / threads), threads, bytes>>>(out.data(), in.data(), n);
  }
  bool right() const { return std::memcmp(out.to_host().data(), words.data(), out.bytes()) == 0; }
};

/// GB/s of the copy of n words when its blocks ask for each of the sizes.
std::vector<Statistics> copy_rates(const Run& run, size_t n, const std::vector<size_t>& sizes) {
  Work work(n);
  work.launch(sizes.back());
  CUDA_CHECK_LAUNCH();
  require_right(work.right(), "copy");  // what a block asks for changes no address: one size stands for all
  Measuring measuring = run.measuring;
  measuring.budget_ms = std::min(measuring.budget_ms, 10.0);  // a row: sixteen stay well below half a second
  std::vector<Statistics> rates;
  for (size_t bytes : sizes) {
    const Statistics ms = time_device(measuring, [&] { work.launch(bytes); });
    CUDA_CHECK_LAUNCH();
    rates.push_back(gigabytes_per_second(2.0 * double(work.in.bytes()), ms));
  }
  return rates;
}

}  // namespace

void shared_size(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 20 : 23);  // 16-byte words: 2 x 128 MiB, beyond the L2 of any GPU so far
  if (run.device) n = std::min(n, Device::free_bytes() / 4 / sizeof(float4));
  run.report.begin("shared_size", "a copy of " + std::to_string(n) + " words of 16 bytes, " + bytes_text(32.0 * n) +
                                      " moved, in blocks of " + std::to_string(threads) + " threads");
  const Multiprocessor has = run.device ? Multiprocessor::of(run.device->prop) : h200;
  const size_t limit = run.device ? opt_in_limit(run.device->prop) : 227 * kib;
  const std::vector<size_t> sizes = sizes_up_to(limit, run.full ? 4 * kib : run.quick ? 32 * kib : 16 * kib);
  run.report.note((run.device ? "a multiprocessor has " : "on an H200 a multiprocessor has ") +
                  bytes_text(double(has.shared)) + ", of which the system takes " + bytes_text(double(has.reserved)) +
                  " for each block; a block can ask for up to " + bytes_text(double(limit)));
  std::vector<Statistics> rates;
  if (run.device) {
    const size_t unasked = run.device->prop.sharedMemPerBlock;
    allow(copy, unasked);
    Work(1).launch(unasked + 1);
    run.report.note("a kernel that asks for a byte more than " + bytes_text(double(unasked)) +
                    " and was not allowed to: " + cudaGetErrorName(cudaGetLastError()));
    allow(copy, limit);
    allow(count_residents, limit);
    rates = copy_rates(run, n, sizes);
  }
  double best = 0;
  for (const Statistics& rate : rates) best = std::max(best, rate.median);
  Table table(
      run.report, "blocks of a multiprocessor, by shared bytes each",
      {predicted("predicted", "resident blocks", "blocks", 0), counted("calculated", "calculated blocks", "blocks", 0),
       counted("counted", "counted blocks", "blocks", 0), shown("limited by"),
       predicted("KiB in flight", "in flight", "KiB", 0), measured("GB/s", "rate", "GB/s", 0), shown("spread"),
       shown("of best"), shown("")});
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Fit fit = resident_blocks(has, threads, sizes[i]);
    const double in_flight = double(fit.blocks) * threads * sizeof(float4) / kib;
    std::vector<Cell> cells{double(fit.blocks), {}, {}, fit.limited_by, in_flight, {}, {}, {}, ""};
    if (run.device) {
      cells[1] = double(calculated_blocks(threads, sizes[i]));
      cells[2] = double(counted_blocks(run.device->prop, threads, sizes[i], std::max(fit.blocks, 1)));
      cells[5] = rates[i], cells[6] = spread_text(rates[i]);
      cells[7] = fixed(100 * rates[i].median / best, 0) + "%", cells[8] = bar(rates[i].median / best);
    }
    table.row({"", "shared bytes", std::to_string(sizes[i])}, cells);
  }
  table.print();
  if (!run.device) run.report.left_out("what the runtime calculates, blocks counted, bandwidth");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("shared_size: predicted blocks are those of the published tables") {
  const auto fit = [](int block, size_t bytes) {
    const Fit fit = resident_blocks(h200, block, bytes);
    return std::to_string(fit.blocks) + " by " + fit.limited_by;
  };
  CHECK(fit(256, 0) == "8 by threads");
  CHECK(fit(32, 0) == "32 by blocks");
  CHECK(fit(96, 0) == "21 by threads");
  CHECK(fit(1024, 0) == "2 by threads");
  CHECK(fit(256, 48 * kib) == "4 by shared memory");  // the reserved KiB makes 49 of it
  CHECK(fit(256, 227 * kib) == "1 by shared memory");
  CHECK(fit(256, 227 * kib + 1) == "0 by shared memory");
  CHECK(resident_blocks(gtx_1080_ti, 256, 48 * kib).blocks == 2);
  CHECK(resident_blocks(gtx_1080_ti, 256, 32 * kib).blocks == 3);
  CHECK(resident_blocks(gtx_1080_ti, 256, 32 * kib + 1).blocks == 2);
  for (int blocks = 1; blocks <= 8; ++blocks) {  // a block more fits exactly up to its share
    const size_t share = h200.shared / blocks / h200.unit * h200.unit - h200.reserved;
    CHECK(resident_blocks(h200, 256, share).blocks == blocks);
    CHECK(resident_blocks(h200, 256, share + 1).blocks == blocks - 1);
  }
}

TEST_CASE("shared_size: the sizes ascend to the limit and hold both sides of 48 KiB") {
  for (size_t limit : {48 * kib, 64 * kib, 99 * kib, 227 * kib}) {
    const std::vector<size_t> sizes = sizes_up_to(limit, 16 * kib);
    CHECK(sizes.front() == 0);
    CHECK(sizes.back() == limit);
    CHECK(std::count(sizes.begin(), sizes.end(), 48 * kib) == 1);
    CHECK(std::count(sizes.begin(), sizes.end(), 48 * kib + 1) == (limit > 48 * kib));
  }
}

TEST_CASE("shared_size: prediction equals the occupancy calculator and the blocks counted") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  const Multiprocessor has = Multiprocessor::of(prop);
  const size_t limit = opt_in_limit(prop);
  allow(copy, limit);
  allow(count_residents, limit);
  for (int block : {1, 32, 33, 96, 256, 416, 1024}) {
    CAPTURE(block);
    size_t differ = 0;
    for (size_t bytes = 0; bytes <= limit; bytes += 64)
      differ += resident_blocks(has, block, bytes).blocks != calculated_blocks(block, bytes);
    CHECK(differ == 0);
    for (size_t bytes : {size_t(0), 7 * kib + 1, 31 * kib, 48 * kib, limit}) {
      const int blocks = resident_blocks(has, block, bytes).blocks;
      // half of the threads at most: a tool that adds registers to the kernel then takes no block's place
      if (blocks * ((block + 31) / 32 * 32) > has.max_threads / 2) continue;
      CHECK(counted_blocks(prop, block, bytes, blocks) == blocks);
    }
  }
}

TEST_CASE("shared_size: the copy is right whatever its blocks ask for and more than is allowed is refused") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  const size_t limit = opt_in_limit(prop);
  for (size_t allowed : {prop.sharedMemPerBlock, limit}) {
    allow(copy, allowed);
    for (size_t n : {1, 31, 257, 1009, 65537, 1000003})
      for (size_t bytes : {size_t(0), size_t(1), allowed}) {
        Work work(n);
        work.launch(bytes);
        CUDA_CHECK_LAUNCH();
        CHECK(work.right());
      }
    Work work(1009);
    work.launch(allowed + 1);
    CHECK(cudaGetLastError() != cudaSuccess);
    for (const float4& word : work.out.to_host()) CHECK(word.x != word.x);  // still the poison, which is no number
  }
  CHECK(cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, int(limit) + 1) != cudaSuccess);
  CHECK(cudaGetLastError() != cudaSuccess);  // it stays until it is read, as here
  CHECK(cudaGetLastError() == cudaSuccess);
}
