#include "made_up_devices.hpp"

#include <cstring>

#include <doctest/doctest.h>

namespace {

constexpr double KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

/// What the sizes, grids and launches of the experiments follow from. By the product pages and the
/// programming guide's tables for each compute capability; the slice is one of seven of an H100, as
/// the guide to Multi-Instance GPU has it, with the L2 of all of it: the harder case, as data have
/// to be larger.
struct Published {
  const char* name;
  int major, minor;
  int multiprocessors, threads, blocks;  ///< the last two of a multiprocessor
  double memory, l2;
  double shared, reserved;             ///< of a multiprocessor; of each block
  double most_shared;                  ///< that a block may ask for
  bool integrated, clocks, on_demand;  ///< clocks are reported; managed pages move on demand
};
constexpr Published published[] = {
    {"T4", 7, 5, 40, 1024, 16, 16 * GiB, 4 * MiB, 64 * KiB, 0, 64 * KiB, false, true, true},
    {"RTX 4060 Laptop", 8, 9, 24, 1536, 24, 8 * GiB, 32 * MiB, 100 * KiB, KiB, 99 * KiB, false,
     true, true},
    {"RTX 4060 Laptop in WSL2", 8, 9, 24, 1536, 24, 8 * GiB, 32 * MiB, 100 * KiB, KiB, 99 * KiB,
     false, true, false},
    {"RTX 5090", 12, 0, 170, 1536, 24, 32 * GiB, 96 * MiB, 100 * KiB, KiB, 99 * KiB, false, true,
     true},
    {"B200", 10, 0, 148, 2048, 32, 180 * GiB, 126 * MiB, 228 * KiB, KiB, 227 * KiB, false, true,
     true},
    {"Jetson AGX Orin", 8, 7, 16, 1536, 16, 64 * GiB, 4 * MiB, 164 * KiB, KiB, 163 * KiB, true,
     false, false},
    {"H100, a slice", 9, 0, 16, 2048, 32, 10 * GiB, 50 * MiB, 228 * KiB, KiB, 227 * KiB, false,
     true, true},
};

/// `free`: bytes of its memory that are.
Device device_of(const Published& p, double free, const std::string& name) {
  Device device;
  device.number = -1;
  cudaDeviceProp& prop = device.prop;
  std::strncpy(prop.name, name.c_str(), sizeof prop.name - 1);
  prop.major = p.major;
  prop.minor = p.minor;
  prop.multiProcessorCount = p.multiprocessors;
  prop.maxThreadsPerMultiProcessor = p.threads;
  prop.maxBlocksPerMultiProcessor = p.blocks;
  prop.totalGlobalMem = size_t(free);
  prop.l2CacheSize = int(p.l2);
  prop.sharedMemPerMultiprocessor = size_t(p.shared);
  prop.reservedSharedMemPerBlock = size_t(p.reserved);
  prop.sharedMemPerBlockOptin = size_t(p.most_shared);
  prop.integrated = p.integrated;
  prop.managedMemory = 1;
  prop.concurrentManagedAccess = p.on_demand;
  // an H100 can set five eighths of its L2 aside, a slice nothing
  const bool slice = name.find("slice") != std::string::npos;
  prop.persistingL2CacheMaxSize = p.major >= 8 && !slice ? int(p.l2 / 8 * 5) : 0;
  prop.accessPolicyMaxWindowSize = 128 << 20;
  // the same for all of them, by the guide's tables
  prop.sharedMemPerBlock = size_t(48 * KiB);
  prop.regsPerMultiprocessor = 65536;
  prop.warpSize = 32;
  prop.maxThreadsPerBlock = 1024;
  prop.maxTexture2D[0] = 131072;
  prop.maxTexture2D[1] = 65536;
  prop.maxTexture2DLinear[0] = 131072;
  prop.maxTexture2DLinear[1] = 65000;
  prop.texturePitchAlignment = 32;
  device.driver = 12040;
  // nobody's: round figures, where a GPU reports any
  device.sm_clock_khz = p.clocks ? 1500000 : 0;
  device.theoretical_gbs = p.clocks ? 1000 : 0;
  return device;
}

}  // namespace

std::vector<Device> made_up_devices() {
  std::vector<Device> all;
  for (const Published& p : published) {
    all.push_back(device_of(p, p.memory, p.name));
    for (const double free : {4 * GiB, 2 * GiB})
      all.push_back(
          device_of(p, free, std::string(p.name) + ", " + fixed(free / GiB, 0) + " GiB free"));
  }
  return all;
}

bool all_is_free(const Device& device) { return device.memory_there() > 4 * GiB; }

void check_on_made_up_devices(const Function<Needs(const Run&)>& needs_of) {
  for (const Device& device : made_up_devices())
    for (const bool quick : {false, true})
      for (const bool full : {false, true}) {
        if (quick && full) continue;
        std::string printed;
        Report report("made up", &printed);
        const Needs needs = needs_of(Run{report, &device, {}, quick, full});
        CAPTURE(std::string(device.prop.name));
        CAPTURE(quick);
        CAPTURE(full);
        CAPTURE(needs.allocated);
        CAPTURE(needs.touched);
        CHECK(needs.allocated > 0);
        CHECK(needs.allocated <= 0.9 * device.memory_there());
        if (all_is_free(device) && !std::isnan(needs.touched))
          CHECK(beyond_l2(device, needs.touched));
      }
}
