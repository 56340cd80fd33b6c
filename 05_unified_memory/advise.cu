// advise: the lecture says that managed memory needs look-ahead to be in the right place [PR]. An
// advice is such a look-ahead: it tells the driver how memory will be used. Four patterns of use,
// each under three advices, so that each advice helps somewhere and hurts somewhere. Look at what
// the counters say of why. The text makes no claim.
//
//   cmake -S 05_unified_memory -B build/advise -DEXPERIMENTS=advise
//   cmake --build build/advise && build/advise/05_unified_memory
//
//   1  sum_lines   the device reads all lines of 128 bytes, or some of them
//   2  increment   the device changes every word
#include <algorithm>
#include <optional>

#include "managed_memory.hpp"
#include "migrations.hpp"

using namespace samples;

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
  const char *key, *words;
  void (*use)(Work&);
  size_t stride;
  unsigned sums;        ///< times that the device adds the lines up
  unsigned host_reads;  ///< times that the host reads each page
  unsigned added;  ///< to every word, by the device; and to the first of each page, by the host
};

const Pattern patterns[] = {
    {"both_read", "both read in turn", both_read, 1, rounds, rounds, 0},
    {"both_write", "both write in turn", both_write, 1, 0, 0, rounds},
    {"read_little", "device reads little, once", read_little, sparse_stride, 1, 0, 0},
    {"read_often", "device reads all, often", read_often, 1, passes, 0, 0},
};

// [advices]
void no_advice(const Managed<unsigned>&) {}
void read_mostly(const Managed<unsigned>& x) {
  x.advise(cudaMemAdviseSetReadMostly, this_device());
}
void on_host(const Managed<unsigned>& x) {
  x.advise(cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId);
}
void by_device(const Managed<unsigned>& x) { x.advise(cudaMemAdviseSetAccessedBy, this_device()); }
// [/advices]

struct Advice {
  const char *key, *words;
  void (*give)(const Managed<unsigned>&);  ///< null: pinned memory
};
const Advice advices[] = {{"pinned", "pinned memory", nullptr},
                          {"no_advice", "no advice", no_advice},
                          {"read_mostly", "read mostly", read_mostly},
                          {"on_host", "preferred on host", on_host},
                          {"by_device", "accessed by device", by_device}};

std::string key_of(const Pattern& pattern, const Advice& advice) {
  return std::string(pattern.key) + "_" + advice.key;
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

/// Fresh memory on the host for one use of it. Pinned memory the device reads and writes over the
/// bus, and nothing moves.
struct Fresh {
  std::optional<Managed<unsigned>> managed;
  std::optional<PinnedBuffer<unsigned>> pinned;
  std::optional<Work> work;

  void take(const Advice& advice, size_t n) {
    if (!advice.give) {
      pinned.emplace(n);
      work.emplace(pinned->data(), n);
      return;
    }
    managed.emplace(n);
    managed->prefetch(cudaCpuDeviceId);
    wait_for_device();
    work.emplace(managed->data(), n);
    advice.give(*managed);
    wait_for_device();
  }
  void give_back() {
    work.reset();
    managed.reset();
    pinned.reset();
  }
};

/// A pattern in memory that is taken, filled and advised outside the time.
Task task_of(const Pattern& pattern, const Advice& advice, size_t n) {
  const Shared memory(Fresh{});
  Task task{key_of(pattern, advice),
            [memory, &pattern] { pattern.use(*memory->work); },
            {[] {}, [memory, &pattern] { return wrong(pattern, *memory->work); }, ""},
            true};
  task.enter = [memory, &advice, n] {
    memory->give_back();
    memory->take(advice, n);
  };
  task.leave = [memory] { memory->give_back(); };
  return task;
}

/// A pass over as many words in device memory.
Task pass_task(const Ref& ref, size_t n) {
  std::vector<unsigned> words(n);
  for (size_t i = 0; i < n; ++i) words[i] = first_value(i);
  const Shared x(DeviceBuffer<unsigned>{words});
  const Shared sums(DeviceBuffer<unsigned>(sum_blocks * threads));
  const auto wrong_sums = [sums, n] {
    const std::vector<unsigned> right = right_sums(n, 1), found = sums->to_host();
    size_t count = 0;
    for (size_t t = 0; t < right.size(); ++t) count += found[t] != right[t];
    return count;
  };
  return {text(ref),
          [x, sums, n] { sum_lines<<<sum_blocks, threads>>>(sums->data(), x->data(), n, 1); },
          {[sums] { sums->copy_from(std::vector<unsigned>(sums->size(), 0)); }, wrong_sums, ""}};
}

// ---- what is counted ----

/// Each pattern under each advice, in the order of both tables.
using Counts = std::vector<Migrations>;

Counts count_all(size_t n) {
  MigrationRecording recording;
  for (const Pattern& pattern : patterns)
    for (const Advice& advice : advices) {
      if (!advice.give) continue;
      const Task task = task_of(pattern, advice, n);
      task.enter();
      recording.count([&] { task.launch(); });
      const size_t differing = task.check.wrong();
      task.leave();
      require_right(differing == 0, std::string(pattern.words) + ", " + advice.words);
    }
  return recording.end();
}

const Migrations& of(const Counts& counts, const Pattern& pattern, const Advice& advice) {
  const size_t advised = std::size(advices) - 1;  // all but pinned memory
  return counts[size_t(&pattern - patterns) * advised + size_t(&advice - advices) - 1];
}

struct Metric {
  const char *heading, *name, *unit;
  double (*value)(const Migrations&);
  int decimals;
};
const Metric metrics[] = {
    {"MiB to device", "transferred to device", "MiB",
     [](const Migrations& m) { return m.to_device.bytes / (1 << 20); }, 2},
    {"MiB to host", "transferred to host", "MiB",
     [](const Migrations& m) { return m.to_host.bytes / (1 << 20); }, 2},
    {"GPU groups", "GPU fault groups", "", [](const Migrations& m) { return m.fault_groups; }, 0},
    {"CPU faults", "CPU faults", "", [](const Migrations& m) { return double(m.cpu_faults); }, 0},
};

void ask_counts(const Run& run, size_t n, bool counts_here) {
  Once<Counts> counts{[n] { return count_all(n); }};
  for (const Pattern& pattern : patterns)
    for (const Advice& advice : advices)
      for (const Metric& metric : metrics)
        if (advice.give)
          ask_for_table(run, key_of(pattern, advice), metric.name, metric.unit, [&] {
            if (!counts_here || of(counts(), pattern, advice).lost) return Statistics{};
            return single(metric.value(of(counts(), pattern, advice)));
          });
}

// ---- the experiment ----

size_t words_of(const Run& run) { return size_t(1) << (run.quick ? 18 : run.full ? 22 : 20); }

/// What is mapped from the start is read and written over the bus, as pinned memory is. The other
/// rows have no model: what the driver does at a fault is not documented.
void measure_pattern(const Run& run, const Pattern& pattern, size_t n, const Abilities& can) {
  const std::string with_none = key_of(pattern, advices[1]), pinned = key_of(pattern, advices[0]);
  const auto gain = [&](const Row& row, const Statistics& ms) {
    if (row.ref.key == pinned) return std::string("-");
    return factor_text((*run.results)(with_none).time.ms.median / ms.median);
  };
  std::vector<Shown> columns{milliseconds(3), spread(), {shown("without / with"), {}, {}, gain}};
  for (const Metric& metric : metrics)
    columns.push_back(number(counted(metric.heading, metric.name, metric.unit, metric.decimals),
                             [&run, &metric, pinned](const Row& row) {
                               if (row.ref.key == pinned) return double(NAN);
                               return run.results->value(row.ref, metric.name).value.median;
                             }));
  Sheet sheet(run, pattern.words, std::move(columns));
  for (const Advice& advice : advices)
    sheet.add({.ref = key_of(pattern, advice),
               .words = advice.words,
               .calibrates = !advice.give,
               .model = Model::host,
               .missing = can.managed && can.on_demand ? std::string() : can.why()});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const std::string key = row.ref.key.substr(std::string(pattern.key).size() + 1);
    return task_of(pattern, *with_key(advices, Ref(key)), n);
  });
  sheet.predict([&](const Row& row) {
    return row.ref.key == key_of(pattern, advices[4]) ? sheet.ms(pinned) : double(NAN);
  });
  sheet.print();
}

void run_advise(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("advise", "four patterns of use of " + std::to_string(n) + " words, " +
                                 bytes_text(double(n) * sizeof(unsigned)) +
                                 " on the host at first, under three advices");
  const Abilities can = ask_abilities(run);
  const bool here = run.device && run.device->number >= 0 && can.managed && can.on_demand;
  const std::string uncounted = here ? migrations_uncounted_because() : "";
  if (!uncounted.empty())
    run.report.left_out("transfers and faults; the times stand alone", uncounted);
  ask_counts(run, n, here && uncounted.empty());
  Sheet pass(run, "one pass", {milliseconds(4), spread()});
  pass.add({.ref = "one_pass", .words = "device memory"});
  pass.measure(Timing::alone, [n](const Row& row) { return pass_task(row.ref, n); });
  pass.print();
  for (const Pattern& pattern : patterns) measure_pattern(run, pattern, n, can);
  run.report.note("the times hold the host's part too; without / with: above 1 the advice helps");
}

Needs needs(const Run& run) { return {.allocated = 8.0 * double(words_of(run)) + (1 << 20)}; }

}  // namespace

extern const Experiment advise_experiment{
    .name = "advise",
    .about = "what each advice changes, where it helps and where it hurts",
    .run = run_advise,
    .needs = needs,
};
