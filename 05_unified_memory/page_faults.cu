// page_faults: what does the driver do behind managed memory? A million floats are copied from one
// managed array to another, in four ways. The wiki prints what nvprof counted on a GTX 1080 Ti:
// transfers, groups of page faults, their time [LC A]. Here the program counts by itself.
//
// A page moves when it is touched. Pages that fault at the same time are served as a group: so a
// warp for each page needs few groups. Pages that were prefetched do not fault. And the host's
// faults follow a rule that has not changed since. (Below stand the answers of the exercises pages
// and faults: do these first.)
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o page_faults page_faults.cu ../common/*.cpp
//   (counts need CUPTI, which CMake finds: see migrations.hpp)
//
//   1  stream_thread  a thread per word
//   2  stream_warp    a warp per page of 64 KiB
#include <algorithm>
#include <memory>
#include <optional>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"
#include "page_faults.hpp"

// ---- the kernels ----

// Many warps touch the same page, and warps that run at the same time touch few pages.
template <typename data_type>
__global__ void stream_thread(const data_type* input, data_type* output, const size_t n) {
  const size_t tid = threadIdx.x + blockIdx.x * size_t(blockDim.x);
  if (tid < n) output[tid] = input[tid];
}

#define PAGE_STRIDE 65536  // bytes of a page, says the wiki

// A warp walks through a page of its own: as many pages fault at the same time as warps run.
template <typename data_type>
__global__ void stream_warp(const data_type* input, data_type* output, const size_t n) {
  const size_t laneId = threadIdx.x & 31;
  const size_t warpId = (threadIdx.x + blockIdx.x * size_t(blockDim.x)) >> 5;
#pragma unroll
  for (size_t rep = 0; rep < PAGE_STRIDE / sizeof(data_type) / 32; rep++) {
    const size_t ind = warpId * PAGE_STRIDE / sizeof(data_type) + rep * 32 + laneId;
    if (ind < n) output[ind] = input[ind];
  }
}

namespace {

constexpr size_t page_floats = PAGE_STRIDE / sizeof(float);

void by_thread(const float* in, float* out, size_t n) {
  stream_thread<<<unsigned(ceil_div(n, 256)), 256>>>(in, out, n);
}
void by_warp(const float* in, float* out, size_t n) {
  const size_t warps = ceil_div(n, page_floats);
  stream_warp<<<unsigned(ceil_div(warps * 32, 256)), 256>>>(in, out, n);
}

// ---- what is expected ----

/// Faults of a host that walks through a block of 2 MiB, 32 parts of 64 KiB. A fault brings its
/// part. Then the 128 KiB around it are completed if more than 51% of them are there, then the
/// 256 KiB, and so on up to the block.
constexpr int faults_of_a_walk() {
  int faults = 0;
  for (int here = 0; here < 32; ++faults) {
    const int touched = here++;
    for (int size = 2; size <= 32; size *= 2) {
      const int begin = touched / size * size;
      if (100 * (here - begin) > 51 * size) here = begin + size;
    }
  }
  return faults;
}

constexpr size_t floats = size_t(1) << 20, array_bytes = floats * sizeof(float);
constexpr double blocks = double(array_bytes) / (2 * MiB), pages = double(floats) / page_floats;
constexpr double walk = blocks * faults_of_a_walk();
constexpr double none = NAN;

/// A line's count and time as nvprof printed them of a GTX 1080 Ti, and the count by the rule: the
/// host writes one array and reads both, three walks; the two that it reads come back, and each
/// fault makes two transfers, 4 KiB first, then the rest; a prefetch moves whole blocks.
struct Expected {
  double then = none, then_ms = none, rule = none;
};

struct Version {
  const char* name;
  void (*copy)(const float* in, float* out, size_t n);  ///< the launch
  bool prefetched = false, prefetched_back = false;
  Expected expected[4] = {};  ///< to device, to host, groups of GPU faults, faults of the host
};
constexpr Expected fetched_by_walks{.then = 48, .then_ms = 1.294, .rule = 2 * 2 * walk};
constexpr Expected three_walks{.then = 36, .rule = 3 * walk};
constexpr Version versions[] = {
    {.name = "stream_thread",
     .copy = by_thread,
     .expected = {{41, 0.678}, fetched_by_walks, {24, 2.320}, three_walks}},
    {.name = "stream_warp",
     .copy = by_warp,
     .expected = {{128, 0.722, 2 * pages}, fetched_by_walks, {3, 1.106}, three_walks}},
    {.name = "prefetched",
     .copy = by_thread,
     .prefetched = true,
     .expected = {{2, 0.652, blocks}, fetched_by_walks, {0, none, 0}, three_walks}},
    {.name = "both ways",
     .copy = by_thread,
     .prefetched = true,
     .prefetched_back = true,
     .expected = {{.rule = blocks}, {.rule = 2 * blocks}, {.rule = 0}, {0, none, 0}}},
    // Add yours here; {} where you expect nothing.
};

// ---- the four versions ----

float input(size_t i) { return float(1 + i % 8191); }

/// One run of a version, step by step, in memory that nobody has touched before.
struct CopyRun {
  Version version;
  ManagedBuffer<float> in{floats}, out{floats};

  explicit CopyRun(const Version& version) : version(version) {
    if (version.prefetched_back)
      CUDA_CHECK(cudaMemPrefetchAsync(in, in.bytes(), host_memory, 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < floats; ++i) in[i] = input(i);
  }
  void prefetch_to_device() const {
    if (!version.prefetched) return;
    CUDA_CHECK(cudaMemPrefetchAsync(in, in.bytes(), gpu_memory(), 0, nullptr));
    CUDA_CHECK(cudaMemPrefetchAsync(out, out.bytes(), gpu_memory(), 0, nullptr));
  }
  void copy() const { version.copy(in, out, floats); }
  void read_back() const {
    if (version.prefetched_back) {
      CUDA_CHECK(cudaMemPrefetchAsync(in, in.bytes(), host_memory, 0, nullptr));
      CUDA_CHECK(cudaMemPrefetchAsync(out, out.bytes(), host_memory, 0, nullptr));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    read_every_page(in, in.bytes());
    read_every_page(out, out.bytes());
  }
};

enum Timed { kernel_alone, host_to_host };

/// All versions. If the kernel alone is timed, the prefetches come before.
std::vector<Benchmark> copies(Timed timed) {
  const auto current = std::make_shared<std::optional<CopyRun>>();
  const auto poison = [=] { std::fill_n((*current)->out.data(), floats, -1.0f); };
  const auto find_error = [=] {
    CUDA_CHECK(cudaDeviceSynchronize());
    return find_mismatch_on_host((*current)->out.data(), floats, input);
  };
  std::vector<Benchmark> all;
  for (const Version& version : versions) {
    const auto before = [=] {
      current->emplace(version);  // the memory of the run before is freed
      if (timed == kernel_alone) (*current)->prefetch_to_device();
    };
    const auto work = [=] {
      if (timed == host_to_host) (*current)->prefetch_to_device();
      (*current)->copy();
      if (timed == host_to_host) (*current)->read_back();
    };
    all.push_back({.name = version.name,
                   .work = work,
                   .check = {poison, find_error},
                   .on_host = timed == host_to_host,
                   .before = before});
  }
  return all;
}

// ---- the experiment ----

using Runs = std::vector<Migrations>;

/// A number of a line of nvprof's table, of each run.
std::vector<double> of_each(const Runs& runs, What what, double Line::*number) {
  std::vector<double> all;
  for (const Migrations& run : runs) all.push_back(run[what].*number);
  return all;
}
double least(const std::vector<double>& values) { return *std::ranges::min_element(values); }
double most(const std::vector<double>& values) { return *std::ranges::max_element(values); }

/// How many times as much as `few` is `many`? Run by run; CUPTI may have missed some of either.
Interval times_as_much(std::vector<double> many, const std::vector<double>& few) {
  many.resize(std::min(many.size(), few.size()));
  for (size_t r = 0; r < many.size(); ++r) many[r] /= few[r];
  return interval_of_median(many, 0.1);
}

/// The runs of which CUPTI had all bytes that move: the input to the device, and both arrays back.
Runs complete(Runs runs) {
  std::erase_if(runs, [](const Migrations& run) {
    return run[to_device].bytes < array_bytes || run[to_host].bytes < 2 * array_bytes;
  });
  return runs;
}

void print_times(Run& run) {
  const Timings kernel = run.timer.interleaved(copies(kernel_alone));
  const Timings all = run.timer.interleaved(copies(host_to_host));
  Table table("version", {"kernel, ms", "host to host, ms"});
  for (const Version& version : versions)
    table.row(version.name, {kernel[version.name].ms_interval(), all[version.name].ms_interval()});
  run.print(table);
}

/// As nvprof printed it, and beside it what is expected.
void print_counts(Run& run, const Version& version, const Runs& runs) {
  Table table(version.name, {"count", "1080 Ti", "rule", "MiB", "ms", "1080 Ti, ms", "us each"});
  for (const What what : {to_device, to_host, fault_groups, cpu_faults}) {
    constexpr const char* names[] = {"to device", "to host", "GPU fault groups", "CPU faults"};
    const auto& [then, then_ms, rule] = version.expected[what];
    const auto count = of_each(runs, what, &Line::count), ms = of_each(runs, what, &Line::ms);
    Cell moved = "", lasted = "", each = "";
    if (what == to_device || what == to_host)
      moved = interval_of_median(of_each(runs, what, &Line::bytes), 0) / MiB;
    if (what != cpu_faults) lasted = interval_of_median(ms, 0);
    if (what != cpu_faults && least(count) > 0) each = 1e3 * times_as_much(ms, count);
    const Interval median = interval_of_median(count, 0);
    table.row(names[what], {median, then, rule, moved, lasted, then_ms, each});
  }
  run.print(table);
}

const Claim fewer_groups{"05.1a", "a warp per page cuts GPU page fault groups to a large degree",
                         "[LC A] \"to a large degree\": 24 to 3, GTX 1080 Ti"};
const Claim less_time{"05.1b", "a warp per page cuts the time spent on GPU page faults",
                      "[LC A] 2.32 to 1.11 ms, GTX 1080 Ti"};
const Claim none_on_gpu{"05.2a", "prefetching to the GPU leaves no GPU page fault",
                        "[LC A] 24 groups to none, GTX 1080 Ti"};
const Claim whole_blocks{"05.2b",
                         "prefetching moves data to the GPU in pieces of 2 MB, not of 4 KB",
                         "[LC A] \"from 4KB to 2MB\", GTX 1080 Ti", Hardware::pascal};
const Claim none_on_host{"05.3", "prefetching to the host as well leaves no CPU page fault",
                         "[LC A] \"no CPU page fault either\""};
const Claim once{"05.6", "the driver filters duplicate faults and moves each page just once",
                 "[LC A] \"transfer each page just once\""};

void judge(Run& run, const std::map<std::string, Runs>& runs) {
  const Runs& threads = runs.at("stream_thread");
  const auto times_of_warps = [&](double Line::*number) {
    return times_as_much(of_each(threads, fault_groups, number),
                         of_each(runs.at("stream_warp"), fault_groups, number));
  };
  run.claim(fewer_groups,
            {times_of_warps(&Line::count), "times as many groups: stream_thread / stream_warp"},
            much_more());
  run.claim(less_time,
            {times_of_warps(&Line::ms), "times as long on faults: stream_thread / stream_warp"},
            more());

  const Runs& prefetched = runs.at("prefetched");
  const double groups = most(of_each(prefetched, fault_groups, &Line::count));
  run.observed(none_on_gpu, groups == 0,
               "at most " + digits(groups) + " groups of GPU faults in a run of 'prefetched'");
  const double smallest = least(of_each(prefetched, to_device, &Line::least));
  const double largest = most(of_each(prefetched, to_device, &Line::most));
  run.observed(
      whole_blocks, smallest == 2 * MiB && largest == 2 * MiB,
      "pieces of " + bytes_text(smallest) + " to " + bytes_text(largest) + " in 'prefetched'");

  const double on_host = most(of_each(runs.at("both ways"), cpu_faults, &Line::count));
  if (least(of_each(threads, cpu_faults, &Line::count)) > 0)
    run.observed(none_on_host, on_host == 0,
                 "at most " + digits(on_host) + " CPU faults in a run of 'both ways'");
  else
    run.claim_skipped(none_on_host,
                      "CUPTI counted no fault of the host, not even without prefetches");
  const double by_threads = most(of_each(threads, to_device, &Line::bytes));
  run.observed(once, by_threads == array_bytes,
               "at most " + bytes_text(by_threads) +
                   " moved to the device by stream_thread, of an array of 4 MiB");
}

}  // namespace

std::vector<Benchmark> copies_from_host_to_host() { return copies(host_to_host); }

void page_faults(Run& run) {
  run.title(std::to_string(floats) + " floats, copied between managed arrays; the host reads both");
  const auto give_up = [&](const std::string& why) {
    run.note(why);
    for (const Claim& claim :
         {fewer_groups, less_time, none_on_gpu, whole_blocks, none_on_host, once})
      run.claim_skipped(claim, "nothing was counted");
  };
  if (const std::string why = nothing_moves_because(run.gpu); !why.empty()) return give_up(why);
  print_times(run);

  const int rounds = run.quick ? 8 : 18;
  const Counted counted = count_migrations(copies(host_to_host), rounds);
  if (!counted.missing.empty()) return give_up(counted.missing);
  std::map<std::string, Runs> runs;
  size_t whole = 0;
  for (const Version& version : versions) {
    runs[version.name] = complete(counted.runs.at(version.name));
    if (runs[version.name].size() < 6) return give_up("CUPTI recorded less than had to move");
    print_counts(run, version, runs[version.name]);
    whole += runs[version.name].size();
  }
  run.note("medians of the runs of which CUPTI had all bytes: " + std::to_string(whole) + " of " +
           std::to_string(rounds * int(std::size(versions))) + "; us each: ms / count");
  judge(run, runs);
}
SAMPLE(2, page_faults, "four ways to touch pages, and what moves");

TEST_CASE("page_faults: the rule gives what nvprof counted") {
  CHECK(faults_of_a_walk() == 6);
  for (const Version& version : versions)
    for (const auto& [then, then_ms, rule] : version.expected)
      if (std::isfinite(rule) && std::isfinite(then)) CHECK(rule == then);
}

TEST_CASE("page_faults: both kernels copy all, and nothing beyond, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const auto copy : {by_thread, by_warp})
    for (const size_t n :
         {size_t(1), size_t(255), page_floats - 1, page_floats + 1, 9 * page_floats + 33}) {
      CAPTURE(n);
      const auto value = [] __device__(size_t i) { return float(hash(i) >> 8); };
      const auto in = filled<float>(n, value);
      const GuardedBuffer<float> out(n);
      copy(in, out, n);
      CUDA_CHECK_LAUNCH();
      CHECK(find_mismatch(out, value) == "");
    }
}

TEST_CASE("page_faults: what is counted is what must move") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  const Counted counted = count_migrations(copies(host_to_host), 2);
  if (!counted.missing.empty()) return skip(counted.missing);
  for (const Version& version : versions) {
    CAPTURE(std::string(version.name));
    const Runs runs = complete(counted.runs.at(version.name));
    REQUIRE(!runs.empty());
    CHECK((runs[0][fault_groups].count == 0) == version.prefetched);
    CHECK((runs[0][cpu_faults].count == 0) == version.prefetched_back);
  }
}
