// coalescing: one instruction of a warp, 32 addresses, and the pieces of memory that move for it.
// The texts give the rules of five generations: half-warps in order (1.0) and in any order (1.2)
// [DD], lines of 128 bytes on Fermi and Kepler, segments of 32 past their L1 [LC 3.1-3.4], and
// today's sectors. Look at the drawings, which need no GPU: which words move for nothing, under the
// rules of each generation. (Through L1 on 2.x more did than on 1.2.) On a GPU the time of each
// pattern follows.
//   cmake -S 03_access_patterns -B build/coalescing -DEXPERIMENTS=coalescing
//   cmake --build build/coalescing && build/coalescing/03_access_patterns
//
//   1  read_in_order      a warp reads the 32 words of a line
//   2  read_permuted      the same words, lanes exchanged
//   3  read_next_word     a word further: five sectors
//   4  read_next_sector   a sector further: four sectors in two lines
//   5  read_same          all lanes the same word
//   6  read_every_second  lanes with odd numbers are idle
//   7  read_scattered     each lane a word of another line
#include <algorithm>

#include "drawing.hpp"
#include "reads.cuh"

namespace {

// ---- kernels: at each step warp w of all `warps` reads one region, from `in` on: regions w, w +
// warps, w + 2 warps ... are lines of 32 words. Each thread adds up what it read, into out. ----

constexpr unsigned line_words = 32;

// [read_in_order]
// Lane i takes word i of the line: 4 sectors of 32 bytes, all of them used.
__global__ void read_in_order(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {  // eight loads under way
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words + lane];
  }
  for (; region < regions; region += warps) sum += in[region * line_words + lane];  // what is left
  out[tid] = sum;
}
// [/read_in_order]

// [read_permuted]
// Lanes 0, 1, 2, 3 ... take words 0, 11, 22, 1 ... of the line, each word once: the same 4 sectors.
__global__ void read_permuted(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words + lane * 11 % 32];
  }
  for (; region < regions; region += warps) sum += in[region * line_words + lane * 11 % 32];
  out[tid] = sum;
}
// [/read_permuted]

// The warp's 32 words begin a word behind the line: 5 sectors, the last for one word.
__global__ void read_next_word(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words + lane + 1];
  }
  for (; region < regions; region += warps) sum += in[region * line_words + lane + 1];
  out[tid] = sum;
}

// They begin a sector behind the line: 4 sectors, three of this line and one of the next.
__global__ void read_next_sector(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words + lane + 8];
  }
  for (; region < regions; region += warps) sum += in[region * line_words + lane + 8];
  out[tid] = sum;
}

// All lanes take the first word: one sector, 4 bytes of it used, which the lanes share.
__global__ void read_same(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words];
  }
  for (; region < regions; region += warps) sum += in[region * line_words];
  out[tid] = sum;
}

// Half of the lanes take nothing: still 4 sectors, half of each used.
__global__ void read_every_second(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  if (lane % 2 == 0) {
    size_t region = tid / 32;
    for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * line_words + lane];
    }
    for (; region < regions; region += warps) sum += in[region * line_words + lane];
  }
  out[tid] = sum;
}

constexpr unsigned scattered_words = 32 * line_words;  // a region of 32 lines

// Lanes 0, 1, 2, 3 ... take word 0 of line 0, word 1 of line 11, word 2 of line 22, word 3 of line
// 1 ...: 32 sectors, 4 bytes of each used.
__global__ void read_scattered(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const unsigned lane = threadIdx.x % 32;
  unsigned sum = 0;
  size_t region = tid / 32;
  for (; region + 7 * warps < regions; region += 8 * warps) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k)
      sum += in[(region + k * warps) * scattered_words + lane * 11 % 32 * line_words + lane];
  }
  for (; region < regions; region += warps)
    sum += in[region * scattered_words + lane * 11 % 32 * line_words + lane];
  out[tid] = sum;
}

// ---- the story in order ----

enum Pattern { in_order, permuted, next_word, next_sector, same, every_second, scattered };

struct Read {
  Pattern pattern;
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(unsigned*, const unsigned*, size_t);
  unsigned region_words = line_words;  ///< from one warp's region to the next
};

const Read reads[] = {
    {in_order, "aligned, in order", "read_in_order", read_in_order},
    {permuted, "permuted in the line", "read_permuted", read_permuted},
    {next_word, "misaligned by a word", "read_next_word", read_next_word},
    {next_sector, "misaligned by a sector", "read_next_sector", read_next_sector},
    {same, "one address for all", "read_same", read_same},
    {every_second, "every second lane inactive", "read_every_second", read_every_second},
    {scattered, "scattered", "read_scattered", read_scattered, scattered_words},
};

constexpr unsigned overhang = 8;  // words of the next line that the last region wants at most

/// Regions of an array; the words behind the last one are its overhang.
size_t regions_in(size_t words, const Read& read) { return (words - overhang) / read.region_words; }

// ---- what is right: which lanes take a word of a region, from the texts' descriptions ----

/// The lanes that want word `word` of their region, a bit for each.
__host__ __device__ unsigned takers(Pattern pattern, unsigned word) {
  constexpr unsigned all_lanes = ~0u;
  const unsigned line = word / 32, place = word % 32;
  switch (pattern) {
    case in_order:
      return line == 0 ? 1u << place : 0;
    case permuted:  // the next lane is 11 words on; so the next word is 3 lanes on: 3 x 11 = 33
      return line == 0 ? 1u << 3 * place % 32 : 0;
    case next_word:
      return word >= 1 && word < 33 ? 1u << (word - 1) : 0;
    case next_sector:
      return word >= 8 && word < 40 ? 1u << (word - 8) : 0;
    case same:
      return word == 0 ? all_lanes : 0;
    case every_second:
      return line == 0 && place % 2 == 0 ? 1u << place : 0;
    case scattered:  // the next line is 3 lanes on, too; a lane's place in it is its number
      return line < 32 && place == 3 * line % 32 ? 1u << place : 0;
  }
  return 0;
}

/// Takes each word away from the sums of the lanes that want it, from words to threads.
__global__ void take_away(unsigned* sums, size_t regions, unsigned region_words, size_t warps,
                          Pattern pattern) {
  const unsigned span = region_words + overhang;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < regions * span; i += step) {
    const size_t region = i / span;
    const unsigned word = unsigned(i % span);
    const unsigned lanes = takers(pattern, word);
    for (unsigned lane = 0; lane < 32; ++lane)
      if (lanes >> lane & 1)
        atomicSub(&sums[region % warps * 32 + lane], word_at(region * region_words + word));
  }
}

Task task_of(Words& memory, const Read& read, size_t regions) {
  const auto launch = [&memory, &read, regions] {
    read.kernel<<<memory.grid.blocks, block_threads>>>(memory.sums.data(), memory.in.data(),
                                                       regions);
  };
  const auto subtract = [&memory, &read, regions](unsigned* left) {
    take_away<<<4096, 256>>>(left, regions, read.region_words, memory.grid.threads() / 32,
                             read.pattern);
    CUDA_CHECK_LAUNCH();
  };
  return memory.task(read.name, launch, subtract);
}

// ---- what to expect: the kernels' index as a function of the lane ----

/// The word that a lane takes of its region; -1: none.
int word_of(Pattern pattern, unsigned lane) {
  switch (pattern) {
    case permuted:
      return int(lane * 11 % 32);
    case next_word:
      return int(lane + 1);
    case next_sector:
      return int(lane + 8);
    case same:
      return 0;
    case every_second:
      return lane % 2 ? -1 : int(lane);
    case scattered:
      return int(lane * 11 % 32 * line_words + lane);
    default:
      return int(lane);
  }
}

Warp warp_for(Pattern pattern) {
  return warp_of(4, [=](unsigned lane) { return word_of(pattern, lane); });
}

/// A warp of words of another size, in order. (word_size reads those.)
struct Wide {
  const char* name;
  Warp warp;
};
const Wide wide_words[] = {{"16-bit words", warp_of(2, [](unsigned lane) { return int(lane); })},
                           {"64-bit words", warp_of(8, [](unsigned lane) { return int(lane); })},
                           {"128-bit words", warp_of(16, [](unsigned lane) { return int(lane); })}};

/// How many times as long as in order a load of a warp takes, from memory: the larger of two
/// shares. L1 and L2 pass on sectors; memory hands out pieces of 64 bytes, though not again to the
/// warp that wants the rest of a line at about the same time. That a second line costs time, too,
/// is left out: offset measures it.
double predicted_times(Pattern pattern) {
  const Warp warp = warp_for(pattern);
  const double by_sectors = sectors(warp) / 4.0;
  const bool neighbours_share = pattern == next_word || pattern == next_sector;
  const double by_pieces = neighbours_share ? 1 : pieces(warp, memory_piece) / 2.0;
  return std::max(by_sectors, by_pieces);
}

/// Where all pieces of the array move, the documented sectors decide.
Model model_of(Pattern pattern, const Device* device) {
  return pattern == same || pattern == scattered ? model_of_pieces(device) : Model::traffic;
}

// ---- the experiment ----

void draw_all(const Run& run) {
  explain_drawing(run.report);
  for (const Read& read : reads) draw_rules(run.report, read.name, warp_for(read.pattern));
  for (const Wide& wide : wide_words) draw_rules(run.report, wide.name, wide.warp);

  // headings of page tables, so short and without commas
  constexpr const char* metrics[] = {"used on 1.0", "used on 1.2", "used on 2.x in L1",
                                     "used on 2.x past L1", "used today"};
  std::vector<Column> columns;
  for (const Rule rule : rules)
    columns.push_back(predicted(rule_name(rule), metrics[static_cast<int>(rule)], "%", 3));
  columns.push_back(predicted("sectors/request", "load sectors a request", "", 0));
  Table used(run.report, "% of the moved bytes used", columns);
  const auto add = [&](const char* name, const Warp& warp) {
    std::vector<Cell> cells;
    for (const Rule rule : rules) cells.push_back(100 * under(rule, warp).utilisation());
    cells.push_back(double(sectors(warp)));
    used.row({name}, cells);
  };
  for (const Read& read : reads) add(read.name, warp_for(read.pattern));
  for (const Wide& wide : wide_words) add(wide.name, wide.warp);
  used.print();
}

/// What one run measured, by pattern; empty without a GPU.
struct Measured {
  Readings times[std::size(reads)];
  size_t regions[std::size(reads)] = {};  ///< loads of a warp in each launch

  /// Nanoseconds that a thousand loads of a warp take.
  Statistics ns(Pattern pattern) const {
    return scaled(times[pattern].statistics(), 1e9 / double(regions[pattern]));
  }
};

Measured measure(const Run& run, size_t words) {
  Measured measured;
  if (!run.device) return measured;
  Words memory(words, resident_grid(*run.device));
  std::vector<Task> tasks;
  for (const Read& read : reads) {
    measured.regions[read.pattern] = regions_in(words, read);
    tasks.push_back(task_of(memory, read, measured.regions[read.pattern]));
  }
  const std::vector<Readings> times = run.time_in_turn(tasks);
  for (const Read& read : reads) measured.times[read.pattern] = times[read.pattern];
  return measured;
}

void show_times(const Run& run, const Measured& m) {
  Table table(run.report, "time, from memory",
              {predicted("sectors", "sectors a load", "", 0),
               predicted("64-byte pieces", "pieces of 64 bytes a load", "", 0),
               compared("ns/1000 loads", "time of a thousand loads", "ns", 1), shown("spread"),
               shown("of in order"), shown("")});
  const double whole = m.ns(in_order).median;
  for (const Read& read : reads) {
    const Statistics ns = m.ns(read.pattern);
    const Warp warp = warp_for(read.pattern);
    Cell time =
        Compared{whole * predicted_times(read.pattern), ns, model_of(read.pattern, run.device)};
    if (read.pattern == in_order) time = Calibration{ns};
    table.row({read.name}, {double(sectors(warp)), double(pieces(warp, memory_piece)), time,
                            spread_text(ns), times(ns.median / whole), bar(whole / ns.median)});
  }
  table.print();
  run.report.note(
      "predicted: sectors, of 4, or pieces of 64 bytes, of 2, whichever is more; a piece that the "
      "next warp wants as well counts once");
}

void judge_one_address(const Run& run, const Measured& m) {
  const char* const wiki = "the wiki's count";
  run.report.not_judged(
      {"03.2a", "one address for all lanes uses 3.125% of what moves through L1", "3.125%", wiki},
      "before Pascal: through L1, too, a sector is moved, not a line");
  const double used = under(Rule::sectors, warp_for(same)).utilisation();
  run.report.judge_fact({"03.2b",
                         "one address for all lanes uses 12.5% of what moves past L1",
                         "12.5%",
                         wiki,
                         {},
                         true},
                        used == 0.125,
                        share_text(exactly(used)) + ", one sector, computed; through L1 as well");
  if (m.times[same].ms.empty()) return;
  const Interval whole = ratio(m.times[same], m.times[in_order]);
  run.report.finding("03.2b", "a sector of each line takes " + factor_text(whole.value) +
                                  " the time of whole lines");
}

void judge_permutation(const Run& run, const Measured& m, bool in_cache) {
  const Part free{"03.3", "a permutation within the line costs nothing", "100%",
                  "the wiki's count"};
  if (in_cache) return run.report.not_judged(free, "the array is less than four times the L2");
  const Interval cost = ratio(m.times[permuted], m.times[in_order]);
  run.report.judge(
      free, gains_nothing(), cost,
      slower(cost) + ", " + std::to_string(sectors(warp_for(permuted))) + " sectors as in order");
}

}  // namespace

void coalescing(const Run& run) {
  // one sector of each line, a quarter of the array, is beyond the L2
  const size_t bytes = bytes_to_read(run, size_t(1) << 30, 1.0 / 4);
  run.report.begin("coalescing", "one load of a warp; then as many as read " +
                                     bytes_text(double(bytes)) + " once");
  draw_all(run);
  const Measured m = measure(run, bytes / 4);
  if (run.device)
    show_times(run, m);
  else
    run.report.left_out("the time of each pattern");
  judge_one_address(run, m);
  judge_permutation(run, m, run.device && !beyond_l2(*run.device, double(bytes) / 4));
}
