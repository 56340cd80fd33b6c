// timing: how long does a kernel take, and who knows? A launch returns before the kernel has run,
// so that "a standard CPU timer will measure only launch time"; waiting for the device sets that
// right but "will stall the entire GPU pipeline"; events do better [PR]. One of the texts reads the
// multiprocessor's own clock [KP]. Look at what each way includes, at the one that sees a part, and
// at what waiting costs where kernels are small.
//   cmake -S 01_memory_model -B build/timing -DEXPERIMENTS=timing
//   cmake --build build/timing && build/timing/01_memory_model
//
//   1  scale            the kernel that is timed: reads and writes an array
//   2  scale_and_clock  the same, and its blocks note when they began and ended
//   3  spin             takes as long as it is told
#include <algorithm>
#include <chrono>

#include "../common/report.hpp"

namespace {

// ---- kernels ----

// [scale]
// A warp reads 32 neighbouring words and writes 32 neighbouring words; then the whole grid steps
// on.
__global__ void scale(float* out, const float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = 2 * in[i] + 1;
}
// [/scale]

/// What the device's own clocks say of one launch.
struct Clocks {
  unsigned long long first_start, last_end;  ///< nanoseconds of the device-wide timer
  long long block_cycles;                    ///< of block 0, as its first warp saw them
};

// The same work. The device-wide timer counts nanoseconds, but need not advance by one; clock64()
// counts cycles of one multiprocessor.
__global__ void scale_and_clock(float* out, const float* in, size_t n, Clocks* clocks) {
  unsigned long long start, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  const long long first_cycle = clock64();

  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = 2 * in[i] + 1;
  __syncthreads();

  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) clocks->block_cycles = clock64() - first_cycle;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
  atomicMin(&clocks->first_start, start);
  atomicMax(&clocks->last_end, end);
}

// One thread waits for `ns` nanoseconds of the device-wide timer, and leaves what that was in
// cycles.
__global__ void spin(long long* cycles, unsigned long long ns) {
  unsigned long long start, now;
  const long long first_cycle = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
  *cycles = clock64() - first_cycle;
}

// ---- what is right ----

/// Element i of the input: whole, so that all results are exact.
__host__ __device__ int value_at(size_t i) { return int(i % 8191) - 4000; }

__global__ void fill(float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = float(value_at(i));
}

__global__ void count_wrong(const float* out, size_t n, unsigned* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    if (!(out[i] == float(value_at(i) + value_at(i) + 1))) atomicAdd(wrong, 1u);
}

// ---- the work ----

constexpr unsigned block_threads = 256;
constexpr unsigned rounds_of_blocks = 2;  // so that block 0 sees a half

/// Blocks for n elements, a round of resident blocks being `resident`.
unsigned blocks_for(size_t n, unsigned resident) {
  const size_t needed = (n + block_threads - 1) / block_threads;
  return unsigned(std::min<size_t>(needed, size_t(resident) * rounds_of_blocks));
}

unsigned resident_blocks(const Device& device) {
  int of_one = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_one, scale_and_clock, block_threads, 0));
  return unsigned(of_one * device.prop.multiProcessorCount);
}

/// The arrays of one launch.
struct Work {
  static constexpr size_t canaries = 64;  ///< behind the output

  size_t n;
  unsigned blocks;
  DeviceBuffer<float> in{n};
  DeviceBuffer<float> out{n + canaries};
  DeviceBuffer<Clocks> clocks{1};
  DeviceBuffer<unsigned> wrong_elements{1};

  Work(size_t n, unsigned resident) : n(n), blocks(blocks_for(n, resident)) {
    fill<<<1024, 256>>>(in.data(), n);
    CUDA_CHECK_LAUNCH();
  }
  void launch() const { scale<<<blocks, block_threads>>>(out.data(), in.data(), n); }
  void launch_with_clocks() {
    clocks.copy_from({Clocks{~0ull, 0, 0}});
    scale_and_clock<<<blocks, block_threads>>>(out.data(), in.data(), n, clocks.data());
  }
  size_t wrong() {
    wrong_elements.copy_from({0});
    count_wrong<<<1024, 256>>>(out.data(), n, wrong_elements.data());
    CUDA_CHECK_LAUNCH();
    return wrong_elements.to_host()[0];
  }
  Check check() {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    return check;
  }
  Task task() {
    return {"scale", [this] { launch(); }, check()};
  }
  Task task_with_clocks() {
    return {"scale_and_clock", [this] { launch_with_clocks(); }, check()};
  }
};

// ---- ways to time a launch, each in milliseconds ----

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// [ways]
double not_waiting(const Function<void()>& launch) {
  const Clock::time_point start = Clock::now();
  launch();
  return ms_since(start);
}

double waiting(const Function<void()>& launch) {
  const Clock::time_point start = Clock::now();
  launch();
  CUDA_CHECK(cudaDeviceSynchronize());
  return ms_since(start);
}

double between_events(const Function<void()>& launch) {
  const Event start, stop;
  start.record();
  launch();
  stop.record();
  stop.wait();
  return stop.ms_since(start);
}
// [/ways]

constexpr int many = 100;

double between_events_many(const Function<void()>& launch) {
  const Event start, stop;
  start.record();
  for (int k = 0; k < many; ++k) launch();
  stop.record();
  stop.wait();
  return stop.ms_since(start) / many;
}

struct Way {
  const char *name, *what;
  double (*ms)(const Function<void()>& launch);
  bool waits;  ///< whether the kernel has ended when it returns
};
const Way ways[] = {
    {"host, not synchronised", "the launch call", not_waiting, false},
    {"host, synchronised", "launch, kernel, and waking the host", waiting, true},
    {"events", "the kernel and the gap before it", between_events, true},
    {"events, 100 launches", "the kernel, gaps overlapped", between_events_many, true},
};
enum { host_only, host_waits, events, events_many };

/// All ways in turn, in the order A B B A. Before each the same kernel runs, and is waited for: so
/// the GPU is warm and has nothing else to do. (time_in_turn() would time them all by one way.)
std::vector<Readings> time_by_all(int rounds, const Function<void()>& launch) {
  std::vector<Readings> times(std::size(ways));
  for (int r = 0; r < rounds; ++r)
    for (size_t k = 0; k < std::size(ways); ++k) {
      const size_t w = r % 2 ? std::size(ways) - 1 - k : k;
      waiting(launch);
      times[w].ms.push_back(ways[w].ms(launch));
    }
  CUDA_CHECK(cudaDeviceSynchronize());
  return times;
}

// ---- what to expect ----

/// Measured in the same run.
struct Calibrated {
  double kernel_ms = NAN;      ///< of many launches between two events, each
  double launch_ms = NAN;      ///< of a tiny kernel, many of which are waited for at the end
  double round_trip_ms = NAN;  ///< of a tiny kernel that is launched and waited for
  double cycles_a_ms = NAN;    ///< of a multiprocessor
};

double predicted_ms(int way, const Calibrated& c) {
  if (way == host_only) return c.launch_ms;
  if (way == host_waits) return c.kernel_ms + c.round_trip_ms;
  return c.kernel_ms;
}

/// Block 0 is one of the first round, and sees that round's share of the kernel.
double predicted_cycles(unsigned blocks, unsigned resident, const Calibrated& c) {
  const double rounds = std::max(1.0, std::ceil(double(blocks) / resident));
  return c.kernel_ms / rounds * c.cycles_a_ms;
}

// ---- the experiment ----

/// Launches of a kernel of one block: waited for one by one, and all at the end.
std::vector<Readings> time_stalls(const Run& run) {
  if (!run.device) return std::vector<Readings>(2);
  Work tiny(block_threads, 1);
  const Function<void()> each = [&] {
    for (int k = 0; k < many; ++k) {
      tiny.launch();
      CUDA_CHECK(cudaDeviceSynchronize());
    }
  };
  const Function<void()> once = [&] {
    for (int k = 0; k < many; ++k) tiny.launch();
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const std::vector<Readings> times =
      run.time_in_turn({{"synchronised after each", each, tiny.check(), true},
                        {"synchronised once", once, tiny.check(), true}});
  Table table(run.report, "100 launches of one block",
              {compared("us a launch", "time a launch", "us", 2), shown("spread")});
  table.row({"synchronised after each"}, {Calibration{scaled(times[0].statistics(), 1e3 / many)},
                                          spread_text(times[0].statistics())});
  table.row({"synchronised once"}, {Calibration{scaled(times[1].statistics(), 1e3 / many)},
                                    spread_text(times[1].statistics())});
  table.print();
  return times;
}

/// Cycles of a multiprocessor in a millisecond, while nothing else runs.
double cycles_a_ms() {
  constexpr unsigned long long ns = 2000000;  // the device-wide timer may tick a microsecond a time
  DeviceBuffer<long long> cycles(1);
  cycles.poison();
  spin<<<1, 1>>>(cycles.data(), ns);
  CUDA_CHECK_LAUNCH();
  const long long counted = cycles.to_host()[0];
  require_right(counted > 0, "spin: cycles");
  return double(counted) / (ns * 1e-6);
}

/// What the device's own clocks say: nanoseconds from the first block's start to the last block's
/// end, and cycles of block 0.
struct OwnClocks {
  Readings ms, cycles;
};
OwnClocks read_clocks(Work& work, int rounds) {
  require_right(work.task_with_clocks());
  OwnClocks found;
  for (int r = 0; r < rounds; ++r) {
    work.launch_with_clocks();
    CUDA_CHECK_LAUNCH();
    const Clocks clocks = work.clocks.to_host()[0];
    found.ms.ms.push_back(double(clocks.last_end - clocks.first_start) * 1e-6);
    found.cycles.ms.push_back(double(clocks.block_cycles));
  }
  return found;
}

void show(const Run& run, const std::vector<Readings>& times, const OwnClocks& own,
          const Calibrated& c) {
  Table table(run.report, "clock",
              {compared("ms", "time", "ms", 4), shown("spread"), shown("what it measures")});
  for (size_t w = 0; w < std::size(ways); ++w) {
    const Statistics ms = times[w].statistics();
    const bool on_host = w == host_only || w == host_waits;
    const Compared compared{predicted_ms(int(w), c), ms, on_host ? Model::host : Model::traffic};
    table.row({ways[w].name},
              {w == events_many ? Cell(Calibration{ms}) : compared, spread_text(ms), ways[w].what});
  }
  const Statistics device_ms = own.ms.statistics();
  table.row({"device timer"}, {Compared{c.kernel_ms, device_ms}, spread_text(device_ms),
                               "first block's start to last block's end"});
  table.print();
}

void show_cycles(const Run& run, const Work& work, unsigned resident, const OwnClocks& own,
                 const Calibrated& c) {
  Table table(run.report, "clock64()",
              {compared("cycles", "cycles of one block", "cycles", 0), shown("spread"),
               shown("of the kernel")});
  const Statistics cycles = own.cycles.statistics();
  const double share = cycles.median / (c.kernel_ms * c.cycles_a_ms);
  table.row({"cycle counter"}, {Compared{predicted_cycles(work.blocks, resident, c), cycles},
                                spread_text(cycles), fixed(100 * share, 0) + "%"});
  table.print();
  run.report.note(std::to_string(work.blocks) + " blocks, of which " + std::to_string(resident) +
                  " are resident at once; alone a multiprocessor's clock runs at " +
                  fixed(c.cycles_a_ms * 1e-3, 0) + " MHz");
}

void judge(const Run& run, const Readings& by_events, const Readings& by_host,
           const std::vector<Readings>& stalls) {
  const Interval launch_only = ratio(by_events, by_host);
  run.report.judge(
      {"01.9", "a host timer around a launch measures the launch only", "", "lectures"}, beats(),
      launch_only,
      "the kernel takes " + factor_text(launch_only.value) + " as long as the timer says");
  const Interval stalled = ratio(stalls[0], stalls[1]);
  run.report.judge({"01.12", "waiting after each launch stalls the pipeline",
                    "stalls the entire pipeline", "lectures"},
                   much_beats(), stalled,
                   "100 small launches are " + slower(stalled, "waited for at the end"));
}

size_t elements(const Run& run) {
  size_t wanted = size_t(1) << 26;
  while (run.device && !beyond_l2(*run.device, 8.0 * double(wanted))) wanted *= 2;
  return fitting_size("timing", 0, wanted, run.memory_there(),
                      [](size_t n) { return 8.0 * double(n); });
}

}  // namespace

void timing(const Run& run) {
  const size_t n = elements(run);
  run.report.begin("timing", "one kernel that reads and writes " + std::to_string(n) + " floats, " +
                                 bytes_text(8.0 * double(n)));
  const std::vector<Readings> stalls = time_stalls(run);
  if (!run.device) {
    run.report.left_out("all six ways of timing");
    return judge(run, {}, {}, stalls);
  }
  if (!beyond_l2(*run.device, 8.0 * double(n)))
    run.report.note("that is less than four times the L2: the cache's times");

  const unsigned resident = resident_blocks(*run.device);
  Work work(n, resident);
  require_right(work.task());
  for (double done = 0; done < warming_ms;) done += waiting([&] { work.launch(); });
  const int rounds = run.measuring.rounds_in_turn();
  const std::vector<Readings> times = time_by_all(rounds, [&] { work.launch(); });
  const OwnClocks own = read_clocks(work, rounds);

  const Calibrated c{times[events_many].median(), stalls[1].median() / many,
                     stalls[0].median() / many, cycles_a_ms()};
  show(run, times, own, c);
  show_cycles(run, work, resident, own, c);
  judge(run, times[events], times[host_only], stalls);
}
