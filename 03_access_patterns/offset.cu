// offset: a coalesced read that begins 0 to 64 words past the alignment. The wiki says that a misaligned read uses 50%
// of the bus where L1 fetches lines of 128 bytes, and 80% past L1, in segments of 32. Today a sector is 32 bytes either
// way: a warp wants five instead of four, or again four if the offset is a whole number of sectors. Look at how exactly
// the rate from L2 follows that, and at where the one from memory does not: its words then lie in two lines of 128
// bytes, and from memory that alone costs as much as a fifth sector.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

constexpr size_t largest_offset = 64;  // words: two lines of 128 bytes

/// The word that element `i` of a read takes that begins `offset` words past the alignment.
__host__ __device__ size_t shifted(size_t i, size_t offset) { return i + offset; }

template <bool past_l1>
__device__ unsigned load(const unsigned* address) {
  return past_l1 ? __ldcg(address) : *address;
}

// At each step a warp reads 32 neighbouring words, the first of them `offset` words past the begin of a line. Eight
// loads of a thread are under way at once; all that it writes is the sum of what it read.
template <bool past_l1>
__global__ void read_offset(unsigned* out, const unsigned* in, size_t n, size_t offset, int passes) {
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x, step = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    size_t i = thread;
    for (; i + 7 * step < n; i += 8 * step)
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += load<past_l1>(in + shifted(i + k * step, offset));
    for (; i < n; i += step) sum += load<past_l1>(in + shifted(i, offset));
  }
  out[thread] = sum;
}

/// The sum that each thread must have.
struct RightSums {
  size_t n, step, offset;
  int passes;
  __device__ bool operator()(size_t thread, unsigned sum) const {
    unsigned expected = 0;
    for (size_t i = thread; i < n; i += step) expected += scrambled(shifted(i, offset));
    return sum == expected * passes;
  }
};

// ---- prediction -----------------------------------------------------------------------------------------------------

Warp offset_warp(size_t offset) {
  return warp_of(4, [=](unsigned lane) { return shifted(lane, offset); });
}

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  size_t n;
  bool past_l1;
  int passes;  ///< over the array in one launch
  unsigned blocks = reading_blocks();
  DeviceBuffer<unsigned> in, out{size_t(blocks) * reading_threads};

  Work(size_t n, bool past_l1, int passes)
      : n(n), past_l1(past_l1), passes(passes), in(words_to_read(n + largest_offset)) {}
  double bytes() const { return 4.0 * double(n) * passes; }
  void launch(size_t offset) {
    (past_l1 ? read_offset<true> : read_offset<false>)<<<blocks, reading_threads>>>(out.data(), in.data(), n, offset,
                                                                                    passes);
    CUDA_CHECK_LAUNCH();
  }
  bool right(size_t offset) {
    out.poison();
    launch(offset);
    return wrong_words(out, RightSums{n, out.size(), offset, passes}) == 0;
  }
};

/// Words that take about a quarter of the L2, if possible whole rounds of eight loads a thread.
size_t words_in_l2(size_t l2_bytes) {
  const size_t n = l2_bytes / 4 / 4, round = size_t(reading_blocks()) * reading_threads * 8;
  return n > round ? n - n % round : n;
}

const Claim misaligned{"03.1", "misaligned coalesced loads use 50% of the bus through L1, 80% past it", "wiki",
                       "50% and 80%"};

}  // namespace

void offset(const Run& run) {
  const size_t bytes = run.quick ? size_t(256) << 20 : size_t(1) << 30;  // beyond the L2 of any GPU so far
  const size_t n = (run.device ? shrunk_to_fit(bytes) : bytes) / 4;
  std::vector<size_t> offsets{0, 1, 4, 8, 12, 16, 20, 24, 28, 31, 32, 33, 36, 40, 44, 48, 52, 56, 60, 63, 64};
  if (run.full) {
    offsets.clear();
    for (size_t offset = 0; offset <= largest_offset; ++offset) offsets.push_back(offset);
  }
  run.report.begin("offset", std::to_string(n) + " words of 4 bytes, " + bytes_text(4.0 * double(n)));
  const auto used = [](size_t offset) { return under(Rule::sectors, offset_warp(offset)).utilisation(); };
  if (!run.device) {
    Table table(run.report, "offset, words",
                {predicted("sectors/request", "load sectors a request", "", 0), predicted("used %", "used", "%", 0)});
    for (size_t offset : offsets)
      table.row({"", "offset, words", std::to_string(offset)},
                {double(sectors(offset_warp(offset))), 100 * used(offset)});
    table.print();
    return run.report.left_out("the bandwidth at each offset", {misaligned});
  }

  Table table(run.report, "from where, offset in words",
              {predicted("sectors/request", "load sectors a request", "", 0), predicted("used %", "used", "%", 0),
               predicted("model GB/s", "bandwidth", "GB/s", 0), measured("GB/s", "bandwidth", "GB/s", 0),
               shown("spread"), shown("of offset 0"), shown("")});
  double worst_share = 1;  // of the rate at offset 0
  const auto sweep = [&](const std::string& from, Work work) {
    double aligned = 0;
    worst_share = 1;
    for (size_t offset : offsets) {
      require_right(work.right(offset), "offset " + std::to_string(offset) + " " + from);
      const Statistics rate =
          gigabytes_per_second(work.bytes(), time_device(run.measuring, [&] { work.launch(offset); }));
      if (offset == 0) aligned = rate.median;
      const double share = rate.median / aligned;
      worst_share = std::min(worst_share, share);
      table.row({from, "offset, words", std::to_string(offset)},
                {double(sectors(offset_warp(offset))), 100 * used(offset), used(offset) * aligned, rate,
                 spread_text(rate), fixed(100 * share, 0) + "%", bar(share)});
    }
  };
  sweep("from L2, past L1",
        Work(words_in_l2(run.device->l2_bytes()), true, 32));  // 32: a launch then counts for little
  const double worst_in_l2 = worst_share;
  sweep("from memory", Work(n, false, 1));
  table.print();
  run.report.note("the model: the share of the sectors' bytes that is used, of the rate at offset 0");

  if (4.0 * double(n) < 2.0 * double(run.device->l2_bytes()))
    return run.report.claim(misaligned, not_judged("the array fits in the L2"));
  // half of the bus would be half of the aligned rate; what exceeds that by more than a quarter is not that
  const bool half = worst_share < 0.5 * (1 + stated_factor_tolerance);
  run.report.claim(misaligned,
                   {half ? Verdict::holds : Verdict::does_not_hold,
                    "5 sectors of 32 bytes, 80% used, through L1 too; never below " + fixed(100 * worst_share, 0) +
                        "% of the aligned rate from memory, " + fixed(100 * worst_in_l2, 0) + "% from L2 past L1",
                    100 * worst_share, "%"});
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (bool past_l1 : {false, true})
    for (size_t offset : {0, 1, 7, 8, 16, 31, 32, 33, 64})
      all.push_back({"read_offset", "offset " + std::to_string(offset) + (past_l1 ? " past L1" : ""),
                     double(sectors(offset_warp(offset))), 4,
                     [=] { return Work(size_t(1) << 22, past_l1, 1).right(offset); }});
  return all;
}

}  // namespace

TEST_CASE("offset: every eighth word begins a sector") {
  for (size_t offset = 0; offset <= largest_offset; ++offset) {
    CAPTURE(offset);
    const Warp warp = offset_warp(offset);
    CHECK(sectors(warp) == (offset % 8 == 0 ? 4 : 5));
    CHECK(under(Rule::through_l1, warp).utilisation() == (offset % 32 == 0 ? 1.0 : 0.5));
    CHECK(under(Rule::past_l1, warp).utilisation() == doctest::Approx(offset % 8 == 0 ? 1.0 : 0.8));
  }
}

TEST_CASE("offset: each thread has the sum of the host's reference") {
  if (skip_without_gpu()) return;
  const size_t grid = size_t(reading_blocks()) * reading_threads;
  for (size_t n : {size_t(1), size_t(31), size_t(1009), grid + 1, 8 * grid, 9 * grid + 65537})
    for (size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset}) {
      CAPTURE(n);
      CAPTURE(offset);
      std::vector<unsigned> expected(grid, 0);
      for (size_t i = 0; i < n; ++i) expected[i % grid] += 3 * scrambled(i + offset);
      Work work(n, true, 3);
      CHECK(work.right(offset));
      CHECK(work.out.to_host() == expected);
      work.past_l1 = false;
      CHECK(work.right(offset));
      CHECK(work.out.to_host() == expected);
      CHECK(wrong_words(work.out, RightSums{n, grid, offset + 1, 3}) > 0);  // and the check can fail
    }
}

TEST_CASE("offset: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("offset: counted sectors equal the model") { compare_with_counters(counted_launches()); }
