// Self-checks of divergence.cu, compiled in its place where BUILD_TESTING is on.
#include "../divergence.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("divergence: the strided reduction goes as the text walks through it") {
  using Warps = std::vector<unsigned>;
  CHECK(adding_threads(Rule::strided, 0, 256) == Warps{32, 32, 32, 32, 0, 0, 0, 0});
  CHECK(adding_threads(Rule::strided, 1, 256) == Warps{32, 32, 0, 0, 0, 0, 0, 0});
  CHECK(adding_threads(Rule::strided, 2, 256) == Warps{32, 0, 0, 0, 0, 0, 0, 0});
  for (unsigned tid = 0; tid < 256; ++tid)  // in the fourth step the first 16 threads of warp 0
    CHECK(addition_in(Rule::strided, 3, tid, 256).active == (tid < 16));
}

namespace {

std::vector<unsigned> divergent_warps(Rule which, unsigned n) {
  std::vector<unsigned> all;
  for (unsigned step = 0; step < step_count(n); ++step)
    all.push_back(Activity(adding_threads(which, step, n)).divergent);
  return all;
}

}  // namespace

TEST_CASE("divergence: divergent warps of the three reductions, by hand") {
  using Warps = std::vector<unsigned>;
  CHECK(divergent_warps(Rule::modulo, 256) == Warps{8, 8, 8, 8, 8, 4, 2, 1});
  CHECK(divergent_warps(Rule::strided, 256) == Warps{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(divergent_warps(Rule::descending, 256) == Warps{0, 0, 0, 1, 1, 1, 1, 1});
  CHECK(adding_threads(Rule::modulo, 0, 256) == Warps(8, 16));
  CHECK(adding_threads(Rule::modulo, 4, 256) == Warps(8, 1));
  CHECK(Activity({0, 1, 31, 32}).divergent == 2);  // some of its lanes add, but not all
  CHECK(Activity({0, 1, 31, 32}).warps == 3);
  CHECK(Activity({0, 1, 31, 32}).threads == 64);
  for (unsigned n = 32; n <= max_threads; n *= 2)  // all three do the same work
    for (unsigned step = 0; step < step_count(n); ++step)
      for (const Vote& vote : votes)
        CHECK(Activity(adding_threads(vote.which, step, n)).threads == n >> (step + 1));
}

TEST_CASE("divergence: what every thread must find is what the steps leave") {
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Vote& vote : votes) {
      std::vector<unsigned> words;
      for (unsigned i = 0; i < n; ++i) words.push_back(word_at(i));
      std::vector<unsigned> left = words;
      for (unsigned step = 0; step < step_count(n); ++step)
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition_in(vote.which, step, tid, n);
          if (a.active) left[a.left] += left[a.right];
        }
      CHECK(totals(strides_of(vote.which), words, 1) == left);
      const std::vector<unsigned> thrice = totals(strides_of(vote.which), words, 3);
      CHECK(thrice[n - 1] == 3 * words[n - 1] + 3);  // it, one more, two more
      CHECK(thrice[0] == 3 * left[0] + 3 * n);
    }
}

TEST_CASE("divergence: conflicts and predicted cycles, by hand") {
  CHECK(conflicts(Rule::modulo, 256) == 0);
  CHECK(conflicts(Rule::descending, 1024) == 0);
  // ways: 2, 4, 8, 8, 8, 4, 2, 1 in 4, 2, 1, 1, 1, 1, 1, 1 warps; three accesses
  CHECK(conflicts(Rule::strided, 256) == 3 * (4 * 1 + 2 * 3 + 7 + 7 + 7 + 3 + 1));
  const StepCost step = StepCost::of(9 * 100, 11 * 148);
  CHECK(step.alone == doctest::Approx(84));
  CHECK(step.a_warp == doctest::Approx(2));
  CHECK(predicted_cycles(descending, 256, step) == doctest::Approx(900));
  CHECK(predicted_cycles(descending, 1024, step) == doctest::Approx(11 * 148));
  CHECK(predicted_cycles(0, 128, step) == doctest::Approx(8 * 92));
  CHECK(predicted_cycles(1, 256, step) == doctest::Approx(900 + 105));
  CHECK(predicted_cycles(last_warp, 256, step) == doctest::Approx(4 * 100 + 5 * 86));
}

TEST_CASE("divergence: the model, and what was measured on an NVIDIA H200") {
  const StepCost step = StepCost::of(694.0, 1658);  // by kernels of the same steps
  const auto close = [&](size_t sum, unsigned n, double measured) {
    const double off = measured / predicted_cycles(sum, n, step);
    return off < 1.1 && off > 1 / 1.1;
  };
  CHECK(close(0, 256, 731.5));
  CHECK(close(1, 256, 826.9));
  CHECK(close(0, 1024, 1786));
  CHECK(close(1, 1024, 2191));
  // The old kernel with __syncwarp at last took more than descending itself, and the model says
  // less. It is no row of ours: all of its warps made the last five steps, each with a choice
  // between the two barriers. Ours sends one warp there, and is not measured yet.
  CHECK(763.4 / predicted_cycles(last_warp, 256, step) == doctest::Approx(1.30).epsilon(0.01));
  CHECK(1740 / predicted_cycles(last_warp, 1024, step) == doctest::Approx(1.47).epsilon(0.01));
}

TEST_CASE("divergence: what a test may hold a row to") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  CHECK(model_of(0, &device) == Model::traffic);
  CHECK(model_of(last_warp, &device) == Model::host);
  device.prop.major = 8;
  CHECK(model_of(0, &device) == Model::host);
  CHECK(model_of(0, nullptr) == Model::host);
}

TEST_CASE("divergence: a made-up sum's cycles, and the table of made-up ones") {
  CHECK(of_one_sum({4800, 6400, 9600}, 64).median == doctest::Approx(100));
  CHECK(of_one_sum({4800, 6400, 9600}, 64).low == doctest::Approx(80));
  std::string printed;
  Report report("divergence", &printed);
  const Run run{report, nullptr, {}};
  const StepCost step = StepCost::of(900, 1628);
  SumCycles cycles;
  for (const unsigned n : block_sizes) {
    cycles.emplace_back();
    for (size_t k = 0; k < std::size(sums); ++k)
      cycles.back().push_back({2 * predicted_cycles(k, n, step), NAN, NAN, 1});
  }
  show_sums(run, cycles);
  REQUIRE(report.predictions().size() == 14);
  for (const Prediction& p : report.predictions()) {
    CAPTURE(p.row);
    const bool conflicting = p.row.find("strided") == 0;  // whose conflicts are not twice as many
    if (!conflicting) CHECK(p.measured == doctest::Approx(p.predicted));
    if (conflicting) CHECK(p.measured > p.predicted);
  }
}

TEST_CASE("divergence: the warps count what was predicted") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Vote& vote : votes) {
      const std::vector<std::vector<unsigned>> seen = counted_adding(vote, n);
      REQUIRE(seen.size() == step_count(n));
      for (unsigned step = 0; step < seen.size(); ++step)
        CHECK(seen[step] == adding_threads(vote.which, step, n));
    }
}

TEST_CASE("divergence: every thread of every block finds its total") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Sum& sum : sums)
      for (const unsigned times : {0u, 1u, 2u, 7u}) {
        CAPTURE(std::string(sum.name));
        CAPTURE(n);
        Blocks blocks(3, n, times);
        CHECK(wrong_after(blocks.task(sum)) == 0);
        CHECK(blocks.cycles.to_host()[0] > 0);
      }
}

TEST_CASE("divergence: and where blocks crowd the multiprocessors, so that warps drift apart") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  for (const unsigned n : {64u, 256u, 1024u})
    for (const Sum& sum : sums) {
      CAPTURE(std::string(sum.name));
      CAPTURE(n);
      const unsigned resident = unsigned(prop.maxThreadsPerMultiProcessor) / n;
      Blocks blocks(unsigned(prop.multiProcessorCount) * resident + 7, n, 5);
      CHECK(wrong_after(blocks.task(sum)) == 0);
    }
}

TEST_CASE("divergence: the check finds a total that is one off, and a word too far") {
  if (skip_without_gpu()) return;
  Blocks blocks(3, 64, 2);
  const Task task = blocks.task(sums[0]);
  task.check.poison();
  CHECK(task.check.wrong() == 3 * 64);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> found = blocks.out.to_host();
  found[77] += 1;
  blocks.out.copy_from(found);
  CHECK(task.check.wrong() == 1);
  found.back() = 0;
  blocks.out.copy_from(found);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("divergence: cycles by events and the clock's rate" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  if (device.sm_clock_khz == 0) return skip_self_check("the clock's rate is not reported");
  std::string printed;
  Report report("plausible", &printed);
  const Run run{report, &device, {}};
  constexpr unsigned times = 4096;  // milliseconds, of which a launch is next to nothing
  Blocks block(1, text_threads, times);
  const double ms = run.time(block.task(sums[descending])).median();
  const double cycles = sum_cycles(run, sums[descending], text_threads, times).median;
  const double off = cycles / (ms / times * device.sm_clock_khz);
  CAPTURE(cycles);
  CAPTURE(ms);
  CHECK(off < 1.4);
  CHECK(off > 1 / 1.4);
}

TEST_CASE("divergence: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { divergence(run); });
}
