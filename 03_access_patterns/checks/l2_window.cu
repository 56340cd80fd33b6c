// Self-checks of l2_window.cu, compiled in its place where BUILD_TESTING is on.
#include "../l2_window.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

double bytes_of(const Sizes& s) { return 32.0 * s.n + 16.0 * s.most_hot(); }

bool canaries_stand(const Arrays& arrays) {
  const std::vector<unsigned> all = arrays.sums.to_host();
  return std::count(all.end() - arrays.canaries, all.end(), ~0u) == long(arrays.canaries);
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const unsigned hot_words : {32u, 1024u, 40960u}) {
    constexpr unsigned n = 1 << 16;
    constexpr double loads = 3 * n / 32;  // of a warp, each of 512 bytes in a row
    all.push_back({"read_hot_and_stream",
                   std::to_string(hot_words) + " hot words",
                   {expected_requests(true, loads), expected_sectors(true, 16 * loads)},
                   [hot_words] {
                     Arrays arrays(hot_words, n, resident_blocks_of_both(Device::current()));
                     return wrong_after(arrays.both(no_way, hot_words)) == 0;
                   }});
  }
  return all;
}

/// The sum of each thread, one turn after the other, as a CPU would go through both arrays.
std::vector<unsigned> sums_by_host(unsigned hot_words, unsigned n, unsigned threads, bool streams) {
  std::vector<unsigned> sums(threads, 0);
  unsigned hot = 0, thread = 0;
  for (size_t turn = 0; turn < n; ++turn) {
    for (size_t k = 0; k < 4; ++k) {
      if (hot_words) sums[thread] += hot_word_at(4 * size_t(hot) + k);
      if (streams) sums[thread] += word_at(4 * turn + k) + word_at(4 * (n + turn) + k);
    }
    if (++hot >= hot_words) hot = 0;
    if (++thread == threads) thread = 0;
  }
  return sums;
}

/// A made-up device that can set five eighths of its L2 aside, as an H100 can.
Device with_windows(Device device) {
  device.prop.persistingL2CacheMaxSize = int(device.l2_bytes() / 8 * 5);
  device.prop.accessPolicyMaxWindowSize = 128 << 20;
  return device;
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

TEST_CASE("l2_window: predictions, by hand") {
  const double ln2 = std::log(2.0);
  const Cache cache{100, 60};
  for (const Way& way : {no_way, aside_way}) {
    CHECK(predicted_hits(way, 40 * ln2, cache, 1) == doctest::Approx(0.5));  // 20 ln 2 and 80 ln 2
    CHECK(predicted_hits(way, 20 * ln2, cache, 0.5) == doctest::Approx(0.5));
  }
  CHECK(predicted_hits(once_way, 100, cache, 1) == 1);  // nothing passes by
  CHECK(predicted_hits(once_way, 200 * ln2, cache, 1) == doctest::Approx(0.5));
  for (const Way& way : {whole_way, once_window}) {
    CHECK(predicted_hits(way, 60, cache, 1) == 1);
    CHECK(predicted_hits(way, 120 * ln2, cache, 1) == doctest::Approx(0.5));
    CHECK(predicted_hits(way, 30, cache, 0.5) == 1);
    CHECK(predicted_hits(way, 60 * ln2, cache, 0.5) == doctest::Approx(0.5));
  }
  CHECK(predicted_hits(fitting_way(2), 120, cache, 1) == doctest::Approx(0.5));
  CHECK(predicted_hits(fitting_way(3), 180, cache, 1) == doctest::Approx(1.0 / 3));
  // 30 are to stay where 30 / (2 ln 2) can: half of half of them do
  CHECK(predicted_hits(fitting_way(2), 60, cache, 1 / (4 * ln2)) == doctest::Approx(0.25));

  const Calibrated c{10, 8, 1};
  for (const Way& way : {no_way, once_way}) CHECK(rate_of(way, c) == 10);
  for (const Way& way : {aside_way, whole_way, once_window}) CHECK(rate_of(way, c) == 8);

  const Traffic traffic{100, 200};
  CHECK(predicted_ms(traffic, 0, 10) == doctest::Approx(30));
  CHECK(predicted_ms(traffic, 0.5, 10) == doctest::Approx(25));
  CHECK(predicted_ms(traffic, 1, 8) == doctest::Approx(25));
  CHECK(hits_by(traffic, 30, 10) == doctest::Approx(0));
  CHECK(hits_by(traffic, 25, 10) == doctest::Approx(0.5));
  const Statistics found = hits_by(traffic, Statistics{25, 20, 30, 9}, 10);
  CHECK(found.low == doctest::Approx(0));
  CHECK(found.high == doctest::Approx(1));
  // half of 40 bytes and twice 40 come for each half-life of the L2
  CHECK(held_by(traffic, 40, 25, 10, {200 / ln2, 60}) == doctest::Approx(0.5));
  CHECK(held_by(traffic, 40, 25, 10, {50 / ln2, 60}) == 1);  // more than there is
  CHECK(held_by(traffic, 40, 30, 10, {1e6, 60}) == 0.25);    // nothing stays
  CHECK(held_by(traffic, 40, 1e-3, 10, {100, 60}) == 1);     // faster than can be
}

TEST_CASE("l2_window: windows are gated") {
  Device device;
  device.number = -1;
  device.prop.major = 7;
  device.prop.minor = 5;
  device.prop.persistingL2CacheMaxSize = 1 << 20;
  CHECK(no_window(device) == "windows need compute capability 8.0");
  device.prop.major = 9;
  CHECK(no_window(device).empty());
  device.prop.persistingL2CacheMaxSize = 0;  // a slice
  CHECK(no_window(device).find("persistingL2CacheMaxSize is 0") != std::string::npos);
  std::string printed;
  Report report("l2_window", &printed);
  l2_window({report, &device, {}});
  CHECK(printed.find("hits and times over the size of a window") != std::string::npos);
}

TEST_CASE("l2_window: each row of a made-up device is predicted, and the right pairs are found") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.l2CacheSize = 64 << 20;
  device.prop.totalGlobalMem = size_t(16) << 30;
  device = with_windows(device);
  std::string printed;
  Report report("l2_window", &printed);
  const Run run{report, &device, {}};
  const Sizes sizes = sizes_of(Run{report, &device, {}, true}, 40 << 20);
  REQUIRE(sizes.shares == std::vector<double>{0.5, 1, 2});
  const Cache cache{64.0 * (1 << 20), 40.0 * (1 << 20)};
  const Traffic traffic = sizes.traffic();
  const Calibrated c{4.5e9, 4e9, 0.75};  // bytes a millisecond
  const auto for_ms = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  Measured taken{for_ms(traffic.stream / c.memory), for_ms(traffic.stream / c.aside), {}};
  size_t rows = 0;
  for (const double share : sizes.shares) {
    taken.both.emplace_back();
    for (const Way& way : ways_of(share)) {
      const double hits = predicted_hits(way, sizes.hot_bytes(share), cache, c.held);
      taken.both.back().push_back(for_ms(predicted_ms(traffic, hits, rate_of(way, c))));
      ++rows;
    }
  }
  const Calibrated found = calibrate(taken, sizes, cache);
  CHECK(found.memory == doctest::Approx(c.memory));
  CHECK(found.aside == doctest::Approx(c.aside));
  CHECK(found.held == doctest::Approx(c.held));
  show(run, taken, sizes, cache, found);
  REQUIRE(report.predictions().size() == 2 * (rows - 1));  // times and hits of all rows but one
  for (const Prediction& p : report.predictions()) {
    CAPTURE(p.row);
    CHECK(p.measured == doctest::Approx(p.predicted));
    CHECK(p.model == (p.unit == "ms" ? Model::traffic : Model::host));
  }
  // in the order of ways_of
  taken.both[0] = {for_ms(3), for_ms(6), for_ms(2), for_ms(1), for_ms(1.5)};
  taken.both[2] = {for_ms(3), for_ms(6), for_ms(2.5), for_ms(2), for_ms(1), for_ms(1)};
  printed.clear();
  find(run, taken, sizes);
  CHECK(printed.find("with a window 1.50x faster") != std::string::npos);
  CHECK(printed.find("and no window, 3.00x faster") != std::string::npos);
  CHECK(printed.find("makes it 2.00x slower") != std::string::npos);
  CHECK(printed.find("with both 2.00x faster") != std::string::npos);
  CHECK(printed.find("hitRatio 0.5 1.25x faster") != std::string::npos);
  CHECK(printed.find("which is 1.20x faster") != std::string::npos);
}

TEST_CASE("l2_window: the arrays fit made-up GPUs, and the stream is beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const Device device = with_windows(*run.device);
    const Run with{run.report, &device, run.measuring, run.quick, run.full};
    const size_t set_aside = size_t(device.prop.persistingL2CacheMaxSize);
    const Sizes sizes = sizes_of(with, set_aside);
    CHECK(place_of(sizes, calibrating) >= 0);
    for (const double share : sizes.shares) {
      CHECK(sizes.hot_words(share) % 32 == 0);
      CHECK(sizes.hot_bytes(share) <= double(device.prop.accessPolicyMaxWindowSize));
      CHECK(sizes.hot_bytes(share) == doctest::Approx(share * double(set_aside)).epsilon(0.01));
      CHECK(sizes.traffic().hot >= 4 * sizes.hot_bytes(share));
    }
    CHECK(sizes.n % 32 == 0);
    const double threads =
        double(device.prop.multiProcessorCount) * device.prop.maxThreadsPerMultiProcessor;
    return Needs{bytes_of(sizes) + 8 * threads, sizes.traffic().stream};
  });
}

TEST_CASE("l2_window: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const bool windows = no_window(device).empty();
  for (const unsigned blocks : {3u, resident_blocks_of_both(device)})
    for (const unsigned hot_words : {1u, 31u, 1009u, 32768u})
      for (const unsigned n : {1u, 33u, 1009u, blocks * block_threads + 77}) {
        CAPTURE(blocks);
        CAPTURE(hot_words);
        CAPTURE(n);
        Arrays arrays(hot_words, n, blocks);
        const auto right = [&](const Task& task, unsigned hot, bool streams) {
          CHECK(wrong_after(task) == 0);
          CHECK(canaries_stand(arrays));
          std::vector<unsigned> sums = arrays.sums.to_host();
          sums.resize(arrays.threads());
          CHECK(sums == sums_by_host(hot, n, arrays.threads(), streams));
        };
        right(arrays.stream_alone(), 0, true);
        for (const Way& way : {no_way, once_way})
          right(arrays.both(way, hot_words), hot_words, true);
        if (!windows) continue;
        const SetAside set_aside(size_t(device.prop.persistingL2CacheMaxSize));
        for (const Way& way : {aside_way, whole_way, once_window})
          right(arrays.both(way, hot_words), hot_words, true);
        right(arrays.both(fitting_way(2), hot_words), hot_words, true);
      }
}

TEST_CASE("l2_window: the check finds a word left out, and one taken for another") {
  if (skip_without_gpu()) return;
  Arrays arrays(97, 4099, 3);
  const Task task = arrays.both(no_way, 97);
  REQUIRE(wrong_after(task) == 0);
  CHECK(arrays.wrong(0, true) == arrays.threads());
  CHECK(arrays.wrong(97, false) == arrays.threads());
  CHECK(arrays.wrong(96, true) > arrays.threads() / 2);  // the hot array begins again too early
  std::vector<unsigned> sums = arrays.sums.to_host();
  sums[5] += word_at(4 * 6) - word_at(4 * 5);
  arrays.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
  task.check.poison();
  CHECK(task.check.wrong() == arrays.threads());
}

TEST_CASE("l2_window: nothing of a window is left, whatever ends it") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const std::string why = no_window(device);
  if (!why.empty()) return skip_self_check(why);
  const size_t most = size_t(device.prop.persistingL2CacheMaxSize);
  const size_t before = SetAside::limit();
  if (granted(device) == 0) return skip_self_check("the driver sets no L2 aside");
  CHECK(SetAside::limit() == before);

  Arrays arrays(1 << 14, 1 << 16, 8);
  arrays.sums.poison();
  CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for the default one
  const Stream stream;
  {
    const SetAside set_aside(most);
    CHECK(SetAside::limit() > 0);
    launch_with_window(read_hot_and_stream, 1, arrays.blocks, arrays.sums.data(), arrays.hot_data(),
                       1 << 14, arrays.stream_data(), arrays.n, stream);
    stream.wait();
  }
  CHECK(SetAside::limit() == before);
  CHECK(arrays.wrong(1 << 14, true) == 0);
  cudaLaunchAttributeValue left{};
  CUDA_CHECK(cudaStreamGetAttribute(stream, cudaLaunchAttributeAccessPolicyWindow, &left));
  CHECK(left.accessPolicyWindow.num_bytes == 0);  // the launch had it, not the stream

  const auto fails = [&] {
    const SetAside set_aside(most);
    require_right(false, "a result that is wrong on purpose");
  };
  CHECK_THROWS_AS(fails(), WrongResult);
  CHECK(SetAside::limit() == before);
}

TEST_CASE("l2_window: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("l2_window: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("l2_window: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { l2_window(run); });
}

// A window that stays would leave hits to whoever reads that array, and less L2 to all others.
TEST_CASE("l2_window: leaves later timings as they were" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const std::string why = no_window(device);
  if (!why.empty()) return skip_self_check(why);
  const size_t set_aside = granted(device);
  if (set_aside == 0) return skip_self_check("the driver sets no L2 aside");
  std::string printed;
  Report report("l2_window", &printed);
  const Run run{report, &device, {}, true};
  const Sizes sizes = sizes_of(run, set_aside);
  if (sizes.shares.empty()) return skip_self_check("too little memory is free");
  Arrays arrays(sizes.most_hot(), sizes.n, resident_blocks_of_both(device));
  const Task task = arrays.both(no_way, sizes.hot_words(1));
  const double before = run.time(task).median();
  in_turn(run, arrays, {no_way, whole_way, fitting_way(2)}, sizes, 1);
  const double after = run.time(task).median();
  CHECK(after == doctest::Approx(before).epsilon(0.05));
}
