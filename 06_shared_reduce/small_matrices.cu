// small_matrices: a reader's letter to the study of 2007 [BW] asks what a GPU does with hundreds of
// thousands of small independent problems, such as matrices of up to 32 x 32 that are to be
// inverted. Nobody answers. Three things to look at:
//   - A matrix fits into the registers of a warp: lane j keeps column j. Nothing but the matrix
//     itself goes to memory and comes back.
//   - How near that comes to a copy of as many bytes, and which sizes do not.
//   - What the library makes of the same matrices.
//
//   cmake -S 06_shared_reduce -B build/small -DEXPERIMENTS=small_matrices
//   cmake --build build/small && build/small/06_shared_reduce small_matrices
//
//   1  invert_in_warp  4, 8, 16 or 32 lanes invert a matrix
#include <algorithm>
#include <cmath>
#include <memory>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

#ifdef HAVE_CUBLAS
#include <cublas_v2.h>
#endif

using namespace samples;

namespace {

constexpr unsigned block_threads = 128;
constexpr unsigned widest = 32;

// ---- kernel: `count` matrices of n x n words, n <= width ----

// [free_lane]
/// Of the lanes that have not been a pivot's, the one with the largest |value|; 0 with every lane
/// if all of them are zero. The lane's number takes the place of the last five bits of the value.
template <unsigned width>
__device__ unsigned largest_free(float value, bool free, unsigned lane, unsigned mask) {
  unsigned key = free ? (__float_as_uint(fabsf(value)) & ~31u) | lane : 0;
#pragma unroll
  for (unsigned step = width / 2; step > 0; step /= 2)
    key = max(key, __shfl_xor_sync(mask, key, step));
  return key;
}
// [/free_lane]

// [invert_in_warp]
// Gauss and Jordan, in place. Lane j of a group keeps column j: a[i] is word (i, j). In step k the
// free lane with the largest a[k] shows its column to the others, through shared memory: 16 bytes
// at a time, the same for all lanes of the group, so that no bank is asked twice. All groups of a
// warp do a step together; with a mask of its own, each group does every step alone.
template <unsigned width, bool own_mask>
__global__ void invert_in_warp(float* out, int* singular, const float* in, unsigned n,
                               unsigned count) {
  __shared__ float4 shown[2][block_threads / width][width / 4];
  const unsigned group = threadIdx.x / width, lane = threadIdx.x % width;
  const unsigned matrix = blockIdx.x * (block_threads / width) + group;
  const bool has_column = matrix < count && lane < n;
  const unsigned group_mask = ((1ull << width) - 1) << (threadIdx.x % 32 / width * width);
  const unsigned mask = own_mask ? group_mask : ~0u;
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
    if (largest < 32 && zero_at == 0) zero_at = int(k) + 1;
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
// [/invert_in_warp]

using Kernel = void (*)(float*, int*, const float*, unsigned, unsigned);

/// Lanes that keep a matrix: a power of two, so that groups fill a warp.
unsigned width_of(unsigned n) { return n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32; }
template <bool own_mask>
Kernel kernel_of(unsigned width) {
  if (width == 4) return invert_in_warp<4, own_mask>;
  if (width == 8) return invert_in_warp<8, own_mask>;
  return width == 16 ? invert_in_warp<16, own_mask> : invert_in_warp<32, own_mask>;
}

// ---- the matrices, and what is right ----

/// Some are hard on purpose, so that each report is seen to work.
constexpr unsigned singular_every = 101;  // the last row is zero
constexpr unsigned ill_every = 103;       // the last row is nearly the first one

__host__ __device__ bool is_singular(unsigned matrix) {
  return matrix % singular_every == singular_every - 1;
}

/// Word i of all matrices: between -1 and 1, without pattern.
struct WordOf {
  unsigned n;
  __host__ __device__ static float random(size_t i) {
    return float(int(scrambled(i, 2007))) * 4.656612873e-10f;  // 2^-31
  }
  __host__ __device__ float operator()(size_t i) const {
    const unsigned matrix = unsigned(i / (n * n)), at = unsigned(i % (n * n));
    const bool last_row = at / n == n - 1;
    if (last_row && is_singular(matrix)) return 0;
    if (last_row && n > 1 && matrix % ill_every == ill_every - 1)
      return random(i - size_t(n - 1) * n) + 1e-5f * random(i);
    return random(i);
  }
};

/// What the check says of a matrix.
enum Found : int { right = 0, wrong = 1, no_digit = 2 };

/// A block of 32 threads per matrix; thread j has column j. Multiplies the matrix by its inverse,
/// in double precision, and compares with the identity. The error of an inverse grows with the
/// condition number |A| |X| (largest sums of |words| in a row): 2^-24 per operation of the n steps,
/// and a factor of 8 for what a step adds to the rounding of the steps before it.
__global__ void multiply_back(int* found, const float* a, const float* x, const int* singular,
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
  const double bound = 8 * n * 0x1p-24 * sum_a * sum_x;
  const bool reported = singular[matrix] > 0 && singular[matrix] <= int(n);
  if (is_singular(matrix))
    found[matrix] = reported ? right : wrong;
  else if (singular[matrix] != 0 || !(most <= bound))
    found[matrix] = wrong;
  else
    found[matrix] = bound >= 1 ? no_digit : right;
}

struct NotWrong {
  __device__ bool operator()(size_t, int found) const {
    return found == right || found == no_digit;
  }
};

/// `count` matrices of n x n words, their inverses, and which are singular.
struct Matrices {
  unsigned n, count;
  DeviceBuffer<float> in;
  Output<float> out;
  Output<int> singular, found;

  Matrices(unsigned n, unsigned count)
      : n(n),
        count(count),
        in(filled<float>(words(), WordOf{n})),
        out(words()),
        singular(count),
        found(count) {}
  size_t words() const { return size_t(count) * n * n; }

  Check check() {
    return {[this] {
              out.poison();  // of NaN
              singular.poison();
              found.poison();
            },
            [this] {
              multiply_back<<<count, 32>>>(found.data(), in.data(), out.data(), singular.data(), n);
              CUDA_CHECK_LAUNCH();
              return found.wrong(NotWrong{});
            },
            ""};
  }
};

template <bool own_mask>
Task invert_task(const Shared<Matrices>& m, const Ref& row) {
  const unsigned width = width_of(m->n), in_block = block_threads / width;
  const auto launch = [m, width, in_block] {
    kernel_of<own_mask>(width)<<<(m->count + in_block - 1) / in_block, block_threads>>>(
        m->out.data(), m->singular.data(), m->in.data(), m->n, m->count);
  };
  return {text(row), launch, m->check()};
}

// ---- what the library does ----

#ifdef HAVE_CUBLAS
void check_cublas(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status));
}

/// A handle, and where each matrix begins. cuBLAS counts by columns: it sees the transposed
/// matrices, whose inverses are the transposed inverses.
struct Batch {
  std::shared_ptr<cublasContext> handle;
  DeviceBuffer<float> factors;  ///< getrf works in place
  DeviceBuffer<float*> in, factored, out;
  DeviceBuffer<int> pivots;

  Batch(Matrices& m, bool factor)
      : factors(factor ? m.words() : 0),
        in(pointers(m.in.data(), m)),
        factored(pointers(factors.data(), m)),
        out(pointers(m.out.data(), m)),
        pivots(size_t(m.count) * m.n) {
    if (device_memory::Pretence::stands()) return;
    cublasHandle_t created = nullptr;
    check_cublas(cublasCreate(&created));
    handle = {created, cublasDestroy};
  }
  static DeviceBuffer<float*> pointers(float* first, const Matrices& m) {
    std::vector<float*> all(m.count);
    for (size_t i = 0; i < m.count; ++i) all[i] = first + i * m.n * m.n;
    return DeviceBuffer<float*>(all);
  }
};

/// Inverts matrices of up to 32 x 32 in one call.
Task matinv_task(const Shared<Matrices>& m, const Ref& row) {
  const Shared batch{Batch(*m, false)};
  const auto launch = [m, batch] {
    const int n = int(m->n);
    check_cublas(cublasSmatinvBatched(batch->handle.get(), n, batch->in.data(), n,
                                      batch->out.data(), n, m->singular.data(), int(m->count)));
  };
  return {text(row), launch, m->check()};
}

/// Factors of any size, and their inverse. The copy that getrf needs belongs to it.
Task getrf_getri_task(const Shared<Matrices>& m, const Ref& row) {
  const Shared batch{Batch(*m, true)};
  const auto launch = [m, batch] {
    const int n = int(m->n), count = int(m->count);
    CUDA_CHECK(cudaMemcpyAsync(batch->factors.data(), m->in.data(), m->in.bytes(),
                               cudaMemcpyDeviceToDevice));
    check_cublas(cublasSgetrfBatched(batch->handle.get(), n, batch->factored.data(), n,
                                     batch->pivots.data(), m->singular.data(), count));
    // says again which are singular, in the same words
    check_cublas(cublasSgetriBatched(batch->handle.get(), n, batch->factored.data(), n,
                                     batch->pivots.data(), batch->out.data(), n, m->singular.data(),
                                     count));
  };
  return {text(row), launch, m->check()};
}
const char* const no_cublas = "";
#else
Task matinv_task(const Shared<Matrices>& m, const Ref& row) { return {text(row), {}, m->check()}; }
Task getrf_getri_task(const Shared<Matrices>& m, const Ref& row) {
  return {text(row), {}, m->check()};
}
const char* const no_cublas = "built without cuBLAS";
#endif

// ---- the rows ----

constexpr unsigned orders[] = {4, 8, 16, 32};

/// What inverts, or only copies, the matrices.
struct Method {
  std::string_view key;
  const char* words;
  Task (*task)(const Shared<Matrices>&, const Ref&);
  bool of_library = false;
};

struct Same {
  WordOf word;
  __device__ bool operator()(size_t i, float found) const { return found == word(i); }
};

/// As many bytes, read and written: no inverse can take less.
Task copy_task(const Shared<Matrices>& m, const Ref& row) {
  const auto launch = [m] {
    CUDA_CHECK(
        cudaMemcpyAsync(m->out.data(), m->in.data(), m->in.bytes(), cudaMemcpyDeviceToDevice));
  };
  return {text(row), launch, m->out.check(Same{{m->n}})};
}

const Method methods[] = {
    {"copy", "copy engine, as many bytes", copy_task},
    {"invert", "a group of lanes per matrix", invert_task<false>},
    {"own_mask", "each group with a mask of its own", invert_task<true>},
    {"matinv", "cublasSmatinvBatched", matinv_task, true},
    {"getrf_getri", "cublasSgetrfBatched, getri", getrf_getri_task, true},
};

/// "invert_32 at 1000": 1000 matrices of 32 x 32.
Ref row_of(const Method& method, unsigned n, double count) {
  return {std::string(method.key) + "_" + std::to_string(n), count};
}
const Method& method_of(const Ref& ref, unsigned n) {
  for (const Method& method : methods)
    if (same(ref, row_of(method, n, ref.at))) return method;
  throw std::logic_error("no method of small_matrices has the row '" + text(ref) + "'");
}
const Method& inverting() { return methods[1]; }

/// Three arrays: the matrices, their inverses, and the factors.
double bytes_of(unsigned n, double count) { return 3.0 * 4 * n * n * count; }

/// As many as fit beside each other.
std::vector<double> counts_of(const Run& run, unsigned n) {
  std::vector<double> counts;
  double bytes = 0;
  for (const double count : {1e3, 1e4, 1e5, 1e6}) {
    bytes += bytes_of(n, count);
    if (bytes > 0.8 * run.memory_there() || (run.quick && count > 1e5)) break;
    counts.push_back(count);
  }
  return counts;
}

// ---- prediction ----

/// Instructions of a warp for one step: the search takes two for each halving, the column is shown
/// and read 16 bytes at a time, set to zero, and subtracted; a dozen more. Behind the steps, three
/// per word to load and store the matrix.
double instructions(unsigned n) {
  const double width = width_of(n);
  const double step = 2 * std::log2(width) + width / 4 + width + width / 4 + width + 12;
  return n * step + 3 * width;
}

struct Calibrated {
  double copy_ms;          ///< of as many bytes
  double step_ms;          ///< from one step to the next, of a warp that has a place to itself
  double resident_blocks;  ///< on all multiprocessors
};

/// Cycles for which a warp keeps the path between its multiprocessor's registers and shared memory
/// or L1. For one step: a cycle for each 16 bytes of the column that are written, two for each read
/// of them by all lanes (so many wavefronts are counted), one for a shuffle per halving of the
/// search and one for a read of the pivot. Behind the steps, a shuffle per word; a load and a store
/// of each row, a cycle for each line of 128 bytes that the groups' rows lie in.
double path_cycles(unsigned n) {
  const double width = width_of(n), groups = 32 / width;
  const double lines = std::min(groups, std::ceil(groups * 4 * n * n / 128));
  const double step = width / 4 + 2 * width / 4 + std::log2(width) + 1;
  return n * step + width + 2 * n * lines;
}

/// The longest of four: the bytes; the instructions, four per cycle and multiprocessor, which
/// groups with masks of their own execute in turn; the path to shared memory and L1; the steps one
/// after the other, in as many rounds as the blocks need.
double predicted_ms(unsigned n, double count, bool own_mask, const Calibrated& c,
                    const Device& device) {
  const double warps = count * width_of(n) / 32;  // of all multiprocessors
  const double turns = own_mask ? 32 / width_of(n) : 1;
  const double cycles = warps * std::max(turns * instructions(n) / 4, path_cycles(n));
  const double busy = cycles / device.prop.multiProcessorCount / device.sm_clock_khz;
  const double blocks = std::ceil(count / (block_threads / width_of(n)));
  const double waiting = std::ceil(blocks / c.resident_blocks) * n * c.step_ms;
  return std::max({c.copy_ms, busy, waiting});
}

// ---- the experiment ----

double resident_blocks_of(const Run& run, unsigned n) {
  return ask(run, row_of(inverting(), n, NAN), "resident blocks", "",
             [&run, n] {
               int of_one = 0;
               CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                   &of_one, kernel_of<false>(width_of(n)), block_threads, 0));
               return single(double(of_one) * run.device->prop.multiProcessorCount);
             })
      .median;
}

void measure_order(const Run& run, unsigned n, double& step_ms) {
  SharedByTasks thousand([n] { return Matrices(n, 1000); });
  SharedByTasks ten_thousand([n] { return Matrices(n, 10000); });
  SharedByTasks many([n] { return Matrices(n, 100000); });
  SharedByTasks million([n] { return Matrices(n, 1000000); });
  Sheet sheet(run, std::to_string(n) + " x " + std::to_string(n) + ", matrices",
              {milliseconds(4), spread(), in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               in_unit(measured("1e6/s", "matrices", "1e6/s", 1),
                       [](const Row& row, double ms) { return row.ref.at * 1e-3 / ms; })},
              "matrices");
  for (const double count : counts_of(run, n))
    for (const Method& method : methods) {
      if (method.key == "own_mask" && n == 32) continue;  // one group: no other mask
      const bool needs_library = method.of_library && run.device && run.device->number >= 0;
      sheet.add({.ref = row_of(method, n, count),
                 .words = std::to_string(size_t(count)) + ", " + method.words,
                 .bytes = 2.0 * 4 * n * n * count,
                 .calibrates = method.key == "copy" ||
                               (method.key == "invert" && n == widest && count == 1e3),
                 // of fewer matrices, the launch and the first load are most of the time
                 .model = count < 1e5 ? Model::latency : Model::traffic,
                 .missing = needs_library ? no_cublas : ""});
    }
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const Method& method = method_of(row.ref, n);
    const auto matrices = row.ref.at == 1e3   ? thousand()
                          : row.ref.at == 1e4 ? ten_thousand()
                          : row.ref.at == 1e5 ? many()
                                              : million();
    return method.task(matrices, row.ref);
  });
  if (n == widest) step_ms = sheet.ms(row_of(inverting(), n, 1e3)) / widest;
  const double resident = resident_blocks_of(run, n);
  sheet.predict([&](const Row& row) {
    const Method& method = method_of(row.ref, n);
    if (method.of_library || !run.device) return double(NAN);
    const double copy_ms = sheet.ms(row_of(methods[0], n, row.ref.at));
    return predicted_ms(n, row.ref.at, method.key == "own_mask", {copy_ms, step_ms, resident},
                        *run.device);
  });
  sheet.print();
}

/// How many of 100,000 matrices were called singular, and of how many inverses no digit is sure.
void report_hard_ones(const Run& run, unsigned n) {
  constexpr unsigned count = 100000;
  const auto of_all = [&](const char* metric, const Function<bool(int singular, int found)>& is) {
    return ask(run, row_of(inverting(), n, NAN), metric, "", [&] {
      const Shared matrices{Matrices(n, count)};
      const Task task = invert_task<false>(matrices, row_of(inverting(), n, NAN));
      task.check.poison();
      task.launch();
      require_right(task.check.wrong() == 0, "an inverse");
      const std::vector<int> singular = matrices->singular.to_host(),
                             found = matrices->found.to_host();
      double number = 0;
      for (unsigned i = 0; i < count; ++i) number += is(singular[i], found[i]);
      return single(number);
    });
  };
  const Statistics singular = of_all("singular of 100000", [](int at, int) { return at != 0; });
  const Statistics no_digits =
      of_all("without a sure digit of 100000", [](int, int found) { return found == no_digit; });
  if (singular.repeats > 0)
    run.report.note(std::to_string(n) + " x " + std::to_string(n) + ", of 100000 matrices: " +
                    std::to_string(int(singular.median)) + " are reported as singular, of " +
                    std::to_string(int(no_digits.median)) + " inverses no digit is sure");
}

void run_small_matrices(const Run& run) {
  run.report.begin("small_matrices", "matrices of 4 x 4 to 32 x 32 words of 4 bytes, inverted");
  double step_ms = NAN;
  for (unsigned i = std::size(orders); i-- > 0;) measure_order(run, orders[i], step_ms);
  for (const unsigned n : orders) report_hard_ones(run, n);
}

// ---- what it declares ----

Needs needs(const Run& run) {
  double bytes = 0;
  for (const double count : counts_of(run, widest)) bytes += 1.01 * bytes_of(widest, count);
  return {.allocated = bytes};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  const unsigned count = unsigned(n % 613) + 1;
  for (const unsigned order : {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 31, 32})
    for (const Method& method : methods) {
      if (method.of_library && *no_cublas) continue;
      const Shared matrices{Matrices(order, count)};
      all.push_back({.task = method.task(matrices, row_of(method, order, count)),
                     .elements = method.key == "copy" ? matrices->words() : count,
                     .change_one = [matrices] { matrices->out.change(0); }});
    }
  return all;
}

}  // namespace

extern const Experiment small_matrices_experiment{
    .name = "small_matrices",
    .about = "many matrices of up to 32 x 32, inverted in registers, beside the library",
    .run = run_small_matrices,
    .needs = needs,
    .tasks = tasks};
