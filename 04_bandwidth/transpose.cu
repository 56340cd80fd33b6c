// transpose: a matrix is read by rows and written by columns, or the other way round: one of the
// two is scattered, whatever one does. The wiki [LC 4] finds column -> row the faster one, and the
// book behind it lifts row -> column by taking blocks along diagonals. Look at the sectors of the
// stores: with 4 a request a kernel takes about a millisecond, with 32 about four, whatever it
// loads. Shared memory then makes both sides whole, and wider accesses fill the bus.
//   cmake -S 04_bandwidth -B build/transpose -DEXPERIMENTS=transpose
//   cmake --build build/transpose && build/transpose/04_bandwidth
//
//   1  copy_rows               both sides by rows: as fast as one word a thread can be
//   2  copy_columns            both sides by columns
//   3  row_to_column           the text's first: reads by rows, writes by columns
//   4  column_to_row           the text's second: reads by columns, writes by rows
//   5  diagonal_row_to_column  3, with the blocks in diagonal order
//   6  diagonal_column_to_row  4, with the blocks in diagonal order
//   7  shared_tile             both sides by rows, turned in shared memory
//   8  padded_tile             7 without bank conflicts
//   9  quad_tile               8 in 16-byte words
//  10  best                    9 down the columns, told that nothing is used twice
//   In transpose_tensor.cu: 11, a transpose by tensor copies, and 12 and 13, tiles that are copied
#include <algorithm>

#include "../common/counters.hpp"
#include "../common/report.hpp"
#include "options.hpp"
#include "transpose.cuh"

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words ----

// A warp reads 32 neighbours of a row and writes 32: 4 sectors of 32 bytes each.
__global__ void copy_rows(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(iy) * nx + ix];
}

// Each lane of a warp is a row further than the one before: 32 sectors to read and 32 to write.
__global__ void copy_columns(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(iy) * nx + ix];
}

// A warp reads 32 neighbours of a row (4 sectors) and writes each into a row of its own (32).
__global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;  // column of the input
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;  // its row
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// [column_to_row]
// A warp reads a column (32 sectors) and writes 32 neighbours of a row of the output (4). What came
// with a sector waits in L1 for the block's other warps.
__global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;  // row of the input
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;  // its column
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/column_to_row]

// Kernel 3; blocks that start after each other stand on a diagonal of the grid, not in a row. (The
// text's own formula is this one where the grid is square; elsewhere it leaves blocks out.)
__global__ void diagonal_row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;  // blocks start in this order
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// Kernel 4 in diagonal order.
__global__ void diagonal_column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned iy = block_x * blockDim.x + threadIdx.x;
  const unsigned ix = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

constexpr unsigned tile_side = 32;    // of a tile: a warp's 32 words
constexpr unsigned rows_at_once = 8;  // a block's 32 x 8 threads take a tile in four steps

// A warp reads 32 neighbours and writes 32 neighbours; what is scattered is the read of the tile's
// column. Its 32 words lie in one bank of shared memory, and come one after the other.
__global__ void shared_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[tile_side][tile_side];
  const unsigned ix = blockIdx.x * tile_side + threadIdx.x;
  for (unsigned y = threadIdx.y; y < tile_side; y += rows_at_once) {  // load the tile by rows
    const unsigned iy = blockIdx.y * tile_side + y;
    if (ix < nx && iy < ny) tile[y][threadIdx.x] = in[size_t(iy) * nx + ix];
  }
  __syncthreads();  // the tile's columns are other warps' work
  const unsigned iy = blockIdx.y * tile_side + threadIdx.x;
  for (unsigned x = threadIdx.y; x < tile_side; x += rows_at_once) {  // store it by columns
    const unsigned ix_out = blockIdx.x * tile_side + x;
    if (ix_out < nx && iy < ny) out[size_t(ix_out) * ny + iy] = tile[threadIdx.x][x];
  }
}

// [padded_tile]
// A word more a row: the 32 words of a column lie in 32 banks, and come at once.
__global__ void padded_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[tile_side][tile_side + 1];
  const unsigned ix = blockIdx.x * tile_side + threadIdx.x;
  for (unsigned y = threadIdx.y; y < tile_side; y += rows_at_once) {  // load the tile by rows
    const unsigned iy = blockIdx.y * tile_side + y;
    if (ix < nx && iy < ny) tile[y][threadIdx.x] = in[size_t(iy) * nx + ix];
  }
  __syncthreads();  // the tile's columns are other warps' work
  const unsigned iy = blockIdx.y * tile_side + threadIdx.x;
  for (unsigned x = threadIdx.y; x < tile_side; x += rows_at_once) {  // store it by columns
    const unsigned ix_out = blockIdx.x * tile_side + x;
    if (ix_out < nx && iy < ny) out[size_t(ix_out) * ny + iy] = tile[threadIdx.x][x];
  }
}
// [/padded_tile]

constexpr unsigned wide = 64;           // side of a tile of quads: 4 neighbouring words, 16 bytes
constexpr unsigned quads = wide / 4;    // of a row
constexpr unsigned wide_threads = 256;  // each moves four quads

// A thread reads 4 x 4 words as four quads, turns them in its registers, and writes four quads: a
// quarter of the requests, and four times the bytes under way. Row x of the tile is column x of the
// input; its quads are exchanged (^) so that eight lanes, which shared memory serves at a time,
// reach all 32 banks when they write a column of quads as well as when they read a row.
__global__ void __launch_bounds__(wide_threads)
    quad_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float4 tile[wide][quads];
  const unsigned across = threadIdx.x % quads;
  const unsigned down = threadIdx.x / quads;

  float4 row[4] = {};
  const unsigned ix = blockIdx.x * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // load four rows below each other
    const unsigned iy = blockIdx.y * wide + 4 * down + k;
    if (ix < nx && iy < ny) row[k] = *reinterpret_cast<const float4*>(in + size_t(iy) * nx + ix);
  }
  const unsigned swapped = down ^ across % 8;
  tile[4 * across + 0][swapped] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][swapped] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][swapped] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][swapped] = {row[0].w, row[1].w, row[2].w, row[3].w};
  __syncthreads();

  const unsigned iy = blockIdx.y * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // a half-warp stores 256 bytes of a row of the output
    const unsigned x = quads * k + down;
    const unsigned ix_out = blockIdx.x * wide + x;
    const float4 column = tile[x][across ^ x / 4 % 8];
    if (ix_out < nx && iy < ny) *reinterpret_cast<float4*>(out + size_t(ix_out) * ny + iy) = column;
  }
}

// Kernel 9, and three things more. Blocks go down the input's columns (blockIdx.x counts rows of
// tiles), so that those that run together write long pieces of the output. Loads and stores say
// that nothing is used twice (load_once, store_once: transpose.cuh). And the launch leaves room for
// five blocks a multiprocessor only: 80 KiB under way are enough, and fewer keep closer to that
// order.
__global__ void __launch_bounds__(wide_threads)
    best(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float4 tile[wide][quads];
  const unsigned across = threadIdx.x % quads;
  const unsigned down = threadIdx.x / quads;

  float4 row[4];
  const unsigned ix = blockIdx.y * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // load four rows below each other
    const unsigned iy = blockIdx.x * wide + 4 * down + k;
    row[k] = load_once(in + size_t(iy) * nx + ix, ix < nx && iy < ny);
  }
  const unsigned swapped = down ^ across % 8;
  tile[4 * across + 0][swapped] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][swapped] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][swapped] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][swapped] = {row[0].w, row[1].w, row[2].w, row[3].w};
  __syncthreads();

  float4 column[4];
  for (unsigned k = 0; k < 4; ++k) {  // all four reads before the first store
    const unsigned x = quads * k + down;
    column[k] = tile[x][across ^ x / 4 % 8];
  }
  const unsigned iy = blockIdx.x * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // a half-warp stores 256 bytes of a row of the output
    const unsigned ix_out = blockIdx.y * wide + quads * k + down;
    store_once(out + size_t(ix_out) * ny + iy, column[k], ix_out < nx && iy < ny);
  }
}

namespace {

// ---- how each is launched ----

struct Kernel {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(float*, const float*, unsigned, unsigned);
  bool turns;          ///< false: it copies
  unsigned tile;       ///< side of a tile; 0: the block's own shape, a word a thread
  bool x_counts_rows;  ///< of the input: blockIdx.x and threadIdx.x go down, not across
  unsigned resident;   ///< blocks a multiprocessor that the launch leaves room for; 0: all that fit
};

constexpr Kernel kernels[] = {
    {"copy by rows", "copy_rows", copy_rows, false, 0, false, 0},
    {"copy by columns", "copy_columns", copy_columns, false, 0, true, 0},
    {"row -> column", "row_to_column", row_to_column, true, 0, false, 0},
    {"column -> row", "column_to_row", column_to_row, true, 0, true, 0},
    {"row -> column, diagonal", "diagonal_row_to_column", diagonal_row_to_column, true, 0, false,
     0},
    {"column -> row, diagonal", "diagonal_column_to_row", diagonal_column_to_row, true, 0, true, 0},
    {"shared tile, 32 x 32", "shared_tile", shared_tile, true, tile_side, false, 0},
    {"padded tile, 32 x 33", "padded_tile", padded_tile, true, tile_side, false, 0},
    {"16-byte words, tile 64 x 64", "quad_tile", quad_tile, true, wide, false, 0},
    {"best: down columns, used once", "best", best, true, wide, true, 5},
};
constexpr const Kernel& by_rows = kernels[0];
constexpr const Kernel& by_columns = kernels[1];
constexpr const Kernel& row_column = kernels[2];
constexpr const Kernel& column_row = kernels[3];
constexpr const Kernel& padded = kernels[7];
constexpr const Kernel& the_best = kernels[9];

/// Rows of quads begin on 16 bytes only where a row has a multiple of 4 words; elsewhere the padded
/// tile stands in.
bool quads_fit(Shape m) { return m.nx % 4 == 0 && m.ny % 4 == 0; }
const Kernel& launched(const Kernel& k, Shape m) {
  return k.tile == wide && !quads_fit(m) ? padded : k;
}

dim3 threads_of(const Kernel& k, dim3 typed) {
  if (k.tile == 0) return typed;
  return k.tile == wide ? dim3(wide_threads) : dim3(tile_side, rows_at_once);
}

dim3 grid_of(const Kernel& k, Shape m, dim3 typed) {
  const unsigned across = k.tile ? k.tile : typed.x;
  const unsigned down = k.tile ? k.tile : typed.y;
  const unsigned nx = k.x_counts_rows ? m.ny : m.nx;
  const unsigned ny = k.x_counts_rows ? m.nx : m.ny;
  return dim3((nx + across - 1) / across, (ny + down - 1) / down);
}

/// A grid has at most 65535 rows of blocks: throws UsageError where a kernel would need more.
void require_grid(Shape m, dim3 typed) {
  for (const Kernel& k : kernels) {
    const unsigned rows = grid_of(launched(k, m), m, typed).y;
    if (rows > 65535)
      throw UsageError("transpose of " + sides(m) + " in blocks of " + std::to_string(typed.x) +
                       " x " + std::to_string(typed.y) + " needs " + std::to_string(rows) +
                       " rows of blocks; a grid holds at most 65535");
  }
}

Task task_of(const Kernel& kernel, Matrices& x, dim3 typed) {
  const Kernel& k = launched(kernel, x.m);
  const dim3 grid = grid_of(k, x.m, typed);
  const dim3 threads = threads_of(k, typed);
  const size_t spare = k.resident ? spare_shared_bytes((const void*)k.kernel, grid, k.resident) : 0;
  const auto launch = [&x, &k, grid, threads, spare] {
    k.kernel<<<grid, threads, spare>>>(x.out.data(), x.in.data(), x.m.nx, x.m.ny);
  };
  return {std::string(kernel.name) + ", " + sides(x.m), launch, x.check(k.turns)};
}

// ---- what to expect: where a warp's words lie, from the kernels' index expressions ----

/// A thread of a launch at one of its steps.
struct Thread {
  dim3 block, tid, shape;  ///< blockIdx, threadIdx, blockDim
  unsigned step;           ///< of four in a tile; a kernel without one has step 0 only
};
constexpr size_t nowhere = ~size_t(0);

/// Index of the word, or of the first of a quad, that a thread loads or stores; nowhere beyond the
/// matrix. (Diagonal order changes when a block runs, not what it touches.)
size_t word_of(const Kernel& k, const Thread& t, bool loads, Shape m) {
  unsigned ix = t.block.x * t.shape.x + t.tid.x;  // column of the input
  unsigned iy = t.block.y * t.shape.y + t.tid.y;  // row of the input
  if (k.x_counts_rows) {
    iy = t.block.x * t.shape.x + t.tid.x;
    ix = t.block.y * t.shape.y + t.tid.y;
  }
  if (k.tile == tile_side) {
    const unsigned other = t.tid.y + t.step * rows_at_once;
    ix = t.block.x * tile_side + (loads ? t.tid.x : other);
    iy = t.block.y * tile_side + (loads ? other : t.tid.x);
  }
  if (k.tile == wide) {
    const unsigned tile_x = k.x_counts_rows ? t.block.y : t.block.x;
    const unsigned tile_y = k.x_counts_rows ? t.block.x : t.block.y;
    const unsigned across = t.tid.x % quads, down = t.tid.x / quads;
    ix = tile_x * wide + (loads ? 4 * across : quads * t.step + down);
    iy = tile_y * wide + (loads ? 4 * down + t.step : 4 * across);
  }
  if (ix >= m.nx || iy >= m.ny || (k.tile == 0 && t.step > 0)) return nowhere;
  const bool by_rows_of_input = loads || !k.turns;
  return by_rows_of_input ? size_t(iy) * m.nx + ix : size_t(ix) * m.ny + iy;
}

Traffic predict(const Kernel& kernel, bool loads, Shape m, dim3 typed) {
  const Kernel& k = launched(kernel, m);
  const dim3 threads = threads_of(k, typed);
  const auto word = [&](dim3 block, dim3 tid, unsigned step) {
    return word_of(k, {block, tid, threads, step}, loads, m);
  };
  return count_traffic(grid_of(k, m, typed), threads, k.tile == wide ? 4 : 1, word);
}

/// Passes through shared memory of a warp that loads and stores its part of a tile: 4-byte words
/// take one each way, or 32 where a column lies in one bank; 16-byte words take four each way.
double shared_wavefronts(const Kernel& k) {
  if (k.tile == 0) return 0;
  if (k.tile == wide) return 4 + 4;
  return k.kernel == shared_tile ? 1 + 32 : 1 + 1;
}

/// The model's three constants, measured in the same run at the same size; milliseconds.
struct Calibrated {
  double copy_engine = NAN;   ///< all bytes at the memory's rate
  double copy_rows = NAN;     ///< one word a thread in flight
  double copy_columns = NAN;  ///< every word stored is a packet of its own on the way to L2
};

/// Milliseconds that the slowest of four things takes.
double predicted_ms(const Kernel& kernel, Shape m, dim3 block, const Calibrated& c,
                    const Device& device) {
  const Kernel& k = launched(kernel, m);
  const Traffic loads = predict(k, true, m, block);
  const Traffic stores = predict(k, false, m, block);
  const double scattered = predict(by_columns, false, m, block).sectors;

  double ms = c.copy_engine;                        // bytes over the memory's bandwidth
  if (k.tile == 0) ms = std::max(ms, c.copy_rows);  // a word a thread in flight, over its latency
  if (stores.sectors > stores.full_sectors)         // parts of sectors, a packet each, to L2
    ms = std::max(ms, c.copy_columns * stores.sectors / scattered);

  // L1 and shared memory have one data path: a line loaded takes it for a cycle, as do a sector
  // stored, and a pass through shared memory
  const double cycles = loads.lines + stores.sectors + shared_wavefronts(k) * loads.requests;
  const double cycles_a_ms = double(device.sm_clock_khz) * device.prop.multiProcessorCount;
  return cycles_a_ms > 0 ? std::max(ms, cycles / cycles_a_ms) : ms;
}

/// Bytes over bandwidth hold everywhere; the packets and L1's cycles were found on compute
/// capability 9.0, and a test holds rows to them there only.
Model model_of(const Kernel& k, const Device& device) {
  const bool bytes_only = k.tile != 0 && k.kernel != shared_tile;
  return bytes_only || device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

const dim3 default_block(32, 8);
constexpr Shape counted_shape{4096, 4096};
const std::string counted_parameter = "4096 x 4096 block 32 x 8";

const std::vector<Column> table_columns{
    compared("ms", "time", "ms", 4),
    shown("spread"),
    measured("GB/s", "rate", "GB/s", 0),
    shown("of copy"),
    predicted("sectors/request: load", "load sectors a request", "sectors", 1),
    predicted("store", "store sectors a request", "sectors", 1),
    shown("")};

/// The table of one size.
struct KernelTable {
  Shape m;
  dim3 block;
  Table table;
  Calibrated calibrated;

  KernelTable(const Run& run, Shape m, dim3 block, const std::string& heading)
      : m(m), block(block), table(run.report, heading, table_columns) {}

  void add(const Key& key, const Cell& time, const Readings& times, Cell load, Cell store) {
    const Statistics ms = times.statistics();
    const double share = calibrated.copy_engine / ms.median;
    const std::string of_copy = std::isfinite(share) ? fixed(100 * share, 1) + "%" : "-";
    table.row(key, {time, spread_text(ms), gigabytes_per_second(bytes_moved(m), ms), of_copy, load,
                    store, bar(share)});
  }
  void add(const Key& key, const Kernel& k, const Cell& time, const Readings& times) {
    add(key, time, times, predict(k, true, m, block).sectors_a_request(),
        predict(k, false, m, block).sectors_a_request());
  }
  Cell compare(const Kernel& k, const Readings& times, const Device& device) const {
    return Compared{predicted_ms(k, m, block, calibrated, device), times.statistics(),
                    model_of(k, device)};
  }
  /// What is predicted to take as long as the copy engine, and whose requests are not modelled.
  void add_others(const Key& key, const Readings& times) {
    add(key, Compared{calibrated.copy_engine, times.statistics()}, times, {}, {});
  }
};

/// Times of row -> column and column -> row, for the claim.
struct Pair {
  Readings row_column, column_row;
};

/// Times of the best kernel and of what it is compared with, measured in turn; empty where there
/// are no tensor copies. (Tiles go down columns at one size only.)
struct Best {
  Readings best, copy_engine, turned, tiles, tiles_down;
};

/// What one size's table leaves to be said.
struct Measured {
  Pair pair;
  Best best;
};

const std::string by_tensor_copies = "by tensor copies, tile 64 x 64";
const std::string along_rows = "tiles copied along rows";
const std::string down_columns = "tiles copied down columns";

/// What the best kernel is held against, in turn with it; adds rows. Needs tensor copies.
Best measure_best(const Run& run, KernelTable& table, Matrices& matrices) {
  std::vector<Task> tasks;
  tasks.push_back(task_of(the_best, matrices, table.block));
  tasks.push_back(matrices.copy_engine());
  tasks.push_back(turned_by_tensor_copies(matrices));
  tasks.push_back(tiles_copied(matrices));
  tasks.push_back(tiles_copied_down(matrices));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  table.add_others({by_tensor_copies}, times[2]);
  table.add_others({along_rows}, times[3]);
  table.add_others({down_columns}, times[4]);
  return {times[0], times[1], times[2], times[3], times[4]};
}

/// All kernels at one size.
Measured measure_all(const Run& run, Shape m, dim3 block) {
  KernelTable table(run, m, block, "kernel");
  if (!run.device) {
    for (const Kernel& k : kernels) table.add({k.name}, k, {}, {});
    table.table.print();
    return {};
  }
  Matrices matrices(m);

  // first the three constants
  std::vector<Task> tasks;
  tasks.push_back(matrices.copy_engine());
  tasks.push_back(task_of(by_rows, matrices, block));
  tasks.push_back(task_of(by_columns, matrices, block));
  std::vector<Readings> times = run.time_in_turn(tasks);
  table.calibrated = {times[0].median(), times[1].median(), times[2].median()};
  table.add({"copy engine"}, Calibration{times[0].statistics()}, times[0], {}, {});
  table.add({by_rows.name}, by_rows, Calibration{times[1].statistics()}, times[1]);
  table.add({by_columns.name}, by_columns, Calibration{times[2].statistics()}, times[2]);

  // then what is predicted from them, in turn
  std::vector<const Kernel*> predicted;
  for (const Kernel& k : kernels)
    if (&k != &by_rows && &k != &by_columns) predicted.push_back(&k);
  tasks.clear();
  for (const Kernel* k : predicted) tasks.push_back(task_of(*k, matrices, block));
  const bool geam = matrices.geam(tasks);
  times = run.time_in_turn(tasks);

  Measured found;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const Kernel& k = *predicted[i];
    table.add({k.name}, k, table.compare(k, times[i], *run.device), times[i]);
    if (&k == &row_column) found.pair.row_column = times[i];
    if (&k == &column_row) found.pair.column_row = times[i];
  }
  if (geam) table.add_others({"cublasSgeam"}, times.back());
  const std::string lacking = no_tensor_copies(*run.device, m);
  if (lacking.empty()) found.best = measure_best(run, table, matrices);
  table.table.print();
  if (!geam) run.report.left_out("cublasSgeam", "built without cuBLAS");
  if (!lacking.empty()) run.report.left_out("tensor copies", lacking);
  return found;
}

/// What holds the best kernel back, as far as copies of tiles show it.
void report_best(const Run& run, Shape m, const Best& times) {
  const Interval copy_share = ratio(times.copy_engine, times.best);
  if (!copy_share.measured()) return;
  const auto find = [&](const std::string& text) {
    run.report.finding("transpose", sides(m) + ": " + text);
  };
  find("best reaches " + share_text(copy_share) + " of the copy engine's rate, tiles copied " +
       share_text(ratio(times.copy_engine, times.tiles)));
  find("by tensor copies it is " + faster(ratio(times.best, times.turned), "best"));
  find("best is " + slower(ratio(times.best, times.tiles), "tiles copied along rows"));
  if (times.tiles_down.ms.empty()) return;
  const Interval order = ratio(times.tiles_down, times.tiles);
  find("copied down columns, tiles are " + slower(order, "those along rows"));
}

/// The copy engine, the best kernel, cublasSgeam and tensor copies at another size.
void measure_size(const Run& run, Shape m, dim3 block) {
  KernelTable table(run, m, block, "another size, side");
  const std::string at = std::to_string(m.nx);
  Matrices matrices(m);
  std::vector<Task> tasks;
  tasks.push_back(matrices.copy_engine());
  tasks.push_back(task_of(the_best, matrices, block));
  const bool geam = matrices.geam(tasks);
  const size_t first = tasks.size();
  const bool tensor = no_tensor_copies(*run.device, m).empty();
  if (tensor) tasks.push_back(turned_by_tensor_copies(matrices));
  if (tensor) tasks.push_back(tiles_copied(matrices));
  const std::vector<Readings> times = run.time_in_turn(tasks);
  table.calibrated.copy_engine = times[0].median();
  table.add({"copy engine", "side", at}, Calibration{times[0].statistics()}, times[0], {}, {});
  table.add({the_best.symbol, "side", at}, the_best, table.compare(the_best, times[1], *run.device),
            times[1]);
  if (geam) table.add_others({"cublasSgeam", "side", at}, times[2]);
  if (tensor) table.add_others({by_tensor_copies, "side", at}, times[first]);
  if (tensor) table.add_others({along_rows, "side", at}, times[first + 1]);
  table.table.print();
  if (!beyond_l2(*run.device, bytes_moved(m)))
    return run.report.note("less than four times the L2: the cache's rates");
  if (tensor) report_best(run, m, {times[1], times[0], times[first], times[first + 1], {}});
}

// A scattered load brings in a line of 64 bytes for 4; a scattered store brings it in and takes it
// back. The other side moves 4 bytes either way.
constexpr double host_bytes_reading_rows = 64 + 64 + 4;
constexpr double host_bytes_reading_columns = 64 + 4;

void on_the_host(const Run& run, Shape m) {
  Run briefly = run;
  briefly.measuring.budget_ms = 100;
  Table table(
      run.report, "host, one core, " + sides(m),
      {compared("ms", "time", "ms", 2), shown("spread"), measured("GB/s", "rate", "GB/s", 2)});
  HostMatrices x(m);
  const std::string side_text = std::to_string(m.nx);
  const Statistics rows = briefly.time(x.task(true)).statistics();
  table.row({"host, reading by rows", "side", side_text},
            {Calibration{rows}, spread_text(rows), gigabytes_per_second(bytes_moved(m), rows)});
  const double expected = rows.median * host_bytes_reading_columns / host_bytes_reading_rows;
  const Statistics columns = briefly.time(x.task(false)).statistics();
  table.row({"host, reading by columns", "side", side_text},
            {Compared{expected, columns, Model::host}, spread_text(columns),
             gigabytes_per_second(bytes_moved(m), columns)});
  table.print();
}

void judge_order(const Run& run, const Pair& pair, bool in_cache) {
  const Part order{"04.8", "column -> row transposes beat row -> column", "faster, no figure",
                   "the wiki"};
  if (in_cache) return run.report.not_judged(order, "the matrices are less than four times the L2");
  const Interval gain = ratio(pair.row_column, pair.column_row);
  run.report.judge(order, beats(), gain, faster(gain));
}

void judge_sectors(const Run& run) {
  const auto used = [](const Kernel& k, bool loads) {
    return 4 / predict(k, loads, counted_shape, default_block).sectors_a_request();
  };
  const double load = used(row_column, true);
  const double store = used(row_column, false);
  run.report.judge_fact(
      {"04.10a",
       "row -> column uses 100% of what it loads, 12.5% of what it stores",
       "100 and 12.5%",
       "the wiki's count",
       {},
       true},
      load == 1 && store == 0.125,
      share_text(exactly(load)) + " and " + share_text(exactly(store)) + ", computed");
  const double whole = used(column_row, false);
  run.report.judge_fact(
      {"04.10b", "column -> row uses 100% of what it stores", "100%", "the wiki's count", {}, true},
      whole == 1, share_text(exactly(whole)) + ", computed");

  const double bytes_used = sizeof(float) * double(counted_shape.elements());
  const auto count = [](const std::string& metric) {
    return count_of_this_run(column_row.symbol, counted_parameter, metric);
  };
  const double sectors = count(expected_sectors(true, 0).metric);
  const double crossed = count("l1tex__m_xbar2l1tex_read_bytes.sum");
  const Interval loaded = counted_in_this_run()
                              ? exactly(bytes_used / (32 * sectors))
                              : not_measured(
                                    "needs counts of this run: cmake --workflow --preset "
                                    "profile");
  run.report.judge({"04.10c", "column -> row uses 25% of what it loads, with the cache's help",
                    "25%", "the wiki's count"},
                   about(0.25), loaded, share_text(loaded) + " of the sectors requested from L1",
                   "");
  if (crossed > 0)
    run.report.finding("04.10c", "of the bytes that cross from L2 to L1 " +
                                     share_text(exactly(bytes_used / crossed)) + " are used");
}

size_t side_of(const Run& run, size_t typed) {
  return fitting_size("transpose of " + sides(square(typed)), typed, run.quick ? 8192 : 16384,
                      run.memory_there(), [](size_t side) { return bytes_moved(square(side)); });
}

dim3 block_of(const Options& options) {
  return options.block_x ? dim3(options.block_x, options.block_y) : default_block;
}

}  // namespace

void transpose_fits(const Run& run, const Options& options) {
  require_grid(square(side_of(run, options.size)), block_of(options));
}

void transpose(const Run& run, const Options& options) {
  const dim3 block = block_of(options);
  const size_t n = side_of(run, options.size);
  const Shape m = square(n);
  const bool in_cache = run.device && !beyond_l2(*run.device, bytes_moved(m));
  run.report.begin("transpose", sides(m) + " float, " + bytes_text(bytes_moved(m) / 2) +
                                    ", block " + std::to_string(block.x) + " x " +
                                    std::to_string(block.y) +
                                    (in_cache ? ", less than four times the L2" : ""));
  on_the_host(run, square(std::min<size_t>(n, run.quick ? 1024 : 2048)));
  const Measured found = measure_all(run, m, block);
  run.report.note("a warp's 32 words fill 4 sectors of 32 bytes, its 32 quads of 4 words 16");
  if (!quads_fit(m))
    run.report.note("rows do not begin on 16 bytes: the padded tile stands in for the last two");
  if (!run.device) run.report.left_out("the times of all kernels");
  if (!in_cache) report_best(run, m, found.best);
  for (const size_t other : {size_t(2048), 2 * n}) {
    if (options.size || run.quick || !run.device) break;
    if (bytes_moved(square(other)) > 0.9 * run.memory_there())
      run.report.left_out(sides(square(other)), "it does not fit");
    else
      measure_size(run, square(other), block);
  }
  judge_order(run, found.pair, in_cache);
  judge_sectors(run);
}
