// Self-checks of batching.cu, compiled in its place where BUILD_TESTING is on.
#include "../batching.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("batching: a split takes every byte once") {
  for (const size_t total : {1, 2, 31, 4095, 4096, 65537, 1000003})
    for (const size_t n : {1, 2, 3, 64, 4096, 5000}) {
      const Split split(total, n);
      CHECK(split.pieces == std::min(n, total));
      size_t next = 0, empty = 0;
      for (size_t k = 0; k < split.pieces && split.begin(k) == next; ++k) {
        next += split.bytes(k);
        empty += split.bytes(k) == 0;
      }
      CHECK(next == total);
      CHECK(empty == 0);
    }
}

TEST_CASE("batching: pieces are brought together from all over the host") {
  for (const size_t total : {1, 31, 1009, 65537})
    for (const size_t n : {1, 2, 3, 16, 255, 4096}) {
      const Split split(total, n);
      std::vector<Byte> host(split.host_bytes(), 0xff), device(total), packed(total + guard, 0xff);
      const Pieces pieces = scatter(split, device.data(), host.data());
      fill_pieces(pieces, 5);
      pack(pieces, packed.data());
      size_t right = 0;  // fewer if a piece was written over another
      while (right < total && packed[right] == byte_at(right, 5)) ++right;
      CHECK(right == total);
      CHECK(std::count(packed.begin() + long(total), packed.end(), 0xff) == long(guard));
      for (size_t k = 1; k < split.pieces; ++k)  // never side by side
        REQUIRE(static_cast<Byte*>(pieces.from[k - 1]) + pieces.bytes[k - 1] != pieces.from[k]);
    }
}

TEST_CASE("batching: predictions, by hand") {
  CHECK(one_by_one_ms(0.3, 0.002, 1) == doctest::Approx(0.3));
  CHECK(one_by_one_ms(0.3, 0.002, 4096) == doctest::Approx(8.49));
}

TEST_CASE("batching: what decides each part") {
  const auto verdict = [](double each, double one) {
    return verdict_if(batching_experiment, "02.4",
                      {{{"copy_each", 4096}, each}, {{"one_copy", 4096}, one}});
  };
  CHECK(verdict(30, 1) == verdict_text(Verdict::holds));
  CHECK(verdict(1, 1) == verdict_text(Verdict::does_not_hold));
  CHECK(verdict(1, 30) == verdict_text(Verdict::does_not_hold));
}

TEST_CASE("batching: every way carries every byte, in pieces and beside a kernel") {
  if (skip_without_gpu()) return;
  int driver = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  for (const size_t total : {1, 31, 257, 65537, 1000003})
    for (const size_t n : {1, 2, 3, 31, 1000, 4096}) {
      CAPTURE(total);
      CAPTURE(n);
      const Shared work(Work(total, n));
      for (const Way& way : ways)
        if (!way.is_batch || std::min(driver, CUDART_VERSION) >= 12080) {
          CHECK(wrong_after(task_of(way.key, work, way)) == 0);
          CHECK(wrong_after(task_beside(way.key, work, way, 100, 100000)) == 0);
        }
      CHECK(wrong_after(packing_task("packing", work)) == 0);
      work->pieces.bytes.back() -= 1;  // the last byte stays behind, and the check must see it
      CHECK(wrong_after(task_of(ways[0].key, work, ways[0])) == 1);
    }
}

EXPERIMENT_CHECKS(batching)
