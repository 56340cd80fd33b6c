// stride: only every stride-th word is read, 1 to 64. A warp then wants up to 32 sectors, and uses one word of eight in
// each. The wiki's worst case is 32 lanes with 32 places of their own. Look at where the loss ends by the model, when
// each lane has a sector to itself, and at where it ends when measured: if what is behind the L2 hands out 64 bytes at
// a time, two sectors, the loss goes on to stride 16. A second model says so.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

/// The word that element `i` of a read takes.
__host__ __device__ size_t strided(size_t i, size_t stride) { return i * stride; }

// At each step a warp reads 32 words, `stride` apart. Eight loads of a thread are under way at once; all that it writes
// is the sum of what it read.
__global__ void read_stride(unsigned* out, const unsigned* in, size_t n, size_t stride) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, step = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = thread;
  for (; i + 7 * step < n; i += 8 * step)
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += in[strided(i + k * step, stride)];
  for (; i < n; i += step) sum += in[strided(i, stride)];
  out[thread] = sum;
}

/// The sum that each thread must have.
struct RightSums {
  size_t n, step, stride;
  __device__ bool operator()(size_t thread, unsigned sum) const {
    unsigned expected = 0;
    for (size_t i = thread; i < n; i += step) expected += scrambled(strided(i, stride));
    return sum == expected;
  }
};

// ---- prediction -----------------------------------------------------------------------------------------------------

Warp stride_warp(size_t stride) {
  return warp_of(4, [=](unsigned lane) { return strided(lane, stride); });
}

/// The used share of what moves for a warp, if memory is moved in pieces of so many bytes.
double used_of_pieces(size_t stride, unsigned bytes) {
  return 32 * 4.0 / (bytes * double(segments(stride_warp(stride), bytes).size()));
}

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  unsigned blocks = reading_blocks();
  DeviceBuffer<unsigned> in, out{size_t(blocks) * reading_threads};

  explicit Work(size_t words) : in(words_to_read(words)) {}
  /// Words that are read of the array.
  size_t n(size_t stride) const { return (in.size() + stride - 1) / stride; }
  void launch(size_t stride) {
    read_stride<<<blocks, reading_threads>>>(out.data(), in.data(), n(stride), stride);
    CUDA_CHECK_LAUNCH();
  }
  bool right(size_t stride) {
    out.poison();
    launch(stride);
    return wrong_words(out, RightSums{n(stride), out.size(), stride}) == 0;
  }
};

}  // namespace

void stride(const Run& run) {
  const size_t bytes = run.quick ? size_t(256) << 20 : size_t(2) << 30;  // beyond the L2 of any GPU so far
  const size_t words = (run.device ? shrunk_to_fit(bytes) : bytes) / 4;
  std::vector<size_t> strides{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64};
  if (run.full) {
    strides.clear();
    for (size_t stride = 1; stride <= 64; ++stride) strides.push_back(stride);
  }
  run.report.begin("stride", "an array of " + std::to_string(words) + " words of 4 bytes, " +
                                 bytes_text(4.0 * double(words)) + ", of which one word in `stride` is read");
  const Column wanted = predicted("sectors/request", "load sectors a request", "", 0);
  const Column share = predicted("used %", "used", "%", 1);
  const auto used = [](size_t stride) { return used_of_pieces(stride, 32); };
  if (!run.device) {
    Table table(run.report, "stride, words", {wanted, share});
    for (size_t stride : strides)
      table.row({"", "stride, words", std::to_string(stride)},
                {double(sectors(stride_warp(stride))), 100 * used(stride)});
    table.print();
    return run.report.left_out("the bandwidth at each stride");
  }

  Table table(run.report, "stride, words",
              {wanted, share, predicted("model GB/s", "bandwidth", "GB/s", 0), shown("by 64 B"),
               measured("GB/s", "bandwidth", "GB/s", 0), shown("spread"),
               measured("sectors' GB/s", "bandwidth of sectors", "GB/s", 0), shown("of stride 1"), shown("")});
  Work work(words);
  double dense = 0;  // GB/s at stride 1
  for (size_t stride : strides) {
    require_right(work.right(stride), "stride " + std::to_string(stride));
    const Statistics rate =
        gigabytes_per_second(4.0 * double(work.n(stride)), time_device(run.measuring, [&] { work.launch(stride); }));
    if (stride == 1) dense = rate.median;
    const double of_dense = rate.median / dense, by_64 = used_of_pieces(stride, 64) * dense;
    const Key key{"from memory", "stride, words", std::to_string(stride)};
    table.row(key,
              {double(sectors(stride_warp(stride))), 100 * used(stride), used(stride) * dense, fixed(by_64, 0), rate,
               spread_text(rate), scaled(rate, 1 / used(stride)), fixed(100 * of_dense, 1) + "%", bar(of_dense)});
    run.report.save({"", "64 bytes at a time", key.parameter, key.at, "predicted", "bandwidth", "GB/s", by_64});
  }
  table.print();
  run.report.note(
      "GB/s are those of the words that are read; the model: the used share of the sectors, of the rate at");
  run.report.note("stride 1; by 64 B: the same if two sectors are moved at a time, wanted or not");
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (size_t stride : {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 64})
    all.push_back({"read_stride", "stride " + std::to_string(stride), double(sectors(stride_warp(stride))), 4,
                   [=] { return Work(stride << 15).right(stride); }});
  return all;
}

}  // namespace

TEST_CASE("stride: a warp wants four sectors for each step up to a sector a lane") {
  for (size_t stride = 1; stride <= 64; ++stride) {
    CAPTURE(stride);
    const Warp warp = stride_warp(stride);
    if (stride <= 8) CHECK(sectors(warp) == 4 * int(stride));
    if (stride > 8) CHECK(sectors(warp) == 32);
    CHECK(lines(warp) == std::min(32, int(stride)));  // each line of 128 bytes is touched up to stride 32
    CHECK(under(Rule::sectors, warp).utilisation() == doctest::Approx(1.0 / double(std::min<size_t>(stride, 8))));
    CHECK(used_of_pieces(stride, 32) == doctest::Approx(1.0 / double(std::min<size_t>(stride, 8))));
    CHECK(used_of_pieces(stride, 64) == doctest::Approx(1.0 / double(std::min<size_t>(stride, 16))));
    // every warp of the grid wants as many as the first
    const Warp later = warp_of(4, [=](unsigned lane) { return strided(32 * 1009 + lane, stride); });
    CHECK(sectors(later) == sectors(warp));
  }
}

TEST_CASE("stride: each thread has the sum of the host's reference") {
  if (skip_without_gpu()) return;
  const size_t grid = size_t(reading_blocks()) * reading_threads;
  for (size_t words : {size_t(1), size_t(31), size_t(1009), grid + 1, 9 * grid + 65537})
    for (size_t stride : {1, 2, 7, 33, 64}) {
      CAPTURE(words);
      CAPTURE(stride);
      std::vector<unsigned> expected(grid, 0);
      for (size_t word = 0; word < words; word += stride) expected[word / stride % grid] += scrambled(word);
      Work work(words);
      CHECK(work.right(stride));
      CHECK(work.out.to_host() == expected);
      CHECK(wrong_words(work.out, RightSums{work.n(stride) + 1, grid, stride}) > 0);  // and the check can fail
    }
}

TEST_CASE("stride: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("stride: counted sectors equal the model") { compare_with_counters(counted_launches()); }
