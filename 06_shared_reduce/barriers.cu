// barriers: what does __syncthreads() protect, and what does it cost? "Access to shared memory must
// be synchronized using __syncthreads()", says the wiki; this "may affect performance by forcing the
// SM to idle frequently" [LC 1]. Both are tried: blocks that reverse their words with the barrier
// between store and load, and without; warps that work by themselves, with a barrier that nobody
// needs, and without.
//
// Look at which blocks need the barrier. Then look at the last row: a barrier is expensive where one
// warp keeps the others waiting, and no other block is there to work meanwhile.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o barriers barriers.cu ../common/*.cpp
//
//   1  reverse            words go through shared memory, with a barrier between store and load
//   2  unguarded_reverse  1 without the barrier: a race, on purpose
//   3  work_in_rounds     warps that work by themselves; with or without a barrier after each round
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr unsigned max_threads = 1024;

// ---- kernels ----

// Each thread stores its word and takes the one that the thread opposite stored: a thread of another
// warp, if the block has more than one.
__global__ void reverse(unsigned* out, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  word[tid] = in[i];
  __syncthreads();  // all words of the block are there
  out[i] = word[blockDim.x - 1 - tid];
}

// A warp loads as soon as it has stored, whether the opposite warp has stored or not. Shared memory
// then still holds what an earlier block has left there.
__global__ void unguarded_reverse(unsigned* out, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  word[tid] = in[i];
  out[i] = word[blockDim.x - 1 - tid];  // a race
}

constexpr unsigned factor = 1664525, addend = 1013904223;  // any would do

// A round has `steps` steps, each of which needs the one before. In each round one warp, the next
// every time, takes `more` steps. No thread ever needs another's word. With the barrier all warps of
// a block wait for the last one after each round.
template <bool barrier>
__global__ void work_in_rounds(unsigned* out, const unsigned* in, unsigned rounds, unsigned steps,
                               unsigned more) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warps = blockDim.x / 32;
  unsigned long_round = threadIdx.x / 32;
  unsigned x = in[i];
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned count = steps;
    if (round == long_round) {
      count += more;
      long_round += warps;
    }
#pragma unroll 1
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
    if constexpr (barrier) __syncthreads();  // for nothing
  }
  out[i] = x;
}

// ---- what is right ----

/// The index of the word opposite to word i, in the same block.
__host__ __device__ size_t opposite(size_t i, unsigned threads) {
  return i - i % threads + (threads - 1 - i % threads);
}

/// x -> factor * x + addend, modulo 2^32.
struct Step {
  unsigned factor, addend;
  __host__ __device__ unsigned of(unsigned x) const { return factor * x + addend; }
};

/// `count` steps in one: found by doubling, not by making them as the kernel does.
Step steps_in_one(unsigned count) {
  Step all{1, 0};
  for (Step some{factor, addend}; count; count /= 2) {
    if (count % 2) all = {some.factor * all.factor, some.of(all.addend)};
    some = {some.factor * some.factor, some.of(some.addend)};
  }
  return all;
}

/// What the warps of a launch do.
struct Work {
  unsigned warps, blocks;  // of a block; of the launch
  unsigned rounds, steps, more = 0;

  size_t threads() const { return size_t(blocks) * warps * 32; }
  /// Its rounds, and those that are long for it.
  unsigned steps_of_warp(unsigned warp) const {
    return rounds * steps + (rounds + warps - 1 - warp) / warps * more;
  }
};

struct StepsOfWarps {
  Step of[max_threads / 32];
};

Benchmark benchmark_of(const std::string& name, const Work& work, bool barrier,
                       const GuardedBuffer<unsigned>& out, const DeviceBuffer<unsigned>& in) {
  StepsOfWarps right;
  for (unsigned warp = 0; warp < work.warps; ++warp)
    right.of[warp] = steps_in_one(work.steps_of_warp(warp));
  const auto kernel = barrier ? work_in_rounds<true> : work_in_rounds<false>;
  const auto launch = [=] {
    kernel<<<work.blocks, work.warps * 32>>>(out, in, work.rounds, work.steps, work.more);
  };
  const auto worked = [right, n = work.threads(), warps = work.warps] __device__(size_t i) {
    return i < n ? right.of[i / 32 % warps].of(hash(i)) : poisoned;
  };
  return {name, launch, equals(out, worked)};
}

// ---- the experiment ----

/// Words that were wrong without a barrier.
struct Wrong {
  unsigned long long of_one_warp = 0, of_more = 0;
};
Wrong count_wrong_words(Run& run) {
  constexpr unsigned n = 1 << 20;
  size_t seed = 0;
  const auto wrong_words = [&](void (*kernel)(unsigned*, const unsigned*), unsigned threads) {
    seed += n;  // words that no earlier launch has left in shared memory
    const auto in = filled<unsigned>(n, [s = seed] __device__(size_t i) { return hash(s + i); });
    const GuardedBuffer<unsigned> out(n);
    kernel<<<n / threads, threads>>>(out, in);
    CUDA_CHECK_LAUNCH();
    return sum_of(n, [=, s = seed, word = out.data()] __device__(size_t i) {
      return word[i] != hash(s + opposite(i, threads));
    });
  };
  Table table("threads per block", {"wrong words with a barrier", "without", "of all"});
  Wrong wrong;
  for (const unsigned threads : {32, 64, 128, 256, 512, 1024}) {
    const auto with = wrong_words(reverse, threads);
    if (with) throw WrongResult("reverse, " + std::to_string(threads) + " threads");
    const auto without = wrong_words(unguarded_reverse, threads);
    (threads > 32 ? wrong.of_more : wrong.of_one_warp) += without;
    table.row(std::to_string(threads), {with, without, percent(double(without) / n)});
  }
  run.print(table);
  run.note(
      "a block of 32 is one warp: __syncwarp() will do there, and without it nothing is promised");
  return wrong;
}

/// A pair of rows: the same work without a barrier and with one.
struct Pair {
  std::string name;
  Work work;
};

std::vector<Pair> pairs_of(const Run& run) {
  const unsigned sms = unsigned(run.gpu.multiProcessorCount);
  const unsigned all_steps = run.quick ? 4096 : 16384;
  std::vector<Pair> pairs;
  for (const unsigned threads : {256u, 1024u})
    for (const unsigned steps : {4u, 8u, 16u, 32u, 64u, 128u, 256u})
      pairs.push_back({"blocks of " + std::to_string(threads) + ", " + std::to_string(steps),
                       {threads / 32, run.resident_blocks(threads), all_steps / steps, steps}});
  pairs.push_back({"one of 256, 8", {8, sms, all_steps / 8, 8}});
  pairs.push_back({"one of 256, 8 and 32", {8, sms, all_steps / 8, 8, 24}});
  return pairs;
}

std::string apart(const Pair& pair) { return pair.name + ", apart"; }
std::string together(const Pair& pair) { return pair.name + ", together"; }

}  // namespace

void barriers(Run& run) {
  run.title("blocks reverse their words, and rounds of work end at a barrier");
  const Wrong wrong = count_wrong_words(run);

  const std::vector<Pair> pairs = pairs_of(run);
  const size_t threads = size_t(run.gpu.multiProcessorCount) * run.gpu.maxThreadsPerMultiProcessor;
  const auto in = filled<unsigned>(threads, [] __device__(size_t i) { return hash(i); });
  const GuardedBuffer<unsigned> out(threads);
  std::vector<Benchmark> benchmarks;
  for (const Pair& pair : pairs) {
    benchmarks.push_back(benchmark_of(apart(pair), pair.work, false, out, in));
    benchmarks.push_back(benchmark_of(together(pair), pair.work, true, out, in));
  }
  const Timings timed = run.timer.interleaved(benchmarks);

  Table table("on each SM, steps of a round", {"ns per round, apart", "together", "of apart"});
  std::vector<Interval> factors;
  for (const Pair& pair : pairs) {
    const auto ns = [&](const std::string& name) {
      return timed[name].median() * 1e6 / pair.work.rounds;
    };
    const Interval factor = ratio(timed[together(pair)], timed[apart(pair)]);
    factors.push_back(factor);
    table.row(pair.name, {ns(apart(pair)), ns(together(pair)), factor});
  }
  run.print(table);
  run.note(
      "a step is a multiplication and an addition; `blocks` fill the SM, `one` is alone on it");
  run.note("8 and 32: in each round one warp has 32 steps and the others 8; each time another one");

  run.claim_each({"06.5", "__syncthreads may slow a kernel by often forcing the SM to idle",
                  "[LC 1] \"forcing the SM to idle frequently\""},
                 factors, "time of together / apart, all rows", can_be_faster());
  run.observed({"06.8", "access to shared memory must be synchronised by __syncthreads",
                "[LC 1] \"must be synchronized using __syncthreads()\""},
               wrong.of_more > 0,
               "without: " + std::to_string(wrong.of_more) +
                   " wrong words in blocks of more than one warp, " +
                   std::to_string(wrong.of_one_warp) + " of one; with: none");
}
SAMPLE(5, barriers, "what __syncthreads() protects, and what it costs");

TEST_CASE("barriers: many steps in one are the steps of the loop") {
  for (const unsigned count : {0u, 1u, 2u, 3u, 31u, 1000u}) {
    unsigned x = 12345;
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
    CHECK(steps_in_one(count).of(12345) == x);
  }
}

TEST_CASE("barriers: each round is long for one warp, the next every time") {
  for (const unsigned warps : {1u, 3u, 8u, 32u})
    for (const unsigned rounds : {0u, 1u, 7u, 64u}) {
      std::vector<unsigned> steps(warps, 0);
      for (unsigned round = 0; round < rounds; ++round)
        for (unsigned warp = 0; warp < warps; ++warp) steps[warp] += round % warps == warp ? 32 : 8;
      for (unsigned warp = 0; warp < warps; ++warp)
        CHECK(Work{warps, 1, rounds, 8, 24}.steps_of_warp(warp) == steps[warp]);
    }
}

TEST_CASE("barriers: every block is reversed, and nothing is written behind") {
  if (skip_without_gpu()) return;
  // a lone thread races nobody: so racecheck has nothing to say of unguarded_reverse
  for (const unsigned threads : {1u, 32u, 33u, 97u, 256u, 1000u, 1024u}) {
    CAPTURE(threads);
    constexpr unsigned blocks = 7;
    std::vector<unsigned> right(blocks * threads);
    for (size_t i = 0; i < right.size(); ++i) right[i] = hash(i);
    const DeviceBuffer<unsigned> in(right);
    const GuardedBuffer<unsigned> out(right.size());
    (threads == 1 ? unguarded_reverse : reverse)<<<blocks, threads>>>(out, in);
    CUDA_CHECK_LAUNCH();
    for (unsigned block = 0; block < blocks; ++block)
      std::reverse(right.begin() + block * threads, right.begin() + (block + 1) * threads);
    CHECK(out.to_host() == right);
    CHECK(guard_error(out) == "");
  }
}

TEST_CASE("barriers: every warp makes all its steps, with a barrier and without") {
  if (skip_without_gpu()) return;
  for (const unsigned warps : {1u, 3u, 8u, 32u})
    for (const unsigned rounds : {0u, 1u, 7u, 64u})
      for (const bool barrier : {false, true}) {
        CAPTURE(warps);
        CAPTURE(rounds);
        const Work work{warps, 5, rounds, 8, 24};
        const auto in =
            filled<unsigned>(work.threads(), [] __device__(size_t i) { return hash(i); });
        const GuardedBuffer<unsigned> out(work.threads());
        CHECK_NOTHROW(require_right(benchmark_of("work", work, barrier, out, in)));
      }
}
