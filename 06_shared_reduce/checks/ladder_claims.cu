// Self-checks of ladder_claims.cu, compiled in its place where BUILD_TESTING is on.
#include "../ladder_claims.cu"

#include <doctest/doctest.h>

using namespace reduce;

TEST_CASE("ladder: each claim compares the text's kernels, the right way round") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  std::string printed;
  Report report("ladder", &printed);
  const Run run{report, &device, {}};
  Times times(rung_count);
  const auto judged = [&](double of_modulo, double of_mask, double of_strided, double of_descending,
                          size_t n) {
    const double ms[] = {of_modulo, of_mask, of_strided, of_descending};
    for (const int rung : {modulo, mask, strided, descending}) times[rung].ms.assign(15, ms[rung]);
    printed.clear();
    judge_ladder(run, times, n, {});
  };
  const auto says = [&](const char* text) { return printed.find(text) != std::string::npos; };
  constexpr size_t enough = 1 << 20;
  judged(2.6, 1.3, 1.6, 1.25, enough);
  CHECK(says("06.1   holds  "));
  CHECK(says("here 1.62x faster"));
  CHECK(says("a mask for %, with the same divergence, is 2.00x faster"));
  CHECK(says("the division alone is 130%"));
  CHECK(says("06.2   holds  "));
  CHECK(says("2.08x faster than the first (2.06 to 2.10), 1.28x faster than the second (1.27 to"));
  CHECK(says("found: 1.04x faster"));
  CHECK(says("the division alone is 96%"));
  judged(1.5, 1.3, 1.6, 1.25, enough);
  CHECK(says("06.1   does not hold"));
  CHECK(says("06.2   holds  "));
  judged(2.6, 1.3, 1.6, 1.6, enough);  // beats the first only
  CHECK(says("06.2   does not hold"));
  judged(1.2, 1.3, 1.6, 1.25, enough);  // and here the second only
  CHECK(says("06.2   does not hold"));
  CHECK_FALSE(says("the division alone"));  // nothing is gained on the first
  judged(1.2, 1.1, 1.6, 1.25, enough);
  CHECK(says("06.1   does not hold"));
  CHECK(says("a mask for %, with the same divergence, is 1.09x faster"));
  CHECK_FALSE(says("the division alone"));
  judged(1.28, 1.3, 1.275, 1.25, enough);  // neither is clear
  CHECK(says("06.2   too close to call"));
  judged(2.6, 1.3, 1.6, 1.25, 1000);
  CHECK(says("06.1   not judged"));
  CHECK(says("06.2   not judged"));
}

TEST_CASE("ladder: of two gains the one that is less certain decides, and both are saved") {
  const auto gain = [](double low, double value, double high) {
    Interval interval;
    interval.low = low;
    interval.value = value;
    interval.high = high;
    return interval;
  };
  // the larger median straddles the bound
  CHECK(weaker(gain(0.9, 1.5, 2.1), gain(1.2, 1.3, 1.4)));
  CHECK_FALSE(weaker(gain(1.2, 1.3, 1.4), gain(0.9, 1.5, 2.1)));
  CHECK(weaker(gain(0.9, 0.95, 1.0), gain(0.9, 1.5, 2.1)));
  CHECK(weaker(gain(1.2, 1.3, 1.4), gain(1.4, 1.5, 1.6)));
  std::string printed;
  Report report("ladder", &printed);
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  Times times(rung_count);
  const double ms[] = {2.6, 1.3, 1.6, 1.25};
  for (const int rung : {modulo, mask, strided, descending}) times[rung].ms.assign(15, ms[rung]);
  device.prop.multiProcessorCount = 10;
  device.prop.maxThreadsPerMultiProcessor = 1024;
  device.sm_clock_khz = 1000000;
  device.theoretical_gbs = 1000;
  // no launch and no wait: instructions only, 1115 over 859
  judge_ladder({report, &device, {}}, times, 1 << 20, {0, 0, 0});
  const std::string csv = report.csv("2026-01-01");
  CHECK(csv.find("descending,gain,on modulo,measured,gain,x,2.08") != std::string::npos);
  CHECK(csv.find("descending,gain,on strided,measured,gain,x,1.28") != std::string::npos);
  CHECK(csv.find("descending,gain,on mask,measured,gain,x,1.04") != std::string::npos);
  CHECK(csv.find("descending,gain,on strided,predicted,gain,x,1.298") != std::string::npos);
}
