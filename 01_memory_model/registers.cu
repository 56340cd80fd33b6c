// registers: one kernel compiled for ever fewer registers a thread. The wiki says that fewer
// registers let more blocks reside on a multiprocessor, and that what does not fit spills to local
// memory and costs time [LC 4]. Look at the budget where local bytes begin, at how far the resident
// blocks rise below it, and at what the time does meanwhile. The text has three ways to set a
// budget: launch bounds, nvcc's flag, which gives way to launch bounds, and none; __maxnreg__ is
// today's. To see what the compiler says of a kernel, as the text does, compile with -Xptxas -v.
//   cmake -S 01_memory_model -B build/registers -DEXPERIMENTS=registers
//   cmake --build build/registers && build/registers/01_memory_model
//
//   1  hash_bounded   80 values alive in each thread; launch bounds that any budget meets
//   2  hash_resident  1 with launch bounds by which so many blocks have to fit
//   3  hash_within    1 with __maxnreg__: at most so many registers (CUDA 12.4 and later)
//   4  hash_unsaid    1 with nothing said: the compiler's choice, or that of nvcc's flag
#include <algorithm>

#include "../common/report.hpp"

namespace {

constexpr int threads = 128;
constexpr int hashes = 80;  // alive at once in every thread: with a few for addresses, about 90
                            // registers, a third of what a thread can have

__host__ __device__ constexpr unsigned multiplier(int k) { return 2654435769u * (2 * k + 1); }

// ---- kernels: thread i leaves in out[i] the 80 hashes, made one, of the `length` words from word
// i on. A warp reads 32 neighbouring words at each step; everything else that it moves is spilled
// hashes. The steps are not unrolled: eight words at a time would let the compiler fetch a spilled
// hash once and use it eight times. ----

// [hash_bounded]
// Launch bounds: blocks have at most 128 threads. For that any number of registers will do.
__global__ void __launch_bounds__(threads)
    hash_bounded(unsigned* out, const unsigned* words, size_t n, int length) {
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
// [/hash_bounded]

// The same, where at least so many blocks have to fit on a multiprocessor: among its registers, so
// that 8 of these blocks leave 65536 / 1024 = 64 for each thread.
template <int blocks>
__global__ void __launch_bounds__(threads, blocks)
    hash_resident(unsigned* out, const unsigned* words, size_t n, int length) {
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

#if CUDART_VERSION >= 12040
// The same, at so many registers a thread.
template <int registers>
__global__ void __maxnreg__(registers)
    hash_within(unsigned* out, const unsigned* words, size_t n, int length) {
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
#endif

// The same with nothing said of registers: the compiler's choice, or that of nvcc's flag.
__global__ void hash_unsaid(unsigned* out, const unsigned* words, size_t n, int length) {
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

// ---- the story in order ----

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

/// How a kernel was given its budget. CMake compiles this file with -maxrregcount=REGISTER_FLAG,
/// which is for a whole file: a build by one line of nvcc does without.
struct Budget {
  std::string name;
  std::string parameter, at;  ///< what the launch bounds or __maxnreg__ say
  Kernel kernel;
  int registers;  ///< that a thread may have, 0 where nothing limits them
};

#ifdef REGISTER_FLAG
constexpr int flag = REGISTER_FLAG;
#else
constexpr int flag = 0;
#endif

const std::string flag_name = "-maxrregcount=" + std::to_string(flag);

/// The rows, those from which the model takes its constants first. No multiprocessor refuses 1024
/// threads, and some (7.5) refuse more: launch bounds end at 8 blocks.
std::vector<Budget> all_budgets() {
  std::vector<Budget> all{
      {"launch bounds", "", "", hash_bounded, 0},
      {"launch bounds", "blocks", "8", hash_resident<8>, 64},
      {"launch bounds", "blocks", "6", hash_resident<6>, 85},
      {"launch bounds", "blocks", "4", hash_resident<4>, 128},
      {"launch bounds", "blocks", "2", hash_resident<2>, 255},
  };
#if CUDART_VERSION >= 12040
  all.push_back({"__maxnreg__", "registers", "128", hash_within<128>, 128});
  all.push_back({"__maxnreg__", "registers", "96", hash_within<96>, 96});
  all.push_back({"__maxnreg__", "registers", "80", hash_within<80>, 80});
  all.push_back({"__maxnreg__", "registers", "64", hash_within<64>, 64});
  all.push_back({"__maxnreg__", "registers", "48", hash_within<48>, 48});
  all.push_back({"__maxnreg__", "registers", "32", hash_within<32>, 32});
#endif
  all.push_back({flag ? flag_name : "nothing said", "", "", hash_unsaid, flag});
  return all;
}
constexpr size_t in_registers = 0, spilling = 1;  // the two rows of constants

// ---- what is right ----

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

/// n windows of words without pattern. The last window's last word ends its allocation, so that a
/// read beyond is seen by memcheck; behind the results stand canaries.
struct Windows {
  static constexpr size_t canaries = 256;  ///< more than a block beyond the last thread would write

  size_t n;
  int length;
  std::vector<unsigned> right;
  DeviceBuffer<unsigned> in, out;

  Windows(size_t n, int length) : n(n), length(length), in(n + length - 1), out(n + canaries) {
    std::vector<unsigned> words(in.size());
    unsigned state = 12345;
    for (unsigned& word : words) word = state = state * 1664525u + 1013904223u;
    right = expected(words, n, length);
    right.resize(out.size(), ~0u);  // as poisoned
    in.copy_from(words);
  }
  size_t wrong() const {
    const std::vector<unsigned> found = out.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != right[i];
    return wrong;
  }
  Task task(const Budget& budget) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    const Kernel kernel = budget.kernel;
    return {budget.name + " " + budget.at,
            [this, kernel] {
              const unsigned blocks = unsigned((n + threads - 1) / threads);
              kernel<<<blocks, threads>>>(out.data(), in.data(), n, length);
            },
            std::move(check)};
  }
};

// ---- what to expect ----

/// What a multiprocessor has to give to blocks.
struct Multiprocessor {
  int registers, threads, blocks;
};
constexpr Multiprocessor text_gpus{65536, 2048, 32};  // P100 and V100 alike: 256 KiB of registers

Multiprocessor multiprocessor_of(const cudaDeviceProp& p) {
  return {p.regsPerMultiprocessor, p.maxThreadsPerMultiProcessor, p.maxBlocksPerMultiProcessor};
}

/// Blocks that fit at once when each thread takes so many registers. A multiprocessor is four
/// (some: two) parts with a register file each, a block's four warps are spread over them evenly,
/// and a warp's registers are handed out by 256.
int resident_blocks(const Multiprocessor& has, int registers) {
  constexpr int parts = 4, warps = threads / 32;
  const int of_a_warp = (registers * 32 + 255) / 256 * 256;
  return std::min(
      {has.registers / parts / of_a_warp * parts / warps, has.threads / threads, has.blocks});
}

/// What the compiler made of a kernel, and how many of its blocks fit.
struct Compiled {
  int registers = 0;
  size_t local_bytes = 0;
  int blocks = 0;
};

// [compiled]
Compiled compiled_of(Kernel kernel) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  Compiled found{attributes.numRegs, attributes.localSizeBytes, 0};
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&found.blocks, kernel, threads, 0));
  return found;
}
// [/compiled]

/// Measured in the same run.
struct Calibrated {
  double arithmetic_ms = NAN;    ///< with all hashes in registers
  double ms_a_local_byte = NAN;  ///< of a thread, with 64 registers
};

/// The slower of two things: the multiply-adds; and the spilled hashes, each of which goes to local
/// memory, through L1 to the L2, and comes back at every step. What else lies in local memory (the
/// compiler's own, at the tightest budgets) is not moved in every step.
double predicted_ms(size_t local_bytes, const Calibrated& c) {
  if (local_bytes == 0) return c.arithmetic_ms;
  const size_t all_hashes = hashes * sizeof(unsigned);
  const double spilled = double(std::min(local_bytes, all_hashes)) * c.ms_a_local_byte;
  return std::isfinite(spilled) ? std::max(c.arithmetic_ms, spilled) : NAN;
}

// ---- the experiment ----

struct Found {
  std::vector<Budget> budgets;
  std::vector<Compiled> compiled;
  std::vector<Readings> times;
};

Found measure(const Run& run, Windows& windows) {
  Found found{all_budgets(), {}, {}};
  std::vector<Task> tasks;
  for (const Budget& budget : found.budgets) {
    found.compiled.push_back(compiled_of(budget.kernel));
    tasks.push_back(windows.task(budget));
  }
  found.times = run.time_in_turn(tasks);
  return found;
}

void show(const Run& run, const Found& found) {
  Table table(run.report, "budget",
              {counted("registers", "registers", "registers", 0),
               counted("local bytes", "local memory a thread", "B", 0),
               predicted("blocks predicted", "resident blocks", "blocks", 0),
               counted("resident", "resident blocks", "blocks", 0), compared("ms", "time", "ms", 3),
               shown("spread"), shown("to first row")});
  const Multiprocessor has = multiprocessor_of(run.device->prop);
  Calibrated c;
  c.arithmetic_ms = found.times[in_registers].median();
  c.ms_a_local_byte = found.times[spilling].median() / double(found.compiled[spilling].local_bytes);
  for (size_t i = 0; i < found.budgets.size(); ++i) {
    const Compiled& compiled = found.compiled[i];
    const Statistics ms = found.times[i].statistics();
    Cell time = Calibration{ms};
    if (i != in_registers && i != spilling)  // stores to the L2 bound these on 9.0; elsewhere?
      time = Compared{predicted_ms(compiled.local_bytes, c), ms,
                      run.device->prop.major == 9 ? Model::traffic : Model::host};
    const Budget& budget = found.budgets[i];
    table.row({budget.name, budget.parameter, budget.at},
              {double(compiled.registers), double(compiled.local_bytes),
               double(resident_blocks(has, compiled.registers)), double(compiled.blocks), time,
               spread_text(ms), times(ms.median / c.arithmetic_ms)});
  }
  table.print();
  run.report.note("calibration: the arithmetic, and a spilled byte a thread");
}

/// What nvcc's flag did: the last row was compiled with it alone, the first with launch bounds too.
void show_flag(const Run& run, const Found& found) {
  if (!flag)
    return run.report.left_out("the row of -maxrregcount",
                               "the flag is for a whole file; CMake's build sets it");
  const int alone = found.compiled.back().registers;
  const int beside = found.compiled[in_registers].registers;
  if (alone > flag)
    return run.report.note("the flag is lost where the driver compiles the kernels for this GPU");
  run.report.note("the flag " + std::string(beside > flag ? "gives way to" : "overrules") +
                  " launch bounds: " + std::to_string(beside) + " registers with them, " +
                  std::to_string(alone) + " without");
}

/// The kernel with the fewest registers, or the first of them.
size_t tightest(const std::vector<Compiled>& compiled) {
  size_t least = 0;
  for (size_t i = 1; i < compiled.size(); ++i)
    if (compiled[i].registers < compiled[least].registers) least = i;
  return least;
}

void judge(const Run& run, const Compiled& wide, const Compiled& tight, const Interval& slowdown) {
  const Part spills{"01.3",
                    "a register budget too small spills to local memory and slows the kernel", "",
                    "wiki"};
  const Part more_blocks{"01.4", "fewer registers allow more resident blocks", "", "wiki"};
  const std::string registers = " at " + std::to_string(tight.registers) + " registers";
  if (!run.device)
    run.report.not_judged(spills, "no GPU");
  else if (wide.local_bytes > 0)
    run.report.not_judged(spills, "the widest budget spills too: this build does not optimise");
  else if (tight.local_bytes == 0)
    run.report.judge_fact(spills, false, "nothing is spilled" + registers);
  else
    run.report.judge(spills, beats(), slowdown,
                     slower(slowdown) + registers + " and " + std::to_string(tight.local_bytes) +
                         " local bytes");
  if (!run.device) return run.report.not_judged(more_blocks, "no GPU");
  run.report.judge_fact(
      more_blocks, tight.blocks > wide.blocks,
      std::to_string(wide.blocks) + " blocks at " + std::to_string(wide.registers) +
          " registers, " + std::to_string(tight.blocks) + " at " + std::to_string(tight.registers));
}

/// The blocks that fit, by the model, where no kernel can be asked.
void show_models(const Run& run) {
  Table table(run.report, "registers a thread",
              {predicted("blocks fit", "resident blocks", "blocks", 0)});
  for (const int registers : {168, 128, 96, 80, 64, 48, 32})
    table.row({"P100 and V100", "registers", std::to_string(registers)},
              {double(resident_blocks(text_gpus, registers))});
  table.print();
}

/// Windows, a thread each, in 64 blocks a multiprocessor, of which a P100 has 56.
size_t windows_of(const Run& run) {
  const int multiprocessors = run.device ? run.device->prop.multiProcessorCount : 56;
  return size_t(multiprocessors) * (run.quick ? 16 : 64) * threads;
}

}  // namespace

void registers(const Run& run) {
  constexpr int length = 128;
  const size_t n = windows_of(run);
  run.report.begin("registers",
                   std::to_string(n) + " threads in blocks of " + std::to_string(threads) +
                       ", each with " + std::to_string(hashes) + " hashes of " +
                       std::to_string(length) + " words, " + bytes_text(8.0 * double(n)));
  if (!run.device) {
    show_models(run);
    run.report.left_out("registers and local bytes of the compiled kernels, their time");
    return judge(run, {}, {}, {});
  }
  Windows windows(n, length);
  const Found found = measure(run, windows);
  show(run, found);
  show_flag(run, found);
  const size_t tight = tightest(found.compiled);
  judge(run, found.compiled[in_registers], found.compiled[tight],
        ratio(found.times[tight], found.times[in_registers]));
}
