// block_shape: which shape should a block have, and does a diagonal order of the blocks help? The
// wiki transposes 2048 x 2048 floats on a GTX 1080 Ti in blocks of several shapes [LC 4]. In the
// book behind it the diagonal speeds up row -> column; in the wiki's chart the shape decides how
// much.
//
// Look at the sectors of the stores, which depend on the shape alone: beyond the L2, 8 x 32 is
// four times as fast as 32 x 8 (H100). Then look at the diagonal, in the L2 and beyond it, at sides
// that are powers of two and at others; and at what the same stores take behind a barrier.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o block_shape block_shape.cu transpose.cu ../common/*.cpp
//
//   1  transposeRowCol, transposeDiagonalRowCol, transposeColRow, row_col_after_barrier
//      (transpose.cu): the wiki's, but the diagonal order covers every matrix; and one of ours
//   2  wiki::transposeDiagonalRowCol  the diagonal order as the wiki prints it
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words ----

// transpose.cu has them. The last one takes the output's sides as nx and ny.
__global__ void transposeRowCol(float* out, const float* in, unsigned nx, unsigned ny);
__global__ void row_col_after_barrier(float* out, const float* in, unsigned nx, unsigned ny);
__global__ void transposeDiagonalRowCol(float* out, const float* in, unsigned nx, unsigned ny);
__global__ void transposeColRow(float* out, const float* in, unsigned nx, unsigned ny);

namespace wiki {

// A warp does what it does in transposeRowCol. blockIdx.x counts rows of blocks here, of which
// there are gridDim.y. If the grid is higher than wide, some rows are left out, and others done
// again. If it is wider than high, some blocks find nothing to do.
static __global__ void transposeDiagonalRowCol(float* out, const float* in, unsigned nx,
                                               unsigned ny) {
  const unsigned blk_x = (blockIdx.x + blockIdx.y) % gridDim.x;
  const unsigned blk_y = blockIdx.x;
  const unsigned ix = blockDim.x * blk_x + threadIdx.x;
  const unsigned iy = blockDim.y * blk_y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

}  // namespace wiki

namespace {

// ---- the rows and columns of the tables ----

constexpr unsigned wiki_side = 2048;

/// From 8 x 8 to 32 x 32 threads, as in the wiki's chart.
const dim3 chart[] = {{8, 8},   {8, 16}, {8, 32},  {16, 8}, {16, 16},
                      {16, 32}, {32, 8}, {32, 16}, {32, 32}};

struct Kernel {
  const char* name;
  void (*launch)(float* out, const float* in, unsigned nx, unsigned ny);
  bool output_sides = false;
  bool as_printed = false;
};
const Kernel plain{"transposeRowCol", transposeRowCol};
const Kernel after_barrier{"row_col_after_barrier", row_col_after_barrier};
const Kernel diagonal{"transposeDiagonalRowCol", transposeDiagonalRowCol};
const Kernel columns{"transposeColRow", transposeColRow, true};
const Kernel printed{"the wiki's transposeDiagonalRowCol", wiki::transposeDiagonalRowCol, false,
                     true};

std::string text(dim3 block) { return std::to_string(block.x) + " x " + std::to_string(block.y); }
std::string name_of(const Kernel& kernel, dim3 block) {
  return std::string(kernel.name) + " " + text(block);
}

dim3 grid_of(const Kernel& kernel, dim3 block, unsigned nx, unsigned ny) {
  if (kernel.output_sides) std::swap(nx, ny);
  return dim3((nx + block.x - 1) / block.x, (ny + block.y - 1) / block.y);
}

// ---- what is right ----

/// Word i of the input.
__host__ __device__ float word(size_t i) { return float(hash(i) >> 8); }

/// Whether the order that the wiki prints comes to part (x, y) of the matrix. Block (y, j) takes it
/// if (y + j) % grid.x is x: and there must be such a j below grid.y.
__host__ __device__ bool wiki_comes_to(unsigned x, unsigned y, dim3 grid) {
  return y < grid.x && (x + grid.x - y) % grid.x < grid.y;
}

DeviceBuffer<float> filled_words(size_t n) {
  return filled<float>(n, [] __device__(size_t i) { return word(i); });
}

/// A matrix of ny rows of nx words, and room for its transpose.
struct Matrices {
  unsigned nx, ny;
  DeviceBuffer<float> in = filled_words(size_t(nx) * ny);
  GuardedBuffer<float> out{size_t(nx) * ny};
};

/// Words that the last launch did not write.
size_t count_left_out(const Matrices& m) {
  const auto is_poison = [out = m.out.data()] __device__(size_t i) { return out[i] != out[i]; };
  return sum_of(m.out.size(), is_poison);
}

/// Where no block comes, the poison must still stand.
Benchmark benchmark_of(const Kernel& kernel, dim3 block, const Matrices& m) {
  const dim3 grid = grid_of(kernel, block, m.nx, m.ny);
  const auto work = [=, launch = kernel.launch, swapped = kernel.output_sides] {
    launch<<<grid, block>>>(m.out, m.in, swapped ? m.ny : m.nx, swapped ? m.nx : m.ny);
  };
  const auto bits = [grid, block, nx = m.nx, ny = m.ny,
                     as_printed = kernel.as_printed] __device__(size_t i) -> unsigned {
    const unsigned ix = unsigned(i / ny), iy = unsigned(i % ny);  // the output's row, and column
    if (as_printed && !wiki_comes_to(ix / block.x, iy / block.y, grid)) return ~0u;
    return __float_as_uint(word(size_t(iy) * nx + ix));
  };
  return {name_of(kernel, block), work, equals_bits(m.out, bits)};
}

// ---- the model ----

/// Sectors that a warp of transposeRowCol stores to. A block of 8 x 32 has warps of 8 x 4 lanes:
/// they write 4 neighbouring words to each of 8 rows of the output, half a sector each.
size_t store_sectors(dim3 block, size_t ny) {
  return sectors(sizeof(float), [=](size_t lane) { return lane % block.x * ny + lane / block.x; });
}

/// Row -> column takes as long as its stores, a partly written sector like any other; or as long
/// as its blocks take to start, one like any other. Two shapes say how long.
double predicted_ms(dim3 block, size_t ny, double ms_of_32x8, double ms_of_8x8) {
  const double stores = ms_of_32x8 * double(store_sectors(block, ny)) / 32;
  const double starts = ms_of_8x8 * 64 / (block.x * block.y);
  return std::max(stores, starts);
}

// ---- the experiment ----

/// A run beyond the L2 takes milliseconds: 12 rounds, the fewest that give an interval.
constexpr int rounds = 12;

/// How many times as fast as row -> column: the diagonal, and column -> row; of each shape.
struct Gains {
  std::vector<Interval> diagonal, columns;
};

/// All shapes in turn, as a table.
Gains measure(Run& run, unsigned n) {
  const Matrices m{n, n};
  std::vector<Benchmark> benchmarks;
  for (const dim3 block : chart)
    for (const Kernel* kernel : {&plain, &after_barrier, &diagonal, &columns})
      benchmarks.push_back(benchmark_of(*kernel, block, m));
  Timer timer = run.timer;
  timer.rounds = rounds;
  const Timings timed = timer.interleaved(benchmarks);

  const auto of = [&](const Kernel& kernel, dim3 block) -> const Times& {
    return timed[name_of(kernel, block)];
  };
  const double ms_of_32x8 = of(plain, {32, 8}).median(), ms_of_8x8 = of(plain, {8, 8}).median();
  Table table("block, " + text(dim3(n, n)), {"sectors", "predicted ms", "RowCol ms", "barrier ms",
                                             "diagonal ms", "gain", "ColRow ms"});
  Gains gains;
  for (const dim3 block : chart) {
    const bool calibrates = block.y == 8 && block.x != 16;  // 32 x 8, 8 x 8
    gains.diagonal.push_back(ratio(of(plain, block), of(diagonal, block)));
    gains.columns.push_back(ratio(of(plain, block), of(columns, block)));
    table.row(text(block),
              {store_sectors(block, n),
               calibrates ? Cell("") : Cell(predicted_ms(block, n, ms_of_32x8, ms_of_8x8)),
               of(plain, block).ms_interval(), of(after_barrier, block).ms_interval(),
               of(diagonal, block).ms_interval(), gains.diagonal.back(),
               of(columns, block).ms_interval()});
  }
  run.print(table);
  if (!run.beyond_l2(8.0 * n * n))
    run.note("less than four times the L2: its rates, not the memory's");
  return gains;
}

/// The diagonal order as the wiki prints it, beside the one that covers the matrix.
void measure_as_printed(Run& run) {
  const Matrices m{wiki_side, wiki_side};
  std::vector<Benchmark> benchmarks;
  for (const dim3 block : chart)
    for (const Kernel* kernel : {&printed, &diagonal})
      benchmarks.push_back(benchmark_of(*kernel, block, m));
  Timer timer = run.timer;
  timer.rounds = rounds;
  const Timings timed = timer.interleaved(benchmarks);

  Table table("block, the wiki's diagonal", {"grid", "words left out", "of all", "ms", "whole ms"});
  for (const dim3 block : chart) {
    require_right(benchmark_of(printed, block, m));
    const size_t left_out = count_left_out(m);
    table.row(text(block), {text(grid_of(printed, block, wiki_side, wiki_side)), left_out,
                            percent(double(left_out) / double(m.out.size())),
                            timed[name_of(printed, block)].ms_interval(),
                            timed[name_of(diagonal, block)].ms_interval()});
  }
  run.print(table);
}

}  // namespace

void block_shape(Run& run) {
  unsigned n = run.quick ? 8192 : 16384;
  while (!run.fits(8.0 * n * n)) n /= 2;
  run.title("transposes of floats in blocks of different shapes");
  const Gains wikis = measure(run, wiki_side);
  measure_as_printed(run);
  std::vector<unsigned> sides{wiki_side + 32};  // no power of two
  if (n > wiki_side && run.beyond_l2(8.0 * n * n)) sides.insert(sides.end(), {n, n + 32});
  std::vector<Interval> columns_of_all = wikis.columns;
  for (const unsigned side : sides) {
    const Gains gains = measure(run, side);
    columns_of_all.insert(columns_of_all.end(), gains.columns.begin(), gains.columns.end());
  }
  run.note("sectors: of a store. predicted, RowCol and diagonal: by them, from 32 x 8; or by the");
  run.note("blocks that start, from 8 x 8. Less: words that come to a sector together are merged,");
  run.note("which barrier shows: there a block stores when all of its words have come");
  run.note("gain: of the diagonal. No text speaks of it beyond the L2, or at other sides");

  run.claim_each({"04.8", "a transpose that reads columns beats one that stores columns",
                  "[LC 4] \"kernel 2 better than kernel 1\""},
                 columns_of_all, "RowCol / ColRow ms", faster());
  run.claim_each(
      {"04.9a", "diagonal order speeds up a transpose that stores columns",
       "[LC 4, quoting the book] \"diagonal-transpose performs better\"", Hardware::kepler},
      wikis.diagonal, "RowCol / diagonal ms", faster());
}
SAMPLE(4, block_shape, "transposes over the shape of the block, and the diagonal");

TEST_CASE("block_shape: sectors of stores, and predictions, by hand") {
  const auto is = [](dim3 block, size_t stored, double ms) {
    CAPTURE(text(block));
    CHECK(store_sectors(block, 4096) == stored);
    CHECK(predicted_ms(block, 4096, 16, 8) == ms);
  };
  is({8, 8}, 8, 8);    // the start
  is({8, 16}, 8, 4);   // both
  is({8, 32}, 8, 4);   // a quarter of the sectors of 32 x 8
  is({16, 8}, 16, 8);  // half of them
  is({16, 16}, 16, 8);
  is({32, 8}, 32, 16);
  is({32, 32}, 32, 16);
  is({4, 64}, 4, 2);  // a warp writes 8 neighbours: whole sectors
}

namespace {

struct Sides {
  unsigned nx, ny;
};
const Sides awkward[] = {{1, 1}, {1, 300}, {300, 1}, {32, 32}, {97, 1009}, {1009, 97}, {640, 131}};

/// Parts of the matrix to which the wiki's order comes, by the wiki's two lines.
std::vector<bool> parts_by_text(dim3 grid) {
  std::vector<bool> parts(size_t(grid.x) * grid.y, false);
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      const unsigned blk_x = (x + y) % grid.x;
      const unsigned blk_y = x;
      if (blk_y < grid.y) parts[size_t(blk_y) * grid.x + blk_x] = true;
    }
  return parts;
}

/// The transpose, by the wiki's loop; not a number where the wiki's order does not come.
std::vector<float> right_output(const Kernel& kernel, dim3 block, Sides m) {
  const dim3 grid = grid_of(kernel, block, m.nx, m.ny);
  const std::vector<bool> parts = parts_by_text(grid);
  std::vector<float> out(size_t(m.nx) * m.ny);
  for (unsigned iy = 0; iy < m.ny; ++iy)
    for (unsigned ix = 0; ix < m.nx; ++ix) {
      const bool comes = !kernel.as_printed || parts[size_t(iy / block.y) * grid.x + ix / block.x];
      out[size_t(ix) * m.ny + iy] = comes ? word(size_t(iy) * m.nx + ix) : NAN;
    }
  return out;
}

}  // namespace

TEST_CASE("block_shape: where the wiki's order comes to, by going through its grids") {
  for (const Sides m : awkward)
    for (const dim3 block : chart) {
      const dim3 grid = grid_of(printed, block, m.nx, m.ny);
      const std::vector<bool> parts = parts_by_text(grid);
      size_t wrong = 0;
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x)
          wrong += wiki_comes_to(x, y, grid) != parts[size_t(y) * grid.x + x];
      CAPTURE(text(grid));
      CHECK(wrong == 0);
    }
  const auto share = [](dim3 block) {  // of a matrix of 2048 x 2048
    const std::vector<bool> parts = parts_by_text(grid_of(printed, block, wiki_side, wiki_side));
    return double(std::count(parts.begin(), parts.end(), true)) / double(parts.size());
  };
  CHECK(share({16, 16}) == 1);
  CHECK(share({16, 32}) == 0.5);
  CHECK(share({32, 8}) == 0.25);  // a quarter, four times
  CHECK(share({8, 32}) == 0.25);  // a quarter, once
}

TEST_CASE("block_shape: every kernel is right in every shape, at awkward sides") {
  if (skip_without_gpu()) return;
  for (const Sides sides : awkward) {
    const Matrices m{sides.nx, sides.ny};
    for (const Kernel* kernel : {&plain, &after_barrier, &diagonal, &columns, &printed})
      for (const dim3 block : chart) {
        CAPTURE(name_of(*kernel, block));
        CAPTURE(sides.nx);
        CAPTURE(sides.ny);
        CHECK_NOTHROW(require_right(benchmark_of(*kernel, block, m)));
        const std::vector<float> right = right_output(*kernel, block, sides);
        const std::vector<float> found = m.out.to_host();
        size_t wrong = 0, not_written = 0;
        for (size_t i = 0; i < right.size(); ++i) {
          const bool comes = right[i] == right[i];
          not_written += !comes;
          wrong += comes ? found[i] != right[i] : found[i] == found[i];
        }
        CHECK(wrong == 0);
        CHECK(count_left_out(m) == not_written);
      }
  }
}

TEST_CASE("block_shape: one order is not taken for the other") {
  if (skip_without_gpu()) return;
  const Matrices m{96, 128};
  const Benchmark ours = benchmark_of(diagonal, {8, 32}, m);  // 12 x 4 blocks
  const Benchmark wikis = benchmark_of(printed, {8, 32}, m);  // comes to a third of them
  CHECK_THROWS_AS(require_right({"", wikis.work, ours.check}), WrongResult);
  CHECK_THROWS_AS(require_right({"", ours.work, wikis.check}), WrongResult);
}
