// timing: how long does a kernel take, and who knows? A launch returns before the kernel has run, so
// that "a standard CPU timer will measure only launch time"; to wait for the device "will stall the
// entire GPU pipeline"; events do better [PR: performance measurements]. The guide's kernels read the
// multiprocessor's own clock [KP]. Dr. Dobb's says that launches are asynchronous [DD].
//
// Look at the first row: fast, and wrong. Then look at the last: clock() sees one block, not the
// grid. The second table times a short kernel rightly, and then leaves out one step at a time. In the
// last one, look at what waiting costs where kernels are small.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o timing timing.cu ../common/*.cpp
//
//   1  my_kernel             the lectures' name; reads and writes an array
//   2  my_kernel_with_clock  1, and block 0 reads clock() as the guide's squaresSum does
//   3  never_launched        1, of which each instance is launched once
#include <algorithm>
#include <chrono>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned TPB = 256;  // threads per block

// A warp reads 32 neighbouring words and writes 32 neighbouring words; then the whole grid steps on.
__global__ void my_kernel(float* out, const float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = 2 * in[i] + 1;
}

// The same. Thread 0 of block 0 reads the clock of its multiprocessor before its work and after it.
__global__ void my_kernel_with_clock(float* out, const float* in, size_t n, clock_t* time) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  clock_t start;
  if (tid == 0) start = clock();
  for (size_t i = tid; i < n; i += threads) out[i] = 2 * in[i] + 1;
  if (tid == 0) *time = clock() - start;
}

// As my_kernel. Its first launch is timed, and comes but once.
template <int instance>
__global__ void never_launched(float* out, const float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    out[i] = 2 * in[i] + 1;
}

// ---- the work ----

using Kernel = void (*)(float* out, const float* in, size_t n);

__host__ __device__ float word(size_t i) { return float(hash(i) % 4096); }

struct Arrays {
  size_t n;
  unsigned blocks;
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  Kernel kernel = my_kernel;
  DeviceBuffer<clock_t> time{1};

  void launch() const { kernel<<<blocks, TPB>>>(out, in, n); }
  void launch_with_clock() const { my_kernel_with_clock<<<blocks, TPB>>>(out, in, n, time); }
};

Arrays arrays(size_t n, unsigned blocks) {
  auto in = filled<float>(n, [] __device__(size_t i) { return word(i); });
  return {n, blocks, std::move(in), GuardedBuffer<float>(n)};
}

Benchmark doing(const std::string& name, const Arrays& a, const std::function<void()>& work) {
  const Check check = equals(a.out, [] __device__(size_t i) { return 2 * word(i) + 1; });
  return {.name = name, .work = work, .check = check, .on_host = true};
}

// ---- ways to time a launch. Each returns milliseconds ----

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double by_host(const Arrays& a) {
  const Clock::time_point start = Clock::now();
  a.launch();
  return ms_since(start);  // the kernel has hardly begun
}

double by_host_waiting(const Arrays& a) {
  const Clock::time_point start = Clock::now();
  a.launch();
  CUDA_CHECK(cudaDeviceSynchronize());
  return ms_since(start);
}

/// The lectures' listing, for one launch or for many.
double by_events(const Arrays& a, int launches) {
  cudaEvent_t start, stop;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));

  CUDA_CHECK(cudaEventRecord(start));
  for (int k = 0; k < launches; ++k) a.launch();
  CUDA_CHECK(cudaEventRecord(stop));

  CUDA_CHECK(cudaEventSynchronize(stop));
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start, stop));

  CUDA_CHECK(cudaEventDestroy(start));
  CUDA_CHECK(cudaEventDestroy(stop));
  return double(milliseconds) / launches;
}

/// Cycles of block 0, as if the multiprocessor's clock ran at its highest rate.
double by_clock(const Arrays& a) {
  a.launch_with_clock();
  CUDA_CHECK_LAUNCH();
  return double(a.time.to_host()[0]) / device_attribute(cudaDevAttrClockRate);  // kHz: per ms
}

/// The harness's method in plain code, for one kernel. Milliseconds of a launch.
double time_kernel(const std::function<void()>& launch, int rounds, int launches) {
  const auto begin = Clock::now();
  while (ms_since(begin) < 50) {  // warm up: the code is loaded, the clocks are up
    launch();
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  const Event start, stop;
  std::vector<float> ms(static_cast<size_t>(rounds));
  for (float& round : ms) {
    launch();  // untimed: leaves the caches as each of the others will find them
    CUDA_CHECK(cudaEventRecord(start));
    for (int k = 0; k < launches; ++k) launch();  // all but the first are launched while one runs
    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));  // a launch returns before its kernel has run
    CUDA_CHECK(cudaEventElapsedTime(&round, start, stop));
  }
  std::nth_element(ms.begin(), ms.begin() + rounds / 2, ms.end());  // the median
  return double(ms[size_t(rounds / 2)]) / launches;
}

constexpr int many = 100;

struct Way {
  const char *name, *what;
  std::function<double(const Arrays& a)> ms;
};
const std::vector<Way> ways = {
    {"host", "the launch alone", by_host},
    {"host, waiting", "launch, kernel, and waking the host", by_host_waiting},
    {"events", "the kernel, and the gap before it",
     [](const Arrays& a) { return by_events(a, 1); }},
    {"events, 100 launches", "the kernel", [](const Arrays& a) { return by_events(a, many); }},
    {"clock()", "block 0, which is not the grid", by_clock},
};
enum { host, host_waiting, events };

/// All ways in turn, A B B A. Before each the same kernel runs, and is waited for: the GPU is warm,
/// and has nothing else to do.
std::vector<std::vector<double>> time_by_all(const std::vector<Way>& ways, const Arrays& a,
                                             int rounds) {
  require_right(doing("my_kernel", a, [&a] { a.launch(); }));
  require_right(doing("my_kernel_with_clock", a, [&a] { a.launch_with_clock(); }));
  for (double warm = 0; warm < 50;) warm += by_host_waiting(a);
  const size_t count = ways.size();
  std::vector<std::vector<double>> ms(count);
  for (int round = 0; round < rounds; ++round)
    for (size_t k = 0; k < count; ++k) {
      const size_t way = round % 2 ? count - 1 - k : k;
      by_host_waiting(a);
      ms[way].push_back(ways[way].ms(a));
      CUDA_CHECK(cudaDeviceSynchronize());
    }
  return ms;
}

// ---- what each step is worth ----

const Kernel first_kernels[] = {never_launched<0>, never_launched<1>, never_launched<2>,
                                never_launched<3>, never_launched<4>, never_launched<5>};

/// The first launch of each of six kernels. Throws WrongResult.
std::vector<double> first_launches(Arrays a) {
  std::vector<double> ms;
  for (const Kernel kernel : first_kernels) {
    a.kernel = kernel;
    const Check check = doing("never_launched", a, {}).check;
    check.poison();
    ms.push_back(by_events(a, 1));
    if (const std::string error = check.find_error(); !error.empty())
      throw WrongResult("never_launched: " + error);
  }
  return ms;
}

void print_steps(Run& run) {
  const size_t l2 = size_t(run.gpu.l2CacheSize);
  // Both arrays fit in two thirds of it. The kernel takes longer than a launch: otherwise many
  // launches would show the host's time.
  const Arrays a = arrays(std::min(size_t(1) << 22, l2 / 12), 2 * run.resident_blocks(TPB));
  const std::vector<double> first = first_launches(a);
  const DeviceBuffer<char> other(2 * l2);
  const auto cold = [&other](const Arrays& arrays) {
    CUDA_CHECK(cudaMemset(other, 0x5a, other.bytes()));
    return by_events(arrays, 1);  // launched while the memset runs
  };
  const std::vector<Way> steps = {
      {"one round", "", [](const Arrays& arrays) { return by_events(arrays, many); }},
      {"caches are cold", "data from memory, not from the L2", cold},
      {"one launch", "the gap before the kernel", [](const Arrays& x) { return by_events(x, 1); }},
      {"host, waiting", "launch, and waking the host", by_host_waiting},
      {"host", "the launch alone", by_host}};
  const std::vector<std::vector<double>> ms = time_by_all(steps, a, run.timer.rounds);
  std::vector<double> right;
  for (int k = 0; k < 6; ++k)
    right.push_back(time_kernel([&a] { a.launch(); }, run.timer.rounds, many));

  Table table("a short kernel", {"us", "of right", "what is in it"});
  const double us = 1e3 * interval_of_median(right, 0).value;
  const auto row = [&](const char* name, const std::vector<double>& values, const char* what) {
    const Interval found = 1e3 * interval_of_median(values, run_to_run_device);
    table.row(name, {found, found / us, what});
  };
  row("right", right, "the kernel");
  row("no warm-up: its first launch", first, "loading its code, and the gap");
  for (size_t k = 1; k < steps.size(); ++k) row(steps[k].name, ms[k], steps[k].what);
  run.print(table);
  const auto range = [](const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return digits(1e3 * *least) + " to " + digits(1e3 * *most) + " us";
  };
  run.note("right: as time_kernel does; the kernel reads and writes " +
           bytes_text(4.0 * double(a.n)));
  run.note("one round of " + std::to_string(many) + " launches: " + range(ms[0]) +
           "; the median of " + std::to_string(run.timer.rounds) + ", six times: " + range(right));
}

}  // namespace

void timing(Run& run) {
  const unsigned resident = run.resident_blocks(TPB);
  size_t n = size_t(1) << 26;
  while (run.fits(16.0 * double(n)) && !run.beyond_l2(8.0 * double(n))) n *= 2;
  n = run.fitting(n, 8);
  run.title("a kernel reads and writes " + bytes_text(4.0 * double(n)) + "; 100 small ones");

  const Arrays large = arrays(n, 2 * resident);  // two rounds of resident blocks
  const std::vector<std::vector<double>> ms = time_by_all(ways, large, run.timer.rounds);
  Table table("clock", {"ms", "what it measures"});
  for (size_t way = 0; way < ways.size(); ++way)
    table.row(ways[way].name, {interval_of_median(ms[way], run_to_run_device), ways[way].what});
  run.print(table);
  run.note("clock(): " + std::to_string(large.blocks) + " blocks, of which " +
           std::to_string(resident) + " are resident at once");

  print_steps(run);

  const auto launches = [] {
    const Arrays small = arrays(TPB, 1);
    const auto launch_many = [small](bool wait) {
      for (int k = 0; k < many; ++k) {
        small.launch();
        if (wait) CUDA_CHECK(cudaDeviceSynchronize());
      }
      CUDA_CHECK(cudaDeviceSynchronize());
    };
    return std::vector<Benchmark>{
        doing("waited for after each", small, [=] { launch_many(true); }),
        doing("waited for at the end", small, [=] { launch_many(false); })};
  };
  const Timings timed = run.timer.with_fresh_memory(launches);
  Table small("100 launches of one block", {"us per launch", "spread"});
  for (const char* name : {"waited for after each", "waited for at the end"})
    small.row(name, {1e3 * timed[name].median() / many, percent(timed[name].spread())});
  run.print(small);

  std::vector<double> longer;
  for (size_t i = 0; i < ms[events].size(); ++i) longer.push_back(ms[events][i] / ms[host][i]);
  run.claim({"01.9", "a CPU timer around a launch measures the launch, not the kernel",
             "[PR 1] \"it will measure only launch time not execution time\""},
            {interval_of_median(longer, run_to_run_host),
             "times as long by events as by the host's timer"},
            much_more());
  run.claim({"01.12", "cudaDeviceSynchronize after a launch stalls the GPU's pipeline",
             "[PR 1] \"this will stall the entire GPU pipeline\""},
            timed.speedup({.of = "waited for at the end", .over = "waited for after each"}),
            much_faster());
}
SAMPLE(11, timing, "how to time a kernel, and what each step is worth");

TEST_CASE("timing: both kernels are right at awkward sizes, and write nothing behind") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 1009, 100003}) {
    CAPTURE(n);
    const Arrays a = arrays(n, 7);
    CHECK_NOTHROW(require_right(doing("my_kernel", a, [&a] { a.launch(); })));
    CHECK_NOTHROW(require_right(doing("with clock", a, [&a] { a.launch_with_clock(); })));
    CHECK(a.time.to_host()[0] > 0);
  }
}

TEST_CASE("timing: first launches are right") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009}) CHECK_NOTHROW(first_launches(arrays(n, 7)));
}
