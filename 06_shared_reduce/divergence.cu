// divergence: the guide walks through a block of 256 threads, warp by warp [KP]. In its `reduce`
// every warp is divergent from the first step on; its `reduce1` packs the adding threads together,
// and no warp is divergent before the fourth. Look at the divergent warps of the three, counted by
// the warps themselves; and at how little that changes of the cycles that a sum takes. What changes
// them is the number of steps, each with its barrier, and the banks. (`branches` has paths that do
// cost their sum.)
//   cmake -S 06_shared_reduce -B build/divergence -DEXPERIMENTS=divergence
//   cmake --build build/divergence && build/divergence/06_shared_reduce
//
//   1  vote_modulo      every 2s-th thread adds: the text's `reduce`
//   2  vote_strided     the first threads add words that lie 2s apart: its `reduce1`
//   3  vote_descending  the first threads add words side by side: its `reduce2`
//   4  sum_mask         1 without votes, over and over; with a mask, so that the division is gone
//   5  sum_strided      2, over and over
//   6  sum_descending   3, over and over
//   7  sum_last_warp    6, but the last warp that adds no longer waits for the others
#include <algorithm>

#include "../common/report.hpp"
#include "banks.hpp"

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

// ---- what is right ----

constexpr size_t canaries = 64;  // elements behind each output

/// Word i of the input, without pattern.
unsigned word_at(unsigned i) {
  const unsigned x = (i + 1) * 0x9e3779b1u;
  return x ^ x >> 15;
}

enum class Strides { ascending, descending };

/// Which words of a block of n end up in word i. Ascending strides: its neighbours, as many as the
/// largest power of two that divides i; descending: every so many-th, by the least that is larger
/// than i.
std::vector<unsigned> summed_in(Strides strides, unsigned i, unsigned n) {
  std::vector<unsigned> all;
  if (strides == Strides::ascending) {
    unsigned many = 1;
    while (many < n && i % (2 * many) == 0) many *= 2;
    for (unsigned j = i; j < i + many; ++j) all.push_back(j);
  } else {
    unsigned apart = 1;
    while (apart <= i) apart *= 2;
    for (unsigned j = i; j < n; j += apart) all.push_back(j);
  }
  return all;
}

/// What every thread must find of a block's words, if they are summed so many times, each word one
/// more than the last time.
std::vector<unsigned> totals(Strides strides, const std::vector<unsigned>& words, unsigned times) {
  std::vector<unsigned> all;
  const unsigned n = unsigned(words.size());
  for (unsigned i = 0; i < n; ++i) {
    unsigned total = 0;
    for (const unsigned j : summed_in(strides, i, n))
      total += times * words[j] + times * (times - 1) / 2;
    all.push_back(total);
  }
  return all;
}

// ---- the story in order ----

struct Vote {
  const char* name;
  Rule which;
  void (*kernel)(unsigned*, unsigned*, const unsigned*);
};
const Vote votes[] = {
    {"modulo", Rule::modulo, vote_modulo},
    {"strided", Rule::strided, vote_strided},
    {"descending", Rule::descending, vote_descending},
};

struct Sum {
  const char* name;
  Rule which;
  void (*kernel)(unsigned*, long long*, const unsigned*, unsigned);
};
const Sum sums[] = {
    {"mask", Rule::modulo, sum_mask},
    {"strided", Rule::strided, sum_strided},
    {"descending", Rule::descending, sum_descending},
    {"descending, last warp alone", Rule::descending, sum_last_warp},
};
constexpr size_t descending = 2, last_warp = 3;  // indices into it

/// Steps until one word is left of n.
unsigned step_count(unsigned n) {
  unsigned steps = 0;
  while (n >> (steps + 1)) ++steps;
  return steps;
}

Strides strides_of(Rule which) {
  return which == Rule::descending ? Strides::descending : Strides::ascending;
}

/// Blocks that sum their words at the same time, each the words of a stretch of its own.
struct Blocks {
  unsigned count, threads, times;
  std::vector<unsigned> words;
  DeviceBuffer<unsigned> in, out;
  DeviceBuffer<long long> cycles{1};

  Blocks(unsigned count, unsigned threads, unsigned times)
      : count(count), threads(threads), times(times) {
    for (unsigned i = 0; i < count * threads; ++i) words.push_back(word_at(i));
    in = DeviceBuffer<unsigned>(words);
    out = DeviceBuffer<unsigned>(words.size() + canaries);
  }
  /// Threads whose total is wrong, and canaries that are gone.
  size_t wrong(Strides strides) const {
    const std::vector<unsigned> found = out.to_host();
    std::vector<unsigned> right;
    for (unsigned block = 0; block < count; ++block) {
      const auto first = words.begin() + block * threads;
      for (const unsigned total : totals(strides, {first, first + threads}, times))
        right.push_back(total);
    }
    right.resize(found.size(), ~0u);
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  }
  Task task(const Sum& sum) {
    Check check;
    check.poison = [this] {
      out.poison();
      cycles.poison();
    };
    check.wrong = [this, &sum] { return wrong(strides_of(sum.which)); };
    return {std::string(sum.name) + ", " + std::to_string(threads) + " threads",
            [this, &sum] {
              sum.kernel<<<count, threads>>>(out.data(), cycles.data(), in.data(), times);
            },
            std::move(check)};
  }
};

/// How many threads of each warp added, step by step, as the warps counted themselves. Throws if a
/// word is wrong afterwards.
std::vector<std::vector<unsigned>> counted_adding(const Vote& vote, unsigned threads) {
  Blocks block(1, threads, 1);
  const unsigned warps = threads / 32;
  const unsigned steps = step_count(threads);
  DeviceBuffer<unsigned> adding(steps * warps + canaries);
  adding.poison();
  block.out.poison();
  vote.kernel<<<1, threads>>>(block.out.data(), adding.data(), block.in.data());
  CUDA_CHECK_LAUNCH();
  require_right(block.wrong(strides_of(vote.which)) == 0, "votes, " + std::string(vote.name));
  const std::vector<unsigned> all = adding.to_host();
  require_right(std::count(all.end() - canaries, all.end(), ~0u) == long(canaries),
                "votes beyond their end, " + std::string(vote.name));
  std::vector<std::vector<unsigned>> each;
  for (unsigned step = 0; step < steps; ++step)
    each.emplace_back(all.begin() + step * warps, all.begin() + (step + 1) * warps);
  return each;
}

// ---- what to expect ----

/// What thread `tid` of n does in a step (the first is 0).
Addition addition_in(Rule which, unsigned step, unsigned tid, unsigned n) {
  return addition(which, stride_of(which, step, n), tid, n);
}

/// Threads of each warp that add in a step.
std::vector<unsigned> adding_threads(Rule which, unsigned step, unsigned n) {
  std::vector<unsigned> adding(n / 32, 0);
  for (unsigned tid = 0; tid < n; ++tid)
    adding[tid / 32] += addition_in(which, step, tid, n).active;
  return adding;
}

/// Threads that add in a step, the warps that they are in, and those of these warps that are
/// divergent: others of their lanes do not add.
struct Activity {
  unsigned threads = 0, warps = 0, divergent = 0;

  explicit Activity(const std::vector<unsigned>& adding) {
    for (const unsigned n : adding) {
      threads += n;
      warps += n > 0;
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

/// Cycles of a step that ends with a barrier: to load, to add, to store and to meet, and more for
/// each warp that has to issue all that and to arrive. From two sizes of a block without conflicts.
struct StepCost {
  double alone = NAN, a_warp = NAN;

  /// Cycles of a whole sum with descending strides, of blocks of 256 and of 1024 threads.
  static StepCost of(double cycles_256, double cycles_1024) {
    const double of_8 = cycles_256 / (1 + step_count(256));
    const double of_32 = cycles_1024 / (1 + step_count(1024));
    const double a_warp = (of_32 - of_8) / (32 - 8);
    return {of_8 - 8 * a_warp, a_warp};
  }
  double cycles(unsigned warps) const { return alone + a_warp * warps; }
};

/// Cycles of one block's sum. To store the words and to meet is a step, too; a wavefront is a
/// cycle. It does not matter how many lanes of how many warps add: those that do not sit it out. A
/// step of the last warp alone is taken to be that of a block of one warp, its barrier included.
double predicted_cycles(size_t sum, unsigned n, const StepCost& step) {
  const unsigned with_barrier = 1 + step_count(n) - (sum == last_warp ? 5 : 0);
  const unsigned alone = sum == last_warp ? 5 : 0;
  return with_barrier * step.cycles(n / 32) + alone * step.cycles(1) +
         conflicts(sums[sum].which, n);
}

/// Found on compute capability 9.0, and a test holds rows to it there; not the last warp's, whose
/// steps without a barrier take less (7 to 14% of the whole) than those of a block of one warp.
Model model_of(size_t sum, const Device* device) {
  const bool found_here = device && device->prop.major == 9;
  return found_here && sum != last_warp ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr unsigned text_threads = 256;
constexpr unsigned block_sizes[] = {128, 256, 512, 1024};

void show_votes(const Run& run) {
  Table table(run.report, "reduction, step",
              {predicted("adding threads", "adding threads", "threads", 0),
               counted("counted", "adding threads", "threads", 0),
               predicted("their warps", "their warps", "warps", 0),
               counted("counted", "their warps", "warps", 0),
               predicted("divergent", "divergent warps", "warps", 0),
               counted("counted", "divergent warps", "warps", 0)});
  for (const Vote& vote : votes) {
    std::vector<std::vector<unsigned>> seen;
    if (run.device) seen = counted_adding(vote, text_threads);
    for (unsigned step = 0; step < step_count(text_threads); ++step) {
      const Activity expected(adding_threads(vote.which, step, text_threads));
      std::vector<Cell> cells{double(expected.threads),   {}, double(expected.warps), {},
                              double(expected.divergent), {}};
      if (run.device) {
        const Activity is(seen[step]);
        cells[1] = double(is.threads);
        cells[3] = double(is.warps);
        cells[5] = double(is.divergent);
      }
      table.row({vote.name, "step", std::to_string(step + 1)}, cells);
    }
  }
  table.print();
}

/// Cycles of one sum, where launches took `cycles` for `times` of them.
Statistics of_one_sum(const std::vector<double>& cycles, unsigned times) {
  return scaled(summarize(cycles), 1.0 / times);
}

/// Checks the block's totals, then lets it sum again and again. A clock of the multiprocessor's own
/// counts, so that it need not be warm.
Statistics sum_cycles(const Run& run, const Sum& sum, unsigned threads, unsigned times) {
  Blocks block(1, threads, times);
  const Task task = block.task(sum);
  require_right(task);
  std::vector<double> cycles;
  for (int r = 0; r < run.measuring.repeats; ++r) {
    task.launch();
    CUDA_CHECK_LAUNCH();
    cycles.push_back(double(block.cycles.to_host()[0]));
  }
  return of_one_sum(cycles, times);
}

/// Sum k of a block of block_sizes[b] threads: `cycles[b][k]`; none where there is no GPU.
using SumCycles = std::vector<std::vector<Statistics>>;

void show_sums(const Run& run, const SumCycles& cycles) {
  Table table(
      run.report, "one block's sum, threads",
      {predicted("barriers", "barriers", "barriers", 0),
       predicted("conflicts", "wavefronts beyond one", "wavefronts", 0),
       compared("cycles", "cycles a sum", "cycles", 0), shown("spread"), shown("to descending")});
  StepCost step;
  if (!cycles.empty())
    step = StepCost::of(cycles[1][descending].median, cycles[3][descending].median);
  for (size_t b = 0; b < std::size(block_sizes); ++b)
    for (size_t k = 0; k < std::size(sums); ++k) {
      const unsigned n = block_sizes[b];
      const Statistics is = cycles.empty() ? Statistics{} : cycles[b][k];
      const bool calibrates = k == descending && (n == 256 || n == 1024);
      const Compared compared{predicted_cycles(k, n, step), is, model_of(k, run.device)};
      const Cell time = calibrates ? Cell(Calibration{is}) : Cell(compared);
      const double barriers = 1 + step_count(n) - (k == last_warp ? 5 : 0);
      const double to_descending = cycles.empty() ? NAN : is.median / cycles[b][descending].median;
      table.row({sums[k].name, "threads", std::to_string(n)},
                {barriers, double(conflicts(sums[k].which, n)), time, spread_text(is),
                 cycles.empty() ? "-" : times(to_descending)});
    }
  table.print();
}

}  // namespace

void divergence(const Run& run) {
  run.report.begin("divergence", "one block of 256 threads sums 256 words, 1 KiB, in 8 steps");
  show_votes(run);
  SumCycles cycles;
  for (const unsigned n : block_sizes) {
    if (!run.device) break;
    cycles.emplace_back();
    for (const Sum& sum : sums)
      cycles.back().push_back(sum_cycles(run, sum, n, run.quick ? 16 : 64));
  }
  show_sums(run, cycles);
  if (run.device)
    run.report.note("calibration: a step's cycles, by two sizes of a block without conflicts");
  else
    run.report.left_out("the warps' own count, and the cycles of whole sums");
}
