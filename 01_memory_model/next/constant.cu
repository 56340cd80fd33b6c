// constant: what does a warp's load from constant memory cost? The lectures say: one request if all
// threads want the same word, and each different word is one more; a hit is "very fast", a miss "very
// slow"; a #define should stay one [PR: constant memory]. The wiki reads the coefficients of a
// formula from there, and warns of words that each thread reads for itself, and only once [LC 2].
//
// Look at how the time follows the number of different words, and at global memory, where it does
// not. Then look at which coefficients the compiler reads before the loop.
//
//   build/release/01_memory_model/01_memory_model constant
//
//   1  constant_test: by_block, by_thread  the lectures' good example, and their bad one
//   2  read_by_lane, read_global      a warp wants 1, 2, 4 ... 32 different words
//   3  walk_constant, walk_global, walk_read_only  one thread: hits and misses
//   4  fixed_constant, fixed_global, kept_global, indexed_constant, indexed_global: coefficients
//   5  mix_literals, mix_constants    #define against __constant__
//   6  once_constant, once_global     each thread reads a word of its own, once
#include <doctest/doctest.h>

#include <algorithm>

#include "../../common/run.hpp"
#include "../../common/sectors.hpp"
#include "chase.cuh"

namespace {

constexpr unsigned TPB = 256;  // threads per block

// ---- 1: the lectures' kernels. Thread t leaves the sum of what it read in sums[t] ----

constexpr unsigned my_words = 16;
__constant__ int my_const[my_words];

namespace by_block {
// The index follows from the block: all lanes of a warp want one word. Then all go on to the next
// word: a load of the same word again the compiler would do without.
__global__ void constant_test(int* sums, unsigned turns) {
  unsigned i = blockIdx.x;
  int sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn, ++i) {
    int value = my_const[i % 16];
    sum += value;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}  // namespace by_block

namespace by_thread {
// The index follows from the thread: the lanes of a warp want all 16 words.
__global__ void constant_test(int* sums, unsigned turns) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < turns; ++turn, ++i) {
    int value = my_const[i % 16];
    sum += value;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
}  // namespace by_thread

// ---- 2: as many different words as one likes ----

constexpr unsigned words = 32;          // among which the lanes of a warp choose at one load
constexpr unsigned loads = 8;           // per turn, each from 32 words of its own: 1 KiB in all
constexpr unsigned table_words = 4096;  // 16 KiB
__constant__ unsigned table[table_words];

// Lane i wants word i % distinct. After each turn all lanes go on to the next word: as many words
// stay different.
template <class WordAt>
__device__ void read_words(unsigned* sums, unsigned distinct, unsigned turns, WordAt word_at) {
  unsigned word = threadIdx.x % 32 % distinct;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads; ++load) sum += word_at(load * words + word);
    word = (word + 1) % words;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void read_by_lane(unsigned* sums, unsigned distinct, unsigned turns) {
  read_words(sums, distinct, turns, [](unsigned i) { return table[i]; });
}
// The words of a load lie in one line of 128 bytes, which L1 delivers at once.
__global__ void read_global(unsigned* sums, const unsigned* in, unsigned distinct, unsigned turns) {
  read_words(sums, distinct, turns, [=](unsigned i) { return in[i]; });
}

// ---- 3: one thread walks round. Each word is the offset of the next, so that no loads overlap ----

constexpr unsigned ring_words = 8192;  // 32 KiB; with the others less than the 64 KiB of a file
__constant__ unsigned ring[ring_words];

// One loop serves both passes: its instructions have been fetched when the second one is timed.
// threadIdx.x is 0, but not to the compiler, which has another instruction for what all lanes share.
template <class WordAt>
__device__ void walk(Answer* answer, unsigned first, unsigned untimed, unsigned timed,
                     WordAt word_at) {
  unsigned offset = first + threadIdx.x;
  unsigned steps = untimed;
  long long start = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start = clock64();
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) offset = word_at(offset);
    asm volatile("" : "+r"(offset));  // the clock is read after the last step
    steps = timed;
  }
  *answer = {clock64() - start, offset};
}
__global__ void walk_constant(Answer* answer, unsigned first, unsigned untimed, unsigned timed) {
  walk(answer, first, untimed, timed, [](unsigned offset) {
    return *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(ring) + offset);
  });
}
// By a plain load, past L1.
__global__ void walk_global(Answer* answer, const char* in, unsigned first, unsigned untimed,
                            unsigned timed) {
  walk(answer, first, untimed, timed,
       [=](unsigned offset) { return __ldcg(reinterpret_cast<const unsigned*>(in + offset)); });
}
// Through the cache for data that no one writes.
__global__ void walk_read_only(Answer* answer, const char* in, unsigned first, unsigned untimed,
                               unsigned timed) {
  walk(answer, first, untimed, timed,
       [=](unsigned offset) { return __ldg(reinterpret_cast<const unsigned*>(in + offset)); });
}

// ---- 4: all threads need the same 16 coefficients. Sums of floats may not be reordered, so that
// every coefficient is needed in each turn ----

constexpr unsigned per_turn = 16, coefficients = 2 * per_turn;
__constant__ float coefficient[coefficients];

template <class At>
__device__ void add_coefficients(float* out, unsigned turns, At at) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: plain loads have to be done again
    const unsigned first = (blockIdx.x + turn) % per_turn;
#pragma unroll
    for (unsigned c = 0; c < per_turn; ++c) sum += at(first, c);
  }
  out[tid] = sum;
}
// The compiler knows the address, and that nobody writes there while the kernel runs: it may read
// all coefficients before the loop.
__global__ void fixed_constant(float* out, unsigned turns) {
  add_coefficients(out, turns, [](unsigned, unsigned c) { return coefficient[c]; });
}
// All lanes load one word: one sector, which L1 has after the first time.
__global__ void fixed_global(float* out, const float* in, unsigned turns) {
  add_coefficients(out, turns, [=](unsigned, unsigned c) { return in[c]; });
}
// What the compiler could do with these if it knew that nobody stores.
__global__ void kept_global(float* out, const float* in, unsigned turns) {
  float kept[per_turn];
#pragma unroll
  for (unsigned c = 0; c < per_turn; ++c) kept[c] = in[c];
  add_coefficients(out, turns, [&](unsigned, unsigned c) { return kept[c]; });
}
// An index that follows from the block, as in the lectures' example: the loads stay in the loop.
__global__ void indexed_constant(float* out, unsigned turns) {
  add_coefficients(out, turns, [](unsigned first, unsigned c) { return coefficient[first + c]; });
}
__global__ void indexed_global(float* out, const float* in, unsigned turns) {
  add_coefficients(out, turns, [=](unsigned first, unsigned c) { return in[first + c]; });
}

// ---- 5: the same arithmetic. The shift keeps the compiler from folding rounds into one ----

#define MY_CONST 1234u  // the lectures' name and value
#define MY_FACTOR 2654435769u
__constant__ unsigned constant_term, constant_factor;

__global__ void mix_literals(unsigned* out, unsigned rounds) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round) x = (x ^ x >> 15) * MY_FACTOR + MY_CONST;
  out[tid] = x + tid;
}
__global__ void mix_constants(unsigned* out, unsigned rounds) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round)
    x = (x ^ x >> 15) * constant_factor + constant_term;
  out[tid] = x + tid;
}

// ---- 6: 32 neighbouring lanes want 32 neighbouring words, each of them once ----

__global__ void once_constant(unsigned* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[i % table_words];
}
__global__ void once_global(unsigned* out, const unsigned* in, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i % table_words];
}

// ---- what is right ----

__host__ __device__ int my_const_at(unsigned i) { return int(hash(i) % 4096); }
__host__ __device__ float coefficient_at(unsigned i) { return float(3 * i + 1); }

/// What constant_test finds from word `first` on.
__host__ __device__ int my_sum(unsigned first, unsigned turns) {
  int sum = 0;
  for (unsigned turn = 0; turn < turns; ++turn) sum += my_const_at((first + turn) % my_words);
  return sum;
}

/// The same of 2.
__host__ __device__ unsigned sum_from(unsigned first, unsigned turns) {
  unsigned sum = 0;
  for (unsigned turn = 0; turn < turns; ++turn)
    for (unsigned i = (first + turn) % words; i < loads * words; i += words) sum += hash(i);
  return sum;
}

/// The same of 4. These are whole numbers below 2^24: their sums are exact.
__host__ __device__ float coefficient_sum(unsigned tid, bool indexed, unsigned turns) {
  float sum = float(tid);
  for (unsigned turn = 0; turn < turns; ++turn) {
    const unsigned first = indexed ? (tid / TPB + turn) % per_turn : 0;
    for (unsigned i = first; i < first + per_turn; ++i) sum += coefficient_at(i);
  }
  return sum;
}

__host__ __device__ unsigned mixed(unsigned x, unsigned rounds) {
  for (; rounds != 0; --rounds) {
    x ^= x >> 15;
    x *= 2654435769u;
    x += 1234;
  }
  return x;
}

/// Requests of a warp whose lane i reads word word_of(i) of constant memory: its different words.
template <class WordOf>
size_t requests(WordOf word_of) {
  return pieces(sizeof(unsigned), sizeof(unsigned), word_of);
}
size_t lane_in_16(size_t lane) { return lane % my_words; }

// ---- the parts ----

void fill_constants() {
  std::vector<int> mine;
  for (unsigned i = 0; i < my_words; ++i) mine.push_back(my_const_at(i));
  CUDA_CHECK(cudaMemcpyToSymbol(my_const, mine.data(), sizeof my_const));
  std::vector<unsigned> hashes;
  for (unsigned i = 0; i < table_words; ++i) hashes.push_back(hash(i));
  CUDA_CHECK(cudaMemcpyToSymbol(table, hashes.data(), sizeof table));
  std::vector<float> numbers;
  for (unsigned i = 0; i < coefficients; ++i) numbers.push_back(coefficient_at(i));
  CUDA_CHECK(cudaMemcpyToSymbol(coefficient, numbers.data(), sizeof coefficient));
  const unsigned term = MY_CONST, factor = MY_FACTOR;
  CUDA_CHECK(cudaMemcpyToSymbol(constant_term, &term, sizeof term));
  CUDA_CHECK(cudaMemcpyToSymbol(constant_factor, &factor, sizeof factor));
}

/// Copies of the constants in global memory, and what the threads of `blocks` blocks leave.
struct Reads {
  unsigned blocks, turns;
  DeviceBuffer<unsigned> hashes;
  DeviceBuffer<float> factors;
  GuardedBuffer<int> my_sums{size_t(blocks) * TPB};
  GuardedBuffer<unsigned> sums{size_t(blocks) * TPB};
  GuardedBuffer<float> added{size_t(blocks) * TPB};
};

Reads reads(unsigned blocks, unsigned turns) {
  fill_constants();
  return {blocks, turns, filled<unsigned>(table_words, [] __device__(size_t i) { return hash(i); }),
          filled<float>(coefficients, [] __device__(size_t i) { return coefficient_at(i); })};
}

/// Both of 1.
std::vector<Benchmark> lectures_tests(const Reads& r) {
  const unsigned turns = 8 * r.turns;  // as many loads as in 2
  const auto block = [&r, turns] { by_block::constant_test<<<r.blocks, TPB>>>(r.my_sums, turns); };
  const auto thread = [&r, turns] {
    by_thread::constant_test<<<r.blocks, TPB>>>(r.my_sums, turns);
  };
  const auto sum_of_block = [turns] __device__(size_t t) {
    return my_sum(unsigned(t / TPB), turns);
  };
  const auto sum_of_thread = [turns] __device__(size_t t) { return my_sum(unsigned(t), turns); };
  return {{"my_const by block", block, equals(r.my_sums, sum_of_block)},
          {"my_const by thread", thread, equals(r.my_sums, sum_of_thread)}};
}

std::string in_constant(unsigned distinct) { return std::to_string(distinct); }
std::string in_global(unsigned distinct) { return "global, " + std::to_string(distinct); }

/// Both of 2.
std::vector<Benchmark> by_lane(const Reads& r, unsigned distinct) {
  const auto constant = [&r, distinct] {
    read_by_lane<<<r.blocks, TPB>>>(r.sums, distinct, r.turns);
  };
  const auto global = [&r, distinct] {
    read_global<<<r.blocks, TPB>>>(r.sums, r.hashes, distinct, r.turns);
  };
  const auto sum = [distinct, turns = r.turns] __device__(size_t t) {
    return sum_from(unsigned(t) % 32 % distinct, turns);
  };
  return {{in_constant(distinct), constant, equals(r.sums, sum)},
          {in_global(distinct), global, equals(r.sums, sum)}};
}

/// All of 4.
std::vector<Benchmark> coefficient_reads(const Reads& r) {
  const auto adding = [&r](const char* name, bool indexed, const std::function<void()>& work) {
    const auto sum = [indexed, turns = r.turns] __device__(size_t t) {
      return coefficient_sum(unsigned(t), indexed, turns);
    };
    return Benchmark{name, work, equals(r.added, sum)};
  };
  const auto constant = [&r] { fixed_constant<<<r.blocks, TPB>>>(r.added, r.turns); };
  const auto global = [&r] { fixed_global<<<r.blocks, TPB>>>(r.added, r.factors, r.turns); };
  const auto kept = [&r] { kept_global<<<r.blocks, TPB>>>(r.added, r.factors, r.turns); };
  const auto by_index = [&r] { indexed_constant<<<r.blocks, TPB>>>(r.added, r.turns); };
  const auto from_l1 = [&r] { indexed_global<<<r.blocks, TPB>>>(r.added, r.factors, r.turns); };
  return {adding("constant, fixed address", false, constant),
          adding("global, fixed address", false, global),
          adding("global, kept in registers", false, kept),
          adding("constant, index by block", true, by_index),
          adding("global, index by block", true, from_l1)};
}

/// Both of 5.
std::vector<Benchmark> mixes(const Reads& r, unsigned rounds) {
  const auto literals = [&r, rounds] { mix_literals<<<r.blocks, TPB>>>(r.sums, rounds); };
  const auto constants = [&r, rounds] { mix_constants<<<r.blocks, TPB>>>(r.sums, rounds); };
  const auto value = [rounds] __device__(size_t t) {
    return mixed(unsigned(t) % TPB, rounds) + unsigned(t);
  };
  return {{"#define", literals, equals(r.sums, value)},
          {"__constant__", constants, equals(r.sums, value)}};
}

/// Both of 6.
std::vector<Benchmark> reads_once(const Reads& r, const GuardedBuffer<unsigned>& out) {
  const unsigned n = unsigned(out.size()), blocks = (n + TPB - 1) / TPB;
  const auto constant = [&out, n, blocks] { once_constant<<<blocks, TPB>>>(out, n); };
  const auto global = [&r, &out, n, blocks] { once_global<<<blocks, TPB>>>(out, r.hashes, n); };
  const auto value = [] __device__(size_t i) { return hash(i % table_words); };
  return {{"constant", constant, equals(out, value)}, {"global", global, equals(out, value)}};
}

void different_words(Run& run, const Reads& r) {
  std::vector<Benchmark> benchmarks = lectures_tests(r);
  const std::initializer_list<unsigned> swept{1, 2, 4, 8, 16, 32};
  for (const unsigned distinct : swept)
    for (const Benchmark& benchmark : by_lane(r, distinct)) benchmarks.push_back(benchmark);
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("different words per warp",
              {"requests", "predicted ms", "constant ms", "to one word", "global ms"});
  const auto row = [&](const std::string& name, size_t requests, const std::string& of_one,
                       const Cell& global) {
    const double one = timed[of_one].median(), ms = timed[name].median();
    table.row(name, {requests, requests > 1 ? Cell(double(requests) * one) : Cell(""), ms,
                     factor_text(ratio(timed[name], timed[of_one])), global});
  };
  std::vector<Interval> per_word;
  for (const unsigned distinct : swept) {
    const size_t wanted = requests([=](size_t lane) { return lane % distinct; });
    row(in_constant(distinct), wanted, in_constant(1), timed[in_global(distinct)].median());
    const Interval slower = ratio(timed[in_constant(distinct)], timed[in_constant(1)]);
    if (distinct > 1)
      per_word.push_back({slower.value / distinct, slower.low / distinct, slower.high / distinct});
  }
  const std::string block = "my_const by block", thread = "my_const by thread";
  row(block, requests([](size_t) { return 0; }), block, "");
  row(thread, requests(lane_in_16), block, "");
  run.print(table);
  run.note("predicted: requests, times the time of one word");
  run.claim_each({"01.6a", "a uniform constant read is one request, different words serialise",
                  "each access will be serialised, the lectures"},
                 about(1), per_word, "times one word's time / different words");
  const size_t sectors_today = sectors(sizeof(unsigned), [](size_t) { return 0; });
  run.claim_fact({"01.6d", "uniform constant reads make 1/16 of the traffic of global loads",
                  "1/16, the lectures, half-warps of compute capability 1.x", Era::g80},
                 sectors_today == 16, "a uniform global load is one sector, too, computed");
  run.claim({"01.11b", "my_const[blockIdx.x % 16] is the best use, an index by thread the worst",
             "16 requests against 1, the lectures"},
            beats(16), timed, thread, block);
  const size_t lines = pieces(64, sizeof(int), lane_in_16);
  run.claim_fact({"01.11c", "by thread, the block's other threads will likely miss the cache",
                  "likely, the lectures"},
                 lines > 1, "16 words are 64 bytes: one miss brings all of them, computed");
}

/// A ring with a word in every `stride` bytes of the first `bytes`.
struct Ring {
  unsigned bytes, stride;

  unsigned slots() const { return bytes / stride; }
  unsigned offset_after(unsigned steps) const { return stride * slot_at(steps, slots()); }
  std::vector<unsigned> content() const {
    std::vector<unsigned> content(ring_words, 4);  // what lies between leads astray
    for (unsigned k = 0; k < slots(); ++k) content[offset_after(k) / 4] = offset_after(k + 1);
    return content;
  }
  void write() const { CUDA_CHECK(cudaMemcpyToSymbol(ring, content().data(), sizeof ring)); }
};

/// Cycles of a load that goes round and round so many bytes of constant memory.
Interval again(unsigned bytes) {
  const Ring ring{bytes, 64};  // a word in every line of the first cache
  ring.write();
  const unsigned untimed = 2 * ring.slots(), timed = std::max(512u, ring.slots());
  const auto launch = [=](Answer* a) {
    walk_constant<<<1, 1>>>(a, ring.offset_after(0), untimed, timed);
  };
  return cycles_per_load("walk_constant", launch, timed, ring.offset_after(untimed + timed));
}

using Walk = void (*)(Answer*, const char* in, unsigned first, unsigned untimed, unsigned timed);

/// Cycles of a load that is the first to touch its line: the ring was written anew, which empties
/// the constant caches, and then twice the L2 was written, which leaves nothing of it there.
Interval first_touch(const DeviceBuffer<char>& twice_the_l2, Walk walk) {
  const Ring slots{4 * ring_words, 256};  // no two words in one line of any cache
  const unsigned untimed = 4;             // they fetch the code, and the translation of the page
  const unsigned timed = slots.slots() - untimed;
  void* in_global = nullptr;  // constant memory is a part of global memory
  CUDA_CHECK(cudaGetSymbolAddress(&in_global, ring));
  const auto launch = [&](Answer* answer) {
    slots.write();
    CUDA_CHECK(cudaMemset(twice_the_l2, 0x5a, twice_the_l2.bytes()));
    walk(answer, static_cast<const char*>(in_global), slots.offset_after(0), untimed, timed);
  };
  return cycles_per_load("first touch", launch, timed, slots.offset_after(0));
}
const Walk constant_walk = [](Answer* answer, const char*, unsigned first, unsigned untimed,
                              unsigned timed) {
  walk_constant<<<1, 1>>>(answer, first, untimed, timed);
};
const Walk global_walk = [](Answer* answer, const char* in, unsigned first, unsigned untimed,
                            unsigned timed) {
  walk_global<<<1, 1>>>(answer, in, first, untimed, timed);
};
const Walk read_only_walk = [](Answer* answer, const char* in, unsigned first, unsigned untimed,
                               unsigned timed) {
  walk_read_only<<<1, 1>>>(answer, in, first, untimed, timed);
};

/// How many times as long, as wide as the two intervals leave it.
Interval times_as_long(const Interval& slow, const Interval& fast) {
  return {slow.value / fast.value, slow.low / fast.high, slow.high / fast.low};
}

void hits_and_misses(Run& run) {
  Table table("one thread, each load waits for the one before", {"cycles", "to a hit"});
  const Interval hit = again(1024);
  const auto row = [&](const std::string& name, const Interval& cycles) {
    table.row(name, {cycles, factor_text(times_as_long(cycles, hit))});
    return cycles;
  };
  row("constant, 1 KiB again and again", hit);
  for (const unsigned kib : {2, 4, 32})
    row("constant, " + std::to_string(kib) + " KiB again and again", again(kib << 10));
  const DeviceBuffer<char> twice_the_l2(2 * size_t(run.gpu.l2CacheSize));
  const Interval miss = row("constant, first touch", first_touch(twice_the_l2, constant_walk));
  const Interval global = row("global, first touch", first_touch(twice_the_l2, global_walk));
  const Interval read_only =
      row("read-only, first touch", first_touch(twice_the_l2, read_only_walk));
  run.print(table);
  run.claim({"01.6b", "a constant read that misses is far slower than one that hits",
             "very slow against very fast, the lectures"},
            much_beats(), times_as_long(miss, hit), "times the cycles of a hit");
  run.claim({"01.6c", "a read-only load that misses costs what a global one does",
             "same as global if not cached, the lectures"},
            as_much(), times_as_long(read_only, global), "times the cycles of a global load");
}

void formula(Run& run, const Reads& r) {
  const std::vector<Benchmark> benchmarks = coefficient_reads(r);
  const Timings timed = run.timer.interleaved(benchmarks);
  Table table("16 coefficients from", {"ms", "to constant, fixed", "spread"});
  for (const Benchmark& benchmark : benchmarks) {
    const Times& times = timed[benchmark.name];
    table.row(benchmark.name,
              {times.median(), factor_text(ratio(times, timed["constant, fixed address"])),
               percent(times.spread())});
  }
  run.print(table);
  run.note("fixed address: the compiler reads constants before the loop, and global words in it");
  run.note("index by block: all of these loads stay in the loop; there L1 is faster");
  run.claim({"01.11a", "coefficients of a formula are best read from constant memory",
             "the wiki, no figure"},
            beats(), timed, "global, fixed address", "constant, fixed address");
}

int registers(void (*kernel)(unsigned*, unsigned)) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.numRegs;
}

}  // namespace

void constant(Run& run) {
  run.title("constant memory: 64 KiB for a file's constants; four blocks on each multiprocessor");
  const unsigned blocks = 4 * unsigned(run.gpu.multiProcessorCount);
  const Reads r = reads(blocks, run.quick ? 64 : 256);
  different_words(run, r);
  hits_and_misses(run);
  formula(run, r);

  const Timings mixed = run.timer.interleaved(mixes(r, run.quick ? 512 : 2048));
  Table factors("two numbers from", {"ms", "registers"});
  factors.row("#define", {mixed["#define"].median(), registers(mix_literals)});
  factors.row("__constant__", {mixed["__constant__"].median(), registers(mix_constants)});
  run.print(factors);
  run.claim({"01.7", "replacing a #define by __constant__ gains nothing", "the lectures"},
            no_gain(), mixed, "#define", "__constant__");

  const GuardedBuffer<unsigned> out(size_t(1) << (run.quick ? 22 : 24));
  const Timings once = run.timer.interleaved(reads_once(r, out));
  Table copies("each thread reads a word of its own, once", {"ms"});
  for (const char* name : {"constant", "global"}) copies.row(name, {once[name].median()});
  run.print(copies);
  run.claim({"01.11d", "constants are wrong where each thread reads another word, and only once",
             "do not use, the wiki"},
            beats(), once, "constant", "global");
}

TEST_CASE("constant: requests of a warp, by hand") {
  for (const size_t distinct : {1, 2, 3, 16, 31, 32})
    CHECK(requests([=](size_t lane) { return lane % distinct; }) == distinct);
  CHECK(requests(lane_in_16) == 16);
  CHECK(requests([](size_t lane) { return lane / 2; }) == 16);
}

TEST_CASE("constant: sums, by hand") {
  CHECK(my_sum(15, 2) == my_const_at(15) + my_const_at(0));  // the last word, and round
  unsigned sum = 0;
  for (unsigned load = 0; load < 8; ++load) sum += hash(32 * load + 31) + hash(32 * load);
  CHECK(sum_from(31, 2) == sum);
  // 1 + 4 + ... + 46 = 376; one word further on, each is 3 more
  CHECK(coefficient_sum(5, false, 2) == 5 + 2 * 376);
  CHECK(coefficient_sum(256, true, 1) == 256 + 376 + 16 * 3);
  CHECK(coefficient_sum(15 * 256, true, 2) == 15 * 256 + 2 * 376 + 15 * 48);
  CHECK(mixed(0, 1) == 1234);
  CHECK(mixed(1, 1) == 2654435769u + 1234);
}

TEST_CASE("constant: a ring visits every word once, and comes back") {
  for (const Ring ring : {Ring{64, 64}, Ring{192, 64}, Ring{1024, 64}, Ring{4 * ring_words, 256}}) {
    CAPTURE(ring.bytes);
    const std::vector<unsigned> content = ring.content();
    std::vector<int> visits(ring.slots(), 0);
    unsigned at = ring.offset_after(0);
    for (unsigned step = 0; step < ring.slots(); ++step) {
      REQUIRE(at < ring.bytes);
      REQUIRE(at % ring.stride == 0);
      ++visits[at / ring.stride];
      at = content[at / 4];
    }
    CHECK(at == ring.offset_after(0));
    CHECK(visits == std::vector<int>(ring.slots(), 1));
  }
}

TEST_CASE("constant: every thread reads what it should, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 17u, 1009u})
    for (const unsigned turns : {1u, 37u}) {
      CAPTURE(blocks);
      CAPTURE(turns);
      const Reads r = reads(blocks, turns);
      std::vector<std::vector<Benchmark>> all{lectures_tests(r), coefficient_reads(r),
                                              mixes(r, turns)};
      for (const unsigned distinct : {1, 3, 31, 32}) all.push_back(by_lane(r, distinct));
      const GuardedBuffer<unsigned> out(100 * blocks + turns);
      all.push_back(reads_once(r, out));
      for (const std::vector<Benchmark>& some : all)
        for (const Benchmark& benchmark : some) CHECK_NOTHROW(require_right(benchmark));
    }
}

TEST_CASE("constant: walks end where they should") {
  if (skip_without_gpu()) return;
  const DeviceBuffer<char> filler(1 << 20);
  for (const unsigned bytes : {64, 192, 4096}) CHECK(again(bytes).value > 0);
  for (const Walk walk : {constant_walk, global_walk, read_only_walk})
    CHECK(first_touch(filler, walk).value > 0);
}
