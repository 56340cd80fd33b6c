// ladder's prediction: what each of its kernels launches, what a block does to shared memory, and
// how long a whole sum should take. Nothing here needs a GPU.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "banks.hpp"

inline constexpr unsigned block_threads = 256;  // the text's block
inline constexpr unsigned block_warps = block_threads / 32;

// Two blocks of tiles on each multiprocessor: every GPU has room for 1024 threads, and the
// registers that this leaves for a thread hold all loads of a tile.
inline constexpr unsigned tile_threads = 512;
inline constexpr unsigned tile_loads = 8;  // 16-byte loads of a thread that are in flight together
inline constexpr unsigned tile_quads = tile_threads * tile_loads;
inline constexpr unsigned tile_blocks_each = 2;

// ---- the rows, in the order of the story ----

/// Blocks of the first launch. What is left is launched again, until one word is left.
enum class Grid {
  one_pass,  ///< as many as there are words for
  resident,  ///< as many as fit on the GPU at once
  tiles,     ///< two per multiprocessor or more, which need no second launch
  library,   ///< its own affair
};

/// Warp instructions of a kernel, as nvcc 13.0 compiles it for compute capability 9.0 (float). All
/// zero where bytes decide, not instructions. A check compares their sums with what was counted.
struct Instructions {
  unsigned of_a_warp;   ///< before its steps and after them
  unsigned of_a_step;   ///< of each warp, whether its threads add or not
  unsigned first_warp;  ///< what the first warp does beside, alone
};

struct Rung {
  std::string_view key;  ///< the kernel's name
  const char* text;
  Grid grid = Grid::one_pass;
  unsigned words = 1;  ///< that a thread takes at a time
  unsigned steps = 8;  ///< in shared memory, with a barrier behind each
  Rule rule = Rule::descending;
  bool padded = false;
  Instructions instructions = {};

  bool by_instructions() const { return instructions.of_a_warp > 0; }
};

inline const Rung rungs[] = {
    {.key = "reduce_modulo", .text = "modulo", .rule = Rule::modulo, .instructions = {26, 28, 11}},
    {.key = "reduce_mask", .text = "mask", .rule = Rule::modulo, .instructions = {26, 12, 11}},
    {.key = "reduce_strided",
     .text = "strided",
     .rule = Rule::strided,
     .instructions = {26, 14, 11}},
    {.key = "reduce_strided_padded",
     .text = "strided, padded",
     .rule = Rule::strided,
     .padded = true,
     .instructions = {27, 16, 11}},
    {.key = "reduce_descending", .text = "descending", .instructions = {26, 10, 11}},
    {.key = "reduce_add_on_load", .text = "add on load", .words = 2, .instructions = {37, 10, 11}},
    {.key = "reduce_shuffle",
     .text = "shuffles at last",
     .words = 2,
     .steps = 3,
     .instructions = {40, 11, 25}},
    {.key = "reduce_redux",
     .text = "one instruction at last",
     .words = 2,
     .steps = 3,
     .instructions = {38, 11, 16}},
    {.key = "reduce_several",
     .text = "several words per thread",
     .grid = Grid::resident,
     .steps = 3},
    {.key = "reduce_vector",
     .text = "16-byte loads",
     .grid = Grid::resident,
     .words = 4,
     .steps = 3},
    {.key = "sum_once", .text = "one launch", .grid = Grid::tiles, .words = 4, .steps = 0},
    {.key = "sum_streaming",
     .text = "one launch, words used once",
     .grid = Grid::tiles,
     .words = 4,
     .steps = 0},
    {.key = "cub_sum", .text = "CUB DeviceReduce", .grid = Grid::library, .steps = 0},
};

inline const Rung& rung_of(std::string_view key) {
  for (const Rung& rung : rungs)
    if (rung.key == key) return rung;
  throw std::logic_error("no rung is '" + std::string(key) + "'");
}

// ---- what a row launches ----

/// What grids follow from.
struct Gpu {
  unsigned multiprocessors = 0;
  unsigned resident_threads = 0;  ///< of one multiprocessor
};
inline Gpu gpu_of(const Device& device) {
  return {unsigned(device.prop.multiProcessorCount),
          unsigned(device.prop.maxThreadsPerMultiProcessor)};
}

inline size_t rounds(size_t n, size_t of_a_round) {
  return std::max<size_t>((n + of_a_round - 1) / of_a_round, 1);
}

/// A block for each tile until every multiprocessor is full, then one for each four tiles: so many
/// blocks that the array's end finds all multiprocessors at work, and so few that the last block
/// has few slots to read.
inline size_t tile_blocks(size_t n, Gpu gpu) {
  const size_t tiles = rounds(n, 4 * tile_quads);
  return std::max(std::min<size_t>(tiles, tile_blocks_each * gpu.multiprocessors),
                  rounds(tiles, 4));
}

/// Blocks that the GPU holds at once.
inline size_t resident_blocks(Gpu gpu) {
  return std::max<size_t>(size_t(gpu.multiprocessors) * (gpu.resident_threads / block_threads), 1);
}

/// Blocks of each launch, the last of which leaves one word.
inline std::vector<size_t> launches(const Rung& rung, size_t n, Gpu gpu) {
  if (rung.grid == Grid::library) return {};
  if (rung.grid == Grid::tiles) return {tile_blocks(n, gpu)};
  std::vector<size_t> all;
  do {
    size_t blocks = rounds(n, rung.words * block_threads);
    if (rung.grid == Grid::resident)
      blocks = all.empty() ? std::min(blocks, resident_blocks(gpu)) : 1;
    all.push_back(blocks);
    n = blocks;
  } while (n > 1);
  return all;
}

inline double all_blocks(const Rung& rung, size_t n, Gpu gpu) {
  double blocks = 0;
  for (const size_t each : launches(rung, n, gpu)) blocks += double(each);
  return blocks;
}

/// Words that launches leave for the next ones.
inline size_t partial_sums(const Rung& rung, size_t n, Gpu gpu) {
  const bool leaves_some = rung.grid == Grid::one_pass || rung.grid == Grid::resident;
  return leaves_some ? size_t(all_blocks(rung, n, gpu)) - 1 : 0;
}

/// Bytes of memory beside input and result: partial sums, or slots of 8 bytes.
inline double scratch_bytes(const Rung& rung, size_t n, Gpu gpu) {
  return rung.grid == Grid::tiles ? 8 * all_blocks(rung, n, gpu)
                                  : 4 * double(partial_sums(rung, n, gpu));
}

/// The most additions that a word goes through on its way into the result.
inline double additions(const Rung& rung, size_t n, Gpu gpu) {
  if (rung.grid == Grid::tiles) {
    // a thread's loads; within four words, and the edges; the slots; warps, then their sums: twice
    const size_t blocks = launches(rung, n, gpu)[0];
    const size_t loads = rounds(n, blocks * 4 * tile_quads) * tile_loads;
    return double(loads + 2 + 2 + rounds(blocks, tile_threads) + 2 * (5 + 5));
  }
  constexpr double steps_of_a_block = 8;  // that halve its words until one is left
  double depth = 0;
  for (const size_t blocks : launches(rung, n, gpu)) {
    depth += steps_of_a_block + (rung.words == 4 ? 3 : rung.words - 1);
    if (rung.grid == Grid::resident)
      depth += double(rounds(n, blocks * rung.words * block_threads));
    n = blocks;
  }
  return depth;
}

/// Bound of a float sum's error as a share of the sum of magnitudes. A word is rounded once in each
/// of k additions, by at most u = 2^-24 of what it is part of, and (1 + u)^k - 1 <= ku / (1 - ku).
inline double error_bound(double additions) {
  return additions * 0x1p-24 / (1 - additions * 0x1p-24);
}

// ---- what a block of the first launch does ----

/// The additions of the step with stride s: each warp in which a thread adds loads the left words
/// and the right words, and stores the left ones.
inline Traffic step_of_block(const Rung& rung, unsigned s) {
  Traffic all;
  for (unsigned first = 0; first < block_threads; first += 32) {
    LaneWords left, right;
    left.fill(idle);
    right.fill(idle);
    bool adds = false;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const Addition step = addition(rung.rule, s, first + lane, block_threads);
      if (!step.active) continue;
      left[lane] = step.left + (rung.padded ? step.left / 32 : 0);
      right[lane] = step.right + (rung.padded ? step.right / 32 : 0);
      adds = true;
    }
    if (!adds) continue;
    all.load(wavefronts(left));
    all.load(wavefronts(right));
    all.store(wavefronts(left));
  }
  return all;
}

/// Wavefronts: passes through the banks of shared memory.
inline Traffic traffic_of_block(const Rung& rung) {
  Traffic all;
  if (rung.grid == Grid::tiles) {  // each warp stores its sum, one warp loads them
    all.load(1);
    for (unsigned warp = 0; warp < tile_threads / 32; ++warp) all.store(1);
    return all;
  }
  for (unsigned warp = 0; warp < block_warps; ++warp) all.store(1);  // its words
  for (unsigned k = 0; k < rung.steps; ++k)
    all.add(step_of_block(rung, stride_of(rung.rule, k, block_threads)));
  if (rung.steps == 3) {  // the last warp's 32 words
    all.load(1);
    all.store(1);
  }
  all.load(1);  // the result
  return all;
}

inline double instructions_of_block(const Rung& rung) {
  const Instructions& i = rung.instructions;
  return block_warps * (i.of_a_warp + double(rung.steps) * i.of_a_step) + i.first_warp;
}

// ---- how long it takes ----

/// The model's three constants, measured in the same run, in milliseconds. The others are
/// properties of the device, and the counts of instructions above.
struct Calibrated {
  double launch = NAN;   ///< a launch that has one word to sum
  double wait = NAN;     ///< what a block takes beside its instructions, over all multiprocessors
  double latency = NAN;  ///< of a load, while all others load too
};

/// Milliseconds that all multiprocessors together take for a block's work. Each issues four
/// instructions of warps per cycle (two on compute capability 6.0), and one wavefront passes
/// through its shared memory. A warp that waits for its own conflicts while others have nothing to
/// do is not in it. Not a number where the clock is not reported.
inline double work_ms(const Rung& rung, const Device& device) {
  constexpr double issued_per_cycle = 4;
  const double cycles = std::max(instructions_of_block(rung) / issued_per_cycle,
                                 double(traffic_of_block(rung).taken()));
  const double cycles_per_ms = double(device.sm_clock_khz) * device.prop.multiProcessorCount;
  return cycles_per_ms > 0 ? cycles / cycles_per_ms : NAN;
}

/// Not a number where the memory's clock is not reported.
inline double bytes_per_ms(const Device& device) {
  return device.theoretical_gbs > 0 ? device.theoretical_gbs * 1e6 : NAN;
}

/// Bytes that a row has in flight at once, at most.
inline double in_flight(const Rung& rung, size_t n, Gpu gpu) {
  const double bytes = 4.0 * double(n);
  if (rung.grid == Grid::library) return bytes;  // nobody knows; enough
  const bool tiles = rung.grid == Grid::tiles;
  const double threads = tiles ? double(tile_blocks_each) * gpu.multiprocessors * tile_threads
                               : double(resident_blocks(gpu)) * block_threads;
  const double loads = tiles ? tile_loads : 1;
  return std::min(bytes, threads * loads * 4 * rung.words);
}

/// Milliseconds in which all bytes in flight arrive and as many others set out: as of the two sides
/// of a right triangle, a load's latency and what the memory takes to pass them on. (See
/// 04_bandwidth in_flight.)
inline double turn_ms(double bytes, double latency, const Device& device) {
  return std::hypot(latency, bytes / bytes_per_ms(device));
}

/// CUB adds blocks, and then their sums.
inline double launch_count(const Rung& rung, size_t n, Gpu gpu) {
  return rung.grid == Grid::library ? 2 : double(launches(rung, n, gpu).size());
}

/// From the times of one word in one launch, and of two rows over n words.
inline Calibrated calibrate(double one_word, double of_descending, double of_several, size_t n,
                            const Device& device) {
  const Gpu gpu = gpu_of(device);
  const Rung& slow = rung_of("reduce_descending");
  const double blocks_ms = of_descending - one_word * launch_count(slow, n, gpu);
  const double wait = blocks_ms / all_blocks(slow, n, gpu) - work_ms(slow, device);

  const Rung& loads = rung_of("reduce_several");
  const double under_way = in_flight(loads, n, gpu);
  const double turns = 4.0 * double(n) / under_way;
  const double turn = (of_several - one_word * launch_count(loads, n, gpu)) / turns;
  const double passed_on = under_way / bytes_per_ms(device);
  return {.launch = one_word,
          .wait = std::max(wait, 0.0),
          .latency = std::sqrt(std::max(turn * turn - passed_on * passed_on, 0.0))};
}

/// Milliseconds of a whole sum.
inline double predicted_ms(const Rung& rung, size_t n, const Calibrated& c, const Device& device) {
  const Gpu gpu = gpu_of(device);
  const double bytes = 4.0 * double(n);
  const double launched = c.launch * launch_count(rung, n, gpu);
  if (rung.grid == Grid::one_pass) {
    const double blocks = all_blocks(rung, n, gpu) * (work_ms(rung, device) + c.wait);
    return launched + std::max(blocks, bytes / bytes_per_ms(device));
  }
  const double under_way = in_flight(rung, n, gpu);
  return launched + bytes / under_way * turn_ms(under_way, c.latency, device);
}

/// How far a test may hold a row to that.
inline Model model_of(const Rung& rung, size_t n, const Device* device) {
  if (!device || !beyond_l2(*device, 4.0 * double(n))) return Model::host;  // caches: anything
  // that the wait adds to the instructions was found on 9.0, for which these were counted
  if (rung.grid == Grid::one_pass) return device->prop.major == 9 ? Model::traffic : Model::host;
  return rung.key == "reduce_several" ? Model::latency : Model::traffic;
}
