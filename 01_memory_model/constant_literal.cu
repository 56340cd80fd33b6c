// constant, literals: "should I convert #define to constants? No" [PR]: a literal stands in the
// instruction and takes no register. Two kernels do the same arithmetic, and nothing else.
//
//   1  mix_literals   both factors stand in the source
//   2  mix_constants  both are read from constant memory
#include "constant.hpp"

using namespace samples;

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned factor = 2654435769u, term = 374761393u;
__constant__ unsigned constant_factor, constant_term;

// ---- kernels ----

// [mix_literals]
// The shift keeps the compiler from folding rounds into one.
__global__ void mix_literals(unsigned* out, unsigned rounds) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round) x = (x ^ x >> 15) * factor + term;
  out[tid] = x + tid;
}

// The same with both from constant memory.
__global__ void mix_constants(unsigned* out, unsigned rounds) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round)
    x = (x ^ x >> 15) * constant_factor + constant_term;
  out[tid] = x + tid;
}
// [/mix_literals]

// ---- what is right ----

/// What a thread must find, less its number in the grid.
unsigned mixed(unsigned x, unsigned rounds) {
  for (; rounds != 0; --rounds) {
    x ^= x >> 15;
    x *= 2654435769u;
    x += 374761393u;
  }
  return x;
}

/// All blocks mix the same numbers.
std::vector<unsigned> all_mixed(unsigned blocks, unsigned rounds) {
  std::vector<unsigned> all;
  for (unsigned t = 0; t < blocks * block_threads; ++t)
    all.push_back(
        (t < block_threads ? mixed(t, rounds) : all[t - block_threads] - (t - block_threads)) + t);
  return all;
}

struct Mixes {
  unsigned blocks;
  constants::Found<unsigned> found;

  explicit Mixes(unsigned blocks) : blocks(blocks), found(size_t(blocks) * block_threads) {
    if (device_memory::Pretence::stands()) return;
    CUDA_CHECK(cudaMemcpyToSymbol(constant_factor, &factor, sizeof factor));
    CUDA_CHECK(cudaMemcpyToSymbol(constant_term, &term, sizeof term));
  }
};

struct Way {
  std::string_view key;
  const char* words;
  void (*kernel)(unsigned* out, unsigned rounds);
};
const Way ways[] = {{name_of<mix_literals>(), "literals", mix_literals},
                    {name_of<mix_constants>(), "__constant__", mix_constants}};

Task task_of(const Ref& ref, const Shared<Mixes>& mixes, unsigned rounds) {
  const auto kernel = with_key(ways, ref)->kernel;
  return {text(ref),
          [mixes, kernel, rounds] {
            kernel<<<mixes->blocks, block_threads>>>(mixes->found.out.data(), rounds);
          },
          {[mixes] { mixes->found.out.poison(); },
           [mixes, rounds] { return mixes->found.wrong(all_mixed(mixes->blocks, rounds)); }, ""}};
}

}  // namespace

void constants::run_literals(const Run& run) {
  for (const Way& way : ways)
    ask_for_table(run, way.key, "registers", "registers", [&way] {
      cudaFuncAttributes attributes;
      CUDA_CHECK(cudaFuncGetAttributes(&attributes, way.kernel));
      return single(attributes.numRegs);
    });
  const auto registers = [&run](const Row& row) {
    return run.results->value(row.ref, "registers").value.median;
  };
  Sheet sheet(run, "two factors from",
              {number(counted("registers", "registers", "registers", 0), registers),
               milliseconds(4), spread()});
  for (const Way& way : ways)
    sheet.add({.ref = way.key, .words = way.words, .calibrates = &way == &ways[0]});
  const unsigned rounds = run.quick ? 512 : 2048;
  SharedByTasks mixes([&run] { return Mixes(unsigned(run.device->prop.multiProcessorCount) * 8); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return task_of(row.ref, mixes(), rounds); });
  // as many instructions, and nothing but instructions
  sheet.predict([&](const Row&) { return sheet.ms(name_of<mix_literals>()); });
  sheet.print();
}

Claim constants::claim_of_literals() {
  return {.part = {"01.7", "replacing a literal by __constant__ gains nothing", "", "lectures"},
          .rule = gains_nothing(),
          .pairs = {{.slow = name_of<mix_literals>(), .fast = name_of<mix_constants>()}}};
}

void constants::add_tasks_of_literals(std::vector<Checked>& all, size_t n) {
  const Shared mixes(Mixes(unsigned(n % 1009 + 1)));
  for (const Way& way : ways)
    all.push_back({.task = task_of(way.key, mixes, 37),
                   .elements = mixes->found.out.size(),
                   .change_one = [mixes] { mixes->found.out.change(0); }});
}
