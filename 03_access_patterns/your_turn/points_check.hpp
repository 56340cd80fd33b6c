// What is checked of a layout. Included behind the answer.
#pragma once

#include <vector>

#include "../../common/exercise.hpp"
#include "../../common/sectors.hpp"

constexpr size_t sizes[] = {1, 2, 31, 32, 33, 1000, 1009, 4099};
constexpr Field fields[] = {x, y, z};

using WordsFor = size_t (*)(size_t n);
using WordOf = size_t (*)(size_t i, Field field, size_t n);

inline void check_words(WordsFor words_for, WordOf word_of) {
  for (const size_t n : sizes) {
    CAPTURE(n);
    const size_t words = words_for(n);
    if (words < 3 * n || words > 3 * n + 96) FAIL("an array of " << words << " words");
    std::vector<bool> taken(words);
    for (size_t i = 0; i < n; ++i)
      for (const Field field : fields) {
        CAPTURE(i);
        const std::string name(1, "xyz"[field]);
        const size_t word = word_of(i, field, n);
        if (word >= words) FAIL(name << " is in word " << word << " of " << words);
        if (taken[word]) FAIL(name << " is in word " << word << ", and so is another");
        taken[word] = true;
      }
  }
}

TEST_CASE("right: every field of every point has a word of its own") {
  check_words(words_for, word_of);
}

inline void check_sectors(WordOf word_of) {
  for (const size_t n : sizes)
    for (size_t first = 0; first + 32 <= n; first += 32)
      for (const Field field : fields) {
        CAPTURE(n);
        CAPTURE(first);
        const size_t moved =
            sectors(4, [&](size_t lane) { return word_of(first + lane, field, n); });
        if (moved > 4) FAIL(moved << " sectors per request; 4 will do");
      }
}

TEST_CASE("cheap: 4 sectors per request, not 12") { check_sectors(word_of); }
