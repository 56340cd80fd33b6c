// advise: the lecture says that managed memory needs look-ahead to be in the right place [PR]. An
// advice is such a look-ahead: it tells the driver how memory will be used. Four patterns of use,
// each under three advices, so that each advice helps somewhere and hurts somewhere. Look at what
// the counters say of why. The text makes no claim.
//   cmake -S 05_unified_memory -B build/advise -DEXPERIMENTS=advise
//   cmake --build build/advise && build/advise/05_unified_memory
//
//   1  sum_lines   the device reads all lines of 128 bytes, or some of them
//   2  increment   the device changes every word
#include <algorithm>

#include "calibration.hpp"
#include "migrations.hpp"

namespace {

// ---- kernels ----

// [sum_lines]
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
// [/sum_lines]

// A warp adds one to 32 neighbouring words: it reads them first, then writes them.
__global__ void increment(unsigned* x, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) ++x[i];
}

// ---- four patterns of use ----

constexpr unsigned threads = 256, sum_blocks = 256;
constexpr size_t page_words = 4096 / sizeof(unsigned);                   // a page of the host
constexpr size_t sparse_stride = (256 << 10) / (32 * sizeof(unsigned));  // a line in 256 KiB
constexpr unsigned rounds = 4, passes = 64;

/// Word i: odd, and without a pattern that a line left out could hide in.
unsigned first_value(size_t i) { return unsigned(i * 2654435761u >> 7) | 1; }

/// The array, wherever it lies, and what device and host find in it.
struct Work {
  unsigned* x;
  size_t n;
  DeviceBuffer<unsigned> sums{sum_blocks * threads};
  size_t host_reads_right = 0;

  Work(unsigned* x, size_t n) : x(x), n(n) {
    for (size_t i = 0; i < n; ++i) x[i] = first_value(i);
    sums.copy_from(std::vector<unsigned>(sums.size(), 0));
  }
  void add_up(size_t stride) {
    sum_lines<<<sum_blocks, threads>>>(sums.data(), x, n, stride);
    CUDA_CHECK_LAUNCH();
  }
  void add_one() {
    increment<<<unsigned((n + threads - 1) / threads), threads>>>(x, n);
    CUDA_CHECK_LAUNCH();
  }
};

// [patterns]
void both_read(Work& work) {
  for (unsigned round = 0; round < rounds; ++round) {
    work.add_up(1);
    wait_for_device();
    for (size_t i = 0; i < work.n; i += page_words)  // the host: a word of each page
      work.host_reads_right += work.x[i] == first_value(i);
  }
}

void both_write(Work& work) {
  for (unsigned round = 0; round < rounds; ++round) {
    work.add_one();
    wait_for_device();
    for (size_t i = 0; i < work.n; i += page_words) work.x[i] += 1;
  }
}

void read_little(Work& work) {
  work.add_up(sparse_stride);
  wait_for_device();
}

void read_often(Work& work) {
  for (unsigned pass = 0; pass < passes; ++pass) work.add_up(1);
  wait_for_device();
}
// [/patterns]

struct Pattern {
  const char* name;
  void (*use)(Work&);
  size_t stride;
  unsigned sums;        ///< times that the device adds the lines up
  unsigned host_reads;  ///< times that the host reads each page
  unsigned added;     ///< to every word, by the device; and to the first of each page, by the host
  unsigned launches;  ///< that find pages on the host, if pages move or are mapped on demand
};

const Pattern patterns[] = {
    {"both read in turn", both_read, 1, rounds, rounds, 0, rounds},
    {"both write in turn", both_write, 1, 0, 0, rounds, rounds},
    {"device reads little, once", read_little, sparse_stride, 1, 0, 0, 1},
    {"device reads all, often", read_often, 1, passes, 0, 0, 1},
};
enum { reading, writing, little, often, pattern_count };

enum Advice { none, read_mostly, on_host, by_device, advice_count };
const char* const advice_names[advice_count] = {"no advice", "read mostly", "preferred on host",
                                                "accessed by device"};

void give(Advice advice, const Managed<unsigned>& x) {
  if (advice == read_mostly) x.advise(cudaMemAdviseSetReadMostly, this_device());
  if (advice == on_host) x.advise(cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId);
  if (advice == by_device) x.advise(cudaMemAdviseSetAccessedBy, this_device());
}

// ---- what is right ----

/// What each thread adds up: from lines to the threads that take them, where the kernel goes from
/// threads to lines.
std::vector<unsigned> right_sums(size_t n, size_t stride) {
  constexpr size_t warps = sum_blocks * threads / 32;
  std::vector<unsigned> sums(warps * 32, 0);
  for (size_t i = 0; i < n; ++i) {
    const size_t line = i / 32;
    if (line % stride == 0) sums[line / stride % warps * 32 + i % 32] += first_value(i);
  }
  return sums;
}

/// Sums, words and reads of the host that are not right.
size_t wrong(const Pattern& pattern, const Work& work) {
  const std::vector<unsigned> right = right_sums(work.n, pattern.stride);
  const std::vector<unsigned> found = work.sums.to_host();
  size_t count = 0;
  for (size_t t = 0; t < right.size(); ++t) count += found[t] != pattern.sums * right[t];
  for (size_t i = 0; i < work.n; ++i) {
    const unsigned by_host = i % page_words ? 0 : pattern.added;
    count += work.x[i] != first_value(i) + pattern.added + by_host;
  }
  const size_t pages = (work.n + page_words - 1) / page_words;
  return count + (work.host_reads_right != pattern.host_reads * pages);
}

double use(const Pattern& pattern, Work& work) {
  const auto start = std::chrono::steady_clock::now();
  pattern.use(work);
  return ms_since(start);
}

void require_all_right(const Pattern& pattern, const Work& work, const char* how) {
  const size_t count = wrong(pattern, work);
  require_right(count == 0, std::string(pattern.name) + ", " + how + ", " + std::to_string(count) +
                                " sums or words");
}

/// Milliseconds that a pattern takes in fresh memory that lies on the host; recorded if asked for.
double use_managed(const Pattern& pattern, Advice advice, size_t n, MigrationRecording* recording) {
  const Managed<unsigned> x(n);
  x.prefetch(cudaCpuDeviceId);
  wait_for_device();
  Work work(x.data(), n);
  give(advice, x);
  wait_for_device();
  double ms = 0;
  if (recording)
    recording->count([&] { ms = use(pattern, work); });
  else
    ms = use(pattern, work);
  require_all_right(pattern, work, advice_names[advice]);
  return ms;
}

/// The same in pinned memory, which the device reads and writes over the bus, and nothing moves.
double use_pinned(const Pattern& pattern, const PinnedBuffer<unsigned>& x) {
  Work work(x.data(), x.size());
  const double ms = use(pattern, work);
  require_all_right(pattern, work, "pinned memory");
  return ms;
}

// ---- what to expect ----

/// What one pattern took and what was counted of it, under each advice.
struct Rows {
  Readings pinned, times[advice_count];
  Migrations made[advice_count];
  bool counted = false;
};

/// Constants from rows of this run, in ms.
struct Costs {
  Link link;
  double pass = NAN;         ///< of the device over the array in its own memory
  double first_fault = NAN;  ///< of a launch that faults at all: one that maps few pages
  double group = NAN;        ///< of GPU faults: those that only map pages
  double transfer = NAN;     ///< to the device: setting it up
  double cpu_fault = NAN;    ///< of the host, with what moves
};

/// Launches that fault: pages that both may keep come once, unless somebody writes.
double faulting_launches(const Pattern& pattern, Advice advice) {
  return advice == read_mostly && pattern.added == 0 ? 1 : pattern.launches;
}

/// NaN where no model covers what the driver does: a write takes the copies of a page away that
/// "read mostly" made, page by page.
double predicted_ms(const Costs& c, const Pattern& pattern, Advice advice, double pinned_ms,
                    const Migrations& m) {
  if (advice == read_mostly && pattern.added > 0) return NAN;
  if (advice == by_device) return pinned_ms;  // a mapping from the start, as pinned memory has
  const double faults =
      faulting_launches(pattern, advice) * c.first_fault + m.fault_groups * c.group;
  if (advice == on_host) return pinned_ms + faults;
  const double sums = pattern.stride == 1 ? std::max(pattern.sums, pattern.added) : 0;
  const double to_device = c.link.ms_to_device(m.to_device.bytes) + m.to_device.count * c.transfer;
  const double to_host = c.link.ms_to_host(m.to_host.bytes) + m.cpu_faults * c.cpu_fault;
  return faults + sums * c.pass + to_device + to_host;
}

bool calibrates(int pattern, int advice) {
  return (advice == on_host && (pattern == reading || pattern == little)) ||
         (advice == none && (pattern == little || pattern == writing));
}

Costs costs_from(const Link& link, double pass, const Rows (&rows)[pattern_count]) {
  Costs c{link, pass};
  c.first_fault = rows[little].times[on_host].median() - rows[little].pinned.median();
  c.group = c.transfer = c.cpu_fault = 0;
  const auto left = [&](int pattern, Advice advice) {
    return rows[pattern].times[advice].median() - predicted_ms(c, patterns[pattern], advice,
                                                               rows[pattern].pinned.median(),
                                                               rows[pattern].made[advice]);
  };
  c.group = std::max(left(reading, on_host) / rows[reading].made[on_host].fault_groups, 0.0);
  c.transfer = std::max(left(little, none) / rows[little].made[none].to_device.count, 0.0);
  c.cpu_fault = std::max(left(writing, none) / rows[writing].made[none].cpu_faults, 0.0);
  return c;
}

// ---- the experiment ----

/// Each pattern under each advice, counted.
void count_all(size_t n, Rows (&rows)[pattern_count]) {
  MigrationRecording recording;
  for (const Pattern& pattern : patterns)
    for (int advice = 0; advice < advice_count; ++advice)
      use_managed(pattern, Advice(advice), n, &recording);
  const std::vector<Migrations> all = recording.end();
  size_t next = 0;
  for (Rows& each : rows) {
    each.counted = true;
    for (Migrations& made : each.made) made = all[next++];
  }
}

void time_in_turn(const Run& run, const Pattern& pattern, size_t n, Rows& rows) {
  const PinnedBuffer<unsigned> pinned(n);
  use_pinned(pattern, pinned);  // loads the kernels
  for (int advice = 0; advice < advice_count; ++advice)
    use_managed(pattern, Advice(advice), n, nullptr);
  const int turns = run.measuring.rounds_in_turn();
  for (int r = 0; r < turns; ++r) {
    rows.pinned.ms.push_back(use_pinned(pattern, pinned));
    for (int i = 0; i < advice_count; ++i) {
      const int advice = r % 2 ? advice_count - 1 - i : i;
      rows.times[advice].ms.push_back(use_managed(pattern, Advice(advice), n, nullptr));
    }
  }
}

/// Milliseconds of a pass over as many words in device memory.
Statistics time_pass(const Run& run, size_t n) {
  std::vector<unsigned> words(n);
  for (size_t i = 0; i < n; ++i) words[i] = first_value(i);
  const DeviceBuffer<unsigned> x(words);
  DeviceBuffer<unsigned> sums(sum_blocks * threads);
  const std::vector<unsigned> right = right_sums(n, 1);
  Check check;
  check.poison = [&] { sums.copy_from(std::vector<unsigned>(sums.size(), 0)); };
  check.wrong = [&] {
    const std::vector<unsigned> found = sums.to_host();
    size_t count = 0;
    for (size_t t = 0; t < right.size(); ++t) count += found[t] != right[t];
    return count;
  };
  return run
      .time({"a pass in device memory",
             [&] { sum_lines<<<sum_blocks, threads>>>(sums.data(), x.data(), n, 1); },
             std::move(check)})
      .statistics();
}

void show(const Run& run, const Rows (&rows)[pattern_count], const Costs& costs,
          const Statistics& pass) {
  Table table(run.report, "pattern, advice",
              {compared("ms", "time", "ms", 3), shown("spread"), shown("without / with"),
               counted("MiB to device", "transferred to device", "MiB", 2),
               counted("MiB to host", "transferred to host", "MiB", 2),
               counted("GPU groups", "GPU fault groups", "", 0),
               counted("CPU faults", "CPU faults", "", 0)});
  const auto row = [&](const char* pattern, const char* advice, const Statistics& ms,
                       std::vector<Cell> cells) {
    cells.resize(7);
    cells[1] = spread_text(ms);
    table.row({pattern, "advice", advice}, cells);
  };
  row("one pass", "device memory", pass, {Calibration{pass}});
  for (int p = 0; p < pattern_count; ++p) {
    const Rows& r = rows[p];
    row(patterns[p].name, "pinned memory", r.pinned.statistics(),
        {Calibration{r.pinned.statistics()}});
    for (int a = 0; a < advice_count; ++a) {
      const Statistics ms = r.times[a].statistics();
      const Migrations& m = r.made[a];
      const bool known = r.counted && !m.lost;
      const double model = known || a == by_device
                               ? predicted_ms(costs, patterns[p], Advice(a), r.pinned.median(), m)
                               : NAN;
      std::vector<Cell> cells(7);
      cells[0] = calibrates(p, a) ? Cell(Calibration{ms}) : Cell(Compared{model, ms, Model::host});
      cells[2] = times(r.times[none].median() / ms.median);
      if (known) {
        cells[3] = m.to_device.bytes / (1 << 20);
        cells[4] = m.to_host.bytes / (1 << 20);
        cells[5] = m.fault_groups;
        cells[6] = double(m.cpu_faults);
      }
      row(patterns[p].name, advice_names[a], ms, cells);
    }
  }
  table.print();
}

}  // namespace

void advise(const Run& run) {
  const size_t n = size_t(1) << (run.quick ? 18 : run.full ? 22 : 20);
  run.report.begin("advise", "four patterns of use of " + std::to_string(n) + " words, " +
                                 bytes_text(double(n) * sizeof(unsigned)) +
                                 " on the host at first, under three advices");
  if (!run.device) return run.report.left_out("all patterns");
  if (!has_managed_memory() || !pages_on_demand())
    return run.report.left_out("all patterns", managed_memory_text());
  Rows rows[pattern_count];
  const std::string uncounted = migrations_uncounted_because();
  if (uncounted.empty())
    count_all(n, rows);
  else
    run.report.left_out("transfers and faults; the times stand alone", uncounted);
  const Link link = measure_link(run);
  const Statistics pass = time_pass(run, n);
  Progress progress("advise", pattern_count);
  for (int p = 0; p < pattern_count; ++p) {
    progress.step();
    time_in_turn(run, patterns[p], n, rows[p]);
  }
  show(run, rows, costs_from(link, pass.median, rows), pass);
  run.report.note("the times hold the host's part too; without / with: above 1 the advice helps");
  run.report.note("not predicted: what a write costs that ends the copies of \"read mostly\"");
}
