// Self-checks of branches.cu, compiled in its place where BUILD_TESTING is on.
#include "../branches.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// A path as its loop says it.
unsigned walked(unsigned x, unsigned number, unsigned turns) {
  for (unsigned turn = 0; turn < turns; ++turn) x = (8 * number + 5) * x + 2 * number + 1;
  return x;
}

}  // namespace

TEST_CASE("branches: many steps at once are the steps of the loop") {
  for (const unsigned number : {0u, 1u, 17u, 31u})
    for (const unsigned turns : {0u, 1u, 2u, 3u, 31u, 1000u, 4096u})
      for (const unsigned from : {0u, 1u, 0xdeadbeefu})
        CHECK(steps_of(number, turns).of(from) == walked(from, number, turns));
}

TEST_CASE("branches: each path has as many threads, in a warp and aligned to warps") {
  for (const Ref& row : all_rows()) {
    CAPTURE(text(row));
    const unsigned paths = unsigned(row.at);
    std::vector<unsigned> threads(paths, 0);
    for (unsigned i = 0; i < 32 * most_paths; ++i) {
      ++threads.at(path_at(row)(i));
      CHECK(path_at(row)(i) == (row.key == "aligned_to_warps" ? i / 32 : i) % paths);
    }
    CHECK(threads == std::vector<unsigned>(paths, 32 * most_paths / paths));
  }
}

TEST_CASE("branches: predicted paths, by hand") {
  for (const unsigned paths : {2, 4, 8, 16, 32}) {
    CHECK(predicted_paths({"in_a_warp", double(paths)}, 4096) == paths);
    CHECK(predicted_paths({"aligned_to_warps", double(paths)}, 4096) == 1);
  }
  CHECK(predicted_paths(one_path, 4096) == 1);
  CHECK(predicted_paths({"longer_in_a_warp", 2}, 4096) == 0.75);  // 1/4 and 2/4
  CHECK(predicted_paths({"longer_in_a_warp", 4}, 4096) == 2.5);
  CHECK(predicted_paths({"longer_in_a_warp", 8}, 1024) == 9);
}

TEST_CASE("branches: what decides each part") {
  const auto verdict = [](const char* part, double in_a_warp, double aligned) {
    std::vector<Given> given{{one_path, 0.5}};
    for (const unsigned paths : {2, 4, 8, 16, 32}) {
      given.push_back({{"in_a_warp", double(paths)}, 0.5 * std::pow(paths, in_a_warp)});
      given.push_back({{"aligned_to_warps", double(paths)}, 0.5 * aligned});
    }
    return verdict_if(branches_experiment, part, given);
  };
  CHECK(verdict("06.4a", 1, 9) == verdict_text(Verdict::holds));
  CHECK(verdict("06.4a", 0, 1) == verdict_text(Verdict::does_not_hold));  // as long as one path
  CHECK(verdict("06.4a", 2, 1) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("06.4a", 0.5, 1) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("06.4b", 9, 1.03) == verdict_text(Verdict::holds));
  CHECK(verdict("06.4b", 1, 1.34) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("branches: threads on any path of any length, at awkward sizes") {
  if (skip_without_gpu()) return;
  std::vector<unsigned> turns;
  for (unsigned p = 0; p < most_paths; ++p) turns.push_back(p * 7 % 33);  // none at all, too
  const DeviceBuffer<unsigned> turns_of_paths(turns);
  for (const unsigned n : {1u, 31u, 33u, 257u, 1009u, 65537u}) {
    CAPTURE(n);
    std::vector<unsigned> words, paths, right;
    for (unsigned i = 0; i < n; ++i) {
      words.push_back(scrambled(i));
      paths.push_back(scrambled(i, 1) % most_paths);
      right.push_back(walked(words[i], paths[i], turns[paths[i]]));
    }
    const DeviceBuffer<unsigned> in(words), path_of(paths);
    Output<unsigned> out(n);
    out.poison();
    take_paths<<<(n + block_threads - 1) / block_threads, block_threads>>>(
        out.data(), in.data(), path_of.data(), turns_of_paths.data(), n);
    CUDA_CHECK_LAUNCH();
    CHECK(out.to_host() == right);
  }
}

TEST_CASE("branches: the check finds a thread on another's path") {
  if (skip_without_gpu()) return;
  const Ref row{"in_a_warp", 32};
  const Shared work{Work(row, 1009, 3)};
  const Task task = task_of(work, row);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> paths = work->path_of.to_host();
  paths[77] = 0;
  work->path_of.copy_from(paths);
  CHECK(wrong_after(task) == 1);
}

EXPERIMENT_CHECKS(branches)
