// stores: a reader of the study asks whether the rules of reading hold for writing, too; its author
// answers that writes have "the same problems", and coalesced reach tens of GB/s [BW]. Look at
// words that stand a stride apart, read and written: the sectors are the same, the price is not. A
// sector that was written in part has to be completed before it can go to memory.
//   cmake -S 03_access_patterns -B build/stores -DEXPERIMENTS=stores
//   cmake --build build/stores && build/stores/03_access_patterns
//
//   1  write_strided  a warp writes 32 words that stand `stride` words apart
//   2  read_strided   a warp reads 32 such words
//   In stores_segments.cu: stores of one, two and four segments [LC 3]. In stores_in_l1.cu: what a
//   load finds in L1 after a store [LC 3].
#include "stores.hpp"

#include <algorithm>
#include <initializer_list>

#include "sizes.hpp"
#include "transactions.hpp"
#include "verify.cuh"

namespace {

// ---- kernels: every stride-th of the array's n words; a thread takes eight of them ----

constexpr unsigned threads = 256;
constexpr unsigned each = 8;  // words of a thread, so that its own pace is not the limit

// [write_strided]
// A warp writes 32 words. From stride 2 on it leaves gaps in each sector, from 8 on each lane has a
// sector for itself.
__global__ void write_strided(unsigned* out, size_t n, unsigned stride) {
#pragma unroll
  for (unsigned k = 0; k < each; ++k) {
    const size_t touched = (blockIdx.x * size_t(each) + k) * threads + threadIdx.x;
    const size_t i = touched * stride;
    if (i < n) out[i] = scrambled(i);
  }
}
// [/write_strided]

// A warp reads 32 such words; a thread's eight loads are under way at once. The sum has to be used,
// or the compiler leaves the loads out; but to store it would add a stream of writes. So a thread
// stores its sum only if that has none of the bits of `silent`: always when the result is checked
// (no bits), next to never when it is timed (all bits).
__global__ void read_strided(unsigned* sums, const unsigned* in, size_t n, unsigned stride,
                             unsigned silent) {
  unsigned word[each] = {};
#pragma unroll
  for (unsigned k = 0; k < each; ++k) {
    const size_t touched = (blockIdx.x * size_t(each) + k) * threads + threadIdx.x;
    const size_t i = touched * stride;
    if (i < n) word[k] = in[i];
  }
  unsigned sum = 0;
#pragma unroll
  for (unsigned k = 0; k < each; ++k) sum += word[k];
  if ((sum & silent) == 0) sums[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// ---- what is right ----

struct Value {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};

/// Every stride-th word is written, the others and the canaries are still poisoned.
struct WrittenIsRight {
  size_t n;
  unsigned stride;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == (i < n && i % stride == 0 ? scrambled(i) : ~0u);
  }
};

/// Takes each word that has to be read away from the sum of the thread that has to read it: from
/// words to threads, where the kernel goes from threads to words. Nothing is left of right sums.
__global__ void take_away(unsigned* sums, size_t n, unsigned stride) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    if (i % stride != 0) continue;
    const size_t touched = i / stride;
    const size_t block = touched / (each * threads);
    atomicSub(&sums[block * threads + touched % threads], scrambled(i));
  }
}

struct NothingLeft {
  size_t readers;  ///< sums, behind which canaries stand
  __device__ bool operator()(size_t i, unsigned left) const {
    return left == (i < readers ? 0 : ~0u);
  }
};

/// Every stride-th word of an array that is written or read.
struct Access {
  bool write;
  unsigned stride;

  const char* name() const { return write ? "write" : "read"; }
  size_t words(size_t n) const { return (n + stride - 1) / stride; }
  unsigned blocks(size_t n) const {
    return unsigned((words(n) + each * threads - 1) / (each * threads));
  }
};

struct Array {
  static constexpr size_t canaries = 32;

  size_t n;
  DeviceBuffer<unsigned> array, sums;
  unsigned silent = ~0u;  ///< see kernel 2

  explicit Array(size_t n)
      : n(n), array(n + canaries), sums(Access{false, 1}.blocks(n) * size_t(threads) + canaries) {}
  static constexpr double bytes_each = 4.5;  ///< a word, and an eighth of a thread's sum

  void launch(Access a) {
    if (a.write)
      write_strided<<<a.blocks(n), threads>>>(array.data(), n, a.stride);
    else
      read_strided<<<a.blocks(n), threads>>>(sums.data(), array.data(), n, a.stride, silent);
  }
  void poison(Access a) {
    if (a.write) return array.poison();
    fill(array, Value{});
    sums.poison();
    silent = 0;
  }
  size_t wrong(Access a) {
    if (a.write) return wrong_words(array, WrittenIsRight{n, a.stride});
    silent = ~0u;
    take_away<<<blocks_to_walk(n), 256>>>(sums.data(), n, a.stride);
    CUDA_CHECK_LAUNCH();
    return wrong_words(sums, NothingLeft{a.blocks(n) * size_t(threads)});
  }
  Task task(Access a) {
    Check check;
    check.poison = [this, a] { poison(a); };
    check.wrong = [this, a] { return wrong(a); };
    return {std::string(a.name()) + ", stride " + std::to_string(a.stride),
            [this, a] { launch(a); }, std::move(check)};
  }
};

// ---- what to expect ----

int sectors_a_request(unsigned stride) {
  return sectors(warp_of(4, [=](unsigned lane) { return lane * stride; }));
}

/// Of the array's bytes, those in pieces of `piece` bytes in which a word is touched.
double touched_share(unsigned stride, unsigned piece) {
  return std::min(1.0, double(piece) / (4.0 * stride));
}

/// Measured in the same run at stride 1; milliseconds.
struct Calibrated {
  double read = NAN, write = NAN;  ///< the whole array
};

/// Bytes over bandwidth. Memory is read 64 bytes at a time. What is written goes out by sectors; of
/// sectors written in part the line of 128 bytes is read first.
double predicted_ms(Access a, const Calibrated& c) {
  if (!a.write) return c.read * touched_share(a.stride, 64);
  const double completed = a.stride > 1 ? c.read * touched_share(a.stride, 128) : 0;
  return completed + c.write * touched_share(a.stride, 32);
}

/// The pieces that come from memory were found on compute capability 9.0, and a test holds rows to
/// them there.
Model model_of(const Device& device) {
  return device.prop.major == 9 ? Model::traffic : Model::host;
}

// ---- the experiment ----

constexpr unsigned strides[] = {1, 2, 4, 8, 16, 32};
constexpr unsigned lone = 8;  // from here on a lane has a sector to itself

/// Times at stride 1, which all others are compared with, and at the claim's stride.
struct Pair {
  Readings together, apart;
};

struct StrideTable {
  Table table;
  size_t n;
  double gbs_together[2] = {NAN, NAN};  ///< [write]

  StrideTable(const Run& run, size_t n)
      : table(run.report, "stride, words",
              {predicted("sectors/request", "sectors a request", "", 0),
               compared("ms", "time", "ms", 4), shown("spread"),
               measured("GB/s", "bandwidth", "GB/s", 0), shown("of stride 1"), shown("")}),
        n(n) {}

  void add(Access a, const Cell& time, const Readings& times) {
    const Statistics ms = times.statistics();
    const Statistics gbs = gigabytes_per_second(4.0 * double(a.words(n)), ms);
    if (a.stride == 1) gbs_together[a.write] = gbs.median;
    const double share = gbs.median / gbs_together[a.write];
    table.row({a.name(), "stride, words", std::to_string(a.stride)},
              {double(sectors_a_request(a.stride)), time, spread_text(ms), gbs, percent(share),
               bar(share)});
  }
};

/// Reads and writes at all strides, in turn. `pairs`: of reads and of writes.
void measure(const Run& run, size_t n, Pair (&pairs)[2]) {
  std::vector<Access> accesses;
  for (const bool write : {false, true})
    for (const unsigned stride : strides)
      if (!run.quick || stride <= lone) accesses.push_back({write, stride});
  std::vector<Readings> times(accesses.size());
  if (run.device) {
    Array array(n);
    std::vector<Task> tasks;
    for (const Access a : accesses) tasks.push_back(array.task(a));
    times = run.time_in_turn(tasks);
  }
  Calibrated c;
  for (size_t i = 0; i < accesses.size(); ++i) {
    if (accesses[i].stride == 1) (accesses[i].write ? c.write : c.read) = times[i].median();
    if (accesses[i].stride == 1) pairs[accesses[i].write].together = times[i];
    if (accesses[i].stride == lone) pairs[accesses[i].write].apart = times[i];
  }

  StrideTable table(run, n);
  for (size_t i = 0; i < accesses.size(); ++i) {
    Cell time;
    if (run.device && accesses[i].stride == 1)
      time = Calibration{times[i].statistics()};
    else if (run.device)
      time = Compared{predicted_ms(accesses[i], c), times[i].statistics(), model_of(*run.device)};
    table.add(accesses[i], time, times[i]);
  }
  table.table.print();
}

/// How many times as long a word takes with a sector to itself as beside its neighbours.
Interval loss(const Pair& pair, size_t n) {
  const double words = double(Access{true, 1}.words(n)) / double(Access{true, lone}.words(n));
  return scaled(ratio(pair.apart, pair.together), words);
}

void judge_writes(const Run& run, const Pair (&pairs)[2], size_t n) {
  const Part scattered{"03.10a", "scattered writes lose against coalesced ones, as reads do",
                       "the same problems, no figure", "8800 GTX"};
  const Part coalesced{"03.10b", "coalesced writes reach tens of GB/s", "tens of GB/s", "8800 GTX",
                       g80};
  if (run.device && !beyond_l2(*run.device, 4.0 * double(n))) {
    run.report.not_judged(scattered, "the array is less than four times the L2");
    return run.report.not_judged(coalesced, "the array is less than four times the L2");
  }
  const Interval writes = loss(pairs[true], n);
  run.report.judge(scattered, beats(), writes, "a word of its own sector " + slower(writes));
  const Interval reads = loss(pairs[false], n);
  if (reads.measured())
    run.report.finding("03.10", "reads lose " + factor_text(reads.value) + ", writes " +
                                    factor_text(writes.value));
  const Interval gbs = level(4.0 * double(n), 1e9, pairs[true].together);
  run.report.judge(coalesced, at_least(10), gbs, range_text(gbs, 0) + " GB/s", "GB/s");
}

size_t words_of(const Run& run) {
  return size_beyond_l2(run, "stores", size_t(1) << (run.quick ? 26 : 28), 4.0, Array::bytes_each);
}

}  // namespace

void stores(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("stores",
                   std::to_string(n) + " words of 4 bytes, " + bytes_text(4.0 * double(n)));
  store_segments(run);
  Pair pairs[2];
  measure(run, n, pairs);
  run.report.note("calibration: all words read, and all written");
  if (!run.device) run.report.left_out("the times of reads and writes");
  judge_writes(run, pairs, n);
  loads_after_stores(run);
}
