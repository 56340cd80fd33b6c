// The host's half of `ladder`: the rungs, what each launches, and how long that should take.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../common/made_up_devices.hpp"
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

// ---- self-checks ----

using namespace reduce;

namespace {

constexpr Gpu hopper{132, 2048};

Device made_up(int multiprocessors, int resident_threads) {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.multiProcessorCount = multiprocessors;
  device.prop.maxThreadsPerMultiProcessor = resident_threads;
  device.prop.l2CacheSize = 1 << 20;
  device.sm_clock_khz = 1000000;
  device.theoretical_gbs = 1000;
  return device;
}

}  // namespace

TEST_CASE("ladder: launches and scratch and additions of the rungs") {
  const size_t n = size_t(1) << 28;
  using Blocks = std::vector<size_t>;
  CHECK(launches(rungs[modulo], n, hopper) == Blocks{1 << 20, 1 << 12, 16, 1});
  CHECK(launches(rungs[add_on_load], n + 1, hopper) == Blocks{(1 << 19) + 1, 1025, 3, 1});
  CHECK(launches(rungs[quads], n, hopper) == Blocks{1056, 1});
  CHECK(launches(rungs[once], n, hopper) == Blocks{n / 16384 / 4});
  CHECK(launches(rungs[streaming], 16384 * 100 + 1, hopper) == Blocks{101});
  CHECK(scratch_bytes(rungs[modulo], n, hopper) == 4 * ((1 << 20) + (1 << 12) + 16));
  CHECK(scratch_bytes(rungs[once], n, hopper) == 8 * double(n / 16384 / 4));
  CHECK(additions(rungs[descending], n, hopper) == 4 * 8);
  CHECK(additions(rungs[several], size_t(1000) * 1056 * 256, hopper) == 1000 + 8 + 5 + 8);
  CHECK(additions(rungs[once], n, hopper) == 4 * 8 + 4 + 10 + 4096 / 512 + 10);
  for (int rung = 0; rung < library; ++rung)
    for (const size_t few : {0, 1, 2, 255, 256})
      CHECK(launches(rungs[rung], few, hopper) == Blocks{1});
}

TEST_CASE("ladder: words and grids of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const Gpu gpu = gpu_of(*run.device);
    const size_t n = fitting_size("ladder", 0, default_size(run), run.memory_there(), bytes_needed);
    CHECK(tile_blocks_each * tile_threads <= gpu.resident_threads);
    for (const Rung& rung : rungs) {
      for (const size_t blocks : launches(rung, n, gpu)) {
        CHECK(blocks >= 1);
        CHECK(blocks < size_t(1) << 31);
      }
      CHECK(scratch_bytes(rung, n, gpu) < bytes_needed(n) - 4.0 * double(n));
    }
    for (const size_t size : sizes_beside_library(run, 0))
      CHECK(bytes_needed(size) <= 0.9 * run.memory_there());
    return Needs{bytes_needed(n), 4.0 * double(n)};
  });
}

TEST_CASE("ladder: grids follow what made-up devices hold at once") {
  const size_t n = size_t(1) << 28;
  for (const Gpu gpu : {Gpu{40, 1024}, Gpu{24, 1536}, Gpu{148, 2048}}) {
    const size_t blocks = launches(rungs[several], n, gpu)[0];
    CHECK(blocks * block_threads == size_t(gpu.multiprocessors) * gpu.resident_threads);
    CHECK(launches(rungs[quads], n, gpu)[0] == blocks);
    CHECK(tile_blocks_each * tile_threads <= gpu.resident_threads);
    CHECK(launches(rungs[once], 16384, gpu)[0] == 1);
    CHECK(launches(rungs[once], 16384 * 2 * gpu.multiprocessors, gpu)[0] ==
          2 * gpu.multiprocessors);
  }
}

TEST_CASE("ladder: instructions and wavefronts of a block, by hand") {
  CHECK(instructions_of_block(rungs[modulo]) == 8 * (26 + 8 * 28) + 11);
  CHECK(instructions_of_block(rungs[descending]) == 8 * (26 + 8 * 10) + 11);
  CHECK(instructions_of_block(rungs[shuffle]) == 8 * (40 + 3 * 11) + 25);
  // Beside the steps each of 8 warps stores its words, and one loads the result. In the steps 47
  // warps load twice and store once in modulo and mask; in strided 12 do, but in 2 + 2 + 2 + 2, 4 +
  // 4, 8, 8, 8, 4, 2, 1 wavefronts; in descending 12, or 7 until 32 words are left.
  const double loads[] = {95, 95, 95, 25, 25, 16, 16, 16, 16, 1, 1};
  const double stores[] = {55, 55, 55, 20, 20, 16, 16, 16, 16, 16, 16};
  for (int rung = 0; rung < library; ++rung) {
    CAPTURE(std::string(rungs[rung].name));
    CHECK(wavefronts_of_block(rungs[rung]).loads == loads[rung]);
    CHECK(wavefronts_of_block(rungs[rung]).stores == stores[rung]);
  }
}

TEST_CASE("ladder: the steps that wavefronts are counted from add every word of a block once") {
  for (const int rung : {modulo, mask, strided, descending}) {
    CAPTURE(std::string(rungs[rung].name));
    const Rule rule = rule_of(rungs[rung]);
    std::vector<long long> word(block_threads);
    for (unsigned i = 0; i < block_threads; ++i) word[i] = (i + 1) * (i + 1);
    for (unsigned k = 0; k < rungs[rung].steps; ++k) {
      std::vector<int> uses(block_threads, 0);
      for (unsigned tid = 0; tid < block_threads; ++tid) {
        const Addition step = addition(rule, stride_of(rule, k, block_threads), tid, block_threads);
        if (!step.active) continue;
        CHECK(++uses.at(step.left) + ++uses.at(step.right) == 2);  // no other thread's in this step
        word.at(step.left) += word.at(step.right);
      }
    }
    CHECK(word[0] ==
          (long long)(block_threads) * (block_threads + 1) * (2 * block_threads + 1) / 6);
  }
}

TEST_CASE("ladder: predictions, by hand") {
  // ten multiprocessors of 1000 threads and 1 GHz, 1000 GB/s
  const Device device = made_up(10, 1024);
  const Calibrated c{0.01, 2e-6, 3e-4};
  const size_t n = size_t(1) << 24;  // 65536 + 256 + 1 blocks, three launches
  const auto us = [&](int rung) { return 1e3 * predicted_ms(rungs[rung], n, c, device); };
  const double cycle_us = 1e-3 / 10;
  CHECK(us(modulo) == doctest::Approx(30 + 65793 * (2011 / 4.0 * cycle_us + 2e-3)));
  CHECK(us(strided) == doctest::Approx(30 + 65793 * (1115 / 4.0 * cycle_us + 2e-3)));
  CHECK(us(shuffle) == doctest::Approx(30 + (32768 + 64 + 1) * (609 / 4.0 * cycle_us + 2e-3)));
  // 40960 bytes in flight take 300 ns by latency, 41 ns by the memory
  CHECK(us(several) == doctest::Approx(20 + 1638.4 * std::hypot(0.3, 0.04096)));
  CHECK(us(quads) == doctest::Approx(20 + 409.6 * std::hypot(0.3, 0.16384)));
  CHECK(us(once) == doctest::Approx(10 + 51.2 * std::hypot(0.3, 1.31072)));
  CHECK(us(library) == doctest::Approx(20 + 67.108864).epsilon(0.001));
  // no more in flight than there is to read
  CHECK(1e3 * predicted_ms(rungs[once], 1000, c, device) ==
        doctest::Approx(10 + std::hypot(0.3, 0.004)));
  // nothing is faster than the memory
  CHECK(1e3 * predicted_ms(rungs[shuffle], n, {0.01, 0, 3e-4}, made_up(100000, 1024)) ==
        doctest::Approx(30 + 67.108864));
  Device silent = device;
  silent.theoretical_gbs = 0;  // not reported
  CHECK(std::isnan(predicted_ms(rungs[once], n, c, silent)));
  CHECK(1e3 * predicted_ms(rungs[modulo], n, c, silent) == doctest::Approx(us(modulo)));
  CHECK(std::isnan(calibrate(0.01, 1, 1, n, silent).latency));
  silent.sm_clock_khz = 0;
  CHECK(std::isnan(predicted_ms(rungs[modulo], n, c, silent)));
  CHECK(std::isnan(calibrate(0.01, 1, 1, n, silent).wait));
}

TEST_CASE("ladder: calibrating finds the constants that a prediction was made with") {
  const Device device = made_up(10, 1024);
  const Calibrated c{0.01, 2e-6, 3e-4};
  const size_t n = 123456789;
  const Calibrated found = calibrate(c.launch, predicted_ms(rungs[descending], n, c, device),
                                     predicted_ms(rungs[several], n, c, device), n, device);
  CHECK(found.launch == c.launch);
  CHECK(found.wait == doctest::Approx(c.wait));
  CHECK(found.latency == doctest::Approx(c.latency));
  CHECK(calibrate(0.01, 0.001, 0.001, n, device).wait == 0);  // never less than nothing
}

TEST_CASE("ladder: regression: the rows of an earlier run on an H200 stay predicted") {
  // no proof of the model: its form was chosen by these rows, and two of them are its constants
  Device device = made_up(132, 2048);
  device.sm_clock_khz = 1980000;
  device.theoretical_gbs = 4814;
  const size_t n = size_t(1) << 28;
  const Calibrated c = calibrate(0.0023, 1.2376, 0.42184, n, device);
  const auto off = [&](int rung, double us) {
    return us / (1e3 * predicted_ms(rungs[rung], n, c, device));
  };
  CHECK(off(modulo, 2579) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(mask, 1288) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(strided, 1598) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(add_on_load, 665) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(shuffle, 524) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(quads, 246) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(streaming, 234.5) == doctest::Approx(1).epsilon(0.1));
  CHECK(off(library, 238.4) == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("ladder: what a test may hold a row to") {
  const Device device = made_up(10, 1024);
  Device other = device;
  other.prop.major = 8;
  const Calibrated c{0.01, 2e-6, 3e-4};
  const size_t n = size_t(1) << 24;
  CHECK(model_of(rungs[modulo], n, c, device) == Model::traffic);
  CHECK(model_of(rungs[modulo], n, c, other) == Model::host);
  CHECK(model_of(rungs[once], n, c, other) == Model::traffic);
  CHECK(model_of(rungs[several], n, c, other) == Model::latency);
  CHECK(model_of(rungs[once], 1000, c, other) == Model::host);  // in the L2
}
