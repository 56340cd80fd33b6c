// block_shape: the four transposes that have no tile, over the shapes of a block. The book says
// that the diagonal order of blocks lifts row -> column, the wiki's chart (GTX 1080 Ti, 2048 x
// 2048) that the gain depends on the shape. Look at the sectors that a warp's load and store touch,
// which the shape alone decides, and at whether the order of the blocks still changes anything.
// 2048 x 2048 stays in the L2 of a large GPU; the second size does not.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "../common/first_edition.hpp"

namespace {

/// Word at column ix and row iy of a matrix whose rows have `width` words.
__host__ __device__ size_t element(unsigned ix, unsigned iy, unsigned width) {
  return size_t(iy) * width + ix;
}

struct Block {
  unsigned x, y;
};
/// The diagonal order: blocks that follow each other stand on a diagonal, so neither their rows nor
/// their columns are the same; it costs each thread three divisions. The text's form is right only
/// for as many blocks in x as in y; this one takes every grid, each block once.
__host__ __device__ Block diagonal(unsigned x, unsigned y, unsigned grid_x, unsigned grid_y) {
  const unsigned b = x + grid_x * y;  // below 2^32 up to 2^38 words in blocks of 64
  const unsigned row = b % grid_y;
  return {(b / grid_y + row) % grid_x, row};
}

// ---- the kernels: the input has ny rows of nx words, the output nx rows of ny
// ---------------------------------------

// A warp reads along rows and writes down columns: neighbouring lanes write a row apart.
__global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x,
                 iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[element(iy, ix, ny)] = in[element(ix, iy, nx)];
}

// A warp reads down columns and writes along rows; the grid covers the output.
__global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x,
                 iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < ny && iy < nx) out[element(ix, iy, ny)] = in[element(iy, ix, nx)];
}

// The same two with the blocks in diagonal order: each warp does what it did, its neighbours do
// something else.
__global__ void row_to_column_diagonal(float* out, const float* in, unsigned nx, unsigned ny) {
  const Block b = diagonal(blockIdx.x, blockIdx.y, gridDim.x, gridDim.y);
  const unsigned ix = b.x * blockDim.x + threadIdx.x, iy = b.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[element(iy, ix, ny)] = in[element(ix, iy, nx)];
}
__global__ void column_to_row_diagonal(float* out, const float* in, unsigned nx, unsigned ny) {
  const Block b = diagonal(blockIdx.x, blockIdx.y, gridDim.x, gridDim.y);
  const unsigned ix = b.x * blockDim.x + threadIdx.x, iy = b.y * blockDim.y + threadIdx.y;
  if (ix < ny && iy < nx) out[element(ix, iy, ny)] = in[element(iy, ix, nx)];
}

struct Shape {
  unsigned x, y;
};
/// From 8 x 8 to 32 x 32, as in the chart, then flat and upright ones.
constexpr Shape shapes[] = {{8, 8},   {8, 16},  {8, 32}, {16, 8},  {16, 16}, {16, 32}, {32, 8},
                            {32, 16}, {32, 32}, {64, 4}, {128, 2}, {256, 1}, {4, 64},  {1, 256}};
constexpr size_t shapes_of_the_chart = 9;
std::string text_of(Shape s) { return std::to_string(s.x) + " x " + std::to_string(s.y); }
struct Transpose {
  const char* name;
  void (*kernel)(float*, const float*, unsigned, unsigned);
  bool covers_output;  ///< the grid covers the output (column -> row), else the input
};
constexpr Transpose transposes[] = {{"row -> column", row_to_column, false},
                                    {"row -> column, diagonal", row_to_column_diagonal, false},
                                    {"column -> row", column_to_row, true},
                                    {"column -> row, diagonal", column_to_row_diagonal, true}};

/// The input's word i: 24 bits of a hash, which float holds exactly, so that a word in the wrong
/// place shows.
__host__ __device__ float value_of(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return float((x ^ x >> 16) >> 8);
}

__global__ void fill(float* in, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    in[i] = value_of(i);
}

// Counts the words of the output that are not what their place asks for, without reading the input.
__global__ void count_wrong(const float* out, unsigned nx, unsigned ny, unsigned long long* wrong) {
  unsigned long long found = 0;
  for (unsigned row = blockIdx.x; row < nx; row += gridDim.x)
    for (unsigned col = threadIdx.x; col < ny; col += blockDim.x)
      found += !(out[element(col, row, ny)] == value_of(element(row, col, nx)));
  if (found) atomicAdd(wrong, found);
}

/// Sectors that the first warp of a block touches in a matrix with rows of `width` words: along
/// rows, or down columns.
unsigned sectors_a_request(Shape s, bool down, unsigned width) {
  std::set<size_t> sectors;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned ix = lane % s.x, iy = lane / s.x;
    sectors.insert((down ? element(iy, ix, width) : element(ix, iy, width)) * sizeof(float) / 32);
  }
  return unsigned(sectors.size());
}

/// A matrix and its transpose on the device.
struct Matrix {
  unsigned nx, ny;
  DeviceBuffer<float> in, out;
  DeviceBuffer<unsigned long long> wrong{1};

  Matrix(unsigned nx, unsigned ny) : nx(nx), ny(ny), in(size_t(nx) * ny), out(size_t(nx) * ny) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  void launch(const Transpose& t, Shape s) {
    const unsigned width = t.covers_output ? ny : nx, height = t.covers_output ? nx : ny;
    const dim3 grid((width + s.x - 1) / s.x, (height + s.y - 1) / s.y);
    t.kernel<<<grid, dim3(s.x, s.y)>>>(out.data(), in.data(), nx, ny);
  }
  unsigned long long wrong_words() {
    CUDA_CHECK(cudaMemset(wrong.data(), 0, wrong.bytes()));
    count_wrong<<<2048, 256>>>(out.data(), nx, ny, wrong.data());
    CUDA_CHECK_LAUNCH();
    return wrong.to_host()[0];
  }
  bool right(const Transpose& t, Shape s) {
    out.poison();
    launch(t, s);
    CUDA_CHECK_LAUNCH();
    return wrong_words() == 0;
  }
};

/// Measures every shape and transpose at one size, and prints a row a shape. Returns what the
/// diagonal order gains on row -> column for the chart's shapes; it holds where the gain is beyond
/// the spread of both times.
std::vector<Judgement> measure(const Run& run, unsigned side, const Measuring& measuring) {
  const std::string size = text_of({side, side});
  const double bytes = 8.0 * side * side;
  Matrix matrix(side, side);
  Table saved(run.report, "",
              {measured("", "time", "ms", 4), measured("", "bandwidth", "GB/s", 1),
               predicted("", "sectors a load request", "", 0),
               predicted("", "sectors a store request", "", 0)});
  Table table(
      run.report, "block",
      {shown("row -> column ms"), shown("diagonal ms"), shown("gain"), shown("column -> row ms"),
       shown("diagonal ms"), shown("gain"), shown("spread"), shown("sectors")});
  std::optional<Progress> progress(std::in_place, "block_shape " + size,
                                   int(std::size(shapes) * 4));
  std::vector<Judgement> gains;
  for (const Shape& s : shapes) {
    const unsigned along = sectors_a_request(s, false, side),
                   down = sectors_a_request(s, true, side);
    std::vector<Statistics> ms;
    double spread = 0;
    for (const Transpose& t : transposes) {
      require_right(matrix.right(t, s),
                    std::string(t.name) + ", " + size + ", block " + text_of(s));
      ms.push_back(time_device(measuring, [&] { matrix.launch(t, s); }));
      CUDA_CHECK_LAUNCH();
      spread = std::max(spread, ms.back().spread());
      saved.row({std::string(t.name) + ", " + size, "", text_of(s)},
                {ms.back(), gigabytes_per_second(bytes, ms.back()),
                 double(t.covers_output ? down : along), double(t.covers_output ? along : down)});
      progress->step();
    }
    const auto text = [&](int i) { return fixed(ms[i].median, 4); };
    const auto gain = [&](int i) { return times(ms[i].median / ms[i + 1].median); };
    table.row({text_of(s)},
              {text(0), text(1), gain(0), text(2), text(3), gain(2), fixed(100 * spread, 1) + "%",
               std::to_string(along) + ", " + std::to_string(down)});
    if (gains.size() < shapes_of_the_chart) gains.push_back(judge_ratio(ms[0], ms[1]));
  }
  progress.reset();
  run.report.note(size + (bytes <= double(run.device->l2_bytes()) ? ", both matrices in the L2:"
                                                                  : ", beyond the L2:"));
  table.print();
  return gains;
}

const Claim diagonal_claim{
    "04.9", "diagonal block order lifts row -> column, by how much depends on the block's shape",
    "GTX 1080 Ti", "chart"};

}  // namespace

void block_shape(const Run& run) {
  unsigned side = 16384;  // 1 GiB a matrix: beyond the L2 of any GPU so far
  while (run.device && side > 2048 && 8.0 * side * side > 0.9 * double(Device::free_bytes()))
    side /= 2;
  const bool second = !run.quick && side > 2048;
  run.report.begin(
      "block_shape",
      "2048 x 2048 float, 16 MiB" +
          (second ? ", and " + text_of({side, side}) + ", " + bytes_text(4.0 * side * side) : ""));
  if (!run.device) {
    Table table(run.report, "block",
                {predicted("sectors along rows", "sectors a request along rows", "", 0),
                 predicted("down columns", "sectors a request down columns", "", 0)});
    for (const Shape& s : shapes)
      table.row({text_of(s)}, {double(sectors_a_request(s, false, side)),
                               double(sectors_a_request(s, true, side))});
    table.print();
    return run.report.left_out("the times", {diagonal_claim});
  }

  Measuring small = run.measuring, large = run.measuring;
  if (!small.typed) small.budget_ms = std::min(small.budget_ms, 2.0);
  if (!large.typed && !run.full) large.repeats = 3;  // the slow shapes take 5 to 17 ms a launch
  measure(run, 2048, small);
  const std::vector<Judgement> gains =
      second ? measure(run, side, large) : std::vector<Judgement>{};
  run.report.note(
      "spread: the worst of the four; sectors: what a warp touches along rows, and down columns");
  if (!second || 8.0 * side * side < 4.0 * double(run.device->l2_bytes()))
    return run.report.claim(diagonal_claim,
                            not_judged("no size was measured that is four times the L2"));
  int lifted = 0;  // it holds if most of the chart's shapes gain
  std::vector<double> values;
  for (const Judgement& gain : gains)
    values.push_back(gain.value), lifted += gain.verdict == Verdict::holds;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::string here = times(*least) + " to " + times(*most) +
                           " from 8 x 8 to 32 x 32, faster for " + std::to_string(lifted) +
                           " of 9 shapes";
  run.report.claim(diagonal_claim, judge_fact(2 * lifted > 9, here, summarize(values).median, "x"));
}

// ---- self-checks ----

TEST_CASE("block_shape: the diagonal order takes every block once") {
  using Grid = std::pair<unsigned, unsigned>;
  for (const auto& [gx, gy] : std::initializer_list<Grid>{
           {1, 1}, {1, 7}, {7, 1}, {4, 4}, {64, 256}, {37, 11}, {11, 37}, {6, 9}}) {
    std::set<std::pair<unsigned, unsigned>> taken, texts;
    for (unsigned y = 0; y < gy; ++y)
      for (unsigned x = 0; x < gx; ++x) {
        const Block b = diagonal(x, y, gx, gy);
        REQUIRE((b.x < gx && b.y < gy));
        taken.insert({b.x, b.y});
        if (x < gy) texts.insert({(x + y) % gx, x});  // the text's: its block row is blockIdx.x
      }
    CHECK(taken.size() == size_t(gx) * gy);
    if (gx == gy) CHECK(texts == taken);
    if (gx == 64)
      CHECK(4 * texts.size() == taken.size());  // 2048 x 2048 in 32 x 8: three quarters untouched
  }
  for (unsigned b = 0; b + 1 < 8;
       ++b) {  // blocks that follow each other share neither row nor column
    const Block one = diagonal(b, 0, 8, 8), next = diagonal(b + 1, 0, 8, 8);
    CHECK((one.x != next.x && one.y != next.y));
  }
}

TEST_CASE("block_shape: sectors a request by shape") {
  using Expected = std::tuple<Shape, unsigned, unsigned>;
  for (const auto& [s, along, down] : std::initializer_list<Expected>{{{32, 8}, 4, 32},
                                                                      {{8, 8}, 4, 8},
                                                                      {{16, 16}, 4, 16},
                                                                      {{4, 64}, 8, 4},
                                                                      {{1, 256}, 32, 4}}) {
    CHECK((sectors_a_request(s, false, 2048) == along && sectors_a_request(s, true, 2048) == down));
  }
}

TEST_CASE("block_shape: every transpose is right for every shape and matrix") {
  if (skip_without_gpu()) return;
  using Size = std::pair<unsigned, unsigned>;
  for (const auto& [nx, ny] : std::initializer_list<Size>{{1, 1},
                                                          {1, 300},
                                                          {300, 1},
                                                          {32, 32},
                                                          {97, 1009},
                                                          {1009, 97},
                                                          {640, 131},
                                                          {1000, 1000}}) {
    Matrix matrix(nx, ny);
    std::vector<float> expected(size_t(nx) * ny);
    for (size_t i = 0; i < expected.size(); ++i) expected[i % nx * ny + i / nx] = value_of(i);
    for (const Transpose& t : transposes)
      for (const Shape& s : shapes) {
        CAPTURE(std::string(t.name) + ", " + text_of({nx, ny}) + ", block " + text_of(s));
        CHECK(matrix.right(t, s));
        CHECK(matrix.out.to_host() == expected);  // and by the host
      }
  }
}

TEST_CASE("block_shape: the checker finds a single wrong word") {
  if (skip_without_gpu()) return;
  Matrix matrix(97, 131);
  REQUIRE(matrix.right(transposes[0], {32, 8}));
  std::vector<float> out = matrix.out.to_host();
  out.back() += 1;
  matrix.out.copy_from(out);
  CHECK(matrix.wrong_words() == 1);
}
