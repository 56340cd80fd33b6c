// page_faults: the wiki copies a million floats from one managed array to another in four ways, and
// prints what the profiler counted [LC A]: transfers, groups of page faults, and their time. It
// says that a warp for each page cuts the groups to a large degree, and that prefetching ends the
// faults. Here the program counts by itself, with CUPTI. Look at the driver's rule for the host's
// faults: it explains 36 of them and 48 transfers, on a GTX 1080 Ti and now.
//   cmake -S 05_unified_memory -B build/page_faults -DEXPERIMENTS=page_faults
//   cmake --build build/page_faults && build/page_faults/05_unified_memory
//
//   1  copy_by_thread, pages on demand   an element a thread
//   2  copy_by_page, pages on demand     64 KiB a warp
//   3  copy_by_thread, prefetched        both arrays to the device before it
//   4  the same both ways                and to the host after it
#include <algorithm>
#include <numeric>
#include <random>

#include "calibration.hpp"
#include "migrations.hpp"
#include "options.hpp"

namespace {

// ---- kernels ----

// [copy_by_thread]
// A warp reads and writes 32 neighbours. Many warps touch the same page, and those that run at the
// same time touch few pages.
__global__ void copy_by_thread(float* out, const float* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}
// [/copy_by_thread]

constexpr size_t page_words = 65536 / sizeof(float);  // the text's page: 64 KiB

// [copy_by_page]
// A warp walks through a page of its own, 32 neighbours a step: as many pages fault at the same
// time as warps run.
__global__ void copy_by_page(float* out, const float* in, size_t n) {
  const size_t warp = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32;
  const size_t lane = threadIdx.x % 32;
  for (size_t step = 0; step < page_words / 32; ++step) {
    const size_t i = warp * page_words + step * 32 + lane;
    if (i < n) out[i] = in[i];
  }
}
// [/copy_by_page]

// ---- the four versions ----

constexpr int threads = 256;

struct Arrays {
  Managed<float> in, out;
  explicit Arrays(size_t n) : in(n), out(n) {}
};

void nothing(const Arrays&) {}

void launch_by_thread(float* out, const float* in, size_t n) {
  copy_by_thread<<<unsigned((n + threads - 1) / threads), threads>>>(out, in, n);
  CUDA_CHECK_LAUNCH();
}

void launch_by_page(float* out, const float* in, size_t n) {
  const size_t warps = (n + page_words - 1) / page_words;
  copy_by_page<<<unsigned((warps * 32 + threads - 1) / threads), threads>>>(out, in, n);
  CUDA_CHECK_LAUNCH();
}

void input_to_host(const Arrays& a) {
  a.in.prefetch(cudaCpuDeviceId);
  wait_for_device();
}

void both_to_device(const Arrays& a) {
  a.in.prefetch(this_device());
  a.out.prefetch(this_device());
}

void both_to_host(const Arrays& a) {
  a.in.prefetch(cudaCpuDeviceId);
  a.out.prefetch(cudaCpuDeviceId);
  wait_for_device();
}

/// A line of the text's table. (nvprof's KB and MB are KiB and MiB.)
struct Direction {
  double count = NAN, average_kib = NAN, least_kib = NAN, most_kib = NAN, mib = NAN, ms = NAN;
};

/// One of the text's versions: its calls, and what its profiler printed on a GTX 1080 Ti. (Of the
/// last version it has no table.)
struct Version {
  const char* name;
  void (*first)(const Arrays&) = nothing;   ///< before the host writes the input
  void (*before)(const Arrays&) = nothing;  ///< before the kernel
  void (*kernel)(float* out, const float* in, size_t n);
  void (*after)(const Arrays&) = nothing;  ///< before the host reads both arrays
  Direction then_to_device = {};
  Direction then_to_host = {};
  double then_groups = NAN;
  double then_group_ms = NAN;
  double then_cpu_faults = NAN;

  bool prefetched() const { return before == both_to_device; }
  bool prefetched_back() const { return after == both_to_host; }
};

constexpr Direction then_to_host{
    .count = 48, .average_kib = 170.67, .least_kib = 4, .most_kib = 1020, .mib = 8, .ms = 1.294};

// [versions]
const Version versions[] = {
    {
        .name = "by thread",
        .kernel = launch_by_thread,
        .then_to_device = {.count = 41,
                           .average_kib = 99.902,
                           .least_kib = 4,
                           .most_kib = 1004,
                           .mib = 4,
                           .ms = 0.678},
        .then_to_host = then_to_host,
        .then_groups = 24,
        .then_group_ms = 2.32,
        .then_cpu_faults = 36,
    },
    {
        .name = "by page",
        .kernel = launch_by_page,
        .then_to_device = {.count = 128,
                           .average_kib = 32,
                           .least_kib = 4,
                           .most_kib = 60,
                           .mib = 4,
                           .ms = 0.722},
        .then_to_host = then_to_host,
        .then_groups = 3,
        .then_group_ms = 1.106,
        .then_cpu_faults = 36,
    },
    {
        .name = "prefetched",
        .before = both_to_device,
        .kernel = launch_by_thread,
        .then_to_device = {.count = 2,
                           .average_kib = 2048,
                           .least_kib = 2048,
                           .most_kib = 2048,
                           .mib = 4,
                           .ms = 0.652},
        .then_to_host = then_to_host,
        .then_groups = 0,
        .then_cpu_faults = 36,
    },
    {
        .name = "prefetched both ways",
        .first = input_to_host,
        .before = both_to_device,
        .kernel = launch_by_thread,
        .after = both_to_host,
        .then_groups = 0,
        .then_cpu_faults = 0,
    },
};
// [/versions]
enum { by_thread, by_page, prefetched, both_ways, version_count };
static_assert(std::size(versions) == version_count);

constexpr size_t text_size = size_t(1) << 20;

double bytes_of(size_t n) { return double(n * sizeof(float)); }

// ---- what is right ----

/// The input differs from zero, from its neighbours, and from that of the run before.
float input(size_t i, unsigned run) { return float(run % 1000 + 1) + float(i % 8191); }

size_t wrong_elements(const float* found, size_t n, unsigned run) {
  size_t wrong = 0;
  for (size_t i = 0; i < n; ++i) wrong += !(found[i] == input(i, run));
  return wrong;
}

// ---- what to expect ----

/// What a walk of the host through one block makes.
struct Served {
  unsigned faults = 0, transfers = 0;
};

/// The host touches the beginning of parts of 64 KiB of one block in this order. A fault brings its
/// 64 KiB; and each part of the block of 128 KiB, 256 KiB and so on that these lie in is completed
/// if, with them, more than 51% of it is there. The 4 KiB that the host waits for are a transfer of
/// their own, and so is each run of neighbours before and behind them.
Served served(const std::vector<unsigned>& order) {
  constexpr unsigned parts = block_bytes / 65536;
  std::vector<bool> here(parts, false);
  Served all;
  for (const unsigned touched : order) {
    if (here.at(touched)) continue;
    const std::vector<bool> before = here;
    here[touched] = true;
    const std::vector<bool> with_its_own = here;
    for (unsigned size = 2; size <= parts; size *= 2) {
      const unsigned begin = touched / size * size;
      const auto first = with_its_own.begin() + begin;
      if (std::count(first, first + size, true) * 100 > size * 51)
        std::fill_n(here.begin() + begin, size, true);
    }
    const auto comes = [&](unsigned part) { return here[part] && !before[part]; };
    unsigned runs = 0;
    for (unsigned part = 0; part < parts; ++part)
      runs += comes(part) && (part == 0 || part == touched || !comes(part - 1));
    ++all.faults;
    all.transfers += 1 + runs;
  }
  return all;
}

/// The parts of a block from its start to its end.
std::vector<unsigned> in_order() {
  std::vector<unsigned> order(block_bytes / 65536);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

/// What the rule says of arrays that are whole blocks; NaN where it says nothing.
struct Rule {
  double to_device = NAN, to_host = NAN, cpu_faults = NAN;
};

Rule rule_for(const Version& version, size_t n) {
  const double bytes = bytes_of(n);
  const double blocks = bytes / block_bytes;
  if (blocks != std::floor(blocks)) return {};
  const double walk = blocks * served(in_order()).faults;
  Rule rule;
  // every fault moves twice: the 4 KiB that are waited for, then the rest of what the rule brings
  rule.to_host = version.prefetched_back() ? 2 * blocks : 2 * 2 * walk;  // both arrays
  rule.cpu_faults = version.prefetched_back() ? 0 : 3 * walk;  // writing in, reading in, and out
  if (version.prefetched()) rule.to_device = blocks;
  // A warp's page comes as 4 and 60 KiB. The driver serves 256 faults at once, by default; where
  // the pages of both arrays are more, what is served later finds half there, by no simple rule.
  const double pages = bytes / 65536;
  if (version.kernel == launch_by_page && 2 * pages <= 256) rule.to_device = 2 * pages;
  return rule;
}

/// The constants of the models of time, in ms; all from this run.
struct Costs {
  Link link;
  double setup_to_device = NAN;  ///< of a transfer: version 2's, less its bytes over the link
  double setup_to_host = NAN;
  double first_fault = NAN;  ///< of version 2's kernel less its transfers: it has 4 groups
  double group = NAN;        ///< version 1's kernel less its transfers and the first fault
};

/// Transfers take their setup, and their bytes over the link.
double ms_to_device(const Costs& c, double transfers, double bytes) {
  return transfers * c.setup_to_device + c.link.ms_to_device(bytes);
}
double ms_to_host(const Costs& c, double transfers, double bytes) {
  return transfers * c.setup_to_host + c.link.ms_to_host(bytes);
}

/// A kernel whose pages come on demand: the first fault, the transfers, and each group's service.
double on_demand_ms(const Costs& c, double transfers, double bytes, double groups) {
  return c.first_fault + ms_to_device(c, transfers, bytes) + groups * c.group;
}

/// The constants from what the first two versions took.
struct Taken {
  double transfers_to_device, ms_to_device, transfers_to_host, ms_to_host, kernel_ms, groups;
};
Costs costs_from(const Link& link, double bytes, const Taken& thread, const Taken& page) {
  Costs c{link};
  c.setup_to_device = (page.ms_to_device - link.ms_to_device(bytes)) / page.transfers_to_device;
  c.setup_to_host = (page.ms_to_host - link.ms_to_host(2 * bytes)) / page.transfers_to_host;
  c.first_fault = page.kernel_ms - ms_to_device(c, page.transfers_to_device, bytes);
  const double served =
      thread.kernel_ms - ms_to_device(c, thread.transfers_to_device, bytes) - c.first_fault;
  c.group = std::max(served / thread.groups, 0.0);
  return c;
}

// ---- one run of a version ----

/// Milliseconds of the kernel, with its faults, and from the inputs on the host to the results
/// read there.
struct Took {
  double kernel, all;
};

/// The same copy in memory that cudaMalloc gave: what it takes when nothing moves. It also keeps
/// the GPU awake, between runs in which the host does most of the work.
class OnDevice {
 public:
  explicit OnDevice(size_t n) : in_(std::vector<float>(n, 1.5f)), out_(n) { run_for(warming_ms); }

  void run_for(double ms) const {
    const auto start = std::chrono::steady_clock::now();
    do {
      launch_by_thread(out_.data(), in_.data(), in_.size());
      wait_for_device();
    } while (ms_since(start) < ms);
  }
  double kernel_ms() const;

 private:
  DeviceBuffer<float> in_, out_;
};

/// Milliseconds of a kernel whose pages have come: many launches between two events.
double resident_ms(const Version& version, float* out, const float* in, size_t n) {
  const auto timed = [&](int launches) {
    const Event start, stop;
    start.record();
    for (int k = 0; k < launches; ++k) version.kernel(out, in, n);
    stop.record();
    wait_for_device();
    return stop.ms_since(start) / launches;
  };
  const double once = timed(4);
  return timed(1 + int(shortest_measurement_ms / once));
}

double OnDevice::kernel_ms() const {
  return resident_ms(versions[by_thread], out_.data(), in_.data(), in_.size());
}

/// One whole run in fresh managed memory: the host writes `in`, the kernel copies, the host reads
/// both. Nobody has touched `out` before the kernel. `awake` is null where nothing is timed.
Took copy_once(const Version& version, size_t n, const OnDevice* awake) {
  static unsigned runs = 0;
  const unsigned run = ++runs;
  const Arrays arrays(n);
  version.first(arrays);
  for (size_t i = 0; i < n; ++i) arrays.in[i] = input(i, run);
  constexpr double awake_ms = 5;  // the host was busy for a few, too
  if (awake) awake->run_for(awake_ms);

  Took took{};
  const Event start, stop;
  auto clock = std::chrono::steady_clock::now();
  version.before(arrays);
  start.record();
  version.kernel(arrays.out.data(), arrays.in.data(), n);
  stop.record();
  wait_for_device();
  took.all = ms_since(clock);
  took.kernel = stop.ms_since(start);
  if (awake && version.prefetched())  // too short to be timed by one launch
    took.kernel = resident_ms(version, arrays.out.data(), arrays.in.data(), n);
  clock = std::chrono::steady_clock::now();
  version.after(arrays);
  read_every_page(arrays.in.data(), n);
  read_every_page(arrays.out.data(), n);
  took.all += ms_since(clock);
  const size_t wrong =
      wrong_elements(arrays.in.data(), n, run) + wrong_elements(arrays.out.data(), n, run);
  require_right(wrong == 0, std::string(version.name) + ", " + std::to_string(wrong) + " elements");
  return took;
}

// ---- counting ----

using Counts = std::vector<Migrations>;

/// All of `bytes`, in whole pages of whatever size.
bool whole(double found, double bytes) { return found >= bytes && found < bytes + block_bytes; }

/// Whether nothing was lost: the input went to the device, and both arrays came back.
bool complete(const Migrations& m, size_t n) {
  return !m.lost && whole(m.to_device.bytes, bytes_of(n)) &&
         whole(m.to_host.bytes, 2 * bytes_of(n));
}

/// `field` of all runs, where nothing was lost.
template <class Field>
Statistics over(const Counts& counts, size_t n, Field field) {
  std::vector<double> values;
  for (const Migrations& m : counts)
    if (complete(m, n)) values.push_back(double(field(m)));
  return values.empty() ? Statistics{} : summarize(values);
}

double records_of(const Migrations& m) { return m.fault_records; }
double groups_of(const Migrations& m) { return m.fault_groups; }
double fault_ms_of(const Migrations& m) { return m.fault_ms; }
double cpu_faults_of(const Migrations& m) { return m.cpu_faults; }

/// What was counted at one size, of each version; empty where nothing is.
struct Counted {
  Counts of[version_count];
  unsigned lost = 0;  ///< runs whose records are incomplete
};

/// All versions in turn, `rounds` times.
Counted count(size_t n, int rounds) {
  MigrationRecording recording;
  std::vector<int> order;
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < version_count; ++i) {
      const int v = r % 2 ? version_count - 1 - i : i;
      // faults differ from run to run; after a prefetch there are none, and three runs show it
      if (versions[v].prefetched() && r >= 3) continue;
      recording.count([&] { copy_once(versions[v], n, nullptr); });
      order.push_back(v);
    }
  const Counts all = recording.end();
  Counted counted;
  for (size_t i = 0; i < all.size(); ++i) {
    counted.of[order[i]].push_back(all[i]);
    counted.lost += !complete(all[i], n);
  }
  return counted;
}

// ---- one size ----

/// Everything of one size.
struct Size {
  size_t n;
  Counted counted;
  Readings kernel[version_count], all[version_count], on_device;
};

void time_in_turn(const Run& run, Size& size) {
  const OnDevice on_device(size.n);
  for (const Version& version : versions) copy_once(version, size.n, &on_device);
  const int rounds = run.measuring.rounds_in_turn();
  Progress progress("page_faults, " + std::to_string(size.n) + " floats", rounds);
  for (int r = 0; r < rounds; ++r) {
    progress.step();
    size.on_device.ms.push_back(on_device.kernel_ms());
    for (int i = 0; i < version_count; ++i) {
      const int v = r % 2 ? version_count - 1 - i : i;
      const Took took = copy_once(versions[v], size.n, &on_device);
      size.kernel[v].ms.push_back(took.kernel);
      size.all[v].ms.push_back(took.all);
    }
  }
}

/// Transfers that the rule says, else those that were counted.
double transfers_to_device(const Size& size, int v) {
  const double rule = rule_for(versions[v], size.n).to_device;
  if (std::isfinite(rule)) return rule;
  return over(size.counted.of[v], size.n, [](const Migrations& m) { return m.to_device.count; })
      .median;
}

Taken taken(const Size& size, int v) {
  const auto median = [&](auto field) { return over(size.counted.of[v], size.n, field).median; };
  return {median([](const Migrations& m) { return m.to_device.count; }),
          median([](const Migrations& m) { return m.to_device.ms; }),
          median([](const Migrations& m) { return m.to_host.count; }),
          median([](const Migrations& m) { return m.to_host.ms; }),
          size.kernel[v].median(),
          median(groups_of)};
}

double predicted_kernel_ms(const Size& size, int v, const Costs& costs) {
  if (versions[v].prefetched()) return size.on_device.median();
  return on_demand_ms(costs, transfers_to_device(size, v), bytes_of(size.n),
                      over(size.counted.of[v], size.n, groups_of).median);
}

Key key_of(const std::string& name, size_t n) { return {name, "elements", std::to_string(n)}; }

Cell cell(const Statistics& s) { return s.repeats ? Cell(s) : Cell(); }
Cell cell(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

/// The text's figures stand beside its own size.
Cell then_cell(const Size& size, double value) {
  return size.n == text_size ? cell(value) : Cell();
}

/// The first two versions of the first size give the costs.
bool calibrates(bool first_size, int v) { return first_size && v <= by_page; }

void show_times(const Run& run, const std::vector<Size>& sizes, const Costs& costs) {
  Table table(
      run.report, "version, floats",
      {compared("kernel ms", "kernel time", "ms", 3), shown("spread"),
       measured("all ms", "time", "ms", 2), counted("fault records", "GPU fault records", "", 0),
       then("then", "GPU fault records", "", 0), counted("groups", "GPU fault groups", "", 0),
       counted("their ms", "GPU fault time", "ms", 3), then("then", "GPU fault time", "ms", 3),
       counted("CPU faults", "CPU faults", "", 0), predicted("rule", "CPU faults", "", 0),
       then("then", "CPU faults", "", 0)});
  for (const Size& size : sizes) {
    const bool first = &size == &sizes.front();
    std::vector<Cell> row(11);
    row[0] = Calibration{size.on_device.statistics()};
    if (run.device) table.row(key_of("in device memory", size.n), row);
    for (int v = 0; v < version_count; ++v) {
      const Version& version = versions[v];
      const Statistics ms = size.kernel[v].statistics();
      const Compared kernel{predicted_kernel_ms(size, v, costs), ms,
                            version.prefetched() ? Model::traffic : Model::host};
      const auto now = [&](auto field) { return cell(over(size.counted.of[v], size.n, field)); };
      table.row(
          key_of(version.name, size.n),
          {calibrates(first, v) ? Cell(Calibration{ms}) : Cell(kernel),
           ms.repeats ? Cell(spread_text(ms)) : Cell(), cell(size.all[v].statistics()),
           now(records_of), then_cell(size, version.then_groups), now(groups_of), now(fault_ms_of),
           then_cell(size, version.then_group_ms), now(cpu_faults_of),
           cell(rule_for(version, size.n).cpu_faults), then_cell(size, version.then_cpu_faults)});
    }
  }
  table.print();
}

/// One line of the text's table, of the first run of a version that is complete.
void add_direction(Table& table, const Size& size, int v, bool to_device, bool calibration,
                   const Costs& costs) {
  const Version& version = versions[v];
  const Rule rule = rule_for(version, size.n);
  const Direction& then = to_device ? version.then_to_device : version.then_to_host;
  Direction now;
  for (const Migrations& m : size.counted.of[v])
    if (complete(m, size.n) && std::isnan(now.count)) {
      const Transfers& t = to_device ? m.to_device : m.to_host;
      now = {double(t.count), t.average() / 1024,  t.least / 1024,
             t.most / 1024,   t.bytes / (1 << 20), t.ms};
    }
  const Statistics ms = over(size.counted.of[v], size.n, [&](const Migrations& m) {
    return to_device ? m.to_device.ms : m.to_host.ms;
  });
  const double bytes = bytes_of(size.n);
  const double model = to_device ? ms_to_device(costs, transfers_to_device(size, v), bytes)
                                 : ms_to_host(costs, rule.to_host, 2 * bytes);
  table.row(
      key_of(std::string(version.name) + (to_device ? " to device" : " to host"), size.n),
      {calibration ? Cell(Calibration{ms}) : Cell(Compared{model, ms, Model::host}),
       then_cell(size, then.ms), cell(to_device ? rule.to_device : rule.to_host), cell(now.count),
       then_cell(size, then.count), cell(now.average_kib), then_cell(size, then.average_kib),
       cell(now.least_kib), then_cell(size, then.least_kib), cell(now.most_kib),
       then_cell(size, then.most_kib), cell(now.mib), then_cell(size, then.mib)});
}

void show_transfers(const Run& run, const std::vector<Size>& sizes, const Costs& costs) {
  Table table(
      run.report, "transfers, floats",
      {compared("ms", "transfer time", "ms", 3), then("then", "transfer time", "ms", 3),
       predicted("rule", "transfers", "", 0), counted("count", "transfers", "", 0),
       then("then", "transfers", "", 0), counted("avg KiB", "average transfer", "KiB", 1),
       then("then", "average transfer", "KiB", 1), counted("min KiB", "least transfer", "KiB", 0),
       then("then", "least transfer", "KiB", 0), counted("max KiB", "most transfer", "KiB", 0),
       then("then", "most transfer", "KiB", 0), saved_only(counted("MiB", "transferred", "MiB", 1)),
       saved_only(then("then", "transferred", "MiB", 1))});
  for (const Size& size : sizes)
    for (int v = 0; v < version_count; ++v)
      for (const bool to_device : {true, false}) {
        const bool calibration = &size == &sizes.front() && v == by_page;
        add_direction(table, size, v, to_device, calibration, costs);
      }
  table.print();
}

// ---- when it happened ----

/// A run on one line, a cell for each `cell_us`: `f` where the driver serves faults of the GPU, `>`
/// where something moves to the device, `<` where it moves to the host; what moves hides a fault.
std::string time_line(const std::vector<Happened>& events, double cell_us, size_t cells) {
  std::string line(cells, '.');
  const auto mark = [&](const Happened& each, char sign) {
    const double last = double(cells) - 1;
    const size_t from = size_t(std::clamp(std::floor(each.from_us / cell_us), 0.0, last));
    const size_t to = size_t(std::clamp(std::floor(each.to_us / cell_us), 0.0, last));
    std::fill(line.begin() + long(from), line.begin() + long(to) + 1, sign);
  };
  for (const Happened& each : events)
    if (each.what == Happened::gpu_fault) mark(each, 'f');
  for (const Happened& each : events) {
    if (each.what == Happened::to_device) mark(each, '>');
    if (each.what == Happened::to_host) mark(each, '<');
  }
  return line;
}

/// What nvprof --print-gpu-trace was for: a line for each version on one scale, and every event
/// saved, with how much had moved, or how many pages had faulted, by then.
void show_time_lines(const Run& run, const Size& size) {
  constexpr size_t cells = 72;
  const std::vector<Happened>* shown[version_count] = {};
  double last_us = 0;
  for (int v = 0; v < version_count; ++v)
    for (const Migrations& m : size.counted.of[v])
      if (complete(m, size.n) && !shown[v] && !m.events.empty()) {
        shown[v] = &m.events;
        for (const Happened& each : m.events) last_us = std::max(last_us, each.to_us);
      }
  if (!(last_us > 0)) return;
  run.report.note("when, " + fixed(last_us / cells, 0) +
                  " us a sign: f faults of the GPU served, " + "> to the device, < to the host");
  Table table(run.report, "when",
              {saved_only(counted("", "since the first", "us", 3)),
               saved_only(counted("", "moved so far", "MiB", 4)),
               saved_only(counted("", "pages faulted so far", "", 0))});
  for (int v = 0; v < version_count; ++v) {
    if (!shown[v]) continue;
    std::string name(versions[v].name);
    run.report.note(name + std::string(21 - name.size(), ' ') +
                    time_line(*shown[v], last_us / cells, cells));
    double moved[2] = {};
    int faulted = 0, index = 0;
    for (const Happened& each : *shown[v]) {
      if (each.what == Happened::cpu_fault) continue;
      const bool fault = each.what == Happened::gpu_fault;
      const bool home = each.what == Happened::to_host;
      if (!fault) moved[home] += each.bytes / (1 << 20);
      faulted += fault;
      table.row({name + (fault  ? ", GPU faults"
                         : home ? ", to host"
                                : ", to device"),
                 "event", std::to_string(++index)},
                {fault ? each.from_us : each.to_us, fault ? Cell() : Cell(moved[home]),
                 fault ? Cell(double(faulted)) : Cell()});
    }
  }
}

// ---- the rule where it was not made ----

/// Orders in which the host reads a word of each 64 KiB of a block.
struct Walk {
  const char* name;
  std::vector<unsigned> order;
};

std::vector<Walk> walks() {
  const std::vector<unsigned> forward = in_order();
  std::vector<unsigned> backward(forward.rbegin(), forward.rend());
  std::vector<unsigned> shuffled = forward;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(19));
  std::vector<unsigned> every_second;
  for (unsigned part = 0; part < forward.size(); part += 2) every_second.push_back(part);
  return {{"from its start", forward},
          {"from its end", backward},
          {"every second part", every_second},
          {"in random order", shuffled},
          {"one word", {forward.back() / 3}}};
}

/// Faults and transfers of a host that walks so through blocks that lie on the device.
Counts count_walks(const std::vector<Walk>& all, size_t blocks) {
  MigrationRecording recording;
  for (const Walk& walk : all) {
    const Managed<char> memory(blocks * block_bytes);
    memory.prefetch(this_device());
    CUDA_CHECK(cudaMemset(memory.data(), 3, memory.bytes()));
    wait_for_device();
    recording.count([&] {
      for (size_t block = 0; block < blocks; ++block)
        for (const unsigned part : walk.order)
          static_cast<void>(
              *static_cast<const volatile char*>(&memory[block * block_bytes + part * 65536]));
    });
  }
  return recording.end();
}

void show_walks(const Run& run, bool counts) {
  const std::vector<Walk> all = walks();
  constexpr size_t blocks = 5;
  const Counts counted_walks = counts ? count_walks(all, blocks) : Counts();
  Table table(
      run.report, "the host reads 64 KiB parts of 5 blocks",
      {predicted("faults: rule", "CPU faults", "", 0), counted("counted", "CPU faults", "", 0),
       predicted("transfers: rule", "transfers", "", 0), counted("counted", "transfers", "", 0)});
  for (size_t i = 0; i < all.size(); ++i) {
    const Served rule = served(all[i].order);
    const bool known = counts && !counted_walks[i].lost;
    table.row(
        {all[i].name, "walk", "5 blocks"},
        {double(blocks * rule.faults), known ? Cell(double(counted_walks[i].cpu_faults)) : Cell(),
         double(blocks * rule.transfers),
         known ? Cell(double(counted_walks[i].to_host.count)) : Cell()});
  }
  table.print();
}

// ---- the claims ----

const Part groups_part{"05.1a", "a warp a page cuts the groups of page faults to a large degree",
                       "24 to 3 groups", "GTX 1080 Ti"};
const Part time_part{"05.1b", "a warp a page cuts the time spent on page faults", "2.32 to 1.11 ms",
                     "GTX 1080 Ti"};
const Part no_fault_part{"05.2a", "prefetching leaves no page fault of the GPU", "none printed",
                         "GTX 1080 Ti"};
const Part pieces_part{"05.2b", "prefetching moves pieces of 2 MiB", "2 of 2 MiB, before 41",
                       "GTX 1080 Ti", pascal};
const Part host_part{"05.3", "prefetching to the host as well leaves no page fault of the host",
                     "no fault; no table", "GTX 1080 Ti"};

/// The ratio of a count in runs of the first two versions that lie beside each other.
template <class Field>
Interval ratio_of(const Counted& counted, size_t n, Field field) {
  std::vector<double> ratios;
  const Counts& thread = counted.of[by_thread];
  const Counts& page = counted.of[by_page];
  for (size_t i = 0; i < std::min(thread.size(), page.size()); ++i)
    if (complete(thread[i], n) && complete(page[i], n) && field(page[i]) > 0)
      ratios.push_back(field(thread[i]) / field(page[i]));
  const Interval interval = interval_of_median(ratios);
  if (interval.measured()) return interval;
  return not_measured("of " + std::to_string(thread.size()) + " pairs of runs " +
                      std::to_string(ratios.size()) + " were recorded whole");
}

std::string from_to_text(const Counted& counted, size_t n, double (*field)(const Migrations&),
                         int decimals, const char* unit) {
  return fixed(over(counted.of[by_thread], n, field).median, decimals) + " to " +
         fixed(over(counted.of[by_page], n, field).median, decimals) + " " + unit;
}

/// Judges by what was counted at the text's size.
void judge(const Run& run, const Counted& counted, size_t n) {
  const Interval groups = ratio_of(counted, n, records_of);
  const Interval ms = ratio_of(counted, n, fault_ms_of);
  run.report.judge(groups_part, much_beats(), groups,
                   from_to_text(counted, n, records_of, 0, "records of faults") + ", " +
                       factor_text(groups.value) + " fewer (" + fixed(groups.low, 1) + " to " +
                       fixed(groups.high, 1) + ")");
  if (groups.measured())
    run.report.finding("05.1a", "the sum of the records' own counts of groups: " +
                                    from_to_text(counted, n, groups_of, 0, "groups"));
  run.report.judge(time_part, beats(2.32 / 1.106), ms,
                   from_to_text(counted, n, fault_ms_of, 2, "ms") + ", " + faster(ms));

  unsigned runs = 0, others = 0;
  double faults = 0, least = INFINITY, most = 0;
  for (const Migrations& m : counted.of[prefetched]) {
    if (!complete(m, n)) continue;
    ++runs;
    faults += m.fault_records;
    least = std::min(least, m.to_device.least);
    most = std::max(most, m.to_device.most);
    others = m.to_device.count;
  }
  const std::string lost = "no run was recorded whole";
  if (runs == 0) {
    run.report.not_judged(no_fault_part, lost);
    run.report.not_judged(pieces_part, lost);
  } else {
    run.report.judge_fact(no_fault_part, faults == 0,
                          fixed(faults, 0) + " in " + std::to_string(runs) + " runs");
    run.report.judge_fact(pieces_part, least == block_bytes && most == block_bytes,
                          std::to_string(others) + " of " + bytes_text(least) +
                              (least == most ? "" : " to " + bytes_text(most)));
  }
  const Statistics before = over(counted.of[prefetched], n, cpu_faults_of);
  const Statistics after = over(counted.of[both_ways], n, cpu_faults_of);
  if (after.repeats == 0) return run.report.not_judged(host_part, lost);
  run.report.judge_fact(host_part, after.high == 0,
                        fixed(before.median, 0) + " became " + fixed(after.high, 0));
}

void judge_nothing(const Run& run, const std::string& why) {
  for (const Part& part : {groups_part, time_part, no_fault_part, pieces_part, host_part})
    run.report.not_judged(part, why);
}

/// The text's size and larger ones.
std::vector<Size> sizes_of(const Run& run, const Options& options) {
  const size_t each = fitting_elements(run, options.size, text_size, 8, 16);
  std::vector<Size> sizes;
  const size_t most = options.size ? 1 : run.full ? 32 : run.quick || !run.device ? 1 : 4;
  for (size_t times = 1; times <= most; times *= run.full ? 2 : 4)
    if (times == 1 || 4.0 * bytes_of(each * times) < run.memory_there())
      sizes.push_back({each * times, {}, {}, {}, {}});
  return sizes;
}

}  // namespace

void page_faults_fits(const Run& run, const Options& options) { sizes_of(run, options); }

void page_faults(const Run& run, const Options& options) {
  std::vector<Size> sizes = sizes_of(run, options);
  const size_t n = sizes[0].n;
  run.report.begin("page_faults", std::to_string(n) + " floats, " + bytes_text(bytes_of(n)) +
                                      ", copied between managed arrays; the host writes one and "
                                      "reads both");
  const bool usable = run.device && has_managed_memory() && pages_on_demand();
  const std::string why = !run.device ? "no GPU"
                          : usable    ? migrations_uncounted_because()
                                      : managed_memory_text();
  const Link link = usable ? measure_link(run) : Link{};
  unsigned lost = 0;
  for (Size& size : sizes) {
    if (!usable) break;
    if (why.empty()) size.counted = count(size.n, size.n == n ? run.measuring.rounds_in_turn() : 3);
    lost += size.counted.lost;
    time_in_turn(run, size);
  }
  const Costs costs =
      costs_from(link, bytes_of(n), taken(sizes[0], by_thread), taken(sizes[0], by_page));
  show_times(run, sizes, costs);
  show_transfers(run, sizes, costs);
  if (usable)
    run.report.note("calibration: the link " + fixed(link.to_device.median, 1) + " and " +
                    fixed(link.to_host.median, 1) + " GB/s; a transfer's setup " +
                    fixed(costs.setup_to_device * 1e3, 1) + " us; the first fault " +
                    fixed(costs.first_fault, 2) + " ms; a group " + fixed(costs.group * 1e3, 1) +
                    " us");
  if (lost)
    run.report.note("records of " + std::to_string(lost) + " runs are incomplete: not counted");
  show_time_lines(run, sizes[0]);
  show_walks(run, usable && why.empty());
  if (!why.empty())
    run.report.left_out(usable ? "counting; the times stand alone" : "times, transfers and faults",
                        why);
  if (!why.empty()) return judge_nothing(run, why);
  if (n != text_size) return judge_nothing(run, "it is about 1048576 floats");
  judge(run, sizes[0].counted, n);
}
