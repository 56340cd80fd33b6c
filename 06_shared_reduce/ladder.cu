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

#include "../common/sample.hpp"
#include "banks.hpp"
#include "sums.cuh"

namespace {

// ---- the guide's kernels, which leave one sum per block. They differ in their loop alone. The
// guide's own array is a multiple of a block, so that it needs no n ----

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
  double issued = 0;      ///< instructions per word; 0: not counted
  int wavefronts = 0;     ///< of a block; 0: no prediction
  unsigned words = 1;     ///< that a thread takes at a time
  bool resident = false;  ///< a grid that fits on the GPU at once

  size_t blocks(size_t n, size_t most) const {
    const size_t needed = ceil_div(n, size_t(words) * THREAD_PER_BLOCK);
    return resident ? std::min(needed, most) : needed;
  }
};
// `issued` was read in the machine code of CUDA 13.0 for compute capability 9.0 (cuobjdump -sass;
// instructions.sh says if it has changed). Of reduce: each of 8 warps issues 26 instructions, and 28
// in each of 8 steps; then warp 0 issues 11. In reduce1_at a warp in which no lane adds jumps over 11
// instructions of a step, so 4 + 2 + 6 warps issue them. Of reduce_vector the loop alone: a warp's
// 12 instructions for 128 words.
const Rung rungs[] = {
    {.name = "reduce",
     .what = "guide: every 2s-th thread",
     .launch = by<reduce>,
     .issued = (8 * (26 + 8 * 28) + 11) / 256.,
     .wavefronts = wavefronts(Order::modulo)},
    {.name = "reduce1",
     .what = "guide: the first threads",
     .launch = by<reduce1>,
     .issued = (8 * (26 + 8 * 14) + 11) / 256.,
     .wavefronts = wavefronts(Order::strided)},
    {.name = "reduce2",
     .what = "guide: words side by side",
     .launch = by<reduce2>,
     .issued = (8 * (26 + 8 * 10) + 11) / 256.,
     .wavefronts = wavefronts(Order::descending)},
    {.name = "reduce_mask",
     .what = "reduce, no division",
     .launch = by<reduce_mask>,
     .issued = (8 * (26 + 8 * 12) + 11) / 256.,
     .wavefronts = wavefronts(Order::modulo)},
    {.name = "reduce2_divided",
     .what = "reduce2, and a division",
     .launch = by<reduce2_divided>,
     .issued = (8 * (27 + 8 * 27) + 11) / 256.,
     .wavefronts = wavefronts(Order::descending)},
    {.name = "reduce1_at, p = 0",
     .what = "reduce1, with conflicts",
     .launch = by_reduce1_at<0>,
     .issued = (8 * (30 + 8 * 10) + 12 * 11 + 11) / 256.,
     .wavefronts = wavefronts(Order::strided)},
    {.name = "reduce1_at, p = 1",
     .what = "reduce1, without conflicts",
     .launch = by_reduce1_at<1>,
     .issued = (8 * (30 + 8 * 10) + 12 * 11 + 11) / 256.,
     .wavefronts = wavefronts(Order::strided, [](unsigned x) { return padded(x); })},
    {.name = "reduce_shuffle",
     .what = "2 words a thread, shuffles",
     .launch = by<reduce_shuffle>,
     .issued = (8 * (40 + 3 * 11) + 25) / 512.,
     .words = 2},
    {.name = "reduce_vector",
     .what = "few blocks, 16-byte loads",
     .launch = by<reduce_vector>,
     .issued = 12 / 128.,
     .words = 4,
     .resident = true},
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

}  // namespace

void ladder(Run& run) {
  const size_t n = run.fitting(size_t(1) << (run.quick ? 26 : 28), 4.1);
  const Sums x{run.resident_blocks(THREAD_PER_BLOCK), n};
  run.title("the sum of " + std::to_string(n) + " floats, " + bytes_text(4.0 * double(n)));
  const Timings timed = run.timer.interleaved(kernels(x));

  Table table("kernel", {"what is new", "wavefronts", "issued", "us", "spread", "GB/s", ""});
  const double bytes = 4.0 * double(n), best = timed["CUB"].gbs(bytes);
  const auto row = [&](const char* name, const char* what, Cell wavefronts, Cell issued) {
    const Times& times = timed[name];
    table.row(name, {what, wavefronts, issued, times.us_interval(), percent(times.spread()),
                     times.gbs_interval(bytes), bar(times.gbs(bytes) / best)});
  };
  const auto known = [](double number) { return number > 0 ? Cell(number) : Cell(""); };
  for (const Rung& rung : rungs)
    row(rung.name, rung.what, known(rung.wavefronts), known(rung.issued));
  row("CUB", "cub::DeviceReduce::Sum", "", "");
  run.print(table);
  run.note("wavefronts: passes through the banks of shared memory, predicted, of a block; not for");
  run.note("rows with shuffles. CUB: NVIDIA's library");
  run.note(
      "issued: instructions of warps per word, in the code of CUDA 13.0 for compute capability "
      "9.0");
  if (!run.beyond_l2(bytes)) run.note("less than four times the L2: a part of this is its rate");

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
  // eight stores of words, the steps (banks has each by hand), a load of the result
  CHECK(wavefronts(Order::modulo) == 8 + 141 + 1);
  CHECK(wavefronts(Order::strided) == 8 + 141 + 1);
  CHECK(wavefronts(Order::descending) == 8 + 36 + 1);
  CHECK(wavefronts(Order::strided, [](unsigned x) { return padded(x); }) ==
        wavefronts(Order::descending));
  CHECK(padded(95, 0) == 95);
  CHECK(padded(95, 1) == 97);
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
