// prefetch_calls: what does a prefetch wait for, and what waits for it? In prefetch_overlap a kernel
// works on the pieces that are prefetched, and the whole takes longer than one prefetch and the kernel
// after it. Does a prefetch wait for the kernel, or the kernel for a prefetch? No text says so.
//
// The first table has the time of the calls on the host beside the whole, in both directions. In the
// second, pieces are prefetched beside a kernel that waits for none of them: it reads memory of
// cudaMalloc, another managed array, or the half of the same array that stays on the device. If a
// prefetch stops the kernel because of the memory that it reads, the three differ.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o prefetch_calls prefetch_calls.cu ../common/*.cpp
//   (the time of the transfers needs CUPTI, which CMake finds: see migrations.hpp)
//
//   1  add_up  reads an array over and over, from the L2 or from memory
#include <algorithm>
#include <chrono>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"

namespace {

// So many passes over 32 MiB take an H100 about 60% of the time that its link takes to bring them.
constexpr unsigned passes = 64;

// In each pass a warp reads 32 neighbouring words, then goes on by the whole grid. It bypasses L1
// (.cg), so that every load needs the address translation that a prefetch may invalidate.
__global__ void add_up(unsigned* sums, const unsigned* x, size_t n) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = gridDim.x * size_t(blockDim.x);
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass)
    for (size_t i = tid; i < n; i += threads) sum += __ldcg(x + i);
  sums[tid] = sum;
}

// ---- the arrays ----

constexpr unsigned threads_per_block = 256;

struct Words {
  __host__ __device__ unsigned operator()(size_t i) const { return hash(i); }
};

struct Arrays {
  size_t n;
  GuardedBuffer<unsigned> sums;
  DeviceBuffer<unsigned> plain = filled<unsigned>(n, Words{});
  ManagedBuffer<unsigned> halves{2 * n}, other{n};
  Stream moving, computing;
  Event arrived, begin, end;  ///< of the prefetches, of the kernel

  Arrays(size_t words, unsigned blocks) : n(words), sums(size_t(blocks) * threads_per_block) {
    for (unsigned* to : {stays(), moves(), other.data()})
      CUDA_CHECK(cudaMemcpy(to, plain, n * sizeof(unsigned), cudaMemcpyDefault));
  }
  unsigned* stays() const { return halves; }
  unsigned* moves() const { return halves + n; }
};

// ---- the ways: add yours here ----

enum To { device, host };
cudaMemLocation place(To to) { return to == device ? gpu_memory() : host_memory; }

struct Way {
  std::string name;
  size_t words = 0;  ///< that are prefetched
  size_t calls = 1;
  To to = device;
  const unsigned* read = nullptr;  ///< by the kernel; none: no kernel
};

constexpr size_t pieces = 8;
const char* const directions[] = {"to the device", "to the host"};

std::string name_of(To to, size_t words, size_t calls) {
  return std::string(directions[to]) + ", " + bytes_text(double(words * sizeof(unsigned))) +
         (calls > 1 ? " in " + std::to_string(calls) + " calls" : "");
}
std::vector<Way> prefetches(const Arrays& a) {
  std::vector<Way> all;
  for (const To to : {device, host}) {
    for (const size_t words : {a.n / 16, a.n / 4, a.n})
      all.push_back({name_of(to, words, 1), words, 1, to});
    all.push_back({name_of(to, a.n, pieces), a.n, pieces, to});
  }
  return all;
}

/// What the kernel reads. None of it moves.
std::vector<Way> kernels(const Arrays& a) {
  return {{.name = "memory of cudaMalloc", .read = a.plain},
          {.name = "another managed array", .read = a.other},
          {.name = "half of the same array", .read = a.stays()}};
}
Way beside(const Arrays& a, Way kernel, To to) {
  return {std::string(directions[to]) + ": " + kernel.name, a.n, pieces, to, kernel.read};
}
std::vector<Way> all_ways(const Arrays& a) {
  std::vector<Way> all = prefetches(a);
  for (const Way& kernel : kernels(a)) {
    all.push_back(kernel);
    for (const To to : {device, host}) all.push_back(beside(a, kernel, to));
  }
  return all;
}

// ---- one run ----

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Of the whole run the parts, in ms: the host's in the calls, and the kernel's, by its events. A
/// value per run.
struct Parts {
  std::vector<double> calls, kernel;
};

void prefetch(const Arrays& a, const Way& way) {
  for (size_t k = 0; k < way.calls; ++k) {
    const size_t first = way.words * k / way.calls, end = way.words * (k + 1) / way.calls;
    if (first == end) continue;
    CUDA_CHECK(cudaMemPrefetchAsync(a.moves() + first, (end - first) * sizeof(unsigned),
                                    place(way.to), 0, a.moving));
  }
}

void run_once(const Arrays& a, const Way& way, Parts& parts) {
  if (way.read) {
    CUDA_CHECK(cudaEventRecord(a.begin, a.computing));
    const unsigned blocks = unsigned(a.sums.size() / threads_per_block);
    add_up<<<blocks, threads_per_block, 0, a.computing>>>(a.sums, way.read, a.n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaEventRecord(a.end, a.computing));
  }
  const auto start = std::chrono::steady_clock::now();
  prefetch(a, way);
  parts.calls.push_back(ms_since(start));
  CUDA_CHECK(cudaEventRecord(a.arrived, a.moving));
  CUDA_CHECK(cudaEventSynchronize(a.arrived));
  CUDA_CHECK(cudaStreamSynchronize(a.computing));
  if (!way.read) return;
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, a.begin, a.end));
  parts.kernel.push_back(ms);
}

/// The words that move are on the other side before each run, and the others on the device.
Benchmark benchmark(const std::shared_ptr<Arrays>& arrays, const Way& way,
                    const std::shared_ptr<Parts>& parts) {
  const auto before = [=] {
    const Arrays& a = *arrays;
    const size_t bytes = a.n * sizeof(unsigned);
    for (const unsigned* stays : {a.stays(), a.other.data()})
      CUDA_CHECK(cudaMemPrefetchAsync(stays, bytes, gpu_memory(), 0, nullptr));
    const To from = way.to == device ? host : device;
    CUDA_CHECK(cudaMemPrefetchAsync(a.moves(), bytes, place(from), 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto right_sum = [n = arrays->n, threads = arrays->sums.size()] __device__(size_t thread) {
    unsigned sum = 0;
    for (size_t i = thread; i < n; i += threads) sum += hash(i);
    return passes * sum;
  };
  const Check sums = equals(arrays->sums, right_sum);
  const auto find_error = [=] {
    const std::string error = way.read ? sums.find_error() : "";
    return error.empty() ? find_mismatch(arrays->moves(), arrays->n, Words{}) : error;
  };
  return {.name = way.name,
          .work = [=] { run_once(*arrays, way, *parts); },
          .check = {way.read ? sums.poison : nullptr, find_error},
          .on_host = true,
          .before = before};
}

// ---- the prediction ----

/// How much of the shorter of the two is hidden behind the longer: 1 if they overlap completely, 0
/// if one waits for the other.
double hidden(double a_ms, double b_ms, double both_ms) {
  return (a_ms + b_ms - both_ms) / std::min(a_ms, b_ms);
}

}  // namespace

void prefetch_calls(Run& run) {
  const size_t by_default = size_t(1) << (run.quick ? 21 : 23);
  const size_t n = run.fitting_on_host(run.fitting(by_default, 16), 12);
  const double bytes = double(n * sizeof(unsigned));
  run.title("prefetches of " + bytes_text(bytes) + ", alone and beside a kernel");
  if (const std::string why = nothing_moves_because(run.gpu); !why.empty()) return run.note(why);

  const auto arrays = std::make_shared<Arrays>(n, run.resident_blocks(threads_per_block));
  std::map<std::string, std::shared_ptr<Parts>> parts;
  std::vector<Benchmark> all;
  for (const Way& way : all_ways(*arrays)) {
    parts[way.name] = std::make_shared<Parts>();
    all.push_back(benchmark(arrays, way, parts[way.name]));
  }
  const Timings timed = run.timer.interleaved(all);
  const auto median = [](const std::vector<double>& ms) {
    return interval_of_median(ms, run_to_run_host);
  };
  std::map<std::string, Interval> calls;  // before the runs that are counted add theirs
  for (const auto& [name, of] : parts) calls[name] = median(of->calls);

  constexpr int counted_runs = 12;
  const std::vector<Way> alone = prefetches(*arrays);
  const Counted counted =
      count_migrations({all.begin(), all.begin() + long(alone.size())}, counted_runs);
  int whole_runs = 0;
  Table table("prefetch", {"whole, ms", "its calls", "transfers", "GB/s", "calls, us per 4 KiB"});
  for (const Way& way : alone) {
    const double moved = double(way.words * sizeof(unsigned));
    std::vector<double> transfers;
    if (counted.missing.empty())
      for (const Migrations& of : counted.runs.at(way.name))
        if (const Line& line = of[way.to == device ? to_device : to_host]; line.bytes == moved)
          transfers.push_back(line.ms);
    whole_runs += int(transfers.size());
    table.row(way.name, {timed[way.name].ms_interval(), calls[way.name],
                         transfers.size() < 6 ? Cell("") : Cell(median(transfers)),
                         timed[way.name].gbs(moved), calls[way.name] * 1e3 / (moved / 4096)});
  }
  run.print(table);
  run.note(
      "whole: until an event behind the prefetches is reached; its calls: the host's time in them");
  run.note(counted.missing.empty()
               ? "transfers: the sum of their times by CUPTI, which had all bytes in " +
                     std::to_string(whole_runs) + " of " +
                     std::to_string(counted_runs * int(alone.size())) + " runs"
               : "transfers: " + counted.missing);

  Table both("ms, pieces", {"prefetches", "kernel", "both", "hidden", "calls then", "kernel then"});
  for (const To to : {device, host})
    for (const Way& kernel : kernels(*arrays)) {
      const std::string name = beside(*arrays, kernel, to).name;
      const double prefetch_ms = timed[name_of(to, n, pieces)].median();
      const double kernel_ms = timed[kernel.name].median(), both_ms = timed[name].median();
      require_no_shorter(name, both_ms, std::max(timed[name_of(to, n, 1)].median(), kernel_ms));
      both.row(name, {prefetch_ms, median(parts[kernel.name]->kernel), timed[name].ms_interval(),
                      percent(hidden(prefetch_ms, kernel_ms, both_ms)), calls[name],
                      median(parts[name]->kernel)});
    }
  run.print(both);
  run.note(
      "eight prefetches beside a kernel that waits for none of them; what it reads stays on the");
  run.note(
      "device. hidden: of the shorter of the two; then: when both run. calls: the host's time in");
  run.note("them; kernel: between events");
}
SAMPLE(5, prefetch_calls, "what the call of a prefetch costs, and whether a kernel runs beside it");

TEST_CASE("prefetch_calls: what is hidden, by hand") {
  CHECK(hidden(4, 2, 4) == 1);
  CHECK(hidden(4, 2, 6) == 0);
  CHECK(hidden(2, 4, 5) == 0.5);
  CHECK(hidden(4, 2, 7) == -0.5);  // they hinder each other
}

TEST_CASE("prefetch_calls: the kernel adds up every word at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 1009, 100003}) {
    CAPTURE(n);
    const auto in = filled<unsigned>(n, Words{});
    const GuardedBuffer<unsigned> sums(512);
    add_up<<<2, 256>>>(sums, in, n);
    CUDA_CHECK_LAUNCH();
    std::vector<unsigned> right(512, 0);
    for (size_t i = 0; i < n; ++i) right[i % 512] += passes * hash(i);
    CHECK(sums.to_host() == right);
    CHECK(guard_error(sums) == "");
  }
}

TEST_CASE("prefetch_calls: every way is right at awkward sizes") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  for (const size_t n : {size_t(1), size_t(1009), (size_t(1) << 20) + 7}) {
    const auto arrays = std::make_shared<Arrays>(n, 3);
    for (const Way& way : all_ways(*arrays)) {
      CAPTURE(way.name);
      CAPTURE(n);
      const Benchmark once = benchmark(arrays, way, std::make_shared<Parts>());
      CHECK_NOTHROW(require_right(once));
      if (!way.read) continue;
      once.check.poison();
      CHECK(once.check.find_error() != "");
    }
  }
}
