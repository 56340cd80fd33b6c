// coalescing: one instruction of a warp, 32 addresses, and the pieces of memory that are moved for it. The texts give
// the rules of five generations: half-warps in order (1.0), half-warps in any order (1.2), lines of 128 bytes (Fermi,
// Kepler), segments of 32 past their L1; and today's sectors. Needs no GPU. Look at the drawings: which words are moved
// for nothing, and how from one generation to the next fewer are. On a GPU the time of each pattern stands beside.
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/first_edition.hpp"
#include "drawing.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

enum Pattern { in_order, permuted, next_word, next_sector, same, every_second, scattered, bits16, bits64, bits128 };
constexpr Pattern patterns[] = {in_order,     permuted,  next_word, next_sector, same,
                                every_second, scattered, bits16,    bits64,      bits128};

const char* name_of(Pattern pattern) {
  constexpr const char* names[] = {"aligned, in order",
                                   "permuted in the line",
                                   "misaligned by a word",
                                   "misaligned by a sector",
                                   "one address for all",
                                   "every second lane inactive",
                                   "scattered",
                                   "16-bit words",
                                   "64-bit words",
                                   "128-bit words"};
  return names[pattern];
}
/// Metrics of the used share by each rule, as saved; headings of page tables, so short and without commas.
constexpr const char* used_metrics[] = {"used on 1.0", "used on 1.2", "used on 2.x in L1", "used on 2.x past L1",
                                        "used today"};
unsigned word_of(Pattern pattern) {
  return pattern == bits16 ? 2 : pattern == bits64 ? 8 : pattern == bits128 ? 16 : 4;
}

/// The word that a lane takes of its warp's region; -1: none.
__host__ __device__ int lane_word(Pattern pattern, unsigned lane) {
  switch (pattern) {
    case permuted:
      return lane * 11 % 32;
    case next_word:
      return lane + 1;
    case next_sector:
      return lane + 8;
    case same:
      return 0;
    case every_second:
      return lane % 2 ? -1 : int(lane);
    case scattered:
      return lane * 11 % 32 * 32 + lane;  // each lane in another line
    default:
      return lane;
  }
}

/// Words from one warp's region to the next: a line, and scattered 32 of them.
__host__ __device__ size_t region_words(Pattern pattern) { return pattern == scattered ? 1024 : 32; }

Warp warp_for(Pattern pattern) {
  return warp_of(word_of(pattern), [=](unsigned lane) { return lane_word(pattern, lane); });
}

// At each step a warp reads the words of one region by the pattern. Eight loads of a thread are under way at once; all
// that it writes is the sum of what it read.
__global__ void read_pattern(unsigned* out, const unsigned* in, size_t regions, Pattern pattern) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, warps = size_t(gridDim.x) * blockDim.x / 32;
  const int word = lane_word(pattern, threadIdx.x % 32);
  unsigned sum = 0;
  if (word >= 0) {
    const unsigned* mine = in + word;
    const size_t words = region_words(pattern);
    size_t region = thread / 32;
    for (; region + 7 * warps < regions; region += 8 * warps)
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += mine[(region + k * warps) * words];
    for (; region < regions; region += warps) sum += mine[region * words];
  }
  out[thread] = sum;
}

/// The sum that each thread must have.
struct RightSums {
  size_t regions, warps;
  Pattern pattern;
  __host__ __device__ unsigned expected(size_t thread) const {
    unsigned sum = 0;
    const int word = lane_word(pattern, thread % 32);
    if (word >= 0)
      for (size_t region = thread / 32; region < regions; region += warps)
        sum += scrambled(region * region_words(pattern) + word);
    return sum;
  }
  __device__ bool operator()(size_t thread, unsigned sum) const { return sum == expected(thread); }
};

/// A pattern: its lanes, and under them what each generation moves.
void draw(Report& report, Pattern pattern) {
  const Warp warp = warp_for(pattern);
  const auto line = [&](std::string label, const std::string& strip, const std::string& text) {
    label.resize(std::max<size_t>(label.size(), 18), ' ');
    std::string all = label + strip + "  " + text;
    all.erase(all.find_last_not_of(' ') + 1);
    report.note(all);
  };
  const long long last = *std::max_element(warp.address.begin(), warp.address.end());
  line(name_of(pattern), "", "");
  line("  lanes", draw_lanes(warp),
       last >= drawn_bytes ? "and on, to byte " + std::to_string(last + warp.word) : std::string());
  for (Rule rule : rules) {
    const Transactions moved = under(rule, warp);
    const std::vector<std::string> rows = draw_transactions(moved);
    for (size_t row = 0; row < rows.size(); ++row)
      line(row ? "" : std::string("  ") + rule_name(rule), rows[row],
           row ? ""
               : std::to_string(moved.count()) + (moved.count() == 1 ? " transaction, " : " transactions, ") +
                     std::to_string(moved.bytes()) + " B");
    report.save(
        {"", name_of(pattern), "rules", rule_name(rule), "predicted", "transactions", "", double(moved.count())});
    report.save(
        {"", name_of(pattern), "rules", rule_name(rule), "predicted", "bytes moved", "B", double(moved.bytes())});
  }
}

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  size_t regions;
  unsigned blocks = reading_blocks();
  DeviceBuffer<unsigned> in, out{size_t(blocks) * reading_threads};

  explicit Work(size_t regions) : regions(regions), in(words_to_read(regions * region_words(scattered))) {}
  void launch(Pattern pattern) {
    read_pattern<<<blocks, reading_threads>>>(out.data(), in.data(), regions, pattern);
    CUDA_CHECK_LAUNCH();
  }
  bool right(Pattern pattern) {
    out.poison();
    launch(pattern);
    return wrong_words(out, RightSums{regions, out.size() / 32, pattern}) == 0;
  }
};

const Claim one_address{"03.2", "one address for all lanes uses 3.125% cached, 12.5% uncached", "wiki",
                        "3.125% and 12.5%"};
const Claim permutation{"03.3", "a permutation within the line costs nothing", "wiki", "100%"};

}  // namespace

void coalescing(const Run& run) {
  // 256 MiB coalesced: beyond the L2 of any GPU so far. Scattered it spreads over 8 GiB.
  const size_t wanted = size_t(1) << (run.quick ? 18 : 21), region = region_words(scattered) * 4;
  const size_t regions = run.device ? shrunk_to_fit(wanted * region) / region : wanted;
  run.report.begin("coalescing", "one instruction of a warp; then " + std::to_string(regions) +
                                     " of them, which coalesced read " + bytes_text(128.0 * double(regions)));
  run.report.note(
      "memory from an aligned address on; | every 32 bytes; a character is 4 bytes and the lane that takes");
  run.report.note("them, * several lanes, = more of the same word; <---> is moved in one piece, by compute capability");
  for (Pattern pattern : patterns) draw(run.report, pattern);

  std::vector<Column> columns;
  for (Rule rule : rules) columns.push_back(predicted(rule_name(rule), used_metrics[int(rule)], "%", 3));
  columns.push_back(predicted("sectors/request", "load sectors a request", "", 0));
  Table used(run.report, "% of the moved bytes used", columns);
  for (Pattern pattern : patterns) {
    std::vector<Cell> cells;
    for (Rule rule : rules) cells.push_back(100 * under(rule, warp_for(pattern)).utilisation());
    cells.push_back(double(sectors(warp_for(pattern))));
    used.row({name_of(pattern)}, cells);
  }
  used.print();
  if (!run.device) return run.report.left_out("the time of each pattern", {one_address, permutation});

  Table table(run.report, "time of the same number of loads",
              {predicted("sectors, of in order", "sectors of those in order", "x", 2),
               measured("median ms", "time", "ms", 4), shown("spread"), shown("of in order")});
  Work work(regions);
  Statistics ms[std::size(patterns)]{};
  for (Pattern pattern : patterns) {
    if (word_of(pattern) != 4) continue;  // word_size reads the others
    require_right(work.right(pattern), name_of(pattern));
    ms[pattern] = time_device(run.measuring, [&] { work.launch(pattern); });
    table.row({name_of(pattern)}, {sectors(warp_for(pattern)) / 4.0, ms[pattern], spread_text(ms[pattern]),
                                   times(ms[pattern].median / ms[in_order].median)});
  }
  table.print();

  if (128.0 * double(regions) < 2.0 * double(run.device->l2_bytes())) {
    for (const Claim& claim : {one_address, permutation})
      run.report.claim(claim, not_judged("what is read in order fits in the L2"));
    return;
  }
  // had a whole line been moved for the one word, it would have taken the time of whole lines
  Judgement one = judge_ratio(ms[in_order], ms[same]);
  one.verdict = one.verdict == Verdict::holds ? Verdict::does_not_hold : Verdict::holds;
  one.here = fixed(100 * under(Rule::sectors, warp_for(same)).utilisation(), 1) + "% through L1 too, one sector, in " +
             times(1 / one.value) + " the time of whole lines";
  one.value = 1 / one.value;
  run.report.claim(one_address, one);
  // 2%: two runs of one kernel differ by that much
  Judgement free = judge_no_gain(ms[permuted], ms[in_order], 0.02);
  free.here = times(free.value) + " the time of lanes in order, and " + std::to_string(sectors(warp_for(permuted))) +
              " sectors like theirs";
  run.report.claim(permutation, free);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (Pattern pattern : patterns)
    if (word_of(pattern) == 4)
      all.push_back({"read_pattern", "pattern " + std::to_string(int(pattern)), double(sectors(warp_for(pattern))), 4,
                     [=] { return Work(size_t(1) << 13).right(pattern); }});
  return all;
}

}  // namespace

TEST_CASE("coalescing: the drawing shows lanes and pieces") {
  CHECK(draw_lanes(warp_for(next_word)).substr(0, 19) == "|.0123456|789abcde|");
  CHECK(draw_lanes(warp_for(same)).substr(0, 10) == "|*.......|");
  CHECK(draw_lanes(warp_for(bits64)).substr(0, 10) == "|0=1=2=3=|");
  CHECK(draw_transactions(under(Rule::sectors, warp_for(next_word)))[0].substr(0, 19) == " <------> <------> ");
  CHECK(draw_transactions(under(Rule::in_order, warp_for(same)))[0].substr(0, 10) == " <-32x--> ");
  CHECK(draw_transactions(under(Rule::any_order, warp_for(next_word))).size() == 2);
}

TEST_CASE("coalescing: each thread has the sum of the host's reference") {
  if (skip_without_gpu()) return;
  const size_t warps = size_t(reading_blocks()) * reading_threads / 32;
  for (size_t regions : {size_t(1), size_t(31), warps + 1, size_t(10007)})
    for (Pattern pattern : patterns) {
      if (word_of(pattern) != 4) continue;
      CAPTURE(regions);
      CAPTURE(name_of(pattern));
      Work work(regions);
      CHECK(work.right(pattern));
      RightSums reference{regions, warps, pattern};
      const std::vector<unsigned> sums = work.out.to_host();
      for (size_t thread = 0; thread < sums.size(); thread += 1 + thread / 64)
        CHECK(sums[thread] == reference.expected(thread));
      reference.regions += 1;
      CHECK(wrong_words(work.out, reference) > 0);  // and the check can fail
    }
}

TEST_CASE("coalescing: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("coalescing: counted sectors equal the model") { compare_with_counters(counted_launches()); }
