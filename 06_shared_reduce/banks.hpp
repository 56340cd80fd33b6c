// Shared memory's banks. There are 32; the word number i, of 4 bytes, is in bank i % 32. In a
// wavefront each bank gives (or takes) one word, to as many lanes as want that word. Who wants which
// word in the guide's three reductions stands here too.
#pragma once

#include <algorithm>
#include <set>

constexpr long idle = -1;  ///< of a lane that wants no word

/// Wavefronts of a warp's load or store in which lane i wants number word_of(i) of an array of words
/// of `bytes` (4, 8 or 16), or is idle. Words of 4 bytes are served to all 32 lanes together, of 8
/// bytes to half of them at a time, of 16 to a quarter.
template <class WordOf>
int wavefronts(unsigned bytes, WordOf word_of) {
  int sum = 0;
  for (unsigned first = 0; first < 32; first += 128 / bytes) {
    std::set<long> wanted[32];  // of each bank
    for (unsigned lane = first; lane < first + 128 / bytes; ++lane) {
      const long word = word_of(lane);
      for (long part = word * (bytes / 4); word != idle && part < (word + 1) * (bytes / 4); ++part)
        wanted[part % 32].insert(part);
    }
    size_t most = 0;
    for (const std::set<long>& bank : wanted) most = std::max(most, bank.size());
    sum += int(most);
  }
  return sum;
}

/// The guide's `reduce`, `reduce1` and `reduce2`: in a step with stride s, which threads add what.
enum class Order {
  modulo,      ///< every 2s-th thread: its own word and the one at distance s; s = 1, 2, 4 ...
  strided,     ///< the first n / 2s threads: words 2s apart; s = 1, 2, 4 ...
  descending,  ///< the first s threads: words side by side; s = n/2 ... 4, 2, 1
};

/// word[left] += word[right], if the thread is active.
struct Addition {
  bool active;
  unsigned left, right;
};

/// What thread `tid` of a block of n does in the step with stride s.
inline Addition addition(Order order, unsigned s, unsigned tid, unsigned n) {
  if (order == Order::modulo) return {tid % (2 * s) == 0, tid, tid + s};
  if (order == Order::strided) return {2 * s * tid < n, 2 * s * tid, 2 * s * tid + s};
  return {tid < s, tid, tid + s};
}

/// The stride of step k, from 0, of a block of n threads.
inline unsigned stride_of(Order order, unsigned k, unsigned n) {
  return order == Order::descending ? n >> (k + 1) : 1u << k;
}

/// What a step does to the banks: wavefronts of all warps, and the worst of them ("2-way").
struct Step {
  int wavefronts = 0, degree = 0;
};

/// The step with stride s by a block of n threads: each warp in which a thread adds loads the left
/// words and the right ones, and stores the left. place(i): where word i lies (elsewhere if padded).
template <class Place>
Step step_wavefronts(Order order, unsigned s, unsigned n, Place place) {
  Step all;
  for (unsigned first = 0; first < n; first += 32) {
    const auto word = [&](unsigned Addition::*side) {
      return wavefronts(4, [&](unsigned lane) {
        const Addition a = addition(order, s, first + lane, n);
        return first + lane < n && a.active ? long(place(a.*side)) : idle;
      });
    };
    const int left = word(&Addition::left), right = word(&Addition::right);
    all.wavefronts += 2 * left + right;
    all.degree = std::max({all.degree, left, right});
  }
  return all;
}
inline Step step_wavefronts(Order order, unsigned s, unsigned n) {
  return step_wavefronts(order, s, n, [](unsigned i) { return i; });
}
