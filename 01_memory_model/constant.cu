// constant: what does a warp's read of __constant__ memory cost? The lectures say that it is one
// request if all threads want the same word, and that different words are served one after another
// [PR]; they count by half-warps of 16, as compute capability 1.x did. Look at how the time follows
// the number of different words, and at the same reads from global memory, where it does not.
//   cmake -S 01_memory_model -B build/constant -DEXPERIMENTS=constant
//   cmake --build build/constant && build/constant/01_memory_model
//
//   1  read_by_lane    a warp wants 1, 2, 4 ... 32 different words
//   2  read_by_block   the text's good example: all threads of a block want one word
//   3  read_by_thread  the text's bad example: neighbours want different words, 16 in all
//   4  read_global     1 from global memory through L1
// constant_miss.cu: hits and misses; constant_literal.cu: a literal made a constant;
// constant_coefficient.cu: uniform reads against plain loads.
#include "constant.hpp"

#include <algorithm>

#include "../common/report.hpp"

namespace {

constexpr unsigned words = 32;       // among which the lanes of a warp choose at one load
constexpr unsigned loads = 8;        // a turn, each from 32 words of its own: 1 KiB, which any
                                     // constant cache holds
constexpr unsigned text_words = 16;  // of the text's my_const

__constant__ unsigned table[loads * words];

// ---- kernels: thread t leaves the sum of what it read in sums[t]. All lanes move on by one word
// after each turn, so that no load can leave the loop, and as many words stay different ----

// [read_by_lane]
// Lane i wants word i % distinct: a warp's load asks for `distinct` different words.
__global__ void read_by_lane(unsigned* sums, unsigned distinct, unsigned turns) {
  unsigned word = threadIdx.x % 32 % distinct;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads; ++load) sum += table[load * words + word];
    word = (word + 1) % words;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// [/read_by_lane]

// The text's good example: the index follows from the block, so that a warp asks for one word.
__global__ void read_by_block(unsigned* sums, unsigned turns) {
  unsigned word = blockIdx.x % text_words;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads; ++load) sum += table[load * words + word];
    word = (word + 1) % words;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The text's bad example: it follows from the thread, and a warp asks for 16 different words.
__global__ void read_by_thread(unsigned* sums, unsigned turns) {
  unsigned word = (blockIdx.x * blockDim.x + threadIdx.x) % text_words;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads; ++load) sum += table[load * words + word];
    word = (word + 1) % words;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Kernel 1 from global memory: a load's words lie in one line of 128 bytes, which L1 delivers at
// once.
__global__ void read_global(unsigned* sums, const unsigned* in, unsigned distinct, unsigned turns) {
  unsigned word = threadIdx.x % 32 % distinct;
  unsigned sum = 0;
#pragma unroll 1
  for (unsigned turn = 0; turn < turns; ++turn) {
#pragma unroll
    for (unsigned load = 0; load < loads; ++load) sum += in[load * words + word];
    word = (word + 1) % words;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- what is right ----

/// Word i of the table.
unsigned value_at(unsigned i) { return (i + 1) * 2654435769u; }

std::vector<unsigned> table_content() {
  std::vector<unsigned> content;
  for (unsigned i = 0; i < loads * words; ++i) content.push_back(value_at(i));
  return content;
}

/// What a thread finds that begins at `first`.
unsigned sum_from(unsigned first, unsigned turns) {
  unsigned sum = 0;
  for (unsigned turn = 0; turn < turns; ++turn)
    for (unsigned i = (first + turn) % words; i < loads * words; i += words) sum += value_at(i);
  return sum;
}

// ---- the story in order ----

struct Grid {
  unsigned blocks, threads;
};

struct Launch {
  Grid grid;
  unsigned distinct, turns;
};

struct Way {
  const char* name;
  bool in_constant;
  void (*launch)(const Launch&, unsigned* sums, const unsigned* in);
  unsigned (*first)(const Launch&, unsigned block, unsigned thread);  ///< the word, by the text
};

unsigned first_of_lane(const Launch& l, unsigned, unsigned thread) {
  return thread % 32 % l.distinct;
}

const Way ways[] = {
    {"constant", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_lane<<<l.grid.blocks, l.grid.threads>>>(sums, l.distinct, l.turns);
     },
     first_of_lane},
    {"constant, the text's index by block", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_block<<<l.grid.blocks, l.grid.threads>>>(sums, l.turns);
     },
     [](const Launch&, unsigned block, unsigned) { return block % 16; }},
    {"constant, the text's index by thread", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_thread<<<l.grid.blocks, l.grid.threads>>>(sums, l.turns);
     },
     [](const Launch& l, unsigned block, unsigned thread) {
       return (block * l.grid.threads + thread) % 16;
     }},
    {"global", false,
     [](const Launch& l, unsigned* sums, const unsigned* in) {
       read_global<<<l.grid.blocks, l.grid.threads>>>(sums, in, l.distinct, l.turns);
     },
     first_of_lane},
};
enum { by_lane, by_block, by_thread, global };

/// A row of the table. `distinct`: 0 where the way itself says how many.
struct Row {
  int way;
  unsigned distinct;
};
constexpr unsigned swept[] = {1, 2, 4, 8, 16, 32};

/// The constant's sweep first, then the text's two, then global memory's sweep.
std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const unsigned distinct : swept) rows.push_back({by_lane, distinct});
  rows.push_back({by_block, 0});
  rows.push_back({by_thread, 0});
  for (const unsigned distinct : swept) rows.push_back({global, distinct});
  return rows;
}
constexpr size_t one_word = 0, one_global = std::size(swept) + 2;  // rows that calibrate

/// What launches of one grid write.
struct Sums {
  static constexpr size_t canaries = 64;  ///< behind the sums

  Grid grid;
  DeviceBuffer<unsigned> sums{size_t(grid.blocks) * grid.threads + canaries};
  DeviceBuffer<unsigned> in{table_content()};

  explicit Sums(Grid grid) : grid(grid) {
    const std::vector<unsigned> content = table_content();
    CUDA_CHECK(cudaMemcpyToSymbol(table, content.data(), content.size() * sizeof(unsigned)));
  }
  size_t wrong(const Way& way, const Launch& l) const {
    std::vector<unsigned> by_first;
    for (unsigned first = 0; first < words; ++first) by_first.push_back(sum_from(first, l.turns));
    const std::vector<unsigned> found = sums.to_host();
    size_t wrong = 0;
    for (unsigned t = 0; t < found.size(); ++t) {
      const unsigned block = t / grid.threads;
      const bool there = block < grid.blocks;
      const unsigned right = there ? by_first[way.first(l, block, t % grid.threads)] : ~0u;
      wrong += found[t] != right;
    }
    return wrong;
  }
  Task task(const Row& row, unsigned turns) {
    const Way& way = ways[row.way];
    const Launch l{grid, std::max(row.distinct, 1u), turns};
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, &way, l] { return wrong(way, l); };
    return {std::string(way.name) + ", " + std::to_string(row.distinct) + " words",
            [this, &way, l] { way.launch(l, sums.data(), in.data()); }, std::move(check)};
  }
};

// ---- what to expect ----

/// Requests for a load of a warp: one for each different word of constant memory; one in all where
/// the words lie in one line.
unsigned requests(const Row& row) {
  if (!ways[row.way].in_constant) return 1;
  const Launch l{{1, 32}, std::max(row.distinct, 1u), 1};
  bool wanted[words] = {};
  for (unsigned lane = 0; lane < 32; ++lane) wanted[ways[row.way].first(l, 0, lane)] = true;
  return unsigned(std::count(wanted, wanted + words, true));
}

/// Milliseconds: each request takes as long as the one of its memory that was calibrated.
double predicted_ms(const Row& row, double one_constant_ms, double one_global_ms) {
  return requests(row) * (ways[row.way].in_constant ? one_constant_ms : one_global_ms);
}

/// Transactions for one word that all 16 threads of a half-warp load from global memory. On compute
/// capability 1.0 and 1.1, which the text's count fits, each thread had its own.
constexpr unsigned global_transactions_then = 16, global_transactions_today = 1;

// ---- the experiment ----

std::vector<Readings> measure(const Run& run, const std::vector<Row>& rows) {
  if (!run.device) return std::vector<Readings>(rows.size());
  // four blocks of 256 threads on each multiprocessor: enough warps for one always to be due
  Sums sums({unsigned(run.device->prop.multiProcessorCount) * 4, 256});
  const unsigned turns = run.quick ? 64 : 256;
  std::vector<Task> tasks;
  for (const Row& row : rows) tasks.push_back(sums.task(row, turns));
  return run.time_in_turn(tasks);
}

void show(const Run& run, const std::vector<Row>& rows, const std::vector<Readings>& readings) {
  Table table(run.report, "memory, different words a warp",
              {predicted("requests", "requests", "requests", 0), compared("ms", "time", "ms", 4),
               shown("spread"), shown("to one word")});
  const double constant_ms = readings[one_word].median(), global_ms = readings[one_global].median();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const Statistics ms = readings[i].statistics();
    const double one = ways[row.way].in_constant ? constant_ms : global_ms;
    Cell time;
    if (run.device && (i == one_word || i == one_global))
      time = Calibration{ms};
    else if (run.device)
      time = Compared{predicted_ms(row, constant_ms, global_ms), ms, Model::traffic};
    const Key key = row.distinct ? Key{ways[row.way].name, "different words a warp",
                                       std::to_string(row.distinct)}
                                 : Key{ways[row.way].name};
    table.row(key, {double(requests(row)), time, spread_text(ms),
                    run.device ? times(ms.median / one) : ""});
  }
  table.print();
}

/// `readings`: of the constant's sweep.
void judge(const Run& run, const std::vector<Readings>& readings) {
  std::vector<Verdict> verdicts;
  std::string factors;
  Interval r;
  for (size_t i = 1; i < std::size(swept); ++i) {
    r = ratio(readings[i], readings[0]);
    verdicts.push_back(judge(about(swept[i]), r));
    factors += (i > 1 ? ", " : "") + factor_text(r.value);
  }
  run.report.judged({"01.6a", "a uniform constant read is one request, different words serialise",
                     "each access will be serialised", "lectures"},
                    judge_many(verdicts), r,
                    "2, 4, 8, 16, 32 words take " + factors + " as long as one");
  run.report.judge_fact(
      {"01.6d", "uniform constant reads make 1/16 of the traffic of global loads", "1/16",
       "lectures"},
      global_transactions_today >= global_transactions_then,
      "a uniform load is one request of one sector from global memory too, computed");
}

}  // namespace

void constant(const Run& run) {
  run.report.begin("constant", "constant memory: " + std::to_string(loads * words) + " words, " +
                                   bytes_text(4.0 * loads * words) + "; walks; literals");
  const std::vector<Row> rows = all_rows();
  const std::vector<Readings> times = measure(run, rows);
  show(run, rows, times);
  if (run.device)
    run.report.note("calibration: one word from each memory; predicted: requests times that");
  else
    run.report.left_out("times of reads, cycles of hits and misses, literals, coefficients");
  judge(run, times);
  constants::measure_misses(run);
  constants::measure_literals(run);
  constants::measure_coefficients(run);
  run.report.note(
      "a file holds 64 KiB of constants; of a byte more nvcc says "
      "\"File uses too much global constant data\"");
}
