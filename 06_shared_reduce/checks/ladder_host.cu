// Self-checks of ladder_host.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder_host.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"

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
