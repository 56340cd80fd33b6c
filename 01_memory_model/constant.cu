// constant: what reading __constant__ memory costs. The lectures say that a warp whose threads all want one word is
// served by one request, that different words are served one after another, that a miss is as slow as global memory,
// and that nothing is gained by making a literal a constant. Look at how the time follows the number of different
// words, which the time of the same reads from global memory does not; at the steps that the caches make as a walk
// grows; and at the last two rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "../common/first_edition.hpp"

namespace {

// All constants of a file stand in 64 KiB. This table is all but 256 bytes of that.
constexpr unsigned table_words = ((64 << 10) - 256) / sizeof(unsigned);
__constant__ unsigned table[table_words];
__constant__ unsigned factors[2];

// ---- one word or many -----------------------------------------------------------------------------------------------

constexpr unsigned slots = 32;  // words among which a warp's lanes choose at one load
constexpr unsigned pieces = 8;  // loads in flight, each from 32 words of its own: 1 KiB, less than any constant cache

/// Which word of 32 a thread reads first: by its lane, so that a warp reads `distinct` different words; or, as in the
/// text's good and bad examples, by the number of its block, or by its own.
enum class Index { lane, block, thread };
__host__ __device__ unsigned first_slot(Index index, unsigned block, unsigned thread, unsigned threads,
                                        unsigned distinct) {
  if (index == Index::block) return block % 16;
  if (index == Index::thread) return (block * threads + thread) % 16;
  return thread % 32 % distinct % slots;
}
/// All lanes move on together, so that the number of different words stays.
__host__ __device__ unsigned next_slot(unsigned slot, unsigned step) { return (slot + step) % slots; }

struct Reads {
  unsigned* out;
  long long* cycles;      // of each block's first warp
  const unsigned* words;  // the same table in global memory
  unsigned distinct, step;
  int rounds;
};

// `step` is known only at run time, so that no load can leave the loop.
__device__ __forceinline__ void sum_words(const unsigned* words, Index index, const Reads& reads) {
  unsigned slot = first_slot(index, blockIdx.x, threadIdx.x, blockDim.x, reads.distinct), sum = 0;
  const long long begin = clock64();
#pragma unroll 1
  for (int round = 0; round < reads.rounds; ++round) {
#pragma unroll
    for (unsigned piece = 0; piece < pieces; ++piece) sum += words[piece * slots + slot];
    slot = next_slot(slot, reads.step);
  }
  asm volatile("" : "+r"(sum));  // the clock is read after the last sum
  if (threadIdx.x == 0) reads.cycles[blockIdx.x] = clock64() - begin;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  reads.out[i] = sum + i;
}

// A warp reads 1 to 32 different words of constant memory at each load.
template <Index index>
__global__ void read_constant(Reads reads) {
  sum_words(table, index, reads);
}

// The same words at the same indices, from global memory through L1: they lie in one line of 128 bytes, one request.
__global__ void read_global(Reads reads) { sum_words(reads.words, Index::lane, reads); }

// ---- hits and misses ------------------------------------------------------------------------------------------------

// One thread walks from offset to offset, each read at the one before: so many steps untimed, then so many timed. One
// loop serves both, so that its instructions have been fetched when the clock starts. The offset begins as the thread's
// number (0), so that it does not go to the registers that a warp shares, which another instruction loads.
template <bool in_constant>
__global__ void walk_table(const char* words, int untimed, int timed, unsigned* end, long long* cycles) {
  unsigned at = threadIdx.x;
  long long begin = 0;
#pragma unroll 1
  for (int phase = 0; phase < 2; ++phase) {
    begin = clock64();
#pragma unroll 1
    for (int step = 0; step < (phase == 0 ? untimed : timed); ++step)
      if constexpr (in_constant)
        at = *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(table) + at);
      else  // past L1: what answers is the L2, or memory itself
        at = __ldcg(reinterpret_cast<const unsigned*>(words + at));
    asm volatile("" : "+r"(at));
  }
  *cycles = clock64() - begin;
  *end = at;
}

/// A walk over one word in every `stride` of the first `bytes`. 19 is prime to every number of nodes used here, so that
/// all are visited, and as many nodes on is too far for what a load may fetch along.
struct Path {
  unsigned bytes, stride;
  unsigned nodes() const { return bytes / stride; }
  unsigned offset_after(unsigned steps) const { return steps % nodes() * 19 % nodes() * stride; }
  std::vector<unsigned> words() const {
    std::vector<unsigned> words(table_words, 4);  // what lies between the nodes leads off the path
    for (unsigned k = 0; k < nodes(); ++k) words[offset_after(k) / sizeof(unsigned)] = offset_after(k + 1);
    return words;
  }
};
constexpr Path longest{63 << 10, 64};         // warm: a node in every line of the smallest cache
constexpr Path first_touches{63 << 10, 256};  // cold: no two nodes in one line of any cache

// ---- literals -------------------------------------------------------------------------------------------------------

constexpr unsigned mix_threads = 256, literal_factor = 2654435769u, literal_term = 374761393u;
/// The shift keeps the compiler from folding rounds with literals into one.
__host__ __device__ unsigned mixed(unsigned x, unsigned factor, unsigned term) {
  return (x ^ (x >> 15)) * factor + term;
}

// Arithmetic alone: both factors stand in the instructions, or both in constant memory, from where the compiler loads
// them into registers before the loop.
template <bool from_constant>
__global__ void mix(unsigned* out, int rounds) {
  const unsigned i = blockIdx.x * mix_threads + threadIdx.x;
  unsigned x = threadIdx.x;
  for (int round = 0; round < rounds; ++round)
    x = from_constant ? mixed(x, factors[0], factors[1]) : mixed(x, literal_factor, literal_term);
  out[i] = x + i;
}

// ---- host reference -------------------------------------------------------------------------------------------------

std::vector<unsigned> table_content() {
  std::vector<unsigned> words(table_words);
  for (unsigned i = 0; i < table_words; ++i) words[i] = (i + 1) * 2654435769u;
  return words;
}

std::vector<unsigned> expected_sums(Index index, unsigned blocks, unsigned threads, unsigned distinct, int rounds) {
  const std::vector<unsigned> words = table_content();
  unsigned from_slot[slots] = {};
  for (unsigned first = 0; first < slots; ++first)
    for (unsigned round = 0; round < unsigned(rounds); ++round)
      for (unsigned piece = 0; piece < pieces; ++piece)
        from_slot[first] += words[piece * slots + next_slot(first, round)];
  std::vector<unsigned> sums(size_t(blocks) * threads);
  for (unsigned i = 0; i < sums.size(); ++i)
    sums[i] = from_slot[first_slot(index, i / threads, i % threads, threads, distinct)] + i;
  return sums;
}

std::vector<unsigned> expected_mixes(size_t n, int rounds) {
  std::vector<unsigned> all(n);
  for (unsigned i = 0; i < n; ++i) {
    unsigned x = i;  // threads of one number differ by their i alone
    for (int round = 0; i < mix_threads && round < rounds; ++round) x = mixed(x, literal_factor, literal_term);
    all[i] = i < mix_threads ? x + i : all[i - mix_threads] + mix_threads;
  }
  return all;
}

// ---- prediction -----------------------------------------------------------------------------------------------------

/// Requests for one load of a warp: one for each different word.
int requests(Index index, unsigned distinct) {
  bool wanted[slots] = {};
  for (unsigned lane = 0; lane < 32; ++lane) wanted[first_slot(index, 0, lane, 32, distinct)] = true;
  return int(std::count(wanted, wanted + slots, true));
}

// ---- the experiment -------------------------------------------------------------------------------------------------

using Kernel = void (*)(Reads);

struct Case {
  Key key;
  Index index;
  Kernel kernel;
  unsigned distinct;
};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (unsigned n : {1, 2, 4, 8, 16, 32})
    cases.push_back({{"", "distinct words a warp", std::to_string(n)}, Index::lane, read_constant<Index::lane>, n});
  cases.push_back({{"the text's index by block"}, Index::block, read_constant<Index::block>, 1});
  cases.push_back({{"the text's index by thread"}, Index::thread, read_constant<Index::thread>, 16});
  return cases;
}

void set_table(const std::vector<unsigned>& words) {
  CUDA_CHECK(cudaMemcpyToSymbol(table, words.data(), words.size() * sizeof(unsigned)));
}

struct Reading {
  unsigned blocks, threads;
  int rounds;
  DeviceBuffer<unsigned> out{size_t(blocks) * threads}, words{table_content()};
  DeviceBuffer<long long> cycles{blocks};

  void launch(Kernel kernel, unsigned distinct) {
    kernel<<<blocks, threads>>>({out.data(), cycles.data(), words.data(), distinct, 1, rounds});
  }
  bool right(Kernel kernel, Index index, unsigned distinct) {
    set_table(table_content());
    out.poison();
    launch(kernel, distinct);
    CUDA_CHECK_LAUNCH();
    return out.to_host() == expected_sums(index, blocks, threads, distinct, rounds);
  }
  /// Cycles for each load, as the first warp of every block saw them in the second of two launches.
  Statistics cycles_a_load(Kernel kernel, unsigned distinct) {
    launch(kernel, distinct);
    launch(kernel, distinct);
    CUDA_CHECK_LAUNCH();
    std::vector<double> of_blocks;
    for (long long of_block : cycles.to_host()) of_blocks.push_back(double(of_block) / (double(rounds) * pieces));
    return summarize(of_blocks);
  }
};

/// Cycles a step of a walk. Warm: after two whole rounds. Cold (`flush` given): each step is the first to touch its
/// line since the table was written anew, which empties the constant caches, and the L2 was flushed. Throws unless
/// every walk ends where it should.
Statistics walk(bool in_constant, const Path& path, const ColdCache* flush, int repeats) {
  const int untimed = flush ? 4 : 2 * int(path.nodes());  // 4: fetches the code, and the translation of the page
  const int timed = flush ? int(path.nodes()) - untimed : std::max(512, int(path.nodes()));
  const DeviceBuffer<unsigned> words(path.words());
  const char* const begin = reinterpret_cast<const char*>(words.data());
  DeviceBuffer<unsigned> end(1);
  DeviceBuffer<long long> cycles(1);
  std::vector<double> all(repeats);
  for (double& each : all) {
    set_table(path.words());
    end.poison();
    if (flush) flush->flush();
    (in_constant ? walk_table<true> : walk_table<false>)<<<1, 1>>>(begin, untimed, timed, end.data(), cycles.data());
    CUDA_CHECK_LAUNCH();
    require_right(end.to_host()[0] == path.offset_after(untimed + timed), "the end of a walk");
    each = double(cycles.to_host()[0]) / timed;
  }
  return summarize(all);
}

void launch_mix(bool from_constant, const DeviceBuffer<unsigned>& out, int rounds) {
  (from_constant ? mix<true> : mix<false>)<<<unsigned(out.size() / mix_threads), mix_threads>>>(out.data(), rounds);
}
bool mix_right(bool from_constant, DeviceBuffer<unsigned>& out, int rounds) {
  const unsigned same[] = {literal_factor, literal_term};
  CUDA_CHECK(cudaMemcpyToSymbol(factors, same, sizeof same));
  out.poison();
  launch_mix(from_constant, out, rounds);
  CUDA_CHECK_LAUNCH();
  return out.to_host() == expected_mixes(out.size(), rounds);
}

const Claim serialised{"01.6",
                       "constant reads are one request if uniform, else serialised; a miss is as slow as global",
                       "lecture", "1/16 of the traffic"};
const Claim no_gain{"01.7", "replacing a literal by __constant__ gains nothing", "lecture", "no figure"};

}  // namespace

void constant(const Run& run) {
  const int rounds = run.quick ? 64 : 256;
  run.report.begin("constant", std::to_string(rounds * int(pieces)) +
                                   " loads a thread from 1 KiB of constants; walks through up to " +
                                   bytes_text(longest.bytes));
  const std::string limit =
      "a file holds 64 KiB of constants; of a word more nvcc says \"File uses too much global constant data\"";
  if (!run.device) {
    Table reads(run.report, "different words a warp", {predicted("requests", "requests", "requests", 0)});
    for (const Case& c : all_cases()) reads.row(c.key, {double(requests(c.index, c.distinct))});
    reads.print();
    run.report.note(limit);
    return run.report.left_out("time of reads, cycles of hits and misses, literals", {serialised, no_gain});
  }

  // one warp on each multiprocessor shows what it waits for; many show what the caches can serve
  const unsigned multiprocessors = run.device->prop.multiProcessorCount;
  Reading one{multiprocessors, 32, rounds}, full{multiprocessors * 4, 256, rounds};
  Table reads(
      run.report, "different words a warp",
      {predicted("requests", "requests", "requests", 0),
       measured("cycles a load, one warp", "time a load", "cycles", 1), measured("ms, full GPU", "time", "ms", 4),
       shown("spread"), shown("to 1 word"), measured("ms, from global", "time from global memory", "ms", 4)});
  std::vector<Statistics> ms;
  for (const Case& c : all_cases()) {
    require_right(one.right(c.kernel, c.index, c.distinct) && full.right(c.kernel, c.index, c.distinct) &&
                      full.right(read_global, Index::lane, c.distinct),
                  "constant reads, " + c.key.name + c.key.at);
    const Statistics cycles = one.cycles_a_load(c.kernel, c.distinct);
    ms.push_back(time_device(run.measuring, [&] { full.launch(c.kernel, c.distinct); }));
    Cell global_ms;
    if (c.index == Index::lane) global_ms = time_device(run.measuring, [&] { full.launch(read_global, c.distinct); });
    CUDA_CHECK_LAUNCH();
    reads.row(c.key, {double(requests(c.index, c.distinct)), cycles, ms.back(), spread_text(ms.back()),
                      times(ms.back().median / ms[0].median), global_ms});
  }
  reads.print();
  run.report.note(
      "the text counts by half-warps of 16 threads, as compute capability 1.x did; a warp is served as a whole today");

  const ColdCache cold(run.device->l2_bytes());
  Table walks(run.report, "one thread, each load waits for the last",
              {measured("cycles a load", "latency", "cycles", 1), shown("spread")});
  const auto walk_row = [&](const Key& key, bool in_constant, const Path& path, const ColdCache* flush) {
    const Statistics cycles = walk(in_constant, path, flush, run.quick ? 5 : 11);
    walks.row(key, {cycles, spread_text(cycles)});
    return cycles;
  };
  Statistics hit{};
  for (unsigned bytes = 512; bytes <= 64 << 10; bytes *= 2) {
    const Path path{std::min(bytes, longest.bytes), longest.stride};
    const Statistics cycles =
        walk_row({"constant, again and again, bytes", "bytes", std::to_string(path.bytes)}, true, path, nullptr);
    if (bytes == 1024) hit = cycles;
  }
  const Statistics miss = walk_row({"constant, first touch"}, true, first_touches, &cold);
  walk_row({"global, again and again past L1"}, false, first_touches, nullptr);
  const Statistics global_miss = walk_row({"global, first touch"}, false, first_touches, &cold);
  walks.print();

  const int mix_rounds = run.quick ? 512 : 4096;
  DeviceBuffer<unsigned> mixes(multiprocessors * 8 * mix_threads);
  Table two_factors(
      run.report, "two factors from",
      {counted("registers", "registers", "registers", 0), measured("median ms", "time", "ms", 4), shown("spread")});
  const auto mix_row = [&](const std::string& name, bool from_constant) {
    require_right(mix_right(from_constant, mixes, mix_rounds), name);
    cudaFuncAttributes attributes;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, from_constant ? mix<true> : mix<false>));
    const Statistics time = time_device(run.measuring, [&] { launch_mix(from_constant, mixes, mix_rounds); });
    CUDA_CHECK_LAUNCH();
    two_factors.row({name}, {double(attributes.numRegs), time, spread_text(time)});
    return time;
  };
  const Statistics literal = mix_row("literals", false), from_constant = mix_row("__constant__", true);
  two_factors.print();
  run.report.note("constant memory of this device: " + bytes_text(double(run.device->prop.totalConstMem)) + "; " +
                  limit);

  // Serialised: 32 words take twice as long as 16, whatever the first one costs. As slow as global memory: both cold,
  // within the tolerance that any factor has.
  const Statistics &one_word = ms[0], &half = ms[4], &all = ms[5];
  Judgement judged = judge_ratio(all, half, 2);
  if (judged.verdict == Verdict::holds && miss.median < (1 - stated_factor_tolerance) * global_miss.median)
    judged.verdict = Verdict::holds_by_less;
  if (!(all.low > one_word.high) || !(miss.low > hit.high)) judged.verdict = Verdict::does_not_hold;
  judged.value = all.median / one_word.median;
  judged.here = "32 words take " + times(judged.value) + " as long as 1 and " + times(all.median / half.median) +
                " as long as 16; hit " + fixed(hit.median, 0) + ", first touch " + fixed(miss.median, 0) +
                ", of global memory " + fixed(global_miss.median, 0) + " cycles";
  run.report.claim(serialised, judged);
  // 2%: by so much do launches of one kernel differ from run to run
  run.report.claim(no_gain, judge_no_gain(literal, from_constant, 0.02));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("constant: a warp wants as many words as it is asked to") {
  for (unsigned distinct = 1; distinct <= 32; ++distinct) CHECK(requests(Index::lane, distinct) == int(distinct));
  for (const Case& c : all_cases()) CHECK(requests(c.index, c.distinct) == int(c.distinct));
  for (unsigned slot = 0; slot < slots; ++slot)  // all move on by as much, and stay within their 32 words
    for (unsigned step : {1, 5, 31}) CHECK((next_slot(slot, step) + slots - slot) % slots == step);
}

TEST_CASE("constant: a walk visits every node once and stays in the table") {
  for (Path path : {Path{64, 64}, Path{128, 64}, Path{192, 64}, Path{1024, 64}, longest, first_touches}) {
    CAPTURE(path.bytes);
    const std::vector<unsigned> words = path.words();
    std::vector<bool> seen(path.nodes(), false);
    unsigned at = 0;
    for (unsigned step = 0; step < path.nodes(); ++step) {
      REQUIRE(at == path.offset_after(step));
      REQUIRE(at % path.stride == 0);
      REQUIRE(at < path.bytes);
      CHECK_FALSE(seen[at / path.stride]);
      seen[at / path.stride] = true;
      at = words[at / sizeof(unsigned)];
    }
    CHECK(at == 0);
  }
}

TEST_CASE("constant: every read sums the right words") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1, 3, 1009})
    for (unsigned threads : {1, 31, 33, 256}) {
      CAPTURE(blocks);
      CAPTURE(threads);
      Reading reading{blocks, threads, 37};
      for (const Case& c : all_cases()) CHECK(reading.right(c.kernel, c.index, c.distinct));
      for (unsigned distinct : {1, 3, 16, 32}) {
        CHECK(reading.right(read_constant<Index::lane>, Index::lane, distinct));
        CHECK(reading.right(read_global, Index::lane, distinct));
      }
    }
}

TEST_CASE("constant: walks end where they should") {
  if (skip_without_gpu()) return;
  const ColdCache cold(1 << 20);
  for (bool in_constant : {true, false}) {
    for (Path path : {Path{64, 64}, Path{192, 64}, longest, first_touches})
      CHECK(walk(in_constant, path, nullptr, 2).low > 0);
    CHECK(walk(in_constant, first_touches, &cold, 2).low > 0);
  }
}

TEST_CASE("constant: literals and constants give the same") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1, 31, 1009})
    for (int rounds : {1, 2, 37})
      for (bool from_constant : {false, true}) {
        DeviceBuffer<unsigned> out(size_t(blocks) * mix_threads);
        CHECK(mix_right(from_constant, out, rounds));
      }
}
