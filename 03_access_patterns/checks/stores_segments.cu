// Self-checks of stores_segments.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores_segments.cu"

#include <doctest/doctest.h>

TEST_CASE("stores: segments: as in the text, and where the lanes write") {
  const char* text[] = {"4", "2", "1", "1 + 1 + 1"};
  const double in_sectors[] = {4, 2, 1, 3};
  const double ms[] = {8, 6, 6, 10};  // in pieces of 64 bytes: 2, 1, 1, 3
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    CAPTURE(std::string(k.key));
    CHECK(segments_text(k) == text[i]);
    CHECK(sectors_of(k) == in_sectors[i]);
    CHECK(predicted_ms(k, 6, 8) == ms[i]);
    unsigned written = 0;  // segments, all of whose words are
    for (unsigned segment = 0; segment < 8; ++segment) {
      unsigned words = 0;
      for (unsigned lane = 0; lane < 32; ++lane)
        words += store(k).active(lane) && store(k).address[lane] / 32 == segment;
      CHECK((words == 0 || words == 8));
      written |= unsigned(words == 8) << segment;
    }
    CHECK(written == k.segments);
  }
}

TEST_CASE("stores: segments: too much is found") {
  if (skip_without_gpu()) return;
  for (const size_t slots : {1, 7, 1009}) {
    const Shared stored(StoredSlots{slots, 3});
    CHECK(wrong_after(task_of(stored, kernel("store_four"))) == 0);
    CHECK(task_of(stored, kernel("store_two")).check.wrong() == slots * 16);
  }
}
