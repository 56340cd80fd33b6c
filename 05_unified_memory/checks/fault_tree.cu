// Self-checks of fault_tree.cu, compiled in its place where BUILD_TESTING is on.
#include "../fault_tree.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("fault_tree: from its start a block comes in six faults") {
  CHECK(served(in_order()).faults == 6);  // a GTX 1080 Ti, LC A: 36 in three walks of two blocks
  CHECK(served(in_order()).transfers == 12);
}

TEST_CASE("fault_tree: the rule in other orders, by hand") {
  const auto makes = [](const std::vector<unsigned>& order, unsigned faults, unsigned transfers) {
    const Served found = served(order);
    CHECK(found.faults == faults);
    CHECK(found.transfers == transfers);
  };
  makes({7}, 1, 2);                  // the 4 KiB, and the 60 KiB behind them
  makes({7, 7, 7}, 1, 2);            // they came with the first
  makes({0, 1, 2}, 3, 6);            // 64, 128 of 256 KiB; then 192, and so all 256
  makes({0, 1, 2, 3}, 3, 6);         // the fourth came with the third
  makes({0, 2, 1, 3}, 3, 7);         // 0, 2; then 1 makes three of four: behind it, and part 3
  makes({31, 30, 29, 28}, 3, 7);     // the third brings the part before it, too
  makes({0, 1, 4, 5, 2, 3}, 5, 11);  // 4 of 8 parts are half; the fifth fills all eight
}

TEST_CASE("fault_tree: walks are what their names say") {
  const auto order = [](const char* key) { return with_key(walks, Ref(key))->order(); };
  CHECK(order("from_its_start").front() == 0);
  CHECK(order("from_its_end").front() == 31);
  CHECK(order("every_second_part").size() == 16);
  CHECK(order("every_second_part")[1] == 2);
  CHECK(order("one_word").size() == 1);
  std::vector<unsigned> random = order("in_random_order");
  CHECK(random != in_order());
  std::sort(random.begin(), random.end());
  CHECK(random == in_order());  // each part once
}

TEST_CASE("fault_tree: the driver follows the rule in every order") {
  if (skip_without_gpu()) return;
  const std::string why = migrations_uncounted_because();
  if (!why.empty()) return skip_self_check(why);
  for (const Walk& walk : walks) {
    const Migrations m = count_walk(walk);
    const Served rule = served(walk.order());
    MESSAGE(walk.words << ": faults " << m.cpu_faults << ", by the rule " << blocks * rule.faults
                       << "; transfers " << m.to_host.count << ", by the rule "
                       << blocks * rule.transfers);
    CHECK(m.cpu_faults >= blocks);  // each block is touched
    CHECK(m.to_host.bytes >= double(blocks * 65536));
    CHECK(m.to_host.bytes <= double(blocks * block_bytes));
  }
}

EXPERIMENT_CHECKS_OF_FACTS(fault_tree)
