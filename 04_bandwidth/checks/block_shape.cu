// Self-checks of block_shape.cu, compiled in its place where BUILD_TESTING is on.
#include "../block_shape.cu"

#include "../../framework/common/checks/standard.hpp"

#include <initializer_list>

namespace {

/// Which parts of the matrix the wiki's order takes, by going through the blocks of the grid.
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

bool reached_by_text(const Case& c, const std::vector<bool>& by_grid, unsigned ix, unsigned iy) {
  return !c.kernel->wiki_order || by_grid[size_t(iy / c.block.y) * c.grid().x + ix / c.block.x];
}

const Shape awkward[] = {{1, 1},     {1, 300},   {300, 1},   {32, 32},
                         {97, 1009}, {1009, 97}, {640, 131}, {1000, 1000}};

}  // namespace

TEST_CASE("block_shape: an index has 64 bits") {
  const Shape m{66000, 66000};  // where the last lane of a warp lies, by rows and by columns
  CHECK(word_of_lane({&plain, {1, 32}, m}, 31, true) == 31ull * 66000);
  CHECK(word_of_lane({&plain, {32, 1}, m}, 31, false) == 31ull * 66000);
  const dim3 grid = Case{&plain, {32, 8}, m}.grid();
  CHECK(grid.x == 2063);
  CHECK(grid.y == 8250);
}

// The text's two lines are the reference: what they reach is compared with what counts as right.
TEST_CASE("block_shape: what the wiki's order reaches, by going through its grids") {
  for (const Shape m : awkward) {
    if (m.elements() > 100000) continue;  // the host looks at each of them, for each shape
    for (const Block b : shapes(true))
      for (const Kernel* k : kernels) {
        const Case c{k, b, m};
        const std::vector<bool> by_grid = reached_by_grid(c.grid());
        const Right right{m, b, c.grid(), k->wiki_order};
        size_t wrong = 0, reached = 0;
        for (unsigned iy = 0; iy < m.ny; ++iy)
          for (unsigned ix = 0; ix < m.nx; ++ix) {
            const bool there = reached_by_text(c, by_grid, ix, iy);
            const size_t out = size_t(ix) * m.ny + iy;
            const float transposed = Input{}(size_t(iy) * m.nx + ix);
            reached += there;
            wrong += right(out, transposed) != there;
            wrong += right(out, NAN) == there;
          }
        CAPTURE(text(c.ref()));
        CHECK(wrong == 0);
        CHECK(elements_reached(c) == reached);
      }
  }
}

TEST_CASE("block_shape: the wiki's order at 2048 x 2048, by hand") {
  const auto of = [](Block b) { return Case{&wiki, b, wiki_size}; };
  const auto reached = [&](Block b) { return percent(elements_reached(of(b)), wiki_size); };
  CHECK(reached({32, 8}) == 25);
  CHECK(reached({8, 32}) == 25);
  CHECK(reached({16, 32}) == 50);
  CHECK(reached({16, 16}) == 100);
  CHECK(share_working(of({32, 8})) == 1);     // a quarter of the matrix, four times
  CHECK(share_working(of({8, 32})) == 0.25);  // a quarter, once
  for (const Block b : chart) CHECK(in_wiki_order(b) == (reached(b) < 100));
  CHECK_FALSE(in_wiki_order({64, 4}));  // not of the chart
  CHECK(share_working({&plain, {8, 32}, wiki_size}) == 1);
}

TEST_CASE("block_shape: sectors and lines of a request, by hand") {
  struct ByHand {
    Block b;
    double along, along_whole, down, down_whole;  // row -> column: its loads, and its stores
  };
  // nvcc 12.4 does not deduce the list's type from its first element
  for (const ByHand& each : std::initializer_list<ByHand>{{{32, 8}, 4, 4, 32, 0},
                                                          {{8, 8}, 4, 4, 8, 0},
                                                          {{16, 16}, 4, 4, 16, 0},
                                                          {{256, 1}, 4, 4, 32, 0},
                                                          {{4, 64}, 8, 0, 4, 4},
                                                          {{1, 256}, 32, 0, 4, 4}}) {
    for (const Kernel* k : kernels) {
      const Case c{k, each.b, wiki_size};
      CAPTURE(text(c.ref()));
      const bool by_rows = k->name.ends_with("row_to_column");
      const Traffic along = request_of(c, by_rows), down = request_of(c, !by_rows);
      CHECK(along.sectors == each.along);
      CHECK(along.full_sectors == each.along_whole);
      CHECK(down.sectors == each.down);
      CHECK(down.full_sectors == each.down_whole);
      CHECK(down.lines == std::min(32u, each.b.x));
    }
  }
}

TEST_CASE("block_shape: a row's case is found by its key, and launches its kernel") {
  const std::pair<const char*, decltype(Kernel::launch)> by_hand[] = {
      {"row_to_column_8x32", row_to_column},
      {"diagonal_row_to_column_8x32", diagonal_row_to_column},
      {"wiki_row_to_column_8x32", wiki_row_to_column},
      {"column_to_row_8x32", column_to_row},
      {"diagonal_column_to_row_8x32", diagonal_column_to_row}};
  for (const auto& [key, launch] : by_hand) {
    const Case c = case_of({key, 4096});
    CHECK((c.kernel->launch == launch));
    CHECK(c.block == Block{8, 32});
    CHECK(c.m.nx == 4096);
    const bool by_columns = std::string(key).ends_with("column_to_row_8x32");
    const Case flat{c.kernel, {8, 32}, {128, 64}};  // 64 rows of 128 words
    CHECK(flat.grid().x == (by_columns ? 8 : 16));
    CHECK(flat.grid().y == (by_columns ? 4 : 2));
  }
  CHECK_THROWS_AS(case_of({"row_to_column_3x3", 2048}), std::logic_error);
}

TEST_CASE("block_shape: predictions, by hand") {
  Device gpu;
  gpu.sm_clock_khz = 1000000;
  gpu.prop.multiProcessorCount = 1;  // a million cycles per millisecond
  const Shape m = square(1024);      // 32768 requests
  const auto ms = [&](const Kernel& k, Block b, const Calibrated& from) {
    return predicted_ms({&k, b, m}, from, gpu);
  };
  const Calibrated blocks{1e-3, 1e-6, 2};
  CHECK(ms(plain, {8, 8}, blocks) == doctest::Approx(16.384));   // 16384 blocks
  CHECK(ms(plain, {32, 32}, blocks) == doctest::Approx(2));      // the latency
  CHECK(ms(plain, {1, 256}, blocks) == doctest::Approx(4.096));  // 4096 blocks
  const Calibrated stores{1e-9, 1e-5, 1e-3};
  CHECK(ms(plain, {32, 32}, stores) == doctest::Approx(10.48576));
  CHECK(ms(diagonal, {16, 16}, stores) == doctest::Approx(5.24288));
  const Calibrated nothing{1e-9, 1e-9, 1e-3};  // L1: 32 lines and 4 sectors, or 1 and 32
  CHECK(ms(columns, {32, 8}, nothing) == doctest::Approx(36 * 0.032768));
  CHECK(ms(plain, {32, 8}, nothing) == doctest::Approx(33 * 0.032768));
  // the wiki's order: all blocks start, and those that find something to do take their time
  CHECK(ms(wiki, {8, 32}, stores) == doctest::Approx(2.62144 / 4));
  CHECK(ms(wiki, {32, 8}, stores) == doctest::Approx(10.48576));
  CHECK(ms(wiki, {8, 32}, blocks) == doctest::Approx(4.096));
}

TEST_CASE("block_shape: what decides each part") {
  // the first `count` shapes of the chart gain by this factor, the others gain nothing
  const auto verdict = [](const char* part, double side, size_t count, double gain) {
    std::vector<Given> given;
    for (size_t i = 0; i < count; ++i)
      given.push_back({Case{&diagonal, chart[i], square(size_t(side))}.ref(), 1 / gain});
    return verdict_if(block_shape_experiment, part, given);
  };
  for (const auto& [part, side] : {std::pair{"04.9a", 2048.0}, std::pair{"04.9b", 16384.0}}) {
    CHECK(verdict(part, side, 9, 1.2) == "holds");
    CHECK(verdict(part, side, 7, 1.2) == "holds");
    CHECK(verdict(part, side, 6, 1.2) == "depends");  // two thirds
    CHECK(verdict(part, side, 2, 1.2) == "no longer");
    CHECK(verdict(part, side, 9, 0.8) == "no longer");
    CHECK(verdict(part, 2048 + 16384 - side, 9, 1.2) == "no longer");  // the other size
  }
}

TEST_CASE("block_shape: every kernel is right for every shape and matrix") {
  if (skip_without_gpu()) return;
  for (const Shape m : awkward) {
    const Shared x(Matrices{m});
    for (const Kernel* k : kernels)
      for (const Block b : shapes(true)) {
        const Case c{k, b, m};
        CAPTURE(text(c.ref()));
        CHECK(wrong_after(task_of(x, c)) == 0);
        const std::vector<bool> by_grid = reached_by_grid(c.grid());
        const std::vector<float> found = x->out.to_host();
        size_t wrong = 0;
        for (unsigned iy = 0; iy < m.ny; ++iy)
          for (unsigned ix = 0; ix < m.nx; ++ix) {
            const float out = found[size_t(ix) * m.ny + iy];
            const bool there = reached_by_text(c, by_grid, ix, iy);
            wrong += there ? out != Input{}(size_t(iy) * m.nx + ix) : !std::isnan(out);
          }
        CHECK(wrong == 0);
      }
  }
}

TEST_CASE("block_shape: another order's elements are found wrong") {
  if (skip_without_gpu()) return;
  const Shape m{96, 128};
  const Shared x(Matrices{m});
  const Case ours{&diagonal, {8, 32}, m}, text{&wiki, {8, 32}, m};  // a third of 12 x 4 blocks
  const auto wrong = [&](const Case& row, const Case& launched) {
    Task task = task_of(x, row);
    task.launch = task_of(x, launched).launch;
    return wrong_after(task);
  };
  CHECK(wrong(ours, text) == m.elements() * 2 / 3);
  CHECK(wrong(text, ours) == m.elements() * 2 / 3);
  for (const Block b : chart) {
    const Case c{&wiki, b, wiki_size};
    CHECK(percent_written(c).median == percent(elements_reached(c), wiki_size));
  }
}

TEST_CASE("block_shape: more than 2^32 elements" * doctest::test_suite("large")) {
  if (skip_without_gpu()) return;
  const Shape m{65540, 65544};
  if (bytes_moved(m) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(bytes_moved(m)) + " of device memory");
  const Shared x(Matrices{m});
  for (const Kernel* k : kernels) {
    CAPTURE(std::string(k->name));
    CHECK(wrong_after(task_of(x, {k, {32, 8}, m})) == 0);
  }
}

EXPERIMENT_CHECKS(block_shape)
