// unroll, 2 of 2: what else the replies in the wiki expect of more words per thread [LC 3]. Values
// that the words share stay in registers; there is work to do between the accesses; the last blocks
// leave no tail. A plain sum of vectors has none of the three. Here are two kernels that have, with
// one word per thread and with four: stacks for the first, chains for the other two.
//
//   1  stack1  a thread adds up 25 rows for one word, and shares nothing
//   2  stack4  for four words, one below the other, which share 22 of their 25 rows
//   3  chain1  one word goes through a long chain of additions: each waits for the one before
//   4  chain4  four words at a time: four chains
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "unroll.hpp"

using namespace samples;

namespace {

// ---- kernels ----

constexpr unsigned height = 25;             // rows of a stack
constexpr unsigned across = 32, down = 16;  // a block's threads
// While one block waits for its first rows another one adds. On 8.0 and 9.0, which have room for
// 2048 threads, four blocks at once leave each thread 32 registers. Every GPU has room for two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900
constexpr int blocks_at_once = 2;
#else
constexpr int blocks_at_once = 4;
#endif

// [stack1]
// out[y][x] = in[y][x] + in[y + 1][x] + ... of 25 rows. A warp reads 32 neighbours 25 times; L1 has
// most of them, since other warps of the block read the same rows.
__global__ void __launch_bounds__(across* down, blocks_at_once)
    stack1(unsigned* out, const unsigned* in, unsigned columns, unsigned rows) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= columns || y >= rows) return;
  unsigned sum = 0;
#pragma unroll
  for (unsigned d = 0; d < height; ++d) sum += in[size_t(y + d) * columns + x];
  out[size_t(y) * columns + x] = sum;
}
// [/stack1]

// [stack4]
// Four rows of the output from 28 of the input: 7 loads per word, where stack1 has 25.
__global__ void __launch_bounds__(across* down, blocks_at_once)
    stack4(unsigned* out, const unsigned* in, unsigned columns, unsigned rows) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = 4 * (blockIdx.y * blockDim.y + threadIdx.y);
  if (x >= columns || y >= rows) return;
  unsigned sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (unsigned d = 0; d < height + 3; ++d) {
    const bool there = y + d < rows + height - 1;
    const unsigned word = there ? in[size_t(y + d) * columns + x] : 0;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (d >= k && d < k + height) sum[k] += word;  // known when it is compiled
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    if (y + k < rows) out[size_t(y + k) * columns + x] = sum[k];
}
// [/stack4]

// [chain1]
// A thread takes one word after the other. No addition begins before the last one has ended.
__global__ void chain1(float* out, const float* in, unsigned n, unsigned turns, float addend) {
  const unsigned threads = gridDim.x * blockDim.x;
#pragma unroll 1
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
    float word = in[i];
#pragma unroll 16
    for (unsigned turn = 0; turn < turns; ++turn) word += addend;
    out[i] = word;
  }
}
// [/chain1]

// [chain4]
// Four words at a time: while one chain waits, the thread goes on with another.
__global__ void chain4(float* out, const float* in, unsigned n, unsigned turns, float addend) {
  const unsigned threads = gridDim.x * blockDim.x;
#pragma unroll 1
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * threads) {
    float word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = i + k * threads < n ? in[i + k * threads] : 0;
#pragma unroll 16
    for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) word[k] += addend;
    }
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (i + k * threads < n) out[i + k * threads] = word[k];
  }
}
// [/chain4]

// ---- what is right ----

struct Input {
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsCopy {
  __device__ bool operator()(size_t i, unsigned found) const { return found == Input{}(i); }
};
struct IsStack {
  unsigned columns;
  __host__ __device__ unsigned stack(size_t i) const {
    unsigned sum = 0;
    for (unsigned row = 0; row < height; ++row) sum += Input{}(i + size_t(row) * columns);
    return sum;
  }
  __device__ bool operator()(size_t i, unsigned found) const { return found == stack(i); }
};

/// `rows` rows of stacks, and the rows that they add up.
struct Stacks {
  unsigned columns, rows;
  DeviceBuffer<unsigned> in = filled<unsigned>(size_t(columns) * (rows + height - 1), Input{});
  Output<unsigned> out{size_t(columns) * rows};
};

template <auto kernel>
Task stack_task(const Shared<Stacks>& stacks, unsigned words) {
  const dim3 block(across, down);
  const unsigned high = down * words;  // rows of a block
  const dim3 grid((stacks->columns + across - 1) / across, (stacks->rows + high - 1) / high);
  const auto launch = [stacks, grid, block] {
    kernel<<<grid, block>>>(stacks->out.data(), stacks->in.data(), stacks->columns, stacks->rows);
  };
  return {std::string(name_of<kernel>()), launch, stacks->out.check(IsStack{stacks->columns})};
}
const char* const stack_copy = "copy_engine_stacks";
Task copy_task(const Shared<Stacks>& stacks) {
  const auto launch = [stacks] {
    CUDA_CHECK(cudaMemcpyAsync(stacks->out.data(), stacks->in.data(), stacks->out.size() * 4,
                               cudaMemcpyDeviceToDevice));
  };
  return {stack_copy, launch, stacks->out.check(IsCopy{})};
}

/// What a step of a chain adds; the kernels are not told before they run. Sums of whole numbers
/// below 2^24 are exact, and one step too few shows.
constexpr float addend = 3;

struct Word {  // 16 bits without pattern
  __host__ __device__ float operator()(size_t i) const { return float(scrambled(i) >> 16); }
};
/// The first `words` words went through a chain; the others stay poisoned.
struct IsChain {
  size_t words;
  unsigned steps;
  __device__ bool operator()(size_t i, float found) const {
    return i < words ? found == Word{}(i) + addend * float(steps) : found != found;
  }
};
struct Chains {
  unsigned n, steps;
  DeviceBuffer<float> in = filled<float>(n, Word{});
  Output<float> out{n};
};

/// The first `words` words by such a grid.
struct ChainGrid {
  unsigned words = 0, blocks = 0, threads = 0;
};
Task chain_task(const std::string& key, const Shared<Chains>& chains, unsigned at_once,
                const ChainGrid& g) {
  const auto launch = [chains, at_once, g] {
    const auto kernel = at_once == 1 ? chain1 : chain4;
    kernel<<<g.blocks, g.threads>>>(chains->out.data(), chains->in.data(), g.words, chains->steps,
                                    addend);
  };
  return {key, launch, chains->out.check(IsChain{g.words, chains->steps})};
}

// ---- prediction: stacks ----

/// L1's cycles for a warp's row of words: a line that is loaded takes one, as does a sector that is
/// stored (found in 04_bandwidth transpose).
double stack_cycles(unsigned words) { return (height + words - 1.0) / words + 4; }

/// The memory's time, or L1's if that is longer. `copy_ms`: of as many words.
double busy_ms(unsigned words, double outputs, double copy_ms, const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  const double cycles = outputs / 32 * stack_cycles(words) / device.prop.multiProcessorCount;
  return std::max(copy_ms, cycles / device.sm_clock_khz);
}

/// How often a multiprocessor begins a new set of blocks, each of which waits for its first rows.
double stack_rounds(unsigned words, double outputs, const Device& device) {
  const int fit = device.prop.maxThreadsPerMultiProcessor / int(across * down);
  const double resident = std::max(fit, 1) * double(device.prop.multiProcessorCount);
  return outputs / (across * down * words) / resident;
}

/// That wait, from the time with one word per thread.
double wait_of(double ms, double outputs, double copy_ms, const Device& device) {
  return std::max(0.0, ms - busy_ms(1, outputs, copy_ms, device)) /
         stack_rounds(1, outputs, device);
}
double stack_ms(unsigned words, double outputs, double copy_ms, double wait_ms,
                const Device& device) {
  return busy_ms(words, outputs, copy_ms, device) + stack_rounds(words, outputs, device) * wait_ms;
}

// ---- prediction: chains ----

/// Chains of a multiprocessor, from two rows of the same run.
struct Chain {
  double wait_ms = NAN;   ///< of a word alone: all its steps, each waiting for the last
  double issue_ms = NAN;  ///< of a word among so many that no step waits

  /// `one_by_one` words of a thread, in a multiprocessor that has `words` in all.
  double ms(double one_by_one, double words) const {
    return std::max(one_by_one * wait_ms, words * issue_ms);
  }
};

constexpr unsigned tail_threads = 256;  // of a block in the rows about the tail
constexpr unsigned few_threads = 128;   // a warp for each of a multiprocessor's four schedulers

/// Blocks of that size that a multiprocessor has at once.
unsigned resident_of_tail(const Device& device) {
  return std::max(1, device.prop.maxThreadsPerMultiProcessor / int(tail_threads));
}

// ---- the experiment ----

template <class Kernel>
void ask_registers(const Run& run, const char* key, Kernel* kernel) {
  ask(run, key, "registers a thread", "registers", [kernel] {
    cudaFuncAttributes attributes{};
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    return single(attributes.numRegs);
  });
}
/// The registers that were asked for; a row without a kernel has none.
Shown registers(const Run& run) {
  return number(shown("registers"), [&run](const Row& row) {
    if (row.ref.key == stack_copy) return double(NAN);
    return run.results->value(row.ref, "registers a thread").value.median;
  });
}

/// The side of a square that is more than four times the L2, in and out together.
unsigned stack_side(const Run& run) {
  size_t side = 8192;
  while (run.device && !beyond_l2(*run.device, 8.0 * double(side * side))) side *= 2;
  return unsigned(fitting_size("stacks", 0, side, run.memory_there(),
                               [](size_t n) { return 8.0 * double(n) * double(n + height); }));
}

void measure_stacks(const Run& run) {
  const unsigned side = stack_side(run);
  const double outputs = double(side) * side;
  SharedByTasks stacks([side] { return Stacks{side, side}; });
  ask_registers(run, "stack1", stack1);
  ask_registers(run, "stack4", stack4);
  Sheet sheet(run, "values that words share",
              {registers(run), milliseconds(4), spread(), bar_against(run, stack_copy)});
  const auto add = [&](const char* key, const char* words) {
    // the model was found on compute capability 9.0
    const bool known = run.device && run.device->prop.major == 9;
    sheet.add({.ref = key,
               .words = words,
               .bytes = 8 * outputs,
               .calibrates = key != std::string("stack4"),
               .model = known ? Model::latency : Model::host});
  };
  add(stack_copy, "copy engine");
  add("stack1", "25 rows, 1 word");
  add("stack4", "25 rows, 4 words");
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    if (row.ref.key == stack_copy) return copy_task(stacks());
    return row.ref.key == "stack1" ? stack_task<stack1>(stacks(), 1)
                                   : stack_task<stack4>(stacks(), 4);
  });
  if (run.device) {
    const double copy_ms = sheet.ms(stack_copy);
    const double wait_ms = wait_of(sheet.ms("stack1"), outputs, copy_ms, *run.device);
    sheet.predict([&](const Row&) { return stack_ms(4, outputs, copy_ms, wait_ms, *run.device); });
  }
  sheet.print();
}

/// What a multiprocessor does one after the other: its threads have so many chains each, one by
/// one, of so many words in all.
struct Phase {
  double one_by_one, words;
};
struct ChainRow {
  const char *key, *words;
  unsigned at_once;  ///< words of a thread
  ChainGrid grid;
  std::vector<Phase> phases;
  bool calibrates = false;

  double predicted_ms(const Chain& c) const {
    double ms = 0;
    for (const Phase& phase : phases) ms += c.ms(phase.one_by_one, phase.words);
    return ms;
  }
};

/// Few threads: a warp for each scheduler. The tail: one block more than fit at once; with four
/// words per thread blocks have a quarter of the threads, and all of them fit.
std::vector<ChainRow> chain_rows(unsigned resident, unsigned sms) {
  const unsigned words = 4 * resident * tail_threads;  // of a multiprocessor
  const unsigned tail = (resident + 1) * tail_threads;
  const double each = double(words) / few_threads;  // words of a thread, where threads are few
  const ChainGrid few{words * sms, sms, few_threads};
  const ChainGrid all{words * sms, resident * sms, tail_threads};
  const ChainGrid tail1{tail * sms, (resident + 1) * sms, tail_threads};
  const ChainGrid tail4{tail * sms, (resident + 1) * sms, tail_threads / 4};
  const double one_block = tail_threads;
  return {
      {"chain1_few", "work between, few threads, 1", 1, few, {{each, double(words)}}, true},
      {"chain4_few", "work between, few threads, 4", 4, few, {{each / 4, double(words)}}},
      {"chain1_all", "work between, all threads, 1", 1, all, {{4, double(words)}}, true},
      {"chain4_all", "work between, all threads, 4", 4, all, {{1, double(words)}}},
      {"chain1_tail", "tail, 1", 1, tail1, {{1, resident * one_block}, {1, one_block}}},
      {"chain4_tail", "tail, 4", 4, tail4, {{1, double(tail)}}},
  };
}

void measure_chains(const Run& run) {
  const unsigned sms = run.device ? unsigned(run.device->prop.multiProcessorCount) : 1;
  const unsigned resident = run.device ? resident_of_tail(*run.device) : 1;
  const unsigned steps = run.quick ? 2048 : 8192;
  const std::vector<ChainRow> rows = chain_rows(resident, sms);
  const auto row_of = [&](const Row& row) -> const ChainRow& {
    return *std::find_if(rows.begin(), rows.end(),
                         [&](const ChainRow& r) { return row.ref.key == r.key; });
  };
  SharedByTasks chains([&] { return Chains{rows[0].grid.words, steps}; });
  Sheet sheet(run, "chains, words at a time", {registers(run), milliseconds(4), spread()});
  for (const ChainRow& row : rows) {
    ask_registers(run, row.key, row.at_once == 1 ? chain1 : chain4);
    sheet.add({.ref = row.key,
               .words = row.words,
               .bytes = 8.0 * row.grid.words,
               .calibrates = row.calibrates,
               .model = Model::latency});
  }
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const ChainRow& r = row_of(row);
    return chain_task(r.key, chains(), r.at_once, r.grid);
  });
  const double words = rows[0].phases[0].words;
  const Chain c{.wait_ms = sheet.ms("chain1_few") / rows[0].phases[0].one_by_one,
                .issue_ms = sheet.ms("chain1_all") / words};
  sheet.predict([&](const Row& row) { return row_of(row).predicted_ms(c); });
  sheet.print({"few threads: a warp for each scheduler",
               "tail: one block more on each multiprocessor than it has room for"});
}

}  // namespace

void unroll_replies(const Run& run) {
  measure_stacks(run);
  measure_chains(run);
}

// ---- what unroll.cu declares of these kernels ----

std::vector<Comparison> reply_pairs() {
  return {{.slow = "stack1", .fast = "stack4"},
          {.slow = "chain1_few", .fast = "chain4_few"},
          {.slow = "chain1_all", .fast = "chain4_all"},
          {.slow = "chain1_tail", .fast = "chain4_tail"}};
}

Needs reply_needs(const Run& run) {
  const double side = stack_side(run);
  return {.allocated = 8 * side * (side + height), .touched = 8 * side * side};
}

std::vector<Checked> reply_tasks(size_t n) {
  const auto columns = unsigned(std::sqrt(double(n)));
  const unsigned rows = unsigned(n) / columns;  // no multiple of four
  const Shared stacks(Stacks{columns, rows});
  const Shared chains(Chains{unsigned(n), 17});
  std::vector<Checked> all;
  for (Task task : {stack_task<stack1>(stacks, 1), stack_task<stack4>(stacks, 4)})
    all.push_back({.task = std::move(task),
                   .elements = size_t(columns) * rows,
                   .change_one = [stacks] { stacks->out.change(0); }});
  for (const unsigned at_once : {1u, 4u})
    all.push_back({.task = chain_task("chain", chains, at_once, {unsigned(n), 3, 96}),
                   .elements = n,
                   .change_one = [chains] { chains->out.change(0); }});
  return all;
}
