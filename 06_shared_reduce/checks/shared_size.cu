// Self-checks of shared_size.cu, compiled in its place where BUILD_TESTING is on.
#include "../shared_size.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

namespace {

// the programming guide's tables, by compute capability
constexpr Multiprocessor cc_61{96 * kib, 0, 256, 48 * kib, 2048, 32};
constexpr Multiprocessor cc_75{64 * kib, 0, 256, 64 * kib, 1024, 16};
constexpr Multiprocessor cc_86{100 * kib, 1 * kib, 128, 99 * kib, 1536, 16};

/// What the runtime's occupancy calculator says of the copy.
int calculated_blocks(int threads, size_t bytes) {
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, copy, threads, bytes));
  return blocks;
}

}  // namespace

TEST_CASE("shared_size: predicted blocks are those of the published tables") {
  const auto fit = [](const Multiprocessor& has, int threads, size_t bytes) {
    const Fit fit = resident_blocks(has, threads, bytes);
    return std::to_string(fit.blocks) + " by " + fit.limited_by;
  };
  CHECK(fit(cc_90, 256, 0) == "8 by threads");
  CHECK(fit(cc_90, 32, 0) == "32 by blocks");
  CHECK(fit(cc_90, 96, 0) == "21 by threads");
  CHECK(fit(cc_90, 1024, 0) == "2 by threads");
  CHECK(fit(cc_90, 256, 48 * kib) == "4 by shared memory");  // the reserved KiB makes 49 of it
  CHECK(fit(cc_90, 256, 227 * kib) == "1 by shared memory");
  CHECK(fit(cc_90, 256, 227 * kib + 1) == "0 by shared memory");
  CHECK(fit(cc_86, 256, 0) == "6 by threads");
  CHECK(fit(cc_86, 32, 0) == "16 by blocks");
  CHECK(fit(cc_86, 256, 48 * kib) == "2 by shared memory");
  CHECK(fit(cc_75, 256, 0) == "4 by threads");
  CHECK(fit(cc_75, 256, 32 * kib) == "2 by shared memory");
  CHECK(fit(cc_75, 1024, 64 * kib) == "1 by threads");
  CHECK(fit(cc_61, 256, 48 * kib) == "2 by shared memory");
  CHECK(fit(cc_61, 256, 32 * kib) == "3 by shared memory");
  CHECK(fit(cc_61, 256, 32 * kib + 1) == "2 by shared memory");
  for (int blocks = 1; blocks <= 8; ++blocks) {  // a block more fits exactly up to its share
    const size_t share = cc_90.shared / blocks / cc_90.unit * cc_90.unit - cc_90.reserved;
    CHECK(resident_blocks(cc_90, 256, share).blocks == blocks);
    CHECK(resident_blocks(cc_90, 256, share + 1).blocks == blocks - 1);
  }
}

TEST_CASE("shared_size: the sizes ascend to the limit and hold both sides of 48 KiB") {
  for (const size_t limit : {48 * kib, 64 * kib, 99 * kib, 227 * kib}) {
    const std::vector<size_t> sizes = sizes_up_to(limit, 48 * kib, 16 * kib);
    CHECK(sizes.front() == 0);
    CHECK(sizes.back() == limit);
    CHECK(std::count(sizes.begin(), sizes.end(), 48 * kib) == 1);
    CHECK(std::count(sizes.begin(), sizes.end(), 48 * kib + 1) == (limit > 48 * kib));
  }
}

TEST_CASE("shared_size: limits from two rows, and predictions, by hand") {
  const Limits made{300, 1000};                    // 300 ns, 1000 bytes a nanosecond
  CHECK(made.gbs(400e3) == doctest::Approx(800));  // 3, 4, 5
  CHECK(made.gbs(3e3) == doctest::Approx(10).epsilon(0.001));
  const Limits found = Limits::of({100e3, made.gbs(100e3)}, {800e3, made.gbs(800e3)});
  CHECK(found.latency == doctest::Approx(300));
  CHECK(found.memory == doctest::Approx(1000));
  CHECK_FALSE(Limits::of({1, 1}, {1, 1}).gbs(1) > 0);  // one number of blocks says nothing
  CHECK(in_flight(8) == 32 * kib);
  CHECK(Arrays::bytes(10) == 320);
}

TEST_CASE("shared_size: blocks of every size fit made-up GPUs") {
  for (const Device& device : made_up_devices()) {
    const Multiprocessor has = Multiprocessor::of(device.prop);
    CHECK(resident_blocks(has, block_threads, 0).blocks == has.max_threads / int(block_threads));
    for (const size_t size : sizes_up_to(has.limit, device.prop.sharedMemPerBlock, 16 * kib)) {
      CHECK(resident_blocks(has, block_threads, size).blocks >= 1);
      CHECK(size <= has.limit);
    }
    CHECK(resident_blocks(has, block_threads, has.limit).blocks == 1);
  }
}

TEST_CASE("shared_size: arrays are beyond the L2 of made-up devices, or all that fits") {
  std::string printed;
  Report report("shared_size", &printed);
  const auto words = [&](size_t l2, size_t memory) {
    Device device;
    device.number = -1;
    device.prop.l2CacheSize = int(l2);
    device.prop.totalGlobalMem = memory;
    return words_of({report, &device, {}});
  };
  constexpr size_t mib = kib * kib, gib = kib * mib;
  CHECK(words(4 * mib, 16 * gib) == 1 << 23);  // a T4's: 128 MiB an array
  CHECK(words(24 * mib, 8 * gib) == 1 << 23);
  CHECK(words(60 * mib, 80 * gib) == 1 << 24);    // 256 MiB
  CHECK(words(126 * mib, 180 * gib) == 1 << 25);  // 512 MiB
  CHECK(words(0, 16 * gib) == 1 << 25);           // no L2 reported: as large as any
  CHECK(words(60 * mib, gib / 4) == 1 << 22);     // all that fits
  CHECK(words_of({report, nullptr, {}}) == 1 << 23);
}

TEST_CASE("shared_size: what decides 06.6, on multiprocessors of several kinds") {
  for (const Device& gpu : made_up_devices()) {
    const size_t limit = Multiprocessor::of(gpu.prop).limit;
    const auto verdict = [&](double with_nothing, double at_limit) {
      std::string printed;
      Report report("shared_size", &printed);
      report.heading(&gpu, "");
      MadeUpMachine machine(&gpu, [&](const Ref& ref, const std::string& metric) {
        if (metric != resident) return 1.0;
        return same(ref, asking(0)) ? with_nothing : same(ref, asking(limit)) ? at_limit : 3.0;
      });
      carry_out(shared_size_experiment, Run{report, &gpu, {}}, machine);
      for (const Record& r : report.records())
        if (r.kind == "claim" && r.name == "06.6") return r.metric;
      return std::string("no part 06.6");
    };
    CHECK(verdict(8, 1) == "holds");
    CHECK(verdict(8, 8) == "does not hold");
    CHECK(verdict(1, 8) == "does not hold");
  }
}

TEST_CASE("shared_size: prediction equals the occupancy calculator and the blocks counted") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp prop = Device::current().prop;
  const Multiprocessor has = Multiprocessor::of(prop);
  allow(copy, has.limit);
  allow(count_residents, has.limit);
  for (const int threads : {1, 32, 33, 96, 256, 416, 1024}) {
    CAPTURE(threads);
    size_t differ = 0;
    for (size_t bytes = 0; bytes <= has.limit; bytes += 64)
      differ += resident_blocks(has, threads, bytes).blocks != calculated_blocks(threads, bytes);
    CHECK(differ == 0);
    for (const size_t bytes : {size_t(0), 7 * kib + 1, 31 * kib, 48 * kib, has.limit}) {
      const int blocks = resident_blocks(has, threads, bytes).blocks;
      // half of the threads at most: a tool that adds registers to the kernel then takes no block's
      // place
      if (blocks * ((threads + 31) / 32 * 32) > has.max_threads / 2) continue;
      CHECK(counted_blocks(prop, threads, bytes, blocks) == blocks);
    }
  }
}

TEST_CASE("shared_size: more than is allowed is refused, and nothing is written") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const size_t limit = Multiprocessor::of(device.prop).limit;
  for (const size_t allowed : {device.prop.sharedMemPerBlock, limit}) {
    CHECK(error_beyond(allowed) != cudaSuccess);
    Arrays arrays(1009);
    arrays.out.poison();
    arrays.launch(allowed + 1);
    CHECK(cudaGetLastError() != cudaSuccess);
    CHECK(arrays.out.wrong(IsCopy{}) == 1009);
  }
  CHECK(cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, int(limit) + 1) !=
        cudaSuccess);
  CHECK(cudaGetLastError() != cudaSuccess);  // it stays until it is read, as here
  CHECK(cudaGetLastError() == cudaSuccess);
}

EXPERIMENT_CHECKS(shared_size)
