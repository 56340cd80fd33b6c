// timing: how long does a kernel take, and who knows? A launch returns before the kernel has run, so
// that "a standard CPU timer will measure only launch time"; to wait for the device "will stall the
// entire GPU pipeline"; events do better [PR: performance measurements]. The guide's kernels read the
// multiprocessor's own clock [KP]. Dr. Dobb's says that launches are asynchronous [DD].
//
// Look at the first row: fast, and wrong. Then look at the last: clock() sees one block, not the
// grid. In the second table, look at what waiting costs where kernels are small.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o timing timing.cu ../common/*.cpp
//
//   1  my_kernel             the lectures' name; reads and writes an array
//   2  my_kernel_with_clock  1, and block 0 reads clock() as the guide's squaresSum does
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

// ---- the work ----

__host__ __device__ float word(size_t i) { return float(hash(i) % 4096); }

struct Arrays {
  size_t n;
  unsigned blocks;
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  DeviceBuffer<clock_t> time{1};

  void launch() const { my_kernel<<<blocks, TPB>>>(out, in, n); }
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

// ---- five ways to time a launch. Each returns milliseconds ----

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
  int device = 0, kHz = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, device));
  a.launch_with_clock();
  CUDA_CHECK_LAUNCH();
  return double(a.time.to_host()[0]) / kHz;  // kHz: cycles per millisecond
}

constexpr int many = 100;

struct Way {
  const char *name, *what;
  double (*ms)(const Arrays& a);
};
const Way ways[] = {
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
std::vector<std::vector<double>> time_by_all(const Arrays& a, int rounds) {
  require_right(doing("my_kernel", a, [&a] { a.launch(); }));
  require_right(doing("my_kernel_with_clock", a, [&a] { a.launch_with_clock(); }));
  for (double warm = 0; warm < 50;) warm += by_host_waiting(a);
  const size_t count = std::size(ways);
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

}  // namespace

void timing(Run& run) {
  const unsigned resident = run.resident_blocks(TPB);
  size_t n = size_t(1) << 26;
  while (run.fits(16.0 * double(n)) && !run.beyond_l2(8.0 * double(n))) n *= 2;
  n = run.fitting(n, 8);
  run.title("a kernel reads and writes " + bytes_text(4.0 * double(n)) + "; 100 small ones");

  const Arrays large = arrays(n, 2 * resident);  // so that block 0 is there for half the time
  const std::vector<std::vector<double>> ms = time_by_all(large, run.timer.rounds);
  Table table("clock", {"ms", "what it measures"});
  for (size_t way = 0; way < std::size(ways); ++way)
    table.row(ways[way].name, {interval_of_median(ms[way], run_to_run_device), ways[way].what});
  run.print(table);
  run.note("clock(): " + std::to_string(large.blocks) + " blocks, of which " +
           std::to_string(resident) + " are resident at once");

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
SAMPLE(11, timing, "one kernel timed in five ways");

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
