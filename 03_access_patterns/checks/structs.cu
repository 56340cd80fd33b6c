// Self-checks of structs.cu, compiled in its place where BUILD_TESTING is on.
#include "../structs.cu"

#include <doctest/doctest.h>

#include <sstream>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels) {
    double requests = 0, all_sectors = 0;
    for (const Warp& warp : accesses(k)) {
      requests += counted_pairs / 32;
      all_sectors += counted_pairs / 32 * sectors(warp);
    }
    all.push_back({k.symbol,
                   counted_parameter,
                   {expected_requests(true, requests), expected_sectors(true, all_sectors),
                    expected_requests(false, requests), expected_sectors(false, all_sectors)},
                   [&k] {
                     Pairs pairs(counted_pairs);
                     return wrong_after(pairs.task(k)) == 0;
                   }});
  }
  return all;
}

}  // namespace

TEST_CASE("structs: efficiencies of the text, and bytes by hand") {
  const double efficient[] = {0.5, 1, 1, 0.5, 1, 0.5};
  const double moved[] = {16, 16, 16, 24, 8, 24};
  const double used[] = {16, 16, 16, 8, 8, 8};
  for (size_t i = 0; i < std::size(kernels); ++i) {
    CAPTURE(std::string(kernels[i].name));
    CHECK(efficiency(kernels[i]) == efficient[i]);
    CHECK(bytes_moved_for_a_pair(kernels[i]) == moved[i]);
    CHECK(bytes_used(kernels[i].fields, 1000) == 1000 * used[i]);
    CHECK(writes_in_part(kernels[i]) == (moved[i] == 24));
    if (std::isfinite(kernels[i].then_efficient))
      CHECK(efficiency(kernels[i]) == kernels[i].then_efficient);
  }
  // y lies in the sectors that x has fetched
  const std::vector<Warp> both = accesses(kernels[aos]);
  CHECK(segments(both[0], 32) == segments(both[1], 32));
}

TEST_CASE("structs: predictions, by hand") {
  const Calibrated c{16, 10};
  const double ms[] = {16, 16, 16, 24, 10, 24};
  for (size_t i = 0; i < std::size(kernels); ++i) CHECK(predicted_ms(kernels[i], c) == ms[i]);
}

TEST_CASE("structs: one field compares the AoS with the SoA, in this order") {
  std::string printed;
  Report report("structs", &printed);
  const Run run{report, nullptr, {}};
  const auto verdicts = [&](std::initializer_list<double> each, bool in_cache) {
    std::vector<Readings> times;
    for (const double ms : each) times.push_back({std::vector<double>(15, ms)});
    printed.clear();
    judge_all(run, times, in_cache);
  };
  verdicts({2.8, 2.9, 2.8, 4, 2, 4}, false);
  CHECK(printed.find("03.13  holds  ") != std::string::npos);
  CHECK(printed.find("here 2.00x slower") != std::string::npos);
  CHECK(printed.find("03.4a  not judged") != std::string::npos);
  verdicts({2, 2, 2, 1, 1, 1}, false);
  CHECK(printed.find("03.13  does not hold") != std::string::npos);
  verdicts({2, 2, 2, 1.3, 1, 1}, false);
  CHECK(printed.find("03.13  holds, weaker") != std::string::npos);
  verdicts({2, 2, 2, 4, 2, 4}, true);
  CHECK(printed.find("03.13  not judged") != std::string::npos);
}

TEST_CASE("structs: the rate counts each field that is used once read and once written") {
  std::string printed;
  Report report("structs", &printed);
  StructTable table({report, nullptr, {}}, 1000000000);
  const Readings second{std::vector<double>(15, 1000)};
  table.add_copy(second);
  CHECK(table.limit_ms == 1000);
  for (const Kernel& k : kernels) table.add(k, {}, second);
  table.table.print();
  const char* const gbs[] = {"16", "16", "16", "8", "8", "8"};
  for (size_t i = 0; i < std::size(kernels); ++i) {
    CAPTURE(std::string(kernels[i].name));
    const size_t begin = printed.find(std::string("  ") + kernels[i].name);
    REQUIRE(begin != std::string::npos);
    std::istringstream row(printed.substr(begin, printed.find('\n', begin) - begin));
    std::vector<std::string> cells;
    for (std::string cell; row >> cell;) cells.push_back(cell);
    REQUIRE(cells.size() > 2);
    CHECK(cells[cells.size() - 2] == gbs[i]);  // behind it stands the bar
  }
}

TEST_CASE("structs: pairs fit made-up GPUs, and what is used of them is beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const size_t n = pairs_of(run);
    return Needs{Pairs::bytes_each * double(n), bytes_used(1, n)};
  });
}

TEST_CASE("structs: sizes of made-up devices lie beyond the L2") {
  std::string printed;
  Report report("structs", &printed);
  Device device;
  device.number = -1;
  device.prop.totalGlobalMem = size_t(80) << 30;
  Run run{report, &device, {}};
  const auto pairs = [&](size_t l2_mib) {
    device.prop.l2CacheSize = int(l2_mib << 20);
    return size_beyond_l2(run, "structs", size_t(1) << 24, 8, 16) >> 20;
  };
  CHECK(pairs(4) == 16);
  CHECK(pairs(60) == 32);
  CHECK(pairs(126) == 64);
  device.prop.totalGlobalMem = size_t(512) << 20;  // then they no longer do
  CHECK(pairs(126) == 16);
}

TEST_CASE("structs: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("structs: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("structs: every kernel is right at awkward sizes and leaves an unused field alone") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 257, 1009, 1000003}) {
    Pairs pairs(n);
    for (const Kernel& k : kernels) {
      CAPTURE(n);
      CAPTURE(std::string(k.name));
      const Task task = pairs.task(k);
      CHECK(wrong_after(task) == 0);
      task.check.poison();  // nothing written: all that has to be is wrong
      CHECK(task.check.wrong() == k.fields * n);
    }
  }
}

TEST_CASE("structs: a field counts as used if the result depends on it") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 1009;
  Pairs pairs(n);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    const Contents right = pairs.contents(k);
    size_t words = 0;  // read and written
    for (const bool y : {false, true}) {
      std::vector<float> in(2 * n);
      for (size_t word = 0; word < in.size(); ++word)
        in[word] = right.is_y(word) == y ? NAN : right(word);
      pairs.in.copy_from(in);
      pairs.out.poison();
      pairs.launch(k);
      const size_t wrong = pairs.wrong(right);
      CHECK((wrong == 0 || wrong == n));
      words += wrong;
    }
    fill(pairs.in, right);
    pairs.out.poison();
    pairs.launch(k);
    for (const float found : pairs.out.to_host()) words += found == found;
    CHECK(bytes_used(k.fields, n) == 4.0 * double(words));
  }
}

TEST_CASE("structs: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 31) + 77;
  if (Pairs::bytes_each * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Pairs::bytes_each * double(n)) + " of memory");
  Pairs pairs(n);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    CHECK(wrong_after(pairs.task(k)) == 0);
  }
}

TEST_CASE("structs: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("structs: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { structs(run); });
}
