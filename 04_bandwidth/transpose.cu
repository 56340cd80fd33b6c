// transpose: a matrix is read by rows and written by columns, or it is read by columns and written
// by rows. In both cases one of the two accesses is scattered. The wiki [LC 4] finds column -> row
// faster than row -> column. In the book on which the wiki is based, row -> column becomes faster
// when the blocks work along diagonals of the matrix.
// Two things to look at:
//   - The sectors of the stores. A kernel without a tile takes about one millisecond if its stores
//     have 4 sectors per request, and about four milliseconds if they have 32.
//   - The tiles. With a tile in shared memory both accesses are coalesced. The kernel has twice as
//     many memory operations, and takes less time [KP]. With 16-byte words it nearly reaches the
//     rate of a copy.
//
//   cmake -S 04_bandwidth -B build/transpose -DEXPERIMENTS=transpose
//   cmake --build build/transpose && build/transpose/04_bandwidth
//
//   1  copy_rows               both sides by rows: the limit for one word per thread
//   2  copy_columns            both sides by columns
//   3  row_to_column           the wiki's first kernel: reads by rows, writes by columns
//   4  column_to_row           the wiki's second kernel: reads by columns, writes by rows
//   5  diagonal_row_to_column  row_to_column, with the blocks in diagonal order
//   6  diagonal_column_to_row  column_to_row, with the blocks in diagonal order
//   7  shared_tile             reads and writes by rows, transposes in shared memory
//   8  padded_tile             shared_tile without bank conflicts
//   9  quad_tile               a tile of 64 x 64 words, without bank conflicts, in 16-byte words
//  10  best                    quad_tile with blocks in the order of the columns, and cache hints
// transpose_tensor.cu: a transpose by tensor copies, and tiles that are copied and not transposed.
#ifdef HAVE_CUBLAS
#include <cublas_v2.h>

#include <memory>
#endif

#include "../framework/common/experiment.hpp"
#include "options.hpp"
#include "transpose.cuh"

using namespace samples;

// ---- kernels: the input has ny rows of nx words, the output nx rows of ny words ----

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
__global__ void row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;  // column of the input
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;  // its row
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// [column_to_row]
// A warp reads 32 words of a column (32 sectors) and writes 32 neighbouring words of a row of the
// output (4 sectors). The rest of each sector that it reads stays in L1, for the block's other
// warps.
__global__ void column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned iy = blockIdx.x * blockDim.x + threadIdx.x;  // row of the input
  const unsigned ix = blockIdx.y * blockDim.y + threadIdx.y;  // its column
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}
// [/column_to_row]

// row_to_column, but consecutive blocks lie on a diagonal of the grid and not in a row. (The wiki's
// formula gives the same on square grids. On other grids it does not cover the whole matrix.)
__global__ void diagonal_row_to_column(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;  // blocks start in this order
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned ix = block_x * blockDim.x + threadIdx.x;
  const unsigned iy = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// column_to_row in diagonal order.
__global__ void diagonal_column_to_row(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned block_y = block % gridDim.y;
  const unsigned block_x = (block / gridDim.y + block_y) % gridDim.x;
  const unsigned iy = block_x * blockDim.x + threadIdx.x;
  const unsigned ix = block_y * blockDim.y + threadIdx.y;
  if (ix < nx && iy < ny) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
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

// [padded_tile]
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
// [/padded_tile]

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

// quad_tile with three changes. Blocks follow the columns of the input (blockIdx.x counts rows of
// tiles), so blocks that run at the same time write neighbouring words of the output. Loads and
// stores tell the caches that no word is used twice (load_once, store_once: transpose.cuh). And the
// launch leaves room for only five blocks per multiprocessor: their 80 KiB in flight are enough,
// and with fewer blocks at the same time the order of their accesses is closer to the order of the
// columns.
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

// ---- prediction: which words a thread accesses, from the kernels' index expressions ----

enum class Order { by_rows, by_columns };  ///< of the input: what blockIdx.x counts along
using enum Order;

/// Where a word of the input stands.
struct Place {
  unsigned ix, iy;  ///< its column; its row
};

// The kernels without a tile. (Diagonal order changes the time at which a block runs. It does not
// change what the block accesses.)
Place in_matrix(const Thread& t, bool /*loads*/, Order order) {
  const unsigned across = t.block.x * t.shape.x + t.tid.x;
  const unsigned down = t.block.y * t.shape.y + t.tid.y;
  return order == by_rows ? Place{across, down} : Place{down, across};
}

// shared_tile and padded_tile.
Place in_tile(const Thread& t, bool loads, Order /*by_rows*/) {
  const unsigned stepping = t.step * rows_at_once + t.tid.y;
  return {t.block.x * tile_side + (loads ? t.tid.x : stepping),
          t.block.y * tile_side + (loads ? stepping : t.tid.x)};
}

// quad_tile and best: the first word of a quad.
Place in_quads(const Thread& t, bool loads, Order order) {
  const unsigned tile_x = order == by_rows ? t.block.x : t.block.y;
  const unsigned tile_y = order == by_rows ? t.block.y : t.block.x;
  const unsigned across = t.tid.x % quads, down = t.tid.x / quads;
  return {tile_x * wide + (loads ? 4 * across : quads * t.step + down),
          tile_y * wide + (loads ? 4 * down + t.step : 4 * across)};
}

// The word of the tile in shared memory that a thread writes or reads. Rows of shared_tile have 32
// words, rows of padded_tile 33.
template <unsigned row_words>
unsigned in_shared_tile(const Thread& t, bool writes) {
  const unsigned stepping = t.step * rows_at_once + t.tid.y;
  return writes ? stepping * row_words + t.tid.x : t.tid.x * row_words + stepping;
}

// The first word of a quad.
unsigned in_swapped_quads(const Thread& t, bool writes) {
  const unsigned across = t.tid.x % quads, down = t.tid.x / quads;
  const unsigned x = writes ? 4 * across + t.step : quads * t.step + down;
  return 4 * (x * quads + (writes ? down ^ across % 8 : across ^ x / 4 % 8));
}

/// How a block accesses its part of the matrix.
struct Pattern {
  Place (*place)(const Thread&, bool loads, Order) = nullptr;
  unsigned tile = 0;              ///< its side; 0: one word per thread, in blocks of any shape
  dim3 threads = {};              ///< of a block with a tile
  unsigned steps = 1, words = 1;  ///< accesses of a thread in one direction; words of each
};
const Pattern one_word{.place = in_matrix};
const Pattern tile{
    .place = in_tile, .tile = tile_side, .threads = {tile_side, rows_at_once}, .steps = 4};
const Pattern tile_of_quads{
    .place = in_quads, .tile = wide, .threads = {wide_threads}, .steps = 4, .words = 4};

// ---- the rows ----

const dim3 default_block(32, 8);

/// A row: one of the kernels above, or another way to move the matrix (`task`).
struct Variant {
  std::string_view key = {};  ///< the kernel's name, or what the row is
  const char* words = "";
  bool transposes = true;  ///< false: it copies

  void (*kernel)(float*, const float*, unsigned, unsigned) = nullptr;
  const Pattern* pattern = &one_word;
  unsigned (*slot)(const Thread&, bool writes) = nullptr;  ///< nullptr: no tile in shared memory
  Order order = by_rows;
  unsigned resident = 0;  ///< blocks per multiprocessor that the launch leaves room for; 0: any

  Task (*task)(const Shared<Matrices>&) = nullptr;
  std::string (*missing)(const Device&, Shape) = nullptr;  ///< what it needs and does not have
};

/// The row of a kernel has the kernel's name as its key.
template <auto kernel>
Variant named(Variant v) {
  v.key = name_of<kernel>();
  v.kernel = kernel;
  return v;
}

/// The runtime's own copy from device to device.
Task copy_by_engine(const Shared<Matrices>& x) {
  const auto launch = [x] {
    CUDA_CHECK(
        cudaMemcpyAsync(x->out.data(), x->in.data(), x->in.bytes(), cudaMemcpyDeviceToDevice));
  };
  return x->task("copy_engine", launch, false);
}

#ifdef HAVE_CUBLAS
void check_cublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status));
}

/// cuBLAS counts by columns: its rows are our columns.
Task transpose_by_cublas(const Shared<Matrices>& x) {
  std::shared_ptr<cublasContext> handle;
  if (!device_memory::Pretence::stands()) {
    cublasHandle_t created = nullptr;
    check_cublas(cublasCreate(&created));
    handle = {created, cublasDestroy};
  }
  const auto launch = [x, handle] {
    const float one = 1, zero = 0;
    const int nx = int(x->m.nx), ny = int(x->m.ny);
    check_cublas(cublasSgeam(handle.get(), CUBLAS_OP_T, CUBLAS_OP_N, ny, nx, &one, x->in.data(), nx,
                             &zero, x->out.data(), ny, x->out.data(), ny));
  };
  return x->task("cublas_sgeam", launch, true);
}
std::string no_cublas(const Device&, Shape) { return ""; }
#else
Task transpose_by_cublas(const Shared<Matrices>& x) { return x->task("cublas_sgeam", {}, true); }
/// A made-up or recorded GPU (its number is negative) has its rows whatever was built.
std::string no_cublas(const Device& device, Shape) {
  return device.number < 0 ? "" : "built without cuBLAS";
}
#endif

const Variant variants[] = {
    {.key = "copy_engine", .words = "copy engine", .transposes = false, .task = copy_by_engine},
    named<copy_rows>({.words = "copy by rows", .transposes = false}),
    named<copy_columns>({.words = "copy by columns", .transposes = false, .order = by_columns}),
    named<row_to_column>({.words = "row -> column"}),
    named<column_to_row>({.words = "column -> row", .order = by_columns}),
    named<diagonal_row_to_column>({.words = "row -> column, diagonal"}),
    named<diagonal_column_to_row>({.words = "column -> row, diagonal", .order = by_columns}),
    named<shared_tile>(
        {.words = "shared tile, 32 x 32", .pattern = &tile, .slot = in_shared_tile<32>}),
    named<padded_tile>(
        {.words = "padded tile, 32 x 33", .pattern = &tile, .slot = in_shared_tile<33>}),
    named<quad_tile>({.words = "16-byte words, tile 64 x 64",
                      .pattern = &tile_of_quads,
                      .slot = in_swapped_quads}),
    named<best>({.words = "best: down columns, used once",
                 .pattern = &tile_of_quads,
                 .slot = in_swapped_quads,
                 .order = by_columns,
                 .resident = 5}),
    {.key = "cublas_sgeam",
     .words = "cublasSgeam",
     .task = transpose_by_cublas,
     .missing = no_cublas},
    {.key = "turn_tensor",
     .words = "by tensor copies, tile 64 x 64",
     .task = transpose_by_tensor_copies,
     .missing = no_tensor_copies},
    {.key = "copy_tiles",
     .words = "tiles copied along rows",
     .transposes = false,
     .task = copy_tiles_along_rows,
     .missing = no_tensor_copies},
    {.key = "copy_tiles_down",
     .words = "tiles copied down columns",
     .transposes = false,
     .task = copy_tiles_down_columns,
     .missing = no_tensor_copies},
};
const std::string_view calibrating[] = {"copy_engine", "copy_rows", "copy_columns"};
const std::string_view at_other_sizes[] = {"copy_engine", "best", "cublas_sgeam", "turn_tensor",
                                           "copy_tiles"};

const Variant& variant(std::string_view key) {
  for (const Variant& v : variants)
    if (v.key == key) return v;
  throw std::logic_error("no row of transpose is '" + std::string(key) + "'");
}

// ---- launching them ----

/// Rows of quads begin on 16 bytes only if rows have a multiple of 4 words.
bool quads_fit(Shape m) { return m.nx % 4 == 0 && m.ny % 4 == 0; }

/// The kernel that a row launches: where quads do not fit, the padded tile.
const Variant& launched(const Variant& v, Shape m) {
  return v.pattern == &tile_of_quads && !quads_fit(m) ? variant("padded_tile") : v;
}

/// `block`: of kernels without a tile.
Launch launch_of(const Variant& v, Shape m, dim3 block) {
  const Pattern& p = *v.pattern;
  const bool rows = v.order == by_rows;
  const unsigned nx = rows ? m.nx : m.ny, ny = rows ? m.ny : m.nx;
  const unsigned across = p.tile ? p.tile : block.x, down = p.tile ? p.tile : block.y;
  return {.grid = dim3((nx + across - 1) / across, (ny + down - 1) / down),
          .block = p.tile ? p.threads : block,
          .steps = p.steps,
          .words = p.words};
}

Task task_of(const Shared<Matrices>& x, const Variant& wanted, dim3 block) {
  if (wanted.task) return wanted.task(x);
  const Variant& v = launched(wanted, x->m);
  const Launch shape = launch_of(v, x->m, block);
  const size_t spare =
      v.resident ? spare_shared_bytes((const void*)v.kernel, shape.grid, v.resident) : 0;
  const auto launch = [x, &v, shape, spare] {
    v.kernel<<<shape.grid, shape.block, spare>>>(x->out.data(), x->in.data(), x->m.nx, x->m.ny);
  };
  return x->task(wanted.key, launch, v.transposes);
}

// ---- the model ----

/// Index of the first word that a thread loads or stores in its step; nowhere beyond the matrix.
size_t word_of(const Variant& v, const Thread& t, bool loads, Shape m) {
  const auto [ix, iy] = v.pattern->place(t, loads, v.order);
  if (ix >= m.nx || iy >= m.ny) return nowhere;
  return loads || !v.transposes ? size_t(iy) * m.nx + ix : size_t(ix) * m.ny + iy;
}

Traffic traffic(const Variant& wanted, bool loads, Shape m, dim3 block) {
  const Variant& v = launched(wanted, m);
  return count_traffic(launch_of(v, m, block),
                       [&](const Thread& t) { return word_of(v, t, loads, m); });
}

/// Passes through shared memory per request to global memory, to write the tile or to read it. A
/// pass serves 32 words in 32 different banks: 32 lanes, or 8 lanes that access quads. Lanes that
/// share a bank are served one after the other.
double passes(const Variant& v, bool writes) {
  if (!v.slot) return 0;
  const Pattern& p = *v.pattern;
  const unsigned lanes = 32 / p.words, block_threads = p.threads.x * p.threads.y;
  double all = 0;
  for (unsigned step = 0; step < p.steps; ++step)
    for (unsigned first = 0; first < block_threads; first += lanes) {
      unsigned most = 0, in_bank[32] = {};
      for (unsigned tid = first; tid < first + lanes; ++tid) {
        const Thread t{{}, dim3(tid % p.threads.x, tid / p.threads.x), p.threads, step};
        most = std::max(most, ++in_bank[v.slot(t, writes) % 32]);
      }
      all += most;
    }
  return all / (p.steps * block_threads / 32);
}

/// Measured in the same run at the same size; milliseconds.
struct Calibrated {
  double copy_engine = NAN;   ///< all bytes at the memory's rate
  double copy_rows = NAN;     ///< one word per thread in flight
  double copy_columns = NAN;  ///< each word stored goes to L2 as a packet of its own
};

/// The longest of four times.
double predicted_ms(const Variant& wanted, Shape m, dim3 block, const Calibrated& c,
                    const Device& gpu) {
  double ms = c.copy_engine;  // bytes over the memory's bandwidth
  if (!wanted.kernel) return ms;
  const Variant& v = launched(wanted, m);
  const Traffic loads = traffic(v, true, m, block), stores = traffic(v, false, m, block);
  if (!v.pattern->tile) ms = std::max(ms, c.copy_rows);  // one word in flight, over its latency
  if (stores.sectors > stores.full_sectors) {            // partly written sectors, each a packet
    const double packets = traffic(variant("copy_columns"), false, m, block).sectors;
    ms = std::max(ms, c.copy_columns * stores.sectors / packets);
  }
  // L1 and shared memory share one data path. Each line loaded, each sector stored and each pass
  // through shared memory takes it for a cycle.
  const double shared_passes = passes(v, true) + passes(v, false);
  const double cycles = loads.lines + stores.sectors + shared_passes * loads.requests;
  const double cycles_per_ms = double(gpu.sm_clock_khz) * gpu.prop.multiProcessorCount;
  return cycles_per_ms > 0 ? std::max(ms, cycles / cycles_per_ms) : ms;
}

/// Bytes over bandwidth holds everywhere. Packets and the cycles of L1 were found on compute
/// capability 9.0: a test holds rows to them there only.
Model model_of(const Variant& v, const Device* device) {
  const bool bytes_alone = !v.kernel || (v.pattern->tile && v.key != "shared_tile");
  return bytes_alone || (device && device->prop.major == 9) ? Model::traffic : Model::host;
}

// ---- the experiment ----

dim3 block_of(const Run& run) {
  const Options options = options_of(run);
  return options.block_x ? dim3(options.block_x, options.block_y) : default_block;
}

Shape shape_of(const Run& run) {
  const size_t typed = options_of(run).size;
  return square(fitting_size("transpose of " + sides(square(typed)), typed,
                             run.quick ? 8192 : 16384, run.memory_there(),
                             [](size_t side) { return bytes_moved(square(side)); }));
}

/// A grid has at most 65535 rows of blocks: throws UsageError if a kernel needs more.
void require_grid(Shape m, dim3 block) {
  for (const Variant& v : variants) {
    const unsigned rows = v.kernel ? launch_of(launched(v, m), m, block).grid.y : 0;
    if (rows > 65535)
      throw UsageError("transpose of " + sides(m) + " in blocks of " + std::to_string(block.x) +
                       " x " + std::to_string(block.y) + " needs " + std::to_string(rows) +
                       " rows of blocks; a grid holds at most 65535");
  }
}
void require_grid_of_run(const Run& run) { require_grid(shape_of(run), block_of(run)); }

/// Why rates are the cache's; empty: they are the memory's.
std::string in_cache(const Run& run, Shape m) {
  if (!run.device || beyond_l2(*run.device, bytes_moved(m))) return "";
  return "the matrices are less than four times the L2";
}

/// Sectors per request of the rows' kernels; other rows have none.
Shown sectors(Column column, bool loads, Shape m, dim3 block) {
  return number(std::move(column), [loads, m, block](const Row& row) {
    const Variant& v = variant(row.ref.key);
    return v.kernel ? traffic(v, loads, m, block).sectors_per_request() : double(NAN);
  });
}

/// All rows of one size in turn, or those that are measured at other sizes; below them, as no text
/// says anything of it, what the best kernel is compared with.
void measure_size(const Run& run, Shape m, dim3 block, bool all_rows) {
  const double at = all_rows ? NAN : double(m.nx);
  const auto row = [at](std::string_view key) { return Ref(key, at); };
  SharedByTasks matrices([m, at] { return Matrices{m, at}; });
  Sheet sheet(
      run, "kernel, " + sides(m),
      {milliseconds(4), spread(), in_unit(measured("GB/s", "rate", "GB/s", 0), gbs_of),
       share_against(run, row("copy_engine"), "of copy"),
       sectors(predicted("sectors/request: load", "load sectors a request", "sectors", 1), true, m,
               block),
       sectors(predicted("store", "store sectors a request", "sectors", 1), false, m, block),
       bar_against(run, row("copy_engine"))},
      "side");
  for (const Variant& v : variants) {
    if (!all_rows && !std::ranges::count(at_other_sizes, v.key)) continue;
    sheet.add({.ref = row(v.key),
               .words = v.words,
               .bytes = bytes_moved(m),
               .calibrates = std::ranges::count(calibrating, v.key) > 0,
               .model = model_of(v, run.device),
               .missing = run.device && v.missing ? v.missing(*run.device, m) : ""});
  }
  sheet.measure(Timing::in_turn,
                [&](const Row& r) { return task_of(matrices(), variant(r.ref.key), block); });
  Calibrated c{.copy_engine = sheet.ms(row("copy_engine"))};
  if (all_rows) c.copy_rows = sheet.ms(row("copy_rows"));
  if (all_rows) c.copy_columns = sheet.ms(row("copy_columns"));
  sheet.predict([&](const Row& r) {
    return run.device ? predicted_ms(variant(r.ref.key), m, block, c, *run.device) : double(NAN);
  });
  sheet.print();
  if (!in_cache(run, m).empty())
    return run.report.note("less than four times the L2: these rates are rates of the cache");

  std::vector<Comparison> pairs{{.slow = row("best"), .fast = row("copy_engine")},
                                {.slow = row("turn_tensor"), .fast = row("best")},
                                {.slow = row("best"), .fast = row("copy_tiles")}};
  if (all_rows) pairs.push_back({.slow = row("copy_tiles_down"), .fast = row("copy_tiles")});
  for (const Comparison& pair : pairs) find(run, "transpose", pair, sides(m) + ", ");
}

// ---- on the host: the text's two loops ----

struct HostMatrices {
  Shape m;
  std::vector<float> in = std::vector<float>(m.elements());
  std::vector<float> out = std::vector<float>(m.elements());

  explicit HostMatrices(Shape m) : m(m) {
    for (size_t i = 0; i < in.size(); ++i) in[i] = Input{}(i);
  }
  void read_by_rows() {
    for (size_t iy = 0; iy < m.ny; ++iy)
      for (size_t ix = 0; ix < m.nx; ++ix) out[ix * m.ny + iy] = in[iy * m.nx + ix];
  }
  void read_by_columns() {
    for (size_t ix = 0; ix < m.nx; ++ix)
      for (size_t iy = 0; iy < m.ny; ++iy) out[ix * m.ny + iy] = in[iy * m.nx + ix];
  }
  size_t wrong() const {
    const RightOutput right{m, true};
    size_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) wrong += !right(i, out[i]);
    return wrong;
  }
};

Task host_task(const Shared<HostMatrices>& x, const Ref& ref) {
  const bool rows = ref.key == "host_rows";
  const auto loops = [x, rows] { rows ? x->read_by_rows() : x->read_by_columns(); };
  const auto poison = [x] { std::fill(x->out.begin(), x->out.end(), NAN); };
  return {text(ref), loops, {poison, [x] { return x->wrong(); }, ""}, true};
}

void measure_on_host(const Run& run, Shape m) {
  SharedByTasks matrices([m] { return HostMatrices(m); });
  Sheet sheet(run, "host, one core, " + sides(m),
              {milliseconds(2), spread(), in_unit(measured("GB/s", "rate", "GB/s", 2), gbs_of)},
              "side");
  const Ref rows("host_rows", m.nx), columns("host_columns", m.nx);
  sheet.add({.ref = rows,
             .words = "host, reading by rows",
             .bytes = bytes_moved(m),
             .calibrates = true,
             .on_host = true});
  sheet.add({.ref = columns,
             .words = "host, reading by columns",
             .bytes = bytes_moved(m),
             .on_host = true,
             .model = Model::host});
  sheet.measure(Timing::alone, [&](const Row& row) { return host_task(matrices(), row.ref); });
  // A scattered load fetches a line of 64 bytes for 4. A scattered store fetches it and writes it
  // back. The other access moves 4 bytes either way.
  constexpr double reading_rows = 4 + (64 + 64), reading_columns = 64 + 4;
  sheet.predict([&](const Row&) { return sheet.ms(rows) * reading_columns / reading_rows; });
  sheet.print();
}

// ---- what the text counted ----

constexpr Shape counted_shape{4096, 4096};
const std::string counted_parameter = "4096 x 4096 block 32 x 8";
const char* const gain_of_cache = "as many bytes are asked of L1 as come from L2";

/// The share of the sectors that a kernel asks for which it uses.
double share_used(const Variant& v, bool loads) {
  return 4 / traffic(v, loads, counted_shape, default_block).sectors_per_request();
}

/// What column -> row asks of L1, and what comes from L2: counts of this run.
void keep_gain_of_cache(const Run& run) {
  const std::string key = "column_to_row";
  const auto count = [&](const std::string& metric) {
    return ask_count(run, key, counted_parameter, metric).median;
  };
  const double used = sizeof(float) * double(counted_shape.elements());
  const double asked = 32 * count(expected_sectors(true, 0).metric);
  const double fetched = count("l1tex__m_xbar2l1tex_read_bytes.sum");
  const double gain = asked / fetched;
  if (!std::isfinite(gain)) return keep(run, key, gain_of_cache, "", {});
  keep(run, key, gain_of_cache, "x", single(gain));
  run.report.finding("04.10c", "column -> row uses " + share_text(exactly(used / asked)) +
                                   " of the bytes that it asks of L1, and " +
                                   share_text(exactly(used / fetched)) +
                                   " of those that come from L2");
}

void run_transpose(const Run& run) {
  const Shape m = shape_of(run);
  const dim3 block = block_of(run);
  run.report.begin("transpose", sides(m) + " float, " + bytes_text(bytes_moved(m) / 2) +
                                    ", block " + std::to_string(block.x) + " x " +
                                    std::to_string(block.y));
  measure_on_host(run, square(std::min<size_t>(m.nx, run.quick ? 1024 : 2048)));
  measure_size(run, m, block, true);
  run.report.note("32 words of a warp fill 4 sectors of 32 bytes, 32 quads of 4 words fill 16");
  if (!quads_fit(m))
    run.report.note(
        "not all rows begin at a multiple of 16 bytes: padded_tile stands in for quad_tile and "
        "best");
  for (const Shape other : {square(2048), square(2 * size_t(m.nx))}) {
    if (options_of(run).size || run.quick || !run.device) break;
    if (bytes_moved(other) > 0.9 * run.memory_there())
      run.report.left_out(sides(other), "it does not fit");
    else
      measure_size(run, other, block, false);
  }
  keep_gain_of_cache(run);
}

// ---- claims ----

/// Requests of a launch to global and to shared memory. What goes through shared memory is stored
/// there and loaded again.
double memory_operations(const Variant& v) {
  const double global = traffic(v, true, counted_shape, default_block).requests +
                        traffic(v, false, counted_shape, default_block).requests;
  return v.slot ? 2 * global : global;
}

std::vector<Claim> claims(const Run& run) {
  const Shape m = shape_of(run);
  const Variant &reads_rows = variant("row_to_column"), &reads_columns = variant("column_to_row");
  const double load = share_used(reads_rows, true), store = share_used(reads_rows, false);
  const double whole = share_used(reads_columns, false);
  const auto fact = [](bool so) { return so ? Fact::so : Fact::not_so; };
  const auto computed = [](double share) { return share_text(exactly(share)); };
  const bool more = memory_operations(variant("padded_tile")) > memory_operations(reads_rows);

  return {
      {.part = {"04.8", "column -> row transposes beat row -> column", "faster, no figure",
                "the wiki"},
       .rule = beats(),
       .pairs = {{.slow = "row_to_column", .fast = "column_to_row"}},
       .unless = in_cache(run, m)},
      {.part = {"04.10a",
                "row -> column uses 100% of what it loads, 12.5% of what it stores",
                "100 and 12.5%",
                "the wiki's count",
                {},
                true},
       .fact = fact(load == 1 && store == 0.125),
       .here = computed(load) + " and " + computed(store) + ", computed"},
      {.part = {"04.10b",
                "column -> row uses 100% of what it stores",
                "100%",
                "the wiki's count",
                {},
                true},
       .fact = fact(whole == 1),
       .here = computed(whole) + ", computed"},
      {.part = {"04.10c",
                "the cache lifts the share of column -> row's loads that is used, twofold", "25%",
                "the wiki's count"},
       .rule = beats(2),
       .levels = {{"column_to_row", gain_of_cache}},
       .needs = "needs counts of this run: cmake --workflow --preset profile"},
      {.part = {"04.15",
                "in some cases more memory operations, through shared memory, take less time",
                "less time, no figure", "a vendor's guide"},
       .rule = beats(),
       .pairs = {{.slow = "row_to_column", .fast = "padded_tile"}},
       .some = true,
       .unless = more ? in_cache(run, m) : "the tile takes no more memory operations",
       .found = {{.slow = "column_to_row", .fast = "padded_tile"}}},
  };
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double bytes = bytes_moved(shape_of(run));
  return {.allocated = bytes, .touched = bytes};
}

/// About n words, in a matrix that is not square. Quads and tensor copies need rows of 4 and of 32
/// words.
std::vector<Checked> tasks(size_t n) {
  const auto side = unsigned(std::sqrt(double(n)));
  std::vector<Checked> all;
  for (const Variant& v : variants) {
    const unsigned unit = v.missing == no_tensor_copies ? 32 : v.pattern == &tile_of_quads ? 4 : 1;
    const Shape m{(side + 2 + unit - 1) / unit * unit, (side + unit - 1) / unit * unit};
    if (v.missing && !v.missing(Device::current(), m).empty()) continue;
    const Shared x(Matrices{m});
    all.push_back({.task = task_of(x, v, default_block),
                   .elements = m.elements(),
                   .change_one = [x] { x->out.change(0); }});
  }
  return all;
}

std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Variant& v : variants) {
    if (!v.kernel) continue;
    const Traffic loads = traffic(v, true, counted_shape, default_block);
    const Traffic stores = traffic(v, false, counted_shape, default_block);
    all.push_back(counted_launch(
        std::string(v.key), counted_parameter, {loads.requests, loads.sectors},
        {stores.requests, stores.sectors},
        [&v] { return task_of(Shared(Matrices{counted_shape}), v, default_block); }));
  }
  return all;
}

}  // namespace

extern const Experiment transpose_experiment{
    .name = "transpose",
    .about = "transposes, from one element per thread to a tile in 16-byte words",
    .run = run_transpose,
    .check_typed = require_grid_of_run,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
