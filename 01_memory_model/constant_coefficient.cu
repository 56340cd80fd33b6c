// constant, coefficients: the wiki reads a coefficient that all threads need from constant memory
// [LC], and the lectures call `my_const[blockIdx.x % 16]` the best possible use of it [PR]. Do
// these uniform reads gain anything over plain loads that hit L1? Look at which of the two the
// compiler can put into the addition itself.
//
//   1  add_literals      the additions alone
//   2  fixed_constant    16 coefficients at fixed addresses of constant memory
//   3  fixed_global      the same from global memory
//   4  kept_global       3 loaded once, and kept in registers
//   5  indexed_constant  16 coefficients from an index on, which follows from the block
//   6  indexed_global    the same from global memory
#include <algorithm>

#include "../common/report.hpp"
#include "constant.hpp"

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned text_words = 16;               // of the text's my_const
constexpr unsigned table_words = 2 * text_words;  // 16 from any index below 16 on

__constant__ float my_const[table_words];

// ---- kernels: thread t adds 16 coefficients a turn to its own number, and leaves that in out[t].
// Sums of floats may not be put into another order, so that every coefficient is needed each
// turn ----

// What the additions take by themselves: their second operands stand in the instructions.
__global__ void add_literals(float* out, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += float(3 * c + 1);
  }
  out[tid] = sum;
}

// [fixed_constant]
// The address is known when the kernel is compiled, and nobody can write there while it runs: an
// addition may name the word as its operand, or the compiler reads all of them before the loop.
__global__ void fixed_constant(float* out, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // as in kernel 3
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += my_const[c];
  }
  out[tid] = sum;
}
// [/fixed_constant]

// All lanes load one word: one sector, which L1 has after the first time.
__global__ void fixed_global(float* out, const float* coefficient, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the coefficients have to be loaded again
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += coefficient[c];
  }
  out[tid] = sum;
}

// What a compiler does with kernel 3 where nobody else could store.
__global__ void kept_global(float* out, const float* coefficient, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float kept[text_words];
#pragma unroll
  for (unsigned c = 0; c < text_words; ++c) kept[c] = coefficient[c];
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += kept[c];
  }
  out[tid] = sum;
}

// [indexed_constant]
// The text's index, which the compiler does not know: a load has to come before the addition.
__global__ void indexed_constant(float* out, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
    const unsigned first = (blockIdx.x + turn) % text_words;
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += my_const[first + c];
  }
  out[tid] = sum;
}
// [/indexed_constant]

__global__ void indexed_global(float* out, const float* coefficient, unsigned turns) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = float(tid);
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
    const unsigned first = (blockIdx.x + turn) % text_words;
#pragma unroll
    for (unsigned c = 0; c < text_words; ++c) sum += coefficient[first + c];
  }
  out[tid] = sum;
}

// ---- what is right ----

/// Coefficient i. Whole numbers, no two alike: their sums are exact, and miss none that was left
/// out for another.
unsigned coefficient_at(unsigned i) { return 3 * i + 1; }

/// The sum of thread `tid`; `indexed`: the block shifts the coefficients.
unsigned sum_of(unsigned tid, bool indexed, unsigned turns) {
  const unsigned block = tid / block_threads;
  unsigned sum = tid;
  for (unsigned turn = 0; turn < turns; ++turn) {
    const unsigned first = indexed ? (block + turn) % 16 : 0;
    for (unsigned i = first; i < first + 16; ++i) sum += coefficient_at(i);
  }
  return sum;
}

/// Turns after which the sums of this many threads are still exact in float: below 2^24.
unsigned exact_turns(size_t threads) {
  const unsigned most_a_turn = 16 * coefficient_at(table_words - 1);
  return unsigned(((1u << 24) - 1 - threads) / most_a_turn);
}

// ---- the story in order ----

struct Way {
  const char* name;
  bool indexed;
  void (*launch)(unsigned blocks, float* out, const float* coefficient, unsigned turns);
};
const Way ways[] = {
    {"no reads", false,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       add_literals<<<blocks, block_threads>>>(out, turns);
     }},
    {"constant, fixed address", false,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       fixed_constant<<<blocks, block_threads>>>(out, turns);
     }},
    {"global in L1, fixed address", false,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       fixed_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
    {"global, kept in registers", false,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       kept_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
    {"constant, index by block", true,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       indexed_constant<<<blocks, block_threads>>>(out, turns);
     }},
    {"global in L1, index by block", true,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       indexed_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
};
enum { no_reads, fixed_c, fixed_g, kept_g, indexed_c, indexed_g };

struct Sums {
  static constexpr size_t canaries = 64;  ///< behind the sums

  unsigned blocks;
  DeviceBuffer<float> out{threads() + canaries};
  DeviceBuffer<float> coefficient{table_words};

  explicit Sums(unsigned blocks) : blocks(blocks) {
    std::vector<float> table;
    for (unsigned i = 0; i < table_words; ++i) table.push_back(float(coefficient_at(i)));
    coefficient.copy_from(table);
    CUDA_CHECK(cudaMemcpyToSymbol(my_const, table.data(), table.size() * sizeof(float)));
  }
  size_t threads() const { return size_t(blocks) * block_threads; }
  size_t wrong(const Way& way, unsigned turns) const {
    const std::vector<float> found = out.to_host();
    size_t wrong = 0;
    for (unsigned t = 0; t < found.size(); ++t) {
      if (t < threads())
        wrong += !(found[t] == float(sum_of(t, way.indexed, turns)));
      else
        wrong += !std::isnan(found[t]);  // as poisoned
    }
    return wrong;
  }
  Task task(const Way& way, unsigned turns) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, &way, turns] { return wrong(way, turns); };
    return {way.name,
            [this, &way, turns] { way.launch(blocks, out.data(), coefficient.data(), turns); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// Milliseconds. A constant at a fixed address is an operand, or is read before the loop (as it was
/// for 9.0, into uniform registers): its read takes nothing, like that of a register. Loads that
/// hit L1 take what those of `indexed_global` do, of which there are as many. Nothing predicts an
/// indexed read of constant memory.
double predicted_ms(int way, double additions_ms, double loads_ms) {
  if (way == fixed_c || way == kept_g) return additions_ms;
  if (way == fixed_g) return loads_ms;
  return NAN;
}

// ---- the experiment ----

void judge(const Run& run, const std::vector<Readings>& times) {
  const Interval fixed_gain = ratio(times[fixed_g], times[fixed_c]);
  run.report.judge({"01.11a", "a coefficient is best read from constant memory", "", "wiki"},
                   beats(), fixed_gain, faster(fixed_gain, "a load that hits L1"));
  const Interval kept_gain = ratio(times[kept_g], times[fixed_c]);
  if (kept_gain.measured())
    run.report.finding("01.11a", "it is " + faster(kept_gain, "a register"));
  const Interval indexed_gain = ratio(times[indexed_g], times[indexed_c]);
  run.report.judge(
      {"01.11b", "my_const[blockIdx.x % 16] is the best possible use of it", "", "lectures"},
      beats(), indexed_gain, faster(indexed_gain, "a load that hits L1"));
}

}  // namespace

void constants::measure_coefficients(const Run& run) {
  if (!run.device) return judge(run, std::vector<Readings>(std::size(ways)));
  Sums sums(unsigned(run.device->prop.multiProcessorCount) * 4);
  const unsigned turns = std::min(run.quick ? 128u : 512u, exact_turns(sums.threads()));
  std::vector<Task> tasks;
  for (const Way& way : ways) tasks.push_back(sums.task(way, turns));
  const std::vector<Readings> times = run.time_in_turn(tasks);

  Table table(run.report, "16 coefficients a turn from",
              {compared("ms", "time", "ms", 4), shown("spread"), shown("to no reads")});
  for (int way = 0; way < int(std::size(ways)); ++way) {
    const Statistics ms = times[way].statistics();
    const bool calibrates = way == no_reads || way == indexed_g;
    const double expected = predicted_ms(way, times[no_reads].median(), times[indexed_g].median());
    table.row({ways[way].name}, {calibrates ? Cell(Calibration{ms}) : Cell(Compared{expected, ms}),
                                 spread_text(ms), ::times(ms.median / times[no_reads].median())});
  }
  table.print();
  judge(run, times);
}
