// stores: a reader of the study asks whether the rules of reading hold for writing, too. Its author
// answers that writes have "the same problems", and that coalesced writes reach tens of GB/s [BW].
// Two things to look at:
//   - Words that stand a stride apart, read and written. The sectors are the same; the time is not.
//   - Stride 2. A sector that is written in part has to be completed before it can go to memory.
//
//   cmake -S 03_access_patterns -B build/stores -DEXPERIMENTS=stores
//   cmake --build build/stores && build/stores/03_access_patterns
//
//   1  write_strided  a warp writes 32 words that stand `stride` words apart
//   2  read_strided   a warp reads 32 such words
// stores_segments.cu: stores of one, two and four segments [LC 3]. stores_in_l1.cu: what a load
// finds in L1 after a store [LC 3].
#include "stores.hpp"

#include "../framework/common/checked.cuh"
#include "sizes.hpp"
#include "transactions.hpp"

using namespace samples;

namespace {

// ---- kernels: every stride-th of the array's n words ----

constexpr unsigned block_threads = 256;
constexpr unsigned words_per_thread = 8;  // or starting threads would limit the rate

// [write_strided]
// A warp writes 32 words. From stride 2 on it leaves gaps in each sector. From stride 8 on each
// lane has a sector of its own.
__global__ void write_strided(unsigned* out, size_t n, unsigned stride) {
#pragma unroll
  for (unsigned k = 0; k < words_per_thread; ++k) {
    const size_t word = (blockIdx.x * size_t(words_per_thread) + k) * block_threads + threadIdx.x;
    const size_t i = word * stride;
    if (i < n) out[i] = stored_word(i);
  }
}
// [/write_strided]

// A warp reads 32 such words; eight loads per thread are in flight at once. The sum has to be used,
// or the compiler leaves the loads out. But storing it would add a stream of writes. So a thread
// stores its sum only if that has none of the bits of `silent`: always when the result is checked
// (no bits), next to never when it is timed (all bits).
__global__ void read_strided(unsigned* sums, const unsigned* in, size_t n, unsigned stride,
                             unsigned silent) {
  unsigned value[words_per_thread] = {};
#pragma unroll
  for (unsigned k = 0; k < words_per_thread; ++k) {
    const size_t word = (blockIdx.x * size_t(words_per_thread) + k) * block_threads + threadIdx.x;
    const size_t i = word * stride;
    if (i < n) value[k] = in[i];
  }
  unsigned sum = 0;
#pragma unroll
  for (unsigned k = 0; k < words_per_thread; ++k) sum += value[k];
  if ((sum & silent) == 0) sums[blockIdx.x * size_t(block_threads) + threadIdx.x] = sum;
}

// ---- the rows ----

constexpr unsigned strides[] = {1, 2, 4, 8, 16, 32};
constexpr unsigned lone = 8;  // from here on each lane has a sector of its own

/// Every stride-th word of an array, written or read.
struct Access {
  bool write;
  unsigned stride;

  Ref ref() const {
    return {write ? name_of<write_strided>() : name_of<read_strided>(), double(stride)};
  }
  size_t words(size_t n) const { return (n + stride - 1) / stride; }
  unsigned blocks(size_t n) const {
    constexpr size_t each = words_per_thread * block_threads;
    return unsigned((words(n) + each - 1) / each);
  }
};
Access access_of(const Row& row) {
  return {row.ref.key == name_of<write_strided>(), unsigned(row.ref.at)};
}

// ---- what is right: from words to threads, where the kernels go from threads to words ----

struct Input {
  __device__ unsigned operator()(size_t i) const { return stored_word(i); }
};
/// The words between stay poisoned.
struct IsWritten {
  unsigned stride;
  __device__ bool operator()(size_t i, unsigned found) const {
    return found == (i % stride == 0 ? stored_word(i) : ~0u);
  }
};

/// Adds each word that has to be read to the sum of the thread that has to read it.
__global__ void add_to_readers(unsigned* sums, size_t n, unsigned stride) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    if (i % stride != 0) continue;
    const size_t word = i / stride;
    const size_t block = word / (words_per_thread * block_threads);
    atomicAdd(&sums[block * block_threads + word % block_threads], stored_word(i));
  }
}
/// A thread has its sum. Threads that a wide stride leaves without words store none.
struct IsSum {
  const unsigned* right;
  size_t readers;
  __device__ bool operator()(size_t t, unsigned found) const {
    return found == (t < readers ? right[t] : ~0u);
  }
};

/// An array that is written or read, and the sums of its readers.
struct Array {
  static constexpr double bytes_each = 4 + 2 * 4.0 / words_per_thread;  ///< of a word, in memory

  explicit Array(size_t n)
      : n(n), array(n), sums(readers({false, 1})), right_sums(readers({false, 1})) {}
  size_t readers(Access a) const { return a.blocks(n) * size_t(block_threads); }

  void launch(Access a) {
    if (a.write)
      write_strided<<<a.blocks(n), block_threads>>>(array.data(), n, a.stride);
    else
      read_strided<<<a.blocks(n), block_threads>>>(sums.data(), array.data(), n, a.stride, silent);
  }
  void poison(Access a) {
    if (a.write) return array.poison();
    fill_kernel<<<1024, 256>>>(array.data(), n, Input{});
    CUDA_CHECK(cudaMemset(right_sums.data(), 0, right_sums.bytes()));
    add_to_readers<<<1024, 256>>>(right_sums.data(), n, a.stride);
    CUDA_CHECK_LAUNCH();
    sums.poison();
    silent = 0;
  }
  size_t wrong(Access a) {
    if (a.write) return array.wrong(IsWritten{a.stride});
    silent = ~0u;
    return sums.wrong(IsSum{right_sums.data(), readers(a)});
  }

  size_t n;
  Output<unsigned> array, sums;
  DeviceBuffer<unsigned> right_sums;
  unsigned silent = ~0u;  ///< of kernel 2
};

Task task_of(const Shared<Array>& array, Access a) {
  return {text(a.ref()),
          [array, a] { array->launch(a); },
          {[array, a] { array->poison(a); }, [array, a] { return array->wrong(a); }, ""}};
}

// ---- prediction ----

Warp warp_at(unsigned stride) {
  return warp_of(4, [=](unsigned lane) { return lane * stride; });
}

/// Of the array's bytes, those in aligned pieces of `piece` bytes in which a word is touched.
double touched_share(unsigned stride, unsigned piece) {
  return std::min(1.0, double(piece) / (4.0 * stride));
}

/// Measured in the same run at stride 1, the whole array; milliseconds.
struct Calibrated {
  double read = NAN, write = NAN;
};

/// Bytes over bandwidth. Reads fetch 64 bytes at a time. What is written goes to memory by sectors.
/// Of sectors that are written in part the line of 128 bytes is read first.
double predicted_ms(Access a, const Calibrated& c) {
  if (!a.write) return c.read * touched_share(a.stride, memory_piece);
  const double completed = a.stride > 1 ? c.read * touched_share(a.stride, 128) : 0;
  return completed + c.write * touched_share(a.stride, 32);
}

// ---- the experiment ----

size_t words_of(const Run& run) {
  return size_beyond_l2(run, "stores", size_t(1) << (run.quick ? 26 : 28), 4, Array::bytes_each);
}

/// The row's rate as a share of the same access's at stride 1.
double share_of_dense(const Run& run, const Row& row, const Statistics& ms) {
  const Measured& dense = (*run.results)({row.ref.key, 1});
  return gbs_of(row, ms.median) / (dense.bytes * 1e-6 / dense.time.ms.median);
}

void run_stores(const Run& run) {
  const size_t n = words_of(run);
  run.report.begin("stores",
                   std::to_string(n) + " words of 4 bytes, " + bytes_text(4.0 * double(n)));
  store_segments(run);

  SharedByTasks array([n] { return Array(n); });
  Sheet sheet(run, "stride, words",
              {number(predicted("sectors/request", "sectors a request", "", 0),
                      [](const Row& row) { return sectors(warp_at(access_of(row).stride)); }),
               milliseconds(4),
               spread(),
               in_unit(measured("GB/s", "bandwidth", "GB/s", 0), gbs_of),
               {shown("of stride 1"),
                {},
                {},
                [&run](const Row& row, const Statistics& ms) {
                  return percent(share_of_dense(run, row, ms));
                }},
               {shown(""), {}, {}, [&run](const Row& row, const Statistics& ms) {
                  return bar(share_of_dense(run, row, ms));
                }}});
  for (const bool write : {false, true})
    for (const unsigned stride : strides) {
      if (run.quick && stride > lone) continue;
      const Access a{write, stride};
      sheet.add({.ref = a.ref(),
                 .words = (write ? "written, " : "read, ") + std::to_string(stride),
                 .bytes = 4.0 * double(a.words(n)),
                 .calibrates = stride == 1,
                 .model = model_found_on_9(run)});
    }
  sheet.measure(Timing::in_turn, [&](const Row& row) { return task_of(array(), access_of(row)); });
  const Calibrated c{sheet.ms(Access{false, 1}.ref()), sheet.ms(Access{true, 1}.ref())};
  sheet.predict([&](const Row& row) { return predicted_ms(access_of(row), c); });
  sheet.print();
  loads_after_stores(run);
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const double n = double(words_of(run));
  const bool in_cache = run.device && !beyond_l2(*run.device, 4 * n);
  const std::string unless = in_cache ? "the array is less than four times the L2" : "";
  const auto scattered = [](bool write) {
    return Comparison{
        .slow = Access{write, lone}.ref(), .fast = Access{write, 1}.ref(), .per_byte = true};
  };
  std::vector<Claim> all = segment_claims(run);
  all.push_back({.part = {"03.10a", "scattered writes lose against coalesced ones, as reads do",
                          "the same problems, no figure", "8800 GTX"},
                 .rule = beats(),
                 .pairs = {scattered(true)},
                 .unless = unless,
                 .found = {scattered(false)}});
  all.push_back(
      {.part = {"03.10b", "coalesced writes reach tens of GB/s", "tens of GB/s", "8800 GTX", g80},
       .rule = at_least(10),
       .levels = {{.ref = Access{true, 1}.ref(),
                   .metric = "written",
                   .of_ms = [n](double ms) { return 4e-6 * n / ms; },
                   .unit = "GB/s"}},
       .unless = unless});
  all.push_back(stores_in_l1_claim(run));
  return all;
}

// ---- what it declares ----

Needs needs(const Run& run) {
  const double n = double(words_of(run));
  const Needs segments = segment_needs(run);
  return {.allocated = std::max(Array::bytes_each * n, segments.allocated),
          .touched = std::min(4 * n, segments.touched)};
}

std::vector<Checked> tasks(size_t n) {
  std::vector<Checked> all = segment_tasks(n);
  for (const unsigned stride : {1u, 2u, 7u, 8u, 32u, 33u})
    for (const bool write : {false, true}) {
      const Shared array(Array{n});
      const Access a{write, stride};
      all.push_back(
          {.task = task_of(array, a),
           .elements = write ? a.words(n) : array->readers(a),
           .change_one = [array, write] { (write ? array->array : array->sums).change(0); }});
    }
  return all;
}

std::vector<CountedLaunch> counted() {
  constexpr size_t n = 1 << 18;
  std::vector<CountedLaunch> all = counted_segments();
  for (const unsigned stride : strides)
    for (const bool write : {true, false}) {
      const Access a{write, stride};
      const double requests = double(a.words(n)) / 32;
      const Requested touched{requests, requests * sectors(warp_at(stride))};
      all.push_back(counted_launch(a.ref().key, "stride " + std::to_string(stride),
                                   write ? Requested{} : touched, write ? touched : Requested{},
                                   [a] { return task_of(Shared(Array(n)), a); }));
    }
  return all;
}

}  // namespace

extern const Experiment stores_experiment{
    .name = "stores",
    .about = "stores of one, two and four segments, coalesced and strided",
    .run = run_stores,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
    .counted = counted};
