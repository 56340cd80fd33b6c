// Self-checks of bank_tile.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_tile.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

int row_wavefronts(const Tile& tile, unsigned row) {
  return wavefronts_of(4, [&](unsigned lane) { return place_of(tile, row, lane); });
}

}  // namespace

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Tile& tile : tiles) {
    int loads = 0, stores = 0;
    for (unsigned i = 0; i < 32; ++i) {
      loads += column_wavefronts(tile, i);
      stores += row_wavefronts(tile, i);
    }
    all.push_back({tile.symbol,
                   tile.name,
                   {expected_wavefronts(true, loads), expected_wavefronts(false, stores)},
                   [&tile] {
                     Block block;
                     return wrong_after(block.task(tile, 1)) == 0;
                   }});
  }
  return all;
}

}  // namespace

TEST_CASE("bank_tile: each tile holds every word once, and two of them cure the columns") {
  for (const Tile& tile : tiles) {
    std::set<unsigned> places;
    for (unsigned row = 0; row < 32; ++row)
      for (unsigned column = 0; column < 32; ++column) places.insert(place_of(tile, row, column));
    CHECK(places.size() == tile_words);
    CHECK(*places.rbegin() < 32 * tile.row_words);
    for (unsigned i = 0; i < 32; ++i) {
      CHECK(row_wavefronts(tile, i) == 1);
      CHECK(column_wavefronts(tile, i) == (&tile == &tiles[0] ? 32 : 1));
    }
  }
  CHECK(predicted_cycles(tiles[0]) == 32);
  CHECK(predicted_cycles(tiles[1]) == 1);
  CHECK(predicted_cycles(tiles[2]) == 1);
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

TEST_CASE("bank_tile: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("bank_tile: counted wavefronts of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("bank_tile: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_tile: every tile gives each lane its column's word") {
  if (skip_without_gpu()) return;
  Block block;
  for (const Tile& tile : tiles)
    for (const unsigned turns : {1u, 7u, 8u, 17u}) {
      CAPTURE(std::string(tile.name));
      CAPTURE(turns);
      CHECK(wrong_after(block.task(tile, turns)) == 0);
    }
}

TEST_CASE("bank_tile: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Block block;
  const Task task = block.task(tiles[1], 3);
  task.check.poison();
  CHECK(task.check.wrong() == tile_words + 1);  // and no cycles
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = block.out.to_host();
  std::swap(sums[1], sums[32]);  // not turned
  sums[tile_words] = 0;          // one too far
  block.out.copy_from(sums);
  CHECK(task.check.wrong() == 3);
}

TEST_CASE("bank_tile: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { bank_tile(run); });
}
