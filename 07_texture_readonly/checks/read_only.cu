// Self-checks of read_only.cu, compiled in its place where BUILD_TESTING is on.
#include "../read_only.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"
#include "../../common/counters.hpp"

namespace {

/// Plain loads and __ldg in the four orders.
std::vector<CountedLaunch> counted_launches() {
  constexpr size_t n = 64 * block_words;
  std::vector<CountedLaunch> all;
  for (int order = 0; order < order_count; ++order)
    for (const int variant : {int(plain_pointers), int(by_ldg)})
      all.push_back({variants[variant].kernel,
                     order_names[order],
                     {expected_requests(true, n / 32),
                      expected_sectors(true, sectors_of(orders[order], n, n / 32))},
                     [order, variant] {
                       Work work(n);
                       return wrong_after(work.task(variants[variant], order)) == 0;
                     }});
  return all;
}

constexpr size_t awkward[] = {1, 31, 257, 2047, 2049, 65537, 1000003};

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

/// Whether the words behind the sums are still poison: no kernel wrote past its array.
bool canaries_stand(const Work& work) {
  std::vector<unsigned> behind(Work::canaries);
  device_memory::to_host(behind.data(), work.out.data() + work.right.size(),
                         Work::canaries * sizeof(unsigned));
  return std::count(behind.begin(), behind.end(), ~0u) == long(Work::canaries);
}

}  // namespace

TEST_CASE("read_only: every order stays in bounds") {
  for (const size_t n : awkward)
    for (size_t i = 0; i < n; ++i) {
      const size_t block = i / block_words;
      if (nearby(i, n) / block_words != block || nearby(i, n) >= n) FAIL(n, ": nearby ", i);
      if (scattered(i, n) >= n) FAIL(n, ": scattered ", i);
      if (broadcast(i, n) != i / 32 || coalesced(i, n) != i) FAIL(n, ": ", i);
    }
  CHECK(scattered(0xffffffffu, size_t(1) << 32) < size_t(1) << 32);
}

TEST_CASE("read_only: sectors a request, by hand") {
  const size_t n = 1 << 20;
  CHECK(sectors_a_request(coalesced, n) == 4);
  CHECK(sectors_a_request(broadcast, n) == 1);
  // 32 words, each in one of 256 sectors by chance, lie in 256 (1 - (255/256)^32) = 30.12 of them
  CHECK(std::abs(sectors_a_request(nearby, n) - 30.12) < 0.2);
  CHECK(sectors_a_request(scattered, n) > 31.9);
}

TEST_CASE("read_only: predictions, by hand") {
  const Calibrated c{{1, 2, 3, 4}, 5};
  CHECK(predicted_ms(by_ldg, anywhere, c) == 4);
  CHECK(predicted_ms(by_ldg, within_8_kib, c) == 3);
  CHECK(predicted_ms(no_line, within_8_kib, c) == 5);
  CHECK(predicted_ms(no_line, by_neighbours, c) == 1);
  CHECK(predicted_ms(past_l1, by_warps, c) == 2);
  CHECK(std::isnan(predicted_ms(store, by_warps, c)));
  CHECK(predicted_ms(store + 1, by_warps, c) == 2);  // under the promise
}

// Milliseconds of earlier kernels on an H200, which computed more around each load.
TEST_CASE("read_only: the model, and what was measured on an H200") {
  const Calibrated c{{0.0744, 0.0686, 0.1266, 1.543}, 0.3528};
  const double found[][order_count] = {
      {0.0744, 0.0686, 0.1266, 1.543}, {0.0745, 0.0687, 0.1261, 1.543},
      {0.0740, 0.0688, 0.1261, 1.543}, {0.0744, 0.0685, 0.1259, 1.543},
      {0.0743, 0.0688, 0.3528, 1.543}, {0.0739, 0.0688, 0.3528, 1.576}};
  for (int variant = 0; variant < 6; ++variant)
    for (int order = 0; order < order_count; ++order)
      CHECK(found[variant][order] ==
            doctest::Approx(predicted_ms(variant, order, c)).epsilon(0.03));
}

TEST_CASE("read_only: claims compare the right pairs, the right way round") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("read_only", &printed);
  const Run run{report, &device, {}};
  Times times(order_count * variant_count, always(1));
  times[anywhere * variant_count + plain_pointers] = always(1.5);
  times[within_8_kib * variant_count + by_ldg] = always(2);
  judge_scattered(run, times, true);
  CHECK(printed.find("07.1   holds ") != std::string::npos);
  CHECK(printed.find("here 1.50x faster") != std::string::npos);
  CHECK(printed.find("2.00x slower") != std::string::npos);
  printed.clear();
  judge_scattered(run, times, false);
  CHECK(printed.find("07.1   not judged") != std::string::npos);

  const std::string nc = "\n ld.global.nc.f32 %f1, [%rd1];", any = "\n ld.global.f32 %f1, [%rd1];";
  const auto entry = [](const char* name, const std::string& body) {
    return std::string(".visible .entry _Z12read_only_cu") + name + "(\n{" + body + "\n}\n";
  };
  printed.clear();
  judge_path(run, entry("3ldg", nc + nc) + entry("14const_restrict", nc + any));
  CHECK(printed.find("07.2a  holds") != std::string::npos);
  CHECK(printed.find("07.2b  does not hold") != std::string::npos);
  CHECK(printed.find("1 of 2 compiled loads") != std::string::npos);
  printed.clear();
  judge_path(run, "");
  CHECK(printed.find("07.2a  not judged") != std::string::npos);
  CHECK(compiled(entry("4ldcg", any) + entry("3ldg", nc), "ldg").read_only == 1);
}

TEST_CASE("read_only: squares fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double side = double(side_for(run, 0));
    return Needs{bytes_needed(side), 4 * side * side};
  });
}

TEST_CASE("read_only: all rows of a made-up device but those that calibrate are predicted") {
  Device device;
  device.number = -1;
  std::string printed;
  Report report("read_only", &printed);
  const Run run{report, &device, {}};
  Times times;
  for (int i = 0; i < order_count * variant_count; ++i) times.push_back(always(1 + 0.1 * i));
  show(run, times);
  CHECK(report.predictions().size() == 32 - 5 - 4);  // 4 are not predicted
}

TEST_CASE("read_only: the loads of this very program") {
#ifdef __CUDACC_DEBUG__
  if (true) return skip_self_check("code for the debugger has its loops rolled up");
#endif
  const std::string ptx = own_ptx();
  if (ptx.empty()) return skip_self_check("no cuobjdump on the path, or no PTX in the program");
  for (const Variant& v : variants) {
    CAPTURE(std::string(v.name));
    CHECK(compiled(ptx, v.kernel).loads == turns);
  }
  CHECK(compiled(ptx, "ldg").read_only == turns);
  CHECK(compiled(ptx, "const_restrict").read_only == turns);
  CHECK(compiled(ptx, "in_struct").read_only < turns);
}

TEST_CASE("read_only: every way of reading is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : awkward) {
    Work work(n);
    for (int order = 0; order < order_count; ++order)
      for (const Variant& v : variants) {
        CAPTURE(std::string(v.name));
        CAPTURE(order);
        CAPTURE(n);
        CHECK(wrong_after(work.task(v, order)) == 0);
        CHECK(canaries_stand(work));
      }
  }
}

TEST_CASE("read_only: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Work work(2049);
  const Task task = work.task(variants[plain_pointers], anywhere);
  task.check.poison();
  CHECK(task.check.wrong() == work.right.size());
  CHECK(wrong_after(task) == 0);
  CHECK(work.wrong(by_neighbours) > 100);  // another order
  CUDA_CHECK(cudaMemset(work.out.data() + 7, 0, sizeof(float)));
  CHECK(task.check.wrong() == 1);
}

TEST_CASE("read_only: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("read_only: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("read_only: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("read_only: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { read_only(run, by_default); });
}
