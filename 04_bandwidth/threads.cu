// threads: an array is added up by rows, by 1024 blocks of 16 to 1024 threads. In the study of 2007
// [BW, chart 1] a number of threads that was no multiple of 16 lost most of the bandwidth. Beyond
// 384 threads a block was alone on its multiprocessor, and the rate fell. Two things to look at:
//   - Alignment no longer decides: 33 threads are faster than 32.
//   - Rounds do. A thread has one load in flight, so what counts is how many loads follow one
//     another, and how many blocks fit at once.
//
//   cmake -S 04_bandwidth -B build/threads -DEXPERIMENTS=threads
//   cmake --build build/threads && build/threads/04_bandwidth
//
//   1  sum_rows   a block takes rows, its lanes read neighbouring words
#include "row_sum.cuh"

using namespace samples;

// ---- kernel: `rows` rows of `columns` words; thread t writes its own sum to out[t] ----

// [sum_rows]
// A block takes every gridDim.x-th row, and steps along it. A warp reads 32 neighbouring words: 4
// sectors of 32 bytes. If a block's threads are no multiple of 8, warps begin inside a sector, and
// read 5.
static __global__ void sum_rows(float* out, const float* in, unsigned rows, unsigned columns) {
  float sum = 0;
  for (unsigned row = blockIdx.x; row < rows; row += gridDim.x)
  // one load in flight per thread, whatever the compiler thinks best, so that only the number of
  // threads decides how many bytes are in flight
#pragma unroll 1
    for (unsigned col = threadIdx.x; col < columns; col += blockDim.x)
      sum += in[size_t(row) * columns + col];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/sum_rows]

namespace {

// ---- the launches ----

constexpr unsigned blocks = 1024;
constexpr unsigned least = 16, most = 1024;
constexpr unsigned named[] = {192, 256, 320, 384};  // the text's best

/// Rows of the table: where the 1024 blocks need one round more, and what is on either side.
const std::set<unsigned> printed{16, 32, 64, 128, 192, 256, 257, 384, 512, 513, 672, 1024};

/// A number of threads, and one beside it with which it is compared.
struct Beside {
  unsigned count, other;
};
/// What is no multiple of `step`, beside the multiple: from 128 threads on, as far as the text's
/// chart goes.
std::vector<Beside> beside_multiples(std::initializer_list<unsigned> multiples) {
  std::vector<Beside> all;
  for (const unsigned m : multiples) {
    all.push_back({m - 1, m});
    all.push_back({m + 1, m});
  }
  return all;
}
const std::vector<Beside> of_16 = beside_multiples({128, 192, 256, 320, 384, 448, 512});
const std::vector<Beside> of_8 = beside_multiples({136, 200, 264, 392});  // no multiples of 16
const std::vector<Beside> of_4 = beside_multiples({132, 196, 260, 388});  // no multiples of 8
/// The text's own examples: odd multiples of 16, and the multiples of 32 beside them.
const std::vector<Beside> of_32 = {{112, 96}, {112, 128}, {272, 256}, {272, 288}};

/// Threads per block to sweep over: every number, or multiples of 32 and what the claims compare.
std::set<unsigned> swept(bool full) {
  std::set<unsigned> counts = printed;
  counts.insert({304, 400, 673});
  for (const auto* pairs : {&of_16, &of_8, &of_4, &of_32})
    for (const Beside& pair : *pairs) counts.insert({pair.count, pair.other});
  for (unsigned t = least; t <= most; ++t)
    if (full || t % 32 == 0) counts.insert(t);
  return counts;
}

Ref row_of(unsigned threads) { return {"sum_rows", double(threads)}; }
/// The same launch, measured again in turn with the best of the sweep.
Ref again(unsigned threads) { return {"sum_rows_again", double(threads)}; }
/// The best of the sweep, measured again: what was best by chance is not best twice.
const Ref best = "best";
unsigned threads_of(const Ref& ref) { return unsigned(ref.at); }

// ---- prediction ----

/// The launch from which a load's latency is known: enough threads for a load to meet others on its
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

/// The words, the sums of the most threads, and what these must be.
double bytes_needed(size_t rows) {
  return bytes_read({unsigned(rows), text_size.columns}) + 8.0 * blocks * most;
}
/// The text's array, or as many rows as fit.
Size size_of(const Run& run) {
  return {unsigned(fitting_size("threads", 0, text_size.rows, run.memory_there(), bytes_needed)),
          text_size.columns};
}

/// Of a sweep, the number of threads with the shortest time. It passes the gate, so that a recorded
/// run is judged by its own choice.
unsigned best_of(const Run& run, const Sheet& sweep) {
  unsigned found = named[0];
  for (const unsigned t : swept(run.full))
    if (sweep.ms(row_of(t)) < sweep.ms(row_of(found))) found = t;
  const double answer =
      ask(run, best, "threads per block", "", [&] { return single(found); }).median;
  return answer >= 1 ? unsigned(answer) : found;
}

template <class Memory>
Sheet measure_sweep(const Run& run, Memory& array, Size size) {
  std::vector<unsigned> fit(most + 1);  // of so many threads per block
  for (const unsigned t : swept(run.full)) fit[t] = blocks_at_once(run, row_of(t), sum_rows, t);
  const auto fit_of = [fit](const Row& row) { return fit[threads_of(row.ref)]; };
  const auto launch = [](const Row& row) { return Launch{blocks, threads_of(row.ref)}; };
  const auto device = [&run](double value) { return run.device ? value : double(NAN); };
  Sheet sheet(
      run, "threads per block",
      {number(shown("blocks at once"), [=](const Row& row) { return device(fit_of(row)); }),
       number(predicted("rounds", "rounds", "", 0),
              [=](const Row& row) { return device(rounds(blocks, fit_of(row))); }),
       number(
           predicted("loads in turn", "loads in turn", "", 0),
           [=](const Row& row) { return device(loads_in_turn(size, launch(row), fit_of(row))); }),
       number(saved_only(predicted("", "bytes in flight", "bytes", 0)),
              [=](const Row& row) { return device(bytes_in_flight(launch(row), fit_of(row))); }),
       number(saved_only(predicted("", "requests a row", "", 0)),
              [=](const Row& row) {
                return traffic_of_a_row(size.columns, threads_of(row.ref)).requests;
              }),
       number(predicted("sectors/row", "sectors a row", "", 0),
              [=](const Row& row) {
                return traffic_of_a_row(size.columns, threads_of(row.ref)).sectors;
              }),
       milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of)},
      "threads");
  for (const unsigned t : swept(run.full))
    sheet.add({.ref = row_of(t),
               .bytes = bytes_read(size),
               .calibrates = t == calibrating,
               .printed = printed.count(t) > 0});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return row_task(array(), row.ref, sum_rows, launch(row), size.rows);
  });
  if (run.device) {
    const Launch calibration{blocks, calibrating};
    const double latency =
        sheet.ms(row_of(calibrating)) / loads_in_turn(size, calibration, fit[calibrating]);
    sheet.predict([&](const Row& row) {
      return predicted_ms(size, launch(row), fit_of(row), latency, run.device->theoretical_gbs);
    });
    sheet.print({"the model: loads in turn x " + fixed(1e6 * latency, 0) +
                 " ns, which a load takes with " + std::to_string(calibrating) + " threads"});
  } else {
    sheet.print();
  }
  return sheet;
}

/// The best of the sweep, and what the text names, again and in turn.
template <class Memory>
void measure_again(const Run& run, Memory& array, Size size, unsigned best_threads) {
  Sheet sheet(run, "again, threads per block",
              {in_unit(measured("ms", "time", "ms", 4), [](const Row&, double ms) { return ms; }),
               spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of)},
              "threads");
  for (const unsigned t : {16u, 32u, named[0], named[1], named[2], named[3]})
    sheet.add({.ref = again(t), .bytes = bytes_read(size)});
  sheet.add({.ref = best,
             .words = "the best, " + std::to_string(best_threads),
             .bytes = bytes_read(size)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const unsigned t = same(row.ref, best) ? best_threads : threads_of(row.ref);
    return row_task(array(), row.ref, sum_rows, {blocks, t}, size.rows);
  });
  sheet.print();
}

void run_threads(const Run& run) {
  const Size size = size_of(run);
  run.report.begin("threads", "sum by rows of " + std::to_string(size.rows) + " x " +
                                  std::to_string(size.columns) + " float, " +
                                  bytes_text(bytes_read(size)) + ", 1024 blocks");
  SharedByTasks array([size] { return RowArray(size, blocks * most); });
  const Sheet sweep = measure_sweep(run, array, size);
  measure_again(run, array, size, best_of(run, sweep));
}

// ---- claims ----

std::vector<Comparison> slower_than(const std::vector<Beside>& pairs) {
  std::vector<Comparison> all;
  for (const Beside& pair : pairs)
    all.push_back({.slow = row_of(pair.count), .fast = row_of(pair.other)});
  return all;
}

/// Beyond so many threads only one block is resident on a multiprocessor; 0 where two blocks of any
/// size are.
unsigned last_with_two(const Run& run) {
  if (!run.device || run.device->prop.maxThreadsPerMultiProcessor >= int(2 * most)) return 0;
  return unsigned(run.device->prop.maxThreadsPerMultiProcessor) / 2 / 32 * 32;
}

std::vector<Claim> claims(const Run& run) {
  const auto best_threads = unsigned(run.results->value(best, "threads per block").value.median);
  const std::string in_cache = run.device && !beyond_l2(*run.device, bytes_read(size_of(run)))
                                   ? "the array is less than four times the L2"
                                   : "";
  const std::string beside_best = "the best of the sweep is " + std::to_string(best_threads);
  Criterion far_slower = beats(6.5, 7);
  far_slower.bound = much;  // the text says: several times
  std::vector<Comparison> as_best;
  for (const unsigned t : named) as_best.push_back({.slow = again(t), .fast = best});
  const unsigned two = last_with_two(run);
  return {
      {.part = {"04.5a",
                "threads that are no multiple of 16 are far slower than the multiple beside",
                "6.5x to 7x slower, 10 of 65-70 GB/s", "8800 GTX", g80},
       .rule = far_slower,
       .pairs = slower_than(of_16),
       .unless = in_cache},
      {.part = {"04.5b", "16 threads are 3 to 4 times off the best", "3 to 4 times", "8800 GTX",
                g80},
       .rule = from_to(3, 4),
       .pairs = {{.slow = again(16), .fast = best}},
       .unless = in_cache},
      {.part = {"04.5c", "32 threads are 1.5 to 2 times off the best", "1.5 to 2 times", "8800 GTX",
                g80},
       .rule = from_to(1.5, 2),
       .pairs = {{.slow = again(32), .fast = best}},
       .unless = in_cache},
      {.part = {"04.5d", "multiples of 4 threads are faster than their neighbours",
                "faster, no figure", "8800 GTX", g80},
       .rule = beats(),
       .pairs = slower_than(of_4),
       .unless = in_cache},
      {.part = {"04.5e", "multiples of 8 threads are noticeably faster than their neighbours",
                "noticeably, no figure", "8800 GTX", g80},
       .rule = much_beats(),
       .pairs = slower_than(of_8),
       .unless = in_cache},
      {.part = {"04.5f", "multiples of 32 threads beat the odd multiples of 16 beside them",
                "noticeably, no figure", "8800 GTX", g80},
       .rule = beats(),
       .pairs = slower_than(of_32),
       .unless = in_cache},
      {.part = {"04.6a", "192, 256, 320 and 384 threads each reach the best rate", "chart",
                "8800 GTX", g80},
       .rule = costs_as_much(),
       .pairs = as_best,
       .here = beside_best,
       .unless = in_cache},
      {.part = {"04.6b", "right beyond 384 threads the rate falls", "chart", "8800 GTX", g80},
       .rule = beats(),
       .pairs = {{.slow = row_of(400), .fast = row_of(384)}},
       .unless = in_cache},
      {.part = {"04.6c", "it falls where only one block per multiprocessor remains", "the cause",
                "8800 GTX", g80},
       .rule = beats(),
       .pairs = {{.slow = row_of(two ? two + 32 : most), .fast = row_of(two ? two : most - 32)}},
       .unless =
           run.device && !two ? "two blocks of 1024 threads fit on a multiprocessor" : in_cache},
      {.part = {"04.13a", "192 or 256 threads per block are better than 64", "better, no figure",
                "the vendor's guide"},
       .rule = beats(),
       .pairs = {{.slow = row_of(64), .fast = row_of(192)},
                 {.slow = row_of(64), .fast = row_of(256)}},
       .unless = in_cache},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const Size size = size_of(run);
  return {.allocated = bytes_needed(size.rows), .touched = bytes_read(size)};
}

std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(n))) + 1;
  std::vector<Checked> all;
  for (const Size size : {Size{side, side}, Size{7, side}, Size{side, 31}})
    for (const unsigned t : {1u, 16u, 17u, 31u, 33u, 192u, 193u, 1023u, 1024u}) {
      const Launch l{blocks, t};
      const Shared array(RowArray(size, l.total() + 5));
      all.push_back({.task = row_task(array, row_of(t), sum_rows, l, size.rows),
                     .elements = l.total(),
                     .change_one = [array] { array->out.change(5); }});
    }
  return all;
}

}  // namespace

extern const Experiment threads_experiment{.name = "threads",
                                           .about = "summing with 16 to 1024 threads per block",
                                           .run = run_threads,
                                           .claims = claims,
                                           .needs = needs,
                                           .tasks = tasks};
