// Self-checks of constant.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("constant: a warp asks for as many words as it is told to") {
  for (const Ref& ref : all_rows()) {
    if (ref.key == "read_by_lane") CHECK(requests(ref) == ref.at);
    if (ref.key == "read_by_block" || ref.key == "read_global") CHECK(requests(ref) == 1);
    if (ref.key == "read_by_thread") CHECK(requests(ref) == 16);
  }
  for (unsigned distinct = 1; distinct <= 32; ++distinct)
    CHECK(requests({"read_by_lane", double(distinct)}) == distinct);
  CHECK(same(one_word("read_by_thread"), {"read_by_lane", 1}));
  CHECK(same(one_word({"read_global", 32}), {"read_global", 1}));
}

TEST_CASE("constant: sums, by hand") {
  unsigned sum = 0;
  for (unsigned piece = 0; piece < 8; ++piece)
    sum += value_at(32 * piece + 31) + value_at(32 * piece);  // word 31, then round to word 0
  CHECK(sum_from(31, 2) == sum);
}

TEST_CASE("constant: what decides each part") {
  const auto verdict = [](const char* part, const std::vector<Given>& given) {
    return verdict_if(constant_experiment, part, given);
  };
  const char *const holds = verdict_text(Verdict::holds), *const does_not =
                                                              verdict_text(Verdict::does_not_hold);
  const auto words = [](double distinct, double ms) {
    return Given{{"read_by_lane", distinct}, ms};
  };
  CHECK(verdict("01.6a", {words(2, 1.9), words(4, 3.8), words(8, 7.6), words(16, 15),
                          words(32, 30)}) == holds);
  CHECK(verdict("01.6a", {}) == does_not);
  CHECK(verdict("01.6a", {words(1, 30), words(2, 15), words(4, 7)}) == does_not);

  const auto metric = [](const char* key, const char* over, double x) {
    return Given{key, x, "latency over that of " + std::string(over)};
  };
  CHECK(verdict("01.6b", {metric("constant_first", "a hit", 24)}) == holds);
  CHECK(verdict("01.6b", {metric("read_only_first", "global_first", 24)}) == does_not);
  CHECK(verdict("01.6c", {metric("constant_first", "a hit", 24)}) == holds);
  CHECK(verdict("01.6c", {metric("read_only_first", "global_first", 2)}) == does_not);
  CHECK(verdict("01.6d", {}) == does_not);

  CHECK(verdict("01.7", {{"mix_constants", 1.1}}) == holds);
  CHECK(verdict("01.7", {{"mix_literals", 2}}) == does_not);

  // one pair alone leaves the part open
  CHECK(verdict("01.11a", {}) == holds);
  CHECK(verdict("01.11a", {{"indexed_constant", 2}}) == verdict_text(Verdict::depends));
  CHECK(verdict("01.11a", {{"indexed_constant", 2}, words(1, 1.2)}) == does_not);
  CHECK(verdict("01.11a", {{"fixed_constant", 2}}) == holds);
  CHECK(verdict("01.11b", {{"read_by_thread", 15}}) == holds);
  CHECK(verdict("01.11b", {{"read_by_block", 15}}) == does_not);
  CHECK(verdict("01.11c", {}) == does_not);
  CHECK(verdict("01.11d", {{"once_constant", 2}}) == holds);
  CHECK(verdict("01.11d", {{"once_global", 2}}) == does_not);
}

TEST_CASE("constant: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  const Shared reads(Reads({3, 33}));
  const Task task = task_of({"read_by_lane", 32}, reads, 5);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> found = reads->sums.out.to_host();
  found[40] += value_at(3) - value_at(4);
  reads->sums.out.copy_from(found);
  CHECK(task.check.wrong() == 1);
}

EXPERIMENT_CHECKS(constant)
