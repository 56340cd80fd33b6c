// Self-checks of constant_miss.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant_miss.cu"

#include <doctest/doctest.h>

TEST_CASE("constant: a walk visits every node once and stays in the table") {
  for (const Path path :
       {Path{64, 64}, Path{128, 64}, Path{192, 64}, Path{1024, 64}, longest, first_touches}) {
    CAPTURE(path.bytes);
    const std::vector<unsigned> words = path.words();
    std::vector<bool> seen(path.nodes(), false);
    unsigned at = 0;
    for (unsigned step = 0; step < path.nodes(); ++step) {
      REQUIRE(at == path.offset_after(step));
      REQUIRE(at % path.stride == 0);
      REQUIRE(at < path.bytes);
      CHECK_FALSE(seen[at / path.stride]);
      seen[at / path.stride] = true;
      at = words[at / sizeof(unsigned)];
    }
    CHECK(at == 0);
  }
}

TEST_CASE("constant: predicted walks, by hand") {
  const Calibrated c{30, 98, 290, 667};
  CHECK(predicted_again(512, c) == 30);
  CHECK(predicted_again(2048, c) == 30);
  CHECK(predicted_again(4096, c) == 98);
  CHECK(predicted_again(63 << 10, c) == 98);
  CHECK(predicted_first(false, c) == 388);
  CHECK(predicted_first(true, c) == 765);
  CHECK(in_first.at <= first_cache_bytes);
  CHECK(in_second.at > first_cache_bytes);
  CHECK(predicted({"walk_constant", 4096}, c) == 98);
  CHECK(predicted("constant_first_l2", c) == 388);
  CHECK(predicted("constant_first", c) == 765);
  CHECK(predicted("read_only_first", c) == 667);
}

TEST_CASE("constant: every row is its walk's, and ratios are the right way round") {
  const std::vector<Way> ways = all_ways();
  OfWays found;
  for (size_t i = 0; i < ways.size(); ++i)
    found.cycles.push_back({std::vector<double>(15, double(i + 1))});
  REQUIRE(same(ways[1].ref, in_first));
  REQUIRE(same(ways[9].ref, "constant_first"));
  CHECK(ratio_of(found, ways, "constant_first", in_first).median == doctest::Approx(5));
  CHECK(ratio_of(found, ways, in_first, "constant_first").median == doctest::Approx(0.2));
}

TEST_CASE("constant: walks end where they should") {
  if (skip_without_gpu()) return;
  Walks walks(1 << 20);  // each throws if it ends elsewhere
  for (const Path path : {Path{64, 64}, Path{192, 64}, longest, first_touches})
    CHECK(walks.constant_again(path).cycles > 0);
  CHECK(walks.constant_first(false).cycles > 0);
  CHECK(walks.constant_first(true).cycles > 0);
  CHECK(walks.global_again().cycles > 0);
  CHECK(walks.global_first().cycles > 0);
  CHECK(walks.read_only_first().cycles > 0);
}

// Else what was flushed would still have come from the L2, of which nothing else would tell.
TEST_CASE("constant: its first touches come from memory" * doctest::test_suite("plausible") *
          doctest::skip()) {
  if (skip_without_gpu()) return;
  Walks walks(Device::current().l2_bytes());
  std::vector<Readings> ns;
  const std::vector<Readings> cycles = chase::cycles_in_turn(
      {},
      {[&] { return walks.constant_first(false); }, [&] { return walks.constant_first(true); },
       [&] { return walks.global_again(); }, [&] { return walks.global_first(); },
       [&] { return walks.read_only_first(); }},
      ns);
  CHECK(cycles[1].median() > 1.5 * cycles[0].median());
  CHECK(cycles[3].median() > 1.5 * cycles[2].median());
  CHECK(cycles[4].median() > 1.5 * cycles[2].median());
}
