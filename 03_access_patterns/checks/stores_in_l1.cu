// Self-checks of stores_in_l1.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores_in_l1.cu"

#include <doctest/doctest.h>

TEST_CASE("stores: in L1: every load brings what was stored") {
  if (skip_without_gpu()) return;
  for (const Statistics& s : cycles_after()) CHECK(s.low > 0);  // throws unless all are right
  CHECK(predicted_cycles(40) == 40);
}
