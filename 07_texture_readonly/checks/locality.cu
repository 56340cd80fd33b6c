// Self-checks of locality.cu, compiled in its place where BUILD_TESTING is on.
#include "../locality.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

// ---- from texels to threads, by the walks' descriptions, where the kernels go the other way ----

/// A block and its thread.
struct Taker {
  unsigned tile, tid;
};

/// Who reads a texel, of walks that read each texel once.
Taker taker_of(const std::string& walk, Texel p, unsigned n) {
  const auto tile = [&](unsigned wide, unsigned high) {
    return p.y / high * parts(n, wide) + p.x / wide;
  };
  if (walk == "row") return {p.y * parts(n, 2048) + p.x / 2048, p.x % 256};
  if (walk == "column") return {p.y / 2048 * n + p.x, p.y % 256};
  if (walk == "aside") return {tile(8, 256), p.y % 256};
  if (walk == "8x4" || walk == "bilinear")
    return {tile(32, 64), (p.y / 4 % 2 * 4 + p.x / 8 % 4) * 32 + p.y % 4 * 8 + p.x % 8};
  if (walk == "4x8") return {tile(32, 64), p.x / 4 % 8 * 32 + p.y % 8 * 4 + p.x % 4};
  if (walk == "16x16") return {tile(16, 128), p.y % 16 * 16 + p.x % 16};
  if (walk == "stencil") return {tile(32, 64), p.y % 8 * 32 + p.x % 32};
  const unsigned deep = (p.z / 32 * parts(n, 8) + p.y / 8) * parts(n, 8) + p.x / 8;
  if (walk == "8x2x2") {
    const unsigned warp = p.z / 2 % 2 * 4 + p.y / 2 % 4;
    return {deep, warp * 32 + p.z % 2 * 16 + p.y % 2 * 8 + p.x % 8};
  }
  if (walk == "4x4x2") {
    const unsigned warp = p.z / 2 % 2 * 4 + p.y / 4 % 2 * 2 + p.x / 4 % 2;
    return {deep, warp * 32 + p.z % 2 * 16 + p.y % 4 * 4 + p.x % 4};
  }
  REQUIRE(walk == "depth");
  return {deep, p.x % 8 * 32 + p.z % 32};
}

const Case& case_of(std::string_view key, Texels texels = Texels::floats) {
  for (const Case& c : cases)
    if (c.key == key && c.texels == texels) return c;
  throw std::logic_error("no walk " + std::string(key));
}
Cost cost_of(const char* key, Path path, size_t stride = 8192, Texels texels = Texels::floats) {
  const Case& c = case_of(key, texels);
  const unsigned n = texels == Texels::volume ? 480 : 8192;
  return cost_of(c.walk, c.kind, path, n, stride);
}

}  // namespace

TEST_CASE("locality: every walk reads each texel once, by the thread that is to, or four times") {
  for (const Case& c : cases)
    for (const unsigned n : {1u, 7u, 33u, 257u}) {
      if (c.texels == Texels::volume && n > 33) continue;
      CAPTURE(std::string(c.words));
      CAPTURE(n);
      const unsigned deep = c.walk.deep ? n : 1;
      const bool any = c.walk.wide == 0, once = c.walk.reads == 1 && !any;
      std::vector<unsigned> times(size_t(n) * n * deep);
      size_t mistaken = 0, all = 0;
      for (unsigned tile = 0; tile < c.walk.tiles(n); ++tile)
        for (unsigned i = 0; i < tile_reads; ++i) {
          const Texel p = c.walk.place(tile, i % threads, i / threads, n);
          if (p.x >= n || p.y >= n || p.z >= deep) continue;
          ++times[(size_t(p.z) * n + p.y) * n + p.x], ++all;
          if (!once) continue;
          const Taker by = taker_of(c.key, p, n);
          mistaken += by.tile != tile || by.tid != i % threads;
        }
      CHECK(mistaken == 0);
      if (any) CHECK(all == times.size());
      if (once) CHECK(std::ranges::count(times, 1u) == long(times.size()));
      if (c.walk.reads != 4) continue;
      // four patches meet in each texel, but two at the image's left and upper edges, one in both
      const unsigned wide = unsigned(std::string(c.key) == "overlap_8x4"   ? 8
                                     : std::string(c.key) == "overlap_4x8" ? 4
                                                                           : 16);
      for (unsigned y = 0; y < n; ++y)
        for (unsigned x = 0; x < n; ++x)
          mistaken +=
              times[size_t(y) * n + x] != (x < wide / 2 ? 1u : 2u) * (y < 16 / wide ? 1 : 2);
      CHECK(mistaken == 0);
    }
}

TEST_CASE("locality: the lanes of a patch that overlaps") {
  const auto place = [](const char* walk, unsigned tid, unsigned step) {
    const Texel p = case_of(walk).walk.place(0, tid, step, 1000);
    return std::vector<unsigned>{p.x, p.y};
  };
  using Place = std::vector<unsigned>;
  CHECK(place("overlap_8x4", 31, 0) == Place{7, 3});
  CHECK(place("overlap_8x4", 32, 0) == Place{4, 0});  // the next warp, half a patch on
  CHECK(place("overlap_8x4", 0, 1) == Place{0, 2});
  CHECK(place("overlap_4x8", 33, 2) == Place{3, 8});
  CHECK(place("overlap_16x2", 16, 3) == Place{0, 4});
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

// The sectors of loads and of arrays, by requests, are those that were counted on an H200.
TEST_CASE("locality: what 32 texels cost, by hand") {
  const struct {
    const char* walk;
    double loads, array;  // sectors
    double even, odd;     // wavefronts
    double to_l2;
  } known[] = {{"row", 4, 8, 1, 1, 1},          {"column", 32, 16, 32, 8, 32},
               {"aside", 32, 16, 32, 8, 4},     {"8x4", 4, 8, 4, 1, 4},
               {"4x8", 8, 8, 8, 2, 4},          {"16x16", 4, 8, 2, 2, 2},
               {"stencil", 42, 120, 9, 9, NAN}, {"bilinear", 24, 24, 16, NAN, NAN}};
  for (const auto& k : known) {
    CAPTURE(std::string(k.walk));
    const Cost loads = cost_of(k.walk, Path::loads);
    CHECK(loads.sectors == doctest::Approx(k.loads));
    CHECK(loads.wavefronts == doctest::Approx(k.even));
    CHECK(cost_of(k.walk, Path::array).sectors == doctest::Approx(k.array));
    if (std::isfinite(k.odd))
      CHECK(cost_of(k.walk, Path::loads, odd_stride(8192)).wavefronts == doctest::Approx(k.odd));
    if (std::isfinite(k.to_l2)) CHECK(loads.to_l2 == doctest::Approx(k.to_l2));
  }
  CHECK(cost_of("column", Path::array).to_l2 == 8);  // lines of 8 x 4 texels
  CHECK(cost_of("column", Path::pitched).to_l2 == 32);
  CHECK(cost_of("stencil", Path::array).fetches == 9 * 32);
  CHECK(cost_of("bilinear", Path::array).fetches == 32);
  CHECK(std::abs(cost_of("random", Path::loads).sectors - 32) < 0.1);  // two may meet
  CHECK(odd_stride(8192) / 8 % 2 == 1);
  CHECK(odd_stride(8193) == 8200);
  CHECK(even_stride(8193) == 8320);
}

// Four patches for 32 texels, every second of which begins in the middle of a sector of rows.
TEST_CASE("locality: what 32 texels of overlapping patches cost, by hand") {
  CHECK(cost_of("overlap_8x4", Path::loads).requests == 4);
  CHECK(cost_of("overlap_8x4", Path::loads).sectors == 4 * (4 + 8) / 2.0);
  CHECK(cost_of("overlap_8x4", Path::loads).wavefronts == 4 * 4);
  CHECK(cost_of("overlap_8x4", Path::array).fetches == 4 * 32);
  CHECK(cost_of("overlap_8x4", Path::array).sectors == 4 * 8);  // 4 lanes, half a sector
  // 4 texels, each second patch at 2 and 6 of 8: the latter cross into the next sector
  CHECK(cost_of("overlap_4x8", Path::loads).sectors == 4 * (8 * 3 + 16) / 4.0);
  CHECK(cost_of("overlap_16x2", Path::loads).sectors == 4 * 4);
  CHECK(cost_of("overlap_16x2", Path::loads).wavefronts == 4 * 2);
}

TEST_CASE("locality: what 32 texels of a volume cost, by hand") {
  const auto cost = [](const char* walk, Path path) {
    return cost_of(walk, path, 480, Texels::volume);
  };
  // rows and planes begin in the same bank
  CHECK(cost("8x2x2", Path::ldg).wavefronts == 4);
  CHECK(cost("4x4x2", Path::ldg).wavefronts == 8);
  CHECK(cost("depth", Path::ldg).wavefronts == 32);
  CHECK(cost("8x2x2", Path::ldg).sectors == 4);
  CHECK(cost("4x4x2", Path::ldg).sectors == 8);
  CHECK(cost("depth", Path::ldg).sectors == 32);
  CHECK(cost("depth", Path::ldg).to_l2 == 4);      // eight warps share what comes
  CHECK(cost("8x2x2", Path::array).sectors == 8);  // 4 x 2 x 1 texels of each of eight requests
  CHECK(cost("depth", Path::array).sectors == 32);
}

TEST_CASE("locality: predictions, by hand") {
  Device device;
  device.sm_clock_khz = 1000000;
  device.prop.major = 9;
  device.prop.multiProcessorCount = 100;  // 100 cycles in a nanosecond
  const Calibrated c{3000, 6000, 100, 160, 2000};
  const auto gbs = [&](const char* walk, Path path, const Cost& cost, bool in_l2) {
    return predicted_gbs(case_of(walk), path, cost, in_l2, c, device);
  };
  Cost cost;
  cost.wavefronts = 1, cost.to_l2 = 1;
  CHECK(gbs("row", Path::loads, cost, false).gbs == doctest::Approx(3000));
  CHECK(gbs("row", Path::loads, cost, true).gbs == doctest::Approx(6000));
  CHECK(gbs("random", Path::loads, cost, false).gbs == doctest::Approx(160));
  CHECK(gbs("overlap_8x4", Path::loads, cost, false).gbs == doctest::Approx(3000 * 0.75));
  cost.wavefronts = 32;  // 0.32 ns
  CHECK(gbs("row", Path::loads, cost, true).gbs == doctest::Approx(400));
  CHECK(std::string(gbs("row", Path::loads, cost, true).limit) == "L1's banks");
  cost.to_l2 = 64;  // 0.64 ns
  CHECK(gbs("row", Path::loads, cost, true).gbs == doctest::Approx(200));
  cost = {};
  cost.fetches = 32;  // 0.08 ns of four units each
  CHECK(gbs("row", Path::array, cost, true).gbs == doctest::Approx(1600));
  device.prop.major = 6;  // of eight
  CHECK(gbs("row", Path::array, cost, true).gbs == doctest::Approx(3200));
  CHECK(gbs("row", Path::array, cost, false).gbs == doctest::Approx(2000));
  cost = {};
  CHECK(gbs("stencil", Path::loads, cost, true).gbs == doctest::Approx(128 / 0.185));  // 74 / 4
  device.sm_clock_khz = 0;
  CHECK(std::isnan(gbs("stencil", Path::loads, cost, true).gbs));
}

TEST_CASE("locality: what decides each part") {
  const std::string holds = verdict_text(Verdict::holds);
  const auto verdict = [](const std::string& part, const std::vector<Given>& given) {
    return verdict_if(locality_experiment, part, given);
  };
  // each of the twelve pairs counts: nine of twelve are three quarters
  std::vector<Given> patches;
  for (const std::string where : {"memory", "odd"})
    for (const std::string walk :
         {"8x4", "4x8", "16x16", "overlap_8x4", "overlap_4x8", "overlap_16x2"}) {
      if (patches.size() == 9) break;
      patches.push_back({walk + "_loads_" + where, 1.5});
    }
  CHECK(verdict("07.3a", patches) == holds);
  patches.pop_back();
  CHECK(verdict("07.3a", patches) == verdict_text(Verdict::depends));
  CHECK(verdict("07.3a", {{"8x4_array_memory", 1.5}}) == verdict_text(Verdict::does_not_hold));

  CHECK(verdict("07.3b", {{"column_loads_memory", 2}, {"column_loads_odd", 2}}) == holds);
  CHECK(verdict("07.3b", {{"column_loads_memory", 2}}) == verdict_text(Verdict::depends));
  CHECK(verdict("07.3b", {{"column_loads_odd", 2}}) == verdict_text(Verdict::depends));

  const std::string unseen = verdict_text(Verdict::not_judged);
  for (const auto& [part, key] : {std::pair("07.6a", "interpolation"),
                                  {"07.6b", "normalisation"},
                                  {"07.6c", "plane"},
                                  {"07.6d", "space"}}) {
    CAPTURE(std::string(part));
    const std::string name = key;
    CHECK(verdict(part, {{name + "_ldg", 1.5}}) == holds);
    CHECK(verdict(part, {{name + "_texture", 1.5}}) == unseen);
  }
  CHECK(verdict("07.6e", {{"words_texture", 1.5}}) == holds);
  CHECK(verdict("07.6e", {{"words_ldg", 1.5}}) == unseen);
}

TEST_CASE("locality: of each kind the walk and the texture that lead are measured again") {
  std::string printed;
  Report report("locality", &printed);
  Results results;
  const Run run{.report = report, .device = nullptr, .measuring = {}, .results = &results};
  const std::vector<Setting> all = settings(run);
  const auto given = [](const std::string& key) {
    if (key == "4x8_ldg_memory") return 3.0;  // leads by 3 / 1.5
    if (key == "4x8_array_memory") return 1.5;
    if (key == "4x8_pitched_memory") return 2.0;
    if (key == "row_ldg_memory") return 0.5;  // its faster texture takes twice as long
    if (key == "8x4_ldg_colours_l2") return 1.2;
    if (key == "8x4_array_colours_l2") return 1.1;
    if (key == "depth_ldg_volume") return 1.3;
    return 1.0;
  };
  for (const Setting& s : all)
    for (const Reading& r : readings_of(s)) {
      const double ms = given(r.ref.key);
      results.keep(Measured{.ref = r.ref, .time = {.ms = {ms, ms, ms, 1}}});
    }
  const auto best = [&](const char* id) {
    for (const Contest& contest : contests)
      if (std::string(contest.id) == id) {
        const Best b = best_of(run, all, contest);
        return std::string(b.walk) + "_" + key_of(b.texture) + "_" + b.setting.key;
      }
    return std::string("none");
  };
  CHECK(best("07.6a") == "bilinear_array_memory");
  CHECK(best("07.6b") == "8x4_pitched_colours_l2");
  CHECK(best("07.6c") == "4x8_array_memory");
  CHECK(best("07.6d") == "depth_array_volume");
  CHECK(best("07.6e") == "row_array_memory");
}

TEST_CASE("locality: images and volumes of made-up devices are beyond their L2") {
  for (const int l2 : {4 << 20, 24 << 20, 60 << 20, 126 << 20})
    for (const bool quick : {false, true}) {
      Device device;
      device.number = -1;
      device.prop.l2CacheSize = l2;
      device.prop.totalGlobalMem = size_t(15) << 30;
      std::string printed;
      Report report("locality", &printed);
      Run run{report, &device, {}};
      run.quick = quick;
      for (const Setting& s : settings(run))
        CHECK(beyond_l2(device, s.bytes() / s.passes) != s.in_l2);
    }
}

TEST_CASE("locality: the check finds another walk's sums") {
  if (skip_without_gpu()) return;
  const Shared work{Work({.n = 257, .stride = even_stride(257)})};
  CHECK(wrong_after(task_of(work, "row", case_of("row"), Path::loads, 1)) == 0);
  CHECK(case_of("aside").wrong(work->sums, case_of("aside"), 257) > 257);
}

EXPERIMENT_CHECKS(locality)
