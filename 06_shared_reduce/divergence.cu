// divergence: the guide walks through a block of 256 threads, warp by warp [KP]. In its `reduce`
// every warp is divergent from the first step on; its `reduce1` packs the adding threads together,
// and no warp is divergent before the fourth. Two things to look at:
//   - The divergent warps of its three reductions, step by step, as the warps count them.
//   - How little that changes of the cycles that a sum takes. What changes them is the number of
//     steps, each with its barrier, and the banks. (`branches` has paths that do cost their sum.)
//
//   cmake -S 06_shared_reduce -B build/divergence -DEXPERIMENTS=divergence
//   cmake --build build/divergence && build/divergence/06_shared_reduce divergence
//
//   1  vote_modulo      every 2s-th thread adds: the text's `reduce`
//   2  vote_strided     the first threads add words that lie 2s apart: its `reduce1`
//   3  vote_descending  the first threads add words side by side: its `reduce2`
//   4  sum_mask         1 without votes, over and over; with a mask, so that the division is gone
//   5  sum_strided      2, over and over
//   6  sum_descending   3, over and over
//   7  sum_last_warp    6, but the last warp that adds does not wait for the others
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "banks.hpp"

using namespace samples;

namespace {

constexpr unsigned max_threads = 1024;
constexpr unsigned full_warp = 0xffffffff;

// ---- kernels: a block sums its words, one a thread; it has 32, 64 ... 1024 threads ----

// [vote_modulo]
// In each step s every warp votes which of its lanes add, and notes how many. At s = 1 it is every
// other lane of every warp.
__global__ void vote_modulo(unsigned* out, unsigned* adding, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const bool adds = tid % (2 * s) == 0;
    const unsigned votes = __ballot_sync(full_warp, adds);
    if (tid % 32 == 0) adding[tid / 32] = __popc(votes);
    adding += blockDim.x / 32;  // the next step's
    if (adds) word[tid] += word[tid + s];
    __syncthreads();
  }
  out[tid] = word[tid];
}
// [/vote_modulo]

// The first half of the threads adds, then the first quarter: whole warps, as long as they fill
// one.
__global__ void vote_strided(unsigned* out, unsigned* adding, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned index = 2 * s * tid;
    const bool adds = index < blockDim.x;
    const unsigned votes = __ballot_sync(full_warp, adds);
    if (tid % 32 == 0) adding[tid / 32] = __popc(votes);
    adding += blockDim.x / 32;  // the next step's
    if (adds) word[index] += word[index + s];
    __syncthreads();
  }
  out[tid] = word[tid];
}

// The same threads.
__global__ void vote_descending(unsigned* out, unsigned* adding, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    const bool adds = tid < s;
    const unsigned votes = __ballot_sync(full_warp, adds);
    if (tid % 32 == 0) adding[tid / 32] = __popc(votes);
    adding += blockDim.x / 32;  // the next step's
    if (adds) word[tid] += word[tid + s];
    __syncthreads();
  }
  out[tid] = word[tid];
}

// [sum_mask]
// Each word is one more than the last time, so that a word left from then is a wrong one. Each
// thread adds up what became of its word; the first one's is the block's sum.
__global__ void sum_mask(unsigned* out, long long* cycles, const unsigned* in, unsigned times) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  const unsigned mine = in[i];
  unsigned total = 0;
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned time = 0; time < times; ++time) {
    word[tid] = mine + time;  // nobody reads it any more: all have passed the last barrier
    __syncthreads();
#pragma unroll 1
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
      if ((tid & (2 * s - 1)) == 0) word[tid] += word[tid + s];
      __syncthreads();
    }
    total += word[tid];
  }
  if (i == 0) *cycles = clock64() - start;
  out[i] = total;
}
// [/sum_mask]

// The adding lanes of a warp want words that lie 2s apart, and so share banks.
__global__ void sum_strided(unsigned* out, long long* cycles, const unsigned* in, unsigned times) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  const unsigned mine = in[i];
  unsigned total = 0;
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned time = 0; time < times; ++time) {
    word[tid] = mine + time;
    __syncthreads();
#pragma unroll 1
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
      const unsigned index = 2 * s * tid;
      if (index < blockDim.x) word[index] += word[index + s];
      __syncthreads();
    }
    total += word[tid];
  }
  if (i == 0) *cycles = clock64() - start;
  out[i] = total;
}

// Each lane has a bank of its own.
__global__ void sum_descending(unsigned* out, long long* cycles, const unsigned* in,
                               unsigned times) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  const unsigned mine = in[i];
  unsigned total = 0;
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned time = 0; time < times; ++time) {
    word[tid] = mine + time;
    __syncthreads();
#pragma unroll 1
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
      if (tid < s) word[tid] += word[tid + s];
      __syncthreads();
    }
    total += word[tid];
  }
  if (i == 0) *cycles = clock64() - start;
  out[i] = total;
}

// [sum_last_warp]
// At s = 16 to 1 one warp adds words that no other touches: it waits for its own lanes only.
__global__ void sum_last_warp(unsigned* out, long long* cycles, const unsigned* in,
                              unsigned times) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  const unsigned mine = in[i];
  unsigned total = 0;
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned time = 0; time < times; ++time) {
    word[tid] = mine + time;
    __syncthreads();
#pragma unroll 1
    for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
      if (tid < s) word[tid] += word[tid + s];
      __syncthreads();
    }
    if (tid < 32) {
#pragma unroll
      for (unsigned s = 16; s > 0; s /= 2) {
        if (tid < s) word[tid] += word[tid + s];
        __syncwarp();
      }
    }
    total += word[tid];
  }
  if (i == 0) *cycles = clock64() - start;
  out[i] = total;
}
// [/sum_last_warp]

// ---- the kernels by name ----

struct Vote {
  std::string_view key;  ///< the kernel's name
  const char* words;
  Rule which;
  void (*kernel)(unsigned*, unsigned*, const unsigned*);
};
template <auto kernel>
Vote vote(const char* words, Rule which) {
  return {name_of<kernel>(), words, which, kernel};
}
const Vote votes[] = {vote<vote_modulo>("modulo", Rule::modulo),
                      vote<vote_strided>("strided", Rule::strided),
                      vote<vote_descending>("descending", Rule::descending)};

struct Sum {
  std::string_view key;
  const char* words;
  Rule which;
  unsigned lone_steps;  ///< the last ones, which a warp makes without barriers
  void (*kernel)(unsigned*, long long*, const unsigned*, unsigned);
};
template <auto kernel>
Sum sum(const char* words, Rule which, unsigned lone_steps = 0) {
  return {name_of<kernel>(), words, which, lone_steps, kernel};
}
const Sum sums[] = {sum<sum_mask>("mask", Rule::modulo), sum<sum_strided>("strided", Rule::strided),
                    sum<sum_descending>("descending", Rule::descending),
                    sum<sum_last_warp>("descending, last warp alone", Rule::descending, 5)};

/// Steps until one word is left of n.
unsigned step_count(unsigned n) {
  unsigned steps = 0;
  while (n >> (steps + 1)) ++steps;
  return steps;
}

// ---- what is right ----

struct WordAt {
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// What a thread must find if each block sums its words so many times, each word one more than the
/// last time.
struct IsTotal {
  bool descending;
  unsigned threads, times;

  /// Ascending strides: a word's neighbours end up in it, as many as the largest power of two that
  /// divides its place in the block. Descending: every so many-th, by the least power of two that
  /// is larger than its place.
  __host__ __device__ unsigned total(size_t i) const {
    const unsigned tid = unsigned(i % threads);
    unsigned power = 1;
    while (descending ? power <= tid : power < threads && tid % (2 * power) == 0) power *= 2;
    unsigned sum = 0;
    for (unsigned k = tid; k < (descending ? threads : tid + power); k += descending ? power : 1)
      sum += times * WordAt{}(i - tid + k) + times * (times - 1) / 2;
    return sum;
  }
  __device__ bool operator()(size_t i, unsigned found) const { return found == total(i); }
};

/// A count of a warp's lanes.
struct IsCount {
  __device__ bool operator()(size_t, unsigned lanes) const { return lanes <= 32; }
};

/// A block whose warps count, for each step, how many of their lanes add.
struct Block {
  unsigned threads;
  DeviceBuffer<unsigned> in;
  Output<unsigned> out, adding;

  explicit Block(unsigned threads)
      : threads(threads),
        in(filled<unsigned>(threads, WordAt{})),
        out(threads),
        adding(step_count(threads) * (threads / 32)) {}
};

Task vote_task(const Shared<Block>& block, const Vote& vote) {
  const IsTotal right{vote.which == Rule::descending, block->threads, 1};
  return {
      std::string(vote.key),
      [block, &vote] {
        vote.kernel<<<1, block->threads>>>(block->out.data(), block->adding.data(),
                                           block->in.data());
      },
      {[block] {
         block->out.poison();
         block->adding.poison();
       },
       [block, right] { return block->out.wrong(right) + block->adding.wrong(IsCount{}); }, ""}};
}

/// Blocks that sum their words at the same time, each the words of a stretch of its own.
struct Blocks {
  unsigned count, threads, times;
  DeviceBuffer<unsigned> in;
  Output<unsigned> out;
  Output<long long> cycles{1};

  Blocks(unsigned count, unsigned threads, unsigned times)
      : count(count),
        threads(threads),
        times(times),
        in(filled<unsigned>(size_t(count) * threads, WordAt{})),
        out(in.size()) {}
};

Ref row_of(const Sum& sum, unsigned threads) { return {sum.key, double(threads)}; }

Task sum_task(const Shared<Blocks>& blocks, const Sum& sum) {
  const auto launch = [blocks, &sum] {
    sum.kernel<<<blocks->count, blocks->threads>>>(blocks->out.data(), blocks->cycles.data(),
                                                   blocks->in.data(), blocks->times);
  };
  const IsTotal right{sum.which == Rule::descending, blocks->threads, blocks->times};
  return {text(row_of(sum, blocks->threads)), launch, blocks->out.check(right)};
}

// ---- prediction ----

/// Threads of each warp that add in a step (the first is 0), of a block of n threads.
std::vector<unsigned> adding_threads(Rule which, unsigned step, unsigned n) {
  std::vector<unsigned> adding(n / 32, 0);
  for (unsigned tid = 0; tid < n; ++tid)
    adding[tid / 32] += addition(which, stride_of(which, step, n), tid, n).active;
  return adding;
}

/// Threads that add in a step, and the warps of which some lanes add and others do not.
struct Activity {
  unsigned threads = 0, divergent = 0;

  explicit Activity(const std::vector<unsigned>& adding) {
    for (const unsigned n : adding) {
      threads += n;
      divergent += n > 0 && n < 32;
    }
  }
};

/// Wavefronts of all steps beyond the one that each load and store of a warp takes at least.
int conflicts(Rule which, unsigned n) {
  Traffic all;
  for (unsigned step = 0; step < step_count(n); ++step)
    all.add(step_traffic(which, stride_of(which, step, n), n));
  return all.taken() - all.ideal;
}

/// To store the words and to meet is a step, too.
unsigned barriers_of(const Sum& sum, unsigned n) { return 1 + step_count(n) - sum.lone_steps; }

/// Cycles of a step that ends with a barrier: to load, to add, to store and to meet, and more for
/// each warp that has to issue all that and to arrive. From two sizes of a block without conflicts.
struct StepCost {
  double alone = NAN, per_warp = NAN;

  /// Cycles of a whole sum with descending strides, of blocks of 256 and of 1024 threads.
  static StepCost of(double cycles_256, double cycles_1024) {
    const double of_8 = cycles_256 / (1 + step_count(256));
    const double of_32 = cycles_1024 / (1 + step_count(1024));
    const double per_warp = (of_32 - of_8) / (32 - 8);
    return {of_8 - 8 * per_warp, per_warp};
  }
  double cycles(unsigned warps) const { return alone + per_warp * warps; }
};

/// Cycles of one block's sum; a wavefront is a cycle. It does not matter how many lanes of how many
/// warps add: those that do not sit it out. A step of the last warp alone is taken to be that of a
/// block of one warp, its barrier included.
double predicted_cycles(const Sum& sum, unsigned n, const StepCost& step) {
  return barriers_of(sum, n) * step.cycles(n / 32) + sum.lone_steps * step.cycles(1) +
         conflicts(sum.which, n);
}

/// Found on compute capability 9.0, and a test holds rows to it there; not the last warp's, whose
/// steps without a barrier take less (7 to 14% of the whole) than those of a block of one warp.
Model model_of(const Sum& sum, const Device* device) {
  return device && device->prop.major == 9 && !sum.lone_steps ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr unsigned text_threads = 256;
constexpr unsigned block_sizes[] = {128, 256, 512, 1024};
constexpr const char* divergent = "divergent warps";
constexpr const char* cycles = "cycles a sum";

/// How many threads of each warp added in a step, as the warps counted themselves.
std::vector<unsigned> counted_adding(const Vote& vote, unsigned step, unsigned threads) {
  const Shared block{Block(threads)};
  require_right(vote_task(block, vote));
  const std::vector<unsigned> all = block->adding.to_host();
  const unsigned warps = threads / 32;
  return {all.begin() + step * warps, all.begin() + (step + 1) * warps};
}

struct Counted {
  const char *metric, *unit;
  unsigned (*of)(const Activity&);
};
const Counted counts[] = {
    {"adding threads", "threads", [](const Activity& a) { return a.threads; }},
    {divergent, "warps", [](const Activity& a) { return a.divergent; }},
};

void show_votes(const Run& run) {
  std::vector<Column> columns;
  for (const Counted& what : counts) {
    columns.push_back(predicted(what.metric, what.metric, what.unit, 0));
    columns.push_back(counted("counted", what.metric, what.unit, 0));
  }
  Table table(run.report, "reduction, step", columns);
  for (const Vote& vote : votes)
    for (unsigned step = 0; step < step_count(text_threads); ++step) {
      const Ref row{vote.key, double(step + 1)};
      const Activity expected(adding_threads(vote.which, step, text_threads));
      std::vector<Cell> cells;
      for (const Counted& what : counts) {
        const Statistics seen = ask_for_table(run, row, what.metric, what.unit, [&] {
          return single(what.of(Activity(counted_adding(vote, step, text_threads))));
        });
        cells.push_back(double(what.of(expected)));
        cells.push_back(seen.median);
      }
      table.row({row.key, "step", at_text(row), std::string(vote.words) + ", " + at_text(row)},
                cells);
    }
  table.print();
}

/// Checks the block's totals, then lets it sum again and again. A clock of the multiprocessor's own
/// counts, so that it need not be warm.
Statistics sum_cycles(const Run& run, const Sum& sum, unsigned threads) {
  const Shared block{Blocks(1, threads, run.quick ? 16 : 64)};
  const Task task = sum_task(block, sum);
  require_right(task);
  std::vector<double> all;
  for (int r = 0; r < run.measuring.repeats; ++r) {
    task.launch();
    CUDA_CHECK_LAUNCH();
    all.push_back(double(block->cycles.to_host()[0]));
  }
  return scaled(summarize(all), 1.0 / block->times);
}

void show_sums(const Run& run) {
  for (const unsigned n : block_sizes)
    for (const Sum& sum : sums)
      ask_for_table(run, row_of(sum, n), cycles, "cycles", [&] { return sum_cycles(run, sum, n); });
  const auto cycles_of = [&](const Ref& row) { return run.results->value(row, cycles).value; };
  const auto descending = [&](unsigned n) {
    return cycles_of({"sum_descending", double(n)}).median;
  };
  const StepCost step = StepCost::of(descending(256), descending(1024));

  Table table(run.report, "one block's sum, threads",
              {predicted("barriers", "barriers", "barriers", 0),
               predicted("conflicts", "wavefronts beyond one", "wavefronts", 0),
               compared("cycles", cycles, "cycles", 0), shown("spread"), shown("to descending")});
  for (const unsigned n : block_sizes)
    for (const Sum& sum : sums) {
      const Ref row = row_of(sum, n);
      const Statistics is = cycles_of(row);
      const bool calibrates = row.key == "sum_descending" && (n == 256 || n == 1024);
      const Compared compared{predicted_cycles(sum, n, step), is, model_of(sum, run.device)};
      table.row({row.key, "threads", at_text(row), std::string(sum.words) + ", " + at_text(row)},
                {double(barriers_of(sum, n)), double(conflicts(sum.which, n)),
                 calibrates ? Cell(Calibration{is}) : Cell(compared), spread_text(is),
                 factor_text(is.median / descending(n))});
    }
  table.print();
  run.report.note("calibration: a step's cycles, by two sizes of a block without conflicts");
}

void run_divergence(const Run& run) {
  run.report.begin("divergence", "one block of 256 threads sums 256 words, 1 KiB, in 8 steps");
  show_votes(run);
  show_sums(run);
}

// ---- what it declares ----

/// As the warps counted in this run; computed where they could not.
double divergent_warps(const Run& run, const Ref& vote_and_step) {
  const double seen = run.results->value(vote_and_step, divergent).value.median;
  if (std::isfinite(seen)) return seen;
  const Vote& vote = *with_key(votes, vote_and_step);
  return Activity(adding_threads(vote.which, unsigned(vote_and_step.at) - 1, text_threads))
      .divergent;
}

std::vector<Claim> claims(const Run& run) {
  unsigned without = 0;  // steps
  while (without < step_count(text_threads) &&
         divergent_warps(run, {"vote_modulo", without + 1.0}) > 0 &&
         divergent_warps(run, {"vote_strided", without + 1.0}) == 0)
    ++without;
  const bool was_counted =
      std::isfinite(run.results->value({"vote_strided", 1.0}, divergent).value.median);
  return {{.part = {"06.7",
                    "strided indices remove divergence from the first three steps",
                    "the first three iterations",
                    "vendor's guide",
                    {},
                    true},
           .fact = without >= 3 ? Fact::so : Fact::not_so,
           .here = "no warp is divergent in the first " + std::to_string(without) +
                   " steps, where the first version has divergent ones" +
                   (was_counted ? "; computed, and counted by the warps" : "; computed")}};
}

Needs needs(const Run&) { return {.allocated = 1 << 20}; }

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (unsigned threads = 32; threads <= max_threads; threads *= 2) {
    const Shared block{Block(threads)};
    for (const Vote& vote : votes)
      all.push_back({.task = vote_task(block, vote),
                     .elements = block->out.size() + block->adding.size(),
                     .change_one = [block] { block->out.change(0); }});
    for (const unsigned times : {0, 1, 2, 7}) {
      const Shared blocks{Blocks(unsigned((n - 1) / threads) + 1, threads, times)};
      for (const Sum& sum : sums)
        all.push_back({.task = sum_task(blocks, sum),
                       .elements = blocks->out.size(),
                       .change_one = [blocks] { blocks->out.change(0); }});
    }
  }
  return all;
}

}  // namespace

extern const Experiment divergence_experiment{
    .name = "divergence",
    .about = "divergent warps in every step of the three, and what they cost",
    .run = run_divergence,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
