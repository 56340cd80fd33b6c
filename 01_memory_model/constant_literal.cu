// constant, literals: "should I convert #define to constants? No" [PR]: a literal stands in the
// instruction and takes no register. Two kernels do the same arithmetic, and nothing else.
//
//   1  mix_literals   both factors stand in the source
//   2  mix_constants  both are read from constant memory
#include "../common/report.hpp"
#include "constant.hpp"

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

// ---- the story in order ----

struct Way {
  const char* name;
  void (*kernel)(unsigned* out, unsigned rounds);
};
const Way ways[] = {{"literals", mix_literals}, {"__constant__", mix_constants}};
enum { literals, from_constant };

/// What a thread must find, less its number in the grid.
unsigned mixed(unsigned x, unsigned rounds) {
  for (; rounds != 0; --rounds) {
    x ^= x >> 15;
    x *= 2654435769u;
    x += 374761393u;
  }
  return x;
}

struct Mixes {
  static constexpr size_t canaries = 64;  ///< behind the results

  unsigned blocks;
  DeviceBuffer<unsigned> out{size_t(blocks) * block_threads + canaries};

  explicit Mixes(unsigned blocks) : blocks(blocks) {
    CUDA_CHECK(cudaMemcpyToSymbol(constant_factor, &factor, sizeof factor));
    CUDA_CHECK(cudaMemcpyToSymbol(constant_term, &term, sizeof term));
  }
  size_t wrong(unsigned rounds) const {
    std::vector<unsigned> of_block;  // all blocks mix the same numbers
    for (unsigned thread = 0; thread < block_threads; ++thread)
      of_block.push_back(mixed(thread, rounds));
    const std::vector<unsigned> found = out.to_host();
    size_t wrong = 0;
    for (unsigned t = 0; t < found.size(); ++t) {
      const bool there = t < blocks * block_threads;
      wrong += found[t] != (there ? of_block[t % block_threads] + t : ~0u);
    }
    return wrong;
  }
  Task task(const Way& way, unsigned rounds) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, rounds] { return wrong(rounds); };
    return {way.name,
            [this, &way, rounds] { way.kernel<<<blocks, block_threads>>>(out.data(), rounds); },
            std::move(check)};
  }
};

// ---- the experiment ----

/// Registers a thread of the compiled kernel.
double registers(const Way& way) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, way.kernel));
  return attributes.numRegs;
}

void judge(const Run& run, const Readings& literal, const Readings& constant) {
  const Interval r = ratio(literal, constant);
  run.report.judge({"01.7", "replacing a literal by __constant__ gains nothing", "", "lectures"},
                   gains_nothing(), r, "with __constant__ it is " + faster(r));
}

}  // namespace

void constants::measure_literals(const Run& run) {
  if (!run.device) return judge(run, {}, {});
  Mixes mixes(unsigned(run.device->prop.multiProcessorCount) * 8);
  const unsigned rounds = run.quick ? 512 : 2048;
  const std::vector<Readings> times = run.time_in_turn(
      {mixes.task(ways[literals], rounds), mixes.task(ways[from_constant], rounds)});
  Table table(run.report, "two factors from",
              {counted("registers", "registers", "registers", 0), compared("ms", "time", "ms", 4),
               shown("spread")});
  const Statistics by_literal = times[literals].statistics();
  const Statistics by_constant = times[from_constant].statistics();
  table.row({ways[literals].name},
            {registers(ways[literals]), Calibration{by_literal}, spread_text(by_literal)});
  // as many instructions, and nothing but instructions
  table.row({ways[from_constant].name},
            {registers(ways[from_constant]), Compared{by_literal.median, by_constant},
             spread_text(by_constant)});
  table.print();
  judge(run, times[literals], times[from_constant]);
}
