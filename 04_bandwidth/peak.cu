// peak: what share of the data sheet's bandwidth does the simplest kernel reach? The study of 2007
// divides what a kernel reached by what the memory's clock and width allow [BW]. Here each kernel
// gets the launch that a short search found fastest, and is then measured again. Beside the kernels
// stands what the driver does for cudaMemcpy and cudaMemset. Two things to look at:
//   - How near to theory a kernel comes that only reads or only writes, and how far below every
//     mixture of both stays.
//   - How many of the bytes that were written may still be in the L2 when the clock stops. With
//     4 GiB per array this share is a quarter of what it is with 1 GiB: a rate that owed much to
//     the L2 would fall.
//
//   cmake -S 04_bandwidth -B build/peak -DEXPERIMENTS=peak && cmake --build build/peak
//   build/peak/04_bandwidth peak
//
//   1  copy   out[i] = a[i]
//   2  scale  out[i] = 3 a[i]
//   3  add    out[i] = a[i] + b[i]
//   4  triad  out[i] = a[i] + 3 b[i]
//   5  read   a is summed
//   6  write  out[i] = a number made from i
#include <algorithm>
#include <stdexcept>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "options.hpp"

using namespace samples;

namespace {

// ---- kernels: n vectors of 16 bytes, each used once, which the accesses tell the caches (__ldcs,
// __stcs). Some leave a parameter unused: all are launched alike ----

// [copy]
// The lanes of a warp access neighbouring vectors, 512 bytes per request. A block's first load
// reads blockDim.x neighbouring vectors, its second load the vectors after those. All loads of a
// thread are in flight before its first store.
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

// copy with one multiplication per word.
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

// Two arrays are read and one is written.
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

// add with one multiplication per word.
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

// The compiler removes loads whose values nobody uses, but storing the values would be a second
// stream. So each thread sums what it read, and stores the sum unless it has a bit of
// `store_unless`. When the result is checked, there are no bits, and every sum is stored. When the
// kernel is timed, all bits are set, and only a sum of 0 is stored.
template <int loads>
__global__ void read(float4* out, const float4* a, const float4*, size_t n, unsigned store_unless) {
  float4 v[loads] = {};
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) v[k] = __ldcs(a + i);
  }
  unsigned sum = 0;  // of the words' bits
  for (int k = 0; k < loads; ++k)
    sum += __float_as_uint(v[k].x) + __float_as_uint(v[k].y) + __float_as_uint(v[k].z) +
           __float_as_uint(v[k].w);
  const size_t thread = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const size_t first = size_t(blockIdx.x) * loads * blockDim.x + threadIdx.x;
  if (first < n && (sum & store_unless) == 0) reinterpret_cast<unsigned*>(out)[thread] = sum;
}

/// Word i of an array, from 1 to 2: without pattern, by an odd factor for each array. (Not the hash
/// of checked.cuh, as kernel 6 computes it while it is timed: one multiplication less.)
__host__ __device__ float word_at(size_t i, unsigned odd) {
  unsigned x = unsigned(i) ^ unsigned(i >> 32) * 0x9e3779b1u;
  x = (x ^ x >> 16) * odd;
  return 1.0f + float((x ^ x >> 15) >> 9) * 0x1p-23f;
}
__host__ __device__ float a_at(size_t i) { return word_at(i, 0x85ebca6bu); }
__host__ __device__ float b_at(size_t i) { return word_at(i, 0xc2b2ae35u); }
__host__ __device__ float written_at(size_t i) { return word_at(i, 0x27d4eb2fu); }

/// Vector i of what kernel 6 writes: words 4 i to 4 i + 3.
__host__ __device__ float4 written_vector(size_t i) {
  return {written_at(4 * i), written_at(4 * i + 1), written_at(4 * i + 2), written_at(4 * i + 3)};
}

// Nothing is read: a thread computes what it writes.
template <int loads>
__global__ void write(float4* out, const float4*, const float4*, size_t n, unsigned) {
  for (int k = 0; k < loads; ++k) {
    const size_t i = (size_t(blockIdx.x) * loads + k) * blockDim.x + threadIdx.x;
    if (i < n) __stcs(out + i, written_vector(i));
  }
}

// ---- the rows ----

using Kernel = void (*)(float4*, const float4*, const float4*, size_t, unsigned);

/// Vectors that a thread accesses in each array, and threads per block.
struct Launch {
  int loads;
  unsigned threads;

  unsigned blocks(size_t n) const {
    const size_t each = size_t(loads) * threads;
    return unsigned((n + each - 1) / each);
  }
  std::string text() const { return std::to_string(loads) + "x" + std::to_string(threads); }
};

enum class Result { copied, scaled, added, triad, summed, written, set };

/// A row: one of the kernels above, or what the driver does.
struct Operation {
  std::string_view key = {};
  std::string words = {};
  Result result = Result::copied;
  int reads = 0, writes = 0;                                    ///< arrays
  Kernel with_1 = nullptr, with_4 = nullptr, with_8 = nullptr;  ///< loads per thread
  Launch how = {1, 256};                                        ///< until a better one is found

  bool by_driver() const { return !with_1; }
  Kernel kernel() const { return how.loads == 1 ? with_1 : how.loads == 4 ? with_4 : with_8; }
  /// Each array that is read or written counts once.
  double bytes(size_t vectors) const { return 16.0 * (reads + writes) * double(vectors); }
};

/// The row of a kernel has the kernel's name as its key.
template <auto with_1, auto with_4, auto with_8>
Operation named(Operation o) {
  const std::string_view name = name_of<with_1>();  // "copy<1>"
  o.key = name.substr(0, name.find('<'));
  o.words = o.key;
  if (name != o.words + "<1>" || name_of<with_4>() != o.words + "<4>" ||
      name_of<with_8>() != o.words + "<8>")
    throw std::logic_error("peak: the kernels of " + o.words + " are not its own");
  o.with_1 = with_1, o.with_4 = with_4, o.with_8 = with_8;
  return o;
}

const Operation operations[] = {
    {.key = "copy_engine",
     .words = "copy engine",
     .result = Result::copied,
     .reads = 1,
     .writes = 1},
    {.key = "memset", .words = "memset", .result = Result::set, .writes = 1},
    named<copy<1>, copy<4>, copy<8>>({.result = Result::copied, .reads = 1, .writes = 1}),
    named<scale<1>, scale<4>, scale<8>>({.result = Result::scaled, .reads = 1, .writes = 1}),
    named<add<1>, add<4>, add<8>>({.result = Result::added, .reads = 2, .writes = 1}),
    named<triad<1>, triad<4>, triad<8>>({.result = Result::triad, .reads = 2, .writes = 1}),
    named<read<1>, read<4>, read<8>>({.result = Result::summed, .reads = 1}),
    named<write<1>, write<4>, write<8>>({.result = Result::written, .writes = 1}),
};

const Launch launches[] = {{1, 128}, {1, 256}, {1, 512}, {1, 1024}, {4, 256}, {8, 128}, {8, 256}};

// ---- what is right ----

constexpr unsigned char set_byte = 0x5a;
constexpr unsigned untouched = ~0u;  ///< a word that was poisoned, and that nobody wrote

__host__ __device__ unsigned bits_of(float x) {
  unsigned bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// Word i of what an operation must write, in bits.
__host__ __device__ unsigned right_word(Result result, size_t i) {
  const float a = a_at(i), b = b_at(i);
  if (result == Result::set) return set_byte * 0x01010101u;
  if (result == Result::copied) return bits_of(a);
  if (result == Result::scaled) return bits_of(3 * a);
  if (result == Result::added) return bits_of(a + b);
  if (result == Result::triad) return bits_of(fmaf(3, b, a));
  return bits_of(written_at(i));
}

/// The sum that a thread of kernel 5 must find in n vectors; untouched if none of them is its own.
__host__ __device__ unsigned right_sum(size_t thread, Launch how, size_t n) {
  const size_t first = thread / how.threads * how.loads * how.threads + thread % how.threads;
  if (first >= n) return untouched;
  unsigned sum = 0;
  for (int k = 0; k < how.loads; ++k)
    for (int w = 0; w < 4; ++w) {
      const size_t i = first + size_t(k) * how.threads;
      if (i < n) sum += bits_of(a_at(4 * i + w));
    }
  return sum;
}

struct IsRight {
  Result result;
  Launch how;
  size_t n;
  __host__ __device__ bool operator()(size_t i, unsigned found) const {
    return found == (result == Result::summed ? right_sum(i, how, n) : right_word(result, i));
  }
};

struct InA {
  __device__ float operator()(size_t i) const { return a_at(i); }
};
struct InB {
  __device__ float operator()(size_t i) const { return b_at(i); }
};

// ---- launching them ----

/// Three arrays of n vectors.
struct Arrays {
  size_t n;
  DeviceBuffer<float> a = filled<float>(4 * n, InA{});
  DeviceBuffer<float> b = filled<float>(4 * n, InB{});
  Output<unsigned> out{4 * n};  ///< floats, or sums, in bits
  unsigned store_unless = ~0u;  ///< see kernel 5

  static double bytes(size_t vectors) { return 48.0 * double(vectors); }
  void launch(const Operation& o) const {
    const auto vectors = [](void* data) { return static_cast<float4*>(data); };
    if (!o.by_driver())
      o.kernel()<<<o.how.blocks(n), o.how.threads>>>(vectors(out.data()), vectors(a.data()),
                                                     vectors(b.data()), n, store_unless);
    else if (o.result == Result::copied)
      CUDA_CHECK(cudaMemcpyAsync(out.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice));
    else
      CUDA_CHECK(cudaMemsetAsync(out.data(), set_byte, a.bytes()));
  }
};

/// The work of row `ref`.
Task task_of(const Shared<Arrays>& x, const Ref& ref, const Operation& o) {
  const Check check = x->out.check(IsRight{o.result, o.how, x->n});
  const auto poison = [x, outputs = check.poison] {
    outputs();
    x->store_unless = 0;
  };
  const auto wrong = [x, count = check.wrong] {
    x->store_unless = ~0u;
    return count();
  };
  return {text(ref), [x, o] { x->launch(o); }, {poison, wrong, ""}};
}

// ---- prediction ----

/// Measured in the same run, with arrays of the same size; milliseconds.
struct Calibrated {
  double pair = NAN;   ///< an array read and another written: the copy engine
  double alone = NAN;  ///< an array written, and nothing else: memset
};

/// As many arrays as possible are read and written in pairs, at the copy engine's rate. The
/// remaining arrays are read, or written, alone.
double predicted_ms(const Operation& o, const Calibrated& c) {
  const int pairs = std::min(o.reads, o.writes);
  const int alone = std::max(o.reads, o.writes) - pairs;
  return pairs * c.pair + alone * c.alone;
}

/// The share of a row's bytes that were written, and may still be in the L2 when the clock stops.
double share_in_l2(const Operation& o, size_t n, double l2_bytes) {
  return std::min(l2_bytes, 16.0 * o.writes * double(n)) / o.bytes(n);
}

// ---- the experiment ----

size_t vectors_of(size_t side) { return (side * side + 3) / 4; }
double array_bytes(size_t vectors) { return 16.0 * double(vectors); }

/// Sides of square matrices of floats that are as large as an array: 1 GiB, where start and end of
/// a launch show, and 4 GiB, where they hardly do; less where that does not fit.
std::vector<size_t> sides_of(const Run& run) {
  const size_t typed = options_of(run).size;
  size_t by_default = run.quick ? 8192 : 16384;
  while (run.device && !beyond_l2(*run.device, array_bytes(vectors_of(by_default))))
    by_default *= 2;
  const std::string side = std::to_string(typed);
  const auto bytes = [](size_t n) { return Arrays::bytes(vectors_of(n)); };
  const size_t first = fitting_size("peak, three arrays of " + side + " x " + side + " floats",
                                    typed, by_default, run.memory_there(), bytes);
  if (typed || run.quick || bytes(2 * first) > 0.9 * run.memory_there()) return {first};
  return {first, 2 * first};
}
void require_fit(const Run& run) { sides_of(run); }

/// The row of a kernel with one launch: "copy_4x256".
Ref tried(const Operation& o) { return std::string(o.key) + "_" + o.how.text(); }

std::vector<Operation> with_every_launch(const Operation& o) {
  std::vector<Operation> all(std::size(launches), o);
  for (size_t i = 0; i < all.size(); ++i) all[i].how = launches[i];
  return all;
}

/// The same kernel with the launch that takes least time. Nothing of the search is shown: what it
/// chose is measured again.
Operation with_best_launch(const Run& run, const Operation& o, size_t n) {
  const std::vector<Operation> all = with_every_launch(o);
  SharedByTasks arrays([n] { return Arrays{n}; });
  Sheet sheet(run, "launch", {});
  for (const Operation& each : all) sheet.add({.ref = tried(each)});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const auto same_row = [&](const Operation& each) { return same(tried(each), row.ref); };
    return task_of(arrays(), row.ref, *std::ranges::find_if(all, same_row));
  });
  const auto ms = [&](const Operation& each) { return sheet.ms(tried(each)); };
  Operation best = *std::ranges::min_element(all, {}, ms);
  if (std::isfinite(ms(best))) best.words += ", " + best.how.text();
  return best;
}

/// All operations on arrays of n vectors, in turn.
void measure_size(const Run& run, size_t n, const std::vector<Operation>& chosen) {
  const double at = double(16 * n >> 20);  // MiB
  const double theory = run.device ? run.device->theoretical_gbs : 0;
  const double l2_bytes = run.device ? double(run.device->l2_bytes()) : NAN;
  const auto of = [&](const Row& row) {
    return *std::ranges::find(chosen, row.ref.key, &Operation::key);
  };
  const auto share = [theory](const Row& row, double ms) {
    return theory > 0 ? gbs_of(row, ms) / theory : NAN;
  };
  Sheet sheet(run, "kernel, " + bytes_text(array_bytes(n)) + " per array",
              {number(predicted("arrays read", "arrays read", "arrays", 0),
                      [=](const Row& row) { return of(row).reads; }),
               number(predicted("written", "arrays written", "arrays", 0),
                      [=](const Row& row) { return of(row).writes; }),
               milliseconds(4),
               spread(),
               in_unit(measured("GB/s", "rate", "GB/s", 0), gbs_of),
               in_unit(measured("% of theory", "share of theory", "%", 1),
                       [=](const Row& row, double ms) { return 100 * share(row, ms); }),
               number(predicted("% in L2", "at most in L2 at the end", "%", 1),
                      [=](const Row& row) { return 100 * share_in_l2(of(row), n, l2_bytes); }),
               {shown(""),
                {},
                {},
                [=](const Row& row, const Statistics& ms) { return bar(share(row, ms.median)); }}},
              "MiB");
  for (const Operation& o : chosen)
    sheet.add(
        {.ref = {o.key, at}, .words = o.words, .bytes = o.bytes(n), .calibrates = o.by_driver()});
  SharedByTasks arrays([n] { return Arrays{n}; });
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return task_of(arrays(), row.ref, of(row)); });
  const Calibrated c{.pair = sheet.ms({"copy_engine", at}), .alone = sheet.ms({"memset", at})};
  sheet.predict([&](const Row& row) { return predicted_ms(of(row), c); });
  sheet.print();
  find(run, "peak", {.slow = {"copy_engine", at}, .fast = {"copy", at}});
}

void run_peak(const Run& run) {
  const std::vector<size_t> sides = sides_of(run);
  std::string sizes;
  for (const size_t side : sides)
    sizes += (sizes.empty() ? "" : " and ") + bytes_text(array_bytes(vectors_of(side)));
  run.report.begin("peak", "arrays of " + sizes);
  if (run.device && run.device->theoretical_gbs > 0) {
    keep(run, "theoretical", "rate", "GB/s", single(run.device->theoretical_gbs));
    run.report.note("in theory, 2 x memory clock x bus width: " +
                    fixed(run.device->theoretical_gbs, 0) + " GB/s");
  }
  std::vector<Operation> chosen;
  for (const Operation& o : operations)
    chosen.push_back(o.by_driver() ? o : with_best_launch(run, o, vectors_of(sides[0])));
  for (const size_t side : sides) measure_size(run, vectors_of(side), chosen);
  run.report.note(
      "4x256: 4 loads in flight per thread, 256 threads per block; the best of a search");
  run.report.note(
      "% in L2: bytes that were written and may still be in the L2 when the clock stops");
  if (run.device && !beyond_l2(*run.device, array_bytes(vectors_of(sides[0]))))
    run.report.note("the arrays are less than four times the L2: part of this is the cache's rate");
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const std::vector<size_t> sides = sides_of(run);
  return {.allocated = Arrays::bytes(vectors_of(sides.back())),
          .touched = array_bytes(vectors_of(sides[0]))};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  const Shared x(Arrays{n});
  for (const Operation& o : operations)
    for (const Operation& each : with_every_launch(o)) {
      size_t elements = 4 * n;  // that are wrong after poison
      if (o.result == Result::summed)
        for (elements = 0; right_sum(elements, each.how, n) != untouched;) ++elements;
      all.push_back({.task = task_of(x, tried(each), each),
                     .elements = elements,
                     .change_one = [x] { x->out.change(0); }});
    }
  return all;
}

}  // namespace

extern const Experiment peak_experiment{
    .name = "peak",
    .about = "in theory, by the copy engine, and by the simplest kernels at their best",
    .run = run_peak,
    .check_typed = require_fit,
    .needs = needs,
    .tasks = tasks};
