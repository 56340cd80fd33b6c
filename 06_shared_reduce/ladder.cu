// ladder: what makes a sum slow? The guide [KP] sums a block's words in shared memory three times:
// with divergent warps (reduce), with whole warps but bank conflicts (reduce1), with neither
// (reduce2). It says that each beats those before it; that "the biggest problem" of the first is
// divergence, and that of the second bank conflicts.
//
// Look at the twins, which have nearly the same instructions and differ in one cause: how much does
// each cause cost? Then compare the times with the instructions per word.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o ladder ladder.cu ../common/*.cpp
//
//   the guide's:  1 reduce  2 reduce1  3 reduce2
//   ours:         reduce_mask (1 without its division), reduce2_divided (3 with it: a twin of 1 that
//                 hardly diverges), reduce1_at (2 with conflicts, and its twin without),
//                 reduce_shuffle, reduce_vector; and beside them CUB
#include <algorithm>
#include <iostream>

#include "../common/sample.hpp"
#include "banks.hpp"
#include "sums.cuh"

namespace {

// ---- the guide's kernels, which leave one sum per block. They differ in who adds what:
//
//   reduce    every 2s-th thread    sdata[tid] += sdata[tid + s]           s = 1, 2, 4 ... 128
//   reduce1   the first 256 / 2s    sdata[2*s*tid] += sdata[2*s*tid + s]   s = 1, 2, 4 ... 128
//   reduce2   the first s threads   sdata[tid] += sdata[tid + s]           s = 128, 64, 32 ... 1
//
// The guide's own array is a multiple of a block, so that it needs no n. ----

constexpr unsigned THREAD_PER_BLOCK = 256;

// In the first step every other lane of each warp adds, in the fifth one lane of 32, and all warps
// take part. The compiler does not know that s is a power of two, so that % is a division.
__global__ void reduce(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[tid] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) {
      sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// Whole warps add, and whole warps have nothing to do. But the words of a warp's lanes lie 2 s
// apart: 2, 4 or 8 of them are in one bank, which serves them one after the other.
__global__ void reduce1(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[tid] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned index = 2 * s * tid;
    if (index < blockDim.x) {
      sdata[index] += sdata[index + s];
    }
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// Whole warps add, and the 32 words of a warp lie side by side, each in its own bank.
__global__ void reduce2(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[tid] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      sdata[tid] += sdata[tid + s];
    }
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// ---- ours: one cause taken away alone ----

// reduce, with a mask in place of %, since 2 s is a power of two. The same lanes add the same
// words, and nothing is divided.
__global__ void reduce_mask(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[tid] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if ((tid & (2 * s - 1)) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// reduce2, whose condition divides as that of reduce does: tid % s is tid for tid < s alone.
__global__ void reduce2_divided(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[tid] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid % s == tid) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

__host__ __device__ constexpr unsigned padded(unsigned x, unsigned p = 1) {
  return x + (x >> 5) * p;
}

// reduce1, whose word x lies at x + (x >> 5) * p. With p = 0 that is x, and the conflicts are those of
// reduce1. With p = 1 a word behind each 32 stays unused, so that words 2, 4, 8 or 16 apart are in
// different banks. The compiler does not know p: both are the same instructions.
__global__ void reduce1_at(const float* d_in, float* d_out, size_t n, unsigned p) {
  __shared__ float sdata[padded(THREAD_PER_BLOCK)];
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const unsigned tid = threadIdx.x;
  sdata[padded(tid, p)] = i < n ? d_in[i] : 0;
  __syncthreads();
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned index = 2 * s * tid;
    if (index < blockDim.x) sdata[padded(index, p)] += sdata[padded(index + s, p)];
    __syncthreads();
  }
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// ---- ours: beyond the guide ----

// How the next kernels end: the steps in shared memory stop at 32 words, which one warp adds. No
// barrier follows.
__device__ void write_block_sum(float* sdata, float* d_out) {
  const unsigned tid = threadIdx.x;
  for (unsigned s = blockDim.x / 2; s >= 32; s /= 2) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid < 32) sdata[tid] = warp_sum(sdata[tid]);
  if (tid == 0) d_out[blockIdx.x] = sdata[tid];
}

// In the first step of reduce2 half of the threads have nothing to do. Here each thread adds two
// words while it loads them: half as many blocks. And the last five steps are shuffles.
__global__ void reduce_shuffle(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const size_t i = blockIdx.x * size_t(2 * blockDim.x) + threadIdx.x;
  const float first = i < n ? d_in[i] : 0;
  const float second = i + blockDim.x < n ? d_in[i + blockDim.x] : 0;
  sdata[threadIdx.x] = first + second;
  __syncthreads();
  write_block_sum(sdata, d_out);
}

// As many blocks as fit on the GPU at once, each for many words: the steps of a block are paid once
// for all of these. A warp loads 512 bytes, and goes on by the whole grid.
__global__ void reduce_vector(const float* d_in, float* d_out, size_t n) {
  __shared__ float sdata[THREAD_PER_BLOCK];
  const Quads quads(d_in, n);
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  float sum = quads.ends(d_in, n);
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < quads.count; i += threads) {
    const float4 v = quads.quad[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  sdata[threadIdx.x] = sum;
  __syncthreads();
  write_block_sum(sdata, d_out);
}

// ---- the prediction ----

/// Wavefronts of a block of eight steps, in all of its loads from shared memory and stores to it.
/// Word i lies at place(i).
int wavefronts(
    Order order, unsigned (*place)(unsigned) = [](unsigned i) { return i; }) {
  int sum = THREAD_PER_BLOCK / 32;  // each warp stores its words
  for (unsigned k = 0; k < 8; ++k) {
    const unsigned s = stride_of(order, k, THREAD_PER_BLOCK);
    sum += step_wavefronts(order, s, THREAD_PER_BLOCK, place).wavefronts;
  }
  return sum + 1;  // thread 0 loads the result
}

/// What a kernel was compiled to by CUDA 13.0 for compute capability 9.0, read in the listing of
/// cuobjdump -sass: the parts of its machine code. A warp also issues what is predicated off in all
/// its lanes, but not what it jumps over. instructions.sh asks whether all() is right.
struct Compiled {
  unsigned warp = 0;    ///< each warp issues these once; 0: not counted
  unsigned step = 0;    ///< and these in each step in shared memory
  unsigned first = 0;   ///< warp 0 alone issues these once
  unsigned adding = 0;  ///< of a step; a warp in which no lane adds jumps over them
  unsigned turn = 0;    ///< of a loop: for 128 words of a warp
  unsigned rest = 1;    ///< nearly never issued

  unsigned all() const { return warp + step + first + adding + turn + rest; }
  /// By a block, but for the turns of its loop.
  unsigned issued(unsigned steps) const {
    constexpr unsigned adding_warps = 4 + 2 + 6 * 1;  // of all eight steps of reduce1
    return THREAD_PER_BLOCK / 32 * (warp + steps * step) + adding_warps * adding + first;
  }
};
constexpr unsigned schedulers = 4;  // of a multiprocessor: each issues an instruction per cycle

// ---- the launches: add yours here ----

using Kernel = void(const float* d_in, float* d_out, size_t n);
template <Kernel kernel>
void by(unsigned blocks, const float* in, float* out, size_t n) {
  kernel<<<blocks, THREAD_PER_BLOCK>>>(in, out, n);
}
template <unsigned p>
void by_reduce1_at(unsigned blocks, const float* in, float* out, size_t n) {
  reduce1_at<<<blocks, THREAD_PER_BLOCK>>>(in, out, n, p);
}

struct Rung {
  const char *name, *what;
  void (*launch)(unsigned blocks, const float* in, float* out, size_t n);
  Compiled compiled;
  int wavefronts = 0;     ///< of a block; 0: no prediction
  unsigned words = 1;     ///< that a thread takes at a time
  bool resident = false;  ///< a grid that fits on the GPU at once
  unsigned steps = 8;     ///< in shared memory

  size_t blocks(size_t n, size_t most) const {
    const size_t needed = ceil_div(n, size_t(words) * THREAD_PER_BLOCK);
    return resident ? std::min(needed, most) : needed;
  }
};
const Rung rungs[] = {
    {.name = "reduce",
     .what = "guide: every 2s-th thread",
     .launch = by<reduce>,
     .compiled = {.warp = 26, .step = 28, .first = 11},
     .wavefronts = wavefronts(Order::modulo)},
    {.name = "reduce1",
     .what = "guide: the first threads",
     .launch = by<reduce1>,
     .compiled = {.warp = 26, .step = 14, .first = 11},
     .wavefronts = wavefronts(Order::strided)},
    {.name = "reduce2",
     .what = "guide: words side by side",
     .launch = by<reduce2>,
     .compiled = {.warp = 26, .step = 10, .first = 11},
     .wavefronts = wavefronts(Order::descending)},
    {.name = "reduce_mask",
     .what = "reduce, no division",
     .launch = by<reduce_mask>,
     .compiled = {.warp = 26, .step = 12, .first = 11},
     .wavefronts = wavefronts(Order::modulo)},
    {.name = "reduce2_divided",
     .what = "reduce2, and a division",
     .launch = by<reduce2_divided>,
     .compiled = {.warp = 27, .step = 27, .first = 11},
     .wavefronts = wavefronts(Order::descending)},
    {.name = "reduce1_at, p = 0",
     .what = "reduce1, with conflicts",
     .launch = by_reduce1_at<0>,
     .compiled = {.warp = 30, .step = 10, .first = 11, .adding = 11},
     .wavefronts = wavefronts(Order::strided)},
    {.name = "reduce1_at, p = 1",
     .what = "reduce1, without conflicts",
     .launch = by_reduce1_at<1>,
     .compiled = {.warp = 30, .step = 10, .first = 11, .adding = 11},
     .wavefronts = wavefronts(Order::strided, [](unsigned x) { return padded(x); })},
    {.name = "reduce_shuffle",
     .what = "2 words a thread, shuffles",
     .launch = by<reduce_shuffle>,
     .compiled = {.warp = 40, .step = 11, .first = 25, .rest = 36},
     .words = 2,
     .steps = 3},
    {.name = "reduce_vector",
     .what = "few blocks, 16-byte loads",
     .launch = by<reduce_vector>,
     .compiled = {.warp = 51, .step = 11, .first = 25, .turn = 12, .rest = 53},
     .words = 4,
     .resident = true,
     .steps = 3},
};

/// n words, and the memory that their sums take.
struct Sums {
  size_t resident_blocks, n, offset = 0;
  DeviceBuffer<float> words = filled_words(offset, n);
  const float* in = words + offset;
  GuardedBuffer<float> out{1};
  GuardedBuffer<float> partial{n / 255 + 8};  // n / 256, and a 256th of that, and so on
  Cub cub{n};
};

/// The kernel leaves one sum per block; launched again over these sums, until there is one.
void launch(const Rung& rung, const float* in, size_t n, size_t most, const Sums& x, float* next) {
  const size_t blocks = rung.blocks(n, most);
  rung.launch(unsigned(blocks), in, blocks == 1 ? x.out.data() : next, n);
  if (blocks > 1) launch(rung, next, blocks, 1, x, next + blocks);
}

std::vector<Benchmark> kernels(const Sums& x) {
  const Check check = is_sum(x.out, x.n, [x] {
    x.out.poison();
    x.partial.poison();
  });
  std::vector<Benchmark> all;
  for (const Rung& rung : rungs)
    all.push_back(
        {rung.name, [=] { launch(rung, x.in, x.n, x.resident_blocks, x, x.partial); }, check});
  all.push_back({"CUB", [=] { x.cub.sum(x.in, x.out, x.n); }, check});
  return all;
}

/// Whether this is the machine code whose instructions were counted.
bool is_counted() {
#ifdef __CUDACC_DEBUG__  // not optimised: other instructions
  return false;
#else
  cudaFuncAttributes of{};
  CUDA_CHECK(cudaFuncGetAttributes(&of, reduce));
  return of.binaryVersion == 90 && of.ptxVersion == 90 && __CUDACC_VER_MAJOR__ == 13 &&
         __CUDACC_VER_MINOR__ == 0;
#endif
}

}  // namespace

void ladder(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 26 : 28), 4.1);
  const Sums x{run.resident_blocks(THREAD_PER_BLOCK), n};
  run.title("the sum of " + std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)));
  const Timings timed = run.timer.interleaved(kernels(x));

  Table table("kernel", {"what is new", "wavefronts", "us", "spread", "GB/s", ""});
  const double bytes = 4.0 * double(n), best = timed["CUB"].gbs(bytes);
  const auto row = [&](const char* name, const char* what, Cell wavefronts) {
    const Times& times = timed[name];
    table.row(name, {what, wavefronts, times.us_interval(), percent(times.spread()),
                     times.gbs_interval(bytes), bar(times.gbs(bytes) / best)});
  };
  for (const Rung& rung : rungs)
    row(rung.name, rung.what, rung.wavefronts ? Cell(rung.wavefronts) : Cell(""));
  row("CUB", "cub::DeviceReduce::Sum", "");
  run.print(table);
  run.note("wavefronts: passes through the banks of shared memory, predicted, of a block; not for");
  run.note("rows with shuffles. CUB: NVIDIA's library");
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: a part of this is its rate");

  if (is_counted()) {
    const double clock_khz = device_attribute(cudaDevAttrClockRate);  // cycles per ms
    const double slots_per_ms = schedulers * clock_khz * run.gpu.multiProcessorCount;
    Table issued("compiled for 9.0 by CUDA 13.0",
                 {"instructions", "issued by a block", "per word", "of issue slots"});
    for (const Rung& rung : rungs) {
      if (!rung.compiled.warp) continue;
      const double words = double(n) / double(rung.blocks(n, x.resident_blocks));  // of a block
      const double per_word = rung.compiled.issued(rung.steps) / words + rung.compiled.turn / 128.;
      const double share = per_word * double(n) / (timed[rung.name].median() * slots_per_ms);
      if (share > 1) throw WrongResult(std::string(rung.name) + ": more than all issue slots");
      issued.row(rung.name, {rung.compiled.all(), per_word * words, per_word, percent(share)});
    }
    run.print(issued);
    run.note("issued: warps' instructions, each for 32 lanes; of issue slots: at " +
             digits(clock_khz * 1e-3) + " MHz, " + std::to_string(run.gpu.multiProcessorCount) +
             " x " + std::to_string(schedulers) + " in each cycle");
  } else {
    run.note("instructions are counted for compute capability 9.0 and CUDA 13.0 alone");
  }

  const auto times_of = [&](const char* with, const char* without) {
    return ratio(timed[with], timed[without]);
  };
  const Interval division = times_of("reduce", "reduce_mask");
  const Interval divergence = times_of("reduce", "reduce2_divided");
  const Interval conflicts = times_of("reduce1_at, p = 0", "reduce1_at, p = 1");
  const Interval other = times_of("reduce1", "reduce2") / conflicts;
  Table causes("cause", {"time with / without", "times"});
  causes.row("of reduce: the division", {"reduce / reduce_mask", division});
  causes.row("of reduce: divergence", {"reduce / reduce2_divided", divergence});
  causes.row("of reduce1: bank conflicts", {"reduce1_at, p = 0 / p = 1", conflicts});
  causes.row("of reduce1: all else", {"reduce1 / reduce2, less the conflicts", other});
  run.print(causes);

  const std::string biggest = "[KP] \"The biggest problem\"";
  run.claim({"06.1a", "reduce1, strided and without divergence, is faster than reduce",
             "[KP] \"After optimization\""},
            timed.speedup({.of = "reduce1", .over = "reduce"}), faster());
  run.claim({"06.1b", "the biggest problem of reduce is warp divergence", biggest},
            {divergence / division, "times what divergence costs over what the division costs"},
            more());
  run.claim_each({"06.2a", "reduce2, without bank conflicts, is faster than reduce and reduce1",
                  "[KP] \"To solve bank conflicts, reverse the for loop\""},
                 {times_of("reduce", "reduce2"), times_of("reduce1", "reduce2")},
                 "time of reduce, reduce1 / reduce2", faster());
  run.claim({"06.2b", "the biggest problem of reduce1 is bank conflicts", biggest},
            {conflicts / other, "times what conflicts cost over what all else costs"}, more());
}
SAMPLE(1, ladder, "the guide's three sums, what each loses by, and what comes after them");

TEST_CASE("ladder: wavefronts of a block, by hand") {
  // eight stores of words, the steps, a load of the result. Strides 1 to 16: eight warps load twice
  // and store once; then four warps, two, one
  CHECK(wavefronts(Order::modulo) == 8 + 3 * (5 * 8 + 4 + 2 + 1) + 1);
  // four warps take 2 wavefronts each, two take 4, one takes 8, and so do its 16 lanes 16 words
  // apart and its 8 lanes 32 words apart; then 4 lanes, 2, 1
  CHECK(wavefronts(Order::strided) == 8 + 3 * (4 * 2 + 2 * 4 + 8 + 8 + 8 + 4 + 2 + 1) + 1);
  // four warps, two, and one in the other six steps
  CHECK(wavefronts(Order::descending) == 8 + 3 * (4 + 2 + 6) + 1);
  CHECK(wavefronts(Order::strided, [](unsigned x) { return padded(x); }) ==
        wavefronts(Order::descending));
  CHECK(padded(95, 0) == 95);
  CHECK(padded(95, 1) == 97);
}

TEST_CASE("ladder: instructions of a block, by hand") {
  CHECK(Compiled{.warp = 26, .step = 10, .first = 11}.issued(8) == 8 * (26 + 8 * 10) + 11);
  CHECK(Compiled{.warp = 30, .step = 10, .first = 11, .adding = 11}.issued(8) == 1023);
  for (const Rung& rung : rungs) {  // instructions.sh reads these lines
    const std::string name = rung.name;
    if (rung.compiled.warp)
      std::cout << "counted: " << name.substr(0, name.find(',')) << ": " << rung.compiled.all()
                << " instructions\n";
  }
}

// Few words, so that racecheck comes to its end.
TEST_CASE("ladder: every sum is right at awkward sizes and alignments") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 33, 257, 1009, 65539})
    for (const size_t offset : {0, 1, 31}) {
      const Sums x{4, n, offset};
      for (const Benchmark& benchmark : kernels(x)) {
        CAPTURE(benchmark.name);
        CAPTURE(n);
        CAPTURE(offset);
        CHECK_NOTHROW(require_right(benchmark));
      }
    }
}

TEST_CASE("ladder: a block leaves the sum of its own 256 words, as the guide says") {
  if (skip_without_gpu()) return;
  const size_t n = 1009;
  const Sums x{4, n};
  std::vector<float> right(4, 0);
  for (size_t i = 0; i < n; ++i) right[i / 256] += float(word_at(i));
  for (const Rung& rung : rungs) {
    if (rung.words > 1) continue;
    CAPTURE(rung.name);
    const GuardedBuffer<float> sums(4);
    rung.launch(4, x.in, sums, n);
    CHECK(sums.to_host() == right);
    CHECK(guard_error(sums) == "");
  }
}
