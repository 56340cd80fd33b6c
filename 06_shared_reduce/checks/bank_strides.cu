// Self-checks of bank_strides.cu, compiled in its place where BUILD_TESTING is on.
#include "../bank_strides.cu"

#include <numeric>

#include "../../framework/common/checks/made_up_devices.hpp"
#include "../../framework/common/checks/standard.hpp"

TEST_CASE(
    "bank_strides: the model gives the published examples and serves a word wanted twice once") {
  const int examples[][3] = {{4, 1, 1}, {4, 2, 2},  {4, 3, 1},  {4, 8, 8},  {4, 32, 32}, {4, 33, 1},
                             {8, 1, 2}, {8, 8, 16}, {16, 1, 4}, {16, 2, 8}, {16, 8, 32}};
  for (const auto& [bytes, stride, expected] : examples) {
    CHECK(wavefronts_at(bytes, stride) == expected);
    CHECK(predicted_cycles(bytes, stride) == expected);
  }
  for (const unsigned stride : strides(true)) {
    CHECK(wavefronts_at(4, stride) == int(std::gcd(stride, 32u)));
    for (unsigned load = 1; load < loads_per_turn; ++load)  // all lanes have moved on by as much
      for (const Word& word : words)
        CHECK(wavefronts_at(word.bytes, stride, load) == wavefronts_at(word.bytes, stride));
  }
  LaneWords lanes;
  for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = lane / 2 * 32;  // 16 words of bank 0
  CHECK(wavefronts(lanes) == 16);
  for (unsigned lane = 1; lane < 32; ++lane) lanes[lane] = idle;
  CHECK(wavefronts(lanes) == 1);
  lanes[0] = idle;
  CHECK(wavefronts(lanes) == 0);
}

TEST_CASE("bank_strides: the rows are strides from 1 to 33, and the last lane stays inside") {
  CHECK(strides(true).size() == max_stride);
  for (const bool full : {false, true})
    for (const unsigned stride : strides(full)) {
      CHECK(stride >= 1);
      CHECK(word_of(31, stride, loads_per_turn - 1) < word_count);
    }
  for (const unsigned stride : claimed) CHECK(wavefronts_at(4, stride) == int(stride));
}

TEST_CASE("bank_strides: loads of a launch, and a thread's sum, by hand") {
  CHECK(Reading{.threads = 96, .turns = 5}.loads() == 3 * 5 * 8);
  const SumOf sum{8, 3, 5};
  unsigned once = 0;
  for (unsigned i = 12; i < 28; ++i) once += scrambled(i);  // words 6 to 13, of 8 bytes each
  CHECK(sum.of_thread(2) == 5 * once);
  CHECK(sum.of_thread(34) == sum.of_thread(2));
  CHECK(sum.of_thread(3) != sum.of_thread(2));
}

TEST_CASE("bank_strides: times in turn are predicted by wavefronts, from stride 1") {
  const std::vector<Device> gpus = made_up_devices();
  std::string printed;
  Report report("bank_strides", &printed);
  report.heading(&gpus[0], "");
  MadeUpMachine machine(&gpus[0], [](const Ref& ref, const std::string&) {
    return 0.3 * ref.at;  // as long as a stride of a power of two has to take
  });
  carry_out(bank_strides_experiment, Run{report, &gpus[0], {}}, machine);
  int predicted = 0;
  for (const Prediction& p : report.predictions()) {
    if (p.unit != "ms") continue;
    CHECK(p.predicted == doctest::Approx(p.measured));
    ++predicted;
  }
  CHECK(predicted == 4);
  for (const Record& r : report.records())
    if (r.kind == "calibration") CHECK(r.at == "1");
}

TEST_CASE("bank_strides: what decides each part") {
  const auto doubling = [](double at_2, double at_4, double at_8, double at_16) {
    return verdict_if(bank_strides_experiment, "06.3a",
                      {{claimed_row(2), at_2},
                       {claimed_row(4), at_4},
                       {claimed_row(8), at_8},
                       {claimed_row(16), at_16}});
  };
  CHECK(doubling(1.98, 3.9, 7.8, 15.5) == "holds");
  CHECK(doubling(1, 1, 1, 1) == "does not hold");
  CHECK(doubling(2, 4, 4, 4) == "depends");  // two of four
  CHECK(doubling(0.5, 0.25, 0.125, 0.0625) == "does not hold");
  CHECK(doubling(16, 8, 4, 2) == "does not hold");
}

EXPERIMENT_CHECKS(bank_strides)
