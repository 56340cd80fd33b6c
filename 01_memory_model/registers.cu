// registers: one kernel compiled for ever fewer registers a thread. The wiki says that fewer registers let more
// blocks reside on a multiprocessor, and that what does not fit spills to local memory and costs time. Look at the
// budget where local bytes begin, at how far the resident blocks rise below it, and at what the time does meanwhile.
// The text limits registers by launch bounds and by nvcc's flag, and says that the flag gives way to launch bounds:
// see the last two rows.
#include <doctest/doctest.h>

#include <algorithm>

#include "../common/first_edition.hpp"

namespace {

constexpr int threads = 128;
constexpr int hashes = 80;  // live at once in every thread: with a few for addresses, about 90 registers

__host__ __device__ constexpr unsigned multiplier(int k) { return 2654435769u * (2 * k + 1); }

// A thread keeps 80 hashes of the `length` words from its own on, all in registers if it may. A warp reads 32
// neighbouring words at each step; everything else that it moves is spilled hashes. Not unrolled: eight words at a time
// would let the compiler fetch a spilled hash once and use it eight times.
__device__ __forceinline__ void hash_window(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned hash[hashes] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) {
    const unsigned word = words[i + step];
#pragma unroll
    for (int k = 0; k < hashes; ++k) hash[k] = hash[k] * multiplier(k) + word;
  }
  unsigned all = 0;
#pragma unroll
  for (int k = 0; k < hashes; ++k) all ^= hash[k];
  out[i] = all;
}

// How a kernel is given its budget. Before CUDA 12.4 only launch bounds can: so many blocks of 128 threads must fit
// among 65536 registers. No multiprocessor refuses 1024 threads, and some (7.5) refuse more: this way ends at 64.
#if CUDART_VERSION >= 12040
constexpr const char* budget_by = "__maxnreg__";
#define REGISTER_BUDGET(registers) __maxnreg__(registers)
#else
constexpr const char* budget_by = "launch bounds";
#define REGISTER_BUDGET(registers) __launch_bounds__(threads, 65536 / threads / (registers))
#endif

// The same body at a budget of so many registers a thread.
template <int registers>
__global__ void REGISTER_BUDGET(registers) hash_within(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_window(out, words, n, length);
}

// The same body with nothing said of registers: the compiler's choice, or that of nvcc's flag.
__global__ void hash_unbounded(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_window(out, words, n, length);
}

// The same body with launch bounds that any number of registers meets: where a flag asks for fewer, it is not heard.
__global__ void __launch_bounds__(threads) hash_bounded(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_window(out, words, n, length);
}

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

struct Budget {
  int registers;
  Kernel kernel;
};

// Widest first. 168 to 96 bind nobody; 80 is the first that leaves nothing for addresses.
const std::vector<Budget> budgets = {
    {168, hash_within<168>}, {128, hash_within<128>}, {96, hash_within<96>},
    {80, hash_within<80>},   {64, hash_within<64>},
#if CUDART_VERSION >= 12040
    {48, hash_within<48>},   {32, hash_within<32>},
#endif
};

// ---- host reference -------------------------------------------------------------------------------------------------

/// All windows' results. From one window to the next each hash rolls: the word that leaves had been
/// multiplied `length` times.
std::vector<unsigned> expected(const std::vector<unsigned>& words, size_t n, int length) {
  unsigned hash[hashes] = {}, power[hashes];
  for (int k = 0; k < hashes; ++k) {
    power[k] = 1;
    for (int step = 0; step < length; ++step) {
      hash[k] = hash[k] * multiplier(k) + words[step];
      power[k] *= multiplier(k);
    }
  }
  std::vector<unsigned> all(n, 0);
  for (size_t i = 0; i < n; ++i)
    for (int k = 0; k < hashes; ++k) {
      all[i] ^= hash[k];
      if (i + 1 < n) hash[k] = hash[k] * multiplier(k) + words[i + length] - power[k] * words[i];
    }
  return all;
}

// ---- prediction -----------------------------------------------------------------------------------------------------

/// What a multiprocessor has to give to blocks.
struct Multiprocessor {
  int registers, threads, blocks;
};
constexpr Multiprocessor text_gpus{65536, 2048, 32};  // P100 and V100 alike: 256 KiB of registers

/// Blocks of `threads` that fit at once when each thread takes so many registers. A multiprocessor is four (some: two)
/// parts with a register file each, a block's four warps are spread over them evenly, and a warp's registers are handed
/// out by 256.
int resident_blocks(const Multiprocessor& has, int registers) {
  constexpr int parts = 4, warps = threads / 32;
  const int of_a_warp = (registers * 32 + 255) / 256 * 256;
  return std::min({has.registers / parts / of_a_warp * parts / warps, has.threads / threads, has.blocks});
}

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  int length;
  std::vector<unsigned> words, right_result;
  DeviceBuffer<unsigned> in, out;

  Work(size_t n, int length) : length(length), words(n + length), in(n + length), out(n) {
    unsigned state = 12345;
    for (unsigned& word : words) word = state = state * 1664525u + 1013904223u;
    right_result = expected(words, n, length);
    in.copy_from(words);
  }
  void launch(Kernel kernel) {
    kernel<<<unsigned((out.size() + threads - 1) / threads), threads>>>(out.data(), in.data(), out.size(), length);
  }
  bool right(Kernel kernel) {
    out.poison();
    launch(kernel);
    CUDA_CHECK_LAUNCH();
    return out.to_host() == right_result;
  }
};

/// What the compiler made of a kernel, and how many of its blocks fit.
struct Compiled {
  int registers;
  size_t local_bytes;
  int blocks;

  explicit Compiled(Kernel kernel) {
    cudaFuncAttributes attributes;
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
    registers = attributes.numRegs;
    local_bytes = attributes.localSizeBytes;
  }
};

const Claim spilling{"01.3", "a register budget too small spills to local memory and slows the kernel", "wiki",
                     "no figure"};
const Claim more_blocks{"01.4", "fewer registers allow more resident blocks", "wiki", "no figure"};

}  // namespace

void registers(const Run& run) {
  constexpr int length = 128;
  const int multiprocessors = run.device ? run.device->prop.multiProcessorCount : 56;  // a P100's
  const size_t n = size_t(multiprocessors) * (run.quick ? 16 : 64) * threads;
  run.report.begin("registers", std::to_string(n) + " threads, each with " + std::to_string(hashes) + " hashes of " +
                                    std::to_string(length) + " words, blocks of " + std::to_string(threads) + ", " +
                                    bytes_text(8.0 * double(n)));
  if (!run.device) {
    Table table(run.report, "registers a thread", {predicted("blocks fit", "resident blocks", "blocks", 0)});
    for (const Budget& budget : budgets)
      table.row({"P100 and V100", "registers", std::to_string(budget.registers)},
                {double(resident_blocks(text_gpus, budget.registers))});
    table.print();
    return run.report.left_out("registers and local bytes of the compiled kernels, their time",
                               {spilling, more_blocks});
  }

  const cudaDeviceProp& prop = run.device->prop;
  const Multiprocessor has{prop.regsPerMultiprocessor, prop.maxThreadsPerMultiProcessor,
                           prop.maxBlocksPerMultiProcessor};
  Work work(n, length);
  Table table(
      run.report, "budget",
      {counted("registers", "registers", "registers", 0), counted("local bytes", "local memory a thread", "B", 0),
       predicted("blocks predicted", "resident blocks", "blocks", 0),
       counted("resident", "resident blocks", "blocks", 0), shown("of all threads"),
       measured("median ms", "time", "ms", 3), shown("spread"), shown("to first row")});
  Statistics widest{}, tightest{};
  const auto row = [&](const Key& key, Kernel kernel) {
    require_right(work.right(kernel), key.name + " " + key.at + ", the hashes");
    const Compiled compiled(kernel);
    const Statistics ms = time_device(run.measuring, [&] { work.launch(kernel); });
    CUDA_CHECK_LAUNCH();
    if (widest.repeats == 0) widest = ms;
    table.row(key, {double(compiled.registers), double(compiled.local_bytes),
                    double(resident_blocks(has, compiled.registers)), double(compiled.blocks),
                    percent(double(compiled.blocks) * threads / prop.maxThreadsPerMultiProcessor), ms, spread_text(ms),
                    times(ms.median / widest.median)});
    return ms;
  };
  for (const Budget& budget : budgets)
    tightest = row({budget_by, "registers", std::to_string(budget.registers)}, budget.kernel);
#ifdef REGISTER_FLAG  // this file was compiled with -maxrregcount=REGISTER_FLAG
  const std::string flag = "-maxrregcount=" + std::to_string(REGISTER_FLAG);
  row({flag}, hash_unbounded);
  row({flag + " and launch bounds"}, hash_bounded);
  table.print();
  const int alone = Compiled(hash_unbounded).registers, beside = Compiled(hash_bounded).registers;
  if (alone > REGISTER_FLAG)
    run.report.note("the flag is lost where the driver compiles the kernels for this GPU itself");
  else
    run.report.note("the flag " + std::string(beside > REGISTER_FLAG ? "gives way to" : "overrules") +
                    " launch bounds: " + std::to_string(beside) + " registers with them, " + std::to_string(alone) +
                    " without");
#else
  row({"no budget"}, hash_unbounded);
  row({"launch bounds"}, hash_bounded);
  table.print();
  run.report.left_out("the rows of -maxrregcount", "the flag is for a whole file; CMake's build sets it");
#endif

  const Compiled wide(budgets.front().kernel), tight(budgets.back().kernel);
  const std::string unoptimised = "the widest budget spills too: this build does not optimise";
  Judgement spills = judge_ratio(tightest, widest);
  if (tight.local_bytes == 0) spills.verdict = Verdict::does_not_hold;
  spills.here = spills.here + " the time at " + std::to_string(tight.registers) + " registers and " +
                std::to_string(tight.local_bytes) + " local bytes";
  run.report.claim(spilling, wide.local_bytes > 0 ? not_judged(unoptimised) : spills);
  run.report.claim(more_blocks, judge_fact(tight.blocks > wide.blocks,
                                           std::to_string(wide.blocks) + " blocks at " +
                                               std::to_string(wide.registers) + " registers, " +
                                               std::to_string(tight.blocks) + " at " + std::to_string(tight.registers),
                                           double(tight.blocks) / wide.blocks, "x"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("registers: rolling from window to window gives the hash of each window") {
  for (int length : {1, 2, 31}) {
    CAPTURE(length);
    const size_t n = 101;
    std::vector<unsigned> words(n + length);
    for (size_t i = 0; i < words.size(); ++i) words[i] = unsigned(i * i * 2654435769u + 17);
    const std::vector<unsigned> rolled = expected(words, n, length);
    for (size_t i = 0; i < n; ++i) {
      unsigned all = 0;
      for (int k = 0; k < hashes; ++k) {
        unsigned hash = 0;
        for (int step = 0; step < length; ++step) hash = hash * multiplier(k) + words[i + step];
        all ^= hash;
      }
      CHECK(rolled[i] == all);
    }
  }
}

TEST_CASE("registers: predicted blocks are those of the occupancy tables") {
  CHECK(resident_blocks(text_gpus, 16) == 16);         // 2048 threads
  CHECK(resident_blocks(text_gpus, 32) == 16);         // 2048 threads x 32 registers are all 65536
  CHECK(resident_blocks(text_gpus, 33) == 12);         // a warp takes 40 x 32 registers
  CHECK(resident_blocks(text_gpus, 64) == 8);          // 1024 threads
  CHECK(resident_blocks(text_gpus, 96) == 5);          // 640 threads, 4096 registers idle
  CHECK(resident_blocks(text_gpus, 128) == 4);         // 512 threads
  CHECK(resident_blocks(text_gpus, 255) == 2);         // 256 threads: the most registers that a thread can have
  CHECK(resident_blocks({65536, 1024, 16}, 32) == 8);  // compute capability 7.5: half the threads
  CHECK(resident_blocks({65536, 2048, 8}, 32) == 8);
}

TEST_CASE("registers: every budget gives the same hashes") {
  if (skip_without_gpu()) return;
  for (size_t n : {1, 31, 127, 129, 1009, 40007}) {
    CAPTURE(n);
    Work work(n, 37);
    for (const Budget& budget : budgets) {
      CAPTURE(budget.registers);
      CHECK(work.right(budget.kernel));
    }
    CHECK(work.right(hash_unbounded));
    CHECK(work.right(hash_bounded));
  }
}

TEST_CASE("registers: no kernel exceeds its budget and as many blocks fit as predicted") {
  if (skip_without_gpu()) return;
  int device = 0;
  cudaDeviceProp prop;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaGetDeviceProperties(&prop, device));
  const Multiprocessor has{prop.regsPerMultiprocessor, prop.maxThreadsPerMultiProcessor,
                           prop.maxBlocksPerMultiProcessor};
  for (const Budget& budget : budgets) {
    CAPTURE(budget.registers);
    const Compiled compiled(budget.kernel);
    CHECK(compiled.registers <= budget.registers);
    CHECK(compiled.blocks == resident_blocks(has, compiled.registers));
    if (budget.registers < hashes) CHECK(compiled.local_bytes > 0);  // 80 hashes and nowhere else to be
  }
}
