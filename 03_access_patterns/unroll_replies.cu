// unroll, 2 of 2: what else the replies in the wiki expect of more words a thread [LC 3]. Values
// that the words share stay in registers; there is work to do between the accesses; the last blocks
// leave no tail. A plain sum of vectors has none of the three. Here are two kernels, with one word
// a thread and with four: stacks for the first, chains for the other two.
//
//   1  stack1  a thread adds up 25 rows for one word, and shares nothing
//   2  stack4  for four words, one below the other, which share 22 of their 25 rows
//   3  chain1  one word goes through a long chain of additions: each waits for the one before
//   4  chain4  four words at a time: four chains
#include <algorithm>

#include "../common/report.hpp"

void unroll_replies(const Run& run);

namespace {

// ---- kernels ----

constexpr unsigned height = 25;             // rows of a stack
constexpr unsigned across = 32, down = 16;  // a block's threads
// While one block waits for its first rows another one adds. On 8.0 and 9.0, which have room for
// 2048 threads, four at once ask for no more than 32 registers a thread; every GPU has room for
// two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900
constexpr int blocks_at_once = 2;
#else
constexpr int blocks_at_once = 4;
#endif

// [stack1]
// out[y][x] = in[y][x] + in[y + 1][x] + ... of 25 rows. A warp reads 32 neighbours 25 times; L1 has
// most of them, since the block's other warps want the same rows.
__global__ void __launch_bounds__(across* down, blocks_at_once)
    stack1(unsigned* out, const unsigned* in, unsigned columns, unsigned rows) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= columns || y >= rows) return;
  unsigned sum = 0;
#pragma unroll
  for (unsigned d = 0; d < height; ++d) sum += in[size_t(y + d) * columns + x];
  out[size_t(y) * columns + x] = sum;
}
// [/stack1]

// [stack4]
// Four rows of the output from 28 of the input: 7 loads a word, where stack1 has 25.
__global__ void __launch_bounds__(across* down, blocks_at_once)
    stack4(unsigned* out, const unsigned* in, unsigned columns, unsigned rows) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = 4 * (blockIdx.y * blockDim.y + threadIdx.y);
  if (x >= columns || y >= rows) return;
  unsigned sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (unsigned d = 0; d < height + 3; ++d) {
    const bool there = y + d < rows + height - 1;
    const unsigned word = there ? in[size_t(y + d) * columns + x] : 0;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (d >= k && d < k + height) sum[k] += word;  // known when it is compiled
  }
#pragma unroll
  for (unsigned k = 0; k < 4; ++k)
    if (y + k < rows) out[size_t(y + k) * columns + x] = sum[k];
}
// [/stack4]

// [chain1]
// A thread takes one word after the other. No step of a chain begins before the last one has ended.
__global__ void chain1(float* out, const float* in, unsigned n, unsigned turns, float addend) {
  const unsigned threads = gridDim.x * blockDim.x;
#pragma unroll 1
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
    float word = in[i];
#pragma unroll 16
    for (unsigned turn = 0; turn < turns; ++turn) word += addend;
    out[i] = word;
  }
}
// [/chain1]

// [chain4]
// Four words at a time: while one chain waits, the thread goes on with another.
__global__ void chain4(float* out, const float* in, unsigned n, unsigned turns, float addend) {
  const unsigned threads = gridDim.x * blockDim.x;
#pragma unroll 1
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * threads) {
    float word[4];
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) word[k] = i + k * threads < n ? in[i + k * threads] : 0;
#pragma unroll 16
    for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) word[k] += addend;
    }
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (i + k * threads < n) out[i + k * threads] = word[k];
  }
}
// [/chain4]

// ---- what is right ----

/// Word i: without pattern.
__host__ __device__ unsigned word_at(size_t i) {
  unsigned x = unsigned(i) * 0x9e3779b1u + unsigned(i >> 32);
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

__global__ void fill(unsigned* words, size_t n) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += threads)
    words[i] = word_at(i);
}

/// A thread goes down a column, and keeps the sum up to date: a row comes in, another drops out.
__global__ void count_wrong_stacks(const unsigned* out, unsigned columns, unsigned rows,
                                   unsigned* wrong) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= columns) return;
  unsigned sum = 0, mistakes = 0;
  for (unsigned y = 0; y < rows + height - 1; ++y) {
    sum += word_at(size_t(y) * columns + x);
    if (y < height - 1) continue;
    const unsigned top = y - (height - 1);
    mistakes += out[size_t(top) * columns + x] != sum;
    sum -= word_at(size_t(top) * columns + x);
  }
  if (mistakes) atomicAdd(wrong, mistakes);
}

/// `rows` rows of stacks, and the rows that they add up.
struct Stacks {
  static constexpr size_t canaries = 4096;  ///< behind the output

  unsigned columns, rows;
  DeviceBuffer<unsigned> in{size_t(columns) * (rows + height - 1)};
  DeviceBuffer<unsigned> out{size_t(columns) * rows + canaries};
  DeviceBuffer<unsigned> wrong_words{1};

  Stacks(unsigned columns, unsigned rows) : columns(columns), rows(rows) {
    fill<<<1024, 256>>>(in.data(), in.size());
    CUDA_CHECK_LAUNCH();
  }
  void launch(unsigned words) {
    const dim3 block(across, down);
    const unsigned high = down * words;  // rows of a block
    const dim3 grid((columns + across - 1) / across, (rows + high - 1) / high);
    if (words == 1)
      stack1<<<grid, block>>>(out.data(), in.data(), columns, rows);
    else
      stack4<<<grid, block>>>(out.data(), in.data(), columns, rows);
  }
  size_t wrong() {
    wrong_words.copy_from({0});
    count_wrong_stacks<<<(columns + 63) / 64, 64>>>(out.data(), columns, rows, wrong_words.data());
    CUDA_CHECK_LAUNCH();
    return wrong_words.to_host()[0];
  }
  Task task(unsigned words) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return wrong(); };
    return {"stacks, " + std::to_string(words) + " words a thread",
            [this, words] { launch(words); }, std::move(check)};
  }
  Task copy_engine() {
    return {"copy engine",
            [this] {
              CUDA_CHECK(cudaMemcpyAsync(out.data(), in.data(), size_t(columns) * rows * 4,
                                         cudaMemcpyDeviceToDevice));
            },
            unchecked("the copy engine is taken at its word")};
  }
};

/// What a turn adds; the kernels are not told before they run. Sums of whole numbers below 2^24 are
/// exact, and one turn too few shows.
constexpr float addend = 3;

/// Words for chains, 16 bits each.
struct Chains {
  static constexpr size_t canaries = 4096;

  unsigned turns;
  std::vector<float> host;
  DeviceBuffer<float> in, out;

  Chains(unsigned n, unsigned turns) : turns(turns), host(n), out(n + canaries) {
    for (unsigned i = 0; i < n; ++i) host[i] = float(word_at(i) >> 16);
    in = DeviceBuffer<float>(host);
  }
  size_t wrong(unsigned n) const {
    const std::vector<float> found = out.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const bool right = i < n ? found[i] == host[i] + addend * float(turns) : found[i] != found[i];
      wrong += !right;
    }
    return wrong;
  }
  /// The first n words by such a grid.
  Task task(unsigned words, unsigned n, unsigned blocks, unsigned threads) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, n] { return wrong(n); };
    return {"chains, " + std::to_string(words) + " words at a time",
            [this, words, n, blocks, threads] {
              if (words == 1)
                chain1<<<blocks, threads>>>(out.data(), in.data(), n, turns, addend);
              else
                chain4<<<blocks, threads>>>(out.data(), in.data(), n, turns, addend);
            },
            std::move(check)};
  }
};

// ---- what to expect ----

/// L1's cycles for a warp's row of words: a line loaded takes one, as does a sector stored
/// (04_bandwidth transpose).
double stack_cycles(unsigned words) { return (height + words - 1.0) / words + 4; }

/// The memory's time, or L1's if that is longer. `copy_ms`: of as many words.
double busy_ms(unsigned words, double outputs, double copy_ms, const Device& device) {
  if (device.sm_clock_khz <= 0) return NAN;
  const double cycles = outputs / 32 * stack_cycles(words) / device.prop.multiProcessorCount;
  return std::max(copy_ms, cycles / device.sm_clock_khz);
}

/// How often a multiprocessor begins a new set of blocks, each of which waits for its first rows.
double stack_rounds(unsigned words, double outputs, const Device& device) {
  const int fit = device.prop.maxThreadsPerMultiProcessor / int(across * down);
  const double resident = std::max(fit, 1) * double(device.prop.multiProcessorCount);
  return outputs / (across * down * words) / resident;
}

/// That wait, from the time with one word a thread.
double wait_of(double ms, double outputs, double copy_ms, const Device& device) {
  return std::max(0.0, ms - busy_ms(1, outputs, copy_ms, device)) /
         stack_rounds(1, outputs, device);
}
double stack_ms(unsigned words, double outputs, double copy_ms, double wait_ms,
                const Device& device) {
  return busy_ms(words, outputs, copy_ms, device) + stack_rounds(words, outputs, device) * wait_ms;
}

/// Chains of a multiprocessor, from two rows of the same run.
struct Chain {
  double wait_ms = NAN;   ///< of a word alone: all its turns, each waiting for the last
  double issue_ms = NAN;  ///< of a word among so many that no turn waits

  /// `one_by_one` words of a thread, in a multiprocessor that has `words` in all.
  double ms(double one_by_one, double words) const {
    return std::max(one_by_one * wait_ms, words * issue_ms);
  }
};

constexpr unsigned tail_threads = 256;  // of a block in the rows about the tail
constexpr unsigned few_threads = 128;   // a warp for each of a multiprocessor's four schedulers

/// Blocks of that size that a multiprocessor has at once.
unsigned resident_blocks(const Device& device) {
  return std::max(1, device.prop.maxThreadsPerMultiProcessor / int(tail_threads));
}

/// A word a thread: all resident blocks, and then the one too many, alone.
double tail1_ms(const Chain& c, unsigned resident) {
  return c.ms(1, double(resident) * tail_threads) + c.ms(1, tail_threads);
}
/// Four words a thread: a block has a quarter of the threads, and all are resident.
double tail4_ms(const Chain& c, unsigned resident) {
  return c.ms(1, double(resident + 1) * tail_threads);
}

// ---- the experiment ----

struct RowTable {
  const Run& run;
  Table table;

  explicit RowTable(const Run& run)
      : run(run),
        table(run.report, "reply, words a thread",
              {counted("registers", "registers a thread", "registers", 0),
               compared("ms", "time", "ms", 4), shown("spread"), shown("gain")}) {}

  void add(const std::string& name, double registers, const Cell& time, const Readings& times,
           const Readings& base) {
    table.row({name}, {registers, time, spread_text(times.statistics()),
                       times.ms.empty() ? "" : ::times(base.median() / times.median())});
  }
};

template <class Kernel>
double registers_of(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.numRegs;
}

/// The side of a square that is more than four times the L2, in and out together.
unsigned stack_side(const Run& run) {
  size_t side = 8192;
  while (run.device && !beyond_l2(*run.device, 8.0 * double(side * side))) side *= 2;
  return unsigned(fitting_size("stacks", 0, side, run.memory_there(),
                               [](size_t n) { return 8.0 * double(n) * double(n + height); }));
}

/// How much faster four words a thread are than one.
Interval measure_stacks(const Run& run, RowTable& table) {
  const unsigned side = stack_side(run);
  Stacks stacks(side, side);
  const std::vector<Readings> times =
      run.time_in_turn({stacks.copy_engine(), stacks.task(1), stacks.task(4)});
  const double copy_ms = times[0].median();
  const double outputs = double(side) * side;
  const double wait_ms = wait_of(times[1].median(), outputs, copy_ms, *run.device);
  const double expected = stack_ms(4, outputs, copy_ms, wait_ms, *run.device);
  const Model model = run.device->prop.major == 9 ? Model::latency : Model::host;  // found on 9.0
  table.add("copy engine", NAN, Calibration{times[0].statistics()}, times[0], times[0]);
  table.add("shared values, 1", registers_of(stack1), Calibration{times[1].statistics()}, times[1],
            times[1]);
  table.add("shared values, 4", registers_of(stack4),
            Compared{expected, times[2].statistics(), model}, times[2], times[1]);
  return ratio(times[1], times[2]);
}

struct ChainGains {
  Interval few, all, tail;
};

ChainGains measure_chains(const Run& run, RowTable& table) {
  const Device& device = *run.device;
  const unsigned multiprocessors = unsigned(device.prop.multiProcessorCount);
  const unsigned resident = resident_blocks(device);
  const unsigned words = 4 * resident * tail_threads;  // of a multiprocessor
  const unsigned n = words * multiprocessors;
  const unsigned tail = (resident + 1) * tail_threads * multiprocessors;
  const unsigned turns = run.quick ? 2048 : 8192;
  Chains chains(n, turns);
  const std::vector<Readings> times = run.time_in_turn({
      chains.task(1, n, multiprocessors, few_threads),
      chains.task(4, n, multiprocessors, few_threads),
      chains.task(1, n, resident * multiprocessors, tail_threads),
      chains.task(4, n, resident * multiprocessors, tail_threads),
      chains.task(1, tail, (resident + 1) * multiprocessors, tail_threads),
      chains.task(4, tail, (resident + 1) * multiprocessors, tail_threads / 4),
  });
  const double each = double(words) / few_threads;  // words of a thread, where they are few
  const Chain c{times[0].median() / each, times[2].median() / words};
  const auto add = [&](const char* name, unsigned at_once, const Cell& time, int row, int base) {
    table.add(name, at_once == 1 ? registers_of(chain1) : registers_of(chain4), time, times[row],
              times[base]);
  };
  const auto compared_with = [&](double ms, int row) {
    return Compared{ms, times[row].statistics(), Model::latency};
  };
  add("work between, few threads, 1", 1, Calibration{times[0].statistics()}, 0, 0);
  add("work between, few threads, 4", 4, compared_with(c.ms(each / 4, words), 1), 1, 0);
  add("work between, all threads, 1", 1, Calibration{times[2].statistics()}, 2, 2);
  add("work between, all threads, 4", 4, compared_with(c.ms(1, words), 3), 3, 2);
  add("a block too many, 1", 1, compared_with(tail1_ms(c, resident), 4), 4, 4);
  add("a block too many, 4", 4, compared_with(tail4_ms(c, resident), 5), 5, 4);
  return {ratio(times[0], times[1]), ratio(times[2], times[3]), ratio(times[4], times[5])};
}

}  // namespace

void unroll_replies(const Run& run) {
  if (!run.device) return run.report.left_out("the replies' other reasons for unrolling");
  RowTable table(run);
  const Interval shared = measure_stacks(run, table);
  const ChainGains chains = measure_chains(run, table);
  table.table.print();
  run.report.note(
      "few threads: a warp for each scheduler; a block too many: one more on each "
      "multiprocessor than it has room for");
  run.report.finding("03.9", "words that share values: four a thread are " + faster(shared));
  run.report.finding("03.9", "work between the accesses: four are " + faster(chains.few) +
                                 " with few threads, " + faster(chains.all) + " with all");
  run.report.finding("03.9", "a tail of one block: four are " + faster(chains.tail));
}
