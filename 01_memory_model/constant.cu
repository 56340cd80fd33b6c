// constant: what does a warp's load from constant memory cost? The lectures count one request if all
// threads want the same word, and otherwise one for each different word; they advise keeping a
// #define [PR: constant memory]. The wiki reads a formula's coefficients from there, but not words
// that each thread reads for itself, and only once [LC 1].
//
// Look at how the time follows the number of different words, and at global memory, where it does
// not. Then at the coefficients.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o constant constant.cu ../common/*.cpp
//
//   1  by_block::constant_test, by_thread::constant_test: the lectures' good and bad examples
//   2  read_words: a warp wants 1, 2, 4 ... 32 different words, again and again or once
//   3  add_coefficients: all threads want the same 16 words, at addresses that the compiler knows
//   4  mix_numbers: #define against __constant__
#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"

namespace {

constexpr unsigned TPB = 256;  // threads per block

// ---- 1: the lectures' kernels. Thread t leaves the sum of what it read in sums[t] ----

__constant__ int my_const[16];

namespace by_block {
// The index depends on the block alone, so that all lanes of a warp want one word. After each load
// they go on to the next word, since the compiler would not load the same one again.
__global__ void constant_test(unsigned* sums, unsigned turns) {
  unsigned i = blockIdx.x;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn, ++i) {
    int value = my_const[i % 16];
    sum += value;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}  // namespace by_block

namespace by_thread {
// The index depends on the thread, so that the lanes of a warp want all 16 words.
__global__ void constant_test(unsigned* sums, unsigned turns) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn, ++i) {
    int value = my_const[i % 16];
    sum += value;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}  // namespace by_thread

// ---- 2, 3: loads from constant memory, or from global memory ----

constexpr unsigned words_per_load = 32;  // among which the lanes of a warp choose
constexpr unsigned loads_per_turn = 8;   // each from words of its own: 1 KiB in all
__constant__ unsigned constant_words[loads_per_turn][words_per_load];

// Lane i wants word i % distinct of a line. The constant cache delivers a word at a time, and L1 the
// whole line. After each turn all lanes go on to the next word, so that as many stay different.
template <bool constant>
__global__ void read_words(unsigned* sums, unsigned distinct, unsigned turns,
                           const unsigned* __restrict__ words) {
  unsigned word = threadIdx.x % 32 % distinct;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads_per_turn; ++load)
      sum += constant ? constant_words[load][word] : words[load * words_per_load + word];
    word = (word + 1) % words_per_load;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__constant__ float coefficient[16];

// Sums of floats may not be reordered, so that every coefficient is needed in each turn. Nothing is
// stored in the loop, so that nvcc may read either memory's words before it (13.0 for sm_90 does).
template <bool constant>
__global__ void add_coefficients(unsigned* sums, unsigned turns, const float* __restrict__ in) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn)
#pragma unroll
    for (unsigned c = 0; c < 16; ++c) sum += constant ? coefficient[c] : in[c];
  sums[tid] = unsigned(sum);
}

// ---- 4: the same arithmetic. The shift keeps the compiler from folding rounds into one ----

#define MY_CONST 1234u  // the lectures' name and value
#define MY_FACTOR 2654435769u
__constant__ unsigned constants[2];

template <bool constant>
__global__ void mix_numbers(unsigned* out, unsigned rounds) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round)
    x = (x ^ x >> 15) * (constant ? constants[1] : MY_FACTOR) +
        (constant ? constants[0] : MY_CONST);
  out[tid] = x + tid;
}

// ---- what must come out ----

/// Word i of my_const, and of constant_words. It is positive as an int, too.
__host__ __device__ unsigned value_at(size_t i) { return hash(i) >> 1; }

/// What a thread adds up that begins at word `first` of n, and goes on to the next one after each
/// turn. In a turn it makes `loads` loads, from words that lie n apart.
__host__ __device__ unsigned sum_from(size_t first, unsigned turns, unsigned n, unsigned loads) {
  unsigned sum = 0;
  for (unsigned turn = 0; turn < turns; ++turn)
    for (size_t i = (first + turn) % n; i < n * loads; i += n) sum += value_at(i);
  return sum;
}

__host__ __device__ unsigned mixed(unsigned x, unsigned rounds) {
  for (; rounds != 0; --rounds) x = (x ^ x >> 15) * MY_FACTOR + MY_CONST;
  return x;
}

/// The contents of the constants, in global memory, and a sum for each thread.
struct Memory {
  unsigned blocks, turns;
  DeviceBuffer<unsigned> words;
  DeviceBuffer<float> coefficients;
  GuardedBuffer<unsigned> sums{size_t(blocks) * TPB};
};

Memory memory(unsigned blocks, unsigned turns) {
  const auto words = filled<unsigned>(loads_per_turn * words_per_load,
                                      [] __device__(size_t i) { return value_at(i); });
  const std::vector<unsigned> values = words.to_host(), numbers = {MY_CONST, MY_FACTOR};
  std::vector<float> coefficients;  // whole numbers, whose sums below 2^24 are exact
  for (int c = 0; c < 16; ++c) coefficients.push_back(float(3 * c + 1));  // 376 together
  CUDA_CHECK(cudaMemcpyToSymbol(my_const, values.data(), sizeof my_const));
  CUDA_CHECK(cudaMemcpyToSymbol(constant_words, values.data(), sizeof constant_words));
  CUDA_CHECK(cudaMemcpyToSymbol(coefficient, coefficients.data(), sizeof coefficient));
  CUDA_CHECK(cudaMemcpyToSymbol(constants, numbers.data(), sizeof constants));
  return {blocks, turns, words, DeviceBuffer<float>(coefficients)};
}

// ---- the launches: add yours here ----

Benchmark my_const_read(const char* name, void (*kernel)(unsigned*, unsigned), size_t same_word,
                        const Memory& m) {
  const unsigned turns = loads_per_turn * m.turns;  // as many loads as read_words makes
  return {name, [=] { kernel<<<m.blocks, TPB>>>(m.sums, turns); },
          equals(m.sums, [turns, same_word] __device__(size_t t) {
            return sum_from(t / same_word, turns, 16, 1);
          })};
}

std::vector<Benchmark> word_reads(const Memory& m, unsigned distinct) {
  const Check sum = equals(m.sums, [distinct, turns = m.turns] __device__(size_t t) {
    return sum_from(t % 32 % distinct, turns, words_per_load, loads_per_turn);
  });
  return {{"constant, " + std::to_string(distinct),
           [=] { read_words<true><<<m.blocks, TPB>>>(m.sums, distinct, m.turns, m.words); }, sum},
          {"global, " + std::to_string(distinct),
           [=] { read_words<false><<<m.blocks, TPB>>>(m.sums, distinct, m.turns, m.words); }, sum}};
}

std::vector<Benchmark> other_uses(const Memory& m) {
  const unsigned rounds = loads_per_turn * m.turns;
  const Check sum =
      equals(m.sums, [turns = m.turns] __device__(size_t t) { return unsigned(t) + turns * 376; });
  const Check mix = equals(
      m.sums, [rounds] __device__(size_t t) { return mixed(t % TPB, rounds) + unsigned(t); });
  return {
      {"16 coefficients, constant",
       [=] { add_coefficients<true><<<m.blocks, TPB>>>(m.sums, m.turns, m.coefficients); }, sum},
      {"16 coefficients, global",
       [=] { add_coefficients<false><<<m.blocks, TPB>>>(m.sums, m.turns, m.coefficients); }, sum},
      {"two numbers, #define", [=] { mix_numbers<false><<<m.blocks, TPB>>>(m.sums, rounds); }, mix},
      {"two numbers, __constant__", [=] { mix_numbers<true><<<m.blocks, TPB>>>(m.sums, rounds); },
       mix},
  };
}

std::vector<Benchmark> kernels(const Memory& m, const std::vector<unsigned>& distinct_words) {
  std::vector<Benchmark> all = other_uses(m);
  all.push_back(my_const_read("by block", by_block::constant_test, TPB, m));
  all.push_back(my_const_read("by thread", by_thread::constant_test, 1, m));
  for (const unsigned distinct : distinct_words)
    for (const Benchmark& benchmark : word_reads(m, distinct)) all.push_back(benchmark);
  return all;
}

// ---- the experiment ----

const std::vector<unsigned> swept = {1, 2, 4, 8, 16, 32};  // different words per warp

void different_words(Run& run, const Timings& timed) {
  Table table("different words per warp", {"requests", "predicted ms", "ms", "ms, global memory"});
  std::vector<Interval> per_word;
  for (const unsigned distinct : swept) {
    const std::string n = std::to_string(distinct);
    const Times &times = timed["constant, " + n], &one = timed["constant, 1"];
    if (distinct > 1) per_word.push_back(ratio(times, one) / distinct);
    table.row(n, {distinct, distinct > 1 ? Cell(distinct * one.median()) : Cell(""),
                  times.ms_interval(), timed["global, " + n].ms_interval()});
  }
  const auto word_by_thread = [](size_t lane) { return lane % 16; };
  const size_t requests = segments_touched(sizeof(int), sizeof(int), word_by_thread);
  const double best = timed["by block"].median(), worst = timed["by thread"].median();
  table.row("my_const by block", {1, "", best, ""});
  table.row("my_const by thread", {requests, double(requests) * best, worst, ""});
  run.print(table);
  run.note("predicted: requests, times the time of one");

  run.claim_each({"01.6a", "different words of constant memory are read one after the other",
                  "[PR 2] \"Each access will be serialised\""},
                 per_word, "times as long per word as one word", about(1));
  run.computed({"01.6d", "constant memory used correctly makes 1/16 of global loads' traffic",
                "[PR 2] 1/16, for half warps of 16 threads", Hardware::g80},
               sectors(sizeof(int), [](size_t) { return 0; }) >= 16,
               "a uniform load from global memory is one sector, too");
  run.claim({"01.11b", "constants are best read by block index, and worst by thread index",
             "[PR 2] 1 request against 16; \"Best possible use\", \"Worst possible use\""},
            timed.speedup({.of = "by block", .over = "by thread"}), faster_by(16));
  run.computed({"01.11c", "read by thread index, constants likely miss for the other threads",
                "[PR 2] \"will likely miss the cache\""},
               segments_touched(64, sizeof(int), word_by_thread) > 1,
               "16 words are 64 bytes: one miss brings all of them");
}

}  // namespace

void constant(Run& run) {
  run.title("a warp's loads from constant memory: words, coefficients, literals");
  const Memory m = memory(4 * unsigned(run.gpu.multiProcessorCount), run.quick ? 64 : 256);
  const Timings timed = run.timer.interleaved(kernels(m, swept));
  different_words(run, timed);

  const Memory once = memory(1 << 14, 1);
  const Timings own = run.timer.interleaved(word_reads(once, 32));
  Table table("other uses", {"ms"});
  for (const Benchmark& row : other_uses(m)) table.row(row.name, {timed[row.name].ms_interval()});
  for (const std::string memory : {"constant", "global"})
    table.row("8 words of each thread's own, once, " + memory,
              {own[memory + ", 32"].ms_interval()});
  run.print(table);
  run.claim_each(
      {"01.11a", "coefficients of a formula are best read from constant memory",
       "[LC 1] \"USE when all threads in a warp read from the same memory address\""},
      {timed.speedup({.of = "16 coefficients, constant", .over = "16 coefficients, global"}).number,
       timed.speedup({.of = "constant, 1", .over = "global, 1"}).number},
      "as fast as from global memory: 16 words; one by an index", can_be_faster());
  run.claim({"01.7", "turning a #define into a __constant__ gains nothing",
             "[PR 2] \"Should I convert #define to constants?\" \"No\""},
            timed.speedup({.of = "two numbers, __constant__", .over = "two numbers, #define"}),
            no_faster());
  run.claim({"01.11d", "use no constant memory if each thread reads another address, once",
             "[LC 1] \"DONOT USE\""},
            {ratio(own["constant, 32"], own["global, 32"]),
             "times as long from constant as from global memory"},
            more());
}
SAMPLE(6, constant, "constant memory: one word for a warp, or many");

TEST_CASE("constant: sums, by hand") {
  CHECK(sum_from(15, 2, 16, 1) == value_at(15) + value_at(0));  // the last word, and the first
  CHECK(sum_from(31, 2, 32, 2) == value_at(31) + value_at(63) + value_at(0) + value_at(32));
  CHECK(mixed(1, 1) == 2654435769u + 1234);
}

TEST_CASE("constant: every thread finds what it should, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 17u, 1009u})
    for (const unsigned turns : {1u, 37u})
      for (const Benchmark& benchmark : kernels(memory(blocks, turns), {1, 3, 31, 32})) {
        CAPTURE(blocks);
        CAPTURE(turns);
        CHECK_NOTHROW(require_right(benchmark));  // says its name
      }
}
