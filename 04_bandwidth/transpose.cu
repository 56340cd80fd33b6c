// transpose: which side may be scattered? A matrix is read by rows and written by columns, or read
// by columns and written by rows. The wiki [LC 4] finds column -> row faster than row -> column; in
// the book behind it, row -> column gains when the blocks work along diagonals of the matrix.
//
// Look at the sectors of the stores: without a tile a kernel takes about one millisecond (H100) if
// its stores have 4 sectors per request, and five if they have 32. Then at the tiles: both accesses
// are coalesced, and twice as many memory operations take less time [KP].
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o transpose transpose.cu ../common/*.cpp
//
//   the wiki's: transposeRowCol, transposeColRow, transposeDiagonalRowCol, transposeDiagonalColRow
//   ours: copy_rows, copy_columns, row_col_after_barrier, shared_tile, padded_tile, quad_tile
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

// ---- what must come out: the input has ny rows of nx words, the output nx rows of ny words ----

// The wiki's loop. (Its transposeHost2 has the two loops the other way round.)
void transposeHost1(float* out, const float* in, unsigned nx, unsigned ny) {
  for (unsigned iy = 0; iy < ny; ++iy)
    for (unsigned ix = 0; ix < nx; ++ix) out[size_t(ix) * ny + iy] = in[size_t(iy) * nx + ix];
}

// ---- kernels. Those that the wiki prints have its names ----

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

// transposeRowCol, but no warp stores before the words of the whole block have come. So the words
// that its warps write to a sector arrive at the L2 together.
__global__ void row_col_after_barrier(float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned ix = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned iy = blockIdx.y * blockDim.y + threadIdx.y;
  const bool inside = ix < nx && iy < ny;
  const float word = inside ? in[size_t(iy) * nx + ix] : 0;
  // a bare __syncthreads() does not wait for what was loaded: this one needs the words. A count is
  // never below 0, which the compiler does not know
  if (__syncthreads_count(word == 0) < 0) return;
  if (inside) out[size_t(ix) * ny + iy] = word;
}

// nx and ny are the output's here, as in the wiki. A warp reads 32 words of a column of the input
// (32 sectors) and writes 32 neighbouring words of a row of the output (4 sectors). The rest of
// each sector that it reads stays in L1, for the block's other warps.
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
// column of the tile, whose rows have `row` words.
template <unsigned row>
__device__ void transpose_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  __shared__ float tile[tile_side][row];
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

// The 32 words of a column lie in one bank of shared memory, and are read one after the other.
__global__ void shared_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  transpose_tile<tile_side>(out, in, nx, ny);
}

// Each row has one unused word at its end. So the 32 words of a column lie in 32 different banks,
// and are read at the same time.
__global__ void padded_tile(float* out, const float* in, unsigned nx, unsigned ny) {
  transpose_tile<tile_side + 1>(out, in, nx, ny);
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

// add yours here: a kernel of the same four parameters, named yours

namespace {

// ---- the rows of the table: how a kernel is launched, and the sectors that a warp touches ----

// A request of a warp, in a matrix whose rows have n words: 32 neighbours of a row, or of a column.
size_t along_row(size_t) {
  return sectors(4, [](size_t lane) { return lane; });
}
size_t along_column(size_t n) {
  return sectors(4, [n](size_t lane) { return lane * n; });
}
// 16 quads of a row, and 16 of another row.
size_t quads_of_two_rows(size_t n) {
  return sectors(16, [n](size_t lane) { return lane / 16 * (n / 4) + lane % 16; });
}

/// What blockIdx.x counts along: rows or columns of the input; or rows of the output, and then nx
/// and ny are the output's, too.
enum Order { by_rows, by_columns, by_output_rows };

struct Row {
  const char* name;
  void (*kernel)(float* out, const float* in, unsigned nx, unsigned ny);
  Order order;
  size_t (*load)(size_t n);  ///< sectors per request, in rows of n words
  size_t (*store)(size_t n);
  dim3 words = {32, 8};    ///< that a block moves, across and down
  dim3 threads = {32, 8};  ///< of a block
  bool copies() const { return kernel == copy_rows || kernel == copy_columns; }
};
const dim3 small_tile(tile_side, tile_side), wide_tile(wide, wide);

const Row rows[] = {
    {"copy_rows", copy_rows, by_rows, along_row, along_row},
    {"copy_columns", copy_columns, by_columns, along_column, along_column},
    {"transposeRowCol", transposeRowCol, by_rows, along_row, along_column},
    {"row_col_after_barrier", row_col_after_barrier, by_rows, along_row, along_column},
    {"transposeColRow", transposeColRow, by_output_rows, along_column, along_row},
    {"transposeDiagonalRowCol", transposeDiagonalRowCol, by_rows, along_row, along_column},
    {"transposeDiagonalColRow", transposeDiagonalColRow, by_output_rows, along_column, along_row},
    {"shared_tile", shared_tile, by_rows, along_row, along_row, small_tile},
    {"padded_tile", padded_tile, by_rows, along_row, along_row, small_tile},
    {"quad_tile", quad_tile, by_rows, quads_of_two_rows, quads_of_two_rows, wide_tile,
     wide_threads},
    // add yours here, launched as padded_tile is:
    // {"yours", yours, by_rows, along_row, along_row, small_tile},
};

/// Launches the kernel when called.
auto launching(const Row& row, float* out, const float* in, unsigned nx, unsigned ny) {
  const unsigned x = row.order == by_rows ? nx : ny, y = row.order == by_rows ? ny : nx;
  const dim3 grid((x + row.words.x - 1) / row.words.x, (y + row.words.y - 1) / row.words.y);
  if (row.order == by_output_rows) std::swap(nx, ny);
  return [=, kernel = row.kernel, threads = row.threads] {
    kernel<<<grid, threads>>>(out, in, nx, ny);
  };
}

// ---- the model ----

/// What the three copies of the same matrix take, milliseconds.
struct Limits {
  double memcpy;        ///< the memory's rate
  double copy_rows;     ///< one word in flight per thread
  double copy_columns;  ///< 32 sectors per store, and of each only a part is written
};

/// A kernel takes as long as the copy that shares its limit.
double predicted_ms(const Row& row, const Limits& limits) {
  if (row.store == along_column) return limits.copy_columns;
  const bool one_word = row.words.y == row.threads.y;  // per thread
  return one_word ? limits.copy_rows : limits.memcpy;
}

/// Counted: what transposeColRow uses of the sectors that its loads bring from the L2 to L1, useful
/// bytes over 32 x lts__t_sectors_srcunit_tex_op_read.sum, over the 12.5% of a load by itself. That
/// is 32 over the "L2 sectors read per load" which the following command prints
/// (with --quick, as it was counted, for a matrix of 8192 columns):
///   tools/profile.py --counts build/release/04_bandwidth/04_bandwidth transpose
const std::vector<Count> use_over_one_eighth = {  // 4 sectors per load: all of them are used
    {.gpu = "NVIDIA H100 80GB HBM3", .value = 32.0 / 4, .when = "ncu, CUDA 13.0, 2026-11-28"}};

// ---- the experiment ----

/// Word i of the input, from 1 to 2.
__host__ __device__ float word(size_t i) { return 1.0f + float(hash(i) >> 9) * 0x1p-23f; }

/// Copies and kernels in turn, as a table.
Timings measure(Run& run, size_t n) {
  const auto in = filled<float>(n * n, [] __device__(size_t i) { return word(i); });
  const GuardedBuffer<float> out(n * n);
  const Check copied = equals(out, [] __device__(size_t i) { return word(i); });
  const Check transposed =
      equals(out, [n] __device__(size_t i) { return word(i % n * n + i / n); });

  const auto copy = [&] {
    CUDA_CHECK(cudaMemcpyAsync(out, in, in.bytes(), cudaMemcpyDeviceToDevice));
  };
  std::vector<Benchmark> benchmarks{{"cudaMemcpy", copy, copied}};
  for (const Row& row : rows)
    benchmarks.push_back({row.name, launching(row, out, in, unsigned(n), unsigned(n)),
                          row.copies() ? copied : transposed});
  const Timings timed = run.timer.interleaved(benchmarks);

  const Limits limits{timed["cudaMemcpy"].median(), timed["copy_rows"].median(),
                      timed["copy_columns"].median()};
  Table table(std::to_string(n) + " x " + std::to_string(n),
              {"load", "store", "predicted ms", "ms", "spread", "GB/s", "of copy", ""});
  const auto add = [&](const char* name, Cell load, Cell store, Cell predicted) {
    const Times& times = timed[name];
    const double of_limit = limits.memcpy / times.median();
    table.row(name, {load, store, predicted, times.ms_interval(), percent(times.spread()),
                     times.gbs_interval(8.0 * n * n), percent(of_limit), bar(of_limit)});
  };
  add("cudaMemcpy", "", "", "");
  for (const Row& row : rows)
    add(row.name, row.load(n), row.store(n),
        row.copies() ? Cell("") : Cell(predicted_ms(row, limits)));
  run.print(table);
  if (!run.beyond_l2(8.0 * n * n)) run.note("less than four times the L2: its rates");
  return timed;
}

}  // namespace

void transpose(Run& run) {
  size_t n = run.quick ? 8192 : 16384;
  while (!run.fits(8.0 * n * n)) n /= 2;
  run.title("a matrix of floats is transposed; load, store: sectors per request of a warp");
  const Timings timed = measure(run, n);
  measure(run, n + 32);  // no power of two
  run.note("32 floats fill 4 sectors of 32 bytes, 32 quads of floats fill 16");
  run.note("predicted: the copy that shares the kernel's limit. Scattered stores: copy_columns;");
  run.note("one word in flight per thread: copy_rows; neither: cudaMemcpy");
  run.note("longer: 32 lines of a load (ColRow), or 32 words of one bank, keep the L1 busy");

  const double by_row = 4 / double(along_row(n)), by_column = 4 / double(along_column(n));
  run.computed({"04.10a", "a transpose that stores columns loads at 100%, stores at 12.5%",
                "[LC 4] \"efficiency\" 100% and 12.5%"},
               by_row == 1 && by_column == 0.125,
               percent(by_row).words + " of what is loaded and " + percent(by_column).words +
                   " of what is stored is used");
  run.computed(
      {"04.10b", "a transpose that reads columns stores at 100% efficiency", "[LC 4] 100%"},
      by_row == 1, percent(by_row).words + " of what is stored is used");
  run.counted({"04.10c", "a cache doubles the efficiency of loads by columns, from 12.5%",
               "[LC 4] 25%, \"but why not 12.5 percent here?\""},
              use_over_one_eighth, "times the 12.5% that a load by itself uses", more_by(2));
  run.computed({"04.20", "shared memory avoids uncoalesced access to global memory",
                "[LC 4] \"Using shared memory can\" avoid it"},
               by_row == 1,
               "4 sectors per request, in and out; ms: " + digits(timed["padded_tile"].median()) +
                   ", transposeRowCol " + digits(timed["transposeRowCol"].median()));
  // twice as many: the words of the tile are also written to shared memory and read from it
  run.claim({"04.15", "in some cases a detour through shared memory takes less time",
             "[KP] \"In some cases ... the memory access time decreases\""},
            timed.speedup({.of = "padded_tile", .over = "transposeRowCol"}), can_be_faster());
}
SAMPLE(3, transpose, "from one word per thread to a tile of quads");

TEST_CASE("transpose: sectors, and the copy that shares a kernel's limit, by hand") {
  CHECK(along_row(4096) == 4);
  CHECK(along_column(4096) == 32);
  CHECK(quads_of_two_rows(4096) == 16);
  const Limits limits{1, 2, 16};
  CHECK(predicted_ms({"", nullptr, by_rows, along_row, along_column}, limits) == 16);
  CHECK(predicted_ms({"", nullptr, by_rows, along_column, along_row}, limits) == 2);
  CHECK(predicted_ms({"", nullptr, by_rows, along_row, along_row, small_tile}, limits) == 1);
}

TEST_CASE("transpose: every kernel is right at awkward shapes, and writes nothing behind") {
  if (skip_without_gpu()) return;
  const std::pair<unsigned, unsigned> shapes[] = {{1, 1},   {1009, 1}, {1, 1009},  {33, 31},
                                                  {63, 65}, {4, 1020}, {260, 516}, {128, 64}};
  for (const auto& [nx, ny] : shapes)
    for (const Row& row : rows) {
      if (row.load == quads_of_two_rows && (nx % 4 || ny % 4)) continue;  // rows of quads
      INFO(row.name, ", ", nx, " x ", ny);
      std::vector<float> in(size_t(nx) * ny);
      for (size_t i = 0; i < in.size(); ++i) in[i] = word(i);
      std::vector<float> right = in;
      if (!row.copies()) transposeHost1(right.data(), in.data(), nx, ny);
      const DeviceBuffer<float> source(in), expected(right);
      const GuardedBuffer<float> out(in.size());
      launching(row, out, source, nx, ny)();
      CUDA_CHECK_LAUNCH();
      CHECK(find_mismatch(out, [e = expected.data()] __device__(size_t i) { return e[i]; }) == "");
    }
}
