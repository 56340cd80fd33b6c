// Self-checks of stride.cu, compiled in its place where BUILD_TESTING is on.
#include "../stride.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const size_t stride : {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 64}) {
    constexpr size_t loads = (size_t(1) << 15) / 32;  // of a warp
    const double asked = double(loads) * sectors(stride_warp(stride));
    all.push_back({"read_stride",
                   "stride " + std::to_string(stride),
                   {expected_requests(true, loads), expected_sectors(true, asked)},
                   [stride] {
                     Words words(stride << 15, resident_grid(Device::current()));
                     return wrong_after(task_of(words, stride)) == 0;
                   }});
  }
  return all;
}

/// The sum of each thread, by the text: word after word of the array, every stride-th is taken.
std::vector<unsigned> sums_by_host(size_t words, size_t stride, unsigned threads) {
  std::vector<unsigned> sums(threads, 0);
  for (size_t word = 0, taken = 0; word < words; word += stride, ++taken)
    sums[taken % threads] += word_at(word);
  return sums;
}

}  // namespace

TEST_CASE("stride: a warp wants four sectors for each step up to a sector a lane") {
  for (size_t stride = 1; stride <= widest; ++stride) {
    CAPTURE(stride);
    const Warp warp = stride_warp(stride);
    CHECK(sectors(warp) == int(std::min<size_t>(4 * stride, 32)));
    CHECK(pieces(warp, 64) == int(std::min<size_t>(2 * stride, 32)));
    CHECK(lines(warp) == int(std::min<size_t>(stride, 32)));
    CHECK(share_moved(stride, 32) == doctest::Approx(std::min(1.0, 8.0 / double(stride))));
    CHECK(share_moved(stride, 64) == doctest::Approx(std::min(1.0, 16.0 / double(stride))));
    // every warp of the grid wants as many as the first
    const Warp later = warp_of(4, [=](unsigned lane) { return (32 * 1009 + lane) * stride; });
    CHECK(sectors(later) == sectors(warp));
  }
}

TEST_CASE("stride: predictions, by hand") {
  const Calibrated c = Calibrated::from(5, std::sqrt(10.0));  // 16 + 9, and 16 / 16 + 9
  CHECK(c.moving == doctest::Approx(4));
  CHECK(c.passing == doctest::Approx(3));
  CHECK(predicted_ms(1, c) == doctest::Approx(5));
  CHECK(predicted_ms(16, c) == doctest::Approx(5));
  CHECK(predicted_ms(32, c) == doctest::Approx(std::sqrt(13.0)));
  CHECK(predicted_ms(64, c) == doctest::Approx(std::sqrt(10.0)));
  const Calibrated no_way = Calibrated::from(4, 1);  // a quarter of the pieces in a quarter
  CHECK(no_way.moving == doctest::Approx(4));
  CHECK(no_way.passing == doctest::Approx(0));
  CHECK(Calibrated::from(4, 5).passing == doctest::Approx(4));  // skipping gains nothing
  CHECK(gbs_of(1000000000, 1, 1000) == doctest::Approx(4));
  CHECK(gbs_of(1000000001, 8, 1000) == doctest::Approx(0.5));
}

TEST_CASE("stride: the model, and what was measured on an H200") {
  // GB/s of an earlier run on an H200. The form of the model was chosen by them.
  struct Found {
    size_t stride;
    double gbs;
  };
  const size_t words = size_t(1) << 29;
  const auto ms = [&](Found f) { return 4e-6 * double(words_read(words, f.stride)) / f.gbs; };
  const Calibrated c = Calibrated::from(ms({1, 4513}), ms({64, 173.5}));
  for (const Found f :
       {Found{2, 2274}, Found{4, 1145}, Found{8, 573.2}, Found{12, 381}, Found{16, 287},
        Found{20, 282.2}, Found{24, 273.5}, Found{32, 239.4}, Found{48, 209.6}}) {
    CAPTURE(f.stride);
    CHECK(f.gbs ==
          doctest::Approx(gbs_of(words, f.stride, predicted_ms(f.stride, c))).epsilon(0.05));
  }
}

TEST_CASE("stride: every row but the two that calibrate is predicted on a made-up device") {
  Device device;
  device.number = -1;
  device.prop.major = 9;
  device.prop.l2CacheSize = 60 << 20;
  std::string printed;
  Report report("stride", &printed);
  const Run run{report, &device, {}};
  std::vector<Statistics> times;
  const Calibrated c{4, 3};
  for (const size_t stride : strides(false)) {
    const double ms = predicted_ms(stride, c);
    times.push_back({ms, ms, ms, 1});
  }
  show(run, size_t(1) << 29, times);
  REQUIRE(report.predictions().size() == strides(false).size() - 2);
  for (const Prediction& p : report.predictions()) {
    CHECK(p.measured == doctest::Approx(p.predicted));
    CHECK(p.model == Model::traffic);
  }
}

TEST_CASE("stride: arrays that are read fit made-up GPUs, and what moves is beyond the L2") {
  for (const double share : {1.0, 1.0 / 4, 1.0 / 8, 1.0 / 16})
    check_on_made_up_devices([share](const Run& run) {
      const double bytes = double(bytes_to_read(run, size_t(1) << 30, share));
      const Grid grid = resident_grid(*run.device);
      CHECK(grid.threads() == unsigned(run.device->prop.multiProcessorCount *
                                       run.device->prop.maxThreadsPerMultiProcessor));
      const size_t within = words_within_l2(run.device->l2_bytes(), grid);
      CHECK(within % grid.threads() == 0);
      CHECK(within >= grid.threads());
      CHECK(4 * within <= run.device->l2_bytes() / 4);
      return Needs{bytes + 8.0 * grid.threads(), share * bytes};
    });
}

TEST_CASE("stride: sizes and grids of made-up devices") {
  struct Card {
    int multiprocessors, threads;
    size_t l2, memory;
    unsigned blocks;
    size_t bytes;  // of which an eighth has to be beyond the L2
  };
  const size_t gib = size_t(1) << 30;
  for (const Card& card : {Card{40, 1024, 4u << 20, 15 * gib, 160, 2 * gib},       // a T4
                           Card{24, 1536, 24u << 20, 8 * gib, 144, 2 * gib},       // an RTX 4060
                           Card{148, 2048, 126u << 20, 178 * gib, 1184, 4 * gib},  // a B200
                           Card{132, 2048, 0, 80 * gib, 1056, 4 * gib},  // one that reports no L2
                           Card{5, 2048, 512u << 10, 2 * gib, 40, 1 * gib}}) {
    Device device;
    device.number = -1;
    device.prop.multiProcessorCount = card.multiprocessors;
    device.prop.maxThreadsPerMultiProcessor = card.threads;
    device.prop.l2CacheSize = int(card.l2);
    device.prop.totalGlobalMem = card.memory;
    std::string printed;
    Report report("stride", &printed);
    const Run run{report, &device, {}};
    CAPTURE(card.blocks);
    CHECK(resident_grid(device).blocks == card.blocks);
    const size_t bytes = bytes_to_read(run, 2 * gib, 1.0 / 8);
    CHECK(bytes == card.bytes);
    CHECK(beyond_l2(device, double(bytes) / 8));
    const Grid grid = resident_grid(device);
    const size_t within = words_within_l2(device.l2_bytes(), grid);
    CHECK(4 * within <= device.l2_bytes() / 4);
    CHECK(within > 0);
    if (within > 8 * grid.threads()) CHECK(within % (8 * grid.threads()) == 0);
    if (within > grid.threads()) CHECK(within % grid.threads() == 0);
  }
}

TEST_CASE("stride: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t words : {size_t(1), size_t(31), size_t(1009), grid.threads() + size_t(1),
                               9 * size_t(grid.threads()) + 65537})
      for (const size_t stride : {1, 2, 7, 33, 64}) {
        CAPTURE(words);
        CAPTURE(stride);
        // ends with the last word that is read
        Words memory((words_read(words, stride) - 1) * stride + 1, grid);
        CHECK(wrong_after(task_of(memory, stride)) == 0);
        CHECK(memory.canaries_stand());
        std::vector<unsigned> sums = memory.sums.to_host();
        sums.resize(grid.threads());
        CHECK(sums == sums_by_host(words, stride, grid.threads()));
      }
}

TEST_CASE("stride: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  Words memory(7 * 1009, Grid{3});
  const Task task = task_of(memory, 7);
  task.check.poison();
  CHECK(task.check.wrong() == memory.grid.threads());
  CHECK(wrong_after(task_of(memory, 1)) == 0);
  CHECK(task.check.wrong() == memory.grid.threads());  // every word is not every seventh
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = memory.sums.to_host();
  sums[5] += word_at(6 * 7) - word_at(5 * 7);
  memory.sums.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("stride: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("stride: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("stride: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("plausible: stride" * doctest::skip()) {
  check_plausible([](const Run& run) { stride(run); });
}
