// shared_size: "each SM has a limited amount of shared memory that is partitioned among thread
// blocks. Over-utilizing shared memory will limit the number of active warps" [LC 1]. Here the
// blocks of a copy ask for shared memory and never touch it, so that all that changes is how many
// of them are resident, and with them how many bytes are in flight. Two things to look at:
//   - How few blocks the bandwidth needs.
//   - The 48 KiB beyond which a kernel must be allowed to ask.
//
//   cmake -S 06_shared_reduce -B build/shared_size -DEXPERIMENTS=shared_size
//   cmake --build build/shared_size && build/shared_size/06_shared_reduce
//
//   1  copy             a thread copies one word of 16 bytes
//   2  count_residents  blocks sign in and out on their multiprocessor
#include <algorithm>
#include <set>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

constexpr unsigned block_threads = 256;
constexpr size_t kib = 1024;

// ---- kernels ----

// [copy]
// Each warp reads and writes 32 neighbouring words of 16 bytes, one per lane, which is all that a
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

// ---- launching them ----

/// Allows `kernel` to ask for up to `bytes`. Of the memory that shared memory and L1 divide, shared
/// memory gets all it can have, so that the division is the same for every size.
template <class Kernel>
void allow(Kernel* kernel, size_t bytes) {
  if (device_memory::Pretence::stands()) return;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  int(cudaSharedmemCarveoutMaxShared)));
}

struct QuadAt {
  __device__ uint4 operator()(size_t i) const {
    const unsigned x = scrambled(i);
    return {x, x * 3 + 1, x ^ 0x5bd1e995u, ~x};
  }
};
struct IsCopy {
  __device__ bool operator()(size_t i, uint4 found) const {
    const uint4 right = QuadAt{}(i);
    return found.x == right.x && found.y == right.y && found.z == right.z && found.w == right.w;
  }
};

/// Two arrays of n words of 16 bytes.
struct Arrays {
  DeviceBuffer<uint4> in;
  Output<uint4> out;

  explicit Arrays(size_t n) : in(filled<uint4>(n, QuadAt{})), out(n) {}
  static double bytes(size_t n) { return 2.0 * sizeof(uint4) * double(n); }

  /// A copy whose blocks ask for `shared` bytes each.
  void launch(size_t shared) const {
    const unsigned blocks = unsigned((out.size() + block_threads - 1) / block_threads);
    copy<<<blocks, block_threads, shared>>>(out.data(), in.data(), out.size());
  }
};

/// A row of the sheet: what each block asks for.
Ref asking(size_t bytes) { return {name_of<copy>(), double(bytes)}; }

/// `limit`: the most that a block may ask for.
Task copy_task(const Shared<Arrays>& arrays, size_t bytes, size_t limit) {
  allow(copy, limit);
  return {text(asking(bytes)), [arrays, bytes] { arrays->launch(bytes); },
          arrays->out.check(IsCopy{})};
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

/// The error if a kernel that was not allowed to asks for a byte more.
cudaError_t error_beyond(size_t unasked) {
  allow(copy, unasked);
  Arrays(1).launch(unasked + 1);
  return cudaGetLastError();
}

// ---- prediction ----

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

/// Words of 16 bytes: an array of them is more than the L2 can keep, or all that fits.
size_t words_of(const Run& run) {
  size_t by_default = 1 << 23;
  while (run.device && !beyond_l2(*run.device, double(by_default) * sizeof(uint4))) by_default *= 2;
  return fitting_size("shared_size", 0, by_default, run.memory_there(), Arrays::bytes);
}

Multiprocessor multiprocessor_of(const Run& run) {
  return run.device ? Multiprocessor::of(run.device->prop) : cc_90;
}
/// The most that a block may ask for without being allowed to.
size_t unasked_of(const Run& run) {
  return run.device ? run.device->prop.sharedMemPerBlock : 48 * kib;
}

std::vector<size_t> sizes_of(const Run& run) {
  const size_t step = run.full ? 4 * kib : run.quick ? 32 * kib : 16 * kib;
  return sizes_up_to(multiprocessor_of(run).limit, unasked_of(run), step);
}

const char* const resident = "counted blocks";
const char* const over_limit = "as many active warps if blocks ask for nothing";

/// What was seen at each size, and what a byte too many gives.
void count_blocks(const Run& run, const Multiprocessor& has) {
  for (const size_t bytes : sizes_of(run))
    ask_for_table(run, asking(bytes), resident, "blocks", [&] {
      allow(count_residents, has.limit);
      const int expected = std::max(resident_blocks(has, block_threads, bytes).blocks, 1);
      return single(counted_blocks(run.device->prop, block_threads, bytes, expected));
    });
  const Statistics error = ask(run, name_of<copy>(), "error of a byte too many", "",
                               [&] { return single(error_beyond(unasked_of(run))); });
  if (std::isfinite(error.median))
    run.report.note("a kernel that asks for a byte more than " +
                    bytes_text(double(unasked_of(run))) +
                    " and was not allowed to: " + cudaGetErrorName(cudaError_t(int(error.median))));
}

double counted_at(const Run& run, double bytes) {
  return run.results->value(asking(size_t(bytes)), resident).value.median;
}

void measure_rates(const Run& run, const Multiprocessor& has, size_t n) {
  const std::vector<size_t> sizes = sizes_of(run);
  const Ref first = asking(sizes.front()), last = asking(sizes.back());
  const auto fit_of = [&](const Row& row) {
    return resident_blocks(has, block_threads, size_t(row.ref.at));
  };
  Sheet sheet(run, "shared bytes per block",
              {number(predicted("blocks", "resident blocks", "blocks", 0),
                      [&](const Row& row) { return fit_of(row).blocks; }),
               number(counted("counted", resident, "blocks", 0),
                      [&](const Row& row) { return counted_at(run, row.ref.at); }),
               {shown("limited by"),
                {},
                {},
                [&](const Row& row, const Statistics&) { return fit_of(row).limited_by; }},
               number(predicted("KiB in flight", "in flight", "KiB", 0),
                      [&](const Row& row) { return in_flight(fit_of(row).blocks) / kib; }),
               gigabytes_per_second(),
               spread(),
               share_against(run, first, "of the first"),
               bar_against(run, first)},
              "shared bytes");
  for (const size_t bytes : sizes)
    sheet.add({.ref = asking(bytes),
               .bytes = Arrays::bytes(n),
               .calibrates = bytes == sizes.front() || bytes == sizes.back()});
  SharedByTasks arrays([n] { return Arrays(n); });
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return copy_task(arrays(), size_t(row.ref.at), has.limit); });

  const auto bytes_on_gpu = [&](double asked) {
    const int multiprocessors = run.device ? run.device->prop.multiProcessorCount : 1;
    return multiprocessors * in_flight(resident_blocks(has, block_threads, size_t(asked)).blocks);
  };
  const auto seen = [&](const Ref& ref) {
    return Limits::Seen{bytes_on_gpu(ref.at), Arrays::bytes(n) * 1e-6 / sheet.ms(ref)};
  };
  const Limits limits = Limits::of(seen(last), seen(first));
  sheet.predict(
      [&](const Row& row) { return row.bytes * 1e-6 / limits.gbs(bytes_on_gpu(row.ref.at)); });
  sheet.print({"predicted: a turn takes the root of latency^2 + (bytes / memory's rate)^2"});
}

void run_shared_size(const Run& run) {
  const size_t n = words_of(run);
  const Multiprocessor has = multiprocessor_of(run);
  run.report.begin("shared_size", "a copy of " + std::to_string(n) + " words of 16 bytes, " +
                                      bytes_text(Arrays::bytes(n)) + " moved, in blocks of " +
                                      std::to_string(block_threads) + " threads");
  run.report.note(std::string(run.device ? "" : "as published for compute capability 9.0: ") +
                  "a multiprocessor has " + bytes_text(double(has.shared)) +
                  ", of which the system takes " + bytes_text(double(has.reserved)) +
                  " for each block; a block can ask for up to " + bytes_text(double(has.limit)));
  count_blocks(run, has);
  measure_rates(run, has, n);
  if (run.device && !beyond_l2(*run.device, double(n) * sizeof(uint4)))
    run.report.note("an array is less than four times the L2: part of this is the cache's rate");
  keep(run, asking(has.limit), over_limit, "times",
       single(counted_at(run, 0) / counted_at(run, double(has.limit))));
}

// ---- what it declares ----

std::vector<Claim> claims(const Run& run) {
  const size_t limit = multiprocessor_of(run).limit;
  return {{.part = {"06.6",
                    "over-used shared memory limits the active warps",
                    "no figure",
                    "the wiki",
                    {},
                    true},
           .rule = beats(),
           .levels = {{.ref = asking(limit), .metric = over_limit}},
           .here = "as for " + bytes_text(double(limit)) + " each; computed and counted",
           .needs = run.device ? "resident blocks were not counted" : ""}};
}

Needs needs(const Run& run) {
  const size_t n = words_of(run);
  return {.allocated = Arrays::bytes(n), .touched = double(n) * sizeof(uint4)};
}

/// Without shared memory, with a byte, with all that a block can have.
std::vector<Checked> tasks(size_t n) {
  const size_t limit = Multiprocessor::of(Device::current().prop).limit;
  std::vector<Checked> all;
  for (const size_t bytes : {size_t(0), size_t(1), limit}) {
    const Shared arrays{Arrays(n)};
    const auto change_one = [arrays] {
      std::vector<uint4> found = arrays->out.to_host();
      found[0].w ^= 1;
      arrays->out.copy_from(found);
    };
    all.push_back(
        {.task = copy_task(arrays, bytes, limit), .elements = n, .change_one = change_one});
  }
  return all;
}

}  // namespace

extern const Experiment shared_size_experiment{
    .name = "shared_size",
    .about = "resident blocks and bandwidth against shared memory per block",
    .run = run_shared_size,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
