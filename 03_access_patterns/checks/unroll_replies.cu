// Self-checks of unroll_replies.cu, compiled in its place where BUILD_TESTING is on.
#include "../unroll_replies.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/made_up_devices.hpp"

TEST_CASE("unroll: replies: blocks of made-up GPUs") {
  for (const Device& device : made_up_devices()) {
    CHECK(resident_of_tail(device) * tail_threads ==
          unsigned(device.prop.maxThreadsPerMultiProcessor));
    CHECK(int(across * down) * 2 <= device.prop.maxThreadsPerMultiProcessor);
  }
}

TEST_CASE("unroll: replies: what they should gain, by hand") {
  Device device;
  device.number = -1;
  device.sm_clock_khz = 1000;  // a cycle is a microsecond
  device.prop.multiProcessorCount = 4;
  device.prop.maxThreadsPerMultiProcessor = 1536;
  CHECK(stack_cycles(1) == 29);
  CHECK(stack_cycles(4) == 11);
  CHECK(busy_ms(1, 128 * 100, 1, device) == doctest::Approx(2.9));  // 100 warps on each
  CHECK(busy_ms(4, 128 * 100, 1, device) == doctest::Approx(1.1));
  CHECK(busy_ms(4, 128 * 100, 2, device) == doctest::Approx(2));  // the memory
  // 3 blocks of 512 threads at once on each of 4 multiprocessors
  CHECK(stack_rounds(1, 12 * 512 * 10, device) == doctest::Approx(10));
  CHECK(stack_rounds(4, 12 * 512 * 10, device) == doctest::Approx(2.5));
  const double outputs = 12 * 512 * 10;  // 480 warps' rows on each: 13.92 ms in L1, or 5.28
  CHECK(wait_of(33.92, outputs, 1, device) == doctest::Approx(2));
  CHECK(wait_of(10, outputs, 1, device) == 0);
  CHECK(stack_ms(4, outputs, 1, 2, device) == doctest::Approx(5.28 + 2.5 * 2));
  CHECK(resident_of_tail(device) == 6);
}

TEST_CASE("unroll: replies: chains, by hand") {
  const std::vector<ChainRow> rows = chain_rows(8, 10);
  const Chain c{4, 1.0 / 128};  // a word waits 4 ms, 128 are issued in one
  // 8192 words of a multiprocessor: 64 for each of few threads, 4 for each of all
  const double ms[] = {256, 64, 64, 64, 20, 18};
  const unsigned blocks[] = {10, 10, 80, 80, 90, 90}, threads[] = {128, 128, 256, 256, 256, 64};
  for (size_t i = 0; i < rows.size(); ++i) {
    const ChainRow& row = rows[i];
    CAPTURE(std::string(row.key));
    CHECK(row.predicted_ms(c) == doctest::Approx(ms[i]));
    CHECK(row.grid.blocks == blocks[i]);
    CHECK(row.grid.threads == threads[i]);
    CHECK(row.grid.words == (i < 4 ? 81920 : 23040));
    // all words are taken, by as many threads as the phases say
    if (i != 4)
      CHECK(row.phases[0].one_by_one * row.at_once * row.grid.blocks * row.grid.threads ==
            row.grid.words);
  }
}

TEST_CASE("unroll: replies: stacks are those of a host's sums") {
  if (skip_without_gpu()) return;
  for (const unsigned columns : {1u, 31u, 33u, 257u})
    for (const unsigned rows : {1u, 2u, 3u, 5u, 127u, 131u}) {
      const Shared stacks(Stacks{columns, rows});
      std::vector<unsigned> right;
      for (unsigned y = 0; y < rows; ++y)
        for (unsigned x = 0; x < columns; ++x) {
          right.push_back(0);
          for (unsigned d = 0; d < height; ++d)
            right.back() += scrambled(size_t(y + d) * columns + x);
        }
      for (const Task& task : {stack_task<stack1>(stacks, 1), stack_task<stack4>(stacks, 4)}) {
        CAPTURE(columns);
        CAPTURE(rows);
        CHECK(wrong_after(task) == 0);
        CHECK(stacks->out.to_host() == right);
      }
    }
}

TEST_CASE("unroll: replies: chains are right with any threads, and of fewer words than there are") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1u, 31u, 1009u, 5000u})
    for (const unsigned steps : {0u, 1u, 17u, 64u}) {
      const Shared chains(Chains{n, steps});
      for (const unsigned at_once : {1u, 4u})
        for (const unsigned threads : {32u, 33u, 256u})
          for (const unsigned words : {n, n - 1})
            CHECK(wrong_after(chain_task("chain", chains, at_once, {words, 3, threads})) == 0);
    }
}
