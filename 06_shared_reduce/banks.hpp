// The model of shared memory's banks: how many wavefronts a warp's load or store takes, from the
// words that its lanes want. There are 32 banks; the word with index i (of 4 bytes) is in bank
// i % 32. A wavefront is one pass through all banks, in which each gives (or takes) one word, to as
// many lanes as want that word.
#pragma once

#include <algorithm>
#include <array>
#include <set>

inline constexpr unsigned bank_count = 32;

/// The index of the first 4-byte word that each lane of a warp wants; `idle` for a lane that wants
/// none.
using Lanes = std::array<long, 32>;
inline constexpr long idle = -1;

/// Whether lanes come in pairs that agree: each two neighbours (lane and lane ^ 1), or each two
/// lanes that are two apart (lane and lane ^ 2), want the same word, or one of the two is idle.
inline bool pairs_agree(const Lanes& lanes) {
  for (unsigned distance : {1u, 2u}) {
    bool all = true;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const long mine = lanes[lane], other = lanes[lane ^ distance];
      all = all && (mine == other || mine == idle || other == idle);
    }
    if (all) return true;
  }
  return false;
}

/// How many different words `count` lanes, from `first` on, want of each bank.
inline std::array<int, bank_count> words_of_banks(const Lanes& lanes, unsigned bytes,
                                                  unsigned first, unsigned count) {
  std::set<long> wanted[bank_count];
  for (unsigned lane = first; lane < first + count; ++lane) {
    if (lanes[lane] == idle) continue;
    for (unsigned part = 0; part < bytes / 4; ++part) {
      const long word = lanes[lane] + part;
      wanted[word % bank_count].insert(word);
    }
  }
  std::array<int, bank_count> words{};
  for (unsigned bank = 0; bank < bank_count; ++bank) words[bank] = int(wanted[bank].size());
  return words;
}

/// Wavefronts of one load or store of `bytes` (4, 8 or 16) a lane. Words of 4 bytes are served to
/// all 32 lanes together, of 8 bytes to half of them at a time, of 16 to a quarter, or to twice as
/// many if they come in pairs that agree; each such group takes as many wavefronts as its busiest
/// bank has different words to give. (Pairs: found by published microbenchmarks, on Turing; the
/// profile preset holds the rule against random patterns.)
inline int wavefronts(const Lanes& lanes, unsigned bytes = 4) {
  unsigned group = 128 / bytes;
  if (bytes > 4 && pairs_agree(lanes)) group *= 2;
  int sum = 0;
  for (unsigned first = 0; first < 32; first += group) {
    const std::array<int, bank_count> words = words_of_banks(lanes, bytes, first, group);
    sum += *std::max_element(words.begin(), words.end());
  }
  return sum;
}

/// The same where every lane wants one word of that size, the lane's with index `index_of(lane)`.
template <class Index>
int wavefronts_of(unsigned bytes, const Index& index_of) {
  Lanes lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = long(index_of(lane)) * (bytes / 4);
  return wavefronts(lanes, bytes);
}

/// What several loads and stores take together.
struct Traffic {
  int loads = 0, stores = 0;  ///< wavefronts
  int ideal = 0;              ///< wavefronts of both if no bank were wanted twice
  int degree = 0;  ///< of the worst of them: its wavefronts over its ideal ones, as in "2-way"

  void load(int taken, int best = 1) {
    loads += taken;
    note(taken, best);
  }
  void store(int taken, int best = 1) {
    stores += taken;
    note(taken, best);
  }
  int taken() const { return loads + stores; }
  void add(const Traffic& other) {
    loads += other.loads;
    stores += other.stores;
    ideal += other.ideal;
    degree = std::max(degree, other.degree);
  }

 private:
  void note(int taken, int best) {
    ideal += best;
    degree = std::max(degree, taken / best);
  }
};

/// The additions of one step of a reduction by a block of n threads: every warp in which a thread
/// adds loads the left words and the right words, and stores the left. `step_of(tid)` says what a
/// thread does: whether it is `active`, and the indices of its words, `left` and `right`.
template <class StepOf>
Traffic step_traffic(unsigned n, const StepOf& step_of) {
  Traffic all;
  for (unsigned first = 0; first < n; first += 32) {
    Lanes left, right;
    left.fill(idle);
    right.fill(idle);
    bool adds = false;
    for (unsigned lane = 0; lane < 32 && first + lane < n; ++lane) {
      const auto step = step_of(first + lane);
      if (!step.active) continue;
      left[lane] = step.left;
      right[lane] = step.right;
      adds = true;
    }
    if (!adds) continue;
    all.load(wavefronts(left));
    all.load(wavefronts(right));
    all.store(wavefronts(left));
  }
  return all;
}
