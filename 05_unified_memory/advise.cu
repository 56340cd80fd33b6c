// advise: does it help to tell the driver how memory will be used? The lecture says that unified
// memory needs look-ahead, so that pages are in the right place [PR]. An advice is such a
// look-ahead. It makes no claim.
//
// Four patterns of use, each with no advice and with three: read mostly (each side may keep a copy
// of a page), preferred on the host (pages stay there), accessed by the device (it has a mapping
// from the start, wherever a page lies). Look at what moves: each advice helps with one pattern and
// hurts with another. The results are right under all of them.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o advise advise.cu ../common/*.cpp
//
//   1  sum_lines  the device reads all lines of 128 bytes, or some of them
//   2  increment  the device changes every word
#include <algorithm>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"

namespace {

// ---- kernels ----

// A warp reads every `stride`-th line of 32 neighbouring words, steps on by the grid's warps, and
// each thread adds to its own sum.
__global__ void sum_lines(unsigned* sums, const unsigned* x, size_t n, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = gridDim.x * size_t(blockDim.x) / 32;
  unsigned sum = 0;
  for (size_t line = tid / 32; line * stride * 32 < n; line += warps) {
    const size_t i = line * stride * 32 + tid % 32;
    if (i < n) sum += x[i];
  }
  sums[tid] += sum;
}

// A warp adds one to 32 neighbouring words: it reads them first, then writes them.
__global__ void increment(unsigned* x, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) ++x[i];
}

// ---- the advices ----

enum Advice { pinned, none, read_mostly, preferred_on_host, accessed_by_device };
constexpr Advice advices[] = {pinned, none, read_mostly, preferred_on_host, accessed_by_device};
constexpr const char* names[] = {"pinned memory", "no advice", "read mostly", "preferred on host",
                                 "accessed by device"};

void give(Advice advice, const void* x, size_t bytes) {
#if CUDART_VERSION >= 13000
  const cudaMemLocation device{cudaMemLocationTypeDevice, current_device()};
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
#else
  const int device = current_device(), host = cudaCpuDeviceId;
#endif
  if (advice == read_mostly)  // for whom does not matter
    CUDA_CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetReadMostly, device));
  if (advice == preferred_on_host)
    CUDA_CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetPreferredLocation, host));
  if (advice == accessed_by_device)
    CUDA_CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetAccessedBy, device));
}

// ---- the patterns of use ----

constexpr unsigned threads = 256, sum_blocks = 256, sum_warps = sum_blocks * threads / 32;
constexpr size_t page_words = 4096 / sizeof(unsigned);            // a page of the host
constexpr size_t sparse = (256 << 10) / (32 * sizeof(unsigned));  // of the lines in 256 KiB, one
constexpr unsigned rounds = 4, passes = 64;                       // in turn; often

/// Fresh memory for one use of it. The host has written it: so it lies there.
struct Memory {
  const Advice advice;
  const size_t n, bytes = n * sizeof(unsigned);
  unsigned* x = nullptr;
  DeviceBuffer<unsigned> sums{sum_blocks * threads};

  Memory(size_t words, Advice given) : advice(given), n(words) {
    if (advice == pinned) {
      CUDA_CHECK(cudaMallocHost(&x, bytes));
    } else {
      CUDA_CHECK(cudaMallocManaged(&x, bytes));
      CUDA_CHECK(cudaMemPrefetchAsync(x, bytes, host_memory, 0, nullptr));
    }
    CUDA_CHECK(cudaMemset(sums, 0, sums.bytes()));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < n; ++i) x[i] = hash(i);
    give(advice, x, bytes);
  }
  Memory(const Memory&) = delete;
  ~Memory() { advice == pinned ? cudaFreeHost(x) : cudaFree(x); }

  void add_up(size_t stride) {
    sum_lines<<<sum_blocks, threads>>>(sums, x, n, stride);
    CUDA_CHECK_LAUNCH();
  }
};

void both_read(Memory& m) {
  for (unsigned round = 0; round < rounds; ++round) {
    m.add_up(1);
    CUDA_CHECK(cudaDeviceSynchronize());
    read_every_page(m.x, m.bytes);
  }
}

void both_write(Memory& m) {
  for (unsigned round = 0; round < rounds; ++round) {
    increment<<<unsigned((m.n + threads - 1) / threads), threads>>>(m.x, m.n);
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < m.n; i += page_words) m.x[i] += 1;
  }
}

void read_little(Memory& m) {
  m.add_up(sparse);
  CUDA_CHECK(cudaDeviceSynchronize());
}

void read_often(Memory& m) {
  for (unsigned pass = 0; pass < passes; ++pass) m.add_up(1);
  CUDA_CHECK(cudaDeviceSynchronize());
}

struct Pattern {
  const char* name;
  void (*use)(Memory&);
  size_t stride;
  unsigned sums;   ///< times that the device adds the lines up
  unsigned added;  ///< to every word by the device, to the first of each page by the host
};
constexpr Pattern patterns[] = {
    {"both read in turn", both_read, 1, rounds, 0},
    {"both write in turn", both_write, 1, 0, rounds},
    {"device reads little, once", read_little, sparse, 1, 0},
    {"device reads all, often", read_often, 1, passes, 0},
};

// ---- what is right ----

/// What each thread adds up: from lines to the threads that take them, where the kernel goes from
/// threads to lines.
std::vector<unsigned> right_sums(size_t n, size_t stride) {
  std::vector<unsigned> sums(sum_warps * 32, 0);
  for (size_t i = 0; i < n; ++i) {
    const size_t line = i / 32;
    if (line % stride == 0) sums[line / stride % sum_warps * 32 + i % 32] += hash(i);
  }
  return sums;
}

std::string find_error(const Pattern& pattern, const Memory& m) {
  const std::vector<unsigned> right = right_sums(m.n, pattern.stride), found = m.sums.to_host();
  const auto sum_at = [&](size_t t) { return pattern.sums * right[t]; };
  if (const auto error = find_mismatch_on_host(found.data(), found.size(), sum_at); !error.empty())
    return "of the sums " + error;
  return find_mismatch_on_host(m.x, m.n, [&](size_t i) {
    return hash(i) + pattern.added + (i % page_words == 0 ? pattern.added : 0);
  });
}

std::string name_of(const Pattern& pattern, Advice advice) {
  return std::string(pattern.name) + ", " + names[advice];
}

/// A pattern under each advice.
std::vector<Benchmark> uses_of(size_t n, const Pattern& pattern) {
  std::vector<Benchmark> uses;
  for (const Advice advice : advices) {
    const auto memory = std::make_shared<std::unique_ptr<Memory>>();  // of the run under way
    const auto fresh = [=] {
      memory->reset();
      *memory = std::make_unique<Memory>(n, advice);
    };
    uses.push_back(Benchmark{.name = name_of(pattern, advice),
                             .work = [=, &pattern] { pattern.use(**memory); },
                             .check = {{}, [=, &pattern] { return find_error(pattern, **memory); }},
                             .on_host = true,
                             .before = fresh});
  }
  return uses;
}

/// What moves, of each use three runs.
Counted count_all(size_t n) {
  std::vector<Benchmark> all;
  for (const Pattern& pattern : patterns)
    for (const Benchmark& use : uses_of(n, pattern)) all.push_back(use);
  return count_migrations(all, 3);
}

Timings time_uses(const Run& run, size_t n, const Pattern& pattern) {
  Timer timer = run.timer;
  timer.rounds = 12;  // as few as an interval takes: one of the uses is slow
  return timer.interleaved(uses_of(n, pattern));
}

void print_pattern(Run& run, const Pattern& pattern, const Timings& timed, const Counted& counted) {
  Table table(pattern.name,
              {"ms", "spread", "predicted", "MiB to GPU", "to host", "GPU groups", "CPU faults"});
  for (const Advice advice : advices) {
    const Times& times = timed[name_of(pattern, advice)];
    const double by_bus_ms = timed[name_of(pattern, pinned)].median();
    const auto count = [&](What what, double Line::*number, double unit = 1) -> Cell {
      if (!counted.missing.empty()) return NAN;
      return fullest(counted.runs.at(name_of(pattern, advice)))[what].*number / unit;
    };
    table.row(names[advice],
              {times.ms_interval(), percent(times.spread()),
               advice == accessed_by_device ? by_bus_ms : NAN,
               count(to_device, &Line::bytes, 1 << 20), count(to_host, &Line::bytes, 1 << 20),
               count(fault_groups, &Line::count), count(cpu_faults, &Line::count)});
  }
  run.print(table);
}

}  // namespace

void advise(Run& run) {
  const size_t n = size_t(1) << (run.quick ? 17 : 20);
  run.title("four uses of " + bytes_text(double(n) * sizeof(unsigned)) +
            " that lie on the host, with three kinds of advice");
  if (const std::string why = nothing_moves_because(run.gpu); !why.empty()) return run.note(why);
  std::vector<Timings> timed;  // before anything is counted: counting may slow faults down
  for (const Pattern& pattern : patterns) timed.push_back(time_uses(run, n, pattern));
  const Counted counted = count_all(n);
  for (size_t p = 0; p < timed.size(); ++p) print_pattern(run, patterns[p], timed[p], counted);
  size_t lost = 0, of = 0;
  for (const auto& [name, runs] : counted.runs) {
    lost += runs_with_fewer_bytes(runs);
    of += runs.size();
  }
  if (!counted.missing.empty()) run.note("what moves: " + counted.missing);
  run.note("predicted: what is mapped is read and written over the bus, as pinned memory is;");
  run.note("what the driver does at a fault is not documented. GPU groups: of page faults");
  run.note("in turn: " + std::to_string(rounds) + " times; often: " + std::to_string(passes) +
           " times; little: 128 bytes in 256 KiB, for which a fault brings 64 KiB");
  run.note("read mostly: before a write two copies must become one, for each page of the host");
  if (of > 0)
    run.note("counts of the fullest of three runs of each; CUPTI had fewer bytes in " +
             std::to_string(lost) + " of " + std::to_string(of) + " runs");
}
SAMPLE(6, advise, "what each advice changes, where it helps and where it hurts");

TEST_CASE("advise: each thread's sum, by hand") {
  std::vector<unsigned> sums = right_sums(33, 1);
  CHECK((sums[31] == hash(31) && sums[32] == hash(32) && sums[33] == 0));  // two warps
  sums = right_sums(100, 2);
  CHECK((sums[32] == hash(64) && sums[33] == hash(65)));  // the second warp has the third line
  constexpr size_t all = sum_blocks * threads;
  sums = right_sums(all + 5, 1);  // the first warp's second line ends
  CHECK(sums[4] == hash(4) + hash(all + 4));
  CHECK(sums[5] == hash(5));
}

TEST_CASE("advise: the kernels are right at awkward sizes and write nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1025, 100003}) {
    CAPTURE(n);
    const auto word = [] __device__(size_t i) { return hash(i); };
    const auto in = filled<unsigned>(n, word);
    const GuardedBuffer<unsigned> sums(sum_blocks * threads), x(n);
    CUDA_CHECK(cudaMemset(sums, 0, sums.bytes()));
    sum_lines<<<sum_blocks, threads>>>(sums, in, n, 3);
    CUDA_CHECK_LAUNCH();
    CHECK(sums.to_host() == right_sums(n, 3));
    CHECK(guard_error(sums) == "");

    CUDA_CHECK(cudaMemcpy(x, in, x.bytes(), cudaMemcpyDeviceToDevice));
    increment<<<unsigned((n + threads - 1) / threads), threads>>>(x, n);
    CUDA_CHECK_LAUNCH();
    CHECK(find_mismatch(x, [] __device__(size_t i) { return hash(i) + 1; }) == "");
  }
}

TEST_CASE("advise: every use is right under every advice at awkward sizes") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  for (const size_t n : {size_t(1), size_t(1025), size_t(100003), sparse * 32 * 3 + 5}) {
    CAPTURE(n);
    for (const Pattern& pattern : patterns)
      for (const Benchmark& use : uses_of(n, pattern)) CHECK_NOTHROW(require_right(use));
  }
}

TEST_CASE("advise: two sums that cancel are found, and a use that did not happen") {
  if (skip_without_gpu()) return;
  Memory memory(100003, pinned);
  CHECK(find_error(patterns[3], memory) != "");
  read_often(memory);
  REQUIRE(find_error(patterns[3], memory) == "");
  std::vector<unsigned> sums = memory.sums.to_host();
  ++sums[7];
  --sums[40];
  CUDA_CHECK(cudaMemcpy(memory.sums, sums.data(), memory.sums.bytes(), cudaMemcpyHostToDevice));
  CHECK(find_error(patterns[3], memory) == "of the sums " + mismatch_text(2, sums.size(), 7));
}

TEST_CASE("advise: advices change what moves") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  constexpr size_t n = size_t(1) << 20;
  constexpr double bytes = n * sizeof(unsigned);
  const Counted counted = count_all(n);
  if (!counted.missing.empty()) return skip(counted.missing);
  const auto made = [&](size_t pattern, Advice advice) -> const Migrations& {
    return fullest(counted.runs.at(name_of(patterns[pattern], advice)));
  };
  CHECK(made(0, none)[to_host].bytes >= bytes);           // the host takes them away
  CHECK(made(0, read_mostly)[to_device].bytes == bytes);  // once, and both keep theirs
  CHECK(made(0, read_mostly)[to_host].bytes == 0);
  CHECK(made(2, preferred_on_host)[to_device].bytes == 0);
  CHECK(made(2, accessed_by_device)[to_device].bytes == 0);
  CHECK(made(2, accessed_by_device)[fault_groups].count == 0);
}
