// Self-checks of locality_kinds.cu, compiled in its place where BUILD_TESTING is on.
#include "../locality_kinds.cu"

#include <doctest/doctest.h>

#include "../../common/checks/counts.hpp"
#include "../../common/checks/made_up_devices.hpp"

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  const auto add = [&](const char* kernel, const Walk& walk, Kind kind, int path, unsigned n,
                       size_t row_words, Function<bool()> launch) {
    const Path by = path == read_only ? Path::loads : Path::fetches;
    const Layout layout{path == array_texture, row_words, row_words * n};
    const Cost cost = total_cost(walk, kind, by, layout, n, 0, walk.tiles(n));
    CountedLaunch counted{kernel, std::string(walk.name) + "; " + path_names[path], {}, launch};
    if (by == Path::loads)
      counted.expected = {expected_requests(true, cost.requests),
                          expected_sectors(true, cost.sectors)};
    else
      counted.expected = fetch_counts(cost);
    all.push_back(counted);
  };
  for (const Case<Colours>& way : colour_cases)
    for (int path = 0; path < colour_paths; ++path)
      add(path == read_only ? "colours_ldg" : "colours_fetch", way.walk, Kind::colour, path, 512,
          512, [&way, path] {
            const Colours colours(512);
            Sums sums(size_t(way.walk.tiles(512)) * threads);
            return wrong_after(task_of(way, path, colours, sums, Kind::colour)) == 0;
          });
  for (const Case<Volume>& way : volume_cases)
    for (int path = 0; path < volume_paths; ++path)
      add(path == read_only ? "volume_ldg" : "volume_fetch", way.walk, Kind::point, path, 64, 64,
          [&way, path] {
            const Volume volume(64);
            Sums sums(size_t(way.walk.tiles(64)) * threads);
            return wrong_after(task_of(way, path, volume, sums, Kind::point)) == 0;
          });
  return all;
}

}  // namespace

TEST_CASE("locality: every walk through a volume has each texel once, and its taker") {
  for (const Case<Volume>& way : volume_cases)
    for (const unsigned n : {1u, 7u, 33u, 40u}) {
      CAPTURE(std::string(way.walk.name));
      CAPTURE(n);
      std::vector<int> reads(size_t(n) * n * n);
      size_t mistaken = 0;
      for (unsigned tile = 0; tile < way.walk.tiles(n); ++tile)
        for (unsigned i = 0; i < tile_texels; ++i) {
          const Texel p = way.walk.place(tile, i % threads, i / threads, n);
          if (p.x >= n || p.y >= n || p.z >= n) continue;
          ++reads.at((size_t(p.z) * n + p.y) * n + p.x);
          const Taker by = way.walk.taker(p, n);
          mistaken += by.tile != tile || by.tid != i % threads;
        }
      CHECK(mistaken == 0);
      CHECK(std::count(reads.begin(), reads.end(), 1) == long(reads.size()));
    }
}

TEST_CASE("locality: what 32 texels of a volume cost, by hand") {
  const auto cost = [](int number, int path) {
    return cost_of(volume_cases[number], path, Kind::point, 480, 480);
  };
  // rows and planes begin in the same bank
  CHECK(cost(0, read_only).passes == 4);
  CHECK(cost(1, read_only).passes == 8);
  CHECK(cost(2, read_only).passes == 32);
  CHECK(cost(0, read_only).sectors == 4);
  CHECK(cost(1, read_only).sectors == 8);
  CHECK(cost(2, read_only).sectors == 32);
  CHECK(cost(2, read_only).to_l2 == 4);        // eight warps share what comes
  CHECK(cost(0, array_texture).sectors == 8);  // 4 x 2 x 1 texels of each of eight requests
  CHECK(cost(2, array_texture).sectors == 32);
}

TEST_CASE("locality: of several textures the one that leads is measured again") {
  const auto always = [](double ms) { return Readings{std::vector<double>(15, ms)}; };
  const std::vector<Readings> times{always(2), always(3), always(1.9),
                                    always(4), always(3), always(5)};
  const Contest best = best_of(times, colour_paths);
  CHECK(best.number == 1);
  CHECK(best.texture == array_texture);
}

TEST_CASE("locality: volumes fit made-up GPUs, beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const double n = side_of_volume(run);
    return Needs{volume_bytes(n), 4 * n * n * n};
  });
}

TEST_CASE("locality: volumes of made-up devices are beyond their L2") {
  for (const size_t l2 : {size_t(4) << 20, size_t(24) << 20, size_t(60) << 20, size_t(126) << 20})
    for (const bool quick : {false, true}) {
      Device device;
      device.number = -1;
      device.prop.l2CacheSize = int(l2);
      device.prop.totalGlobalMem = size_t(15) << 30;
      std::string printed;
      Report report("locality", &printed);
      Run run{report, &device, {}};
      run.quick = quick;
      const double n = side_of_volume(run);
      CHECK(beyond_l2(device, 4 * n * n * n));
    }
}

TEST_CASE("locality: colours and volumes are right at awkward sides") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1u, 31u, 257u, 600u}) {
    const Colours colours(n);
    Sums sums(most_threads(colour_cases, std::end(colour_cases), n));
    for (const Case<Colours>& way : colour_cases)
      for (int path = 0; path < colour_paths; ++path) {
        CAPTURE(std::string(way.walk.name));
        CAPTURE(path);
        CAPTURE(n);
        CHECK(wrong_after(task_of(way, path, colours, sums, Kind::colour)) == 0);
        CHECK(sums.canaries_stand(way.walk, n));
      }
  }
  for (const unsigned n : {1u, 31u, 65u}) {
    const Volume volume(n);
    Sums sums(most_threads(volume_cases, std::end(volume_cases), n));
    for (const Case<Volume>& way : volume_cases)
      for (int path = 0; path < volume_paths; ++path) {
        CAPTURE(std::string(way.walk.name));
        CAPTURE(path);
        CAPTURE(n);
        CHECK(wrong_after(task_of(way, path, volume, sums, Kind::point)) == 0);
        CHECK(sums.canaries_stand(way.walk, n));
      }
  }
}

TEST_CASE("locality: kinds: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("locality: kinds: counted sectors of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("locality: kinds: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}
