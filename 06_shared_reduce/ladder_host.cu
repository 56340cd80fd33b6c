// The host's half of `ladder`: the rungs, what each launches, and how long that should take.
#include <algorithm>
#include <cmath>

#include "banks.hpp"
#include "ladder.hpp"

namespace reduce {

const Rung rungs[rung_count] = {
    {"modulo", "reduce_modulo", Grid::one_pass, 1, 8, {26, 28, 11}},
    {"mask", "reduce_mask", Grid::one_pass, 1, 8, {26, 12, 11}},
    {"strided", "reduce_strided", Grid::one_pass, 1, 8, {26, 14, 11}},
    {"descending", "reduce_descending", Grid::one_pass, 1, 8, {26, 10, 11}},
    {"add on load", "reduce_add_on_load", Grid::one_pass, 2, 8, {37, 10, 11}},
    {"shuffles at last", "reduce_shuffle", Grid::one_pass, 2, 3, {40, 11, 25}},
    {"one instruction at last", "reduce_redux", Grid::one_pass, 2, 3, {38, 11, 16}},
    {"several words a thread", "reduce_several", Grid::resident, 1, 3, {}},
    {"16-byte loads", "reduce_vector", Grid::resident, 4, 3, {}},
    {"one launch", "sum_once", Grid::tiles, 4, 0, {}},
    {"one launch, words used once", "sum_streaming", Grid::tiles, 4, 0, {}},
    {"CUB DeviceReduce", "", Grid::library, 0, 0, {}},
};

// ---- what a rung launches ----

namespace {

size_t rounds(size_t n, size_t a_round) { return std::max<size_t>((n + a_round - 1) / a_round, 1); }

/// A tile a block until every multiprocessor is full, then four tiles a block: so many blocks that
/// the array's end finds all multiprocessors at work, and so few that the last block has few slots
/// to read.
size_t tile_blocks(size_t n, Gpu gpu) {
  const size_t tiles = rounds(n, 4 * tile_quads);
  return std::max(std::min<size_t>(tiles, tile_blocks_each * gpu.multiprocessors),
                  rounds(tiles, 4));
}

/// Blocks that the GPU holds at once.
size_t resident_blocks(Gpu gpu) {
  return std::max<size_t>(size_t(gpu.multiprocessors) * (gpu.resident_threads / block_threads), 1);
}

}  // namespace

Gpu gpu_of(const Device& device) {
  return {unsigned(device.prop.multiProcessorCount),
          unsigned(device.prop.maxThreadsPerMultiProcessor)};
}

std::vector<size_t> launches(const Rung& rung, size_t n, Gpu gpu) {
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

double scratch_bytes(const Rung& rung, size_t n, Gpu gpu) {
  double blocks = 0;
  for (const size_t each : launches(rung, n, gpu)) blocks += double(each);
  return rung.grid == Grid::tiles ? blocks * sizeof(Slot) : 4 * (blocks - 1);
}

double additions(const Rung& rung, size_t n, Gpu gpu) {
  if (rung.grid == Grid::tiles) {
    // a thread's loads; within four words, and the edges; the slots; warps, then their sums: twice
    const size_t blocks = launches(rung, n, gpu)[0];
    const size_t loads = rounds(n, blocks * 4 * tile_quads) * tile_loads;
    return double(loads + 2 + 2 + rounds(blocks, tile_threads) + 2 * (5 + 5));
  }
  double depth = 0;
  for (const size_t blocks : launches(rung, n, gpu)) {
    depth += block_steps + (rung.words == 4 ? 3 : rung.words - 1);
    if (rung.grid == Grid::resident)
      depth += double(rounds(n, blocks * rung.words * block_threads));
    n = blocks;
  }
  return depth;
}

// ---- what to expect ----

namespace {

/// Which words are added by the text's kernels, and by those that end as the third does.
Rule rule_of(const Rung& rung) {
  if (&rung == &rungs[modulo] || &rung == &rungs[mask]) return Rule::modulo;
  return &rung == &rungs[strided] ? Rule::strided : Rule::descending;
}

/// Milliseconds that all multiprocessors together take for a block's work. Each issues four
/// instructions of warps a cycle (two on compute capability 6.0), and one wavefront passes through
/// its shared memory. A warp that waits for its own conflicts while others have nothing to do is
/// not in it. Not a number where the clock is not reported.
double work_ms(const Rung& rung, const Device& device) {
  constexpr double issued_a_cycle = 4;
  const double cycles =
      std::max(instructions_of_block(rung) / issued_a_cycle, wavefronts_of_block(rung).both());
  const double cycles_a_ms = double(device.sm_clock_khz) * device.prop.multiProcessorCount;
  return cycles_a_ms > 0 ? cycles / cycles_a_ms : NAN;
}

double all_blocks(const Rung& rung, size_t n, Gpu gpu) {
  double blocks = 0;
  for (const size_t each : launches(rung, n, gpu)) blocks += double(each);
  return blocks;
}

/// Not a number where the memory's clock is not reported.
double bytes_a_ms(const Device& device) {
  return device.theoretical_gbs > 0 ? device.theoretical_gbs * 1e6 : NAN;
}

/// Bytes that a rung has in flight at once, at most.
double in_flight(const Rung& rung, size_t n, Gpu gpu) {
  const double bytes = 4.0 * double(n);
  if (rung.grid == Grid::library) return bytes;  // nobody knows; enough
  const double threads = rung.grid == Grid::tiles
                             ? double(tile_blocks_each) * gpu.multiprocessors * tile_threads
                             : double(resident_blocks(gpu)) * block_threads;
  const double loads = rung.grid == Grid::tiles ? tile_loads : 1;
  return std::min(bytes, threads * loads * 4 * rung.words);
}

/// Milliseconds in which all bytes in flight arrive and as many others set out: as of the two sides
/// of a right triangle, a load's latency and what the memory takes to pass them on. (See
/// 04_bandwidth in_flight.)
double turn_ms(double bytes, double latency, const Device& device) {
  return std::hypot(latency, bytes / bytes_a_ms(device));
}

/// CUB adds blocks, and then their sums.
double launch_count(const Rung& rung, size_t n, Gpu gpu) {
  return rung.grid == Grid::library ? 2 : double(launches(rung, n, gpu).size());
}

}  // namespace

double instructions_of_block(const Rung& rung) {
  const Instructions& i = rung.instructions;
  return warps * (i.of_a_warp + double(rung.steps) * i.of_a_step) + i.first_warp;
}

Wavefronts wavefronts_of_block(const Rung& rung) {
  if (rung.grid == Grid::tiles) return {1, tile_threads / 32.0};  // each warp's sum; one warp loads
  Traffic all;
  for (unsigned warp = 0; warp < warps; ++warp) all.store(1);  // its words
  for (unsigned k = 0; k < rung.steps; ++k)
    all.add(step_traffic(rule_of(rung), stride_of(rule_of(rung), k, block_threads), block_threads));
  if (rung.steps == 3) {  // the last warp's 32 words
    all.load(1);
    all.store(1);
  }
  all.load(1);  // the result
  return {double(all.loads), double(all.stores)};
}

Calibrated calibrate(double one_word, double of_descending, double of_several, size_t n,
                     const Device& device) {
  const Gpu gpu = gpu_of(device);
  const double bytes = 4.0 * double(n);
  Calibrated c;
  c.launch = one_word;

  const Rung& slow = rungs[descending];
  const double blocks_ms = of_descending - one_word * launch_count(slow, n, gpu);
  c.wait = std::max(blocks_ms / all_blocks(slow, n, gpu) - work_ms(slow, device), 0.0);

  const Rung& loads = rungs[several];
  const double under_way = in_flight(loads, n, gpu);
  const double turn = (of_several - one_word * launch_count(loads, n, gpu)) * under_way / bytes;
  const double passed_on = under_way / bytes_a_ms(device);
  c.latency = std::sqrt(std::max(turn * turn - passed_on * passed_on, 0.0));
  return c;
}

double predicted_ms(const Rung& rung, size_t n, const Calibrated& c, const Device& device) {
  const Gpu gpu = gpu_of(device);
  const double bytes = 4.0 * double(n);
  const double launched = c.launch * launch_count(rung, n, gpu);
  if (rung.grid == Grid::one_pass) {
    const double blocks = all_blocks(rung, n, gpu) * (work_ms(rung, device) + c.wait);
    return launched + std::max(blocks, bytes / bytes_a_ms(device));
  }
  const double under_way = in_flight(rung, n, gpu);
  return launched + bytes / under_way * turn_ms(under_way, c.latency, device);
}

Model model_of(const Rung& rung, size_t n, const Calibrated& c, const Device& device) {
  if (!beyond_l2(device, 4.0 * double(n))) return Model::host;  // caches give what they give
  // that the wait adds to the instructions was found on 9.0, for which these were counted
  if (rung.grid == Grid::one_pass) return device.prop.major == 9 ? Model::traffic : Model::host;
  const double passed_on = in_flight(rung, n, gpu_of(device)) / bytes_a_ms(device);
  return passed_on > c.latency ? Model::traffic : Model::latency;
}

}  // namespace reduce
