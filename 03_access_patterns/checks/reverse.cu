// Self-checks of reverse.cu, compiled in its place where BUILD_TESTING is on.
#include "../reverse.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  constexpr size_t n = 65536;
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back(
        {k.symbol,
         "65536 words",
         {expected_requests(true, n / 32), expected_sectors(true, n / 32 * sectors(load())),
          expected_requests(false, n / 32), expected_sectors(false, n / 32 * sectors(store(k)))},
         [&k] {
           Words words(n);
           return wrong_after(words.task(k)) == 0;
         }});
  return all;
}

}  // namespace

TEST_CASE("reverse: the order of lanes cost sixteenfold once and costs nothing now") {
  CHECK(under(Rule::in_order, store(kernels[by_shared])).count() == 2);   // one for each half-warp
  CHECK(under(Rule::in_order, store(kernels[by_global])).count() == 32);  // each lane for itself
  CHECK(under(Rule::any_order, store(kernels[by_global])).count() == 2);  // free from 1.2 on
  for (const Kernel& k : kernels) {
    CHECK(sectors(store(k)) == 4);
    CHECK(predicted_ms(k, 3) == 3);
  }
}

TEST_CASE("reverse: words fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = Words::bytes_each * double(words_of(run));
    return Needs{bytes, bytes};
  });
}

TEST_CASE("reverse: the claim compares global with shared, in this order") {
  std::string printed;
  Report report("reverse", &printed);
  const Run run{report, nullptr, {}};
  const Readings fast{std::vector<double>(15, 1.0)};
  const Readings slow{std::vector<double>(15, 2.0)};
  judge_detour(run, {fast, slow, fast}, false);
  CHECK(printed.find("03.6   holds ") != std::string::npos);
  CHECK(printed.find("here 2.00x faster") != std::string::npos);
  printed.clear();
  judge_detour(run, {fast, fast, slow}, false);
  CHECK(printed.find("03.6   no longer") != std::string::npos);
  printed.clear();
  judge_detour(run, {fast, slow, fast}, true);
  CHECK(printed.find("03.6   not judged") != std::string::npos);
}

TEST_CASE("reverse: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("reverse: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("reverse: every kernel is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 255, 256, 257, 511, 1009, 1000003}) {
    CAPTURE(n);
    Words words(n);
    std::vector<unsigned> forth(n);
    for (size_t i = 0; i < n; ++i) forth[i] = scrambled(i);
    const std::vector<unsigned> back(forth.rbegin(), forth.rend());
    for (const Kernel& k : kernels) {
      CAPTURE(std::string(k.name));
      CHECK(wrong_after(words.task(k)) == 0);
      std::vector<unsigned> found = words.out.to_host();
      found.resize(n);
      CHECK(found == (k.turns ? back : forth));
    }
    if (n > 1) {  // reversed is not copied, and nothing is not reversed: the check can fail
      CHECK(words.task(kernels[copied]).check.wrong() > n / 2);
      words.out.poison();
      CHECK(words.task(kernels[by_global]).check.wrong() == n);
    }
  }
}

TEST_CASE("reverse: more than 2^32 words" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  constexpr size_t n = (size_t(1) << 32) + 77;
  if (Words::bytes_each * double(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Words::bytes_each * double(n)) + " of memory");
  Words words(n);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    CHECK(wrong_after(words.task(k)) == 0);
  }
}

TEST_CASE("reverse: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("reverse: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { reverse(run); });
}
