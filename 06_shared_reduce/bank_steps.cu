// bank_steps: the guide walks through the steps of its `reduce1` [KP] and finds two-way, four-way,
// then 8-way and 16-way bank conflicts; with strides that descend there are none. Two things to
// look at:
//   - Where the guide's own block of 256 threads stops.
//   - All warps together: the strided reduction takes as many wavefronts as the divergent one that
//     it replaces.
//
//   cmake -S 06_shared_reduce -B build/steps -DEXPERIMENTS=bank_steps
//   cmake --build build/steps && build/steps/06_shared_reduce
//
//   1  modulo_steps      the guide's `reduce`: every thread whose number is a multiple of 2 s adds
//   2  strided_steps     its `reduce1`: the first threads add, words that lie 2 s apart
//   3  descending_steps  its `reduce2`: the first s threads add, words side by side
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "banks.hpp"

using namespace samples;

namespace {

// ---- kernels: the steps of a block's sum from stride `first` to stride `last`. In a step with
// stride s words are added that lie s apart. `turns` is 1 in a reduction; to measure a step it is
// repeated, as often as it takes for the barrier behind it not to count ----

constexpr unsigned max_threads = 1024;
constexpr unsigned text_threads = 256;  // of the guide's block

// Every 2 s-th thread adds its own word and the one at distance s. Lane i wants a word of bank i,
// so that nothing conflicts; but up to s = 16 all warps are at work, for fewer and fewer lanes.
__global__ void modulo_steps(unsigned* out, long long* cycles, const unsigned* in, unsigned first,
                             unsigned last, unsigned turns) {
  __shared__ volatile unsigned word[max_threads];  // volatile: each turn loads and stores again
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];  // store a word
  __syncthreads();
  const long long start = clock64();
  for (unsigned s = first; s <= last; s *= 2) {  // stride 1, 2, 4 ...
    if (tid % (2 * s) == 0)
      for (unsigned turn = 0; turn < turns; ++turn) word[tid] = word[tid] + word[tid + s];
    __syncthreads();  // the next step's words are other threads' too
  }
  if (tid == 0) cycles[blockIdx.x] = clock64() - start;
  out[blockIdx.x * blockDim.x + tid] = word[tid];
}

// [strided_steps]
// The same words by the first threads, so that few warps have them all. But the words of lanes side
// by side lie 2 s apart: 2 lanes meet in a bank at stride 1, 4 at stride 2, 8 at stride 4.
__global__ void strided_steps(unsigned* out, long long* cycles, const unsigned* in, unsigned first,
                              unsigned last, unsigned turns) {
  __shared__ volatile unsigned word[max_threads];  // volatile: each turn loads and stores again
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];  // store a word
  __syncthreads();
  const long long start = clock64();
  for (unsigned s = first; s <= last; s *= 2) {  // stride 1, 2, 4 ...
    const unsigned index = 2 * s * tid;
    if (index < blockDim.x)
      for (unsigned turn = 0; turn < turns; ++turn) word[index] = word[index] + word[index + s];
    __syncthreads();
  }
  if (tid == 0) cycles[blockIdx.x] = clock64() - start;
  out[blockIdx.x * blockDim.x + tid] = word[tid];
}
// [/strided_steps]

// The first s threads add words that lie side by side: no conflict, and few warps.
__global__ void descending_steps(unsigned* out, long long* cycles, const unsigned* in,
                                 unsigned first, unsigned last, unsigned turns) {
  __shared__ volatile unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  word[tid] = in[tid];
  __syncthreads();
  const long long start = clock64();
  for (unsigned s = first; s >= last; s /= 2) {  // stride ... 4, 2, 1
    if (tid < s)
      for (unsigned turn = 0; turn < turns; ++turn) word[tid] = word[tid] + word[tid + s];
    __syncthreads();
  }
  if (tid == 0) cycles[blockIdx.x] = clock64() - start;
  out[blockIdx.x * blockDim.x + tid] = word[tid];
}

// ---- launching them ----

struct Reduction {
  Rule rule = Rule::modulo;
  std::string_view key = {};   ///< of a whole reduction
  std::string_view step = {};  ///< of its steps, numbered from 1
  const char* words = "";
  void (*kernel)(unsigned* out, long long* cycles, const unsigned* in, unsigned first,
                 unsigned last, unsigned turns) = nullptr;
};
const Reduction reductions[] = {{.rule = Rule::modulo,
                                 .key = name_of<modulo_steps>(),
                                 .step = "modulo_step",
                                 .words = "modulo",
                                 .kernel = modulo_steps},
                                {.rule = Rule::strided,
                                 .key = name_of<strided_steps>(),
                                 .step = "strided_step",
                                 .words = "strided",
                                 .kernel = strided_steps},
                                {.rule = Rule::descending,
                                 .key = name_of<descending_steps>(),
                                 .step = "descending_step",
                                 .words = "descending",
                                 .kernel = descending_steps}};

/// A launch: some steps of a reduction by blocks of so many threads.
struct Steps {
  unsigned threads;
  unsigned first, last;  ///< strides of the first step and of the last
  unsigned turns = 1;
};
/// The strides of all steps of n threads, in order.
std::vector<unsigned> strides(Rule rule, unsigned n) {
  std::vector<unsigned> all;
  for (unsigned k = 0; 1u << k < n; ++k) all.push_back(stride_of(rule, k, n));
  return all;
}
Steps all_steps(Rule rule, unsigned n) {
  return {n, strides(rule, n).front(), strides(rule, n).back()};
}
Steps one_step(unsigned n, unsigned stride, unsigned turns = 1) {
  return {n, stride, stride, turns};
}

/// What a block must leave in its words: in a step the word of each pair that stays gets the other,
/// so many times. Of n words in ascending order those pairs stay whose number is a multiple of 2 s;
/// in descending order the first s.
std::vector<unsigned> words_by_host(Rule rule, const Steps& steps) {
  std::vector<unsigned> word;
  for (unsigned i = 0; i < steps.threads; ++i) word.push_back(scrambled(i));
  for (const unsigned s : strides(rule, steps.threads)) {
    if (s < std::min(steps.first, steps.last) || s > std::max(steps.first, steps.last)) continue;
    if (rule == Rule::descending)
      for (unsigned i = 0; i < s; ++i) word[i] += steps.turns * word[i + s];
    else
      for (unsigned i = 0; i < steps.threads; i += 2 * s) word[i] += steps.turns * word[i + s];
  }
  return word;
}

struct WordOfBlock {
  const unsigned* right;
  unsigned threads;
  __device__ bool operator()(size_t i, unsigned found) const { return found == right[i % threads]; }
};

/// What a launch reads, and what each of its blocks must leave.
struct Blocks {
  const Reduction& reduction;
  Steps steps;
  unsigned count;
  DeviceBuffer<unsigned> in, right;
  Output<unsigned> out;
  DeviceBuffer<long long> cycles;

  Blocks(const Reduction& reduction, const Steps& steps, unsigned count)
      : reduction(reduction),
        steps(steps),
        count(count),
        in(filled<unsigned>(steps.threads, WordAt{})),
        right(words_by_host(reduction.rule, steps)),
        out(size_t(count) * steps.threads),
        cycles(count) {}
};

Task steps_task(const Shared<Blocks>& blocks) {
  const Steps steps = blocks->steps;
  const auto launch = [blocks, steps] {
    blocks->reduction.kernel<<<blocks->count, steps.threads>>>(
        blocks->out.data(), blocks->cycles.data(), blocks->in.data(), steps.first, steps.last,
        steps.turns);
  };
  return {std::string(blocks->reduction.key) + " from stride " + std::to_string(steps.first),
          launch, blocks->out.check(WordOfBlock{blocks->right.data(), steps.threads})};
}

// ---- prediction ----

/// What all warps of a block do to the banks in the whole reduction. Each warp stores its words
/// before the steps, and loads them behind them.
Traffic outside_steps(unsigned n) {
  Traffic all;
  for (unsigned warp = 0; warp < n / 32; ++warp) {
    all.store(1);
    all.load(1);
  }
  return all;
}
Traffic all_traffic(Rule rule, unsigned n) {
  Traffic all = outside_steps(n);
  for (const unsigned s : strides(rule, n)) all.add(step_traffic(rule, s, n));
  return all;
}
int most_ways(Rule rule, unsigned n) { return all_traffic(rule, n).degree; }

/// The lanes of warp 0 in a step: what each wants as its left or its right word.
LaneWords lanes_of_warp_0(Rule rule, unsigned s, unsigned n, bool left) {
  LaneWords lanes;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Addition a = addition(rule, s, lane, n);
    lanes[lane] = !a.active ? idle : left ? a.left : a.right;
  }
  return lanes;
}

/// Blocks that fit on a multiprocessor at once: these kernels' registers and 4 KiB of shared memory
/// leave room for all its threads.
double resident_blocks(const Device& device) {
  return device.prop.maxThreadsPerMultiProcessor / int(text_threads);
}

/// Cycles of a step with so many blocks on a multiprocessor: the longer of two waits. The banks
/// serve a wavefront per cycle, of all blocks; `one_warp`: cycles of a warp that waits for its own
/// words, turn by turn. Stores that conflict with nothing are taken to hide behind the loads. On an
/// H200 nearly all did where eight warps of a block add, less than half with four, none with two;
/// those that conflict four ways or more do not. Why was not found out.
double predicted_cycles(const Traffic& step, double resident_blocks, double one_warp) {
  const int wavefronts = step.degree > 1 ? step.taken() : step.loads;
  return std::max(double(wavefronts) * resident_blocks, one_warp);
}

// ---- the experiment ----

std::string number_of(size_t step) { return std::to_string(step + 1); }
std::string threads_text(unsigned n) { return std::to_string(n) + " threads"; }

/// What the hardware counted of a whole reduction in this run; not a number where it did not.
double counted_wavefronts(const Run& run, const Reduction& r, unsigned n) {
  return ask_for_table(run, {r.key, double(n)}, "wavefronts", "wavefronts",
                       [&] {
                         double all = 0;
                         for (const bool loads : {true, false})
                           all += count_of_this_run(std::string(r.key), threads_text(n),
                                                    expected_wavefronts(loads, 0).metric);
                         return single(all);
                       })
      .median;
}

/// The guide's walk, step by step: computed, and counted where there are counts of this run.
void show_ways(const Run& run) {
  constexpr unsigned most_steps = 9;
  std::vector<Column> columns;
  for (unsigned k = 0; k < most_steps; ++k)
    columns.push_back(predicted(number_of(k), "step " + number_of(k), "ways", 0));
  columns.push_back(predicted("wavefronts", "wavefronts", "wavefronts", 0));
  columns.push_back(counted("counted", "wavefronts", "wavefronts", 0));
  Table table(run.report, "threads: n-way conflict in step", columns);
  table.row({"strided_in_the_text", "", "", "strided, in the text"},
            {"2", "4", "8", "16", "", "", "", "", "", "", ""});
  for (const unsigned n : {text_threads, 2 * text_threads})
    for (const Reduction& r : reductions) {
      std::vector<Cell> cells;
      for (const unsigned s : strides(r.rule, n))
        cells.push_back(double(step_traffic(r.rule, s, n).degree));
      cells.resize(most_steps, Cell{""});
      cells.push_back(double(all_traffic(r.rule, n).taken()));
      cells.push_back(counted_wavefronts(run, r, n));
      const std::string threads = std::to_string(n);
      table.row({std::string(r.key), "threads", threads, r.words + (" " + threads)}, cells);
    }
  table.print();
  run.report.note("wavefronts of all loads and stores, before and after the steps too");
}

/// Cycles of the step while each multiprocessor is full of blocks that do the same.
Statistics cycles_of_step(const Run& run, const Reduction& r, unsigned s) {
  constexpr unsigned turns = 1024;  // beside which the barrier and the launch hardly count
  const double blocks = resident_blocks(*run.device) * run.device->prop.multiProcessorCount;
  const Shared memory(Blocks(r, one_step(text_threads, s, turns), unsigned(blocks)));
  return cycles_of(steps_task(memory), memory->cycles, turns, run.measuring.repeats);
}

/// What the steps cost where there is nothing else to wait for.
void show_cycles(const Run& run) {
  const auto row_of = [](const Reduction& r, size_t k) { return Ref(r.step, double(k + 1)); };
  const size_t steps = strides(Rule::modulo, text_threads).size();
  for (const Reduction& r : reductions)
    for (size_t k = 0; k < steps; ++k)
      ask_for_table(run, row_of(r, k), "step", "cycles",
                    [&] { return cycles_of_step(run, r, strides(r.rule, text_threads)[k]); });
  // one lane of each block adds: a single warp, and hardly a wavefront
  const Ref least("descending_step", double(steps));
  const double one_warp = run.results->value(least, "step").value.median;

  Table table(run.report, "step of 256 threads",
              {predicted("ways", "conflict", "ways", 0),
               predicted("wavefronts", "wavefronts a block", "wavefronts", 0),
               compared("cycles", "step", "cycles", 1)});
  for (const Reduction& r : reductions)
    for (size_t k = 0; k < steps; ++k) {
      const Ref row = row_of(r, k);
      const Statistics cycles = run.results->value(row, "step").value;
      const Traffic step = step_traffic(r.rule, strides(r.rule, text_threads)[k], text_threads);
      const double expected =
          run.device ? predicted_cycles(step, resident_blocks(*run.device), one_warp) : NAN;
      table.row({row.key, "step", at_text(row), r.words + (", step " + number_of(k))},
                {double(step.degree), double(step.taken()),
                 same(row, least) ? Cell(Calibration{cycles})
                                  : Cell(Compared{expected, cycles, wavefront_model(run.device)})});
    }
  table.print();
  if (run.device)
    run.report.note("of a step while " + fixed(resident_blocks(*run.device), 0) +
                    " blocks on each multiprocessor repeat it");
  else
    run.report.left_out("the cycles of the steps");
}

std::string text_of(const LaneWords& lanes) {
  std::string text;
  for (const long word : lanes) {
    if (!text.empty()) text += " ";
    text += word == idle ? "-" : std::to_string(word);
  }
  return text;
}

/// How many different words the bank of each lane's word has to give to the warp.
LaneWords words_of_own_bank(const LaneWords& lanes) {
  const std::array<int, bank_count> words = words_of_banks(lanes, 4, 0, 32);
  LaneWords own;
  for (unsigned lane = 0; lane < 32; ++lane)
    own[lane] = lanes[lane] == idle ? idle : words[lanes[lane] % bank_count];
  return own;
}

/// What tools/draw_banks.py draws: the words that the lanes of warp 0 want in the first four steps.
/// From then on fewer and fewer of them add.
void save_lanes(const Run& run) {
  run.report.save(
      {"", "shared_memory", "", "", "predicted", "banks", "", double(bank_count), NAN, NAN, 0});
  for (const Reduction& r : reductions) {
    if (r.rule == Rule::modulo) continue;
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned s = stride_of(r.rule, k, text_threads);
      const std::string key =
          std::string(r.step) + "_" + number_of(k) + "_stride_" + std::to_string(s);
      const auto save = [&](const char* metric, const LaneWords& lanes, double value,
                            const char* unit) {
        run.report.save({"", key, "lanes of warp 0", text_of(lanes), "predicted", metric, unit,
                         value, NAN, NAN, 0});
      };
      const LaneWords left = lanes_of_warp_0(r.rule, s, text_threads, true);
      const LaneWords right = lanes_of_warp_0(r.rule, s, text_threads, false);
      const LaneWords own = words_of_own_bank(left);
      save("left words", left, wavefronts(left), "wavefronts");
      save("right words", right, wavefronts(right), "wavefronts");
      save("words of the lane's bank", own, double(*std::max_element(own.begin(), own.end())),
           "words");
    }
  }
}

void run_bank_steps(const Run& run) {
  run.report.begin("bank_steps", "a block's sum of 256 or 512 words, 1 or 2 KiB");
  show_ways(run);
  show_cycles(run);
  save_lanes(run);
}

// ---- what it declares ----

std::vector<Claim> claims(const Run&) {
  const auto most = [](unsigned n) { return std::to_string(most_ways(Rule::strided, n)) + "-way"; };
  return {{.part = {"06.3b",
                    "the reduction of 256 threads reaches 16-way conflicts",
                    "2-, 4-, 8- and 16-way",
                    "vendor's guide",
                    {},
                    true},
           .fact = most_ways(Rule::strided, text_threads) >= 16 ? Fact::so : Fact::not_so,
           .here = "no more than " + most(text_threads) +
                   ", computed; against the text's own rule: 256 words are 8 rows of the 32 banks; "
                   "512 threads come to " +
                   most(512) + ", 1024 to " + most(1024)}};
}

/// Three blocks of 2 to 1024 threads, as n says: all steps, and each of them alone.
std::vector<Checked> tasks(size_t n) {
  const unsigned threads = 2u << n % 10;
  std::vector<Checked> all;
  const auto add = [&](const Reduction& r, const Steps& steps) {
    const Shared blocks(Blocks(r, steps, 3));
    all.push_back({.task = steps_task(blocks), .elements = 3 * threads, .change_one = [blocks] {
                     blocks->out.change(0);
                   }});
  };
  for (const Reduction& r : reductions) {
    add(r, all_steps(r.rule, threads));
    for (const unsigned s : strides(r.rule, threads)) add(r, one_step(threads, s, 6));
  }
  return all;
}

/// Every step by itself, and every reduction, of the text's block and of the next larger one.
std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  const auto add = [&](const Reduction& r, const Steps& steps, const std::string& parameter,
                       const Traffic& t) {
    all.push_back(
        {std::string(r.key),
         parameter,
         {expected_wavefronts(true, t.loads), expected_wavefronts(false, t.stores)},
         [&r, steps] { return wrong_after(steps_task(Shared(Blocks(r, steps, 1)))) == 0; }});
  };
  for (const unsigned n : {text_threads, 2 * text_threads})
    for (const Reduction& r : reductions) {
      const std::vector<unsigned> each = strides(r.rule, n);
      for (size_t k = 0; k < each.size(); ++k) {
        Traffic t = outside_steps(n);
        t.add(step_traffic(r.rule, each[k], n));
        add(r, one_step(n, each[k]), threads_text(n) + " step " + number_of(k), t);
      }
      add(r, all_steps(r.rule, n), threads_text(n), all_traffic(r.rule, n));
    }
  return all;
}

}  // namespace

extern const Experiment bank_steps_experiment{
    .name = "bank_steps",
    .about = "bank conflicts in every step of the three, and what they cost",
    .run = run_bank_steps,
    .claims = claims,
    .tasks = tasks,
    .counted = counted};
