// latency, many warps: what a multiply-add waits for a register that the one before it wrote. The
// study of the 8800 GTX has that this delay is not felt beyond 192 threads per multiprocessor,
// since the scheduler hides it [BW]. Here the same number of dependent multiply-adds is shared by
// 1 to 32 warps on each multiprocessor.
//
//   1  multiply_add_chain  each multiply-add needs the register that the one before wrote
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "latency.hpp"

using namespace samples;

namespace {

constexpr unsigned counts[] = {1, 2, 4, 6, 8, 12, 16, 24, 32};  // warps per multiprocessor
constexpr unsigned texts = 6;  // of them are the text's 192 threads
constexpr unsigned full = 32;  // one block's 1024 threads; each of the four schedulers has 8 warps

// ---- kernels ----

// [multiply_add_chain]
// Reads and writes registers alone until its last line. A warp can issue its next multiply-add only
// when the one before has written x. With other warps on the scheduler, it issues theirs meanwhile.
__global__ void multiply_add_chain(float* out, unsigned steps, float factor, float addend) {
  float x = float(threadIdx.x);
#pragma unroll 256  // so that the loop around them hardly counts
  for (unsigned step = 0; step < steps; ++step) x = fmaf(x, factor, addend);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
// [/multiply_add_chain]

// ---- what is right ----

/// With factor 1 and addend 1, which the compiler does not know, x counts the multiply-adds from
/// the thread's number on: exactly, as long as it stays below 2^24.
struct IsCount {
  unsigned threads, steps;
  __device__ bool operator()(size_t i, float found) const {
    return found == float(i % threads + steps);
  }
};

struct Chains {
  unsigned blocks, threads, steps;
  Output<float> out;
  Chains(unsigned blocks, unsigned threads, unsigned steps)
      : blocks(blocks), threads(threads), steps(steps), out(size_t(blocks) * threads) {}
};

Task chain_task(const Ref& ref, const Shared<Chains>& c) {
  return {text(ref),
          [c] { multiply_add_chain<<<c->blocks, c->threads>>>(c->out.data(), c->steps, 1.f, 1.f); },
          {[c] { c->out.poison(); },
           [c] {
             return c->out.wrong(IsCount{c->threads, c->steps});
           },
           ""}};
}

// ---- prediction ----

/// Cycles in which each of a multiprocessor's warps issues one multiply-add: at least the latency,
/// after which the same warp can issue again; and at least as many as all of them take, in each of
/// which `lanes` multiply-adds begin.
double cycles_of_a_step(unsigned warps, double latency, double lanes) {
  return std::max(latency, 32.0 * warps / lanes);
}

/// Milliseconds of all steps at the highest clock that the device reports.
double predicted_ms(const Device& device, unsigned warps, unsigned steps) {
  if (device.sm_clock_khz <= 0) return NAN;
  const cudaDeviceProp& p = device.prop;
  return steps / double(device.sm_clock_khz) *
         cycles_of_a_step(warps, dependent_arithmetic_cycles(p.major),
                          multiply_adds_per_cycle(p.major, p.minor));
}

// ---- the tables ----

/// Multiply-adds of the lanes of all warps of a multiprocessor, one after the other: a multiple of
/// all counts of warps, and of 256 steps.
unsigned all_steps(const Run& run) { return 96 * 256 * (run.quick ? 20 : 80); }

/// The row of a count, and under which key the worst count and the full multiprocessor are measured
/// again.
Ref chain(unsigned warps) { return {name_of<multiply_add_chain>(), double(warps)}; }
const Ref worst = "chain_of_the_worst", all_warps = "chain_of_all_warps";

struct Warps {
  Ref ref;
  std::string words;
  unsigned warps;
};

void measure_chains(const Run& run, const char* heading, const std::vector<Warps>& rows) {
  const unsigned blocks = run.device ? unsigned(run.device->prop.multiProcessorCount) : 1;
  const auto warps_of = [&rows](const Row& row) {
    return std::ranges::find_if(rows, [&row](const Warps& w) { return same(w.ref, row.ref); })
        ->warps;
  };
  const double of_a_multiprocessor = 32.0 * all_steps(run);
  Sheet sheet(run, heading,
              {number(shown("threads"), [&](const Row& row) { return 32.0 * warps_of(row); }),
               milliseconds(3), spread(),
               in_unit(measured("per ns", "multiply-adds", "per ns and multiprocessor", 1),
                       [=](const Row&, double ms) { return of_a_multiprocessor * 1e-6 / ms; })},
              "warps per multiprocessor");
  for (const Warps& w : rows) sheet.add({.ref = w.ref, .words = w.words});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    const unsigned warps = warps_of(row);
    return chain_task(row.ref, Shared(Chains(blocks, 32 * warps, all_steps(run) / warps)));
  });
  sheet.predict(
      [&](const Row& row) {
        if (!run.device) return double(NAN);
        return predicted_ms(*run.device, warps_of(row), all_steps(run) / warps_of(row));
      },
      Basis::from_device);
  sheet.print({"per ns: multiply-adds of one multiprocessor; all rows do equally many"});
}

/// Of more threads than the text's 192: the count that takes the longest beside the full
/// multiprocessor.
unsigned slowest(const Function<double(unsigned)>& ms) {
  unsigned found = full;
  for (const unsigned warps : counts)
    if (warps > texts && ms(warps) > ms(found)) found = warps;
  return found;
}

}  // namespace

double dependent_arithmetic_cycles(int major) { return major >= 7 ? 4 : 6; }

double multiply_adds_per_cycle(int major, int minor) {
  const bool half = (major == 6 && minor == 0) || major == 7 || (major == 8 && minor == 0);
  return half ? 64 : 128;
}

void run_warps(const Run& run) {
  std::vector<Warps> sweep;
  for (const unsigned warps : counts) sweep.push_back({chain(warps), "", warps});
  measure_chains(run, "a chain of multiply-adds, warps", sweep);
  // the choice passes the gate, so that a recorded run is judged by its own
  const double asked =
      ask(run, worst, "warps", "", [&] {
        return single(slowest([&](unsigned w) { return (*run.results)(chain(w)).time.ms.median; }));
      }).median;
  const unsigned chosen = asked >= 1 && asked <= full ? unsigned(asked) : full;
  measure_chains(run, "again, warps",
                 {{worst, "slowest above 192 threads: " + std::to_string(chosen), chosen},
                  {all_warps, "all: " + std::to_string(full), full}});
}

Claim warps_claim() {
  return {.part = {"01.14", "beyond 192 threads the delay after a register's write is not felt",
                   "not felt", "8800 GTX", g80},
          .rule = costs_as_much(),
          .pairs = {{.slow = worst, .fast = all_warps}},
          .here = "equally many multiply-adds, the slowest count above 192 against 1024 threads",
          .found = {{.slow = chain(texts), .fast = chain(full)},
                    {.slow = chain(16), .fast = chain(full)}}};
}

std::vector<Checked> warps_tasks(size_t n) {
  std::vector<Checked> all;
  for (const unsigned warps : {1u, 7u, full}) {
    const Shared chains(Chains(3, 32 * warps, unsigned(n)));
    all.push_back({.task = chain_task(chain(warps), chains),
                   .elements = chains->out.size(),
                   .change_one = [chains] { chains->out.change(31); }});
  }
  return all;
}
