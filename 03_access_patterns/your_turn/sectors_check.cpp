// Checks sectors.cu by the model of 03_access_patterns/transactions.hpp.
#include "sectors.hpp"
#include "transactions.hpp"

void check_sectors(const Sectors& yours, const Sectors&) {
  your_turn::watch("five numbers");
  const auto of = [](auto&& index) { return double(sectors(warp_of(4, index))); };
  your_turn::require_predicted({
      {"in[i]", yours.straight, of([](unsigned i) { return i; }),
       "32 words of 4 bytes, in sectors of 32 bytes"},
      {"in[i + 1]", yours.shifted, of([](unsigned i) { return i + 1; }),
       "in which sectors do the first word and the last one lie?"},
      {"in[8 * i]", yours.strided, of([](unsigned i) { return 8 * i; }),
       "how many words does a sector have?"},
      {"in[i / 4]", yours.fourfold, of([](unsigned i) { return i / 4; }),
       "how many different words are read?"},
      {"in[31 - i]", yours.backwards, of([](unsigned i) { return 31 - i; }),
       "which words are read, in whatever order?"},
  });
}
