// transpose: which side may be scattered? A matrix is read by rows and written by columns, or read
// by columns and written by rows. The wiki [LC 4] finds column -> row faster than row -> column; in
// the book behind it, row -> column gains when the blocks work along diagonals of the matrix.
//
// Look at the sectors of the stores: without a tile a kernel takes about one millisecond (H200) if
// its stores have 4 sectors per request, and four if they have 32. Then at the tiles: both accesses
// are coalesced, and twice as many memory operations take less time [KP].
//
//   build/release/04_bandwidth/04_bandwidth transpose
//
//   the wiki's   transposeRowCol, transposeColRow, transposeDiagonalRowCol, transposeDiagonalColRow
//   ours         copy_rows, copy_columns: limits; shared_tile, padded_tile, quad_tile, best
#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/run.hpp"
#include "../common/sectors.hpp"
#include "used_once.cuh"

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words. Those that the
// wiki prints have its names ----

// A warp reads 32 neighbouring words of a row and writes 32 neighbouring words: 4 sectors of 32
// bytes on each side.
__global__ void copy_rows(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(iy) * nx + ix];
}

// Each lane of a warp is one row below the lane before: 32 sectors to read and 32 to write.
__global__ void copy_columns(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(iy) * nx + ix];
}

// A warp reads 32 neighbouring words of a row (4 sectors) and writes each of them to a different
// row of the output (32 sectors).
__global__ void transposeRowCol(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;  // column of the input
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;  // its row
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// nx and ny are the output's here, as in the wiki. A warp reads 32 words of a column of the input (32
// sectors) and writes 32 neighbouring words of a row of the output (4 sectors). The rest of each
// sector that it reads stays in L1, for the block's other warps.
__global__ void transposeColRow(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(ix) * ny + iy];
}

// transposeRowCol, but consecutive blocks lie on a diagonal of the grid and not in a row. (On
// square grids the wiki's formula does the same; on others it does not cover the whole matrix.)
__global__ void transposeDiagonalRowCol(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;  // blocks start in this order
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// transposeColRow in diagonal order.
__global__ void transposeDiagonalColRow(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(iy) * nx + ix] = in[size_t(ix) * ny + iy];
}

constexpr unsigned tile_side = 32;    // in words: a warp loads a row of the tile
constexpr unsigned rows_at_once = 8;  // a block's 32 x 8 threads load a tile in four steps

// A warp reads 32 neighbouring words and writes 32 neighbouring words. Between the two it reads a
// column of the tile. The 32 words of this column lie in one bank of shared memory, so they are
// read one after the other.
__global__ void shared_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[tile_side][tile_side];
  const unsigned ix = blockIdx.x * tile_side + threadIdx.x;
  for (unsigned y = threadIdx.y; y < tile_side; y += rows_at_once) {  // load the tile by rows
    const unsigned iy = blockIdx.y * tile_side + y;
    if (ix < nx && iy < ny) tile[y][threadIdx.x] = in[size_t(iy) * nx + ix];
  }
  __syncthreads();  // other warps loaded parts of each column
  const unsigned iy = blockIdx.y * tile_side + threadIdx.x;
  for (unsigned x = threadIdx.y; x < tile_side; x += rows_at_once) {  // store it by columns
    const unsigned ix_out = blockIdx.x * tile_side + x;
    if (ix_out < nx && iy < ny) out[size_t(ix_out) * ny + iy] = tile[threadIdx.x][x];
  }
}

// Each row of the tile has one unused word at its end. So the 32 words of a column lie in 32
// different banks, and are read at the same time.
__global__ void padded_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[tile_side][tile_side + 1];
  const unsigned ix = blockIdx.x * tile_side + threadIdx.x;
  for (unsigned y = threadIdx.y; y < tile_side; y += rows_at_once) {  // load the tile by rows
    const unsigned iy = blockIdx.y * tile_side + y;
    if (ix < nx && iy < ny) tile[y][threadIdx.x] = in[size_t(iy) * nx + ix];
  }
  __syncthreads();  // other warps loaded parts of each column
  const unsigned iy = blockIdx.y * tile_side + threadIdx.x;
  for (unsigned x = threadIdx.y; x < tile_side; x += rows_at_once) {  // store it by columns
    const unsigned ix_out = blockIdx.x * tile_side + x;
    if (ix_out < nx && iy < ny) out[size_t(ix_out) * ny + iy] = tile[threadIdx.x][x];
  }
}

constexpr unsigned wide = 64;           // side of a tile of quads: 4 neighbouring words, 16 bytes
constexpr unsigned quads = wide / 4;    // per row
constexpr unsigned wide_threads = 256;  // each moves four quads

// A thread reads 4 x 4 words as four quads, transposes them in its registers, and writes four
// quads. So there are a quarter as many requests, and four times as many bytes in flight. Row x of
// the tile is column x of the input. Shared memory serves eight lanes at the same time. The quads
// of a row are swapped (^), so that eight lanes use all 32 banks, both when they write a column of
// quads and when they read a row.
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
  const unsigned swapped = down ^ (across % 8);
  tile[4 * across + 0][swapped] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][swapped] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][swapped] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][swapped] = {row[0].w, row[1].w, row[2].w, row[3].w};
  __syncthreads();

  const unsigned iy = blockIdx.y * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // a half-warp stores 256 bytes of a row of the output
    const unsigned x = quads * k + down;
    const unsigned ix_out = blockIdx.x * wide + x;
    const float4 column = tile[x][across ^ (x / 4 % 8)];
    if (ix_out < nx && iy < ny) *reinterpret_cast<float4*>(out + size_t(ix_out) * ny + iy) = column;
  }
}

// quad_tile with three changes. Blocks follow the columns of the input (blockIdx.x counts rows of
// tiles), so blocks that run at the same time write neighbouring words of the output. Loads and
// stores tell the caches that no word is used twice (used_once.cuh). And the launch leaves room for
// only five blocks per multiprocessor: their 80 KiB in flight are enough, and with fewer blocks at
// the same time the order of their accesses is closer to the order of the columns.
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
  const unsigned swapped = down ^ (across % 8);
  tile[4 * across + 0][swapped] = {row[0].x, row[1].x, row[2].x, row[3].x};
  tile[4 * across + 1][swapped] = {row[0].y, row[1].y, row[2].y, row[3].y};
  tile[4 * across + 2][swapped] = {row[0].z, row[1].z, row[2].z, row[3].z};
  tile[4 * across + 3][swapped] = {row[0].w, row[1].w, row[2].w, row[3].w};
  __syncthreads();

  float4 column[4];
  for (unsigned k = 0; k < 4; ++k) {  // all four reads before the first store
    const unsigned x = quads * k + down;
    column[k] = tile[x][across ^ (x / 4 % 8)];
  }
  const unsigned iy = blockIdx.x * wide + 4 * across;
  for (unsigned k = 0; k < 4; ++k) {  // a half-warp stores 256 bytes of a row of the output
    const unsigned ix_out = blockIdx.y * wide + quads * k + down;
    store_once(out + size_t(ix_out) * ny + iy, column[k], ix_out < nx && iy < ny);
  }
}

// add yours here: a kernel of the same four parameters, named yours

namespace {

// ---- the rows of the table: how a kernel is launched, and which words a warp accesses ----

/// Thread (x, y) of the first block accesses word(x, y, n), of `bytes`; a row has n floats.
struct Access {
  size_t bytes;
  size_t (*word)(size_t x, size_t y, size_t n);
};
const Access along_row{4, [](size_t x, size_t y, size_t n) { return y * n + x; }};
const Access along_column{4, [](size_t x, size_t y, size_t n) { return x * n + y; }};
// Half a warp moves 16 quads of one row, the other half 16 quads of another row.
const Access quads_in{
    16, [](size_t x, size_t, size_t n) { return 4 * (x / quads) * n / 4 + x % quads; }};
const Access quads_out{16,
                       [](size_t x, size_t, size_t n) { return x / quads * n / 4 + x % quads; }};

enum Does { copies, transposes };
/// What blockIdx.x counts along: rows or columns of the input; or rows of the output, and then nx and
/// ny are the output's, too.
enum Order { by_rows, by_columns, by_output_rows };

struct Row {
  const char* name;
  void (*kernel)(float* out, const float* in, unsigned nx, unsigned ny);
  Does does;
  Order order;
  Access load, store;
  unsigned passes = 0;     ///< of shared memory, for a warp's words: in, and out again
  dim3 threads = {32, 8};  ///< of a block
  dim3 words = {32, 8};    ///< that a block moves, across and down
  unsigned resident = 0;   ///< blocks that a multiprocessor has room for; 0: as many as fit
};
const dim3 small_tile(tile_side, tile_side), wide_tile(wide, wide);

const Row rows[] = {
    {"copy_rows", copy_rows, copies, by_rows, along_row, along_row},
    {"copy_columns", copy_columns, copies, by_columns, along_column, along_column},
    {"transposeRowCol", transposeRowCol, transposes, by_rows, along_row, along_column},
    {"transposeColRow", transposeColRow, transposes, by_output_rows, along_column, along_row},
    {"transposeDiagonalRowCol", transposeDiagonalRowCol, transposes, by_rows, along_row,
     along_column},
    {"transposeDiagonalColRow", transposeDiagonalColRow, transposes, by_output_rows, along_column,
     along_row},
    {"shared_tile",
     shared_tile,
     transposes,
     by_rows,
     along_row,
     along_row,
     1 + 32,
     {32, 8},
     small_tile},
    {"padded_tile",
     padded_tile,
     transposes,
     by_rows,
     along_row,
     along_row,
     1 + 1,
     {32, 8},
     small_tile},
    {"quad_tile", quad_tile, transposes, by_rows, quads_in, quads_out, 4 + 4, wide_threads,
     wide_tile},
    {"best", best, transposes, by_columns, quads_in, quads_out, 4 + 4, wide_threads, wide_tile, 5},
    // add yours here, launched as padded_tile is:
    // {"yours", yours, transposes, by_rows, along_row, along_row, 1 + 1, {32, 8}, small_tile},
};

const Row& named(const std::string& name) {
  for (const Row& row : rows)
    if (name == row.name) return row;
  throw std::logic_error("no row is " + name);
}

struct Shape {
  dim3 grid;
  size_t spare_shared;  ///< bytes that nobody uses: they keep further blocks off a multiprocessor
};

Shape shape_of(const Row& row, unsigned nx, unsigned ny) {
  const unsigned x = row.order == by_rows ? nx : ny, y = row.order == by_rows ? ny : nx;
  const dim3 grid((x + row.words.x - 1) / row.words.x, (y + row.words.y - 1) / row.words.y);
  const cudaDeviceProp gpu = current_gpu();
  // a small grid is resident as a whole
  if (!row.resident || grid.x * grid.y <= 8 * unsigned(gpu.multiProcessorCount)) return {grid, 0};
  const size_t each = gpu.sharedMemPerMultiprocessor / row.resident / 1024 * 1024;
  const size_t own = wide * wide * sizeof(float) + gpu.reservedSharedMemPerBlock;
  return {grid, each > own ? each - own : 0};
}

/// Launches the kernel when called.
auto launching(const Row& row, float* out, const float* in, unsigned nx, unsigned ny) {
  const Shape shape = shape_of(row, nx, ny);
  if (row.order == by_output_rows) std::swap(nx, ny);
  return [=, kernel = row.kernel, threads = row.threads] {
    kernel<<<shape.grid, threads, shape.spare_shared>>>(out, in, nx, ny);
  };
}

// ---- the model ----

/// Aligned pieces of memory that a warp's 32 addresses touch.
size_t pieces_of(const Access& access, dim3 threads, size_t n, size_t piece) {
  return pieces(piece, access.bytes,
                [&](size_t lane) { return access.word(lane % threads.x, lane / threads.x, n); });
}
size_t load_sectors(const Row& row, size_t n) {
  return pieces_of(row.load, row.threads, n, sector_bytes);
}
size_t store_sectors(const Row& row, size_t n) {
  return pieces_of(row.store, row.threads, n, sector_bytes);
}

/// Cycles that a request's words keep the L1 of a multiprocessor busy: one for each line of 128
/// bytes of the load, for each pass of shared memory, and for each sector of the store.
size_t l1_cycles(const Row& row, size_t n) {
  return pieces_of(row.load, row.threads, n, 128) + row.passes + store_sectors(row, n);
}

/// What limits the three copies, milliseconds of the same matrix; and all multiprocessors' cycles.
struct Limits {
  double copy_engine;    ///< the memory's rate
  double copy_rows;      ///< one word in flight per thread
  double copy_columns;   ///< a store sends 32 pieces to L2: each a part of a sector
  double cycles_per_ms;  ///< multiprocessors x clock
};

/// A kernel takes as long as the slowest of the copies that share its limits, or as its L1 is busy.
double predicted_ms(const Row& row, size_t n, const Limits& limits) {
  double ms = limits.copy_engine;
  const bool one_word = row.words.x * row.words.y == row.threads.x * row.threads.y;
  if (one_word) ms = std::max(ms, limits.copy_rows);
  const size_t stored = store_sectors(row, n);
  if (stored * sector_bytes > 32 * row.store.bytes)  // of some sectors only a part is written
    ms = std::max(ms, limits.copy_columns * double(stored) / 32);
  const double requests = 4.0 * double(n * n) / double(32 * row.load.bytes);
  return std::max(ms, requests * double(l1_cycles(row, n)) / limits.cycles_per_ms);
}

/// Cycles of all multiprocessors per millisecond.
double cycles_per_ms(const cudaDeviceProp& gpu) {
  int kHz = 0;  // cycles per millisecond of one
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, device));
  return double(gpu.multiProcessorCount) * kHz;
}

/// What transposeColRow of 8192 x 8192 words loads from the L2, of a GPU: bytes counted by Nsight
/// Compute, l1tex__m_xbar2l1tex_read_bytes.sum.
struct Counted {
  const char *gpu, *date;
  double bytes;
};
constexpr Counted counted[] = {{"NVIDIA H200", "2026-11-24", 268435456}};

// ---- the experiment ----

/// Word i of the input, from 1 to 2.
__host__ __device__ float word(size_t i) { return 1.0f + float(hash(i) >> 9) * 0x1p-23f; }

double bytes_moved(size_t side) { return 8.0 * double(side * side); }

#ifdef HAVE_CUBLAS
struct Cublas {
  Cublas() { check(cublasCreate(&handle)); }
  ~Cublas() { cublasDestroy(handle); }
  static void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
  }
  /// cuBLAS counts by columns: its rows are our columns.
  void transpose(float* out, const float* in, int n) const {
    const float one = 1, zero = 0;
    check(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, &one, in, n, &zero, out, n, out, n));
  }
  cublasHandle_t handle = nullptr;
};
#endif

/// All rows in turn, as a table.
Timings measure(Run& run, size_t n, int rounds) {
  const auto in = filled<float>(n * n, [] __device__(size_t i) { return word(i); });
  const GuardedBuffer<float> out(n * n);
  const Check copied = equals(out, [] __device__(size_t i) { return word(i); });
  const Check transposed =
      equals(out, [n] __device__(size_t i) { return word(i % n * n + i / n); });

  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(out, in, in.bytes(), cudaMemcpyDeviceToDevice));
  };
  std::vector<Benchmark> benchmarks{{.name = "copy engine", .work = copy, .check = copied}};
  for (const Row& row : rows)
    benchmarks.push_back({.name = row.name,
                          .work = launching(row, out, in, unsigned(n), unsigned(n)),
                          .check = row.does == copies ? copied : transposed});
#ifdef HAVE_CUBLAS
  const Cublas cublas;
  benchmarks.push_back({.name = "cublasSgeam",
                        .work = [&] { cublas.transpose(out, in, int(n)); },
                        .check = transposed});
#endif
  Timer timer = run.timer;
  timer.rounds = rounds;
  const Timings timed = timer.interleaved(benchmarks);

  const Limits limits{timed["copy engine"].median(), timed["copy_rows"].median(),
                      timed["copy_columns"].median(), cycles_per_ms(run.gpu)};
  const std::string side = std::to_string(n);
  Table table(side + " x " + side,
              {"load", "store", "predicted ms", "ms", "spread", "GB/s", "of copy", ""});
  const auto add = [&](const char* name, Cell load, Cell store, Cell predicted) {
    const Times& times = timed[name];
    const double of_limit = limits.copy_engine / times.median();
    table.row(name, {load, store, predicted, times.median(), percent(times.spread()),
                     times.gbs(bytes_moved(n)), percent(of_limit), bar(of_limit)});
  };
  add("copy engine", "", "", "");
  for (const Row& row : rows)
    add(row.name, double(load_sectors(row, n)), double(store_sectors(row, n)),
        row.does == copies ? Cell("") : Cell(predicted_ms(row, n, limits)));
#ifdef HAVE_CUBLAS
  add("cublasSgeam", "", "", limits.copy_engine);
#endif
  run.print(table);
  if (!run.beyond_l2(bytes_moved(n)))
    run.note("less than four times the L2: its rates, not the memory's");
  return timed;
}

}  // namespace

void transpose(Run& run) {
  size_t n = run.quick ? 8192 : 16384;
  while (!run.fits(bytes_moved(n))) n /= 2;
  run.title("a matrix of floats is transposed; load, store: sectors per request of a warp");
  for (const size_t other : {size_t(2048), 2 * n})
    if (!run.quick && run.fits(bytes_moved(other))) measure(run, other, 12);  // no claim is theirs
  const Timings timed = measure(run, n, run.timer.rounds);
  run.note("32 floats fill 4 sectors of 32 bytes, 32 quads of floats fill 16");
  run.note(
      "predicted: the slowest of the three copies that share the kernel's limits, or the L1's");
  run.note("cycles: one per line of 128 bytes loaded, pass of shared memory, and sector stored");

  run.claim({"04.8", "column -> row transposes beat row -> column", "no figure, the wiki"}, beats(),
            timed, "transposeRowCol", "transposeColRow");
  const size_t loaded = load_sectors(named("transposeRowCol"), n);
  const size_t stored = store_sectors(named("transposeRowCol"), n);
  const size_t whole = store_sectors(named("transposeColRow"), n);
  run.claim_fact({"04.10a", "row -> column uses 100% of what it loads, 12.5% of what it stores",
                  "100 and 12.5%, the wiki's counters"},
                 loaded == 4 && stored == 32,
                 percent(4.0 / double(loaded)).words + " and " +
                     percent(4.0 / double(stored)).words + ", computed");
  run.claim_fact(
      {"04.10b", "column -> row uses 100% of what it stores", "100%, the wiki's counters"},
      whole == 4, percent(4.0 / double(whole)).words + ", computed");
  const Claim lifts{"04.10c", "the cache lifts what column -> row uses of its loads from 12.5%",
                    "25%, the wiki's counters"};
  const auto* of_gpu =
      std::find_if(std::begin(counted), std::end(counted),
                   [&run](const Counted& c) { return run.gpu.name == std::string(c.gpu); });
  if (of_gpu == std::end(counted)) {
    run.claim_skipped(lifts, "the bytes that come from the L2 were not counted on this GPU");
  } else {
    const double used = 4.0 * 8192 * 8192 / of_gpu->bytes, lifted = used / 0.125;
    run.claim(lifts, beats(2), {lifted, lifted, lifted},
              "times 12.5%: " + percent(used).words + " of what comes from the L2, counted " +
                  of_gpu->date);
  }
  // twice as many: the words of the tile are also written to shared memory and read from it
  run.claim({"04.15", "in some cases more memory operations, through shared memory, take less time",
             "no figure, a vendor's guide"},
            can_beat(), timed, "transposeRowCol", "padded_tile");
}

TEST_CASE("transpose: sectors of loads and stores, and predictions, by hand") {
  const auto is = [](const Row& row, size_t load, size_t store, double ms) {
    CAPTURE(row.name);
    CHECK(load_sectors(row, 4096) == load);
    CHECK(store_sectors(row, 4096) == store);
    CHECK(predicted_ms(row, 4096, {1, 2, 16, 1e9}) == ms);
  };
  is(named("copy_rows"), 4, 4, 2);
  is(named("copy_columns"), 32, 32, 16);
  is(named("transposeRowCol"), 4, 32, 16);
  is(named("transposeColRow"), 32, 4, 2);
  is(named("transposeDiagonalRowCol"), 4, 32, 16);
  is(named("transposeDiagonalColRow"), 32, 4, 2);
  is(named("shared_tile"), 4, 4, 1);
  is(named("padded_tile"), 4, 4, 1);
  is(named("quad_tile"), 16, 16, 1);
  is(named("best"), 16, 16, 1);
  Row narrow = named("transposeRowCol");
  narrow.threads = narrow.words = {8, 32};  // a warp stores half a sector to each of 8 rows
  is(narrow, 4, 8, 4);
}

TEST_CASE("transpose: cycles of L1, by hand") {
  CHECK(l1_cycles(named("copy_rows"), 4096) == 1 + 0 + 4);
  CHECK(l1_cycles(named("transposeColRow"), 4096) == 32 + 0 + 4);
  CHECK(l1_cycles(named("shared_tile"), 4096) == 1 + 1 + 32 + 4);
  CHECK(l1_cycles(named("padded_tile"), 4096) == 1 + 1 + 1 + 4);
  CHECK(l1_cycles(named("best"), 4096) == 4 + 4 + 4 + 16);
  // 2^24 words are 2^19 requests of 32 words: at 38 cycles each 20 million, 20 ms at 10^6 per ms
  CHECK(predicted_ms(named("shared_tile"), 4096, {1, 2, 16, 1e6}) ==
        doctest::Approx(19.92).epsilon(0.001));
}

// ---- the wiki's loops on the host, and the kernels against them ----

void transposeHost1(float* out, const float* in, unsigned nx, unsigned ny) {
  for (unsigned iy = 0; iy < ny; ++iy)
    for (unsigned ix = 0; ix < nx; ++ix) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
void transposeHost2(float* out, const float* in, unsigned nx, unsigned ny) {
  for (unsigned ix = 0; ix < nx; ++ix)
    for (unsigned iy = 0; iy < ny; ++iy) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

TEST_CASE("transpose: every kernel is right at awkward shapes, and writes nothing behind") {
  if (skip_without_gpu()) return;
  const std::pair<unsigned, unsigned> shapes[] = {{1, 1},   {1009, 1}, {1, 1009},  {33, 31},
                                                  {63, 65}, {4, 1020}, {260, 516}, {128, 64}};
  for (const auto& [nx, ny] : shapes)
    for (const Row& row : rows) {
      if (row.load.bytes == 16 && (nx % 4 || ny % 4)) continue;  // rows of quads
      CAPTURE(row.name);
      CAPTURE(nx);
      CAPTURE(ny);
      std::vector<float> in(size_t(nx) * ny);
      for (size_t i = 0; i < in.size(); ++i) in[i] = word(i);
      std::vector<float> right = in, right2 = in;
      if (row.does == transposes) {
        transposeHost1(right.data(), in.data(), nx, ny);
        transposeHost2(right2.data(), in.data(), nx, ny);
      }
      REQUIRE(right == right2);
      const DeviceBuffer<float> source(in), expected(right);
      const GuardedBuffer<float> out(in.size());
      launching(row, out, source, nx, ny)();
      CUDA_CHECK_LAUNCH();
      CHECK(find_mismatch(out, [e = expected.data()] __device__(size_t i) { return e[i]; }) == "");
    }
}
