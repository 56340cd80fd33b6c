// Self-checks of fetch.cu, compiled in its place where BUILD_TESTING is on.
#include "../fetch.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("fetch: bytes per word are those of the pieces that a warp's words lie in") {
  for (const size_t fetch : fetches)
    for (const size_t apart : distances) {
      CAPTURE(fetch);
      CAPTURE(apart);
      const Warp warp = warp_of(4, [apart](unsigned lane) { return lane * apart / 4; });
      CHECK(bytes_per_word(fetch, apart) * 32 == double(fetch) * pieces(warp, unsigned(fetch)));
    }
}

TEST_CASE("fetch: the model's two constants, by hand") {
  const auto model = FetchModel::from(5, std::sqrt(10.0));  // 16 + 9, and 16 / 16 + 9
  CHECK(model.moving_ms == doctest::Approx(4));
  CHECK(model.passing_ms == doctest::Approx(3));
  CHECK(model.ms(64, 32) == doctest::Approx(5));
  CHECK(model.ms(64, 256) == doctest::Approx(std::sqrt(10.0)));
  CHECK(model.ms(32, 128) == doctest::Approx(std::sqrt(10.0)));
  CHECK(model.ms(128, 256) == doctest::Approx(std::sqrt(13.0)));
}

TEST_CASE("fetch: the setting holds while a task runs, and not behind it") {
  if (skip_without_gpu()) return;
  const auto now = [] {
    size_t bytes = 0;
    CUDA_CHECK(cudaDeviceGetLimit(&bytes, cudaLimitMaxL2FetchGranularity));
    return bytes;
  };
  if (granted(32) != 32 || granted(128) != 128) {
    MESSAGE("this GPU does not take other fetch sizes");
    return;
  }
  const size_t before = now();
  for (const size_t fetch : {32, 128}) {
    const Task task = read_task(Shared(Words(1009, Grid{3})), fetch, 64);
    task.enter();
    CHECK(now() == fetch);
    task.leave();
    CHECK(now() == before);
  }
}

// Each word's bytes are counted within 2%: sums that are written, and lines that the counters'
// own work brings, are the rest.
TEST_CASE("fetch: counted bytes from memory are what the setting says") {
  if (!counted_in_this_run()) return skip_self_check("needs counts of this run");
  for (const size_t fetch : fetches)
    for (const size_t apart : distances) {
      CAPTURE(fetch);
      CAPTURE(apart);
      const double found =
          count_of_this_run("read_apart", counted_parameter(fetch, apart), from_memory);
      CHECK(found / double(words_read(counted_words, apart)) ==
            doctest::Approx(bytes_per_word(fetch, apart)).epsilon(0.02));
    }
}

EXPERIMENT_CHECKS(fetch)
