// Self-checks of ladder_order.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder_order.cu"

#include <doctest/doctest.h>

TEST_CASE("ladder: the worst chain of additions meets the error bound and hardly") {
  volatile float chain = 1;
  for (int i = 0; i < 1000; ++i) chain = chain + 0x1p-24f;  // half of the last digit: rounded away
  const double exact = 1 + 1000 * 0x1p-24;
  const double error = exact - chain;
  CHECK(error <= reduce::error_bound(1000) * exact);
  CHECK_FALSE(error <= reduce::error_bound(990) * exact);
}
