// Self-checks of latency_bandwidth.cu, compiled in its place where BUILD_TESTING is on.
#include "../latency_bandwidth.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/made_up_devices.hpp"

TEST_CASE("latency: bytes and rates of made-up reads, by hand") {
  CHECK(bytes_from_shared(2048, 10) == 2048 * 10 * 8 * 16.0);
  Device device;
  device.number = -1;
  CHECK(std::isnan(banks_gbs(device)));
  CHECK(std::isnan(interface_gbs(device)));
  device.sm_clock_khz = 1000000;
  device.prop.multiProcessorCount = 10;
  CHECK(banks_gbs(device) == doctest::Approx(1280));
}

TEST_CASE("latency: both bandwidth kernels read every word") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u, 7u})
    for (const size_t quads : {size_t(tile_words), size_t(4097), size_t(65537)}) {
      CAPTURE(blocks);
      CAPTURE(quads);
      const Shared memory(Memory(blocks, quads));
      for (const unsigned turns : {1u, 2u, 31u})
        CHECK(wrong_after(shared_task(memory, turns)) == 0);
      CHECK(wrong_after(global_task(memory)) == 0);
    }
}

TEST_CASE("latency: the check of the bandwidth kernels is that of the loops on a host") {
  if (skip_without_gpu()) return;
  const Shared memory(Memory(3, 4097));
  const std::vector<unsigned> words = memory->words.to_host();
  std::vector<unsigned> sums(memory->threads(), 0);
  size_t differ = 0;
  for (size_t i = 0; i < words.size(); ++i) differ += words[i] != scrambled(i);
  CHECK(differ == 0);
  for (size_t thread = 0; thread < sums.size(); ++thread)  // one after the other
    for (size_t quad = thread; quad < 4097; quad += sums.size())
      for (size_t k = 0; k < 4; ++k) sums[thread] += words[4 * quad + k];
  const Task task = global_task(memory);
  REQUIRE(wrong_after(task) == 0);
  CHECK(memory->right.to_host() == sums);
  std::vector<unsigned> found = memory->sums.to_host();
  found[5] += words[0] - words[1];  // a word left out and another taken twice
  memory->sums.copy_from(found);
  CHECK(task.check.wrong() == 1);
}
