// Self-checks of unroll_replies.cu, compiled in its place where BUILD_TESTING is on.
#include "../unroll_replies.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"

namespace {

bool canaries_stand(const Stacks& arrays) {
  const std::vector<unsigned> all = arrays.out.to_host();
  return std::count(all.end() - arrays.canaries, all.end(), ~0u) == long(arrays.canaries);
}

}  // namespace

TEST_CASE("unroll: stacks and chains of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const double side = stack_side(run);
    CHECK(resident_blocks(*run.device) * tail_threads ==
          unsigned(run.device->prop.maxThreadsPerMultiProcessor));
    CHECK(int(across * down) * 2 <= run.device->prop.maxThreadsPerMultiProcessor);
    return Needs{8 * side * (side + height), 8 * side * side};
  });
}

TEST_CASE("unroll: what the replies should gain, by hand") {
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
  CHECK(resident_blocks(device) == 6);
  const Chain c{4, 1.0 / 128};                    // a word waits 4 ms, 128 are issued in one
  CHECK(c.ms(64, 8192) == doctest::Approx(256));  // few threads, one at a time
  CHECK(c.ms(16, 8192) == doctest::Approx(64));   // four at a time
  CHECK(c.ms(1, 8192) == doctest::Approx(64));
  CHECK(tail1_ms(c, 8) == doctest::Approx(20));
  CHECK(tail4_ms(c, 8) == doctest::Approx(18));
}

TEST_CASE("unroll: the kernels of the replies are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned columns : {1u, 31u, 33u, 257u})
    for (const unsigned rows : {1u, 2u, 3u, 5u, 127u, 131u}) {
      Stacks stacks(columns, rows);
      std::vector<unsigned> right;
      for (unsigned y = 0; y < rows; ++y)
        for (unsigned x = 0; x < columns; ++x) {
          right.push_back(0);
          for (unsigned d = 0; d < height; ++d)
            right.back() += word_at(size_t(y + d) * columns + x);
        }
      for (const unsigned words : {1u, 4u}) {
        CAPTURE(columns);
        CAPTURE(rows);
        CAPTURE(words);
        CHECK(wrong_after(stacks.task(words)) == 0);
        CHECK(canaries_stand(stacks));
        std::vector<unsigned> found = stacks.out.to_host();
        found.resize(right.size());
        CHECK(found == right);
      }
    }
  for (const unsigned n : {1u, 31u, 1009u, 5000u})
    for (const unsigned turns : {0u, 1u, 17u, 64u}) {
      Chains chains(n, turns);
      for (const unsigned words : {1u, 4u})
        for (const unsigned threads : {32u, 33u, 256u}) {
          CHECK(wrong_after(chains.task(words, n, 3, threads)) == 0);
          CHECK(wrong_after(chains.task(words, n - 1, 3, threads)) == 0);
          CHECK(chains.wrong(n) == 1);  // and the check itself can fail
        }
    }
}
