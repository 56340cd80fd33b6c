// registers: one kernel compiled for ever fewer registers per thread. The wiki says two things
// [LC 4]: fewer registers let more blocks reside on a multiprocessor; what does not fit spills to
// local memory and costs time. Three things to look at:
//   - The budget at which the first bytes spill.
//   - How far the resident blocks rise below it, and what the time does meanwhile.
//   - What is won where the compiler may spill to shared memory instead (CUDA 13.0).
// The text has three ways to set a budget: launch bounds; nvcc's flag, which gives way to launch
// bounds; and none. __maxnreg__ is today's. To see what the compiler says of a kernel, as the text
// does, compile with -Xptxas -v.
//
//   cmake -S 01_memory_model -B build/registers -DEXPERIMENTS=registers
//   cmake --build build/registers && build/registers/01_memory_model
#include <algorithm>
#include <cstdint>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

constexpr int threads = 128;
constexpr int hashes = 80;  // alive at once in every thread: with a few for addresses, about 90
                            // registers, a third of what a thread can have

__host__ __device__ constexpr unsigned multiplier(int k) { return 2654435769u * (2 * k + 1); }

// ---- kernels ----

// [hash_words]
// Thread i leaves in out[i] its 80 hashes, made one, of the `length` words from word i on. At each
// step a warp reads 32 neighbouring words; everything else that it moves is spilled hashes. The
// steps are not unrolled: over eight words at a time the compiler would fetch a spilled hash once
// and use it eight times.
__device__ __forceinline__ void hash_words(unsigned* out, const unsigned* words, size_t n,
                                           int length) {
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
// [/hash_words]

// [budgets]
// Launch bounds: blocks have at most 128 threads. For that any number of registers will do.
__global__ void __launch_bounds__(threads)
    hash_bounded(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}

// At least so many blocks have to fit on a multiprocessor: 8 of these blocks leave 65536 / 1024 =
// 64 of its registers for each thread.
template <int blocks>
__global__ void __launch_bounds__(threads, blocks)
    hash_resident(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}

// Nothing said of registers: the compiler's choice, or that of nvcc's flag.
__global__ void hash_unsaid(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}
// [/budgets]

#if CUDART_VERSION >= 12040
// At most so many registers per thread.
template <int registers>
__global__ void __maxnreg__(registers)
    hash_within(unsigned* out, const unsigned* words, size_t n, int length) {
  hash_words(out, words, n, length);
}
#endif

// ptxas refuses the pragma where it compiles function by function: with -rdc=true and with -G.
#if CUDART_VERSION >= 13000 && !defined(__CUDACC_RDC__) && !defined(__CUDACC_DEBUG__)
#define CAN_SPILL_TO_SHARED
// [hash_to_shared]
// As hash_resident, but what does not fit may go to shared memory first.
template <int blocks>
__global__ void __launch_bounds__(threads, blocks)
    hash_to_shared(unsigned* out, const unsigned* words, size_t n, int length) {
  asm volatile(".pragma \"enable_smem_spilling\";");
  hash_words(out, words, n, length);
}
// [/hash_to_shared]
#endif

// ---- the budgets ----

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

/// How a kernel was given its budget. CMake compiles this file with -maxrregcount=REGISTER_FLAG,
/// which is for a whole file: a build by one line of nvcc does without.
struct Budget {
  Ref ref;  ///< at: what the launch bounds or __maxnreg__ say
  Kernel kernel = nullptr;
  std::string words = {};
  int registers = 0;  ///< that a thread may have, 0 where nothing limits them
};

#ifdef REGISTER_FLAG
constexpr int flag = REGISTER_FLAG;
#else
constexpr int flag = 0;
#endif

/// No multiprocessor refuses 1024 threads, and some (7.5) refuse more: launch bounds end at 8
/// blocks.
std::vector<Budget> all_budgets() {
  const auto resident = [](Kernel kernel, int blocks, int registers) {
    return Budget{{"hash_resident", double(blocks)},
                  kernel,
                  "launch bounds, " + std::to_string(blocks) + " blocks",
                  registers};
  };
  std::vector<Budget> all{{"hash_bounded", hash_bounded, "launch bounds"},
                          resident(hash_resident<2>, 2, 255),
                          resident(hash_resident<4>, 4, 128),
                          resident(hash_resident<6>, 6, 85),
                          resident(hash_resident<8>, 8, 64)};
#ifdef CAN_SPILL_TO_SHARED
  const auto to_shared = [](Kernel kernel, int blocks, int registers) {
    return Budget{{"hash_to_shared", double(blocks)},
                  kernel,
                  "the same, to shared, " + std::to_string(blocks) + " blocks",
                  registers};
  };
  all.push_back(to_shared(hash_to_shared<6>, 6, 85));
  all.push_back(to_shared(hash_to_shared<8>, 8, 64));
#endif
#if CUDART_VERSION >= 12040
  const auto within = [](Kernel kernel, int registers) {
    return Budget{{"hash_within", double(registers)},
                  kernel,
                  "__maxnreg__, " + std::to_string(registers),
                  registers};
  };
  all.push_back(within(hash_within<128>, 128));
  all.push_back(within(hash_within<96>, 96));
  all.push_back(within(hash_within<80>, 80));
  all.push_back(within(hash_within<64>, 64));
  all.push_back(within(hash_within<48>, 48));
  all.push_back(within(hash_within<32>, 32));
#endif
  const std::string flag_words = "-maxrregcount=" + std::to_string(flag);
  all.push_back({"hash_unsaid", hash_unsaid, flag ? flag_words : "nothing said", flag});
  return all;
}

const Ref in_registers("hash_bounded"), spilling("hash_resident", 8);  // the model's constants

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

struct Word {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsRight {
  const unsigned* right;
  __device__ bool operator()(size_t i, unsigned found) const { return found == right[i]; }
};

/// n windows of words without pattern. The last window's last word ends its allocation.
struct Windows {
  size_t n;
  int length;
  DeviceBuffer<unsigned> words;
  Output<unsigned> out;
  DeviceBuffer<unsigned> right;

  Windows(size_t n, int length)
      : n(n), length(length), words(filled<unsigned>(n + length - 1, Word{})), out(n), right(n) {
    if (!device_memory::Pretence::stands()) right.copy_from(expected(words.to_host(), n, length));
  }
};

Task task_of(const Shared<Windows>& w, const Budget& budget) {
  const Kernel kernel = budget.kernel;
  const auto launch = [w, kernel] {
    const unsigned blocks = unsigned((w->n + threads - 1) / threads);
    kernel<<<blocks, threads>>>(w->out.data(), w->words.data(), w->n, w->length);
  };
  return {text(budget.ref),
          launch,
          {[w] { w->out.poison(); }, [w] { return w->out.wrong(IsRight{w->right.data()}); }, ""}};
}

// ---- prediction ----

/// What a multiprocessor has to give to blocks.
struct Multiprocessor {
  int registers, threads, blocks;
  size_t shared_bytes = SIZE_MAX;
};
constexpr Multiprocessor text_gpus{65536, 2048, 32};  // P100 and V100 alike: 256 KiB of registers

Multiprocessor multiprocessor_of(const cudaDeviceProp& p) {
  return {p.regsPerMultiprocessor, p.maxThreadsPerMultiProcessor, p.maxBlocksPerMultiProcessor,
          p.sharedMemPerMultiprocessor};
}

/// Blocks that fit at once when each thread takes so many registers, and each block so much shared
/// memory. A multiprocessor is four (some: two) parts with a register file each, a block's four
/// warps are spread over them evenly, and a warp's registers are handed out by 256.
int resident_blocks(const Multiprocessor& has, int registers, size_t shared_bytes = 0) {
  constexpr int parts = 4, warps = threads / 32;
  constexpr size_t reserved = 1024;  // of each block's shared memory, from 8.0 on
  const int of_a_warp = (registers * 32 + 255) / 256 * 256;
  int fit = std::min(
      {has.registers / parts / of_a_warp * parts / warps, has.threads / threads, has.blocks});
  if (shared_bytes > 0) fit = std::min(fit, int(has.shared_bytes / (shared_bytes + reserved)));
  return fit;
}

/// Measured in the same run.
struct Calibrated {
  double arithmetic_ms = NAN;      ///< with all hashes in registers
  double ms_per_local_byte = NAN;  ///< of a thread, with 64 registers
};

/// The slower of two things: the multiply-adds; and the spilled hashes, each of which goes to local
/// memory, through L1 to the L2, and comes back at every step. What else lies in local memory (the
/// compiler's own, at the tightest budgets) is not moved in every step. What spills to shared
/// memory is taken to cost nothing.
double predicted_ms(double local_bytes, const Calibrated& c) {
  if (local_bytes == 0) return c.arithmetic_ms;
  const double all_hashes = hashes * sizeof(unsigned);
  const double spilled = std::min(local_bytes, all_hashes) * c.ms_per_local_byte;
  return std::isfinite(spilled) ? std::max(c.arithmetic_ms, spilled) : NAN;
}

// ---- the experiment ----

const char* const registers_used = "registers";
const char* const local_memory = "local memory per thread";
const char* const shared_memory = "shared memory per block";
const char* const resident = "resident blocks";

double asked(const Run& run, const Ref& ref, const char* metric) {
  return run.results->value(ref, metric).value.median;
}

/// What the compiler made of a kernel, and how many of its blocks fit.
struct Compiled {
  int registers = 0;
  size_t local_bytes = 0, shared_bytes = 0;
  int blocks = 0;
};

// [compiled]
Compiled compiled_of(Kernel kernel) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
  return {attributes.numRegs, attributes.localSizeBytes, attributes.sharedSizeBytes, blocks};
}
// [/compiled]

void ask_compiler(const Run& run, const Budget& budget) {
  const auto ask_for = [&](const char* metric, const char* unit,
                           const Function<double(const Compiled&)>& which) {
    ask_for_table(run, budget.ref, metric, unit,
                  [&] { return single(which(compiled_of(budget.kernel))); });
  };
  ask_for(registers_used, "registers", [](const Compiled& c) { return double(c.registers); });
  ask_for(local_memory, "B", [](const Compiled& c) { return double(c.local_bytes); });
  ask_for(shared_memory, "B", [](const Compiled& c) { return double(c.shared_bytes); });
  ask_for(resident, "blocks", [](const Compiled& c) { return double(c.blocks); });
}

Shown of_compiler(const Run& run, Column column) {
  const std::string metric = column.metric;
  return number(std::move(column),
                [&run, metric](const Row& row) { return asked(run, row.ref, metric.c_str()); });
}

/// The budget with the fewest registers, or the first of them.
Ref tightest(const Run& run) {
  Ref least = in_registers;
  for (const Budget& budget : all_budgets())
    if (asked(run, budget.ref, registers_used) < asked(run, least, registers_used))
      least = budget.ref;
  return least;
}

/// The blocks that fit, by the model, where no kernel can be asked.
void show_models(const Run& run) {
  Table table(run.report, "registers per thread", {predicted("blocks fit", resident, "blocks", 0)});
  for (const int registers : {168, 128, 96, 80, 64, 48, 32})
    table.row({"p100_and_v100", "registers", std::to_string(registers),
               "P100 and V100, " + std::to_string(registers)},
              {double(resident_blocks(text_gpus, registers))});
  table.print();
}

/// What nvcc's flag did: hash_unsaid was compiled with it alone, hash_bounded with launch bounds,
/// too.
void show_flag(const Run& run) {
  if (!flag)
    return run.report.left_out("the row of -maxrregcount",
                               "the flag is for a whole file; CMake's build sets it");
  const double alone = asked(run, "hash_unsaid", registers_used);
  const double beside = asked(run, in_registers, registers_used);
  if (alone > flag)
    return run.report.note("the flag is lost where the driver compiles the kernels for this GPU");
  run.report.note("the flag " + std::string(beside > flag ? "gives way to" : "overrules") +
                  " launch bounds: " + fixed(beside, 0) + " registers with them, " +
                  fixed(alone, 0) + " without");
}

/// Windows, a thread each, in 64 blocks per multiprocessor, of which a P100 has 56.
size_t windows_of(const Run& run) {
  const int multiprocessors = run.device ? run.device->prop.multiProcessorCount : 56;
  return size_t(multiprocessors) * (run.quick ? 16 : 64) * threads;
}

void run_registers(const Run& run) {
  constexpr int length = 128;
  const size_t n = windows_of(run);
  run.report.begin("registers",
                   std::to_string(n) + " threads in blocks of " + std::to_string(threads) +
                       ", each with " + std::to_string(hashes) + " hashes of " +
                       std::to_string(length) + " words, " + bytes_text(8.0 * double(n)));
  const std::vector<Budget> budgets = all_budgets();
  for (const Budget& budget : budgets) ask_compiler(run, budget);
  if (!run.device) show_models(run);

  const auto fit = [&run](const Row& row) {
    const double registers = asked(run, row.ref, registers_used);
    const double shared = asked(run, row.ref, shared_memory);
    if (!run.device || std::isnan(registers)) return double(NAN);
    return double(resident_blocks(multiprocessor_of(run.device->prop), int(registers),
                                  std::isnan(shared) ? 0 : size_t(shared)));
  };
  const auto to_first = [&run](const Row&, const Statistics& ms) {
    return times(ms.median / (*run.results)(in_registers).time.ms.median);
  };
  Sheet sheet(run, "budget",
              {of_compiler(run, counted("registers", registers_used, "registers", 0)),
               of_compiler(run, counted("local B", local_memory, "B", 0)),
               of_compiler(run, counted("shared B", shared_memory, "B", 0)),
               number(predicted("blocks predicted", resident, "blocks", 0), fit),
               of_compiler(run, counted("resident", resident, "blocks", 0)),
               milliseconds(3),
               spread(),
               {shown("to first row"), {}, {}, to_first}});
  for (const Budget& budget : budgets)
    sheet.add({.ref = budget.ref,
               .words = budget.words,
               .calibrates = same(budget.ref, in_registers) || same(budget.ref, spilling),
               // stores to the L2 bound these on 9.0; elsewhere?
               .model = run.device && run.device->prop.major == 9 ? Model::traffic : Model::host});
  SharedByTasks windows([n] { return Windows(n, length); });
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const auto of_row = [&row](const Budget& budget) { return same(budget.ref, row.ref); };
    return task_of(windows(), *std::find_if(budgets.begin(), budgets.end(), of_row));
  });
  const Calibrated c{sheet.ms(in_registers),
                     sheet.ms(spilling) / asked(run, spilling, local_memory)};
  sheet.predict([&](const Row& row) { return predicted_ms(asked(run, row.ref, local_memory), c); });
  sheet.print({"constants: the arithmetic, and a spilled byte per thread"});
  if (run.device) show_flag(run);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const Ref tight = tightest(run);
  const auto of = [&](const Ref& ref, const char* metric) { return asked(run, ref, metric); };
  Claim spills{.part = {"01.3",
                        "a register budget too small spills to local memory and slows the kernel",
                        "", "wiki"}};
  const double local = of(tight, local_memory);
  const std::string at = "at " + fixed(of(tight, registers_used), 0) + " registers";
  if (run.device && of(in_registers, local_memory) > 0)
    spills.unless = "the widest budget spills too: this build does not optimise";
  if (local == 0) {
    spills.fact = Fact::not_so;
    spills.here = "nothing is spilled " + at;
  } else {
    spills.rule = beats();
    spills.pairs = {{.slow = tight, .fast = in_registers}};
    spills.here = at + " and with " + fixed(local, 0) + " local bytes";
  }
  Claim blocks{.part = {"01.4", "fewer registers allow more resident blocks", "", "wiki"},
               .fact = of(tight, resident) > of(in_registers, resident) ? Fact::so : Fact::not_so,
               .here = fixed(of(in_registers, resident), 0) + " blocks at " +
                       fixed(of(in_registers, registers_used), 0) + " registers, " +
                       fixed(of(tight, resident), 0) + " " + at};
  if (!run.device) blocks.fact = Fact::none, blocks.unless = "no GPU";
  return {spills, blocks};
}

// ---- what it declares ----

Needs needs(const Run& run) { return {.allocated = 12.0 * double(windows_of(run))}; }

std::vector<Checked> tasks(size_t n) {
  constexpr int length = 37;
  const Shared windows(Windows(n, length));
  std::vector<Checked> all;
  for (const Budget& budget : all_budgets())
    all.push_back({.task = task_of(windows, budget), .elements = n, .change_one = [windows, n] {
                     windows->out.change(n - 1);
                   }});
  return all;
}

}  // namespace

extern const Experiment registers_experiment{
    .name = "registers",
    .about = "register budgets, spills, and how many blocks fit",
    .run = run_registers,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
