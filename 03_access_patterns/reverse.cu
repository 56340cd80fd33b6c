// reverse: an array turned end for end, once from global memory to global memory, once by way of
// shared memory. On the G80 the second won though it does more: a half-warp had to write its words
// in the order of its lanes, or each lane paid for itself [DD]. Look at the store's transactions
// then and now: the order within a warp no longer matters, and the detour has nothing to save.
//   cmake -S 03_access_patterns -B build/reverse -DEXPERIMENTS=reverse
//   cmake --build build/reverse && build/reverse/03_access_patterns
//
//   1  copy_global     copies, turns nothing
//   2  reverse_global  writes each word at its place from the other end
//   3  reverse_shared  turns a block's words in shared memory, and writes them in the lanes' order
#include "../common/report.hpp"
#include "sizes.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

// ---- kernels: a thread moves a word ----

constexpr unsigned block_threads = 256;

// Turns nothing: what there is to reach with one word a thread under way.
__global__ void copy_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// [reverse]
// A warp reads 32 neighbours, and writes 32 neighbours, the last lane first.
__global__ void reverse_global(unsigned* out, const unsigned* in, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) out[n - 1 - i] = in[i];
}

// A warp reads 32 neighbours and writes 32 neighbours, the first lane first.
__global__ void reverse_shared(unsigned* out, const unsigned* in, size_t n) {
  __shared__ unsigned turned[block_threads];
  const size_t first = blockIdx.x * size_t(block_threads);
  const unsigned words = n - first < block_threads ? unsigned(n - first) : block_threads;
  if (threadIdx.x < words) turned[words - 1 - threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();  // what a thread writes, another has read
  if (threadIdx.x < words) out[n - first - words + threadIdx.x] = turned[threadIdx.x];
}
// [/reverse]

// ---- the story in order ----

struct Kernel {
  const char *name, *symbol;  ///< as shown; as in the code and in the counters' file
  void (*kernel)(unsigned*, const unsigned*, size_t);
  bool turns, backwards;  ///< the array; the lanes of a store
};

constexpr Kernel kernels[] = {
    {"copied, not reversed", "copy_global", copy_global, false, false},
    {"global to global", "reverse_global", reverse_global, true, true},
    {"through shared", "reverse_shared", reverse_shared, true, false},
};
enum { copied, by_global, by_shared };

// ---- what is right ----

struct Value {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// Word i of the output, and canaries behind it.
struct IsRight {
  size_t n;
  bool turned;
  __device__ bool operator()(size_t i, unsigned found) const {
    if (i >= n) return found == ~0u;
    return found == scrambled(turned ? n - 1 - i : i);
  }
};

struct Words {
  static constexpr size_t canaries = 32;
  static constexpr double bytes_each = 8;  ///< read and written

  size_t n;
  DeviceBuffer<unsigned> in, out;

  explicit Words(size_t n) : n(n), in(n), out(n + canaries) { fill(in, Value{}); }
  Task task(const Kernel& k) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, &k] { return wrong_words(out, IsRight{n, k.turns}); };
    const unsigned blocks = unsigned((n + block_threads - 1) / block_threads);
    return {k.name,
            [this, &k, blocks] { k.kernel<<<blocks, block_threads>>>(out.data(), in.data(), n); },
            std::move(check)};
  }
};

// ---- what to expect ----

/// A warp's store: 32 neighbours, by lanes that count up or down.
Warp store(const Kernel& k) {
  return warp_of(4, [&](unsigned lane) { return k.backwards ? 31 - lane : lane; });
}
Warp load() {
  return warp_of(4, [](unsigned lane) { return lane; });
}

/// As many bytes in as many sectors by as many threads: as long as the copy. The barrier and the
/// two passes through shared memory should hide behind other blocks' loads; what they do cost is
/// left out.
double predicted_ms(const Kernel&, double copy_ms) { return copy_ms; }

// ---- the experiment ----

std::vector<Readings> measure(const Run& run, size_t n) {
  Table table(run.report, "kernel",
              {predicted("store: transactions on 1.0", "transactions a store on 1.0", "", 0),
               predicted("sectors/load", "sectors a load request", "", 0),
               predicted("sectors/store", "sectors a store request", "", 0),
               compared("ms", "time", "ms", 4), shown("spread"),
               measured("GB/s", "bandwidth", "GB/s", 0), shown("of the copy"), shown("")});
  std::vector<Readings> times(std::size(kernels));
  if (run.device) {
    Words words(n);
    std::vector<Task> tasks;
    for (const Kernel& k : kernels) tasks.push_back(words.task(k));
    times = run.time_in_turn(tasks);
  }
  const double copy_ms = times[copied].median();
  for (size_t i = 0; i < std::size(kernels); ++i) {
    const Kernel& k = kernels[i];
    const Statistics ms = times[i].statistics();
    const Compared compared{predicted_ms(k, copy_ms), ms};
    table.row({k.name}, {double(under(Rule::in_order, store(k)).count()), double(sectors(load())),
                         double(sectors(store(k))), i == copied ? Cell(Calibration{ms}) : compared,
                         spread_text(ms), gigabytes_per_second(Words::bytes_each * double(n), ms),
                         percent(copy_ms / ms.median), bar(copy_ms / ms.median)});
  }
  table.print();
  return times;
}

void judge_detour(const Run& run, const std::vector<Readings>& times, bool in_cache) {
  const Part part{"03.6", "reversing through shared memory beats reversing in global memory",
                  "faster, no figure", "G80", g80};
  if (in_cache) return run.report.not_judged(part, "the arrays are less than four times the L2");
  const Interval gain = ratio(times[by_global], times[by_shared]);
  run.report.judge(part, beats(), gain, faster(gain));
}

size_t words_of(const Run& run) {
  return size_beyond_l2(run, "reverse", size_t(1) << (run.quick ? 25 : 27), Words::bytes_each,
                        Words::bytes_each);
}

}  // namespace

void reverse(const Run& run) {
  const size_t n = words_of(run);
  const double bytes = Words::bytes_each * double(n);
  const bool in_cache = run.device && !beyond_l2(*run.device, bytes);
  run.report.begin("reverse", std::to_string(n) + " words of 4 bytes, " + bytes_text(bytes) +
                                  " read and written, one word a thread" +
                                  (in_cache ? ", less than four times the L2" : ""));
  const std::vector<Readings> times = measure(run, n);
  if (!run.device) run.report.left_out("the times");
  judge_detour(run, times, in_cache);
}
