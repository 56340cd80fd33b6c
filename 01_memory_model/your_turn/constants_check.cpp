// Checks constants.cu: a request for each different word of a warp.
#include <set>

#include "constants.hpp"

void check_constants(const Constants& yours, const Constants&) {
  your_turn::watch("five numbers");
  const auto of = [](auto&& index) {  // of warp 1, which is as good as any
    std::set<unsigned> words;
    for (unsigned tid = 32; tid < 64; ++tid) words.insert(index(tid));
    return double(words.size());
  };
  your_turn::require_predicted({
      {"table[blockIdx.x]", yours.same, of([](unsigned) { return 5u; }),
       "in which lanes does blockIdx.x differ?"},
      {"table[threadIdx.x % 32]", yours.lane, of([](unsigned tid) { return tid % 32; }),
       "how many different words does a warp want?"},
      {"table[threadIdx.x % 4]", yours.fours, of([](unsigned tid) { return tid % 4; }),
       "lanes that want the same word need not be neighbours"},
      {"table[threadIdx.x % 32 / 8]", yours.eighths, of([](unsigned tid) { return tid % 32 / 8; }),
       "how many different words does a warp want?"},
      {"table[threadIdx.x / 32]", yours.warps, of([](unsigned tid) { return tid / 32; }),
       "count for one warp, not for the block"},
  });
}
