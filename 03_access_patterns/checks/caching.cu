// Self-checks of caching.cu, compiled in its place where BUILD_TESTING is on.
#include "../caching.cu"

#include <doctest/doctest.h>

#include <initializer_list>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Way& way : all_ways())
    for (const Pattern& p : patterns) {
      const double requests = double(p.count(counted_words)) / 32;
      all.push_back({way.symbol,
                     counted_parameter(way, p),
                     {expected_requests(true, requests),
                      expected_sectors(true, requests * sectors(warp_of_pattern(p)))},
                     [way, &p] {
                       Words words(counted_words, Device::current());
                       return wrong_after(words.task(way, p)) == 0;
                     }});
    }
  return all;
}

}  // namespace

TEST_CASE("caching: the old rules moved lines through L1 and segments past it") {
  const unsigned through[] = {128, 256, 32 * 128}, past[] = {128, 160, 32 * 32};
  const int today[] = {4, 5, 32};
  for (int i : {aligned, misaligned, scattered}) {
    const Warp warp = warp_of_pattern(patterns[i]);
    CHECK(under(Rule::through_l1, warp).bytes() == through[i]);
    CHECK(under(Rule::past_l1, warp).bytes() == past[i]);
    CHECK(sectors(warp) == today[i]);
  }
}

TEST_CASE("caching: words fit made-up GPUs, and the sectors of few of them are beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double words = double(words_of(run));
    return Needs{4 * words, words};
  });
}

TEST_CASE("caching: predictions, by hand") {
  const double arrive[] = {128, 160, 2048}, ms[] = {4, 5, 2};
  for (int i : {aligned, misaligned, scattered}) {
    CHECK(bytes_a_request(patterns[i]) == arrive[i]);
    CHECK(predicted_ms(patterns[i], 4) == ms[i]);
  }
  const std::vector<Way> ways = all_ways();
  for (const int way : {ca, cg, plain})
    for (const int second : {new_line, same_sector, next_sector, last_sector})
      CHECK(predicted_cycles(ways[way], second, {40, 280}) ==
            (way != cg && second == same_sector ? 40 : 280));
  CHECK(patterns[scattered].count(33) == 2);
}

TEST_CASE("caching: a chain visits each line and the second word once, and ends") {
  for (const unsigned second : {0u, 1u, 8u, 24u, 31u}) {
    CAPTURE(second);
    const std::vector<unsigned> next = chain(second);
    std::vector<int> visits(next.size(), 0);
    unsigned at = 0;
    for (unsigned step = 0; step < chased_lines * (second ? 2 : 1); ++step) {
      ++visits.at(at);
      at = next.at(at);
    }
    CHECK(at == chain_end);
    for (size_t word = 0; word < next.size(); ++word)
      CHECK(visits[word] == (word % 32 == 0 || (second && word % 32 == second) ? 1 : 0));
  }
  CHECK(chain_end >= chased_lines * 32);  // no word of the chain
}

TEST_CASE("caching: the claim compares the next sector with the same, in this order") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("caching", &printed);
  const Run run{report, &device, {}};
  const auto verdict = [&](std::initializer_list<double> cycles) {
    std::vector<Readings> trips;
    for (const double each : cycles) trips.push_back({std::vector<double>(15, each)});
    printed.clear();
    judge_unit(run, trips);
  };
  verdict({289, 44, 281, 281});
  CHECK(printed.find("03.11  holds ") != std::string::npos);
  CHECK(printed.find("same sector then takes 44 cycles, one of the next sector 281") !=
        std::string::npos);
  verdict({289, 44, 44, 281});  // came with the first: a unit of 64 bytes
  CHECK(printed.find("03.11  does not hold") != std::string::npos);
  verdict({289, 285, 285, 285});
  CHECK(printed.find("03.11  not judged") != std::string::npos);
  CHECK(without({{{300, 310}}}, {{{280, 285}}}).ms == std::vector<double>{20, 25});
}

TEST_CASE("caching: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("caching: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("caching: every load is right at awkward sizes") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const size_t readers = size_t(resident_blocks(device.prop, block_threads)) * block_threads;
  for (const size_t count : {size_t(1), size_t(31), size_t(1009), 9 * readers + 65537}) {
    Words words(count, device);
    for (const Way& way : all_ways())
      for (const Pattern& p : patterns) {
        CAPTURE(std::string(way.name));
        CAPTURE(std::string(p.name));
        CAPTURE(count);
        const Task task = words.task(way, p);
        CHECK(wrong_after(task) == 0);
        words.sums.poison();  // nothing launched; a sum may be ~0 by chance
        CHECK(task.check.wrong() >= readers - readers / 1000);
      }
  }
}

TEST_CASE(
    "caching: the check is that of a walk on the host, and finds one word taken for another") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  Words words(100003, device);
  const std::vector<unsigned> in = words.in.to_host();
  for (const Pattern& p : patterns) {
    std::vector<unsigned> sums(words.readers(), 0);
    size_t word = p.first;
    for (size_t i = 0; i < p.count(words.words); ++i) {  // one after the other, as a CPU would
      sums[i % sums.size()] += in.at(word);
      word += p.stride;
    }
    words.sums.poison();
    words.task(all_ways()[ca], p).launch();
    const std::vector<unsigned> found = words.sums.to_host();
    CHECK(std::equal(sums.begin(), sums.end(), found.begin()));
    words.sums.poison();
    words.sums.copy_from(sums);  // and the canaries stand
    CHECK(words.wrong(p) == 0);
    sums[3] += in[3 * p.stride] - in[4 * p.stride];
    words.sums.copy_from(sums);
    CHECK(words.wrong(p) == 1);
  }
}

TEST_CASE("caching: every walk ends where its chain does") {
  if (skip_without_gpu()) return;
  for (const Way& way : all_ways())
    for (const Second& second : seconds)  // throws unless it does
      CHECK(walk_lines(way.kernels, second.word, 2).cycles.median() > 0);
}

TEST_CASE("caching: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("caching: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { caching(run); });
}
