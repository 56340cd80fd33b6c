// What is checked of the steps. Included behind the answer.
#pragma once

#include <map>
#include <vector>

#include "../../common/exercise.hpp"
#include "../banks.hpp"

using Answer = Add (*)(unsigned step, unsigned tid, unsigned n);

/// One step of n threads, where no thread may touch a word that another one writes.
inline void add_up(Answer add, std::vector<unsigned>& word, unsigned step) {
  CAPTURE(step);
  const unsigned n = unsigned(word.size());
  std::map<unsigned, unsigned> writer;  // of a word
  for (unsigned tid = 0; tid < n; ++tid) {
    const Add a = add(step, tid, n);
    if (!a.adds) continue;
    if (a.left >= n || a.right >= n)
      FAIL("thread " << tid << " adds word " << a.right << " to word " << a.left << " of " << n);
    if (!writer.emplace(a.left, tid).second)
      FAIL("threads " << writer[a.left] << " and " << tid << " write word " << a.left);
  }
  for (unsigned tid = 0; tid < n; ++tid) {
    const Add a = add(step, tid, n);
    if (!a.adds) continue;
    if (writer.count(a.right) && writer[a.right] != tid)
      FAIL("thread " << tid << " reads word " << a.right << ", and thread " << writer[a.right]
                     << " writes it");
    word[a.left] += word[a.right];
  }
}

inline void check_sums(Answer add) {
  for (const unsigned n : {64u, 128u, 256u, 512u, 1024u}) {
    CAPTURE(n);
    std::vector<unsigned> word(n);
    unsigned sum = 0;
    for (unsigned i = 0; i < n; ++i) sum += word[i] = (i + 1) * 0x9e3779b1u;
    for (unsigned step = 0; 1u << step < n; ++step) add_up(add, word, step);
    if (word[0] != sum) FAIL("in the end word 0 is " << word[0] << "; the sum is " << sum);
  }
}

inline void check_wavefronts(Answer add) {
  int sum = 0;
  for (unsigned step = 0; step < 8; ++step)
    for (unsigned first = 0; first < 256; first += 32) {
      const auto wavefronts_of = [&](unsigned Add::*side) {
        return wavefronts(4, [&](unsigned lane) {
          const Add a = add(step, first + lane, 256);
          return a.adds ? long(a.*side) : idle;
        });
      };
      sum += 2 * wavefronts_of(&Add::left) + wavefronts_of(&Add::right);  // loads both, stores one
    }
  if (sum > 36) FAIL(sum << " wavefronts; 36 will do");
}

TEST_CASE("right: word 0 has the sum, and no thread touches what another one writes") {
  check_sums(add);
}
TEST_CASE("cheap: 36 wavefronts for 256 words, not 141") { check_wavefronts(add); }
