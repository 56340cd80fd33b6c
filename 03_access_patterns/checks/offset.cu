// Self-checks of offset.cu, compiled in its place where BUILD_TESTING is on.
#include "../offset.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("offset: every eighth word begins a sector, every 32nd a line") {
  for (size_t offset = 0; offset <= largest_offset; ++offset) {
    CAPTURE(offset);
    const Warp warp = warp_at(offset);
    CHECK(sectors(warp) == (offset % 8 == 0 ? 4 : 5));
    CHECK(lines(warp) == (offset % 32 == 0 ? 1 : 2));
    CHECK(used(Rule::through_l1, offset) == (offset % 32 == 0 ? 1.0 : 0.5));
    CHECK(used(Rule::past_l1, offset) == doctest::Approx(offset % 8 == 0 ? 1.0 : 0.8));
  }
}

TEST_CASE("offset: predictions, by hand") {
  const Calibrated second_line_dear{4, 6}, second_line_cheap{4, 4.5}, from_l2{4};
  CHECK(predicted_ms(32, second_line_dear) == doctest::Approx(4));
  CHECK(predicted_ms(24, second_line_dear) == doctest::Approx(6));
  CHECK(predicted_ms(1, second_line_dear) == doctest::Approx(6));
  CHECK(predicted_ms(1, second_line_cheap) == doctest::Approx(5));
  CHECK(predicted_ms(8, from_l2) == doctest::Approx(4));
  CHECK(predicted_ms(9, from_l2) == doctest::Approx(5));
}

TEST_CASE("offset: what decides each part") {
  const auto past_l1 = [](double through_ms, double past_ms) {
    return verdict_if(
        offset_experiment, "03.1c",
        {{{"read_offset", 1}, through_ms}, {{"read_offset_past_l1_once", 1}, past_ms}});
  };
  CHECK(past_l1(1.1, 1) == verdict_text(Verdict::holds));
  CHECK(past_l1(1, 1) == verdict_text(Verdict::no_longer));
  CHECK(past_l1(1, 1.1) == verdict_text(Verdict::no_longer));
  // computed by the rule of sectors, whatever is measured
  CHECK(verdict_if(offset_experiment, "03.1a", {}) == verdict_text(Verdict::no_longer));
  CHECK(verdict_if(offset_experiment, "03.1b", {}) == verdict_text(Verdict::holds));
}

// From the text: n words from `offset` on, threads take turns.
TEST_CASE("offset: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const Grid grid : {Grid{3}, resident_grid(Device::current())})
    for (const size_t n :
         {size_t(1), size_t(1009), 8 * size_t(grid.threads()), 9 * size_t(grid.threads()) + 65537})
      for (const size_t offset : {size_t(0), size_t(1), size_t(33), largest_offset})
        for (const Ref& ref : {from_memory(offset), from_l2(offset), past_l1_once(offset)}) {
          CAPTURE(n);
          CAPTURE(text(ref));
          const Shared memory(Words(n + offset, grid));
          CHECK(wrong_after(read_task(memory, ref, n)) == 0);
          const unsigned passes = ref.key == "read_offset_past_l1" ? 32 : 1;
          std::vector<unsigned> sums(grid.threads(), 0);
          for (size_t i = 0; i < n; ++i) sums[i % sums.size()] += passes * word_at(offset + i);
          CHECK(memory->sums.to_host() == sums);
        }
}

TEST_CASE("offset: the check finds another offset, and a pass too many") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009 * 7;
  const Shared memory(Words(n + largest_offset, Grid{3}));
  const Task task = read_task(memory, from_memory(5), n);
  for (const Ref& other : {from_memory(4), from_l2(5)}) {
    CHECK(wrong_after(read_task(memory, other, n)) == 0);
    CHECK(task.check.wrong() == memory->grid.threads());
  }
}

namespace {

// What the sweep from L2 must not be: read_offset_past_l1 through L1.
__global__ void read_again_through_l1(unsigned* out, const unsigned* in, size_t n,
                                      unsigned passes) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    size_t i = tid;
    for (; i + 7 * threads < n; i += 8 * threads) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) sum += __ldca(in + i + k * threads);
    }
    for (; i < n; i += threads) sum += __ldca(in + i);
  }
  out[tid] = sum;
}

}  // namespace

TEST_CASE("offset: what comes from L2 does not come from L1" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  std::string printed;
  Report report("plausible", &printed);
  const Device device = Device::current();
  const Run run{report, &device, {}};
  const Grid grid = resident_grid(device);
  // 32 bytes a resident thread, 64 KiB a multiprocessor or less: L1 holds that
  const size_t n = 8 * size_t(grid.threads());
  const unsigned passes = passes_of(from_l2(0));
  const Shared memory(Words(n, grid));
  const Task through_l1 = memory->task(
      "through L1",
      [=] {
        read_again_through_l1<<<grid.blocks, block_threads>>>(memory->sums.data(),
                                                              memory->in.data(), n, passes);
      },
      Slots{0, 1, n, 1, passes});
  const std::vector<Readings> times =
      run.time_in_turn({read_task(memory, from_l2(0), n), through_l1});
  CHECK(times[0].median() > 1.25 * times[1].median());
}

EXPERIMENT_CHECKS(offset)
