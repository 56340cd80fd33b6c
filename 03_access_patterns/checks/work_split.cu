// Self-checks of work_split.cu, compiled in its place where BUILD_TESTING is on.
#include "../work_split.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

constexpr size_t counted_words = size_t(1) << 20;

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const size_t i : {chunks16, interleaved16}) {
    constexpr unsigned blocks = 8;  // chunks of 512 words: every lane has a sector to itself
    const double requests = double(counted_words) / 32;
    const double touched =
        requests * sectors(load(kernels[i].split, blocks * block_threads, counted_words));
    const double stores = blocks * warps;  // the sums, and thread 0's cycles
    all.push_back({kernels[i].symbol,
                   "1048576 words",
                   {expected_requests(true, requests), expected_sectors(true, touched),
                    expected_requests(false, stores + 1), expected_sectors(false, 4 * stores + 1)},
                   [i] {
                     Squares squares(counted_words, blocks);
                     return wrong_after(squares.task(kernels[i])) == 0;
                   }});
  }
  return all;
}

/// Sums by the text's two loops.
std::vector<unsigned> sums_by_host(Split split, size_t threads, size_t n) {
  const size_t size = (n + threads - 1) / threads;
  std::vector<unsigned> sums(threads, 0);
  for (size_t tid = 0; tid < threads; ++tid) {
    const auto add = [&](size_t i) { sums[tid] += unsigned(value_at(i) * value_at(i)); };
    if (split == Split::chunks)
      for (size_t i = tid * size; i < std::min((tid + 1) * size, n); ++i) add(i);
    else
      for (size_t i = tid; i < n; i += threads) add(i);
  }
  return sums;
}

}  // namespace

TEST_CASE("work_split: the words' takers are those of the text's loops") {
  for (const size_t n : {1, 31, 256, 1009, 65537})
    for (const size_t threads : {1, 32, 256, 8192})
      for (const Split split : {Split::chunks, Split::interleaved}) {
        std::vector<unsigned> sums(threads, 0);
        for (size_t i = 0; i < n; ++i)
          sums.at(taker(split, i, threads, n)) += unsigned(value_at(i) * value_at(i));
        CHECK(sums == sums_by_host(split, threads, n));
      }
}

TEST_CASE("work_split: sectors and passes of a warp's load") {
  CHECK(sectors(load(Split::chunks, 256, 1 << 20)) == 32);
  CHECK(sectors(load(Split::chunks, 8192, 1 << 15)) == 16);  // chunks of 4 words: two lanes each
  CHECK(sectors(load(Split::interleaved, 256, 1 << 20)) == 4);
  CHECK(passes(load(Split::chunks, 256, 1 << 20)) == 32);
  CHECK(passes(load(Split::chunks, 256, 256 * 4097)) == 1);
  CHECK(passes(load(Split::chunks, 256, 256 * 12)) == 4);
  CHECK(passes(load(Split::interleaved, 256, 1 << 20)) == 1);
}

TEST_CASE("work_split: predictions, by hand") {
  CHECK(trip_of(2) == 512 - 14);
  CHECK(predicted_cycles(kernels[text_chunks], 1 << 20, 400) == 1);
  CHECK(predicted_cycles(kernels[chunks1], 256 * 4097, 400) == 1 / 32.0);
  CHECK(predicted_cycles(kernels[interleaved1], 1 << 20, 498) == doctest::Approx(2));
  CHECK(predicted_cycles(kernels[interleaved4], 1 << 20, 450) == doctest::Approx(0.5));  // of 1024
  CHECK(predicted_cycles(kernels[interleaved16], 1 << 20, 770) == doctest::Approx(0.25));
  CHECK(predicted_cycles(kernels[text_interleaved], 1 << 20, 770) == doctest::Approx(0.25));
}

TEST_CASE("work_split: words fit made-up GPUs, in L2 and beyond it") {
  check_on_made_up_devices([](const Run& run) {
    CHECK(8 * words_in_l2(run) <= run.device->l2_bytes());
    const double one_block = double(words_beyond(run, size_t(1) << 24));
    const double all = double(words_beyond(run, size_t(1) << (run.quick ? 26 : 28)));
    const double sums = 12.0 * block_threads * resident_blocks(run.device->prop, block_threads);
    return Needs{4 * std::max(one_block, all) + sums, 4 * std::min(one_block, all)};
  });
}

TEST_CASE("work_split: sizes of made-up devices: in L2, and beyond it") {
  std::string printed;
  Report report("work_split", &printed);
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(80) << 30;
  const Run run{report, &device, {}};
  for (const int mib : {2, 4, 50, 60, 72, 126}) {  // up to RTX 4090 and B200
    device.prop.l2CacheSize = mib << 20;
    const size_t n = size_beyond_l2(run, "work_split", size_t(1) << 24, 4, 5);
    CHECK(beyond_l2(device, 4.0 * double(n)));
    CHECK(n <= size_t(1) << 27);  // which one block reads in less than 0.1 s
    CHECK((n & (n - 1)) == 0);
    CHECK(8 * words_in_l2(run) <= device.l2_bytes());
  }
  CHECK(words_in_l2(run) == 1 << 20);
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1536;
  CHECK(resident_blocks(device.prop, block_threads) == 60);
}

TEST_CASE("work_split: the claim compares chunks with interleaved threads, in this order") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("work_split", &printed);
  const Run run{report, &device, {}};
  const auto verdict = [&](double chunks, double interleaved, bool in_cache) {
    const Readings a{std::vector<double>(15, chunks)}, b{std::vector<double>(15, interleaved)};
    printed.clear();
    judge_interleaving(run, {{a, b}, {a, b}, gain_of({a, b}, 0, 1)}, in_cache);
  };
  verdict(30, 2, false);
  CHECK(printed.find("03.7   holds ") != std::string::npos);
  CHECK(printed.find("here 15.0x faster") != std::string::npos);
  CHECK(printed.find("out of L2 15.0x as fast") != std::string::npos);
  verdict(30, 10, false);
  CHECK(printed.find("03.7   holds, weaker") != std::string::npos);
  verdict(1, 2, false);
  CHECK(printed.find("03.7   does not hold") != std::string::npos);
  verdict(30, 2, true);
  CHECK(printed.find("03.7   not judged") != std::string::npos);
}

TEST_CASE("work_split: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("work_split: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("work_split: every thread's sum is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 1009, 100003, 1000003})
    for (const unsigned blocks : {1u, 7u, 300u}) {
      Squares squares(n, blocks);
      for (const Kernel& k : kernels) {
        if (k.the_texts && blocks > 1) continue;
        CAPTURE(n);
        CAPTURE(blocks);
        CAPTURE(std::string(name_of(k.split)) + ", " + k.at());
        const Task task = squares.task(k);
        CHECK(wrong_after(task) == 0);
        std::vector<unsigned> sums = squares.sum.to_host();
        sums.resize(squares.threads());
        CHECK(sums == sums_by_host(k.split, squares.threads(), n));
        task.check.poison();
        CHECK(task.check.wrong() == squares.threads() + 1);  // no sums, no cycles
      }
    }
}

TEST_CASE("work_split: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  Squares squares(10007, 1);
  const Task task = squares.task(kernels[text_interleaved]);
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> sums = squares.sum.to_host();
  sums[5] += unsigned(value_at(5) * value_at(5)) - unsigned(value_at(261) * value_at(261));
  squares.sum.copy_from(sums);
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("work_split: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 32) + 77;
  if (5.0 * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(5.0 * double(n)) + " of device memory");
  Squares squares(n, resident_blocks(Device::current().prop, block_threads));
  for (const size_t i : {chunks4, interleaved4}) CHECK(wrong_after(squares.task(kernels[i])) == 0);
}

TEST_CASE("work_split: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("work_split: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { work_split(run); });
}
