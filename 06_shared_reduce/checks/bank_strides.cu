// Self-checks of bank_strides.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_strides.cu"

#include <doctest/doctest.h>

#include <initializer_list>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

std::string parameter(unsigned bytes, unsigned stride) {
  return std::to_string(bytes) + " bytes stride " + std::to_string(stride);
}

/// A warp and a turn for each size of word and each stride.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Word& word : words)
    for (const unsigned stride : strides(true)) {
      int loads = 0;
      for (unsigned load = 0; load < loads_a_turn; ++load)
        loads += load_wavefronts(word.bytes, stride, load);
      const unsigned fill = word_count / 32 * word.bytes / 4;
      const std::vector<Expected> expected{expected_wavefronts(true, loads),
                                           expected_wavefronts(false, fill)};
      all.push_back({word.kernel, parameter(word.bytes, stride), expected, [&word, stride] {
                       Block block(word);
                       return wrong_after(block.task({stride, 32, 1})) == 0;
                     }});
    }
  return all;
}

}  // namespace

TEST_CASE(
    "bank_strides: the model gives the published examples and serves a word wanted twice once") {
  const int examples[][3] = {{4, 1, 1}, {4, 2, 2},  {4, 3, 1},  {4, 8, 8},  {4, 32, 32}, {4, 33, 1},
                             {8, 1, 2}, {8, 8, 16}, {16, 1, 4}, {16, 2, 8}, {16, 8, 32}};
  for (const auto& [bytes, stride, expected] : examples) {
    CHECK(load_wavefronts(bytes, stride) == expected);
    CHECK(predicted_cycles(bytes, stride) == expected);
  }
  for (const unsigned stride : strides(true)) {
    CHECK(load_wavefronts(4, stride) == int(std::gcd(stride, 32u)));
    for (unsigned load = 1; load < loads_a_turn; ++load)  // all lanes have moved on by as much
      for (const Word& word : words)
        CHECK(load_wavefronts(word.bytes, stride, load) == load_wavefronts(word.bytes, stride));
  }
  LaneWords lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = lane / 2 * 32;  // 16 words of bank 0
  CHECK(wavefronts(lanes) == 16);
  for (unsigned lane = 1; lane < 32; ++lane) lanes[lane] = idle;
  CHECK(wavefronts(lanes) == 1);
  lanes[0] = idle;
  CHECK(wavefronts(lanes) == 0);
}

TEST_CASE("bank_strides: the rows are strides from 1 to 33, and the last lane stays inside") {
  CHECK(strides(true).size() == max_stride);
  for (const bool full : {false, true})
    for (const unsigned stride : strides(full)) {
      CHECK(stride >= 1);
      CHECK(word_of(31, stride, loads_a_turn - 1) < word_count);
    }
  for (const unsigned stride : claimed) CHECK(load_wavefronts(4, stride) == int(stride));
}

TEST_CASE("bank_strides: the host's sums, by hand") {
  const std::vector<unsigned> sums = sums_by_host(words[1], {3, 96, 5});
  REQUIRE(sums.size() == 96);
  unsigned once = 0;
  for (unsigned i = 12; i < 28; ++i) once += value_at(i);  // words 6 to 13, of 8 bytes each
  CHECK(sums[2] == 5 * once);
  CHECK(sums[34] == sums[2]);
  CHECK(sums[66] == sums[2]);
}

TEST_CASE("bank_strides: the claim holds where times double, and not where they do not") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("bank_strides", &printed);
  const Run run{report, &device, {}};
  const auto verdict = [&](std::initializer_list<double> each) {
    std::vector<Readings> times;
    for (const double ms : each) times.push_back({std::vector<double>(15, ms)});
    printed.clear();
    judge_doubling(run, times);
    return printed.substr(0, printed.find("  reads"));
  };
  CHECK(verdict({1, 1.98, 3.9, 7.8, 15.5}).find("06.3a  holds") != std::string::npos);
  CHECK(printed.find("here 1.98x, 3.90x, 7.80x, 15.5x as long; then") != std::string::npos);
  CHECK(verdict({1, 1, 1, 1, 1}).find("does not hold") != std::string::npos);
  CHECK(verdict({1, 2, 4, 4, 4}).find("depends") != std::string::npos);  // two of four
  CHECK(verdict({2, 1, 0.5, 0.25, 0.125}).find("does not hold") != std::string::npos);
}

TEST_CASE("bank_strides: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("bank_strides: counted wavefronts of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("bank_strides: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_strides: every kernel is right in blocks of every size") {
  if (skip_without_gpu()) return;
  for (const Word& word : words) {
    Block block(word);
    for (const unsigned turns : {1u, 3u, 17u})
      for (const unsigned threads : {1u, 31u, 32u, 97u, all_threads})
        for (const unsigned stride : strides(turns == 3)) {
          CAPTURE(word.bytes);
          CAPTURE(stride);
          CAPTURE(threads);
          CHECK(wrong_after(block.task({stride, threads, turns})) == 0);
        }
  }
}

TEST_CASE("bank_strides: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  Block block(words[0]);
  const Task task = block.task({7, 96, 1});
  task.check.poison();
  CHECK(task.check.wrong() == 97);  // and no cycles
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = block.sums.to_host();
  sums[5] += value_at(36) - value_at(35);
  block.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
  sums[96] = 0;  // one sum too far
  block.sums.copy_from(sums);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("bank_strides: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { bank_strides(run); });
}
