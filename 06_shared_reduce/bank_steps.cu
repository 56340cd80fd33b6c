// bank_steps: the guide walks through the steps of its `reduce1` [KP] and finds two-way, four-way,
// then 8-way and 16-way bank conflicts; with strides that descend there are none. Look at where its
// own block of 256 threads stops, and at all warps together: the strided reduction takes as many
// wavefronts as the divergent one that it replaces.
//   cmake -S 06_shared_reduce -B build/steps -DEXPERIMENTS=bank_steps
//   cmake --build build/steps && build/steps/06_shared_reduce
//
//   1  modulo_steps      the guide's `reduce`: every thread whose number is a multiple of 2 s adds
//   2  strided_steps     its `reduce1`: the first threads add, words that lie 2 s apart
//   3  descending_steps  its `reduce2`: the first s threads add, words side by side
#include <algorithm>
#include <initializer_list>

#include "../common/counters.hpp"
#include "../common/report.hpp"
#include "banks.hpp"

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

// ---- the story in order ----

/// A launch: some steps of a reduction by blocks of n threads.
struct Steps {
  unsigned threads;
  unsigned first, last;  ///< strides of the first step and of the last
  unsigned turns = 1;
};

struct Reduction {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  Rule rule;
  void (*kernel)(unsigned* out, long long* cycles, const unsigned* in, unsigned first,
                 unsigned last, unsigned turns);

  bool ascends() const { return rule != Rule::descending; }  ///< strides 1, 2, 4 ...
};

const Reduction reductions[] = {
    {"modulo", "modulo_steps", Rule::modulo, modulo_steps},
    {"strided", "strided_steps", Rule::strided, strided_steps},
    {"descending", "descending_steps", Rule::descending, descending_steps},
};
enum { modulo, strided, descending };

/// The strides of all steps of n threads, in order.
std::vector<unsigned> strides(const Reduction& r, unsigned n) {
  std::vector<unsigned> all;
  for (unsigned s = 1; s < n; s *= 2) all.push_back(s);
  if (!r.ascends()) std::reverse(all.begin(), all.end());
  return all;
}

Steps one_step(unsigned n, unsigned stride, unsigned turns = 1) {
  return {n, stride, stride, turns};
}

// ---- what is right ----

/// What a block must leave in its words: in a step the word of each pair that stays gets the other,
/// so many times. Of n words in ascending order those pairs stay whose number is a multiple of 2 s;
/// in descending order the first s.
std::vector<unsigned> words_by_host(const Reduction& r, const Steps& steps) {
  std::vector<unsigned> word(steps.threads);
  for (unsigned i = 0; i < steps.threads; ++i) word[i] = value_at(i);
  for (const unsigned s : strides(r, steps.threads)) {
    if (s < std::min(steps.first, steps.last) || s > std::max(steps.first, steps.last)) continue;
    if (r.ascends())
      for (unsigned i = 0; i < steps.threads; i += 2 * s) word[i] += steps.turns * word[i + s];
    else
      for (unsigned i = 0; i < s; ++i) word[i] += steps.turns * word[i + s];
  }
  return word;
}

/// What launches read and write.
struct Blocks {
  static constexpr size_t canaries = 32;  ///< behind the words of all blocks

  unsigned blocks, threads;
  DeviceBuffer<unsigned> in, out;
  DeviceBuffer<long long> cycles;

  Blocks(unsigned blocks, unsigned threads)
      : blocks(blocks),
        threads(threads),
        in(threads),
        out(size_t(blocks) * threads + canaries),
        cycles(blocks) {
    std::vector<unsigned> words;
    for (unsigned i = 0; i < threads; ++i) words.push_back(value_at(i));
    in.copy_from(words);
  }
  size_t wrong(const Reduction& r, const Steps& steps) const {
    const std::vector<unsigned> right = words_by_host(r, steps);
    const std::vector<unsigned> found = out.to_host();
    const size_t words = size_t(blocks) * threads;
    size_t wrong = 0;
    for (size_t i = 0; i < words; ++i) wrong += found[i] != right[i % threads];
    for (size_t i = words; i < found.size(); ++i) wrong += found[i] != ~0u;
    for (const long long c : cycles.to_host()) wrong += c <= 0;
    return wrong;
  }
  void launch(const Reduction& r, const Steps& steps) const {
    r.kernel<<<blocks, steps.threads>>>(out.data(), cycles.data(), in.data(), steps.first,
                                        steps.last, steps.turns);
  }
  Task task(const Reduction& r, const Steps& steps) {
    Check check;
    check.poison = [this] {
      out.poison();
      cycles.poison();
    };
    check.wrong = [this, &r, steps] { return wrong(r, steps); };
    return {std::string(r.symbol) + ", stride " + std::to_string(steps.first),
            [this, &r, steps] { launch(r, steps); }, std::move(check)};
  }
};

// ---- what to expect ----

/// What all warps of a block do to the banks in the step of a stride.
Traffic step(const Reduction& r, unsigned s, unsigned n) { return step_traffic(r.rule, s, n); }

/// The same of a reduction. Each warp stores its words first, and loads them at the end.
Traffic all_traffic(const Reduction& r, unsigned n) {
  Traffic all;
  for (const unsigned s : strides(r, n)) all.add(step(r, s, n));
  for (unsigned warp = 0; warp < n / 32; ++warp) {
    all.store(1);
    all.load(1);
  }
  return all;
}

int ways(const Reduction& r, unsigned s, unsigned n) { return step(r, s, n).degree; }

int most_ways(const Reduction& r, unsigned n) {
  int most = 0;
  for (const unsigned s : strides(r, n)) most = std::max(most, ways(r, s, n));
  return most;
}

/// The lanes of warp 0 in a step: what each wants as its left or its right word.
LaneWords lanes_of_warp_0(const Reduction& r, unsigned s, unsigned n, bool left) {
  LaneWords lanes;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Addition a = addition(r.rule, s, lane, n);
    lanes[lane] = !a.active ? idle : left ? a.left : a.right;
  }
  return lanes;
}

/// Cycles of a step with so many blocks on a multiprocessor: the longer of two waits. The banks
/// serve a wavefront a cycle, of all blocks; `one_warp`: cycles of a warp that waits for its own
/// words, turn by turn. Stores that conflict with nothing are taken to hide behind the loads. On an
/// H200 nearly all did where eight warps of a block add, less than half with four, none with two;
/// those that conflict four ways or more do not. Why was not found out.
double predicted_cycles(const Traffic& step, unsigned resident_blocks, double one_warp) {
  const int wavefronts = step.degree > 1 ? step.taken() : step.loads;
  return std::max(double(wavefronts) * resident_blocks, one_warp);
}

// ---- the experiment ----

std::string number_of(size_t step) { return std::to_string(step + 1); }

/// What the hardware counted of a whole reduction in this run; not a number where it did not.
double counted_wavefronts(const Reduction& r, unsigned n) {
  const std::string parameter = std::to_string(n) + " threads";
  return count_of_this_run(r.symbol, parameter, expected_wavefronts(true, 0).metric) +
         count_of_this_run(r.symbol, parameter, expected_wavefronts(false, 0).metric);
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
  table.row({"strided, in the text"}, {"2", "4", "8", "16", "", "", "", "", "", "", ""});
  for (const unsigned n : {256u, 512u})
    for (const Reduction& r : reductions) {
      std::vector<Cell> cells(most_steps, Cell{""});
      const std::vector<unsigned> all = strides(r, n);
      for (size_t k = 0; k < all.size(); ++k) cells[k] = double(ways(r, all[k], n));
      cells.push_back(double(all_traffic(r, n).taken()));
      cells.push_back(counted_wavefronts(r, n));
      table.row({r.name, "threads", std::to_string(n)}, cells);
    }
  table.print();
  run.report.note("wavefronts of all loads and stores, before and after the steps too");
}

/// Blocks of a reduction that fit on a multiprocessor at once.
unsigned resident_blocks(const Reduction& r) {
  int blocks = 0;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, r.kernel, int(text_threads), 0));
  return unsigned(std::max(blocks, 1));
}

/// Cycles of the step of a stride while each multiprocessor is full of blocks that do the same: of
/// the blocks of a launch the median.
Statistics cycles_a_step(const Run& run, const Reduction& r, unsigned s) {
  constexpr unsigned turns = 1024;  // beside which the barrier and the launch hardly count
  const Steps steps = one_step(text_threads, s, turns);
  Blocks blocks(resident_blocks(r) * unsigned(run.device->prop.multiProcessorCount), text_threads);
  require_right(blocks.task(r, steps));
  std::vector<double> each;
  for (int i = 0; i < run.measuring.repeats; ++i) {
    blocks.launch(r, steps);
    CUDA_CHECK_LAUNCH();
    std::vector<double> of_blocks;
    for (const long long c : blocks.cycles.to_host()) of_blocks.push_back(double(c) / turns);
    each.push_back(summarize(of_blocks).median);
  }
  return summarize(each);
}

Cell compare_step(const Run& run, const Reduction& r, unsigned s, double one_warp) {
  const double expected = predicted_cycles(step(r, s, text_threads), resident_blocks(r), one_warp);
  return Compared{expected, cycles_a_step(run, r, s), wavefront_model(run.device)};
}

/// What the steps cost where there is nothing else to wait for.
void show_cycles(const Run& run) {
  Table table(run.report, "step of 256 threads",
              {predicted("ways", "conflict", "ways", 0),
               predicted("wavefronts", "wavefronts a block", "wavefronts", 0),
               compared("cycles", "step", "cycles", 1)});
  const auto add = [&](const Reduction& r, unsigned s, const Cell& cycles) {
    const std::vector<unsigned> all = strides(r, text_threads);
    const size_t k = size_t(std::find(all.begin(), all.end(), s) - all.begin());
    const Traffic traffic = step(r, s, text_threads);
    table.row({r.name, "step", number_of(k)},
              {double(traffic.degree), double(traffic.taken()), cycles});
  };
  // one lane of each block adds: a single warp, and hardly a wavefront
  const Reduction& least = reductions[descending];
  double one_warp = NAN;
  if (run.device) {
    const Statistics cycles = cycles_a_step(run, least, 1);
    one_warp = cycles.median;
    add(least, 1, Calibration{cycles});
  }
  for (const Reduction& r : reductions)
    for (const unsigned s : strides(r, text_threads)) {
      if (!run.device)
        add(r, s, {});
      else if (&r != &least || s != 1)
        add(r, s, compare_step(run, r, s, one_warp));
    }
  table.print();
  if (run.device)
    run.report.note("of a step while " + std::to_string(resident_blocks(reductions[strided])) +
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
  const auto save = [&](const std::string& name, const char* metric, const LaneWords& lanes,
                        double value, const char* unit) {
    run.report.save({"", name, "lanes of warp 0", text_of(lanes), "predicted", metric, unit, value,
                     NAN, NAN, 0});
  };
  run.report.save(
      {"", "shared memory", "", "", "predicted", "banks", "", double(bank_count), NAN, NAN, 0});
  for (const int i : {strided, descending}) {
    const Reduction& r = reductions[i];
    const std::vector<unsigned> all = strides(r, text_threads);
    for (size_t k = 0; k < 4; ++k) {
      const std::string name =
          std::string(r.name) + ", step " + number_of(k) + ", stride " + std::to_string(all[k]);
      const LaneWords left = lanes_of_warp_0(r, all[k], text_threads, true);
      const LaneWords right = lanes_of_warp_0(r, all[k], text_threads, false);
      const LaneWords own = words_of_own_bank(left);
      save(name, "left words", left, wavefronts(left), "wavefronts");
      save(name, "right words", right, wavefronts(right), "wavefronts");
      save(name, "words of the lane's bank", own, double(*std::max_element(own.begin(), own.end())),
           "words");
    }
  }
}

void judge_sixteen(const Run& run) {
  const auto text = [](int most) { return std::to_string(most) + "-way"; };
  const int most = most_ways(reductions[strided], text_threads);
  run.report.judge_fact({"06.3b",
                         "the reduction of 256 threads reaches 16-way conflicts",
                         "2-, 4-, 8- and 16-way",
                         "vendor's guide",
                         {},
                         true},
                        most >= 16,
                        "no more than " + text(most) +
                            ", computed; against the text's own rule: 256 words are 8 rows of the "
                            "32 banks");
  run.report.finding("06.3b", "512 threads come to " + text(most_ways(reductions[strided], 512)) +
                                  ", 1024 to " + text(most_ways(reductions[strided], 1024)));
}

}  // namespace

void bank_steps(const Run& run) {
  run.report.begin("bank_steps", "a block's sum of 256 or 512 words, 1 or 2 KiB");
  show_ways(run);
  show_cycles(run);
  save_lanes(run);
  judge_sixteen(run);
}
