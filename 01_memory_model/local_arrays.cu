// local_arrays: which arrays of a thread live in registers, and which in local memory. The lecture
// says that an array always goes to local memory if its index is no constant [PR]. Look at the
// local bytes of each compiled kernel: small arrays now escape, larger ones with a run-time index
// do not, and very large ones do not even with constant indices. Then look at the time: the
// registers that constant indices need have their price too.
//   cmake -S 01_memory_model -B build/arrays -DEXPERIMENTS=local_arrays
//   cmake --build build/arrays && build/arrays/01_memory_model
//
//   1  count_by_comparing  counts in an array that is indexed by constants alone
//   2  count_by_index      1 with an index that is known at run time
//   3  look_up             an array filled by constant indices, then only read, by run-time ones
//   4  unused_arrays       the text's example, of which nothing is left
#include <algorithm>

#include "../common/report.hpp"

namespace {

constexpr int threads = 128;

// ---- kernels: thread i goes through the `length` words from word i on, and leaves one number in
// out[i]. A word says which of `size` elements is meant: the share that it has of 2^32, which is
// the upper half of a product. ----

// [by_comparing]
// Constant indices: every element is compared with every word. All of it is registers.
template <int size>
__global__ void count_by_comparing(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned count[size] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) {
    const unsigned found = __umulhi(words[i + step], size);
#pragma unroll
    for (int k = 0; k < size; ++k) count[k] += found == unsigned(k);
  }
  unsigned all = 0;  // one number that tells the counts apart
#pragma unroll
  for (int k = 0; k < size; ++k) all = all * 1000003u + count[k];
  out[i] = all;
}
// [/by_comparing]

// [by_index]
// The same counts by a run-time index: registers cannot be asked that way. In local memory the
// words of one element lie side by side for a warp's lanes; but the lanes want different elements,
// up to 32 lines of 128 bytes at a time, and what they write goes on to L2.
template <int size>
__global__ void count_by_index(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned count[size] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) ++count[__umulhi(words[i + step], size)];
  unsigned all = 0;
#pragma unroll
  for (int k = 0; k < size; ++k) all = all * 1000003u + count[k];
  out[i] = all;
}
// [/by_index]

// Filled once with constant indices, then only read, by a run-time index, as the text's second
// array is. What is read stays in L1, as far as that is large enough.
template <int size>
__global__ void look_up(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned value[size];
#pragma unroll
  for (int k = 0; k < size; ++k) value[k] = words[i + k];
  unsigned all = 0;
#pragma unroll 1
  for (int step = 0; step < length; ++step) all = all * 31 + value[__umulhi(words[i + step], size)];
  out[i] = all;
}

// What the text's example does: three arrays, two of them read, one by a run-time index, and
// nothing is ever used. (The text does not even fill them.) All of it is removed.
__global__ void unused_arrays(const int* in) {
  int small[4], other[4];
  [[maybe_unused]] int large[100], a, b;
  for (int k = 0; k < 4; ++k) small[k] = other[k] = in[k];
  for (int k = 0; k < 100; ++k) large[k] = in[k];
  a = small[0];
  b = other[in[threadIdx.x]];
}

// ---- the story in order ----

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

enum Way { comparing, by_index, read_only, ways };
const char* const way_names[ways] = {"constant index", "run-time index",
                                     "run-time index, only read"};

/// The kernels with an array of one size, by Way.
struct Arrays {
  int size;
  Kernel kernel[ways];
};
template <int size>
constexpr Arrays arrays_of{size, {count_by_comparing<size>, count_by_index<size>, look_up<size>}};

// 300 counts are more than the 255 registers that a thread can have
const std::vector<Arrays> all_arrays = {arrays_of<2>,  arrays_of<4>,   arrays_of<8>,  arrays_of<16>,
                                        arrays_of<32>, arrays_of<100>, arrays_of<300>};
constexpr int largest = 300;

// ---- what is right ----

/// Which of `size` elements a word stands for.
size_t element_of(unsigned word, int size) { return size_t(double(word) * size / 4294967296.0); }

/// One number for an array of counts: a polynomial in 1000003, modulo 2^32.
unsigned number_of(const std::vector<unsigned>& count) {
  unsigned number = 0, power = 1;
  for (size_t k = count.size(); k-- > 0; power *= 1000003u) number += count[k] * power;
  return number;
}

/// What every thread counts. From one to the next one word leaves the window and one enters.
std::vector<unsigned> expected_counts(const std::vector<unsigned>& words, size_t n, int length,
                                      int size) {
  std::vector<unsigned> count(size, 0), all(n);
  for (int step = 0; step < length; ++step) ++count[element_of(words[step], size)];
  for (size_t i = 0; i < n; ++i) {
    all[i] = number_of(count);
    if (i + 1 == n) break;
    --count[element_of(words[i], size)];
    ++count[element_of(words[i + length], size)];
  }
  return all;
}

std::vector<unsigned> expected_look_ups(const std::vector<unsigned>& words, size_t n, int length,
                                        int size) {
  std::vector<unsigned> all(n, 0);
  for (size_t i = 0; i < n; ++i)
    for (int step = 0; step < length; ++step)
      all[i] = all[i] * 31 + words[i + element_of(words[i + step], size)];
  return all;
}

/// n threads' words without pattern, and what the threads find; behind it stand canaries.
struct Work {
  static constexpr size_t canaries = 256;  ///< more than a block beyond the last thread would write

  size_t n;
  int length;
  std::vector<unsigned> words;
  std::vector<unsigned> counts, look_ups;  ///< of the arrays of one size
  DeviceBuffer<unsigned> in, out;

  Work(size_t n, int length)
      : n(n), length(length), words(n + std::max(length, largest) - 1), out(n + canaries) {
    unsigned state = 2463534242u;
    for (unsigned& word : words) {
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      word = state;
    }
    in = DeviceBuffer<unsigned>(words);
  }
  size_t wrong(const std::vector<unsigned>& right) const {
    const std::vector<unsigned> found = out.to_host();
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != (i < n ? right[i] : ~0u);
    return wrong;
  }
  Task task(const Arrays& arrays, Way way) {
    Check check;
    check.poison = [this] { out.poison(); };
    check.wrong = [this, way] { return wrong(way == read_only ? look_ups : counts); };
    const Kernel kernel = arrays.kernel[way];
    return {std::string(way_names[way]) + ", " + std::to_string(arrays.size),
            [this, kernel] {
              const unsigned blocks = unsigned((n + threads - 1) / threads);
              kernel<<<blocks, threads>>>(out.data(), in.data(), n, length);
            },
            std::move(check)};
  }
  /// All three ways; they are right until the tasks of another size are made.
  std::vector<Task> tasks(const Arrays& arrays) {
    counts = expected_counts(words, n, length, arrays.size);
    look_ups = expected_look_ups(words, n, length, arrays.size);
    std::vector<Task> all;
    for (const Way way : {comparing, by_index, read_only}) all.push_back(task(arrays, way));
    return all;
  }
};

// ---- what to expect ----

/// Bytes of local memory that an array takes if it lives there.
constexpr int array_bytes(int size) { return size * int(sizeof(unsigned)); }

/// How many of `size` elements so many lanes want that choose at random.
double different_elements(int size, int lanes) {
  return size * (1 - std::pow(1 - 1.0 / size, lanes));
}
/// Lines of 128 bytes that a warp's access touches: an element's words, one a lane, are a line.
double lines_an_access(int size) { return different_elements(size, 32); }
/// Sectors of 32 bytes: of each element's line four, for eight lanes each.
double sectors_an_access(int size) { return 4 * different_elements(size, 8); }

/// What the hardware is, and how much it is asked to do.
struct Load {
  double warps = 0;
  double steps = 0;  ///< of each: in one it accesses its array once
  double multiprocessors = 0, khz = 0;
  double threads_there = 0;  ///< on a multiprocessor
  double cache_bytes = 0;    ///< of a multiprocessor, for local memory
};

Load load_of(const Device& device, size_t n, int length) {
  const cudaDeviceProp& p = device.prop;
  Load load;
  load.warps = double(n) / 32;
  load.steps = length;
  load.multiprocessors = p.multiProcessorCount;
  load.khz = device.sm_clock_khz;
  load.threads_there = p.maxThreadsPerMultiProcessor;
  load.cache_bytes = double(p.sharedMemPerMultiprocessor);
  return load;
}

/// Share of the accesses that L1 cannot answer. (Its size is reported by no call; since Volta it is
/// a little more than all that can be shared memory.)
double missing_share(const Load& load, int size) {
  const double footprint = load.threads_there * array_bytes(size);
  return footprint > load.cache_bytes ? 1 - load.cache_bytes / footprint : 0;
}

/// Sectors between L1 and L2 for an array that is written all along: all of it is set once, some of
/// it at each step, and what L1 has lost until it is read again comes back.
double sectors_moved(const Load& load, int size) {
  const double stored = load.warps * (4 * size + load.steps * sectors_an_access(size));
  return stored * (1 + missing_share(load, size));
}

/// Measured in the same run.
struct Calibrated {
  double start_ms = NAN;    ///< with an array of no elements: the launch and the words
  double element_ms = NAN;  ///< for each element that is compared with each word
  double sector_ms = NAN;   ///< for each sector that is written to L2, or comes from there
};

/// From the constant indices of two sizes, and the run-time index of one.
Calibrated calibrated(double ms_2, double ms_32, double ms_by_index_16, const Load& load) {
  Calibrated c;
  c.element_ms = (ms_32 - ms_2) / 30;
  c.start_ms = ms_2 - 2 * c.element_ms;
  c.sector_ms = (ms_by_index_16 - c.start_ms) / sectors_moved(load, 16);
  return c;
}

/// In registers: a comparison and an addition for each element and word, or, of an array that is
/// only read, a selection. In local memory: the sectors that move; or, of an array that is only
/// read and in L1, two lines a cycle, as found on compute capability 9.0. Not a number: no model
/// covers it.
double predicted_ms(Way way, int size, bool in_registers, const Load& load, const Calibrated& c) {
  if (in_registers) return c.start_ms + size * c.element_ms * (way == read_only ? 0.5 : 1);
  if (way == by_index) return c.start_ms + sectors_moved(load, size) * c.sector_ms;
  if (way == comparing || missing_share(load, size) > 0.25 || load.khz == 0) return NAN;
  const double lines = load.warps * load.steps * lines_an_access(size);
  return c.start_ms + lines / 2 / load.multiprocessors / load.khz;
}

// ---- the experiment ----

template <class AnyKernel>
cudaFuncAttributes compiled(AnyKernel kernel) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes;
}

/// Times of all kernels: of each size those of the three ways.
std::vector<std::vector<Readings>> measure(const Run& run, Work& work) {
  std::vector<std::vector<Readings>> found;
  for (const Arrays& arrays : all_arrays) found.push_back(run.time_in_turn(work.tasks(arrays)));
  return found;
}

size_t place_of(int size) {
  for (size_t a = 0; a < all_arrays.size(); ++a)
    if (all_arrays[a].size == size) return a;
  throw std::logic_error("no arrays of " + std::to_string(size));
}

bool is_calibration(Way way, int size) {
  return (way == comparing && (size == 2 || size == 32)) || (way == by_index && size == 16);
}

struct ArrayTable {
  Table table;

  explicit ArrayTable(Report& report)
      : table(report, "array, elements",
              {predicted("array bytes", "array", "B", 0),
               counted("local bytes", "local memory a thread", "B", 0),
               counted("registers", "registers", "registers", 0), compared("ms", "time", "ms", 4),
               shown("spread"), shown("to constant index")}) {}
};

void show(const Run& run, const std::vector<std::vector<Readings>>& times_of, const Load& load) {
  const auto ms = [&](Way way, int size) { return times_of[place_of(size)][way].median(); };
  const Calibrated c = calibrated(ms(comparing, 2), ms(comparing, 32), ms(by_index, 16), load);
  ArrayTable rows(run.report);
  for (const Way way : {comparing, by_index, read_only})
    for (size_t a = 0; a < all_arrays.size(); ++a) {
      const int size = all_arrays[a].size;
      const cudaFuncAttributes code = compiled(all_arrays[a].kernel[way]);
      const Statistics found = times_of[a][way].statistics();
      const bool in_registers = code.localSizeBytes == 0;
      const Model on_9 = way == read_only ? Model::latency : Model::traffic;
      const Model model = run.device->prop.major == 9 ? on_9 : Model::host;
      Cell time = Compared{predicted_ms(way, size, in_registers, load, c), found, model};
      if (is_calibration(way, size)) time = Calibration{found};
      Cell slowdown;
      if (way == by_index) slowdown = times(found.median / times_of[a][comparing].median());
      rows.table.row({way_names[way], "elements", std::to_string(size)},
                     {double(array_bytes(size)), double(code.localSizeBytes), double(code.numRegs),
                      time, spread_text(found), slowdown});
    }
  const cudaFuncAttributes unused = compiled(unused_arrays);
  rows.table.row({"the text's example"}, {Cell(), double(unused.localSizeBytes),
                                          double(unused.numRegs), Cell(), Cell(), Cell()});
  rows.table.print();
  run.report.note("calibration: start and comparisons, a sector of local memory that is written");
  run.report.note(
      "the text's example uses nothing of what it reads: three arrays, 432 bytes, and "
      "nothing is left of them");
}

/// The sizes of one way whose kernel has no local memory.
std::vector<int> sizes_in_registers(Way way) {
  std::vector<int> sizes;
  for (const Arrays& arrays : all_arrays)
    if (compiled(arrays.kernel[way]).localSizeBytes == 0) sizes.push_back(arrays.size);
  return sizes;
}

std::string sizes_text(const std::vector<int>& sizes) {
  std::string text;
  for (const int size : sizes)
    text += (text.empty() ? "int[" : ", int[") + std::to_string(size) + "]";
  return text.empty() ? "none" : text;
}

void judge(const Run& run, const std::vector<int>& constant, const std::vector<int>& written,
           const std::vector<int>& read) {
  const Part part{"01.5", "arrays indexed by non-constants always live in local memory", "always",
                  "lecture"};
  if (!run.device) return run.report.not_judged(part, "no GPU");
  if (constant.empty())
    return run.report.not_judged(
        part, "constant indices are in local memory too: this build does not optimise");
  run.report.judge_fact(part, written.empty() && read.empty(),
                        "in registers of compute capability " + run.device->capability() + ": " +
                            sizes_text(written) + " (written), " + sizes_text(read) +
                            " (only read)");
}

void show_sizes(const Run& run) {
  Table table(run.report, "elements", {predicted("bytes if in local memory", "array", "B", 0)});
  for (const Arrays& arrays : all_arrays)
    table.row({"", "elements", std::to_string(arrays.size)}, {double(array_bytes(arrays.size))});
  table.print();
}

}  // namespace

void local_arrays(const Run& run) {
  const int length = run.quick ? 16 : 64;
  // as many as are there at once; 56 and 2048: a P100's
  const size_t n = run.device ? size_t(run.device->prop.multiProcessorCount) *
                                    run.device->prop.maxThreadsPerMultiProcessor
                              : 56 * 2048;
  run.report.begin("local_arrays", std::to_string(n) + " threads with an array each, " +
                                       std::to_string(length) + " run-time indices a thread, " +
                                       bytes_text(8.0 * double(n)));
  if (!run.device) {
    show_sizes(run);
    run.report.left_out("local bytes of the compiled kernels, their time");
    return judge(run, {}, {}, {});
  }
  Work work(n, length);
  show(run, measure(run, work), load_of(*run.device, n, length));
  judge(run, sizes_in_registers(comparing), sizes_in_registers(by_index),
        sizes_in_registers(read_only));
}
