// block_shape: the transposes that have no tile, in blocks of different shapes. In the book on
// which the wiki is based, row -> column becomes faster when the blocks work along diagonals of the
// matrix. The wiki [LC 4] transposes 2048 x 2048 words on a GTX 1080 Ti, and finds that the gain
// depends on the block's shape.
// Two things to look at:
//   - The sectors of the stores, which depend on the shape alone. Beyond the L2, a kernel whose
//     stores have 8 sectors per request is about four times as fast as one whose stores have 32.
//   - The gain of the diagonal at 2048 x 2048, which lies in the L2 of a large GPU, and beyond the
//     L2, as it was on the wiki's card.
//
//   cmake -S 04_bandwidth -B build/block_shape -DEXPERIMENTS=block_shape
//   cmake --build build/block_shape && build/block_shape/04_bandwidth
//
//   1  row_to_column           reads by rows, writes by columns
//   2  diagonal_row_to_column  row_to_column, with the blocks in diagonal order
//   3  wiki_row_to_column      the wiki's own diagonal order, which leaves elements out
//   4  column_to_row           reads by columns, writes by rows
//   5  diagonal_column_to_row  column_to_row, with the blocks in diagonal order
#include "../framework/common/experiment.hpp"
#include "transpose.cuh"

using namespace samples;

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words ----

// A block of 32 x 8: a warp reads 32 neighbours of a row (4 sectors) and writes each of them to a
// row of its own (32 sectors). A block of 8 x 32: a warp is 8 lanes wide and 4 high. It reads 4
// whole sectors and writes halves of 8 sectors.
static __global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;  // column of the input
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;  // its row
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// [diagonal_row_to_column]
// Each warp does what it did in row_to_column. But the next block to start takes the part of the
// matrix to the right and below, round the edges.
static __global__ void diagonal_row_to_column(float* out, const float* in, unsigned nx,
                                              unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;  // blocks start in this order
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/diagonal_row_to_column]

// [wiki_row_to_column]
// The wiki's order. blockIdx.x counts rows of blocks, of which there are gridDim.y. If the grid is
// higher than wide, some rows are left out, and others done again. If it is wider, some blocks find
// nothing to do.
static __global__ void wiki_row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block_y = blockIdx.x;
  const unsigned block_x = (blockIdx.x + blockIdx.y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/wiki_row_to_column]

// A block of 32 x 8: a warp reads a column (32 sectors) and writes 32 neighbours (4 sectors). The
// rest of each sector that it reads stays in L1, for the block's other warps.
static __global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;  // row of the input
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;  // its column
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// column_to_row in diagonal order.
static __global__ void diagonal_column_to_row(float* out, const float* in, unsigned nx,
                                              unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned iy = block_x * blockDim.x + threadIdx.x;
  const unsigned ix = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

namespace {

// ---- the rows: a kernel in blocks of one shape at one size ----

struct Kernel {
  std::string_view name = {};
  const char* words = "";
  void (*launch)(float*, const float*, unsigned, unsigned) = nullptr;
  bool by_columns = false;  ///< blockIdx.x and threadIdx.x go down the input, not along its rows
  bool wiki_order = false;
};
template <auto kernel>
Kernel named(Kernel k) {
  k.name = name_of<kernel>();
  k.launch = kernel;
  return k;
}
const Kernel plain = named<row_to_column>({.words = "row -> column"});
const Kernel diagonal = named<diagonal_row_to_column>({.words = "diagonal"});
const Kernel wiki = named<wiki_row_to_column>({.words = "wiki's order", .wiki_order = true});
const Kernel columns = named<column_to_row>({.words = "column -> row", .by_columns = true});
const Kernel diagonal_columns =
    named<diagonal_column_to_row>({.words = "column -> row, diagonal", .by_columns = true});
const Kernel* const kernels[] = {&plain, &diagonal, &wiki, &columns, &diagonal_columns};

struct Block {
  unsigned x, y;
  bool operator==(const Block&) const = default;
};
/// From 8 x 8 to 32 x 32, as in the wiki's chart.
constexpr Block chart[] = {{8, 8},   {8, 16}, {8, 32},  {16, 8}, {16, 16},
                           {16, 32}, {32, 8}, {32, 16}, {32, 32}};
/// Flat and upright ones; the last two with --full.
constexpr Block others[] = {{64, 4}, {256, 1}, {4, 64}, {128, 2}, {1, 256}};

std::vector<Block> shapes(bool full) {
  std::vector<Block> all(std::begin(chart), std::end(chart));
  all.insert(all.end(), std::begin(others), std::end(others) - (full ? 0 : 2));
  return all;
}

struct Case {
  const Kernel* kernel;
  Block block;
  Shape m;

  std::string block_text(const char* by) const {
    return std::to_string(block.x) + by + std::to_string(block.y);
  }
  Ref ref() const { return {std::string(kernel->name) + "_" + block_text("x"), double(m.nx)}; }
  std::string words() const { return std::string(kernel->words) + ", " + block_text(" x "); }
  dim3 grid() const {
    const unsigned across = kernel->by_columns ? m.ny : m.nx;
    const unsigned down = kernel->by_columns ? m.nx : m.ny;
    return dim3((across + block.x - 1) / block.x, (down + block.y - 1) / block.y);
  }
  double blocks() const { return double(grid().x) * grid().y; }
};

Case case_of(const Ref& ref) {
  for (const Kernel* k : kernels)
    for (const Block b : shapes(true))
      if (const Case c{k, b, square(size_t(ref.at))}; same(c.ref(), ref)) return c;
  throw std::logic_error("no row of block_shape is '" + text(ref) + "'");
}

const Shape wiki_size = square(2048);

/// Whether a shape of the chart is measured in the wiki's order: where that differs from ours,
/// which is on grids that are not as wide as high.
bool in_wiki_order(Block b) {
  const dim3 grid = Case{&wiki, b, wiki_size}.grid();
  return grid.x != grid.y && std::ranges::count(chart, b) > 0;
}

// ---- what is right ----

/// Whether the wiki's order reaches the part of the matrix at (x, y). Block (y, j) of the grid
/// takes it if (y + j) % grid.x is x, and needs a j below grid.y.
__host__ __device__ bool wiki_reaches(unsigned x, unsigned y, dim3 grid) {
  return y < grid.x && (x + grid.x - y) % grid.x < grid.y;
}

/// Where no block comes, the poison must still stand.
struct Right {
  Shape m;
  Block block;
  dim3 grid;
  bool wiki_order;

  __host__ __device__ bool operator()(size_t i, float found) const {
    const unsigned x = unsigned(i / m.ny) / block.x, y = unsigned(i % m.ny) / block.y;
    if (!wiki_order || wiki_reaches(x, y, grid)) return RightOutput{m, true}(i, found);
    return found != found;  // a poisoned word is no number
  }
};

struct IsWritten {
  __device__ bool operator()(size_t, float found) const { return found == found; }
};

Task task_of(const Shared<Matrices>& x, const Case& c) {
  const auto launch = [x, c] {
    c.kernel->launch<<<c.grid(), dim3(c.block.x, c.block.y)>>>(x->out.data(), x->in.data(), c.m.nx,
                                                               c.m.ny);
  };
  return {text(c.ref()), launch, x->out.check(Right{c.m, c.block, c.grid(), c.kernel->wiki_order})};
}

double percent(size_t elements, Shape m) { return 100 * double(elements) / double(m.elements()); }

/// Percent of the elements that a launch writes, counted.
Statistics percent_written(const Case& c) {
  const Shared x(Matrices{c.m});
  require_right(task_of(x, c));
  return single(percent(c.m.elements() - x->out.wrong(IsWritten{}), c.m));
}

// ---- prediction ----

/// Index of the word that a lane of a block's first warp loads or stores.
size_t word_of_lane(const Case& c, unsigned lane, bool loads) {
  unsigned ix = lane % c.block.x, iy = lane / c.block.x;
  if (c.kernel->by_columns) std::swap(ix, iy);
  return loads ? size_t(iy) * c.m.nx + ix : size_t(ix) * c.m.ny + iy;
}

/// What a request of a warp touches: the same for all warps, as the sides are multiples of 32.
Traffic request_of(const Case& c, bool loads) {
  return count_traffic(Launch{.grid = dim3(1), .block = dim3(32)},
                       [&](const Thread& t) { return word_of_lane(c, t.tid.x, loads); });
}

/// Elements that a launch reaches.
size_t elements_reached(const Case& c) {
  if (!c.kernel->wiki_order) return c.m.elements();
  const dim3 grid = c.grid();
  size_t reached = 0;
  for (unsigned y = 0; y < grid.y; ++y)
    for (unsigned x = 0; x < grid.x; ++x) {
      const size_t width = std::min(c.block.x, c.m.nx - x * c.block.x);
      const size_t height = std::min(c.block.y, c.m.ny - y * c.block.y);
      if (wiki_reaches(x, y, grid)) reached += width * height;
    }
  return reached;
}

/// Share of a launch's blocks that find something to do.
double share_working(const Case& c) {
  return c.kernel->wiki_order ? std::min(1.0, double(c.grid().y) / c.grid().x) : 1;
}

/// The model's constants, in ms, measured in the same run at the same size.
struct Calibrated {
  double block = NAN;    ///< to start a block
  double store = NAN;    ///< a partly written sector, which goes to L2 as a request of its own
  double latency = NAN;  ///< the whole matrix with one word per thread in flight
};
Case many_blocks(Shape m) { return {&plain, {8, 8}, m}; }
Case scattered(Shape m) { return {&plain, {32, 8}, m}; }
Case few_sectors(Shape m) { return {&columns, {16, 16}, m}; }

bool calibrates(const Case& c) {
  const auto is = [&](const Case& other) { return same(c.ref(), other.ref()); };
  return is(many_blocks(c.m)) || is(scattered(c.m)) || is(few_sectors(c.m));
}

double requests(Shape m) { return double(m.elements()) / 32; }

/// The longest of four times. The model leaves out the start and the end of a launch, which matter
/// at 2048 x 2048. It assumes that a block finds in L1 what its own warps left there. A block of
/// 256 x 1 has a single row of warps, and column -> row takes 1.9 times as long there.
double predicted_ms(const Case& c, const Calibrated& from, const Device& gpu) {
  const Traffic load = request_of(c, true), store = request_of(c, false);
  const double working = share_working(c);
  double ms = std::max(from.block * c.blocks(), from.latency * working);
  if (store.sectors > store.full_sectors)
    ms = std::max(ms, from.store * store.sectors * requests(c.m) * working);
  // L1's data path: each line loaded and each sector stored takes it for a cycle
  const double cycles = (load.lines + store.sectors) * requests(c.m) * working;
  const double cycles_per_ms = double(gpu.sm_clock_khz) * gpu.prop.multiProcessorCount;
  return cycles_per_ms > 0 ? std::max(ms, cycles / cycles_per_ms) : ms;
}

/// Found on compute capability 9.0: a test holds rows to the model there only. The model leaves out
/// that blocks less than 8 words wide or high share sectors. In 16 x 32, row -> column takes a
/// quarter to a third less than its stores should take, and we do not know why.
Model model_of(const Case& c, const Device* gpu) {
  const bool whole_sectors = c.block.x >= 8 && c.block.y >= 8;
  const bool unexplained = !c.kernel->by_columns && c.block == Block{16, 32};
  const bool modelled = whole_sectors && !unexplained && !c.kernel->wiki_order;
  return modelled && gpu && gpu->prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

/// How many times as fast the other order is.
Comparison gain_of(const Kernel& order, Block b, Shape m) {
  const Kernel& before = order.by_columns ? columns : plain;
  return {.slow = Case{&before, b, m}.ref(), .fast = Case{&order, b, m}.ref()};
}

Sheet sheet_of(const Run& run, Shape m, std::initializer_list<const Kernel*> of) {
  const auto sectors = [](bool loads) {
    return [=](const Row& row) { return request_of(case_of(row.ref), loads).sectors; };
  };
  const auto gain = [&run](const Row& row, const Statistics& ms) {
    const Case c = case_of(row.ref);
    const Ref slow = gain_of(*c.kernel, c.block, c.m).slow;
    const double before = (*run.results)(slow).time.ms.median;
    return same(slow, row.ref) || ms.repeats == 0 ? "" : fixed(before / ms.median, 2) + "x";
  };
  Sheet sheet(run, "block, " + sides(m),
              {number(predicted("load", "sectors a load request", "sectors", 0), sectors(true)),
               number(predicted("store", "sectors a store request", "sectors", 0), sectors(false)),
               milliseconds(4),
               spread(),
               in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               {shown("gain"), {}, {}, gain}},
              "side");
  for (const Block b : shapes(run.full))
    for (const Kernel* k : of) {
      if (k->wiki_order && !in_wiki_order(b)) continue;
      const Case c{k, b, m};
      sheet.add({.ref = c.ref(),
                 .words = c.words(),
                 .bytes = bytes_moved(m),
                 .calibrates = calibrates(c),
                 .model = model_of(c, run.device)});
    }
  return sheet;
}

/// A finding, not judged: for which shapes of the chart the diagonal gains most and least.
void find_extremes(const Run& run, const char* part, Shape m) {
  const auto gain = [&](Block b) { return ratio_of(run, gain_of(diagonal, b, m)); };
  std::vector<Block> measured;
  for (const Block b : chart)
    if (gain(b).measured()) measured.push_back(b);
  if (measured.empty()) return;
  const auto [least, most] =
      std::ranges::minmax(measured, {}, [&](Block b) { return gain(b).value; });
  run.report.finding(part, sides(m) + ": the diagonal is " + faster(gain(most)) + " in blocks of " +
                               Case{&diagonal, most, m}.block_text(" x ") + ", and " +
                               faster(gain(least)) + " in blocks of " +
                               Case{&diagonal, least, m}.block_text(" x "));
}

void measure_size(const Run& run, Shape m, const char* part) {
  const bool with_wiki = m.nx == wiki_size.nx;
  Sheet by_rows = with_wiki ? sheet_of(run, m, {&plain, &diagonal, &wiki})
                            : sheet_of(run, m, {&plain, &diagonal});
  Sheet by_columns = sheet_of(run, m, {&columns, &diagonal_columns});
  SharedByTasks matrices([m] { return Matrices{m}; });
  for (Sheet* sheet : {&by_rows, &by_columns})
    sheet->measure(Timing::in_turn,
                   [&](const Row& row) { return task_of(matrices(), case_of(row.ref)); });
  const Case blocks = many_blocks(m), stores = scattered(m);
  const Calibrated c{
      .block = by_rows.ms(blocks.ref()) / blocks.blocks(),
      .store = by_rows.ms(stores.ref()) / (request_of(stores, false).sectors * requests(m)),
      .latency = by_rows.ms(few_sectors(m).ref())};
  for (Sheet* sheet : {&by_rows, &by_columns}) {
    sheet->predict([&](const Row& row) {
      return run.device ? predicted_ms(case_of(row.ref), c, *run.device) : double(NAN);
    });
    sheet->print();
  }
  find_extremes(run, part, m);
}

/// How much of the matrix the wiki's order reaches: the model, and counted.
void show_reached(const Run& run) {
  Table table(
      run.report, "wiki's order",
      {shown("grid"), predicted("% reached", "elements reached", "%", 0), shown("counted")});
  for (const Block b : chart) {
    if (!in_wiki_order(b)) continue;
    const Case c{&wiki, b, wiki_size};
    const Statistics counted =
        ask(run, c.ref(), "elements reached", "%", [&] { return percent_written(c); });
    table.row(
        {c.ref().key, "side", at_text(c.ref()), c.words()},
        {std::to_string(c.grid().x) + " x " + std::to_string(c.grid().y),
         percent(elements_reached(c), c.m), counted.repeats ? fixed(counted.median, 0) : "-"});
  }
  table.print();
}

Shape large_matrix(const Run& run) {
  return square(fitting_size("block_shape", 0, 16384, run.memory_there(),
                             [](size_t side) { return bytes_moved(square(side)); }));
}

/// Why nothing is measured beyond the L2; empty: it is.
std::string not_beyond_l2(const Run& run) {
  if (run.quick) return "--quick measures " + sides(wiki_size) + " alone";
  const Shape m = large_matrix(run);
  if (m.nx <= wiki_size.nx || (run.device && !beyond_l2(*run.device, bytes_moved(m))))
    return "no matrix of four times the L2 fits";
  return "";
}

bool wiki_size_in_l2(const Run& run) {
  return run.device && !beyond_l2(*run.device, bytes_moved(wiki_size));
}

void run_block_shape(const Run& run) {
  const Shape large = large_matrix(run);
  const bool both = not_beyond_l2(run).empty();
  run.report.begin("block_shape", sides(wiki_size) + (both ? " and " + sides(large) : "") +
                                      " float, blocks of different shapes");
  measure_size(run, wiki_size, "04.9a");
  show_reached(run);
  if (wiki_size_in_l2(run))
    run.report.note(sides(wiki_size) + " is less than four times the L2: rates of the cache");
  if (both) measure_size(run, large, "04.9b");
  run.report.note("load, store: sectors per request. The model: blocks that start, partly written");
  run.report.note("sectors, one word per thread in flight, or the cycles of L1's data path");
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const Shape large = large_matrix(run);
  std::vector<Claim> parts{
      {.part = {"04.9a", "the diagonal order of blocks speeds up row -> column, 2048 x 2048",
                "faster by shape, no figure", "GTX 1080 Ti", pascal},
       .rule = beats(),
       .here = wiki_size_in_l2(run) ? "the matrices are less than four times the L2" : ""},
      {.part = {"04.9b", "the diagonal order of blocks speeds up row -> column beyond the L2",
                "faster by shape, no figure", "GTX 1080 Ti", pascal},
       .rule = beats(),
       .unless = not_beyond_l2(run)}};
  for (const Block b : chart) {
    parts[0].pairs.push_back(gain_of(diagonal, b, wiki_size));
    parts[1].pairs.push_back(gain_of(diagonal, b, large));
    if (in_wiki_order(b)) parts[0].found.push_back(gain_of(wiki, b, wiki_size));
  }
  return parts;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = bytes_moved(large_matrix(run));
  return {.allocated = bytes, .touched = bytes};
}

/// About n words, in a matrix that is not square.
std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(n)));
  const Shape m{side + 2, side};
  std::vector<Checked> all;
  for (const Kernel* k : kernels)
    for (const Block b : {Block{32, 8}, Block{8, 32}, Block{4, 64}, Block{256, 1}}) {
      const Shared x(Matrices{m});
      const Case c{k, b, m};
      all.push_back({.task = task_of(x, c), .elements = elements_reached(c), .change_one = [x] {
                       x->out.change(0);
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment block_shape_experiment{.name = "block_shape",
                                               .about = "transposes over the shape of the block",
                                               .run = run_block_shape,
                                               .claims = claims,
                                               .needs = needs,
                                               .tasks = tasks};
