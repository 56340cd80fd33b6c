// Self-checks of stores.cu, compiled in its place where BUILD_TESTING is on.
#include "../stores.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

const char* symbol(const Access& a) { return a.write ? "write_strided" : "read_strided"; }

std::vector<CountedLaunch> counted_launches() {
  constexpr size_t n = 1 << 18;
  std::vector<CountedLaunch> all;
  for (const unsigned stride : strides)
    for (const bool write : {true, false}) {
      const Access a{write, stride};
      const double requests = double(a.words(n)) / 32;
      const double touched = requests * sectors_a_request(stride);
      all.push_back({symbol(a),
                     "stride " + std::to_string(stride),
                     {expected_requests(!write, requests), expected_sectors(!write, touched)},
                     [a] {
                       Array array(n);
                       return wrong_after(array.task(a)) == 0;
                     }});
    }
  return all;
}

}  // namespace

TEST_CASE("stores: words fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double n = double(words_of(run));
    return Needs{Array::bytes_each * n, 4 * n};
  });
}

TEST_CASE("stores: sectors and predictions, by hand") {
  const Calibrated c{8, 4};
  const double reads[] = {8, 8, 8, 8, 8, 4};
  const double writes[] = {4, 12, 12, 12, 10, 9};
  for (size_t i = 0; i < std::size(strides); ++i) {
    CHECK(sectors_a_request(strides[i]) == std::min(4 * strides[i], 32u));
    CHECK(predicted_ms({false, strides[i]}, c) == reads[i]);
    CHECK(predicted_ms({true, strides[i]}, c) == writes[i]);
  }
  CHECK(Access{true, 8}.words(1025) == 129);
  CHECK(Access{true, 1}.blocks(2049) == 2);
}

TEST_CASE("stores: the rate counts the words that are touched, and no others") {
  std::string printed;
  Report report("stores", &printed);
  StrideTable table({report, nullptr, {}}, 80000000000);
  const Readings second{std::vector<double>(15, 1000)};
  for (const bool write : {false, true})
    for (const unsigned stride : {1u, 8u}) table.add({write, stride}, {}, second);
  table.table.print();
  const auto row = [&](const std::string& name) {
    const size_t begin = printed.find("  " + name + " ");
    REQUIRE(begin != std::string::npos);
    return printed.substr(begin, printed.find('\n', begin) - begin);
  };
  for (const std::string way : {"read", "write"}) {
    CAPTURE(way);
    CHECK(row(way + ", 1").find(" 320 ") != std::string::npos);  // GB/s
    CHECK(row(way + ", 1").find(" 100% ") != std::string::npos);
    CHECK(row(way + ", 8").find(" 40 ") != std::string::npos);
  }
}

TEST_CASE("stores: the claims compare a word alone with a word in its row, the right way round") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 1 << 20;
  std::string printed;
  Report report("stores", &printed);
  const Run run{report, &device, {}};
  const auto verdicts = [&](double read_apart, double write_apart, size_t n) {
    const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
    const Pair pairs[] = {{always(8), always(read_apart)}, {always(8), always(write_apart)}};
    printed.clear();
    judge_writes(run, pairs, n);
  };
  verdicts(8, 16, 1 << 24);  // an eighth of the words in twice the time
  CHECK(printed.find("03.10a holds ") != std::string::npos);
  CHECK(printed.find("16.0x slower") != std::string::npos);
  CHECK(printed.find("reads lose 8.00x, writes 16.0x") != std::string::npos);
  CHECK(printed.find("03.10b holds ") != std::string::npos);  // 8.4 GB/s: a quarter is allowed
  verdicts(8, 16, 1 << 22);
  CHECK(printed.find("03.10b no longer") != std::string::npos);
  verdicts(8, 1, 1 << 24);
  CHECK(printed.find("03.10a does not hold") != std::string::npos);
  verdicts(8, 16, 1 << 19);
  CHECK(printed.find("03.10a not judged") != std::string::npos);
  CHECK(printed.find("03.10b not judged") != std::string::npos);
}

TEST_CASE("stores: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("stores: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("stores: reads and writes are right at awkward sizes and strides") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1025, 100003, 5000011}) {
    Array array(n);
    for (const unsigned stride : {1u, 2u, 7u, 8u, 32u, 33u})
      for (const bool write : {false, true}) {
        CAPTURE(n);
        CAPTURE(stride);
        CAPTURE(write);
        const Access a{write, stride};
        CHECK(wrong_after(array.task(a)) == 0);
        array.poison(a);  // nothing launched
        const size_t results = write ? a.words(n) : a.blocks(n) * size_t(threads);
        CHECK(array.wrong(a) >= results - results / 100);  // a sum may be ~0 by chance
      }
  }
}

TEST_CASE("stores: the check finds a word left out and another read twice") {
  if (skip_without_gpu()) return;
  Array array(5000);
  const Access read{false, 2};
  array.poison(read);
  array.launch(read);
  std::vector<unsigned> sums = array.sums.to_host();
  sums[7] += scrambled(2 * 7) - scrambled(2 * 8);
  array.sums.copy_from(sums);
  CHECK(array.wrong(read) == 1);
}

TEST_CASE("stores: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("stores: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { stores(run); });
}
