// Checks banks.cu by the model of 06_shared_reduce/banks.hpp, which your_turn::wavefronts is held
// to.
#include "banks.hpp"

void check_banks(const Banks& yours, const Banks&) {
  your_turn::watch("seven numbers");
  const auto of = [](auto&& index) {
    your_turn::WarpWords words;
    for (unsigned lane = 0; lane < 32; ++lane) words[lane] = index(lane);
    return double(your_turn::wavefronts(words));
  };
  your_turn::require_predicted({
      {"tile[i / 2]", yours.halved, of([](unsigned i) { return i / 2; }),
       "two lanes want the same word"},
      {"tile[2 * i]", yours.doubled, of([](unsigned i) { return 2 * i; }),
       "which lanes are in bank 0?"},
      {"tile[3 * i]", yours.tripled, of([](unsigned i) { return 3 * i; }),
       "lane 11 is in bank 1; is any other lane?"},
      {"tile[8 * i]", yours.eightfold, of([](unsigned i) { return 8 * i; }),
       "how many banks are used?"},
      {"tile[32 * i]", yours.column, of([](unsigned i) { return 32 * i; }),
       "how many banks are used?"},
      {"tile[33 * i]", yours.padded, of([](unsigned i) { return 33 * i; }),
       "in which bank is lane i?"},
      {"tile[32 * (i % 2)]", yours.two_words, of([](unsigned i) { return 32 * (i % 2); }),
       "how many different words, and in which banks?"},
  });
}
