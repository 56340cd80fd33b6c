// unroll: two vectors added with 1, 2, 4 or 8 words a thread, in words of 4, 8 and 16 bytes. The replies that the text
// quotes say that unrolling cannot help a kernel that the memory already limits. Look first at whether it does: one
// word of 4 bytes a thread puts too few bytes in flight to fill the bandwidth of a large GPU, and then unrolling, or a
// wider word, is what fills it. Only where one word a thread reaches what can be reached does the claim speak.
#include <doctest/doctest.h>

#include <optional>

#include "../common/first_edition.hpp"
#include "reading.cuh"
#include "transactions.hpp"

namespace {

constexpr unsigned threads = 256;

/// Number of the word that a thread takes k-th; with each k the block takes `threads` neighbours.
__host__ __device__ size_t word(size_t block, unsigned k, unsigned tid, unsigned elements) {
  return (block * elements + k) * threads + tid;
}

__device__ float plus(float a, float b) { return a + b; }
__device__ float2 plus(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// A warp reads 32 neighbouring words of a and of b, `elements` times before it adds and writes.
template <unsigned elements, class Word>
__device__ void add(const Word* a, const Word* b, Word* c, size_t n) {
  if (word(blockIdx.x, elements - 1, threadIdx.x, elements) < n) {
    Word x[elements], y[elements];
#pragma unroll
    for (unsigned k = 0; k < elements; ++k) {
      const size_t i = word(blockIdx.x, k, threadIdx.x, elements);
      x[k] = a[i], y[k] = b[i];
    }
#pragma unroll
    for (unsigned k = 0; k < elements; ++k) c[word(blockIdx.x, k, threadIdx.x, elements)] = plus(x[k], y[k]);
  } else {  // the last block: not all of its words are there
    for (unsigned k = 0; k < elements; ++k) {
      const size_t i = word(blockIdx.x, k, threadIdx.x, elements);
      if (i < n) c[i] = plus(a[i], b[i]);
    }
  }
}

template <unsigned elements>
__global__ void add_float(const float* a, const float* b, float* c, size_t n) {
  add<elements>(a, b, c, n);
}
template <unsigned elements>
__global__ void add_float2(const float2* a, const float2* b, float2* c, size_t n) {
  add<elements>(a, b, c, n);
}
template <unsigned elements>
__global__ void add_float4(const float4* a, const float4* b, float4* c, size_t n) {
  add<elements>(a, b, c, n);
}

/// 16 bits without pattern, other ones in each vector: sums are exact.
__host__ __device__ float value(size_t i, unsigned vector) { return float(scrambled(2 * i + vector) >> 16); }

struct Value {
  unsigned vector;
  __device__ float operator()(size_t i) const { return value(i, vector); }
};
struct SumIsRight {
  size_t n;  ///< floats that are added; behind them nothing is written
  __device__ bool operator()(size_t i, float found) const {
    return i < n ? found == value(i, 0) + value(i, 1) : found != found;
  }
};

constexpr unsigned word_bytes[] = {4, 8, 16}, element_counts[] = {1, 2, 4, 8};

template <unsigned elements>
void launch_elements(const DeviceBuffer<float>& a, const DeviceBuffer<float>& b, const DeviceBuffer<float>& c,
                     unsigned bytes) {
  const size_t n = a.bytes() / bytes, of_block = size_t(threads) * elements;
  const unsigned blocks = unsigned((n + of_block - 1) / of_block);
  const auto as = [](float* p, auto word) { return reinterpret_cast<decltype(word)*>(p); };
  if (bytes == 4)
    add_float<elements><<<blocks, threads>>>(a.data(), b.data(), c.data(), n);
  else if (bytes == 8)
    add_float2<elements>
        <<<blocks, threads>>>(as(a.data(), float2{}), as(b.data(), float2{}), as(c.data(), float2{}), n);
  else
    add_float4<elements>
        <<<blocks, threads>>>(as(a.data(), float4{}), as(b.data(), float4{}), as(c.data(), float4{}), n);
  CUDA_CHECK_LAUNCH();
}

/// Two vectors of n floats, a multiple of 4, and their sum.
struct Vectors {
  DeviceBuffer<float> a, b, c;
  explicit Vectors(size_t n) : a(n), b(n), c(n) {
    fill(a, Value{0});
    fill(b, Value{1});
  }
  void launch(unsigned bytes, unsigned elements) {
    (elements == 1   ? launch_elements<1>
     : elements == 2 ? launch_elements<2>
     : elements == 4 ? launch_elements<4>
                     : launch_elements<8>)(a, b, c, bytes);
  }
  bool right(unsigned bytes, unsigned elements) {
    c.poison();
    launch(bytes, elements);
    return wrong_words(c, SumIsRight{a.size()}) == 0;
  }
};

/// A warp's access to the k-th of its words; loads and stores are alike.
Warp access(unsigned bytes, unsigned k, unsigned elements) {
  return warp_of(bytes, [&](unsigned lane) { return word(0, k, lane, elements); });
}

/// One word a thread saturates the memory if it reaches so much of the copy engine's rate, measured in the same run.
/// The best kernels reach 92% of theory where that engine reaches 88%, so one at 95% of it has a tenth left at most.
constexpr double saturated = 0.95;
/// A gain below this is not what anyone unrolls for.
constexpr double no_gain = 0.05;

const Claim no_use{"03.9", "unrolling gains nothing for a kernel that the memory limits", "replies in the wiki",
                   "no figure"};

}  // namespace

void unroll(const Run& run) {
  size_t n = size_t(1) << (run.quick ? 22 : 26);
  if (run.device) n = shrunk_to_fit(12 * n) / 12 / 4 * 4;
  run.report.begin("unroll", "two vectors of " + std::to_string(n) + " floats added, " + bytes_text(12.0 * double(n)) +
                                 " read and written, blocks of 256 threads");
  std::optional<Vectors> vectors;
  double limit = 0;
  if (run.device) {
    vectors.emplace(n);
    limit = gigabytes_per_second(8.0 * double(n), time_device(run.measuring,
                                                              [&] {
                                                                CUDA_CHECK(cudaMemcpyAsync(
                                                                    vectors->c.data(), vectors->a.data(),
                                                                    vectors->a.bytes(), cudaMemcpyDeviceToDevice));
                                                              }))
                .median;
  }
  Table table(run.report, "word, words a thread",
              {predicted("sectors/request", "sectors a request", "", 0),
               predicted("bytes asked for at once", "asked for at once by a thread", "bytes", 0),
               measured("median ms", "time", "ms", 4), shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0),
               shown("of copy engine"), shown("gain"), shown("")});
  Judgement worst = not_judged("one word a thread does not saturate the memory, whatever the word");
  std::string unsaturated;
  for (const unsigned bytes : word_bytes) {
    Statistics base;
    double share = 0, most = 0;  // of the copy engine, with one word a thread; the largest gain
    for (const unsigned elements : element_counts) {
      std::vector<Cell> cells(8);
      cells[0] = double(sectors(access(bytes, elements - 1, elements)));
      cells[1] = 2.0 * elements * bytes;  // by a thread, before it waits: so many words of both vectors
      const Key key{std::to_string(bytes) + " bytes", "words a thread", std::to_string(elements)};
      if (run.device) {
        require_right(vectors->right(bytes, elements), key.name + ", " + key.at + " a thread");
        const Statistics ms = time_device(run.measuring, [&] { vectors->launch(bytes, elements); });
        const Statistics gbs = gigabytes_per_second(12.0 * double(n), ms);
        if (elements == 1) base = ms, share = gbs.median / limit;
        cells[2] = ms, cells[3] = spread_text(ms), cells[4] = gbs, cells[5] = times(gbs.median / limit);
        cells[6] = times(base.median / ms.median), cells[7] = bar(gbs.median / limit);
        most = std::max(most, base.median / ms.median);
        if (share >= saturated && elements > 1) {
          Judgement j = judge_no_gain(base, ms, no_gain);
          j.here = times(j.value) + " with " + std::to_string(bytes) + "-byte words, " + key.at + " a thread";
          if (worst.verdict == Verdict::not_judged || j.value > worst.value) worst = j;
        }
      }
      table.row(key, cells);
    }
    if (run.device && share < saturated)
      unsaturated += (unsaturated.empty() ? "" : ", ") + std::to_string(bytes) + " bytes: " + times(share) +
                     " of the copy engine, gains up to " + times(most);
  }
  table.print();
  if (!run.device) return run.report.left_out("the times", {no_use});

  if (!unsaturated.empty()) run.report.note("Words that do not saturate by themselves: " + unsaturated + ".");
  if (12 * n < 4 * run.device->l2_bytes()) worst = not_judged("the vectors are less than four times the L2");
  run.report.claim(no_use, worst);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

namespace {

std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  for (const unsigned bytes : word_bytes)
    for (const unsigned elements : element_counts) {
      const double each = sectors(access(bytes, 0, elements));
      all.push_back({bytes == 4   ? "add_float"
                     : bytes == 8 ? "add_float2"
                                  : "add_float4",
                     std::to_string(elements) + " words a thread", each, each,
                     [=] { return Vectors(1 << 18).right(bytes, elements); }});
    }
  return all;
}

}  // namespace

TEST_CASE("unroll: every word is taken once and requests are as wide as their words") {
  for (const unsigned elements : element_counts) {
    std::vector<int> taken(3 * elements * threads);
    for (size_t block = 0; block < 3; ++block)
      for (unsigned k = 0; k < elements; ++k)
        for (unsigned tid = 0; tid < threads; ++tid) ++taken.at(word(block, k, tid, elements));
    CHECK(taken == std::vector<int>(taken.size(), 1));
    for (unsigned k = 0; k < elements; ++k)
      for (const unsigned bytes : word_bytes) CHECK(sectors(access(bytes, k, elements)) == int(bytes));
  }
}

TEST_CASE("unroll: sums are right at awkward sizes and nothing is written behind them") {
  if (skip_without_gpu()) return;
  for (size_t n : {4, 36, 1020, 8192, 100012, 1000004})  // multiples of 4 floats, the widest word
    for (const unsigned bytes : word_bytes)
      for (const unsigned elements : element_counts) {
        CAPTURE(n);
        CAPTURE(bytes);
        CAPTURE(elements);
        Vectors vectors(n);
        CHECK(vectors.right(bytes, elements));
        CHECK(wrong_words(vectors.c, SumIsRight{n - 1}) == 1);  // and the check itself can fail
      }
}

TEST_CASE("unroll: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("unroll: counted sectors equal the model") { compare_with_counters(counted_launches()); }
