// yours: which words do the lanes of your warp read? Write it into the two lines below. Without a
// GPU the sample draws what each of five generations moves for one load of a warp; with one it says
// what L1, L2 and memory have to do for it, predicts the time, and measures it.
//   cmake -S 03_access_patterns -B build/yours -DEXPERIMENTS=yours
//   cmake --build build/yours && build/yours/03_access_patterns
//
//   1  read_yours       your pattern
//   2  read_in_order    lane i reads word i, from memory: what it is compared with
//   3  read_in_l2       the same from L2
#include <algorithm>

#include "drawing.hpp"
#include "reads.cuh"

// ---- your pattern: change these two lines ----

// x of an array of struct { float x, y, z; }: 12 bytes, three words, from a lane to the next
constexpr unsigned warp_words = 96;  // words of 4 bytes from where a warp begins to the next warp
__host__ __device__ constexpr int word_of(unsigned lane) { return int(3 * lane); }  // -1: idle

// a column of a row-major matrix with rows of 1000 words; the next warp has the column beside it
// constexpr unsigned warp_words = 1;
// __host__ __device__ constexpr int word_of(unsigned lane) { return int(1000 * lane); }

// a halo: each lane's neighbour on the left, where the warp's own 32 words begin a line
// constexpr unsigned warp_words = 32;
// __host__ __device__ constexpr int word_of(unsigned lane) { return int(lane + 31); }

// the edges of a tile: only the first and the last lane read; the next warp has the next row, of
// 1000 words
// constexpr unsigned warp_words = 1000;
// __host__ __device__ constexpr int word_of(unsigned lane) { return lane % 31 ? -1 : int(lane); }

namespace {

// ---- kernels: warp w of all `warps` does loads w, w + warps, w + 2 warps ...; each thread adds up
// what it read, into out ----

// [read_yours]
// Load after load a lane reads its word, counted from where the warp begins.
__global__ void read_yours(unsigned* out, const unsigned* in, size_t loads) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const int word = word_of(threadIdx.x % 32);
  unsigned sum = 0;
  if (word >= 0) {
    size_t load = tid / 32;
    for (; load + 7 * warps < loads; load += 8 * warps) {  // eight loads under way
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += in[(load + k * warps) * warp_words + word];
    }
    for (; load < loads; load += warps) sum += in[load * warp_words + word];  // what is left
  }
  out[tid] = sum;
}
// [/read_yours]

// A warp reads the 32 words of a line: 4 sectors of 32 bytes.
__global__ void read_in_order(unsigned* out, const unsigned* in, size_t loads) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < 32 * loads; i += 8 * threads) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[i + k * threads];
  }
  for (; i < 32 * loads; i += threads) sum += in[i];
  out[tid] = sum;
}

constexpr unsigned l2_passes = 32;

// The same past L1 (ld.global.cg), over and over, of an array that stays in L2.
__global__ void read_in_l2(unsigned* out, const unsigned* in, size_t loads) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < l2_passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < 32 * loads; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldcg(in + i + k * threads);
    }
    for (; i < 32 * loads; i += threads) sum += __ldcg(in + i);
  }
  out[tid] = sum;
}

// ---- what is right ----

/// A warp's words, counted from where it begins.
struct Pattern {
  size_t warp_words;
  int word[32];  ///< negative: the lane is idle

  int last() const { return *std::max_element(word, word + 32); }
};

Pattern your_pattern() {
  Pattern pattern{warp_words, {}};
  for (unsigned lane = 0; lane < 32; ++lane) pattern.word[lane] = word_of(lane);
  return pattern;
}

constexpr size_t most_words = size_t(1) << 26;  // 256 MiB, a quarter of the array at least

/// Refuses what cannot be run: throws UsageError with the lane's word.
void require_possible(const Pattern& p) {
  if (p.warp_words < 1 || p.warp_words > most_words)
    throw UsageError("yours: from a warp to the next are " + std::to_string(p.warp_words) +
                     " words; it has to be 1 to " + std::to_string(most_words));
  if (p.last() < 0) throw UsageError("yours: all lanes are idle");
  if (size_t(p.last()) >= most_words)
    throw UsageError("yours: a lane wants word " + std::to_string(p.last()) +
                     "; it has to be less than " + std::to_string(most_words));
}

/// Takes every word away from the sum of the lane that must have read it.
__global__ void take_away_pattern(unsigned* sums, size_t loads, size_t warps, Pattern p) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < loads * 32; i += step) {
    const size_t load = i / 32, lane = i % 32;
    const int word = p.word[lane];
    if (word >= 0) atomicSub(&sums[load % warps * 32 + lane], word_at(load * p.warp_words + word));
  }
}

Task your_task(Words& memory, size_t loads) {
  const auto launch = [&memory, loads] {
    read_yours<<<memory.grid.blocks, block_threads>>>(memory.sums.data(), memory.in.data(), loads);
  };
  const auto take_away = [&memory, loads](unsigned* left) {
    take_away_pattern<<<4096, 256>>>(left, loads, memory.grid.threads() / 32, your_pattern());
    CUDA_CHECK_LAUNCH();
  };
  return memory.task("your pattern", launch, take_away);
}

Task in_order_task(Words& memory, size_t loads) {
  const auto launch = [&memory, loads] {
    read_in_order<<<memory.grid.blocks, block_threads>>>(memory.sums.data(), memory.in.data(),
                                                         loads);
  };
  return memory.task("in order, from memory", launch, Slots{0, 1, 32 * loads});
}

Task in_l2_task(Words& memory, size_t loads) {
  const auto launch = [&memory, loads] {
    read_in_l2<<<memory.grid.blocks, block_threads>>>(memory.sums.data(), memory.in.data(), loads);
  };
  return memory.task("in order, from L2", launch, Slots{0, 1, 32 * loads, 1, l2_passes});
}

// ---- what to expect ----

Warp warp_for(const Pattern& p) {
  return warp_of(4, [&](unsigned lane) { return p.word[lane]; });
}

/// Different aligned pieces of `bytes` that `warps` warps side by side want, for each of them.
double pieces_a_load(const Pattern& p, unsigned warps, unsigned bytes) {
  std::vector<size_t> wanted;
  for (unsigned warp = 0; warp < warps; ++warp)
    for (const int word : p.word)
      if (word >= 0) wanted.push_back((warp * p.warp_words + size_t(word)) * 4 / bytes);
  std::sort(wanted.begin(), wanted.end());
  const auto end = std::unique(wanted.begin(), wanted.end());
  return double(end - wanted.begin()) / warps;
}

/// What a load of a warp costs each part of the way.
struct Cost {
  double lines;    ///< of 128 bytes in L1, taken for one a cycle (a strided column gets up to two)
  double sectors;  ///< of 32 bytes from L2: what the warps of a block share comes once
  double pieces;   ///< of 64 bytes from memory: what warps that run together share comes once
};

constexpr unsigned together = 1024;  // warps that find in L2 what one of them has brought there

Cost cost_of(const Pattern& p) {
  return {pieces_a_load(p, 1, 128), pieces_a_load(p, block_threads / 32, 32),
          pieces_a_load(p, together, memory_piece)};
}

/// Nanoseconds of a thousand loads that are in order, and what L1 takes for a thousand lines.
struct Calibrated {
  double memory_ns = NAN, l2_ns = NAN, line_ns = NAN;
};

/// The slowest of the three parts.
double predicted_ns(const Cost& cost, const Calibrated& c) {
  const double memory = c.memory_ns * cost.pieces / 2;  // 128 bytes are two pieces,
  const double l2 = c.l2_ns * cost.sectors / 4;         // four sectors
  const double slowest = std::max(memory, l2);
  return std::isfinite(c.line_ns) ? std::max(slowest, c.line_ns * cost.lines) : slowest;
}

double line_ns(const Device& device) {
  const double lines_a_ns = device.prop.multiProcessorCount * device.sm_clock_khz * 1e-6;
  return lines_a_ns > 0 ? 1000 / lines_a_ns : NAN;
}

// ---- the experiment ----

/// Loads that fit into an array; so many at most, for a pattern whose warps hardly move on.
size_t loads_in(size_t words, const Pattern& p) {
  constexpr size_t most = size_t(1) << 25;
  return std::min((words - size_t(p.last()) - 1) / p.warp_words + 1, most);
}

void measure(const Run& run, const Pattern& p, size_t words) {
  const Device& device = *run.device;
  const Grid grid = resident_grid(device);
  const size_t loads = loads_in(words, p), whole = words / 32;
  const size_t within_l2 = words_within_l2(device.l2_bytes(), grid) / 32;
  Words memory(words, grid);
  const std::vector<Readings> readings =
      run.time_in_turn({your_task(memory, loads), in_order_task(memory, whole)});
  Statistics l2 = run.time(in_l2_task(memory, within_l2)).statistics();
  l2 = scaled(l2, 1e9 / double(within_l2 * l2_passes));
  const Statistics yours = scaled(readings[0].statistics(), 1e9 / double(loads));
  const Statistics in_order = scaled(readings[1].statistics(), 1e9 / double(whole));

  const Calibrated c{in_order.median, l2.median, line_ns(device)};
  Table table(run.report, "a load of a warp",
              {predicted("lines: L1", "lines a load", "", 2),
               predicted("sectors: L2", "sectors a load", "", 2),
               predicted("pieces: memory", "pieces of 64 bytes a load", "", 2),
               compared("ns/1000 loads", "time of a thousand loads", "ns", 1), shown("spread"),
               shown("of in order")});
  const auto of_whole = [&](const Statistics& ns) { return ::times(ns.median / in_order.median); };
  table.row({"in order, from memory"},
            {1.0, 4.0, 2.0, Calibration{in_order}, spread_text(in_order), of_whole(in_order)});
  table.row({"in order, from L2"}, {1.0, 4.0, 0.0, Calibration{l2}, spread_text(l2), of_whole(l2)});
  const Cost cost = cost_of(p);
  table.row({"your pattern"}, {cost.lines, cost.sectors, cost.pieces,
                               Compared{predicted_ns(cost, c), yours, model_of_pieces(run.device)},
                               spread_text(yours), of_whole(yours)});
  table.print();
  run.report.note("predicted: the slowest of L1 (a line a cycle), L2 and memory");
}

}  // namespace

void yours(const Run& run) {
  const Pattern p = your_pattern();
  require_possible(p);
  // what moves of the array is beyond the L2, unless the warps leave nearly all of it out
  const double moved = memory_piece * cost_of(p).pieces / (4.0 * double(p.warp_words));
  const size_t bytes =
      bytes_to_read(run, size_t(1) << 30, std::min(1.0, std::max(moved, 1.0 / 16)));
  run.report.begin("yours", "the pattern at the top of yours.cu, and " + bytes_text(double(bytes)) +
                                " that it reads");
  explain_drawing(run.report);
  draw_rules(run.report, "your pattern", warp_for(p));
  for (const Rule rule : rules) {
    const double used = under(rule, warp_for(p)).utilisation();
    run.report.note(std::string("  ") + rule_name(rule) + ": " + fixed(100 * used, 1) +
                    "% of what moves is used");
  }
  if (!run.device) return run.report.left_out("the time of your pattern");
  measure(run, p, bytes / 4);
  const double of_array = double(loads_in(bytes / 4, p)) * double(p.warp_words) * 4 * moved;
  if (!beyond_l2(*run.device, of_array))
    run.report.note("what moves is less than four times the L2: a part of it is the cache's rate");
}
