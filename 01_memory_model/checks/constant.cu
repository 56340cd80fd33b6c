// Self-checks of constant.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("constant: a warp asks for as many words as it is told to") {
  for (const Row& row : all_rows()) {
    if (row.way == by_lane) CHECK(requests(row) == row.distinct);
    if (row.way == by_block || row.way == global) CHECK(requests(row) == 1);
    if (row.way == by_thread) CHECK(requests(row) == 16);
  }
  for (unsigned distinct = 1; distinct <= 32; ++distinct)
    CHECK(requests({by_lane, distinct}) == distinct);
  CHECK(all_rows()[one_word].way == by_lane);
  CHECK(all_rows()[one_word].distinct == 1);
  CHECK(all_rows()[one_global].way == global);
  CHECK(all_rows()[one_global].distinct == 1);
}

TEST_CASE("constant: predictions and sums, by hand") {
  CHECK(predicted_ms({by_lane, 8}, 0.5, 0.25) == 4);
  CHECK(predicted_ms({by_thread, 0}, 0.5, 0.25) == 8);
  CHECK(predicted_ms({by_block, 0}, 0.5, 0.25) == 0.5);
  CHECK(predicted_ms({global, 32}, 0.5, 0.25) == 0.25);
  unsigned sum = 0;
  for (unsigned piece = 0; piece < 8; ++piece)
    sum += value_at(32 * piece + 31) + value_at(32 * piece);  // word 31, then round to word 0
  CHECK(sum_from(31, 2) == sum);
}

TEST_CASE("constant: the claim holds where times follow the words, and not where they do not") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("constant", &printed);
  const Run run{report, &device, {}};
  const auto verdict = [&](std::initializer_list<double> each) {
    std::vector<Readings> times;
    for (const double ms : each) times.push_back({std::vector<double>(15, ms)});
    printed.clear();
    judge(run, times);
  };
  verdict({0.0709, 0.137, 0.27, 0.536, 1.069, 2.129});
  CHECK(printed.find("01.6a  holds  ") != std::string::npos);
  CHECK(printed.find("1.93x, 3.81x, 7.56x, 15.1x, 30.0x as long") != std::string::npos);
  CHECK(printed.find("01.6d  does not hold") != std::string::npos);
  verdict({1, 1, 1, 1, 1, 1});
  CHECK(printed.find("01.6a  does not hold") != std::string::npos);
  verdict({32, 16, 8, 4, 2, 1});
  CHECK(printed.find("01.6a  does not hold") != std::string::npos);
}

TEST_CASE("constant: every read sums the right words") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u, 1009u})
    for (const unsigned threads : {1u, 31u, 33u, 256u}) {
      CAPTURE(blocks);
      CAPTURE(threads);
      Sums sums({blocks, threads});
      std::vector<Row> rows = all_rows();
      for (const unsigned distinct : {3u, 31u}) {
        rows.push_back({by_lane, distinct});
        rows.push_back({global, distinct});
      }
      for (const Row& row : rows) {
        CAPTURE(std::string(ways[row.way].name));
        CHECK(wrong_after(sums.task(row, 37)) == 0);
      }
    }
}

TEST_CASE("constant: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  Sums sums({3, 33});
  const Task task = sums.task({by_lane, 32}, 5);
  task.check.poison();
  CHECK(task.check.wrong() == 99);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> found = sums.sums.to_host();
  found[40] += value_at(3) - value_at(4);
  sums.sums.copy_from(found);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("constant: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { constant(run); });
}
