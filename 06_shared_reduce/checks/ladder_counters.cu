// What `ladder`'s kernels do to shared memory, and the instructions that they issue: wavefronts
// predicted from who adds which words in each step, and the instructions from which times are
// predicted, beside what the hardware counts.
#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../ladder.hpp"

using namespace reduce;

namespace {

// Sets the grids in place of the GPU that is counted: so each GPU gets the same launches, and the
// counts have to be the same.
constexpr Gpu roomy{64, 1024};
constexpr size_t counted_words = 1 << 16;

/// The first launch, which has nearly all of the work.
double first_blocks(const Rung& rung) { return double(launches(rung, counted_words, roomy)[0]); }

Wavefronts wavefronts_of_launch(const Rung& rung) {
  const Wavefronts block = wavefronts_of_block(rung);
  const double blocks = first_blocks(rung) + (rung.grid == Grid::tiles);  // the last adds twice
  return {blocks * block.loads, blocks * block.stores};
}

double instructions_of_launch(const Rung& rung) {
  return first_blocks(rung) * instructions_of_block(rung);
}

const std::string launch_parameter = std::to_string(counted_words) + " words";

/// Instructions that the warps of the launch issued, in this run.
double instructions_counted(const Rung& rung) {
  return count_of_this_run(rung.symbol, launch_parameter, "smsp__inst_executed.sum");
}

bool launch_right(int rung) {
  if (rung == redux)
    return wrong_after_first_launch(rung, Words<unsigned>(counted_words), roomy) == 0;
  return wrong_after_first_launch(rung, Words<float>(counted_words), roomy) == 0;
}

std::vector<CountedLaunch> counted_launches(const std::vector<int>& which) {
  std::vector<CountedLaunch> all;
  for (const int rung : which) {
    const Wavefronts w = wavefronts_of_launch(rungs[rung]);
    all.push_back({rungs[rung].symbol,
                   launch_parameter,
                   {expected_wavefronts(true, w.loads), expected_wavefronts(false, w.stores)},
                   [rung] { return launch_right(rung); }});
  }
  return all;
}

/// All that can be run here, but the library.
std::vector<int> our_rungs() {
  std::vector<int> all = rungs_for<unsigned>(counted_words);
  all.pop_back();
  return all;
}

}  // namespace

TEST_CASE("ladder: wavefronts and instructions of a launch, by hand") {
  CHECK(instructions_of_launch(rungs[modulo]) == 256 * 2011);
  CHECK(instructions_of_launch(rungs[shuffle]) == 128 * 609);
  CHECK(wavefronts_of_launch(rungs[modulo]).loads == 256 * 95);
  CHECK(wavefronts_of_launch(rungs[add_on_load]).stores == 128 * 20);
  CHECK(wavefronts_of_launch(rungs[several]).loads == 256 * 16);
  CHECK(wavefronts_of_launch(rungs[quads]).loads == 64 * 16);
  CHECK(wavefronts_of_launch(rungs[once]).stores ==
        5 * 16);  // four blocks, of which one adds twice
}

TEST_CASE("ladder: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches({modulo, mask, strided, descending, add_on_load,
                                                 shuffle, redux, several, quads, once, streaming}),
                               results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("ladder: counted wavefronts of this GPU equal the model") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  compare_with_counts_of_this_run(counted_launches(our_rungs()));
}

TEST_CASE("ladder: counted instructions of this GPU are within 5% of the model's") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  if (Device::current().prop.major != 9)
    return skip_self_check("the model's instructions are those of compute capability 9.0");
  for (const int rung : our_rungs()) {
    if (rungs[rung].instructions.of_a_warp == 0) continue;  // bytes decide
    CAPTURE(std::string(rungs[rung].name));
    // another version of the compiler may need a few more or fewer
    CHECK(instructions_counted(rungs[rung]) ==
          doctest::Approx(instructions_of_launch(rungs[rung])).epsilon(0.05));
  }
}

TEST_CASE("ladder: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches(our_rungs()));
}
