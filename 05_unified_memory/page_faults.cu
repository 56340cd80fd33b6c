// page_faults: the wiki copies a million floats from one managed array to another and prints what
// the profiler counted [LC A]: transfers, groups of page faults, and their time. It says that a
// warp for each page cuts the groups to a large degree, and that prefetching ends the faults. Here
// the program counts by itself, with CUPTI. Look at the groups, and at the host's faults: the
// driver's rule (driver_tree.hpp) explains 36 of them and 48 transfers, on a GTX 1080 Ti and now.
//
//   cmake -S 05_unified_memory -B build/page_faults -DEXPERIMENTS=page_faults
//   cmake --build build/page_faults && build/page_faults/05_unified_memory
//
//   1  copy_by_thread, pages on demand   an element per thread (the kernels: page_copies.cuh)
//   2  copy_by_page, pages on demand     64 KiB per warp
//   3  copy_by_thread, prefetched        both arrays to the device before the kernel
//   4  the same both ways                and to the host after it
#include <algorithm>
#include <optional>

#include "driver_tree.hpp"
#include "page_copies.cuh"

using namespace samples;

namespace {

// ---- what the text's profiler printed on a GTX 1080 Ti ----

/// A line of the text's table. (nvprof's KB and MB are KiB and MiB.)
struct Direction {
  double count = NAN, average_kib = NAN, least_kib = NAN, most_kib = NAN, mib = NAN, ms = NAN;
};

/// Of the last version the text has no table.
struct Then {
  const char* key;
  double groups = NAN, group_ms = NAN, cpu_faults = NAN;
  Direction to_device = {}, to_host = {};
};

constexpr Direction then_to_host{48, 170.67, 4, 1020, 8, 1.294};
const Then then_of[] = {
    {"by_thread", 24, 2.32, 36, {41, 99.902, 4, 1004, 4, 0.678}, then_to_host},
    {"by_page", 3, 1.106, 36, {128, 32, 4, 60, 4, 0.722}, then_to_host},
    {"prefetched", 0, NAN, 36, {2, 2048, 2048, 2048, 4, 0.652}, then_to_host},
    {"prefetched_both_ways", 0, NAN, 0, {}, {}},
};

// ---- what to expect ----

/// What the driver's rule says of arrays that are whole blocks; NaN where it says nothing.
struct Rule {
  double to_device = NAN, to_host = NAN, cpu_faults = NAN;
};

Rule rule_for(const Version& version, size_t n) {
  const double bytes = bytes_of(n);
  const double blocks = bytes / block_bytes;
  if (blocks != std::floor(blocks)) return {};
  const Served walk = served(in_order());
  Rule rule;
  rule.to_host = 2 * blocks * (version.prefetched_back ? 1 : walk.transfers);  // both arrays
  // the host writes in, reads in, and reads out
  rule.cpu_faults = version.prefetched_back ? 0 : 3 * blocks * walk.faults;
  if (version.prefetched) rule.to_device = blocks;
  // A warp's page comes as 4 and 60 KiB. The driver serves 256 faults at once, by default; where
  // the pages of both arrays are more, what is served later finds half there, by no simple rule.
  const double pages = bytes / 65536;
  if (version.kernel == launch_by_page && 2 * pages <= 256) rule.to_device = 2 * pages;
  return rule;
}

// ---- what is counted ----

struct Metric {
  const char *name, *unit;
  double (*value)(const Migrations&);
};
const Metric of_version[] = {
    {"GPU fault records", "", [](const Migrations& m) { return double(m.fault_records); }},
    {"GPU fault groups", "", [](const Migrations& m) { return m.fault_groups; }},
    {"GPU fault time", "ms", [](const Migrations& m) { return m.fault_ms; }},
    {"CPU faults", "", [](const Migrations& m) { return double(m.cpu_faults); }},
};

struct TransferMetric {
  const char *name, *unit;
  double (*value)(const Transfers&);
};
const TransferMetric of_transfers[] = {
    {"transfer time", "ms", [](const Transfers& t) { return t.ms; }},
    {"transfers", "", [](const Transfers& t) { return double(t.count); }},
    {"average transfer", "KiB", [](const Transfers& t) { return t.average() / 1024; }},
    {"least transfer", "KiB", [](const Transfers& t) { return t.least / 1024; }},
    {"most transfer", "KiB", [](const Transfers& t) { return t.most / 1024; }},
    {"transferred", "MiB", [](const Transfers& t) { return t.bytes / (1 << 20); }},
};

std::string key_of(const Version& version, bool to_device) {
  return std::string(version.key) + (to_device ? "_to_device" : "_to_host");
}

/// Median, smallest and largest of the runs in which nothing was lost.
template <class Field>
Statistics over(const std::vector<Migrations>& runs, size_t n, Field field) {
  std::vector<double> values;
  for (const Migrations& m : runs)
    if (complete(m, n)) values.push_back(field(m));
  if (values.empty()) return {};
  Statistics all = summarize(values);
  all.low = *std::min_element(values.begin(), values.end());
  all.high = *std::max_element(values.begin(), values.end());
  return all;
}

/// How many times as much was counted by thread as by page, in runs in turn. Memory was allocated
/// anew for each run, so each block of two is a group of its own: the range covers all blocks.
template <class Field>
Statistics thread_over_page(const Counted& counted, size_t n, Field field) {
  const std::vector<Migrations>&thread = counted.of[0], &page = counted.of[1];
  std::vector<Readings> a, b;
  for (size_t i = 0; i + 1 < std::min(thread.size(), page.size()); i += 2) {
    bool whole = true;
    for (const size_t j : {i, i + 1})
      whole = whole && complete(thread[j], n) && complete(page[j], n) && field(page[j]) > 0;
    if (!whole) continue;
    a.push_back({{field(thread[i]), field(thread[i + 1])}});
    b.push_back({{field(page[i]), field(page[i + 1])}});
  }
  const Interval r = ratio_of_groups(a, b);
  return r.measured() ? Statistics{r.value, r.low, r.high, r.pairs} : Statistics{};
}

const char* const groups_ratio = "groups over those by page";
const char* const time_ratio = "fault time over that by page";

/// Asks for all counts at one size, in `rounds` runs of each version.
void ask_counts(const Run& run, size_t n, int rounds, bool counts_here) {
  Once<Counted> counted{[n, rounds] { return count_in_turn(n, rounds); }};
  for (size_t v = 0; v < std::size(versions); ++v) {
    const Version& version = versions[v];
    for (const Metric& metric : of_version)
      ask_for_table(run, {version.key, double(n)}, metric.name, metric.unit, [&] {
        return counts_here ? over(counted().of[v], n, metric.value) : Statistics{};
      });
    for (const bool to_device : {true, false})
      for (const TransferMetric& metric : of_transfers)
        ask_for_table(run, {key_of(version, to_device), double(n)}, metric.name, metric.unit, [&] {
          if (!counts_here) return Statistics{};
          return over(counted().of[v], n, [&](const Migrations& m) {
            return metric.value(to_device ? m.to_device : m.to_host);
          });
        });
  }
  if (n != text_size) return;
  const auto ask_ratio = [&](const char* name, double (*count)(const Migrations&)) {
    ask(run, {versions[0].key, double(n)}, name, "x",
        [&] { return counts_here ? thread_over_page(counted(), n, count) : Statistics{}; });
  };
  ask_ratio(groups_ratio, [](const Migrations& m) { return m.fault_groups; });
  ask_ratio(time_ratio, [](const Migrations& m) { return m.fault_ms; });
}

// ---- what is timed ----

/// A run of a version in fresh memory, timed by the host: the kernel with its faults, or all from
/// the inputs on the host to the results read there.
Task on_demand_task(const Ref& ref, const Version& version, size_t n, bool all) {
  const Shared run(std::optional<CopyRun>{});
  Task task{text(ref),
            [run, all] {
              if (all) (*run)->prefetch();
              (*run)->launch();
              wait_for_device();
              if (all) (*run)->read_back();
            },
            {[] {}, [run] { return (*run)->wrong(); }, ""},
            true};
  task.enter = [run, &version, n] {
    run->reset();
    run->emplace(version, n);
  };
  task.leave = [run] { run->reset(); };
  return task;
}

/// The kernel of a version whose pages have come: it is timed like any kernel.
Task prefetched_task(const Ref& ref, const Version& version, size_t n) {
  Task task = on_demand_task(ref, version, n, false);
  const Shared run(std::optional<CopyRun>{});
  task.on_host = false;
  task.launch = [run] { (*run)->launch(); };
  task.check = unchecked("looking at it would move its pages; the rows above are checked");
  task.enter = [run, &version, n] {
    run->reset();
    run->emplace(version, n);
    (*run)->prefetch();
    wait_for_device();
  };
  task.leave = [run] { run->reset(); };
  return task;
}

struct Copied {
  DeviceBuffer<float> in, out;
};

/// The copy in memory of cudaMalloc: nothing moves.
Checked in_device_memory(const std::string& name, const Version& version, size_t n) {
  std::vector<float> words(n);
  for (size_t i = 0; i < n; ++i) words[i] = input(i, 7);
  const Shared memory(Copied{DeviceBuffer<float>(words), DeviceBuffer<float>(n)});
  const auto wrong = [memory, n] { return wrong_elements(memory->out.to_host().data(), n, 7); };
  const auto change = [memory] {
    std::vector<float> found = memory->out.to_host();
    found[found.size() / 2] += 1;
    memory->out.copy_from(found);
  };
  return {{name,
           [memory, &version, n] { version.kernel(memory->out.data(), memory->in.data(), n); },
           {[memory] { memory->out.poison(); }, wrong, ""}},
          n,
          change};
}

// ---- the experiment ----

/// The text's size and a larger one; all sizes up to 32 times with --full.
std::vector<size_t> sizes_of(const Run& run) {
  const Options& options = options_of(run);
  const size_t each = fitting_elements(run, options.size, text_size, 8, 16);
  const size_t most = options.size ? 1 : run.full ? 32 : run.quick || !run.device ? 1 : 4;
  std::vector<size_t> sizes;
  for (size_t times = 1; times <= most; times *= run.full ? 2 : 4)
    if (times == 1 || 4.0 * bytes_of(each * times) < run.memory_there())
      sizes.push_back(each * times);
  return sizes;
}

std::string words_at(const std::string& words, size_t n) {
  return words + ", " + std::to_string(n);
}

Cell cell(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }
/// A count that was taken once has no range.
Cell cell(const Statistics& s) {
  if (!std::isfinite(s.median)) return {};
  return s.repeats > 1 ? Cell(s) : Cell(s.median);
}
const Statistics& kept(const Run& run, const std::string& key, size_t n, const char* metric) {
  return run.results->value({key, double(n)}, metric).value;
}

void show_faults(const Run& run, const std::vector<size_t>& sizes) {
  Table table(
      run.report, "version, floats",
      {counted("groups", "GPU fault groups", "", 0), then("then", "GPU fault groups", "", 0),
       counted("records", "GPU fault records", "", 0),
       counted("their ms", "GPU fault time", "ms", 3), then("then", "GPU fault time", "ms", 3),
       counted("CPU faults", "CPU faults", "", 0), predicted("rule", "CPU faults", "", 0),
       then("then", "CPU faults", "", 0)});
  for (const size_t n : sizes)
    for (const Version& version : versions) {
      const auto now = [&](const char* metric) { return cell(kept(run, version.key, n, metric)); };
      const Then& said = *with_key(then_of, Ref(version.key));
      const auto then = [n](double value) { return n == text_size ? cell(value) : Cell(); };
      table.row({version.key, "elements", std::to_string(n), words_at(version.words, n)},
                {now("GPU fault groups"), then(said.groups), now("GPU fault records"),
                 now("GPU fault time"), then(said.group_ms), now("CPU faults"),
                 cell(rule_for(version, n).cpu_faults), then(said.cpu_faults)});
    }
  table.print();
}

void show_transfers(const Run& run, const std::vector<size_t>& sizes) {
  Table table(
      run.report, "transfers, floats",
      {measured("ms", "transfer time", "ms", 3), then("then", "transfer time", "ms", 3),
       predicted("rule", "transfers", "", 0), counted("count", "transfers", "", 0),
       then("then", "transfers", "", 0), counted("avg KiB", "average transfer", "KiB", 1),
       then("then", "average transfer", "KiB", 1), counted("min KiB", "least transfer", "KiB", 0),
       then("then", "least transfer", "KiB", 0), counted("max KiB", "most transfer", "KiB", 0),
       then("then", "most transfer", "KiB", 0), saved_only(counted("MiB", "transferred", "MiB", 1)),
       saved_only(then("then", "transferred", "MiB", 1))});
  for (const size_t n : sizes)
    for (const Version& version : versions)
      for (const bool to_device : {true, false}) {
        const std::string key = key_of(version, to_device);
        const Rule rule = rule_for(version, n);
        const Then& said = *with_key(then_of, Ref(version.key));
        const Direction old = n != text_size ? Direction{}
                              : to_device    ? said.to_device
                                             : said.to_host;
        const auto now = [&](const char* metric) { return cell(kept(run, key, n, metric)); };
        table.row(
            {key, "elements", std::to_string(n),
             words_at(std::string(version.words) + (to_device ? " to device" : " to host"), n)},
            {now("transfer time"), cell(old.ms), cell(to_device ? rule.to_device : rule.to_host),
             now("transfers"), cell(old.count), now("average transfer"), cell(old.average_kib),
             now("least transfer"), cell(old.least_kib), now("most transfer"), cell(old.most_kib),
             now("transferred"), cell(old.mib)});
      }
  table.print();
}

/// Kernels with their faults, and all from the inputs on the host to the results there. Only the
/// kernels that find their pages there are predicted: what serving a fault takes is not documented.
void measure_times(const Run& run, size_t n, const Abilities& can) {
  const std::string missing = can.managed && can.on_demand ? "" : can.why();
  const double at = double(n);
  Sheet kernels(run, "kernel, floats", {milliseconds(4), spread()}, "elements");
  kernels.add({.ref = {"kernel_in_device_memory", at},
               .words = "in device memory, " + std::to_string(n),
               .calibrates = true});
  for (const Version& version : versions)
    kernels.add({.ref = {std::string("kernel_") + version.key, at},
                 .words = words_at(version.words, n),
                 .model = Model::host,
                 .missing = missing});
  const auto version_of = [](const Row& row) {
    return with_key(versions, Ref(row.ref.key.substr(row.ref.key.find('_') + 1)));
  };
  kernels.measure(Timing::in_turn, [&](const Row& row) {
    const Version* version = version_of(row);
    if (!version) return in_device_memory(text(row.ref), versions[0], n).task;
    return version->prefetched ? prefetched_task(row.ref, *version, n)
                               : on_demand_task(row.ref, *version, n, false);
  });
  kernels.predict([&](const Row& row) {
    const Version* version = version_of(row);
    const Ref resident("kernel_in_device_memory", at);
    return version && version->prefetched ? kernels.ms(resident) : double(NAN);
  });
  kernels.print();

  Sheet all(run, "from host to host, floats", {milliseconds(3), spread()}, "elements");
  for (const Version& version : versions)
    all.add({.ref = {std::string("all_") + version.key, at},
             .words = words_at(version.words, n),
             .missing = missing});
  all.measure(Timing::in_turn,
              [&](const Row& row) { return on_demand_task(row.ref, *version_of(row), n, true); });
  all.print();
}

void run_page_faults(const Run& run) {
  const std::vector<size_t> sizes = sizes_of(run);
  const size_t n = sizes[0];
  run.report.begin("page_faults", std::to_string(n) + " floats, " + bytes_text(bytes_of(n)) +
                                      ", copied between managed arrays; the host writes one and "
                                      "reads both");
  const Abilities can = ask_abilities(run);
  const bool here = run.device && run.device->number >= 0 && can.managed && can.on_demand;
  const std::string uncounted = here ? migrations_uncounted_because() : "";
  if (!uncounted.empty()) run.report.left_out("counts; the times stand alone", uncounted);
  for (const size_t size : sizes)
    ask_counts(run, size, size == n ? run.measuring.rounds_in_turn() : 3,
               here && uncounted.empty());
  show_faults(run, sizes);
  show_transfers(run, sizes);
  for (const size_t size : sizes) measure_times(run, size, can);
}

// ---- claims ----

/// Of a count without a recorded range the count itself.
double least(const Statistics& s) { return std::isfinite(s.low) ? s.low : s.median; }
double most(const Statistics& s) { return std::isfinite(s.high) ? s.high : s.median; }

std::vector<Claim> claims(const Run& run) {
  const size_t n = sizes_of(run)[0];
  const bool text_sized = n == text_size;
  const std::string other_size = text_sized ? "" : "it is about 1048576 floats";
  const std::string uncounted = "page faults are not counted here";
  const Ref thread(versions[0].key, double(n));
  const auto of = [&](const char* key, const char* metric) { return kept(run, key, n, metric); };
  const auto fact = [&](Part part, const Statistics& known, bool so, const std::string& found) {
    Claim claim{.part = std::move(part)};
    claim.unless = !other_size.empty() ? other_size : std::isnan(known.median) ? uncounted : "";
    claim.fact = so ? Fact::so : Fact::not_so;
    claim.here = found;
    return claim;
  };
  std::vector<Claim> all{
      {.part = {"05.1a", "a warp per page cuts the groups of page faults to a large degree",
                "24 to 3 groups", "GTX 1080 Ti"},
       .rule = much_beats(),
       .levels = {{thread, groups_ratio}},
       .unless = other_size,
       .needs = uncounted},
      {.part = {"05.1b", "a warp per page cuts the time spent on page faults", "2.32 to 1.11 ms",
                "GTX 1080 Ti"},
       .rule = beats(2.32 / 1.106),
       .levels = {{thread, time_ratio}},
       .unless = other_size,
       .needs = uncounted}};
  if (!text_sized) {  // nobody asked for what decides them
    all[0].levels.clear();
    all[1].levels.clear();
  }
  const Statistics faults = of("prefetched", "GPU fault records");
  all.push_back(fact(
      {"05.2a", "prefetching leaves no page fault of the GPU", "none printed", "GTX 1080 Ti"},
      faults, most(faults) == 0,
      "at most " + fixed(most(faults), 0) + " in " + std::to_string(faults.repeats) + " runs"));
  const Statistics small = of("prefetched_to_device", "least transfer");
  const Statistics large = of("prefetched_to_device", "most transfer");
  const double block_kib = double(block_bytes) / 1024;
  all.push_back(
      fact({"05.2b", "prefetching moves pieces of 2 MiB", "2 of 2 MiB, before 41", "GTX 1080 Ti",
            pascal},
           small, least(small) == block_kib && most(large) == block_kib,
           "pieces of " + fixed(least(small), 0) + " to " + fixed(most(large), 0) + " KiB"));
  const Statistics before = of("prefetched", "CPU faults");
  const Statistics after = of("prefetched_both_ways", "CPU faults");
  all.push_back(fact({"05.3", "prefetching to the host as well leaves no page fault of the host",
                      "no fault; no table", "GTX 1080 Ti"},
                     after, most(after) == 0,
                     fixed(before.median, 0) + " became " + fixed(most(after), 0)));
  const Statistics moved = of("by_thread_to_device", "transferred");
  const double once = bytes_of(n) / (1 << 20);
  all.push_back(fact({"05.6", "duplicate faults are filtered: each page moves once", "", "wiki"},
                     moved, most(moved) == once,
                     "512 warps touch each page of 64 KiB; at most " + fixed(most(moved), 2) +
                         " MiB went to the device, the array has " + fixed(once, 2)));
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = 16.0 * double(sizes_of(run).back())}; }

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  all.push_back(in_device_memory("copy_by_thread", versions[0], n));
  all.push_back(in_device_memory("copy_by_page", versions[1], n));
  return all;
}

}  // namespace

extern const Experiment page_faults_experiment{
    .name = "page_faults",
    .about = "transfers and faults of four ways to touch pages, counted",
    .run = run_page_faults,
    .check_typed = [](const Run& run) { sizes_of(run); },
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
