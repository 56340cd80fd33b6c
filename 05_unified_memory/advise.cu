// advise: what the driver does otherwise when it is told how memory will be used. The lecture says that managed memory
// needs look-ahead to be in the right place; an advice is such a look-ahead. Four patterns of use, and each of three
// advices on each of them, so that each helps somewhere and hurts somewhere. Look at what the counters say of why.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "migrations.hpp"

namespace {

/// Where the `line`th line begins of which every `stride`th is read: 32 words, 128 bytes.
__host__ __device__ size_t line_begin(size_t line, size_t stride) { return line * stride * 32; }

// Each warp reads every `stride`th line of 32 neighbouring words, steps on by the grid's warps, and adds up.
__global__ void sum_lines(unsigned* sum, const unsigned* x, size_t n, size_t stride) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, warps = gridDim.x * size_t(blockDim.x) / 32;
  unsigned mine = 0;
  for (size_t line = thread / 32; line_begin(line, stride) < n; line += warps) {
    const size_t i = line_begin(line, stride) + thread % 32;
    if (i < n) mine += x[i];
  }
  atomicAdd(sum, mine);
}

// Each warp adds one to 32 neighbouring words: reads them first, then writes them.
__global__ void increment(unsigned* x, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) ++x[i];
}

constexpr int threads = 256, sum_blocks = 256;
constexpr size_t page_words = 4096 / sizeof(unsigned);                   // a page of the host
constexpr size_t sparse_stride = (256 << 10) / (32 * sizeof(unsigned));  // one line in 256 KiB
constexpr int rounds = 4, passes = 64;

unsigned first_value(size_t i) { return unsigned(i * 2654435761u >> 7) | 1; }

/// What `sum_lines` must add up; sums wrap around alike on both sides.
unsigned expected_sum(size_t n, size_t stride) {
  unsigned sum = 0;
  for (size_t line = 0; line_begin(line, stride) < n; ++line)
    for (size_t i = line_begin(line, stride); i < std::min(n, line_begin(line, stride) + 32); ++i)
      sum += first_value(i);
  return sum;
}

/// The array, which lies on the host at first, and the device's sum.
struct Work {
  Managed<unsigned> x;
  DeviceBuffer<unsigned> sum{1};
  size_t host_read_right = 0;  ///< words that the host read and found unchanged

  explicit Work(size_t n) : x(n) {
    x.prefetch(cudaCpuDeviceId);
    wait_for_device();
    for (size_t i = 0; i < n; ++i) x[i] = first_value(i);
    CUDA_CHECK(cudaMemset(sum.data(), 0, sizeof(unsigned)));
  }
  size_t pages() const { return (x.size() + page_words - 1) / page_words; }
  void add_up(size_t stride) {
    sum_lines<<<sum_blocks, threads>>>(sum.data(), x.data(), x.size(), stride);
    CUDA_CHECK_LAUNCH();
  }
};

void both_read(Work& work) {
  for (int round = 0; round < rounds; ++round) {
    work.add_up(1);
    wait_for_device();
    for (size_t i = 0; i < work.x.size(); i += page_words) work.host_read_right += work.x[i] == first_value(i);
  }
}
void both_write(Work& work) {
  for (int round = 0; round < rounds; ++round) {
    increment<<<unsigned((work.x.size() + threads - 1) / threads), threads>>>(work.x.data(), work.x.size());
    CUDA_CHECK_LAUNCH();
    wait_for_device();
    for (size_t i = 0; i < work.x.size(); i += page_words) work.x[i] += 1;
  }
}
void read_little(Work& work) { work.add_up(sparse_stride), wait_for_device(); }
void read_often(Work& work) {
  for (int pass = 0; pass < passes; ++pass) work.add_up(1);
  wait_for_device();
}

/// A way of using the array: what the device's sum is afterwards in times of `stride`'s, what the host reads right, and
/// what is added to every word and to the first of each page.
struct Pattern {
  const char* name;
  void (*use)(Work&);
  unsigned sums, host_reads, added, added_to_page;
  size_t stride;

  bool right(const Work& work) const {
    bool same = work.sum.to_host()[0] == sums * expected_sum(work.x.size(), stride) &&
                work.host_read_right == host_reads * work.pages();
    for (size_t i = 0; i < work.x.size(); ++i)
      same &= work.x[i] == first_value(i) + added + (i % page_words ? 0 : added_to_page);
    return same;
  }
};

const Pattern patterns[] = {
    {"both read in turn", both_read, rounds, rounds, 0, 0, 1},
    {"both write in turn", both_write, 0, 0, rounds, rounds, 1},
    {"device reads little, once", read_little, 1, 0, 0, 0, sparse_stride},
    {"device reads all, often", read_often, passes, 0, 0, 0, 1},
};

struct Advice {
  const char* name;
  bool given, place_is_host;
  cudaMemoryAdvise advice;
};

const Advice advices[] = {
    {"no advice", false, false, cudaMemAdviseSetReadMostly},
    {"read mostly", true, false, cudaMemAdviseSetReadMostly},
    {"preferred on host", true, true, cudaMemAdviseSetPreferredLocation},
    {"accessed by device", true, false, cudaMemAdviseSetAccessedBy},
};

/// Milliseconds that a pattern takes under an advice, in fresh memory that lies on the host; recorded if asked for.
double time_once(const Pattern& pattern, const Advice& advice, size_t n, Recording* recording = nullptr) {
  Work work(n);
  if (advice.given) work.x.advise(advice.advice, advice.place_is_host ? cudaCpuDeviceId : this_device());
  wait_for_device();
  double ms = 0;
  const auto use = [&] { ms = host_ms([&] { pattern.use(work); }); };
  recording ? recording->count(use) : use();
  require_right(pattern.right(work), std::string(pattern.name) + ", " + advice.name);
  return ms;
}

/// Each pattern under each advice in turn, counted.
std::vector<Migrations> count_all(size_t n) {
  Recording recording;
  for (const Pattern& pattern : patterns)
    for (const Advice& advice : advices) time_once(pattern, advice, n, &recording);
  return recording.end();
}

/// Setting up takes longer than most runs, so that three have to do; and one that takes this long is enough.
Statistics time_row(const Run& run, const Pattern& pattern, const Advice& advice, size_t n) {
  constexpr double long_ms = 20;
  std::vector<double> ms{time_once(pattern, advice, n)};
  const size_t repeats = run.measuring.typed ? size_t(run.measuring.repeats) : ms[0] > long_ms ? 1 : 3;
  while (ms.size() < repeats) ms.push_back(time_once(pattern, advice, n));
  return summarize(ms);
}

}  // namespace

void advise(const Run& run) {
  const size_t n = size_t(1) << (run.quick ? 18 : run.full ? 22 : 20);
  run.report.begin("advise", "four patterns of use of " + std::to_string(n) + " words, " +
                                 bytes_text(double(n) * sizeof(unsigned)) +
                                 " on the host at first, under three advices");
  if (!run.device) return run.report.left_out("all patterns");
  if (!has_managed_memory() || !pages_on_demand()) return run.report.left_out("all patterns", managed_memory_text());
  const std::string uncounted = migrations_uncounted_because();
  if (!uncounted.empty()) run.report.left_out("transfers and faults; the times stand alone", uncounted);

  Table table(run.report, "pattern, advice",
              {measured("median ms", "time", "ms", 3), shown("spread"), shown("without / with"),
               counted("MiB to device", "transferred to device", "MiB", 2),
               counted("MiB to host", "transferred to host", "MiB", 2),
               counted("GPU groups", "GPU fault groups", "", 0), counted("CPU faults", "CPU faults", "", 0)});
  const std::vector<Migrations> made = uncounted.empty() ? count_all(n) : std::vector<Migrations>();
  {
    Progress progress("advise", int(std::size(patterns) * std::size(advices)));
    size_t row = 0;
    for (const Pattern& pattern : patterns) {
      double without = NAN;
      for (const Advice& advice : advices) {
        progress.step();
        time_once(pattern, advice, page_words);  // loads the kernels
        const Statistics time = time_row(run, pattern, advice, n);
        if (!advice.given) without = time.median;
        std::vector<Cell> cells{time, time.repeats > 1 ? spread_text(time) : "once", times(without / time.median)};
        cells.resize(7);
        if (!made.empty())
          cells[3] = made[row].to_device.bytes / (1 << 20), cells[4] = made[row].to_host.bytes / (1 << 20),
          cells[5] = made[row].fault_groups, cells[6] = double(made[row].cpu_faults);
        table.row({pattern.name, "advice", advice.name}, cells);
        ++row;
      }
    }
  }
  table.print();
  run.report.note("the times hold the host's part too; without / with: above 1 the advice helps, below 1 it hurts");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("advise: expected sums") {
  CHECK(expected_sum(1, 1) == first_value(0));
  CHECK(expected_sum(33, 1) == expected_sum(32, 1) + first_value(32));
  CHECK(expected_sum(100, 2) == expected_sum(32, 1) + expected_sum(96, 1) - expected_sum(64, 1));
  CHECK(first_value(0) != 0);
}

TEST_CASE("advise: every pattern is right under every advice at awkward sizes") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory() || !pages_on_demand()) return skip_self_check(managed_memory_text());
  for (size_t n : {size_t(1), size_t(31), size_t(1025), size_t(100003), sparse_stride * 32 * 3 + 5})
    for (const Pattern& pattern : patterns)
      for (const Advice& advice : advices) {
        CAPTURE(n);
        CAPTURE(pattern.name);
        CAPTURE(advice.name);
        CHECK_NOTHROW(time_once(pattern, advice, n));
      }
}

TEST_CASE("advise: advices change what moves") {
  if (skip_without_gpu()) return;
  if (!has_managed_memory() || !pages_on_demand()) return skip_self_check(managed_memory_text());
  if (!migrations_uncounted_because().empty()) return skip_self_check(migrations_uncounted_because());
  if (device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables))
    return skip_self_check("this device reads host pages in place");
  const size_t n = size_t(1) << 20, bytes = n * sizeof(unsigned);
  const std::vector<Migrations> made = count_all(n);
  const Migrations &none = made[0], &mostly = made[1], &on_host = made[10], &by_device = made[11];
  CHECK(none.to_host.bytes >= double(bytes));      // the host's reading takes the pages away again
  CHECK(mostly.to_device.bytes == double(bytes));  // copied once, and both keep theirs
  CHECK(mostly.to_host.bytes == 0);
  CHECK(on_host.to_device.bytes == 0);
  CHECK(by_device.to_device.bytes == 0);
  CHECK(by_device.fault_groups == 0);
}
