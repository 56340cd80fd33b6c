// coalescing: a warp gives 32 addresses at once. What moves for them, and what does it cost? The
// texts tell the rules of several generations. The G80 moves half-warps together if their lanes
// want words in order, the GT200 in any order [DD]. Fermi and Kepler move lines of 128 bytes
// through L1, and segments of 32 bytes past it [LC 3]. Today L1 moves sectors of 32 bytes, too.
//
// Look at the drawing first (it needs no GPU): which words move in vain? Then at the times: what of
// Dr. Dobb's three rules for the G80 still costs ten times as much?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o coalescing coalescing.cu ../common/*.cpp
//
//   1  read_pattern  a warp reads in order, permuted, from the second word or sector on, one word,
//                    with idle lanes, or scattered: each lane a word of another line
#include <doctest/doctest.h>

#include "../common/arrays.cuh"
#include "drawing.hpp"

namespace {

constexpr unsigned line_words = 32;

// Which word a lane takes, counted from the first word of its warp's region; -1: it is idle. At the
// right: how many sectors the 32 lanes touch.
__host__ __device__ int in_order(unsigned lane) { return lane; }            // 4
__host__ __device__ int permuted(unsigned lane) { return lane * 11 % 32; }  // the same 4
__host__ __device__ int next_word(unsigned lane) { return lane + 1; }       // 5
__host__ __device__ int next_sector(unsigned lane) { return lane + 8; }     // 4, in two lines
__host__ __device__ int one_word(unsigned) { return 0; }                    // 1
__host__ __device__ int odd_idle(unsigned lane) { return lane % 2 ? -1 : int(lane); }  // 4
__host__ __device__ int scattered(unsigned lane) {  // 32: each lane in a line of its own
  return lane * 11 % 32 * line_words + lane;
}
using WordOf = int (*)(unsigned lane);

// ---- the kernel ----

// Warp w of all `warps` reads one region of `region_words` words in each step: regions w, w + warps,
// w + 2 warps ... Each thread adds up what it read, into out.
template <WordOf word_of, unsigned region_words>
__global__ void read_pattern(unsigned* out, const unsigned* in, size_t regions) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const int word = word_of(threadIdx.x % 32);
  unsigned sum = 0;
  if (word >= 0) {
    size_t region = tid / 32;
    for (; region + 7 * warps < regions; region += 8 * warps) {  // eight loads in flight
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += in[(region + k * warps) * region_words + word];
    }
    for (; region < regions; region += warps)  // the remaining regions
      sum += in[region * region_words + word];
  }
  out[tid] = sum;
}

struct Pattern {
  const char* name;
  WordOf word_of;
  void (*kernel)(unsigned* out, const unsigned* in, size_t regions);
  unsigned region_words;

  Warp warp() const { return warp_of(4, word_of); }
};
template <WordOf word_of, unsigned region_words = line_words>
Pattern named(const char* name) {
  return {name, word_of, read_pattern<word_of, region_words>, region_words};
}

// ---- what must come out ----

struct Words {
  int of_lane[32];
};

/// The sum of each thread: its lane's word of each region of its warp.
Check adds_up(const GuardedBuffer<unsigned>& out, const Pattern& p, size_t regions) {
  Words words;
  for (unsigned lane = 0; lane < 32; ++lane) words.of_lane[lane] = p.word_of(lane);
  const size_t warps = out.size() / 32, region_words = p.region_words;
  return equals(out, [=] __device__(size_t thread) {
    const int word = words.of_lane[thread % 32];
    unsigned sum = 0;
    for (size_t region = thread / 32; word >= 0 && region < regions; region += warps)
      sum += hash(region * region_words + word);
    return sum;
  });
}

// ---- the launches: add yours here ----

const Pattern patterns[] = {
    named<in_order>("in order"),
    named<permuted>("permuted"),
    named<next_word>("next word"),
    named<next_sector>("next sector"),
    named<one_word>("one word"),
    named<odd_idle>("odd idle"),
    named<scattered, 32 * line_words>("scattered"),
};

Warp words_in_order(long bytes) {
  return warp_of(bytes, [](unsigned lane) { return lane; });
}

constexpr unsigned overhang = 8;  // words of the next region that a warp may read
size_t regions_in(size_t words, const Pattern& p) { return (words - overhang) / p.region_words; }

Benchmark benchmark_of(const Pattern& p, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, size_t regions) {
  const auto work = [=] { p.kernel<<<unsigned(out.size() / 256), 256>>>(out, in, regions); };
  return {p.name, work, adds_up(out, p, regions)};
}

// ---- the experiment ----

/// Does a GT200 move no more than a G80 for what coalesces there?
bool no_more_on_gt200(const Warp& warp) {
  const Transactions on_g80 = transactions(g80, warp), on_gt200 = transactions(gt200, warp);
  return on_gt200.size() <= on_g80.size() && bytes_of(on_gt200) <= bytes_of(on_g80);
}

void judge(Run& run, const Timings& timed, bool from_memory) {
  const double used_now = used(today, warp_of(4, one_word));
  const std::string here = percent(used_now).words + " of a sector, through L1 and past it";
  run.computed({"03.2a", "through L1, a warp's load of one address uses 3.125% of the bus",
                "[LC 3] 3.125%, of Fermi and Kepler, as the wiki says itself", Hardware::kepler},
               used_now == 0.03125, here);
  run.computed(
      {"03.2b", "past L1, a warp's load of one address uses 12.5% of the bus", "[LC 3] 12.5%"},
      used_now == 0.125, here);
  const auto claim = [&](const Claim& claim, const Timings::Pair& pair, const Rule& rule) {
    if (from_memory)
      run.claim(claim, timed.speedup(pair), rule);
    else
      run.claim_skipped(claim, "the array is less than four times the L2");
  };
  claim({"03.3", "addresses in random order within 128 bytes cost nothing",
         "[LC 3] \"will not inhibit kernel performance\""},
        {.of = "in order", .over = "permuted"}, no_faster());
  claim({"03.27", "words across two aligned segments cost 10 times as much",
         "[DD, rule 2] \"must lie in the same segment\", else roughly 10x, G80", Hardware::g80},
        {.of = "in order", .over = "next word"}, faster_by(10));
  claim({"03.28", "words that are not in the lanes' order cost 10 times as much",
         "[DD, rule 3] \"the kth thread ... the kth word\", else roughly 10x, G80", Hardware::g80},
        {.of = "in order", .over = "permuted"}, faster_by(10));
  claim({"03.29", "a warp's accesses coalesce if some of its lanes access nothing",
         "[DD] \"not all threads in a warp need to access memory\""},
        {.of = "in order", .over = "odd idle"}, no_faster());
  int coalesce = 0, there_too = 0;
  std::vector<Warp> warps{words_in_order(2), words_in_order(8), words_in_order(16)};
  for (const Pattern& p : patterns) warps.push_back(p.warp());
  for (const Warp& warp : warps)
    if (coalesced_on_g80(warp, 0) && coalesced_on_g80(warp, 16)) {
      ++coalesce;
      there_too += no_more_on_gt200(warp);
    }
  run.computed({"03.16", "what coalesces well on a G80 coalesces well on a GT200",
                "[DD] \"it will coalesce well on a GT200 device\""},
               there_too == coalesce,
               std::to_string(there_too) + " of the " + std::to_string(coalesce) +
                   " patterns that coalesce on a G80 move no more on a GT200");
}

}  // namespace

void coalescing_drawing(Run& run) {
  run.title("what moves for a load of a warp, by compute capability (computed)");
  explain_drawing(run);
  for (const Pattern& p : patterns) draw(run, p.name, p.warp());

  Table table("% of what moves is used",
              {generation_names[g80], generation_names[gt200], generation_names[kepler_l1],
               generation_names[kepler_l2], generation_names[today]});
  const auto row = [&](const std::string& name, const Warp& warp) {
    const auto share = [&](Generation generation) { return 100 * used(generation, warp); };
    table.row(name, {share(g80), share(gt200), share(kepler_l1), share(kepler_l2), share(today)});
  };
  for (const Pattern& p : patterns) row(p.name, p.warp());
  for (const int bytes : {2, 8, 16})
    row(std::to_string(bytes) + "-byte words", words_in_order(bytes));
  run.print(table);
}

void coalescing(Run& run) {
  const size_t words = run.fitting(size_t(1) << 28, sizeof(unsigned));
  const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(run.resident_blocks(256) * 256);
  run.title("as many loads of a warp as read " + bytes_text(4.0 * double(words)) + " once");

  std::vector<Benchmark> benchmarks;
  for (const Pattern& p : patterns)
    benchmarks.push_back(benchmark_of(p, out, in, regions_in(words, p)));
  const Timings timed = run.timer.interleaved(benchmarks);
  const auto ns_of_1000 = [&](const Pattern& p) {
    const double ns = 1e9 / double(regions_in(words, p));  // of 1000 loads, where all take 1 ms
    return ns * timed[p.name].ms_interval();
  };
  Table table("a load", {"sectors/request", "64-byte pieces", "ns per 1000 loads", "of in order"});
  for (const Pattern& p : patterns)
    table.row(p.name, {segments(p.warp(), 32).size(), segments(p.warp(), 64).size(), ns_of_1000(p),
                       ns_of_1000(p).value / ns_of_1000(patterns[0]).value});
  run.print(table);
  run.note("permuted, odd idle: the same sectors move, so the time is the same");
  run.note(
      "one word: the L2 of an H100 or H200 fetches 64 bytes (fetch_size), half of what in order "
      "takes");
  run.note("next word, next sector: two lines for each warp; `offset` looks closer");
  judge(run, timed, run.beyond_l2(4.0 * double(words)));
}
SAMPLE(1, coalescing, "what moves for 32 addresses, drawn by five generations, and its time",
       coalescing_drawing);

TEST_CASE("coalescing: the wiki's figures for loads through L1 and past it") {
  struct Figure {
    int pattern;
    size_t lines, segments;
    double used_l1, used_l2;
  };
  for (const Figure& f : std::initializer_list<Figure>{{0, 1, 4, 1, 1},
                                                       {1, 1, 4, 1, 1},
                                                       {2, 2, 5, 0.5, 0.8},
                                                       {4, 1, 1, 0.03125, 0.125},
                                                       {6, 32, 32, 0.03125, 0.125}}) {
    const Warp warp = patterns[f.pattern].warp();
    CAPTURE(f.pattern);
    CHECK(transactions(kepler_l1, warp).size() == f.lines);
    CHECK(transactions(kepler_l2, warp).size() == f.segments);
    CHECK(transactions(today, warp).size() == f.segments);
    CHECK(used(kepler_l1, warp) == f.used_l1);
    CHECK(used(kepler_l2, warp) == f.used_l2);
  }
}

TEST_CASE("coalescing: a G80 moves a half-warp in order together, else each lane for itself") {
  const auto moved = [](const Warp& warp) {
    const Transactions all = transactions(g80, warp);
    return std::to_string(all.size()) + ", " + std::to_string(bytes_of(all)) + " B";
  };
  for (const int together : {0, 5}) CHECK(moved(patterns[together].warp()) == "2, 128 B");
  for (const int apart : {1, 2, 3, 4, 6}) CHECK(moved(patterns[apart].warp()) == "32, 1024 B");
  CHECK(moved(words_in_order(2)) == "32, 1024 B");
  CHECK(moved(words_in_order(8)) == "2, 256 B");
  CHECK(moved(words_in_order(16)) == "4, 512 B");  // two of 128 bytes for each half-warp
  const auto from_word = [](int word) { return warp_of(4, [=](int lane) { return lane + word; }); };
  CHECK(moved(from_word(16)) == "2, 128 B");
  CHECK(moved(warp_of(4, [](int lane) { return lane == 3 ? 3 : -1; })) == "1, 64 B");
  CHECK(moved(warp_of(4, [](int lane) { return lane == 3 ? 4 : -1; })) == "1, 32 B");
}

TEST_CASE("coalescing: a GT200 moves the smallest segments for a half-warp") {
  const auto sizes = [](auto word_of) {  // of the first half-warp
    std::vector<long> all;
    const Warp warp = warp_of(4, [=](int lane) { return lane < 16 ? word_of(lane) : -1; });
    for (const Transaction& t : transactions(gt200, warp)) all.push_back(t.bytes);
    return all;
  };
  using Sizes = std::vector<long>;
  CHECK(sizes([](int lane) { return 15 - lane; }) == Sizes{64});
  CHECK(sizes([](int lane) { return lane + 1; }) == Sizes{128});  // both halves of the line
  CHECK(sizes([](int lane) { return lane + 24; }) == Sizes{32, 32});
  CHECK(sizes([](int lane) { return lane + 23; }) == Sizes{64, 32});  // the guide's example
  CHECK(sizes([](int) { return 9; }) == Sizes{32});
  CHECK(used(gt200, words_in_order(2)) == 1);
  CHECK(used(gt200, patterns[1].warp()) == 0.5);  // each half-warp wants both halves of the line
}

TEST_CASE("coalescing: what coalesces on a G80 moves no more on a GT200, at any alignment") {
  int coalesce = 0;
  for (const long bytes : {4, 8, 16})
    for (int begin = 0; begin <= 64; ++begin)
      for (const unsigned idle : {0u, 1u, 0xffffu, 0x5555aaaau, 0xfffffffeu}) {
        const Warp warp =
            warp_of(bytes, [=](int lane) { return idle >> lane & 1 ? -1 : begin + lane; });
        if (!coalesced_on_g80(warp, 0) || !coalesced_on_g80(warp, 16)) continue;
        CHECK(no_more_on_gt200(warp));
        ++coalesce;
      }
  CHECK(coalesce > 50);
}

TEST_CASE("coalescing: the drawing shows lanes and transactions") {
  const auto lanes = [](int pattern) { return draw_lanes(patterns[pattern].warp()); };
  CHECK(lanes(0).starts_with("|01234567|89abcdef|ghijklmn|opqrstuv|....."));
  CHECK(lanes(1).starts_with("|0369cfil|oru147ad|gjmpsv25|8behknqt|....."));
  CHECK(lanes(2).starts_with("|.0123456|789abcde|fghijklm|nopqrstu|v...."));
  CHECK(lanes(3).starts_with("|........|01234567|89abcdef|ghijklmn|opqrstuv|..."));
  CHECK(lanes(4).starts_with("|*.......|........|"));
  CHECK(lanes(5).starts_with("|0.2.4.6.|8.a.c.e.|g.i.k.m.|o.q.s.u.|....."));
  CHECK(lanes(6).starts_with("|0.......|........|........|........|...3....|"));
  const auto moved = [](Generation generation, int pattern) {
    return draw_transactions(transactions(generation, patterns[pattern].warp()));
  };
  CHECK(moved(today, 2)[0].starts_with(" <------> <------> "));
  CHECK(moved(g80, 4)[0].starts_with(" <-32x--> "));
  CHECK(moved(gt200, 2).size() == 2);  // 128 bytes for the first half-warp, 64 of them again
}

TEST_CASE("coalescing: each thread has the sum of its words, at awkward sizes") {
  if (skip_without_gpu()) return;
  const GuardedBuffer<unsigned> out(3 * 256);
  for (const size_t regions : {1, 24, 31, 193, 1009})
    for (const Pattern& p : patterns) {
      CAPTURE(regions);
      CAPTURE(p.name);
      const size_t words = regions * p.region_words + overhang;
      CHECK(regions_in(words, p) == regions);
      const auto in = filled<unsigned>(words, [] __device__(size_t i) { return hash(i); });
      std::vector<unsigned> right(out.size(), 0);  // region after region, warps take turns
      for (size_t region = 0; region < regions; ++region)
        for (unsigned lane = 0; lane < 32; ++lane)
          if (p.word_of(lane) >= 0)
            right[(32 * region + lane) % right.size()] +=
                hash(region * p.region_words + p.word_of(lane));
      const Benchmark read = benchmark_of(p, out, in, regions);
      read.check.poison();
      read.work();
      CHECK(out.to_host() == right);
      CHECK(read.check.find_error() == "");
      CHECK(adds_up(out, p, regions + 1).find_error() != "");
    }
}
