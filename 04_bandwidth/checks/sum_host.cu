// Self-checks of sum_host.cu, compiled in its place where BUILD_TESTING is on.
#include "../sum_host.cu"

#include <doctest/doctest.h>

TEST_CASE("sum: the host adds every row once, with whatever threads it has") {
  for (const size_t side : {1, 2, 16, 17, 101, 256}) {
    CAPTURE(side);
    HostSquare host(side);
    host.poison();
    CHECK(host.wrong() == side);
    host.add_up();
    CHECK(host.wrong() == 0);
  }
}
