// registers: what if a thread may have fewer registers than it needs? The wiki says two things
// [LC 1]: fewer registers may allow more blocks to reside on a multiprocessor; what does not fit
// spills to local memory, which can cost time. It sets a budget by launch bounds, or by nvcc's
// -maxrregcount for a whole file, which is ignored where a kernel has launch bounds.
//
// Look at the budget with the first local bytes; at the resident blocks below it, and at the time.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o registers registers.cu ../common/*.cpp
//   nvcc -std=c++20 --extended-lambda -arch=native -Xptxas -v -maxrregcount=32 -c registers.cu
//
//   1  hash_unsaid     nothing said of registers: the compiler's choice, or that of the flag
//   2  hash_bounded    1 with launch bounds; hash_resident: and so many blocks that must fit
//   3  hash_within     at most so many registers (__maxnreg__, CUDA 12.4)
//   4  hash_to_shared  2 with 6 blocks, but spills go to shared memory first (CUDA 13.0)
#include <algorithm>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr int threads = 128;  // per block
constexpr int hashes = 80;    // alive at once in a thread: with a few registers for addresses about
                              // 90, a third of what a thread can have

__host__ __device__ constexpr unsigned multiplier(int k) { return 2654435769u * (2 * k + 1); }

// Thread i leaves in out[i] its 80 hashes, made one, of the `length` words from word i on. At each
// step a warp reads 32 neighbouring words; everything else that it moves is spilled hashes. The
// steps are not unrolled: over eight words at a time the compiler would fetch a spilled hash once
// and use it eight times.
__device__ __forceinline__ void hash_words(unsigned* out, const unsigned* words, size_t n,
                                           int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned h[hashes] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) {
    const unsigned word = words[i + step];
#pragma unroll
    for (int k = 0; k < hashes; ++k) h[k] = h[k] * multiplier(k) + word;
  }
  unsigned all = 0;
#pragma unroll
  for (int k = 0; k < hashes; ++k) all ^= h[k];
  out[i] = all;
}

__global__ void hash_unsaid(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}

// Blocks have at most 128 threads. For that any number of registers will do.
__global__ void __launch_bounds__(threads)
    hash_bounded(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}

// At least so many blocks must fit: 8 of them leave 65536 / 1024 = 64 registers for each thread.
template <int blocks>
__global__ void __launch_bounds__(threads, blocks)
    hash_resident(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}

#if CUDART_VERSION >= 12040
template <int registers>
__global__ void __maxnreg__(registers)
    hash_within(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}
#endif

// The compiler refuses the pragma with -rdc=true and with -G.
#if CUDART_VERSION >= 13000 && !defined(__CUDACC_RDC__) && !defined(__CUDACC_DEBUG__)
#define CAN_SPILL_TO_SHARED
__global__ void __launch_bounds__(threads, 6)
    hash_to_shared(unsigned* out, const unsigned* words, size_t n, int length) {
  asm volatile(".pragma \"enable_smem_spilling\";");
  hash_words(out, words, n, length);
}
#endif

// ---- the budgets ----

using Kernel = void (*)(unsigned* out, const unsigned* words, size_t n, int length);

struct Budget {
  std::string name;
  Kernel kernel;
  int registers;  ///< that a thread may have; 255 is the most on any GPU
};

constexpr const char *wide = "launch bounds", *eight = "launch bounds, 8 blocks";

// The last has fewest registers. Launch bounds end at 8 blocks: some GPUs hold only 1024 threads.
const std::vector<Budget> budgets = {
    {"nothing said", hash_unsaid, 255},
    {wide, hash_bounded, 255},
    {"launch bounds, 6 blocks", hash_resident<6>, 85},
#ifdef CAN_SPILL_TO_SHARED
    {"6 blocks, shared memory", hash_to_shared, 85},
#endif
    {eight, hash_resident<8>, 64},
#if CUDART_VERSION >= 12040
    {"__maxnreg__(48)", hash_within<48>, 48},
    {"__maxnreg__(32)", hash_within<32>, 32},
#endif
};

/// What the compiler made of a kernel, and how many of its blocks fit on a multiprocessor.
struct Compiled {
  int registers, blocks;
  size_t local_bytes, shared_bytes;  ///< of a thread, of a block
};
Compiled compiled(Kernel kernel) {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
  return {attributes.numRegs, blocks, attributes.localSizeBytes, attributes.sharedSizeBytes};
}

// ---- prediction ----

/// Blocks that fit. A multiprocessor has four parts with a register file each, and a block's four
/// warps are spread over them; a warp's registers are handed out by 256.
int resident_blocks(const cudaDeviceProp& gpu, int registers) {
  const int of_a_warp = (registers * 32 + 255) / 256 * 256;
  return std::min({gpu.regsPerMultiprocessor / 4 / of_a_warp,
                   gpu.maxThreadsPerMultiProcessor / threads, gpu.maxBlocksPerMultiProcessor});
}

/// At every step each spilled hash goes to local memory and comes back, at so many milliseconds per
/// byte, unless the arithmetic takes longer. There are 80 hashes; what else lies in local memory is
/// not moved at every step.
double predicted_ms(size_t local_bytes, double arithmetic_ms, double ms_per_byte) {
  const size_t moved = std::min(local_bytes, hashes * sizeof(unsigned));
  return std::max(arithmetic_ms, double(moved) * ms_per_byte);
}

/// Bytes of local memory of all threads that are resident at once. What the L2 cannot hold goes on
/// to memory.
double resident_spills(const Compiled& code, const cudaDeviceProp& gpu) {
  return double(code.local_bytes) * threads * code.blocks * gpu.multiProcessorCount;
}

// ---- what is right ----

/// What thread i finds: one hash after the other.
__host__ __device__ unsigned expected(size_t i, int length) {
  unsigned all = 0;
  for (int k = 0; k < hashes; ++k) {
    unsigned h = 0;
    for (int step = 0; step < length; ++step) h = h * multiplier(k) + hash(i + step);
    all ^= h;
  }
  return all;
}

struct Threads {
  size_t n;
  int length;
  DeviceBuffer<unsigned> words;  ///< the last thread's last word ends it
  GuardedBuffer<unsigned> out;
};
Threads threads_of(size_t n, int length) {
  return {n, length, filled<unsigned>(n + length - 1, [] __device__(size_t i) { return hash(i); }),
          GuardedBuffer<unsigned>(n)};
}

std::vector<Benchmark> benchmarks_of(const Threads& t) {
  const unsigned blocks = unsigned((t.n + threads - 1) / threads);
  const auto right = [length = t.length] __device__(size_t i) { return expected(i, length); };
  std::vector<Benchmark> all;
  for (const Budget& budget : budgets) {
    const auto work = [kernel = budget.kernel, blocks, t] {
      kernel<<<blocks, threads>>>(t.out, t.words, t.n, t.length);
    };
    all.push_back({budget.name, work, equals(t.out, right)});
  }
  return all;
}

}  // namespace

void registers(Run& run) {
  const size_t n = size_t(run.gpu.multiProcessorCount) * 64 * threads;
  const Threads t = threads_of(n, run.quick ? 32 : 64);
  run.title(std::to_string(n) + " threads in blocks of 128, each with 80 hashes of " +
            std::to_string(t.length) + " words");
  const Timings timed = run.timer.interleaved(benchmarks_of(t));

  const double ms_per_byte = timed[eight].median() / compiled(hash_resident<8>).local_bytes;
  Table table("budget", {"registers", "local bytes", "blocks predicted", "resident", "of all, MB",
                         "ms predicted", "ms"});
  for (const Budget& budget : budgets) {
    const Compiled code = compiled(budget.kernel);
    const bool gives_a_constant = budget.name == wide || budget.name == eight;
    const double ms = predicted_ms(code.local_bytes, timed[wide].median(), ms_per_byte);
    table.row(budget.name,
              {code.registers, code.local_bytes, resident_blocks(run.gpu, code.registers),
               code.blocks, resident_spills(code, run.gpu) * 1e-6, gives_a_constant ? Cell("") : ms,
               timed[budget.name].ms_interval()});
  }
  run.print(table);
  run.note("predicted: a local byte costs as much as with 8 blocks, one in shared memory nothing");
  run.note("of all: the local bytes of all resident threads; the L2 holds " +
           digits(run.gpu.l2CacheSize * 1e-6) + " MB");
#ifdef CAN_SPILL_TO_SHARED
  run.note("6 blocks, shared memory: each block keeps " +
           digits(compiled(hash_to_shared).shared_bytes) + " bytes of spilled hashes there");
#endif
  run.note("-maxrregcount=32 gives \"nothing said\" 32 registers; launch bounds override it");
  run.note("at most 10 registers, said the 2007 study: 8192 for 768 threads; here it is " +
           digits(run.gpu.regsPerMultiprocessor / run.gpu.maxThreadsPerMultiProcessor));

  const Compiled first = compiled(hash_bounded), tight = compiled(budgets.back().kernel);
  run.claim({"01.3", "registers over a limit spill to local memory, which can cost time",
             "[LC 1, PR 1] \"can have adverse performance consequences\"; \"Very bad\""},
            timed.speedup({.of = wide, .over = budgets.back().name}), can_be_faster());
  const auto fit = [](const Compiled& c) {
    return std::to_string(c.blocks) + " blocks at " + std::to_string(c.registers) + " registers";
  };
  run.observed({"01.4", "fewer registers per thread may let more blocks reside on an SM",
                "[LC 1] \"may allow more thread blocks to reside on an SM\""},
               tight.blocks > first.blocks, "resident on an SM: " + fit(first) + ", " + fit(tight));
}
SAMPLE(4, registers, "a budget of registers, and what spills beyond it");

TEST_CASE("registers: predicted blocks are those of the occupancy tables, and times by hand") {
  cudaDeviceProp gpu{};  // P100, V100 and H100 alike
  gpu.regsPerMultiprocessor = 65536;
  gpu.maxThreadsPerMultiProcessor = 2048;
  gpu.maxBlocksPerMultiProcessor = 32;
  CHECK(resident_blocks(gpu, 32) == 16);  // 2048 threads x 32 registers are all 65536
  CHECK(resident_blocks(gpu, 33) == 12);  // a warp takes 40 x 32 registers
  CHECK(resident_blocks(gpu, 96) == 5);   // 640 threads, 4096 registers idle
  CHECK(resident_blocks(gpu, 255) == 2);  // the most registers that a thread can have

  gpu.multiProcessorCount = 132;
  CHECK(resident_spills({32, 16, 344, 0}, gpu) == 344.0 * 2048 * 132);  // 93 MB

  CHECK(predicted_ms(0, 2, 0.05) == 2);
  CHECK(predicted_ms(16, 2, 0.05) == 2);  // spilling hides behind the arithmetic
  CHECK(predicted_ms(100, 2, 0.05) == doctest::Approx(5));
  CHECK(predicted_ms(352, 2, 0.05) == doctest::Approx(16));  // 320 bytes are all hashes
}

TEST_CASE("registers: every kernel is right at awkward sizes, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 129, 1009}) {
    const Threads t = threads_of(n, 37);
    for (const Benchmark& benchmark : benchmarks_of(t)) {
      CAPTURE(benchmark.name);
      CAPTURE(n);
      CHECK_NOTHROW(require_right(benchmark));
    }
  }
}

TEST_CASE("registers: no kernel exceeds its budget, and as many blocks fit as predicted") {
  if (skip_without_gpu()) return;
  const cudaDeviceProp gpu = current_gpu();
  for (const Budget& budget : budgets) {
    CAPTURE(budget.name);
    const Compiled code = compiled(budget.kernel);
    CHECK(code.registers <= budget.registers);
    if (budget.registers < hashes) CHECK(code.local_bytes + code.shared_bytes > 0);
    if (code.shared_bytes == 0) CHECK(code.blocks == resident_blocks(gpu, code.registers));
  }
}
