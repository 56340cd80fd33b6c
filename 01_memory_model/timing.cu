// timing: one kernel, timed in six ways. A launch returns before the kernel has run, so a host clock around it measures
// the launch and nothing else. Look at what each way includes, and at what synchronising after every launch costs.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"

namespace {

__host__ __device__ float scaled_value(float x) { return 2.0f * x + 1.0f; }

/// Elements that the whole grid steps on at a time.
__host__ __device__ size_t grid_stride(unsigned blocks, unsigned threads) { return size_t(blocks) * threads; }

// Each warp reads 32 neighbouring words, writes 32 neighbouring words, and steps on by the whole grid.
__global__ void scale(float* out, const float* in, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += grid_stride(gridDim.x, blockDim.x))
    out[i] = scaled_value(in[i]);
}

/// What the device's own clocks say of one launch.
struct DeviceClocks {
  unsigned long long first_start, last_end;  ///< nanoseconds of the device-wide timer
  long long block_cycles;                    ///< cycles of block 0 on its multiprocessor, as its first warp saw them
};

// The device-wide timer, which ticks in nanoseconds but need not advance by one.
__device__ unsigned long long global_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// The same work, and every block notes when it began and ended.
__global__ void scale_and_clock(float* out, const float* in, size_t n, DeviceClocks* clocks) {
  const unsigned long long start = global_ns();
  const long long cycle = clock64();
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += grid_stride(gridDim.x, blockDim.x))
    out[i] = scaled_value(in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) clocks->block_cycles = clock64() - cycle;
    atomicMin(&clocks->first_start, start);
    atomicMax(&clocks->last_end, global_ns());
  }
}

constexpr int threads = 256;

/// The arrays of one launch: input with a pattern, output to be written, the clocks.
struct Work {
  DeviceBuffer<float> in, out;
  DeviceBuffer<DeviceClocks> clocks{1};
  unsigned blocks;

  explicit Work(size_t n) : in(n), out(n), blocks(unsigned(std::min<size_t>((n + threads - 1) / threads, 2048))) {
    std::vector<float> host(n);
    for (size_t i = 0; i < n; ++i) host[i] = float(i % 8191) - 4000.0f;
    in.copy_from(host);
  }
  void launch() { scale<<<blocks, threads>>>(out.data(), in.data(), in.size()); }
  void launch_with_clock() {
    const DeviceClocks none{~0ull, 0, 0};
    CUDA_CHECK(cudaMemcpy(clocks.data(), &none, sizeof none, cudaMemcpyHostToDevice));
    scale_and_clock<<<blocks, threads>>>(out.data(), in.data(), in.size(), clocks.data());
  }
  bool right() const {
    const std::vector<float> x = in.to_host(), y = out.to_host();
    for (size_t i = 0; i < x.size(); ++i)
      if (!(y[i] == scaled_value(x[i]))) return false;
    return true;
  }
};

const Claim launch_only_claim{"01.9", "a host timer around a launch measures the launch only", "lecture", "no figure"};

}  // namespace

void timing(const Run& run) {
  const size_t n = run.quick ? size_t(1) << 22 : size_t(1) << 26;  // 512 MiB in all: beyond the L2 of any GPU so far
  run.report.begin("timing",
                   "one kernel that reads and writes " + std::to_string(n) + " floats, " + bytes_text(8.0 * double(n)));
  if (!run.device) return run.report.left_out("all six ways of timing", {launch_only_claim});

  Work work(n);
  work.out.poison();
  work.launch();
  CUDA_CHECK_LAUNCH();
  require_right(work.right(), "scale");
  work.out.poison();
  work.launch_with_clock();
  CUDA_CHECK_LAUNCH();
  require_right(work.right(), "scale_and_clock");

  const auto wait = [] { CUDA_CHECK(cudaDeviceSynchronize()); };
  const Statistics event = time_device(run.measuring, [&] { work.launch(); });
  const int repeats = run.measuring.repeats_for(event.median);
  std::vector<double> unsynchronised(repeats), synchronised(repeats), timer(repeats), one_block(repeats);
  for (int r = 0; r < repeats; ++r) {
    unsynchronised[r] = host_ms([&] { work.launch(); });
    wait();  // outside of the timed region: the next launch must not wait for this one
    synchronised[r] = host_ms([&] { work.launch(), wait(); });
    work.launch_with_clock();
    const DeviceClocks clocks = work.clocks.to_host()[0];
    timer[r] = double(clocks.last_end - clocks.first_start) * 1e-6;
    one_block[r] = run.device->sm_clock_khz ? double(clocks.block_cycles) / run.device->sm_clock_khz : NAN;
  }
  constexpr int launches = 100;
  const Statistics many = time_device(run.measuring, [&] { work.launch(); }, {.launches = launches});
  CUDA_CHECK_LAUNCH();

  const Statistics launch_only = summarize(unsynchronised);
  Table table(run.report, "clock",
              {measured("median ms", "time", "ms", 4), shown("spread"), shown("to events"), shown("what it measures")});
  const auto row = [&](const std::string& name, const Statistics& ms, const std::string& what) {
    table.row({name}, {ms, spread_text(ms), times(ms.median / event.median), what});
  };
  row("host, not synchronised", launch_only, "the launch call");
  row("host, synchronised", summarize(synchronised), "launch, kernel, and waking the host");
  row("events", event, "the kernel and the gap before it");
  row("events, 100 launches", many, "the kernel, gaps overlapped");
  row("device timer", summarize(timer), "first block's start to last block's end");
  if (run.device->sm_clock_khz) row("cycle counter", summarize(one_block), "one block of many");
  table.print();

  // what synchronising costs: the same launches, once waited for one by one, once at the end. The kernel is made tiny.
  Work tiny(threads);
  const Statistics each = time_host(run.measuring, [&] {
    for (int i = 0; i < launches; ++i) tiny.launch(), wait();
  });
  const Statistics once = time_host(run.measuring, [&] {
    for (int i = 0; i < launches; ++i) tiny.launch();
    wait();
  });
  CUDA_CHECK_LAUNCH();
  Table cost(run.report, "100 launches of one block",
             {measured("us a launch", "time a launch", "us", 2), shown("spread")});
  cost.row({"synchronised after each"}, {scaled(each, 1e3 / launches), spread_text(each)});
  cost.row({"synchronised once"}, {scaled(once, 1e3 / launches), spread_text(once)});
  cost.print();

  run.report.claim(launch_only_claim, [&] {
    Judgement j = judge_ratio(event, launch_only);
    j.here = "the kernel takes " + times(j.value) + " as long as the timer says";
    return j;
  }());
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("timing: both kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1009, 65537, 1000003}) {
    CAPTURE(n);
    Work work(n);
    work.out.poison();
    work.launch();
    CUDA_CHECK_LAUNCH();
    CHECK(work.right());
    work.out.poison();
    work.launch_with_clock();
    CUDA_CHECK_LAUNCH();
    CHECK(work.right());
    const DeviceClocks clocks = work.clocks.to_host()[0];
    CHECK(clocks.last_end >= clocks.first_start);
    CHECK(clocks.block_cycles > 0);
  }
}

TEST_CASE("timing: a launch returns before its kernel has ended") {
  if (skip_without_gpu()) return;
  Work work(size_t(1) << 22);
  work.launch();
  CUDA_CHECK(cudaDeviceSynchronize());
  Event end;
  for (int i = 0; i < 50; ++i) work.launch();  // far more work than the host needs time to ask
  end.record();
  CHECK(cudaEventQuery(end) == cudaErrorNotReady);
  end.wait();
  CHECK(cudaEventQuery(end) == cudaSuccess);
}
