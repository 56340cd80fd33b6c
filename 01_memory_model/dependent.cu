// dependent: how many warps hide what a multiply-add waits for a register? The study of 2007 has
// that the delay of reading a register after it was written is not felt beyond 192 threads per
// multiprocessor, since the scheduler hides it [BW]. Here 1 to 32 warps on each multiprocessor share
// equally many multiply-adds, each of which needs the result of the one before.
//
// Look where the time stops to fall: at 512 threads, not at 192. The delay shrank since then, from
// 24 cycles to 4; but a multiprocessor has 128 lanes instead of 8, and 4 x 128 is 512.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o dependent dependent.cu ../common/*.cpp
//
//   1  multiply_add_chain  each multiply-add needs the register that the one before wrote
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

// Reads and writes registers alone until its last line. A warp can issue its next multiply-add only
// when the one before has written x. With other warps on the scheduler, it issues theirs meanwhile.
static __global__ void multiply_add_chain(float* out, unsigned steps, float factor, float addend) {
  float x = float(threadIdx.x);
#pragma unroll 256  // so that the loop around them hardly counts
  for (unsigned step = 0; step < steps; ++step) x = fmaf(x, factor, addend);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

namespace {

constexpr unsigned counts[] = {1, 2, 4, 6, 8, 12, 16, 24, 32};  // warps per multiprocessor

/// Multiply-adds of all warps of a multiprocessor, one after the other: a multiple of 256 for each
/// warp, whatever their count.
unsigned all_steps(bool quick) { return 96 * 256 * (quick ? 20 : 80); }

/// Cycles from a multiply-add to the next that needs its result: the guide's "typically 4" from 7.0
/// on, about 6 before.
double cycles_of_delay(int major) { return major >= 7 ? 4 : 6; }

/// Multiply-adds of 32-bit floats that a multiprocessor can begin in each cycle: the guide's table.
double lanes_of(int major, int minor) {
  const bool half = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
  return half ? 64 : 128;
}

/// Cycles in which each of a multiprocessor's warps issues one multiply-add: at least the delay,
/// after which a warp can issue again; and at least what the lanes take to begin those of all warps.
double cycles_of_step(unsigned warps, double delay, double lanes) {
  return std::max(delay, 32.0 * warps / lanes);
}

/// Highest clock, in cycles per millisecond.
double clock_khz() { return device_attribute(cudaDevAttrClockRate); }

/// With factor 1 and addend 1, which the compiler does not know, x counts the multiply-adds from
/// the thread's number on: exactly, as long as it stays below 2^24.
Benchmark chain(const std::string& name, const GuardedBuffer<float>& out, unsigned threads,
                unsigned steps) {
  const unsigned blocks = unsigned(out.size() / threads);
  const auto work = [=, &out] { multiply_add_chain<<<blocks, threads>>>(out, steps, 1, 1); };
  const auto count = [=] __device__(size_t i) { return float(i % threads + steps); };
  return {name, work, equals(out, count)};
}

}  // namespace

void dependent(Run& run) {
  const cudaDeviceProp& gpu = run.gpu;
  const unsigned multiprocessors = unsigned(gpu.multiProcessorCount), all = all_steps(run.quick);
  run.title("each warp waits for its own multiply-adds; all rows do equally many");
  std::vector<GuardedBuffer<float>> outs;
  for (const unsigned warps : counts) outs.emplace_back(size_t(multiprocessors) * 32 * warps);
  const auto name = [](unsigned warps) { return std::to_string(warps) + " warps"; };
  std::vector<Benchmark> benchmarks;
  for (size_t k = 0; k < std::size(counts); ++k)
    benchmarks.push_back(chain(name(counts[k]), outs[k], 32 * counts[k], all / counts[k]));
  const Timings timed = run.timer.interleaved(benchmarks);

  const double delay = cycles_of_delay(gpu.major), lanes = lanes_of(gpu.major, gpu.minor);
  Table table("on each multiprocessor", {"threads", "predicted ms", "ms", "spread", "per ns", ""});
  for (const unsigned warps : counts) {
    const Times& times = timed[name(warps)];
    const double step_ms = cycles_of_step(warps, delay, lanes) / clock_khz();
    const double per_ns = 32e-6 * all / times.median();
    const double most_per_ns = 1e-6 * lanes * clock_khz();
    table.row(name(warps), {32 * warps, all / warps * step_ms, times.ms_interval(),
                            percent(times.spread()), per_ns, bar(per_ns / most_per_ns)});
  }
  run.print(table);
  run.note("per ns: multiply-adds of one multiprocessor; the bar: of what its lanes can begin");
  run.note("predicted: a step of a warp takes " + digits(delay) + " cycles, or what " +
           digits(lanes) + " lanes take for a step of all warps");

  // more warps hide no less, so that the first count above 192 threads decides; with 32 warps
  // nothing is felt
  run.claim({"01.14", "with over 192 threads per SM a register write's delay is not felt",
             "[BW, quoting the guide] more than 192 threads, 8800 GTX", Hardware::g80},
            timed.speedup({.of = name(32), .over = name(8)}), as_fast());
}
SAMPLE(9, dependent, "how many warps hide a multiply-add's latency");

TEST_CASE("dependent: cycles of a step, by hand") {
  // a warp alone waits 4 cycles for itself; 16 warps of 32 lanes fill 128 lanes for 4 cycles
  CHECK(cycles_of_step(1, 4, 128) == 4);
  CHECK(cycles_of_step(16, 4, 128) == 4);
  CHECK(cycles_of_step(32, 4, 128) == 8);
  CHECK(cycles_of_step(16, 4, 64) == 8);
  // the study's GPU: 8 lanes, and 192 threads are enough if the delay is 24 cycles
  CHECK(cycles_of_step(6, 24, 8) == 24);
  CHECK(cycles_of_step(7, 24, 8) == 28);
  CHECK(lanes_of(7, 5) == 64);
  CHECK(lanes_of(9, 0) == 128);
}

TEST_CASE("dependent: every count of warps does the same work, which floats count exactly") {
  for (const bool quick : {false, true}) {
    for (const unsigned warps : counts) CHECK(all_steps(quick) % (256 * warps) == 0);
    CHECK(all_steps(quick) + 1024 < 1u << 24);
  }
}

TEST_CASE("dependent: chains end where counting on the host ends") {
  if (skip_without_gpu()) return;
  for (const unsigned steps : {0u, 1u, 255u, 256u, 257u, 1009u})
    for (const unsigned threads : {32u, 96u, 1024u}) {
      CAPTURE(steps);
      CAPTURE(threads);
      const GuardedBuffer<float> out(3 * threads);
      const Benchmark right = chain("right", out, threads, steps);
      CHECK_NOTHROW(require_right(right));
      const Benchmark longer = chain("longer", out, threads, steps + 1);
      CHECK(longer.check.find_error() != "");  // a step more would be noticed
    }
}
