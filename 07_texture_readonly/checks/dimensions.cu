// Self-checks of dimensions.cu, compiled in its place where BUILD_TESTING is on.
#include "../dimensions.cu"

#include "../../framework/common/checks/standard.hpp"

TEST_CASE("dimensions: the direction to a texel leads back to it") {
  for (int width : {1, 2, 3, 8, 17, 64, 101}) CHECK(led_back(width) == 6 * width * width);
  CHECK(texel_seen({0.9f, -1, 0.9f}, 2) == (3 * 2 + 0) * 2 + 1);  // face -y: u = x, v = -z
}

TEST_CASE("dimensions: the check finds a texel that is wrong, and one too many") {
  const std::vector<float> sent = source<float>(100);
  std::vector<float> read = sent;
  CHECK(count_equal(sent, read) == 100);
  std::swap(read[3], read[4]);
  CHECK(count_equal(sent, read) == 98);
  std::vector<unsigned> behind(canaries, ~0u);
  CHECK(still_poisoned(behind.data(), canaries));
  behind.back() = 0xffffff00u;
  CHECK_FALSE(still_poisoned(behind.data(), canaries));
}

TEST_CASE("dimensions: no texel of the source is like the one beside it") {
  const std::vector<unsigned char> bytes = source<unsigned char>(1009);
  const std::vector<float4> wide = source<float4>(1009);
  int alike = 0;
  for (size_t i = 1; i < wide.size(); ++i)
    alike += std::memcmp(&wide[i], &wide[i - 1], sizeof wide[i]) == 0;
  CHECK(alike == 0);
  CHECK(std::count(bytes.begin(), bytes.end(), bytes[0]) < 20);  // 4 of 1009 by chance
}

TEST_CASE("dimensions: every texel comes back bit for bit") {
  if (skip_without_gpu()) return;
  for (const KindOfTexture& k : kinds)
    for (const ElementType& type : element_types) {
      CAPTURE(std::string(k.key) + ", " + type.name);
      for (auto equal : type.equal) CHECK(equal(k) == all_texels(k));
    }
}

TEST_CASE("dimensions: extents near a limit, by hand") {
  const auto sides = [](Kind kind, Extent most, int more) {
    std::vector<std::vector<int>> all;
    for (const Extent& e : near_limit(kind, most, more))
      all.push_back({e.width, e.height, e.depth});
    return all;
  };
  using Sides = std::vector<std::vector<int>>;
  CHECK(sides(Kind::array_1d, {100, 1, 1}, 1) == Sides{{101, 1, 1}});
  CHECK(sides(Kind::array_2d, {100, 50, 1}, 1) == Sides{{101, 1, 1}, {1, 51, 1}});
  CHECK(sides(Kind::layered_1d, {100, 1, 20}, 0) == Sides{{100, 1, 1}, {1, 1, 20}});
  CHECK(sides(Kind::layered_cubemap, {100, 100, 12}, 1) == Sides{{101, 101, 6}, {1, 1, 18}});
}

TEST_CASE("dimensions: each kind has its type's number and its own key") {
  const int numbers[] = {
      cudaTextureType1D,        cudaTextureType1D,      cudaTextureType2D,
      cudaTextureType2D,        cudaTextureType3D,      cudaTextureType1DLayered,
      cudaTextureType2DLayered, cudaTextureTypeCubemap, cudaTextureTypeCubemapLayered};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    CHECK(int(kinds[i].kind) == int(i));
    CHECK(kinds[i].header == numbers[i]);
    for (const Extent& e : kinds[i].sizes) CHECK((!is_cube(kinds[i].kind) || e.depth % 6 == 0));
  }
}

TEST_CASE("dimensions: limits are accepted and what lies beyond is refused") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  for (const KindOfTexture& k : kinds) {
    if (k.kind == Kind::linear_1d) continue;  // hundreds of megabytes
    CAPTURE(k.key);
    const Extent most = largest(k.kind, device);
    CHECK(refused(k, most) == int(near_limit(k.kind, most, 1).size()));
    if (is_cube(k.kind)) continue;  // gigabytes
    for (const Extent& e : near_limit(k.kind, most, 0)) CHECK(answer_to(k.kind, e) == cudaSuccess);
  }
  for (const WrongCall& call : wrong_calls) {
    CAPTURE(call.key);
    CHECK(call.answered() != cudaSuccess);
  }
}

EXPERIMENT_CHECKS_OF_FACTS(dimensions)
