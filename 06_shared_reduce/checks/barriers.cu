// Self-checks of barriers.cu, compiled in its place where BUILD_TESTING is on.
#include "../barriers.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("barriers: many steps at once are the steps of the loop") {
  for (const unsigned count : {0u, 1u, 2u, 3u, 31u, 1000u}) {
    unsigned x = 12345;
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
    CHECK(steps_of(count).of(12345) == x);
  }
}

TEST_CASE("barriers: predictions, by hand") {
  const BarrierCost cost{10, 72};  // 10 ns of one warp, 2 ns for each other one
  CHECK(cost.ns(1) == doctest::Approx(10));
  CHECK(cost.ns(8) == doctest::Approx(24));
  CHECK(cost.ns(32) == doctest::Approx(72));
  CHECK(predicted_ns({8, true, false}, 100, cost) == doctest::Approx(124));
  CHECK(predicted_ns({8, false, true}, 100, cost) == doctest::Approx(137.5));  // 300 ns, by eight
  CHECK(predicted_ns({8, true, true}, 100, cost) == doctest::Approx(424));
  CHECK(ns_each(Readings{{2, 2.5, 3}}, 5000).median == doctest::Approx(500));
  CHECK(ns_each(Readings{{2, 2.5, 3}}, 5000).low == doctest::Approx(420));
}

TEST_CASE("barriers: an NVIDIA H200 takes a barrier's warps one by one, two cycles each") {
  const double cycles[] = {14.73, 16.73, 20.74, 28.75, 44.78, 76.83};
  const BarrierCost cost{cycles[0], cycles[5]};
  for (size_t i = 0; i < std::size(warp_counts); ++i)
    CHECK(cost.ns(warp_counts[i]) == doctest::Approx(cycles[i]).epsilon(0.001));
}

namespace {

/// As if barriers made the even work of each block slower by `even`, and the other by 3.
std::vector<Pair> made_up(double even) {
  std::vector<Pair> pairs;
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  for (const unsigned warps : warp_counts)
    pairs.push_back({{warps, true, false}, always(0.1), always(0.1 * even)});
  pairs.push_back({{warp_counts[text_block], true, true}, always(0.1375), always(0.4125)});
  return pairs;
}

}  // namespace

TEST_CASE("barriers: the claim compares with and without, the right way round") {
  std::string printed;
  Report report("barriers", &printed);
  const Run run{report, nullptr, {}};
  judge_waiting(run, made_up(1.25));
  CHECK(printed.find("06.5   holds ") != std::string::npos);
  CHECK(printed.find("here 1.25x slower") != std::string::npos);
  CHECK(printed.find("four times the work: 3.00x slower") != std::string::npos);
  printed.clear();
  judge_waiting(run, made_up(1));
  CHECK(printed.find("06.5   does not hold") != std::string::npos);
}

TEST_CASE("barriers: the table of made-up rounds, predicted and measured") {
  std::string printed;
  Report report("barriers", &printed);
  const Device device;
  const Run run{report, &device, {}};
  show(run, made_up(1.25), {10, 10}, 1000);  // 100 ns apart, 125 together; barriers take 10
  REQUIRE(report.predictions().size() == 8);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(report.predictions()[i].predicted == doctest::Approx(110));
    CHECK(report.predictions()[i].measured == doctest::Approx(125));
  }
  CHECK(report.predictions()[6].predicted == doctest::Approx(137.5));
  CHECK(report.predictions()[6].measured == doctest::Approx(137.5));
  CHECK(report.predictions()[7].predicted == doctest::Approx(410));
  CHECK(report.predictions()[7].measured == doctest::Approx(412.5));
}

TEST_CASE("barriers: what a test may hold a row to") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  CHECK(model_of(&device, Model::latency) == Model::latency);
  device.prop.major = 12;
  CHECK(model_of(&device, Model::traffic) == Model::host);
}

TEST_CASE("barriers: with a barrier every block is reversed") {
  if (skip_without_gpu()) return;
  for (const unsigned threads : {1u, 32u, 33u, 97u, 256u, 1000u, 1024u})
    for (const unsigned blocks : {1u, 7u, 1009u}) {
      CAPTURE(threads);
      CAPTURE(blocks);
      CHECK(Reversal{blocks, threads, threads}.wrong_words(reverse) == 0);
    }
}

TEST_CASE("barriers: without a barrier nothing is written too far" * doctest::test_suite("race")) {
  if (skip_without_gpu()) return;
  CHECK(Reversal{1009, 1, 1}.wrong_words(unguarded_reverse) == 0);  // a lone thread races nobody
  for (const unsigned threads : {32u, 97u, 1024u}) {
    const Reversal all{1009, threads, threads};
    const DeviceBuffer<unsigned> in(words(all.blocks * threads, all.seed));
    DeviceBuffer<unsigned> out(in.size() + canaries);
    out.poison();
    unguarded_reverse<<<all.blocks, threads>>>(out.data(), in.data());
    CUDA_CHECK_LAUNCH();
    std::vector<unsigned> found = out.to_host();
    CHECK(std::count(found.end() - canaries, found.end(), ~0u) == long(canaries));
    found.resize(in.size());
    const size_t wrong = differing(found, all.right());
    // any number of them may be
    MESSAGE(threads << " threads: " << wrong << " of " << in.size() << " words are wrong");
  }
}

TEST_CASE("barriers: the check of reversed words finds one of them, and a word too far") {
  const std::vector<unsigned> right = Reversal{3, 33, 5}.right();
  CHECK(right[0] == word_at(32, 5));
  CHECK(right[33 + 2] == word_at(33 + 30, 5));
  std::vector<unsigned> found = right;
  found.resize(right.size() + canaries, ~0u);
  CHECK(differing(found, right) == 0);
  found[40] ^= 1;
  CHECK(differing(found, right) == 1);
  found.back() = 0;
  CHECK(differing(found, right) == 2);
}

TEST_CASE("barriers: warps that meet wait for the last") {
  if (skip_without_gpu()) return;
  for (const unsigned warps : {1u, 3u, 8u, 32u})
    for (const unsigned blocks : {1u, 5u}) {
      CAPTURE(warps);
      Meeting meeting(blocks, warps, 3);
      CHECK(wrong_after(meeting.task()) == 0);
      CHECK(meeting.barriers() == 3 * 16);
      std::vector<long long> cycles = meeting.cycles.to_host();
      cycles[0] = Meeting::lateness - 1;  // a warp that did not wait
      cycles.back() = 0;                  // a word too far
      meeting.cycles.copy_from(cycles);
      CHECK(meeting.wrong() == 2);
    }
}

TEST_CASE("barriers: every warp makes all its steps, with and without barriers") {
  if (skip_without_gpu()) return;
  for (const bool barrier : {false, true})
    for (const unsigned warps : {1u, 3u, 8u, 32u})
      for (const unsigned rounds : {0u, 1u, 7u, 64u})
        for (const unsigned more : {0u, more_steps}) {
          CAPTURE(warps);
          CAPTURE(rounds);
          Work work(barrier, 5, warps, rounds, more);
          CHECK(wrong_after(work.task()) == 0);
          std::vector<unsigned> one_off = work.right();
          one_off.resize(one_off.size() + canaries, ~0u);
          one_off[17] += 1;
          work.out.copy_from(one_off);
          CHECK(work.task().check.wrong() == 1);
        }
}

TEST_CASE("barriers: nanoseconds and cycles by the clock's rate" *
          doctest::test_suite("plausible") * doctest::skip()) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (device.sm_clock_khz == 0) return skip_self_check("the clock's rate is not reported");
  std::string printed;
  Report report("plausible", &printed);
  const Run run{report, &device, {}};
  Meeting meeting(unsigned(device.prop.multiProcessorCount), 8, 1024);
  const double ns = ns_each(run.time(meeting.task()), meeting.barriers()).median;
  const double cycles = double(meeting.cycles.to_host()[0]) / meeting.barriers();
  const double off = cycles / ns / (device.sm_clock_khz * 1e-6);
  CAPTURE(ns);
  CAPTURE(cycles);
  CHECK(off < 1.4);
  CHECK(off > 1 / 1.4);
}

TEST_CASE("barriers: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { barriers(run); });
}
