// small_matrices: many small problems at once. A reader's letter to the study of 2007 asks what a GPU
// does with hundreds of thousands of small independent matrices, of about 32 x 32, that are to be
// inverted: a kernel for all of it, or a call of cuBLAS for each operation? "I fear cuBLAS will
// hardly give anything" on those [BW, letter 1]. The reply: put them together into one large matrix.
// Here each stays in the registers of a group of lanes.
//
// A copy of as many bytes is the measure: many matrices cannot be inverted in less time. Look at how
// near the kernel comes to it, at 4 x 4 and at 32 x 32, and what the library makes of the same.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o small_matrices small_matrices.cu ../common/*.cpp
//   (with -DHAVE_CUBLAS -lcublas: the library's rows and the claim, too)
//
//   1  invert_in_warp  4, 8, 16 or 32 lanes invert a matrix
#include <cmath>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif

namespace {

constexpr unsigned block_threads = 128;

// ---- kernel: `count` matrices of n x n words, n <= width ----

// Of the lanes that have not been a pivot's, the one with the largest |value|; 0 with every lane
// if all of them are zero. The lane's number takes the place of the last five bits of the value.
template <unsigned width>
__device__ unsigned largest_free(float value, bool free, unsigned lane, unsigned mask) {
  unsigned key = free ? (__float_as_uint(fabsf(value)) & ~31u) | lane : 0;
#pragma unroll
  for (unsigned step = width / 2; step > 0; step /= 2)
    key = max(key, __shfl_xor_sync(mask, key, step));
  return key;
}

// The bits of the largest |value| below 2^-126, as a number. A pivot up to it counts as zero: its
// reciprocal can be infinite.
constexpr unsigned largest_zero = 0x007fffff;

// Gauss and Jordan, in place. Lane j of a group keeps column j: a[i] is word (i, j). In step k the
// free lane with the largest a[k] shows its column to the others, through shared memory: 16 bytes
// at a time, the same for all lanes of the group, so that no bank is asked twice. All groups of a
// warp do a step together.
template <unsigned width>
__global__ void invert_in_warp(float* out, int* singular, const float* in, unsigned n,
                               unsigned count) {
  __shared__ float4 shown[2][block_threads / width][width / 4];
  const unsigned group = threadIdx.x / width, lane = threadIdx.x % width;
  const unsigned matrix = blockIdx.x * (block_threads / width) + group;
  const bool has_column = matrix < count && lane < n;
  constexpr unsigned mask = ~0u;
  const size_t first = size_t(matrix) * n * n;

  float a[width];
#pragma unroll
  for (unsigned i = 0; i < width; ++i) a[i] = i < n && has_column ? in[first + i * n + lane] : 0;

  unsigned row = 0;       // of the inverse: the step in which this lane was the pivot's
  unsigned pivot_of = 0;  // lane k keeps which lane was the pivot's in step k
  bool free = has_column;
  int zero_at = 0;  // the first step without a pivot, from 1
#pragma unroll
  for (unsigned k = 0; k < width; ++k) {
    if (k >= n) break;
    const unsigned largest = largest_free<width>(a[k], free, lane, mask);
    if (largest <= largest_zero && zero_at == 0) zero_at = int(k) + 1;
    const bool pivot = lane == largest % 32;
    if (lane == k) pivot_of = largest % 32;

    float* column = reinterpret_cast<float*>(shown[k % 2][group]);
    if (pivot) {
      free = false;
      row = k;
#pragma unroll
      for (unsigned i = 0; i < width; i += 4)
        shown[k % 2][group][i / 4] = make_float4(a[i], a[i + 1], a[i + 2], a[i + 3]);
#pragma unroll
      for (unsigned i = 0; i < width; ++i) a[i] = 0;
    }
    __syncwarp(mask);
    const float one_over = 1 / column[k];
    const float factor = pivot ? -one_over : a[k] * one_over;
#pragma unroll
    for (unsigned i = 0; i < width; i += 4) {
      const float4 four = shown[k % 2][group][i / 4];
      a[i] -= factor * four.x;
      a[i + 1] -= factor * four.y;
      a[i + 2] -= factor * four.z;
      a[i + 3] -= factor * four.w;
    }
    a[k] = -factor;
  }
#pragma unroll
  for (unsigned j = 0; j < width; ++j) {
    const unsigned line = __shfl_sync(mask, pivot_of, j, width);
    if (j < n && has_column) out[first + line * n + row] = zero_at ? NAN : a[j];
  }
  if (matrix < count && lane == 0) singular[matrix] = zero_at;
}

/// Lanes that keep a matrix: a power of two, so that groups fill a warp.
unsigned width_of(unsigned n) { return n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32; }

void launch(float* out, int* singular, const float* in, unsigned n, unsigned count) {
  const unsigned width = width_of(n), in_block = block_threads / width;
  const auto kernel = width == 4    ? invert_in_warp<4>
                      : width == 8  ? invert_in_warp<8>
                      : width == 16 ? invert_in_warp<16>
                                    : invert_in_warp<32>;
  kernel<<<(count + in_block - 1) / in_block, block_threads>>>(out, singular, in, n, count);
}

// ---- the matrices, and what is right ----

/// The last row of every 101st matrix is zero, so that the report of a singular one is tried.
__host__ __device__ bool is_singular(unsigned matrix) { return matrix % 101 == 100; }

/// Word i of all matrices: between -1 and 1, and not 0.
__host__ __device__ float word(size_t i, unsigned n) {
  const bool last_row = i % (n * n) / n == n - 1;
  return last_row && is_singular(unsigned(i / (n * n))) ? 0 : float(int(hash(i + 1))) * 0x1p-31f;
}

// A block of 32 threads per matrix; thread j has column j. Multiplies the matrix by its inverse, in
// double precision, and compares with the identity. The error of an inverse grows with the condition
// number |A| |X| (largest sums of |words| in a row): 2^-24 per operation of the n steps, and a factor
// of 8 for what a step adds to the rounding of the steps before it. wrong[matrix] becomes 0 or 1.
__global__ void multiply_back(int* wrong, const float* a, const float* x, const int* singular,
                              unsigned n) {
  const unsigned matrix = blockIdx.x, j = threadIdx.x;
  const float* const in = a + size_t(matrix) * n * n;
  const float* const inverse = x + size_t(matrix) * n * n;
  double most = 0, sum_a = 0, sum_x = 0;
  if (j < n)
    for (unsigned i = 0; i < n; ++i) {
      double product = i == j ? -1 : 0;
      for (unsigned k = 0; k < n; ++k) product += double(in[i * n + k]) * inverse[k * n + j];
      most = product == product ? fmax(most, fabs(product)) : INFINITY;  // fmax drops a NaN
      sum_a += fabs(in[j * n + i]);
      sum_x += fabs(inverse[j * n + i]);
    }
  for (unsigned step = 16; step > 0; step /= 2) {
    most = fmax(most, __shfl_xor_sync(~0u, most, step));
    sum_a = fmax(sum_a, __shfl_xor_sync(~0u, sum_a, step));
    sum_x = fmax(sum_x, __shfl_xor_sync(~0u, sum_x, step));
  }
  if (j != 0) return;
  const bool inverted = singular[matrix] == 0 && most <= 8 * n * 0x1p-24 * sum_a * sum_x;
  const bool reported = singular[matrix] > 0 && singular[matrix] <= int(n);
  wrong[matrix] = is_singular(matrix) ? !reported : !inverted;
}

DeviceBuffer<float> words_of(unsigned n, unsigned count) {
  return filled<float>(size_t(count) * n * n, [n] __device__(size_t i) { return word(i, n); });
}

/// `count` matrices of n x n words, their inverses, and the step in which one was found singular.
struct Matrices {
  unsigned n, count;
  DeviceBuffer<float> in;
  GuardedBuffer<float> out;
  GuardedBuffer<int> singular, wrong;

  Matrices(unsigned n, unsigned count)
      : n(n), count(count), in(words_of(n, count)), out(in.size()), singular(count), wrong(count) {}

  std::string find_error() const {
    multiply_back<<<count, 32>>>(wrong, in, out, singular, n);
    CUDA_CHECK_LAUNCH();
    for (const std::string& error :
         {find_mismatch(wrong, [] __device__(size_t) { return 0; }), guard_error(singular)})
      if (!error.empty()) return error;
    return guard_error(out);
  }
  Check check() const {
    return {[m = *this] {
              m.out.poison();
              m.singular.poison();
            },
            [m = *this] { return m.find_error(); }};
  }
};

Benchmark inverting(const Matrices& m) {
  return {.name = "invert_in_warp",
          .work = [m] { launch(m.out, m.singular, m.in, m.n, m.count); },
          .check = m.check()};
}

// ---- what the library does ----

#ifdef HAVE_CUBLAS
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

/// A handle, and where each matrix begins. cuBLAS counts by columns: it sees the transposed
/// matrices, whose inverses are the transposed inverses.
struct Cublas {
  const Matrices& m;
  cublasHandle_t handle = nullptr;
  DeviceBuffer<float> factors;  // getrf works in place
  DeviceBuffer<float*> in, factored, out;
  DeviceBuffer<int> pivots;

  explicit Cublas(const Matrices& m)
      : m(m),
        factors(m.in.size()),
        in(pointers(m.in)),
        factored(pointers(factors)),
        out(pointers(m.out)),
        pivots(size_t(m.count) * m.n) {
    check(cublasCreate(&handle));
  }
  Cublas(const Cublas&) = delete;
  ~Cublas() { cublasDestroy(handle); }
  DeviceBuffer<float*> pointers(float* first) const {
    std::vector<float*> all(m.count);
    for (size_t i = 0; i < m.count; ++i) all[i] = first + i * m.n * m.n;
    return DeviceBuffer<float*>(all);
  }

  /// Inverts matrices of up to 32 x 32 in one call.
  void matinv() const {
    const int n = int(m.n);
    check(cublasSmatinvBatched(handle, n, in, n, out, n, m.singular, int(m.count)));
  }
  /// Factors of any size, and their inverse. The copy that getrf needs belongs to it.
  void getrf_getri() const {
    const int n = int(m.n), count = int(m.count);
    CUDA_CHECK(cudaMemcpyAsync(factors, m.in, m.in.bytes(), cudaMemcpyDeviceToDevice));
    check(cublasSgetrfBatched(handle, n, factored, n, pivots, m.singular, count));
    check(cublasSgetriBatched(handle, n, factored, n, pivots, out, n, m.singular, count));
  }
};
#endif

// ---- the experiment ----

Timings add_row(Run& run, Table& table, unsigned n, unsigned count) {
  const Matrices m(n, count);
  const auto copy = [=] {
    CUDA_CHECK(cudaMemcpyAsync(m.out, m.in, m.in.bytes(), cudaMemcpyDeviceToDevice));
  };
  std::vector<Benchmark> benchmarks{
      {.name = "copy",
       .work = copy,
       .check = equals(m.out, [n] __device__(size_t i) { return word(i, n); })},
      inverting(m)};
#ifdef HAVE_CUBLAS
  const Cublas cublas(m);
  const auto matinv = [&] { cublas.matinv(); };
  const auto getrf_getri = [&] { cublas.getrf_getri(); };
  benchmarks.push_back({.name = "matinv", .work = matinv, .check = m.check()});
  benchmarks.push_back({.name = "getrf, getri", .work = getrf_getri, .check = m.check()});
#endif
  const Timings timed = run.timer.interleaved(benchmarks);
  const double copy_ms = timed["copy"].median(), ms = timed["invert_in_warp"].median();
  const auto of_library = [&](const char* name) -> Cell {
    if (benchmarks.size() == 2) return "no cuBLAS";
    return timed[name].ms_interval();
  };
  table.row(std::to_string(n) + " x " + std::to_string(n) + ", " + std::to_string(count),
            {timed["copy"].ms_interval(), timed["invert_in_warp"].ms_interval(),
             of_library("matinv"), of_library("getrf, getri"), percent(copy_ms / ms)});
  return timed;
}

}  // namespace

void small_matrices(Run& run) {
  run.title("matrices of 4 x 4 to 32 x 32 words of 4 bytes are inverted");
  Table table("size, matrices", {"copy ms", "ours ms", "matinv ms", "getrf, getri ms", "of copy"});
  Timings last;  // of 32 x 32
  for (const unsigned n : {4, 8, 16, 32}) {
    const double bytes_each = 12 * n * n;  // the matrix, its inverse, and the library's factors
    const size_t count = run.fitting(run.quick ? 10000 : 100000, bytes_each);
    last = add_row(run, table, n, unsigned(count));
  }
  run.print(table);
  run.note("copy: as many bytes by cudaMemcpyAsync; of copy: its time over that of invert_in_warp");
  run.note("matinv: cublasSmatinvBatched; getrf, getri: cublasSgetrfBatched, cublasSgetriBatched");

  const Claim hardly_anything{"06.9", "for matrices of 32 x 32 cuBLAS will hardly give anything",
                              "[BW, letter 1] \"I fear cuBLAS will hardly give anything\""};
#ifdef HAVE_CUBLAS
  // what it gives: how many times as fast its better way is as one kernel of one's own
  const bool in_one_call = last["matinv"].median() < last["getrf, getri"].median();
  run.claim(hardly_anything,
            last.speedup({.of = in_one_call ? "matinv" : "getrf, getri", .over = "invert_in_warp"}),
            no_faster());
#else
  run.claim_skipped(hardly_anything, "built without cuBLAS");
#endif
}
SAMPLE(8, small_matrices, "many small matrices inverted in registers, beside the library");

TEST_CASE("small_matrices: every size is right, and singular matrices are reported") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 31, 32}) {
    CAPTURE(n);
    const Matrices m(n, 307);
    CHECK_NOTHROW(require_right(inverting(m)));
    CHECK(m.singular.to_host()[100] > 0);
#ifdef HAVE_CUBLAS
    const Cublas cublas(m);
    const auto matinv = [&] { cublas.matinv(); };
    CHECK_NOTHROW(require_right({.name = "matinv", .work = matinv, .check = m.check()}));
#endif
  }
}

TEST_CASE(
    "small_matrices: a pivot below 2^-126 is reported, since its reciprocal can be infinite") {
  if (skip_without_gpu()) return;
  const Matrices m(1, 4);  // of one word each
  const std::vector<float> words = {0x1p-145f, 0x1p-128f, 0x1p-126f, -0x1p+126f};
  CUDA_CHECK(cudaMemcpy(m.in.data(), words.data(), m.in.bytes(), cudaMemcpyHostToDevice));
  launch(m.out, m.singular, m.in, m.n, m.count);
  CUDA_CHECK_LAUNCH();
  CHECK(m.singular.to_host() == std::vector<int>{1, 1, 0, 0});
  const std::vector<float> inverse = m.out.to_host();
  CHECK(std::isnan(inverse[0]));
  CHECK(std::isnan(inverse[1]));
  CHECK(inverse[2] == 0x1p+126f);
  CHECK(inverse[3] == -0x1p-126f);
}

TEST_CASE("small_matrices: exchanged rows, a scaled inverse, an unreported singular one are seen") {
  if (skip_without_gpu()) return;
  const unsigned n = 7;
  const Matrices m(n, 300);
  require_right(inverting(m));
  const std::vector<float> right = m.out.to_host();
  std::vector<int> singular = m.singular.to_host();
  const auto put = [](const auto& buffer, const auto& words) {
    CUDA_CHECK(cudaMemcpy(buffer.data(), words.data(), buffer.bytes(), cudaMemcpyHostToDevice));
  };
  std::vector<float> words = right;
  for (unsigned j = 0; j < n; ++j) std::swap(words[j], words[n + j]);
  put(m.out, words);
  CHECK(m.find_error() != "");
  words = right;
  for (unsigned i = 0; i < n * n; ++i) words[n * n + i] *= 1.01f;
  put(m.out, words);
  CHECK(m.find_error() != "");
  put(m.out, right);
  CHECK(m.find_error() == "");
  singular[100] = 0;
  put(m.singular, singular);
  CHECK(m.find_error() != "");
}
