// keep_on_device: what is not worth a journey. The guide leaves a step with little parallelism on
// the GPU rather than fetch its data to the host. Look at a step that one block can do, between two
// parallel kernels, over its bytes; then at what becomes of it where no parallelism is left at all.
// The study's half, work of one operation a word, stands in keep_on_device_carried.cu.
//   cmake -S 02_memory_management -B build/keep_on_device -DEXPERIMENTS=keep_on_device
//   cmake --build build/keep_on_device && build/keep_on_device/02_memory_management
//
//   1  prepare         parallel, before the step
//   2  step_by_block   the step: 1024 chains, in each of which a word needs the one before
//   3  finish          parallel, behind the step
//   4  step_by_thread  a step of one chain only, by one thread
//   5  scan_by_block   the same, by a block that finds the parallelism in it after all
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "host_memory.hpp"

void carried_work(const Run& run);  // keep_on_device_carried.cu

namespace {

// ---- kernels: arithmetic modulo 2^32, so that every way must give the same bits ----

constexpr unsigned chains = 1024;     // as many as a block has threads
constexpr unsigned factor = 1664525;  // of a step: x = factor * (x before) + b

// Each warp writes 32 neighbouring words.
__global__ void prepare(unsigned* x, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    x[i] = 0x9e3779b1u * unsigned(i + 1);
}

// Each warp reads and writes 32 neighbouring words.
__global__ void finish(unsigned* out, const unsigned* x, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = x[i] ^ x[i] >> 15;
}

// [step_by_block]
// One block: thread t has the chain of the words t, t + 1024, t + 2048 ... A warp reads and writes
// 32 neighbours. Only the multiplication waits for the word before; eight loads are under way.
__global__ void __launch_bounds__(chains) step_by_block(unsigned* x, size_t n) {
  unsigned last = 0;
  size_t i = threadIdx.x;
  for (; i + 7 * chains < n; i += 8 * chains) {
    unsigned b[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) b[k] = x[i + k * chains];  // load eight
#pragma unroll
    for (int k = 0; k < 8; ++k) {  // step eight times
      last = factor * last + b[k];
      x[i + k * chains] = last;
    }
  }
  for (; i < n; i += chains) {  // what is left, one at a time
    last = factor * last + x[i];
    x[i] = last;
  }
}
// [/step_by_block]

// One chain, one thread: 31 lanes of its warp idle, and it waits for memory every few steps.
__global__ void step_by_thread(unsigned* x, size_t n) {
  unsigned last = 0;
  for (size_t i = 0; i < n; ++i) {
    last = factor * last + x[i];
    x[i] = last;
  }
}

/// factor^k: by this k steps multiply what was there before them.
__host__ __device__ unsigned power(unsigned k) {
  unsigned result = 1;
  for (unsigned m = factor; k > 0; k /= 2, m *= m)
    if (k % 2) result *= m;
  return result;
}

/// Joins the results of 32 lanes, each of so many steps that `multiplier` is their power: a lane
/// gets what all up to it give. The multiplier becomes that of the whole warp.
__device__ unsigned join(unsigned result, unsigned lane, unsigned& multiplier) {
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const unsigned before = __shfl_up_sync(0xffffffffu, result, lanes);
    if (lane >= lanes) result += multiplier * before;
    multiplier *= multiplier;
  }
  return result;
}

// One chain, one block: k steps multiply by a known number and add one, so that runs of steps can
// be joined over lanes, warps and tiles of 1024. A warp takes 32 neighbouring words.
__global__ void __launch_bounds__(chains) scan_by_block(unsigned* x, size_t n) {
  __shared__ unsigned warp_end[32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned to_lane = power(lane + 1);
  const unsigned to_thread = power(threadIdx.x + 1);
  const unsigned to_tile = power(chains);
  unsigned tile_start = 0;  // what the tile before ended with
  for (size_t first = 0; first < n; first += chains) {
    const size_t i = first + threadIdx.x;
    unsigned multiplier = factor;
    unsigned result = join(i < n ? x[i] : 0, lane, multiplier);  // runs of a warp
    if (lane == 31) warp_end[warp] = result;
    __syncthreads();
    if (warp == 0) warp_end[lane] = join(warp_end[lane], lane, multiplier);  // of all warps
    __syncthreads();
    if (warp > 0) result += to_lane * warp_end[warp - 1];
    if (i < n) x[i] = result + to_thread * tile_start;
    tile_start = to_tile * tile_start + warp_end[31];
    __syncthreads();  // the next tile writes warp_end again
  }
}

// ---- what is right, and the host's own way ----

/// Each chain by itself, from its first word to its last.
std::vector<unsigned> expected(size_t n, size_t chain_count) {
  std::vector<unsigned> x(n);
  for (size_t chain = 0; chain < std::min(n, chain_count); ++chain) {
    unsigned last = 0;
    for (size_t i = chain; i < n; i += chain_count) {
      last = last * factor + 0x9e3779b1u * unsigned(i + 1);
      x[i] = last ^ last >> 15;
    }
  }
  return x;
}

/// What the host does with what it has fetched: all chains side by side, in the order of the words.
void step_on_host(unsigned* x, size_t n, size_t chain_count) {
  for (size_t i = chain_count; i < n; ++i) x[i] += factor * x[i - chain_count];
}

// ---- the work ----

/// The kernel before, a step, the kernel behind, and the host's wait for the end.
struct Work {
  static constexpr size_t canaries = 64;

  size_t n;
  DeviceBuffer<unsigned> x, out;
  PinnedBuffer<unsigned> host;
  std::vector<unsigned> right[2];  ///< of the step, and of the one chain

  explicit Work(size_t n)
      : n(n),
        x(n + canaries),
        out(n + canaries),
        host(n),
        right{expected(n, chains), expected(n, 1)} {}

  void before() const { prepare<<<blocks(), 256>>>(x.data(), n); }
  void behind() const {
    finish<<<blocks(), 256>>>(out.data(), x.data(), n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  // [round_trip]
  void journey(size_t chain_count) const {
    CUDA_CHECK(cudaMemcpy(host.data(), x.data(), 4 * n, cudaMemcpyDeviceToHost));
    step_on_host(host.data(), n, chain_count);
    CUDA_CHECK(cudaMemcpyAsync(x.data(), host.data(), 4 * n, cudaMemcpyHostToDevice));
  }
  // [/round_trip]

  Task by_block() {
    return task("one block", chains, [this] {
      before();
      step_by_block<<<1, chains>>>(x.data(), n);
      behind();
    });
  }
  Task by_round_trip() {
    return task("round trip", chains, [this] {
      before();
      journey(chains);
      behind();
    });
  }
  Task chain_by_thread() {
    return task("one chain, one thread", 1, [this] {
      before();
      step_by_thread<<<1, 1>>>(x.data(), n);
      behind();
    });
  }
  Task chain_by_scan() {
    return task("one chain, scan", 1, [this] {
      before();
      scan_by_block<<<1, chains>>>(x.data(), n);
      behind();
    });
  }
  Task chain_by_round_trip() {
    return task("one chain, round trip", 1, [this] {
      before();
      journey(1);
      behind();
    });
  }
  /// The host's part alone, over words of its own.
  Task host_step() {
    Check check;
    check.poison = [this] { std::iota(host.data(), host.data() + n, 1u); };
    check.wrong = [this] {
      size_t wrong = 0;  // the first of each chain stays, the second is stepped once
      for (size_t i = 0; i < std::min<size_t>(n, 2 * chains); ++i) {
        const unsigned b = unsigned(i) + 1;
        wrong += host[i] != (i < chains ? b : b + factor * (b - chains));
      }
      return wrong;
    };
    return {"host's step", [this] { step_on_host(host.data(), n, chains); }, std::move(check),
            true};
  }

 private:
  unsigned blocks() const { return unsigned(std::min<size_t>((n + 255) / 256, 1024)); }
  Task task(const char* name, size_t chain_count, const Function<void()>& go) {
    Check check;
    check.poison = [this] {
      x.poison();
      out.poison();
    };
    check.wrong = [this, chain_count] {
      const std::vector<unsigned> found = out.to_host();
      const std::vector<unsigned>& expected = right[chain_count == 1];
      size_t wrong = 0;
      for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != (i < n ? expected[i] : ~0u);
      return wrong;
    };
    return {std::string(name) + ", " + bytes_text(4.0 * double(n)), go, std::move(check), true};
  }
};

// ---- what to expect ----

/// A way's time is what it takes for next to nothing, and its bytes over a rate of its own: two
/// calibration rows, the smallest size and the largest.
struct Line {
  double at_nothing_us = NAN;
  double us_a_byte = NAN;

  Line() = default;
  Line(double small_us, double small_bytes, double large_us, double large_bytes)
      : at_nothing_us(small_us), us_a_byte((large_us - small_us) / (large_bytes - small_bytes)) {}
  double us(double bytes) const { return at_nothing_us + bytes * us_a_byte; }
};

// ---- the experiment ----

std::vector<size_t> sizes_of(bool quick) {
  if (quick) return {4, 4096, 65536, 1 << 20};
  return {4, 1024, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
}

constexpr size_t longest_thread =
    65536;  // bytes: at its pace of about 150 MB/s, half a millisecond

/// Times of all ways at one size.
struct Times {
  size_t bytes;
  Readings block, trip, host, thread, scan, chain_trip;
};

Times measure(const Run& run, size_t bytes) {
  Work work(bytes / 4);
  Times times{bytes, {}, {}, {}, {}, {}, {}};
  if (!run.device) return times;
  std::vector<Task> tasks;
  tasks.push_back(work.by_block());
  tasks.push_back(work.by_round_trip());
  tasks.push_back(work.chain_by_scan());
  tasks.push_back(work.chain_by_round_trip());
  if (bytes <= longest_thread) tasks.push_back(work.chain_by_thread());
  const std::vector<Readings> found = run.time_in_turn(tasks);
  times.block = found[0];
  times.trip = found[1];
  times.scan = found[2];
  times.chain_trip = found[3];
  if (bytes <= longest_thread) times.thread = found[4];
  times.host = run.time(work.host_step());
  return times;
}

/// Bytes of which the host changes any: the first word of each chain stays.
double stepped_bytes(size_t bytes) {
  return 4.0 * (double(bytes / 4) - double(std::min<size_t>(bytes / 4, chains)));
}

/// The host's step at the sizes that have one, predicted by the largest.
void host_rows(Table& table, const std::vector<Times>& all) {
  const Times& largest = all.back();
  const double us_a_byte = largest.host.median() * 1e3 / stepped_bytes(largest.bytes);
  for (const Times& times : all) {
    const double bytes = stepped_bytes(times.bytes);
    if (bytes == 0) continue;
    const Statistics us = scaled(times.host.statistics(), 1e3);
    const Cell cell = &times == &largest ? Cell(Calibration{us})
                                         : Cell(Compared{bytes * us_a_byte, us, Model::host});
    table.row({"host's step", "bytes", std::to_string(times.bytes)}, {cell, spread_text(us)});
  }
}

/// One table: a row for each way and size, predicted between the smallest and the largest.
void show(const Run& run, const std::vector<Times>& all) {
  Table table(run.report, "way, bytes", {compared("us", "time", "us", 1), shown("spread")});
  const auto rows = [&](const char* name, Readings Times::*way, size_t largest) {
    size_t last = 0;
    while (last + 1 < all.size() && all[last + 1].bytes <= largest) ++last;
    const auto us = [&](size_t i) { return scaled((all[i].*way).statistics(), 1e3); };
    const Line line(us(0).median, double(all[0].bytes), us(last).median, double(all[last].bytes));
    for (size_t i = 0; i <= last; ++i) {
      const Cell cell = i == 0 || i == last
                            ? Cell(Calibration{us(i)})
                            : Cell(Compared{line.us(double(all[i].bytes)), us(i), Model::latency});
      table.row({name, "bytes", std::to_string(all[i].bytes)}, {cell, spread_text(us(i))});
    }
  };
  rows("one block", &Times::block, SIZE_MAX);
  rows("round trip", &Times::trip, SIZE_MAX);
  host_rows(table, all);
  rows("one chain: one thread", &Times::thread, longest_thread);
  rows("one chain: scan", &Times::scan, SIZE_MAX);
  rows("one chain: round trip", &Times::chain_trip, SIZE_MAX);
  table.print();
  run.report.note(
      "each: kernel, step, kernel, wait; predicted: the smallest + bytes at the largest's rate; "
      "the host's step: bytes of chains' second words and later");
}

/// "up to 16 MiB", "at no size", or which: those at which the interval lies above the bound.
std::string where_better(const std::vector<Times>& all, Readings Times::*trip,
                         Readings Times::*device) {
  std::string sizes;
  size_t better = 0, tried = 0;
  for (const Times& times : all) {
    if ((times.*device).ms.empty()) continue;
    ++tried;
    if (!(ratio(times.*trip, times.*device).low > least_effect)) continue;
    ++better;
    sizes += (sizes.empty() ? "" : ", ") + bytes_text(double(times.bytes));
  }
  if (better == 0) return "at no size";
  return better == tried
             ? "at every size up to " + sizes.substr(sizes.rfind(", ") + (better > 1 ? 2 : 1))
             : "at " + sizes;
}

void judge(const Run& run, const std::vector<Times>& all) {
  const Part part{"02.8", "a step with little parallelism is better left on the GPU than fetched",
                  "better, no figure", "the guide"};
  std::vector<Verdict> each;
  Interval least;  // of all sizes
  for (const Times& times : all) {
    const Interval gain = ratio(times.trip, times.block);
    each.push_back(::judge(beats(), gain));
    const bool smaller = gain.measured() && !(least.value < gain.value);
    if (smaller || !least.measured()) least = gain;  // one that was not measured says why
  }
  run.report.judged(part, judge_many(each), least,
                    "one block beats the round trip " +
                        where_better(all, &Times::trip, &Times::block) + "; at the least " +
                        faster(least));
  if (!least.measured()) return;
  run.report.finding("02.8", "one chain only: a thread beats its round trip " +
                                 where_better(all, &Times::chain_trip, &Times::thread) +
                                 ", a scan by a block " +
                                 where_better(all, &Times::chain_trip, &Times::scan));
}

/// Those of which two arrays fit on the GPU, and one in what the host may pin.
std::vector<size_t> fitting_sizes(const Run& run, double pinned) {
  std::vector<size_t> sizes = sizes_of(run.quick);
  const double room = run.device ? std::min(pinned, run.memory_there() / 4) : INFINITY;
  while (sizes.size() > 2 && double(sizes.back()) > room) sizes.pop_back();
  return sizes;
}

}  // namespace

void keep_on_device(const Run& run) {
  const std::vector<size_t> sizes = fitting_sizes(run, double(pinned_budget()));
  run.report.begin("keep_on_device", "a step over 4 B to " + bytes_text(double(sizes.back())) +
                                         " between two kernels; then one operation a word");
  std::vector<Times> all;
  Progress progress("keep_on_device", int(sizes.size()));
  for (const size_t bytes : sizes) {
    if (run.device) all.push_back(measure(run, bytes));
    progress.step();
  }
  if (run.device) show(run, all);
  if (!run.device) run.report.left_out("the step on the GPU and its round trip");
  judge(run, all);
  carried_work(run);
}
