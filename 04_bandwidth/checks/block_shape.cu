// Self-checks of block_shape.cu, compiled in its place where BUILD_TESTING is on.
#include "../block_shape.cu"

#include <doctest/doctest.h>

#include <set>

#include "../../common/checks/made_up_devices.hpp"
#include "../../common/checks/plausible.hpp"

namespace {

bool canaries_stand(const Matrices& arrays) {
  std::vector<unsigned> words(arrays.canaries);
  device_memory::to_host(words.data(), arrays.out.data() + arrays.m.words(),
                         arrays.canaries * sizeof(unsigned));
  return std::count(words.begin(), words.end(), ~0u) == long(arrays.canaries);
}

const Matrix awkward[] = {{1, 1},     {1, 300},   {300, 1},   {32, 32},
                          {97, 1009}, {1009, 97}, {640, 131}, {1000, 1000}};

/// Which blocks of the matrix the wiki's order takes, by going through the grid's.
std::vector<bool> reached_by_grid(dim3 grid) {
  std::vector<bool> reached(size_t(grid.x) * grid.y, false);
  for (unsigned by = 0; by < grid.y; ++by)
    for (unsigned bx = 0; bx < grid.x; ++bx) {
      const unsigned x = (bx + by) % grid.x;  // the text's two lines
      const unsigned y = bx;
      if (y < grid.y) reached[size_t(y) * grid.x + x] = true;
    }
  return reached;
}

/// The transpose on the host; NaN where the wiki's order does not come by.
std::vector<float> transposed(const Kernel& k, Matrix m, Block b) {
  const dim3 grid = grid_of(k, m, b);
  const std::vector<bool> reached = reached_by_grid(grid);
  std::vector<float> out;
  for (unsigned ix = 0; ix < m.nx; ++ix)
    for (unsigned iy = 0; iy < m.ny; ++iy) {
      const bool there = !k.wiki_order || reached[size_t(iy / b.y) * grid.x + ix / b.x];
      out.push_back(there ? value_at(size_t(iy) * m.nx + ix) : NAN);
    }
  return out;
}

}  // namespace

TEST_CASE("block_shape: an index has 64 bits") {
  CHECK(Matrix{66000, 66000}.words() == 4356000000ull);
  CHECK(bytes_moved({66000, 66000}) == 34848000000.0);
  CHECK(bytes_moved({3, 5}) == 120);
  CHECK(value_at(7) != value_at(7 + (1ull << 32)));
  // where the last lanes of a warp lie at that size, by rows and by columns
  const Matrix m{66000, 66000};
  const Kernel& k = kernels[row_column];
  CHECK(word_of_lane(k, {1, 32}, m, 31, true) == 31ull * 66000);
  CHECK(word_of_lane(k, {32, 1}, m, 31, false) == 31ull * 66000);
  CHECK(grid_of(k, m, {32, 8}).x == 2063);
  CHECK(grid_of(k, m, {32, 8}).y == 8250);
}

TEST_CASE("block_shape: the diagonal order takes every block once, neighbours off each other") {
  for (const dim3 grid :
       {dim3(1, 1), dim3(1, 7), dim3(7, 1), dim3(64, 64), dim3(64, 256), dim3(37, 11)}) {
    std::set<std::pair<unsigned, unsigned>> taken;
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        const Place at = diagonal(y * grid.x + x, grid.x, grid.y);
        CHECK(at.x < grid.x);
        CHECK(at.y < grid.y);
        taken.insert({at.x, at.y});
        if (grid.x != grid.y) continue;
        CHECK(at.x == (x + y) % grid.x);  // the wiki's is the same there
        CHECK(at.y == x);
      }
    CHECK(taken.size() == size_t(grid.x) * grid.y);
  }
  for (unsigned block = 0; block + 1 < 88; ++block) {
    const Place one = diagonal(block, 8, 11);
    const Place next = diagonal(block + 1, 8, 11);
    CHECK(one.x != next.x);
    CHECK(one.y != next.y);
  }
}

TEST_CASE("block_shape: what the wiki's order reaches, by going through its grids") {
  for (const dim3 grid : {dim3(1, 1), dim3(1, 5), dim3(5, 1), dim3(8, 8), dim3(8, 16), dim3(16, 8),
                          dim3(37, 11), dim3(11, 37)}) {
    const std::vector<bool> reached = reached_by_grid(grid);
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x)
        CHECK(wiki_reaches(x, y, grid.x, grid.y) == reached[size_t(y) * grid.x + x]);
  }
  const Kernel& wiki = kernels[row_column_wiki];
  for (const Block b : shapes) {
    const std::vector<bool> reached = reached_by_grid(grid_of(wiki, wiki_size, b));
    const double count = double(std::count(reached.begin(), reached.end(), true));
    const double share = count / double(reached.size());
    CHECK(reach_of(wiki, wiki_size, b).elements == share);
    CHECK(wiki_differs(b) == (share < 1 && b.x <= 32 && b.y <= 32));
  }
  CHECK(reach_of(wiki, wiki_size, {32, 8}).elements == 0.25);
  CHECK(reach_of(wiki, wiki_size, {32, 8}).blocks == 1);  // a quarter, four times
  CHECK(reach_of(wiki, wiki_size, {8, 32}).elements == 0.25);
  CHECK(reach_of(wiki, wiki_size, {8, 32}).blocks == 0.25);  // a quarter, once
  CHECK(reach_of(kernels[row_column], wiki_size, {8, 32}).blocks == 1);
}

TEST_CASE("block_shape: sectors and lines of a request, by hand") {
  struct Row {
    Block b;
    double along, along_full, down, down_full;  // row -> column: loads, and stores
  };
  for (const Row& row :
       {Row{{32, 8}, 4, 4, 32, 0}, Row{{8, 8}, 4, 4, 8, 0}, Row{{16, 16}, 4, 4, 16, 0},
        Row{{256, 1}, 4, 4, 32, 0}, Row{{4, 64}, 8, 0, 4, 4}, Row{{1, 256}, 32, 0, 4, 4}}) {
    CAPTURE(text_of(row.b));
    const Request load = request_of(kernels[row_column], row.b, wiki_size, true);
    const Request store = request_of(kernels[row_column], row.b, wiki_size, false);
    CHECK(load.sectors == row.along);
    CHECK(load.full_sectors == row.along_full);
    CHECK(store.sectors == row.down);
    CHECK(store.full_sectors == row.down_full);
    CHECK(store.lines == std::min(32u, row.b.x));
    // the other direction has them the other way round
    CHECK(request_of(kernels[column_row], row.b, wiki_size, true).sectors == row.down);
    CHECK(request_of(kernels[column_row], row.b, wiki_size, false).sectors == row.along);
  }
}

TEST_CASE("block_shape: predictions, by hand") {
  Device device;
  device.number = -1;
  device.sm_clock_khz = 1000000;
  device.prop.multiProcessorCount = 1;  // a million cycles a millisecond
  const Matrix m{1024, 1024};           // 32768 requests
  const auto ms = [&](int k, Block b, const Calibrated& c) {
    return predicted_ms(kernels[k], m, b, c, device);
  };
  const Calibrated blocks{1e-3, 1e-6, 2};
  CHECK(ms(row_column, {8, 8}, blocks) == doctest::Approx(16.384));   // 16384 blocks
  CHECK(ms(row_column, {32, 32}, blocks) == doctest::Approx(2));      // the latency
  CHECK(ms(row_column, {1, 256}, blocks) == doctest::Approx(4.096));  // 4096 blocks
  const Calibrated stores{1e-9, 1e-5, 1e-3};
  CHECK(ms(row_column, {32, 32}, stores) == doctest::Approx(10.48576));
  CHECK(ms(row_column, {16, 16}, stores) == doctest::Approx(5.24288));
  const Calibrated nothing{1e-9, 1e-9, 1e-3};  // L1: 32 lines and 4 sectors, or 1 and 32
  CHECK(ms(column_row, {32, 8}, nothing) == doctest::Approx(36 * 0.032768));
  CHECK(ms(row_column, {32, 8}, nothing) == doctest::Approx(33 * 0.032768));
  // the wiki's order: all blocks start, those that find something to do take their time
  CHECK(ms(row_column_wiki, {8, 32}, stores) == doctest::Approx(2.62144 / 4));
  CHECK(ms(row_column_wiki, {32, 8}, stores) == doctest::Approx(10.48576));
  CHECK(ms(row_column_wiki, {8, 32}, blocks) == doctest::Approx(4.096));
}

TEST_CASE("block_shape: three rows give the model its constants, and it gives them back") {
  Device device;
  device.number = -1;
  std::vector<ShapeTimes> all;
  for (const Block b : shapes) all.push_back({b, {}});
  int calibrating = 0;
  for (ShapeTimes& times : all)
    for (size_t k = 0; k < kernel_count; ++k) {
      times.of[k].ms.assign(15, 1.0 + double(k) + times.block.x);
      calibrating += calibrates(k, times.block);
    }
  CHECK(calibrating == 3);
  const Calibrated c = calibrate(all, wiki_size);
  CHECK(c.block == doctest::Approx(9.0 / 65536));
  CHECK(c.store == doctest::Approx(33.0 / (2048 * 2048)));
  CHECK(c.latency == doctest::Approx(20.0));
  CHECK(predicted_ms(kernels[row_column], wiki_size, {32, 8}, c, device) == doctest::Approx(33));
}

TEST_CASE("block_shape: matrices fit made-up GPUs, the second beyond the L2") {
  check_on_made_up_devices([](const Run& run) {
    const Matrix large = large_matrix(run);
    return Needs{bytes_moved(large) + bytes_moved(wiki_size), bytes_moved(large)};
  });
}

TEST_CASE("block_shape: each claim compares the text's pair, the right way round") {
  const auto judged = [](const Function<double(size_t, Block)>& ms) {
    std::vector<ShapeTimes> all;
    for (const Block b : shapes) {
      all.push_back({b, {}});
      for (size_t k = 0; k < kernel_count; ++k) all.back().of[k].ms.assign(15, ms(k, b));
    }
    std::string printed;
    Report report("block_shape", &printed);
    const auto gain = [](const ShapeTimes& times) {
      return times.of[row_column].median() / times.of[row_column_diagonal].median();
    };
    const auto [least, most] = std::minmax_element(
        all.begin(), all.begin() + shapes_of_the_chart,
        [&](const ShapeTimes& a, const ShapeTimes& b) { return gain(a) < gain(b); });
    judge_diagonal({report, nullptr, {}}, gains_of(all), extremes_of(*most, *least));
    return printed;
  };
  const std::string lifted = judged([](size_t k, Block b) {
    if (k == row_column) return b.x == 32 ? 1.5 : 1.2;
    return k == row_column_wiki ? 0.5 : 1.0;
  });
  CAPTURE(lifted);
  CHECK(lifted.find("04.9a  holds") != std::string::npos);
  CHECK(lifted.find("faster for 9 of 9 shapes, in the median 1.20x faster") != std::string::npos);
  CHECK(lifted.find("for 6 of 9 shapes, and takes 0.33x to 0.42x of") != std::string::npos);
  CHECK(lifted.find("04.9b  holds") != std::string::npos);
  const std::string slowed = judged([](size_t k, Block) { return k == row_column ? 1.0 : 1.1; });
  CAPTURE(slowed);
  CHECK(slowed.find("04.9a  no longer") != std::string::npos);
  CHECK(slowed.find("04.9b  no longer") != std::string::npos);
  const std::string others =
      judged([](size_t k, Block b) {  // neither they decide nor column -> row
        return k == column_row || b.x > 32 || b.x < 8 ? 9.0 : 1.0;
      });
  CHECK(others.find("04.9a  no longer") != std::string::npos);
}

TEST_CASE("block_shape: too few rounds on a GPU are not judged, and say why") {
  Device device;
  device.number = -1;
  device.prop.name[0] = 'X';  // a GPU that has a name
  std::vector<ShapeTimes> all;
  for (const Block b : shapes) {
    all.push_back({b, {}});
    for (Readings& times : all.back().of) times.ms.assign(3, 1.0);
  }
  std::string printed;
  Report report("block_shape", &printed);
  report.heading(&device, "");
  judge_diagonal({report, &device, {}}, gains_of(all), extremes_of(all[0], all[1]));
  CHECK(printed.find("04.9a  not judged") != std::string::npos);
  CHECK(printed.find("04.9b  not judged") != std::string::npos);
  CHECK(printed.find("fewer than 6 blocks") != std::string::npos);
}

TEST_CASE("block_shape: every kernel is right for every shape and matrix") {
  if (skip_without_gpu()) return;
  for (const Matrix m : awkward) {
    Matrices x(m);
    for (const Kernel& k : kernels)
      for (const Block b : shapes) {
        CAPTURE(std::string(k.name));
        CAPTURE(sides(m));
        CAPTURE(text_of(b));
        CHECK(wrong_after(x.task(k, b)) == 0);
        CHECK(canaries_stand(x));
        const std::vector<float> expected = transposed(k, m, b);  // and by the host
        const std::vector<float> found = x.out.to_host();
        size_t wrong = 0;
        for (size_t i = 0; i < expected.size(); ++i)
          wrong += std::isnan(expected[i]) ? !std::isnan(found[i]) : found[i] != expected[i];
        CHECK(wrong == 0);
      }
  }
}

TEST_CASE("block_shape: the wiki's order reaches what the model says, counted") {
  if (skip_without_gpu()) return;
  Matrices x(wiki_size);
  for (const Block b : shapes) {
    CAPTURE(text_of(b));
    CHECK(x.reached(kernels[row_column_wiki], b) ==
          reach_of(kernels[row_column_wiki], wiki_size, b).elements);
    CHECK(x.reached(kernels[row_column_diagonal], b) == 1);
  }
}

TEST_CASE("block_shape: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Matrices x({96, 128});
  const Block b{8, 32};  // 12 x 4 blocks: the wiki's order reaches a third
  const Kernel& plain = kernels[row_column];
  const Kernel& wiki = kernels[row_column_wiki];
  const auto wrong = [&](const Kernel& k, const Function<void()>& launch) {
    Task task = x.task(k, b);
    task.launch = launch;
    return wrong_after(task);
  };
  CHECK(wrong(plain, [] {}) == x.m.words());  // poisoned, nothing written
  CHECK(wrong(plain, [&] { x.task(wiki, b).launch(); }) == x.m.words() * 2 / 3);
  CHECK(wrong(wiki, [&] { x.task(plain, b).launch(); }) == x.m.words() * 2 / 3);
  CHECK(wrong(plain, [&] {
          x.task(plain, b).launch();
          CUDA_CHECK(cudaMemsetAsync(x.out.data() + 77, 0, sizeof(float)));
        }) == 1);
  CHECK(canaries_stand(x));
  CUDA_CHECK(cudaMemset(x.out.data() + x.m.words(), 0, sizeof(float)));  // one word too far
  CHECK_FALSE(canaries_stand(x));
}

TEST_CASE("block_shape: more than 2^32 elements" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Matrix m{65540, 65544};
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  Matrices x(m);
  for (const Kernel& k : kernels) {
    CAPTURE(std::string(k.name));
    CHECK(wrong_after(x.task(k, {32, 8})) == 0);
    CHECK(canaries_stand(x));
  }
}

TEST_CASE("block_shape: measured rows lie where its models predict them" *
          doctest::test_suite("plausible") * doctest::skip()) {
  check_plausible(&block_shape);
}
