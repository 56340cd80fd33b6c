// divergence: a warp whose threads disagree about an `if` goes both ways, one after the other. The guide's first
// reduction splits every warp in its first step; the second packs the adding threads together, and diverges from the
// fourth step on. Look at the divergent warps of the three, counted by the warps themselves, at how few steps that
// touches, and at what else a step costs: its barrier, which the last warp can do without, since it waits for nobody.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"
#include "reduce_steps.hpp"

namespace {

constexpr unsigned max_threads = 1024;
constexpr unsigned full_warp = 0xffffffff;

// ---- kernels --------------------------------------------------------------------------------------------------------

// The text's reductions in shared memory; in each step every warp votes, and writes down how many of its threads add.
__global__ void reduce_and_vote(unsigned* sum, unsigned* adding, const unsigned* in, Reduction which) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x, n = blockDim.x;
  word[tid] = in[tid];
  __syncthreads();
  for (unsigned k = 0; k < step_count(n); ++k) {
    const Step step = step_of(which, k, tid, n);
    const unsigned votes = __ballot_sync(full_warp, step.active);
    if (tid % 32 == 0) adding[k * (n / 32) + tid / 32] = __popc(votes);
    if (step.active) word[step.left] += word[step.right];
    __syncthreads();
  }
  if (tid == 0) *sum = word[0];
}

constexpr unsigned barriers_a_turn = 16;  // so that the loop around them hardly counts

// Warps that touch no memory and do nothing but meet.
__global__ void meet(long long* cycles, unsigned turns) {
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn)
#pragma unroll
    for (unsigned i = 0; i < barriers_a_turn; ++i) __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

constexpr unsigned last_steps = 5;  // at descending strides 16 to 1 the first warp adds nothing but its own words
struct Sum {
  long long cycles;
  unsigned total;
};

// One block sums its words in shared memory again and again, each time one more than the last. Each step ends with the
// block's barrier, or the last five with one of the warp only.
template <Reduction which, bool last_warp_alone>
__global__ void sum_often(Sum* result, const unsigned* in, unsigned times) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x, n = blockDim.x, steps = step_count(n);
  const unsigned mine = in[tid];
  unsigned total = 0;
  __syncthreads();
  const long long start = clock64();
  for (unsigned time = 0; time < times; ++time) {
    word[tid] = mine + time;
    __syncthreads();
    for (unsigned k = 0; k < steps; ++k) {
      const Step step = step_of(which, k, tid, n);
      if (step.active) word[step.left] += word[step.right];
      if (last_warp_alone && k + last_steps >= steps)
        __syncwarp();
      else
        __syncthreads();
    }
    total += word[tid];  // of thread 0 it is the sum; each thread reads the word that none but it writes next
  }
  if (tid == 0) *result = {clock64() - start, total};
}

struct Way {
  std::string name;
  void (*kernel)(Sum*, const unsigned*, unsigned);
  bool last_warp_alone;
};
const Way ways[] = {
    {"modulo", sum_often<Reduction::modulo, false>, false},
    {"strided", sum_often<Reduction::strided, false>, false},
    {"descending", sum_often<Reduction::descending, false>, false},
    {"descending, __syncwarp at last", sum_often<Reduction::descending, true>, true},
};

// ---- prediction -----------------------------------------------------------------------------------------------------

/// Threads of each warp that add in step k.
std::vector<unsigned> adding_threads(Reduction which, unsigned k, unsigned n) {
  std::vector<unsigned> adding(n / 32, 0);
  for (unsigned tid = 0; tid < n; ++tid) adding[tid / 32] += step_of(which, k, tid, n).active;
  return adding;
}

/// Threads that add in a step, the warps that they are in, and those of these warps in which others do not add.
struct Activity {
  unsigned threads = 0, warps = 0, divergent = 0;

  explicit Activity(const std::vector<unsigned>& adding) {
    for (unsigned n : adding) threads += n, warps += n > 0, divergent += n > 0 && n < 32;
  }
};

std::vector<unsigned> divergent_warps(Reduction which, unsigned n) {
  std::vector<unsigned> all;
  for (unsigned k = 0; k < step_count(n); ++k) all.push_back(Activity(adding_threads(which, k, n)).divergent);
  return all;
}
/// Barriers of the block in one sum of n words: behind the words' store, and behind each step that has one.
unsigned barriers(const Way& way, unsigned n) { return 1 + step_count(n) - (way.last_warp_alone ? last_steps : 0); }

// ---- the experiment -------------------------------------------------------------------------------------------------

/// n words, and their sum modulo 2^32, as on the device.
struct Words {
  std::vector<unsigned> all;
  unsigned sum = 0;

  explicit Words(unsigned n) {
    for (unsigned i = 0; i < n; ++i) all.push_back(0x9e3779b1u * (i + 1)), sum += all[i];
  }
};

/// How many threads of each warp added, step by step, as the warps counted themselves. Throws if the sum is wrong.
std::vector<std::vector<unsigned>> counted_adding(Reduction which, unsigned n) {
  const Words words(n);
  const DeviceBuffer<unsigned> in(words.all);
  DeviceBuffer<unsigned> sum(1), adding(step_count(n) * (n / 32));
  sum.poison();
  adding.poison();
  reduce_and_vote<<<1, n>>>(sum.data(), adding.data(), in.data(), which);
  CUDA_CHECK_LAUNCH();
  require_right(sum.to_host()[0] == words.sum, "reduce_and_vote, " + reduction_names[int(which)]);
  const std::vector<unsigned> all = adding.to_host();
  std::vector<std::vector<unsigned>> steps;
  for (auto at = all.begin(); at != all.end(); at += n / 32) steps.emplace_back(at, at + n / 32);
  return steps;
}

/// Cycles that a barrier of so many warps takes.
Statistics barrier_cycles(int repeats, unsigned warps, unsigned turns) {
  DeviceBuffer<long long> cycles(repeats);
  meet<<<1, 32 * warps>>>(cycles.data(), turns);  // to warm up
  cycles.poison();
  for (int r = 0; r < repeats; ++r) meet<<<1, 32 * warps>>>(cycles.data() + r, turns);
  CUDA_CHECK_LAUNCH();
  std::vector<double> each;
  for (long long c : cycles.to_host())
    require_right(c > 0, "meet wrote no cycles"), each.push_back(double(c) / (turns * barriers_a_turn));
  return summarize(each);
}

/// Cycles that one block takes for a sum of n words. Throws if any total is wrong.
Statistics sum_cycles(int repeats, const Way& way, unsigned n, unsigned times) {
  const Words words(n);
  const DeviceBuffer<unsigned> in(words.all);
  DeviceBuffer<Sum> results(repeats);
  way.kernel<<<1, n>>>(results.data(), in.data(), times);  // to warm up
  results.poison();
  for (int r = 0; r < repeats; ++r) way.kernel<<<1, n>>>(results.data() + r, in.data(), times);
  CUDA_CHECK_LAUNCH();
  const unsigned total = times * words.sum + n * (times * (times - 1) / 2);
  std::vector<double> each;
  for (const Sum& result : results.to_host())
    require_right(result.total == total, "sum_often, " + way.name), each.push_back(double(result.cycles) / times);
  return summarize(each);
}

}  // namespace

void divergence(const Run& run) {
  constexpr unsigned n = 256;  // the text's block
  run.report.begin("divergence", "one block of 256 threads sums 256 words, 1 KiB, in 8 steps");
  Table table(
      run.report, "reduction, step",
      {predicted("adding threads", "adding threads", "threads", 0), counted("counted", "adding threads", "threads", 0),
       predicted("their warps", "their warps", "warps", 0), counted("counted", "their warps", "warps", 0),
       predicted("divergent", "divergent warps", "warps", 0), counted("counted", "divergent warps", "warps", 0)});
  for (Reduction which : reductions) {
    const auto seen = run.device ? counted_adding(which, n) : std::vector<std::vector<unsigned>>{};
    for (unsigned k = 0; k < step_count(n); ++k) {
      const Activity expected(adding_threads(which, k, n));
      std::vector<Cell> cells{double(expected.threads), {}, double(expected.warps), {}, double(expected.divergent), {}};
      if (run.device) {
        const Activity is(seen[k]);
        cells[1] = double(is.threads), cells[3] = double(is.warps), cells[5] = double(is.divergent);
      }
      table.row({reduction_names[int(which)], "step", std::to_string(k + 1)}, cells);
    }
  }
  table.print();
  if (!run.device) return run.report.left_out("the warps' own count, cycles of barriers and of whole sums");

  const unsigned turns = run.quick ? 8 : 64;
  Table meeting(run.report, "warps in the block",
                {measured("cycles a barrier", "cycles a barrier", "cycles", 1), shown("spread")});
  for (unsigned warps = 1; warps <= 32; warps *= 2) {
    const Statistics cycles = barrier_cycles(run.measuring.repeats, warps, turns);
    meeting.row({"", "warps", std::to_string(warps)}, {cycles, spread_text(cycles)});
  }
  meeting.print();

  Table sums(run.report, "one block's sum, threads",
             {predicted("barriers", "barriers", "barriers", 0), measured("cycles", "cycles a sum", "cycles", 0),
              shown("spread"), shown("to modulo")});
  std::string saved;
  for (unsigned threads : {256u, 1024u}) {
    std::vector<Statistics> all;
    for (const Way& way : ways) {
      all.push_back(sum_cycles(run.measuring.repeats, way, threads, turns));
      sums.row({way.name, "threads", std::to_string(threads)},
               {double(barriers(way, threads)), all.back(), spread_text(all.back()),
                times(all.back().median / all[0].median)});
    }
    saved += (saved.empty() ? "" : ", ") + fixed((all[2].median - all[3].median) / last_steps, 1) +
             " cycles in a block of " + std::to_string(threads);
  }
  sums.print();
  run.report.note("each of the five barriers that __syncwarp replaces costs " + saved);
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("divergence: the strided reduction goes as the text walks through it") {
  using Warps = std::vector<unsigned>;
  CHECK(adding_threads(Reduction::strided, 0, 256) == Warps{32, 32, 32, 32, 0, 0, 0, 0});  // warps 0 to 3
  CHECK(adding_threads(Reduction::strided, 1, 256) == Warps{32, 32, 0, 0, 0, 0, 0, 0});    // warps 0 and 1
  CHECK(adding_threads(Reduction::strided, 2, 256) == Warps{32, 0, 0, 0, 0, 0, 0, 0});     // warp 0
  for (unsigned tid = 0; tid < 256; ++tid)  // the first 16 threads of warp 0
    CHECK(step_of(Reduction::strided, 3, tid, 256).active == (tid < 16));
  CHECK(divergent_warps(Reduction::strided, 256) == Warps{0, 0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("divergence: the modulo reduction splits every warp in its first five steps") {
  CHECK(divergent_warps(Reduction::modulo, 256) == std::vector<unsigned>{8, 8, 8, 8, 8, 4, 2, 1});
  CHECK(adding_threads(Reduction::modulo, 0, 256) == std::vector<unsigned>(8, 16));
  CHECK(adding_threads(Reduction::modulo, 4, 256) == std::vector<unsigned>(8, 1));
  CHECK(Activity({0, 1, 31, 32}).divergent == 2);  // some of its threads add, but not all
  CHECK(Activity({0, 1, 31, 32}).warps == 3);
}

TEST_CASE("divergence: descending strides diverge as little as strided indices and all do the same work") {
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (unsigned k = 0; k < step_count(n); ++k) {
      CHECK(adding_threads(Reduction::descending, k, n) == adding_threads(Reduction::strided, k, n));
      for (Reduction which : reductions) CHECK(Activity(adding_threads(which, k, n)).threads == n >> (k + 1));
    }
}

TEST_CASE("divergence: the warps count what was predicted") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (Reduction which : reductions) {
      const std::vector<std::vector<unsigned>> seen = counted_adding(which, n);
      for (unsigned k = 0; k < step_count(n); ++k) CHECK(seen[k] == adding_threads(which, k, n));
    }
}

TEST_CASE("divergence: every way of waiting gives the sum") {
  if (skip_without_gpu()) return;
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const Way& way : ways)
      for (unsigned times : {1u, 2u, 7u}) CHECK_NOTHROW(sum_cycles(2, way, n, times));
  for (unsigned warps : {1u, 3u, 32u}) CHECK(barrier_cycles(3, warps, 5).low > 0);
}
