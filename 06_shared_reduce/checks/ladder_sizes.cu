// Self-checks of ladder_sizes.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder_sizes.cu"

#include <doctest/doctest.h>

using namespace reduce;

TEST_CASE("ladder: sizes go beyond a made-up L2, and beside the library up to what fits") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 126 << 20;
  device.prop.totalGlobalMem = size_t(3) << 30;
  Report report("ladder");
  Run run{report, &device, {}, true};
  CHECK(default_size(run) == 1 << 27);
  CHECK(sizes_beside_library(run, 0) == std::vector<size_t>{1 << 20, 1 << 24});
  run.quick = false;
  CHECK(default_size(run) == 1 << 28);
  CHECK(sizes_beside_library(run, 0) == std::vector<size_t>{1 << 20, 1 << 24, 1 << 28});
  CHECK(sizes_beside_library(run, 77) == std::vector<size_t>{77});
  CHECK(sizes_beside_library(run, size_t(1) << 31).empty());
  run.full = true;
  CHECK(sizes_beside_library(run, 0).size() == 10);  // 20, 22 ... 28, and one more of each
}

TEST_CASE("ladder: the best beside the library follows a made-up L2") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 50 << 20;
  CHECK(best_for(1 << 20, device) == once);
  CHECK(best_for(size_t(50 << 20) / 4, device) == once);
  CHECK(best_for(size_t(50 << 20) / 4 + 1, device) == streaming);
}

TEST_CASE("ladder: a row beside the library shows who takes longer") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  device.theoretical_gbs = 1000;
  std::string printed;
  Report report("ladder", &printed);
  const Run run{report, &device, {}};
  Table table = sizes_table(run);
  const Readings ours{std::vector<double>(15, 0.5)};
  const Pair pair{ours, {std::vector<double>(15, 0.6)}};  // CUB takes 1.2 times as long
  add_pair(run, {"float, called", "n", "100000000"}, 100000000,
           Compared{550, scaled(ours.statistics(), 1e3)}, pair, table);
  table.print();
  for (const char* text :
       {"550.00", "500.00", "0.91", "600.00", "1.200 (1.188 to 1.212)", "800", "80.0%", "memory"}) {
    CAPTURE(std::string(text));
    CHECK(printed.find(text) != std::string::npos);
  }
  CHECK(of_one(Readings{{3, 6}}, 3).ms == std::vector<double>{1, 2});
}

TEST_CASE("ladder: sums that a graph replays are right") {
  if (skip_without_gpu()) return;
  const size_t n = 100003;
  const Words<float> words(n);
  Work<float> work(n, {2, 1024});
  const float right = float(words.sum(n));
  for (const int rung : {int(once), int(streaming), int(library)}) {
    const Replay replay(rung, words.in, n, work, 0.5);  // four of them
    CHECK(replay.copies == 4);
    CHECK(wrong_after(replaying(rung, replay, words.in, n, right, work)) == 0);
    CHECK(wrong_after(replaying(rung, replay, words.in, n, right + 1, work)) == 1);
  }
}
