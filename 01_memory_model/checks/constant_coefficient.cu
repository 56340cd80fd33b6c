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
  CHECK(predicted_ms(fixed_c, 1, 4) == 1);
  CHECK(predicted_ms(kept_g, 1, 4) == 1);
  CHECK(predicted_ms(fixed_g, 1, 4) == 4);
  CHECK(std::isnan(predicted_ms(indexed_c, 1, 4)));
}

TEST_CASE("constant: coefficients are judged the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("constant", &printed);
  const Run run{report, &device, {}};
  const auto verdicts = [&](std::initializer_list<double> each) {
    std::vector<Readings> times;
    for (const double ms : each) times.push_back({std::vector<double>(15, ms)});
    printed.clear();
    judge(run, times);
  };
  verdicts({1, 1, 4, 1, 7, 4});
  CHECK(printed.find("01.11a holds  ") != std::string::npos);
  CHECK(printed.find("4.00x faster") != std::string::npos);
  CHECK(printed.find("found: it is equal to a register within 1%") != std::string::npos);
  CHECK(printed.find("01.11b does not hold") != std::string::npos);
  CHECK(printed.find("1.75x slower") != std::string::npos);
  verdicts({1, 4, 1, 1, 4, 7});
  CHECK(printed.find("01.11a does not hold") != std::string::npos);
  CHECK(printed.find("01.11b holds  ") != std::string::npos);
}

TEST_CASE("constant: every coefficient is added, whatever it is read from") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 31u, 1009u})
    for (const unsigned turns : {1u, 2u, 37u}) {
      Sums sums(blocks);
      for (const Way& way : ways) {
        CAPTURE(std::string(way.name));
        CHECK(wrong_after(sums.task(way, turns)) == 0);
      }
    }
}
