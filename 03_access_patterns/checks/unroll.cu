// Self-checks of unroll.cu, compiled in its place where BUILD_TESTING is on.
#include "../unroll.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

const Kernel& kernel(const char* key, unsigned words) {
  for (const Kernel& k : kernels)
    if (same(k.ref(), {key, double(words)})) return k;
  throw std::logic_error("no such kernel");
}

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

/// 5 words are missing in the last step of the third block.
size_t awkward(const Kernel& k) { return 3 * size_t(k.words) * block_threads - 5; }

std::vector<CountedLaunch> awkward_launches() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    const size_t floats = awkward(k) * k.bytes / 4;
    const Traffic one = traffic(k, awkward(k));
    all.push_back(counted_launch(k.key, std::to_string(k.words) + " words a thread and 5 missing",
                                 {2 * one.requests, 2 * one.sectors}, {one.requests, one.sectors},
                                 [&k, floats] { return add_task(Shared(Vectors{floats}), k); }));
  }
  return all;
}

Device made_up_device() {
  Device device;
  device.number = -1;
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1000;
  return device;
}

}  // namespace

TEST_CASE("unroll: requests and sectors, by hand") {
  const Kernel &one = kernel("add_float", 1), &widest = kernel("add_float4", 8);
  CHECK(traffic(one, 256).requests == 8);
  CHECK(traffic(one, 256).sectors == 32);
  CHECK(traffic(one, 257).requests == 9);  // a lane more, a sector more
  CHECK(traffic(one, 257).sectors == 33);
  CHECK(traffic(one, 1).sectors == 1);
  CHECK(traffic(widest, 1).requests == 1);
  CHECK(traffic(widest, 33).requests == 2);
  CHECK(traffic(widest, 33).sectors == 17);
  // two steps, 5 words of the second missing: in the last warp 27 lanes have both words, 5 only one
  CHECK(traffic(kernel("add_float", 2), 2 * 256 - 5).requests == 17);
  CHECK(traffic(kernel("add_float", 2), 2 * 256 - 5).sectors == 16 * 4 + 1);
  for (const Kernel& k : kernels) {
    const Traffic all = traffic(k, 3 * 8 * 256);
    CHECK(all.requests == 3 * 8 * 256 / 32);
    CHECK(all.sectors == all.requests * sectors_of(k));
  }
}

TEST_CASE("unroll: predictions, by hand") {
  const Device device = made_up_device();
  const Kernel &one = kernel("add_float", 1), &widest = kernel("add_float4", 8);
  CHECK(loaded_at_once(one) == 8);
  CHECK(loaded_at_once(widest) == 256);
  CHECK(bytes_in_flight(one, device) == 120e3);
  const Calibrated c{.latency_ns = 160, .memory_gbs = 1000};
  CHECK(c.ns(120e3) == doctest::Approx(200));  // 3, 4, 5
  CHECK(latency_ns(120e3, 600, 1000) == doctest::Approx(160));
  CHECK(latency_ns(120e3, 1100, 1000) == 0);
  CHECK(predicted_ms(one, 1e6, c, device) == doctest::Approx(0.02));  // 100 times 200 ns
  CHECK(predicted_ms(widest, 1e6, c, device) == doctest::Approx(0.012).epsilon(0.01));
}

TEST_CASE("unroll: what decides each part") {
  // the copy moves 8 bytes of a float, the sum 12
  const auto verdict = [](const char* part, double one, double two, double four, double eight) {
    return verdict_if(unroll_experiment, part,
                      {{copy_engine, 8},
                       {{"add_float", 1}, one},
                       {{"add_float", 2}, two},
                       {{"add_float", 4}, four},
                       {{"add_float", 8}, eight}});
  };
  const std::string holds = verdict_text(Verdict::holds),
                    not_judged = verdict_text(Verdict::not_judged);
  CHECK(verdict("03.9a", 12, 12, 12, 12) == holds);
  CHECK(verdict("03.9b", 12, 12, 12, 12) == holds);
  CHECK(verdict("03.9b", 12, 13, 13, 13) == holds);  // a loss is no gain
  CHECK(verdict("03.9b", 12, 11, 11, 11) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("03.9b", 12, 12, 11, 11) == verdict_text(Verdict::depends));
  CHECK(verdict("03.9a", 15, 12, 12, 12) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict("03.9b", 15, 12, 12, 12) == not_judged);  // bandwidth is not the limit
  // within 5% the rule is nearly alike both ways: it is the sum's time over the copy's
  CHECK(over_copy().slow.key == "add_float");
  CHECK(verdict("03.9a", 8, 8, 8, 8) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("unroll: awkward sizes: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(awkward_launches(), results_file("nvidia-h200-counters.csv"));
}
TEST_CASE("unroll: awkward sizes: counts of this GPU equal the model") {
  compare_with_counts_of_this_run(awkward_launches());
}
TEST_CASE("unroll: awkward sizes: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(awkward_launches());
}

TEST_CASE("unroll: sums are right where words of the last block are missing") {
  if (skip_without_gpu()) return;
  for (const Kernel& k : kernels)
    for (const size_t words : {size_t(1), size_t(33), awkward(k), awkward(k) + 4,
                               3 * size_t(k.words) * block_threads - block_threads + 1}) {
      CAPTURE(std::string(k.key));
      CAPTURE(k.words);
      CAPTURE(words);
      const Shared vectors(Vectors{words * k.bytes / 4});
      CHECK(wrong_after(add_task(vectors, k)) == 0);
      if (words == 1) continue;
      vectors->c.poison();
      k.launch(k.blocks(words - 1), vectors->c.data(), vectors->a.data(), vectors->b.data(),
               words - 1);
      CUDA_CHECK_LAUNCH();
      CHECK(vectors->c.wrong(IsSum{}) == k.bytes / 4);  // the last word stays poisoned
    }
}

EXPERIMENT_CHECKS(unroll)
