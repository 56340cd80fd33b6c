// Self-checks of barriers.cu, compiled in its place where BUILD_TESTING is on.
#include "../barriers.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("barriers: many steps at once are the steps of the loop") {
  for (const unsigned count : {0u, 1u, 2u, 3u, 31u, 1000u}) {
    unsigned x = 12345;
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
    CHECK(steps_of(count).of(12345) == x);
  }
}

TEST_CASE("barriers: each round is long for one warp, the next every time") {
  for (const unsigned warps : {1u, 3u, 8u, 32u})
    for (const unsigned rounds : {0u, 1u, 7u, 64u}) {
      std::vector<unsigned> steps(warps, 0);
      for (unsigned round = 0; round < rounds; ++round)
        for (unsigned warp = 0; warp < warps; ++warp) steps[warp] += round % warps == warp ? 32 : 8;
      for (unsigned warp = 0; warp < warps; ++warp)
        CHECK(Shape{true, warps, 1, rounds, 8, 24}.steps_of_warp(warp) == steps[warp]);
    }
}

TEST_CASE("barriers: the thread opposite, by hand") {
  CHECK(opposite(0, 33) == 32);
  CHECK(opposite(33 + 2, 33) == 33 + 30);
  CHECK(opposite(2 * 33 - 1, 33) == 33);
  CHECK(opposite(7, 1) == 7);
}

TEST_CASE("barriers: predictions, by hand") {
  const BarrierCost cost{10, 72};  // 10 ns of one warp, 2 ns for each other one
  CHECK(cost.ns(1) == doctest::Approx(10));
  CHECK(cost.ns(8) == doctest::Approx(24));
  CHECK(cost.ns(32) == doctest::Approx(72));
  CHECK(predicted_ns({true, 8, 1, 1, 8}, 100, cost) == doctest::Approx(124));
  CHECK(predicted_ns({false, 8, 1, 1, 8, 24}, 100, cost) == doctest::Approx(137.5));  // 300, by 8
  CHECK(predicted_ns({true, 8, 1, 1, 8, 24}, 100, cost) == doctest::Approx(424));
  CHECK(predicted_ns({true, 8, 4, 1, 8}, 100, cost) == doctest::Approx(100));  // 64 ns of arrivals
  CHECK(predicted_ns({true, 8, 8, 1, 8}, 100, cost) == doctest::Approx(128));
}

TEST_CASE("barriers: an NVIDIA H200 takes a barrier's warps one by one, two cycles each") {
  const double cycles[] = {14.73, 16.73, 20.74, 28.75, 44.78, 76.83};
  const BarrierCost cost{cycles[0], cycles[5]};
  for (size_t i = 0; i < std::size(warp_counts); ++i)
    CHECK(cost.ns(warp_counts[i]) == doctest::Approx(cycles[i]).epsilon(0.001));
}

TEST_CASE("barriers: the shapes of the rows") {
  std::string printed;
  Report report("barriers", &printed);
  Device device;
  device.number = -1;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  const Run run{report, &device, {}};
  for (const bool barrier : {false, true})
    for (const unsigned at : {4, 16}) {
      const Shape even = shape_of(run, row_of(barrier, "even", at));
      CHECK(even.barrier == barrier);
      CHECK(even.warps == at);
      CHECK(even.blocks == 1);
      CHECK(even.steps == 8);
      CHECK(even.rounds % 32 == 0);
      CHECK(even.more == 0);
      const Shape uneven = shape_of(run, row_of(barrier, "uneven", at));
      CHECK(uneven.more == 3 * uneven.steps);
      struct Filled {
        const char* kind;
        unsigned warps, blocks;
      };
      for (const auto& [kind, warps, blocks] :
           {Filled{"full_256", 8, 8}, Filled{"full_1024", 32, 2}, Filled{"quarter", 8, 2}}) {
        CAPTURE(std::string(kind));
        const Shape s = shape_of(run, row_of(barrier, kind, at));
        CHECK(s.barrier == barrier);
        CHECK(s.warps == warps);
        CHECK(s.blocks == blocks);
        CHECK(s.steps == at);
        CHECK(s.rounds * s.steps == even.rounds * even.steps);
      }
    }
  const Ref row = row_of(true, "full_1024", 4);
  const Kind& full_1024 = kind_of(row);
  CHECK(missing(full_1024, &device).empty());
  device.prop.maxThreadsPerMultiProcessor = 1536;
  CHECK(!missing(full_1024, &device).empty());
  CHECK(missing(kind_of(row_of(true, "full_256", 4)), &device).empty());
}

TEST_CASE("barriers: what decides the claim") {
  const auto verdict = [](const char* filling, double slower) {
    std::vector<Given> given{{{"together_even", 8}, 3}, {{"together_uneven", 8}, 3}};
    for (const unsigned steps : lengths) {
      for (const char* full : {"full_256", "full_1024", "quarter"}) {
        const double by = full == std::string(filling) ? slower : 1;
        given.push_back({{std::string("together_") + full, double(steps)}, 2 * by});
        given.push_back({{std::string("apart_") + full, double(steps)}, 2});
      }
    }
    return verdict_if(barriers_experiment, "06.5", given);
  };
  CHECK(verdict("full_256", 1.1) == verdict_text(Verdict::depends));  // half of the cases
  CHECK(verdict("full_1024", 1.1) == verdict_text(Verdict::depends));
  CHECK(verdict("full_256", 1) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("quarter", 1.1) == verdict_text(Verdict::does_not_hold));  // is not full
}

namespace {

/// Finds canaries that are gone, and nothing else.
struct AnyWord {
  __device__ bool operator()(size_t, unsigned) const { return true; }
};

}  // namespace

TEST_CASE("barriers: without a barrier nothing is written too far" * doctest::test_suite("race")) {
  if (skip_without_gpu()) return;
  // a lone thread races nobody
  CHECK(wrong_after(reverse_task(Shared{Reversal(1009, 1, 1)}, unguarded_reverse)) == 0);
  for (const unsigned threads : {32u, 97u, 1024u}) {
    const Shared words{Reversal(1009, threads, threads)};
    const size_t wrong = wrong_after(reverse_task(words, unguarded_reverse));
    CHECK(words->out.wrong(AnyWord{}) == 0);
    // any number of them may be
    MESSAGE(threads << " threads: " << wrong << " of " << words->out.size() << " words are wrong");
  }
}

// From the text: each block's words, last to first.
TEST_CASE("barriers: with a barrier every block is reversed") {
  if (skip_without_gpu()) return;
  for (const unsigned threads : {1u, 33u, 256u, 1024u}) {
    const Shared words{Reversal(7, threads, 5)};
    REQUIRE(wrong_after(reverse_task(words, reverse)) == 0);
    std::vector<unsigned> right = words->in.to_host();
    for (unsigned block = 0; block < 7; ++block)
      std::reverse(right.begin() + block * threads, right.begin() + (block + 1) * threads);
    CHECK(words->out.to_host() == right);
  }
}

TEST_CASE("barriers: nanoseconds and cycles by the clock's rate" *
          doctest::test_suite("plausible") * doctest::skip()) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (device.sm_clock_khz == 0) return skip_self_check("the clock's rate is not reported");
  constexpr unsigned rounds = 1024;
  const Shared meeting{Meeting(unsigned(device.prop.multiProcessorCount), 8, rounds)};
  const double ms = time_alone({}, meet_task(meeting)).median();
  meeting->launch();
  const double cycles = double(meeting->cycles.to_host()[0]);
  const double off = cycles / (ms * device.sm_clock_khz);
  CAPTURE(ms);
  CAPTURE(cycles);
  CHECK(off < 1.4);
  CHECK(off > 1 / 1.4);
}

EXPERIMENT_CHECKS(barriers)
