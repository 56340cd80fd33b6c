// Self-checks of sum_host.cu, compiled in its place where BUILD_TESTING is on.
#include "../sum_host.cu"

#include <doctest/doctest.h>

TEST_CASE("sum: the host adds every line once, with whatever threads it has") {
  for (const size_t side : {1, 2, 16, 17, 101, 256}) {
    CAPTURE(side);
    HostSquare host(side);
    for (const Task& task : {host.by_rows(), host.by_columns()}) {
      task.check.poison();
      CHECK(task.check.wrong() == side);
      task.launch();
      CHECK(task.check.wrong() == 0);
    }
  }
}
