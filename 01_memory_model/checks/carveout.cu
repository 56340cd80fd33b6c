// Self-checks of carveout.cu, compiled in its place where BUILD_TESTING is on.
#include "../carveout.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE("carveout: predicted splits, by hand") {
  const Splits v100 = splits_of(7, 0), h100 = splits_of(9, 0);
  CHECK(predicted_shared_kib(v100, {0, 0}, 0) == 0);
  CHECK(predicted_shared_kib(v100, {100, 0}, 0) == 96);
  CHECK(predicted_shared_kib(v100, {50, 0}, 0) == 64);  // 48 KiB asked for
  CHECK(predicted_shared_kib(v100, {0, 20}, 0) == 32);  // the block has the last word
  CHECK(predicted_shared_kib(v100, {100, 20}, 0) == 96);
  CHECK(predicted_shared_kib(h100, {0, 0}, 1) == 8);  // one KiB is reserved of each block
  CHECK(predicted_shared_kib(h100, {0, 100}, 1) == 132);
  CHECK(predicted_shared_kib(h100, {0, 227}, 1) == 228);
  const int capabilities[][2] = {{7, 0}, {7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}};
  for (const auto& [major, minor] : capabilities) {
    const Splits splits = splits_of(major, minor);
    CAPTURE(major);
    CHECK(std::is_sorted(splits.shared_kib.begin(), splits.shared_kib.end()));
    CHECK(splits.shared_kib.back() < splits.total_kib);
    for (const int kib : splits.shared_kib)  // each amount can be asked for
      CHECK(predicted_shared_kib(splits, {percent_of(kib, splits), 0}, 0) == kib);
  }
  CHECK(splits_of(6, 1).shared_kib.empty());
  CHECK(splits_of(99, 0).shared_kib.empty());
}

TEST_CASE("carveout: the search finds what fits") {
  for (const int holds : {0, 4, 100, 120, 252, 256}) {
    const auto fits = [&](int kib) { return kib <= holds; };
    CHECK(largest_fitting(256, fits) == holds);
  }
  CHECK(largest_fitting(256, [](int kib) { return kib <= 30; }) == 28);
  CHECK(largest_fitting(256, [](int kib) { return kib <= 999; }) == 256);
  const auto cycles = [](int kib) { return kib <= 100 ? 33.0 : 40.0; };
  CHECK(largest_in_l1(splits_of(9, 0), 32, cycles) == 100);
  CHECK(largest_in_l1(splits_of(9, 0), 37, cycles) == 256);
}

TEST_CASE("carveout: what is asked for") {
  const Splits h100 = splits_of(9, 0);
  CHECK(all_asked(h100, 227, false).size() == 15);
  CHECK(all_asked(h100, 99, false).size() == 13);
  CHECK(all_asked(h100, 227, true).size() == 5);
  for (const Asked& asked : all_asked(h100, 227, false)) CHECK(asked.wish.block_kib <= 227);
}

TEST_CASE("carveout: made-up GPUs have a known split, and no block asks for more than it may") {
  for (const Device& device : made_up_devices()) {
    CAPTURE(std::string(device.prop.name));
    const cudaDeviceProp& p = device.prop;
    const Splits splits = splits_of(p.major, p.minor);
    REQUIRE(!splits.shared_kib.empty());
    CHECK(size_t(splits.shared_kib.back()) == p.sharedMemPerMultiprocessor / 1024);
    const int most = int(p.sharedMemPerBlockOptin >> 10);
    for (const bool quick : {false, true})
      for (const Asked& asked : all_asked(splits, most, quick)) {
        CHECK(asked.wish.block_kib <= most);
        CHECK(asked.wish.hint_percent <= 100);
        CHECK(predicted_shared_kib(splits, asked.wish, int(p.reservedSharedMemPerBlock >> 10)) >=
              asked.wish.block_kib);
      }
  }
}

TEST_CASE("carveout: every chase ends where it should") {
  if (skip_without_gpu()) return;
  L1 l1(64);
  for (const int kib : {1, 3, 4, 31, 64})  // throws if it does not
    for (const Wish wish : {Wish{0, 0}, Wish{100, 0}, Wish{0, 40}}) CHECK(l1.cycles(kib, wish) > 0);
}

// The claim of the sweep, where the array is one: more shared memory, less L1.
TEST_CASE("carveout: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  const Splits splits = splits_of(prop.major, prop.minor);
  if (splits.shared_kib.empty()) return skip_self_check("no known split of L1 on this GPU");
  L1 l1(splits.total_kib);
  const double hit = l1.cycles(step_kib, {0, 0});
  const double most = largest_in_l1(splits, hit, [&](int kib) { return l1.cycles(kib, {0, 0}); });
  const double least = largest_in_l1(splits, hit, [&](int kib) {
    return l1.cycles(kib, {100, 0});
  });
  CHECK(most <= splits.total_kib);
  CHECK(most > 0.6 * (splits.total_kib - splits.shared_kib.front()));
  CHECK(least <= splits.total_kib - splits.shared_kib.back());
  CHECK(least < most);
}

EXPERIMENT_CHECKS_OF_FACTS(carveout)
