// unroll: does a thread that adds more words of two vectors gain anything? The wiki quotes replies
// to a poster whose unrolled kernel was slower on a GTX 1080 Ti [LC 3]: bandwidth limits the sum of
// two vectors, so more words per thread gain nothing. They help if words share values, or if there
// is work between the accesses. (And only loops are unrolled, says a reply: this is coarsening.)
//
// Look from how many words per thread on bandwidth does limit the sum: where does a byte take as
// long as in a copy? Then compare words with wide words. The second table has words that share
// values.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o unroll unroll.cu ../common/*.cpp
//
//   1  add    c = a + b: a thread adds 1, 2, 4 or 8 words of 4 bytes, or one of 8 or 16
//   2  stack  25 rows added up: for one word of a thread, or for four that share 22 of the rows
#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels ----

__device__ float sum(float x, float y) { return x + y; }
__device__ float2 sum(const float2& x, const float2& y) { return {x.x + y.x, x.y + y.y}; }
__device__ float4 sum(float4 x, float4 y) { return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w}; }

// A block takes words * blockDim.x neighbours. A warp loads 32 neighbours of a and of b, `words`
// times before it waits: each of its requests is 4 sectors of words of 4 bytes, or 8, or 16.
template <unsigned words, class Word>
__global__ void add(Word* c, const Word* a, const Word* b, size_t n) {
  const size_t first = blockIdx.x * size_t(words * blockDim.x) + threadIdx.x;
  if (first + (words - 1) * blockDim.x < n) {
    Word x[words], y[words];
#pragma unroll
    for (unsigned k = 0; k < words; ++k) {  // all loads
      x[k] = a[first + k * blockDim.x];
      y[k] = b[first + k * blockDim.x];
    }
#pragma unroll
    for (unsigned k = 0; k < words; ++k) c[first + k * blockDim.x] = sum(x[k], y[k]);
  } else {  // the last block: not all of its words are there
    for (size_t i = first; i < n; i += blockDim.x) c[i] = sum(a[i], b[i]);
  }
}

constexpr unsigned height = 25;             // rows of a stack
constexpr unsigned across = 32, down = 16;  // a block's threads
// While one block waits for its first rows another one adds. On 8.0 and 9.0, which have room for
// 2048 threads, four blocks at once leave each thread 32 registers. Every GPU has room for two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900
constexpr int blocks_at_once = 2;
#else
constexpr int blocks_at_once = 4;
#endif

// out[y][x] = in[y][x] + in[y + 1][x] + ... of 25 rows. A warp reads 32 neighbours of each row. A
// thread has `words` words, one below the other: four take 28 loads, 7 per word in place of 25.
template <unsigned words>
__global__ void __launch_bounds__(across* down, blocks_at_once)
    stack(unsigned* out, const unsigned* in, unsigned columns, unsigned rows) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = words * (blockIdx.y * blockDim.y + threadIdx.y);
  if (x >= columns || y >= rows) return;
  unsigned sum[words] = {};
#pragma unroll
  for (unsigned d = 0; d < height + words - 1; ++d) {
    const bool there = words == 1 || y + d < rows + height - 1;
    const unsigned word = there ? in[size_t(y + d) * columns + x] : 0;
#pragma unroll
    for (unsigned k = 0; k < words; ++k)
      if (d >= k && d < k + height) sum[k] += word;  // known when it is compiled
  }
#pragma unroll
  for (unsigned k = 0; k < words; ++k)
    if (y + k < rows) out[size_t(y + k) * columns + x] = sum[k];
}

// ---- what must come out ----

/// 16 bits, so that sums are exact; other ones in each vector.
__host__ __device__ float element(unsigned vector, size_t i) {
  return float(hash(i + (size_t(vector) << 40)) >> 16);
}

struct Vectors {
  DeviceBuffer<float> a, b;
  GuardedBuffer<float> c;
};
Vectors vectors_of(size_t n) {
  return {filled<float>(n, [] __device__(size_t i) { return element(0, i); }),
          filled<float>(n, [] __device__(size_t i) { return element(1, i); }),
          GuardedBuffer<float>(n)};
}

/// What word i of the output has to be: the sum of 25 words, one below the other.
__host__ __device__ unsigned stack_at(size_t i, unsigned columns) {
  unsigned sum = 0;
  for (unsigned row = 0; row < height; ++row) sum += hash(i + size_t(row) * columns);
  return sum;
}
DeviceBuffer<unsigned> stack_input(unsigned columns, unsigned rows) {
  return filled<unsigned>(size_t(columns) * (rows + height - 1),
                          [] __device__(size_t i) { return hash(i); });
}

// ---- the launches: add yours here ----

template <unsigned words, class Word>
void launch_add(float* c, const float* a, const float* b, size_t floats) {
  const size_t n = floats * sizeof(float) / sizeof(Word);
  const unsigned blocks = unsigned(ceil_div(n, words * 256));
  add<words><<<blocks, 256>>>((Word*)c, (const Word*)a, (const Word*)b, n);
}

struct Sum {
  const char* name;
  unsigned bytes, words;  ///< of a word; of a thread
  void (*launch)(float* c, const float* a, const float* b, size_t floats);
};
const Sum sums[] = {{"1 word", 4, 1, launch_add<1, float>},
                    {"2 words", 4, 2, launch_add<2, float>},
                    {"4 words", 4, 4, launch_add<4, float>},
                    {"8 words", 4, 8, launch_add<8, float>},
                    {"1 word of 8 bytes", 8, 1, launch_add<1, float2>},
                    {"1 word of 16 bytes", 16, 1, launch_add<1, float4>}};

Benchmark benchmark_of(const Sum& sum, const Vectors& v) {
  const auto work = [=] { sum.launch(v.c, v.a, v.b, v.a.size()); };
  const auto right = [] __device__(size_t i) { return element(0, i) + element(1, i); };
  return {sum.name, work, equals(v.c, right)};
}
Benchmark copy_of(const Vectors& v) {
  const auto work = [=] {
    CUDA_CHECK(cudaMemcpyAsync(v.c, v.a, v.a.bytes(), cudaMemcpyDeviceToDevice));
  };
  const auto right = [] __device__(size_t i) { return element(0, i); };
  return {"cudaMemcpy", work, equals(v.c, right)};
}

struct Stack {
  const char* name;
  unsigned words;  ///< of a thread
  void (*kernel)(unsigned* out, const unsigned* in, unsigned columns, unsigned rows);
};
const Stack stacks[] = {{"1 of 25 rows", 1, stack<1>}, {"4 of 28 rows", 4, stack<4>}};

Benchmark benchmark_of(const Stack& s, const GuardedBuffer<unsigned>& out,
                       const DeviceBuffer<unsigned>& in, unsigned columns) {
  const auto work = [=] {
    const unsigned rows = unsigned(out.size() / columns);
    const dim3 grid(unsigned(ceil_div(columns, across)), unsigned(ceil_div(rows, down * s.words)));
    s.kernel<<<grid, dim3(across, down)>>>(out, in, columns, rows);
  };
  return {s.name, work,
          equals(out, [columns] __device__(size_t i) { return stack_at(i, columns); })};
}

// ---- the experiment ----

void sum_vectors(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 25 : 26), 12);
  const Vectors v = vectors_of(n);
  run.title("c = a + b, vectors of " + bytes_text(4.0 * double(n)) + "; blocks of 256 threads");
  std::vector<Benchmark> benchmarks{copy_of(v)};
  for (const Sum& sum : sums) benchmarks.push_back(benchmark_of(sum, v));
  const Timings timed = run.timer.interleaved(benchmarks);
  const Times& copy = timed["cudaMemcpy"];
  const double moved = 12.0 * double(n), copied = 8.0 * double(n);

  Table table("a thread adds",
              {"load", "store", "bytes loaded at once", "ms", "spread", "GB/s", ""});
  for (const Sum& sum : sums) {
    const Times& times = timed[sum.name];
    table.row(sum.name, {sum.bytes, sum.bytes, 2 * sum.words * sum.bytes, times.ms_interval(),
                         percent(times.spread()), times.gbs_interval(moved),
                         bar(times.gbs(moved) / copy.gbs(copied))});
  }
  table.row("cudaMemcpy", {"", "", "", copy.ms_interval(), percent(copy.spread()),
                           copy.gbs_interval(copied), bar(1)});
  run.print(table);
  run.note("load, store: sectors per request of a warp; GB/s: 12 bytes a sum, 8 bytes a copy");

  const Claim limit{"03.9a", "the sum of two vectors is limited by memory bandwidth",
                    "[LC 3, quoting a reply] \"limited by memory bandwidth\", GTX 1080 Ti",
                    Hardware::pascal};
  const Claim gain{
      "03.9b", "where bandwidth is the limit, more words per thread gain nothing",
      "[LC 3, quoting a reply] \"does not benefit from any of the above optimizations\""};
  if (!run.beyond_l2(copied)) {
    run.claim_skipped(limit, "the vectors are less than four times the L2");
    return run.claim_skipped(gain, "the vectors are less than four times the L2");
  }
  const auto per_byte = [&](const Sum& sum) {
    return ratio(timed[sum.name], copy) * (copied / moved);
  };
  const Rule as_in_a_copy = at_most(1.05);
  run.claim(limit, {per_byte(sums[0]), "of a copy's time for a byte, with 1 word per thread"},
            as_in_a_copy);
  const Sum* limited = nullptr;  // with the fewest words
  std::vector<Interval> more_words;
  for (const Sum& sum : sums) {
    if (sum.bytes > sizeof(float)) continue;
    if (limited) more_words.push_back(ratio(timed[limited->name], timed[sum.name]));
    if (!limited && judge(as_in_a_copy, per_byte(sum)) == Verdict::holds) limited = &sum;
  }
  if (more_words.empty())
    run.claim_skipped(gain, "bandwidth limits none of 1, 2 and 4 words per thread");
  else
    run.claim_each(gain, more_words, std::string("as fast: more over ") + limited->name,
                   no_faster());
}

void share_values(Run& run) {
  const unsigned columns = 8192;
  const unsigned rows = unsigned(run.fitting(8192, 8.0 * columns));
  const auto in = stack_input(columns, rows);
  const GuardedBuffer<unsigned> out(size_t(columns) * rows);
  std::vector<Benchmark> benchmarks;
  for (const Stack& stack : stacks) benchmarks.push_back(benchmark_of(stack, out, in, columns));
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("words of a thread", {"loads per word", "registers", "per word", "ms", "spread"});
  for (const Stack& stack : stacks) {
    const Times& times = timed[stack.name];
    cudaFuncAttributes compiled{};
    CUDA_CHECK(cudaFuncGetAttributes(&compiled, stack.kernel));
    table.row(stack.name, {double(height + stack.words - 1) / stack.words, compiled.numRegs,
                           double(compiled.numRegs) / stack.words, times.ms_interval(),
                           percent(times.spread())});
  }
  run.print(table);
  run.claim({"03.23", "more words per thread can be faster if they share values",
             "[LC 3, quoting a reply] \"may share common values\""},
            timed.speedup({.of = "4 of 28 rows", .over = "1 of 25 rows"}), can_be_faster());
}

}  // namespace

void unroll(Run& run) {
  sum_vectors(run);
  share_values(run);
}
SAMPLE(11, unroll, "1, 2, 4 or 8 words per thread");

TEST_CASE("unroll: every sum is right at awkward sizes, and writes nothing else") {
  if (skip_without_gpu()) return;
  for (const Sum& sum : sums)
    for (const size_t words :
         {1u, 33u, 1009u, 3 * sum.words * 256 - 5, 3 * sum.words * 256 - 255}) {
      CAPTURE(sum.name);
      CAPTURE(words);
      const size_t n = words * sum.bytes / 4;
      const Vectors v = vectors_of(n);
      sum.launch(v.c, v.a, v.b, n);
      std::vector<float> right;
      for (size_t i = 0; i < n; ++i) right.push_back(element(0, i) + element(1, i));
      CHECK(v.c.to_host() == right);
      CHECK(guard_error(v.c) == "");
    }
}

TEST_CASE("unroll: a stack is the sum of 25 words, by hand") {
  unsigned right = 0;  // of column 1, row 2, in rows of 3 words: words 7, 10, 13 ... 79
  for (size_t i = 7; i <= 79; i += 3) right += hash(i);
  CHECK(stack_at(7, 3) == right);
}

TEST_CASE("unroll: every stack is right at awkward sizes, and writes nothing else") {
  if (skip_without_gpu()) return;
  for (const unsigned columns : {1u, 31u, 33u, 257u})
    for (const unsigned rows : {1u, 2u, 3u, 5u, 127u, 131u}) {
      CAPTURE(columns);
      CAPTURE(rows);
      const auto in = stack_input(columns, rows);
      const GuardedBuffer<unsigned> out(size_t(columns) * rows);
      for (const Stack& stack : stacks) {
        CAPTURE(stack.name);
        CHECK_NOTHROW(require_right(benchmark_of(stack, out, in, columns)));
      }
    }
}
