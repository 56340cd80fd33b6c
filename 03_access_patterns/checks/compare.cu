// Self-checks of compare.cu, compiled in its place where BUILD_TESTING is on.
#include "../compare.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

/// Requests and sectors of a launch. A thread loads its X, and then all lanes one Y for each row.
std::vector<Expected> expected_counts(const Kernel& k, double nx, double ny) {
  const double warps = nx / 32 * std::ceil(ny / y_of_block);
  const double rows = nx / 32 * ny;  // a warp's
  if (k.format == Format::bits) {
    const double packing = nx / 1024 * std::ceil(ny / packed_y_of_block);  // warps
    const double packed = rows / 32;
    return {expected_requests(true, 32 * packing + packed),
            expected_sectors(true, 4 * 32 * packing + packed), expected_requests(false, packed),
            expected_sectors(false, 4 * packed)};
  }
  const double stores = k.format == Format::sums ? warps : rows;
  return {expected_requests(true, warps + rows), expected_sectors(true, 4 * warps + rows),
          expected_requests(false, stores), expected_sectors(false, stores * sectors_a_store(k))};
}

std::vector<CountedLaunch> counted_launches() {
  constexpr size_t nx = 4096, ny = 130;  // two whole blocks of Y, and one of two
  std::vector<CountedLaunch> all;
  for (const Kernel& k : kernels)
    all.push_back({k.symbol, "4096 X 130 Y", expected_counts(k, nx, ny), [&k] {
                     Pairs pairs(nx, ny);
                     return wrong_after(task_of(k, pairs)) == 0;
                   }});
  return all;
}

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

}  // namespace

TEST_CASE("compare: the longest run of equal bits, by hand and counted along the bits") {
  const auto run_of = [](unsigned same) {  // of ones, from the text of the number
    std::string ones;
    for (unsigned bit = 0; bit < 32; ++bit) ones += same >> bit & 1 ? '1' : '0';
    unsigned longest = 0;
    while (longest < 32 && ones.find(std::string(longest + 1, '1')) != std::string::npos) ++longest;
    return longest;
  };
  CHECK(run_of(0) == 0);
  CHECK(run_of(~0u) == 32);
  CHECK(run_of(0xf0f80001u) == 5);
  CHECK(run_of(0x80000001u) == 1);
  size_t many = 0;
  for (size_t ix = 0; ix < 100; ++ix)
    for (size_t iy = 0; iy < 100; ++iy) {
      const unsigned run = right_run(ix, iy);
      CHECK(run == run_of(~(x_at(ix) ^ y_at(iy))));
      many += run >= alike;
    }
  CHECK(many > 1500);  // both answers are frequent
  CHECK(many < 2500);
}

TEST_CASE("compare: every format holds the runs, each where it belongs") {
  constexpr size_t nx = 1024, ny = 70;
  for (const auto& [ix, iy] : std::initializer_list<std::pair<size_t, size_t>>{
           {0, 0}, {1, 0}, {1023, 0}, {0, 69}, {517, 33}, {1023, 69}}) {
    const unsigned run = right_run(ix, iy);
    const auto word = [&](Format f, size_t i) { return right_word(f, i, nx, ny); };
    CHECK(word(Format::words, iy * nx + ix) == run);
    CHECK(word(Format::scattered_words, ix * ny + iy) == run);
    CHECK(word(Format::scattered_xor, ix * ny + iy) == (x_at(ix) ^ y_at(iy)));
    CHECK((word(Format::bytes, (iy * nx + ix) / 4) >> 8 * (ix % 4) & 255) == run);
    CHECK((word(Format::bits, (iy * nx + ix) / 32) >> ix % 32 & 1) == (run >= alike));
  }
  unsigned sum = 0;
  for (size_t iy = 64; iy < 70; ++iy) sum += right_run(5, iy);
  CHECK(right_word(Format::sums, nx + 5, nx, ny) == sum);
}

TEST_CASE("compare: predictions and counts, by hand") {
  const Calibrated c{5, 15, 4};
  CHECK(predicted_ms(kernels[scattered], c) == 15);
  CHECK(predicted_ms(kernels[words], c) == 5);
  CHECK(predicted_ms(kernels[bits], c) == 5);
  CHECK(predicted_ms(kernels[words], {1, 15, 4}) == 4);
  CHECK(predicted_ms(kernels[bytes], {0.1, 15, 4}) == 1);
  CHECK(predicted_ms(kernels[bits], {0.1, 15, 4}) == 0.125);
  const std::vector<Expected> counts = expected_counts(kernels[scattered], 1024, 65);
  CHECK(counts[0].value == 32 * 2 + 32 * 65);  // 32 warps in two blocks of Y
  CHECK(counts[1].value == 32 * 2 * 4 + 32 * 65);
  CHECK(counts[2].value == 32 * 65);
  CHECK(counts[3].value == 32 * 65 * 32);
  CHECK(expected_counts(kernels[not_stored], 1024, 65)[3].value == 64 * 4);
  CHECK(expected_counts(kernels[bytes], 1024, 65)[3].value == 32 * 65);
  CHECK(expected_counts(kernels[bits], 1024, 65)[0].value == 5 * 32 + 65);
  CHECK(expected_counts(kernels[bits], 1024, 65)[3].value == 65 * 4);
}

TEST_CASE("compare: sizes follow the L2 and the memory") {
  Device device;
  device.number = -1;
  device.prop.l2CacheSize = 60 << 20;
  device.prop.totalGlobalMem = size_t(80) << 30;
  CHECK(default_sizes(false, nullptr).shrink == 12);
  CHECK(default_sizes(false, &device).nx == 124928);
  CHECK(default_sizes(false, &device).ny == 8333);
  CHECK(beyond_l2(device, 4 * default_sizes(true, &device).pairs()));
  device.prop.l2CacheSize = 400 << 20;
  CHECK(beyond_l2(device, 4 * default_sizes(true, &device).pairs()));
  device.prop.l2CacheSize = 4 << 20;
  device.prop.totalGlobalMem = size_t(2) << 30;
  CHECK(4 * default_sizes(false, &device).pairs() < double(size_t(2) << 30));
}

TEST_CASE("compare: words fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double bytes = 4 * default_sizes(run.quick, run.device).pairs();
    return Needs{bytes, bytes};
  });
}

TEST_CASE("compare: the claim compares scattered stores with none, in this order") {
  std::string printed;
  Report report("compare", &printed);
  const Run run{report, nullptr, {}};
  Times times;
  for (Readings& r : times.kernel) r = always(1);
  times.kernel[scattered] = always(20);
  judge(run, times, sizes_over(12));
  CHECK(printed.find("03.12  holds  ") != std::string::npos);
  CHECK(printed.find("20.0x slower") != std::string::npos);
  printed.clear();
  times.kernel[scattered] = always(1);
  times.kernel[not_stored] = always(20);
  judge(run, times, sizes_over(12));
  CHECK(printed.find("03.12  does not hold") != std::string::npos);
}

TEST_CASE("compare: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("compare: counted requests and sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("compare: every format is right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t nx : {1024u, 3072u, 9216u})
    for (const size_t ny : {1u, 15u, 63u, 65u, 1009u}) {
      Pairs pairs(nx, ny);
      for (const Kernel& k : kernels) {
        CAPTURE(std::to_string(nx) + " x " + std::to_string(ny) + ", " + k.name);
        CHECK(wrong_after(task_of(k, pairs)) == 0);
      }
    }
}

TEST_CASE("compare: the device's check is the host's") {
  if (skip_without_gpu()) return;
  constexpr size_t nx = 1024, ny = 67;
  Pairs pairs(nx, ny);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    pairs.results.poison();
    pairs.launch(k);
    CUDA_CHECK_LAUNCH();
    std::vector<unsigned> found = pairs.results.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < pairs.words(k); ++i)
      wrong += found[i] != right_word(k.format, i, nx, ny);
    CHECK(wrong == 0);
    ++found[3];  // two results that cancel in a total
    --found[4];
    ++found[pairs.words(k)];  // and a canary
    pairs.results.copy_from(found);
    CHECK(pairs.wrong(k) == 3);
  }
}

TEST_CASE("compare: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("compare: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible([](const Run& run) { compare(run); });
}
