// Self-checks of dictionary_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../dictionary_copy.cu"

#include <doctest/doctest.h>

TEST_CASE("dictionary: what the reader saw follows from a limit of about five seconds") {
  CHECK(then_seconds(30e6, 200) < limit_s);  // works
  CHECK(then_seconds(30e6, 300) > limit_s);  // half of the time
  CHECK(then_seconds(2 * 50e6, 200) > 2 * limit_s);
  CHECK(then_seconds(2 * 10e6, 300) < limit_s);
  CHECK(then_seconds(1.35e9, 1) == doctest::Approx(1));
}

TEST_CASE("dictionary: a byte's load from those of words, by hand") {
  // of a sector: 10 for the first load, 1 for each other
  CHECK(predicted_ms(10 + 1, 10 + 7) == doctest::Approx(10 + 31));
  CHECK(loads_of_sector(kernels[bytes]) == 32);
}

TEST_CASE("dictionary: a stopped kernel's error has a name") {
  CHECK(std::string(cudaGetErrorName(cudaErrorLaunchTimeout)) == "cudaErrorLaunchTimeout");
}

TEST_CASE("dictionary: one thread copies every byte and no more") {
  if (skip_without_gpu()) return;
  for (const size_t n : {16u, 48u, 1008u, 4096u}) {
    Copy copy(n);
    for (const Kernel& k : kernels) CHECK(wrong_after(copy.task(k)) == 0);
    CHECK(wrong_after(Task{"", [] {}, copy.task(kernels[bytes]).check}) == n);
  }
  Copy odd(1009);
  CHECK(wrong_after(odd.task(kernels[bytes])) == 0);
  CHECK(wrong_after(odd.task(kernels[words])) == 1);  // and the check itself can fail
}
