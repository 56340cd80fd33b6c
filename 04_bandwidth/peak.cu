// peak: the 2007 study divides what a kernel reached by clock x width. Here are the simplest
// kernels that there are, each at the launch that a short search finds best, beside that theory,
// the copy engine and memset. Look at how reading alone and writing alone come within a few percent
// of theory while every mixture stays 8 to 12% below: the memory's bus has to be turned round
// between reads and writes. And at what 4 us of starting and ending cost an array of 1 GiB.
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/first_edition.hpp"
#include "options.hpp"

namespace {

/// Float `i` of the inputs and of what is written, 1 to 2: neither zero nor constant, and another
/// one in another place.
__host__ __device__ float scrambled(size_t i, unsigned odd) {
  return 1.0f + float((unsigned(i) + unsigned(i >> 32)) * odd >> 9) * 0x1p-23f;
}
__host__ __device__ float a_at(size_t i) { return scrambled(i, 0x9e3779b1u); }
__host__ __device__ float b_at(size_t i) { return scrambled(i, 0x85ebca6bu); }
__host__ __device__ float written_at(size_t i) { return scrambled(i, 0xc2b2ae35u); }

/// The `k`-th vector of a thread that has `loads` of them: a block takes neighbouring vectors, one
/// after the other.
__host__ __device__ size_t vector_of(unsigned block, unsigned threads, unsigned thread, int loads,
                                     int k) {
  return (size_t(block) * loads + k) * threads + thread;
}

struct Arrays {
  float4 *a, *b, *out;
  size_t n;         ///< vectors of 16 bytes in each
  unsigned* sum;    ///< of the bits of what was read
  unsigned silent;  ///< a thread adds to it if none of these bits is set in its own sum
};

// ---- kernels: one pass, `Loads` vectors of 16 bytes a thread; a warp's vectors are 512
// neighbouring bytes. All accesses are streaming ones (__ldcs, __stcs), as nothing is used twice.

template <int Loads>
__device__ size_t mine(int k) {
  return vector_of(blockIdx.x, blockDim.x, threadIdx.x, Loads, k);
}

template <int Loads>
__device__ void load(float4 (&v)[Loads], const float4* from, size_t n) {
  for (int k = 0; k < Loads; ++k)
    if (mine<Loads>(k) < n) v[k] = __ldcs(from + mine<Loads>(k));
}
template <int Loads, class Value>
__device__ void store(float4* to, size_t n, const Value& value) {
  for (int k = 0; k < Loads; ++k)
    if (mine<Loads>(k) < n) __stcs(to + mine<Loads>(k), value(k));
}

/// With 8 vectors of each array in flight 1024 threads would run out of registers.
constexpr int most_threads(int loads) { return loads < 8 ? 1024 : 512; }

// What was read must be used, or the compiler leaves the loads out; storing it would be a second
// stream. So a thread reports its sum if none of the bits `silent` is set: every thread when the
// result is checked, next to none when timed.
template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) read(Arrays x) {
  float4 v[Loads] = {};
  load(v, x.a, x.n);
  unsigned sum = 0;
  for (float4 q : v)
    sum +=
        __float_as_uint(q.x) + __float_as_uint(q.y) + __float_as_uint(q.z) + __float_as_uint(q.w);
  if ((sum & x.silent) == 0) atomicAdd(x.sum, sum);
}

template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) write(Arrays x) {
  store<Loads>(x.out, x.n, [](int k) -> float4 {
    const size_t i = 4 * mine<Loads>(k);
    return {written_at(i), written_at(i + 1), written_at(i + 2), written_at(i + 3)};
  });
}

template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) copy(Arrays x) {
  float4 v[Loads];
  load(v, x.a, x.n);
  store<Loads>(x.out, x.n, [&](int k) { return v[k]; });
}

template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) scale(Arrays x) {
  float4 v[Loads];
  load(v, x.a, x.n);
  store<Loads>(x.out, x.n, [&](int k) -> float4 {
    return {3 * v[k].x, 3 * v[k].y, 3 * v[k].z, 3 * v[k].w};
  });
}

// The barrier, here and below: a block's reads are over before its writes begin, so that the memory
// turns round less often.
template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) add(Arrays x) {
  float4 v[Loads], w[Loads];
  load(v, x.a, x.n);
  load(w, x.b, x.n);
  __syncthreads();
  store<Loads>(x.out, x.n, [&](int k) -> float4 {
    return {v[k].x + w[k].x, v[k].y + w[k].y, v[k].z + w[k].z, v[k].w + w[k].w};
  });
}

template <int Loads>
__global__ void __launch_bounds__(most_threads(Loads)) triad(Arrays x) {
  float4 v[Loads], w[Loads];
  load(v, x.a, x.n);
  load(w, x.b, x.n);
  __syncthreads();
  store<Loads>(x.out, x.n, [&](int k) -> float4 {
    return {fmaf(3, w[k].x, v[k].x), fmaf(3, w[k].y, v[k].y), fmaf(3, w[k].z, v[k].z),
            fmaf(3, w[k].w, v[k].w)};
  });
}

// ---- what each moves, and how it is launched
// -----------------------------------------------------------------------

enum What { reads, writes, copies, scales, adds, triads };

/// The bytes that count: each array that is read or written, once.
struct Operation {
  const char *name, *formula;
  What what;
  int arrays_read, arrays_written;
  void (*kernel[3])(Arrays);  ///< with 1, 4, 8 vectors a thread
};
constexpr int loads_of[] = {1, 4, 8};
const Operation operations[] = {
    {"read", "(a[i] is summed)", reads, 1, 0, {read<1>, read<4>, read<8>}},
    {"write", "f(i)", writes, 0, 1, {write<1>, write<4>, write<8>}},
    {"copy", "a[i]", copies, 1, 1, {copy<1>, copy<4>, copy<8>}},
    {"scale", "3 a[i]", scales, 1, 1, {scale<1>, scale<4>, scale<8>}},
    {"add", "a[i] + b[i]", adds, 2, 1, {add<1>, add<4>, add<8>}},
    {"triad", "a[i] + 3 b[i]", triads, 2, 1, {triad<1>, triad<4>, triad<8>}},
};
double bytes_moved(const Operation& o, size_t vectors) {
  return 16.0 * (o.arrays_read + o.arrays_written) * vectors;
}

/// A launch: an index into loads_of, and threads a block.
struct How {
  int loads;
  unsigned threads;
  unsigned blocks(size_t vectors) const {
    const size_t each = size_t(loads_of[loads]) * threads;
    return unsigned((vectors + each - 1) / each);
  }
  std::string text() const {
    return std::to_string(loads_of[loads]) + " x 16 bytes a thread, " + std::to_string(threads) +
           " threads";
  }
};
constexpr How candidates[] = {{0, 128}, {0, 256}, {0, 512}, {0, 1024},
                              {1, 256}, {2, 128}, {2, 256}};

__host__ __device__ float expected(What what, size_t i) {
  const float a = a_at(i), b = b_at(i);
  return what == writes   ? written_at(i)
         : what == copies ? a
         : what == scales ? 3 * a
         : what == adds   ? a + b
                          : fmaf(3, b, a);
}
__global__ void fill(float* a, float* b, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    a[i] = a_at(i), b[i] = b_at(i);
}

// What is right at full size: from the index alone, nothing that a kernel read.
__global__ void count_wrong(What what, const float* out, size_t n, unsigned* wrong) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    sum += what == reads ? __float_as_uint(a_at(i))
                         : __float_as_uint(out[i]) != __float_as_uint(expected(what, i));
  if (sum) atomicAdd(wrong, sum);
}

/// Three arrays, the sum of what was read, and what it should be or the count of wrong elements.
struct Memory {
  DeviceBuffer<float> a, b, out;
  DeviceBuffer<unsigned> sum{2};

  explicit Memory(size_t vectors) : a(4 * vectors), b(4 * vectors), out(4 * vectors) {
    fill<<<1024, 512>>>(a.data(), b.data(), a.size());
    CUDA_CHECK_LAUNCH();
  }
  static double bytes(size_t vectors) { return 48.0 * double(vectors); }

  /// Launches on the first `n` vectors of each array; `silent` as in Arrays.
  void launch(const Operation& o, How how, size_t n, unsigned silent = ~0u) const {
    o.kernel[how.loads]<<<how.blocks(n), how.threads>>>(
        {(float4*)a.data(), (float4*)b.data(), (float4*)out.data(), n, sum.data(), silent});
  }
  /// Launches once, checked in full.
  bool right(const Operation& o, How how, size_t n) {
    out.poison();
    sum.copy_from({0, 0});
    launch(o, how, n, 0);
    CUDA_CHECK_LAUNCH();
    count_wrong<<<1024, 512>>>(o.what, out.data(), 4 * n, sum.data() + 1);
    CUDA_CHECK_LAUNCH();
    const std::vector<unsigned> found = sum.to_host();
    return o.what == reads ? found[0] == found[1] : found[1] == 0;
  }
};

/// All rows for arrays of `n` vectors.
void measure(const Run& run, Table& table, Memory& memory, size_t n) {
  const double theory = run.device->theoretical_gbs;
  const auto row = [&](const std::string& name, const std::string& how, double bytes,
                       const auto& launch) {
    const Statistics ms = time_device(run.measuring, launch),
                     rate = gigabytes_per_second(bytes, ms);
    const double share = theory > 0 ? rate.median / theory : NAN;
    table.row({name, "MiB", std::to_string(16 * n >> 20)},
              {ms, spread_text(ms), rate, theory > 0 ? fixed(100 * share, 1) + "%" : "-", how,
               bar(share)});
  };
  float *const a = memory.a.data(), *const out = memory.out.data();
  row("copy engine", "cudaMemcpy, device to device", 32.0 * double(n),
      [&] { CUDA_CHECK(cudaMemcpyAsync(out, a, 16 * n, cudaMemcpyDeviceToDevice)); });
  row("memset", "cudaMemset", 16.0 * double(n),
      [&] { CUDA_CHECK(cudaMemsetAsync(out, 0x5a, 16 * n)); });

  Measuring search = run.measuring;
  if (!search.typed)
    search.repeats = 3;  // enough to choose; the choice is then checked in full and measured anew
  for (const Operation& o : operations) {
    How best = candidates[0];
    double best_ms = INFINITY;
    for (How how : candidates) {
      if (run.quick && how.threads != 256) continue;
      require_right(memory.right(o, how, std::min(n, size_t(1) << 20)),
                    std::string(o.name) + " with " + how.text());
      const double ms = time_device(search, [&] { memory.launch(o, how, n); }).median;
      if (ms < best_ms) best_ms = ms, best = how;
    }
    require_right(memory.right(o, best, n), std::string(o.name) + " with " + best.text());
    row(o.name, best.text(), bytes_moved(o, n), [&] { memory.launch(o, best, n); });
  }
  CUDA_CHECK_LAUNCH();
}

}  // namespace

void peak(const Run& run, const Options& options) {
  // 1 GiB an array, where a launch's start and end show, and 4 GiB, where they hardly do
  const auto vectors_of = [](size_t side) { return (side * side + 3) / 4; };
  std::vector<size_t> sides{16384, 32768};
  if (run.quick) sides = {8192};
  if (options.size) sides = {options.size};
  const double there = run.device ? double(Device::free_bytes()) : INFINITY;
  const std::string typed = std::to_string(options.size);
  if (options.size)
    require_fits("peak, three arrays of " + typed + " x " + typed + " floats",
                 Memory::bytes(vectors_of(options.size)), there);
  while (!options.size && Memory::bytes(vectors_of(sides.back())) > 0.9 * there) {
    sides.back() /= 2;
    if (sides.size() > 1) sides.pop_back();
  }
  std::string sizes;
  for (size_t side : sides)
    sizes += (sizes.empty() ? "" : " and ") + bytes_text(16.0 * double(vectors_of(side)));
  run.report.begin(
      "peak", "arrays of " + sizes + "; the bytes that count: each array read or written, once");
  Table counts(run.report, "kernel",
               {predicted("arrays read", "arrays read", "arrays", 0),
                predicted("written", "arrays written", "arrays", 0), shown("out[i] =")});
  for (const Operation& o : operations)
    counts.row({o.name}, {double(o.arrays_read), double(o.arrays_written), o.formula});
  counts.print();
  if (!run.device)
    return run.report.left_out("the rates of the copy engine, memset and all kernels");

  if (const double theory = run.device->theoretical_gbs; theory > 0) {
    run.report.save({"", "theoretical", "", "", "counted", "rate", "GB/s", theory});
    run.report.note("in theory: " + std::to_string(run.device->prop.memoryBusWidth) +
                    " bit x 2 x " + fixed(run.device->memory_clock_khz * 1e-3, 0) +
                    " MHz = " + fixed(theory, 0) + " GB/s");
  }
  Memory memory(vectors_of(sides.back()));
  Table table(
      run.report, "kernel, MiB an array",
      {measured("median ms", "time", "ms", 4), shown("spread"), measured("GB/s", "rate", "GB/s", 0),
       shown("of theory"), shown("best launch"), shown("")});
  for (size_t side : sides) measure(run, table, memory, vectors_of(side));
  table.print();
  if (16.0 * double(vectors_of(sides.front())) < 4.0 * double(run.device->l2_bytes()))
    run.report.note("the arrays are less than four times the L2: part of this is the cache's rate");
}

// ---- self-checks ----

TEST_CASE(
    "peak: the blocks of every launch take every vector once and bytes are counted once an array") {
  for (How how : candidates)
    for (size_t n : {1, 127, 1009, 8192, 100003}) {
      std::vector<int> taken(n + loads_of[how.loads] * how.threads);
      for (unsigned block = 0; block < how.blocks(n); ++block)
        for (unsigned t = 0; t < how.threads; ++t)
          for (int k = 0; k < loads_of[how.loads]; ++k)
            ++taken.at(vector_of(block, how.threads, t, loads_of[how.loads], k));
      CHECK(std::count(taken.begin(), taken.begin() + long(n), 1) == long(n));
    }
  const double bytes[] = {160, 160, 320, 320, 480, 480};
  for (const Operation& o : operations) CHECK(bytes_moved(o, 10) == bytes[o.what]);
}

TEST_CASE("peak: every kernel is right at awkward sizes and touches nothing beyond") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 257, 1009, 65537}) {
    Memory memory(n + 5);
    unsigned sum = 0;
    for (size_t i = 0; i < 4 * n; ++i) sum += __builtin_bit_cast(unsigned, a_at(i));
    for (const Operation& o : operations)
      for (How how : candidates) {
        CAPTURE(o.name);
        CAPTURE(how.text());
        CHECK(memory.right(o, how, n));
        const std::vector<float> out = memory.out.to_host();
        bool right = o.what != reads || memory.sum.to_host()[0] == sum;
        for (size_t i = 0; i < out.size();
             ++i)  // beyond, and where nothing is written: poisoned, and still so
          right &=
              i < 4 * n && o.what != reads ? out[i] == expected(o.what, i) : std::isnan(out[i]);
        CHECK(right);
        Operation wrong = o;  // which the check must find
        for (auto& kernel : wrong.kernel) kernel = o.what == copies ? write<1> : copy<1>;
        CHECK(!memory.right(wrong, how, n));
      }
  }
}

TEST_CASE("peak: large: more than 2^31 floats an array") {
  if (skip_without_gpu()) return;
  const size_t n = (size_t(1) << 29) + 77;
  if (Memory::bytes(n) > 0.9 * double(Device::free_bytes()))
    return skip_self_check("needs " + bytes_text(Memory::bytes(n)) + " of device memory");
  Memory memory(n);
  for (const Operation& o : operations) {
    CAPTURE(o.name);
    CHECK(memory.right(o, {0, 128}, n));
    CHECK(memory.right(o, {2, 512}, n));
  }
}
