// Self-checks of dictionary_copy.cu, compiled in its place where BUILD_TESTING is on.
#include "../dictionary_copy.cu"

#include <doctest/doctest.h>

TEST_CASE("dictionary: what the reader saw follows from a limit of about five seconds") {
  CHECK(then_seconds(all_ran[0].loads, 200) < limit_s);      // works
  CHECK(then_seconds(all_ran[0].loads, 300) > limit_s);      // half of the time
  CHECK(then_seconds(all_ran[1].loads, 200) > 2 * limit_s);  // nothing found
  CHECK(then_seconds(all_ran[2].loads, 300) < limit_s);      // found
  CHECK(then_seconds(1.35e9, 1) == doctest::Approx(1));
}

TEST_CASE("dictionary: copies by one thread, by hand") {
  // of a sector: 10 for the first load, 1 for each other
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.key));
    CHECK(predicted_ms(k, 10 + 1, 10 + 7) == doctest::Approx(10 + 32.0 / k.bytes - 1));
  }
  CHECK(with_key(kernels, "copy_bytes")->bytes == 1);
  CHECK(with_key(kernels, "copy_quads")->bytes == sizeof(uint4));
}

TEST_CASE("dictionary: a stopped kernel's error has a name") {
  CHECK(std::string(cudaGetErrorName(cudaErrorLaunchTimeout)) == "cudaErrorLaunchTimeout");
}

TEST_CASE("dictionary: one thread copies every byte and no more") {
  if (skip_without_gpu()) return;
  for (const size_t n : {16u, 48u, 1008u, 4096u}) {
    const Shared copy(Copy{n});
    for (const Kernel& k : kernels) CHECK(wrong_after(task_of(copy, k)) == 0);
    CHECK(wrong_after(Task{"", [] {}, task_of(copy, kernels[0]).check}) == n);
  }
  const Shared odd(Copy{1009});
  CHECK(wrong_after(task_of(odd, *with_key(kernels, "copy_bytes"))) == 0);
  CHECK(wrong_after(task_of(odd, *with_key(kernels, "copy_words"))) == 1);  // the check can fail
}
