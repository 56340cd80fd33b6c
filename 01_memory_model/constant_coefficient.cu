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

#include "constant.hpp"

using namespace samples;

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned text_words = 16;               // of the text's my_const
constexpr unsigned table_words = 2 * text_words;  // 16 from any index below 16 on

__constant__ float my_const[table_words];

// ---- kernels: thread t adds 16 coefficients per turn to its own number, and leaves that in
// out[t]. Sums of floats may not be put into another order, so that every coefficient is needed
// each turn ----

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

// ---- the ways ----

struct Way {
  std::string_view key;
  const char* words;
  bool indexed;
  void (*launch)(unsigned blocks, float* out, const float* coefficient, unsigned turns);
};
const Way ways[] = {
    {name_of<add_literals>(), "no reads", false,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       add_literals<<<blocks, block_threads>>>(out, turns);
     }},
    {name_of<fixed_constant>(), "constant, fixed address", false,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       fixed_constant<<<blocks, block_threads>>>(out, turns);
     }},
    {name_of<fixed_global>(), "global in L1, fixed address", false,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       fixed_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
    {name_of<kept_global>(), "global, kept in registers", false,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       kept_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
    {name_of<indexed_constant>(), "constant, index by block", true,
     [](unsigned blocks, float* out, const float*, unsigned turns) {
       indexed_constant<<<blocks, block_threads>>>(out, turns);
     }},
    {name_of<indexed_global>(), "global in L1, index by block", true,
     [](unsigned blocks, float* out, const float* coefficient, unsigned turns) {
       indexed_global<<<blocks, block_threads>>>(out, coefficient, turns);
     }},
};

struct Sums {
  unsigned blocks;
  constants::Found<float> found;
  DeviceBuffer<float> coefficient{table_words};

  explicit Sums(unsigned blocks) : blocks(blocks), found(size_t(blocks) * block_threads) {
    if (device_memory::Pretence::stands()) return;
    std::vector<float> table;
    for (unsigned i = 0; i < table_words; ++i) table.push_back(float(coefficient_at(i)));
    coefficient.copy_from(table);
    CUDA_CHECK(cudaMemcpyToSymbol(my_const, table.data(), table.size() * sizeof(float)));
  }
  size_t wrong(const Way& way, unsigned turns) {
    std::vector<float> right;
    for (unsigned t = 0; t < found.out.size(); ++t)
      right.push_back(float(sum_of(t, way.indexed, turns)));
    return found.wrong(right);
  }
};

Task task_of(const Ref& ref, const Shared<Sums>& sums, unsigned turns) {
  const Way& way = *with_key(ways, ref);
  return {text(ref),
          [sums, &way, turns] {
            way.launch(sums->blocks, sums->found.out.data(), sums->coefficient.data(), turns);
          },
          {[sums] { sums->found.out.poison(); },
           [sums, &way, turns] { return sums->wrong(way, turns); }, ""}};
}

// ---- prediction ----

/// Milliseconds. A constant at a fixed address is an operand, or is read before the loop (as it was
/// for 9.0, into uniform registers): its read takes nothing, like that of a register. Loads that
/// hit L1 take what those of `indexed_global` do, of which there are as many. Nothing predicts an
/// indexed read of constant memory.
double predicted_ms(std::string_view way, double additions_ms, double loads_ms) {
  if (way == name_of<fixed_constant>() || way == name_of<kept_global>()) return additions_ms;
  return way == name_of<fixed_global>() ? loads_ms : double(NAN);
}

}  // namespace

void constants::run_coefficients(const Run& run) {
  const auto to_no_reads = [&run](const Row&, const Statistics& ms) {
    return factor_text(ms.median / (*run.results)(name_of<add_literals>()).time.ms.median);
  };
  Sheet sheet(run, "16 coefficients per turn from",
              {milliseconds(4), spread(), {shown("to no reads"), {}, {}, to_no_reads}});
  for (const Way& way : ways)
    sheet.add(
        {.ref = way.key,
         .words = way.words,
         .calibrates = way.key == name_of<add_literals>() || way.key == name_of<indexed_global>()});
  const unsigned blocks = run.device ? unsigned(run.device->prop.multiProcessorCount) * 4 : 1;
  const unsigned turns =
      std::min(run.quick ? 128u : 512u, exact_turns(size_t(blocks) * block_threads));
  SharedByTasks sums([blocks] { return Sums(blocks); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return task_of(row.ref, sums(), turns); });
  sheet.predict([&](const Row& row) {
    return predicted_ms(row.ref.key, sheet.ms(name_of<add_literals>()),
                        sheet.ms(name_of<indexed_global>()));
  });
  sheet.print();
}

void constants::add_tasks_of_coefficients(std::vector<Checked>& all, size_t n) {
  const Shared sums(Sums(unsigned(n % 1009 + 1)));
  for (const Way& way : ways)
    all.push_back({.task = task_of(way.key, sums, 37),
                   .elements = sums->found.out.size(),
                   .change_one = [sums] { sums->found.out.change(0); }});
}
