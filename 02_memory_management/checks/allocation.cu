// Self-checks of allocation.cu, compiled in its place where BUILD_TESTING is on.
#include "../allocation.cu"

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE("allocation: predictions, by hand") {
  const Kind& pool = *with_key(kinds, "pool_threshold_0");
  // a piece takes 90 us, 32 of them 2012 more: 62 each
  const auto us = [&](double mebibytes) {
    return 1e3 * iteration_ms(pool, mebibytes * mib, 0.09, 1024.0 * mib, 0.09 + 31 * 0.062);
  };
  CHECK(us(1 / 1024.0) == doctest::Approx(90));
  CHECK(us(32) == doctest::Approx(90));
  CHECK(us(33) == doctest::Approx(90 + 62));
  CHECK(us(256) == doctest::Approx(90 + 7 * 62));
  CHECK(iteration_ms(*with_key(kinds, "reused"), 1e9, 5, 1e9, 7) == 5);
  CHECK(iteration_ms(*with_key(kinds, "cuda_malloc"), 16.0 * mib, 0, 64.0 * mib, 31) ==
        doctest::Approx(7));
}

TEST_CASE("allocation: sizes of made-up GPUs") {
  check_on_made_up_devices([](const Run& run) {
    const std::vector<size_t> sizes = sizes_of(run);
    CHECK(std::is_sorted(sizes.begin(), sizes.end()));
    if (!run.quick) CHECK(sizes.back() >= size_t(256) << 20);
    return needs(run);
  });
}

TEST_CASE("allocation: what decides each part") {
  const auto malloced = [](double taking, double keeping) {
    return verdict_if(allocation_experiment, "02.1",
                      {{"cuda_malloc", taking}, {"reused", keeping}});
  };
  CHECK(malloced(10, 1) == verdict_text(Verdict::holds));
  CHECK(malloced(1, 10) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("allocation: memory of every kind can be used, and pools hold what they may") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : kinds) {
    const Allocator a = kind.make((5 << 20) + 1);
    for (const size_t bytes : {1, 31, 257, 4099, (5 << 20) + 1}) {
      CAPTURE(std::string(kind.key));
      CAPTURE(bytes);
      uint64_t held = 0;
      const bool keeps = kind.key == "pool_keeping";
      for (int round = 0; round < 3; ++round) {
        CHECK(wrong_after(iteration(kind.key, a, bytes)) == 0);
        a.wait();
        if (!a.reserved) continue;
        if (round == 0) held = keeps ? a.reserved() : 0;
        CHECK(a.reserved() == held);  // handed out again, and no more taken
        if (keeps) CHECK(held >= bytes);
      }
    }
  }
}

TEST_CASE("allocation: one that fails names the sizes") {
  if (skip_without_gpu()) return;
  std::string error;
  try {
    CUDA_CHECK(cudaFree(allocate(size_t(1) << 40)));  // which no device has
  } catch (const CudaError& refused) {
    error = refused.what();
  }
  CHECK(error.find("cudaMalloc of 1.00 TiB where ") == 0);
  CHECK(error.find(" are free failed: cudaErrorMemoryAllocation") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
}

EXPERIMENT_CHECKS(allocation)
