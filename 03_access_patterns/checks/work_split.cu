// Self-checks of work_split.cu, compiled in its place where BUILD_TESTING is on.
#include "../work_split.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// Sums by the text's two loops.
std::vector<unsigned> sums_by_host(Split split, size_t threads, size_t n) {
  const size_t size = (n + threads - 1) / threads;
  std::vector<unsigned> sums(threads, 0);
  for (size_t tid = 0; tid < threads; ++tid) {
    const auto add = [&](size_t i) { sums[tid] += unsigned(value_at(i) * value_at(i)); };
    if (split == Split::chunks)
      for (size_t i = tid * size; i < std::min((tid + 1) * size, n); ++i) add(i);
    else
      for (size_t i = tid; i < n; i += threads) add(i);
  }
  return sums;
}

}  // namespace

TEST_CASE("work_split: the words' takers are those of the text's loops") {
  for (const size_t n : {1, 31, 256, 1009, 65537})
    for (const size_t threads : {1, 32, 256, 8192})
      for (const Split split : {Split::chunks, Split::interleaved}) {
        std::vector<unsigned> sums(threads, 0);
        for (size_t i = 0; i < n; ++i)
          sums.at(taker(split, i, threads, n)) += unsigned(value_at(i) * value_at(i));
        CHECK(sums == sums_by_host(split, threads, n));
      }
}

TEST_CASE("work_split: sectors and passes of a warp's load") {
  CHECK(sectors(load(Split::chunks, 256, 1 << 20)) == 32);
  CHECK(sectors(load(Split::chunks, 8192, 1 << 15)) == 16);  // chunks of 4 words: two lanes each
  CHECK(sectors(load(Split::interleaved, 256, 1 << 20)) == 4);
  CHECK(passes(load(Split::chunks, 256, 1 << 20)) == 32);
  CHECK(passes(load(Split::chunks, 256, 256 * 4097)) == 1);
  CHECK(passes(load(Split::chunks, 256, 256 * 12)) == 4);
  CHECK(passes(load(Split::interleaved, 256, 1 << 20)) == 1);
}

TEST_CASE("work_split: predictions, by hand") {
  CHECK(latency_of(2) == 512 - 14);
  const auto cycles = [](const char* key, unsigned loads, double latency) {
    return predicted_cycles(kernel(key, loads), 1 << 20, latency);
  };
  CHECK(cycles("squares_by_chunks", 16, 400) == 1);
  CHECK(predicted_cycles(kernel("chunks_at_once", 1), 256 * 4097, 400) == 0.5);  // 32 lines
  CHECK(cycles("interleaved_at_once", 1, 498) == doctest::Approx(2));
  CHECK(cycles("interleaved_at_once", 4, 450) == doctest::Approx(0.5));  // of 1024
  CHECK(cycles("interleaved_at_once", 16, 770) == doctest::Approx(0.25));
  CHECK(cycles("squares_interleaved", 16, 770) == doctest::Approx(0.25));
}

TEST_CASE("work_split: chunks on a whole GPU, by hand") {
  Device device;
  device.sm_clock_khz = 1000;  // a cycle is a microsecond
  device.prop.multiProcessorCount = 4;
  CHECK(predicted_ms(256, 256 * 4096, 1, device) == doctest::Approx(256 * 4.096 / 4));
  CHECK(predicted_ms(256, 256 * 4097, 1, device) == doctest::Approx(256 * 4.097 / 8));
  CHECK(predicted_ms(256, 256 * 4096, 300, device) == 300);  // the memory
  device.sm_clock_khz = 0;                                   // not reported
  CHECK_FALSE(std::isfinite(predicted_ms(256, 256 * 4096, 1, device)));
}

TEST_CASE("work_split: sizes of made-up devices: in L2, and beyond it") {
  std::string printed;
  Report report("work_split", &printed);
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(80) << 30;
  const Run run{report, &device, {}};
  for (const int mib : {2, 4, 50, 60, 72, 126}) {  // up to RTX 4090 and B200
    device.prop.l2CacheSize = mib << 20;
    const size_t n = words_of_block(run);
    CHECK(n <= size_t(1) << 27);  // which one block reads in less than 0.1 s
    CHECK((n & (n - 1)) == 0);    // the chunks meet in one bank
    CHECK(8 * words_in_l2(run) <= device.l2_bytes());
    CHECK(passes(load(Split::chunks, block_threads, places(run)[1].n)) == 1);
  }
  CHECK(words_in_l2(run) == 1 << 20);
  CHECK(one_warp(run).grid.threads() == 32);  // nothing to switch to
  for (const Pair& pair : {text_pair(run), one_warp(run), whole_gpu(run)}) {
    CHECK(pair.by_chunks.split == Split::chunks);
    CHECK(pair.by_interleaving.split == Split::interleaved);
    CHECK(pair.by_chunks.loads == pair.by_interleaving.loads);
    CHECK(!pair.by_chunks.text == !pair.by_interleaving.text);
  }
}

TEST_CASE("work_split: what decides each part") {
  const auto verdict = [](const char* part, const char* chunks, double by_chunks,
                          const char* interleaved, double by_interleaving) {
    return verdict_if(work_split_experiment, part,
                      {{chunks, by_chunks}, {interleaved, by_interleaving}});
  };
  const auto text = [&](double a, double b) {
    return verdict("03.7a", "squares_by_chunks", a, "squares_interleaved", b);
  };
  CHECK(text(30, 2) == verdict_text(Verdict::holds));
  CHECK(text(30, 10) == verdict_text(Verdict::holds_weaker));
  CHECK(text(1, 2) == verdict_text(Verdict::does_not_hold));
  const auto alone = [&](double a, double b) {
    return verdict("03.7b", "chunks_one_warp", a, "interleaved_one_warp", b);
  };
  CHECK(alone(1, 2) == verdict_text(Verdict::holds));
  CHECK(alone(2, 1) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("work_split: every thread's sum is that of the text's loop") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 1009, 100003})
    for (const Grid grid : {Grid{}, Grid{.of_block = 32}, Grid{.blocks = 7}, Grid{.blocks = 300}}) {
      const Shared squares(Squares(n, grid));
      for (const Kernel& k : kernels) {
        if (k.text && grid.threads() != block_threads) continue;
        CAPTURE(n);
        CAPTURE(grid.blocks);
        CAPTURE(k.key);
        CHECK(wrong_after(task_of(k.key, squares, k)) == 0);
        CHECK(squares->sum.to_host() == sums_by_host(k.split, grid.threads(), n));
      }
    }
}

TEST_CASE("work_split: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 32) + 77;
  if (5.0 * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(5.0 * double(n)) + " of device memory");
  const Shared squares(Squares(n, Grid{resident_blocks(Device::current().prop, block_threads)}));
  for (const char* key : {"chunks_at_once", "interleaved_at_once"})
    CHECK(wrong_after(task_of(key, squares, kernel(key, 4))) == 0);
}

EXPERIMENT_CHECKS(work_split)
