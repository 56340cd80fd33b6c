// What is checked of the steps. Included behind the answer.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "../../common/exercise.hpp"
#include "../banks.hpp"

constexpr unsigned sizes[] = {64, 128, 256, 512, 1024};

using Answer = Sum (*)(unsigned step, unsigned tid, unsigned n);

/// One step of n threads, where no thread may read or write a word that another one writes. The
/// array has 2 * n words.
inline void add_up(Answer sum, std::vector<unsigned>& word, unsigned step) {
  CAPTURE(step);
  const unsigned n = unsigned(word.size()) / 2;
  std::map<unsigned, unsigned> writer;  // of a word
  for (unsigned tid = 0; tid < n; ++tid) {
    const Sum s = sum(step, tid, n);
    if (!s.adds && !s.copies) continue;
    for (const unsigned i : {s.to, s.left, s.adds ? s.right : s.left})
      if (i >= 2 * n) FAIL("thread " << tid << " takes word " << i << " of " << 2 * n);
    if (!writer.emplace(s.to, tid).second)
      FAIL("threads " << writer[s.to] << " and " << tid << " write word " << s.to);
  }
  for (unsigned tid = 0; tid < n; ++tid) {
    const Sum s = sum(step, tid, n);
    if (!s.adds && !s.copies) continue;
    for (const unsigned i : {s.left, s.adds ? s.right : s.left})
      if (writer.count(i) && writer[i] != tid)
        FAIL("thread " << tid << " reads word " << i << ", and thread " << writer[i]
                       << " writes it");
    word[s.to] = word[s.left] + (s.adds ? word[s.right] : 0);
  }
}

inline void check_sums(Answer sum, unsigned (*result)(unsigned n)) {
  for (const unsigned n : sizes) {
    CAPTURE(n);
    std::vector<unsigned> word(2 * n);
    for (unsigned i = 0; i < n; ++i) word[i] = (i + 1) * 0x9e3779b1u;
    const std::vector<unsigned> input = word;
    for (unsigned step = 0; 1u << step < n; ++step) add_up(sum, word, step);
    const unsigned first = result(n);
    if (first > n) FAIL("the result begins at word " << first << "; it does not fit into the rest");
    unsigned right = 0;
    for (unsigned i = 0; i < n; ++i) {
      right += input[i];
      if (word[first + i] != right)
        FAIL("prefix sum " << i << " is " << word[first + i] << "; it should be " << right);
    }
  }
}

inline void check_wavefronts(Answer sum) {
  for (const unsigned n : sizes)
    for (unsigned step = 0; 1u << step < n; ++step)
      for (unsigned first = 0; first < n; first += 32) {
        CAPTURE(n);
        CAPTURE(step);
        const auto wavefronts_of = [&](unsigned Sum::*side, bool of_copies) {
          return wavefronts(4, [&](unsigned lane) {
            const Sum s = sum(step, first + lane, n);
            return s.adds || (s.copies && of_copies) ? long(s.*side) : idle;
          });
        };
        const int most = std::max({wavefronts_of(&Sum::to, true), wavefronts_of(&Sum::left, true),
                                   wavefronts_of(&Sum::right, false)});
        if (most > 1) FAIL(most << " wavefronts per request; 1 will do");
      }
}

TEST_CASE("right: all prefix sums, and no thread reads what another one writes") {
  check_sums(sum, result);
}
TEST_CASE("cheap: 1 wavefront per request") { check_wavefronts(sum); }
