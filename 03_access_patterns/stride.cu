// stride: reads every stride-th word. The wiki's worst case [LC 3.4] scatters the 32 lanes of a
// warp over 32 segments. Look at where the steep loss ends: at stride 8 by the sectors that a warp
// asks for, at 16 when measured, since memory hands out 64 bytes at a time. And at what happens
// beyond, where more and more of these pieces are skipped.
//   cmake -S 03_access_patterns -B build/stride -DEXPERIMENTS=stride
//   cmake --build build/stride && build/stride/03_access_patterns
//
//   1  read_stride  lane i of a warp reads word i * stride
#include <doctest/doctest.h>

#include <cmath>

#include "../common/counters.hpp"
#include "../common/made_up_devices.hpp"
#include "reads.cuh"
#include "transactions.hpp"

void stride_locality(const Run& run);  // stride_locality.cu: the same words once and again

namespace {

// ---- kernel: thread t adds up the words t, t + threads, t + 2 threads ... of n, into out[t] ----

// [read_stride]
// A warp reads 32 words that lie `stride` apart, up to 32 sectors of 32 bytes, for 4 bytes of each.
__global__ void read_stride(unsigned* out, const unsigned* in, size_t n, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {  // eight loads under way
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += in[(i + k * threads) * stride];
  }
  for (; i < n; i += threads) sum += in[i * stride];  // what is left
  out[tid] = sum;
}
// [/read_stride]

// ---- what is right ----

/// Words that are read of an array: the first of each `stride`.
size_t words_read(size_t words, size_t stride) { return (words + stride - 1) / stride; }

/// The same as seen from the memory. (The last slot may hang over the array's end, with words that
/// nobody reads.)
Slots slots_of(size_t words, size_t stride) { return {0, stride, words_read(words, stride)}; }

Task task_of(Words& words, size_t stride) {
  const size_t n = words_read(words.in.size(), stride);
  const auto launch = [&words, n, stride] {
    read_stride<<<words.grid.blocks, block_threads>>>(words.sums.data(), words.in.data(), n,
                                                      stride);
  };
  return words.task("stride " + std::to_string(stride), launch, slots_of(words.in.size(), stride));
}

// ---- what to expect ----

Warp stride_warp(size_t stride) {
  return warp_of(4, [=](unsigned lane) { return lane * stride; });
}

/// Share of an array that moves if memory hands out so many bytes at a time.
double share_moved(size_t stride, unsigned bytes) {
  const double wanted = 128.0 * double(stride);  // of the array, to each load of a warp
  return bytes * pieces(stride_warp(stride), bytes) / wanted;
}

constexpr size_t densest = 1;
constexpr size_t widest = 64;

/// The model's two constants, for one array; milliseconds.
struct Calibrated {
  double moving = NAN;   ///< to move all of its bytes
  double passing = NAN;  ///< to pass through it, however few of its bytes move

  /// From the times at strides 1 and 64. The two overlap in part: the time is taken as the root of
  /// the sum of their squares, as of two sides of a right triangle.
  static Calibrated from(double densest_ms, double widest_ms) {
    const double least = share_moved(widest, memory_piece);
    const double both = densest_ms * densest_ms;
    const double square = (both - widest_ms * widest_ms) / (1 - least * least);
    const double moving = std::min(std::max(square, 0.0), both);
    return {std::sqrt(moving), std::sqrt(both - moving)};
  }
};

double predicted_ms(size_t stride, const Calibrated& c) {
  return std::hypot(c.moving * share_moved(stride, memory_piece), c.passing);
}

/// Up to stride 8 every piece of either size moves, by the documented sectors.
Model model_of(size_t stride, const Device* device) {
  return stride <= 8 ? Model::traffic : model_of_pieces(device);
}

// ---- the experiment ----

std::vector<size_t> strides(bool full) {
  if (!full) return {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64};
  std::vector<size_t> all;
  for (size_t stride = 1; stride <= widest; ++stride) all.push_back(stride);
  return all;
}

/// One word of 4 bytes in each stride, at the rate that a time for the array gives.
double gbs_of(size_t words, size_t stride, double ms) {
  return 4e-6 * double(words_read(words, stride)) / ms;
}

/// Prints the times of all strides, in their order.
void show(const Run& run, size_t words, const std::vector<Statistics>& times) {
  const std::vector<size_t> all = strides(run.full);
  const Calibrated c = Calibrated::from(times.front().median, times.back().median);
  const double dense = gbs_of(words, densest, times.front().median);
  Table table(run.report, "stride, words",
              {predicted("sectors/request", "load sectors a request", "", 0),
               predicted("64-byte pieces", "pieces of 64 bytes a request", "", 0),
               compared("GB/s", "bandwidth", "GB/s", 0), shown("spread"),
               saved_only(predicted("by sectors", "bandwidth by sectors", "GB/s", 0)),
               measured("sectors' GB/s", "bandwidth of sectors", "GB/s", 0), shown("")});
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t stride = all[i];
    const Warp warp = stride_warp(stride);
    const double bytes = 4.0 * double(words_read(words, stride));
    const Statistics gbs = gigabytes_per_second(bytes, times[i]);
    const double expected = gbs_of(words, stride, predicted_ms(stride, c));
    const double of_sectors = sectors(warp) / 4.0;  // 4 sectors hold 32 words
    Cell rate = Compared{expected, gbs, model_of(stride, run.device)};
    if (!run.device) rate = Cell();
    if (run.device && (stride == densest || stride == widest)) rate = Calibration{gbs};
    table.row({"from memory", "stride, words", std::to_string(stride)},
              {double(sectors(warp)), double(pieces(warp, memory_piece)), rate, spread_text(gbs),
               dense / of_sectors, scaled(gbs, of_sectors), bar(gbs.median / dense)});
  }
  table.print();
  run.report.note(
      "GB/s are those of the words that are read; predicted: memory moves 64 bytes at a");
  run.report.note(
      "time, and the way through the array has a cost of its own (calibrated: 1 and 64)");
}

/// What the runtime says of the bytes that the L2 asks memory for at a time; it is a hint.
void say_granularity(const Run& run) {
  size_t bytes = 0;
  if (cudaDeviceGetLimit(&bytes, cudaLimitMaxL2FetchGranularity) != cudaSuccess) {
    (void)cudaGetLastError();  // older GPUs do not know the limit
    return;
  }
  run.report.note("cudaLimitMaxL2FetchGranularity, a hint, is set to " + bytes_text(double(bytes)));
}

}  // namespace

void stride(const Run& run) {
  // the sectors that move at the widest stride, an eighth of the array, are beyond the L2
  const size_t bytes = bytes_to_read(run, size_t(run.quick ? 1 : 2) << 30, 1.0 / 8);
  const size_t words = bytes / 4;
  run.report.begin("stride", bytes_text(double(bytes)) + " in " + std::to_string(words) +
                                 " words of 4 bytes, of which one in `stride` is read");
  std::vector<Statistics> times(strides(run.full).size());
  if (run.device) {
    Words memory(words, resident_grid(*run.device));
    Progress progress("stride", int(times.size()));
    for (size_t i = 0; i < times.size(); ++i) {
      times[i] = run.time(task_of(memory, strides(run.full)[i])).statistics();
      progress.step();
    }
  }
  show(run, words, times);
  if (run.device)
    say_granularity(run);
  else
    run.report.left_out("the bandwidth at each stride");
  if (run.device && !beyond_l2(*run.device, double(bytes) / 8))
    run.report.note("at wide strides that is less than four times the L2: the cache's rates");
  stride_locality(run);
}

// ---- self-checks ----

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
