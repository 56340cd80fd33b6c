// matmul: A x B, and A x the transposed B. The guide gives each element of C a thread, which walks
// down a column of B: "non-contiguous". So it transposes B first, and gains 30% [KP].
//
// Look at what the 32 lanes of a warp read together, not at what one thread reads in turn. Where
// are these neighbours in a row of B, and where is it a word of each of 32 rows? Then look at the
// way on: words that are loaded once for a whole block, and the library.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o matmul matmul.cu ../common/*.cpp
//
//   1  matrix_mul_gpu      block i, thread j
//   2  transpose           makes the transposed B
//   3  matrix_mul_gpu_opt  1 from the transposed B
//   4  a_warp_per_element  ours: the lanes of a warp differ in k; from B, and from the transposed B
//   5  a_tile_per_block    ours: through shared memory. And cuBLAS, where CMake finds it
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif

namespace {

// ---- the guide's kernels, for n rows of n words: n blocks of n threads ----

// In each step all lanes read the same word of A, and 32 neighbours in a row of B: 4 sectors.
__global__ void matrix_mul_gpu(int n, float* a, float* b, float* c) {
  const int bid = blockIdx.x;
  const int tid = threadIdx.x;
  float s = 0.0;
  for (int k = 0; k < n; ++k) s += a[bid * n + k] * b[k * n + tid];  // A(i,k) * B(k,j)
  c[bid * n + tid] = s;
}

// A warp reads a word of each of 32 rows of B, and writes 32 neighbours in a row of B^T.
__global__ void transpose(int n, float* b, float* bt) {
  bt[blockIdx.x * n + threadIdx.x] = b[threadIdx.x * n + blockIdx.x];
}

// A thread reads neighbours, one after the other. But in each step the lanes of a warp read words
// that lie a row apart: 32 sectors.
__global__ void matrix_mul_gpu_opt(int n, float* a, float* b, float* c) {
  const int bid = blockIdx.x;
  const int tid = threadIdx.x;
  float s = 0.0;
  for (int k = 0; k < n; ++k) s += a[bid * n + k] * b[tid * n + k];  // A x BT (contiguous access)
  c[bid * n + tid] = s;
}

// ---- ours ----

constexpr unsigned block_warps = 8;
constexpr unsigned words_at_once = 4 * 32;  // four steps in flight, as nvcc gives the guide's loops

// B(k, j) of B, or of the transposed B
template <bool transposed>
__device__ float word_of(const float* b, unsigned n, unsigned k, unsigned j) {
  return transposed ? b[j * n + k] : b[k * n + j];
}

// Block i; each warp computes every eighth element of the row. Lane k reads word k of a row of A: 4
// sectors. Its word of B lies a row from its neighbour's (32 sectors), that of B^T beside it (4).
template <bool transposed>
__global__ void a_warp_per_element(int size, float* a, float* b, float* c) {
  const unsigned n = size;
  const unsigned i = blockIdx.x;
  const unsigned lane = threadIdx.x % 32;
  for (unsigned j = threadIdx.x / 32; j < n; j += block_warps) {
    float sum = 0;
    unsigned k = lane;
#pragma unroll 1
    for (; k + words_at_once - 32 < n; k += words_at_once) {
#pragma unroll
      for (unsigned more = 0; more < words_at_once; more += 32)
        sum += a[i * n + k + more] * word_of<transposed>(b, n, k + more, j);
    }
    for (; k < n; k += 32) sum += a[i * n + k] * word_of<transposed>(b, n, k, j);
    for (int distance = 16; distance > 0; distance /= 2)  // add up the sums of the lanes
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) c[i * n + j] = sum;
  }
}

constexpr int tile = 32;

// A block of 32 x 32 threads makes a tile of C. In every 32nd step each warp loads a row of a tile
// of A and one of B, 4 sectors each, for all 32 warps. In a step its lanes read the same word of
// A's tile, and 32 neighbours in B's, each from a bank of its own.
__global__ void a_tile_per_block(int n, float* a, float* b, float* c) {
  __shared__ float of_a[tile][tile], of_b[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int i = blockIdx.y * tile + y, j = blockIdx.x * tile + x;
  float s = 0;
  for (int first = 0; first < n; first += tile) {
    of_a[y][x] = i < n && first + x < n ? a[i * n + first + x] : 0;
    of_b[y][x] = first + y < n && j < n ? b[(first + y) * n + j] : 0;
    __syncthreads();
    for (int k = 0; k < tile; ++k) s += of_a[y][k] * of_b[k][x];
    __syncthreads();  // before the next tiles take their place
  }
  if (i < n && j < n) c[i * n + j] = s;
}

// ---- what must come out ----

/// Integers from -8 to 7: all sums of up to 1024 products are exact, in any order.
__host__ __device__ float a_at(size_t i) { return float(int(hash(i) >> 28) - 8); }
__host__ __device__ float b_at(size_t i) { return a_at(i + (size_t(1) << 31)); }

struct Matrices {
  int n;
  DeviceBuffer<float> a, b, bt;
  GuardedBuffer<float> c, made_bt;  ///< made_bt: by the row that transposes first
};
Matrices matrices(int size) {
  const size_t n = size, all = n * n;
  return {size,
          filled<float>(all, [] __device__(size_t i) { return a_at(i); }),
          filled<float>(all, [] __device__(size_t i) { return b_at(i); }),
          filled<float>(all, [n] __device__(size_t i) { return b_at(i % n * n + i / n); }),
          GuardedBuffer<float>(all),
          GuardedBuffer<float>(all)};
}

/// The product; and B^T, where it was made.
Check is_product(const Matrices& m, bool makes_bt = false) {
  const size_t n = m.n;
  const Check c = equals(m.c, [n] __device__(size_t i) {
    float sum = 0;
    for (size_t k = 0; k < n; ++k) sum += a_at(i / n * n + k) * b_at(k * n + i % n);
    return sum;
  });
  const Check bt = equals(m.made_bt, [n] __device__(size_t i) { return b_at(i % n * n + i / n); });
  return {[=] {
            c.poison();
            bt.poison();
          },
          [=] {
            const std::string error = c.find_error();
            return error.empty() && makes_bt ? bt.find_error() : error;
          }};
}

// ---- the launches: add yours here ----

template <auto kernel, bool transposed>
void by_rows(const Matrices& m) {
  kernel<<<m.n, m.n>>>(m.n, m.a, transposed ? m.bt : m.b, m.c);
}
void after_transpose(const Matrices& m) {
  transpose<<<m.n, m.n>>>(m.n, m.b, m.made_bt);
  matrix_mul_gpu_opt<<<m.n, m.n>>>(m.n, m.a, m.made_bt, m.c);
}
template <bool transposed>
void by_warps(const Matrices& m) {
  const auto kernel = a_warp_per_element<transposed>;
  kernel<<<m.n, 32 * block_warps>>>(m.n, m.a, transposed ? m.bt : m.b, m.c);
}
void by_tiles(const Matrices& m) {
  const unsigned tiles = unsigned(ceil_div(m.n, tile));
  a_tile_per_block<<<dim3(tiles, tiles), dim3(tile, tile)>>>(m.n, m.a, m.b, m.c);
}

/// Where the next lane's word lies.
enum Next { same_word, beside, a_row_on };

struct Row {
  const char *name, *product;
  void (*launch)(const Matrices& m);
  Next of_a, of_b;           ///< in a load of A, and of B or B^T
  bool makes_bt = false;     ///< in made_bt
  int steps = 1;             ///< in which what was loaded is used
  double shared_passes = 0;  ///< of a step, through the banks of shared memory
};
const Row rows[] = {
    {"matrix_mul_gpu", "A x B", by_rows<matrix_mul_gpu, false>, same_word, beside},
    {"matrix_mul_gpu_opt", "A x B^T", by_rows<matrix_mul_gpu_opt, true>, same_word, a_row_on},
    {"transpose, then _opt", "A x B^T", after_transpose, same_word, a_row_on, true},
    {"a_warp_per_element", "A x B", by_warps<false>, beside, a_row_on},
    {"a_warp_per_element, B^T", "A x B^T", by_warps<true>, beside, beside},
    {.name = "a_tile_per_block",
     .product = "A x B",
     .launch = by_tiles,
     .of_a = beside,
     .of_b = beside,
     .steps = tile,
     .shared_passes = 1 + 1. / 4 + 2. / tile},  // of B; of A, four words at a time; two stores
};

#ifdef HAVE_CUBLAS
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

struct Cublas {
  cublasHandle_t handle = nullptr;
  Cublas() { check(cublasCreate(&handle)); }
  Cublas(const Cublas&) = delete;
  ~Cublas() { cublasDestroy(handle); }

  /// It counts by columns, so it sees A^T and B^T: their product B^T x A^T is the transposed C.
  void multiply(const Matrices& m) const {
    const float one = 1, zero = 0;
    check(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m.n, m.n, m.n, &one, m.b, m.n, m.a, m.n,
                      &zero, m.c, m.n));
  }
};
#endif

// ---- the prediction ----

/// Pieces of memory that a warp's load touches.
size_t pieces(Next next, size_t n, size_t piece) {
  const size_t apart = next == same_word ? 0 : next == beside ? 1 : n;
  return segments_touched(piece, sizeof(float), [=](size_t lane) { return lane * apart; });
}

/// Milliseconds at least, if L1 serves one line of 128 bytes per cycle, and so does shared memory,
/// which is the same banks. A warp's step takes 32 products, with a word of A and one of B for
/// each, and each multiprocessor has its share of the steps.
double least_ms(const Row& row, size_t n, int multiprocessors, int khz) {
  const double lines = double(pieces(row.of_a, n, 128) + pieces(row.of_b, n, 128));
  const double steps = double(n) * double(n) * double(n) / 32;
  return steps * (lines / row.steps + row.shared_passes) / multiprocessors / khz;
}

// ---- the experiment ----

Timings measure(Run& run, int n) {
  const Matrices m = matrices(n);
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows)
    benchmarks.push_back({row.name, [=] { row.launch(m); }, is_product(m, row.makes_bt)});
#ifdef HAVE_CUBLAS
  const Cublas cublas;
  benchmarks.push_back({"cuBLAS", [&] { cublas.multiply(m); }, is_product(m)});
#endif
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("n " + std::to_string(n),
              {"", "of A", "of B", "sectors/request", "at least", "ms", "spread", "per ns"});
  const auto per_ns = [&](const Times& times) { return std::pow(n, 3) * 1e-6 / times.median(); };
  for (const Row& row : rows) {
    const Times& times = timed[row.name];
    const double of_a = double(pieces(row.of_a, n, sector_bytes));
    const double of_b = double(pieces(row.of_b, n, sector_bytes));
    table.row(row.name, {row.product, of_a / row.steps, of_b / row.steps,
                         row.makes_bt ? Cell("") : Cell((of_a + of_b) / 2),
                         least_ms(row, n, run.gpu.multiProcessorCount,
                                  device_attribute(cudaDevAttrClockRate)),
                         times.ms_interval(), percent(times.spread()), per_ns(times)});
  }
#ifdef HAVE_CUBLAS
  const Times& times = timed["cuBLAS"];
  table.row("cuBLAS",
            {"A x B", "", "", "", "", times.ms_interval(), percent(times.spread()), per_ns(times)});
#else
  table.missing("cuBLAS", "this build is without it; CMake looks for it");
#endif
  run.print(table);
  return timed;
}

}  // namespace

void matmul(Run& run) {
  const int n = run.quick ? 512 : 1024;
  run.title("matrices of n x n floats, which stay in the L2: n blocks of n threads");
  measure(run, 256);
  const Timings timed = measure(run, n);
  run.note("of A, of B: sectors that a warp loads for a step; sectors/request: the mean of both");
  run.note("at least: L1, or shared memory, serves 128 bytes per cycle; beyond that is waiting");
  run.note("a_tile_per_block: blocks of 32 x 32 threads; a loaded word serves 32 steps");

  run.claim({"03.8", "reading B transposed makes the matrix product 30% faster",
             "[KP] \"a 30% performance improvement\""},
            timed.speedup({.of = "matrix_mul_gpu_opt", .over = "matrix_mul_gpu"}), faster_by(1.3));
}
SAMPLE(10, matmul, "A x B, and A x the transposed B");

TEST_CASE("matmul: what a warp touches in a load, and the least time, by hand") {
  const size_t by_hand[][3] = {{1, 4, 2}, {1, 32, 33}, {1, 32, 33}, {4, 32, 33}, {4, 4, 2}};
  for (size_t r = 0; r < std::size(by_hand); ++r)
    for (const size_t n : {256, 1024}) {
      CAPTURE(rows[r].name);
      CHECK(pieces(rows[r].of_a, n, sector_bytes) == by_hand[r][0]);
      CHECK(pieces(rows[r].of_b, n, sector_bytes) == by_hand[r][1]);
      CHECK(pieces(rows[r].of_a, n, 128) + pieces(rows[r].of_b, n, 128) == by_hand[r][2]);
    }
  // 64^3 products are 8192 steps, 2048 for each of 4 multiprocessors; a cycle is a microsecond
  CHECK(least_ms(rows[0], 64, 4, 1000) == doctest::Approx(2 * 2.048));
  CHECK(least_ms(rows[1], 64, 4, 1000) == doctest::Approx(33 * 2.048));
  // of 32 steps 64 lines are loaded and stored, 32 read of B's tile and 8 of A's
  CHECK(least_ms(rows[5], 64, 4, 1000) == doctest::Approx((2 + 2 + 32 + 8) / 32. * 2.048));
}

// Small matrices, so that racecheck comes to its end.
TEST_CASE("matmul: every row is right, at any n") {
  if (skip_without_gpu()) return;
  for (const int n : {1, 2, 31, 33, 127, 129, 257}) {
    const Matrices m = matrices(n);
    for (const Row& row : rows) {
      CAPTURE(n);
      CAPTURE(row.name);
      const Check check = is_product(m, row.makes_bt);
      check.poison();
      row.launch(m);
      CHECK(check.find_error() == "");
    }
  }
}

TEST_CASE("matmul: what counts as right is the product, and one changed word is noticed") {
  if (skip_without_gpu()) return;
  constexpr size_t n = 33;
  const Matrices m = matrices(n);
  const std::vector<float> a = m.a.to_host(), b = m.b.to_host(), bt = m.bt.to_host();
  CHECK(a != b);
  std::vector<float> c(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      CHECK(bt[j * n + i] == b[i * n + j]);
      for (size_t k = 0; k < n; ++k) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  const auto copy = [](const GuardedBuffer<float>& to, const std::vector<float>& from) {
    CUDA_CHECK(cudaMemcpy(to, from.data(), to.bytes(), cudaMemcpyHostToDevice));
  };
  copy(m.c, c);
  copy(m.made_bt, bt);
  CHECK(is_product(m, true).find_error() == "");
  copy(m.made_bt, b);
  CHECK(is_product(m, true).find_error() != "");
  c.back() += 1;
  copy(m.c, c);
  CHECK(is_product(m).find_error() != "");
}
