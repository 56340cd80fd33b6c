// bank_strides: the guide finds two-way to 16-way bank conflicts in its reduction [KP]. Shared
// memory has 32 banks, each 4 bytes wide, and lanes that want different words of one bank wait for
// each other. What that costs shows where warps do nothing but load, lane i the word i * stride.
// Three things to look at:
//   - Which strides are free.
//   - Cycles that follow the wavefronts.
//   - Words of 8 and 16 bytes, which are served to a part of the warp at a time.
//
//   cmake -S 06_shared_reduce -B build/strides -DEXPERIMENTS=bank_strides
//   cmake --build build/strides && build/strides/06_shared_reduce
//
//   1  read4   a warp loads words of 4 bytes that lie a stride apart
//   2  read8   words of 8 bytes
//   3  read16  words of 16 bytes
#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"
#include "banks.hpp"

using namespace samples;

namespace {

// ---- kernels: one block, alone on its multiprocessor; thread t adds up what it loads into
// sums[t], and thread 0 leaves the cycles that all warps took ----

constexpr unsigned max_stride = 33;
constexpr unsigned loads_per_turn = 8;    // so that the loop around them hardly counts
constexpr unsigned word_count = 33 * 32;  // the last lane's last word is number 31 * 33 + 7

__device__ unsigned sum_of(unsigned word) { return word; }
__device__ unsigned sum_of(uint2 word) { return word.x + word.y; }
__device__ unsigned sum_of(uint4 word) { return word.x + word.y + word.z + word.w; }

// [read_words]
// The block fills shared memory, side by side. Then, over and over, lane i of each warp loads word
// i * stride and the seven behind it: all lanes move on together, so all loads conflict alike.
template <class Word>
__device__ void read_words(unsigned* sums, long long* cycles, const Word* in, unsigned stride,
                           unsigned turns) {
  __shared__ Word word[word_count];
  for (unsigned i = threadIdx.x; i < word_count; i += blockDim.x) word[i] = in[i];  // fill
  __syncthreads();

  const unsigned first = threadIdx.x % 32 * stride;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_per_turn; ++load) sum += sum_of(word[first + load]);
  }
  sums[threadIdx.x] = sum;  // waits for the last load,
  __syncthreads();          // and for the last warp
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
// [/read_words]

// A 4-byte word is in one bank.
__global__ void read4(unsigned* sums, long long* cycles, const unsigned* in, unsigned stride,
                      unsigned turns) {
  read_words(sums, cycles, in, stride, turns);
}
// An 8-byte word takes two banks.
__global__ void read8(unsigned* sums, long long* cycles, const uint2* in, unsigned stride,
                      unsigned turns) {
  read_words(sums, cycles, in, stride, turns);
}
// A 16-byte word takes four.
__global__ void read16(unsigned* sums, long long* cycles, const uint4* in, unsigned stride,
                       unsigned turns) {
  read_words(sums, cycles, in, stride, turns);
}

// ---- launching them ----

constexpr unsigned all_threads = 1024;  // 32 warps: there is always one whose load is due

struct Word {
  unsigned bytes;
  std::string_view kernel;
  const char* metric;  ///< its column of the table
};
constexpr Word words[] = {{4, name_of<read4>(), "4-byte load"},
                          {8, name_of<read8>(), "8-byte load"},
                          {16, name_of<read16>(), "16-byte load"}};

/// What a launch does; the stride is the row's.
struct Reading {
  unsigned threads = all_threads, turns = 1;
  double loads() const { return double(threads / 32) * turns * loads_per_turn; }
};

/// What each thread must have: so many times the eight words from its lane's first on. They are
/// found here in the 4-byte words of which shared memory is filled.
struct SumOf {
  unsigned bytes, stride, turns;

  __host__ __device__ unsigned of_thread(unsigned thread) const {
    unsigned once = 0;
    for (unsigned byte = 0; byte < loads_per_turn * bytes; byte += 4)
      once += scrambled((thread % 32 * stride * bytes + byte) / 4);
    return once * turns;
  }
  __device__ bool operator()(size_t thread, unsigned found) const {
    return found == of_thread(unsigned(thread));
  }
};

/// What launches with one size of word read and write.
struct Block {
  const Word& word;
  DeviceBuffer<unsigned> in;
  Output<unsigned> sums;
  DeviceBuffer<long long> cycles{1};

  Block(const Word& word, unsigned threads)
      : word(word), in(filled<unsigned>(word_count * word.bytes / 4, WordAt{})), sums(threads) {}

  void launch(unsigned stride, const Reading& r) const {
    if (word.bytes == 4)
      read4<<<1, r.threads>>>(sums.data(), cycles.data(), in.data(), stride, r.turns);
    else if (word.bytes == 8)
      read8<<<1, r.threads>>>(sums.data(), cycles.data(), reinterpret_cast<uint2*>(in.data()),
                              stride, r.turns);
    else
      read16<<<1, r.threads>>>(sums.data(), cycles.data(), reinterpret_cast<uint4*>(in.data()),
                               stride, r.turns);
  }
};

Task read_task(const Shared<Block>& block, unsigned stride, const Reading& r) {
  return {text({block->word.kernel, double(stride)}),
          [block, stride, r] { block->launch(stride, r); },
          block->sums.check(SumOf{block->word.bytes, stride, r.turns})};
}

// ---- prediction ----

/// The word that a lane loads as its first, second ... eighth of a turn.
unsigned word_of(unsigned lane, unsigned stride, unsigned load) { return lane * stride + load; }

int wavefronts_at(unsigned bytes, unsigned stride, unsigned load = 0) {
  return wavefronts_of(bytes, [=](unsigned lane) { return word_of(lane, stride, load); });
}

/// Cycles that a warp's load keeps the banks busy: each gives a word of 4 bytes per cycle, so that
/// a wavefront takes one.
double predicted_cycles(unsigned bytes, unsigned stride) { return wavefronts_at(bytes, stride); }

// ---- the experiment ----

std::vector<unsigned> strides(bool full) {
  if (!full) return {1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 33};
  std::vector<unsigned> all;
  for (unsigned stride = 1; stride <= max_stride; ++stride) all.push_back(stride);
  return all;
}

/// By the multiprocessor's own clock, so that it does not matter how fast that runs.
void measure_cycles(const Run& run) {
  constexpr Reading reading{.turns = 64};  // 16384 loads, beside which start and end hardly count
  std::vector<Column> columns;
  for (const Word& word : words) columns.push_back(compared(word.metric, word.metric, "cycles", 2));
  Table table(run.report, "cycles per load, stride", columns);
  for (const unsigned stride : strides(run.full)) {
    const Ref row("load", stride);
    std::vector<Cell> cells;
    for (const Word& word : words) {
      const Statistics cycles = ask_for_table(run, row, word.metric, "cycles", [&] {
        const Shared block(Block(word, reading.threads));
        return cycles_of(read_task(block, stride, reading), block->cycles, reading.loads(),
                         run.measuring.repeats);
      });
      const double expected = predicted_cycles(word.bytes, stride);
      cells.push_back(Compared{expected, cycles, wavefront_model(run.device)});
    }
    table.row({row.key, "stride", at_text(row), at_text(row)}, cells);
  }
  table.print();
  run.report.note("strides count in words of their size; predicted: wavefronts, one per cycle");
  if (!run.device) run.report.left_out("the measured cycles");
}

constexpr unsigned claimed[] = {2, 4, 8, 16};  // compared with stride 1

Ref claimed_row(unsigned stride) { return {words[0].kernel, double(stride)}; }
Comparison beside_stride_1(unsigned stride) {
  return {.slow = claimed_row(stride), .fast = claimed_row(1)};
}
/// Under this the share is kept of the time that the stride should take: 1 is all of it.
std::string share_of_time(unsigned stride) {
  return "of " + std::to_string(stride) + " times as long";
}

void measure_claimed(const Run& run) {
  // 0.3 ms at stride 1, beside which a launch and the filling hardly count
  constexpr Reading reading{.turns = 2048};
  Sheet sheet(run, "4-byte words, in turn", {milliseconds(3), spread()}, "stride");
  const auto add = [&](unsigned stride) {
    sheet.add({.ref = claimed_row(stride),
               .words = "stride " + std::to_string(stride),
               .calibrates = stride == 1,
               .model = wavefront_model(run.device)});
  };
  add(1);
  for (const unsigned stride : claimed) add(stride);
  SharedByTasks block([] { return Block(words[0], all_threads); });
  sheet.measure(Timing::in_turn,
                [&](const Row& row) { return read_task(block(), unsigned(row.ref.at), reading); });
  const double wavefront_ms = sheet.ms(claimed_row(1)) / wavefronts_at(4, 1);
  sheet.predict(
      [&](const Row& row) { return wavefront_ms * wavefronts_at(4, unsigned(row.ref.at)); });
  sheet.print();
  for (const unsigned stride : claimed) {
    const Interval share = scaled(ratio_of(run, beside_stride_1(stride)), 1.0 / stride);
    keep(run, claimed_row(stride), share_of_time(stride), "",
         {share.value, share.low, share.high, share.pairs});
  }
}

void run_bank_strides(const Run& run) {
  run.report.begin("bank_strides", "32 warps of a block read " + std::to_string(word_count) +
                                       " words, " + bytes_text(4.0 * word_count) + " to " +
                                       bytes_text(16.0 * word_count));
  measure_cycles(run);
  measure_claimed(run);
}

// ---- what it declares ----

std::vector<Claim> claims(const Run& run) {
  Claim claim{.part = {"06.3a", "reads at strides 2, 4, 8 and 16 take 2, 4, 8 and 16 times as long",
                       "2-, 4-, 8- and 16-way conflicts", "vendor's guide"},
              .rule = about(1),
              .needs = run.device ? "one of its strides was not measured" : ""};
  for (const unsigned stride : claimed) {
    claim.levels.push_back({.ref = claimed_row(stride), .metric = share_of_time(stride)});
    claim.found.push_back(beside_stride_1(stride));
  }
  return {claim};
}

/// Blocks of n threads, or of as many as there can be; the more of n is left, the more turns.
std::vector<Checked> tasks(size_t n) {
  const Reading r{.threads = unsigned((n - 1) % all_threads + 1),
                  .turns = unsigned(n / all_threads % 17 + 1)};
  std::vector<Checked> all;
  for (const Word& word : words)
    for (const unsigned stride : {1u, 2u, 7u, 16u, max_stride}) {
      const Shared block(Block(word, r.threads));
      all.push_back({.task = read_task(block, stride, r),
                     .elements = r.threads,
                     .change_one = [block] { block->sums.change(0); }});
    }
  return all;
}

/// A warp and a turn for each size of word and each stride.
std::vector<CountedLaunch> counted() {
  std::vector<CountedLaunch> all;
  for (const Word& word : words)
    for (const unsigned stride : strides(true)) {
      int loads = 0;
      for (unsigned load = 0; load < loads_per_turn; ++load)
        loads += wavefronts_at(word.bytes, stride, load);
      const unsigned fill = word_count / 32 * word.bytes / 4;
      all.push_back({std::string(word.kernel),
                     std::to_string(word.bytes) + " bytes stride " + std::to_string(stride),
                     {expected_wavefronts(true, loads), expected_wavefronts(false, fill)},
                     [&word, stride] {
                       const Shared block(Block(word, 32));
                       return wrong_after(read_task(block, stride, {.threads = 32})) == 0;
                     }});
    }
  return all;
}

}  // namespace

extern const Experiment bank_strides_experiment{
    .name = "bank_strides",
    .about = "reads at strides 1 to 33, in words of 4, 8 and 16 bytes",
    .run = run_bank_strides,
    .claims = claims,
    .tasks = tasks,
    .counted = counted};
