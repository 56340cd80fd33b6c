// Self-checks of stores_in_l1.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores_in_l1.cu"

#include <doctest/doctest.h>

TEST_CASE("stores: in L1: places of each kind, and how many times as long") {
  for (unsigned i = 0; i < 4; ++i) CHECK(kinds[i].number == i);
  const Statistics r = times_as_long({300, 280, 320, 64}, {50, 40, 60, 64});
  CHECK(r.median == doctest::Approx(6));
  CHECK(r.low == doctest::Approx(280.0 / 60));
  CHECK(r.high == doctest::Approx(8));
}

TEST_CASE("stores: in L1: every load brings what was stored") {
  if (skip_without_gpu()) return;
  for (const Kind& kind : kinds) CHECK(cycles_after(kind).low > 0);  // throws unless all are right
}
