// Self-checks of unroll.cu, compiled in its place where BUILD_TESTING is on.
#include "../unroll.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

/// Requests and sectors of one of the three vectors, for n words.
struct Traffic {
  double requests = 0, sectors = 0;

  /// Lanes from `begin` to `end` of a warp take a word each.
  void request(size_t begin, size_t end, unsigned bytes) {
    if (begin >= end) return;
    requests += 1;
    sectors += double((end * bytes + 31) / 32 - begin * bytes / 32);
  }
};

Traffic traffic(const Kernel& k, size_t n) {
  Traffic all;
  const size_t each = size_t(k.words) * block_threads;
  for (size_t block = 0; block < k.blocks(n); ++block)
    for (size_t lane0 = 0; lane0 < block_threads; lane0 += 32) {
      const auto there = [&](unsigned step) {  // lanes whose word of this step is there
        const size_t first = block * each + step * block_threads + lane0;
        return n > first ? std::min<size_t>(n - first, 32) : 0;
      };
      const size_t whole = there(k.words - 1);  // lanes with all their words; the others follow
      for (unsigned step = 0; step < k.words; ++step) {
        all.request(0, whole, k.bytes);
        all.request(whole, there(step), k.bytes);
      }
    }
  return all;
}

constexpr size_t counted_floats = 1 << 18;

std::vector<CountedLaunch> counted_launches(size_t floats, const std::string& where) {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    // an awkward number: 5 words are missing in the last step of the third block
    const size_t n = floats ? 4 * floats / k.bytes : 3 * size_t(k.words) * block_threads - 5;
    const Traffic one = traffic(k, n);
    all.push_back(
        {k.symbol,
         std::to_string(k.words) + " words a thread" + where,
         {expected_requests(true, 2 * one.requests), expected_sectors(true, 2 * one.sectors),
          expected_requests(false, one.requests), expected_sectors(false, one.sectors)},
         [&k, n] {
           Vectors vectors((n * k.bytes / 4 + 3) / 4 * 4);
           vectors.c.poison();
           k.launch(k.blocks(n), vectors.c.data(), vectors.a.data(), vectors.b.data(), n);
           CUDA_CHECK_LAUNCH();
           return vectors.wrong(n * k.bytes / 4) == 0;
         }});
  }
  return all;
}

std::vector<CountedLaunch> all_counted_launches() {
  std::vector<CountedLaunch> all = counted_launches(counted_floats, "");
  const std::vector<CountedLaunch> awkward = counted_launches(0, " and 5 missing");
  all.insert(all.end(), awkward.begin(), awkward.end());
  return all;
}

Device made_up_device() {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 132;
  device.prop.maxThreadsPerMultiProcessor = 2048;
  device.prop.l2CacheSize = 60 << 20;
  return device;
}

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

}  // namespace

TEST_CASE("unroll: requests and sectors, by hand") {
  const Kernel& one = kernels[0];
  CHECK(traffic(one, 256).requests == 8);
  CHECK(traffic(one, 256).sectors == 32);
  CHECK(traffic(one, 257).requests == 9);  // a lane more, a sector more
  CHECK(traffic(one, 257).sectors == 33);
  CHECK(traffic(one, 1).sectors == 1);
  CHECK(traffic(kernels[11], 1).requests == 1);  // 16 bytes, 8 words a thread
  CHECK(traffic(kernels[11], 33).requests == 2);
  CHECK(traffic(kernels[11], 33).sectors == 17);
  // two steps, 5 words of the second missing: in the last warp 27 lanes have both words, 5 only one
  CHECK(traffic(kernels[1], 2 * 256 - 5).requests == 17);
  CHECK(traffic(kernels[1], 2 * 256 - 5).sectors == 16 * 4 + 1);
  for (const Kernel& k : kernels) {
    const Traffic all = traffic(k, 3 * 8 * 256);
    CHECK(all.requests == 3 * 8 * 256 / 32);
    CHECK(all.sectors == all.requests * sectors_a_request(k));
  }
}

TEST_CASE("unroll: predictions, by hand") {
  Device device = made_up_device();
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1000;
  CHECK(asked_for(kernels[0]) == 8);
  CHECK(asked_for(kernels[11]) == 256);
  CHECK(turn_bytes(kernels[0], device) == 120e3);
  const Calibrated c{160, 1000};
  CHECK(turn_ns(120e3, c) == doctest::Approx(200));  // 3, 4, 5
  CHECK(latency_ns(120e3, 600, 1000) == doctest::Approx(160));
  CHECK(latency_ns(120e3, 1100, 1000) == 0);
  CHECK(predicted_ms(kernels[0], 1e6, c, device) == doctest::Approx(0.02));  // 100 turns
  CHECK(predicted_ms(kernels[11], 1e6, c, device) == doctest::Approx(0.012).epsilon(0.01));
  CHECK(model_of(kernels[0], c, device) == Model::latency);
  CHECK(model_of(kernels[1], c, device) == Model::traffic);
}

TEST_CASE("unroll: the model, and what was measured on an H200") {
  const Device device = made_up_device();
  const double found[] = {3406, 4214, 4314, 4273, 4266, 4309, 4292, 4280, 4314, 4286, 4258, 4235};
  const double memory = 4249;  // its copy engine
  const Calibrated c{latency_ns(turn_bytes(kernels[0], device), found[0], memory), memory};
  for (size_t i = 0; i < kernel_count; ++i) {
    const double gbs = bytes_moved(1e6) * 1e-6 / predicted_ms(kernels[i], 1e6, c, device);
    CHECK(std::abs(found[i] / gbs - 1) < 0.1);
  }
}

TEST_CASE("unroll: sizes follow the L2 and the memory") {
  Device device = made_up_device();
  CHECK(default_size(true, nullptr) == 1 << 25);
  CHECK(default_size(false, &device) == 1 << 26);
  device.prop.l2CacheSize = 126 << 20;
  CHECK(default_size(true, &device) == 1 << 26);
}

TEST_CASE("unroll: vectors fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = bytes_moved(double(floats_of(run)));
    CHECK(floats_of(run) % 4 == 0);
    return Needs{bytes, bytes};
  });
}

TEST_CASE("unroll: the claim speaks only where one word a thread saturates the memory") {
  const Device device = made_up_device();
  std::string printed;
  Report report("unroll", &printed);
  const Run run{report, &device, {}};
  const double floats = 1 << 26;
  const auto judged = [&](double base4, double base8, double unrolled) {
    Times times;
    times.copy = always(8);  // 12 ms is its rate
    for (size_t i = 0; i < kernel_count; ++i) times.kernel[i] = always(unrolled);
    times.kernel[0] = always(base4);
    times.kernel[4] = times.kernel[8] = always(base8);
    printed.clear();
    judge(run, times, floats);
    return printed;
  };
  CHECK(judged(15, 12, 12).find("03.9   holds  ") != std::string::npos);
  CHECK(judged(15, 12, 12).find("up to 1.25x faster") != std::string::npos);
  CHECK(judged(12.2, 12.2, 11).find("03.9   does not hold") != std::string::npos);
  CHECK(judged(12, 12, 12).find("found") == std::string::npos);
  CHECK(judged(15, 15, 12).find("03.9   not judged") != std::string::npos);
  CHECK(judged(12, 12, 13).find("03.9   holds  ") != std::string::npos);  // a loss is no gain
}

TEST_CASE("unroll: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(all_counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("unroll: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(all_counted_launches());
}

TEST_CASE("unroll: sums are right at awkward sizes and nothing is written behind them") {
  if (skip_without_gpu()) return;
  std::vector<size_t> sizes{4, 36, 1020, 8192, 100012, 1000004};  // floats
  // of 16-byte words one is missing in the last step, or all but one are; of smaller ones, whose
  // number is rounded up, none is, or all but a few are
  for (const Kernel& k : kernels)
    for (const size_t n : {3 * size_t(k.words) * block_threads - 1,
                           3 * size_t(k.words) * block_threads - block_threads + 1})
      sizes.push_back((n * k.bytes / 4 + 3) / 4 * 4);
  for (const size_t n : sizes) {
    Vectors vectors(n);
    for (const Kernel& k : kernels) {
      CAPTURE(n);
      CAPTURE(std::string(k.symbol));
      CAPTURE(k.words);
      CHECK(wrong_after(vectors.task(k)) == 0);
      CHECK(vectors.wrong(n - 1) == 1);  // and the check itself can fail
    }
  }
}

TEST_CASE("unroll: a thread that takes a word too many is found") {
  if (skip_without_gpu()) return;
  for (const Kernel& k : kernels) {
    // one more word is there to be added than was asked for; it must stay as it was
    const size_t n = 3 * size_t(k.words) * block_threads - 5;
    Vectors vectors(((n + 1) * k.bytes / 4 + 3) / 4 * 4);
    vectors.c.poison();
    k.launch(k.blocks(n), vectors.c.data(), vectors.a.data(), vectors.b.data(), n);
    CUDA_CHECK_LAUNCH();
    CHECK(vectors.wrong(n * k.bytes / 4) == 0);
    k.launch(k.blocks(n + 1), vectors.c.data(), vectors.a.data(), vectors.b.data(), n + 1);
    CUDA_CHECK_LAUNCH();
    CHECK(vectors.wrong(n * k.bytes / 4) == k.bytes / 4);
  }
}

TEST_CASE("unroll: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(all_counted_launches());
}

TEST_CASE("unroll: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { unroll(run); });
}
