// bank_strides: the guide finds two-way to 16-way bank conflicts in its reduction [KP]. Shared
// memory has 32 banks, each 4 bytes wide, and lanes that want different words of one bank wait for
// each other. What that costs shows where warps do nothing but load, lane i the word i * stride.
// Look at which strides are free, at cycles that follow the wavefronts, and at wide words, which
// are served to a part of the warp at a time.
//   cmake -S 06_shared_reduce -B build/strides -DEXPERIMENTS=bank_strides
//   cmake --build build/strides && build/strides/06_shared_reduce
//
//   1  read4   a warp loads words of 4 bytes that lie a stride apart
//   2  read8   words of 8 bytes
//   3  read16  words of 16 bytes
#include <algorithm>
#include <numeric>

#include "../common/report.hpp"
#include "banks.hpp"

namespace {

// ---- kernels: one block, alone on its multiprocessor; thread t adds up what it loads into
// sums[t], and thread 0 leaves the cycles that all warps took ----

constexpr unsigned max_stride = 33;
constexpr unsigned loads_a_turn = 8;      // so that the loop around them hardly counts
constexpr unsigned word_count = 33 * 32;  // the last lane's last word is number 31 * 33 + 7

// [read4]
// The block fills shared memory, side by side. Then, over and over, lane i of each warp loads word
// i * stride and the seven behind it: all lanes move on together, so all loads conflict alike.
__global__ void read4(unsigned* sums, long long* cycles, const unsigned* in, unsigned stride,
                      unsigned turns) {
  __shared__ unsigned word[word_count];
  for (unsigned i = threadIdx.x; i < word_count; i += blockDim.x) word[i] = in[i];  // fill
  __syncthreads();

  const unsigned first = threadIdx.x % 32 * stride;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();  // another lane could have stored: the same words have to be loaded again
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) sum += word[first + load];
  }
  sums[threadIdx.x] = sum;  // waits for the last load,
  __syncthreads();          // and for the last warp
  if (threadIdx.x == 0) *cycles = clock64() - start;
}
// [/read4]

// The same in words of 8 bytes: each takes two banks.
__global__ void read8(unsigned* sums, long long* cycles, const uint2* in, unsigned stride,
                      unsigned turns) {
  __shared__ uint2 word[word_count];
  for (unsigned i = threadIdx.x; i < word_count; i += blockDim.x) word[i] = in[i];  // fill
  __syncthreads();

  const unsigned first = threadIdx.x % 32 * stride;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) {
      const uint2 pair = word[first + load];
      sum += pair.x + pair.y;
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// The same in words of 16 bytes: each takes four banks.
__global__ void read16(unsigned* sums, long long* cycles, const uint4* in, unsigned stride,
                       unsigned turns) {
  __shared__ uint4 word[word_count];
  for (unsigned i = threadIdx.x; i < word_count; i += blockDim.x) word[i] = in[i];  // fill
  __syncthreads();

  const unsigned first = threadIdx.x % 32 * stride;
  unsigned sum = 0;
  const long long start = clock64();
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
    __syncwarp();
#pragma unroll
    for (unsigned load = 0; load < loads_a_turn; ++load) {
      const uint4 quad = word[first + load];
      sum += quad.x + quad.y + quad.z + quad.w;
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - start;
}

// ---- the story in order ----

/// What a launch does.
struct Reading {
  unsigned stride, threads, turns;

  double warp_loads() const { return double(threads / 32) * turns * loads_a_turn; }
};

struct Word {
  unsigned bytes;
  const char *name, *kernel;  ///< as shown; as in the code and in the counters' file
  void (*launch)(const Reading&, unsigned* sums, long long* cycles, const unsigned* in);
};

const uint2* pairs(const unsigned* in) { return reinterpret_cast<const uint2*>(in); }
const uint4* quads(const unsigned* in) { return reinterpret_cast<const uint4*>(in); }

const Word words[] = {
    {4, "4-byte load", "read4",
     [](const Reading& r, unsigned* sums, long long* cycles, const unsigned* in) {
       read4<<<1, r.threads>>>(sums, cycles, in, r.stride, r.turns);
     }},
    {8, "8-byte load", "read8",
     [](const Reading& r, unsigned* sums, long long* cycles, const unsigned* in) {
       read8<<<1, r.threads>>>(sums, cycles, pairs(in), r.stride, r.turns);
     }},
    {16, "16-byte load", "read16",
     [](const Reading& r, unsigned* sums, long long* cycles, const unsigned* in) {
       read16<<<1, r.threads>>>(sums, cycles, quads(in), r.stride, r.turns);
     }},
};

constexpr unsigned all_threads = 1024;  // 32 warps: there is always one whose load is due

// ---- what is right ----

std::vector<unsigned> values(unsigned bytes) {
  std::vector<unsigned> all(word_count * bytes / 4);
  for (unsigned i = 0; i < all.size(); ++i) all[i] = value_at(i);
  return all;
}

/// The sum of each thread: a lane's words lie `stride` words behind those of the lane before it.
std::vector<unsigned> sums_by_host(const Word& word, const Reading& r) {
  std::vector<unsigned> sums;
  unsigned from = 0;  // in bytes
  for (unsigned thread = 0; thread < r.threads; ++thread) {
    if (thread % 32 == 0) from = 0;
    unsigned once = 0;
    for (unsigned byte = from; byte < from + loads_a_turn * word.bytes; byte += 4)
      once += value_at(byte / 4);
    sums.push_back(once * r.turns);
    from += r.stride * word.bytes;
  }
  return sums;
}

/// What launches with one size of word read and write.
struct Block {
  static constexpr size_t canaries = 32;  ///< behind the sums of all threads

  const Word& word;
  DeviceBuffer<unsigned> in{values(word.bytes)};
  DeviceBuffer<unsigned> sums{all_threads + canaries};
  DeviceBuffer<long long> cycles{1};

  explicit Block(const Word& word) : word(word) {}

  size_t wrong(const Reading& r) const {
    std::vector<unsigned> right = sums_by_host(word, r);
    right.resize(sums.size(), ~0u);  // as poisoned
    const std::vector<unsigned> found = sums.to_host();
    size_t wrong = cycles.to_host()[0] > 0 ? 0 : 1;
    for (size_t t = 0; t < found.size(); ++t) wrong += found[t] != right[t];
    return wrong;
  }
  Task task(const Reading& r) {
    Check check;
    check.poison = [this] {
      sums.poison();
      cycles.poison();
    };
    check.wrong = [this, r] { return wrong(r); };
    return {std::string(word.kernel) + ", stride " + std::to_string(r.stride),
            [this, r] { word.launch(r, sums.data(), cycles.data(), in.data()); }, std::move(check)};
  }
};

// ---- what to expect ----

/// The word that a lane loads as its first, second ... eighth of a turn.
unsigned word_of(unsigned lane, unsigned stride, unsigned load) { return lane * stride + load; }

int load_wavefronts(unsigned bytes, unsigned stride, unsigned load = 0) {
  return wavefronts_of(bytes, [=](unsigned lane) { return word_of(lane, stride, load); });
}

/// Cycles that a warp's load keeps the banks busy: each gives a word of 4 bytes a cycle, so that a
/// wavefront takes one.
double predicted_cycles(unsigned bytes, unsigned stride) { return load_wavefronts(bytes, stride); }

// ---- the experiment ----

std::vector<unsigned> strides(bool full) {
  if (!full) return {1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 33};
  std::vector<unsigned> all(max_stride);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

/// Cycles a load of a warp while all of the block's warps load: its share of what all took. By the
/// multiprocessor's own clock, so that it does not matter how fast that runs.
Statistics cycles_a_load(const Run& run, Block& block, const Reading& r) {
  if (!run.device) return {};
  require_right(block.task(r));
  const int launches = run.measuring.repeats;
  DeviceBuffer<long long> cycles(launches);
  cycles.poison();
  for (int i = 0; i < launches; ++i)
    block.word.launch(r, block.sums.data(), cycles.data() + i, block.in.data());
  CUDA_CHECK_LAUNCH();
  std::vector<double> each;
  for (const long long c : cycles.to_host()) {
    require_right(c > 0, std::string(block.word.kernel) + ", cycles");
    each.push_back(double(c) / r.warp_loads());
  }
  return summarize(each);
}

void measure_strides(const Run& run, std::vector<Block>& blocks) {
  constexpr unsigned turns = 64;  // 16384 loads, beside which start and end hardly count
  std::vector<Column> columns;
  for (const Word& word : words) columns.push_back(compared(word.name, word.name, "cycles", 2));
  Table table(run.report, "cycles a load, stride", columns);
  for (const unsigned stride : strides(run.full)) {
    std::vector<Cell> cells;
    for (size_t w = 0; w < std::size(words); ++w) {
      const double expected = predicted_cycles(words[w].bytes, stride);
      Statistics found;
      if (run.device) found = cycles_a_load(run, blocks[w], {stride, all_threads, turns});
      cells.push_back(Compared{expected, found, wavefront_model(run.device)});
    }
    table.row({"", "stride", std::to_string(stride)}, cells);
  }
  table.print();
  run.report.note("strides count in words of their size; predicted: wavefronts, one a cycle");
}

constexpr unsigned claimed[] = {1, 2, 4, 8, 16};  // the first is what the others are compared with

/// Launches with 4-byte words at the claim's strides, in turn.
std::vector<Readings> time_claimed(const Run& run, std::vector<Block>& blocks) {
  if (!run.device) return std::vector<Readings>(std::size(claimed));
  // 0.3 ms at stride 1, beside which a launch and the filling hardly count
  constexpr unsigned turns = 2048;
  std::vector<Task> tasks;
  for (const unsigned stride : claimed)
    tasks.push_back(blocks[0].task({stride, all_threads, turns}));
  return run.time_in_turn(tasks);
}

void judge_doubling(const Run& run, const std::vector<Readings>& times) {
  std::vector<Verdict> verdicts;
  std::string factors;
  Interval longest;
  for (size_t i = 1; i < std::size(claimed); ++i) {
    longest = ratio(times[i], times[0]);
    verdicts.push_back(judge(about(claimed[i]), longest));
    factors += (i > 1 ? ", " : "") + factor_text(longest.value);
  }
  run.report.judged({"06.3a", "reads at strides 2, 4, 8, 16 take 2, 4, 8, 16 times as long",
                     "2-, 4-, 8- and 16-way conflicts", "vendor's guide"},
                    judge_many(verdicts), longest, factors + " as long");
}

}  // namespace

void bank_strides(const Run& run) {
  run.report.begin("bank_strides", "32 warps of a block read " + std::to_string(word_count) +
                                       " words, " + bytes_text(4.0 * word_count) + " to " +
                                       bytes_text(16.0 * word_count));
  std::vector<Block> blocks;
  if (run.device)
    for (const Word& word : words) blocks.emplace_back(word);
  measure_strides(run, blocks);
  const std::vector<Readings> times = time_claimed(run, blocks);
  if (!run.device) run.report.left_out("the measured cycles");
  judge_doubling(run, times);
}
