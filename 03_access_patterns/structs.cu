// structs: pairs of floats as an array of structures (AoS), as a structure of arrays (SoA), and as
// structures aligned to 8 bytes. The wiki profiles 50% efficiency for the first, because each field
// is an access of its own that steps over the other, and 100% for the others; and an operation that
// wants x alone loses half of the bandwidth in an AoS [LC 3]. Look at how little the 50% shows in
// the time: what one access leaves of a sector, the next finds in cache. With one field nobody
// wants the rest, and a sector of which half is written costs more than one that is written whole.
//   cmake -S 03_access_patterns -B build/structs -DEXPERIMENTS=structs
//   cmake --build build/structs && build/structs/03_access_patterns
//
//   1  increment_pairs      AoS: two loads and two stores of 4 bytes
//   2  increment_arrays     SoA: the same, each of neighbours
//   3  increment_aligned    AoS of aligned structures: one load and one store of 8 bytes
//   4  increment_pairs_x    1 with x alone
//   5  increment_arrays_x   2 with x alone
//   6  increment_aligned_x  3 with x alone
#include <algorithm>

#include "../common/counters.hpp"
#include "../common/report.hpp"
#include "sizes.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

struct Pair {
  float x, y;
};
struct __align__(8) AlignedPair {
  float x, y;
};
struct Arrays {
  float *x, *y;
};

// ---- kernels: a thread takes a pair ----

// [increment_pairs]
// A Pair is aligned to 4 bytes. In each of two loads and two stores a warp takes every second word:
// 8 sectors of 32 bytes, for 128 bytes.
__global__ void increment_pairs(const Pair* in, Pair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  Pair p = in[i];
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;
}
// [/increment_pairs]

// Two loads and two stores of 32 neighbours: 4 sectors each.
__global__ void increment_arrays(Arrays in, Arrays out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float x = in.x[i];
  const float y = in.y[i];
  out.x[i] = x + 10.0f;
  out.y[i] = y + 20.0f;
}

// One load and one store of 8 bytes a lane: 8 sectors, without gaps.
__global__ void increment_aligned(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  AlignedPair p = in[i];
  p.x += 10.0f;
  p.y += 20.0f;
  out[i] = p;
}

// [one_field]
// Every second word: 8 sectors are loaded for 128 bytes, and 8 are written in half.
__global__ void increment_pairs_x(const Pair* in, Pair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i].x = in[i].x + 10.0f;
}

// 32 neighbours: 4 sectors, all of them used.
__global__ void increment_arrays_x(Arrays in, Arrays out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out.x[i] = in.x[i] + 10.0f;
}
// [/one_field]

// As kernel 4: alignment is no help where a field is left out.
__global__ void increment_aligned_x(const AlignedPair* in, AlignedPair* out, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i].x = in[i].x + 10.0f;
}

// ---- the story in order ----

constexpr unsigned threads = 256;

/// Two buffers of 2 n floats.
struct Launch {
  unsigned blocks;
  float *in, *out;
  size_t n;

  Arrays arrays(float* floats) const { return {floats, floats + n}; }
  template <class Structure>
  Structure* structures(float* floats) const {
    return reinterpret_cast<Structure*>(floats);
  }
};

enum class Layout { pairs, arrays, aligned };

struct Kernel {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  Layout layout;
  unsigned fields;        ///< 1: x alone
  double then_efficient;  ///< share of the sectors' bytes that is used, as profiled by the text
  void (*launch)(const Launch&);
};

const Kernel kernels[] = {
    {"AoS, both fields", "increment_pairs", Layout::pairs, 2, 0.5,
     [](const Launch& l) {
       increment_pairs<<<l.blocks, threads>>>(l.structures<const Pair>(l.in),
                                              l.structures<Pair>(l.out), l.n);
     }},
    {"SoA, both fields", "increment_arrays", Layout::arrays, 2, 1,
     [](const Launch& l) {
       increment_arrays<<<l.blocks, threads>>>(l.arrays(l.in), l.arrays(l.out), l.n);
     }},
    {"aligned AoS, both fields", "increment_aligned", Layout::aligned, 2, 1,
     [](const Launch& l) {
       increment_aligned<<<l.blocks, threads>>>(l.structures<const AlignedPair>(l.in),
                                                l.structures<AlignedPair>(l.out), l.n);
     }},
    {"AoS, x alone", "increment_pairs_x", Layout::pairs, 1, 0.5,
     [](const Launch& l) {
       increment_pairs_x<<<l.blocks, threads>>>(l.structures<const Pair>(l.in),
                                                l.structures<Pair>(l.out), l.n);
     }},
    {"SoA, x alone", "increment_arrays_x", Layout::arrays, 1, NAN,
     [](const Launch& l) {
       increment_arrays_x<<<l.blocks, threads>>>(l.arrays(l.in), l.arrays(l.out), l.n);
     }},
    {"aligned AoS, x alone", "increment_aligned_x", Layout::aligned, 1, NAN,
     [](const Launch& l) {
       increment_aligned_x<<<l.blocks, threads>>>(l.structures<const AlignedPair>(l.in),
                                                  l.structures<AlignedPair>(l.out), l.n);
     }},
};
enum { aos, soa, aligned_aos, aos_x, soa_x, aligned_x };

// ---- what is right ----

/// What stands at each word of a layout before, and what has to stand there afterwards: from words
/// to fields, where the kernels go from fields to words. A y that is not used stays poisoned.
struct Contents {
  bool arrays;
  unsigned fields;
  size_t n;

  __host__ __device__ bool is_y(size_t word) const { return arrays ? word >= n : word % 2 == 1; }
  __host__ __device__ float operator()(size_t word) const {
    return float(scrambled(word) >> 16);  // 16 bits, so that adding to it is exact
  }
  __host__ __device__ bool operator()(size_t word, float found) const {
    if (is_y(word) && fields == 1) return found != found;
    return found == (*this)(word) + (is_y(word) ? 20.0f : 10.0f);
  }
};

/// n pairs in and out.
struct Pairs {
  static constexpr size_t canaries = 32;  ///< floats behind the output

  size_t n;
  DeviceBuffer<float> in, out;

  explicit Pairs(size_t n) : n(n), in(2 * n), out(2 * n + canaries) {}
  static constexpr double bytes_each = 16;

  Contents contents(const Kernel& k) const { return {k.layout == Layout::arrays, k.fields, n}; }
  void launch(const Kernel& k) {
    k.launch({unsigned((n + threads - 1) / threads), in.data(), out.data(), n});
  }
  size_t wrong(const Contents& right) const;
  Task task(const Kernel& k) {
    const Contents right = contents(k);
    Check check;
    check.poison = [this, right] {
      fill(in, right);
      out.poison();
    };
    check.wrong = [this, right] { return wrong(right); };
    return {k.name, [this, &k] { launch(k); }, std::move(check)};
  }
  Task copy_engine() {
    const auto launch = [this] {
      CUDA_CHECK(cudaMemcpyAsync(out.data(), in.data(), in.bytes(), cudaMemcpyDeviceToDevice));
    };
    return {"copy engine", launch, unchecked("the driver's own copy")};
  }
};

/// Words 0 to 2 n - 1 by `right`; those behind them are still poisoned.
struct WithCanaries {
  Contents right;
  __device__ bool operator()(size_t word, float found) const {
    return word < 2 * right.n ? right(word, found) : found != found;
  }
};
size_t Pairs::wrong(const Contents& right) const { return wrong_words(out, WithCanaries{right}); }

// ---- what to expect ----

/// Bytes that an increment wants: each field that it uses is read once and written once.
double bytes_used(unsigned fields, size_t n) { return 2.0 * 4 * fields * double(n); }

/// The accesses of a warp, loads and stores alike: one for each field, or one for both.
std::vector<Warp> accesses(const Kernel& k) {
  constexpr size_t n = 1024;  // of the SoA, whose y lies behind all x
  if (k.layout == Layout::aligned && k.fields == 2)
    return {warp_of(8, [](unsigned lane) { return lane; })};
  std::vector<Warp> all;
  for (unsigned field = 0; field < k.fields; ++field)
    all.push_back(warp_of(4, [&](unsigned lane) {
      return k.layout == Layout::arrays ? field * n + lane : 2 * lane + field;
    }));
  return all;
}

double sectors_a_request(const Kernel& k) { return sectors(accesses(k)[0]); }

/// Share of the sectors' bytes that a request uses: the text's efficiency.
double efficiency(const Kernel& k) { return under(Rule::sectors, accesses(k)[0]).utilisation(); }

/// Whether a warp leaves gaps in the sectors that it writes.
bool writes_in_part(const Kernel& k) { return k.layout != Layout::arrays && k.fields == 1; }

/// Bytes that memory moves for a pair. All accesses of a warp to one sector meet in cache: it comes
/// once, goes once, and comes once more if it was written in part, to be completed.
double bytes_moved_for_a_pair(const Kernel& k) {
  std::vector<long long> touched;
  for (const Warp& warp : accesses(k))
    for (const long long start : segments(warp, 32)) touched.push_back(start);
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());

  const double sectors_a_warp = double(touched.size());
  const int times = writes_in_part(k) ? 3 : 2;
  return times * sectors_a_warp * 32 / 32;  // 32 bytes a sector, 32 pairs a warp
}

/// Measured in the same run; milliseconds.
struct Calibrated {
  double copy_engine = NAN;  ///< all pairs read and written
  double turn = NAN;         ///< all threads come, load, store and go, with one word each
};

double predicted_ms(const Kernel& k, const Calibrated& c) {
  return std::max(c.copy_engine * bytes_moved_for_a_pair(k) / Pairs::bytes_each, c.turn);
}

/// That a sector written in part is read first was found on 9.0 only.
Model model_of(const Kernel& k, const Device& device) {
  return !writes_in_part(k) || device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

struct StructTable {
  Table table;
  size_t n;
  double limit_ms = NAN;

  StructTable(const Run& run, size_t n)
      : table(
            run.report, "kernel",
            {predicted("sectors/request", "sectors a request", "", 0),
             predicted("efficiency %", "efficiency", "%", 0), then("then %", "efficiency", "%", 0),
             predicted("bytes moved a pair", "bytes moved a pair", "B", 0),
             compared("ms", "time", "ms", 4), shown("spread"),
             measured("GB/s used", "bandwidth", "GB/s", 0), shown("")}),
        n(n) {}

  void add(const Kernel& k, const Cell& time, const Readings& times) {
    const Statistics ms = times.statistics();
    const Statistics gbs = gigabytes_per_second(bytes_used(k.fields, n), ms);
    const double limit = Pairs::bytes_each * double(n) * 1e-6 / limit_ms;
    table.row({k.name},
              {sectors_a_request(k), 100 * efficiency(k), 100 * k.then_efficient,
               bytes_moved_for_a_pair(k), time, spread_text(ms), gbs, bar(gbs.median / limit)});
  }
  void add_copy(const Readings& times) {
    const Statistics ms = times.statistics();
    limit_ms = ms.median;
    const Statistics gbs = gigabytes_per_second(Pairs::bytes_each * double(n), ms);
    table.row({"copy engine"}, {{}, {}, {}, {}, Calibration{ms}, spread_text(ms), gbs, bar(1)});
  }
};

/// Times of all kernels, in turn; none without a GPU.
std::vector<Readings> measure(const Run& run, size_t n) {
  StructTable table(run, n);
  std::vector<Readings> times(std::size(kernels));
  if (!run.device) {
    for (const Kernel& k : kernels) table.add(k, {}, {});
    table.table.print();
    return times;
  }
  Pairs pairs(n);
  std::vector<Task> tasks;
  for (const Kernel& k : kernels) tasks.push_back(pairs.task(k));
  tasks.push_back(pairs.copy_engine());
  times = run.time_in_turn(tasks);

  table.add_copy(times.back());
  times.pop_back();
  const Calibrated c{table.limit_ms, times[soa_x].median()};
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Statistics ms = times[i].statistics();
    const Compared compared{predicted_ms(kernels[i], c), ms, model_of(kernels[i], *run.device)};
    table.add(kernels[i], i == soa_x ? Cell(Calibration{ms}) : Cell(compared), times[i]);
  }
  table.table.print();
  return times;
}

constexpr size_t counted_pairs = 65536;
const std::string counted_parameter = "65536 pairs";

/// Share of the counted sectors' bytes that a kernel uses; not a number without counts.
double counted_efficiency(const Kernel& k, bool loads) {
  const std::string metric = expected_sectors(loads, 0).metric;
  const double sectors = count_of_this_run(k.symbol, counted_parameter, metric);
  return bytes_used(k.fields, counted_pairs) / 2 / (32 * sectors);
}

void judge_efficiency(const Run& run, const Part& part, const Kernel& k) {
  const double load = counted_efficiency(k, true);
  const double store = counted_efficiency(k, false);
  if (!std::isfinite(load + store))
    return run.report.not_judged(part,
                                 "needs counts of this run: cmake --workflow --preset profile");
  const Criterion as_stated = about(k.then_efficient);
  run.report.judged(
      part, judge_many({judge(as_stated, exactly(load)), judge(as_stated, exactly(store))}),
      exactly(load),
      share_text(exactly(load)) + " of the loads, " + share_text(exactly(store)) + " of the stores",
      "");
}

/// `times`: of all kernels.
void judge_all(const Run& run, const std::vector<Readings>& times, bool in_cache) {
  judge_efficiency(run,
                   {"03.4a", "two accesses to an AoS are 50% efficient, loads and stores", "50%",
                    "the wiki's count"},
                   kernels[aos]);
  judge_efficiency(run, {"03.4b", "those to an SoA are 100% efficient", "100%", "the wiki's count"},
                   kernels[soa]);
  judge_efficiency(run,
                   {"03.4c", "those to an AoS aligned to 8 bytes are 100% efficient", "100%",
                    "the wiki's count"},
                   kernels[aligned_aos]);
  const Interval both = ratio(times[aos], times[soa]);
  const Interval both_aligned = ratio(times[aos], times[aligned_aos]);
  if (both.measured())
    run.report.finding("03.4", "in time, with both fields used, the SoA is " +
                                   faster(both, "the AoS") + ", the aligned AoS " +
                                   faster(both_aligned));

  const Part one_field{"03.13", "x alone of an AoS of two fields loses 50% of the bandwidth",
                       "50%, no measurement", "the wiki"};
  if (in_cache)
    return run.report.not_judged(one_field, "the arrays are less than four times the L2");
  const Interval loss = ratio(times[aos_x], times[soa_x]);
  run.report.judge(one_field, beats(2), loss, slower(loss, "the SoA"));
  const Interval aligned_loss = ratio(times[aligned_x], times[soa_x]);
  if (aligned_loss.measured())
    run.report.finding("03.13", "with aligned structures " + slower(aligned_loss));
}

/// Touched at least: what the SoA reads and writes of x.
size_t pairs_of(const Run& run) {
  return size_beyond_l2(run, "structs", size_t(1) << (run.quick ? 24 : 26), 8, Pairs::bytes_each);
}

}  // namespace

void structs(const Run& run) {
  const size_t n = pairs_of(run);
  const bool in_cache = run.device && !beyond_l2(*run.device, bytes_used(1, n));
  run.report.begin("structs", std::to_string(n) + " pairs of floats read and written, " +
                                  bytes_text(bytes_used(2, n)) +
                                  (in_cache ? ", less than four times the L2" : ""));
  const std::vector<Readings> times = measure(run, n);
  run.report.note("a sector that is written in part is read first: it counts three times");
  if (!run.device) run.report.left_out("the times");
  judge_all(run, times, in_cache);
}
