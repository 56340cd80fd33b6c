// Self-checks of branches.cu, compiled in its place where BUILD_TESTING is on.
#include "../branches.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

TEST_CASE("branches: many steps at once are the steps of the loop") {
  for (const unsigned number : {0u, 1u, 17u, 31u})
    for (const unsigned turns : {0u, 1u, 2u, 3u, 31u, 1000u, 4096u})
      for (const unsigned from : {0u, 1u, 0xdeadbeefu}) {
        unsigned x = from;
        for (unsigned turn = 0; turn < turns; ++turn) x = (8 * number + 5) * x + 2 * number + 1;
        CHECK(steps_of(number, turns).of(from) == x);
      }
}

TEST_CASE("branches: either way of assigning gives each path as many threads") {
  for (const unsigned paths : {1u, 2u, 4u, 8u, 16u, 32u})
    for (const Assigned assigned : {Assigned::to_threads, Assigned::to_warps}) {
      std::vector<unsigned> threads(paths, 0);
      for (unsigned i = 0; i < 32 * most_paths; ++i) ++threads.at(path_at(assigned, i, paths));
      CHECK(threads == std::vector<unsigned>(paths, 32 * most_paths / paths));
      for (unsigned i = 0; i < 32 * most_paths; ++i)
        if (assigned == Assigned::to_warps) CHECK(path_at(assigned, i, paths) == i / 32 % paths);
    }
}

TEST_CASE("branches: predicted paths, by hand") {
  const double paths[] = {1, 2, 4, 8, 16, 32, 1, 1, 1, 1, 1, 0.75, 2.5, 9};
  REQUIRE(std::size(paths) == std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) CHECK(predicted_paths(rows[i], 4096) == paths[i]);
  CHECK(rows[one_path].paths == 1);
  for (size_t w = 0; w < widths; ++w) {
    CHECK(rows[in_a_warp + w].assigned == Assigned::to_threads);
    CHECK(rows[aligned + w].assigned == Assigned::to_warps);
    CHECK(rows[in_a_warp + w].paths == 2u << w);
    CHECK(rows[aligned + w].paths == 2u << w);
  }
}

namespace {

/// Readings as if a warp took `in` paths of k, or of k that are aligned to warps `of_warps`.
std::vector<Readings> made_up(double (*in)(double), double (*of_warps)(double)) {
  std::vector<Readings> all;
  for (const Row& row : rows) {
    const double paths = row.assigned == Assigned::to_threads ? in(row.paths) : of_warps(row.paths);
    all.push_back(Readings{std::vector<double>(15, 0.2 * paths)});
  }
  return all;
}

double all_of(double k) { return k; }
double one_of(double) { return 1; }
double a_third_more(double k) { return k > 1 ? 1.34 : 1; }

}  // namespace

TEST_CASE("branches: the claims compare paths in a warp, and aligned ones, with one path") {
  std::string printed;
  Report report("branches", &printed);
  const Run run{report, nullptr, {}};
  judge_paths(run, made_up(all_of, one_of));
  CHECK(printed.find("06.4a  holds ") != std::string::npos);
  CHECK(printed.find("here 2.00x, 4.00x, 8.00x, 16.0x, 32.0x") != std::string::npos);
  CHECK(printed.find("06.4b  holds ") != std::string::npos);
  printed.clear();
  judge_paths(run, made_up(one_of, all_of));
  CHECK(printed.find("06.4a  does not hold") != std::string::npos);
  CHECK(printed.find("06.4b  does not hold") != std::string::npos);
  printed.clear();
  judge_paths(run, made_up(all_of, a_third_more));
  CHECK(printed.find("06.4b  does not hold") != std::string::npos);
}

TEST_CASE("branches: the table of made-up readings, predicted and measured") {
  std::string printed;
  Report report("branches", &printed);
  const Device device;
  const Run run{report, &device, {}};
  show(run, made_up(all_of, one_of), 1024);
  REQUIRE(report.predictions().size() == std::size(rows) - 1);
  for (size_t i = 0; i < report.predictions().size(); ++i) {
    const Prediction& p = report.predictions()[i];
    CHECK(p.predicted == doctest::Approx(0.2 * predicted_paths(rows[i + 1], 1024)));
    if (!rows[i + 1].longer) CHECK(p.measured == doctest::Approx(p.predicted));
  }
}

TEST_CASE("branches: every thread takes its own path, at awkward sizes") {
  if (skip_without_gpu()) return;
  std::vector<unsigned> turns;
  for (unsigned p = 0; p < most_paths; ++p) turns.push_back(p * 7 % 33);  // none at all, too
  for (const unsigned threads : {1u, 31u, 33u, 257u, 1009u, 65537u}) {
    std::vector<unsigned> any;
    for (unsigned i = 0; i < threads; ++i) any.push_back(word_at(i) >> 27);
    CHECK(wrong_after(Work(any, turns).task("any")) == 0);
    for (const Row& row : rows) {
      CAPTURE(std::string(row.name));
      CAPTURE(row.paths);
      CAPTURE(threads);
      CHECK(wrong_after(Work(row.path_of(threads), row.turns(20)).task("")) == 0);
    }
  }
}

TEST_CASE("branches: the check finds a thread on another's path, and a word too far") {
  if (skip_without_gpu()) return;
  const unsigned threads = 1009;
  std::vector<unsigned> turns(most_paths, 3);
  std::vector<unsigned> paths;
  for (unsigned i = 0; i < threads; ++i) paths.push_back(i % most_paths);
  Work work(paths, turns);
  const Task task = work.task("");
  task.check.poison();
  CHECK(task.check.wrong() == threads);
  REQUIRE(wrong_after(task) == 0);
  paths[77] = 0;
  work.path_of.copy_from(paths);
  CHECK(wrong_after(task) == 1);
  std::vector<unsigned> beyond = work.right;
  beyond[threads] = 0;
  work.out.copy_from(beyond);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("branches: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { branches(run); });
}
