// Self-checks of constant_literal.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant_literal.cu"

#include <doctest/doctest.h>

TEST_CASE("constant: mixed numbers, by hand") {
  CHECK(mixed(0, 1) == 374761393u);
  CHECK(mixed(1, 1) == 2654435769u + 374761393u);
  const std::vector<unsigned> all = all_mixed(3, 5);
  CHECK(all[7] == mixed(7, 5) + 7);
  CHECK(all[2 * block_threads + 7] == mixed(7, 5) + 2 * block_threads + 7);
}
