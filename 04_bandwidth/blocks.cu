// blocks: an array is added up by rows, by 1 to 2048 blocks of 192 threads. In the study of 2007
// [BW, charts 2 and 3] few blocks gave a sawtooth, some numbers of blocks were best, and more
// blocks did no harm. Two things to look at:
//   - The rows of the slowest block. It has rows / blocks, rounded up: the rate rises in steps.
//   - The rounds. Blocks that do not fit at once wait for others to end: one block too many costs a
//     whole round.
//
//   cmake -S 04_bandwidth -B build/blocks -DEXPERIMENTS=blocks
//   cmake --build build/blocks && build/blocks/04_bandwidth
//
//   1  sum_rows   a block takes rows, its lanes read neighbouring words
#include "row_sum.cuh"

using namespace samples;

// ---- kernel: `rows` rows of `columns` words; thread t writes its own sum to out[t] ----

// [sum_rows]
// A block takes every gridDim.x-th row, and steps along it. A warp reads 32 neighbouring words: 4
// sectors of 32 bytes. Each of its loads waits for the one before, to be added.
static __global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
  // one load in flight per thread, whatever the compiler thinks best: the number of blocks is to
  // decide how many bytes are in flight
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

namespace {

// ---- the launches ----

constexpr unsigned block_threads = 192;
constexpr unsigned chart_end = 1024, most = 2048;   // of the text's charts
constexpr unsigned named[] = {256, 512, 640, 768};  // the text's best
constexpr Launch few[] = {{32, 256}, {64, 128}};    // near the best, as the text says

/// Few blocks read a part of the rows, 48 each: one alone would take 0.3 s for the array.
constexpr unsigned most_rows_of_block = 48;
unsigned part_of(unsigned rows, unsigned blocks) {
  return std::min(rows, blocks * most_rows_of_block);
}

/// What decides where a rate may step.
struct Places {
  unsigned multiprocessors;
  unsigned fit;  ///< blocks that are resident at once on all of them

  unsigned most_blocks() const { return std::max(most, 2 * fit + 1); }
};
/// At most so many fit, by the threads that a multiprocessor holds.
Places most_places(const Run& run) {
  if (!run.device) return {16, 64};  // of the 8800 GTX
  const auto sms = unsigned(run.device->prop.multiProcessorCount);
  return {sms, sms * (unsigned(run.device->prop.maxThreadsPerMultiProcessor) / block_threads)};
}
Places places_of(const Run& run) {
  if (!run.device) return most_places(run);
  return {unsigned(run.device->prop.multiProcessorCount),
          blocks_at_once(run, "resident", sum_rows, block_threads)};
}

/// Blocks whose threads are two thirds of those that fit, as the text's were.
unsigned two_thirds(Places p) { return std::max(1u, 2 * p.fit / 3); }

/// Rows of the table: the text's counts, those where a round or a row more begins.
std::set<unsigned> printed(unsigned rows, Places p) {
  const unsigned eleven = ceil_div(rows, 11);  // from here on the slowest block has 11 rows
  return {1,
          p.multiprocessors,
          2 * p.multiprocessors,
          2 * p.multiprocessors + 1,
          512,
          768,
          eleven - 1,
          chart_end,
          eleven,
          p.fit,
          p.fit + 1,
          2 * p.fit,
          2 * p.fit + 1,
          most};
}

/// Blocks to sweep over. Neighbours stand where the rate might fall: at a block more than whole
/// rounds of the multiprocessors, or of all places, and densely about twice the multiprocessors.
std::set<unsigned> swept(unsigned rows, Places p, bool full) {
  std::set<unsigned> counts = printed(rows, p);
  counts.insert(std::begin(named), std::end(named));
  counts.insert({64, 100, 513, 1000, 1280, 1536, 1792, two_thirds(p)});
  for (unsigned beside = 0; beside <= 8; ++beside)
    counts.insert(2 * p.multiprocessors - std::min(4u, 2 * p.multiprocessors) + beside);
  for (unsigned times = 1; times <= 8; ++times)
    counts.insert({times * p.multiprocessors, times * p.multiprocessors + 1});
  for (unsigned round = 1; round * p.fit < chart_end; ++round)
    counts.insert({round * p.fit, round * p.fit + 1});
  for (unsigned b = 1; full && b <= most; ++b) counts.insert(b);
  return {counts.upper_bound(0), counts.end()};
}

Ref row_of(unsigned blocks) { return {"sum_rows", double(blocks)}; }
/// The same launch, measured again in turn with the best of the sweep.
Ref again(unsigned blocks) { return {"sum_rows_again", double(blocks)}; }
Ref row_of(Launch few) {
  return "sum_rows_" + std::to_string(few.blocks) + "x" + std::to_string(few.threads);
}

// ---- prediction ----

/// Share of the time in which the average place for a block works, if each works at its own pace.
double balance(unsigned rows, unsigned blocks, unsigned fit) {
  const double in_turn = double(rounds(blocks, fit)) * ceil_div(rows, blocks);
  return rows / (std::min(blocks, fit) * in_turn);
}

// ---- the experiment ----

/// The words, the sums of the most threads, and what these must be.
double bytes_needed(size_t rows, Places p) {
  const double threads = std::max(p.most_blocks() * block_threads, few[0].total());
  return bytes_read({unsigned(rows), text_size.columns}) + 8.0 * threads;
}
/// The text's array, or as many rows as fit.
Size size_of(const Run& run) {
  const Places p = most_places(run);
  return {unsigned(fitting_size("blocks", 0, text_size.rows, run.memory_there(),
                                [p](size_t rows) { return bytes_needed(rows, p); })),
          text_size.columns};
}

template <class Memory>
Sheet measure_sweep(const Run& run, Memory& array, Size size, Places p) {
  const auto blocks_of = [](const Row& row) { return unsigned(row.ref.at); };
  const auto launch = [=](const Row& row) { return Launch{blocks_of(row), block_threads}; };
  const auto part = [=](const Row& row) {
    return Size{part_of(size.rows, blocks_of(row)), size.columns};
  };
  const auto device = [&run](double value) { return run.device ? value : double(NAN); };
  Sheet sheet(
      run, "blocks",
      {number(predicted("rounds", "rounds", "", 0),
              [=](const Row& row) { return device(rounds(blocks_of(row), p.fit)); }),
       number(predicted("rows per block", "rows a block", "", 0),
              [=](const Row& row) { return ceil_div(part(row).rows, blocks_of(row)); }),
       number(saved_only(predicted("", "bytes in flight", "bytes", 0)),
              [=](const Row& row) { return device(bytes_in_flight(launch(row), p.fit)); }),
       milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
       in_unit(measured("balanced", "bandwidth with the rows' imbalance taken out", "GB/s", 0),
               [=](const Row& row, double ms) {
                 return gbs_of(row, ms) / balance(part(row).rows, blocks_of(row), p.fit);
               })},
      "blocks");
  const std::set<unsigned> shown_counts = printed(size.rows, p);
  for (const unsigned b : swept(size.rows, p, run.full))
    sheet.add({.ref = row_of(b),
               .bytes = bytes_read({part_of(size.rows, b), size.columns}),
               .calibrates = b == p.multiprocessors,
               .printed = shown_counts.count(b) > 0});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return row_task(array(), row.ref, sum_rows, launch(row), part(row).rows);
  });
  const Launch calibration{p.multiprocessors, block_threads};
  const Size calibrated{part_of(size.rows, p.multiprocessors), size.columns};
  const double latency =
      sheet.ms(row_of(p.multiprocessors)) / loads_in_turn(calibrated, calibration, p.fit);
  sheet.predict([&](const Row& row) {
    if (!run.device) return double(NAN);
    return predicted_ms(part(row), launch(row), p.fit, latency, run.device->theoretical_gbs);
  });
  sheet.print({"the model: rounds x rows per block x " +
                   std::to_string(ceil_div(size.columns, block_threads)) + " loads x " +
                   fixed(1e6 * latency, 0) +
                   " ns, which a load takes with a block on each "
                   "multiprocessor",
               "balanced: the rate if no place for a block had to wait for another"});
  return sheet;
}

// What the claims need of the sweep. These numbers of blocks are measured again, in turn, as rows
// of their own, since what was best by chance is not best twice.
const Ref best = "best";          // of all
const Ref best_few = "best_few";  // of those up to 1024
const Ref worst = "worst";        // from the best on to 2048
// the largest fall of the rate from a number of blocks to the next, of up to 8 per multiprocessor
const Ref before_fall = "before_fall", after_fall = "after_fall";

struct Chosen {
  // where nothing was measured, numbers that are in every sweep
  unsigned best = chart_end, best_few = chart_end, worst = most, before_fall = 512;
  double fall_few = NAN;   ///< share of the rate that is lost behind before_fall
  double fall_many = NAN;  ///< the largest such share beyond 8 blocks per multiprocessor
};

/// `rate`: of so many blocks; any unit.
Chosen choose(const std::set<unsigned>& counts, unsigned multiprocessors,
              const Function<double(unsigned)>& rate) {
  Chosen found;
  for (const unsigned b : counts) {
    if (b <= most && rate(b) > rate(found.best)) found.best = b;
    if (b <= chart_end && rate(b) > rate(found.best_few)) found.best_few = b;
  }
  for (const unsigned b : counts)
    if (b > found.best && b <= most && (found.worst <= found.best || rate(b) < rate(found.worst)))
      found.worst = b;
  for (const unsigned b : counts) {
    if (b + 1 > most || counts.count(b + 1) == 0) continue;
    const double fall = 1 - rate(b + 1) / rate(b);
    const bool is_few = b < 8 * multiprocessors;
    double& largest = is_few ? found.fall_few : found.fall_many;
    if (!(fall > largest) && std::isfinite(largest)) continue;
    if (is_few && std::isfinite(fall)) found.before_fall = b;
    largest = fall;
  }
  return found;
}

/// What the sweep chose passes the gate, so that a recorded run is judged by its own choice.
Chosen choose(const Run& run, const Sheet& sweep, Size size, Places p) {
  Chosen found = choose(swept(size.rows, p, run.full), p.multiprocessors,
                        [&](unsigned b) { return part_of(size.rows, b) / sweep.ms(row_of(b)); });
  const auto through_gate = [&run](const Ref& ref, unsigned& blocks) {
    const double answer = ask(run, ref, "blocks", "", [&] { return single(blocks); }).median;
    if (answer >= 1) blocks = unsigned(answer);
  };
  through_gate(best, found.best);
  through_gate(best_few, found.best_few);
  through_gate(worst, found.worst);
  through_gate(before_fall, found.before_fall);
  const auto measured_fall = [](double value) {
    return std::isfinite(value) ? single(value) : Statistics{};
  };
  ask(run, "falls", "the largest of few blocks", "%",
      [&] { return measured_fall(100 * found.fall_few); });
  ask(run, "falls", "of many over few", "times",
      [&] { return measured_fall(found.fall_many / found.fall_few); });
  return found;
}

/// What the text names, and what the sweep has chosen, again and in turn.
template <class Memory>
void measure_again(const Run& run, Memory& array, Size size, Places p, const Chosen& chosen) {
  struct Again {
    Ref ref;
    std::string words;
    Launch launch;
  };
  const auto of_192 = [](const Ref& ref, const std::string& words, unsigned b) {
    const std::string blocks = std::to_string(b);
    return Again{ref, words.empty() ? blocks : words + ", " + blocks, {b, block_threads}};
  };
  std::vector<Again> launches;
  for (const unsigned b : {named[0], named[1], named[2], named[3], 1000u})
    launches.push_back(of_192(again(b), "", b));
  launches.push_back(of_192("two_thirds", "two thirds of what fits", two_thirds(p)));
  launches.push_back(of_192(best, "the best", chosen.best));
  launches.push_back(of_192(best_few, "the best up to 1024", chosen.best_few));
  launches.push_back(of_192(worst, "the worst from the best on", chosen.worst));
  launches.push_back(of_192(before_fall, "before the largest fall", chosen.before_fall));
  launches.push_back(of_192(after_fall, "one block more", chosen.before_fall + 1));
  for (const Launch l : few)
    launches.push_back(
        {row_of(l), std::to_string(l.blocks) + " of " + std::to_string(l.threads) + " threads", l});
  const auto launch = [&launches](const Row& row) {
    return std::ranges::find_if(launches, [&row](const Again& a) { return same(a.ref, row.ref); })
        ->launch;
  };
  const auto rows_of = [size](Launch l) { return part_of(size.rows, l.blocks); };

  Sheet sheet(run, "again, blocks",
              {in_unit(measured("ms", "time", "ms", 4), [](const Row&, double ms) { return ms; }),
               spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of)},
              "blocks");
  for (const Again& a : launches)
    sheet.add(
        {.ref = a.ref, .words = a.words, .bytes = bytes_read({rows_of(a.launch), size.columns})});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return row_task(array(), row.ref, sum_rows, launch(row), rows_of(launch(row)));
  });
  sheet.print();
}

void run_blocks(const Run& run) {
  const Size size = size_of(run);
  run.report.begin("blocks", "sum by rows of " + std::to_string(size.rows) + " x " +
                                 std::to_string(size.columns) + " float, " +
                                 bytes_text(bytes_read(size)) + ", blocks of 192 threads");
  const Places p = places_of(run);
  const unsigned threads = std::max(p.most_blocks() * block_threads, few[0].total());
  SharedByTasks array([=] { return RowArray(size, threads); });
  const Sheet sweep = measure_sweep(run, array, size, p);
  keep(run, "resident", "blocks", "", single(p.fit));
  const Chosen chosen = choose(run, sweep, size, p);
  measure_again(run, array, size, p, chosen);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const auto kept = [&run](const Ref& ref, const char* metric = "blocks") {
    return run.results->value(ref, metric).value.median;
  };
  const auto fit = unsigned(kept("resident"));
  const std::string best_count = std::to_string(unsigned(kept(best)));
  const unsigned sms = run.device ? unsigned(run.device->prop.multiProcessorCount) : 16;
  const Size size = size_of(run);
  const std::string in_cache = run.device && !beyond_l2(*run.device, bytes_read(size))
                                   ? "the array is less than four times the L2"
                                   : "";
  const auto per_byte = [](Ref slow, Ref fast) {
    return Comparison{.slow = std::move(slow), .fast = std::move(fast), .per_byte = true};
  };
  std::vector<Comparison> as_best, with_few, one_more, idle;
  for (const unsigned b : named) as_best.push_back(per_byte(again(b), best_few));
  for (const Launch l : few) with_few.push_back(per_byte(row_of(l), best));
  for (const unsigned rounds : {1u, 2u})
    one_more.push_back(per_byte(row_of(rounds * fit + 1), row_of(rounds * fit)));
  for (const unsigned times : {1u, 2u, 4u})
    idle.push_back(per_byte(row_of(times * sms + 1), row_of(times * sms)));
  const bool jumps = kept("falls", "the largest of few blocks") >= 2;  // percent
  return {
      {.part = {"04.7a", "few blocks: from a number to the next the rate jumps down by 15-20%",
                "15-20%", "8800 GTX", g80},
       .rule = beats(1.15, 1.25),  // 15 to 20% of the lower or of the higher rate
       .pairs = {per_byte(after_fall, before_fall)},
       .unless = in_cache},
      {.part = {"04.7b", "the jumps shrink as the number of blocks grows", "shrink, no figure",
                "8800 GTX", g80},
       .rule = at_most(1),
       .levels = {{.ref = "falls", .metric = "of many over few"}},
       .unless = !in_cache.empty() ? in_cache
                 : run.device && !jumps
                     ? "no jump of few blocks is larger than 2%: there is nothing to shrink"
                     : ""},
      {.part = {"04.7c", "256, 512, 640 and 768 blocks each reach the best rate up to 1024",
                "peaks of the chart", "8800 GTX", g80},
       .rule = costs_as_much(),
       .pairs = as_best,
       .here = "the best up to 1024 of the sweep is " + std::to_string(unsigned(kept(best_few))),
       .unless = in_cache},
      {.part = {"04.7d", "more blocks than the best do no harm", "no harm", "8800 GTX"},
       .rule = costs_as_much(),
       .pairs = {per_byte(worst, best)},
       .here = "the best of the sweep is " + best_count + ", the worst beyond it is " +
               std::to_string(unsigned(kept(worst))),
       .unless = kept(best) == most ? "the best of the sweep is its last" : in_cache},
      {.part = {"04.12", "32 blocks of 256 threads, or 64 of 128, each come near the best rate",
                "nearly the highest rate", "8800 GTX", g80},
       .rule = costs_as_much(),
       .pairs = with_few,
       .unless = in_cache,
       // two thirds of the threads that are resident, as they were on the 8800 GTX
       .found = {per_byte("two_thirds", best)}},
      {.part = {"04.13b", "1000 blocks are better than 100", "better, no figure",
                "the vendor's guide"},
       .rule = beats(),
       .pairs = {per_byte(row_of(100), row_of(1000))},
       .unless = in_cache},
      {.part = {"04.13c", "1000 blocks are enough for several generations of GPUs",
                "enough, no figure", "the vendor's guide"},
       .rule = costs_as_much(),
       .pairs = {per_byte(again(1000), best)},
       .here = "the best of the sweep is " + best_count,
       .unless = in_cache},
      {.part = {"04.14",
                "whole rounds of the blocks that fit at once are better than one block more",
                "advice, no figure", "the vendor, in private"},
       .rule = beats(),
       .pairs = one_more,
       .unless = in_cache},
      {.part = {"04.16", "blocks that are no multiple of the multiprocessors leave some idle",
                "no figure", "the study of 2007"},
       .rule = beats(),
       .pairs = idle,
       .unless = in_cache},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const Size size = size_of(run);
  return {.allocated = bytes_needed(size.rows, most_places(run)), .touched = bytes_read(size)};
}

std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(n))) + 1;
  std::vector<Checked> all;
  for (const Size size : {Size{side, side}, Size{7, side}, Size{side, 31}})
    for (const unsigned b : {1u, 2u, 31u, 132u, 1321u, 2048u}) {
      const Launch l{b, block_threads};
      const Shared array(RowArray(size, l.total() + 5));
      all.push_back({.task = row_task(array, row_of(b), sum_rows, l, size.rows),
                     .elements = l.total(),
                     .change_one = [array] { array->out.change(5); }});
    }
  return all;
}

}  // namespace

extern const Experiment blocks_experiment{.name = "blocks",
                                          .about = "summing with 1 to 2048 blocks",
                                          .run = run_blocks,
                                          .claims = claims,
                                          .needs = needs,
                                          .tasks = tasks};
