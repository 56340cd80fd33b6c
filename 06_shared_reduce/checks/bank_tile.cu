// Self-checks of bank_tile.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_tile.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("bank_tile: each tile holds every word once, and two of them cure the columns") {
  for (const Tile& tile : tiles) {
    std::set<unsigned> places;
    for (unsigned row = 0; row < 32; ++row)
      for (unsigned column = 0; column < 32; ++column) places.insert(place_of(tile, row, column));
    CHECK(places.size() == tile_words);
    CHECK(*places.rbegin() < 32 * tile.row_words);
    const int of_column = tile.key == "plain_tile" ? 32 : 1;
    for (unsigned i = 0; i < 32; ++i) {
      CHECK(row_wavefronts(tile, i) == 1);
      CHECK(column_wavefronts(tile, i) == of_column);
    }
    CHECK(predicted_cycles(tile) == of_column);
  }
}

TEST_CASE("bank_tile: pads of other tiles, as the page's answers have them") {
  // wavefronts of a column of 32 words of some bytes, in rows of so many words
  const auto column = [](unsigned bytes, unsigned row_words) {
    return wavefronts_of(bytes, [=](unsigned lane) { return lane * row_words; });
  };
  CHECK(column(4, 34) == 2);   // two extra words per row
  CHECK(column(8, 32) == 32);  // 8-byte words
  CHECK(column(8, 33) == 2);   // and one extra of them: as few as a row of them takes
  CHECK(column(8, 34) == 4);
  CHECK(column(16, 33) == 4);
}

EXPERIMENT_CHECKS(bank_tile)
