// timing: how long does a kernel take, and who knows? A launch returns before the kernel has run,
// so that "a standard CPU timer will measure only launch time"; waiting for the device sets that
// right but "will stall the entire GPU pipeline"; events do better [PR]. One of the texts reads the
// multiprocessor's own clock [KP]. Three things to look at:
//   - What each way includes.
//   - The one way that sees a part only.
//   - What waiting costs where kernels are small.
//
//   cmake -S 01_memory_model -B build/timing -DEXPERIMENTS=timing
//   cmake --build build/timing && build/timing/01_memory_model
//
//   1  scale            the kernel that is timed: reads and writes an array
//   2  scale_and_clock  the same, and its blocks note when they began and ended
//   3  spin             takes as long as it is told
#include <algorithm>
#include <chrono>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

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

struct Input {
  __device__ float operator()(size_t i) const { return float(value_at(i)); }
};
struct Scaled {
  __device__ bool operator()(size_t i, float found) const {
    return found == float(value_at(i) + value_at(i) + 1);
  }
};

// ---- the work ----

constexpr unsigned block_threads = 256;
constexpr unsigned rounds_of_blocks = 2;  // so that block 0 sees a half

/// Blocks for n elements, a round of resident blocks being `resident`.
unsigned blocks_for(size_t n, unsigned resident) {
  const size_t needed = (n + block_threads - 1) / block_threads;
  return unsigned(std::min<size_t>(needed, size_t(resident) * rounds_of_blocks));
}

/// The arrays of one launch.
struct Arrays {
  size_t n;
  unsigned blocks;
  DeviceBuffer<float> in;
  Output<float> out;
  DeviceBuffer<Clocks> clocks{1};

  Arrays(size_t n, unsigned resident)
      : n(n), blocks(blocks_for(n, resident)), in(filled<float>(n, Input{})), out(n) {}
  void launch() const { scale<<<blocks, block_threads>>>(out.data(), in.data(), n); }
  void launch_with_clocks() {
    clocks.copy_from({Clocks{~0ull, 0, 0}});
    scale_and_clock<<<blocks, block_threads>>>(out.data(), in.data(), n, clocks.data());
  }
};

Task task_of(const Ref& ref, const Shared<Arrays>& a, const Function<void(Arrays&)>& launch,
             bool by_host = false) {
  return {text(ref),
          [a, launch] { launch(*a); },
          {[a] { a->out.poison(); }, [a] { return a->out.wrong(Scaled{}); }, ""},
          by_host};
}
Task plain_task(const Shared<Arrays>& arrays) {
  return task_of(name_of<scale>(), arrays, [](Arrays& a) { a.launch(); });
}
Task clocked_task(const Shared<Arrays>& arrays) {
  return task_of(name_of<scale_and_clock>(), arrays, [](Arrays& a) { a.launch_with_clocks(); });
}

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
  const char *key, *words, *what;
  double (*ms)(const Function<void()>& launch);
  bool waits;  ///< whether the kernel has ended when it returns
  Model model;
};
const Way ways[] = {
    {"not_waiting", "host, not synchronised", "the launch call", not_waiting, false, Model::host},
    {"waiting", "host, synchronised", "launch, kernel, and waking the host", waiting, true,
     Model::host},
    {"between_events", "events", "the kernel and the gap before it", between_events, true,
     Model::traffic},
    {"between_events_many", "events, 100 launches", "the kernel, gaps overlapped",
     between_events_many, true, Model::traffic},
};

/// What the ways and the device's own clocks gave, launch by launch.
struct Found {
  std::vector<Readings> by_way;  ///< ms
  Readings device_ms, block_cycles;

  const Readings& of(std::string_view key) const {
    return by_way[size_t(with_key(ways, Ref(key)) - ways)];
  }
};

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

Found measure(size_t n, unsigned resident, int rounds) {
  const Shared arrays(Arrays(n, resident));
  const Function<void()> launch = [arrays] { arrays->launch(); };
  require_right(plain_task(arrays));
  for (double done = 0; done < warming_ms;) done += waiting(launch);
  Found found{time_by_all(rounds, launch), {}, {}};
  require_right(clocked_task(arrays));
  for (int r = 0; r < rounds; ++r) {
    arrays->launch_with_clocks();
    CUDA_CHECK_LAUNCH();
    const Clocks clocks = arrays->clocks.to_host()[0];
    found.device_ms.ms.push_back(double(clocks.last_end - clocks.first_start) * 1e-6);
    found.block_cycles.ms.push_back(double(clocks.block_cycles));
  }
  return found;
}

/// Cycles of a multiprocessor in a millisecond, while nothing else runs.
double cycles_per_ms() {
  constexpr unsigned long long ns = 2000000;  // the device-wide timer may tick once per microsecond
  DeviceBuffer<long long> cycles(1);
  cycles.poison();
  spin<<<1, 1>>>(cycles.data(), ns);
  CUDA_CHECK_LAUNCH();
  const long long counted = cycles.to_host()[0];
  require_right(counted > 0, "spin: cycles");
  return double(counted) / (ns * 1e-6);
}

// ---- prediction ----

/// Measured in the same run.
struct Calibrated {
  double kernel_ms = NAN;      ///< of many launches between two events, each
  double launch_ms = NAN;      ///< of a tiny kernel, many of which are waited for at the end
  double round_trip_ms = NAN;  ///< of a tiny kernel that is launched and waited for
  double cycles_per_ms = NAN;  ///< of a multiprocessor
};

double predicted_ms(std::string_view way, const Calibrated& c) {
  if (way == "not_waiting") return c.launch_ms;
  if (way == "waiting") return c.kernel_ms + c.round_trip_ms;
  return c.kernel_ms;
}

/// Block 0 is one of the first round, and sees that round's share of the kernel.
double predicted_cycles(unsigned blocks, unsigned resident, const Calibrated& c) {
  const double rounds = std::max(1.0, std::ceil(double(blocks) / resident));
  return c.kernel_ms / rounds * c.cycles_per_ms;
}

// ---- the experiment ----

const char* const over_launch = "time over that of not_waiting";

/// 100 launches of a kernel of one block: waited for one by one, and all at the end.
void measure_stalls(const Run& run) {
  const auto per_launch = [](const Row&, double ms) { return 1e3 * ms / many; };
  Sheet sheet(
      run, "100 launches of one block",
      {in_unit(compared("us per launch", "time per launch", "us", 2), per_launch), spread()});
  sheet.add({.ref = "wait_each", .words = "synchronised after each", .calibrates = true});
  sheet.add({.ref = "wait_once", .words = "synchronised once", .calibrates = true});
  sheet.measure(Timing::regrouped, [](const Row& row) {
    const bool each = row.ref.key == "wait_each";
    const auto launch_many = [each](Arrays& a) {
      for (int k = 0; k < many; ++k) {
        a.launch();
        if (each) CUDA_CHECK(cudaDeviceSynchronize());
      }
      CUDA_CHECK(cudaDeviceSynchronize());
    };
    return task_of(row.ref, Shared(Arrays(block_threads, 1)), launch_many, true);
  });
  sheet.print();
}

size_t elements(const Run& run) {
  size_t wanted = size_t(1) << 26;
  while (run.device && !beyond_l2(*run.device, 8.0 * double(wanted))) wanted *= 2;
  return fitting_size("timing", 0, wanted, run.memory_there(),
                      [](size_t n) { return 8.0 * double(n); });
}

void run_timing(const Run& run) {
  const size_t n = elements(run);
  run.report.begin("timing", "one kernel that reads and writes " + std::to_string(n) + " floats, " +
                                 bytes_text(8.0 * double(n)) + "; then 100 small ones");
  measure_stalls(run);

  const double blocks_at_once = ask(run, "scale_and_clock", "resident blocks", "", [&run] {
                                  int of_one = 0;
                                  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                      &of_one, scale_and_clock, block_threads, 0));
                                  return single(of_one * run.device->prop.multiProcessorCount);
                                }).median;
  const unsigned resident = std::isnan(blocks_at_once) ? 1 : unsigned(blocks_at_once);
  Once<Found> found{[&] { return measure(n, resident, run.measuring.rounds_in_turn()); }};
  const auto time_of = [&](const char* key, const Function<Readings()>& readings) {
    return ask_for_table(run, key, "time", "ms", [&] { return readings().statistics(); });
  };
  for (const Way& way : ways) time_of(way.key, [&] { return found().of(way.key); });
  ask(run, "between_events", over_launch, "x", [&] {
    const Interval r = ratio(found().of("between_events"), found().of("not_waiting"));
    return Statistics{r.value, r.low, r.high, r.pairs};
  });
  const Calibrated c{
      run.results->value("between_events_many", "time").value.median,
      (*run.results)("wait_once").time.ms.median / many,
      (*run.results)("wait_each").time.ms.median / many,
      ask(run, "spin", "cycles per ms", "", [] { return single(cycles_per_ms()); }).median};

  Table table(run.report, "clock",
              {compared("ms", "time", "ms", 4), shown("spread"), shown("what it measures")});
  for (const Way& way : ways) {
    const Statistics ms = run.results->value(way.key, "time").value;
    const bool calibrates = way.key == std::string("between_events_many");
    table.row({way.key, "", "", way.words},
              {calibrates ? Cell(Calibration{ms})
                          : Cell(Compared{predicted_ms(way.key, c), ms, way.model}),
               spread_text(ms), way.what});
  }
  const Statistics device = time_of("device_timer", [&] { return found().device_ms; });
  table.row({"device_timer", "", "", "device timer"},
            {Compared{c.kernel_ms, device}, spread_text(device),
             "first block's start to last block's end"});
  table.print();

  Table counter(run.report, "clock64()",
                {compared("cycles", "cycles of one block", "cycles", 0), shown("spread"),
                 shown("of the kernel")});
  const Statistics cycles = ask_for_table(run, "cycle_counter", "cycles of one block", "cycles",
                                          [&] { return found().block_cycles.statistics(); });
  const unsigned blocks = blocks_for(n, resident);
  const double share = cycles.median / (c.kernel_ms * c.cycles_per_ms);
  counter.row({"cycle_counter", "", "", "cycle counter"},
              {Compared{predicted_cycles(blocks, resident, c), cycles}, spread_text(cycles),
               std::isnan(share) ? "-" : fixed(100 * share, 0) + "%"});
  counter.print();
  if (run.device && !std::isnan(blocks_at_once))
    run.report.note(std::to_string(blocks) + " blocks, of which " + std::to_string(resident) +
                    " are resident at once; alone a multiprocessor's clock runs at " +
                    fixed(c.cycles_per_ms * 1e-3, 0) + " MHz");
}

// ---- claims ----

std::vector<Claim> claims(const Run&) {
  return {
      {.part = {"01.9", "a host timer around a launch measures the launch only", "", "lectures"},
       .rule = beats(),
       .levels = {{.ref = "between_events", .metric = over_launch}},
       .here = "so much longer than the timer says the kernel takes"},
      {.part = {"01.12", "waiting after each launch stalls the pipeline",
                "stalls the entire pipeline", "lectures"},
       .rule = much_beats(),
       .pairs = {{.slow = "wait_each", .fast = "wait_once"}},
       .here = "100 small launches"}};
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = 8.0 * double(elements(run));
  return {.allocated = bytes, .touched = bytes};
}

std::vector<Checked> tasks(size_t n) {
  const Shared arrays(Arrays(n, 100));
  std::vector<Checked> all;
  for (const Task& task : {plain_task(arrays), clocked_task(arrays)})
    all.push_back(
        {.task = task, .elements = n, .change_one = [arrays, n] { arrays->out.change(n - 1); }});
  return all;
}

}  // namespace

extern const Experiment timing_experiment{
    .name = "timing",
    .about = "six ways to time a kernel, and what each measures",
    .run = run_timing,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
