// peak: what share of the data sheet's bandwidth does the simplest kernel reach? The study of 2007
// divides what a kernel reached by what the memory's clock and width allow [BW]. Here each kernel
// is measured with the launch that a short search found fastest. Copy, scale, add and triad are
// those of the benchmark STREAM. cudaMemcpy, within the device, and cudaMemset are kernels, too: of
// the driver.
//
// Look at how near to theory a kernel comes that only reads or only writes, and how far below it
// every mixture of the two stays: memory loses time when it turns from reading to writing.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o peak peak.cu ../common/*.cpp
//
//   1  from_one   copy: out[i] = a[i], scale: out[i] = 3 a[i]
//   2  from_two   add: out[i] = a[i] + b[i], triad: out[i] = a[i] + 3 b[i]
//   3  read       adds up a
//   4  write      out[i] = a number made from i
#include <algorithm>
#include <map>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "theory.hpp"

namespace {

// ---- kernels: n vectors of 16 bytes, each used once, as the accesses tell the caches (__ldcs,
// __stcs). The lanes of a warp access neighbouring vectors, 512 bytes per request. A block's first
// load reads blockDim.x neighbouring vectors, and its second load those behind them. All loads of a
// thread are in flight before its first store ----

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
// stream. So each thread adds up what it has read, and stores the sum unless it has a bit of
// `store_unless` set. That is 0 while the result is checked: every sum is stored. While the kernel
// is timed all its bits are set, and only a sum of 0 is stored.
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

/// Word i of an array, from 1 to 2 and without pattern. Each array has an odd factor of its own.
__device__ float word_of(size_t i, unsigned odd) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * odd;
  return 1.0f + float((x ^ x >> 15) >> 9) * 0x1p-23f;
}
__device__ float a_at(size_t i) { return word_of(i, 0x85ebca6bu); }
__device__ float b_at(size_t i) { return word_of(i, 0xc2b2ae35u); }
__device__ float written_at(size_t i) { return word_of(i, 0x27d4eb2fu); }

// Nothing is read: a thread computes what it writes.
template <int loads>
__global__ void write(float4* out, size_t n) {
  for (int k = 0; k < loads; ++k)
    if (const size_t i = index_of<loads>(k); i < n)
      __stcs(out + i, float4{written_at(4 * i), written_at(4 * i + 1), written_at(4 * i + 2),
                             written_at(4 * i + 3)});
}

// ---- what must come out ----

/// Three arrays of n vectors, of which a kernel uses some.
struct Memory {
  DeviceBuffer<float> a, b;
  GuardedBuffer<float> out;
  std::shared_ptr<unsigned> store_unless = std::make_shared<unsigned>(~0u);  ///< of read
};
Memory memory(size_t n) {
  return {filled<float>(4 * n, [] __device__(size_t i) { return a_at(i); }),
          filled<float>(4 * n, [] __device__(size_t i) { return b_at(i); }),
          GuardedBuffer<float>(4 * n)};
}

struct Launch {
  int loads;         ///< vectors that a thread accesses in each array
  unsigned threads;  ///< of a block
  std::string text() const { return std::to_string(loads) + " x " + std::to_string(threads); }
};
constexpr Launch candidates[] = {{1, 128}, {1, 256}, {1, 512}, {1, 1024},
                                 {4, 256}, {8, 128}, {8, 256}};

/// The sum that a thread of read must find. A thread without a vector of its own stores nothing.
__device__ unsigned sum_of_thread(size_t thread, Launch how, size_t n) {
  const size_t first = thread / how.threads * how.loads * how.threads + thread % how.threads;
  if (first >= n) return poisoned;
  unsigned sum = 0;
  for (int k = 0; k < how.loads; ++k)
    for (int w = 0; w < 4; ++w)
      if (const size_t i = first + size_t(k) * how.threads; i < n)
        sum += __float_as_uint(a_at(4 * i + w));
  return sum;
}

/// Every thread of read stores its sum while it is checked, and none while it is timed.
Check sums_stored(const Memory& m, Launch how) {
  const Check sums = equals_bits(m.out, [how, n = m.out.size() / 4] __device__(size_t thread) {
    return sum_of_thread(thread, how, n);
  });
  const auto poison = [=] {
    sums.poison();
    *m.store_unless = 0;
  };
  const auto find_error = [=] {
    *m.store_unless = ~0u;
    return sums.find_error();
  };
  return {poison, find_error};
}

// ---- the prediction ----

struct Arrays {
  int read, written;
};

/// Arrays are read and written in pairs, at cudaMemcpy's rate. What remains is read, or written,
/// alone, at cudaMemset's rate.
double predicted_ms(Arrays arrays, double pair_ms, double alone_ms) {
  const int pairs = std::min(arrays.read, arrays.written);
  const int alone = std::max(arrays.read, arrays.written) - pairs;
  return pairs * pair_ms + alone * alone_ms;
}

// ---- the launches: add yours here ----

/// A kernel with one launch, and its row in the table.
struct Kernel {
  const char* name;
  std::function<void()> work;
  Check check;
  Arrays arrays;
  bool of_driver = false;  ///< has no launch to choose, and no prediction

  Benchmark benchmark() const { return {name, work, check}; }
};

template <int loads>
std::vector<Kernel> kernels_with(const Memory& m, unsigned threads) {
  const auto a = m.a.as<float4>(), b = m.b.as<float4>(), out = m.out.as<float4>();
  const size_t n = out.size();
  const unsigned blocks = unsigned(ceil_div(n, size_t(loads) * threads));
  constexpr unsigned char set_byte = 0x5a;
  const Check copied = equals(m.out, [] __device__(size_t i) { return a_at(i); });
  return {
      {.name = "cudaMemcpy",
       .work = [=] { CUDA_CHECK(cudaMemcpyAsync(out, a, a.bytes(), cudaMemcpyDeviceToDevice)); },
       .check = copied,
       .arrays = {.read = 1, .written = 1},
       .of_driver = true},
      {.name = "cudaMemset",
       .work = [=] { CUDA_CHECK(cudaMemsetAsync(out, set_byte, out.bytes())); },
       .check = equals_bits(m.out, [] __device__(size_t) { return set_byte * 0x01010101u; }),
       .arrays = {.read = 0, .written = 1},
       .of_driver = true},
      {.name = "copy",
       .work = [=] { from_one<loads><<<blocks, threads>>>(out, a, n, Copy{}); },
       .check = copied,
       .arrays = {.read = 1, .written = 1}},
      {.name = "scale",
       .work = [=] { from_one<loads><<<blocks, threads>>>(out, a, n, Scale{}); },
       .check = equals(m.out, [] __device__(size_t i) { return 3 * a_at(i); }),
       .arrays = {.read = 1, .written = 1}},
      {.name = "add",
       .work = [=] { from_two<loads><<<blocks, threads>>>(out, a, b, n, Add{}); },
       .check = equals(m.out, [] __device__(size_t i) { return a_at(i) + b_at(i); }),
       .arrays = {.read = 2, .written = 1}},
      {.name = "triad",
       .work = [=] { from_two<loads><<<blocks, threads>>>(out, a, b, n, Triad{}); },
       .check = equals(m.out, [] __device__(size_t i) { return fmaf(3, b_at(i), a_at(i)); }),
       .arrays = {.read = 2, .written = 1}},
      {.name = "read",
       .work =
           [=] { read<loads><<<blocks, threads>>>(m.out.as<unsigned>(), a, n, *m.store_unless); },
       .check = sums_stored(m, {loads, threads}),
       .arrays = {.read = 1, .written = 0}},
      {.name = "write",
       .work = [=] { write<loads><<<blocks, threads>>>(out, n); },
       .check = equals(m.out, [] __device__(size_t i) { return written_at(i); }),
       .arrays = {.read = 0, .written = 1}},
  };
}

std::vector<Kernel> kernels(const Memory& m, Launch how) {
  if (how.loads == 1) return kernels_with<1>(m, how.threads);
  if (how.loads == 4) return kernels_with<4>(m, how.threads);
  if (how.loads == 8) return kernels_with<8>(m, how.threads);
  throw std::logic_error("no kernel has so many loads");
}

// ---- the experiment ----

/// The fastest launch of each kernel.
std::vector<Launch> best_launches(const Run& run, const Memory& m) {
  std::vector<Launch> best;
  Timer timer = run.timer;
  timer.rounds = 6;
  for (size_t row = 0; row < kernels(m, candidates[0]).size(); ++row) {
    std::vector<Benchmark> benchmarks;
    for (const Launch how : candidates) {
      benchmarks.push_back(kernels(m, how)[row].benchmark());
      benchmarks.back().name = how.text();
    }
    const Timings timed = timer.interleaved(benchmarks);
    best.push_back(*std::min_element(
        std::begin(candidates), std::end(candidates),
        [&](Launch a, Launch b) { return timed[a.text()].median() < timed[b.text()].median(); }));
  }
  return best;
}

void measure(Run& run, size_t n, const std::vector<Launch>& launches) {
  const Memory m = memory(n);
  std::vector<Kernel> rows;
  std::vector<Benchmark> benchmarks;
  for (size_t row = 0; row < launches.size(); ++row) {
    rows.push_back(kernels(m, launches[row])[row]);
    benchmarks.push_back(rows[row].benchmark());
  }
  const Timings timed = run.timer.interleaved(benchmarks);
  const double pair_ms = timed["cudaMemcpy"].median(), alone_ms = timed["cudaMemset"].median();
  const double theory = theoretical_gbs();
  std::map<std::string, double> shares;  // of theory
  Table table(bytes_text(double(m.a.bytes())) + " per array",
              {"read", "written", "launch", "predicted ms", "ms", "spread", "GB/s", "theory", ""});
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, work, check, arrays, of_driver] = rows[i];
    const double bytes = double(m.a.bytes()) * (arrays.read + arrays.written);
    const Times& times = timed[name];
    const double share = shares[name] = times.gbs(bytes) / theory;
    table.row(name, {arrays.read, arrays.written, of_driver ? "" : launches[i].text(),
                     of_driver ? Cell("") : Cell(predicted_ms(arrays, pair_ms, alone_ms)),
                     times.ms_interval(), percent(times.spread()), times.gbs_interval(bytes),
                     percent(share), bar(share)});
  }
  run.print(table);
  note_above_theory(run, shares);
}

}  // namespace

void peak(Run& run) {
  const size_t n = run.fitting(run.quick ? size_t(1) << 24 : size_t(1) << 26, 48);
  run.title("the simplest kernels against theory, " + digits(theoretical_gbs()) + " GB/s");
  const std::vector<Launch> launches = best_launches(run, memory(n));
  measure(run, n, launches);
  if (!run.beyond_l2(16.0 * double(n)))
    run.note("less than four times the L2: a part of this is the cache's rate");
  if (!run.quick && run.fits(4 * 48.0 * double(n))) measure(run, 4 * n, launches);
  run.note("theory: 2 x memory clock x width; launch: loads per thread x threads per block");
  run.note("predicted: pairs of arrays at cudaMemcpy's rate, the others at cudaMemset's");
}
SAMPLE(1, peak, "theory, cudaMemcpy, and the simplest kernels");

TEST_CASE("peak: predictions by hand, if a pair takes 20 ms and an array alone 9") {
  CHECK(predicted_ms({.read = 1, .written = 1}, 20, 9) == 20);
  CHECK(predicted_ms({.read = 2, .written = 1}, 20, 9) == 29);
  CHECK(predicted_ms({.read = 1, .written = 0}, 20, 9) == 9);
  CHECK(predicted_ms({.read = 0, .written = 1}, 20, 9) == 9);
}

TEST_CASE("peak: every kernel is right with every launch, at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 8192, 100003}) {
    const Memory m = memory(n);
    for (const Launch how : candidates)
      for (const Kernel& row : kernels(m, how)) {
        INFO(row.name, ", ", how.text(), ", n = ", n);
        CHECK_NOTHROW(require_right(row.benchmark()));
      }
  }
}

TEST_CASE("peak: an array counts as read or written if the result depends on it") {
  if (skip_without_gpu()) return;
  const Memory m = memory(1009);
  for (const Kernel& row : kernels(m, candidates[0])) {
    CAPTURE(row.name);
    int read = 0;
    for (const DeviceBuffer<float>& input : {m.a, m.b}) {
      const std::vector<float> before = input.to_host();
      CUDA_CHECK(cudaMemset(input, 0, input.bytes()));
      row.check.poison();
      row.work();
      read += row.check.find_error() != "";
      CUDA_CHECK(cudaMemcpy(input, before.data(), input.bytes(), cudaMemcpyHostToDevice));
    }
    CHECK(read == row.arrays.read);
    m.out.poison();
    row.work();  // as it is timed
    const std::vector<unsigned> out = m.out.as<unsigned>().to_host();
    const bool untouched = out == std::vector<unsigned>(out.size(), poisoned);
    CHECK(untouched == (row.arrays.written == 0));
  }
}
