// Self-checks of sampling.cu, compiled in its place where BUILD_TESTING is on.
#include "../sampling.cu"

#include "../../framework/common/checks/standard.hpp"

namespace {

/// What the rules give if places are rounded to multiples of `unit` texels in linear mode (0: not
/// at all): stands in for a GPU.
std::vector<float> in_steps(const Image& image, const Sampling& s, const std::vector<Place>& places,
                            double unit) {
  std::vector<float> values;
  for (Place at : places) {
    for (int d = 0; d < image.dims && s.filter == linear && unit > 0; ++d) {
      const double u = std::floor(place_of(s, at[d], image.size[d]) / unit + 0.5) * unit;
      at[d] = float(s.normalized ? u / image.size[d] : u);
    }
    values.push_back(float(by_the_rules(image, s, at)));
  }
  return values;
}
constexpr double of_the_guide = 1 / 256., exact = 0;

size_t count_undocumented(const Image& image, const Sampling& s, const std::vector<Place>& places,
                          const std::vector<float>& values) {
  return compare(image, s, places, values).undocumented;
}

/// The row as an image of two dimensions, one texel high.
Image row_as_image() {
  Image image = shown_row();
  image.dims = 2;
  return image;
}

}  // namespace

TEST_CASE("sampling: the address modes by hand") {
  const double row[] = {1, 4, 2, 3};
  const auto goes_on = [&](int (*address)(int, int)) {
    std::vector<double> values;
    for (int i = -6; i < 10; ++i) {
      const int texel = address(i, 4);
      values.push_back(texel == border_texel ? 0 : row[texel]);
    }
    return values;
  };
  CHECK(goes_on(clamped) == std::vector<double>{1, 1, 1, 1, 1, 1, 1, 4, 2, 3, 3, 3, 3, 3, 3, 3});
  CHECK(goes_on(wrapped) == std::vector<double>{2, 3, 1, 4, 2, 3, 1, 4, 2, 3, 1, 4, 2, 3, 1, 4});
  CHECK(goes_on(mirrored) == std::vector<double>{2, 3, 3, 2, 4, 1, 1, 4, 2, 3, 3, 2, 4, 1, 1, 4});
  CHECK(goes_on(bordered) == std::vector<double>{0, 0, 0, 0, 0, 0, 1, 4, 2, 3, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("sampling: the filters by hand") {
  const Image row = shown_row();
  const auto at = [&](const Sampling& s, float x) { return by_the_rules(row, s, {x, 0, 0}); };
  CHECK(at({clamp, point, false}, 1.99f) == 4);
  CHECK(at({clamp, point, false}, 2) == 2);
  CHECK(at({clamp, linear, false}, 1.5f) == 4);     // a centre
  CHECK(at({clamp, linear, false}, 1.75f) == 3.5);  // a quarter of the way to 2
  CHECK(at({clamp, linear, false}, 2) == 3);
  CHECK(at({clamp, linear, true}, 0) == 1);
  CHECK(at({wrap, linear, true}, 0) == 2);    // of 3 and 1
  CHECK(at({wrap, linear, false}, 0) == 1);   // in texels: clamp
  CHECK(at({mirror, linear, true}, 1) == 3);  // of 3 and 3
  CHECK(at({border, linear, true}, 1) == 1.5);
  CHECK(at({border, point, true}, -0.01f) == 0);
  const Image square{{2, 2, 1}, 2, {"float", 0, true}, {0, 1, 2, 3}};
  CHECK(by_the_rules(square, {clamp, linear, false}, {1.25f, 0.75f, 0}) == 1.25);
  const Image cube{{1, 2, 2}, 3, {"unsigned char", 255, false}, {0, 51, 102, 255}};
  CHECK(by_the_rules(cube, {clamp, linear, false}, {0.5f, 1, 1.5f}) == doctest::Approx(0.7));
  const Image bytes{{2, 1, 1}, 1, {"char", 127, true}, {-128, 127}};
  CHECK(by_the_rules(bytes, {clamp, point, false}, {0, 0, 0}) == -1);
  CHECK(by_the_rules(row_as_image(), border_linear, {1.5f, 0, 0}) == 2);
}

// The guide folds the coordinate, these rules the texel's number.
TEST_CASE("sampling: wrap and mirror are the guide's fractions of x") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> anywhere(-5, 5);
  const Image row = shown_row();
  for (int k = 0; k < 1000; ++k) {
    const float x = float(anywhere(random));
    const double fraction = x - std::floor(x);
    const bool odd = std::fmod(std::floor(x), 2) != 0;
    CHECK(by_the_rules(row, {wrap, point, true}, {x, 0, 0}) == row.stored[int(4 * fraction)]);
    CHECK(by_the_rules(row, {mirror, point, true}, {x, 0, 0}) ==
          row.stored[int(4 * (odd ? 1 - fraction : fraction))]);
  }
}

TEST_CASE("sampling: the documented precision takes what 8 bits of fraction give") {
  std::mt19937 random(5);
  for (const Group& group : groups)
    for (const Size& size : group.sizes) {
      const Image image = random_image(size, kinds[random() % std::size(kinds)], random);
      for (const bool normalized : {false, true}) {
        const std::vector<Place> places =
            random_places(image, normalized, group.own_places, {50, 600}, random);
        for (const Sampling& s : all_samplings(normalized)) {
          CAPTURE(key_of(s));
          CAPTURE(size[0]);
          CAPTURE(size[1]);
          CAPTURE(std::string(image.kind.name));
          for (const double unit : {of_the_guide, exact})
            CHECK(count_undocumented(image, s, places, in_steps(image, s, places, unit)) == 0);
        }
      }
    }
}

TEST_CASE("sampling: the documented precision refuses other modes and coarser weights") {
  std::mt19937 random(6);
  for (const Size& size : {Size{31, 0, 0}, Size{33, 17, 0}, Size{3, 5, 2}}) {
    const Image image = random_image(size, kinds[0], random);
    for (const bool normalized : {false, true}) {
      const std::vector<Place> places = random_places(image, normalized, true, {100, 700}, random);
      for (const Sampling& s : all_samplings(normalized)) {
        CAPTURE(key_of(s));
        CAPTURE(normalized);
        CAPTURE(image.dims);
        const auto beyond = [&](const Sampling& other, double unit) {
          return count_undocumented(image, s, places, in_steps(image, other, places, unit));
        };
        // 5 bits; of several dimensions' errors some cancel
        CHECK((beyond(s, image.dims == 1 ? 1 / 32. : 1 / 8.) > 0) == (s.filter == linear));
        Sampling other = s;
        other.filter = s.filter == linear ? point : linear;
        CHECK(beyond(other, of_the_guide) > 0);
        for (const auto address : {wrap, clamp, mirror, border}) {
          other = {address, s.filter, normalized};
          const bool same = address == s.address || (!other.exists() && s.address == clamp) ||
                            (!s.exists() && (!other.exists() || address == clamp));
          CHECK((beyond(other, of_the_guide) > 0) == !same);
        }
        Image changed = image;
        for (double& texel : changed.stored) texel += 0.1;
        CHECK(count_undocumented(changed, s, places, in_steps(image, s, places, of_the_guide)) > 0);
        std::vector<float> with_nan = in_steps(image, s, places, of_the_guide);
        with_nan[7] = NAN;
        CHECK(count_undocumented(image, s, places, with_nan) == 1);
      }
    }
  }
}

TEST_CASE("sampling: how many values made-up walks have") {
  std::vector<float> in_256, in_128, in_all;
  for (int k = 0; k <= walk_steps; ++k) {
    const float x = float(k) / walk_steps;
    in_256.push_back(std::floor(x * 256 + 0.5f) / 256);
    in_128.push_back(std::floor(x * 128 + 0.5f) / 128);
    in_all.push_back(x);
  }
  CHECK(values_in(in_256) == 257);
  CHECK(values_in(in_128) == 129);
  CHECK(values_in(in_all) == size_t(walk_steps + 1));
}

TEST_CASE("sampling: what decides each part") {
  const auto verdict = [](const char* part, const char* wrong_mode, double values = 257) {
    std::vector<Given> given{{"centre_to_centre", values, "values"}};
    for (const Sampling& s : all_samplings(true)) {
      given.push_back({key_of(s), 10, all_readings});
      given.push_back({key_of(s), key_of(s) == wrong_mode ? 1.0 : 0.0, not_documented});
    }
    return verdict_if(sampling_experiment, part, given);
  };
  const std::string holds = verdict_text(Verdict::holds);
  const std::string does_not = verdict_text(Verdict::does_not_hold);
  CHECK(verdict("07.4a", "") == holds);
  CHECK(verdict("07.4b", "") == holds);
  CHECK(verdict("07.4a", "", 129) == does_not);
  for (const Sampling& s : all_samplings(true)) {
    const std::string key = key_of(s);
    CAPTURE(key);
    CHECK((verdict("07.4a", key.c_str()) == holds) == (s.filter == point));
    CHECK((verdict("07.4b", key.c_str()) == holds) !=
          (key == "wrap_point" || key == "clamp_point"));
  }
}

TEST_CASE("sampling: every mode and kind on every size is as documented") {
  if (skip_without_gpu()) return;
  Tallies tallies;
  compare_all({50, 600}, 2, [&](const Group&, const Kind& kind, const Sampling& s, const Tally& t) {
    tallies.add(std::string(kind.name) + ", " + row_key(s) + (s.normalized ? ", widths" : ""), t);
  });
  CHECK(tallies.all.size() == 5 * 16);
  for (const auto& [key, t] : tallies.all) {
    CAPTURE(key);
    CAPTURE(t.first);
    CHECK(t.readings > 7000);
    CHECK(t.undocumented == 0);
  }
}

TEST_CASE("sampling: what a launch does not write is not taken for read") {
  if (skip_without_gpu()) return;
  const Image row = shown_row();
  const CudaArray array = array_of(row);
  const std::vector<Place> places(1009, Place{1.5f, 0, 0});
  Reader reader(places);
  const Texture texture = texture_of(array, row, {clamp, point, false}, 1);
  CHECK(reader.read(texture, 1) == std::vector<float>(1009, 4.0f));
  const std::vector<float> none = reader.read([](float*, const float3*) {});
  CHECK(std::all_of(none.begin(), none.end(), [](float v) { return std::isnan(v); }));
  CHECK(none.size() == 1009);
  const auto too_far = [&](float* out, const float3*) {
    CUDA_CHECK(cudaMemset(out + 1009, 0, sizeof(float)));
  };
  CHECK_THROWS_AS(reader.read(too_far), WrongResult);
}

TEST_CASE("sampling: 257 values from centre to centre, the trap, and what is not allowed") {
  if (skip_without_gpu()) return;
  CHECK(count_values() == 257);
  for (const Combination& each : combinations) CHECK(each.answered() != cudaSuccess);
  CHECK(answer<int, linear, as_stored>() != cudaSuccess);
  CHECK(answer<float, linear, as_stored>() == cudaSuccess);
  CHECK(plain_memory_ignores_modes());
  for (const float x : {0.5f, 1.0f, 1.5f, 2.25f, 3.5f, 4.25f})
    CHECK(read_with_border(x, 1) == by_the_rules(shown_row(), border_linear, {x, 0, 0}));
}

// Nobody documents that a row is an image of one texel's height.
TEST_CASE("sampling: a border set for the dimension that is not there shows") {
  if (skip_without_gpu()) return;
  if (Device::current().prop.major != 9)
    return skip_self_check("this was found on compute capability 9.0");
  for (const float x : {0.5f, 1.0f, 1.5f, 2.25f, 3.5f, 4.25f})
    CHECK(read_with_border(x, 2) == by_the_rules(row_as_image(), border_linear, {x, 0, 0}));
}

// Nobody documents what these give. On GPUs of 9.0 NaN and denormals are 0; a huge number is a
// whole number of widths, so that wrap and mirror give what they give at 0; an infinity is a huge
// number.
TEST_CASE("sampling: coordinates that are no ordinary numbers") {
  if (skip_without_gpu()) return;
  if (Device::current().prop.major != 9)
    return skip_self_check("this was found on compute capability 9.0");
  const std::pair<float, float> read_as[] = {
      {-0.0f, 0},    {1e-40f, 0},     {-1e-40f, 0}, {NAN, 0},    {1e9f, 8},
      {-1e9f, -8},   {1e30f, 8},      {-1e30f, -8}, {3e38f, 8},  {-3e38f, -8},
      {INFINITY, 8}, {-INFINITY, -8}, {-NAN, 0},    {1e-45f, 0}, {-0.125f, -0.125f}};
  std::vector<Place> places;
  for (const auto& [x, ordinary] : read_as) places.push_back({x, 0, 0});
  for (const Sampling& s : all_samplings(true)) {
    const std::vector<float> read = read_once(shown_row(), s, places, 1);
    for (size_t i = 0; i < places.size(); ++i) {
      CAPTURE(key_of(s));
      CAPTURE(places[i][0]);
      CHECK(read[i] == by_the_rules(shown_row(), s, {read_as[i].second, 0, 0}));
    }
  }
}

EXPERIMENT_CHECKS_OF_FACTS(sampling)
