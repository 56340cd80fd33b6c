// threads: the text's sum by rows in 4-byte words, 1024 blocks, over the threads of a block. In
// 2007 a count that is no multiple of 16 lost most of the bandwidth, because its lanes did not
// start where a transaction did, and a block of more than 384 threads was alone on its
// multiprocessor. Look at the neighbours of each multiple of 16, and at how many of the 1024 blocks
// fit at once: a thread has one load under way, so what counts is how many loads follow one
// another. The default takes the multiples of 16 and their neighbours; --full takes every count.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "../common/first_edition.hpp"
#include "row_sum.cuh"

namespace {

constexpr unsigned blocks = 1024;
constexpr unsigned least = 16, most = 1024;

// Fills the array and adds the same numbers up as integers, without reading it.
__global__ void fill(float* out, size_t n, unsigned long long* total) {
  unsigned long long sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x) {
    out[i] = whole_number(i);
    sum += (unsigned long long)whole_number(i);
  }
  atomicAdd(total, sum);
}

/// Loads that follow one another if so many blocks fit at once: rounds of blocks x rows of a block
/// x steps of a row.
unsigned loads_in_turn(unsigned rows, unsigned threads, unsigned fit) {
  return ceil_div(blocks, fit) * ceil_div(rows, blocks) * ceil_div(columns, threads);
}

/// What reading one row takes.
struct Traffic {
  unsigned requests = 0;  ///< loads of a warp
  unsigned sectors = 0;   ///< of 32 bytes, one asked for by two requests counted twice
};

Traffic traffic_of_a_row(unsigned threads) {
  Traffic t;
  for (unsigned step = 0; step < columns; step += threads)
    for (unsigned lane = 0; lane < threads && step + lane < columns; lane += 32) {
      const unsigned end = std::min({step + lane + 32, step + threads, columns});
      ++t.requests;
      t.sectors += unsigned(element(0, end - 1) * 4 / 32 - element(0, step + lane) * 4 / 32 + 1);
    }
  return t;
}

/// The array, and the kernel with its check.
struct Rows {
  unsigned rows;
  DeviceBuffer<float> in, out{blocks * most};
  DeviceBuffer<unsigned long long> total{1};
  unsigned long long expected = 0;

  explicit Rows(unsigned rows) : rows(rows), in(size_t(rows) * columns) {
    CUDA_CHECK(cudaMemset(total.data(), 0, total.bytes()));
    fill<<<1024, 256>>>(in.data(), in.size(), total.data());
    CUDA_CHECK_LAUNCH();
    expected = total.to_host()[0];
  }
  void launch(unsigned threads) { sum_by_rows<<<blocks, threads>>>(out.data(), in.data(), rows); }
  bool right(unsigned threads) {
    CUDA_CHECK(cudaMemset(out.data(), 0xff, size_t(blocks) * threads * sizeof(float)));
    launch(threads);
    CUDA_CHECK_LAUNCH();
    return added_up(out, blocks * threads, total) == expected;
  }
};

/// The counts to measure: every one, or the multiples of `step` with their neighbours.
std::vector<unsigned> counts(bool all, unsigned step) {
  std::vector<unsigned> result;
  for (unsigned t = least; t <= most; ++t)
    if (all || t % step == 0 || (t + 1) % step == 0 || (t - 1) % step == 0) result.push_back(t);
  return result;
}

/// The counts that are printed, with the text's own examples: 96, 112 and 128; 256, 272 and 288;
/// the end at 384.
constexpr unsigned printed[] = {16,  32,  48,  64,  96,  112, 128, 160, 192, 224, 256, 272,
                                288, 320, 384, 400, 448, 512, 576, 640, 768, 832, 896, 1024};

struct Point {
  Statistics ms, gbs;
  unsigned fit = 0;  ///< blocks that fit on the device at once
};

const Claim multiples_claim{"04.5", "thread counts that are not multiples of 16 lose several times",
                            "8800 GTX",
                            "10 of 65-70 GB/s; 16 threads 3-4x, 32 threads 1.5-2x slower"};
const Claim best_claim{
    "04.6", "192, 256, 320, 384 threads are best; beyond 384, one block a multiprocessor, it drops",
    "8800 GTX", "chart"};

}  // namespace

void threads(const Run& run) {
  unsigned rows = run.quick ? 3072 : 12288;
  while (run.device && rows > 1 &&
         4.0 * rows * columns + 4.0 * blocks * most > 0.9 * double(Device::free_bytes()))
    rows /= 2;
  const double bytes = 4.0 * rows * columns;
  run.report.begin("threads", "sum by rows of " + std::to_string(rows) + " x 12288 float, " +
                                  bytes_text(bytes) + ", 1024 blocks of 16 to 1024 threads");
  if (!run.device) {
    Table table(run.report, "threads",
                {predicted("requests a row", "requests a row", "", 0),
                 predicted("sectors a row", "sectors a row", "", 0)});
    for (unsigned t : {16u, 32u, 48u, 191u, 192u, 193u, 200u, 384u, 385u})
      table.row({"by rows, 4-byte words", "threads", std::to_string(t)},
                {double(traffic_of_a_row(t).requests), double(traffic_of_a_row(t).sectors)});
    table.print();
    return run.report.left_out("the sweep", {multiples_claim, best_claim});
  }

  Rows array(rows);
  Measuring measuring = run.measuring;
  if (!measuring.typed && !run.full) measuring.repeats = 3;  // some 190 counts within a second
  std::map<unsigned, Point> points;
  const std::vector<unsigned> all = counts(run.full, run.quick ? 128 : 16);
  Table saved(
      run.report, "",
      {measured("", "bandwidth", "GB/s", 1), measured("", "time", "ms", 4),
       counted("", "resident blocks", "a multiprocessor", 0), predicted("", "loads in turn", "", 0),
       predicted("", "requests a row", "", 0), predicted("", "sectors a row", "", 0)});
  {
    Progress progress("threads", int(all.size()));
    for (unsigned t : all) {
      require_right(array.right(t), std::to_string(t) + " threads");
      Point& p = points[t];
      p.ms = time_device(measuring, [&] { array.launch(t); });
      CUDA_CHECK_LAUNCH();
      p.gbs = gigabytes_per_second(bytes, p.ms);
      int resident = 0;
      CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, sum_by_rows, int(t), 0));
      p.fit = unsigned(resident * run.device->prop.multiProcessorCount);
      const Traffic traffic = traffic_of_a_row(t);
      saved.row({"by rows, 4-byte words", "threads", std::to_string(t)},
                {p.gbs, p.ms, double(resident), double(loads_in_turn(rows, t, p.fit)),
                 double(traffic.requests), double(traffic.sectors)});
      progress.step();
    }
  }

  const auto gbs_of = [&](unsigned t) { return points.count(t) ? points[t].gbs.median : NAN; };
  unsigned best = least;
  for (const auto& [t, p] : points)
    if (p.gbs.median > gbs_of(best)) best = t;
  Table table(
      run.report, "threads",
      {shown("median ms"), shown("spread"), shown("GB/s"), shown("one fewer"), shown("one more"),
       shown("fit at once"), shown("loads in turn"), shown("ns a load"), shown("")});
  for (unsigned t : printed) {
    if (!points.count(t)) continue;
    const Point& p = points[t];
    const unsigned loads = loads_in_turn(rows, t, p.fit);  // each waits for the one before
    table.row(
        {std::to_string(t)},
        {fixed(p.ms.median, 4), spread_text(p.ms), fixed(p.gbs.median, 0), fixed(gbs_of(t - 1), 0),
         fixed(gbs_of(t + 1), 0), std::to_string(p.fit), std::to_string(loads),
         fixed(p.ms.median * 1e6 / loads, 0), bar(p.gbs.median / gbs_of(best))});
  }
  table.print();
  run.report.note("bars: of the best, " + fixed(gbs_of(best), 0) + " GB/s; a row is " +
                  std::to_string(traffic_of_a_row(128).sectors) + " sectors for 128 threads, " +
                  std::to_string(traffic_of_a_row(129).sectors) +
                  " for 129, which ask for some twice");

  // data of four times the L2 leaves it little to keep from one launch to the next
  if (run.quick || bytes < 4.0 * double(run.device->l2_bytes())) {
    const Judgement none =
        not_judged(run.quick ? "a quick run takes too few counts" : "less than four times the L2");
    run.report.claim(multiples_claim, none);
    return run.report.claim(best_claim, none);
  }
  std::vector<double> gains;  // of the multiples of 16 over their neighbours
  unsigned inside = 192, outside = 400, cliff = 16;
  for (const auto& [t, p] : points) {
    const double fewer = gbs_of(t - 1), more = t < most ? gbs_of(t + 1) : fewer;
    if (t % 16 == 0 && t >= 128) gains.push_back(2 * p.gbs.median / (fewer + more));
    if (t > 384 && p.gbs.median > gbs_of(outside)) outside = t;
    if (t % 16 == 0 && t < most &&
        gbs_of(t + 16) / p.gbs.median < gbs_of(cliff + 16) / gbs_of(cliff))
      cliff = t;
  }
  for (unsigned t : {256u, 320u, 384u})
    if (gbs_of(t) > gbs_of(inside)) inside = t;
  const Statistics gain = summarize(gains);
  Judgement multiples = judge_ratio(gain, {1, 1, 1, gain.repeats}, 6.75);  // 67.5 against 10
  if (gain.median < 2)
    multiples.verdict = Verdict::does_not_hold;  // less than twice is not several times
  multiples.here = "multiples of 16 from 128 on gain " + times(gain.low) + " to " +
                   times(gain.high) + "; 16 threads " + times(gbs_of(best) / gbs_of(16)) +
                   ", 32 threads " + times(gbs_of(best) / gbs_of(32)) + " slower";
  Judgement peak = judge_ratio(points[inside].gbs, points[outside].gbs);
  peak.here = "best " + std::to_string(best) + " threads, " + std::to_string(inside) + " reach " +
              times(gbs_of(inside) / gbs_of(best)) + "; " +
              fixed(100 * gbs_of(cliff + 16) / gbs_of(cliff) - 100, 0) + "% after " +
              std::to_string(cliff) + ", where " + std::to_string(points[cliff + 16].fit) +
              " blocks fit, not " + std::to_string(points[cliff].fit);
  run.report.claim(multiples_claim, multiples);
  run.report.claim(best_claim, peak);
}

// ---- self-checks ----

TEST_CASE("threads: requests and sectors of a row") {
  CHECK(traffic_of_a_row(32).requests == 384);  // 12288 words by 32
  CHECK(traffic_of_a_row(32).sectors == 1536);  // 12288 words by 8, none twice
  CHECK(traffic_of_a_row(16).requests == 768);  // half warps
  CHECK(traffic_of_a_row(48).requests == 512);  // a whole warp and a half one, 256 times
  CHECK(traffic_of_a_row(33).requests ==
        745);  // 373 steps of two warps; the last step has 12 words left, in one
  CHECK(traffic_of_a_row(8).sectors == 1536);  // multiples of 8 share no sector
  for (unsigned t = least; t <= most;
       ++t) {  // a sector lies in two requests only where one begins inside it
    CHECK(traffic_of_a_row(t).sectors >= 1536);
    CHECK(traffic_of_a_row(t).sectors < 1536 + traffic_of_a_row(t).requests);
  }
}

TEST_CASE("threads: loads that follow one another") {
  CHECK(loads_in_turn(12288, 256, 1056) == 12 * 48);      // all 1024 blocks at once, 12 rows each
  CHECK(loads_in_turn(12288, 272, 924) == 2 * 12 * 46);   // the last 100 blocks wait
  CHECK(loads_in_turn(12288, 1024, 264) == 4 * 12 * 12);  // four rounds
}

TEST_CASE("threads: the counts of a sweep") {
  const std::vector<unsigned> coarse = counts(false, 16);
  CHECK(coarse.size() == 190);  // 16 and 17; 32 to 1008 with two neighbours each; 1023 and 1024
  CHECK(counts(true, 16).size() == 1009);
  for (unsigned t : printed) CHECK(std::count(coarse.begin(), coarse.end(), t) == 1);
}

TEST_CASE("threads: the sum is exact for every kind of count") {
  if (skip_without_gpu()) return;
  for (unsigned rows : {1u, 7u, 101u, 1024u, 1031u}) {
    CAPTURE(rows);
    Rows array(rows);
    CHECK(array.expected == total_by_host(array.in));
    for (unsigned t : {1u, 16u, 17u, 31u, 32u, 33u, 191u, 192u, 193u, 1023u, 1024u}) {
      CAPTURE(t);
      CHECK(array.right(t));
    }
    array.expected += 1;  // and the check itself can fail
    CHECK_FALSE(array.right(192));
  }
}
