// Self-checks of main.cu, compiled in its place where BUILD_TESTING is on.
#include "../main.cu"

#include <doctest/doctest.h>

TEST_CASE("options: a block is two numbers and at most 1024 threads") {
  Options options;
  take_block("32x8", options);
  CHECK(options.block_x == 32);
  CHECK(options.block_y == 8);
  take_block("1x1024", options);
  CHECK(options.block_x == 1);
  CHECK(options.block_y == 1024);
  for (const char* wrong : {"0x8", "8x0", "64x64", "33", "8x", "x8", "x", "", "8x8x8", "8X8",
                            "-8x8", "8 x 8", "1025x1", "4294967297x1", "0x20x8", "8x8 "}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(take_block(wrong, options), UsageError);
    CHECK(options.block_x == 1);  // what was taken before stays
  }
}
