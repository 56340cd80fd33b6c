// threads: an array is added up by rows, by 1024 blocks of 16 to 1024 threads. In the study of 2007
// [BW, chart 1] a count that was no multiple of 16 lost most of the bandwidth, and beyond 384
// threads, where a block was alone on its multiprocessor, the rate fell. Look at the rounds: a
// thread has one load under way, so what counts is how many loads follow one another.
//   cmake -S 04_bandwidth -B build/threads -DEXPERIMENTS=threads
//   cmake --build build/threads && build/threads/04_bandwidth
//
//   1  sum_rows   a block takes rows, its lanes neighbouring words
#include <set>

#include "row_sum.cuh"

// ---- kernel: `rows` rows of `columns` words; thread t writes its own sum to out[t] ----

// [sum_rows]
// A block takes every gridDim.x-th row, and steps along it. A warp reads 32 neighbouring words: 4
// sectors of 32 bytes, or 5 where a block's threads are no multiple of 8 and it begins inside one.
static __global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
#pragma unroll 1  // else the compiler might put several words of a thread under way
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

namespace {

// ---- the launches ----

constexpr unsigned blocks = 1024;
constexpr unsigned least = 16, most = 1024;
const std::set<unsigned> named{192, 256, 320, 384};  ///< the text's best

/// Rows of the table: where the 1024 blocks need one round more, and what is on either side.
const std::set<unsigned> printed{16, 32, 64, 128, 192, 256, 257, 384, 512, 513, 672, 1024};

/// Threads a block to sweep over: every count, multiples of 32 and some beside them, or those of
/// the table.
std::set<unsigned> swept(bool quick, bool full) {
  std::set<unsigned> counts = printed;
  counts.insert(named.begin(), named.end());
  if (quick) return counts;
  counts.insert({112, 129, 304, 400, 673});
  for (unsigned t = least; t <= most; ++t)
    if (full || t % 32 == 0) counts.insert(t);
  return counts;
}

/// A count that is no multiple of 16, and the multiple beside it.
struct Beside {
  unsigned count, multiple;
};

/// From 128 threads on, as far as the text's chart goes.
std::vector<Beside> beside_multiples(bool quick, bool full) {
  const unsigned step = full ? 16 : quick ? 128 : 64;
  std::vector<Beside> all;
  for (unsigned m = 128; m <= 512; m += step) {
    all.push_back({m - 1, m});
    all.push_back({m + 1, m});
  }
  return all;
}

std::vector<Launch> launches_of(const std::set<unsigned>& counts) {
  std::vector<Launch> launches;
  for (const unsigned t : counts) launches.push_back({blocks, t});
  return launches;
}

// ---- what to expect ----

/// The launch from which a load's trip is known: enough threads for a load to meet others on its
/// way, too few for it to wait for them.
constexpr unsigned calibrating = 64;

/// What reading one row takes.
struct Traffic {
  unsigned requests = 0;  ///< loads of a warp
  unsigned sectors = 0;   ///< of 32 bytes, one asked for by two requests counted twice
};

Traffic traffic_of_a_row(unsigned columns, unsigned threads) {
  Traffic traffic;
  for (unsigned step = 0; step < columns; step += threads)
    for (unsigned warp = 0; warp < threads && step + warp < columns; warp += 32) {
      const unsigned first = step + warp;
      const unsigned last = std::min({first + 32, step + threads, columns}) - 1;
      ++traffic.requests;
      traffic.sectors += last / 8 - first / 8 + 1;  // 8 words each
    }
  return traffic;
}

// ---- the experiment ----

struct ThreadsTable {
  const Run& run;
  Size size;
  double trip = NAN;  ///< milliseconds
  Table shown_rows, other_rows;

  ThreadsTable(const Run& run, Size size)
      : run(run),
        size(size),
        shown_rows(run.report, "threads a block", columns()),
        other_rows(run.report, "", columns()) {}

  static std::vector<Column> columns() {
    return {counted("blocks at once", "blocks at once", "", 0),
            predicted("rounds", "rounds", "", 0),
            predicted("loads in turn", "loads in turn", "", 0),
            saved_only(predicted("", "bytes in flight", "bytes", 0)),
            saved_only(predicted("", "requests a row", "", 0)),
            predicted("sectors a row", "sectors a row", "", 0),
            compared("ms", "time", "ms", 4),
            shown("spread"),
            measured("GB/s", "bandwidth", "GB/s", 0),
            shown("of theory"),
            shown("")};
  }
  /// `at_once`: blocks that are resident; 0 without a GPU.
  void add(unsigned threads, unsigned at_once, const Readings& times) {
    const Launch l{blocks, threads};
    const Traffic traffic = traffic_of_a_row(size.columns, threads);
    const Statistics ms = times.statistics();
    double fit = NAN, rounds_taken = NAN, loads = NAN, in_flight = NAN, theory = NAN;
    Cell time;
    if (run.device) {
      fit = at_once;
      rounds_taken = rounds(blocks, at_once);
      loads = loads_in_turn(size, l, at_once);
      in_flight = bytes_in_flight(l, at_once);
      theory = run.device->theoretical_gbs;
      time = Compared{predicted_ms(size, l, at_once, trip, theory), ms};
      if (threads == calibrating) time = Calibration{ms};
    }
    const Statistics gbs = gigabytes_per_second(bytes_read(size), ms);
    const double share = theory > 0 ? gbs.median / theory : NAN;
    // a full sweep is one line of a figure: all its rows have one name
    const bool is_shown = printed.count(threads) > 0;
    const char* name = is_shown || run.full ? "by rows" : "by rows, other counts";
    (is_shown ? shown_rows : other_rows)
        .row({name, "threads", std::to_string(threads)},
             {fit, rounds_taken, loads, in_flight, double(traffic.requests),
              double(traffic.sectors), time, spread_text(ms), gbs, percent(share), bar(share)});
  }
};

/// What the claims compare, timed in turn; the sweep's best; what was found beside.
struct Compare {
  LaunchTimes times;
  std::string why_not;                      ///< where a GPU did not measure them
  unsigned best_named = 0, best_other = 0;  ///< of those that the text names, and of all others
  std::string odd_multiples, fall;
  std::map<unsigned, unsigned> rounds;  ///< that so many threads take; none without a GPU

  /// A count that takes a round more than another is slower for that, whatever its alignment.
  bool equal_rounds(unsigned count, unsigned other) const {
    return rounds.empty() || rounds.at(count) == rounds.at(other);
  }

  /// How many times as long as `than` does `count` take.
  Interval slower(unsigned count, unsigned than) const {
    if (times.empty()) return not_measured(why_not);
    return ratio(times.at({blocks, count}), times.at({blocks, than}));
  }
};

void find_best(const LaunchTimes& sweep, Compare& compare) {
  double least_named = INFINITY, least_other = INFINITY;
  for (const auto& [l, times] : sweep) {
    const bool is_named = named.count(l.threads) > 0;
    double& least_ms = is_named ? least_named : least_other;
    if (!(times.median() < least_ms)) continue;
    least_ms = times.median();
    (is_named ? compare.best_named : compare.best_other) = l.threads;
  }
}

/// Where the rate of the sweep falls most from a count to the next one measured.
std::string deepest_fall(const LaunchTimes& sweep, const Function<unsigned(unsigned)>& fit) {
  double least_share = 1;
  unsigned from = 0, to = 0, before = 0;
  double ms_before = NAN;
  for (const auto& [l, times] : sweep) {
    const double share = ms_before / times.median();
    if (share < least_share) {
      least_share = share;
      from = before;
      to = l.threads;
    }
    before = l.threads;
    ms_before = times.median();
  }
  if (from == 0) return "";
  return "the rate falls most from " + std::to_string(from) + " to " + std::to_string(to) +
         " threads, by " + fixed(100 * (1 - least_share), 0) + "%: " + std::to_string(fit(to)) +
         " blocks fit at once, not " + std::to_string(fit(from));
}

/// How odd multiples of 16 lie to the multiples of 32 beside them, where all three take equally
/// many rounds: the text calls the difference noticeable.
std::string odd_multiples(const LaunchTimes& sweep, const Compare& compare) {
  std::string text;
  for (const unsigned t : {112u, 304u}) {
    const auto fewer = sweep.find({blocks, t - 16});
    const auto here = sweep.find({blocks, t});
    const auto more = sweep.find({blocks, t + 16});
    if (fewer == sweep.end() || here == sweep.end() || more == sweep.end()) continue;
    if (!compare.equal_rounds(t, t - 16) || !compare.equal_rounds(t, t + 16)) continue;
    const double beside = (1 / fewer->second.median() + 1 / more->second.median()) / 2;
    const double share = 1 / here->second.median() / beside;
    text += (text.empty() ? "" : ", ") + std::to_string(t) + " threads reach " +
            fixed(100 * share, 0) + "%";
  }
  return text.empty() ? "" : text + " of the mean rate of the multiples of 32 beside them";
}

void judge_alignment(const Run& run, const Compare& compare, const std::vector<Beside>& pairs) {
  const Part part{"04.5a",
                  "counts that are no multiple of 16 are far slower than those beside them",
                  "6.5x to 7x slower, 10 of 65-70 GB/s", "8800 GTX", g80};
  Criterion rule = beats(6.5, 7);
  rule.bound = much;  // the text says: several times
  std::vector<Interval> all;
  std::vector<Verdict> verdicts;
  Beside worst{};  // of those that take equally many rounds
  double most_slower = 0;
  for (const Beside pair : pairs) {
    const Interval slower = compare.slower(pair.count, pair.multiple);
    all.push_back(slower);
    verdicts.push_back(judge(rule, slower));
    if (!compare.equal_rounds(pair.count, pair.multiple)) continue;
    if (!(slower.value > most_slower)) continue;
    most_slower = slower.value;
    worst = pair;
  }
  const Interval median = middle(all);
  Verdict verdict = judge_many(verdicts);
  if (verdict == Verdict::holds) {  // then how strongly
    const Verdict typical = judge(rule, median);
    if (holds(typical)) verdict = typical;
  }
  std::string here = "in the median of " + std::to_string(all.size()) + " " + slower(median);
  if (most_slower > 0)
    here += "; where the rounds are equal at most " + factor_text(most_slower) + " (" +
            std::to_string(worst.count) + " against " + std::to_string(worst.multiple) + ")";
  run.report.judged(part, verdict, median, here);
}

void judge_threads(const Run& run, const Compare& compare, const std::vector<Beside>& pairs) {
  judge_alignment(run, compare, pairs);
  const Interval half_warp = compare.slower(16, 32);
  run.report.judge({"04.5b", "32 threads a block are noticeably faster than 16",
                    "2x faster, derived (1.5-2x off the best, not 3-4x)", "8800 GTX", g80},
                   beats(2), half_warp, faster(half_warp));
  run.report.finding("04.5b", compare.odd_multiples);
  const Interval named = compare.slower(compare.best_named, compare.best_other);
  run.report.judge({"04.6a", "the best of 192, 256, 320 and 384 threads is as good as any", "chart",
                    "8800 GTX", g80},
                   gains_nothing(), named,
                   std::to_string(compare.best_other) + " threads are " +
                       faster(named, std::to_string(compare.best_named)));
  const Interval beyond = compare.slower(400, 384);
  run.report.judge({"04.6b", "right beyond 384 threads the rate drops", "chart", "8800 GTX", g80},
                   beats(), beyond, "400 threads are " + slower(beyond, "384"));
  run.report.finding("04.6b", compare.fall);
}

/// The words, the sums of the most threads, and what these must be.
double bytes_needed(size_t rows) {
  return bytes_read({unsigned(rows), text_size.columns}) + 8.0 * blocks * most;
}

/// The text's, or as many as fit.
unsigned rows_of(const Run& run) {
  return unsigned(fitting_size("threads", 0, text_size.rows, run.memory_there(), bytes_needed));
}

}  // namespace

void threads(const Run& run) {
  const unsigned rows = rows_of(run);
  const Size size{rows, text_size.columns};
  run.report.begin("threads", "sum by rows of " + std::to_string(rows) + " x " +
                                  std::to_string(size.columns) + " float, " +
                                  bytes_text(bytes_read(size)) + ", 1024 blocks");
  ThreadsTable table(run, size);
  const std::vector<Beside> pairs = beside_multiples(run.quick, run.full);
  Compare compare;
  LaunchTimes sweep;
  if (run.device) {
    RowArray array(sum_rows, size, blocks * most);
    const auto all_rows = [&](Launch) { return size.rows; };
    sweep = time_sweep(run, array, launches_of(swept(run.quick, run.full)), all_rows);
    const unsigned fit = resident_blocks(*run.device, sum_rows, calibrating);
    const Launch calibration{blocks, calibrating};
    table.trip = sweep.at(calibration).median() / loads_in_turn(size, calibration, fit);
    for (const auto& [l, times] : sweep)
      table.add(l.threads, resident_blocks(*run.device, sum_rows, l.threads), times);

    const auto fit_of = [&](unsigned t) { return resident_blocks(*run.device, sum_rows, t); };
    for (unsigned t = least; t <= most; ++t) compare.rounds[t] = rounds(blocks, fit_of(t));
    find_best(sweep, compare);
    compare.odd_multiples = odd_multiples(sweep, compare);
    compare.fall = deepest_fall(sweep, fit_of);
    std::set<unsigned> counts{16, 32, 384, 400, compare.best_named, compare.best_other};
    for (const Beside pair : pairs) counts.insert({pair.count, pair.multiple});
    if (beyond_l2(*run.device, bytes_read(size)))
      compare.times = time_in_turn(run, array, launches_of(counts), all_rows);
    else
      compare.why_not = "the array is less than four times the L2";
  } else {
    for (const unsigned t : printed) table.add(t, 0, {});
  }
  table.shown_rows.print();
  if (!run.device) {
    run.report.left_out("the sweep");
  } else {
    run.report.note("predicted: loads in turn x " + fixed(1e6 * table.trip, 0) +
                    " ns, which a load takes with " + std::to_string(calibrating) + " threads");
  }
  judge_threads(run, compare, pairs);
}
