// What is checked of the predictions. Included behind the answer.
#pragma once

#include <cmath>

#include "../../common/exercise.hpp"

constexpr double bytes = 256.0 * 1024 * 1024, pages = bytes / 65536;
constexpr double mapped_ms = bytes / 50e6, read_ms = bytes / 3000e6, moving_ms = 12;

bool within_a_quarter(double yours, double right) {
  return std::abs(yours - right) <= 0.25 * right;
}

inline void check_pass(double mapped, double moved) {
  if (!within_a_quarter(mapped, mapped_ms)) FAIL_CHECK("mapped: 268 MB cross 50 GB/s");
  if (!within_a_quarter(moved, moving_ms + read_ms))
    FAIL_CHECK("moved: first the array moves, then a pass reads device memory");
}

inline void check_passes(double passes) {
  if (passes != std::floor(moving_ms / (mapped_ms - read_ms)) + 1)
    FAIL("passes: what do two passes take in each way, and what three?");
}

inline void check_sparse(double sparse_mapped, double sparse_moved) {
  if (!within_a_quarter(sparse_mapped, pages * 32 / 1024))
    FAIL_CHECK("sparse_mapped: how many pages are there, and what crosses for each word?");
  if (!within_a_quarter(sparse_moved, pages * 64))
    FAIL_CHECK("sparse_moved: what crosses when a page is touched?");
}

TEST_CASE("right: one pass, mapped and moved") { check_pass(mapped, moved); }
TEST_CASE("right: from how many passes on moving takes less time") { check_passes(passes); }
TEST_CASE("right: what crosses the link for one word of each page") {
  check_sparse(sparse_mapped, sparse_moved);
}
