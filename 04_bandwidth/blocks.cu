// blocks: how many blocks should a launch have? Up to 2048 blocks of 192 threads sum an array by
// rows. In the study of 2007 [BW, charts 2 and 3] the rate of few blocks was a sawtooth of 15 to
// 20%, some numbers of blocks were best, and more blocks did no harm. NVIDIA's guide asked for more
// than 100 blocks: 1000 would do for several generations.
//
// Look at the blocks that fit at once, and at one block more: it begins a second round, in which
// it has the GPU to itself. Before that the rate rises with the threads that are resident, and in
// small steps: the slowest block has rows / blocks rows, rounded up.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o blocks blocks.cu ../common/*.cpp
//
//   1  Sum_h  (sweep.cuh) the study's kernel, with one load in flight per thread
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "sweep.cuh"

namespace {

constexpr unsigned block_threads = 192;               // of the study's charts
constexpr unsigned chart_end = 2048, few_end = 1024;  // blocks; the study looks for peaks to 1024
constexpr unsigned peaks[] = {256, 512, 640, 768};    // of the study's chart
constexpr Launch small_launches[] = {{32, 256}, {64, 128}};  // near the best, as the study says

/// Blocks of 192 threads that fit on the GPU at once, and its multiprocessors.
struct Places {
  unsigned at_once, multiprocessors;
};
/// As full as the study's small launches were: 8192 of the 12288 threads that fit.
unsigned two_thirds(Places p) { return 2 * p.at_once / 3; }

/// Rows of the table: the texts' numbers of blocks, and where a round or a row more begins.
std::set<unsigned> printed(unsigned rows, Places p) {
  const unsigned eleven_rows = ceil_div(rows, 11);  // from here on no block has a twelfth row
  std::set<unsigned> counts = {100, 1000, few_end, 1280, chart_end, two_thirds(p)};
  counts.insert(std::begin(peaks), std::end(peaks));
  counts.insert({eleven_rows - 1, eleven_rows});
  for (const unsigned b : {p.multiprocessors, p.at_once, 2 * p.at_once}) counts.insert({b, b + 1});
  return counts;
}

/// And more numbers that leave no multiprocessor idle, beside which one block more may be slower.
std::set<unsigned> swept(unsigned rows, Places p) {
  std::set<unsigned> counts = printed(rows, p);
  for (const unsigned k : {2, 4, 6, 8})
    counts.insert({k * p.multiprocessors, k * p.multiprocessors + 1});
  counts.insert({1536, 1792});
  return counts;
}

// ---- what a sweep found ----

struct Found {
  unsigned best = few_end;      ///< up to the chart's end
  unsigned best_few = few_end;  ///< of those up to 1024
  unsigned worst = chart_end;   ///< behind the best, up to the chart's end
  unsigned before_jump = 0;     ///< one block more costs most, up to 8 blocks per multiprocessor
  double jump = 0, later_jump = 0;  ///< what it costs there, and behind: 0.1 is 10% more time
};

/// `ms` must return the time of so many blocks.
template <class Ms>
Found find(const std::set<unsigned>& counts, unsigned multiprocessors, Ms ms) {
  Found found;
  found.before_jump = multiprocessors;
  for (const unsigned b : counts) {
    if (b <= chart_end && ms(b) < ms(found.best)) found.best = b;
    if (b <= few_end && ms(b) < ms(found.best_few)) found.best_few = b;
    if (counts.count(b + 1) == 0) continue;
    const double jump = ms(b + 1) / ms(b) - 1;
    if (b >= 8 * multiprocessors) {
      found.later_jump = std::max(found.later_jump, jump);
    } else if (jump > found.jump) {
      found.jump = jump;
      found.before_jump = b;
    }
  }
  for (const unsigned b : counts)
    if (b > found.best && b <= chart_end && ms(b) > ms(found.worst)) found.worst = b;
  return found;
}

// ---- the experiment ----

std::string name_of(unsigned blocks) { return std::to_string(blocks) + " blocks"; }
std::string name_of(Launch l) {
  return std::to_string(l.blocks) + " x " + std::to_string(l.threads) + " threads";
}

std::vector<Benchmark> benchmarks_of(const std::set<unsigned>& counts, const Array& array) {
  std::vector<Benchmark> all;
  for (const unsigned b : counts)
    all.push_back(benchmark_of(name_of(b), {b, block_threads}, array));
  return all;
}

void print_sweep(Run& run, const Timings& timed, const std::set<unsigned>& counts,
                 const Array& array, Places p, unsigned best) {
  const std::set<unsigned> shown = printed(array.rows, p);
  const auto loads_of = [&](unsigned b) {
    return loads_in_turn({b, block_threads}, p.at_once, array.rows, array.columns);
  };
  const double load_ms = timed[name_of(p.multiprocessors)].median() / loads_of(p.multiprocessors);
  const std::initializer_list<std::string> columns = {
      "rounds", "rows of a block", "loads in turn", "predicted ms", "ms", "spread", "GB/s", ""};
  Table table("blocks", columns), others("blocks", columns);
  for (const unsigned b : counts) {
    const Times& times = timed[name_of(b)];
    const Cell predicted = b == p.multiprocessors ? Cell("") : Cell(loads_of(b) * load_ms);
    (shown.count(b) ? table : others)
        .row(std::to_string(b),
             {ceil_div(b, p.at_once), ceil_div(array.rows, b), loads_of(b), predicted,
              times.ms_interval(), percent(times.spread()), times.gbs_interval(array.bytes()),
              bar(timed[name_of(best)].median() / times.median())});
  }
  run.print(table);
  run.save(others);
  run.note("predicted: loads in turn x " + digits(1e6 * load_ms) +
           " ns, a load's time with one block per multiprocessor");
}

}  // namespace

void blocks(Run& run) {
  const Array array = study_array(run);
  const Places p = {blocks_at_once(run, block_threads), unsigned(run.gpu.multiProcessorCount)};
  run.title("sum by rows of " + std::to_string(array.rows) + " x " + std::to_string(array.columns) +
            " floats by blocks of 192 threads, " + std::to_string(p.at_once) + " fit at once");
  const std::set<unsigned> counts = swept(array.rows, p);
  Timer timer = run.timer;
  timer.rounds = 12;  // the fewest that give a ratio its interval
  const Timings timed = timer.interleaved(benchmarks_of(counts, array));
  const Found found =
      find(counts, p.multiprocessors, [&](unsigned b) { return timed[name_of(b)].median(); });
  print_sweep(run, timed, counts, array, p, found.best);
  if (!run.beyond_l2(array.bytes()))
    run.note("less than four times the L2: a part of this is the cache's rate");

  // What was best or worst by chance is not so twice.
  std::vector<Benchmark> compared =
      benchmarks_of({peaks[0], peaks[1], peaks[2], peaks[3], 1000, found.best, found.best_few,
                     found.worst, found.before_jump, found.before_jump + 1},
                    array);
  for (const Launch l : small_launches) compared.push_back(benchmark_of(name_of(l), l, array));
  const Timings again = timer.interleaved(compared);
  const std::string best = name_of(found.best);
  run.note("best up to 2048: " + best + ", " + digits(again[best].gbs(array.bytes())) +
           " GB/s when timed again; two thirds of what fits: " + name_of(two_thirds(p)));

  const std::string card = ", 8800 GTX", guide = "[BW, quoting the guide] ";
  const std::string people = "[BW, quoting NVIDIA's people] ";
  run.claim(
      {"04.7a", "with few blocks the rate jumps by 15 to 20% from number to number",
       "[BW] 15-20%" + card, Hardware::g80},
      again.speedup({.of = name_of(found.before_jump), .over = name_of(found.before_jump + 1)}),
      faster_by(1.15, 1.25));  // 15 to 20% of the lower, or of the higher rate
  const Claim shrink = {"04.7b", "the more blocks, the smaller the jumps of the rate",
                        "[BW] \"the more blocks, the smaller the jumps\"" + card, Hardware::g80};
  if (found.jump < 0.02)
    run.claim_skipped(shrink, "no jump of few blocks is larger than 2%: nothing can shrink");
  else
    run.observed(shrink, found.later_jump < found.jump,
                 "jumps of at most " + percent(found.jump).words + ", and of " +
                     percent(found.later_jump).words + " from 8 blocks per multiprocessor on");
  std::vector<Interval> of_peaks, of_small, one_beyond_rounds, one_beyond_multiples;
  for (const unsigned b : peaks)
    of_peaks.push_back(ratio(again[name_of(b)], again[name_of(found.best_few)]));
  for (const Launch l : small_launches) of_small.push_back(ratio(again[name_of(l)], again[best]));
  std::string one_more;  // "1321 / 1320, 2641 / 2640"
  for (const unsigned b : {p.at_once, 2 * p.at_once}) {
    one_beyond_rounds.push_back(ratio(timed[name_of(b + 1)], timed[name_of(b)]));
    one_more += (one_more.empty() ? "" : ", ") + std::to_string(b + 1) + " / " + std::to_string(b);
  }
  for (const unsigned k : {1, 2, 4}) {
    const unsigned b = k * p.multiprocessors;
    one_beyond_multiples.push_back(ratio(timed[name_of(b + 1)], timed[name_of(b)]));
  }
  run.claim_each({"04.7c", "256, 512, 640 and 768 blocks are peaks of the rate",
                  "[BW] \"peaks of maximal performance\"" + card, Hardware::g80},
                 of_peaks, "times as long as " + name_of(found.best_few), as_fast());
  const Claim no_harm = {"04.7d", "more blocks than the best number do no harm",
                         people + "\"no harm from surplus thread blocks\"", Hardware::g80};
  if (found.best == chart_end)
    run.claim_skipped(no_harm, "2048 blocks, the most of the chart, are best");
  else
    run.claim(no_harm, again.speedup({.of = best, .over = name_of(found.worst)}), no_faster());
  run.claim_each({"04.12", "32 blocks of 256 threads, or 64 of 128, nearly reach the best rate",
                  "[BW] \"practically the maximal speed\"" + card, Hardware::g80},
                 of_small, "times as long as " + best, as_fast());
  run.claim({"04.13b", "there should be many blocks: 1000 are better than 100",
             guide + "\"no fewer than 100\", \"1000 will be enough\""},
            timed.speedup({.of = name_of(1000), .over = name_of(100)}), faster());
  // Several generations: the four after the study's GPU end with Pascal.
  run.claim({"04.13c", "1000 blocks will do for several generations of hardware",
             guide + "\"enough for several generations of hardware\"", Hardware::pascal},
            again.speedup({.of = best, .over = name_of(1000)}),
            at_most(1 / 0.9));  // 90% of the best rate
  run.claim_each({"04.14", "best is a multiple of the blocks that can run at once",
                  people + "\"a multiple of the CTAs able to run at once\""},
                 one_beyond_rounds, "time of " + one_more + " blocks", faster());
  run.claim_each(
      {"04.16", "a number of blocks that is no multiple of the SMs leaves some idle",
       "[BW] \"leads to partial idleness of the multiprocessors\"" + card, Hardware::g80},
      one_beyond_multiples, "time of a block more / 1, 2, 4 per SM", faster());
}
SAMPLE(7, blocks, "the same sum with 100 blocks and more");

TEST_CASE("blocks: rounds and rows, by hand and by dealing out rows") {
  CHECK(loads_in_turn({1320, 192}, 1320, 12288, 12288) == 1 * 10 * 64);
  CHECK(loads_in_turn({1321, 192}, 1320, 12288, 12288) == 2 * 10 * 64);
  CHECK(loads_in_turn({2640, 192}, 1320, 12288, 12288) == 2 * 5 * 64);
  for (unsigned b = 1; b <= chart_end; ++b) {
    unsigned rows_of_first = 0;
    for (unsigned row = 0; row < 12288; row += b) ++rows_of_first;
    CHECK(ceil_div(12288, b) == rows_of_first);
  }
}

TEST_CASE("blocks: what a sweep finds, by hand") {
  const std::set<unsigned> counts = {16, 17, 32, 512, 513, 1024, 1300, 1301, 2048, 4000};
  const auto ms = [](unsigned b) {
    switch (b) {
      case 16:
        return 40.0;
      case 17:
        return 50.0;  // a quarter longer: few blocks
      case 512:
        return 21.0;
      case 513:
        return 20.0;  // best of few
      case 1300:
        return 10.0;  // best up to 2048
      case 1301:
        return 11.0;  // a tenth longer, and the worst behind the best
      case 2048:
        return 10.5;
      case 4000:
        return 5.0;
      default:
        return 30.0;
    }
  };
  const Found found = find(counts, 16, ms);
  CHECK(found.best == 1300);
  CHECK(found.best_few == 513);
  CHECK(found.worst == 1301);
  CHECK(found.before_jump == 16);
  CHECK(found.jump == doctest::Approx(0.25));
  CHECK(found.later_jump == doctest::Approx(0.1));
  const Found rising = find(counts, 16, [](unsigned b) { return 1.0 / b; });
  CHECK(rising.best == chart_end);
  CHECK(rising.jump == 0);
  CHECK(counts.count(rising.before_jump) == 1);
}

TEST_CASE("blocks: the sweep has what the claims compare, on GPUs of every size") {
  for (const unsigned multiprocessors : {1, 16, 46, 132, 300}) {
    CAPTURE(multiprocessors);
    const Places p = {10 * multiprocessors, multiprocessors};
    const std::set<unsigned> counts = swept(12288, p);
    CHECK(printed(12288, p).size() <= 18);
    CHECK(*counts.begin() > 0);
    for (const unsigned b : {100, 256, 512, 640, 768, 1000, 1024, 2048}) CHECK(counts.count(b));
    for (const unsigned k : {1, 2, 4, 10, 20})
      for (const unsigned more : {0, 1}) CHECK(counts.count(k * multiprocessors + more));
  }
}

TEST_CASE("blocks: every thread's sum is right, with fewer blocks than rows and with more") {
  if (skip_without_gpu()) return;
  for (const unsigned rows : {1, 7, 1031})
    for (const unsigned b : {1, 33, 132, 2049}) {
      CAPTURE(rows);
      CAPTURE(b);
      const Launch launch = {b, block_threads};
      const Array array = array_of(rows, 1009);
      const Sums out = sums_of(launch);
      CHECK_NOTHROW(require_right(benchmark_of("sum", launch, array, out)));
      CHECK(out->to_host() == right_sums(launch, rows, 1009));
    }
}
