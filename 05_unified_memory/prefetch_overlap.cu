// prefetch_overlap: do transfers overlap the kernel if pages move on demand? The wiki ends with it:
// the overlap is fine-grained, but severely limited, for page faults stall the SMs; and for large
// contiguous regions on demand never beats bulk copies or prefetches [LC A].
//
// An array on the host is read by a kernel that computes for a while; its result stays on the
// device. The array moves on demand, by one prefetch, by one copy, or in eight pieces: piece k + 1
// moves while the kernel works on piece k. Look at "on demand" beside the sum of the two parts, and
// at what moving in pieces costs without a kernel (prefetch_calls says why).
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o prefetch_overlap prefetch_overlap.cu ../common/*.cpp
//
//   1  one_minus  a thread per word, many additions each
#include <algorithm>
#include <chrono>
#include <thread>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"

namespace {

// So many additions take an H100 three quarters of the time that its link (53 GB/s) takes to bring
// the word. On GPUs with a slower link and fewer SMs the kernel is not much longer than the
// transfer either. The number is odd: so 1 - x is left.
constexpr int steps = 1501;
static_assert(steps % 2 == 1);

// A warp reads 32 neighbouring words, and computes. Where their page is not there, the warp waits.
__global__ void one_minus(float* out, const float* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
#pragma unroll 16
  for (int step = 0; step < steps; ++step) x = 1 - x;
  out[i] = x;
}

// ---- the array, and where it lies ----

/// Word i: a multiple of 2^-24 below 1, so that 1 - x is exact.
struct Input {
  __host__ __device__ float operator()(size_t i) const { return float(hash(i) >> 8) / (1 << 24); }
};
struct Result {
  __host__ __device__ float operator()(size_t i) const { return 1 - Input{}(i); }
};

constexpr size_t pieces = 8;
struct Piece {
  size_t first, words;
};
Piece piece(size_t n, size_t k) {
  const size_t first = n * k / pieces;
  return {first, n * (k + 1) / pieces - first};
}

struct Arrays {
  size_t n, bytes;
  ManagedBuffer<float> managed;
  PinnedBuffer<float> pinned;
  std::vector<float> pageable;
  DeviceBuffer<float> on_device;  ///< where copies arrive
  GuardedBuffer<float> out;
  Stream moving, computing;
  Event arrived;

  explicit Arrays(size_t words)
      : n(words),
        bytes(n * sizeof(float)),
        managed(n),
        pinned(n),
        pageable(n),
        on_device(filled<float>(n, Input{})),
        out(n) {
    CUDA_CHECK(cudaMemcpy(managed, on_device, bytes, cudaMemcpyDefault));
    CUDA_CHECK(cudaMemcpy(pinned, on_device, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(pageable.data(), on_device, bytes, cudaMemcpyDeviceToHost));
  }
};

// ---- the parts, and ways to put them together ----

void compute(const Arrays& a, const float* in, const Piece& p, cudaStream_t stream = nullptr) {
  if (p.words == 0) return;
  one_minus<<<unsigned(ceil_div(p.words, 256)), 256, 0, stream>>>(a.out.data() + p.first,
                                                                  in + p.first, p.words);
  CUDA_CHECK_LAUNCH();
}

void kernel(Arrays& a) { compute(a, a.on_device, {0, a.n}); }
void one_prefetch(Arrays& a) {
  CUDA_CHECK(cudaMemPrefetchAsync(a.managed, a.bytes, gpu_memory(), 0, nullptr));
}
void pinned_copy(Arrays& a) {
  CUDA_CHECK(cudaMemcpy(a.on_device, a.pinned, a.bytes, cudaMemcpyHostToDevice));
}
void pageable_copy(Arrays& a) {
  CUDA_CHECK(cudaMemcpy(a.on_device, a.pageable.data(), a.bytes, cudaMemcpyHostToDevice));
}

void on_demand(Arrays& a) { compute(a, a.managed, {0, a.n}); }

void prefetch_then_kernel(Arrays& a) {
  one_prefetch(a);
  compute(a, a.managed, {0, a.n});
}
void pinned_copy_then_kernel(Arrays& a) {
  pinned_copy(a);
  kernel(a);
}
void pageable_copy_then_kernel(Arrays& a) {
  pageable_copy(a);
  kernel(a);
}

/// The kernel works on a piece while the next one moves in another stream. The kernel is launched
/// first: the call of a prefetch may return as late as when its pages have moved.
void in_pieces(Arrays& a, const float* in, void (*move)(Arrays&, const Piece&)) {
  for (size_t k = 0; k <= pieces; ++k) {
    if (k > 0) {
      CUDA_CHECK(cudaStreamWaitEvent(a.computing, a.arrived, 0));
      compute(a, in, piece(a.n, k - 1), a.computing);
    }
    if (k < pieces) {
      if (const Piece next = piece(a.n, k); next.words > 0) move(a, next);
      CUDA_CHECK(cudaEventRecord(a.arrived, a.moving));
    }
  }
}

void prefetch_piece(Arrays& a, const Piece& p) {
  CUDA_CHECK(cudaMemPrefetchAsync(a.managed + p.first, p.words * sizeof(float), gpu_memory(), 0,
                                  a.moving));
}
void copy_piece(Arrays& a, const Piece& p) {
  CUDA_CHECK(cudaMemcpyAsync(a.on_device + p.first, a.pinned + p.first, p.words * sizeof(float),
                             cudaMemcpyHostToDevice, a.moving));
}

template <void (*move)(Arrays&, const Piece&)>
void all_pieces(Arrays& a) {
  for (size_t k = 0; k < pieces; ++k)
    if (const Piece p = piece(a.n, k); p.words > 0) move(a, p);
}
void prefetch_pieces(Arrays& a) { in_pieces(a, a.managed, prefetch_piece); }
void copy_pieces(Arrays& a) { in_pieces(a, a.on_device, copy_piece); }

/// All of them. Managed pages are brought back to the host before each run.
std::vector<Benchmark> benchmarks(const std::shared_ptr<Arrays>& arrays) {
  Arrays& a = *arrays;
  const auto work = [&](void (*way)(Arrays&)) {
    return [arrays, way] {
      way(*arrays);
      CUDA_CHECK(cudaDeviceSynchronize());
    };
  };
  const auto to_host = [arrays, &a] {
    CUDA_CHECK(cudaMemPrefetchAsync(a.managed, a.bytes, host_memory, 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto poison_copy = [arrays, &a] {
    CUDA_CHECK(cudaMemset(a.on_device, 0xff, a.bytes));
    a.out.poison();  // and waits
  };
  const Check right = equals(a.out, Result{});
  const Check copied = {poison_copy, right.find_error};
  return {
      {"kernel", work(kernel), right, true},
      {"prefetch", work(one_prefetch), {}, true, to_host},
      {"prefetch in 8 pieces", work(all_pieces<prefetch_piece>), {}, true, to_host},
      {"pinned copy", work(pinned_copy), {}, true},
      {"pinned copy in 8 pieces", work(all_pieces<copy_piece>), {}, true},
      {"pageable copy", work(pageable_copy), {}, true},
      {"on demand", work(on_demand), right, true, to_host},
      {"prefetch, then kernel", work(prefetch_then_kernel), right, true, to_host},
      {"prefetch of pieces beside it", work(prefetch_pieces), right, true, to_host},
      {"pageable copy, then kernel", work(pageable_copy_then_kernel), copied, true},
      {"pinned copy, then kernel", work(pinned_copy_then_kernel), copied, true},
      {"copies of pieces beside it", work(copy_pieces), copied, true},
  };
}

// ---- prediction ----

double serial_ms(double transfer_ms, double kernel_ms) { return transfer_ms + kernel_ms; }

/// Of transfers in pieces: the longer of the two, and of the other one piece. The first transfer has
/// no kernel beside it, or the last kernel no transfer.
double overlapped_ms(double transfer_ms, double kernel_ms) {
  return std::max(transfer_ms, kernel_ms) + std::min(transfer_ms, kernel_ms) / pieces;
}

/// A plausibility check: one after the other, two parts take no more than 1.3 times their sum.
/// Throws WrongResult: then something else was timed as well, such as pages on their way back.
void require_only_parts(const std::string& what, double ms, double sum_ms) {
  if (ms > 1.3 * sum_ms)
    throw WrongResult(what + ": " + std::to_string(ms) + " ms, and its parts take " +
                      std::to_string(sum_ms) + " ms: something else was timed as well");
}

const Claim never_beats{.id = "05.4",
                        .statement = "on-demand migration never beats bulk copies or prefetches",
                        .source = "[LC A] \"never beat ... for large contiguous memory regions\""};
const Claim limited{.id = "05.8",
                    .statement = "SM stalls at page faults severely limit overlap on demand",
                    .source = "[LC A] \"severely limited due to the SM stalls\""};

}  // namespace

void prefetch_overlap(Run& run) {
  const size_t by_default = size_t(1) << (run.quick ? 21 : 23);
  const size_t n = run.fitting_on_host(run.fitting(by_default, 12), 12);  // three arrays on each
  const double bytes = sizeof(float) * double(n);
  run.title(bytes_text(bytes) + " on the host are read by a kernel; pieces of " +
            bytes_text(bytes / pieces));
  if (const std::string why = nothing_moves_because(run.gpu); !why.empty()) {
    run.claim_skipped(never_beats, why);
    return run.claim_skipped(limited, why);
  }

  const auto allocated = [n] { return benchmarks(std::make_shared<Arrays>(n)); };
  const Timings timed = run.timer.with_fresh_memory(allocated, 2);
  const auto ms = [&](const std::string& name) { return timed[name].median(); };

  Table table("way", {"ms", "spread", "GB/s", "predicted, ms"});
  const auto row = [&](const char* name, Cell predicted) {
    const Times& times = timed[name];
    table.row(name, {times.ms_interval(), percent(times.spread()), times.gbs(bytes), predicted});
  };
  const auto one_by_one = [&](const char* name, const char* transfer) {
    const double sum = serial_ms(ms(transfer), ms("kernel"));
    row(name, sum);
    require_only_parts(name, timed[name].ms_interval().low, sum);
  };
  const auto beside = [&](const char* name, const std::string& transfer) {
    const double in_pieces_ms = ms(transfer + " in 8 pieces");
    row(name, overlapped_ms(in_pieces_ms, ms("kernel")));
    require_no_shorter(name, ms(name), std::max(ms(transfer), ms("kernel")));
  };
  for (const char* part : {"kernel", "prefetch", "prefetch in 8 pieces", "pinned copy",
                           "pinned copy in 8 pieces", "pageable copy"})
    row(part, "");
  row("on demand", "");
  one_by_one("prefetch, then kernel", "prefetch");
  beside("prefetch of pieces beside it", "prefetch");
  one_by_one("pageable copy, then kernel", "pageable copy");
  one_by_one("pinned copy, then kernel", "pinned copy");
  beside("copies of pieces beside it", "pinned copy");
  run.print(table);
  run.note("GB/s of the array; predicted: the sum of the parts, or of pieces the longer and an");
  run.note("eighth of the other; what the driver does at a fault has no prediction");
  const double by_prefetch = serial_ms(ms("prefetch"), ms("kernel"));
  run.note("over the sum of prefetch and kernel: on demand " +
           digits(ms("on demand") / by_prefetch) + ", in pieces " +
           digits(ms("prefetch of pieces beside it") / by_prefetch));
  run.note("below 1 transfers and kernel overlap; above 1 stalls cost more than overlap saves");

  // The text means copies that could overlap the kernel: not a pageable one.
  std::vector<Interval> over_on_demand;
  for (const char* bulk : {"prefetch, then kernel", "pinned copy, then kernel"})
    over_on_demand.push_back(ratio(timed[bulk], timed["on demand"]));
  run.claim_each(never_beats, over_on_demand,
                 bytes_text(bytes) + ": time of '..., then kernel' / on demand", no_more(0.15));
  // A prefetch that ends before the kernel begins overlaps nothing.
  run.claim(limited, timed.speedup({.of = "prefetch, then kernel", .over = "on demand"}),
            much_faster());
}
SAMPLE(4, prefetch_overlap, "on demand, by prefetch, by copy: do transfers overlap the kernel?");

TEST_CASE("prefetch_overlap: transfer and kernel, by hand") {
  CHECK(serial_ms(4, 2) == 6);
  CHECK(overlapped_ms(4, 2) == 4.25);  // the last of eight kernels of 0.25 has no transfer beside
  CHECK(overlapped_ms(2, 4) == 4.25);  // nor the first of eight transfers a kernel
}

TEST_CASE("prefetch_overlap: what no time can be, at each edge") {
  CHECK_NOTHROW(require_no_shorter("", 3.61, 4));
  CHECK_THROWS_AS(require_no_shorter("", 3.59, 4), WrongResult);  // a part takes 4
  CHECK_NOTHROW(require_only_parts("", 5.19, 4));
  CHECK_THROWS_AS(require_only_parts("", 5.21, 4), WrongResult);  // all parts take 4
}

TEST_CASE("prefetch_overlap: pieces follow each other and cover all words") {
  for (const size_t n : {1, 7, 8, 1009, 1 << 20}) {
    CAPTURE(n);
    size_t end = 0;
    for (size_t k = 0; k < pieces; ++k) {
      CHECK(piece(n, k).first == end);
      end += piece(n, k).words;
    }
    CHECK(end == n);
  }
  CHECK(piece(1 << 20, 3).words == 1 << 17);
}

TEST_CASE("prefetch_overlap: no result looks like its input, or poisoned") {
  for (size_t i = 0; i < 10000; ++i) CHECK((Result{}(i) >= 0 && Result{}(i) != Input{}(i)));
}

TEST_CASE("prefetch_overlap: the kernel computes every word at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 1009}) {
    CAPTURE(n);
    std::vector<float> words(n);
    for (size_t i = 0; i < n; ++i) words[i] = Input{}(i);
    const DeviceBuffer<float> in(words);
    const GuardedBuffer<float> out(n);
    one_minus<<<unsigned(ceil_div(n, 256)), 256>>>(out, in, n);
    CUDA_CHECK_LAUNCH();
    for (float& x : words)
      for (int step = 0; step < steps; ++step) x = 1 - x;
    CHECK(out.to_host() == words);
    CHECK(guard_error(out) == "");
  }
}

TEST_CASE("prefetch_overlap: every way is right at awkward sizes") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  for (const size_t n : {1, 1009, (1 << 20) + 7}) {
    for (const Benchmark& benchmark : benchmarks(std::make_shared<Arrays>(n))) {
      CAPTURE(n);
      CAPTURE(benchmark.name);
      CHECK_NOTHROW(require_right(benchmark));
      if (!benchmark.check.poison) continue;
      benchmark.check.poison();
      CHECK(benchmark.check.find_error() != "");  // nothing is computed yet
      CHECK_NOTHROW(require_right(benchmark));    // and the array is whole for the next
    }
  }
}

TEST_CASE("prefetch_overlap: each kernel waits for its piece, however late it comes") {
  if (skip_without_gpu()) return;
  Arrays a(1009);
  CUDA_CHECK(cudaMemset(a.on_device, 0xff, a.bytes));
  a.out.poison();
  const cudaHostFn_t sleep = [](void*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  CUDA_CHECK(cudaLaunchHostFunc(a.moving, sleep, nullptr));
  copy_pieces(a);
  CUDA_CHECK(cudaDeviceSynchronize());
  CHECK(equals(a.out, Result{}).find_error() == "");
}
