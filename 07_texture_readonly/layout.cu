// layout: which neighbours come along with a texel? "Texture memory is optimized for 2D spatial
// locality" [LC 1]. In plain memory a row's texels stand side by side. A CUDA array has an order of
// its own, of which CUDA's guide says nothing.
//
// A thread fetches a texel, and then times the fetch of a neighbour: if L1 has it, it came along.
// Predict the shape of a sector of 32 bytes, and of a line of 128, in both.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o layout layout.cu ../common/*.cpp
//
//   1  fetch_neighbour  times the fetch of a texel after that of another one
#include <algorithm>

#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "walks.cuh"

namespace {

// ---- the kernel ----

struct Neighbour {
  long long cycles;
  float texel;
};

// One thread fetches the texel in the corner of a tile, and then times the fetch of a neighbour.
// The first of two tiles fetches the code.
__global__ void fetch_neighbour(Neighbour* out, cudaTextureObject_t image, unsigned right,
                                unsigned down) {
  Neighbour found{};
#pragma unroll 1
  for (int x = 64; x >= 0; x -= 64) {
    if (tex2D<float>(image, x + 0.5f, 0.5f) < 0) return;  // never: waits for the answer
    const long long start = clock64();
    found.texel = tex2D<float>(image, x + right + 0.5f, down + 0.5f);
    if (found.texel < 0) return;
    found.cycles = clock64() - start;
  }
  *out = found;
}

// ---- the prediction ----

/// Where a float of a CUDA array lies in its group of 64 bytes x 8 rows, in bytes. NVIDIA's "block
/// linear" order is published in Linux's drm_fourcc.h: "16B x 2 lines sectors laid in Z-shape".
unsigned byte_in_group(unsigned x, unsigned y) {
  const unsigned byte = x * 4 % 64;
  return byte / 32 * 256 + y % 8 / 2 * 64 + byte % 32 / 16 * 32 + y % 2 * 16 + byte % 16;
}

constexpr unsigned seen_across = 16, seen_down = 8;  // one group: what is looked at

/// "4 x 2" if that is where is_in(x, y) holds; "no rectangle" otherwise.
template <class IsIn>
std::string rectangle(IsIn is_in) {
  unsigned width = 0, height = 0, all = 0;
  for (unsigned y = 0; y < seen_down; ++y)
    for (unsigned x = 0; x < seen_across; ++x)
      if (is_in(x, y)) {
        width = std::max(width, x + 1);
        height = std::max(height, y + 1);
        ++all;
      }
  if (all != width * height) return "no rectangle";
  return std::to_string(width) + " x " + std::to_string(height);
}
/// The texels of the sector, or of any piece of memory, that begins with texel (0, 0).
std::string texels_in_array(size_t bytes) {
  return rectangle([=](unsigned x, unsigned y) { return byte_in_group(x, y) < bytes; });
}
std::string texels_in_rows(size_t bytes) {
  return rectangle([=](unsigned x, unsigned y) { return y == 0 && x * sizeof(float) < bytes; });
}

// ---- what must come out ----

/// Cycles to fetch the texel so far from the first one, which was fetched before. Throws
/// WrongResult if it is another texel.
double cycles_of(const DeviceBuffer<Neighbour>& out, const Texture& image, unsigned right,
                 unsigned down) {
  CUDA_CHECK(cudaMemset(out, 0xff, out.bytes()));  // of a float that is NaN
  fetch_neighbour<<<1, 1>>>(out, image, right, down);
  CUDA_CHECK_LAUNCH();
  const Neighbour found = out.to_host()[0];
  if (found.texel != float(texel_at({right, down, 0}))) throw WrongResult("a wrong neighbour");
  return double(found.cycles);
}

// ---- the experiment ----

/// Adds what a fetch brings into L1: texels that are fetched in less than 1.5 times the cycles of
/// the same texel again.
void add_brought(Table& table, int rounds, const char* name, const Texture& image,
                 const std::string& predicted) {
  const DeviceBuffer<Neighbour> out(1);
  std::vector<double> in_l1, elsewhere;
  bool is_in_l1[seen_down][seen_across] = {};
  double again = 0;
  for (unsigned y = 0; y < seen_down; ++y)
    for (unsigned x = 0; x < seen_across; ++x) {
      std::vector<double> each;
      for (int round = 0; round <= rounds; ++round) {
        const double cycles = cycles_of(out, image, x, y);
        if (round > 0) each.push_back(cycles);  // the first one brings it into the L2
      }
      const double cycles = interval_of_median(each, run_to_run_device).value;
      if (x == 0 && y == 0) again = cycles;
      is_in_l1[y][x] = cycles < 1.5 * again;
      (is_in_l1[y][x] ? in_l1 : elsewhere).push_back(cycles);
    }
  const auto median = [](const std::vector<double>& cycles) {
    return cycles.empty() ? Cell("-") : Cell(interval_of_median(cycles, run_to_run_device));
  };
  table.row(name, {rectangle([&](unsigned x, unsigned y) { return is_in_l1[y][x]; }), predicted,
                   median(in_l1), median(elsewhere)});
}

}  // namespace

void layout(Run& run) {
  run.title("a texel is fetched, then one beside it");
  const Image<float> image{256};
  Table brought("a fetch from", {"texels in L1", "predicted", "cycles", "cycles of others"});
  add_brought(brought, run.timer.rounds, "array", image.array_texture(texture_desc()),
              texels_in_array(sector_bytes));
  add_brought(brought, run.timer.rounds, "pitched", image.pitched_texture(texture_desc()),
              texels_in_rows(sector_bytes));
  run.print(brought);
  run.note("predicted: a sector of 32 bytes. Of an array it has the order that Linux publishes in");
  run.note("drm_fourcc.h: \"16B x 2 lines sectors laid in Z-shape\". A line of 128 bytes then has");
  run.note(texels_in_array(128) + " texels of an array");
}
SAMPLE(4, layout, "which neighbours come along with a texel?");

TEST_CASE("layout: the order of a CUDA array's texels, by hand") {
  CHECK(byte_in_group(3, 0) == 12);
  CHECK(byte_in_group(0, 1) == 16);  // the second row of the sector
  CHECK(byte_in_group(4, 0) == 32);  // the sector to the right
  CHECK(byte_in_group(0, 2) == 64);  // the one below
  CHECK(byte_in_group(7, 3) == 124);
  CHECK(byte_in_group(8, 0) == 256);
  CHECK(byte_in_group(15, 7) == 508);
  CHECK(texels_in_array(sector_bytes) == "4 x 2");
  CHECK(texels_in_array(128) == "8 x 4");
  CHECK(texels_in_array(96) == "no rectangle");
  CHECK(texels_in_rows(sector_bytes) == "8 x 1");
}

TEST_CASE("layout: a neighbour is the texel that it should be") {
  if (skip_without_gpu()) return;
  const Image<float> image{257};
  const DeviceBuffer<Neighbour> out(1);
  REQUIRE(texel_at({300, 0, 0}) != texel_at({256, 0, 0}));
  for (const Texture& texture :
       {image.array_texture(texture_desc()), image.pitched_texture(texture_desc())}) {
    CHECK(cycles_of(out, texture, 15, 7) > 0);
    CHECK_THROWS_AS(cycles_of(out, texture, 300, 0),
                    WrongResult);  // clamped to the edge: another one
  }
}
