// Self-checks of shared_size.cu, compiled in its place where BUILD_TESTING is on.
#include "../shared_size.cu"

#include <doctest/doctest.h>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

// the programming guide's tables, by compute capability
constexpr Multiprocessor cc_61{96 * kib, 0, 256, 48 * kib, 2048, 32};
constexpr Multiprocessor cc_75{64 * kib, 0, 256, 64 * kib, 1024, 16};
constexpr Multiprocessor cc_86{100 * kib, 1 * kib, 128, 99 * kib, 1536, 16};

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

TEST_CASE("shared_size: the model, and what was measured on an NVIDIA H200") {
  const double whole = 132 * 256 * 16;  // bytes of one block on each multiprocessor
  const Limits limits = Limits::of({whole, 1317}, {8 * whole, 3916});
  const double measured[][2] = {{2, 2272}, {3, 2994}, {4, 3441}, {6, 3703}};
  for (const auto& [blocks, gbs] : measured)
    CHECK(limits.gbs(blocks * whole) == doctest::Approx(gbs).epsilon(0.05));
}

namespace {

Device made_up(const Multiprocessor& has, size_t l2, size_t memory) {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 40;
  device.prop.l2CacheSize = int(l2);
  device.prop.totalGlobalMem = memory;
  device.prop.maxThreadsPerMultiProcessor = has.max_threads;
  return device;
}

}  // namespace

TEST_CASE("shared_size: arrays fit made-up GPUs, beyond the L2, and so do blocks of every size") {
  check_on_made_up_devices([](const Run& run) {
    const Multiprocessor has = Multiprocessor::of(run.device->prop);
    CHECK(resident_blocks(has, block_threads, 0).blocks == has.max_threads / int(block_threads));
    for (const size_t size : sizes_up_to(has.limit, run.device->prop.sharedMemPerBlock, 16 * kib)) {
      CHECK(resident_blocks(has, block_threads, size).blocks >= 1);
      CHECK(size <= has.limit);
    }
    CHECK(resident_blocks(has, block_threads, has.limit).blocks == 1);
    const size_t n = words_of(run);
    return Needs{Arrays::bytes(n), double(n) * sizeof(uint4)};
  });
}

TEST_CASE("shared_size: arrays are beyond the L2 of made-up devices, or all that fits") {
  std::string printed;
  Report report("shared_size", &printed);
  const auto words = [&](size_t l2, size_t memory) {
    const Device device = made_up(cc_90, l2, memory);
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

TEST_CASE("shared_size: the table of made-up rates, on multiprocessors of three kinds") {
  for (const Multiprocessor& has : {cc_75, cc_86, cc_90}) {
    std::string printed;
    Report report("shared_size", &printed);
    const Device device = made_up(has, 1 << 22, size_t(1) << 34);
    const Run run{report, &device, {}};
    const std::vector<size_t> sizes = sizes_up_to(has.limit, 48 * kib, 16 * kib);
    std::vector<Statistics> gbs;
    std::vector<int> blocks;
    for (const size_t size : sizes) {
      blocks.push_back(resident_blocks(has, block_threads, size).blocks);
      gbs.push_back({Limits{400, 1000}.gbs(40 * in_flight(blocks.back())), NAN, NAN, 1});
    }
    show(run, has, sizes, gbs, blocks, blocks);
    REQUIRE(report.predictions().size() == sizes.size() - 2);
    for (const Prediction& p : report.predictions())
      CHECK(p.measured == doctest::Approx(p.predicted));
    CHECK(printed.find("100%") != std::string::npos);
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

TEST_CASE("shared_size: the copy is right whatever its blocks ask for") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const size_t unasked = device.prop.sharedMemPerBlock;
  for (const size_t allowed : {unasked, Multiprocessor::of(device.prop).limit}) {
    allow(copy, allowed);
    for (const size_t n : {1, 31, 256, 257, 1009, 65537, 1000003})
      for (const size_t bytes : {size_t(0), size_t(1), allowed}) {
        CAPTURE(n);
        CAPTURE(bytes);
        Arrays arrays(n);
        CHECK(wrong_after(arrays.task(bytes)) == 0);
        const std::vector<uint4> found = arrays.out.to_host();
        size_t differing = 0;
        for (size_t i = 0; i < n; ++i) differing += !same(found[i], word_at(i));
        CHECK(differing == 0);
      }
  }
}

TEST_CASE("shared_size: the check finds a word that is no copy, and one too far") {
  if (skip_without_gpu()) return;
  Arrays arrays(1009);
  const Task task = arrays.task(0);
  task.check.poison();
  CHECK(task.check.wrong() == 1009);
  REQUIRE(wrong_after(task) == 0);
  std::vector<uint4> found = arrays.out.to_host();
  found[77].w ^= 1;
  arrays.out.copy_from(found);
  CHECK(task.check.wrong() == 1);
  found[1009] = word_at(1009);  // as an index one too far would leave it
  arrays.out.copy_from(found);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("shared_size: more than is allowed is refused, and nothing is written") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  const size_t limit = Multiprocessor::of(device.prop).limit;
  for (const size_t allowed : {device.prop.sharedMemPerBlock, limit}) {
    allow(copy, allowed);
    Arrays arrays(1009);
    arrays.out.poison();
    arrays.launch(allowed + 1);
    CHECK(cudaGetLastError() != cudaSuccess);
    CHECK(arrays.wrong() == 1009);
  }
  CHECK(cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, int(limit) + 1) !=
        cudaSuccess);
  CHECK(cudaGetLastError() != cudaSuccess);  // it stays until it is read, as here
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("shared_size: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { shared_size(run); });
}
