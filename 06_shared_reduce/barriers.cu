// barriers: "Access to shared memory must be synchronized using __syncthreads()", says the wiki,
// and that this "may affect performance by forcing the SM to idle frequently" [LC 1]. Both are
// tried: a block that reverses its words with and without the barrier between its stores and its
// loads; and warps that work by themselves, with and without a barrier that nobody needs. Three
// things to look at:
//   - How many words are wrong without a barrier, and in which blocks none is.
//   - What a barrier costs where all warps come at the same time, and where one keeps the others
//     waiting.
//   - What is left of that cost where other blocks fill the multiprocessor.
//
//   cmake -S 06_shared_reduce -B build/barriers -DEXPERIMENTS=barriers
//   cmake --build build/barriers && build/barriers/06_shared_reduce barriers
//
//   1  reverse            words go through shared memory, with a barrier between store and load
//   2  unguarded_reverse  1 without the barrier: a race, on purpose
//   3  meet               warps that do nothing but meet
//   4  apart              warps that work by themselves
//   5  together           4 with a barrier after every round
#include <algorithm>
#include <span>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

constexpr unsigned max_threads = 1024;

// ---- kernels ----

// [reverse]
// Each thread stores its word and takes the one that the thread opposite stored: of another warp,
// if the block has more than one.
__global__ void reverse(unsigned* out, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  word[tid] = in[i];  // store
  __syncthreads();    // all words of the block are there
  out[i] = word[blockDim.x - 1 - tid];
}
// [/reverse]

// [unguarded_reverse]
// A warp loads as soon as it has stored, whether the opposite warp has stored or not. Shared memory
// then still holds what an earlier block has left there.
__global__ void unguarded_reverse(unsigned* out, const unsigned* in) {
  __shared__ unsigned word[max_threads];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x + tid;
  word[tid] = in[i];
  out[i] = word[blockDim.x - 1 - tid];  // a race
}
// [/unguarded_reverse]

constexpr unsigned barriers_a_round = 16;  // so that the loop around them hardly counts

// [meet]
// Warps that do nothing but meet. Each writes down how many cycles that took it. To check that the
// others wait, the last warp spends `late` cycles before its first barrier; `late` is 0 in what is
// timed.
__global__ void meet(long long* cycles, unsigned rounds, long long late) {
  const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const long long start = clock64();
  if (warp == warps - 1)
    while (clock64() - start < late) continue;
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round)
#pragma unroll
    for (unsigned k = 0; k < barriers_a_round; ++k) __syncthreads();
  if (threadIdx.x % 32 == 0) cycles[blockIdx.x * warps + warp] = clock64() - start;
}
// [/meet]

constexpr unsigned factor = 1664525, addend = 1013904223;

// [apart]
// A round has `steps` dependent steps. In each round one warp, the next every time, does `more` of
// them. No thread ever needs another's word.
__global__ void apart(unsigned* out, const unsigned* in, unsigned rounds, unsigned steps,
                      unsigned more) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warps = blockDim.x / 32;
  unsigned long_round = threadIdx.x / 32;
  unsigned x = in[i];
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned count = steps;
    if (round == long_round) {
      count += more;
      long_round += warps;
    }
#pragma unroll 1
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
  }
  out[i] = x;
}
// [/apart]

// [together]
// The same work. At the end of a round every warp waits for the last.
__global__ void together(unsigned* out, const unsigned* in, unsigned rounds, unsigned steps,
                         unsigned more) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warps = blockDim.x / 32;
  unsigned long_round = threadIdx.x / 32;
  unsigned x = in[i];
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
    unsigned count = steps;
    if (round == long_round) {
      count += more;
      long_round += warps;
    }
#pragma unroll 1
    for (unsigned step = 0; step < count; ++step) x = x * factor + addend;
    __syncthreads();  // for nothing
  }
  out[i] = x;
}
// [/together]

// ---- what is right ----

/// Word i of an input; `seed` is where it begins in the sequence of all words.
struct WordAt {
  unsigned seed = 0;
  __host__ __device__ unsigned operator()(size_t i) const { return scrambled(i, seed); }
};

/// The thread opposite, of the same block.
__host__ __device__ size_t opposite(size_t i, unsigned threads) {
  const size_t first = i - i % threads;
  return first + threads - 1 - (i - first);
}

/// The word that the thread opposite stored.
struct IsReversed {
  unsigned threads, seed;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == WordAt{seed}(opposite(i, threads));
  }
};

/// Blocks whose words are reversed, each by itself.
struct Reversal {
  unsigned blocks, threads, seed;
  DeviceBuffer<unsigned> in;
  Output<unsigned> out;

  Reversal(unsigned blocks, unsigned threads, unsigned seed)
      : blocks(blocks),
        threads(threads),
        seed(seed),
        in(filled<unsigned>(size_t(blocks) * threads, WordAt{seed})),
        out(in.size()) {}
};

Ref reversed(unsigned threads) { return {"reverse", double(threads)}; }

/// Of kernel 2 any number of words may be wrong.
Task reverse_task(const Shared<Reversal>& words, void (*kernel)(unsigned*, const unsigned*)) {
  const auto launch = [words, kernel] {
    kernel<<<words->blocks, words->threads>>>(words->out.data(), words->in.data());
  };
  return {text(reversed(words->threads)), launch,
          words->out.check(IsReversed{words->threads, words->seed})};
}

constexpr long long lateness = 100'000;  // cycles by which one warp is late when checked

/// That the warp has waited for the late one.
struct HasWaited {
  __device__ bool operator()(size_t, long long cycles) const { return cycles >= lateness; }
};

/// Warps that meet.
struct Meeting {
  unsigned blocks, warps, rounds;
  Output<long long> cycles;
  long long late = 0;  ///< as the next launch has it

  Meeting(unsigned blocks, unsigned warps, unsigned rounds)
      : blocks(blocks), warps(warps), rounds(rounds), cycles(size_t(blocks) * warps) {}
  void launch() const { meet<<<blocks, 32 * warps>>>(cycles.data(), rounds, late); }
};

Ref meeting_of(unsigned warps) { return {"meet", double(warps)}; }

Task meet_task(const Shared<Meeting>& meeting) {
  return {text(meeting_of(meeting->warps)),
          [meeting] { meeting->launch(); },
          {[meeting] {
             meeting->cycles.poison();
             meeting->late = lateness;
           },
           [meeting] {
             meeting->late = 0;
             return meeting->cycles.wrong(HasWaited{});
           },
           ""}};
}

/// x -> factor * x + addend, modulo 2^32.
struct Step {
  unsigned factor, addend;

  __host__ __device__ unsigned of(unsigned x) const { return factor * x + addend; }
  /// This step, then the other.
  Step then(Step next) const { return {next.factor * factor, next.of(addend)}; }
};

/// Many steps are one step, found by doubling: not by making them.
Step steps_of(unsigned count) {
  Step all{1, 0};
  for (Step some{factor, addend}; count; count /= 2, some = some.then(some))
    if (count % 2) all = all.then(some);
  return all;
}

/// What warps do: `rounds` rounds of `steps` steps, and `more` in the long round.
struct Shape {
  bool barrier;
  unsigned warps;   ///< of a block
  unsigned blocks;  ///< on each multiprocessor
  unsigned rounds, steps, more = 0;

  /// Steps that a warp of each block makes: its rounds, and those that are long for it.
  unsigned steps_of_warp(unsigned warp) const {
    return rounds * steps + (rounds + warps - 1 - warp) / warps * more;
  }
};

/// What a thread must find, whose warp has made all its steps.
struct HasWorked {
  unsigned warps;
  Step of_warp[max_threads / 32];

  __device__ bool operator()(size_t i, unsigned found) const {
    return found == of_warp[i / 32 % warps].of(WordAt{}(i));
  }
};

struct Work {
  Shape shape;
  unsigned blocks;
  DeviceBuffer<unsigned> in;
  Output<unsigned> out;
  HasWorked right;

  Work(const Shape& shape, unsigned multiprocessors)
      : shape(shape),
        blocks(shape.blocks * multiprocessors),
        in(filled<unsigned>(size_t(blocks) * 32 * shape.warps, WordAt{})),
        out(in.size()),
        right{shape.warps, {}} {
    for (unsigned warp = 0; warp < shape.warps; ++warp)
      right.of_warp[warp] = steps_of(shape.steps_of_warp(warp));
  }
};

struct Kernel {
  std::string_view key;  ///< its name, with which a row's key begins
  void (*kernel)(unsigned*, const unsigned*, unsigned, unsigned, unsigned);
};
template <auto kernel>
Kernel named() {
  return {name_of<kernel>(), kernel};
}
const Kernel kernels[] = {named<apart>(), named<together>()};

Task work_task(const Shared<Work>& work, const Ref& row) {
  const auto kernel = with_key(kernels, row.key.substr(0, row.key.find('_')))->kernel;
  const auto launch = [work, kernel] {
    const Shape& s = work->shape;
    kernel<<<work->blocks, 32 * s.warps>>>(work->out.data(), work->in.data(), s.rounds, s.steps,
                                           s.more);
  };
  return {text(row), launch, work->out.check(work->right)};
}

// ---- the rows of warps that work ----

constexpr unsigned warp_counts[] = {1, 2, 4, 8, 16, 32};
constexpr unsigned text_block = 8;                            // warps: the texts' 256 threads
constexpr unsigned lengths[] = {4, 8, 16, 32, 64, 128, 256};  // of a round, in steps
constexpr unsigned short_round = 8;               // steps: about as long as one of a reduction
constexpr unsigned more_steps = 3 * short_round;  // the long round has four times the work

/// What the warps do. One block on each multiprocessor, of as many warps as `at` says; or blocks of
/// so many threads that fill one in `share` of its places, with rounds of as many steps.
struct Kind {
  std::string_view key = {};
  const char* words = "";
  bool uneven = false;  ///< one warp has more to do
  unsigned threads = 0, share = 0;

  bool lone() const { return share == 0; }
};
constexpr Kind kinds[] = {
    {.key = "even", .words = "even"},
    {.key = "uneven", .words = "one has four times the work", .uneven = true},
    {.key = "full_256", .words = "full of blocks of 256", .threads = 256, .share = 1},
    {.key = "full_1024", .words = "full of blocks of 1024", .threads = 1024, .share = 1},
    {.key = "quarter", .words = "a quarter full of blocks of 256", .threads = 256, .share = 4}};

/// "together_even at 8".
Ref row_of(bool barrier, std::string_view kind, double at) {
  return {(barrier ? "together_" : "apart_") + std::string(kind), at};
}
bool has_barrier(const Ref& row) { return row.key.starts_with("together_"); }
const Kind& kind_of(const Ref& row) {
  return *with_key(kinds, row.key.substr(row.key.find('_') + 1));
}

/// A multiple of 32 short rounds, so that each warp has as many long ones. Longer rounds: the same
/// number of steps in all.
Shape shape_of(const Run& run, const Ref& row) {
  const Kind& kind = kind_of(row);
  const unsigned at = unsigned(row.at), rounds = run.quick ? 512 : 2048;
  if (kind.lone())
    return {has_barrier(row), at, 1, rounds, short_round, kind.uneven ? more_steps : 0};
  const unsigned room = run.device ? unsigned(run.device->prop.maxThreadsPerMultiProcessor) : 0;
  const unsigned blocks = std::max(room / kind.threads / kind.share, 1u);
  return {has_barrier(row), kind.threads / 32, blocks, rounds * short_round / at, at};
}

/// Why its blocks do not fill this GPU's multiprocessors; empty: they do.
std::string missing(const Kind& kind, const Device* device) {
  if (kind.lone() || !device) return "";
  if (unsigned(device->prop.maxThreadsPerMultiProcessor) % kind.threads == 0) return "";
  return "blocks of " + std::to_string(kind.threads) + " do not fill a multiprocessor here";
}

// ---- prediction ----

/// A barrier's nanoseconds: those of a lone warp's, and as much again for each other warp, whose
/// arrivals are taken one by one. Both from the smallest and the largest block.
struct BarrierCost {
  double of_one = NAN, of_32 = NAN;

  double arrival() const { return (of_32 - of_one) / 31; }
  double ns(unsigned warps) const { return of_one + arrival() * (warps - 1); }
};

/// Nanoseconds of a round. `apart_ns`: a round of as much even work without barriers, which is
/// measured. Of a lone block all warps wait for the long round of one, else it is its share of the
/// time. Where there are other blocks they work while one waits: the multiprocessor idles only if
/// the arrivals of all its warps take longer than their work.
double predicted_ns(const Shape& s, double apart_ns, const BarrierCost& cost) {
  if (s.blocks > 1)
    return std::max(apart_ns, s.barrier ? cost.arrival() * s.warps * s.blocks : 0.0);
  double ns = apart_ns;
  if (s.more) ns += apart_ns * s.more / s.steps / (s.barrier ? 1 : s.warps);
  return s.barrier ? ns + cost.ns(s.warps) : ns;
}

/// The models of one block were found on compute capability 9.0, and a test holds rows to them
/// there.
Model model_of(const Device* device, Model found) {
  return device && device->prop.major == 9 ? found : Model::host;
}

// ---- the experiment ----

const char* const wrong_with = "wrong words with a barrier";
const char* const wrong_without = "wrong words without";
const char* const own_cycles = "cycles a barrier";

void count_wrong_words(const Run& run) {
  constexpr unsigned n = 1 << 20;
  Table table(run.report, "a block's threads",
              {counted("wrong with a barrier", wrong_with, "words", 0),
               counted("without", wrong_without, "words", 0), shown("of all")});
  for (const unsigned warps : warp_counts) {
    const unsigned threads = 32 * warps;
    const Ref row = reversed(threads);
    const auto wrong = [&](void (*kernel)(unsigned*, const unsigned*), unsigned which) {
      // words that no other launch has: see kernel 2
      return wrong_after(reverse_task(Shared{Reversal(n / threads, threads, which * n)}, kernel));
    };
    const Statistics with = ask_for_table(run, row, wrong_with, "words", [&] {
      require_right(wrong(reverse, 2 * warps) == 0, text(row));
      return single(0);
    });
    const Statistics without = ask_for_table(run, row, wrong_without, "words", [&] {
      return single(double(wrong(unguarded_reverse, 2 * warps + 1)));
    });
    table.row({row.key, "threads", at_text(row), at_text(row)},
              {with.median, without.median, percent(without.median / n)});
  }
  table.print();
  run.report.note("reversing " + std::to_string(n) + " words; without a barrier it is a race");
}

unsigned multiprocessors_of(const Run& run) {
  return run.device ? unsigned(run.device->prop.multiProcessorCount) : 0;
}

BarrierCost measure_meetings(const Run& run) {
  const unsigned rounds = run.quick ? 256 : 1024;
  const auto ns_of = [rounds](const Row&, double ms) {
    return ms * 1e6 / rounds / barriers_a_round;
  };
  Sheet sheet(run, "warps that meet",
              {in_unit(compared("ns a barrier", "a barrier", "ns", 2), ns_of), spread(),
               number(measured("cycles", own_cycles, "cycles", 1),
                      [&run](const Row& row) {
                        return run.results->value(row.ref, own_cycles).value.median;
                      })},
              "warps");
  for (const unsigned warps : warp_counts)
    sheet.add({.ref = meeting_of(warps),
               .calibrates = warps == 1 || warps == 32,
               .model = model_of(run.device, Model::latency)});
  sheet.measure(Timing::alone, [&](const Row& row) {
    return meet_task(Shared{Meeting(multiprocessors_of(run), unsigned(row.ref.at), rounds)});
  });
  for (const unsigned warps : warp_counts)
    ask_for_table(run, meeting_of(warps), own_cycles, "cycles", [&] {
      const Meeting meeting(multiprocessors_of(run), warps, rounds);
      for (int launch = 0; launch < 2; ++launch) meeting.launch();  // the second is counted
      CUDA_CHECK_LAUNCH();
      return single(double(meeting.cycles.to_host()[0]) / rounds / barriers_a_round);
    });
  const Row any;
  const BarrierCost cost{ns_of(any, sheet.ms(meeting_of(1))), ns_of(any, sheet.ms(meeting_of(32)))};
  sheet.predict([&](const Row& row) {
    return cost.ns(unsigned(row.ref.at)) * rounds * barriers_a_round * 1e-6;
  });
  sheet.print();
  return cost;
}

/// All rows in turn: one block on each multiprocessor, or several.
void measure_work(const Run& run, bool lone, const char* heading, const BarrierCost& cost) {
  const auto ns_of = [&](const Row& row, double ms) {
    return ms * 1e6 / shape_of(run, row.ref).rounds;
  };
  Sheet sheet(run, heading,
              {in_unit(compared("ns a round", "a round", "ns", 1), ns_of),
               spread(),
               {shown("of apart"),
                {},
                {},
                [&sheet](const Row& row, const Statistics& ms) {
                  const Ref apart = row_of(false, kind_of(row.ref).key, row.ref.at);
                  return has_barrier(row.ref) ? factor_text(ms.median / sheet.ms(apart)) : "-";
                }}},
              lone ? "warps" : "steps");
  for (const Kind& kind : kinds)
    for (const unsigned at : lone ? std::span<const unsigned>(warp_counts) : lengths)
      for (const bool barrier : {false, true})
        if (kind.lone() == lone && (!kind.uneven || at == text_block))
          sheet.add({.ref = row_of(barrier, kind.key, at),
                     .words = std::to_string(at) + ", " + kind.words +
                              (barrier ? ", together" : ", apart"),
                     .calibrates = lone && !barrier && !kind.uneven,
                     .model = lone ? model_of(run.device, Model::traffic) : Model::host,
                     .missing = missing(kind, run.device),
                     .printed = lone || barrier});
  sheet.measure(Timing::in_turn, [&](const Row& row) {
    return work_task(Shared{Work(shape_of(run, row.ref), multiprocessors_of(run))}, row.ref);
  });
  sheet.predict([&](const Row& row) {
    if (!lone && !has_barrier(row.ref)) return double(NAN);  // measured, for those with barriers
    const Ref apart = row_of(false, lone ? "even" : kind_of(row.ref).key, row.ref.at);
    const Shape shape = shape_of(run, row.ref);
    return predicted_ns(shape, ns_of(row, sheet.ms(apart)), cost) * shape.rounds * 1e-6;
  });
  sheet.print();
}

void run_barriers(const Run& run) {
  run.report.begin("barriers",
                   "blocks of up to 1024 threads; a step is a multiplication and an addition");
  count_wrong_words(run);
  const BarrierCost cost = measure_meetings(run);
  measure_work(run, true, "warps of a block, its rounds of 8 steps", cost);
  measure_work(run, false, "steps of a round, multiprocessors", cost);
}

// ---- what it declares ----

std::vector<Claim> claims(const Run&) {
  Claim idle{.part = {"06.5", "barriers that nobody needs slow a full multiprocessor down",
                      "no figure", "wiki"},
             .rule = beats()};
  const auto with_and_without = [](const Kind& kind, unsigned at) {
    return Comparison{.slow = row_of(true, kind.key, at), .fast = row_of(false, kind.key, at)};
  };
  for (const Kind& kind : kinds) {
    if (kind.lone()) idle.found.push_back(with_and_without(kind, text_block));
    if (kind.share != 1) continue;
    for (const unsigned steps : lengths) idle.pairs.push_back(with_and_without(kind, steps));
  }
  return {idle};
}

/// Words in and out of all threads that are resident, for each row that is measured in turn.
Needs needs(const Run& run) {
  const cudaDeviceProp& prop = run.device->prop;
  const double threads = double(prop.multiProcessorCount) * prop.maxThreadsPerMultiProcessor;
  return {.allocated = 8 * threads * double(std::size(kinds) * std::size(lengths))};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all;
  for (const unsigned threads : {1, 32, 33, 97, 256, 1000, 1024}) {
    const Shared words{Reversal(unsigned(n % 1009) + 1, threads, threads)};
    all.push_back({.task = reverse_task(words, reverse),
                   .elements = words->out.size(),
                   .change_one = [words] { words->out.change(0); }});
  }
  const unsigned blocks = unsigned(n % 7) + 1;
  for (const unsigned warps : {1, 3, 8, 32}) {
    const Shared meeting{Meeting(blocks, warps, 3)};
    all.push_back(
        {.task = meet_task(meeting), .elements = meeting->cycles.size(), .change_one = [meeting] {
           std::vector<long long> cycles = meeting->cycles.to_host();
           cycles[0] = lateness - 1;  // a warp that did not wait
           meeting->cycles.copy_from(cycles);
         }});
    for (const bool barrier : {false, true})
      for (const unsigned rounds : {0, 1, 7, 64}) {
        const Shared work{Work({barrier, warps, blocks, rounds, short_round, more_steps}, 1)};
        all.push_back({.task = work_task(work, row_of(barrier, "uneven", warps)),
                       .elements = work->out.size(),
                       .change_one = [work] { work->out.change(0); }});
      }
  }
  return all;
}

}  // namespace

extern const Experiment barriers_experiment{
    .name = "barriers",
    .about = "words that go wrong without one, and how long warps wait at one",
    .run = run_barriers,
    .claims = claims,
    .needs = needs,
    .tasks = tasks};
