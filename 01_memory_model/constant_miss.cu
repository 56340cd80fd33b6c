// constant, hits and misses: "very fast when cache hit, very slow when no cache hit" [PR]. One
// thread walks through constant memory, each read at the offset that the one before has found.
// Look at the steps that the caches make as the walk grows, and at what a first touch takes.
//
//   1  walk_constant   from offset to offset of constant memory
//   2  walk_global     the same in global memory past L1: the L2 answers, or memory
//   3  walk_read_only  the same by what __ldg() compiles to, the read-only or texture path
#include <algorithm>

#include "../common/report.hpp"
#include "chase.cuh"
#include "constant.hpp"

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

// ---- what to expect ----

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

// ---- the experiment ----

/// Bytes of the walks that are gone again and again; the second and the seventh calibrate.
constexpr unsigned again_bytes[] = {512, 1024, 2048, 4096, 8192, 16384, 32768, 63 << 10};
constexpr size_t in_first = 1, in_second = 6;

/// Rows behind those of `again_bytes`.
enum { constant_l2 = std::size(again_bytes), constant_memory, l2, memory, read_only, row_count };

std::vector<Readings> measure(const Run& run, std::vector<Readings>& ns) {
  if (!run.device) return std::vector<Readings>(row_count);
  Walks walks(run.device->l2_bytes());
  std::vector<chase::Counting> rows;
  for (const unsigned bytes : again_bytes)
    rows.push_back([&walks, bytes] { return walks.constant_again({bytes, longest.stride}); });
  rows.push_back([&] { return walks.constant_first(false); });
  rows.push_back([&] { return walks.constant_first(true); });
  rows.push_back([&] { return walks.global_again(); });
  rows.push_back([&] { return walks.global_first(); });
  rows.push_back([&] { return walks.read_only_first(); });
  return chase::cycles_in_turn(run.measuring, rows, ns);
}

void show(const Run& run, const std::vector<Readings>& cycles, const std::vector<Readings>& ns) {
  Table table(run.report, "one thread, each load waits for the last",
              {compared("cycles", "latency", "cycles", 1), shown("spread"),
               measured("ns", "time of a load", "ns", 1)});
  const Calibrated c{cycles[in_first].median(), cycles[in_second].median(), cycles[l2].median(),
                     cycles[memory].median()};
  // the constant caches were found on 9.0, and by others before
  const Model found = run.device && run.device->prop.major == 9 ? Model::traffic : Model::host;
  const auto add = [&](const Key& key, size_t i, bool calibrates, double expected) {
    const Statistics s = cycles[i].statistics();
    // again and again in constant memory: no load leaves the multiprocessor
    const Statistics in_ns = i < constant_l2 ? Statistics{} : statistics_in_ns(ns[i]);
    table.row(key, {calibrates ? Cell(Calibration{s}) : Cell(Compared{expected, s, found}),
                    spread_text(s), in_ns});
  };
  for (size_t i = 0; i < std::size(again_bytes); ++i)
    add({"constant, again and again", "bytes", std::to_string(again_bytes[i])}, i,
        i == in_first || i == in_second, predicted_again(again_bytes[i], c));
  add({"constant, first touch, from the L2"}, constant_l2, false, predicted_first(false, c));
  add({"constant, first touch"}, constant_memory, false, predicted_first(true, c));
  add({"global, again and again past L1"}, l2, true, NAN);
  add({"global, first touch"}, memory, true, NAN);
  add({"read-only, first touch"}, read_only, false, c.memory);
  table.print();
}

void judge(const Run& run, const std::vector<Readings>& cycles) {
  const bool there = !cycles[0].ms.empty();
  const Interval miss = there ? ratio(cycles[constant_memory], cycles[in_first]) : Interval{};
  run.report.judge({"01.6b", "a constant read that misses is far slower than one that hits",
                    "very slow against very fast", "lectures"},
                   much_beats(), miss, "a first touch is " + slower(miss, "a hit"));
  const Interval other = there ? ratio(cycles[read_only], cycles[memory]) : Interval{};
  run.report.judge({"01.6c", "a read-only miss costs what a global load does",
                    "same as global if not cached", "lectures"},
                   costs_as_much(), other, "it is " + slower(other));
}

}  // namespace

void constants::measure_misses(const Run& run) {
  std::vector<Readings> ns;
  const std::vector<Readings> cycles = measure(run, ns);
  if (run.device) show(run, cycles, ns);
  judge(run, cycles);
}
