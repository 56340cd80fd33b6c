// Self-checks of bank_steps.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_steps.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

int ways(unsigned s, unsigned n) { return step_traffic(Rule::strided, s, n).degree; }

}  // namespace

TEST_CASE("bank_steps: the strided reduction peaks at 8 with 256 threads and at 16 with 512") {
  const int of_256[] = {2, 4, 8, 8, 8, 4, 2, 1}, of_512[] = {2, 4, 8, 16, 16, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) CHECK(ways(1u << k, 256) == of_256[k]);
  for (unsigned k = 0; k < 9; ++k) CHECK(ways(1u << k, 512) == of_512[k]);
  CHECK(most_ways(Rule::strided, 1024) == 32);
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Rule other : {Rule::modulo, Rule::descending}) CHECK(most_ways(other, n) == 1);
}

TEST_CASE("bank_steps: wavefronts of 256 threads, by hand") {
  const int adding_warps[] = {4, 2, 1, 1, 1, 1, 1, 1};  // of strided and descending
  const int in_modulo[] = {8, 8, 8, 8, 8, 4, 2, 1};     // warps that add, a wavefront each
  const int in_strided[] = {4 * 2, 2 * 4, 8, 8, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) {  // two loads and a store
    CHECK(step_traffic(Rule::modulo, 1u << k, 256).taken() == 3 * in_modulo[k]);
    CHECK(step_traffic(Rule::strided, 1u << k, 256).taken() == 3 * in_strided[k]);
    CHECK(step_traffic(Rule::strided, 1u << k, 256).ideal == 3 * adding_warps[k]);
    CHECK(step_traffic(Rule::descending, 128u >> k, 256).taken() == 3 * adding_warps[k]);
  }
  CHECK(all_traffic(Rule::modulo, 256).taken() == 3 * 47 + 16);
  CHECK(all_traffic(Rule::strided, 256).taken() == 3 * 47 + 16);
  CHECK(all_traffic(Rule::descending, 256).taken() == 3 * 12 + 16);
}

TEST_CASE("bank_steps: the text's walk through warp 0, its slip set right") {
  const LaneWords left = lanes_of_warp_0(Rule::strided, 2, 256, true);
  const LaneWords right = lanes_of_warp_0(Rule::strided, 2, 256, false);
  const long text_left[] = {0, 32, 64, 96}, ours_right[] = {2, 34, 66, 98};  // it says 68 and 100
  for (int i = 0; i < 4; ++i) {
    CHECK(left[8 * i] == text_left[i]);
    CHECK(right[8 * i] == ours_right[i]);
  }
  CHECK(
      text_of(lanes_of_warp_0(Rule::descending, 4, 256, false)).starts_with("4 5 6 7 - - - - - "));
  const LaneWords own = words_of_own_bank(lanes_of_warp_0(Rule::strided, 8, 256, true));
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(own[lane] == (lane < 16 ? 8 : idle));
}

TEST_CASE("bank_steps: each step of a reduction uses a word once, and all of them every word") {
  for (unsigned n = 2; n <= max_threads; n *= 2)
    for (const Reduction& r : reductions) {
      CAPTURE(n);
      CAPTURE(std::string(r.key));
      std::vector<unsigned> sums;
      unsigned sum = 0;
      for (unsigned i = 0; i < n; ++i) {
        sums.push_back(scrambled(i));
        sum += scrambled(i);
      }
      for (const unsigned s : strides(r.rule, n)) {
        std::vector<int> uses(n, 0);
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition(r.rule, s, tid, n);
          if (!a.active) continue;
          REQUIRE(std::max(a.left, a.right) < n);
          REQUIRE(++uses[a.left] + ++uses[a.right] == 2);
          sums[a.left] += sums[a.right];
        }
      }
      CHECK(sums[0] == sum);
      CHECK(sums == words_by_host(r.rule, all_steps(r.rule, n)));
    }
}

TEST_CASE("bank_steps: one step alone, and all of them, by hand") {
  const auto w = [](unsigned i) { return scrambled(i); };
  CHECK(words_by_host(Rule::strided, one_step(4, 1, 3)) ==
        std::vector<unsigned>{w(0) + 3 * w(1), w(1), w(2) + 3 * w(3), w(3)});
  CHECK(words_by_host(Rule::descending, one_step(4, 2)) ==
        std::vector<unsigned>{w(0) + w(2), w(1) + w(3), w(2), w(3)});
  CHECK(words_by_host(Rule::modulo, all_steps(Rule::modulo, 4)) ==
        std::vector<unsigned>{w(0) + w(1) + w(2) + w(3), w(1), w(2) + w(3), w(3)});
}

TEST_CASE("bank_steps: predictions, by hand") {
  const Traffic four_way = step_traffic(Rule::strided, 2, 256);
  REQUIRE(four_way.taken() == 24);
  CHECK(predicted_cycles(four_way, 8, 90) == 192);  // the banks are what all wait for
  CHECK(predicted_cycles(four_way, 4, 90) == 96);   // fewer blocks fit
  CHECK(predicted_cycles(four_way, 1, 90) == 90);   // a warp waits for its words
  const Traffic no_conflict = step_traffic(Rule::modulo, 2, 256);
  REQUIRE(no_conflict.taken() == 24);
  CHECK(predicted_cycles(no_conflict, 8, 90) == 128);  // of its 24 wavefronts 8 are stores
}

TEST_CASE("bank_steps: as many blocks fit as are predicted") {
  if (skip_without_gpu()) return;
  for (const Reduction& r : reductions) {
    int blocks = 0;
    CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, r.kernel, int(text_threads), 0));
    CHECK(blocks == resident_blocks(Device::current()));
  }
}

EXPERIMENT_CHECKS(bank_steps)
