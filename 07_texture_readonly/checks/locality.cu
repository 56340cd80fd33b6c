// Self-checks of locality.cu, compiled in its place where BUILD_TESTING is on.
#include "../locality.cu"

#include <doctest/doctest.h>

#include <initializer_list>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

const char* const kernels_of[3][4] = {
    {"read_rows", "read_rows_ldg", "fetch", "fetch"},
    {"stencil_rows", "", "stencil_fetch", "stencil_fetch"},
    {"interpolate_rows", "interpolate_rows_ldg", "interpolate_fetch", "interpolate_fetch"}};

Row as_row(int number, int path) { return {number, path}; }

std::vector<CountedLaunch> counted_launches() {
  constexpr unsigned n = 512;
  std::vector<CountedLaunch> all;
  for (const Row& r : rows_of(true)) {
    const Walk& walk = r.way().walk;
    const Layout layout{r.path == array_texture, n, 0};
    const Cost cost = total_cost(walk, r.way().kind, path_of(r), layout, n, 0, walk.tiles(n));
    CountedLaunch counted{kernels_of[int(r.way().kind)][r.path],
                          std::string(walk.name) + "; " + path_names[r.path],
                          {},
                          [r] {
                            Work work(n, even_stride(n));
                            return wrong_after(work.task(r)) == 0;
                          }};
    if (is_texture(r.path))
      counted.expected = fetch_counts(cost);
    else
      counted.expected = {expected_requests(true, cost.requests),
                          expected_sectors(true, cost.sectors)};
    all.push_back(counted);
  }
  return all;
}

/// An H200, as far as the model needs it.
Device made_up() {
  Device device;
  device.number = -1;
  device.sm_clock_khz = 1980000;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 132;
  device.prop.l2CacheSize = 60 << 20;
  return device;
}

Readings always(double ms) { return Readings{std::vector<double>(15, ms)}; }

bool close(double ratio, double factor) { return ratio < factor && ratio > 1 / factor; }

}  // namespace

TEST_CASE("locality: every walk has each texel once, and its taker") {
  for (const Case& way : cases)
    for (const unsigned n : {1u, 31u, 257u, 600u}) {
      CAPTURE(std::string(way.walk.name));
      CAPTURE(n);
      std::vector<int> reads(size_t(n) * n);
      size_t mistaken = 0;
      for (unsigned tile = 0; tile < way.walk.tiles(n); ++tile)
        for (unsigned i = 0; i < tile_texels; ++i) {
          const Texel p = way.walk.place(tile, i % threads, i / threads, n);
          if (p.x >= n || p.y >= n) continue;
          ++reads.at(size_t(p.y) * n + p.x);
          if (!way.walk.taker) continue;  // any thread may read any texel
          const Taker by = way.walk.taker(p, n);
          mistaken += by.tile != tile || by.tid != i % threads;
        }
      CHECK(mistaken == 0);
      size_t all = 0;
      for (const int times : reads) all += size_t(times);
      CHECK(all == size_t(n) * n);
      if (way.walk.taker) CHECK(std::count(reads.begin(), reads.end(), 1) == long(n * n));
    }
}

TEST_CASE("locality: each pass takes every tile once and by other blocks") {
  for (const unsigned tiles : {1u, 2u, 31u, 1009u, 2048u, 3000u}) {
    std::vector<unsigned> taken(tiles);
    for (unsigned block = 0; block < 5 * tiles; ++block)
      CHECK(taken.at(tile_of(block, tiles))++ == block / tiles);
  }
  CHECK(tile_of(7, 2048) != tile_of(7 + 2048, 2048));
}

TEST_CASE("locality: what is right at a place, by hand") {
  const unsigned n = 9;
  const auto v = [](unsigned x, unsigned y) { return value_of(x, y); };
  CHECK(sixteenfold(Kind::point, 3, 4, 0, n) == 16 * v(3, 4));
  CHECK(sixteenfold(Kind::bilinear, 4, 8, 0, n) == 16 * v(4, 8));  // both a multiple of four
  CHECK(sixteenfold(Kind::bilinear, 1, 2, 0, n) ==
        3 * 2 * v(1, 2) + 1 * 2 * v(2, 2) + 3 * 2 * v(1, 3) + 1 * 2 * v(2, 3));
  CHECK(sixteenfold(Kind::stencil, 0, 0, 0, n) ==
        16 * (4 * v(0, 0) + 2 * v(1, 0) + 2 * v(0, 1) + v(1, 1)));
  CHECK(sixteenfold(Kind::colour, 3, 4, 0, n) == 16 * (v(3, 4) % 16));
}

// The sectors of a request are those that were counted on an H200.
TEST_CASE("locality: what 32 texels cost, by hand") {
  const unsigned n = 8192;
  const double loads[] = {4, 32, 32, 4, 8, 4, 42, 24};
  const double array[] = {8, 16, 16, 8, 8, 8, 120, 24};
  const double even[] = {1, 32, 32, 4, 8, 2, 9, 16};
  const double odd[] = {1, 8, 8, 1, 2, 2, 9, NAN};
  const double to_l2[] = {1, 32, 4, 4, 4, 2, NAN, NAN};
  for (int i = row; i <= bilinear; ++i) {
    CAPTURE(std::string(cases[i].walk.name));
    const Cost of_loads = cost_of(as_row(i, plain), n, even_stride(n));
    CHECK(of_loads.sectors == doctest::Approx(loads[i]));
    CHECK(of_loads.passes == doctest::Approx(even[i]));
    CHECK(cost_of(as_row(i, array_texture), n, n).sectors == doctest::Approx(array[i]));
    if (std::isfinite(odd[i]))
      CHECK(cost_of(as_row(i, plain), n, odd_stride(n)).passes == doctest::Approx(odd[i]));
    if (std::isfinite(to_l2[i])) CHECK(of_loads.to_l2 == doctest::Approx(to_l2[i]));
  }
  CHECK(cost_of(as_row(column, array_texture), n, n).to_l2 == 8);  // lines of 8 x 4 texels
  CHECK(cost_of(as_row(column, pitched_texture), n, n).to_l2 == 32);
  CHECK(cost_of(as_row(stencil, array_texture), n, n).fetches == 9 * 32);
  CHECK(cost_of(as_row(bilinear, array_texture), n, n).fetches == 32);
  CHECK(std::abs(cost_of(as_row(random_reads, plain), n, n).sectors - 32) < 0.1);  // two may meet
  CHECK(odd_stride(8192) / 8 % 2 == 1);
  CHECK(odd_stride(8193) == 8200);
  CHECK(even_stride(8193) == 8320);
}

TEST_CASE("locality: predictions, by hand") {
  Device device = made_up();
  device.sm_clock_khz = 1000000;
  device.prop.multiProcessorCount = 100;  // 100 cycles in a nanosecond
  const Calibrated c{3000, 6000, 100, 160, 2000};
  const auto gbs = [&](int number, int path, const Cost& cost, From from) {
    return expected_gbs(as_row(number, path), cost, from, c, device);
  };
  Cost cost;
  cost.passes = 1;
  cost.to_l2 = 1;
  CHECK(gbs(row, plain, cost, From::memory).gbs == doctest::Approx(3000));
  CHECK(gbs(row, plain, cost, From::l2).gbs == doctest::Approx(6000));
  CHECK(gbs(random_reads, plain, cost, From::memory).gbs == doctest::Approx(160));
  cost.passes = 32;  // 0.32 ns
  CHECK(gbs(row, plain, cost, From::l2).gbs == doctest::Approx(400));
  CHECK(std::string(gbs(row, plain, cost, From::l2).limit) == "L1's banks");
  cost.to_l2 = 64;  // 0.64 ns
  CHECK(gbs(row, plain, cost, From::l2).gbs == doctest::Approx(200));
  cost = {};
  cost.fetches = 32;  // 0.08 ns of four units each
  CHECK(gbs(row, array_texture, cost, From::l2).gbs == doctest::Approx(1600));
  device.prop.major = 6;  // of eight
  CHECK(gbs(row, array_texture, cost, From::l2).gbs == doctest::Approx(3200));
  CHECK(gbs(row, array_texture, cost, From::memory).gbs == doctest::Approx(2000));
  cost = {};
  CHECK(gbs(stencil, plain, cost, From::l2).gbs == doctest::Approx(128 / 0.185));  // 74 / 4 cycles
  device.sm_clock_khz = 0;
  CHECK(std::isnan(gbs(stencil, plain, cost, From::l2).gbs));
}

// GB/s of earlier kernels on an H200, whose blocks took 16 steps of 128 threads. Its plain
// interpolation waited three times for eight loads, and its stencil issued more.
TEST_CASE("locality: the model, and what was measured on an H200") {
  const Device device = made_up();
  const unsigned n = 12288;
  struct Found {
    int number, path;
    double from_l2, from_memory;
  };
  Calibrated c{4016, 6245, NAN, 161.4, 2567};
  c.requests_ns = 635 / 128.0 * cost_of(as_row(random_reads, plain), n, n).to_l2;
  for (const Found& f : std::initializer_list<Found>{
           Found{column, plain, 610.4, 572.4}, Found{column, array_texture, 2458, 1926},
           Found{column, pitched_texture, 629, 586.3}, Found{column_aside, plain, 1021, 1021},
           Found{column_aside, array_texture, 3928, 2665},
           Found{column_aside, pitched_texture, 3918, 2410}, Found{p8x4, plain, 5443, 3692},
           Found{p8x4, array_texture, 3979, 2585}, Found{p8x4, pitched_texture, 3980, 2566},
           Found{row, array_texture, 3975, 2411}, Found{bilinear, plain, 1879, NAN},
           Found{bilinear, array_texture, 3981, 2191}, Found{bilinear, pitched_texture, 3980, 2213},
           Found{stencil, array_texture, 456.5, 424.3},
           Found{stencil, pitched_texture, 455.9, 420.3},
           Found{random_reads, array_texture, 635.5, 161.4},
           Found{random_reads, pitched_texture, 635, 161.4}}) {
    CAPTURE(as_row(f.number, f.path).name());
    const Row r{f.number, f.path};
    const Cost cost = cost_of(r, n, n);
    CHECK(close(f.from_l2 / expected_gbs(r, cost, From::l2, c, device).gbs, 1.2));
    const double beyond = f.from_memory / expected_gbs(r, cost, From::memory, c, device).gbs;
    if (std::isfinite(f.from_memory)) CHECK(close(beyond, 1.35));
  }
}

TEST_CASE("locality: all rows of a made-up device but those that calibrate are predicted") {
  const Device device = made_up();
  std::string printed;
  Report report("locality", &printed);
  const Run run{report, &device, {}};
  Calibrated c;
  size_t predicted = 0;
  for (const From from : {From::l2, From::memory}) {
    Results found{from, "somewhere", 2048, 2048, 4e9, rows_of(false), {}};
    for (const Row& r : found.rows) {
      const bool lone = r.number == random_reads && r.path == plain;
      const bool fetched = r.number == row && r.path == pitched_texture;
      found.times.push_back(always(lone ? 4 : fetched ? 2 : 1));
    }
    calibrate(c, found);
    show(run, found, c, true);
    for (const Row& r : found.rows) predicted += !calibrates(r, from);
    CHECK(report.predictions().size() == predicted);
  }
  CHECK(predicted == 2 * 27 - 5);
  CHECK(c.memory_gbs == doctest::Approx(4000));
  CHECK(c.l2_gbs == doctest::Approx(4000));
  CHECK(c.lone_gbs == doctest::Approx(1000));
  CHECK(c.fetch_gbs == doctest::Approx(2000));
  CHECK(c.requests_ns == doctest::Approx(250).epsilon(0.01));
  for (const Prediction& p : report.predictions()) CHECK(std::isfinite(p.predicted));
}

TEST_CASE("locality: each claim compares the right pair, the right way round") {
  Device device = made_up();
  std::string printed;
  Report report("locality", &printed);
  const Run run{report, &device, {}};
  Results found{From::memory, "here", 2048, 2048, 1, rows_of(true), {}};
  for (const Row& r : found.rows) {
    double ms = 1;
    if (r.number == column && r.path == plain) ms = 3;
    if (r.number == p8x4 && r.path == plain) ms = 0.5;  // loads read patches faster,
    if (r.number == p4x8 && r.path == plain) ms = 0.5;
    if (r.number == p16x16 && r.path == plain) ms = 0.5;
    if (r.number == p4x8 && r.path == read_only) ms = 2;  // but __ldg does not
    if (r.number == row && r.path == read_only) ms = 0.25;
    if (r.path == pitched_texture) ms = 1.5;
    found.times.push_back(always(ms));
  }
  Judged image = ratios_of(found);
  judge_local(run, {image, image}, "");
  CHECK(printed.find("07.3a  does not hold") != std::string::npos);
  CHECK(printed.find("07.3b  holds") != std::string::npos);
  CHECK(printed.find("here 3.00x faster") != std::string::npos);
  Contest best = best_of(found, {p8x4, p4x8, p16x16}, false);
  CHECK(best.faster.name() == "4 x 8, array");
  CHECK(best.slower.name() == "4 x 8, __ldg");
  best = best_of(found, {row, p8x4, p4x8, p16x16}, true);
  CHECK(best.faster.name() == "row, __ldg");
  CHECK(best.slower.name() == "row, array");  // the faster of both textures

  printed.clear();
  image.patches.assign(3, interval_of_median(std::vector<double>(15, 1.5)));
  image.columns = interval_of_median(std::vector<double>(15, 0.9));
  judge_local(run, {image}, "");
  CHECK(printed.find("07.3a  holds") != std::string::npos);
  CHECK(printed.find("07.3b  does not hold") != std::string::npos);
  printed.clear();
  Judged control = image;
  control.columns = interval_of_median(std::vector<double>(15, 4.0));
  judge_local(run, {image, control}, "");  // the control differs
  CHECK(printed.find("07.3b  depends") != std::string::npos);
  printed.clear();
  judge_local(run, {}, "the image is small");
  CHECK(printed.find("07.3a  not judged") != std::string::npos);
  CHECK(printed.find("the image is small") != std::string::npos);
}

TEST_CASE("locality: images fit made-up GPUs, beyond the L2, and no texture is too large") {
  check_on_made_up_devices([](const Run& run) {
    const double n = fitting_side(run, 0);
    const cudaDeviceProp& p = run.device->prop;
    CHECK(n <= p.maxTexture2D[1]);
    CHECK(n <= p.maxTexture2DLinear[1]);
    CHECK(takes_odd_rows(*run.device));
    return Needs{bytes_needed(n), 4 * n * n};
  });
}

TEST_CASE("locality: sides of made-up devices") {
  for (const size_t l2 : {size_t(4) << 20, size_t(24) << 20, size_t(60) << 20, size_t(126) << 20}) {
    Device device = made_up();
    device.prop.l2CacheSize = int(l2);
    device.prop.totalGlobalMem = size_t(15) << 30;
    std::string printed;
    Report report("locality", &printed);
    Run run{report, &device, {}};
    for (const bool quick : {false, true}) {
      run.quick = quick;
      const double n = fitting_side(run, 0);
      CHECK(beyond_l2(device, 4 * n * n));
      CHECK(bytes_needed(n) < double(device.prop.totalGlobalMem));
    }
  }
}

TEST_CASE("locality: every walk is right on every path") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1u, 31u, 257u, 1000u})
    for (const size_t stride : {even_stride(n), odd_stride(n)}) {
      if (stride == odd_stride(n) && !takes_odd_rows(Device::current())) continue;
      Work work(n, stride, 1 + n % 3);
      for (const Row& r : rows_of(true)) {
        CAPTURE(r.name());
        CAPTURE(n);
        CAPTURE(stride);
        CHECK(wrong_after(work.task(r)) == 0);
        CHECK(work.sums.canaries_stand(r.way().walk, n));
      }
    }
}

TEST_CASE("locality: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Work work(257, even_stride(257));
  const Task task = work.task({row, plain});
  const size_t count = size_t(cases[row].walk.tiles(257)) * threads;
  task.check.poison();
  CHECK(task.check.wrong() == count);  // nothing was written
  CHECK(wrong_after(task) == 0);
  const Task aside_task = work.task({column_aside, plain});
  const auto wrong = [&](Function<void()> launch) {
    return wrong_after(Task{"", launch, task.check});
  };
  CHECK(wrong([&] { aside_task.launch(); }) > 257);  // another walk
  CHECK(wrong([&] {
          task.launch();
          CUDA_CHECK(cudaMemsetAsync(work.sums.out.data() + 5, 0, sizeof(float)));
        }) == 1);
}

TEST_CASE("locality: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("locality: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("locality: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("locality: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  const Options by_default;
  check_plausible([&](const Run& run) { locality(run, by_default); });
}
