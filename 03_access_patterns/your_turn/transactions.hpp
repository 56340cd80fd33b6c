// What memory makes of the addresses of one warp: a model of five generations of GPUs, on the host.
// The rules are those of the CUDA C Programming Guide, its appendix on compute capabilities (1.x
// and 2.x: guides 3.2 and 4.2).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

/// The addresses that a warp's lanes read or write in one instruction.
struct Warp {
  unsigned word = 4;  ///< bytes that each lane moves: 1, 2, 4, 8 or 16
  /// Byte address of each lane's word, a multiple of `word`; -1: lane inactive.
  std::array<long long, 32> address;

  bool active(unsigned lane) const { return address[lane] >= 0; }
};

/// The warp whose lane `lane` takes word number `index(lane)` of an array that begins at address 0;
/// negative: inactive.
template <class Index>
Warp warp_of(unsigned word, Index&& index) {
  Warp warp{word, {}};
  for (unsigned lane = 0; lane < 32; ++lane) {
    const long long i = index(lane);
    warp.address[lane] = i < 0 ? -1 : i * word;
  }
  return warp;
}

/// Generations of rules, oldest first.
enum class Rule {
  in_order,   ///< compute capability 1.0, 1.1: a half-warp in order in one aligned segment, else
              ///< each lane for itself
  any_order,  ///< 1.2, 1.3: one transaction for each segment that a half-warp wants, as small as it
              ///< can be
  through_l1,  ///< 2.x, 3.x: lines of 128 bytes
  past_l1,     ///< 2.x, 3.x past L1: segments of 32 bytes
  sectors,     ///< today (and in L1 since 5.x): sectors of 32 bytes, the whole warp at once
};
inline constexpr Rule rules[] = {Rule::in_order, Rule::any_order, Rule::through_l1, Rule::past_l1,
                                 Rule::sectors};

inline const char* rule_name(Rule rule) {
  constexpr const char* names[] = {"1.0, 1.1", "1.2, 1.3", "2.x, 3.x in L1", "2.x, 3.x past L1",
                                   "today"};
  return names[static_cast<int>(rule)];
}

/// One piece of memory that is moved whole.
struct Transaction {
  long long start;
  unsigned bytes;
};

/// What one instruction of a warp moves.
struct Transactions {
  std::vector<Transaction> list;
  unsigned requested = 0;  ///< bytes that the lanes want; one that several want counts once

  int count() const { return static_cast<int>(list.size()); }
  unsigned bytes() const {
    unsigned sum = 0;
    for (const Transaction& t : list) sum += t.bytes;
    return sum;
  }
  /// Requested bytes as a share of those moved, 0 to 1; 0 if nothing moved.
  double utilisation() const { return list.empty() ? 0 : double(requested) / bytes(); }
};

/// The aligned segments of `size` bytes that lanes `first` to `first + lanes - 1` want, each once,
/// in the order of lanes.
inline std::vector<long long> segments(const Warp& warp, unsigned size, unsigned first = 0,
                                       unsigned lanes = 32) {
  std::vector<long long> starts;
  for (unsigned lane = first; lane < first + lanes; ++lane) {
    const long long start = warp.address[lane] / size * size;
    if (warp.active(lane) && std::find(starts.begin(), starts.end(), start) == starts.end())
      starts.push_back(start);
  }
  return starts;
}

/// Sectors of 32 bytes in one request today: what the counters l1tex__t_sectors over
/// l1tex__t_requests give. An instruction is one request whatever the size of its words, so
/// coalesced words of 4, 8, 16 bytes are 4, 8, 16 sectors.
inline int sectors(const Warp& warp) { return static_cast<int>(segments(warp, 32).size()); }

/// Bytes that the L2 fetches from memory for a sector of 32: the default of the runtime's setting
/// cudaLimitMaxL2FetchGranularity on an H100 and an H200. fetch.cu shows that the setting decides.
inline constexpr unsigned memory_piece = 64;

/// Pieces of so many bytes, aligned, in which these words lie.
inline int pieces(const Warp& warp, unsigned bytes) {
  return static_cast<int>(segments(warp, bytes).size());
}

/// Lines of 128 bytes in which they lie.
inline int lines(const Warp& warp) { return static_cast<int>(segments(warp, 128).size()); }

/// Whether compute capability 1.0 moves the half-warp from lane `first` on together: its k-th lane
/// wants the k-th word of an aligned segment. Lanes may be inactive; 16-byte words take two
/// segments of 128 bytes, one behind the other.
inline bool coalesced(const Warp& warp, unsigned first) {
  if (warp.word < 4) return false;
  long long begin = -1;
  for (unsigned k = 0; k < 16; ++k) {
    if (!warp.active(first + k)) continue;
    const long long from_here = warp.address[first + k] - static_cast<long long>(k) * warp.word;
    if (from_here < 0 || from_here % std::min(16 * warp.word, 128u) != 0) return false;
    if (begin >= 0 && from_here != begin) return false;
    begin = from_here;
  }
  return true;
}

/// What a load of `warp` moves under `rule`.
inline Transactions under(Rule rule, const Warp& warp) {
  Transactions moved;
  moved.requested = static_cast<unsigned>(segments(warp, warp.word).size()) * warp.word;
  const bool first_generations = rule == Rule::in_order || rule == Rule::any_order;
  unsigned lanes = 32;  // of one request
  if (first_generations) lanes = 16;
  if (rule == Rule::through_l1 || rule == Rule::past_l1) lanes = std::min(32u, 128 / warp.word);
  for (unsigned first = 0; first < 32; first += lanes) {
    if (rule == Rule::in_order && !coalesced(warp, first)) {
      for (unsigned lane = first; lane < first + 16; ++lane)
        if (warp.active(lane)) moved.list.push_back({warp.address[lane] / 32 * 32, 32});
      continue;
    }
    unsigned size = rule == Rule::through_l1 ? 128 : 32;
    if (rule == Rule::in_order) size = std::min(16 * warp.word, 128u);
    if (rule == Rule::any_order) size = std::min(32 * warp.word, 128u);
    for (long long start : segments(warp, size, first, lanes)) {
      Transaction t{start, size};
      while (rule == Rule::any_order &&
             t.bytes > 32) {  // halved as long as one half holds all that is wanted
        const auto wanted = [&](long long from) {
          const std::vector<long long> halves = segments(warp, t.bytes / 2, first, lanes);
          return std::find(halves.begin(), halves.end(), from) != halves.end();
        };
        const bool low = wanted(t.start), high = wanted(t.start + t.bytes / 2);
        if (low && high) break;
        t = {low ? t.start : t.start + t.bytes / 2, t.bytes / 2};
      }
      moved.list.push_back(t);
    }
  }
  return moved;
}

/// What a store of `warp` moves under 2.x and 3.x: segments of 32 bytes, four that are a whole
/// line, or two that are half of one, at a time.
inline Transactions stored(const Warp& warp) {
  Transactions moved;
  moved.requested = static_cast<unsigned>(segments(warp, warp.word).size()) * warp.word;
  std::vector<long long> wanted = segments(warp, 32);
  std::sort(wanted.begin(), wanted.end());
  for (size_t i = 0; i < wanted.size();) {
    unsigned together = 4;
    while (together > 1 && (wanted[i] % (32 * together) != 0 || i + together > wanted.size() ||
                            wanted[i + together - 1] != wanted[i] + 32 * (together - 1)))
      together /= 2;
    moved.list.push_back({wanted[i], 32 * together});
    i += together;
  }
  return moved;
}
