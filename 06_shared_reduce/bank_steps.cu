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
#include <doctest/doctest.h>

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

Steps all_steps(const Reduction& r, unsigned n) {
  const std::vector<unsigned> all = strides(r, n);
  return {n, all.front(), all.back()};
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
  run.report.judge_fact({"06.3b", "the reduction of 256 threads reaches 16-way conflicts",
                         "2-, 4-, 8- and 16-way", "vendor's guide"},
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

// ---- self-checks ----

namespace {

/// Every step by itself, and every reduction, of the text's block and of the next larger one.
std::vector<CountedLaunch> counted_launches() {
  std::vector<CountedLaunch> all;
  const auto add = [&](const Reduction& r, const Steps& steps, const std::string& parameter,
                       const Traffic& t) {
    all.push_back({r.symbol,
                   parameter,
                   {expected_wavefronts(true, t.loads), expected_wavefronts(false, t.stores)},
                   [&r, steps] {
                     Blocks one(1, steps.threads);
                     return wrong_after(one.task(r, steps)) == 0;
                   }});
  };
  for (const unsigned n : {256u, 512u})
    for (const Reduction& r : reductions) {
      const std::string threads = std::to_string(n) + " threads";
      const std::vector<unsigned> each = strides(r, n);
      for (size_t k = 0; k < each.size(); ++k) {
        Traffic t = step(r, each[k], n);
        for (unsigned warp = 0; warp < n / 32; ++warp) {
          t.store(1);
          t.load(1);
        }
        add(r, one_step(n, each[k]), threads + " step " + number_of(k), t);
      }
      add(r, all_steps(r, n), threads, all_traffic(r, n));
    }
  return all;
}

}  // namespace

TEST_CASE("bank_steps: the strided reduction peaks at 8 with 256 threads and at 16 with 512") {
  const int of_256[] = {2, 4, 8, 8, 8, 4, 2, 1}, of_512[] = {2, 4, 8, 16, 16, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) CHECK(ways(reductions[strided], 1u << k, 256) == of_256[k]);
  for (unsigned k = 0; k < 9; ++k) CHECK(ways(reductions[strided], 1u << k, 512) == of_512[k]);
  CHECK(most_ways(reductions[strided], 1024) == 32);
  for (unsigned n = 32; n <= max_threads; n *= 2)
    for (const int other : {modulo, descending}) CHECK(most_ways(reductions[other], n) == 1);
}

TEST_CASE("bank_steps: wavefronts of 256 threads, by hand") {
  const int adding_warps[] = {4, 2, 1, 1, 1, 1, 1, 1};  // of strided and descending
  const int in_modulo[] = {8, 8, 8, 8, 8, 4, 2, 1};     // warps that add, a wavefront each
  const int in_strided[] = {4 * 2, 2 * 4, 8, 8, 8, 4, 2, 1};
  for (unsigned k = 0; k < 8; ++k) {  // two loads and a store
    CHECK(step(reductions[modulo], 1u << k, 256).taken() == 3 * in_modulo[k]);
    CHECK(step(reductions[strided], 1u << k, 256).taken() == 3 * in_strided[k]);
    CHECK(step(reductions[strided], 1u << k, 256).ideal == 3 * adding_warps[k]);
    CHECK(step(reductions[descending], 128u >> k, 256).taken() == 3 * adding_warps[k]);
  }
  const int all[] = {3 * 47 + 16, 3 * 47 + 16, 3 * 12 + 16};
  for (size_t i = 0; i < std::size(reductions); ++i)
    CHECK(all_traffic(reductions[i], 256).taken() == all[i]);
}

TEST_CASE("bank_steps: the text's walk through warp 0, its slip set right") {
  const LaneWords left = lanes_of_warp_0(reductions[strided], 2, 256, true);
  const LaneWords right = lanes_of_warp_0(reductions[strided], 2, 256, false);
  const long text_left[] = {0, 32, 64, 96}, ours_right[] = {2, 34, 66, 98};  // it says 68 and 100
  for (int i = 0; i < 4; ++i) {
    CHECK(left[8 * i] == text_left[i]);
    CHECK(right[8 * i] == ours_right[i]);
  }
  CHECK(text_of(lanes_of_warp_0(reductions[descending], 4, 256, false)).starts_with("4 5 6 7 - -"));
  const LaneWords own = words_of_own_bank(lanes_of_warp_0(reductions[strided], 8, 256, true));
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(own[lane] == (lane < 16 ? 8 : idle));
}

TEST_CASE("bank_steps: each step of a reduction uses a word once, and all of them every word") {
  for (unsigned n = 1; n <= max_threads; n *= 2)
    for (const Reduction& r : reductions) {
      CAPTURE(n);
      CAPTURE(std::string(r.name));
      std::vector<unsigned> sums(n);
      for (unsigned i = 0; i < n; ++i) sums[i] = value_at(i);
      for (const unsigned s : strides(r, n)) {
        std::vector<int> uses(n, 0);
        for (unsigned tid = 0; tid < n; ++tid) {
          const Addition a = addition(r.rule, s, tid, n);
          if (!a.active) continue;
          REQUIRE(std::max(a.left, a.right) < n);
          REQUIRE(++uses[a.left] + ++uses[a.right] == 2);
          sums[a.left] += sums[a.right];
        }
      }
      unsigned sum = 0;
      for (unsigned i = 0; i < n; ++i) sum += value_at(i);
      CHECK(sums[0] == sum);
      if (n > 1) CHECK(sums == words_by_host(r, all_steps(r, n)));
    }
}

TEST_CASE("bank_steps: predictions, by hand") {
  const Traffic four_way = step(reductions[strided], 2, 256);
  REQUIRE(four_way.taken() == 24);
  CHECK(predicted_cycles(four_way, 8, 90) == 192);  // the banks are what all wait for
  CHECK(predicted_cycles(four_way, 4, 90) == 96);   // fewer blocks fit
  CHECK(predicted_cycles(four_way, 1, 90) == 90);   // a warp waits for its words
  const Traffic no_conflict = step(reductions[modulo], 2, 256);
  REQUIRE(no_conflict.taken() == 24);
  CHECK(predicted_cycles(no_conflict, 8, 90) == 128);  // of its 24 wavefronts 8 are stores
}

TEST_CASE("bank_steps: what is computed is judged and saved without a GPU") {
  std::string printed;
  Report report("bank_steps", &printed);
  bank_steps({report, nullptr, {}});
  CHECK(printed.find("06.3b  does not hold") != std::string::npos);
  CHECK(printed.find("found: 512 threads come to 16-way, 1024 to 32-way") != std::string::npos);
  const std::string csv = report.csv("2026-01-01");
  const std::string strided_4 = "\"strided, step 4, stride 8\",lanes of warp 0,";
  for (const char* lanes : {"0 16 32 48 64 ", "8 24 40 56 72 ", "8 8 8 8 8 "})
    CHECK(csv.find(strided_4 + lanes) != std::string::npos);
  CHECK(csv.find("\"descending, step 1, stride 128\",lanes of warp 0,128 129 130 ") !=
        std::string::npos);
  size_t saved = 0;
  for (size_t at = csv.find("lanes of warp 0"); at != std::string::npos;
       at = csv.find("lanes of warp 0", at + 1))
    ++saved;
  CHECK(saved == 2 * 4 * 3);
}

TEST_CASE("bank_steps: the model equals what was counted on an NVIDIA H200") {
  compare_with_recorded_counts(counted_launches(), results_file("nvidia-h200-counters.csv"));
}

TEST_CASE("bank_steps: counted wavefronts of this GPU equal the model") {
  compare_with_counts_of_this_run(counted_launches());
}

TEST_CASE("bank_steps: profile launches") {
  if (skip_without_gpu()) return;
  launch_counted(counted_launches());
}

TEST_CASE("bank_steps: every step is right in blocks of every size") {
  if (skip_without_gpu()) return;
  for (unsigned n = 2; n <= max_threads; n *= 2) {
    Blocks some(3, n);
    for (const Reduction& r : reductions) {
      CAPTURE(n);
      CAPTURE(std::string(r.name));
      CHECK(wrong_after(some.task(r, all_steps(r, n))) == 0);
      for (const unsigned s : strides(r, n))
        for (const unsigned turns : {1u, 6u}) {
          CAPTURE(s);
          CHECK(wrong_after(some.task(r, one_step(n, s, turns))) == 0);
        }
    }
  }
}

TEST_CASE("bank_steps: the check finds what is wrong") {
  if (skip_without_gpu()) return;
  Blocks two(2, 64);
  const Reduction& r = reductions[strided];
  const Task task = two.task(r, all_steps(r, 64));
  task.check.poison();
  CHECK(task.check.wrong() == 2 * 64 + 2);  // and no cycles
  REQUIRE(wrong_after(task) == 0);
  std::vector<unsigned> words = two.out.to_host();
  words[64] += value_at(3) - value_at(5);  // the sum of block 1: a word twice, another left out
  words[128] = 0;                          // a word too far
  two.out.copy_from(words);
  CHECK(task.check.wrong() == 2);
}

TEST_CASE("plausible: bank_steps" * doctest::skip()) {
  check_plausible([](const Run& run) { bank_steps(run); });
}
