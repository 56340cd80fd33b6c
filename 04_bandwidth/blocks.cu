// blocks: an array is added up by rows, by 1 to 2048 blocks of 192 threads. In the study of 2007
// [BW, charts 2 and 3] few blocks gave a sawtooth, some counts were best, and more blocks did no
// harm. Look at the rounds: the slowest block has ceil(rows / blocks) rows, and blocks that do not
// fit at once wait for others to end.
//   cmake -S 04_bandwidth -B build/blocks -DEXPERIMENTS=blocks
//   cmake --build build/blocks && build/blocks/04_bandwidth
//
//   1  sum_rows   a block takes rows, its lanes neighbouring words
#include <set>

#include "row_sum.cuh"

// ---- kernel: `rows` rows of `columns` words; thread t writes its own sum to out[t] ----

// A block takes every gridDim.x-th row, and steps along it. A warp reads 32 neighbouring words: 4
// sectors of 32 bytes. Each of its loads waits for the one before, to be added.
static __global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1  // else the compiler might put several words of a thread under way
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

namespace {

// ---- the launches ----

constexpr unsigned threads_a_block = 192;
constexpr unsigned most = 2048;
constexpr unsigned chart_end = 1024;                ///< of the text's sawtooth
constexpr unsigned named[] = {256, 512, 640, 768};  ///< the text's best
constexpr Launch few[] = {{32, 256}, {64, 128}};    ///< near the best, as the text says

/// Few blocks read a part of the rows, 48 each: one alone would take 0.3 s for the array.
constexpr unsigned most_rows_a_block = 48;
unsigned part_of(unsigned rows, unsigned blocks) {
  return std::min(rows, blocks * most_rows_a_block);
}

/// What decides where a rate may step.
struct Places {
  unsigned multiprocessors;
  unsigned fit;  ///< blocks that are resident at once on all of them
};

std::set<unsigned> inside(const std::set<unsigned>& counts) {
  return {counts.upper_bound(0), counts.upper_bound(most)};
}

/// Rows of the table: the text's counts, those where a round or a row more begins.
std::set<unsigned> printed(unsigned rows, Places p) {
  const unsigned eleven = ceil_div(rows, 11);  // from here on the slowest block has 11 rows
  return inside({1, p.multiprocessors, 2 * p.multiprocessors, 2 * p.multiprocessors + 1, 512, 768,
                 eleven - 1, chart_end, eleven, p.fit, p.fit + 1, most});
}

/// Blocks to sweep over. Neighbours stand where the rate might fall: at a block more than whole
/// rounds of the multiprocessors, or of all places, and densely about twice the multiprocessors.
std::set<unsigned> swept(unsigned rows, Places p, bool quick, bool full) {
  std::set<unsigned> counts = printed(rows, p);
  counts.insert(std::begin(named), std::end(named));
  counts.insert(513);  // two neighbours on every device
  for (unsigned beside = 0; beside <= 8; ++beside)
    counts.insert(2 * p.multiprocessors - std::min(4u, 2 * p.multiprocessors) + beside);
  if (quick) return inside(counts);
  counts.insert({64, 1280, 1536, 1792});
  for (unsigned times = 1; times <= 8; ++times)
    counts.insert({times * p.multiprocessors, times * p.multiprocessors + 1});
  for (unsigned round = 1; round * p.fit < chart_end; ++round)
    counts.insert({round * p.fit, round * p.fit + 1});
  for (unsigned b = 1; full && b <= most; ++b) counts.insert(b);
  return inside(counts);
}

std::vector<Launch> launches_of(const std::set<unsigned>& counts) {
  std::vector<Launch> launches;
  for (const unsigned b : counts) launches.push_back({b, threads_a_block});
  return launches;
}

// ---- what to expect, beside row_sum.cuh ----

/// Share of the time in which the average place for a block works, if each works at its own pace.
double balance(unsigned rows, unsigned blocks, unsigned fit) {
  const double in_turn = double(rounds(blocks, fit)) * ceil_div(rows, blocks);
  return rows / (std::min(blocks, fit) * in_turn);
}

// ---- the experiment ----

struct BlocksTable {
  const Run& run;
  Size size;
  Places places;
  double trip = NAN;  ///< milliseconds
  std::set<unsigned> shown_counts;
  Table shown_rows, other_rows;

  BlocksTable(const Run& run, Size size, Places places)
      : run(run),
        size(size),
        places(places),
        shown_counts(printed(size.rows, places)),
        shown_rows(run.report, "blocks", columns()),
        other_rows(run.report, "", columns()) {}

  static std::vector<Column> columns() {
    return {predicted("rounds", "rounds", "", 0),
            predicted("rows a block", "rows a block", "", 0),
            saved_only(predicted("", "bytes in flight", "bytes", 0)),
            compared("ms", "time", "ms", 4),
            shown("spread"),
            measured("GB/s", "bandwidth", "GB/s", 0),
            measured("balanced", "bandwidth with the rows' imbalance taken out", "GB/s", 0),
            shown("of theory"),
            shown("")};
  }
  void add(unsigned blocks, const Readings& times) {
    const Launch l{blocks, threads_a_block};
    const Size part{part_of(size.rows, blocks), size.columns};
    const Statistics ms = times.statistics();
    const Statistics gbs = gigabytes_per_second(bytes_read(part), ms);
    double rounds_taken = NAN, in_flight = NAN, theory = NAN;
    Statistics balanced;
    Cell time;
    if (run.device) {
      rounds_taken = rounds(blocks, places.fit);
      in_flight = bytes_in_flight(l, places.fit);
      theory = run.device->theoretical_gbs;
      balanced = scaled(gbs, 1 / balance(part.rows, blocks, places.fit));
      time = Compared{predicted_ms(part, l, places.fit, trip, theory), ms};
      if (blocks == places.multiprocessors) time = Calibration{ms};
    }
    const double share = theory > 0 ? gbs.median / theory : NAN;
    // a full sweep is one line of a figure: all its rows have one name
    const bool is_shown = shown_counts.count(blocks) > 0;
    const char* name = is_shown || run.full ? "by rows" : "by rows, other counts";
    (is_shown ? shown_rows : other_rows)
        .row({name, "blocks", std::to_string(blocks)},
             {rounds_taken, double(ceil_div(part.rows, blocks)), in_flight, time, spread_text(ms),
              gbs, balanced, percent(share), bar(share)});
  }
};

/// What the claims compare, timed in turn, and what the sweep picked for it.
struct Compare {
  LaunchTimes times;
  std::string why_not;  ///< where a GPU did not measure them
  Size size = text_size;
  unsigned best = 0;         ///< of all blocks of 192 threads
  unsigned best_few = 0;     ///< of those up to 1024
  unsigned before_fall = 0;  ///< the rate falls most from here to the next count
  unsigned neighbours = 0;   ///< pairs among which that was sought
  std::string cliff;

  /// How many times the rate of `than` has `l`.
  Interval rate_to(Launch l, Launch than) const {
    if (times.empty()) return not_measured(why_not);
    const double rows = double(part_of(size.rows, l.blocks)) / part_of(size.rows, than.blocks);
    return scaled(ratio(times.at(than), times.at(l)), rows);
  }
  Interval rate_to(unsigned blocks, unsigned than) const {
    return rate_to(Launch{blocks, threads_a_block}, Launch{than, threads_a_block});
  }
};

/// The best counts of a sweep, and the two neighbours between which its rate falls most.
void choose(const LaunchTimes& sweep, Compare& compare) {
  double best = 0, best_few = 0, least_share = INFINITY, before = NAN;
  unsigned count_before = 0;
  for (const auto& [l, times] : sweep) {
    const double rate = part_of(compare.size.rows, l.blocks) / times.median();
    if (rate > best) {
      best = rate;
      compare.best = l.blocks;
    }
    if (l.blocks <= chart_end && rate > best_few) {
      best_few = rate;
      compare.best_few = l.blocks;
    }
    const bool next = count_before > 0 && count_before + 1 == l.blocks && l.blocks <= chart_end;
    compare.neighbours += next;
    if (next && rate / before < least_share) {
      least_share = rate / before;
      compare.before_fall = count_before;
    }
    before = rate;
    count_before = l.blocks;
  }
}

/// What a block more than fit at once costs, in the sweep.
std::string cliff(const LaunchTimes& sweep, unsigned fit) {
  const auto all = sweep.find({fit, threads_a_block});
  const auto one_more = sweep.find({fit + 1, threads_a_block});
  if (all == sweep.end() || one_more == sweep.end()) return "";
  return std::to_string(fit) + " blocks fit at once; one more takes " +
         factor_text(one_more->second.median() / all->second.median()) + " as long";
}

std::set<Launch> compared_launches(const Compare& compare) {
  std::set<Launch> all(std::begin(few), std::end(few));
  for (const unsigned b : {named[0], named[1], named[2], named[3], most, compare.best,
                           compare.best_few, compare.before_fall, compare.before_fall + 1})
    all.insert({b, threads_a_block});
  return all;
}

void judge_sawtooth(const Run& run, const Compare& compare) {
  const unsigned from = compare.before_fall;
  const Interval rest = compare.rate_to(from + 1, from);
  Interval fall = rest;
  fall.value = 100 * (1 - rest.value);
  fall.low = 100 * (1 - rest.high);
  fall.high = 100 * (1 - rest.low);
  run.report.judge(
      {"04.7a", "up to 1024 blocks the rate is a sawtooth of 15-20%", "15-20%", "8800 GTX", g80},
      from_to(15, 20), fall,
      "of " + std::to_string(compare.neighbours) +
          " counts and the next the rate falls most from " + std::to_string(from) + ", by " +
          share_text(scaled(fall, 0.01)),
      "%");
}

void judge_named(const Run& run, const Compare& compare) {
  std::vector<Interval> all;
  std::vector<Verdict> verdicts;
  std::string text;
  for (const unsigned b : named) {
    const Interval best_gains = compare.rate_to(compare.best_few, b);
    all.push_back(best_gains);
    verdicts.push_back(judge(gains_nothing(), best_gains));
    text += (text.empty() ? " blocks are best: " : ", ") + factor_text(best_gains.value) +
            " the rate of " + std::to_string(b);
  }
  run.report.judged({"04.7b", "256, 512, 640 and 768 blocks are as good as the best up to 1024",
                     "peaks of the chart", "8800 GTX", g80},
                    judge_many(verdicts), middle(all), std::to_string(compare.best_few) + text);
}

void judge_few(const Run& run, const Compare& compare) {
  std::vector<Interval> all;
  std::vector<Verdict> verdicts;
  std::string text;
  for (const Launch l : few) {
    const Interval share = compare.rate_to(l, {compare.best, threads_a_block});
    all.push_back(share);
    verdicts.push_back(judge(about(1), share));
    text += (text.empty() ? "" : " and ") + share_text(share);
  }
  run.report.judged({"04.12", "32 blocks of 256 threads, or 64 of 128, come near the best rate",
                     "nearly the highest rate", "8800 GTX", g80},
                    judge_many(verdicts), middle(all),
                    text + " of the rate of " + text_of({compare.best, threads_a_block}));
}

void judge_blocks(const Run& run, const Compare& compare) {
  judge_sawtooth(run, compare);
  judge_named(run, compare);
  const Interval harm = compare.rate_to(compare.best_few, most);
  run.report.judge(
      {"04.7c", "more blocks do no harm", "no harm", "8800 GTX"}, gains_nothing(), harm,
      std::to_string(compare.best_few) + " blocks are " + faster(harm, std::to_string(most)));
  run.report.finding("04.7c", compare.cliff);
  judge_few(run, compare);
}

void measure(const Run& run, Size size, BlocksTable& table, Compare& compare) {
  const Places places = table.places;
  unsigned most_threads = most * threads_a_block;
  for (const Launch l : few) most_threads = std::max(most_threads, l.total());
  RowArray array(sum_rows, size, most_threads);
  const auto part = [&](Launch l) { return part_of(size.rows, l.blocks); };

  const std::set<unsigned> counts = swept(size.rows, places, run.quick, run.full);
  const LaunchTimes sweep = time_sweep(run, array, launches_of(counts), part);
  const Launch calibration{places.multiprocessors, threads_a_block};
  const Size calibrated{part(calibration), size.columns};
  table.trip = sweep.at(calibration).median() / loads_in_turn(calibrated, calibration, places.fit);
  for (const auto& [l, times] : sweep) table.add(l.blocks, times);

  choose(sweep, compare);
  compare.cliff = cliff(sweep, places.fit);
  const std::set<Launch> all = compared_launches(compare);
  if (beyond_l2(*run.device, bytes_read(size)))
    compare.times = time_in_turn(run, array, {all.begin(), all.end()}, part);
  else
    compare.why_not = "the array is less than four times the L2";
}

/// The words, the sums of the most threads, and what these must be.
double bytes_needed(size_t rows) {
  return bytes_read({unsigned(rows), text_size.columns}) + 8.0 * most * threads_a_block;
}

/// The text's, or as many as fit.
unsigned rows_of(const Run& run) {
  return unsigned(fitting_size("blocks", 0, text_size.rows, run.memory_there(), bytes_needed));
}

}  // namespace

void blocks(const Run& run) {
  const unsigned rows = rows_of(run);
  const Size size{rows, text_size.columns};
  run.report.begin("blocks", "sum by rows of " + std::to_string(rows) + " x " +
                                 std::to_string(size.columns) + " float, " +
                                 bytes_text(bytes_read(size)) + ", blocks of 192 threads");
  Places places{16, 64};  // of the 8800 GTX
  if (run.device) {
    places.multiprocessors = unsigned(run.device->prop.multiProcessorCount);
    places.fit = resident_blocks(*run.device, sum_rows, threads_a_block);
  }
  BlocksTable table(run, size, places);
  Compare compare;
  compare.size = size;
  if (run.device) {
    measure(run, size, table, compare);
  } else {
    for (const unsigned b : table.shown_counts) table.add(b, {});
  }
  table.shown_rows.print();
  if (!run.device) {
    run.report.left_out("the sweep");
  } else {
    run.report.note("predicted: rounds x rows a block x " +
                    std::to_string(ceil_div(size.columns, threads_a_block)) + " loads x " +
                    fixed(1e6 * table.trip, 0) +
                    " ns, which a load takes with a block on each multiprocessor");
    run.report.note("balanced: the rate if no place for a block had to wait for another");
  }
  judge_blocks(run, compare);
}
