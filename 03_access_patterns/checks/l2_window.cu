// Self-checks of l2_window.cu, compiled in its place where BUILD_TESTING is on.
#include "../l2_window.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Variant& variant(const char* key) { return *with_key(variants, key); }

/// The sum of each thread, step after step, as a CPU would go through both arrays.
std::vector<unsigned> sums_by_host(unsigned hot_words, unsigned n, unsigned threads) {
  std::vector<unsigned> sums(threads, 0);
  unsigned hot = 0, thread = 0;
  for (size_t step = 0; step < n; ++step) {
    for (size_t k = 0; k < 4; ++k) {
      if (hot_words) sums[thread] += Hot{}(4 * size_t(hot) + k);
      sums[thread] += word_at(4 * step + k) + word_at(4 * (n + step) + k);
    }
    if (++hot >= hot_words) hot = 0;
    if (++thread == threads) thread = 0;
  }
  return sums;
}

/// Why no window can be measured on this GPU; empty if one can.
std::string no_window_here() {
  const std::string why = no_window(Device::current());
  if (!why.empty()) return why;
  return granted(Device::current()) > 0 ? "" : "the driver sets no L2 aside";
}

}  // namespace

TEST_CASE("l2_window: what an L2 keeps, by hand") {
  const double ln2 = std::log(2.0);
  CHECK(kept(50, 0, 100) == 1);
  CHECK(kept(100, 0, 100) == 1);
  CHECK(kept(200 * ln2, 0, 100) == doctest::Approx(0.5));  // 1/2 = exp(-ln 2)
  CHECK(kept(1e6, 0, 100) == doctest::Approx(0));
  CHECK(kept(100, 100, 150 / ln2) == doctest::Approx(0.5));  // half of the hot bytes come, and 100
  CHECK(kept(0, 100, 100 / ln2) == doctest::Approx(0.5));
  CHECK(kept(10, 10, 0) == 0);
  CHECK(capacity_by(0.5, 100, 100) == doctest::Approx(150 / ln2));
  for (const double share : {0.1, 0.3, 0.7, 0.9})
    CHECK(kept(30, 60, capacity_by(share, 30, 60)) == doctest::Approx(share));
}

namespace {

/// On paper: hits of a hot array of `share` of a set-aside of 60, in an L2 of 100, if a share
/// `held` of it holds different lines; and whether a part of the L2 is set aside.
struct ByHand {
  const char* key;
  double share, held, hits;
  bool set_aside;
};

}  // namespace

TEST_CASE("l2_window: predicted hits, by hand") {
  const double ln2 = std::log(2.0);
  const ByHand all[] = {
      {"no_window", 40 * ln2 / 60, 1, 0.5, false},  // 20 ln 2 and 80 ln 2 come
      {"no_window", 20 * ln2 / 60, 0.5, 0.5, false},
      {"aside_no_window", 40 * ln2 / 60, 1, 0.5, true},
      {"once_no_window", 100 / 60.0, 1, 1, false},  // nothing else comes
      {"once_no_window", 200 * ln2 / 60, 1, 0.5, false},
      {"window", 1, 1, 1, true},
      {"window", 2 * ln2, 1, 0.5, true},
      {"window", 0.5, 0.5, 1, true},
      {"once_window", ln2, 0.5, 0.5, true},
      {"window_fitting", 2, 1, 0.5, true},
      {"window_fitting", 3, 1, 1.0 / 3, true},
      {"window_fitting", 1, 1 / (2 * ln2), 0.5, true},
  };
  const Cache cache{100, 60};
  const Calibrated c{10, 8, 1};
  for (const ByHand& each : all) {
    CAPTURE(std::string(each.key));
    CAPTURE(each.share);
    const Variant& v = variant(each.key);
    CHECK(predicted_hits(v, each.share, cache, each.held) == doctest::Approx(each.hits));
    CHECK(c.rate(v) == (each.set_aside ? 8 : 10));
  }
}

TEST_CASE("l2_window: no two rows do the same work") {
  for (const Variant& a : variants)
    for (const Variant& b : variants) {
      if (&a == &b) continue;
      CAPTURE(std::string(a.key));
      CHECK(a.key != b.key);
      CHECK((a.kernel != b.kernel || a.sets_aside != b.sets_aside || a.window != b.window));
    }
}

TEST_CASE("l2_window: times, hits by times, and what holds, by hand") {
  const double ln2 = std::log(2.0);
  const Traffic traffic{100, 200};
  CHECK(predicted_ms(traffic, 0, 10) == doctest::Approx(30));
  CHECK(predicted_ms(traffic, 0.5, 10) == doctest::Approx(25));
  CHECK(predicted_ms(traffic, 1, 8) == doctest::Approx(25));
  CHECK(hits_by(traffic, 30, 10) == doctest::Approx(0));
  CHECK(hits_by(traffic, 25, 10) == doctest::Approx(0.5));
  CHECK(hits_by(traffic, 50, 10) == 0);
  // a hot array of 40 bytes: half of them and 80 come for each half-life of the L2
  CHECK(held_by(traffic, 40 / 60.0, 25, 10, {200 / ln2, 60}) == doctest::Approx(0.5));
  CHECK(held_by(traffic, 40 / 60.0, 25, 10, {50 / ln2, 60}) == 1);  // more than there is
  CHECK(held_by(traffic, 40 / 60.0, 30, 10, {1e6, 60}) == 0.25);    // nothing stays
}

TEST_CASE("l2_window: no window without the hardware for it") {
  Device device;
  device.prop.major = 7;
  device.prop.persistingL2CacheMaxSize = 1 << 20;
  CHECK(no_window(device) == "windows need compute capability 8.0");
  device.prop.major = 9;
  CHECK(no_window(device).empty());
  device.prop.persistingL2CacheMaxSize = 0;  // a slice
  CHECK(no_window(device).find("persistingL2CacheMaxSize is 0") != std::string::npos);
}

TEST_CASE("l2_window: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  const bool windows = no_window_here().empty();
  const size_t most = size_t(Device::current().prop.persistingL2CacheMaxSize);
  for (const Grid grid : {Grid{3}, resident_grid_of_both(Device::current())})
    for (const unsigned hot_words : {1u, 31u, 1009u, 32768u})
      for (const unsigned n : {1u, 33u, 1009u, grid.threads() + 77}) {
        CAPTURE(hot_words);
        CAPTURE(n);
        const Shared x(Arrays(hot_words, n, grid));
        for (const Variant& v : variants) {
          if (v.sets_aside && !windows) continue;
          CAPTURE(std::string(v.key));
          CHECK(wrong_after(task_of(x, Ref(v.key, 2), hot_words, most)) == 0);
          std::vector<unsigned> found = x->stream.sums.to_host();
          found.resize(grid.threads());
          CHECK(found == sums_by_host(hot_words, n, grid.threads()));
        }
      }
}

TEST_CASE("l2_window: nothing of a window is left, whatever ends it") {
  if (skip_without_gpu()) return;
  if (const std::string why = no_window_here(); !why.empty()) return skip_self_check(why);
  const size_t most = size_t(Device::current().prop.persistingL2CacheMaxSize);
  const size_t before = set_aside_now();
  const Shared x(Arrays(1 << 14, 1 << 16, Grid{8}));
  Task task = task_of(x, Ref("window", 1), 1 << 14, most);
  const Function<void()> launch = task.launch;
  task.launch = [launch] {
    CHECK(set_aside_now() > 0);
    launch();
  };
  CHECK(wrong_after(task) == 0);
  CHECK(set_aside_now() == before);
  task.check.wrong = [] { return size_t(1); };
  CHECK_THROWS_AS(require_right(task), WrongResult);
  CHECK(set_aside_now() == before);
}

// A window that persists would distort later measurements.
TEST_CASE("l2_window: leaves later timings as they were" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  if (const std::string why = no_window_here(); !why.empty()) return skip_self_check(why);
  const Device device = Device::current();
  std::string printed;
  Report report("l2_window", &printed);
  const Run run{report, &device, {}, true};
  const size_t most = size_t(device.prop.persistingL2CacheMaxSize);
  const Sizes sizes = sizes_of(run, most);
  if (sizes.shares.empty()) return skip_self_check("too little memory is free");
  const unsigned hot_words = sizes.hot_words(1);
  const Shared x(Arrays(hot_words, sizes.n, resident_grid_of_both(device)));
  const Task plain = task_of(x, Ref("no_window", 1), hot_words, most);
  const double before = run.time(plain).median();
  run.time_in_turn({plain, task_of(x, Ref("window", 1), hot_words, most)});
  CHECK(run.time(plain).median() == doctest::Approx(before).epsilon(0.05));
}

EXPERIMENT_CHECKS(l2_window)
