// What the kernels of `ladder` do to shared memory: wavefronts predicted from the same index functions by which the
// kernels run, and held against what the hardware counted on an H200.
#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "../common/first_edition.hpp"
#include "banks.hpp"
#include "ladder_rungs.cuh"

namespace {

/// What the kernel of a rung does in shared memory: in step k (from 0), thread `tid` of n; and how many steps.
struct InShared {
  const char* kernel;
  Step (*step)(unsigned k, unsigned tid, unsigned n);
  unsigned steps;
};
Step modulo(unsigned k, unsigned tid, unsigned) { return step_modulo(tid, ascending_stride(k)); }
Step mask(unsigned k, unsigned tid, unsigned) { return step_mask(tid, ascending_stride(k)); }
Step strided(unsigned k, unsigned tid, unsigned n) { return step_strided(tid, ascending_stride(k), n); }
Step descending(unsigned k, unsigned tid, unsigned n) { return step_descending(tid, descending_stride(k, n)); }
const InShared in_shared[] = {{"reduce_modulo", modulo, 8},
                              {"reduce_mask", mask, 8},
                              {"reduce_strided", strided, 8},
                              {"reduce_descending", descending, 8},
                              {"reduce_add_on_load", descending, 8},
                              {"reduce_shuffle", descending, 3},
                              {"reduce_several", descending, 3},
                              {"reduce_vector", descending, 3},
                              {"sum_once", nullptr, 0}};

// The first launch of each rung for 2^16 words, with the grid that an H200 gets.
constexpr size_t words = 1 << 16;
size_t blocks_of(int r) { return launches(rungs<float>[r], words, 132)[0]; }

Traffic traffic(int r) {
  const InShared& kernel = in_shared[r];
  Traffic block, all;
  const unsigned warps = (r == best ? tile_threads : block_threads) / 32;
  for (unsigned warp = 0; warp < warps; ++warp) block.store(1);  // each warp its words, or its sum
  block.load(1);                                                 // the block's sum, or the warps' sums
  for (unsigned k = 0; k < kernel.steps; ++k)
    block.add(step_traffic(block_threads, [&](unsigned tid) { return kernel.step(k, tid, block_threads); }));
  if (kernel.steps == 3) block.load(1), block.store(1);  // around the shuffles
  for (size_t b = 0; b < blocks_of(r); ++b) all.add(block);
  if (r == best) all.add(block);  // the last block adds twice
  return all;
}

bool launch_right(int r) {
  std::vector<float> host(words);
  for (size_t i = 0; i < words; ++i) host[i] = float(i % 97) - 40;  // so small that every order of adding is exact
  const double exact = std::accumulate(host.begin(), host.end(), 0.0);
  const DeviceBuffer<float> in(host);
  const unsigned blocks = unsigned(blocks_of(r));
  DeviceBuffer<float> out(r == best ? 1 : blocks);
  const DeviceBuffer<Slot> slots(std::vector<Slot>(blocks, 0));
  out.poison();
  if (r == best) {
    sum_once<float, false><<<blocks, tile_threads>>>(in.data(), words, out.data(), slots.data());
  } else {
    rungs<float>[r].kernel<<<blocks, block_threads>>>(in.data(), words, out.data());
  }
  CUDA_CHECK_LAUNCH();
  const std::vector<float> sums = out.to_host();
  return std::accumulate(sums.begin(), sums.end(), 0.0) == exact;
}

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (int r = 0; r <= best; ++r)
    all.push_back({in_shared[r].kernel,
                   std::to_string(words) + " words",
                   {expected_wavefronts(true, traffic(r).loads), expected_wavefronts(false, traffic(r).stores)},
                   [=] { return launch_right(r); }});
  return all;
}

}  // namespace

TEST_CASE("ladder: the steps add every word of a block once") {
  for (unsigned n = 1; n <= 1024; n *= 2)
    for (const InShared& reduction : in_shared) {
      if (reduction.steps != 8) continue;
      CAPTURE(n);
      CAPTURE(reduction.kernel);
      std::vector<long long> word(n);
      for (unsigned i = 0; i < n; ++i) word[i] = (i + 1) * (i + 1);
      for (unsigned k = 0; k < step_count(n); ++k) {
        std::vector<int> uses(n, 0);
        for (unsigned tid = 0; tid < n; ++tid) {
          const Step step = reduction.step(k, tid, n);
          if (!step.active) continue;
          REQUIRE(std::max(step.left, step.right) < n);
          REQUIRE(++uses[step.left] + ++uses[step.right] == 2);  // no word of a step is another thread's too
          word[step.left] += word[step.right];
        }
      }
      CHECK(word[0] == (long long)(n) * (n + 1) * (2 * n + 1) / 6);
    }
}

TEST_CASE("ladder: wavefronts of the rungs add up") {
  // by hand, a block: a store for each of 8 or (sum_once) 16 warps and a load beside the steps. In the steps 47 warps
  // load twice and store once in modulo and mask; in strided 12, but in 2 + 2 + 2 + 2, 4 + 4, 8, 8, 8, 4, 2, 1
  // wavefronts; in descending 12; 7 until 32 words are left
  const int loads[] = {95, 95, 95, 25, 25, 16, 16, 16, 1}, stores[] = {55, 55, 55, 20, 20, 16, 16, 16, 16};
  for (int r = 0; r <= best; ++r) {
    CAPTURE(r);
    const int times = int(blocks_of(r)) + (r == best);
    CHECK(traffic(r).loads == times * loads[r]);
    CHECK(traffic(r).stores == times * stores[r]);
  }
}

TEST_CASE("ladder: counted wavefronts equal the model") { compare_with_counters(counted_launches()); }

TEST_CASE("ladder: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}
