// What `ladder`'s kernels do to shared memory: wavefronts predicted from who adds which words in
// each step, beside what the hardware counts.
#include <doctest/doctest.h>

#include "../common/counters.hpp"
#include "ladder.hpp"

using namespace reduce;

namespace {

// All of its blocks fit on this GPU at once, and on a data-centre GPU of today: so the counts are
// the same on all of those.
constexpr Gpu roomy{64, 1024};
constexpr size_t counted_words = 1 << 16;

/// The first launch, which has nearly all of the work.
double first_blocks(const Rung& rung) { return double(launches(rung, counted_words, roomy)[0]); }

Wavefronts wavefronts_of_launch(const Rung& rung) {
  const Wavefronts block = wavefronts_of_block(rung);
  const double blocks = first_blocks(rung) + (rung.grid == Grid::tiles);  // the last adds twice
  return {blocks * block.loads, blocks * block.stores};
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
                   std::to_string(counted_words) + " words",
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

TEST_CASE("ladder: wavefronts of a launch, by hand") {
  CHECK(wavefronts_of_launch(rungs[modulo]).loads == 256 * 95);
  CHECK(wavefronts_of_launch(rungs[add_on_load]).stores == 128 * 20);
  CHECK(wavefronts_of_launch(rungs[several]).loads == 256 * 16);
  CHECK(wavefronts_of_launch(rungs[quads]).loads == 64 * 16);
  CHECK(wavefronts_of_launch(rungs[once]).stores ==
        5 * 16);  // four blocks, of which one adds twice
}

TEST_CASE("ladder: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches({modulo, mask, strided, descending, add_on_load,
                                                 shuffle, several, quads, once}),
                               results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("ladder: counted wavefronts of this GPU equal the model") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  compare_with_counts_of_this_run(counted_launches(our_rungs()));
}

TEST_CASE("ladder: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches(our_rungs()));
}
