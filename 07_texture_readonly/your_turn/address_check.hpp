// What is checked of the address modes. Included behind the answer.
#pragma once

#include <algorithm>
#include <string>

#include "../../common/exercise.hpp"

// The texel at place k, where k counts texels on to both sides: right of the last, n - 1, comes n.
inline int clamped(long long k, int n) { return int(std::clamp(k, 0ll, n - 1ll)); }
inline int wrapped(long long k, int n) { return int((k % n + n) % n); }
inline int mirrored(long long k, int n) {
  const int there_and_back = wrapped(k, 2 * n);
  return there_and_back < n ? there_and_back : 2 * n - 1 - there_and_back;
}

using Mode = int (*)(float x, int n);
using RightTexel = int (*)(long long k, int n);

inline void check_reading(Mode mode, float x, int n, int right) {
  const int found = mode(x, n);
  if (found != right)
    FAIL("at x = " << std::to_string(x) << " of " << n << " texels it reads " << found << "; "
                   << right << " is right");
}

/// All texels of 20 widths, at three places in each.
inline void check_near(Mode mode, RightTexel right) {
  for (const int n : {1, 2, 7, 8, 1009})
    for (int k = -10 * n; k < 10 * n; ++k)
      for (const float inside : {0.25f, 0.5f, 0.75f})
        check_reading(mode, (float(k) + inside) / float(n), n, right(k, n));
}

/// Texels far out, where x * n can be too large for an int.
inline void check_far(Mode mode, RightTexel right) {
  for (const int n : {1, 2, 7, 1009, 131071})
    for (const int width : {-3000001, -3000000, -99999, 99998, 3000000, 3000001})
      for (const float inside : {0.25f, 0.5f, 0.75f}) {
        const int k = int(inside * float(n));
        if (float(k) == inside * float(n)) continue;  // the border of two texels
        check_reading(mode, float(width) + inside, n, right((long long)(width)*n + k, n));
      }
}

inline void check_clamp_far(Mode clamp) {
  check_far(clamp, clamped);
  for (const float x : {1e10f, 3e38f}) {
    check_reading(clamp, x, 1009, 1008);
    check_reading(clamp, -x, 1009, 0);
  }
}

TEST_CASE("right: clamp") { check_near(clamp, clamped); }
TEST_CASE("right: clamp, far out") { check_clamp_far(clamp); }
TEST_CASE("right: wrap") { check_near(wrap, wrapped); }
TEST_CASE("right: wrap, far out") { check_far(wrap, wrapped); }
TEST_CASE("right: mirror") { check_near(mirror, mirrored); }
TEST_CASE("right: mirror, far out") { check_far(mirror, mirrored); }
