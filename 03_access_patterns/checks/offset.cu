// Self-checks of offset.cu, compiled in its place where BUILD_TESTING is on.
#include "../offset.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

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

TEST_CASE("offset: what comes from L2 does not come from L1" * doctest::test_suite("plausible") *
          doctest::skip()) {
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

TEST_CASE("offset: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { offset(run); });
}
