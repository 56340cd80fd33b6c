// stride: reads every stride-th word. The wiki's worst case [LC 3.4] scatters the 32 lanes of a
// warp over 32 segments. Look at where the steep loss ends: at stride 8 by the sectors that a warp
// asks for, at 16 when measured, since memory hands out 64 bytes at a time. And at what happens
// beyond, where more and more of these pieces are skipped.
//   cmake -S 03_access_patterns -B build/stride -DEXPERIMENTS=stride
//   cmake --build build/stride && build/stride/03_access_patterns
//
//   1  read_stride  lane i of a warp reads word i * stride
#include <cmath>

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
