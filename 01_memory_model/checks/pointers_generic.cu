// Self-checks of pointers_generic.cu, compiled in its place where BUILD_TESTING is on.
#include "../pointers_generic.cu"

#include <doctest/doctest.h>

#include <set>

TEST_CASE("pointers: a chase visits every slot, and a sum reads every word of its column") {
  CHECK(expected_end(0) == 0);
  CHECK(expected_end(1) == 34);
  CHECK(expected_end(2) == 7);
  CHECK(expected_end(61) == 0);
  std::set<unsigned> ends;
  for (unsigned steps = 0; steps < slots; ++steps) ends.insert(expected_end(steps));
  CHECK(ends.size() == slots);
  unsigned column = 0;
  for (unsigned i = 5; i < tile_words; i += 32) column += tile_word(i);
  CHECK(expected_sums(70, 3)[5] == 3 * column);
  CHECK(expected_sums(70, 3)[69] == 3 * column);
}

TEST_CASE("pointers: a generic load takes L1's way, or the space's own where that is longer") {
  const double own[spaces] = {23, 40, 32};
  CHECK(predicted_latency(shared_space, own) == 32);
  CHECK(predicted_latency(local_space, own) == 40);
  CHECK(predicted_latency(global_space, own) == 32);
}

TEST_CASE("pointers: every chase ends where it must, and takes its time") {
  if (skip_without_gpu()) return;
  for (const Chase& chase : chases)
    for (const unsigned steps : {1u, 7u, 31u, 61u, 1009u}) {
      CAPTURE(chase.words);
      CAPTURE(steps);
      for (const double cycles : chase_cycles(chase, steps, 3))  // throws where an end is wrong
        CHECK(cycles > steps);
    }
}

TEST_CASE("pointers: every sum is right, in blocks of every size") {
  if (skip_without_gpu()) return;
  for (const Sum& sum : sum_kernels)
    for (const unsigned threads : {1u, 31u, 97u, sum_threads})
      for (const unsigned turns : {1u, 3u, 17u}) {
        CAPTURE(threads);
        CHECK(sum_cycles(sum, threads, turns) > 0);  // throws where a sum is wrong
      }
}
