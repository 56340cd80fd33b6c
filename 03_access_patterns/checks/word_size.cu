// Self-checks of word_size.cu, compiled in its place where BUILD_TESTING is on.
#include "../word_size.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("word_size: an uncoalesced word takes a sector, or 64 bytes, and the rest is lost") {
  const double of_sectors[] = {8, 4, 2};
  const unsigned words[] = {4, 8, 16};
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    CAPTURE(std::string(k.key));
    CHECK(k.word == words[i]);
    CHECK(sectors_of(k, Room::side_by_side) == words[i]);
    for (const Room room : {Room::sector, Room::line}) {
      CHECK(sectors_of(k, room) == 32);
      CHECK(cost_under(Rule::sectors, k, room) == of_sectors[i]);
      CHECK(cost_under(Rule::in_order, k, room) == of_sectors[i]);
    }
    CHECK(lines(warp_for(k, Room::sector)) == 8);
    CHECK(lines(warp_for(k, Room::line)) == 32);
    CHECK(cost_under(Rule::through_l1, k, Room::line) == 4 * of_sectors[i]);
    CHECK(cost_of_pieces(k, Room::side_by_side) == 1);
    CHECK(cost_of_pieces(k, Room::sector) == of_sectors[i]);  // neighbours take the other half
    CHECK(cost_of_pieces(k, Room::line) == 2 * of_sectors[i]);
  }
}

TEST_CASE("word_size: what decides each part") {
  // the array moves in the same time, whatever is read of it
  for (const char* part : {"03.5b", "03.5c"})
    CHECK(verdict_if(word_size_experiment, part, {}) == verdict_text(Verdict::holds));
  // 8 times as many words in a tenth of the time: a word costs less than a coalesced one
  const auto verdict = [](const char* part, const char* key, double ms) {
    return verdict_if(word_size_experiment, part, {{key, ms}});
  };
  CHECK(verdict("03.5a", "read4_32_apart", 10.0 / 8) == verdict_text(Verdict::holds));
  CHECK(verdict("03.5a", "read4_32_apart", 0.1) == verdict_text(Verdict::no_longer));
  CHECK(verdict("03.5a", "read4_coalesced", 10) == verdict_text(Verdict::no_longer));
  CHECK(verdict("03.5b", "read8_32_apart", 0.1) == verdict_text(Verdict::no_longer));
  CHECK(verdict("03.5c", "read16_32_apart", 0.1) == verdict_text(Verdict::no_longer));
}

// From the text, in bytes: each `room` bytes hold one word, at their start; threads take turns.
TEST_CASE("word_size: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t bytes :
         {size_t(128), size_t(1009 * 128), 5 * size_t(grid.threads()) * 16 + 128})
      for (const Kernel& k : kernels)
        for (const unsigned room : {k.word, 32u, 128u}) {
          CAPTURE(bytes);
          CAPTURE(std::string(k.key));
          CAPTURE(room);
          const Room which = room == 32 ? Room::sector : room == 128 ? Room::line : rooms[0];
          const Shared memory(Words(bytes / 4, grid));
          CHECK(wrong_after(read_task(memory, k, which)) == 0);
          std::vector<unsigned> sums(grid.threads(), 0);
          size_t word = 0;
          for (size_t from = 0; from + room <= bytes; from += room, ++word)
            for (size_t byte = from; byte < from + k.word; byte += 4)
              sums[word % sums.size()] += word_at(byte / 4);
          CHECK(memory->sums.to_host() == sums);
        }
}

TEST_CASE("word_size: the check finds words at another distance") {
  if (skip_without_gpu()) return;
  const Shared memory(Words(1009 * 32, Grid{3}));
  const Kernel& k = *with_key(kernels, "read8");
  const Task task = read_task(memory, k, Room::sector);
  for (const Room other : {Room::side_by_side, Room::line}) {
    CHECK(wrong_after(read_task(memory, k, other)) == 0);
    CHECK(task.check.wrong() > memory->grid.threads() / 2);
  }
}

EXPERIMENT_CHECKS(word_size)
