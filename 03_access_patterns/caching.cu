// caching: the same loads through L1 and past it. The wiki has lines of 128 bytes through L1 and
// segments of 32 past it, so that scattered loads had better go past; and says that from Pascal on
// the unit is 32 bytes either way [LC 3]. Look at how little the way matters; then at one thread's
// walk: a load through L1 brings its own sector of 32 bytes, and the next word of that sector is a
// hit; but the neighbouring sector of the same line still has to come from L2.
//   cmake -S 03_access_patterns -B build/caching -DEXPERIMENTS=caching
//   cmake --build build/caching && build/caching/03_access_patterns
//
//   1  read_ca      adds up words, by loads through L1 (.ca)
//   2  read_cg      by loads past L1 (.cg)
//   3  read_plain   by loads that leave it to the compiler
//   4  chase_ca     one thread: each word says where the next one stands
//   5  chase_cg
//   6  chase_plain
//   In caching_flag.cu: 3 and 6, compiled with the wiki's flag, -Xptxas -dlcm=cg
#include "caching.cuh"

#include <algorithm>
#include <iterator>

#include "../common/counters.hpp"
#include "../common/gpu_timer.cuh"
#include "../common/report.hpp"
#include "sizes.hpp"
#include "transactions.hpp"
#include "verify.cuh"

// ---- kernels that read n words, `stride` apart, from word `first` on; eight loads of each thread
// are under way at once ----

// [read]
// Through L1. A warp reads 32 words: neighbours (4 sectors of 32 bytes), the same from the middle
// of a sector on (5), or each in a line of its own (32).
__global__ void read_ca(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = __ldca(in + first + (i + k * threads) * stride);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += __ldca(in + first + i * stride);  // what is left
  sums[tid] = sum;
}
// [/read]

// Past L1.
__global__ void read_cg(unsigned* sums, const unsigned* in, size_t n, size_t first, size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = __ldcg(in + first + (i + k * threads) * stride);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += __ldcg(in + first + i * stride);
  sums[tid] = sum;
}

// Nothing said.
__global__ void read_plain(unsigned* sums, const unsigned* in, size_t n, size_t first,
                           size_t stride) {
  const size_t tid = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  size_t i = tid;
  for (; i + 7 * threads < n; i += 8 * threads) {
    unsigned word[8];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) word[k] = in[first + (i + k * threads) * stride];
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += word[k];
  }
  for (; i < n; i += threads) sum += in[first + i * stride];
  sums[tid] = sum;
}

// ---- kernels of one thread: no load begins before the last one has ended ----

// [chase]
// Through L1.
__global__ void chase_ca(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  unsigned at = 0;
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) at = __ldca(next + at);
  *static_cast<volatile unsigned*>(end) = at;  // the last load has ended: the clock is read again
  const long long cycles = clock64() - start;
  *walked = {cycles, timer_ns() - start_ns};
}
// [/chase]

// Past L1.
__global__ void chase_cg(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  unsigned at = 0;
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) at = __ldcg(next + at);
  *static_cast<volatile unsigned*>(end) = at;
  const long long cycles = clock64() - start;
  *walked = {cycles, timer_ns() - start_ns};
}

// Nothing said.
__global__ void chase_plain(Walked* walked, unsigned* end, const unsigned* next, unsigned steps) {
  unsigned at = 0;
  const unsigned long long start_ns = timer_ns();
  const long long start = clock64();
#pragma unroll 1
  for (unsigned step = 0; step < steps; ++step) at = next[at];
  *static_cast<volatile unsigned*>(end) = at;
  const long long cycles = clock64() - start;
  *walked = {cycles, timer_ns() - start_ns};
}

namespace {

// ---- the story in order ----

/// A kind of load.
struct Way {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  LoadKernels kernels;
  Rule old_rule;  ///< of compute capabilities 2.x and 3.x
  bool in_l1;     ///< whether L1 keeps what came, by what is documented from 7.0 on
};

enum { ca, cg, plain, flag };

/// The last one only where the build could set the flag.
std::vector<Way> all_ways() {
  std::vector<Way> ways{{".ca", "read_ca", {read_ca, chase_ca}, Rule::through_l1, true},
                        {".cg", "read_cg", {read_cg, chase_cg}, Rule::past_l1, false},
                        {"plain", "read_plain", {read_plain, chase_plain}, Rule::through_l1, true}};
  const LoadKernels by_flag = kernels_by_flag();
  if (by_flag.read) ways.push_back({"-dlcm=cg", "read_by_flag", by_flag, Rule::past_l1, false});
  return ways;
}

/// Which words are read.
struct Pattern {
  const char* name;
  unsigned first, stride;

  size_t count(size_t words) const { return (words + stride - 1) / stride; }
};
constexpr Pattern patterns[] = {
    {"aligned", 0, 1}, {"misaligned by a word", 1, 1}, {"a word in 128 bytes", 0, 32}};
enum { aligned, misaligned, scattered };

// ---- what is right: reading ----

struct Value {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// Takes each word that has to be read away from the sum of the thread that has to read it: from
/// words to threads, where the kernels go from threads to words. Nothing is left of right sums.
__global__ void take_away(unsigned* sums, size_t readers, size_t words, Pattern p, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += step) {
    if (i < p.first || (i - p.first) % p.stride != 0) continue;
    const size_t element = (i - p.first) / p.stride;
    if (element < n) atomicSub(&sums[element % readers], scrambled(i));
  }
}

struct NothingLeft {
  size_t readers;  ///< sums, behind which canaries stand
  __device__ bool operator()(size_t i, unsigned left) const {
    return left == (i < readers ? 0 : ~0u);
  }
};

constexpr unsigned block_threads = 256;

struct Words {
  static constexpr size_t canaries = 32;

  size_t words;
  unsigned blocks;
  DeviceBuffer<unsigned> in, sums;

  Words(size_t words, const Device& device)
      : words(words),
        blocks(resident_blocks(device.prop, block_threads)),
        in(words + 1),  // one more for the misaligned
        sums(readers() + canaries) {
    fill(in, Value{});
  }
  size_t readers() const { return size_t(blocks) * block_threads; }

  size_t wrong(const Pattern& p) {
    take_away<<<blocks_to_walk(in.size()), 256>>>(sums.data(), readers(), in.size(), p,
                                                  p.count(words));
    CUDA_CHECK_LAUNCH();
    return wrong_words(sums, NothingLeft{readers()});
  }
  Task task(const Way& way, const Pattern& p) {
    Check check;
    check.poison = [this] { sums.poison(); };
    check.wrong = [this, &p] { return wrong(p); };
    const LoadKernels kernels = way.kernels;
    return {std::string(p.name) + ", " + way.name,
            [this, kernels, &p] {
              kernels.read<<<blocks, block_threads>>>(sums.data(), in.data(), p.count(words),
                                                      p.first, p.stride);
            },
            std::move(check)};
  }
};

// ---- what to expect: reading ----

Warp warp_of_pattern(const Pattern& p) {
  return warp_of(4, [&](unsigned lane) { return p.first + lane * p.stride; });
}

/// Bytes that arrive for a request of a warp, on the way where most do: sectors of 32 bytes from L2
/// to L1, or from memory 64 bytes at a time, which neighbouring warps share.
double bytes_a_request(const Pattern& p) {
  const double to_l1 = 32.0 * sectors(warp_of_pattern(p));
  const double from_memory = 32.0 * std::min(4 * p.stride, 64u);
  return std::max(to_l1, from_memory);
}

/// `aligned_ms`: of the whole array, of which every byte that arrives is used.
double predicted_ms(const Pattern& p, double aligned_ms) {
  return aligned_ms * bytes_a_request(p) / bytes_a_request(patterns[aligned]) / p.stride;
}

/// Sectors are documented; that memory is read 64 bytes at a time was found on 9.0 only.
Model model_of(const Pattern& p, const Device& device) {
  return p.stride == 1 || device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- one load after the other ----

constexpr unsigned chased_lines = 256;  // 32 KiB: new to L1 in each launch, in L2 after the first
constexpr unsigned chain_end = 0x5eed;  // what the last word of a chain says

/// Second word of a line that is visited: 0 is none.
struct Second {
  const char* name;
  unsigned word;
};
constexpr Second seconds[] = {{"a new line", 0},
                              {"then the same sector", 1},
                              {"the next sector", 8},
                              {"the last sector", 24}};
enum { new_line, same_sector, next_sector, last_sector };

/// From the first word of each line to its word `second` (0: not), and then to the next line.
std::vector<unsigned> chain(unsigned second) {
  std::vector<unsigned> next(chased_lines * 32, ~0u);
  for (unsigned line = 0; line < chased_lines; ++line) {
    const unsigned first = line * 32;
    const unsigned after = line + 1 < chased_lines ? first + 32 : chain_end;
    next[first] = second ? first + second : after;
    if (second) next[first + second] = after;
  }
  return next;
}

/// What a line of the chain takes, one value a launch.
struct Lines {
  Readings cycles, ns;
};

/// Walks the chain. The first launch brings it into L2 and is not counted; L1 is empty again in
/// each.
Lines walk_lines(const LoadKernels& kernels, unsigned second, int launches) {
  const DeviceBuffer<unsigned> next(chain(second));
  DeviceBuffer<Walked> walked(1);
  DeviceBuffer<unsigned> end(1);
  Lines lines;
  for (int r = -1; r < launches; ++r) {
    end.poison();
    kernels.chase<<<1, 1>>>(walked.data(), end.data(), next.data(),
                            chased_lines * (second ? 2 : 1));
    CUDA_CHECK_LAUNCH();
    require_right(end.to_host()[0] == chain_end, "the end of the chain");
    if (r < 0) continue;
    const Walked found = walked.to_host()[0];
    lines.cycles.ms.push_back(double(found.cycles) / chased_lines);
    lines.ns.ms.push_back(exact_ns(found.ns) / chased_lines);
  }
  return lines;
}

/// What the second load of a line takes: both less the first.
Readings without(Readings both, const Readings& first) {
  for (size_t i = 0; i < both.ms.size(); ++i) both.ms[i] -= first.ms[i];
  return both;
}

/// Cycles of a load that L1 has, and of one that L2 has; measured in the same run.
struct Trips {
  double hit = NAN, l2 = NAN;
};

/// By sectors of 32 bytes: only what lies in the sector that came is near, and only where L1 keeps
/// it.
double predicted_cycles(const Way& way, int second, const Trips& trips) {
  return second == same_sector && way.in_l1 ? trips.hit : trips.l2;
}

/// L1 keeps plain loads from compute capability 7.0 on; the flag can be lost.
Model model_of_walk(int way, const Device& device) {
  const bool known = way == ca || way == cg || (way == plain && device.prop.major >= 7);
  return known ? Model::traffic : Model::host;
}

// ---- the experiment ----

void measure_reading(const Run& run, const std::vector<Way>& ways, size_t words) {
  Table table(
      run.report, "words, load",
      {predicted("bytes/request on 2.x", "bytes a request on 2.x", "B", 0),
       predicted("sectors/request", "load sectors a request", "", 0),
       predicted("bytes that arrive", "bytes that arrive", "B", 0), compared("ms", "time", "ms", 4),
       shown("spread"), measured("GB/s", "bandwidth", "GB/s", 0),
       measured("of .ca", "rate to .ca", "x", 2)});
  std::vector<Readings> times(std::size(patterns) * ways.size());
  if (run.device) {
    Words array(words, *run.device);
    std::vector<Task> tasks;
    for (const Pattern& p : patterns)
      for (const Way& way : ways) tasks.push_back(array.task(way, p));
    times = run.time_in_turn(tasks);
  }
  for (size_t i = 0; i < times.size(); ++i) {
    const Pattern& p = patterns[i / ways.size()];
    const Way& way = ways[i % ways.size()];
    const Statistics ms = times[i].statistics();
    Cell time;
    if (run.device && i > 0)
      time = Compared{predicted_ms(p, times[0].median()), ms, model_of(p, *run.device)};
    else if (run.device)
      time = Calibration{ms};
    const Warp warp = warp_of_pattern(p);
    table.row({std::string(p.name) + ", " + way.name},
              {double(under(way.old_rule, warp).bytes()), double(sectors(warp)), bytes_a_request(p),
               time, spread_text(ms), gigabytes_per_second(4.0 * double(p.count(words)), ms),
               times[i / ways.size() * ways.size()].median() / ms.median});
  }
  table.print();
}

/// Cycles through L1: of a new line, and of a second load of it, for each of `seconds`.
std::vector<Readings> measure_walks(const Run& run, const std::vector<Way>& ways) {
  if (!run.device) return std::vector<Readings>(std::size(seconds));
  std::vector<std::vector<Readings>> cycles, ns;
  for (const Way& way : ways) {
    std::vector<Readings> of_way, of_way_ns;
    Lines first;
    for (const Second& second : seconds) {
      const Lines walked = walk_lines(way.kernels, second.word, run.measuring.repeats);
      if (!second.word) first = walked;
      of_way.push_back(second.word ? without(walked.cycles, first.cycles) : walked.cycles);
      of_way_ns.push_back(second.word ? without(walked.ns, first.ns) : walked.ns);
    }
    cycles.push_back(of_way);
    ns.push_back(of_way_ns);
  }
  const Trips trips{cycles[ca][same_sector].median(), cycles[ca][new_line].median()};
  Table table(run.report, "one thread, load",
              {compared("cycles", "trip", "cycles", 0), shown("spread"),
               measured("ns", "time of a load", "ns", 1)});
  for (int way = 0; way < int(ways.size()); ++way)
    for (int second = 0; second < int(std::size(seconds)); ++second) {
      const Statistics found = cycles[way][second].statistics();
      const bool known = way == ca && (second == new_line || second == same_sector);
      const bool in_l1 = ways[way].in_l1 && second == same_sector;  // it does not leave there
      const Compared compared{predicted_cycles(ways[way], second, trips), found,
                              model_of_walk(way, *run.device)};
      table.row({std::string(ways[way].name) + ", " + seconds[second].name},
                {known ? Cell(Calibration{found}) : compared, spread_text(found),
                 in_l1 ? Cell() : Cell(statistics_in_ns(ns[way][second]))});
    }
  table.print();
  return cycles[ca];
}

constexpr size_t counted_words = size_t(1) << 22;
std::string counted_parameter(const Way& way, const Pattern& p) {
  return std::string(p.name) + " " + way.name;
}

/// `trips`: through L1, for each of `seconds`.
void judge_unit(const Run& run, const std::vector<Readings>& trips) {
  const Part part{"03.11", "the unit of access is 32 bytes whether or not L1 caches the load",
                  "32 bytes from Pascal on", "the wiki"};
  const double hit = trips[same_sector].median();
  const double miss = trips[new_line].median();
  // a second word of a sector that L1 has must be clearly nearer than a new line
  if (hit > 0.75 * miss) return run.report.not_judged(part, "L1 does not keep these loads here");
  run.report.judge(part, beats(), ratio(trips[next_sector], trips[same_sector]),
                   "through L1 a word of the same sector then takes " + fixed(hit, 0) +
                       " cycles, one of the next sector " + fixed(trips[next_sector].median(), 0) +
                       ", a new line " + fixed(miss, 0));

  const Way through_l1 = all_ways()[ca];
  const double crossed =
      count_of_this_run(through_l1.symbol, counted_parameter(through_l1, patterns[scattered]),
                        "l1tex__m_xbar2l1tex_read_bytes.sum");
  if (crossed > 0)
    run.report.finding(
        "03.11",
        "counted: " + fixed(crossed / double(patterns[scattered].count(counted_words)), 1) +
            " bytes cross from L2 to L1 for a scattered word through L1");
}

/// Of 32 words the scattered loads touch one sector.
size_t words_of(const Run& run) {
  return size_beyond_l2(run, "caching", size_t(1) << (run.quick ? 26 : 28), 1, sizeof(unsigned));
}

}  // namespace

void caching(const Run& run) {
  const size_t words = words_of(run);
  run.report.begin("caching", std::to_string(words) + " words of 4 bytes, " +
                                  bytes_text(4.0 * double(words)) + "; then " +
                                  std::to_string(chased_lines) + " lines of 128 bytes, " +
                                  bytes_text(128.0 * chased_lines));
  const std::vector<Way> ways = all_ways();
  measure_reading(run, ways, words);
  if (run.device && !beyond_l2(*run.device, double(words)))
    run.report.note("the scattered words' sectors are less than four times the L2");
  if (ways.size() <= flag)
    run.report.left_out("the rows of -dlcm=cg", "the flag is for a whole file; CMake sets it");
  if (!run.device) run.report.left_out("the times of the loads, and the walks of one thread");
  const std::vector<Readings> trips = measure_walks(run, ways);
  if (run.device && ways.size() > flag)
    run.report.note(
        "-dlcm=cg is lost where the driver compiles the kernels: its rows are as .ca's");
  judge_unit(run, trips);
}
