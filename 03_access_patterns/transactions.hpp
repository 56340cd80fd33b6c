// What memory moves for the 32 addresses of a warp, by the rules of five generations of GPUs, and a
// drawing of it. The rules stand in the CUDA programming guides 3.2 and 4.2, in the appendix on
// compute capabilities; [DD] and [LC 3] tell the same.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "../common/sample.hpp"

/// What the lanes of a warp want in one instruction.
struct Warp {
  long word;                     ///< bytes that each lane wants: 2, 4, 8 or 16
  std::array<long, 32> address;  ///< of the first of them; -1: the lane is idle
};

/// Lane i wants word number word_of(i) of an aligned array; a negative one: the lane is idle.
template <class WordOf>
Warp warp_of(long word, WordOf word_of) {
  Warp warp{word, {}};
  for (unsigned lane = 0; lane < 32; ++lane)
    warp.address[lane] = std::max(-1L, word * long(word_of(lane)));
  return warp;
}

/// Memory that moves as a whole.
struct Transaction {
  long start, bytes;
  bool operator==(const Transaction&) const = default;
};
using Transactions = std::vector<Transaction>;

/// The aligned segments of `size` bytes in which the words of these lanes lie, each once.
inline Transactions segments(const Warp& warp, long size, unsigned first = 0, unsigned lanes = 32) {
  Transactions all;
  for (unsigned lane = first; lane < first + lanes; ++lane) {
    const Transaction t{warp.address[lane] / size * size, size};
    if (warp.address[lane] >= 0 && std::find(all.begin(), all.end(), t) == all.end())
      all.push_back(t);
  }
  return all;
}

/// G80: does a half-warp move together? Lane k has to want word k of one aligned segment, or none.
inline bool coalesced_on_g80(const Warp& warp, unsigned first) {
  long begin = -1;  // of the segment
  for (unsigned k = 0; k < 16; ++k) {
    if (warp.address[first + k] < 0) continue;
    const long begin_of_k = warp.address[first + k] - long(k) * warp.word;
    if (begin >= 0 && begin_of_k != begin) return false;
    begin = begin_of_k;
    if (begin < 0 || begin % std::min(16 * warp.word, 128L) != 0) return false;
  }
  return warp.word >= 4;
}

/// GT200: a segment is halved as long as all that the half-warp wants of it lies in one half.
inline Transaction halved(Transaction t, const Warp& warp, unsigned first) {
  const auto wanted = segments(warp, 32, first, 16);
  const auto wants = [&](long from, long to) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [=](Transaction w) { return from <= w.start && w.start < to; });
  };
  while (t.bytes > 32) {
    const long middle = t.start + t.bytes / 2;
    const bool low = wants(t.start, middle), high = wants(middle, t.start + t.bytes);
    if (low && high) break;
    t = {low ? t.start : middle, t.bytes / 2};
  }
  return t;
}

enum Generation { g80, gt200, kepler_l1, kepler_l2, today };  // kepler: 2.x and 3.x, L1 or past it
constexpr Generation generations[] = {g80, gt200, kepler_l1, kepler_l2, today};
constexpr const char* generation_names[] = {"1.0, 1.1", "1.2, 1.3", "2.x, 3.x L1", "past L1",
                                            "5.x to now"};

inline Transactions transactions(Generation generation, const Warp& warp) {
  unsigned lanes = 32;  // that are served at a time
  if (generation == g80 || generation == gt200) lanes = 16;
  if (generation == kepler_l1 || generation == kepler_l2) lanes = std::min(32L, 128 / warp.word);
  Transactions all;
  for (unsigned first = 0; first < 32; first += lanes) {
    long size = generation == kepler_l1 ? 128 : 32;
    if (generation == g80) size = std::min(16 * warp.word, 128L);
    if (generation == gt200) size = std::min(32 * warp.word, 128L);
    if (generation == g80 && !coalesced_on_g80(warp, first)) {  // each lane for itself
      for (unsigned lane = first; lane < first + 16; ++lane)
        for (const Transaction& t : segments(warp, 32, lane, 1)) all.push_back(t);
      continue;
    }
    for (const Transaction& t : segments(warp, size, first, lanes))
      all.push_back(generation == gt200 ? halved(t, warp, first) : t);
  }
  return all;
}

inline long bytes_of(const Transactions& moved) {
  long sum = 0;
  for (const Transaction& t : moved) sum += t.bytes;
  return sum;
}
/// The share of what moves that the warp wants; a word that several lanes want counts once.
inline double used(Generation generation, const Warp& warp) {
  return double(bytes_of(segments(warp, warp.word))) / bytes_of(transactions(generation, warp));
}
