// The model of shared memory's banks: how many wavefronts a warp's load or store takes, from the
// words that its lanes want. There are 32 banks; the word with index i (of 4 bytes) is in bank
// i % 32. A wavefront is one pass through all banks, in which each gives (or takes) one word, to as
// many lanes as want that word. And who adds what in the guide's reductions, which are told by it.
#pragma once

#include <algorithm>
#include <array>
#include <set>

#include "../framework/common/checked.cuh"
#include "../framework/common/report.hpp"

inline constexpr unsigned bank_count = 32;

/// The index of the first 4-byte word that each lane of a warp wants; `idle` for a lane that wants
/// none.
using LaneWords = std::array<long, 32>;
inline constexpr long idle = -1;

/// Whether lanes come in pairs that agree: each two neighbours (lane and lane ^ 1), or each two
/// lanes that are two apart (lane and lane ^ 2), want the same word, or one of the two is idle.
inline bool pairs_agree(const LaneWords& lanes) {
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
inline std::array<int, bank_count> words_of_banks(const LaneWords& lanes, unsigned bytes,
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

/// Wavefronts of one load or store if so many lanes at a time are served: each such group takes as
/// many as its busiest bank has different words to give.
inline int wavefronts_by_groups(const LaneWords& lanes, unsigned bytes, unsigned group) {
  int sum = 0;
  for (unsigned first = 0; first < 32; first += group) {
    const std::array<int, bank_count> words = words_of_banks(lanes, bytes, first, group);
    sum += *std::max_element(words.begin(), words.end());
  }
  return sum;
}

/// Wavefronts of one load or store of `bytes` (4, 8 or 16) a lane: words of 4 bytes are served to
/// all 32 lanes together, of 8 bytes to half of them at a time, of 16 to a quarter.
inline int wavefronts(const LaneWords& lanes, unsigned bytes = 4) {
  return wavefronts_by_groups(lanes, bytes, 128 / bytes);
}

/// Those of a load, which serves twice as many lanes at a time if they come in pairs that agree. (A
/// store does not. NVIDIA's guides do not mention pairs; "CUDA shared memory access mechanism with
/// vectorized instructions", code.hitori.moe, measured them on Turing. The profile preset holds
/// both rules against random patterns.)
inline int load_wavefronts(const LaneWords& lanes, unsigned bytes) {
  const bool pairs = bytes > 4 && pairs_agree(lanes);
  return wavefronts_by_groups(lanes, bytes, (pairs ? 2 : 1) * 128 / bytes);
}

/// Those of a load in which every lane wants one word of that size, the lane's with index
/// `index_of(lane)`.
template <class Index>
int wavefronts_of(unsigned bytes, const Index& index_of) {
  LaneWords lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = long(index_of(lane)) * (bytes / 4);
  return load_wavefronts(lanes, bytes);
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

/// What a thread does in a step: word[left] += word[right], if it is active.
struct Addition {
  bool active;
  unsigned left, right;
};

/// The guide's `reduce`, `reduce1` and `reduce2`: which threads add which words.
enum class Rule {
  modulo,      ///< every 2s-th thread, its own word and the one at distance s; s = 1, 2, 4 ...
  strided,     ///< the first n / 2s threads, words that lie 2s apart; s = 1, 2, 4 ...
  descending,  ///< the first s threads, words side by side; s = n/2 ... 4, 2, 1
};

/// What thread `tid` of n does in the step with stride s.
inline Addition addition(Rule rule, unsigned s, unsigned tid, unsigned n) {
  if (rule == Rule::modulo) return {tid % (2 * s) == 0, tid, tid + s};
  if (rule == Rule::strided) return {2 * s * tid < n, 2 * s * tid, 2 * s * tid + s};
  return {tid < s, tid, tid + s};
}

/// The stride of step k, from 0.
inline unsigned stride_of(Rule rule, unsigned k, unsigned n) {
  return rule == Rule::descending ? n >> (k + 1) : 1u << k;
}

/// The additions of the step with stride s by a block of n threads: every warp in which a thread
/// adds loads the left words and the right words, and stores the left.
inline Traffic step_traffic(Rule rule, unsigned s, unsigned n) {
  Traffic all;
  for (unsigned first = 0; first < n; first += 32) {
    LaneWords left, right;
    left.fill(idle);
    right.fill(idle);
    bool adds = false;
    for (unsigned lane = 0; lane < 32 && first + lane < n; ++lane) {
      const Addition step = addition(rule, s, first + lane, n);
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

/// A wavefront a cycle was found on compute capability 9.0, and a test holds rows to it there.
/// (Others may have too few load units to ask for a word of every bank in each cycle.)
inline Model wavefront_model(const Device* device) {
  return device && device->prop.major == 9 ? Model::traffic : Model::host;
}

/// Cycles of what each block of a launch does `times` times, by its multiprocessor's own clock: the
/// block leaves them in `cycles`. The median of the blocks, of so many launches.
inline Statistics cycles_of(const Task& task, DeviceBuffer<long long>& cycles, double times,
                            int launches) {
  require_right(task);
  std::vector<double> of_launches;
  for (int launch = 0; launch < launches; ++launch) {
    cycles.poison();
    task.launch();
    CUDA_CHECK_LAUNCH();
    std::vector<double> of_blocks;
    for (const long long c : cycles.to_host()) {
      require_right(c > 0, task.name + ", cycles");
      of_blocks.push_back(double(c) / times);
    }
    of_launches.push_back(summarize(of_blocks).median);
  }
  return summarize(of_launches);
}

/// Word i of what the kernels of the bank_ experiments read.
struct WordAt {
  __device__ unsigned operator()(size_t i) const { return samples::scrambled(i); }
};
