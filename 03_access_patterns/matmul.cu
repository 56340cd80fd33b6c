// matmul: A x B, and A x the transposed B. The guide gives each element of C a thread, which walks
// down a column of B: "non-contiguous". So it transposes B first, and gains 30% [KP].
//
// Look at what the 32 lanes of a warp read together, not at what one thread reads in turn. In the
// first version that is 32 neighbours in a row of B: 4 sectors. From the transposed B it is a word
// of each of 32 rows: 32 sectors. So the version that the guide calls optimized is the slow one.
// The guide is right where the lanes of a warp differ in k: if a warp computes an element.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o matmul matmul.cu ../common/*.cpp
//
//   1  matrix_mul_gpu      block i, thread j
//   2  transpose           makes the transposed B
//   3  matrix_mul_gpu_opt  1 from the transposed B
//   4  a_warp_per_element  ours: the lanes of a warp differ in k; from B, and from the transposed B
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

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

// ---- the rows of the table ----

struct Row {
  const char* name;
  const char* product;
  void (*kernel)(int, float*, float*, float*);
  bool by_warps, transposed, transposes_first;
};
const Row rows[] = {
    {"matrix_mul_gpu", "A x B", matrix_mul_gpu, false, false, false},
    {"matrix_mul_gpu_opt", "A x B^T", matrix_mul_gpu_opt, false, true, false},
    {"transpose, then _opt", "A x B^T", matrix_mul_gpu_opt, false, true, true},
    {"a_warp_per_element", "A x B", a_warp_per_element<false>, true, false, false},
    {"a_warp_per_element, B^T", "A x B^T", a_warp_per_element<true>, true, true, false},
};

// ---- the prediction ----

/// Pieces of memory that a warp touches in one step: of A, and of B or the transposed B.
size_t pieces_of_a(const Row& row, size_t piece) {
  return segments_touched(piece, sizeof(float),
                          [&](size_t lane) { return row.by_warps ? lane : 0; });
}
size_t pieces_of_b(const Row& row, size_t n, size_t piece) {
  const bool neighbours = row.by_warps == row.transposed;
  return segments_touched(piece, sizeof(float),
                          [&](size_t lane) { return neighbours ? lane : lane * n; });
}

/// Milliseconds at least, if L1 serves one line of 128 bytes per cycle. A product takes a word of A
/// and one of B, a warp's step takes 32 products, and each multiprocessor has its share of them.
double least_ms(const Row& row, size_t n, int multiprocessors, int khz) {
  const double lines = double(pieces_of_a(row, 128) + pieces_of_b(row, n, 128));
  const double steps = double(n) * double(n) * double(n) / 32;
  return steps * lines / multiprocessors / khz;
}

// ---- launching, and what is right ----

/// Integers from -8 to 7: all sums of up to 1024 products are exact, in any order.
__host__ __device__ float a_at(size_t i) { return float(int(hash(i) >> 28) - 8); }
__host__ __device__ float b_at(size_t i) { return a_at(i + (size_t(1) << 31)); }

struct Matrices {
  size_t n;
  DeviceBuffer<float> a, b, bt;
  GuardedBuffer<float> c, made_bt;  ///< made_bt: by the row that transposes first
};
Matrices matrices(size_t n) {
  const auto a = [] __device__(size_t i) { return a_at(i); };
  const auto b = [] __device__(size_t i) { return b_at(i); };
  const auto bt = [n] __device__(size_t i) { return b_at(i % n * n + i / n); };
  const size_t all = n * n;
  return {n,
          filled<float>(all, a),
          filled<float>(all, b),
          filled<float>(all, bt),
          GuardedBuffer<float>(all),
          GuardedBuffer<float>(all)};
}

void launch(const Row& row, const Matrices& m) {
  const int n = int(m.n);
  float* b = row.transposed ? m.bt : m.b;
  if (row.transposes_first) {
    transpose<<<n, n>>>(n, m.b, m.made_bt);
    b = m.made_bt;
  }
  row.kernel<<<n, row.by_warps ? 32 * block_warps : n>>>(n, m.a, b, m.c);
}

std::string find_wrong_product(const Matrices& m) {
  const auto product = [n = m.n] __device__(size_t i) {
    float sum = 0;
    for (size_t k = 0; k < n; ++k) sum += a_at(i / n * n + k) * b_at(k * n + i % n);
    return sum;
  };
  return find_mismatch(m.c, product);
}
std::string find_wrong_transpose(const Matrices& m) {
  const auto word = [n = m.n] __device__(size_t i) { return b_at(i % n * n + i / n); };
  return find_mismatch(m.made_bt, word);
}

Benchmark benchmark_of(const Row& row, const Matrices& m) {
  const auto work = [=] { launch(row, m); };
  const auto poison = [=] {
    m.c.poison();
    m.made_bt.poison();
  };
  const auto find_error = [=] {
    const std::string error = find_wrong_product(m);
    return error.empty() && row.transposes_first ? find_wrong_transpose(m) : error;
  };
  return {row.name, work, {poison, find_error}};
}

int clock_khz() {
  int device = 0, khz = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device));
  return khz;
}

Timings measure(Run& run, size_t n) {
  const Matrices m = matrices(n);
  std::vector<Benchmark> benchmarks;
  for (const Row& row : rows) benchmarks.push_back(benchmark_of(row, m));
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("n " + std::to_string(n),
              {"", "of A", "of B", "sectors/request", "at least", "ms", "spread", "per ns"});
  for (const Row& row : rows) {
    const double of_a = double(pieces_of_a(row, sector_bytes));
    const double of_b = double(pieces_of_b(row, n, sector_bytes));
    const double ms = timed[row.name].median();
    const Cell mean = row.transposes_first ? Cell("") : Cell((of_a + of_b) / 2);
    table.row(row.name, {row.product, of_a, of_b, mean,
                         least_ms(row, n, run.gpu.multiProcessorCount, clock_khz()),
                         timed[row.name].ms_interval(), percent(timed[row.name].spread()),
                         double(n) * double(n) * double(n) * 1e-6 / ms});
  }
  run.print(table);
  return timed;
}

}  // namespace

void matmul(Run& run) {
  const size_t n = run.quick ? 512 : 1024;
  run.title("matrices of n x n floats, which stay in the L2: n blocks of n threads");
  measure(run, 256);
  const Timings timed = measure(run, n);
  run.note("of A, of B: sectors that a warp touches in a step; sectors/request: the mean of both");
  run.note("at least: L1 serves one line of 128 bytes per cycle; what is beyond that is waiting");

  run.claim({"03.8", "reading B transposed makes the matrix product 30% faster",
             "[KP] \"a 30% performance improvement\""},
            timed.speedup({.of = "matrix_mul_gpu_opt", .over = "matrix_mul_gpu"}), faster_by(1.3));
}
SAMPLE(10, matmul, "A x B, and A x the transposed B");

TEST_CASE("matmul: what a warp touches in a step, and the least time, by hand") {
  const size_t by_hand[][3] = {{1, 4, 2}, {1, 32, 33}, {1, 32, 33}, {4, 32, 33}, {4, 4, 2}};
  for (size_t r = 0; r < std::size(rows); ++r)
    for (const size_t n : {256, 1024}) {
      CAPTURE(rows[r].name);
      CHECK(pieces_of_a(rows[r], sector_bytes) == by_hand[r][0]);
      CHECK(pieces_of_b(rows[r], n, sector_bytes) == by_hand[r][1]);
      CHECK(pieces_of_a(rows[r], 128) + pieces_of_b(rows[r], n, 128) == by_hand[r][2]);
    }
  // 64^3 products are 8192 steps, 2048 for each of 4 multiprocessors; a cycle is a microsecond
  CHECK(least_ms(rows[0], 64, 4, 1000) == doctest::Approx(2 * 2.048));
  CHECK(least_ms(rows[1], 64, 4, 1000) == doctest::Approx(33 * 2.048));
}

TEST_CASE("matmul: every row is right, at any n") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2, 31, 33, 127, 129, 257, 1024}) {
    const Matrices m = matrices(n);
    for (const Row& row : rows) {
      CAPTURE(n);
      CAPTURE(row.name);
      const Benchmark benchmark = benchmark_of(row, m);
      benchmark.check.poison();
      benchmark.work();
      CHECK(benchmark.check.find_error() == "");
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
  const Benchmark transposes_first = benchmark_of(rows[2], m);
  CHECK(transposes_first.check.find_error() == "");
  copy(m.made_bt, b);
  CHECK(transposes_first.check.find_error() != "");
  c.back() += 1;
  copy(m.c, c);
  CHECK(find_wrong_product(m) != "");
}
