// Self-checks of sampling_rounding.cu, compiled in its place where BUILD_TESTING is on.
#include "../sampling_rounding.cu"

#include <doctest/doctest.h>

#include <initializer_list>

namespace {

using rounding::Image, rounding::Place, rounding::Sampling;

constexpr auto wrap = cudaAddressModeWrap, clamp = cudaAddressModeClamp,
               mirror = cudaAddressModeMirror, border = cudaAddressModeBorder;
constexpr auto point = cudaFilterModePoint, linear = cudaFilterModeLinear;

/// A reading in a row of two texels, 10 and 20, with a border of 100.
struct ByHand {
  Sampling s;
  float x;
  double right;
};

}  // namespace

TEST_CASE("sampling: the rounding model by hand") {
  const Image pair{{2, 1, 1}, 1, {"float", 0, true}, {10, 20}, 100};
  const ByHand cases[] = {
      {{clamp, point, false}, 0, 10},
      {{clamp, point, false}, 1, 20},
      {{clamp, point, false}, -7, 10},
      {{clamp, point, false}, 1e9f, 20},
      {{clamp, linear, false}, 0.5f, 10},
      {{clamp, linear, false}, 1, 15},
      {{clamp, linear, false}, 1.25f, 17.5},
      {{clamp, linear, false}, 0, 10},
      {{clamp, linear, false}, 0.50195f, 10},  // just below half a step of the weights, and above
      {{clamp, linear, false}, 0.502f, 10 + 10. / 256},
      {{clamp, linear, true}, 0.5f, 15},
      {{clamp, linear, true}, 3, 20},
      {{wrap, point, true}, -0.25f, 20},
      {{wrap, point, true}, 1.25f, 10},
      {{wrap, linear, true}, 0, 15},
      {{wrap, linear, true}, 7.875f, 17.5},
      {{mirror, point, true}, -0.25f, 10},
      {{mirror, point, true}, 1.25f, 20},
      {{mirror, point, true}, 2.25f, 10},
      {{mirror, linear, true}, -0.5f, 15},
      {{mirror, linear, true}, 0.0625f, 10},
      {{mirror, linear, true}, -999.5f, 15},
      {{border, point, true}, -0.25f, 100},
      {{border, point, true}, 1, 100},
      {{border, linear, false}, 0, 55},
      {{border, linear, false}, 2.25f, 80},
      {{wrap, linear, false}, 2.5f, 20},
      {{wrap, linear, false}, -1.5f, 10},  // as clamp
  };
  for (const ByHand& each : cases) {
    CAPTURE(int(each.s.address));
    CAPTURE(each.x);
    CHECK(rounding::value_at(pair, each.s, {each.x, 0, 0}) == each.right);
    CHECK(rounding::deviation(pair, each.s, {each.x, 0, 0}, each.right).ulp == 0);
  }
  CHECK(rounding::deviation(pair, {}, {0.5f, 0, 0}, NAN).off);
  const Image square{{2, 2, 1}, 2, {"float", 0, true}, {0, 1, 2, 3}};
  const Image cube{{1, 2, 2}, 3, {"float", 0, true}, {0, 8, 16, 24}};
  CHECK(rounding::value_at(square, {clamp, linear, false}, {1.25f, 0.75f, 0}) == 1.25);
  CHECK(rounding::value_at(cube, {border, linear, false}, {0, 1, 1}) == 6);
}

TEST_CASE("sampling: the rounding model's weights and fractions by hand") {
  const rounding::Picks halves{{{0, 1, 0.5}, {0, 1, 129 / 256.}, {}}};
  // of 63.5, 63.5, 64.5 and 64.5
  CHECK(rounding::weights_of(2, halves, {}) ==
        std::array<double, 8>{64 / 256., 63 / 256., 64 / 256., 65 / 256.});
  const Image bytes{{1, 1, 1}, 1, {"signed char", 127, true}, {-128}};
  CHECK(rounding::value_at(bytes, {clamp, point, false}, {0.5f, 0, 0}) == -1);
  // as an H200 reads them
  const std::initializer_list<std::pair<double, int>> steps = {
      {127., 32767}, {-100., -25801}, {-56., -14448}, {50 / 256., 50}, {-50 / 256., -51}};
  for (const std::pair<double, int>& each : steps)
    CHECK(rounding::widened(each.first) * 32767 == doctest::Approx(each.second).epsilon(1e-12));
  for (int s = -128 * 256; s <= 127 * 256; ++s) {
    const double away = rounding::widened(s / 256.) * 32767 - s / 256. * 32767 / 127;
    CHECK(std::abs(away) < 1);
  }
}

TEST_CASE("sampling: another precision is off the rounding model") {
  Image row{{31, 1, 1}, 1, {"float", 0, true}, {}, 1};
  for (int i = 0; i < 31; ++i) row.stored.push_back(std::sin(i * i));  // no pattern
  const auto count_off = [&](const Sampling& s, const rounding::Precision& precision) {
    size_t off = 0;
    for (int k = -8000; k < 24000; ++k) {  // at every step of the weights, and between them
      const double place = k / 512.;
      const Place at{float(s.normalized ? place / 31 : place), 0, 0};
      const float read = float(rounding::value_at(row, s, at, precision));
      off += rounding::deviation(row, s, at, read).off;
    }
    return off;
  };
  for (const auto address : {wrap, clamp, mirror, border})
    for (const bool normalized : {false, true}) {
      const Sampling s{address, linear, normalized};
      CAPTURE(int(address));
      CAPTURE(normalized);
      CHECK(count_off(s, {}) == 0);
      CHECK(count_off(s, {0, 0x1p-21, true}) > 0);
      CHECK(count_off(s, {1 / 128., 0x1p-21, true}) > 0);
      CHECK(count_off(s, {1 / 512., 0x1p-21, true}) > 0);
      CHECK((count_off(s, {1 / 256., 0, true}) > 0) == normalized);
      CHECK((count_off(s, {1 / 256., 0x1p-16, true}) > 0) == normalized);
    }
  const Image square{{2, 2, 1}, 2, {"float", 0, true}, {0, 1, 1, 0}};
  const double product = rounding::value_at(square, {clamp, linear, false}, {1, 1 + 1 / 256.f, 0},
                                            {1 / 256., 0x1p-21, false});
  CHECK(rounding::deviation(square, {clamp, linear, false}, {1, 1 + 1 / 256.f, 0}, product).off);
}
