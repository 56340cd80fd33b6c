// What is checked of a way to share out pages. Included behind the answer.
#pragma once

#include <set>
#include <vector>

#include "../../common/exercise.hpp"
#include "../../common/sectors.hpp"

constexpr size_t page_words = 65536 / 4;
constexpr unsigned steps = page_words / 32;
constexpr size_t sizes[] = {1,     33, page_words - 1, page_words, page_words + 1, 3 * page_words,
                            100003};

size_t warps_for(size_t n) { return (n + page_words - 1) / page_words; }

using Answer = long long (*)(size_t warp, unsigned step, unsigned lane, size_t n);

inline void check_elements(Answer element) {
  for (const size_t n : sizes) {
    CAPTURE(n);
    std::vector<unsigned> taken(n);
    for (size_t warp = 0; warp < warps_for(n); ++warp)
      for (unsigned step = 0; step < steps; ++step)
        for (unsigned lane = 0; lane < 32; ++lane) {
          const long long i = element(warp, step, lane, n);
          if (i >= (long long)n)
            FAIL("warp " << warp << ", step " << step << ", lane " << lane << " takes element "
                         << i);
          if (i >= 0) ++taken[size_t(i)];
        }
    size_t wrong = 0, first = n;
    for (size_t i = n; i-- > 0;)
      if (taken[i] != 1) {
        ++wrong;
        first = i;
      }
    if (wrong)
      FAIL(wrong << " of " << n << " are wrong, the first at " << first << ": it is taken "
                 << taken[first] << " times");
  }
}

inline void check_64_bits(Answer element) {
  constexpr size_t n = size_t(1) << 33;
  const auto page_of = [&](size_t warp) { return element(warp, 0, 0, n) / (long long)page_words; };
  if (page_of(0) == page_of(262144)) FAIL("warps 0 and 262144 take the same page");
}

inline void check_pages(Answer element) {
  for (const size_t n : sizes)
    for (size_t warp = 0; warp < warps_for(n); ++warp) {
      std::set<size_t> pages;
      for (unsigned step = 0; step < steps; ++step)
        for (unsigned lane = 0; lane < 32; ++lane)
          if (const long long i = element(warp, step, lane, n); i >= 0)
            pages.insert(size_t(i) / page_words);
      if (pages.size() != 1)
        FAIL("n is " << n << ": a warp touches " << pages.size() << " pages; 1 will do");
    }
}

inline void check_sectors(Answer element) {
  for (const size_t n : sizes)
    for (unsigned step = 0; step < steps && (step + 1) * 32 <= n; ++step) {
      const size_t moved =
          sectors(4, [&](size_t lane) { return size_t(element(0, step, lane, n)); });
      if (moved > 4) FAIL("n is " << n << ": " << moved << " sectors per request; 4 will do");
    }
}

TEST_CASE("right: every element once") { check_elements(element); }
TEST_CASE("right: an array of more words than 32 bits count") { check_64_bits(element); }
TEST_CASE("cheap: a page per warp") { check_pages(element); }
TEST_CASE("cheap: 4 sectors per request, not 32") { check_sectors(element); }
