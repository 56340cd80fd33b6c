// Self-checks of bank_steps.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_steps.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

Steps all_steps(const Reduction& r, unsigned n) {
  const std::vector<unsigned> all = strides(r, n);
  return {n, all.front(), all.back()};
}

/// Every step by itself, and every reduction, of the text's block and of the next larger one.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  const auto add = [&](const Reduction& r, const Steps& steps, const std::string& parameter,
                       const Traffic& t) {
    all.push_back({r.symbol,
                   parameter,
                   {expected_wavefronts(true, t.loads), expected_wavefronts(false, t.stores)},
                   [&r, steps] {
                     Blocks one(1, steps.threads);
                     return wrong_after(one.task(r, steps)) == 0;
                   }});
  };
  for (const unsigned n : {256u, 512u})
    for (const Reduction& r : reductions) {
      const std::string threads = std::to_string(n) + " threads";
      const std::vector<unsigned> each = strides(r, n);
      for (size_t k = 0; k < each.size(); ++k) {
        Traffic t = step(r, each[k], n);
        for (unsigned warp = 0; warp < n / 32; ++warp) {
          t.store(1);
          t.load(1);
        }
        add(r, one_step(n, each[k]), threads + " step " + number_of(k), t);
      }
      add(r, all_steps(r, n), threads, all_traffic(r, n));
    }
  return all;
}

}  // namespace

TEST_CASE("bank_steps: the strided reduction peaks at 8 with 256 threads and at 16 with 512") {
  const int of_256[] = {2, 4, 8, 8, 8, 4, 2, 1}, of_512[] = {2, 4, 8, 16, 16, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) CHECK(ways(reductions[strided], 1u << k, 256) == of_256[k]);
  for (unsigned k = 0; k < 9; ++k) CHECK(ways(reductions[strided], 1u << k, 512) == of_512[k]);
  CHECK(most_ways(reductions[strided], 1024) == 32);
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const int other : {modulo, descending}) CHECK(most_ways(reductions[other], n) == 1);
}

TEST_CASE("bank_steps: wavefronts of 256 threads, by hand") {
  const int adding_warps[] = {4, 2, 1, 1, 1, 1, 1, 1};  // of strided and descending
  const int in_modulo[] = {8, 8, 8, 8, 8, 4, 2, 1};     // warps that add, a wavefront each
  const int in_strided[] = {4 * 2, 2 * 4, 8, 8, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) {  // two loads and a store
    CHECK(step(reductions[modulo], 1u << k, 256).taken() == 3 * in_modulo[k]);
    CHECK(step(reductions[strided], 1u << k, 256).taken() == 3 * in_strided[k]);
    CHECK(step(reductions[strided], 1u << k, 256).ideal == 3 * adding_warps[k]);
    CHECK(step(reductions[descending], 128u >> k, 256).taken() == 3 * adding_warps[k]);
  }
  const int all[] = {3 * 47 + 16, 3 * 47 + 16, 3 * 12 + 16};
  for (size_t i = 0; i < std::size(reductions); ++i)
    CHECK(all_traffic(reductions[i], 256).taken() == all[i]);
}

TEST_CASE("bank_steps: the text's walk through warp 0, its slip set right") {
  const LaneWords left = lanes_of_warp_0(reductions[strided], 2, 256, true);
  const LaneWords right = lanes_of_warp_0(reductions[strided], 2, 256, false);
  const long text_left[] = {0, 32, 64, 96}, ours_right[] = {2, 34, 66, 98};  // it says 68 and 100
  for (int i = 0; i < 4; ++i) {
    CHECK(left[8 * i] == text_left[i]);
    CHECK(right[8 * i] == ours_right[i]);
  }
  CHECK(text_of(lanes_of_warp_0(reductions[descending], 4, 256, false)).starts_with("4 5 6 7 - -"));
  const LaneWords own = words_of_own_bank(lanes_of_warp_0(reductions[strided], 8, 256, true));
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(own[lane] == (lane < 16 ? 8 : idle));
}

TEST_CASE("bank_steps: each step of a reduction uses a word once, and all of them every word") {
  for (unsigned n = 1; n <= max_threads; n *= 2)
    for (const Reduction& r : reductions) {
      CAPTURE(n);
      CAPTURE(std::string(r.name));
      std::vector<unsigned> sums(n);
      for (unsigned i = 0; i < n; ++i) sums[i] = value_at(i);
      for (const unsigned s : strides(r, n)) {
        std::vector<int> uses(n, 0);
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition(r.rule, s, tid, n);
          if (!a.active) continue;
          REQUIRE(std::max(a.left, a.right) < n);
          REQUIRE(++uses[a.left] + ++uses[a.right] == 2);
          sums[a.left] += sums[a.right];
        }
      }
      unsigned sum = 0;
      for (unsigned i = 0; i < n; ++i) sum += value_at(i);
      CHECK(sums[0] == sum);
      if (n > 1) CHECK(sums == words_by_host(r, all_steps(r, n)));
    }
}

TEST_CASE("bank_steps: predictions, by hand") {
  const Traffic four_way = step(reductions[strided], 2, 256);
  REQUIRE(four_way.taken() == 24);
  CHECK(predicted_cycles(four_way, 8, 90) == 192);  // the banks are what all wait for
  CHECK(predicted_cycles(four_way, 4, 90) == 96);   // fewer blocks fit
  CHECK(predicted_cycles(four_way, 1, 90) == 90);   // a warp waits for its words
  const Traffic no_conflict = step(reductions[modulo], 2, 256);
  REQUIRE(no_conflict.taken() == 24);
  CHECK(predicted_cycles(no_conflict, 8, 90) == 128);  // of its 24 wavefronts 8 are stores
}

TEST_CASE("bank_steps: what is computed is judged and saved without a GPU") {
  std::string printed;
  Report report("bank_steps", &printed);
  bank_steps({report, nullptr, {}});
  CHECK(printed.find("06.3b  does not hold") != std::string::npos);
  CHECK(printed.find("found: 512 threads come to 16-way, 1024 to 32-way") != std::string::npos);
  const std::string csv = report.csv("2026-01-01");
  const std::string strided_4 = "\"strided, step 4, stride 8\",lanes of warp 0,";
  for (const char* lanes : {"0 16 32 48 64 ", "8 24 40 56 72 ", "8 8 8 8 8 "})
    CHECK(csv.find(strided_4 + lanes) != std::string::npos);
  CHECK(csv.find("\"descending, step 1, stride 128\",lanes of warp 0,128 129 130 ") !=
        std::string::npos);
  size_t saved = 0;
  for (size_t at = csv.find("lanes of warp 0"); at != std::string::npos;
       at = csv.find("lanes of warp 0", at + 1))
    ++saved;
  CHECK(saved == 2 * 4 * 3);
}

TEST_CASE("bank_steps: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("bank_steps: counted wavefronts of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("bank_steps: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_steps: every step is right in blocks of every size") {
  if (skip_without_gpu()) return;
  for (unsigned n = 2; n <= max_threads; n *= 2) {
    Blocks some(3, n);
    for (const Reduction& r : reductions) {
      CAPTURE(n);
      CAPTURE(std::string(r.name));
      CHECK(wrong_after(some.task(r, all_steps(r, n))) == 0);
      for (const unsigned s : strides(r, n))
        for (const unsigned turns : {1u, 6u}) {
          CAPTURE(s);
          CHECK(wrong_after(some.task(r, one_step(n, s, turns))) == 0);
        }
    }
  }
}

TEST_CASE("bank_steps: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Blocks two(2, 64);
  const Reduction& r = reductions[strided];
  const Task task = two.task(r, all_steps(r, 64));
  task.check.poison();
  CHECK(task.check.wrong() == 2 * 64 + 2);  // and no cycles
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> words = two.out.to_host();
  words[64] += value_at(3) - value_at(5);  // the sum of block 1: a word twice, another left out
  words[128] = 0;                          // a word too far
  two.out.copy_from(words);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("bank_steps: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { bank_steps(run); });
}
