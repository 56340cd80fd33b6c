// Checks halo.cu: every word that a block needs is loaded, none that is not there, and a block
// moves at most 1.2 times the sectors that its words lie in.
#include <algorithm>

#include "halo.hpp"
#include "transactions.hpp"

namespace {

using your_turn::NotYet;

constexpr unsigned threads = 256, steps = 3;

/// Sectors of all requests of the block that begins at `first`.
int require_right(const Halo& yours, size_t first, size_t n) {
  const std::string what =
      "n = " + std::to_string(n) + ", block " + std::to_string(first / threads);
  your_turn::watch(what);
  const size_t from = first > 0 ? first - 1 : 0, to = std::min(first + threads + 1, n);
  std::vector<bool> there(to - from);
  int moved = 0;
  for (unsigned step = 0; step < steps; ++step)
    for (unsigned warp = 0; warp < threads; warp += 32) {
      std::array<long long, 32> words;
      for (unsigned lane = 0; lane < 32; ++lane) {
        const long long i = words[lane] = yours.load(warp + lane, step, first, n);
        const std::string who = what + ", step " + std::to_string(step) + ": thread " +
                                std::to_string(warp + lane) + " ";
        if (i >= (long long)(n))
          throw NotYet(who + "is out of bounds, it loads word " + std::to_string(i));
        if (i >= 0 && (size_t(i) < from || size_t(i) >= to))
          throw NotYet(who + "loads word " + std::to_string(i) +
                       ", which has no place in the tile");
        if (i >= 0) there[size_t(i) - from] = true;
      }
      moved += sectors(warp_of(4, [&](unsigned lane) { return words[lane]; }));
    }
  your_turn::Wrong wrong(what, "words");
  for (size_t i = from; i < to; ++i)
    wrong.add(there[i - from],
              [&] { return "word " + std::to_string(i) + ", which no thread loads"; });
  wrong.require_none();
  return moved;
}

}  // namespace

void check_halo(const Halo& yours, const Halo&) {
  for (const size_t n : {1, 31, 256, 257, 258, 1009})
    for (size_t first = 0; first < n; first += threads) require_right(yours, first, n);
  constexpr size_t first = threads, n = 4 * threads;  // a block with neighbours on both sides
  const int moved = require_right(yours, first, n), least = threads / 8 + 2;
  if (5 * moved > 6 * least)
    throw your_turn::Dear(std::to_string(moved) + " sectors a block; " + std::to_string(least) +
                          " will do");
}
