// Self-checks of constant_coefficient.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant_coefficient.cu"

#include <doctest/doctest.h>

TEST_CASE("constant: coefficients' sums and predictions, by hand") {
  unsigned first16 = 0;
  for (unsigned i = 0; i < 16; ++i) first16 += 3 * i + 1;
  CHECK(first16 == 376);
  CHECK(sum_of(5, false, 2) == 5 + 2 * 376);
  CHECK(sum_of(256, true, 1) == 256 + 376 + 16 * 3);                 // from the second on
  CHECK(sum_of(15 * 256, true, 2) == 15 * 256 + 2 * 376 + 15 * 48);  // from the last, the first on
  CHECK(exact_turns(1 << 20) * 16 * 94 + (1u << 20) < 1u << 24);
  CHECK(predicted_ms("fixed_constant", 1, 4) == 1);
  CHECK(predicted_ms("kept_global", 1, 4) == 1);
  CHECK(predicted_ms("fixed_global", 1, 4) == 4);
  CHECK(std::isnan(predicted_ms("indexed_constant", 1, 4)));
}
