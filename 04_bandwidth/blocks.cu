// blocks: how many blocks should a launch have? From 50 blocks of 192 threads to one per row sum an
// array by rows. In the study of 2007 [BW, charts 2 and 3] the rate of few blocks was a sawtooth of
// 15 to 20%, and some numbers of blocks were best. NVIDIA's guide asked for more than 100 blocks:
// 1000 would do for several generations. Its people said: not fewer than multiprocessors, not fewer
// than fit at once, best a multiple of these; and surplus blocks do no harm.
//
// Look at the blocks that fit at once, and at one block more: it begins a round, in which it has the
// GPU to itself. How do these teeth shrink behind the second, third and fourth round? The study saw
// them early, as 64 blocks filled its GPU. Below one round the rate rises with the bytes in flight.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o blocks blocks.cu ../common/*.cpp
//
//   1  Sum_h  (sweep.cuh) the study's kernel, with one load in flight per thread
#include <doctest/doctest.h>

#include <map>

#include "sweep.cuh"

namespace {

constexpr unsigned block_threads = 192;             // of the study's charts
constexpr unsigned peaks[] = {256, 512, 640, 768};  // of the study's chart
constexpr unsigned few = 50, hundred = 100, thousand = 1000;
constexpr unsigned most_rounds = 4;                          // behind which a tooth is looked for
constexpr Launch small_launches[] = {{32, 256}, {64, 128}};  // near the best, as the study says
constexpr Launch thousand_wider{thousand, 256};              // the guide's other block

/// Blocks of 192 threads that fit on the GPU at once, and its multiprocessors.
struct Places {
  unsigned at_once, multiprocessors;
  /// As full as the study's small launches were: 8192 of the 12288 threads that fit.
  unsigned two_thirds() const { return 2 * at_once / 3; }
  unsigned half() const { return at_once / 2; }
  /// Too few for all multiprocessors to have one; and more than one each, for a half of them.
  unsigned too_few() const { return std::max(1u, 3 * multiprocessors / 4); }
  unsigned more() const { return 3 * multiprocessors / 2; }
  /// Below one round: several for each multiprocessor.
  unsigned several_each() const { return 4 * multiprocessors; }
};

// ---- the launches: add yours here ----

/// Blocks of 192 threads: rows of the table.
std::set<unsigned> printed(unsigned rows, Places p) {
  std::set<unsigned> counts = {hundred, thousand, 1024, 2048, rows};
  counts.insert(std::begin(peaks), std::end(peaks));
  counts.insert({p.half(), p.two_thirds(), p.more()});
  for (const unsigned each : {1, 2, 32}) counts.insert(each * p.multiprocessors);
  for (unsigned r = 1; r <= most_rounds; ++r) counts.insert({r * p.at_once, r * p.at_once + 1});
  return counts;
}

/// And what claims compare, and a chart's points between the rounds.
std::set<unsigned> swept(unsigned rows, Places p) {
  std::set<unsigned> counts = printed(rows, p);
  counts.insert({few, p.too_few(), p.several_each(), p.several_each() + 1});
  for (unsigned r = 1; r <= most_rounds; ++r) counts.insert(r * p.at_once + p.half());
  return counts;
}

Launch of_192(unsigned blocks) { return {blocks, block_threads}; }

/// Launches of blocks that fill multiprocessors to the last thread: the best may be among them.
std::set<Launch> of_other_blocks(const Run& run, unsigned rows) {
  return {thousand_wider, {blocks_at_once(run, 256), 256}, {rows, 256}, {rows, 128}};
}

// ---- the experiment ----

std::string number(unsigned n) { return std::to_string(n); }

/// What a block more costs, behind so many full rounds.
std::vector<Interval> teeth(const Timings& timed, Places p) {
  std::vector<Interval> all;
  for (unsigned r = 1; r <= most_rounds; ++r) {
    const unsigned b = r * p.at_once;
    all.push_back(ratio(timed[name_of(of_192(b + 1))], timed[name_of(of_192(b))]));
  }
  return all;
}

void print_sweep(Run& run, const Timings& timed, const Array& array, Places p, Launch best) {
  const auto turns = [&](unsigned b) { return turns_of(run, of_192(b), array); };
  const auto times_of = [&](unsigned b) -> const Times& { return timed[name_of(of_192(b))]; };
  const unsigned alone = p.multiprocessors, full = p.at_once;
  const LoadTime load =
      load_time(turns(alone), times_of(alone).median(), turns(full), times_of(full).median());
  const std::set<unsigned> shown = printed(array.rows, p);
  const std::map<unsigned, const char*> in_2007 = {
      {256, "a peak"}, {512, "a peak"}, {640, "a peak"}, {768, "a peak"}, {1024, "best"}};
  const std::initializer_list<std::string> columns = {
      "rounds", "rows", "loads in turn", "predicted ms", "ms", "spread", "GB/s", "in 2007", ""};
  Table table("blocks", columns), others("blocks", columns);
  for (const unsigned b : swept(array.rows, p)) {
    const Times& times = times_of(b);
    const auto said = in_2007.find(b);
    (shown.count(b) ? table : others)
        .row(number(b),
             {ceil_div(b, full), ceil_div(array.rows, b), turns(b).loads,
              b == alone || b == full ? Cell("") : Cell(load.predicted_ms(turns(b))),
              times.ms_interval(), percent(times.spread()), times.gbs_interval(array.bytes()),
              said == in_2007.end() ? Cell("") : Cell(said->second),
              bar(timed[name_of(best)].median() / times.median())});
  }
  run.print(table);
  run.save(others);
  run.note("rows: of a block, at most; in 2007 64 blocks fitted at once");
  note_load_time(run, load, of_192(alone), of_192(full));

  Table saw("a block more than", {"blocks", "predicted times", "times as long"});
  const std::vector<Interval> measured = teeth(timed, p);
  for (unsigned r = 1; r <= most_rounds; ++r) {
    const unsigned b = r * full;
    const double predicted = load.predicted_ms(turns(b + 1)) / load.predicted_ms(turns(b));
    saw.row(number(r) + (r == 1 ? " round" : " rounds"), {b, predicted, measured[r - 1]});
  }
  run.print(saw);
}

}  // namespace

void blocks(Run& run) {
  const Array array = study_array(run);
  const Places p = {blocks_at_once(run, block_threads), unsigned(run.gpu.multiProcessorCount)};
  run.title("sum by rows of " + number(array.rows) + " x " + number(array.columns) +
            " floats by blocks of 192 threads, " + number(p.at_once) + " fit at once");
  std::set<Launch> launches = of_other_blocks(run, array.rows);
  for (const unsigned b : swept(array.rows, p)) launches.insert(of_192(b));
  const Timings timed = measure(run.timer, launches, array);
  const Launch best = best_of(launches, timed);
  print_sweep(run, timed, array, p, best);
  if (!run.beyond_l2(array.bytes()))
    run.note("less than four times the L2: a part of this is the cache's rate");

  // What was best by chance is not so twice.
  std::set<Launch> compared = {best, of_192(thousand), thousand_wider, of_192(p.two_thirds())};
  compared.insert(std::begin(small_launches), std::end(small_launches));
  const Timings again = measure(run.timer, compared, array);
  const auto off = [&](Launch l) { return ratio(again[name_of(l)], again[name_of(best)]); };
  const auto over = [&](unsigned slow, unsigned fast) {
    return ratio(timed[name_of(of_192(slow))], timed[name_of(of_192(fast))]);
  };
  run.note("best of " + number(unsigned(launches.size())) + ": " + name_of(best) + ", " +
           digits(again[name_of(best)].gbs(array.bytes())) + " GB/s when timed again");
  run.note(
      "sum, threads, blocks: what bytes in flight limit, they limit whatever the block's size");

  const std::string card = ", 8800 GTX", guide = "[BW, quoting the guide] ";
  const std::string people = "[BW, quoting NVIDIA's people] ";
  const std::vector<Interval> saw = teeth(timed, p);
  run.claim_each(
      {"04.7a", "with few blocks the rate jumps by 15 to 20%", "[BW] 15-20%" + card, Hardware::g80},
      {saw[0], saw[1], saw[2]}, "time of a block more / 1, 2, 3 full rounds",
      faster_by(1.15, 1.25));  // 15 to 20% of the lower, or of the higher rate
  run.claim_each({"04.7b", "the more blocks, the smaller the jumps of the rate",
                  "[BW] \"the more blocks, the smaller the jumps\"" + card, Hardware::g80},
                 {saw[0] / saw[1], saw[1] / saw[2], saw[2] / saw[3]},
                 "jump behind 1, 2, 3 rounds / behind a round more", more());
  const unsigned rows = array.rows;
  std::vector<Interval> of_peaks, of_rounds, of_small;
  for (const unsigned b : peaks) of_peaks.push_back(over(b, rows));
  for (const unsigned b : {2 * p.at_once, 3 * p.at_once, 4 * p.at_once, rows})
    of_rounds.push_back(over(b, p.at_once));
  for (const Launch l : small_launches) of_small.push_back(off(l));
  run.claim_each({"04.7c", "256, 512, 640 and 768 blocks are peaks of the rate",
                  "[BW] \"peaks of maximal performance\"" + card, Hardware::g80},
                 of_peaks,
                 "times as long as " + number(rows) + " blocks; 4 rounds, as 256 were then: " +
                     digits(over(4 * p.at_once, rows).value),
                 no_more(0.05));
  run.claim_each({"04.7d", "surplus blocks, in whole rounds, do no harm",
                  people + "\"no harm from surplus thread blocks\""},
                 of_rounds,
                 "time of 2, 3, 4 rounds, " + number(rows) + " blocks / 1 round; but see 04.14",
                 no_more());
  run.claim_each({"04.12", "32 blocks of 256 threads, or 64 of 128, nearly reach the best rate",
                  "[BW] \"practically the maximal speed\"" + card, Hardware::g80},
                 of_small,
                 "times as long as " + name_of(best) + "; as full as then, " +
                     number(p.two_thirds()) +
                     " x 192: " + digits(off(of_192(p.two_thirds())).value),
                 as_fast());
  run.claim({"04.13b", "fewer than 100 blocks are too few", guide + "\"no fewer than 100\""},
            {over(few, hundred), "times as long with 50 blocks as with 100"}, more());
  // Several generations: the four after the study's GPU end with Pascal.
  run.claim_each({"04.13c", "1000 blocks will do for several generations of hardware",
                  guide + "\"enough for several generations of hardware\"", Hardware::pascal},
                 {off(of_192(thousand)), off(thousand_wider)},
                 "time of 1000 x 192, 1000 x 256 / " + name_of(best),
                 at_most(1 / 0.9));  // 90% of the best rate
  run.claim_each({"04.14", "best is a multiple of the blocks that can run at once",
                  people + "\"a multiple of the CTAs able to run at once\""},
                 saw, "time of a block more / 1, 2, 3, 4 times " + number(p.at_once), faster());
  const unsigned several = p.several_each();
  run.claim_each(
      {"04.16", "a number of blocks that is no multiple of the SMs leaves some idle",
       "[BW] \"leads to partial idleness of the multiprocessors\"" + card, Hardware::g80},
      {over(several + 1, several), saw[0]},
      "time of a block more / " + number(several) + ", a full round", faster());
  const unsigned sms = p.multiprocessors;
  run.claim({"04.17", "there should be no fewer blocks than multiprocessors",
             people + "\"no fewer than multiprocessors\""},
            {over(p.too_few(), sms),
             "times as long with " + number(p.too_few()) + " blocks as with " + number(sms)},
            more());
  run.claim_each(
      {"04.18", "better are more blocks than multiprocessors, or a multiple",
       people + "\"better more, or (and?) a multiple\""},
      {over(sms, p.more()), over(sms, 2 * sms)},
      "time of " + number(sms) + " blocks / " + number(p.more()) + ", " + number(2 * sms), more());
  run.claim_each({"04.19", "there should be no fewer blocks than can run at once",
                  people + "\"no fewer than all CTAs able to run at once\""},
                 {over(p.half(), p.at_once), over(p.two_thirds(), p.at_once)},
                 "time of " + number(p.half()) + ", " + number(p.two_thirds()) + " blocks / " +
                     number(p.at_once),
                 more());
}
SAMPLE(7, blocks, "the same sum with 50 blocks and more");

TEST_CASE("blocks: rounds and teeth, by hand") {
  const Array array{12288, 12288, {}};
  const auto loads = [&](unsigned b) {
    return turns_of(of_192(b), 1320, 2048 * 132, array).loads / 64;
  };
  CHECK(loads(100) == 123);
  CHECK(loads(1320) == 10);
  CHECK(loads(1321) == 9 + 9);      // a block of nine rows behind one of nine
  CHECK(loads(2640) == 5 + 5);      // 408 places have ten rows
  CHECK(loads(2641) == 5 + 4 + 4);  // 912 places have nine, and one of them four more
  CHECK(loads(12288) == 10);
}

TEST_CASE("blocks: the sweep has what the claims compare, on GPUs of every size") {
  for (const unsigned multiprocessors : {1, 16, 46, 132, 300}) {
    CAPTURE(multiprocessors);
    const Places p = {10 * multiprocessors, multiprocessors};
    const std::set<unsigned> counts = swept(12288, p);
    CHECK(printed(12288, p).size() <= 25);
    CHECK(*counts.begin() > 0);
    for (const unsigned b : {50, 100, 256, 512, 640, 768, 1000, 1024, 2048, 12288})
      CHECK(counts.count(b));
    for (const unsigned k : {4, 10, 20, 30, 40})
      for (const unsigned more : {0, 1}) CHECK(counts.count(k * multiprocessors + more));
    for (const unsigned b : {p.too_few(), p.more(), 2 * p.multiprocessors, p.half()})
      CHECK(counts.count(b));
  }
}

TEST_CASE("blocks: every thread's sum is right, with fewer blocks than rows and with more") {
  if (skip_without_gpu()) return;
  for (const unsigned rows : {1, 7, 1031})
    for (const unsigned b : {1, 33, 132, 2049}) {
      CAPTURE(rows);
      CAPTURE(b);
      const Launch launch = of_192(b);
      const Array array = array_of(rows, 1009);
      const Sums out = sums_of({launch});
      CHECK_NOTHROW(require_right(benchmark_of(launch, array, out)));
      CHECK(out.to_host() == right_sums(launch, rows, 1009));
    }
}
