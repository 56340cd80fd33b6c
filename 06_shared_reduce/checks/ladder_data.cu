// Self-checks of ladder_data.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder_data.cu"

#include <doctest/doctest.h>

#include <set>

using namespace reduce;

TEST_CASE("ladder: no two words are the same, and their digits tell all of them apart") {
  std::set<long long> seen, by_digits;
  constexpr size_t count = 100000;
  for (size_t k = 0; k < count; ++k) {
    const size_t i = k * 42949 + 5;  // all over 2^32
    seen.insert(units_of<unsigned>(0, i));
    long long together = 0;
    for (unsigned d = 0; d < passes<float>; ++d) {
      const long long digit = units_of<float>(d, i);
      CHECK(std::abs(digit) <= 15);
      together = together * 31 + digit;
    }
    by_digits.insert(together);
  }
  CHECK(seen.size() == count);
  CHECK(by_digits.size() == count);
  CHECK(passes<float> == 8);
  CHECK(passes<unsigned> == 1);
}

TEST_CASE("ladder: a float holds every pass's sums exactly") {
  for (unsigned d = 0; d < passes<float>; ++d) {
    long long sum = 0, furthest = 0;
    for (size_t i = 0; i < size_t(1) << 20; ++i) {
      sum += units_of<float>(d, i);
      furthest = std::max(furthest, std::abs(sum));
    }
    CHECK(furthest < 1 << 17);  // 128 times as far for 2^34 words, if as at random: below 2^24
  }
}

TEST_CASE("ladder: the device's reference is the host's") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 1009, 65537, 300007})
    for (const size_t offset : {0, 3}) {
      Words<float> floats(n, offset);
      for (unsigned pass = 0; pass <= fractions; ++pass) {
        floats.fill(pass);
        CHECK(floats.sum(n) == Words<float>::sum_by_host(pass, n));
        CHECK(floats.sum(n / 2) == Words<float>::sum_by_host(pass, n / 2));
      }
      const Words<unsigned> whole(n, offset);
      CHECK(whole.sum(n) == Words<unsigned>::sum_by_host(0, n));
    }
}
