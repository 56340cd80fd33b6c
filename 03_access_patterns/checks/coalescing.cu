// Self-checks of coalescing.cu, compiled in its place where BUILD_TESTING is on.
#include "../coalescing.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

constexpr size_t counted_regions = size_t(1) << 13;

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Read& read : reads) {
    const double asked = double(counted_regions) * sectors(warp_for(read.pattern));
    all.push_back(
        {read.symbol,
         "8192 loads",
         {expected_requests(true, double(counted_regions)), expected_sectors(true, asked)},
         [&read] {
           Words memory(counted_regions * read.region_words + overhang,
                        resident_grid(Device::current()));
           return wrong_after(task_of(memory, read, counted_regions)) == 0;
         }});
  }
  return all;
}

/// The lanes that want a word, as the model has it.
unsigned lanes_by_model(Pattern pattern, unsigned word) {
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (word_of(pattern, lane) == int(word)) lanes |= 1u << lane;
  return lanes;
}

}  // namespace

TEST_CASE("coalescing: the model and the reference agree on every word, and none is beyond") {
  for (const Read& read : reads) {
    CAPTURE(std::string(read.name));
    CHECK(reads[read.pattern].pattern == read.pattern);
    unsigned lanes = 0;
    for (unsigned word = 0; word < read.region_words + overhang; ++word) {
      CAPTURE(word);
      CHECK(takers(read.pattern, word) == lanes_by_model(read.pattern, word));
      CHECK((lanes & takers(read.pattern, word)) == 0);  // no lane takes two
      lanes |= takers(read.pattern, word);
    }
    CHECK(lanes == (read.pattern == every_second ? 0x55555555u : ~0u));
  }
}

TEST_CASE("coalescing: the drawing shows lanes and pieces") {
  const auto drawn = [](Pattern pattern) { return draw_lanes(warp_for(pattern)); };
  CHECK(drawn(in_order).substr(0, 37) == "|01234567|89abcdef|ghijklmn|opqrstuv|");
  CHECK(drawn(permuted).substr(0, 37) == "|0369cfil|oru147ad|gjmpsv25|8behknqt|");
  CHECK(drawn(next_word).substr(0, 19) == "|.0123456|789abcde|");
  CHECK(drawn(next_sector).substr(0, 19) == "|........|01234567|");
  CHECK(drawn(same).substr(0, 10) == "|*.......|");
  CHECK(drawn(every_second).substr(0, 10) == "|0.2.4.6.|");
  CHECK(drawn(scattered).substr(0, 46) == "|0.......|........|........|........|...3....|");
  CHECK(draw_lanes(wide_words[1].warp).substr(0, 10) == "|0=1=2=3=|");
  const auto moved = [](Rule rule, Pattern p) {
    return draw_transactions(under(rule, warp_for(p)));
  };
  CHECK(moved(Rule::sectors, next_word)[0].substr(0, 19) == " <------> <------> ");
  CHECK(moved(Rule::in_order, same)[0].substr(0, 10) == " <-32x--> ");
  CHECK(moved(Rule::any_order, next_word).size() == 2);
}

TEST_CASE("coalescing: sectors and predictions, by hand") {
  const int of_pattern[] = {4, 4, 5, 4, 1, 4, 32};
  const double as_long[] = {1, 1, 1.25, 1, 0.5, 1, 16};
  for (const Read& read : reads) {
    CAPTURE(std::string(read.name));
    CHECK(sectors(warp_for(read.pattern)) == of_pattern[read.pattern]);
    CHECK(predicted_times(read.pattern) == as_long[read.pattern]);
  }
  CHECK(regions_in(1024 + 8, reads[scattered]) == 1);
  CHECK(regions_in(1024 + 8, reads[in_order]) == 32);
  CHECK(regions_in(1024 + 7, reads[in_order]) == 31);
}

TEST_CASE("coalescing: rows and claims of made-up times") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  std::string printed;
  Report report("coalescing", &printed);
  const Run run{report, &device, {}};
  Measured m;
  for (const Read& read : reads) {
    m.regions[read.pattern] = 1000000 / read.region_words;
    const double ms = predicted_times(read.pattern) * line_words / read.region_words;
    m.times[read.pattern] = {std::vector<double>(15, ms)};
  }
  show_times(run, m);
  REQUIRE(report.predictions().size() == std::size(reads) - 1);
  for (const Prediction& p : report.predictions())
    CHECK(p.measured == doctest::Approx(p.predicted).epsilon(0.001));
  judge_one_address(run, m);
  judge_permutation(run, m, false);
  CHECK(printed.find("03.2a  not judged") != std::string::npos);
  CHECK(printed.find("03.2b  holds ") != std::string::npos);
  CHECK(printed.find("takes 0.50x the time of whole lines") != std::string::npos);
  CHECK(printed.find("03.3   holds ") != std::string::npos);
  printed.clear();
  m.times[permuted] = {std::vector<double>(15, 2.0)};
  judge_permutation(run, m, false);
  CHECK(printed.find("03.3   does not hold") != std::string::npos);
  CHECK(printed.find("here 2.00x slower") != std::string::npos);
  printed.clear();
  judge_permutation(run, m, true);
  CHECK(printed.find("03.3   not judged") != std::string::npos);
}

TEST_CASE("coalescing: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  const Grid whole = resident_grid(Device::current());
  for (const Grid grid : {Grid{3}, whole})
    for (const size_t regions :
         {size_t(1), size_t(31), whole.threads() / 32 + size_t(1), size_t(10007)})
      for (const Read& read : reads) {
        CAPTURE(regions);
        CAPTURE(std::string(read.name));
        // ends with the last word that the last region wants
        const Warp warp = warp_for(read.pattern);
        const auto last_address = *std::max_element(warp.address.begin(), warp.address.end());
        const size_t last = size_t(last_address) / 4;
        Words memory((regions - 1) * read.region_words + last + 1, grid);
        CHECK(wrong_after(task_of(memory, read, regions)) == 0);
        CHECK(memory.canaries_stand());
      }
}

TEST_CASE("coalescing: the check finds another pattern and a word left out") {
  if (skip_without_gpu()) return;
  constexpr size_t regions = 1009;
  Words memory(regions * scattered_words + overhang, Grid{3});
  for (const Read& read : reads) {
    CAPTURE(std::string(read.name));
    const Task task = task_of(memory, read, regions);
    task.check.poison();
    CHECK(task.check.wrong() == memory.grid.threads());
    REQUIRE(wrong_after(task) == 0);
    for (const Read& other : reads)  // a permutation that is none would be seen
      if (other.pattern != read.pattern)
        CHECK(task_of(memory, other, regions).check.wrong() >= memory.grid.threads() / 2);
    std::vector<unsigned> sums = memory.sums.to_host();
    sums[4] += 1;
    memory.sums.copy_from(sums);
    CHECK(task.check.wrong() == 1);
  }
}

TEST_CASE("coalescing: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("coalescing: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("coalescing: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("coalescing: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { coalescing(run); });
}
