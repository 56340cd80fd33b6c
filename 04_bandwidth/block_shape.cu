// block_shape: the transposes that have no tile, over the shapes of a block. The book behind the
// wiki lifts row -> column by taking blocks along diagonals; the wiki [LC 4] measures 2048 x 2048
// on a GTX 1080 Ti and finds that the gain depends on the shape. Look at the sectors of the stores,
// which the shape alone decides, and at how much of the matrix the wiki's own order reaches.
//   cmake -S 04_bandwidth -B build/block_shape -DEXPERIMENTS=block_shape
//   cmake --build build/block_shape && build/block_shape/04_bandwidth
//
//   1  row_to_column            reads by rows, writes by columns
//   2  diagonal_row_to_column   1, with the blocks in diagonal order
//   3  wiki_row_to_column       2 as the wiki has it: right only on grids as wide as high
//   4  column_to_row            reads by columns, writes by rows
//   5  diagonal_column_to_row   4, with the blocks in diagonal order
#include <algorithm>
#include <optional>

#include "../common/report.hpp"

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words; 66000 x 66000
// are more than 2^32 words, so an index has 64 bits ----

// A block of 32 x 8: a warp reads 32 neighbours of a row (4 sectors) and writes each into a row of
// its own (32). A block of 8 x 32: a warp is 8 x 4, reads 4 sectors and writes halves of 8.
static __global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;  // column of the input
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;  // its row
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// [diagonal_row_to_column]
struct Place {
  unsigned x, y;
};

// The block of the matrix that a block of the grid takes: the next one to start takes the one to
// the right and below, round the edges.
inline __host__ __device__ Place diagonal(unsigned block, unsigned grid_x, unsigned grid_y) {
  const unsigned y = block % grid_y;
  return {(block / grid_y + y) % grid_x, y};
}

// Each warp does what it did in kernel 1.
static __global__ void diagonal_row_to_column(float* out, const float* in, unsigned nx,
                                              unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;  // blocks start in this order
  const Place place = diagonal(block, gridDim.x, gridDim.y);
  const unsigned ix = place.x * blockDim.x + threadIdx.x;
  const unsigned iy = place.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/diagonal_row_to_column]

// [wiki_row_to_column]
// The wiki's order. blockIdx.x counts rows of blocks, of which there are gridDim.y: where that is
// more, some rows are left out and others done again; where it is less, blocks find nothing to do.
static __global__ void wiki_row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block_y = blockIdx.x;
  const unsigned block_x = (blockIdx.x + blockIdx.y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/wiki_row_to_column]

// A block of 32 x 8: a warp reads a column (32 sectors) and writes 32 neighbours (4). What came
// with a sector waits in L1 for the block's other warps.
static __global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;  // row of the input
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;  // its column
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// Kernel 4 in diagonal order.
static __global__ void diagonal_column_to_row(float* out, const float* in, unsigned nx,
                                              unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const Place place = diagonal(block, gridDim.x, gridDim.y);
  const unsigned iy = place.x * blockDim.x + threadIdx.x;
  const unsigned ix = place.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

namespace {

// ---- how each is launched ----

struct Block {
  unsigned x, y;
};
std::string text_of(Block b) { return std::to_string(b.x) + " x " + std::to_string(b.y); }

/// From 8 x 8 to 32 x 32, as in the chart; then flat and upright ones.
constexpr Block shapes[] = {{8, 8},   {8, 16},  {8, 32}, {16, 8},  {16, 16}, {16, 32}, {32, 8},
                            {32, 16}, {32, 32}, {64, 4}, {256, 1}, {4, 64},  {128, 2}, {1, 256}};
constexpr size_t shapes_of_the_chart = 9;
constexpr size_t shapes_by_default = 12;  ///< --full: all of them

/// Beyond the L2 a launch takes up to 17 ms: these only, unless --full.
constexpr Block shapes_beyond_l2[] = {{8, 8}, {8, 32}, {16, 16}, {32, 8}, {64, 4}, {4, 64}};

struct Matrix {
  unsigned nx, ny;  ///< words in a row; rows
  size_t words() const { return size_t(nx) * ny; }
};
std::string sides(Matrix m) { return std::to_string(m.ny) + " x " + std::to_string(m.nx); }
/// Each word is read once and written once.
double bytes_moved(Matrix m) { return 8.0 * double(m.words()); }

struct Kernel {
  const char* name;
  void (*kernel)(float*, const float*, unsigned, unsigned);
  bool x_counts_rows;  ///< of the input: blockIdx.x and threadIdx.x go down, not across
  bool wiki_order;     ///< reaches all of the matrix only where the grid is as wide as high
};
constexpr Kernel kernels[] = {
    {"row -> column", row_to_column, false, false},
    {"row -> column, diagonal", diagonal_row_to_column, false, false},
    {"row -> column, wiki's order", wiki_row_to_column, false, true},
    {"column -> row", column_to_row, true, false},
    {"column -> row, diagonal", diagonal_column_to_row, true, false},
};
constexpr size_t kernel_count = std::size(kernels);
enum { row_column, row_column_diagonal, row_column_wiki, column_row, column_row_diagonal };

dim3 grid_of(const Kernel& k, Matrix m, Block b) {
  const unsigned across = k.x_counts_rows ? m.ny : m.nx;
  const unsigned down = k.x_counts_rows ? m.nx : m.ny;
  return dim3((across + b.x - 1) / b.x, (down + b.y - 1) / b.y);
}

// ---- what is right ----

/// Whether some block of the wiki's order takes the block of the matrix at (x, y): block (y, j) of
/// the grid does if (y + j) % grid_x is x, and needs a j below grid_y.
__host__ __device__ bool wiki_reaches(unsigned x, unsigned y, unsigned grid_x, unsigned grid_y) {
  return y < grid_x && (x + grid_x - y) % grid_x < grid_y;
}

/// What a launch has to leave in the output.
struct RightOutput {
  Matrix m;
  Block block;
  dim3 grid;
  bool wiki_order;
};

/// Word `i` of the input: 24 bits of a hash, which float holds exactly, so that a word in the wrong
/// place shows.
__host__ __device__ float value_at(size_t i) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return float((x ^ x >> 16) >> 8);
}

__global__ void fill(float* in, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    in[i] = value_at(i);
}

struct Counts {
  unsigned long long wrong;      ///< words that are not what they have to be
  unsigned long long untouched;  ///< words that are still poisoned
};

/// Word i of the output stands in row i / ny, which is a column of the input. Where no block comes
/// by, the poison has to be there still.
__global__ void compare(const float* out, RightOutput e, Counts* counts) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t words = size_t(e.m.nx) * e.m.ny;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += threads) {
    const size_t ix = i / e.m.ny;
    const size_t iy = i % e.m.ny;
    const bool poisoned = __float_as_uint(out[i]) == ~0u;
    const bool reached =
        !e.wiki_order ||
        wiki_reaches(unsigned(ix / e.block.x), unsigned(iy / e.block.y), e.grid.x, e.grid.y);
    const bool right = reached ? out[i] == value_at(iy * e.m.nx + ix) : poisoned;
    if (!right) atomicAdd(&counts->wrong, 1ull);
    if (poisoned) atomicAdd(&counts->untouched, 1ull);
  }
}

/// A matrix and its transpose on the device. The input ends where its allocation does; behind the
/// output stand canaries.
struct Matrices {
  static constexpr size_t canaries = 64;

  Matrix m;
  DeviceBuffer<float> in{m.words()};
  DeviceBuffer<float> out{m.words() + canaries};
  DeviceBuffer<Counts> counts{1};

  explicit Matrices(Matrix m) : m(m) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
    out.poison();
  }
  Counts count(const RightOutput& e) {
    counts.copy_from({Counts{0, 0}});
    compare<<<1024, 256>>>(out.data(), e, counts.data());
    CUDA_CHECK_LAUNCH();
    return counts.to_host()[0];
  }
  Task task(const Kernel& k, Block b) {
    const RightOutput e{m, b, grid_of(k, m, b), k.wiki_order};
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, e] { return size_t(count(e).wrong); };
    const auto launch = [this, &k, e] {
      k.kernel<<<e.grid, dim3(e.block.x, e.block.y)>>>(out.data(), in.data(), m.nx, m.ny);
    };
    return {std::string(k.name) + ", " + sides(m) + ", block " + text_of(b), launch,
            std::move(check)};
  }
  /// Share of the elements that a launch reaches, counted by what is no longer poisoned.
  double reached(const Kernel& k, Block b) {
    const Task once = task(k, b);
    require_right(once);
    return 1 - double(count({m, b, grid_of(k, m, b), k.wiki_order}).untouched) / double(m.words());
  }
};

// ---- what to expect ----

/// Index of the word that a lane of a block's first warp loads or stores, from the kernels' index
/// expressions.
size_t word_of_lane(const Kernel& k, Block b, Matrix m, unsigned lane, bool loads) {
  unsigned ix = lane % b.x;
  unsigned iy = lane / b.x;
  if (k.x_counts_rows) std::swap(ix, iy);
  return loads ? size_t(iy) * m.nx + ix : size_t(ix) * m.ny + iy;
}

/// What a warp's request touches.
struct Request {
  double lines = 0;         ///< of 128 bytes
  double sectors = 0;       ///< of 32 bytes
  double full_sectors = 0;  ///< of them those that it uses whole
};

Request request_of(const Kernel& k, Block b, Matrix m, bool loads) {
  std::vector<size_t> words;
  for (unsigned lane = 0; lane < 32; ++lane) words.push_back(word_of_lane(k, b, m, lane, loads));
  std::sort(words.begin(), words.end());
  Request r;
  for (size_t i = 0; i < 32; ++i) {
    r.lines += i == 0 || words[i] / 32 != words[i - 1] / 32;
    r.sectors += i == 0 || words[i] / 8 != words[i - 1] / 8;
    r.full_sectors += i >= 7 && words[i] % 8 == 7 && words[i - 7] + 7 == words[i];
  }
  return r;
}

/// The model's constants, measured in the same run at the same size; milliseconds.
struct Calibrated {
  double block = NAN;    ///< to start a block: 8 x 8 has the most blocks
  double store = NAN;    ///< of a part of a sector, a packet of its own on the way to L2: 32 x 8
  double latency = NAN;  ///< of the whole matrix with a word a thread in flight: 16 x 16
};
constexpr Block many_blocks{8, 8}, scattered{32, 8}, few_sectors{16, 16};

bool calibrates(size_t kernel, Block b) {
  const auto is = [b](Block other) { return b.x == other.x && b.y == other.y; };
  return (kernel == row_column && (is(many_blocks) || is(scattered))) ||
         (kernel == column_row && is(few_sectors));
}

/// Share of the elements that a launch reaches, and of its blocks that find something to do.
struct Reach {
  double elements = 1, blocks = 1;
};

Reach reach_of(const Kernel& k, Matrix m, Block b) {
  if (!k.wiki_order) return {};
  const dim3 grid = grid_of(k, m, b);
  const double high = double(grid.y) / grid.x;
  return {std::min(high, 1 / high), std::min(high, 1.0)};
}

/// Milliseconds that the slowest of four things takes. It leaves out a launch's start and end,
/// which show at 2048 x 2048 (column -> row, 32 words wide: up to 1.4 times as long), and it takes
/// for granted that a block finds in L1 what its own warps left there: one of 256 x 1 has a single
/// row of warps, and takes 1.9 times as long there.
double predicted_ms(const Kernel& k, Matrix m, Block b, const Calibrated& c, const Device& device) {
  const Request load = request_of(k, b, m, true);
  const Request store = request_of(k, b, m, false);
  const dim3 grid = grid_of(k, m, b);
  const double blocks = double(grid.x) * grid.y;
  const double working = reach_of(k, m, b).blocks;
  const double requests = working * double(m.words()) / 32;

  double ms = c.block * blocks;            // every block has to be started
  ms = std::max(ms, working * c.latency);  // a word a thread in flight, over its latency
  if (store.sectors > store.full_sectors)  // parts of sectors, a packet each, to L2
    ms = std::max(ms, c.store * store.sectors * requests);
  // L1's data path: a line loaded takes it for a cycle, and so does a sector stored
  const double cycles = (load.lines + store.sectors) * requests;
  const double cycles_a_ms = double(device.sm_clock_khz) * device.prop.multiProcessorCount;
  return cycles_a_ms > 0 ? std::max(ms, cycles / cycles_a_ms) : ms;
}

/// Found on compute capability 9.0, and a test holds rows to it there only. It leaves out that a
/// block less than 8 words wide or high shares its sectors with other blocks. And row -> column in
/// 16 x 32 takes a quarter to a third less than its stores should cost, which is not explained: no
/// test holds it to the model.
Model model_of(const Kernel& k, Block b, const Device& device) {
  const bool whole_sectors = b.x >= 8 && b.y >= 8;
  const bool unexplained = !k.x_counts_rows && b.x == 16 && b.y == 32;
  const bool modelled = whole_sectors && !unexplained && !k.wiki_order && device.prop.major == 9;
  return modelled ? Model::traffic : Model::host;
}

// ---- the experiment ----

/// Times of all kernels for one shape; empty where they were not measured.
struct ShapeTimes {
  Block block;
  Readings of[kernel_count];
};

constexpr Matrix wiki_size{2048, 2048};

/// Whether it is a shape of the chart for which the wiki's order differs from ours.
bool wiki_differs(Block b) {
  const dim3 grid = grid_of(kernels[row_column_wiki], wiki_size, b);
  return std::max(b.x, b.y) <= 32 && grid.x != grid.y;
}

/// Checks and times all kernels for these shapes, in turn.
void measure(const Run& run, Matrices& matrices, std::vector<ShapeTimes>& all) {
  const bool with_wiki = matrices.m.nx == wiki_size.nx;
  std::vector<Task> tasks;
  std::vector<Readings*> readings;
  for (ShapeTimes& times : all)
    for (size_t k = 0; k < kernel_count; ++k) {
      if (kernels[k].wiki_order && !(with_wiki && wiki_differs(times.block))) continue;
      tasks.push_back(matrices.task(kernels[k], times.block));
      readings.push_back(&times.of[k]);
    }
  const std::vector<Readings> measured = run.time_in_turn(tasks);
  for (size_t i = 0; i < measured.size(); ++i) *readings[i] = measured[i];
}

double median_of(const std::vector<ShapeTimes>& all, size_t kernel, Block b) {
  for (const ShapeTimes& times : all)
    if (times.block.x == b.x && times.block.y == b.y) return times.of[kernel].median();
  return NAN;
}

Calibrated calibrate(const std::vector<ShapeTimes>& all, Matrix m) {
  const Kernel& k = kernels[row_column];
  const dim3 grid = grid_of(k, m, many_blocks);
  const double stores = request_of(k, scattered, m, false).sectors * double(m.words()) / 32;
  Calibrated c;
  c.block = median_of(all, row_column, many_blocks) / (double(grid.x) * grid.y);
  c.store = median_of(all, row_column, scattered) / stores;
  c.latency = median_of(all, column_row, few_sectors);
  return c;
}

/// The range of a ratio as a cell.
Statistics cell_of(const Interval& r) { return {r.value, r.low, r.high, r.pairs}; }

/// A table of one size and direction: each shape in plain and in diagonal order.
void print_direction(const Run& run, Matrix m, size_t plain, size_t diagonal,
                     const std::vector<ShapeTimes>& all, const Calibrated& c) {
  Table table(
      run.report, "block, " + sides(m),
      {predicted("load", "sectors a load request", "sectors", 0),
       predicted("store", "sectors a store request", "sectors", 0), compared("ms", "time", "ms", 4),
       shown("spread"), saved_only(measured("", "bandwidth", "GB/s", 0)),
       compared("diagonal ms", "diagonal time", "ms", 4),
       saved_only(measured("", "diagonal bandwidth", "GB/s", 0)),
       measured("gain", "gain of the diagonal", "x", 2)});
  for (const ShapeTimes& times : all) {
    const Block b = times.block;
    const auto cell = [&](size_t k) -> Cell {
      if (!run.device) return {};
      const Statistics ms = times.of[k].statistics();
      if (calibrates(k, b)) return Calibration{ms};
      return Compared{predicted_ms(kernels[k], m, b, c, *run.device), ms,
                      model_of(kernels[k], b, *run.device)};
    };
    const Statistics plain_ms = times.of[plain].statistics();
    const Statistics diagonal_ms = times.of[diagonal].statistics();
    table.row({std::string(kernels[plain].name) + ", " + sides(m), "block", text_of(b)},
              {request_of(kernels[plain], b, m, true).sectors,
               request_of(kernels[plain], b, m, false).sectors, cell(plain), spread_text(plain_ms),
               gigabytes_per_second(bytes_moved(m), plain_ms), cell(diagonal),
               gigabytes_per_second(bytes_moved(m), diagonal_ms),
               cell_of(ratio(times.of[plain], times.of[diagonal]))});
  }
  table.print();
}

/// The wiki's own order where it is not ours, and how much of the matrix it reaches.
void print_wiki(const Run& run, const std::vector<ShapeTimes>& all, const Calibrated& c,
                Matrices* matrices) {
  const Kernel& k = kernels[row_column_wiki];
  Table table(run.report, "wiki's order, block",
              {shown("grid"), compared("% reached", "elements reached", "%", 1),
               compared("ms", "time", "ms", 4), shown("spread"),
               measured("gain", "gain of the wiki's order", "x", 2)});
  for (const ShapeTimes& times : all) {
    const Block b = times.block;
    if (!wiki_differs(b)) continue;
    const dim3 grid = grid_of(k, wiki_size, b);
    const double expected = 100 * reach_of(k, wiki_size, b).elements;
    Statistics reached;
    Cell time;
    if (matrices) {
      const double percent = 100 * matrices->reached(k, b);
      reached = {percent, percent, percent, 1};
      time = Compared{predicted_ms(k, wiki_size, b, c, *run.device),
                      times.of[row_column_wiki].statistics(), Model::host};
    }
    table.row({"wiki's order", "block", text_of(b)},
              {text_of(Block{grid.x, grid.y}), Compared{expected, reached}, time,
               spread_text(times.of[row_column_wiki].statistics()),
               cell_of(ratio(times.of[row_column], times.of[row_column_wiki]))});
  }
  table.print();
}

/// Of an odd number of intervals the one whose value is the median.
Interval middle(std::vector<Interval> all) {
  if (all.empty()) return {};
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.value < b.value; });
  return all[all.size() / 2];
}

/// What the diagonal gains on row -> column for the chart's shapes.
struct Gain {
  Block block;
  Interval diagonal, wiki;
};

std::vector<Gain> gains_of(const std::vector<ShapeTimes>& all) {
  std::vector<Gain> gains;
  for (size_t i = 0; i < std::min(all.size(), shapes_of_the_chart); ++i) {
    const ShapeTimes& times = all[i];
    gains.push_back({times.block, ratio(times.of[row_column], times.of[row_column_diagonal]), {}});
    if (wiki_differs(times.block))
      gains.back().wiki = ratio(times.of[row_column], times.of[row_column_wiki]);
  }
  return gains;
}

/// What the wiki's order seems to gain where it leaves elements out.
std::string wiki_finding(const std::vector<Gain>& gains) {
  double least = INFINITY, most = 0;
  int shapes_left_out = 0;
  for (const Gain& gain : gains) {
    if (!gain.wiki.measured()) continue;
    ++shapes_left_out;
    least = std::min(least, gain.wiki.value);
    most = std::max(most, gain.wiki.value);
  }
  if (shapes_left_out == 0) return "";
  return "the wiki's own order leaves half of the elements out, or more, for " +
         std::to_string(shapes_left_out) + " of " + std::to_string(gains.size()) +
         " shapes, and takes " + factor_text(1 / most) + " to " + factor_text(1 / least) +
         " of the plain time there";
}

/// The shapes whose gains lie farthest apart, and how many times the one gain is the other.
struct Extremes {
  Block most{}, least{};
  Interval most_gain, least_gain, apart;
};

/// Round by round, how many times as fast the diagonal is.
Readings gain_by_round(const Readings& plain, const Readings& diagonal) {
  Readings gain;
  for (size_t i = 0; i < std::min(plain.ms.size(), diagonal.ms.size()); ++i)
    gain.ms.push_back(plain.ms[i] / diagonal.ms[i]);
  return gain;
}

Extremes extremes_of(const ShapeTimes& most, const ShapeTimes& least) {
  const auto gain = [](const ShapeTimes& times) {
    return gain_by_round(times.of[row_column], times.of[row_column_diagonal]);
  };
  const auto diagonal = [](const ShapeTimes& times) {
    return ratio(times.of[row_column], times.of[row_column_diagonal]);
  };
  return {most.block, least.block, diagonal(most), diagonal(least), ratio(gain(most), gain(least))};
}

/// Picks them from the sweep's gains and measures them again.
Extremes measure_extremes(const Run& run, Matrices& matrices, const std::vector<Gain>& gains) {
  const auto less = [](const Gain& a, const Gain& b) {
    return a.diagonal.value < b.diagonal.value;
  };
  const auto [least, most] = std::minmax_element(gains.begin(), gains.end(), less);
  std::vector<Task> tasks;
  for (const Block b : {most->block, least->block})
    for (const size_t k : {row_column, row_column_diagonal})
      tasks.push_back(matrices.task(kernels[k], b));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  ShapeTimes of_most{most->block, {}}, of_least{least->block, {}};
  of_most.of[row_column] = times[0];
  of_most.of[row_column_diagonal] = times[1];
  of_least.of[row_column] = times[2];
  of_least.of[row_column_diagonal] = times[3];
  return extremes_of(of_most, of_least);
}

void judge_diagonal(const Run& run, const std::vector<Gain>& gains, const Extremes& extremes) {
  const Part lifts{"04.9a", "the diagonal order of blocks lifts row -> column", "faster, no figure",
                   "the book", pascal};
  std::vector<Verdict> verdicts;
  std::vector<Interval> all;
  for (const Gain& gain : gains) {
    verdicts.push_back(judge(beats(), gain.diagonal));
    all.push_back(gain.diagonal);
  }
  const Verdict verdict = judge_many(verdicts);
  const Interval median = middle(all);
  const auto beaten = std::count(verdicts.begin(), verdicts.end(), Verdict::holds);
  run.report.judged(lifts, verdict, median,
                    "faster for " + std::to_string(beaten) + " of " + std::to_string(gains.size()) +
                        " shapes, in the median " + faster(median));
  if (verdict != Verdict::not_judged) run.report.finding("04.9a", wiki_finding(gains));
  run.report.judge(
      {"04.9b", "the gain depends on the shape of the block", "chart", "GTX 1080 Ti", pascal},
      beats(), extremes.apart,
      faster(extremes.most_gain) + " at " + text_of(extremes.most) + ", " +
          faster(extremes.least_gain) + " at " + text_of(extremes.least) + ", measured again");
}

/// Some shapes, or all of them, at a size that stays in no cache. No claim is about it.
void beyond_the_cache(const Run& run, Matrix m) {
  Run brief = run;
  brief.measuring.rounds = 6;
  std::vector<ShapeTimes> times;
  if (run.full)
    for (const Block b : shapes) times.push_back({b, {}});
  else
    for (const Block b : shapes_beyond_l2) times.push_back({b, {}});
  Matrices matrices(m);
  measure(brief, matrices, times);
  const Calibrated c = calibrate(times, m);
  print_direction(run, m, row_column, row_column_diagonal, times, c);
  print_direction(run, m, column_row, column_row_diagonal, times, c);
}

/// The second matrix; the first stays beside it.
Matrix large_matrix(const Run& run) {
  const auto bytes = [](size_t n) {
    return bytes_moved({unsigned(n), unsigned(n)}) + bytes_moved(wiki_size);
  };
  const unsigned side = unsigned(fitting_size("block_shape", 0, 16384, run.memory_there(), bytes));
  return {side, side};
}

}  // namespace

void block_shape(const Run& run) {
  const Matrix large = large_matrix(run);
  const bool second = run.device && !run.quick && large.nx > wiki_size.nx;
  const auto size = [](Matrix m) { return sides(m) + " float, " + bytes_text(bytes_moved(m) / 2); };
  run.report.begin("block_shape", size(wiki_size) + (second ? "; " + size(large) : ""));

  std::vector<ShapeTimes> times;
  for (size_t i = 0; i < (run.full ? std::size(shapes) : shapes_by_default); ++i)
    times.push_back({shapes[i], {}});
  std::optional<Matrices> small;
  Calibrated c;
  if (run.device) {
    small.emplace(wiki_size);
    measure(run, *small, times);
    c = calibrate(times, wiki_size);
    if (!beyond_l2(*run.device, bytes_moved(wiki_size)))
      run.report.note(sides(wiki_size) + " is less than four times the L2: the cache's rates");
  }
  print_direction(run, wiki_size, row_column, row_column_diagonal, times, c);
  print_direction(run, wiki_size, column_row, column_row_diagonal, times, c);
  print_wiki(run, times, c, small ? &*small : nullptr);
  if (second) beyond_the_cache(run, large);
  if (!run.device)
    run.report.left_out("the times");
  else
    run.report.note(
        "calibration: a block's start (8 x 8), a part of a sector stored (32 x 8), a word a thread "
        "in flight (16 x 16); load, store: sectors that a warp touches");
  Extremes extremes;
  if (small) extremes = measure_extremes(run, *small, gains_of(times));
  judge_diagonal(run, gains_of(times), extremes);
}
