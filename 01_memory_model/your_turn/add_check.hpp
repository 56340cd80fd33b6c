// What is checked of the two repairs. Included behind the answer.
#pragma once

#include "../../common/arrays.cuh"
#include "../../common/exercise.hpp"
#include "machine_code.hpp"

/// Several launches. With many blocks on a multiprocessor the two warps of a block get their amounts
/// at different times: so a missing barrier is likely to show. Each launch has amounts of its own:
/// what the one before left in shared memory is wrong.
void check_sums(void (*kernel)(unsigned*, const unsigned*)) {
  for (const unsigned blocks : {1, 33, 1009, 100003, 100019, 100043, 100049}) {
    CAPTURE(blocks);
    const GuardedBuffer<unsigned> value(blocks);
    for_each_index<<<1024, 256>>>(
        blocks, [value = value.data()] __device__(size_t b) { value[b] = unsigned(b); });
    const auto amount = filled<unsigned>(64 * size_t(blocks),
                                         [=] __device__(size_t i) { return hash(i + blocks); });
    kernel<<<blocks, 64>>>(value, amount);
    CUDA_CHECK_LAUNCH();
    const std::string error = find_mismatch(value, [=] __device__(size_t b) {
      unsigned sum = unsigned(b);
      for (unsigned i = 0; i < 64; ++i) sum += hash(64 * b + i + blocks);
      return sum;
    });
    if (!error.empty()) FAIL(error);
  }
}

TEST_CASE("right: with_an_atomic adds all amounts") {
  if (skip_without_gpu()) return;
  check_sums(with_an_atomic);
}

TEST_CASE("right: without_atomics adds all amounts") {
  if (skip_without_gpu()) return;
  check_sums(without_atomics);
}

/// By the names of two kernels of this program.
void check_atomics(const std::string& with_an_atomic, const std::string& without_atomics) {
  const std::string first = machine_code(with_an_atomic), second = machine_code(without_atomics);
  if (first.empty()) return skip("python3 or cuobjdump is not here, or shows no machine code");
  if (first.find("atomics") == std::string::npos)
    FAIL(with_an_atomic << " has no atomic: " << first);
  if (second.find("atomics") != std::string::npos) FAIL(without_atomics << " has " << second);
}

TEST_CASE("right: the first kernel is compiled to an atomic, the second to none") {
  check_atomics("with_an_atomic", "without_atomics");
  skip_without_gpu();  // then the sums are not checked, and nothing is done
}
