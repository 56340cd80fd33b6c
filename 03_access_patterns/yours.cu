// yours: which words do the lanes of your warp read? Write it into the two lines below. Without a
// GPU the sample draws what each of five generations moves for one load of a warp. With one it says
// what L1, L2 and memory have to do for it, predicts the time, and measures it. Two things to look
// at:
//   - Which of the three limits your pattern.
//   - What the warps of a block share: it comes once from L2, and what all warps that run together
//     share comes once from memory.
//
//   cmake -S 03_access_patterns -B build/yours -DEXPERIMENTS=yours
//   cmake --build build/yours && build/yours/03_access_patterns
//
//   1  read_yours     your pattern
//   2  read_in_order  lane i reads word i, from memory: what your pattern is compared with
//   3  read_in_l2     the same from L2
#include "../framework/common/experiment.hpp"
#include "drawing.hpp"
#include "reads.cuh"

using namespace samples;

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
// Each load is done by one warp, and begins at word load * warp_words of the array. `word` is the
// lane's place, counted from there. A lane with a negative place does not read.
__global__ void read_yours(unsigned* out, const unsigned* in, size_t loads) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t warps = size_t(gridDim.x) * blockDim.x / 32;
  const int word = word_of(threadIdx.x % 32);
  unsigned sum = 0;
  if (word >= 0) {
    size_t load = tid / 32;
    for (; load + 7 * warps < loads; load += 8 * warps) {  // eight loads in flight
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += in[(load + k * warps) * warp_words + word];
    }
    for (; load < loads; load += warps) sum += in[load * warp_words + word];  // the remaining loads
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

// ---- launching them ----

Pattern your_pattern() { return Pattern::of(warp_words, word_of); }

/// Whether the pattern is the one that this file was handed out with. A changed one has a key of
/// its own: recorded times are not those of your pattern.
bool as_handed_out() {
  bool equal = warp_words == 96;
  for (unsigned lane = 0; lane < 32; ++lane) equal = equal && word_of(lane) == int(3 * lane);
  return equal;
}
Ref yours_row() { return as_handed_out() ? name_of<read_yours>() : "read_yours_changed"; }
Ref memory_row() { return name_of<read_in_order>(); }
Ref l2_row() { return name_of<read_in_l2>(); }

Pattern pattern_of(const Ref& ref) {
  return same(ref, yours_row()) ? your_pattern()
                                : Pattern::of(32, [](unsigned lane) { return lane; });
}
unsigned passes_of(const Ref& ref) { return same(ref, l2_row()) ? l2_passes : 1; }

constexpr size_t most_words = size_t(1) << 26;  // 256 MiB, a quarter of the array at least

/// Refuses what cannot be run: throws UsageError with the lane's word.
void require_possible(const Pattern& p) {
  if (p.warp_words < 1 || p.warp_words > most_words)
    throw UsageError("yours: from a warp to the next are " + std::to_string(p.warp_words) +
                     " words; it has to be 1 to " + std::to_string(most_words));
  if (*std::max_element(p.word, p.word + 32) < 0) throw UsageError("yours: all lanes are idle");
  if (p.last() >= most_words)
    throw UsageError("yours: a lane wants word " + std::to_string(p.last()) +
                     "; it has to be less than " + std::to_string(most_words));
}

/// The work of that row, with so many loads of a warp.
Task read_task(const Shared<Words>& memory, const Ref& ref, size_t loads) {
  const auto kernel = same(ref, yours_row())    ? read_yours
                      : same(ref, memory_row()) ? read_in_order
                                                : read_in_l2;
  const auto launch = [memory, kernel, loads] {
    kernel<<<memory->grid.blocks, block_threads>>>(memory->sums.data(), memory->in.data(), loads);
  };
  if (kernel == read_yours) return memory->task(text(ref), launch, your_pattern(), loads);
  return memory->task(text(ref), launch, Slots{0, 1, 32 * loads, 1, passes_of(ref)});
}

// ---- prediction ----

/// Different aligned pieces of `bytes` that `warps` warps side by side read, for each of them.
double pieces_per_load(const Pattern& p, unsigned warps, unsigned bytes) {
  std::vector<size_t> wanted;
  for (unsigned warp = 0; warp < warps; ++warp)
    for (const int word : p.word)
      if (word >= 0) wanted.push_back((warp * p.warp_words + size_t(word)) * 4 / bytes);
  std::sort(wanted.begin(), wanted.end());
  const auto end = std::unique(wanted.begin(), wanted.end());
  return double(end - wanted.begin()) / warps;
}

/// What a load of a warp costs.
struct Cost {
  double lines;    ///< of 128 bytes in L1, taken for one a cycle (a strided column gets up to two)
  double sectors;  ///< of 32 bytes from L2: what the warps of a block share comes once
  double pieces;   ///< of 64 bytes from memory: what warps that run together share comes once
};

constexpr unsigned together = 1024;  // warps that find in L2 what one of them has brought there

Cost cost_of(const Pattern& p) {
  return {pieces_per_load(p, 1, 128), pieces_per_load(p, block_threads / 32, 32),
          pieces_per_load(p, together, memory_piece)};
}
Cost cost_of(const Ref& ref) {
  Cost cost = cost_of(pattern_of(ref));
  if (same(ref, l2_row())) cost.pieces = 0;
  return cost;
}

/// Nanoseconds of a thousand loads that are in order, and of a thousand lines in L1.
struct Calibrated {
  double memory_ns = NAN, l2_ns = NAN, line_ns = NAN;
};

/// The slowest of the three.
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

/// Bytes that come from memory for a load of your pattern.
double bytes_moved() { return memory_piece * cost_of(your_pattern()).pieces; }
/// What moves of the array is beyond the L2, unless the warps leave nearly all of it out.
double share_beyond_l2() {
  return std::min(1.0, std::max(bytes_moved() / (4.0 * warp_words), 1.0 / 16));
}
size_t array_words(const Run& run) {
  return bytes_to_read(run, size_t(1) << 30, share_beyond_l2()) / 4;
}

/// Loads that fit into an array; so many at most, for a pattern whose warps hardly move on.
size_t loads_in(size_t words, const Pattern& p) {
  constexpr size_t most = size_t(1) << 25;
  return std::min((words - p.last() - 1) / p.warp_words + 1, most);
}
/// Loads of a warp in one pass of that row.
size_t loads_of(const Run& run, const Ref& ref) {
  if (!same(ref, l2_row())) return loads_in(array_words(run), pattern_of(ref));
  if (!run.device) return 0;
  return words_within_l2(run.device->l2_bytes(), resident_grid(*run.device)) / 32;
}
/// Nanoseconds that a thousand loads of a warp take.
double ns_of(const Run& run, const Ref& ref, double ms) {
  return ms * 1e9 / (double(loads_of(run, ref)) * passes_of(ref));
}
double ns_measured(const Run& run, const Ref& ref) {
  return ns_of(run, ref, (*run.results)(ref).time.ms.median);
}

Calibrated calibrated(const Run& run) {
  return {.memory_ns = ns_measured(run, memory_row()),
          .l2_ns = ns_measured(run, l2_row()),
          .line_ns = run.device ? line_ns(*run.device) : NAN};
}

Sheet sheet_of(const Run& run, const char* heading) {
  const auto ns = [&run](const Row& row, double ms) { return ns_of(run, row.ref, ms); };
  return Sheet(run, heading,
               {number(predicted("lines: L1", "lines a load", "", 2),
                       [](const Row& row) { return cost_of(row.ref).lines; }),
                number(predicted("sectors: L2", "sectors a load", "", 2),
                       [](const Row& row) { return cost_of(row.ref).sectors; }),
                number(predicted("pieces: memory", "pieces of 64 bytes a load", "", 2),
                       [](const Row& row) { return cost_of(row.ref).pieces; }),
                in_unit(compared("ns/1000 loads", "time of a thousand loads", "ns", 1), ns),
                spread(),
                {shown("of in order"), {}, {}, [ns, &run](const Row& row, const Statistics& ms) {
                   const double factor = ns(row, ms.median) / ns_measured(run, memory_row());
                   return std::isfinite(factor) ? times(factor) : std::string("-");
                 }}});
}

void draw_yours(const Run& run) {
  const Warp warp = your_pattern().warp();
  explain_drawing(run.report);
  draw_rules(run.report, yours_row().key, "your pattern", warp);
  for (const Rule rule : rules)
    run.report.note(std::string("  ") + rule_name(rule) + ": " +
                    fixed(100 * under(rule, warp).utilisation(), 1) + "% of what moves is used");
}

void run_yours(const Run& run) {
  require_possible(your_pattern());
  const size_t words = array_words(run);
  run.report.begin("yours", "the pattern at the top of yours.cu, and " +
                                bytes_text(4 * double(words)) + " that it reads");
  draw_yours(run);

  SharedByTasks memory([&run, words] { return Words(words, resident_grid(*run.device)); });
  Sheet from_memory = sheet_of(run, "a load of a warp, from memory");
  from_memory.add({.ref = memory_row(), .words = "in order, from memory", .calibrates = true});
  from_memory.add(
      {.ref = yours_row(), .words = "your pattern", .model = model_of_pieces(run.device)});
  from_memory.measure(Timing::in_turn, [&](const Row& row) {
    return read_task(memory(), row.ref, loads_of(run, row.ref));
  });
  Sheet from_l2 = sheet_of(run, "a load of a warp, from L2");
  from_l2.add({.ref = l2_row(), .words = "in order, from L2", .calibrates = true});
  from_l2.measure(Timing::alone, [&](const Row& row) {
    const size_t loads = loads_of(run, row.ref);
    return read_task(Shared(Words(32 * loads, resident_grid(*run.device))), row.ref, loads);
  });

  const Calibrated c = calibrated(run);
  from_memory.predict([&](const Row& row) {
    return predicted_ns(cost_of(row.ref), c) * double(loads_of(run, row.ref)) * 1e-9;
  });
  from_memory.print(
      {"predicted: the slowest of L1 (a line per cycle), L2 (the row below) and memory"});
  from_l2.print();
  const double moved = bytes_moved() * double(loads_of(run, yours_row()));
  if (run.device && !beyond_l2(*run.device, moved))
    run.report.note("what moves is less than four times the L2: a part of it is the cache's rate");
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = 4 * double(array_words(run));
  return {.allocated = bytes + 8.0 * resident_grid(*run.device).threads(),
          .touched = share_beyond_l2() * bytes};
}

/// As many loads as n words take, and one more.
std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const Ref& ref : {yours_row(), memory_row(), l2_row()}) {
    const Pattern p = pattern_of(ref);
    const size_t loads = n / p.warp_words + 1;
    const Shared memory(Words(p.words(loads), Grid{3}));
    all.push_back({.task = read_task(memory, ref, loads),
                   .elements = memory->grid.threads(),
                   .change_one = [memory] { memory->change_one(); }});
  }
  return all;
}

}  // namespace

extern const Experiment yours_experiment{
    .name = "yours",
    .about = "your own pattern: drawn, predicted, and measured",
    .run = run_yours,
    .needs = needs,
    .tasks = tasks};
