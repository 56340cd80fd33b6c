// keep_on_device: what is not worth a journey. The guide says that a step with little parallelism is better left on the
// GPU than fetched to the host. Look at a step that needs the result of the one before, between two parallel kernels,
// and at how many bytes it may be before the host does better. The other half, a sum, stands in carried_sum.cuh.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "carried_sum.cuh"
#include "../common/first_edition.hpp"
#include "host_memory.hpp"

namespace {

// ---- a serial step: x[i] = factor * x[i - 1] + b[i], modulo 2^32, so that every way must give the same bits ---------

constexpr unsigned factor = 1664525;
__host__ __device__ unsigned next(unsigned x, unsigned b) { return factor * x + b; }
__host__ __device__ unsigned prepared(size_t i) { return 0x9e3779b1u * unsigned(i + 1); }
__host__ __device__ unsigned finished(unsigned x) { return x ^ x >> 15; }

/// factor^k: by this k steps multiply what was there before them.
__host__ __device__ unsigned power(unsigned k) {
  unsigned result = 1;
  for (unsigned m = factor; k > 0; k /= 2, m *= m)
    if (k % 2) result *= m;
  return result;
}

// The parallel kernels before and behind the step: each warp writes, and the second reads, 32 neighbouring words.
__global__ void prepare(unsigned* b, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    b[i] = prepared(i);
}
__global__ void finish(unsigned* out, const unsigned* x, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = finished(x[i]);
}

// The serial loop, for the host and for a kernel of one thread, whose warp waits for memory every few steps.
__host__ __device__ void step_serially(unsigned* x, size_t n) {
  unsigned last = 0;
  for (size_t i = 0; i < n; ++i) x[i] = last = next(last, x[i]);
}
__global__ void step_by_thread(unsigned* x, size_t n) { step_serially(x, n); }

/// Joins the results of 32 lanes, each of so many steps that `multiplier` is their power: a lane gets what all up to it
/// give. The multiplier becomes that of the whole warp.
__device__ unsigned join(unsigned result, unsigned lane, unsigned& multiplier) {
  for (unsigned lanes = 1; lanes < 32; lanes *= 2, multiplier *= multiplier) {
    const unsigned before = __shfl_up_sync(0xffffffffu, result, lanes);
    if (lane >= lanes) result += multiplier * before;
  }
  return result;
}

// One block of 1024, which finds the parallelism that is in the step after all: a run of steps multiplies by a known
// number and adds one, so runs can be joined over lanes, warps and tiles. A warp takes 32 neighbouring words.
__global__ void step_by_block(unsigned* x, size_t n) {
  __shared__ unsigned warp_end[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned to_lane = power(lane + 1), to_thread = power(threadIdx.x + 1), to_tile = power(1024);
  unsigned tile_start = 0;  // what the tile before ended with
  for (size_t first = 0; first < n; first += 1024, __syncthreads()) {
    const size_t i = first + threadIdx.x;
    unsigned multiplier = factor, result = join(i < n ? x[i] : 0, lane, multiplier);
    if (lane == 31) warp_end[warp] = result;
    __syncthreads();
    if (warp == 0) warp_end[lane] = join(warp_end[lane], lane, multiplier);
    __syncthreads();
    if (warp > 0) result += to_lane * warp_end[warp - 1];
    if (i < n) x[i] = result + to_thread * tile_start;
    tile_start = to_tile * tile_start + warp_end[31];
  }
}

struct Work {
  size_t n;
  DeviceBuffer<unsigned> x{n}, out{n};
  PinnedBuffer<unsigned> host{n};
  explicit Work(size_t n) : n(n) {}
};
using Way = void (*)(Work&);

void no_step(Work&) {}
void by_thread(Work& w) { step_by_thread<<<1, 1>>>(w.x.data(), w.n); }
void by_block(Work& w) { step_by_block<<<1, 1024>>>(w.x.data(), w.n); }
void fetch(Work& w) {
  CUDA_CHECK(cudaMemcpyAsync(w.host.data(), w.x.data(), w.x.bytes(), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
}
void send(Work& w) { CUDA_CHECK(cudaMemcpyAsync(w.x.data(), w.host.data(), w.x.bytes(), cudaMemcpyHostToDevice)); }
void by_round_trip(Work& w) { fetch(w), step_serially(w.host.data(), w.n), send(w); }

/// All that is timed: the kernel before, the step, the kernel behind, and the host's wait for the end.
void go(Work& w, Way step) {
  const unsigned blocks = unsigned(std::min<size_t>((w.n + 255) / 256, 1024));
  prepare<<<blocks, 256>>>(w.x.data(), w.n);
  step(w);
  finish<<<blocks, 256>>>(w.out.data(), w.x.data(), w.n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
}

bool right(Work& w, Way step) {
  w.x.poison(), w.out.poison();
  go(w, step);
  const std::vector<unsigned> out = w.out.to_host();
  unsigned x = 0;
  for (size_t i = 0; i < w.n; ++i) {
    x = step == no_step ? prepared(i) : next(x, prepared(i));
    if (out[i] != finished(x)) return false;
  }
  return true;
}

const Claim serial_claim{"02.8", "a serial step is better left on the GPU than fetched to the host", "guide",
                         "no figure"};

/// Measures the step from 4 bytes to 4 << 2 * last.
void serial_step(const Run& run, const Measuring& measuring, int last) {
  const auto size = [](int e) { return size_t(4) << 2 * e; };
  const int stride = run.quick ? 2 : 1;
  constexpr double longest_ms = 5;          // one thread would go on at its pace: left out where it takes longer
  const auto journey = [&](size_t bytes) {  // milliseconds to the host and back
    Work w(bytes / 4);
    w.x.poison();
    return time_host(measuring, [&] { fetch(w), send(w), CUDA_CHECK(cudaDeviceSynchronize()); }).median;
  };
  const double shortest = run.device ? journey(4) : NAN;
  const double a_byte = run.device ? (journey(size(last)) - shortest) / double(size(last)) : NAN;

  Table table(run.report, "bytes",
              {shown("size"), measured("no step us", "without the step", "us", 1),
               measured("one thread us", "one thread", "us", 1), measured("one block us", "one block", "us", 1),
               measured("round trip us", "round trip", "us", 1), predicted("predicted us", "round trip", "us", 1),
               measured("host's step us", "host's step", "us", 2)});
  double thread_ms = 0;                      // of the size before
  size_t above_thread = 0, above_block = 0;  // from this size on the round trip is always faster; 0: it is not
  Judgement judged{Verdict::holds, "", INFINITY};
  for (int e = 0; e <= last; e += stride) {
    std::vector<unsigned> words(size(e) / 4, 1);
    const Statistics host = time_host(measuring, [&] { step_serially(words.data(), words.size()); });
    std::vector<Cell> cells{bytes_text(double(size(e))), {}, {}, {}, {}, {}, scaled(host, 1e3)};
    if (run.device) {
      Work work(words.size());
      const auto measure = [&](size_t cell, Way step) {
        require_right(right(work, step), "the serial step over " + bytes_text(double(size(e))));
        const Statistics ms = time_host(measuring, [&] { go(work, step); });
        cells[cell] = scaled(ms, 1e3);
        return ms;
      };
      const auto update = [&](size_t& above, const Statistics& trip, const Statistics& gpu) {
        above = trip.high >= gpu.low ? 0 : above ? above : size(e);
      };
      cells[5] = 1e3 * (measure(1, no_step).median + shortest + double(size(e)) * a_byte + host.median);
      const Statistics block = measure(3, by_block), trip = measure(4, by_round_trip);
      update(above_block, trip, block);
      Judgement here = judge_ratio(trip, block);
      if (thread_ms * (1 << 2 * stride) < longest_ms) {
        const Statistics thread = measure(2, by_thread);
        thread_ms = thread.median;
        update(above_thread, trip, thread);
        if (thread.median < block.median) here = judge_ratio(trip, thread);
      }
      // the claim must hold at every size, for the better of the two; the least ratio is told
      if (here.verdict != Verdict::holds) judged.verdict = here.verdict;
      judged.value = std::min(judged.value, here.value);
    }
    table.row({"", "bytes", std::to_string(size(e))}, cells);
  }
  table.print();
  run.report.note(
      "each: kernel, step, kernel, wait; predicted: no step + a 4-byte journey + bytes / rate + host's step");
  if (!run.device) return;
  const auto from = [](size_t above) {
    return above ? "from " + bytes_text(double(above)) + " on" : "at no size here";
  };
  run.report.note("the round trip is faster than one thread " + from(above_thread) + ", than one block " +
                  from(above_block) + "; one thread is left out above " + fixed(longest_ms, 0) + " ms");
  judged.here = "the round trip takes at least " + times(judged.value) + " the time of the better way on the GPU";
  run.report.claim(serial_claim, run.quick ? not_judged("few and small sizes in a quick run") : judged);
}

}  // namespace

void keep_on_device(const Run& run) {
  const size_t wanted = size_t(1) << (run.quick ? 22 : 26), budget = pinned_budget();
  size_t n = wanted;
  while (n > 16 && (n * sizeof(float) > budget || (run.device && n * 5 > Device::free_bytes()))) n /= 2;
  int last = run.quick ? 10 : 11;  // 4 or 16 MiB
  while (last > 0 && (size_t(4) << 2 * last) > n * sizeof(float)) --last;
  run.report.begin("keep_on_device", "a serial step over 4 B to " + bytes_text(double(size_t(4) << 2 * last)) +
                                         "; a sum of " + std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)) +
                                         (n < wanted ? ": no room for more" : ""));
  Measuring measuring = run.measuring;
  if (!measuring.typed) measuring.budget_ms = std::min(measuring.budget_ms, run.quick ? 5.0 : 10.0);
  serial_step(run, measuring, last);
  carried_sum(run, measuring, n);
  if (!run.device)
    run.report.left_out("the step on the GPU, and the sum with its transfers", {serial_claim, sum_claim});
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("keep_on_device: runs of steps can be joined") {
  std::vector<unsigned> whole(1009), parts(1009);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = parts[i] = prepared(i);
  step_serially(whole.data(), whole.size());
  for (unsigned cut : {1u, 2u, 512u, 1008u}) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i] = prepared(i);
    step_serially(parts.data() + cut, parts.size() - cut);  // from zero, not from where the first run ends
    for (unsigned k = cut; k < parts.size(); ++k) REQUIRE(parts[k] + power(k - cut + 1) * whole[cut - 1] == whole[k]);
  }
}

TEST_CASE("keep_on_device: every way steps right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 2, 31, 33, 1023, 1024, 1025, 4097, 65537, 300007}) {
    Work work(n);
    for (Way step : {no_step, by_thread, by_block, by_round_trip}) CHECK(right(work, step));
  }
}
