// Self-checks of ladder.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder.cu"

#include <doctest/doctest.h>

#include "../../common/checks/plausible.hpp"

namespace {

/// Sums by all rungs, of the first words and of words at other offsets.
template <class T>
void check_rungs(const std::vector<size_t>& sizes, const std::vector<size_t>& offsets, Gpu gpu) {
  for (const size_t n : sizes)
    for (const size_t offset : offsets) {
      CAPTURE(n);
      CAPTURE(offset);
      Words<T> words(n, offset);
      Work<T> work(n, gpu);
      CHECK_NOTHROW(require_sums(rungs_for<T>(n), words, n, work));
    }
}

/// Passes that notice when a rung sums word b twice and word a not at all.
template <class T>
unsigned passes_that_notice(size_t a, size_t b) {
  constexpr size_t n = 3000;
  Words<T> words(n);
  Work<T> work(n, {1, 1024});
  unsigned noticed = 0;
  for (unsigned pass = 0; pass < passes<T>; ++pass) {
    words.fill(pass);
    T* const all = words.all.data();
    if (a != b) CUDA_CHECK(cudaMemcpy(all + a, all + b, sizeof(T), cudaMemcpyDeviceToDevice));
    const T right = T(Words<T>::sum_by_host(pass, n));
    noticed += wrong_after(work.task(descending, words.in, n, right)) > 0;
  }
  return noticed;
}

constexpr Gpu one_multiprocessor{1, 1024};  // few words are more than one grid

}  // namespace

TEST_CASE("ladder: every rung is right at awkward sizes and alignments") {
  if (skip_without_gpu()) return;
  // the sanitizers watch this case: few words, as if on one multiprocessor, are many blocks
  const std::vector<size_t> sizes{0, 1, 2, 31, 33, 257, 1009, 1025};
  check_rungs<float>(sizes, {0, 31}, one_multiprocessor);
  check_rungs<unsigned>(sizes, {0, 1, 3, 30}, one_multiprocessor);
  check_rungs<float>({32768 + 35}, {0, 2}, one_multiprocessor);
  check_rungs<unsigned>({32768 + 35}, {0, 29}, one_multiprocessor);
}

TEST_CASE("ladder: every block's sum is that of its own words, and one launch's that of all") {
  if (skip_without_gpu()) return;
  for (const int rung : rungs_for<unsigned>(1)) {
    if (rung == library) continue;
    for (const size_t n : {4, 1000, 1024, 7 * 256 + 4, 50000}) {
      CAPTURE(std::string(rungs[rung].name));
      CAPTURE(n);
      CHECK(wrong_after_first_launch(rung, Words<unsigned>(n), one_multiprocessor) == 0);
      if (rung == redux) continue;
      CHECK(wrong_after_first_launch(rung, Words<float>(n), one_multiprocessor) == 0);
    }
  }
}

TEST_CASE("ladder: the check finds a word left out and another taken twice") {
  if (skip_without_gpu()) return;
  for (const size_t a : {0, 1, 17, 255, 2999})
    for (const size_t b : {0, 2, 256, 1234}) {
      CAPTURE(a);
      CAPTURE(b);
      CHECK(passes_that_notice<unsigned>(a, b) == (a == b ? 0 : 1));
      CHECK((passes_that_notice<float>(a, b) > 0) == (a != b));
    }
}

TEST_CASE("ladder: every rung is right beyond one grid" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Gpu gpu = gpu_of(Device::current());
  const std::vector<size_t> sizes{16385, 65537, 1000003, 5000011};
  check_rungs<float>(sizes, {0, 1, 2, 3}, gpu);
  check_rungs<unsigned>(sizes, {0, 1, 2, 3}, gpu);
}

// Without its barrier a step reads words of warps that may be behind. Here millions of blocks give
// them the chance to be; that each barrier stands where it must is seen in the compiled code.
TEST_CASE("ladder: every rung is right beyond the L2 and up to 2^31 + 7 words" *
          doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Gpu gpu = gpu_of(Device::current());
  const size_t beyond_l2 = (size_t(1) << 26) + 12345, beyond_int = (size_t(1) << 31) + 7;
  if (double(Device::free_bytes()) < 1.1 * bytes_needed(beyond_int))
    return skip_self_check("needs " + bytes_text(1.1 * bytes_needed(beyond_int)) +
                           " of device memory");
  check_rungs<float>({beyond_l2}, {0, 1}, gpu);
  check_rungs<unsigned>({beyond_l2}, {0, 3}, gpu);
  check_rungs<float>({beyond_int}, {0, 1}, gpu);
  check_rungs<unsigned>({beyond_int}, {0, 3}, gpu);
}

TEST_CASE("ladder: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { ladder(run, by_default); });
}
