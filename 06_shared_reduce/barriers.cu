// barriers: "Access to shared memory must be synchronized using __syncthreads()", says the wiki,
// and that this "may affect performance by forcing the SM to idle frequently" [LC 1]. Both are
// tried: a block that reverses its words with and without the barrier between its stores and its
// loads; and warps that work by themselves, with and without a barrier that nobody needs. Look at
// how many words are wrong, in which blocks none is; and at what a barrier costs where all warps
// come at the same time, and where one of them keeps the others waiting.
//   cmake -S 06_shared_reduce -B build/barriers -DEXPERIMENTS=barriers
//   cmake --build build/barriers && build/barriers/06_shared_reduce
//
//   1  reverse            words go through shared memory, with a barrier between store and load
//   2  unguarded_reverse  1 without the barrier: a race, on purpose
//   3  meet               warps that do nothing but meet
//   4  apart              warps that work by themselves
//   5  together           4 with a barrier after every round
#include <algorithm>

#include "../common/report.hpp"

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

constexpr size_t canaries = 64;  // elements behind each output

/// Word i of the input with number `seed`, without pattern.
unsigned word_at(unsigned i, unsigned seed) {
  unsigned x = i * 0x9e3779b1u + seed * 0x85ebca6bu + 1;
  x = (x ^ x >> 16) * 0xc2b2ae35u;
  return x ^ x >> 15;
}

std::vector<unsigned> words(unsigned n, unsigned seed) {
  std::vector<unsigned> all;
  for (unsigned i = 0; i < n; ++i) all.push_back(word_at(i, seed));
  return all;
}

/// Elements that differ from what is right, and canaries behind them that are gone.
size_t differing(const std::vector<unsigned>& found, const std::vector<unsigned>& right) {
  size_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i)
    wrong += found[i] != (i < right.size() ? right[i] : ~0u);
  return wrong;
}

/// Blocks whose words are reversed, each by itself.
struct Reversal {
  unsigned blocks, threads, seed;

  std::vector<unsigned> right() const {
    std::vector<unsigned> all = words(blocks * threads, seed);
    for (unsigned block = 0; block < blocks; ++block)
      std::reverse(all.begin() + block * threads, all.begin() + (block + 1) * threads);
    return all;
  }
  /// Words that come out wrong; of kernel 2 there may be any number.
  size_t wrong_words(void (*kernel)(unsigned*, const unsigned*)) const {
    const DeviceBuffer<unsigned> in(words(blocks * threads, seed));
    DeviceBuffer<unsigned> out(in.size() + canaries);
    out.poison();
    kernel<<<blocks, threads>>>(out.data(), in.data());
    CUDA_CHECK_LAUNCH();
    return differing(out.to_host(), right());
  }
};

/// Warps that meet, in one block on each multiprocessor.
struct Meeting {
  static constexpr long long lateness = 100'000;  ///< cycles by which one warp is late when checked

  unsigned blocks, warps, rounds;
  long long late = 0;  ///< as the next launch has it
  DeviceBuffer<long long> cycles{size_t(blocks) * warps + canaries};

  Meeting(unsigned blocks, unsigned warps, unsigned rounds)
      : blocks(blocks), warps(warps), rounds(rounds) {}
  double barriers() const { return double(rounds) * barriers_a_round; }
  /// Warps that did not wait for the late one, or wrote where nobody should.
  size_t wrong() const {
    const std::vector<long long> found = cycles.to_host();
    size_t wrong = 0;
    for (size_t w = 0; w < found.size(); ++w)
      wrong += w < size_t(blocks) * warps ? found[w] < lateness : found[w] != -1;
    return wrong;
  }
  Task task() {
    Check check;
    check.poison = [this] {
      cycles.poison();
      late = lateness;
    };
    check.wrong = [this] {
      late = 0;
      return wrong();
    };
    return {"meet, " + std::to_string(warps) + " warps",
            [this] { meet<<<blocks, 32 * warps>>>(cycles.data(), rounds, late); },
            std::move(check)};
  }
};

/// x -> factor * x + addend, modulo 2^32.
struct Step {
  unsigned factor, addend;

  unsigned of(unsigned x) const { return factor * x + addend; }
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

constexpr unsigned steps_a_round = 8;               // about as long as a step of a reduction
constexpr unsigned more_steps = 3 * steps_a_round;  // the long round has four times the work

/// Warps that work, in one block on each multiprocessor.
struct Work {
  bool barrier;
  unsigned blocks, warps, rounds, more;
  DeviceBuffer<unsigned> in, out;

  Work(bool barrier, unsigned blocks, unsigned warps, unsigned rounds, unsigned more)
      : barrier(barrier), blocks(blocks), warps(warps), rounds(rounds), more(more) {
    in = DeviceBuffer<unsigned>(words(blocks * 32 * warps, 1));
    out = DeviceBuffer<unsigned>(in.size() + canaries);
  }
  /// Steps that a warp of each block makes: its rounds, and those that are long for it.
  unsigned steps(unsigned warp) const {
    return rounds * steps_a_round + (rounds + warps - 1 - warp) / warps * more;
  }
  std::vector<unsigned> right() const {
    std::vector<Step> of_warp;
    for (unsigned warp = 0; warp < warps; ++warp) of_warp.push_back(steps_of(steps(warp)));
    std::vector<unsigned> all = words(blocks * 32 * warps, 1);
    for (size_t i = 0; i < all.size(); ++i) all[i] = of_warp[i / 32 % warps].of(all[i]);
    return all;
  }
  Task task() {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this] { return differing(out.to_host(), right()); };
    return {(barrier ? "together, " : "apart, ") + std::to_string(warps) + " warps",
            [this] {
              (barrier ? together : apart)<<<blocks, 32 * warps>>>(out.data(), in.data(), rounds,
                                                                   steps_a_round, more);
            },
            std::move(check)};
  }
};

// ---- what to expect ----

constexpr unsigned warp_counts[] = {1, 2, 4, 8, 16, 32};
constexpr size_t text_block = 3;  // index of 8 warps: the texts' block of 256 threads

/// Each part of `count` that was done in so many milliseconds; nanoseconds.
Statistics ns_each(const Readings& ms, double count) {
  return scaled(ms.statistics(), 1e6 / count);
}

/// A barrier's nanoseconds: those of a lone warp's, and as much again for each other warp, whose
/// arrivals are taken one by one. Both from the smallest and the largest block.
struct BarrierCost {
  double of_one = NAN, of_32 = NAN;

  double ns(unsigned warps) const { return of_one + (of_32 - of_one) / 31 * (warps - 1); }
};

/// Nanoseconds of a round of one kind of work by so many warps.
struct Round {
  unsigned warps;
  bool barrier, uneven;
};

/// `alone_ns`: a round of as many warps with even work and no barrier, which is measured. The long
/// round of one warp is a long one for all if they wait for it; else it is its share of the time.
double predicted_ns(const Round& round, double alone_ns, const BarrierCost& cost) {
  double ns = alone_ns;
  if (round.uneven) ns += alone_ns * more_steps / steps_a_round / (round.barrier ? 1 : round.warps);
  return round.barrier ? ns + cost.ns(round.warps) : ns;
}

// ---- the experiment ----

void count_wrong_words(const Run& run) {
  constexpr unsigned n = 1 << 20;
  Table table(run.report, "a block's threads",
              {counted("wrong with a barrier", "wrong words with a barrier", "words", 0),
               counted("without", "wrong words without", "words", 0), shown("of all")});
  for (const unsigned warps : warp_counts) {
    const unsigned threads = 32 * warps;
    const size_t with = Reversal{n / threads, threads, 2 * warps}.wrong_words(reverse);
    require_right(with == 0, "reverse, " + std::to_string(threads) + " threads");
    const Reversal other{n / threads, threads, 2 * warps + 1};  // other words: see kernel 2
    const double without = double(other.wrong_words(unguarded_reverse));
    table.row({"", "threads", std::to_string(threads)},
              {double(with), without, percent(without / n)});
  }
  table.print();
  run.report.note("reversing " + std::to_string(n) + " words; without a barrier it is a race");
}

/// Both models were found on compute capability 9.0, and a test holds rows to them there.
Model model_of(const Device* device, Model found) {
  return device && device->prop.major == 9 ? found : Model::host;
}

BarrierCost measure_meetings(const Run& run, unsigned multiprocessors) {
  Table table(run.report, "warps that meet",
              {compared("ns a barrier", "a barrier", "ns", 2), shown("spread"),
               measured("cycles", "cycles a barrier", "cycles", 1)});
  std::vector<Statistics> ns;
  std::vector<double> cycles;
  for (const unsigned warps : warp_counts) {
    Meeting meeting(multiprocessors, warps, run.quick ? 256 : 1024);
    ns.push_back(ns_each(run.time(meeting.task()), meeting.barriers()));
    cycles.push_back(double(meeting.cycles.to_host()[0]) / meeting.barriers());
  }
  const BarrierCost cost{ns.front().median, ns.back().median};
  for (size_t i = 0; i < ns.size(); ++i) {
    const unsigned warps = warp_counts[i];
    const Cell time =
        warps == 1 || warps == 32
            ? Cell(Calibration{ns[i]})
            : Cell(Compared{cost.ns(warps), ns[i], model_of(run.device, Model::latency)});
    table.row({"", "warps", std::to_string(warps)}, {time, spread_text(ns[i]), cycles[i]});
  }
  table.print();
  return cost;
}

/// Readings of the same work with and without barriers, in turn.
struct Pair {
  Round with;
  Readings apart, together;

  Interval slowdown() const { return ratio(together, apart); }
};

std::vector<Pair> measure_rounds(const Run& run, unsigned multiprocessors, unsigned rounds) {
  std::vector<Pair> pairs;
  for (const unsigned warps : warp_counts) pairs.push_back({{warps, true, false}, {}, {}});
  pairs.push_back({{warp_counts[text_block], true, true}, {}, {}});

  std::vector<Work> work;
  std::vector<Task> tasks;
  work.reserve(2 * pairs.size());  // tasks keep their addresses
  for (const Pair& pair : pairs)
    for (const bool barrier : {false, true}) {
      const unsigned more = pair.with.uneven ? more_steps : 0;
      work.emplace_back(barrier, multiprocessors, pair.with.warps, rounds, more);
      tasks.push_back(work.back().task());
    }
  const std::vector<Readings> times = run.time_in_turn(tasks);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].apart = times[2 * i];
    pairs[i].together = times[2 * i + 1];
  }
  return pairs;
}

void show(const Run& run, const std::vector<Pair>& pairs, const BarrierCost& cost,
          unsigned rounds) {
  Table table(run.report, "work, warps",
              {compared("ns a round", "a round", "ns", 1), shown("spread"), shown("slower")});
  const double alone_8 = ns_each(pairs[text_block].apart, rounds).median;
  const Model model = model_of(run.device, Model::traffic);
  for (const Pair& pair : pairs) {
    const std::string name = pair.with.uneven ? "one has four times the work" : "even";
    const Statistics apart_ns = ns_each(pair.apart, rounds);
    const double alone = pair.with.uneven ? alone_8 : apart_ns.median;
    const Round without{pair.with.warps, false, pair.with.uneven};
    const Cell time = pair.with.uneven
                          ? Cell(Compared{predicted_ns(without, alone, cost), apart_ns, model})
                          : Cell(Calibration{apart_ns});
    const std::string warps = std::to_string(pair.with.warps);
    table.row({name + ", apart", "warps", warps}, {time, spread_text(apart_ns), "-"});
    const Statistics ns = ns_each(pair.together, rounds);
    table.row({name + ", together", "warps", warps},
              {Compared{predicted_ns(pair.with, alone, cost), ns, model}, spread_text(ns),
               factor_text(pair.slowdown().value)});
  }
  table.print();
  run.report.note("a round has " + std::to_string(steps_a_round) +
                  " steps, each a multiplication and an addition");
}

/// `pairs` in the order of measure_rounds; none where there is no GPU.
void judge_waiting(const Run& run, const std::vector<Pair>& pairs) {
  const Part part{"06.5", "barriers make the warps of a block wait, though all have the same work",
                  "no figure", "wiki"};
  if (pairs.empty()) return run.report.judge(part, beats(), {}, "");
  const Interval slowdown = pairs[text_block].slowdown();
  run.report.judge(part, beats(), slowdown,
                   slower(slowdown) + " with 8 warps and a round of " +
                       std::to_string(steps_a_round) + " steps");
  std::string by_warps;
  for (size_t i = 0; i < std::size(warp_counts); ++i)
    by_warps += (i ? ", " : "") + factor_text(pairs[i].slowdown().value);
  run.report.finding("06.5", by_warps + " with 1, 2, 4, 8, 16, 32 warps");
  run.report.finding("06.5", "with 8 warps, one of which has four times the work: " +
                                 slower(pairs.back().slowdown()));
}

}  // namespace

void barriers(const Run& run) {
  run.report.begin("barriers", "a block on each multiprocessor, of up to 1024 threads");
  if (!run.device) {
    run.report.left_out("wrong words without a barrier, and what barriers cost");
    return judge_waiting(run, {});
  }
  const unsigned multiprocessors = unsigned(run.device->prop.multiProcessorCount);
  count_wrong_words(run);
  const BarrierCost cost = measure_meetings(run, multiprocessors);
  const unsigned rounds =
      run.quick ? 512 : 2048;  // a multiple of 32: each warp has as many long ones
  const std::vector<Pair> pairs = measure_rounds(run, multiprocessors, rounds);
  show(run, pairs, cost, rounds);
  judge_waiting(run, pairs);
}
