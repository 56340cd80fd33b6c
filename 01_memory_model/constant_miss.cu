// constant, hits and misses: "very fast when cache hit, very slow when no cache hit" [PR]. One
// thread walks through constant memory, each read at the offset that the one before has found.
// Three things to look at:
//   - The steps that the caches make as the walk grows.
//   - What a first touch takes.
//   - What becomes of it if each thread reads a word of its own, and only once [LC].
//
//   1  walk_constant   from offset to offset of constant memory
//   2  walk_global     the same in global memory past L1: the L2 answers, or memory
//   3  walk_read_only  the same by what __ldg() compiles to, the read-only or texture path
//   4  once_constant   each thread copies the word of its number
//   5  once_global     the same from global memory
#include <algorithm>

#include "chase.cuh"
#include "constant.hpp"

using namespace samples;

namespace {

// All constants of a file stand in 64 KiB; this table is all but 256 bytes of that.
constexpr unsigned table_words = ((64 << 10) - 256) / sizeof(unsigned);
__constant__ unsigned table[table_words];

/// What a walk leaves.
struct Walk {
  long long cycles;
  unsigned end;  ///< the offset after the last step
  unsigned long long ns;
};

// ---- kernels: one thread goes so many steps untimed, then so many timed. One loop serves both, so
// that its instructions have been fetched when the clock starts. threadIdx.x is 0, but not to the
// compiler, which would load by another instruction what it knows to be the same in all lanes ----

// [walk_constant]
// Each word that comes is the offset of the next: no two loads overlap.
__global__ void walk_constant(Walk* walk, int untimed, int timed) {
  unsigned offset = threadIdx.x;
  int steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (int step = 0; step < steps; ++step)
      offset = *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(table) + offset);
    asm volatile("" : "+r"(offset));  // the clock is read after the last step
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *walk = {cycles, offset, timer_ns() - start_ns};
}
// [/walk_constant]

// The same past L1.
__global__ void walk_global(Walk* walk, const char* words, int untimed, int timed) {
  unsigned offset = threadIdx.x;
  int steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (int step = 0; step < steps; ++step)
      offset = __ldcg(reinterpret_cast<const unsigned*>(words + offset));
    asm volatile("" : "+r"(offset));
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *walk = {cycles, offset, timer_ns() - start_ns};
}

// The same through the cache for data that no one writes.
__global__ void walk_read_only(Walk* walk, const char* words, int untimed, int timed) {
  unsigned offset = threadIdx.x;
  int steps = untimed;
  long long start = 0;
  unsigned long long start_ns = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    start_ns = timer_ns();
    start = clock64();
#pragma unroll 1
    for (int step = 0; step < steps; ++step)
      offset = __ldg(reinterpret_cast<const unsigned*>(words + offset));
    asm volatile("" : "+r"(offset));
    steps = timed;
  }
  const long long cycles = clock64() - start;
  *walk = {cycles, offset, timer_ns() - start_ns};
}

// [once]
// 32 neighbouring lanes want 32 different words, which nobody has read before and nobody reads
// again.
__global__ void once_constant(unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < table_words) out[i] = table[i];
}
__global__ void once_global(unsigned* out, const unsigned* words) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < table_words) out[i] = words[i];
}
// [/once]

// ---- what is right ----

/// A walk over one word in every `stride` bytes of the first `bytes`. 19 is prime to every number
/// of nodes used here, so that all are visited, and as many nodes on is too far for what a load may
/// fetch along.
struct Path {
  unsigned bytes, stride;

  unsigned nodes() const { return bytes / stride; }
  unsigned offset_after(unsigned steps) const { return steps % nodes() * 19 % nodes() * stride; }
  std::vector<unsigned> words() const {
    std::vector<unsigned> words(table_words, 4);  // what lies between the nodes leads off the path
    for (unsigned k = 0; k < nodes(); ++k)
      words[offset_after(k) / sizeof(unsigned)] = offset_after(k + 1);
    return words;
  }
};
constexpr Path longest{63 << 10, 64};         // warm: a node in every line of the smallest cache
constexpr Path first_touches{63 << 10, 256};  // cold: no two nodes in one line of any cache

/// Untimed steps of a cold walk: they fetch the code, and the translation of the page.
constexpr int first_steps = 4;

/// What all walks use. Each measurement throws unless it ends where its path does.
class Walks {
 public:
  explicit Walks(size_t l2_bytes) : flush_(l2_bytes) {}

  /// A step after two rounds.
  chase::Load constant_again(const Path& path) {
    write(path);
    const int timed = std::max(512, int(path.nodes()));
    walk_.poison();
    walk_constant<<<1, 1>>>(walk_.data(), 2 * int(path.nodes()), timed);
    return load_of(path, 2 * int(path.nodes()), timed);
  }
  /// Each step is the first to touch its line since the table was written anew, which empties the
  /// constant caches; the L2 was flushed, or has been made to read the table.
  chase::Load constant_first(bool from_memory) {
    const Path& path = first_touches;
    write(path);
    const int timed = int(path.nodes()) - first_steps;
    if (from_memory) {
      flush_();
    } else {
      void* in_global = nullptr;
      CUDA_CHECK(cudaGetSymbolAddress(&in_global, table));
      walk_global<<<1, 1>>>(walk_.data(), static_cast<const char*>(in_global), 0,
                            int(path.nodes()));
    }
    walk_.poison();
    walk_constant<<<1, 1>>>(walk_.data(), first_steps, timed);
    return load_of(path, first_steps, timed);
  }
  chase::Load global_again() {
    const Path& path = first_touches;
    write(path);
    walk_.poison();
    walk_global<<<1, 1>>>(walk_.data(), bytes(), 2 * int(path.nodes()), 512);
    return load_of(path, 2 * int(path.nodes()), 512);
  }
  chase::Load global_first() {
    const Path& path = first_touches;
    write(path);
    flush_();
    const int timed = int(path.nodes()) - first_steps;
    walk_.poison();
    walk_global<<<1, 1>>>(walk_.data(), bytes(), first_steps, timed);
    return load_of(path, first_steps, timed);
  }
  chase::Load read_only_first() {
    const Path& path = first_touches;
    write(path);
    flush_();
    const int timed = int(path.nodes()) - first_steps;
    walk_.poison();
    walk_read_only<<<1, 1>>>(walk_.data(), bytes(), first_steps, timed);
    return load_of(path, first_steps, timed);
  }

 private:
  const char* bytes() const { return reinterpret_cast<const char*>(words_.data()); }
  void write(const Path& path) {
    const std::vector<unsigned> words = path.words();
    CUDA_CHECK(cudaMemcpyToSymbol(table, words.data(), words.size() * sizeof(unsigned)));
    words_.copy_from(words);
  }
  chase::Load load_of(const Path& path, int untimed, int timed) const {
    CUDA_CHECK_LAUNCH();
    const Walk found = walk_.to_host()[0];
    require_right(found.end == path.offset_after(untimed + timed), "constant: the end of a walk");
    require_right(found.cycles > 0, "constant: a walk took no time");
    return {double(found.cycles) / timed, exact_ns(found.ns) / timed};
  }

  chase::Flush flush_;
  DeviceBuffer<unsigned> words_{table_words};
  DeviceBuffer<Walk> walk_{1};
};

// ---- prediction ----

/// Bytes of the first constant cache, which no call reports: measured by others on 5.x to 7.x (Jia
/// and others, "Dissecting the NVIDIA Volta GPU architecture", 2018), and by us on 9.0.
constexpr unsigned first_cache_bytes = 2 << 10;

/// Cycles of a load from each place, measured in the same run.
struct Calibrated {
  double first_cache = NAN, second_cache = NAN;  ///< constants
  double l2 = NAN, memory = NAN;                 ///< global loads
};

/// Again and again: what fits the first cache, or else the second, which holds all of the table.
double predicted_again(unsigned bytes, const Calibrated& c) {
  return bytes <= first_cache_bytes ? c.first_cache : c.second_cache;
}

/// A constant's first touch: both constant caches are asked, then it takes the way of a global
/// load.
double predicted_first(bool from_memory, const Calibrated& c) {
  return c.second_cache + (from_memory ? c.memory : c.l2);
}

// ---- the walks, by their rows ----

const char* const latency = "latency";
const char* const in_ns = "time of a load";
const char* const over_hit = "latency over that of a hit";
const char* const over_global = "latency over that of global_first";

struct Way {
  Ref ref;
  std::string words;
  bool leaves;  ///< the multiprocessor: timed in ns, too
  Function<chase::Load(Walks&)> walk;
};

/// Bytes of the walks that are gone again and again.
constexpr double again_bytes[] = {512, 1024, 2048, 4096, 8192, 16384, 32768, 63 << 10};
const Ref in_first("walk_constant", 1024), in_second("walk_constant", 32768);  // they calibrate

std::vector<Way> all_ways() {
  std::vector<Way> all;
  for (const double bytes : again_bytes)
    all.push_back({{"walk_constant", bytes},
                   "constant, again and again, " + bytes_text(bytes),
                   false,
                   [bytes](Walks& w) {
                     return w.constant_again({unsigned(bytes), longest.stride});
                   }});
  all.push_back({"constant_first_l2", "constant, first touch, from the L2", true,
                 [](Walks& w) { return w.constant_first(false); }});
  all.push_back({"constant_first", "constant, first touch", true,
                 [](Walks& w) { return w.constant_first(true); }});
  all.push_back({"global_again", "global, again and again past L1", true,
                 [](Walks& w) { return w.global_again(); }});
  all.push_back(
      {"global_first", "global, first touch", true, [](Walks& w) { return w.global_first(); }});
  all.push_back({"read_only_first", "read-only, first touch", true,
                 [](Walks& w) { return w.read_only_first(); }});
  return all;
}

struct OfWays {
  std::vector<Readings> cycles, ns;
};
OfWays measure(const Run& run, const std::vector<Way>& ways) {
  Walks walks(run.device->l2_bytes());
  std::vector<chase::Counting> in_turn;
  for (const Way& way : ways) in_turn.push_back([&] { return way.walk(walks); });
  OfWays found;
  found.cycles = chase::cycles_in_turn(run.measuring, in_turn, found.ns);
  return found;
}

/// How many times as long as in the other row; the places in all_ways() are found by the rows.
Statistics ratio_of(const OfWays& found, const std::vector<Way>& ways, const Ref& slow,
                    const Ref& fast) {
  const auto of = [&](const Ref& ref) -> const Readings& {
    const auto way =
        std::find_if(ways.begin(), ways.end(), [&](const Way& w) { return same(w.ref, ref); });
    return found.cycles[size_t(way - ways.begin())];
  };
  const Interval r = ratio(of(slow), of(fast));
  return {r.value, r.low, r.high, r.pairs};
}

bool calibrates(const Ref& ref) {
  return same(ref, in_first) || same(ref, in_second) || ref.key == "global_again" ||
         ref.key == "global_first";
}

double predicted(const Ref& ref, const Calibrated& c) {
  if (ref.key == "walk_constant") return predicted_again(unsigned(ref.at), c);
  if (ref.key == "read_only_first") return c.memory;
  return predicted_first(ref.key == "constant_first", c);
}

// ---- each word once ----

struct Copies {
  DeviceBuffer<unsigned> words;
  Output<unsigned> out{table_words};

  struct Word {
    __device__ unsigned operator()(size_t i) const { return scrambled(i); }
    __device__ bool operator()(size_t i, unsigned found) const { return found == scrambled(i); }
  };
  Copies() : words(filled<unsigned>(table_words, Word{})) {
    if (device_memory::Pretence::stands()) return;
    CUDA_CHECK(cudaMemcpyToSymbol(table, words.data(), words.bytes(), 0, cudaMemcpyDeviceToDevice));
  }
};

Task once_task(const Ref& ref, const Shared<Copies>& copies) {
  constexpr unsigned threads = 256, blocks = (table_words + threads - 1) / threads;
  const bool constant = ref.key == name_of<once_constant>();
  const auto launch = [copies, constant] {
    if (constant)
      once_constant<<<blocks, threads>>>(copies->out.data());
    else
      once_global<<<blocks, threads>>>(copies->out.data(), copies->words.data());
  };
  return {text(ref), launch, copies->out.check(Copies::Word{})};
}

void measure_once(const Run& run) {
  Sheet sheet(run, "each thread reads a word of its own", {milliseconds(5), spread()});
  sheet.add({.ref = name_of<once_constant>(), .words = "constant memory"});
  sheet.add({.ref = name_of<once_global>(), .words = "global memory"});
  SharedByTasks copies([] { return Copies(); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return once_task(row.ref, copies()); });
  sheet.print({"16128 words, all of the table, by as many threads: mostly the launch"});
}

}  // namespace

void constants::run_misses(const Run& run) {
  const std::vector<Way> ways = all_ways();
  Once<OfWays> found{[&] { return measure(run, ways); }};
  for (size_t i = 0; i < ways.size(); ++i) {
    ask_for_table(run, ways[i].ref, latency, "cycles",
                  [&] { return found().cycles[i].statistics(); });
    if (ways[i].leaves)
      ask_for_table(run, ways[i].ref, in_ns, "ns", [&] { return statistics_in_ns(found().ns[i]); });
  }
  ask(run, "constant_first", over_hit, "x",
      [&] { return ratio_of(found(), ways, "constant_first", in_first); });
  ask(run, "read_only_first", over_global, "x",
      [&] { return ratio_of(found(), ways, "read_only_first", "global_first"); });

  const auto cycles = [&](const Ref& ref) { return run.results->value(ref, latency).value; };
  const Calibrated c{cycles(in_first).median, cycles(in_second).median,
                     cycles("global_again").median, cycles("global_first").median};
  // the constant caches were found on 9.0, and by others before
  const Model model = run.device && run.device->prop.major == 9 ? Model::traffic : Model::host;
  Table table(
      run.report, "one thread, each load waits for the last",
      {compared("cycles", latency, "cycles", 1), shown("spread"), measured("ns", in_ns, "ns", 1)});
  for (const Way& way : ways) {
    const Statistics s = cycles(way.ref);
    const std::string at = at_text(way.ref);
    table.row(
        {way.ref.key, at.empty() ? "" : "bytes", at, way.words},
        {calibrates(way.ref) ? Cell(Calibration{s})
                             : Cell(Compared{predicted(way.ref, c), s, model}),
         spread_text(s), way.leaves ? run.results->value(way.ref, in_ns).value : Statistics{}});
  }
  table.print();
  measure_once(run);
}

std::vector<Claim> constants::claims_of_misses() {
  return {{.part = {"01.6b", "a constant read that misses is far slower than one that hits",
                    "very slow against very fast", "lectures"},
           .rule = much_beats(),
           .levels = {{.ref = "constant_first", .metric = over_hit}}},
          {.part = {"01.6c", "a read-only miss costs what a global load does",
                    "same as global if not cached", "lectures"},
           .rule = costs_as_much(),
           .levels = {{.ref = "read_only_first", .metric = over_global}}},
          {.part = {"01.11d",
                    "constant memory is wrong where each thread reads another word, and only once",
                    "do not use it", "wiki"},
           .rule = beats(),
           .pairs = {{.slow = name_of<once_constant>(), .fast = name_of<once_global>()}}}};
}

void constants::add_tasks_of_misses(std::vector<Checked>& all) {
  const Shared copies((Copies()));
  for (const Ref& ref : {Ref(name_of<once_constant>()), Ref(name_of<once_global>())})
    all.push_back({.task = once_task(ref, copies), .elements = table_words, .change_one = [copies] {
                     copies->out.change(table_words - 1);
                   }});
}
