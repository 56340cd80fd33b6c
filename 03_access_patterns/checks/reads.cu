// Self-checks of reads.cuh: sizes and grids, by hand. That they fit made-up GPUs is checked with
// each experiment's needs.
#include "../reads.cuh"

#include <doctest/doctest.h>

TEST_CASE("reads: sizes and grids of made-up devices") {
  struct Card {
    int multiprocessors, threads;
    size_t l2, memory;
    unsigned blocks;
    size_t bytes;  // of which an eighth has to be beyond the L2
  };
  const size_t gib = size_t(1) << 30;
  for (const Card& card : {Card{40, 1024, 4u << 20, 15 * gib, 160, 2 * gib},       // a T4
                           Card{24, 1536, 24u << 20, 8 * gib, 144, 2 * gib},       // an RTX 4060
                           Card{148, 2048, 126u << 20, 178 * gib, 1184, 4 * gib},  // a B200
                           Card{132, 2048, 0, 80 * gib, 1056, 4 * gib},  // one that reports no L2
                           Card{5, 2048, 512u << 10, 2 * gib, 40, 1 * gib}}) {
    Device device;
    device.number = -1;
    device.prop.multiProcessorCount = card.multiprocessors;
    device.prop.maxThreadsPerMultiProcessor = card.threads;
    device.prop.l2CacheSize = int(card.l2);
    device.prop.totalGlobalMem = card.memory;
    std::string printed;
    Report report("stride", &printed);
    const Run run{report, &device, {}};
    CAPTURE(card.blocks);
    CHECK(resident_grid(device).blocks == card.blocks);
    const size_t bytes = bytes_to_read(run, 2 * gib, 1.0 / 8);
    CHECK(bytes == card.bytes);
    CHECK(beyond_l2(device, double(bytes) / 8));
    const Grid grid = resident_grid(device);
    const size_t within = words_within_l2(device.l2_bytes(), grid);
    CHECK(4 * within <= device.l2_bytes() / 4);
    CHECK(within > 0);
    if (within > 8 * grid.threads()) CHECK(within % (8 * grid.threads()) == 0);
    if (within > grid.threads()) CHECK(within % grid.threads() == 0);
  }
}

TEST_CASE("structs: sizes of made-up devices lie beyond the L2") {
  std::string printed;
  Report report("structs", &printed);
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(80) << 30;
  Run run{report, &device, {}};
  const auto pairs = [&](size_t l2_mib) {
    device.prop.l2CacheSize = int(l2_mib << 20);
    return size_beyond_l2(run, "structs", size_t(1) << 24, 8, 16) >> 20;
  };
  CHECK(pairs(4) == 16);
  CHECK(pairs(60) == 32);
  CHECK(pairs(126) == 64);
  device.prop.totalGlobalMem = size_t(512) << 20;  // then they no longer do
  CHECK(pairs(126) == 16);
}
