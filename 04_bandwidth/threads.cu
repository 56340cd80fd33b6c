// threads: how many threads should a block have? Blocks of 16 to 1024 threads sum an array by rows.
// In the study of 2007 [BW, chart 1] a number that was no multiple of 16 gave 10 GB/s in place of 65
// to 70. 192, 256, 320 and 384 threads were best, 16 far off. Beyond 384 a block was alone on its
// multiprocessor, and the rate fell. Its 1024 blocks were 64 per multiprocessor, so that its card
// was full: here a block per row is. 32 blocks per multiprocessor and 1024 stand beside it.
//
// Look at 127, 128 and 129 threads: alignment no longer decides, since memory delivers sectors, and
// L1 keeps those that two warps share. Then look at the loads in turn: with them goes the time. And
// what do 1024 blocks lack?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o threads threads.cu ../common/*.cpp
//
//   1  Sum_h  (sweep.cuh) the study's kernel, with one load in flight per thread
#include <doctest/doctest.h>

#include <map>

#include "sweep.cuh"

namespace {

Cell stated(const char* words, double from, double to) {
  Cell cell = words;
  cell.number = {(from + to) / 2, from, to};
  return cell;
}

constexpr unsigned charted = 1024;  // blocks of the study's chart
constexpr unsigned per_multiprocessor = 32;

/// Threads per block: rows of the first table, and of the second.
const std::set<unsigned> printed = {16,  32,  64,  112, 127, 128, 129, 192,
                                    256, 257, 320, 384, 400, 512, 513, 1024};
const std::set<unsigned> beside_others = {16,  32,  64,  127, 128, 192, 256,
                                          257, 320, 384, 400, 512, 1024};
/// Whose times tell what a load takes: a quarter of all threads that fit on an H100, and all.
constexpr unsigned few = 16, many = 128;

/// How many times as long as the best: as the study has it, in words or by 10 in place of 65 to 70.
const std::map<unsigned, Cell> in_2007 = {{16, stated("3 to 4", 3, 4)},
                                          {32, stated("1.5 to 2", 1.5, 2)},
                                          {127, stated("6.5 to 7", 6.5, 7)},
                                          {192, stated("1", 1, 1)},
                                          {257, stated("6.5 to 7", 6.5, 7)}};

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

// ---- the launches: add yours to `printed` ----

std::set<Launch> launches(unsigned blocks, const std::set<unsigned>& counts) {
  std::set<Launch> all;
  for (const unsigned t : counts) all.insert({blocks, t});
  return all;
}

// ---- the experiment ----

std::vector<Interval> ratios(const Timings& timed, unsigned blocks,
                             const std::vector<Pair>& pairs) {
  std::vector<Interval> all;
  for (const Pair& pair : pairs)
    all.push_back(ratio(timed[name_of({blocks, pair.slow})], timed[name_of({blocks, pair.fast})]));
  return all;
}

LoadTime print_sweep(Run& run, const Timings& timed, const std::set<Launch>& judged, Launch best,
                     const Array& array) {
  const Launch a{best.blocks, few}, b{best.blocks, many};
  const LoadTime load = load_time(turns_of(run, a, array), timed[name_of(a)].median(),
                                  turns_of(run, b, array), timed[name_of(b)].median());
  const std::initializer_list<std::string> columns = {
      "at once", "rounds", "loads in turn", "predicted ms", "ms", "spread", "GB/s", ""};
  Table table("threads per block", columns), others("threads per block", columns);
  for (const Launch l : judged) {
    const unsigned at_once = blocks_at_once(run, l.threads);
    const Times& times = timed[name_of(l)];
    const Turns turns = turns_of(run, l, array);
    (printed.count(l.threads) ? table : others)
        .row(std::to_string(l.threads),
             {at_once, ceil_div(l.blocks, at_once), turns.loads,
              l == a || l == b ? Cell("") : Cell(load.predicted_ms(turns)), times.ms_interval(),
              percent(times.spread()), times.gbs_interval(array.bytes()),
              bar(timed[name_of(best)].median() / times.median())});
  }
  run.print(table);
  run.save(others);
  run.note("at once: blocks that are resident; the others wait for the next round");
  note_load_time(run, load, a, b);
  return load;
}

/// The study's launches: 1024 blocks, which do not fill this GPU, and those that fill it.
void print_beside(Run& run, const Timings& timed, const std::vector<unsigned>& blocks,
                  LoadTime load, const Array& array) {
  Table table("times off the best, threads",
              {"1024 blocks", "predicted", "32 per SM", "one per row", "in 2007"});
  std::vector<Launch> best;
  for (const unsigned b : blocks) best.push_back(best_of(launches(b, beside_others), timed));
  for (const unsigned t : beside_others) {
    const auto off = [&](size_t i) {
      return ratio(timed[name_of({blocks[i], t})], timed[name_of(best[i])]);
    };
    const double predicted = load.predicted_ms(turns_of(run, {blocks[0], t}, array));
    const auto said = in_2007.find(t);
    table.row(std::to_string(t), {off(0), predicted / timed[name_of(best[0])].median(), off(1),
                                  off(2), said == in_2007.end() ? Cell("") : said->second});
  }
  run.print(table);
  std::string rates;
  for (const Launch l : best)
    rates += (rates.empty() ? "" : ", ") + name_of(l) + " " +
             digits(timed[name_of(l)].gbs(array.bytes()));
  run.note("the best of each, GB/s: " + rates);
  run.note("1024 blocks: " + digits(double(charted) / run.gpu.multiProcessorCount) +
           " per multiprocessor, in 2007 64; few blocks have too few bytes in flight");
}

}  // namespace

void threads(Run& run) {
  const Array array = study_array(run);
  const unsigned rows = array.rows;
  run.title("sum by rows of " + std::to_string(rows) + " x " + std::to_string(array.columns) +
            " floats, a block per row");
  const unsigned two_fit = last_with_two(run.gpu.maxThreadsPerMultiProcessor);
  const std::vector<unsigned> blocks = {
      charted, per_multiprocessor * unsigned(run.gpu.multiProcessorCount), rows};
  const std::set<Launch> judged = launches(rows, swept(run.quick, two_fit));
  std::set<Launch> all = judged;
  for (const unsigned b : blocks) all.merge(launches(b, beside_others));
  const Timings timed = measure(run.timer, all, array);
  const Launch best = best_of(judged, timed);
  const LoadTime load = print_sweep(run, timed, judged, best, array);
  print_beside(run, timed, blocks, load, array);
  if (!run.beyond_l2(array.bytes()))
    run.note("less than four times the L2: a part of this is the cache's rate");

  // What was best by chance is not best twice.
  const unsigned t = best.threads;
  const Timings again = measure(run.timer, launches(rows, {16, 32, 192, 256, 320, 384, t}), array);
  const auto off = [&](const std::vector<Pair>& pairs) { return ratios(again, rows, pairs); };
  const auto beats = [&](const std::vector<Pair>& pairs) { return ratios(timed, rows, pairs); };
  const auto faster_than = [&](unsigned of, unsigned over) {
    return timed.speedup({.of = name_of({rows, of}), .over = name_of({rows, over})});
  };
  const std::string as_long = "times as long as " + name_of(best);
  const auto by_1024 = [&](unsigned of, unsigned over) {
    return digits(timed[name_of({charted, of})].median() /
                  timed[name_of({charted, over})].median());
  };
  const unsigned best_of_1024 = best_of(launches(charted, beside_others), timed).threads;
  const auto of_1024 = [&](unsigned t) { return "; of 1024 blocks " + by_1024(t, best_of_1024); };

  const std::string card = ", 8800 GTX";
  run.claim_each({"04.5a", "thread counts not divisible by 16 give a very bad bandwidth",
                  "[BW] about 10 GB/s in place of 65-70" + card, Hardware::g80},
                 beats(beside_16), "time of a neighbour / multiple of 16", much_faster_by(6.5));
  run.claim({"04.5b", "blocks of 16 threads are 3 to 4 times off the best", "[BW] 3-4 times" + card,
             Hardware::g80},
            {off({{16, t}})[0], as_long + of_1024(16)}, between(3, 4));
  run.claim({"04.5c", "blocks of 32 threads are 1.5 to 2 times off the best",
             "[BW] 1.5-2 times" + card, Hardware::g80},
            {off({{32, t}})[0], as_long + of_1024(32)}, between(1.5, 2));
  run.claim_each({"04.5d", "multiples of 4 threads are a little faster than their neighbours",
                  "[BW] \"grows a little\" at multiples of 4" + card, Hardware::g80},
                 beats(beside_4), "time of a neighbour / multiple of 4", faster());
  run.claim_each({"04.5e", "multiples of 8 threads are noticeably faster than their neighbours",
                  "[BW] \"grows noticeably\" at multiples of 8" + card, Hardware::g80},
                 beats(beside_8), "time of a neighbour / multiple of 8", faster());
  run.claim_each(
      {"04.5f", "multiples of 32 threads noticeably beat odd multiples of 16",
       "[BW] \"a noticeable difference, too\": 96-112-128, 256-272-288" + card, Hardware::g80},
      beats(beside_32), "time of 112, 272 / 96, 128, 256, 288", faster());
  run.claim_each({"04.6a", "192, 256, 320 and 384 threads per block perform best",
                  "[BW] \"the best performance\"" + card, Hardware::g80},
                 off({{192, t}, {256, t}, {320, t}, {384, t}}), as_long, as_fast());
  run.claim({"04.6b", "right beyond 384 threads per block performance falls sharply",
             "[BW] \"a sharp drop right after 384 thread\"" + card, Hardware::g80},
            faster_than(384, 400), faster());
  const Claim alone = {"04.6c", "the rate falls where only one block per multiprocessor is left",
                       "[BW] \"when only one CTA begins to work on a multiprocessor\"" + card,
                       Hardware::g80};
  if (two_fit)
    run.claim(alone, faster_than(two_fit, two_fit + 32), faster());
  else
    run.claim_skipped(alone, "two blocks of 1024 threads fit on a multiprocessor");
  run.claim_each(
      {"04.13a", "192 or 256 threads per block are better than 64",
       "[BW, quoting the guide] \"64, and better 192 or 256\"", Hardware::g80},
      beats({{64, 192}, {64, 256}}),
      "time of 64 / 192, 256 threads; of 1024 blocks " + by_1024(64, 192) + ", " + by_1024(64, 256),
      faster());
}
SAMPLE(6, threads, "a sum by rows with 16 to 1024 threads per block");

TEST_CASE("threads: blocks are dealt to places, by hand") {
  using Counts = std::vector<unsigned>;
  CHECK(resident_in_turn(4, 2, 4) == Counts{2, 2});
  CHECK(resident_in_turn(5, 2, 5) == Counts{2, 2, 1});
  CHECK(resident_in_turn(2, 8, 5) == Counts{2, 2, 1});     // rows of 3 and 2
  CHECK(resident_in_turn(3, 2, 7) == Counts{2, 2, 2, 1});  // 3; 2, then 2
  CHECK(resident_in_turn(9, 4, 2) == Counts{2});           // seven blocks have no row
  for (const unsigned blocks : {1, 7, 100, 1320, 1321, 12288}) {
    unsigned rows = 0;
    for (const unsigned resident : resident_in_turn(blocks, 1320, 12288)) {
      CHECK(resident <= 1320);
      rows += resident;
    }
    CHECK(rows == 12288);
  }
}

TEST_CASE("threads: loads in turn and what a load takes, by hand") {
  const Array array{12288, 12288, {}};
  CHECK(turns_of({1024, 256}, 1056, 2048 * 132, array).loads == 12 * 48);
  CHECK(turns_of({1024, 257}, 924, 2048 * 132, array).loads == 2 * 12 * 48);  // 100 blocks wait
  CHECK(turns_of({12288, 64}, 4224, 2048 * 132, array).loads == 3 * 192);
  const Turns half = turns_of({1024, 128}, 2048, 1024 * 256, array);
  CHECK(half.queued == half.loads / 4);
  const LoadTime load = load_time({10, 1}, 10 * 4 + 1 * 3, {20, 20}, 20 * 4 + 20 * 3);
  CHECK(load.alone_ms == doctest::Approx(4));
  CHECK(load.queue_ms == doctest::Approx(3));
  CHECK(load.predicted_ms({1, 1}) == doctest::Approx(7));
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
  for (size_t i = 0; i < 100000; ++i) CHECK((number_at(i) >= 1 && number_at(i) <= 64));
  for (const unsigned t : swept(false, 0))
    CHECK(64.0 * ceil_div(12288, charted) * ceil_div(12288, t) < 1 << 24);
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
        const Launch launch{97, t};
        const Sums out = sums_of({launch});
        CHECK_NOTHROW(require_right(benchmark_of(launch, array, out)));
        CHECK(out.to_host() == right_sums(launch, rows, columns));
      }
}

TEST_CASE("threads: a changed word, and a sum that is not written, are noticed") {
  if (skip_without_gpu()) return;
  const Array array = array_of(101, 257);
  const Launch launch{7, 33};
  Benchmark benchmark = benchmark_of(launch, array, sums_of({launch, {7, 35}}));
  CHECK_NOTHROW(require_right(benchmark));
  CUDA_CHECK(cudaMemset(array.words + 1009, 0, sizeof(float)));
  CHECK_THROWS_AS(require_right(benchmark), WrongResult);
  benchmark = benchmark_of(launch, array_of(101, 257), sums_of({launch, {7, 35}}));
  benchmark.work = [] {};
  CHECK_THROWS_AS(require_right(benchmark), WrongResult);
}
