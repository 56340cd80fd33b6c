// constant: what does a warp's read of __constant__ memory cost? The lectures say that it is one
// request if all threads want the same word, and that different words are served one after another
// [PR]; they count by half-warps of 16, as compute capability 1.x did. Two things to look at:
//   - How the time follows the number of different words.
//   - The same reads from global memory, where it does not.
//
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

using namespace samples;

namespace {

constexpr unsigned words = 32;       // among which the lanes of a warp choose at one load
constexpr unsigned loads = 8;        // per turn, each from 32 words of its own: 1 KiB, which any
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

// ---- the ways ----

struct Grid {
  unsigned blocks, threads;
  unsigned all() const { return blocks * threads; }
};

struct Launch {
  Grid grid;
  unsigned distinct, turns;
};

struct Way {
  std::string_view key;
  const char* words;
  bool in_constant;
  void (*launch)(const Launch&, unsigned* sums, const unsigned* in);
  unsigned (*first)(const Launch&, unsigned block, unsigned thread);  ///< the word, by the text
};

unsigned first_of_lane(const Launch& l, unsigned, unsigned thread) {
  return thread % 32 % l.distinct;
}

const Way ways[] = {
    {name_of<read_by_lane>(), "constant", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_lane<<<l.grid.blocks, l.grid.threads>>>(sums, l.distinct, l.turns);
     },
     first_of_lane},
    {name_of<read_by_block>(), "constant, the text's index by block", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_block<<<l.grid.blocks, l.grid.threads>>>(sums, l.turns);
     },
     [](const Launch&, unsigned block, unsigned) { return block % 16; }},
    {name_of<read_by_thread>(), "constant, the text's index by thread", true,
     [](const Launch& l, unsigned* sums, const unsigned*) {
       read_by_thread<<<l.grid.blocks, l.grid.threads>>>(sums, l.turns);
     },
     [](const Launch& l, unsigned block, unsigned thread) {
       return (block * l.grid.threads + thread) % 16;
     }},
    {name_of<read_global>(), "global", false,
     [](const Launch& l, unsigned* sums, const unsigned* in) {
       read_global<<<l.grid.blocks, l.grid.threads>>>(sums, in, l.distinct, l.turns);
     },
     first_of_lane},
};
constexpr double swept[] = {1, 2, 4, 8, 16, 32};

/// The rows: `at` is how many different words a warp wants, where the way does not say it itself.
std::vector<Ref> all_rows() {
  std::vector<Ref> rows;
  for (const double distinct : swept) rows.push_back({name_of<read_by_lane>(), distinct});
  rows.push_back(name_of<read_by_block>());
  rows.push_back(name_of<read_by_thread>());
  for (const double distinct : swept) rows.push_back({name_of<read_global>(), distinct});
  return rows;
}
unsigned distinct_of(const Ref& ref) { return std::isnan(ref.at) ? 1 : unsigned(ref.at); }

/// What the threads of a grid leave, in constant and in global memory.
struct Reads {
  Grid grid;
  constants::Found<unsigned> sums;
  DeviceBuffer<unsigned> in{table_content()};

  explicit Reads(Grid grid) : grid(grid), sums(grid.all()) {
    if (device_memory::Pretence::stands()) return;
    const std::vector<unsigned> content = table_content();
    CUDA_CHECK(cudaMemcpyToSymbol(table, content.data(), content.size() * sizeof(unsigned)));
  }
  size_t wrong(const Way& way, const Launch& l) {
    std::vector<unsigned> by_first, right;
    for (unsigned first = 0; first < words; ++first) by_first.push_back(sum_from(first, l.turns));
    for (unsigned t = 0; t < grid.all(); ++t)
      right.push_back(by_first[way.first(l, t / grid.threads, t % grid.threads)]);
    return sums.wrong(right);
  }
};

Task task_of(const Ref& ref, const Shared<Reads>& reads, unsigned turns) {
  const Way& way = *with_key(ways, ref);
  const Launch l{reads->grid, distinct_of(ref), turns};
  return {text(ref),
          [reads, &way, l] { way.launch(l, reads->sums.out.data(), reads->in.data()); },
          {[reads] { reads->sums.out.poison(); }, [reads, &way, l] { return reads->wrong(way, l); },
           ""}};
}

// ---- prediction ----

/// Requests for a load of a warp: one for each different word of constant memory; one in all where
/// the words lie in one line.
unsigned requests(const Ref& ref) {
  const Way& way = *with_key(ways, ref);
  if (!way.in_constant) return 1;
  const Launch l{{1, 32}, distinct_of(ref), 1};
  bool wanted[words] = {};
  for (unsigned lane = 0; lane < 32; ++lane) wanted[way.first(l, 0, lane)] = true;
  return unsigned(std::count(wanted, wanted + words, true));
}

/// Transactions for one word that all 16 threads of a half-warp load from global memory. On compute
/// capability 1.0 and 1.1, which the text's count fits, each thread had its own.
constexpr unsigned global_transactions_then = 16, global_transactions_today = 1;

/// Lines of constant memory in which the text's 16 words lie: whatever thread of a block asks
/// first, the others find them there.
constexpr unsigned lines_of_text = (4 * text_words + 63) / 64;

// ---- the experiment ----

/// One word: each request of that memory takes as long. (A row of its own for each memory.)
Ref one_word(const Ref& ref) {
  const bool in_constant = with_key(ways, ref)->in_constant;
  return {in_constant ? name_of<read_by_lane>() : name_of<read_global>(), 1};
}

void measure_words(const Run& run) {
  const auto to_one_word = [&run](const Row& row, const Statistics& ms) {
    const double one = (*run.results)(one_word(row.ref)).time.ms.median;
    return factor_text(ms.median / one);
  };
  Sheet sheet(run, "memory, different words per warp",
              {number(predicted("requests", "requests", "requests", 0),
                      [](const Row& row) { return double(requests(row.ref)); }),
               milliseconds(4),
               spread(),
               {shown("to one word"), {}, {}, to_one_word}},
              "different words per warp");
  for (const Ref& ref : all_rows()) {
    const Way& way = *with_key(ways, ref);
    const std::string at = at_text(ref);
    sheet.add({.ref = ref,
               .words = way.words + (at.empty() ? at : ", " + at),
               .calibrates = same(ref, one_word(ref))});
  }
  const unsigned turns = run.quick ? 64 : 256;
  SharedByTasks reads([&run] {
    // four blocks of 256 threads on each multiprocessor: enough warps for one always to be due
    return Reads({unsigned(run.device->prop.multiProcessorCount) * 4, 256});
  });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return task_of(row.ref, reads(), turns); });
  sheet.predict([&](const Row& row) { return requests(row.ref) * sheet.ms(one_word(row.ref)); });
  sheet.print({"predicted: requests times one word's time, from each memory"});
}

void run_constant(const Run& run) {
  run.report.begin("constant", "constant memory: " + std::to_string(loads * words) + " words, " +
                                   bytes_text(4.0 * loads * words) + "; walks; literals");
  measure_words(run);
  constants::run_misses(run);
  constants::run_literals(run);
  constants::run_coefficients(run);
  run.report.note(
      "a file holds 64 KiB of constants; of a byte more nvcc says "
      "\"File uses too much global constant data\"");
}

// ---- claims ----

std::vector<Claim> claims(const Run&) {
  const auto constant = [](double distinct) { return Ref(name_of<read_by_lane>(), distinct); };
  Claim serialised{
      .part = {"01.6a", "a uniform constant read is one request, different words serialise",
               "each access will be serialised", "lectures"},
      .rule = about(1)};
  for (const double distinct : swept)
    if (distinct > 1)
      serialised.pairs.push_back(
          {.slow = constant(distinct), .fast = constant(1), .works = 1 / distinct, .per = "word"});
  const std::vector<Claim> misses = constants::claims_of_misses();  // 01.6b, 01.6c, 01.11d
  std::vector<Claim> all{serialised, misses[0], misses[1]};
  all.push_back(
      {.part = {"01.6d", "uniform constant reads make 1/16 of the traffic of global loads", "1/16",
                "lectures"},
       .fact = global_transactions_today >= global_transactions_then ? Fact::so : Fact::not_so,
       .here = "a uniform load is one request of one sector from global memory too, "
               "computed"});
  all.push_back(constants::claim_of_literals());
  // neither index is known to the compiler, so that neither read can leave the loop
  all.push_back(
      {.part = {"01.11a", "a uniform read of a constant costs no more than a load that hits L1", "",
                "wiki"},
       .rule = gains_nothing(),
       .pairs = {{.slow = constant(1), .fast = {name_of<read_global>(), 1}},
                 {.slow = "indexed_constant", .fast = "indexed_global"}},
       .found = {{.slow = "fixed_global", .fast = "fixed_constant"},
                 {.slow = "kept_global", .fast = "fixed_constant"}}});
  all.push_back({.part = {"01.11b",
                          "my_const[blockIdx.x % 16] is the best possible use, an index by thread "
                          "a bad one",
                          "16 requests against one", "lectures"},
                 .rule = beats(16),
                 .pairs = {{.slow = name_of<read_by_thread>(), .fast = name_of<read_by_block>()}}});
  all.push_back({.part = {"01.11c",
                          "by thread, the block's other threads will likely miss the cache",
                          "likely cache misses",
                          "lectures",
                          {},
                          true},
                 .fact = lines_of_text > 1 ? Fact::so : Fact::not_so,
                 .here = "16 words are 64 bytes: whoever comes first brings them all, computed"});
  all.push_back(misses[2]);
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  return {.allocated = double(run.device->l2_bytes()) * 2 + (1 << 20) * 16.0};
}

std::vector<Checked> tasks(size_t n) {
  const Shared reads(Reads({unsigned(n % 1009 + 1), unsigned(n % 256 + 1)}));
  std::vector<Ref> rows = all_rows();
  for (const double distinct : {3, 31}) {
    rows.push_back({name_of<read_by_lane>(), distinct});
    rows.push_back({name_of<read_global>(), distinct});
  }
  std::vector<Checked> all;
  for (const Ref& ref : rows)
    all.push_back({.task = task_of(ref, reads, 37),
                   .elements = reads->grid.all(),
                   .change_one = [reads] { reads->sums.out.change(0); }});
  constants::add_tasks_of_misses(all);
  constants::add_tasks_of_literals(all, n);
  constants::add_tasks_of_coefficients(all, n);
  return all;
}

}  // namespace

extern const Experiment constant_experiment{
    .name = "constant",
    .about = "broadcast and serialised constant reads, hits and misses",
    .run = run_constant,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
