// Self-checks of word_size.cu, compiled in its place where BUILD_TESTING is on.
#include "../word_size.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  constexpr const char* how[] = {" bytes coalesced", " bytes 32 apart", " bytes apart"};
  constexpr size_t bytes = size_t(16) << 20;
  for (const unsigned word : word_sizes)
    for (const Room room : rooms) {
      const double loads = double(bytes / room_bytes(word, room) / 32);
      const double asked = loads * sectors(word_warp(word, room));
      all.push_back({"read" + std::to_string(word),
                     std::to_string(word) + how[static_cast<int>(room)],
                     {expected_requests(true, loads), expected_sectors(true, asked)},
                     [=] {
                       Words memory(bytes / 4, resident_grid(Device::current()));
                       return wrong_after(task_of(memory, word, room)) == 0;
                     }});
    }
  return all;
}

/// The sum of each thread, in bytes from the text: each `room` bytes hold one word, at their start.
std::vector<unsigned> sums_by_host(size_t bytes, unsigned word, unsigned room, unsigned threads) {
  std::vector<unsigned> sums(threads, 0);
  unsigned thread = 0;
  for (size_t from = 0; from + room <= bytes; from += room) {
    for (size_t byte = from; byte < from + word; byte += 4) sums[thread] += word_at(byte / 4);
    thread = thread + 1 < threads ? thread + 1 : 0;
  }
  return sums;
}

}  // namespace

TEST_CASE("word_size: an uncoalesced word takes a sector, or a piece, and the rest of it is lost") {
  const double of_sectors[] = {8, 4, 2};
  for (size_t s = 0; s < sizes; ++s) {
    const unsigned word = word_sizes[s];
    CAPTURE(word);
    CHECK(sectors(word_warp(word, Room::side_by_side)) == int(word));
    for (const Room room : {Room::sector, Room::line}) {
      CHECK(sectors(word_warp(word, room)) == 32);
      CHECK(penalty(Rule::sectors, word, room) == of_sectors[s]);
      CHECK(penalty(Rule::in_order, word, room) == of_sectors[s]);
    }
    CHECK(lines(word_warp(word, Room::sector)) == 8);
    CHECK(lines(word_warp(word, Room::line)) == 32);
    CHECK(penalty(Rule::through_l1, word, Room::line) == 4 * of_sectors[s]);
    CHECK(cost_of_pieces(word, Room::side_by_side) == 1);
    CHECK(cost_of_pieces(word, Room::sector) == of_sectors[s]);  // neighbours take the other half
    CHECK(cost_of_pieces(word, Room::line) == 2 * of_sectors[s]);
  }
}

TEST_CASE("word_size: the model, and what was measured on an H200") {
  // GB/s of an earlier run on an H200
  const double side_by_side[] = {4486, 4603, 4627};
  const double a_line_each[] = {241.7, 484, 968.3};
  for (size_t s = 0; s < sizes; ++s) {
    const unsigned word = word_sizes[s];
    const double together = predicted_gbs(word, Room::side_by_side, 4627);
    CHECK(side_by_side[s] == doctest::Approx(together).epsilon(0.05));
    CHECK(a_line_each[s] == doctest::Approx(predicted_gbs(word, Room::line, 4627)).epsilon(0.2));
  }
}

TEST_CASE("word_size: costs and claims of made-up times") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.l2CacheSize = 60 << 20;
  std::string printed;
  Report report("word_size", &printed);
  const Run run{report, &device, {}};
  Measured m{size_t(4) << 30, {}};
  for (size_t s = 0; s < sizes; ++s)  // the whole array moves, or half of it
    for (const Room room : rooms)
      m.times[s][static_cast<int>(room)] = {std::vector<double>(15, room == Room::line ? 0.5 : 1)};
  CHECK(m.cost(0, Room::side_by_side).value == 1);
  CHECK(m.cost(0, Room::sector).value == 8);
  CHECK(m.cost(0, Room::line).value == 16);
  CHECK(m.cost(2, Room::sector).value == 2);
  show_rates(run, m);
  show_costs(run, m);
  REQUIRE(report.predictions().size() == 8 + 6);
  for (const Prediction& p : report.predictions())
    CHECK(p.measured == doctest::Approx(p.predicted));
  judge_penalties(run, m);
  CHECK(printed.find("03.5a  holds ") != std::string::npos);
  CHECK(printed.find("here 8.00x slower") != std::string::npos);
  CHECK(printed.find("03.5b  holds ") != std::string::npos);
  CHECK(printed.find("03.5c  holds ") != std::string::npos);
  CHECK(printed.find("found: 4.00x slower (3.96 to 4.04) with 128 bytes") != std::string::npos);
  printed.clear();
  for (auto& of_word : m.times) of_word[1] = {std::vector<double>(15, 0.125)};
  judge_penalties(run, m);  // a sector each costs no more than words side by side
  CHECK(printed.find("03.5a  no longer") != std::string::npos);
  printed.clear();
  m.bytes = size_t(512) << 20;
  judge_penalties(run, m);
  CHECK(printed.find("03.5c  not judged") != std::string::npos);
}

TEST_CASE("word_size: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t bytes :
         {size_t(128), size_t(31 * 128), size_t(1009 * 128), 5 * size_t(grid.threads()) * 16 + 128})
      for (const unsigned word : word_sizes)
        for (const Room room : rooms) {
          CAPTURE(bytes);
          CAPTURE(name_of(word, room));
          Words memory(bytes / 4, grid);
          CHECK(wrong_after(task_of(memory, word, room)) == 0);
          CHECK(memory.canaries_stand());
          std::vector<unsigned> sums = memory.sums.to_host();
          sums.resize(grid.threads());
          CHECK(sums == sums_by_host(bytes, word, room_bytes(word, room), grid.threads()));
        }
}

TEST_CASE("word_size: the check finds a word left out, and the wrong places") {
  if (skip_without_gpu()) return;
  Words memory(1009 * 32, Grid{3});
  const Task task = task_of(memory, 8, Room::sector);
  task.check.poison();
  CHECK(task.check.wrong() == memory.grid.threads());
  for (const Room other : {Room::side_by_side, Room::line}) {
    CHECK(wrong_after(task_of(memory, 8, other)) == 0);
    CHECK(task.check.wrong() > memory.grid.threads() / 2);
  }
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = memory.sums.to_host();
  sums[7] -= word_at(7 * 8 + 1);  // the second half of a word
  memory.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("word_size: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("word_size: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("word_size: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("word_size: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { word_size(run); });
}
