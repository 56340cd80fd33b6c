// Self-checks of constant_literal.cu, compiled in its place where BUILD_TESTING is on.
#include "../constant_literal.cu"

#include <doctest/doctest.h>

TEST_CASE("constant: literals are judged the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("constant", &printed);
  const Run run{report, &device, {}};
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  judge(run, always(0.152), always(0.1625));
  CHECK(printed.find("01.7   holds  ") != std::string::npos);
  printed.clear();
  judge(run, always(0.2), always(0.1));
  CHECK(printed.find("01.7   does not hold") != std::string::npos);
  CHECK(printed.find("2.00x faster") != std::string::npos);
  CHECK(mixed(0, 1) == 374761393u);
  CHECK(mixed(1, 1) == 2654435769u + 374761393u);
}

TEST_CASE("constant: literals and constants give the same") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 31u, 1009u})
    for (const unsigned rounds : {1u, 2u, 37u}) {
      Mixes mixes(blocks);
      for (const Way& way : ways) CHECK(wrong_after(mixes.task(way, rounds)) == 0);
    }
}
