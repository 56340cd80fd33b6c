// Self-checks of device_rates.cu, compiled in its place where BUILD_TESTING is on.
#include "../device_rates.cu"

#include <doctest/doctest.h>

#include "../../framework/common/checks/made_up_devices.hpp"

TEST_CASE("device: predicted rates and sizes, of a made-up GPU") {
  Device made_up;
  made_up.number = -1;
  CHECK(std::isnan(l1_gbs(made_up)));
  CHECK(std::isnan(memory_gbs(made_up)));
  made_up.prop.multiProcessorCount = 10;
  made_up.prop.maxThreadsPerMultiProcessor = 1536;
  made_up.prop.l2CacheSize = 1 << 20;
  made_up.sm_clock_khz = 1000000;
  made_up.theoretical_gbs = 300;
  CHECK(l1_gbs(made_up) == doctest::Approx(1280));
  CHECK(memory_gbs(made_up) == 300);
  CHECK(quads_in_l2(made_up) == 16384);
  CHECK(resident_blocks(made_up.prop) == 10);
  CHECK(bytes_of(10, 3) == 480);
}

TEST_CASE("device: arrays and grids of made-up GPUs") {
  std::string printed;
  Report report("device", &printed);
  for (const Device& device : made_up_devices()) {
    const Run run{report, &device, {}};
    const cudaDeviceProp& p = run.device->prop;
    const double bytes = double(bytes_of_array(run));
    const unsigned blocks = resident_blocks(p);
    CHECK(blocks >= unsigned(p.multiProcessorCount));
    CHECK(int(blocks * block_threads) <= p.multiProcessorCount * p.maxThreadsPerMultiProcessor);
    CHECK(16.0 * blocks * block_threads <= bytes);  // what the blocks read out of L1 is part of it
    CHECK(std::isnan(l1_gbs(*run.device)) == (run.device->sm_clock_khz == 0));
    CHECK(std::isnan(memory_gbs(*run.device)) == (run.device->theoretical_gbs == 0));
  }
}

TEST_CASE("device: a block's sums of its own words, by hand") {
  const std::vector<unsigned> sums = sums_of_own(2, 3);
  REQUIRE(sums.size() == 2 * block_threads);
  unsigned sum = 0;
  for (const size_t quad : {2047u, 1055u, 1087u, 1024u + 95u})  // thread 1023 of block 1
    for (size_t k = 0; k < 4; ++k) sum += scrambled(4 * quad + k);
  CHECK(sums[2047] == 3 * sum);
}

TEST_CASE("device: every reader is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u})
    for (const size_t n : {1, 31, 1024, 1025, 4099, 50021}) {
      CAPTURE(blocks);
      CAPTURE(n);
      const Shared host(on_host({blocks, n, 1}));
      CHECK(wrong_after(far_task("read_host", host)) == 0);
      CHECK(wrong_after(copy_task("copy_engine", host)) == 0);
      CHECK(wrong_after(far_task("read_device", Shared(on_device({blocks, n, 1})))) == 0);
      CHECK(wrong_after(l2_task("read_l2", Shared(on_device({blocks, n, 3})))) == 0);
      const size_t own = size_t(blocks) * block_threads;
      CHECK(wrong_after(l1_task("read_l1", Shared(on_device({blocks, own, 3})))) == 0);
    }
}

TEST_CASE("device: a copy of other words is found") {
  if (skip_without_gpu()) return;
  const Shared host(on_host({1, 1009, 1}));
  CUDA_CHECK(cudaDeviceSynchronize());  // a kernel has filled the words
  ++host->words[4000];
  CHECK(wrong_after(copy_task("copy_engine", host)) == 1);
}
