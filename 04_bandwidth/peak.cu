// peak: what share of the data sheet's bandwidth does the simplest kernel reach? The study of 2007
// divides what a kernel reached by what the memory's clock and width allow [BW]. Each kernel gets
// the launch that a short search found fastest, and is then measured again. Beside the kernels
// stands what the driver does for cudaMemcpy and cudaMemset.
//
// Look at how near to theory a kernel comes that only reads or only writes, and how far below every
// mixture of both stays: memory must turn round between reading and writing.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o peak peak.cu ../common/*.cpp
//
//   1  from_one   copy: out[i] = a[i], scale: out[i] = 3 a[i]
//   2  from_two   add: out[i] = a[i] + b[i], triad: out[i] = a[i] + 3 b[i]
//   3  read       a is summed
//   4  write      out[i] = a number made from i
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "theory.hpp"

namespace {

// ---- kernels: n vectors of 16 bytes, each used once, which the accesses tell the caches (__ldcs,
// __stcs). Lanes access neighbouring vectors, 512 bytes per request. A block's first load reads
// blockDim.x neighbouring vectors, its second load the vectors after those. All loads of a thread
// are in flight before its first store ----

struct Copy {
  __device__ float4 operator()(float4 a) const { return a; }
};
struct Scale {
  __device__ float4 operator()(float4 a) const { return {3 * a.x, 3 * a.y, 3 * a.z, 3 * a.w}; }
};
struct Add {
  __device__ float4 operator()(float4 a, float4 b) const {
    return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
};
struct Triad {
  __device__ float4 operator()(float4 a, float4 b) const {
    return {fmaf(3, b.x, a.x), fmaf(3, b.y, a.y), fmaf(3, b.z, a.z), fmaf(3, b.w, a.w)};
  }
};

/// Load k of this thread.
template <int loads>
__device__ size_t index_of(int k) {
  return (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
}

template <int loads, class Operation>
__global__ void from_one(float4* out, const float4* a, size_t n, Operation f) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n) v[k] = __ldcs(a + i);
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n) __stcs(out + i, f(v[k]));
}

template <int loads, class Operation>
__global__ void from_two(float4* out, const float4* a, const float4* b, size_t n, Operation f) {
  float4 v[loads] = {}, w[loads] = {};
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n) {
      v[k] = __ldcs(a + i);
      w[k] = __ldcs(b + i);
    }
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n) __stcs(out + i, f(v[k], w[k]));
}

// The compiler removes loads whose values nobody uses, but storing the values would be a second
// stream. So each thread sums what it read, and stores the sum unless it has a bit of
// `store_unless`. When the result is checked there are no bits, and every sum is stored. When the
// kernel is timed all bits are set, and only a sum of 0 is stored.
template <int loads>
__global__ void read(unsigned* out, const float4* a, size_t n, unsigned store_unless) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n) v[k] = __ldcs(a + i);
  unsigned sum = 0;  // of the words' bits
  for (int k = 0; k < loads; ++k)
    sum += __float_as_uint(v[k].x) + __float_as_uint(v[k].y) + __float_as_uint(v[k].z) +
           __float_as_uint(v[k].w);
  if (index_of<loads>(0) < n && (sum & store_unless) == 0)
    out[size_t(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}

/// Word i of an array, from 1 to 2: without pattern, by an odd factor for each array.
__host__ __device__ float word_of(size_t i, unsigned odd) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * odd;
  return 1.0f + float((x ^ x >> 15) >> 9) * 0x1p-23f;
}
__host__ __device__ float a_at(size_t i) { return word_of(i, 0x85ebca6bu); }
__host__ __device__ float b_at(size_t i) { return word_of(i, 0xc2b2ae35u); }
__host__ __device__ float written_at(size_t i) { return word_of(i, 0x27d4eb2fu); }

// Nothing is read: a thread computes what it writes.
template <int loads>
__global__ void write(float4* out, size_t n) {
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n)
      __stcs(out + i, float4{written_at(4 * i), written_at(4 * i + 1), written_at(4 * i + 2),
                             written_at(4 * i + 3)});
}

// ---- the rows of the table ----

DeviceBuffer<float> filled_a(size_t words) {
  return filled<float>(words, [] __device__(size_t i) { return a_at(i); });
}
DeviceBuffer<float> filled_b(size_t words) {
  return filled<float>(words, [] __device__(size_t i) { return b_at(i); });
}

/// Three arrays of n vectors, of which a row uses some.
struct Arrays {
  size_t n;
  DeviceBuffer<float> a = filled_a(4 * n), b = filled_b(4 * n);
  GuardedBuffer<float> out{4 * n};
  unsigned store_unless = ~0u;  ///< of read

  explicit Arrays(size_t n) : n(n) {}
  float4* vectors() const { return reinterpret_cast<float4*>(out.data()); }
  const float4* vectors_a() const { return reinterpret_cast<const float4*>(a.data()); }
  const float4* vectors_b() const { return reinterpret_cast<const float4*>(b.data()); }
};

/// Vectors that a thread accesses in each array, and threads per block.
struct Launch {
  int loads;
  unsigned threads;
  unsigned blocks(size_t n) const {
    const size_t each = size_t(loads) * threads;
    return unsigned((n + each - 1) / each);
  }
};
constexpr Launch launches[] = {{1, 128}, {1, 256}, {1, 512}, {1, 1024},
                               {4, 256}, {8, 128}, {8, 256}};

enum Does { copies, scales, adds, triads, reads, writes, copy_engine, memset_engine };
constexpr unsigned char set_byte = 0x5a;

struct Row {
  const char* name;
  Does does;
  int arrays_read, arrays_written;
};
constexpr Row rows[] = {{"copy engine", copy_engine, 1, 1},
                        {"memset", memset_engine, 0, 1},
                        {"copy", copies, 1, 1},
                        {"scale", scales, 1, 1},
                        {"add", adds, 2, 1},
                        {"triad", triads, 2, 1},
                        {"read", reads, 1, 0},
                        {"write", writes, 0, 1}};

template <int loads>
void launch_with(Does does, Launch how, const Arrays& x) {
  const unsigned blocks = how.blocks(x.n), threads = how.threads;
  float4* out = x.vectors();
  const float4 *a = x.vectors_a(), *b = x.vectors_b();
  if (does == copies) from_one<loads><<<blocks, threads>>>(out, a, x.n, Copy{});
  if (does == scales) from_one<loads><<<blocks, threads>>>(out, a, x.n, Scale{});
  if (does == adds) from_two<loads><<<blocks, threads>>>(out, a, b, x.n, Add{});
  if (does == triads) from_two<loads><<<blocks, threads>>>(out, a, b, x.n, Triad{});
  if (does == reads)
    read<loads><<<blocks, threads>>>(reinterpret_cast<unsigned*>(out), a, x.n, x.store_unless);
  if (does == writes) write<loads><<<blocks, threads>>>(out, x.n);
}

void launch(Does does, Launch how, const Arrays& x) {
  if (does == copy_engine)
    CUDA_CHECK(cudaMemcpyAsync(x.out, x.a, x.a.bytes(), cudaMemcpyDeviceToDevice));
  else if (does == memset_engine)
    CUDA_CHECK(cudaMemsetAsync(x.out, set_byte, x.out.bytes()));
  else if (how.loads == 1)
    launch_with<1>(does, how, x);
  else if (how.loads == 4)
    launch_with<4>(does, how, x);
  else
    launch_with<8>(does, how, x);
}

// ---- what is right ----

__host__ __device__ unsigned bits_of(float x) {
  unsigned bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// The sum that a thread of read must find; ~0, as poisoned, if no vector is its own.
__host__ __device__ unsigned sum_of_thread(size_t thread, Launch how, size_t n) {
  const size_t first = thread / how.threads * how.loads * how.threads + thread % how.threads;
  if (first >= n) return ~0u;
  unsigned sum = 0;
  for (int k = 0; k < how.loads; ++k)
    for (int w = 0; w < 4; ++w)
      if (const size_t i = first + size_t(k) * how.threads; i < n) sum += bits_of(a_at(4 * i + w));
  return sum;
}

/// Word i of the output, in bits.
__host__ __device__ unsigned right_word(Does does, size_t i, Launch how, size_t n) {
  const float a = a_at(i), b = b_at(i);
  if (does == copies || does == copy_engine) return bits_of(a);
  if (does == scales) return bits_of(3 * a);
  if (does == adds) return bits_of(a + b);
  if (does == triads) return bits_of(fmaf(3, b, a));
  if (does == writes) return bits_of(written_at(i));
  if (does == memset_engine) return set_byte * 0x01010101u;
  return sum_of_thread(i, how, n);
}

Benchmark benchmark_of(const std::string& name, Does does, Launch how, Arrays& x) {
  const auto work = [does, how, &x] { launch(does, how, x); };
  const auto poison = [&x] {
    x.out.poison();
    x.store_unless = 0;
  };
  const auto find_error = [does, how, &x] {
    x.store_unless = ~0u;
    const auto* words = reinterpret_cast<const unsigned*>(x.out.data());
    const auto value = [does, how, n = x.n] __device__(size_t i) {
      return right_word(does, i, how, n);
    };
    const std::string error = find_mismatch(words, 4 * x.n, value);
    return error.empty() ? guard_error(x.out) : error;
  };
  return {name, work, {poison, find_error}};
}

// ---- the model ----

/// Arrays are read and written in pairs, at the copy engine's rate. What remains is read, or
/// written, alone, at memset's rate.
double predicted_ms(const Row& row, double pair_ms, double alone_ms) {
  const int pairs = std::min(row.arrays_read, row.arrays_written);
  const int alone = std::max(row.arrays_read, row.arrays_written) - pairs;
  return pairs * pair_ms + alone * alone_ms;
}

// ---- the experiment ----

std::string text(Launch how) {
  return std::to_string(how.loads) + " x " + std::to_string(how.threads);
}

Launch best_launch(Run& run, Does does, Arrays& x) {
  std::vector<Benchmark> candidates;
  for (const Launch how : launches) candidates.push_back(benchmark_of(text(how), does, how, x));
  Timer timer = run.timer;
  timer.rounds = 6;
  const Timings timed = timer.interleaved(candidates);
  return *std::min_element(std::begin(launches), std::end(launches), [&](Launch a, Launch b) {
    return timed[text(a)].median() < timed[text(b)].median();
  });
}

void measure(Run& run, size_t n, const std::vector<Launch>& chosen) {
  Arrays x(n);
  std::vector<Benchmark> benchmarks;
  for (size_t r = 0; r < std::size(rows); ++r)
    benchmarks.push_back(benchmark_of(rows[r].name, rows[r].does, chosen[r], x));
  const Timings timed = run.timer.interleaved(benchmarks);
  const double pair_ms = timed["copy engine"].median(), alone_ms = timed["memset"].median();
  const double theory = theoretical_gbs();
  Table table(bytes_text(16.0 * double(n)) + " per array",
              {"read", "written", "launch", "predicted ms", "ms", "spread", "GB/s", "theory", ""});
  for (size_t r = 0; r < std::size(rows); ++r) {
    const Row& row = rows[r];
    const bool of_driver = row.does == copy_engine || row.does == memset_engine;
    const double bytes = 16.0 * double(n) * (row.arrays_read + row.arrays_written);
    const Times& times = timed[row.name];
    const double share = times.gbs(bytes) / theory;
    if (share > 1) throw WrongResult(std::string(row.name) + " is faster than the memory can be");
    table.row(row.name, {row.arrays_read, row.arrays_written, of_driver ? "" : text(chosen[r]),
                         of_driver ? Cell("") : Cell(predicted_ms(row, pair_ms, alone_ms)),
                         times.ms_interval(), percent(times.spread()), times.gbs_interval(bytes),
                         percent(share), bar(share)});
  }
  run.print(table);
}

}  // namespace

void peak(Run& run) {
  const size_t n = run.fitting(run.quick ? size_t(1) << 24 : size_t(1) << 26, 48);
  run.title("the simplest kernels against theory, " + digits(theoretical_gbs()) + " GB/s");
  std::vector<Launch> chosen;
  {
    Arrays x(n);
    for (const Row& row : rows)
      chosen.push_back(row.does == copy_engine || row.does == memset_engine
                           ? launches[0]
                           : best_launch(run, row.does, x));
  }
  measure(run, n, chosen);
  if (!run.beyond_l2(16.0 * double(n)))
    run.note("less than four times the L2: a part of this is the cache's rate");
  if (!run.quick && run.fits(4 * 48.0 * double(n))) measure(run, 4 * n, chosen);
  run.note("theory: 2 x memory clock x width; launch: loads per thread x threads per block");
  run.note("predicted: pairs of arrays at the copy engine's rate, the others at memset's");
}
SAMPLE(1, peak, "theory, the copy engine, and the simplest kernels");

TEST_CASE("peak: predictions by hand, if a pair takes 20 ms and an array alone 9") {
  const double right[] = {20, 9, 20, 20, 29, 29, 9, 9};
  for (size_t r = 0; r < std::size(rows); ++r) CHECK(predicted_ms(rows[r], 20, 9) == right[r]);
}

TEST_CASE("peak: each vector is in the sum of one thread, by hand") {
  // two loads per thread, four threads per block, ten vectors: thread 1 has vectors 1 and 5, thread
  // 4, the first of block 1, has vector 8 alone
  const auto vector = [](size_t i) {
    return bits_of(a_at(4 * i)) + bits_of(a_at(4 * i + 1)) + bits_of(a_at(4 * i + 2)) +
           bits_of(a_at(4 * i + 3));
  };
  CHECK(sum_of_thread(1, {2, 4}, 10) == vector(1) + vector(5));
  CHECK(sum_of_thread(4, {2, 4}, 10) == vector(8));
  CHECK(sum_of_thread(6, {2, 4}, 10) == ~0u);
  CHECK(right_word(triads, 7, {1, 128}, 10) == bits_of(std::fmaf(3, b_at(7), a_at(7))));
}

TEST_CASE("peak: every kernel is right with every launch, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 8192, 100003}) {
    Arrays x(n);
    for (const Row& row : rows)
      for (const Launch how : launches) {
        CAPTURE(row.name);
        CAPTURE(text(how));
        CHECK_NOTHROW(require_right(benchmark_of(row.name, row.does, how, x)));
      }
  }
}

TEST_CASE("peak: an array counts as read or written if the result depends on it") {
  if (skip_without_gpu()) return;
  Arrays x(1009);
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto is_right = [&] {
      const Benchmark benchmark = benchmark_of(row.name, row.does, launches[0], x);
      benchmark.check.poison();
      benchmark.work();
      return benchmark.check.find_error().empty();
    };
    int read = 0;
    for (const DeviceBuffer<float>* input : {&x.a, &x.b}) {
      const std::vector<float> before = input->to_host();
      CUDA_CHECK(cudaMemset(input->data(), 0, input->bytes()));
      read += !is_right();
      CUDA_CHECK(cudaMemcpy(input->data(), before.data(), input->bytes(), cudaMemcpyHostToDevice));
    }
    CHECK(read == row.arrays_read);
    x.out.poison();
    launch(row.does, launches[0], x);  // as it is timed
    const std::vector<float> out = x.out.to_host();
    const auto untouched = [](float word) { return bits_of(word) == ~0u; };
    CHECK(std::all_of(out.begin(), out.end(), untouched) == (row.arrays_written == 0));
  }
}
