// page_faults: who moves a page, when, and in what pieces. The text copies a million floats from one managed array to
// another in four ways and prints what the profiler counted: a thread an element, a warp a 64 KiB page, with a prefetch
// to the device, and with one back to the host too. Here the program counts by itself, by CUPTI. Look at the driver's
// rule for the host's faults: it explains 36 of them and 48 transfers, then on a GTX 1080 Ti and now.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "migrations.hpp"
#include "options.hpp"

namespace {

constexpr size_t word = sizeof(float), warp_page = 64 << 10, words_of_page = warp_page / word;
constexpr size_t text_size = size_t(1) << 20;
constexpr int threads = 256;

// A thread an element: many warps touch the same page, and few pages are touched at the same time.
__global__ void copy_by_thread(float* out, const float* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

/// The element that a lane of a warp copies in its `step`th step through the warp's own page.
__host__ __device__ size_t element_of(size_t warp, size_t step, size_t lane) {
  return warp * words_of_page + step * 32 + lane;
}

// A warp a page: each walks through 64 KiB of its own, 32 neighbouring words a step, so that many pages fault at once.
__global__ void copy_by_page(float* out, const float* in, size_t n) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  for (size_t step = 0; step < words_of_page / 32; ++step) {
    const size_t i = element_of(thread / 32, step, thread % 32);
    if (i < n) out[i] = in[i];
  }
}

void launch(bool by_page, float* out, const float* in, size_t n) {
  const size_t needed = by_page ? (n + words_of_page - 1) / words_of_page * 32 : n;
  const unsigned blocks = unsigned((needed + threads - 1) / threads);
  by_page ? copy_by_page<<<blocks, threads>>>(out, in, n) : copy_by_thread<<<blocks, threads>>>(out, in, n);
  CUDA_CHECK_LAUNCH();
}

/// One direction: count; average, least and most KiB; MiB in all; milliseconds. (nvprof's KB and MB are KiB and MiB.)
using Direction = std::array<double, 6>;
constexpr Direction unknown{NAN, NAN, NAN, NAN, NAN, NAN};

struct Version {
  const char* name;
  bool by_page, to_device, to_host;        ///< which kernel; prefetch to the device before it, to the host after it
  Direction then_to_device, then_to_host;  ///< on a GTX 1080 Ti; the text has no table of the last version
  double then_groups, then_group_ms, then_cpu_faults;
};

const Version versions[] = {
    {"by thread", false, false, false, {41, 99.902, 4, 1004, 4, 0.678}, {48, 170.67, 4, 1020, 8, 1.294}, 24, 2.32, 36},
    {"by page", true, false, false, {128, 32, 4, 60, 4, 0.722}, {48, 170.67, 4, 1020, 8, 1.294}, 3, 1.106, 36},
    {"prefetched", false, true, false, {2, 2048, 2048, 2048, 4, 0.652}, {48, 170.67, 4, 1020, 8, 1.294}, 0, NAN, 36},
    {"prefetched both ways", false, true, true, unknown, unknown, 0, NAN, 0},
};
constexpr size_t number_of_versions = std::size(versions);

/// One whole run in fresh managed memory: the host writes `in`, the kernel copies, the host checks all. Nobody touches
/// `out` before the kernel: its pages are zeros at first, and `in` differs from zero and from the last run.
/// Milliseconds of the kernel with its faults, and of all from the inputs on the host to the result checked there.
std::pair<double, double> copy_once(const Version& version, size_t n) {
  static unsigned runs = 0;
  const float first = float(++runs % 1000 + 1);
  const Managed<float> in(n), out(n);
  if (version.to_host) in.prefetch(cudaCpuDeviceId), wait_for_device();
  for (size_t i = 0; i < n; ++i) in[i] = first + float(i % 8191);

  const Event start, stop;
  bool same = true;
  const double all_ms = host_ms([&] {
    if (version.to_device) in.prefetch(this_device()), out.prefetch(this_device());
    start.record();
    launch(version.by_page, out.data(), in.data(), n);
    stop.record();
    wait_for_device();
    if (version.to_host) in.prefetch(cudaCpuDeviceId), out.prefetch(cudaCpuDeviceId), wait_for_device();
    for (size_t i = 0; i < n; ++i) same &= out[i] == in[i] && in[i] == first + float(i % 8191);
  });
  require_right(same, version.name);
  return {stop.ms_since(start), all_ms};
}

/// What the rule says of arrays that are whole blocks; NaN where it says nothing.
struct Predicted {
  double to_device = NAN, to_host = NAN, cpu_faults = NAN;
};
Predicted predict(const Version& version, size_t n) {
  if (n * word % block_bytes) return {};
  const double blocks = double(n * word / block_bytes), walk = faults_of_a_walk();
  // a fault moves twice, the 4 KiB that faulted and the rest of 64 KiB, a warp's page; faults of both arrays that the
  // driver cannot serve in one batch, of 256 by default, make it fetch more than faulted, by no rule so simple
  const double pages = double(n * word / warp_page), twice = version.by_page && 2 * pages <= 256 ? 2 * pages : NAN;
  return {version.to_device ? blocks : twice,
          version.to_host ? 2 * blocks : 2 * blocks * walk * 2,  // both arrays come back
          version.to_host ? 0 : 3 * blocks * walk};              // writing in, reading in, reading out
}

Cell number(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

/// Each version's runs at one size, counted; none where nothing is counted.
using Counts = std::array<std::vector<Migrations>, number_of_versions>;

/// The text's table of each version at `n` floats: what was counted, what the rule says, what the text reports.
void show_transfers(const Run& run, size_t n, const Counts& counts) {
  const struct {
    const char *heading, *metric, *unit;
    int decimals;
  } fields[] = {{"count", "transfers", "", 0},           {"avg KiB", "average transfer", "KiB", 1},
                {"min KiB", "least transfer", "KiB", 0}, {"max KiB", "most transfer", "KiB", 0},
                {"MiB", "transferred", "MiB", 1},        {"ms", "transfer time", "ms", 3}};
  std::vector<Column> columns{predicted("rule", "transfers", "", 0)};
  for (const auto& [heading, metric, unit, decimals] : fields)
    columns.push_back(counted(heading, metric, unit, decimals)),
        columns.push_back(then("then", metric, unit, decimals));
  Table table(run.report, "transfers, floats", columns);
  for (size_t v = 0; v < number_of_versions; ++v)
    for (const bool to_device : {true, false}) {
      Direction now = unknown, text = unknown;
      if (n == text_size) text = to_device ? versions[v].then_to_device : versions[v].then_to_host;
      if (!counts[v].empty()) {
        const Transfers& t = to_device ? counts[v][0].to_device : counts[v][0].to_host;
        now = {double(t.count), t.average() / 1024, t.least / 1024, t.most / 1024, t.bytes / (1 << 20), t.ms};
      }
      const Predicted rule = predict(versions[v], n);
      std::vector<Cell> cells{number(to_device ? rule.to_device : rule.to_host)};
      for (size_t i = 0; i < now.size(); ++i) cells.push_back(number(now[i])), cells.push_back(number(text[i]));
      const std::string name = std::string(versions[v].name) + (to_device ? " to device" : " to host");
      table.row({name, "elements", std::to_string(n)}, cells);
    }
  table.print();
}

const std::vector<Claim> claims{
    {"05.1", "a warp a page cuts the GPU's page-fault groups and the time spent on them", "GTX 1080 Ti",
     "24 to 3 groups, 2.32 to 1.11 ms, though transfers rose from 41 to 128"},
    {"05.2", "prefetching ends GPU faults and moves 2 MiB pieces instead of many small ones", "GTX 1080 Ti",
     "41 of 4 KiB to 0.98 MiB became 2 of 2 MiB"},
    {"05.3", "prefetching to the host as well ends CPU faults", "GTX 1080 Ti", "no fault; no table"}};

/// Judges the claims by what was counted at the text's size.
void judge(const Run& run, const Counts& counts) {
  const Statistics groups[] = {over(counts[0], &Migrations::fault_groups), over(counts[1], &Migrations::fault_groups)};
  const double ms[] = {over(counts[0], &Migrations::fault_ms).median, over(counts[1], &Migrations::fault_ms).median};
  Judgement by_page = judge_ratio(groups[0], groups[1], 24.0 / 3);  // as many times fewer as in the text
  if (!(ms[0] > ms[1])) by_page.verdict = Verdict::does_not_hold;
  by_page.here = fixed(groups[0].median, 0) + " to " + fixed(groups[1].median, 0) + " groups, " + fixed(ms[0], 2) +
                 " to " + fixed(ms[1], 2) + " ms";
  run.report.claim(claims[0], by_page);
  const Transfers &small = counts[0][0].to_device, &pieces = counts[2][0].to_device;
  const double left = counts[2][0].fault_groups, block = block_bytes;
  const std::string here = std::to_string(small.count) + " transfers of " + bytes_text(small.least) + " to " +
                           bytes_text(small.most) + " became " + std::to_string(pieces.count) + " of " +
                           bytes_text(pieces.least) + ", " + fixed(left, 0) + " groups";
  run.report.claim(claims[1], judge_fact(left == 0 && pieces.least == block && pieces.most == block, here));
  const unsigned before = counts[2][0].cpu_faults, after = counts[3][0].cpu_faults;
  run.report.claim(
      claims[2], judge_fact(after == 0, std::to_string(before) + " CPU faults became " + std::to_string(after), after));
}

/// Times of a version's kernel, and of all of it.
std::pair<Statistics, Statistics> time_version(const Run& run, const Version& version, size_t n) {
  copy_once(version, 1000);                             // loads the kernel
  const int most = n <= text_size || run.full ? 5 : 3;  // setting up takes longer than the kernel
  std::vector<double> kernel, all;
  for (int r = 0; r < (run.measuring.typed ? run.measuring.repeats : most); ++r) {
    const auto [kernel_ms, all_ms] = copy_once(version, n);
    kernel.push_back(kernel_ms), all.push_back(all_ms);
  }
  return {summarize(kernel), summarize(all)};
}

/// All versions at all sizes, counted in one recording, and not while they are timed: it takes time.
std::vector<Counts> count_all(const std::vector<size_t>& sizes) {
  std::vector<Counts> counts(sizes.size());
  std::vector<std::vector<Migrations>*> into;
  Recording recording;
  for (size_t s = 0; s < sizes.size(); ++s)
    for (size_t v = 0; v < number_of_versions; ++v) {
      // the faults of the GPU differ from run to run; after a prefetch there are none, and larger sizes judge nothing
      const int runs = sizes[s] == text_size && !versions[v].to_device ? 5 : 1;
      for (int r = 0; r < runs; ++r) recording.count([&] { copy_once(versions[v], sizes[s]); });
      into.insert(into.end(), size_t(runs), &counts[s][v]);
    }
  const std::vector<Migrations> all = recording.end();
  for (size_t i = 0; i < all.size(); ++i) into[i]->push_back(all[i]);
  return counts;
}

}  // namespace

void page_faults(const Run& run, const Options& options) {
  std::vector<size_t> sizes;
  const size_t most = run.full ? 64 : run.quick || !run.device ? 1 : 4, step = run.full ? 2 : 4;
  for (size_t n = 1; n <= most; n *= step) sizes.push_back(n * text_size);
  if (options.size) sizes = {options.size};
  if (run.device)
    for (size_t& n : sizes) n = elements_that_fit(n, 2 * word, options.size != 0);
  run.report.begin("page_faults", std::to_string(sizes[0]) + " floats, " + bytes_text(double(sizes[0] * word)) +
                                      ", copied between managed arrays; the host writes one and reads both");
  const bool usable = run.device && has_managed_memory();
  const std::string uncounted = usable ? migrations_uncounted_because() : run.device ? managed_memory_text() : "no GPU";
  const std::vector<Counts> counts = usable && uncounted.empty() ? count_all(sizes) : std::vector<Counts>(sizes.size());
  Table table(run.report, "version, floats",
              {measured("kernel ms", "kernel time", "ms", 3), shown("spread"), measured("all ms", "time", "ms", 2),
               counted("GPU groups", "GPU fault groups", "", 0), then("then", "GPU fault groups", "", 0),
               counted("their ms", "GPU fault time", "ms", 3), then("then", "GPU fault time", "ms", 3),
               counted("CPU faults", "CPU faults", "", 0), predicted("rule", "CPU faults", "", 0),
               then("then", "CPU faults", "", 0)});
  for (size_t s = 0; s < sizes.size(); ++s) {
    const size_t n = sizes[s];
    Progress progress("page_faults, " + std::to_string(n) + " floats", int(number_of_versions));
    for (size_t v = 0; v < number_of_versions; ++v) {
      progress.step();
      const Version& version = versions[v];
      std::vector<Cell> cells(3);
      if (usable && (pages_on_demand() || !(version.to_device || version.to_host))) {
        const auto [kernel_ms, all_ms] = time_version(run, version, n);
        cells = {kernel_ms, spread_text(kernel_ms), all_ms};
      }
      const auto now = [&](auto what) { return counts[s][v].empty() ? Cell() : Cell(over(counts[s][v], what)); };
      const auto old = [&](double value) { return n == text_size ? number(value) : Cell(); };
      cells.insert(cells.end(), {now(&Migrations::fault_groups), old(version.then_groups), now(&Migrations::fault_ms),
                                 old(version.then_group_ms), now(&Migrations::cpu_faults),
                                 number(predict(version, n).cpu_faults), old(version.then_cpu_faults)});
      table.row({version.name, "elements", std::to_string(n)}, cells);
    }
  }
  table.print();
  show_transfers(run, sizes.front(), counts.front());
  if (sizes.size() > 1 && uncounted.empty()) show_transfers(run, sizes.back(), counts.back());
  if (uncounted.empty() && sizes.front() == text_size) return judge(run, counts.front());
  if (!uncounted.empty())
    run.report.left_out(usable ? "counting; the times stand alone" : "times, transfers and faults", uncounted);
  for (const Claim& each : claims)
    run.report.claim(each, not_judged(uncounted.empty() ? "it is about 1048576 floats" : uncounted));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("page_faults: warps of their own page copy every element once") {
  constexpr size_t pages = 7;
  std::vector<int> copied(pages * words_of_page);
  for (size_t warp = 0; warp < pages; ++warp)
    for (size_t step = 0; step < words_of_page / 32; ++step)
      for (size_t lane = 0; lane < 32; ++lane) ++copied.at(element_of(warp, step, lane));
  CHECK(std::count(copied.begin(), copied.end(), 1) == long(copied.size()));
}

TEST_CASE("page_faults: the rule gives the text's figures") {
  CHECK(faults_of_a_walk() == 6);
  for (const Version& version : versions) {
    const Predicted rule = predict(version, text_size);
    CHECK(rule.cpu_faults == version.then_cpu_faults);
    if (!version.to_host) CHECK(rule.to_host == version.then_to_host[0]);
    if (!std::isnan(rule.to_device) && !version.to_host) CHECK(rule.to_device == version.then_to_device[0]);
  }
  CHECK(predict(versions[3], text_size).to_host == 4);  // 2 MiB each, of both arrays
  CHECK(std::isnan(predict(versions[0], 1000).to_host));
}

TEST_CASE("page_faults: both kernels copy awkward sizes") {
  if (skip_without_gpu()) return;
  for (size_t n : {size_t(1), size_t(31), size_t(16383), size_t(16385), size_t(1000003)})
    for (bool by_page : {false, true}) {
      INFO("by page: " << by_page << ", " << n);
      std::vector<float> host(n);
      std::iota(host.begin(), host.end(), 0.5f);
      const DeviceBuffer<float> in(host);
      DeviceBuffer<float> out(n);
      out.poison();
      launch(by_page, out.data(), in.data(), n);
      CHECK(out.to_host() == host);
    }
}

TEST_CASE("page_faults: what is counted is what must move") {
  if (skip_without_gpu()) return;
  if (!migrations_uncounted_because().empty()) return skip_self_check(migrations_uncounted_because());
  if (device_attribute(cudaDevAttrPageableMemoryAccessUsesHostPageTables))
    return skip_self_check("this device reads host pages in place");
  const size_t sizes[] = {text_size, 3 * text_size};
  const std::vector<Counts> counts = count_all({sizes[0], sizes[1]});
  for (size_t s : {0, 1})
    for (size_t v = 0; v < number_of_versions; ++v)
      for (const Migrations& m : counts[s][v]) {
        INFO(versions[v].name << " of " << sizes[s]);
        CHECK(m.to_device.bytes == sizes[s] * word);    // in; out was nowhere before
        CHECK(m.to_host.bytes == 2 * sizes[s] * word);  // both
        CHECK((m.fault_groups == 0) == versions[v].to_device);
        CHECK((m.cpu_faults == 0) == versions[v].to_host);
        if (versions[v].to_device) CHECK(m.to_device.count == predict(versions[v], sizes[s]).to_device);  // of 2 MiB
      }
}
