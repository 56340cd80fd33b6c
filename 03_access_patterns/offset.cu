// offset: a coalesced read that begins 0 to 64 words past the alignment. The wiki has a misaligned
// warp use 50% of the bus through L1, in lines of 128 bytes, and 80% past it, in segments of 32
// [LC 3.4]. Today a warp wants five sectors instead of four either way, or again four if the offset
// is a whole number of sectors. Look at how exactly the rate from L2 follows that; and from memory
// at offsets 8, 16 and 24: four sectors, but in two lines, and that alone costs as much.
//   cmake -S 03_access_patterns -B build/offset -DEXPERIMENTS=offset
//   cmake --build build/offset && build/offset/03_access_patterns
//
//   1  read_offset          lane i of a warp reads word i + offset, through L1
//   2  read_offset_past_l1  the same past L1, over and over
#include <algorithm>
#include <cmath>

#include "reads.cuh"
#include "transactions.hpp"

namespace {

// ---- kernels: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read_offset]
// A warp reads 32 neighbouring words: 4 sectors of 32 bytes if they begin where a sector does, else
// 5. They lie in one line of 128 bytes if they begin where a line does, else in two.
__global__ void read_offset(unsigned* out, const unsigned* in, size_t n, size_t offset) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads under way
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads + offset];
  }
  for (; i < n; i += threads) sum += in[i + offset];  // what is left
  out[tid] = sum;
}
// [/read_offset]

// The same, `passes` times over an array that stays in L2. The loads go past L1 (ld.global.cg),
// since most of the array would stay in there, too.
__global__ void read_offset_past_l1(unsigned* out, const unsigned* in, size_t n, size_t offset,
                                    unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldcg(in + i + k * threads + offset);
    }
    for (; i < n; i += threads) sum += __ldcg(in + i + offset);
  }
  out[tid] = sum;
}

// ---- the two ways ----

constexpr size_t largest_offset = 64;  // words: two lines of 128 bytes

enum class From { l2, memory };

const char* name_of(From from) { return from == From::l2 ? "from L2, past L1" : "from memory"; }
/// Passes of a launch over the array, so that the launch itself counts for little.
unsigned passes_of(From from) { return from == From::l2 ? 32 : 1; }

/// Words that are read: all but the last ones, which the largest offset needs.
size_t words_read(const Words& memory) { return memory.in.size() - largest_offset; }

Task task_of(Words& memory, From from, size_t offset) {
  const size_t n = words_read(memory);
  const unsigned passes = passes_of(from);
  const auto launch = [&memory, n, offset, from, passes] {
    const unsigned blocks = memory.grid.blocks;
    unsigned* const out = memory.sums.data();
    const unsigned* const in = memory.in.data();
    if (from == From::l2)
      read_offset_past_l1<<<blocks, block_threads>>>(out, in, n, offset, passes);
    else
      read_offset<<<blocks, block_threads>>>(out, in, n, offset);
  };
  // what is right: all words from `offset` on, one for each thread in turn
  return memory.task("offset " + std::to_string(offset) + " " + name_of(from), launch,
                     Slots{offset, 1, n, 1, passes});
}

// ---- what to expect ----

Warp offset_warp(size_t offset) {
  return warp_of(4, [=](unsigned lane) { return lane + offset; });
}

double used(Rule rule, size_t offset) { return under(rule, offset_warp(offset)).utilisation(); }

constexpr size_t mid_line = 16;  // four sectors, as at offset 0, but in two lines

/// The model's constants; GB/s.
struct Calibrated {
  double aligned = NAN;    ///< at offset 0
  double two_lines = NAN;  ///< at offset 16; from L2 a line more costs nothing
};

/// The slower of two: the share of the sectors that is used, and a second line.
double predicted_gbs(size_t offset, const Calibrated& c) {
  const double by_sectors = c.aligned * used(Rule::sectors, offset);
  if (lines(offset_warp(offset)) == 1 || !std::isfinite(c.two_lines)) return by_sectors;
  return std::min(by_sectors, c.two_lines);
}

// ---- the experiment ----

std::vector<size_t> offsets(bool full) {
  if (!full)
    return {0, 1, 4, 8, 12, 16, 20, 24, 28, 31, 32, 33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  std::vector<size_t> all;
  for (size_t offset = 0; offset <= largest_offset; ++offset) all.push_back(offset);
  return all;
}

/// Times of all offsets, in turn: they are compared with each other. Empty without a GPU.
std::vector<Readings> measure(const Run& run, From from, size_t words) {
  std::vector<Readings> times(offsets(run.full).size());
  if (!run.device) return times;
  Words memory(words + largest_offset, resident_grid(*run.device));
  std::vector<Task> tasks;
  for (const size_t offset : offsets(run.full)) tasks.push_back(task_of(memory, from, offset));
  return run.time_in_turn(tasks);
}

const Readings& at(const Run& run, const std::vector<Readings>& times, size_t offset) {
  const std::vector<size_t> all = offsets(run.full);
  return times[size_t(std::find(all.begin(), all.end(), offset) - all.begin())];
}

void show(const Run& run, From from, size_t words, const std::vector<Readings>& times) {
  const double bytes = 4.0 * double(words) * passes_of(from);
  const auto gbs_of = [&](size_t offset) {
    return gigabytes_per_second(bytes, at(run, times, offset).statistics());
  };
  Calibrated c{gbs_of(0).median, NAN};
  if (from == From::memory) c.two_lines = gbs_of(mid_line).median;
  Table table(
      run.report, std::string(name_of(from)) + ", offset in words",
      {predicted("sectors/request", "load sectors a request", "", 0),
       predicted("lines", "lines a request", "", 0), predicted("used %", "used", "%", 0),
       compared("GB/s", "bandwidth", "GB/s", 0), shown("spread"), shown("of offset 0"), shown("")});
  for (const size_t offset : offsets(run.full)) {
    const Warp warp = offset_warp(offset);
    const Statistics gbs = gbs_of(offset);
    const double share = gbs.median / c.aligned;
    Cell rate = Compared{predicted_gbs(offset, c), gbs};
    if (!run.device) rate = Cell();
    const bool calibrates = offset == 0 || (from == From::memory && offset == mid_line);
    if (run.device && calibrates) rate = Calibration{gbs};
    table.row(
        {name_of(from), "offset, words", std::to_string(offset)},
        {double(sectors(warp)), double(lines(warp)), 100 * used(Rule::sectors, offset), rate,
         spread_text(gbs), std::isfinite(share) ? fixed(100 * share, 0) + "%" : "-", bar(share)});
  }
  table.print();
}

/// The offset that costs most, of those that were measured.
size_t worst_of(const Run& run, const std::vector<Readings>& times) {
  size_t worst = 0;
  for (const size_t offset : offsets(run.full))
    if (at(run, times, offset).median() > at(run, times, worst).median()) worst = offset;
  return worst;
}

constexpr size_t misaligned = 1;  // words, as the wiki draws it

void judge_misaligned(const Run& run, const std::vector<Readings>& from_memory, bool in_cache) {
  const char* const wiki = "the wiki's count";
  run.report.not_judged({"03.1a", "misaligned loads through L1 use 50% of the bus", "50%", wiki},
                        "before Pascal: through L1, too, a sector is moved, not a line");
  const double share = used(Rule::sectors, misaligned);
  run.report.judge_fact(
      {"03.1b", "misaligned loads past L1 use 80% of the bus", "80%", wiki, {}, true}, share == 0.8,
      share_text(exactly(share)) + ", " + std::to_string(sectors(offset_warp(misaligned))) +
          " sectors for 4, computed; through L1 as well");

  const Part time{"03.1c", "misalignment costs little time: less than half as much again",
                  "no figure", "the wiki"};
  if (in_cache) return run.report.not_judged(time, "the array is less than four times the L2");
  const Interval cost = ratio(at(run, from_memory, misaligned), at(run, from_memory, 0));
  Criterion little = gains_nothing();  // by aligning, or at least not "much"
  little.bound = much;
  run.report.judge(time, little, cost, slower(cost) + " a word off, from memory");
  const size_t worst = worst_of(run, from_memory);
  if (cost.measured())
    run.report.finding("03.1c",
                       "the worst offset, " + std::to_string(worst) + " words: " +
                           slower(ratio(at(run, from_memory, worst), at(run, from_memory, 0))));
}

}  // namespace

void offset(const Run& run) {
  const size_t bytes = bytes_to_read(run, size_t(1) << 30, 1);
  const size_t words = bytes / 4 - largest_offset;
  run.report.begin("offset", std::to_string(words) + " words of 4 bytes, " +
                                 bytes_text(double(bytes)) + ", and a quarter of the L2");
  const size_t in_l2 =
      run.device ? words_within_l2(run.device->l2_bytes(), resident_grid(*run.device)) : 0;
  if (run.device) show(run, From::l2, in_l2, measure(run, From::l2, in_l2));
  const std::vector<Readings> from_memory = measure(run, From::memory, words);
  show(run, From::memory, words, from_memory);
  run.report.note(
      "predicted: the used share of the sectors, of the rate at offset 0; from memory no");
  run.report.note("more than at offset 16, where nothing but a second line is wanted");
  if (!run.device) run.report.left_out("the bandwidth at each offset");
  judge_misaligned(run, from_memory, run.device && !beyond_l2(*run.device, double(bytes)));
}
