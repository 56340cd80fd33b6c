// Self-checks of stores_segments.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores_segments.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back({k.symbol,
                   k.name,
                   {expected_requests(false, counted_slots),
                    expected_sectors(false, double(counted_slots) * sectors(store(k)))},
                   [&k] {
                     Slots slots(counted_slots, Device::current());
                     return wrong_after(slots.task(k)) == 0;
                   }});
  return all;
}

}  // namespace

TEST_CASE("stores: segments: as in the text, and where the lanes write") {
  const char* text[] = {"4", "2", "1", "1 + 1 + 1"};
  const int in_sectors[] = {4, 2, 1, 3};
  const double ms[] = {8, 6, 6, 10};  // in pieces of 64 bytes: 2, 1, 1, 3
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    CHECK(segments_text(k) == text[i]);
    CHECK(sectors(store(k)) == in_sectors[i]);
    CHECK(predicted_ms(k, 6, 8) == ms[i]);
    std::vector<int> written(slot_words, 0);
    for (unsigned lane = 0; lane < 32; ++lane)
      if (store(k).active(lane)) ++written.at(size_t(store(k).address[lane]) / 4);
    for (unsigned word = 0; word < slot_words; ++word)
      CHECK(written[word] == int(k.segments >> word / 8 & 1));
  }
}

TEST_CASE("stores: segments: slots fit made-up GPUs, and a sector of each is beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double slots = double(slots_of(run));
    return Needs{Slots::bytes_each * slots, 32 * slots};
  });
}

TEST_CASE("stores: segments: grids fill made-up devices") {
  cudaDeviceProp prop{};
  prop.multiProcessorCount = 10;
  prop.maxThreadsPerMultiProcessor = 1536;
  CHECK(resident_blocks(prop, threads) == 60);
  prop.maxThreadsPerMultiProcessor = 2048;
  CHECK(resident_blocks(prop, threads) == 80);
}

TEST_CASE("stores: segments: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("stores: segments: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("stores: segments: every kernel is right for any number of slots") {
  if (skip_without_gpu()) return;
  for (const size_t count : {1, 7, 1009, 300007}) {
    Slots slots(count, Device::current());
    for (const Kernel& k : kernels) {
      CAPTURE(count);
      CAPTURE(std::string(k.name));
      const Task task = slots.task(k);
      CHECK(wrong_after(task) == 0);
      slots.out.poison();
      CHECK(task.check.wrong() == count * 8 * sectors(store(k)));  // nothing was written
    }
    slots.task(kernels[four]).launch();
    CHECK(slots.task(kernels[two]).check.wrong() == count * 16);  // too much was
  }
}

TEST_CASE("stores: segments: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}
