// threads: how many threads should a block have? 1024 blocks of 16 to 1024 threads sum an array by
// rows. In the study of 2007 [BW, chart 1] a number that was no multiple of 16 gave 10 GB/s in
// place of 65 to 70. 192, 256, 320 and 384 threads were best. Beyond 384 a block was alone on its
// multiprocessor, and the rate fell.
//
// Look at 127, 128 and 129 threads: alignment no longer decides, since memory delivers sectors, and
// L1 keeps those that two warps share. Then look at 256 and 257: with one thread more the 1024
// blocks no longer fit at once, and a second round begins. The time is the loads in turn, times
// what a load takes.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o threads threads.cu ../common/*.cpp
//
//   1  Sum_h  (sweep.cuh) the study's kernel, with one load in flight per thread
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "sweep.cuh"

namespace {

constexpr unsigned blocks = 1024;     // of the study's chart
constexpr unsigned calibrating = 64;  // enough threads for loads to meet, too few for them to queue

const std::set<unsigned> printed = {16,  32,  64,  112, 127, 128, 129, 192,
                                    256, 257, 320, 384, 400, 512, 513, 1024};

// ---- what the claims compare ----

struct Pair {
  unsigned slow, fast;  // threads per block, as the study has it
};

/// The numbers beside each multiple, and the multiple.
std::vector<Pair> beside(const std::vector<unsigned>& multiples) {
  std::vector<Pair> pairs;
  for (const unsigned m : multiples) {
    pairs.push_back({m - 1, m});
    pairs.push_back({m + 1, m});
  }
  return pairs;
}
const std::vector<Pair> beside_16 = beside({128, 192, 256, 320, 384, 512});
const std::vector<Pair> beside_8 = beside({136, 200, 264, 392});  // no multiples of 16
const std::vector<Pair> beside_4 = beside({132, 196, 260, 388});  // no multiples of 8
/// The study's examples: odd multiples of 16, and the multiples of 32 on both sides.
const std::vector<Pair> beside_32 = {{112, 96}, {112, 128}, {272, 256}, {272, 288}};

/// Beyond so many threads a block is alone on its multiprocessor; 0 if two of any size fit.
unsigned last_with_two(int threads_per_multiprocessor) {
  return threads_per_multiprocessor >= 2048 ? 0 : unsigned(threads_per_multiprocessor) / 2;
}

std::set<unsigned> swept(bool quick, unsigned two_fit) {
  std::set<unsigned> counts = printed;
  for (const std::vector<Pair>* pairs : {&beside_16, &beside_8, &beside_4, &beside_32})
    for (const Pair& pair : *pairs) counts.insert({pair.slow, pair.fast});
  if (two_fit) counts.insert({two_fit, two_fit + 32});
  for (unsigned t = 32; t <= 1024 && !quick; t += 32) counts.insert(t);
  return counts;
}

// ---- the experiment ----

std::string name_of(unsigned threads) { return std::to_string(threads) + " threads"; }

Timings measure(const Timer& timer, const std::set<unsigned>& counts, const Array& array) {
  std::vector<Benchmark> benchmarks;
  for (const unsigned t : counts)
    benchmarks.push_back(benchmark_of(name_of(t), {blocks, t}, array));
  return timer.interleaved(benchmarks);
}

std::vector<Interval> ratios(const Timings& timed, const std::vector<Pair>& pairs) {
  std::vector<Interval> all;
  for (const Pair& pair : pairs)
    all.push_back(ratio(timed[name_of(pair.slow)], timed[name_of(pair.fast)]));
  return all;
}

void print_sweep(Run& run, const Timings& timed, const std::set<unsigned>& counts,
                 const Array& array, unsigned best) {
  const auto loads_of = [&](unsigned t) {
    return loads_in_turn({blocks, t}, blocks_at_once(run, t), array.rows, array.columns);
  };
  const double load_ms = timed[name_of(calibrating)].median() / loads_of(calibrating);
  const std::initializer_list<std::string> columns = {
      "at once", "rounds", "loads in turn", "predicted ms", "ms", "spread", "GB/s", ""};
  Table table("threads per block", columns), others("threads per block", columns);
  for (const unsigned t : counts) {
    const unsigned at_once = blocks_at_once(run, t);
    const Times& times = timed[name_of(t)];
    const Cell predicted = t == calibrating ? Cell("") : Cell(loads_of(t) * load_ms);
    (printed.count(t) ? table : others)
        .row(std::to_string(t),
             {at_once, ceil_div(blocks, at_once), loads_of(t), predicted, times.ms_interval(),
              percent(times.spread()), times.gbs_interval(array.bytes()),
              bar(timed[name_of(best)].median() / times.median())});
  }
  run.print(table);
  run.save(others);
  run.note("at once: blocks that are resident; the others wait for the next round");
  run.note("predicted: loads in turn x " + digits(1e6 * load_ms) + " ns, a load's time with " +
           name_of(calibrating));
}

}  // namespace

void threads(Run& run) {
  const Array array = study_array(run);
  run.title("sum by rows of " + std::to_string(array.rows) + " x " + std::to_string(array.columns) +
            " floats by 1024 blocks");
  const unsigned two_fit = last_with_two(run.gpu.maxThreadsPerMultiProcessor);
  const std::set<unsigned> counts = swept(run.quick, two_fit);
  Timer timer = run.timer;
  timer.rounds = 12;  // the fewest that give a ratio its interval
  const Timings timed = measure(timer, counts, array);
  const unsigned best =
      *std::min_element(counts.begin(), counts.end(), [&](unsigned a, unsigned b) {
        return timed[name_of(a)].median() < timed[name_of(b)].median();
      });
  print_sweep(run, timed, counts, array, best);
  if (!run.beyond_l2(array.bytes()))
    run.note("less than four times the L2: a part of this is the cache's rate");

  // What was best by chance is not best twice.
  const Timings again = measure(timer, {16, 32, 192, 256, 320, 384, best}, array);
  const std::vector<Pair> as_best = {{192, best}, {256, best}, {320, best}, {384, best}};
  run.note("best of " + std::to_string(counts.size()) + ": " + name_of(best) + ", " +
           digits(again[name_of(best)].gbs(array.bytes())) + " GB/s when timed again");

  const std::string card = ", 8800 GTX";
  run.claim_each({"04.5a", "thread counts not divisible by 16 give a very bad bandwidth",
                  "[BW] about 10 GB/s in place of 65-70" + card, Hardware::g80},
                 ratios(timed, beside_16), "time of a neighbour / multiple of 16",
                 much_faster_by(6.5));
  run.claim({"04.5b", "blocks of 16 threads are 3 to 4 times off the best", "[BW] 3-4 times" + card,
             Hardware::g80},
            {ratio(again[name_of(16)], again[name_of(best)]),
             "times as long with 16 as with " + name_of(best)},
            between(3, 4));
  run.claim({"04.5c", "blocks of 32 threads are 1.5 to 2 times off the best",
             "[BW] 1.5-2 times" + card, Hardware::g80},
            {ratio(again[name_of(32)], again[name_of(best)]),
             "times as long with 32 as with " + name_of(best)},
            between(1.5, 2));
  run.claim_each({"04.5d", "multiples of 4 threads are a little faster than their neighbours",
                  "[BW] \"grows a little\" at multiples of 4" + card, Hardware::g80},
                 ratios(timed, beside_4), "time of a neighbour / multiple of 4", faster());
  run.claim_each({"04.5e", "multiples of 8 threads are noticeably faster than their neighbours",
                  "[BW] \"grows noticeably\" at multiples of 8" + card, Hardware::g80},
                 ratios(timed, beside_8), "time of a neighbour / multiple of 8", much_faster());
  run.claim_each(
      {"04.5f", "multiples of 32 threads noticeably beat odd multiples of 16",
       "[BW] \"a noticeable difference, too\": 96-112-128, 256-272-288" + card, Hardware::g80},
      ratios(timed, beside_32), "time of 112, 272 / 96, 128, 256, 288", faster());
  run.claim_each({"04.6a", "192, 256, 320 and 384 threads per block perform best",
                  "[BW] \"the best performance\"" + card, Hardware::g80},
                 ratios(again, as_best), "times as long as " + name_of(best), as_fast());
  run.claim({"04.6b", "right beyond 384 threads per block performance falls sharply",
             "[BW] \"a sharp drop right after 384 thread\"" + card, Hardware::g80},
            timed.speedup({.of = name_of(384), .over = name_of(400)}), faster());
  const Claim alone = {"04.6c", "the rate falls where only one block per multiprocessor is left",
                       "[BW] \"when only one CTA begins to work on a multiprocessor\"" + card,
                       Hardware::g80};
  if (two_fit)
    run.claim(alone, timed.speedup({.of = name_of(two_fit), .over = name_of(two_fit + 32)}),
              faster());
  else
    run.claim_skipped(alone, "two blocks of 1024 threads fit on a multiprocessor");
  run.claim_each({"04.13a", "192 or 256 threads per block are better than 64",
                  "[BW, quoting the guide] \"64, and better 192 or 256\""},
                 ratios(timed, {{64, 192}, {64, 256}}), "time of 64 / 192, 256 threads", faster());
}
SAMPLE(6, threads, "a sum by rows with 16 to 1024 threads per block");

TEST_CASE("threads: loads in turn, by hand") {
  CHECK(loads_in_turn({1024, 256}, 1056, 12288, 12288) == 12 * 48);     // 12 rows of 48 steps
  CHECK(loads_in_turn({1024, 257}, 924, 12288, 12288) == 2 * 12 * 48);  // the last 100 blocks wait
  CHECK(loads_in_turn({1024, 1024}, 264, 12288, 12288) == 4 * 12 * 12);
  CHECK(loads_in_turn({3, 33}, 2, 7, 100) == 2 * 3 * 4);
}

TEST_CASE("threads: what is compared are multiples and those beside them") {
  const auto are_beside = [](const std::vector<Pair>& pairs, unsigned step, unsigned no_more) {
    for (const Pair& pair : pairs) {
      CHECK(pair.fast % step == 0);
      CHECK(pair.fast % no_more != 0);
      CHECK(pair.slow % 2 == 1);
      CHECK((pair.slow + 1 == pair.fast || pair.slow == pair.fast + 1));
    }
  };
  are_beside(beside_16, 16, 1024);
  are_beside(beside_8, 8, 16);
  are_beside(beside_4, 4, 8);
  for (const Pair& pair : beside_32) {
    CHECK(pair.slow % 32 == 16);
    CHECK(pair.fast % 32 == 0);
    CHECK((pair.slow + 16 == pair.fast || pair.slow == pair.fast + 16));
  }
  CHECK(last_with_two(2048) == 0);
  CHECK(last_with_two(1536) == 768);
  CHECK(last_with_two(768) == 384);  // the study's GPU
  for (const unsigned t : {16, 64, 192, 256, 384, 400, 768, 800})
    CHECK(swept(true, 768).count(t) == 1);
}

TEST_CASE("threads: the two references agree, and sums are exact") {
  for (const Launch launch : std::initializer_list<Launch>{{1, 33}, {5, 16}, {200, 3}})
    for (const unsigned rows : {1, 7, 101}) {
      const std::vector<float> right = right_sums(launch, rows, 257);
      for (size_t t = 0; t < right.size(); ++t)
        CHECK(float(right_sum(t, launch, rows, 257)) == right[t]);
    }
  for (size_t i = 0; i < 100000; ++i) CHECK((number_at(i) >= 1 && number_at(i) <= 256));
  for (const unsigned t : swept(false, 0))
    CHECK(256.0 * ceil_div(12288, blocks) * ceil_div(12288, t) < 1 << 24);
}

TEST_CASE("threads: every thread's sum is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned rows : {1, 7, 1031})
    for (const unsigned columns : {1, 257, 1009})
      for (const unsigned t : {1, 16, 33, 193, 1024}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(t);
        const Array array = array_of(rows, columns);
        const Sums out = sums_of({97, t});
        CHECK_NOTHROW(require_right(benchmark_of("sum", {97, t}, array, out)));
        CHECK(out->to_host() == right_sums({97, t}, rows, columns));
      }
}

TEST_CASE("threads: a changed word, and a sum that is not written, are noticed") {
  if (skip_without_gpu()) return;
  const Array array = array_of(101, 257);
  const Sums out = sums_of({7, 33});
  Benchmark benchmark = benchmark_of("sum", {7, 33}, array, out);
  CHECK_NOTHROW(require_right(benchmark));
  CUDA_CHECK(cudaMemset(array.words + 1009, 0, sizeof(float)));
  CHECK_THROWS_AS(require_right(benchmark), WrongResult);
  benchmark.work = [] {};
  CHECK_THROWS_AS(require_right(benchmark), WrongResult);
}
