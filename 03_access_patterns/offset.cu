// offset: a coalesced read that begins 0 to 64 words past the alignment. The wiki has a misaligned
// warp use 50% of the bus through L1, in lines of 128 bytes, and 80% past it, in segments of 32
// [LC 3.4]. Today a warp wants five sectors instead of four either way, or again four if the offset
// is a whole number of sectors. Look at how exactly the rate from L2 follows that; and from memory
// at offsets 8, 16 and 24: four sectors, but in two lines, and that alone costs as much.
//   cmake -S 03_access_patterns -B build/offset -DEXPERIMENTS=offset
//   cmake --build build/offset && build/offset/03_access_patterns
//
//   1  read_offset          lane i of a warp reads word i + offset, through L1
//   2  read_offset_past_l1  the same past L1, over and over
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../common/counters.hpp"
#include "reads.cuh"
#include "transactions.hpp"

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read_offset]
// A warp reads 32 neighbouring words: 4 sectors of 32 bytes if they begin where a sector does, else
// 5. They lie in one line of 128 bytes if they begin where a line does, else in two.
__global__ void read_offset(unsigned* out, const unsigned* in, size_t n, size_t offset) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads under way
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads + offset];
  }
  for (; i < n; i += threads) sum += in[i + offset];  // what is left
  out[tid] = sum;
}
// [/read_offset]

// The same, `passes` times over an array that stays in L2. The loads go past L1 (ld.global.cg),
// since most of the array would stay in there, too.
__global__ void read_offset_past_l1(unsigned* out, const unsigned* in, size_t n, size_t offset,
                                    unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldcg(in + i + k * threads + offset);
    }
    for (; i < n; i += threads) sum += __ldcg(in + i + offset);
  }
  out[tid] = sum;
}

// ---- the two ways ----

constexpr size_t largest_offset = 64;  // words: two lines of 128 bytes

enum class From { l2, memory };

const char* name_of(From from) { return from == From::l2 ? "from L2, past L1" : "from memory"; }
/// Passes of a launch over the array, so that the launch itself counts for little.
unsigned passes_of(From from) { return from == From::l2 ? 32 : 1; }

/// Words that are read: all but the last ones, which the largest offset needs.
size_t words_read(const Words& memory) { return memory.in.size() - largest_offset; }

Task task_of(Words& memory, From from, size_t offset) {
  const size_t n = words_read(memory);
  const unsigned passes = passes_of(from);
  const auto launch = [&memory, n, offset, from, passes] {
    const unsigned blocks = memory.grid.blocks;
    unsigned* const out = memory.sums.data();
    const unsigned* const in = memory.in.data();
    if (from == From::l2)
      read_offset_past_l1<<<blocks, block_threads>>>(out, in, n, offset, passes);
    else
      read_offset<<<blocks, block_threads>>>(out, in, n, offset);
  };
  // what is right: all words from `offset` on, one for each thread in turn
  return memory.task("offset " + std::to_string(offset) + " " + name_of(from), launch,
                     Slots{offset, 1, n, 1, passes});
}

// ---- what to expect ----

Warp offset_warp(size_t offset) {
  return warp_of(4, [=](unsigned lane) { return lane + offset; });
}

double used(Rule rule, size_t offset) { return under(rule, offset_warp(offset)).utilisation(); }

constexpr size_t mid_line = 16;  // four sectors, as at offset 0, but in two lines

/// The model's constants; GB/s.
struct Calibrated {
  double aligned = NAN;    ///< at offset 0
  double two_lines = NAN;  ///< at offset 16; from L2 a line more costs nothing
};

/// The slower of two: the share of the sectors that is used, and a second line.
double predicted_gbs(size_t offset, const Calibrated& c) {
  const double by_sectors = c.aligned * used(Rule::sectors, offset);
  if (lines(offset_warp(offset)) == 1 || !std::isfinite(c.two_lines)) return by_sectors;
  return std::min(by_sectors, c.two_lines);
}

// ---- the experiment ----

std::vector<size_t> offsets(bool full) {
  if (!full)
    return {0, 1, 4, 8, 12, 16, 20, 24, 28, 31, 32, 33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  std::vector<size_t> all;
  for (size_t offset = 0; offset <= largest_offset; ++offset) all.push_back(offset);
  return all;
}

/// Times of all offsets, in turn: they are compared with each other. Empty without a GPU.
std::vector<Readings> measure(const Run& run, From from, size_t words) {
  std::vector<Readings> times(offsets(run.full).size());
  if (!run.device) return times;
  Words memory(words + largest_offset, resident_grid(*run.device));
  std::vector<Task> tasks;
  for (const size_t offset : offsets(run.full)) tasks.push_back(task_of(memory, from, offset));
  return run.time_in_turn(tasks);
}

const Readings& at(const Run& run, const std::vector<Readings>& times, size_t offset) {
  const std::vector<size_t> all = offsets(run.full);
  return times[size_t(std::find(all.begin(), all.end(), offset) - all.begin())];
}

void show(const Run& run, From from, size_t words, const std::vector<Readings>& times) {
  const double bytes = 4.0 * double(words) * passes_of(from);
  const auto gbs_of = [&](size_t offset) {
    return gigabytes_per_second(bytes, at(run, times, offset).statistics());
  };
  Calibrated c{gbs_of(0).median, NAN};
  if (from == From::memory) c.two_lines = gbs_of(mid_line).median;
  Table table(
      run.report, std::string(name_of(from)) + ", offset in words",
      {predicted("sectors/request", "load sectors a request", "", 0),
       predicted("lines", "lines a request", "", 0), predicted("used %", "used", "%", 0),
       compared("GB/s", "bandwidth", "GB/s", 0), shown("spread"), shown("of offset 0"), shown("")});
  for (const size_t offset : offsets(run.full)) {
    const Warp warp = offset_warp(offset);
    const Statistics gbs = gbs_of(offset);
    const double share = gbs.median / c.aligned;
    Cell rate = Compared{predicted_gbs(offset, c), gbs};
    if (!run.device) rate = Cell();
    const bool calibrates = offset == 0 || (from == From::memory && offset == mid_line);
    if (run.device && calibrates) rate = Calibration{gbs};
    table.row(
        {name_of(from), "offset, words", std::to_string(offset)},
        {double(sectors(warp)), double(lines(warp)), 100 * used(Rule::sectors, offset), rate,
         spread_text(gbs), std::isfinite(share) ? fixed(100 * share, 0) + "%" : "-", bar(share)});
  }
  table.print();
}

/// The offset that costs most, of those that were measured.
size_t worst_of(const Run& run, const std::vector<Readings>& times) {
  size_t worst = 0;
  for (const size_t offset : offsets(run.full))
    if (at(run, times, offset).median() > at(run, times, worst).median()) worst = offset;
  return worst;
}

constexpr size_t misaligned = 1;  // words, as the wiki draws it

void judge_misaligned(const Run& run, const std::vector<Readings>& from_memory, bool in_cache) {
  const char* const wiki = "the wiki's count";
  run.report.not_judged({"03.1a", "misaligned loads through L1 use 50% of the bus", "50%", wiki},
                        "before Pascal: through L1, too, a sector is moved, not a line");
  const double share = used(Rule::sectors, misaligned);
  run.report.judge_fact(
      {"03.1b", "misaligned loads past L1 use 80% of the bus", "80%", wiki}, share == 0.8,
      share_text(exactly(share)) + ", " + std::to_string(sectors(offset_warp(misaligned))) +
          " sectors for 4, computed; through L1 as well");

  const Part time{"03.1c", "misalignment costs little time: less than half as much again",
                  "no figure", "the wiki"};
  if (in_cache) return run.report.not_judged(time, "the array is less than four times the L2");
  const Interval cost = ratio(at(run, from_memory, misaligned), at(run, from_memory, 0));
  Criterion little = gains_nothing();  // by aligning, or at least not "much"
  little.bound = much;
  run.report.judge(time, little, cost, slower(cost) + " a word off, from memory");
  const size_t worst = worst_of(run, from_memory);
  if (cost.measured())
    run.report.finding("03.1c",
                       "the worst offset, " + std::to_string(worst) + " words: " +
                           slower(ratio(at(run, from_memory, worst), at(run, from_memory, 0))));
}

}  // namespace

void offset(const Run& run) {
  const size_t bytes = bytes_to_read(run, size_t(1) << 30, 1);
  const size_t words = bytes / 4 - largest_offset;
  run.report.begin("offset", std::to_string(words) + " words of 4 bytes, " +
                                 bytes_text(double(bytes)) + ", and a quarter of the L2");
  const size_t in_l2 =
      run.device ? words_within_l2(run.device->l2_bytes(), resident_grid(*run.device)) : 0;
  if (run.device) show(run, From::l2, in_l2, measure(run, From::l2, in_l2));
  const std::vector<Readings> from_memory = measure(run, From::memory, words);
  show(run, From::memory, words, from_memory);
  run.report.note(
      "predicted: the used share of the sectors, of the rate at offset 0; from memory no");
  run.report.note("more than at offset 16, where nothing but a second line is wanted");
  if (!run.device) run.report.left_out("the bandwidth at each offset");
  judge_misaligned(run, from_memory, run.device && !beyond_l2(*run.device, double(bytes)));
}

// ---- self-checks ----

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  constexpr size_t words = size_t(1) << 22;
  for (const From from : {From::memory, From::l2})
    for (const size_t offset : {0, 1, 7, 8, 16, 31, 32, 33, 64}) {
      const double loads = double(words / 32) * passes_of(from);
      all.push_back({from == From::l2 ? "read_offset_past_l1" : "read_offset",
                     "offset " + std::to_string(offset),
                     {expected_requests(true, loads),
                      expected_sectors(true, loads * sectors(offset_warp(offset)))},
                     [=] {
                       Words memory(words + largest_offset, resident_grid(Device::current()));
                       return wrong_after(task_of(memory, from, offset)) == 0;
                     }});
    }
  return all;
}

std::vector<unsigned> sums_by_host(size_t n, size_t offset, unsigned passes, unsigned threads) {
  std::vector<unsigned> sums(threads, 0);
  for (size_t word = offset; word < offset + n; ++word)
    sums[(word - offset) % threads] += passes * word_at(word);
  return sums;
}

Device made_up() {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.l2CacheSize = 60 << 20;
  return device;
}

/// Milliseconds that each offset takes.
std::vector<Readings> made_up_times(const Function<double(size_t)>& ms_of) {
  std::vector<Readings> times;
  for (const size_t offset : offsets(false))
    times.push_back({std::vector<double>(15, ms_of(offset))});
  return times;
}

}  // namespace

TEST_CASE("offset: every eighth word begins a sector, every 32nd a line") {
  for (size_t offset = 0; offset <= largest_offset; ++offset) {
    CAPTURE(offset);
    const Warp warp = offset_warp(offset);
    CHECK(sectors(warp) == (offset % 8 == 0 ? 4 : 5));
    CHECK(lines(warp) == (offset % 32 == 0 ? 1 : 2));
    CHECK(used(Rule::through_l1, offset) == (offset % 32 == 0 ? 1.0 : 0.5));
    CHECK(used(Rule::past_l1, offset) == doctest::Approx(offset % 8 == 0 ? 1.0 : 0.8));
  }
}

TEST_CASE("offset: predictions, by hand") {
  const Calibrated from_memory{1000, 750};
  CHECK(predicted_gbs(32, from_memory) == doctest::Approx(1000));
  CHECK(predicted_gbs(24, from_memory) == doctest::Approx(750));
  CHECK(predicted_gbs(1, from_memory) == doctest::Approx(750));
  CHECK(predicted_gbs(1, {1000, 900}) == doctest::Approx(800));
  const Calibrated from_l2{1000, NAN};
  CHECK(predicted_gbs(8, from_l2) == doctest::Approx(1000));
  CHECK(predicted_gbs(9, from_l2) == doctest::Approx(800));
}

TEST_CASE("offset: the model, and what was measured on an H200") {
  // GB/s of an earlier run on an H200
  struct Found {
    size_t offset;
    double gbs;
  };
  for (const Found f : {Found{1, 6166}, Found{8, 7480}, Found{20, 6159}, Found{32, 7513}})
    CHECK(f.gbs == doctest::Approx(predicted_gbs(f.offset, {7506, NAN})).epsilon(0.05));
  for (const Found f : {Found{1, 3587}, Found{8, 3455}, Found{20, 3514}, Found{24, 3503},
                        Found{31, 3671}, Found{32, 4487}, Found{40, 3521}})
    CHECK(f.gbs == doctest::Approx(predicted_gbs(f.offset, {4483, 3422})).epsilon(0.08));
}

TEST_CASE("offset: rows and claims of made-up times") {
  const Device device = made_up();
  std::string printed;
  Report report("offset", &printed);
  const Run run{report, &device, {}};
  const auto times = made_up_times([](size_t offset) {
    if (offset % 32 == 0) return 1.0;
    return offset == 20 ? 1.3 : 1.25;
  });
  show(run, From::memory, size_t(1) << 28, times);
  REQUIRE(report.predictions().size() == offsets(false).size() - 2);
  for (const Prediction& p : report.predictions())
    CHECK(p.measured == doctest::Approx(p.predicted).epsilon(0.05));
  judge_misaligned(run, times, false);
  CHECK(printed.find("03.1a  not judged") != std::string::npos);
  CHECK(printed.find("03.1b  holds ") != std::string::npos);
  CHECK(printed.find("03.1c  holds ") != std::string::npos);
  CHECK(printed.find("here 1.25x slower (1.24 to 1.26) a word off") != std::string::npos);
  CHECK(printed.find("the worst offset, 20 words: 1.30x slower") != std::string::npos);
  printed.clear();
  judge_misaligned(run, made_up_times([](size_t at) { return at ? 2.0 : 1.0; }), false);
  CHECK(printed.find("03.1c  does not hold") != std::string::npos);
  printed.clear();
  judge_misaligned(run, times, true);
  CHECK(printed.find("03.1c  not judged") != std::string::npos);
}

TEST_CASE("offset: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t n : {size_t(1), size_t(31), size_t(1009), grid.threads() + size_t(1),
                           8 * size_t(grid.threads()), 9 * size_t(grid.threads()) + 65537})
      for (const size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset})
        for (const From from : {From::l2, From::memory}) {
          CAPTURE(n);
          CAPTURE(offset);
          Words memory(n + largest_offset, grid);  // ends with the last word, at the largest offset
          CHECK(wrong_after(task_of(memory, from, offset)) == 0);
          CHECK(memory.canaries_stand());
          std::vector<unsigned> sums = memory.sums.to_host();
          sums.resize(grid.threads());
          CHECK(sums == sums_by_host(n, offset, passes_of(from), grid.threads()));
        }
}

TEST_CASE("offset: the check finds another offset, a word left out, and a pass too many") {
  if (skip_without_gpu()) return;
  Words memory(1009 * 7, Grid{3});
  const Task task = task_of(memory, From::memory, 5);
  task.check.poison();
  CHECK(task.check.wrong() == memory.grid.threads());
  CHECK(wrong_after(task_of(memory, From::memory, 4)) == 0);
  CHECK(task.check.wrong() == memory.grid.threads());
  CHECK(wrong_after(task_of(memory, From::l2, 5)) == 0);
  CHECK(task.check.wrong() == memory.grid.threads());
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = memory.sums.to_host();
  sums[2] -= word_at(2 + 5);
  memory.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("offset: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("offset: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("offset: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

namespace {

// What the sweep from L2 must not be: read_offset_past_l1 through L1.
__global__ void read_again_through_l1(unsigned* out, const unsigned* in, size_t n,
                                      unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldca(in + i + k * threads);
    }
    for (; i < n; i += threads) sum += __ldca(in + i);
  }
  out[tid] = sum;
}

}  // namespace

TEST_CASE("plausible: offset, what comes from L2 does not come from L1" * doctest::skip()) {
  if (skip_without_gpu()) return;
  std::string printed;
  Report report("plausible", &printed);
  const Device device = Device::current();
  const Run run{report, &device, {}};
  const Grid grid = resident_grid(device);
  // 32 bytes a resident thread, 64 KiB a multiprocessor or less: L1 holds that
  Words memory(8 * size_t(grid.threads()) + largest_offset, grid);
  const size_t n = words_read(memory);
  const unsigned passes = passes_of(From::l2);
  const Task through_l1 = memory.task(
      "through L1",
      [&] {
        read_again_through_l1<<<grid.blocks, block_threads>>>(memory.sums.data(), memory.in.data(),
                                                              n, passes);
      },
      Slots{0, 1, n, 1, passes});
  const std::vector<Readings> times = run.time_in_turn({task_of(memory, From::l2, 0), through_l1});
  CHECK(times[0].median() > 1.25 * times[1].median());
}

TEST_CASE("plausible: offset" * doctest::skip()) {
  check_plausible([](const Run& run) { offset(run); });
}
