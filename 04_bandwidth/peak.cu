// peak: the study of 2007 divides what a kernel reached by what the memory's clock and width allow
// [BW]. Here are the simplest kernels that there are, each at the launch that a short search finds
// best, beside that theory and beside what the driver does for cudaMemcpy and cudaMemset. Look at
// how near to theory reading alone and writing alone come, and how far behind every mixture stays.
//   cmake -S 04_bandwidth -B build/peak -DEXPERIMENTS=peak
//   cmake --build build/peak && build/peak/04_bandwidth
//
//   1  copy   out[i] = a[i]
//   2  scale  out[i] = 3 a[i]
//   3  add    out[i] = a[i] + b[i]
//   4  triad  out[i] = a[i] + 3 b[i]
//   5  read   a is added up
//   6  write  out[i] = a number made from i
#include <algorithm>

#include "../common/report.hpp"
#include "options.hpp"

namespace {

// ---- kernels: one pass over n vectors of 16 bytes; nothing is used twice, and the accesses say so
// (__ldcs, __stcs) ----

// [copy]
// In load k the lanes of a warp take neighbours, 512 bytes; a block's vectors of load k lie behind
// all those of load k - 1. A thread has all its loads under way before the first store. Unnamed
// parameters: all kernels are launched alike, and this one does without them.
template <int loads>
__global__ void copy(float4* out, const float4* a, const float4*, size_t n, unsigned) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
  }
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) __stcs(out + i, v[k]);
  }
}
// [/copy]

// Kernel 1 with a multiplication a number.
template <int loads>
__global__ void scale(float4* out, const float4* a, const float4*, size_t n, unsigned) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
  }
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) __stcs(out + i, float4{3 * v[k].x, 3 * v[k].y, 3 * v[k].z, 3 * v[k].w});
  }
}

// Two reads to a write.
template <int loads>
__global__ void add(float4* out, const float4* a, const float4* b, size_t n, unsigned) {
  float4 v[loads] = {}, w[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
    if (i < n) w[k] = __ldcs(b + i);
  }
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    const float4 sum{v[k].x + w[k].x, v[k].y + w[k].y, v[k].z + w[k].z, v[k].w + w[k].w};
    if (i < n) __stcs(out + i, sum);
  }
}

// Kernel 3 with a multiplication a number.
template <int loads>
__global__ void triad(float4* out, const float4* a, const float4* b, size_t n, unsigned) {
  float4 v[loads] = {}, w[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
    if (i < n) w[k] = __ldcs(b + i);
  }
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    const float4 sum{fmaf(3, w[k].x, v[k].x), fmaf(3, w[k].y, v[k].y), fmaf(3, w[k].z, v[k].z),
                     fmaf(3, w[k].w, v[k].w)};
    if (i < n) __stcs(out + i, sum);
  }
}

// What was read has to be used, or the compiler leaves the loads out; to store it would be a second
// stream. So a thread stores its sum unless that has a bit of `store_unless`: always when the
// result is checked (no bits), only a sum of 0 when it is timed (all bits).
template <int loads>
__global__ void read(float4* out, const float4* a, const float4*, size_t n, unsigned store_unless) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
  }
  unsigned sum = 0;  // of the numbers' bits
  for (int k = 0; k < loads; ++k)
    sum += __float_as_uint(v[k].x) + __float_as_uint(v[k].y) + __float_as_uint(v[k].z) +
           __float_as_uint(v[k].w);
  const size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const size_t first = size_t(blockIdx.x) * loads * blockDim.x + threadIdx.x;
  if (first < n && (sum & store_unless) == 0) reinterpret_cast<unsigned*>(out)[thread] = sum;
}

/// Number i of an array, 1 to 2, by its `odd` factor: neither zero nor constant.
__host__ __device__ float scrambled(size_t i, unsigned odd) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * odd;
  return 1.0f + float((x ^ x >> 15) >> 9) * 0x1p-23f;
}
__host__ __device__ float a_at(size_t i) { return scrambled(i, 0x85ebca6bu); }
__host__ __device__ float b_at(size_t i) { return scrambled(i, 0xc2b2ae35u); }
__host__ __device__ float written_at(size_t i) { return scrambled(i, 0x27d4eb2fu); }

/// Vector i of what kernel 6 writes: its numbers 4 i to 4 i + 3.
__host__ __device__ float4 written_vector(size_t i) {
  return {written_at(4 * i), written_at(4 * i + 1), written_at(4 * i + 2), written_at(4 * i + 3)};
}

// Nothing is read.
template <int loads>
__global__ void write(float4* out, const float4*, const float4*, size_t n, unsigned) {
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) __stcs(out + i, written_vector(i));
  }
}

// ---- what each moves, and how it is launched ----

using Kernel = void (*)(float4*, const float4*, const float4*, size_t, unsigned);

enum class Result { copied, scaled, added, triad, summed, written, set };

/// The bytes that count: each array that is read or written, once.
struct Operation {
  const char* name;
  Result result;
  int reads, writes;  ///< arrays
  Kernel with_1 = nullptr, with_4 = nullptr,
         with_8 = nullptr;  ///< loads a thread; none: the driver does it

  bool by_driver() const { return !with_1; }
  Kernel kernel(int loads) const { return loads == 1 ? with_1 : loads == 4 ? with_4 : with_8; }
};

const Operation operations[] = {
    {"copy engine", Result::copied, 1, 1},
    {"memset", Result::set, 0, 1},
    {"copy", Result::copied, 1, 1, copy<1>, copy<4>, copy<8>},
    {"scale", Result::scaled, 1, 1, scale<1>, scale<4>, scale<8>},
    {"add", Result::added, 2, 1, add<1>, add<4>, add<8>},
    {"triad", Result::triad, 2, 1, triad<1>, triad<4>, triad<8>},
    {"read", Result::summed, 1, 0, read<1>, read<4>, read<8>},
    {"write", Result::written, 0, 1, write<1>, write<4>, write<8>},
};
constexpr size_t operation_count = std::size(operations);
constexpr size_t copy_engine = 0, by_memset = 1, copy_kernel = 2;  // and kernels from there on

double bytes_moved(const Operation& o, size_t vectors) {
  return 16.0 * (o.reads + o.writes) * double(vectors);
}

/// Vectors that a thread loads, and the threads of a block.
struct Launch {
  int loads;
  unsigned threads;

  unsigned blocks(size_t n) const {
    const size_t each = size_t(loads) * threads;
    return unsigned((n + each - 1) / each);
  }
  std::string text() const { return std::to_string(loads) + " x " + std::to_string(threads); }
};
constexpr Launch candidates[] = {{1, 128}, {1, 256}, {1, 512}, {1, 1024},
                                 {4, 256}, {8, 128}, {8, 256}};

// ---- what is right ----

constexpr unsigned char set_byte = 0x5a;
constexpr unsigned set_bits = 0x5a5a5a5a;

/// Number i of what an operation must write, in bits. (What reading finds is checked by thread.)
__host__ __device__ unsigned right_bits(Result result, size_t i) {
  const float a = a_at(i), b = b_at(i);
  float right = written_at(i);
  if (result == Result::copied) right = a;
  if (result == Result::scaled) right = 3 * a;
  if (result == Result::added) right = a + b;
  if (result == Result::triad) right = fmaf(3, b, a);
  unsigned bits = 0;
  memcpy(&bits, &right, sizeof bits);
  return result == Result::set ? set_bits : bits;
}

__global__ void fill(float* a, float* b, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) {
    a[i] = a_at(i);
    b[i] = b_at(i);
  }
}

__global__ void count_wrong(Result result, const unsigned* out, size_t n, unsigned* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    mine += out[i] != right_bits(result, i);
  if (mine) atomicAdd(wrong, mine);
}

/// The thread that has to read vector i: from vectors to threads, where the kernels go from threads
/// to vectors.
__host__ __device__ size_t reader_of(size_t i, int loads, unsigned threads) {
  return i / (size_t(loads) * threads) * threads + i % threads;
}

/// Threads of a launch that read anything: all of its full blocks, and the last one's.
size_t readers(size_t n, int loads, unsigned threads) {
  const size_t each = size_t(loads) * threads;
  return n / each * threads + std::min<size_t>(n % each, threads);
}

/// Takes each vector away from the sum of the thread that had to read it. Nothing is left of right
/// sums.
__global__ void take_away(unsigned* sums, size_t n, int loads, unsigned block_threads) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads) {
    unsigned sum = 0;
    for (int k = 0; k < 4; ++k) sum += __float_as_uint(a_at(4 * i + k));
    atomicSub(&sums[reader_of(i, loads, block_threads)], sum);
  }
}

__global__ void count_left(const unsigned* sums, size_t n, unsigned* wrong) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    mine += sums[i] != 0;
  if (mine) atomicAdd(wrong, mine);
}

/// Three arrays of n vectors.
struct Arrays {
  static constexpr size_t canaries = 16;  ///< floats behind the output

  size_t n;
  DeviceBuffer<float> a{4 * n}, b{4 * n}, out{4 * n + canaries};
  DeviceBuffer<unsigned> wrong_ones{1};
  unsigned store_unless = ~0u;  ///< see kernel 5

  explicit Arrays(size_t vectors) : n(vectors) {
    fill<<<1024, 512>>>(a.data(), b.data(), a.size());
    CUDA_CHECK_LAUNCH();
  }
  static double bytes(size_t vectors) { return 48.0 * double(vectors); }

  float4* vectors(const DeviceBuffer<float>& array) const {
    return reinterpret_cast<float4*>(array.data());
  }
  void launch(const Operation& o, Launch how) {
    if (!o.by_driver())
      o.kernel(how.loads)<<<how.blocks(n), how.threads>>>(vectors(out), vectors(a), vectors(b), n,
                                                          store_unless);
    else if (o.result == Result::copied)
      CUDA_CHECK(cudaMemcpyAsync(out.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice));
    else
      CUDA_CHECK(cudaMemsetAsync(out.data(), set_byte, a.bytes()));
  }
  /// Numbers, or threads that added them up, that are wrong.
  size_t wrong(const Operation& o, Launch how) {
    unsigned* const found = reinterpret_cast<unsigned*>(out.data());
    wrong_ones.copy_from({0});
    if (o.result == Result::summed) {
      take_away<<<1024, 512>>>(found, n, how.loads, how.threads);
      count_left<<<1024, 512>>>(found, readers(n, how.loads, how.threads), wrong_ones.data());
    } else {
      count_wrong<<<1024, 512>>>(o.result, found, 4 * n, wrong_ones.data());
    }
    CUDA_CHECK_LAUNCH();
    return wrong_ones.to_host()[0];
  }
  Task task(const Operation& o, Launch how) {
    Check check;
    check.poison = [this] {
      out.poison();
      store_unless = 0;
    };
    check.wrong = [this, &o, how] {
      store_unless = ~0u;
      return wrong(o, how);
    };
    return {std::string(o.name) + ", " + how.text(), [this, &o, how] { launch(o, how); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// Measured in the same run, of arrays of the same size; milliseconds.
struct Calibrated {
  double pair = NAN;   ///< an array read and another written: the copy engine
  double alone = NAN;  ///< an array written, and nothing else: memset
};

/// As many arrays as can be are read and written in pairs, at the copy engine's rate. What is left
/// over is read, or written, alone.
double predicted_ms(const Operation& o, const Calibrated& c) {
  const int pairs = std::min(o.reads, o.writes);
  const int alone = std::max(o.reads, o.writes) - pairs;
  return pairs * c.pair + alone * c.alone;
}

// ---- the experiment ----

struct Tried {
  size_t operation;
  Launch how;
};

/// The candidate that takes least time, for each operation; it is measured again afterwards.
std::vector<Launch> best_launches(const Run& run, Arrays& arrays) {
  std::vector<Task> tasks;
  std::vector<Tried> tried;
  for (size_t o = copy_kernel; o < operation_count; ++o)
    for (const Launch how : candidates) {
      if (run.quick && how.threads != 256) continue;
      tasks.push_back(arrays.task(operations[o], how));
      tried.push_back({o, how});
    }
  Measuring briefly = run.measuring;
  briefly.typed = false;
  briefly.rounds = 4;
  const std::vector<Readings> times = time_in_turn(briefly, tasks);

  std::vector<Launch> best(operation_count, candidates[0]);
  std::vector<double> least(operation_count, INFINITY);
  for (size_t i = 0; i < tried.size(); ++i) {
    const size_t o = tried[i].operation;
    if (times[i].median() >= least[o]) continue;
    least[o] = times[i].median();
    best[o] = tried[i].how;
  }
  return best;
}

struct RateTable {
  const Run& run;
  Table table;

  explicit RateTable(const Run& run)
      : run(run),
        table(run.report, "kernel, MiB an array",
              {predicted("arrays read", "arrays read", "arrays", 0),
               predicted("written", "arrays written", "arrays", 0), compared("ms", "time", "ms", 4),
               shown("spread"), measured("GB/s", "rate", "GB/s", 0),
               measured("% of theory", "share of theory", "%", 1), shown("vectors x threads"),
               shown("")}) {}

  void add(const Operation& o, size_t vectors, const Cell& time, const Readings& times,
           const std::string& launch) {
    const Statistics ms = times.statistics();
    const Statistics gbs = gigabytes_per_second(bytes_moved(o, vectors), ms);
    const double theory = run.device ? run.device->theoretical_gbs : 0;
    const double share = theory > 0 ? gbs.median / theory : NAN;
    table.row({o.name, "MiB", std::to_string(16 * vectors >> 20)},
              {double(o.reads), double(o.writes), time, spread_text(ms), gbs, 100 * share, launch,
               bar(share)});
  }
};

/// All operations on arrays of one size, in turn.
void measure(const Run& run, RateTable& table, Arrays& arrays, const std::vector<Launch>& best) {
  std::vector<Task> tasks;
  for (size_t o = 0; o < operation_count; ++o) tasks.push_back(arrays.task(operations[o], best[o]));
  const std::vector<Readings> times = run.time_in_turn(tasks);

  const Calibrated c{times[copy_engine].median(), times[by_memset].median()};
  for (size_t i = 0; i < operation_count; ++i) {
    const Operation& o = operations[i];
    const Statistics ms = times[i].statistics();
    table.add(o, arrays.n,
              o.by_driver() ? Cell(Calibration{ms}) : Cell(Compared{predicted_ms(o, c), ms}),
              times[i], o.by_driver() ? "-" : best[i].text());
  }
  run.report.note(bytes_text(16.0 * double(arrays.n)) + ": the copy kernel is " +
                  faster(ratio(times[copy_engine], times[copy_kernel]), "the copy engine"));
}

size_t vectors_of(size_t side) { return (side * side + 3) / 4; }

/// 1 GiB an array, where a launch's start and end show, and 4 GiB, where they hardly do; less where
/// that does not fit.
std::vector<size_t> sides_of(const Run& run, size_t typed) {
  size_t by_default = run.quick ? 8192 : 16384;
  while (run.device && !beyond_l2(*run.device, 16.0 * double(vectors_of(by_default))))
    by_default *= 2;
  const std::string side = std::to_string(typed);
  const auto bytes = [](size_t n) { return Arrays::bytes(vectors_of(n)); };
  const size_t first = fitting_size("peak, three arrays of " + side + " x " + side + " floats",
                                    typed, by_default, run.memory_there(), bytes);
  if (typed || run.quick || bytes(2 * first) > 0.9 * run.memory_there()) return {first};
  return {first, 2 * first};
}

}  // namespace

void peak_fits(const Run& run, const Options& options) { sides_of(run, options.size); }

void peak(const Run& run, const Options& options) {
  const std::vector<size_t> sides = sides_of(run, options.size);
  std::string sizes;
  for (const size_t side : sides)
    sizes += (sizes.empty() ? "" : " and ") + bytes_text(16.0 * double(vectors_of(side)));
  run.report.begin("peak", "arrays of " + sizes);

  if (const double theory = run.device ? run.device->theoretical_gbs : 0; theory > 0) {
    run.report.save({"", "theoretical", "", "", "counted", "rate", "GB/s", theory});
    run.report.note("in theory: " + std::to_string(run.device->prop.memoryBusWidth) +
                    " bit x 2 x " + fixed(run.device->memory_clock_khz * 1e-3, 0) +
                    " MHz = " + fixed(theory, 0) + " GB/s");
  }
  RateTable table(run);
  if (!run.device)
    for (const Operation& o : operations) table.add(o, vectors_of(sides[0]), {}, {}, "");
  std::vector<Launch> best;
  for (const size_t side : sides) {
    if (!run.device) break;
    Arrays arrays(vectors_of(side));
    if (best.empty()) best = best_launches(run, arrays);
    measure(run, table, arrays, best);
  }
  table.table.print();
  run.report.note("calibration: a pair of arrays, read and written, and one array alone");
  if (!run.device) return run.report.left_out("the times of the copy engine, memset and kernels");
  if (!beyond_l2(*run.device, 16.0 * double(vectors_of(sides[0]))))
    run.report.note("the arrays are less than four times the L2: part of this is the cache's rate");
}
