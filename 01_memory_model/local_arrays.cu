// local_arrays: which arrays of a thread live in registers, and which in local memory. The lecture
// says that an array always goes to local memory if its index is no constant [PR]. Two things to
// look at:
//   - The local bytes of each compiled kernel. Small arrays now escape. Larger ones with a run-time
//     index do not, and very large ones do not even with constant indices.
//   - The time: the registers that constant indices need have their price, too.
//
//   cmake -S 01_memory_model -B build/arrays -DEXPERIMENTS=local_arrays
//   cmake --build build/arrays && build/arrays/01_memory_model
//
//   1  count_by_comparing  counts in an array that is indexed by constants alone
//   2  count_by_index      1 with an index that is known at run time
//   3  look_up             an array filled by constant indices, then only read, by run-time ones
//   4  unused_arrays       the text's example, of which nothing is left
#include <algorithm>

#include "../framework/common/checked.cuh"
#include "../framework/common/experiment.hpp"

using namespace samples;

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

// ---- the arrays ----

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

const char* const by_comparing = "count_by_comparing";
const char* const by_index = "count_by_index";
const char* const only_read = "look_up";

struct Way {
  const char *key, *words;
};
const Way ways[] = {{by_comparing, "constant index"},
                    {by_index, "run-time index"},
                    {only_read, "run-time index, only read"}};

/// The kernels with an array of one size, in the order of `ways`.
struct Arrays {
  int size;
  Kernel kernel[3];
};
template <int size>
constexpr Arrays arrays_of{size, {count_by_comparing<size>, count_by_index<size>, look_up<size>}};

// 300 counts are more than the 255 registers that a thread can have
const std::vector<Arrays> all_arrays = {arrays_of<2>,  arrays_of<4>,   arrays_of<8>,  arrays_of<16>,
                                        arrays_of<32>, arrays_of<100>, arrays_of<300>};
constexpr int largest = 300;

Kernel kernel_of(const Ref& ref) {
  for (const Arrays& arrays : all_arrays)
    if (arrays.size == int(ref.at)) return arrays.kernel[with_key(ways, ref) - ways];
  throw std::logic_error("no kernel is '" + text(ref) + "'");
}

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

/// What every thread finds.
std::vector<unsigned> expected(const Ref& ref, const std::vector<unsigned>& words, size_t n,
                               int length) {
  return (ref.key == only_read ? expected_look_ups : expected_counts)(words, n, length,
                                                                      int(ref.at));
}

struct Word {
  __device__ unsigned operator()(size_t i) const { return scrambled(i); }
};
struct IsRight {
  const unsigned* right;
  __device__ bool operator()(size_t i, unsigned found) const { return found == right[i]; }
};

/// n threads' words without pattern, and what the threads find.
struct Threads {
  size_t n;
  int length;
  DeviceBuffer<unsigned> words;
  Output<unsigned> out;

  Threads(size_t n, int length)
      : n(n),
        length(length),
        words(filled<unsigned>(n + std::max(length, largest) - 1, Word{})),
        out(n) {}
  size_t wrong(const Ref& ref) const {
    const DeviceBuffer<unsigned> right(expected(ref, words.to_host(), n, length));
    return out.wrong(IsRight{right.data()});
  }
};

Task task_of(const Ref& ref, const Shared<Threads>& t) {
  const Kernel kernel = kernel_of(ref);
  const auto launch = [t, kernel] {
    const unsigned blocks = unsigned((t->n + threads - 1) / threads);
    kernel<<<blocks, threads>>>(t->out.data(), t->words.data(), t->n, t->length);
  };
  return {text(ref), launch, {[t] { t->out.poison(); }, [t, ref] { return t->wrong(ref); }, ""}};
}

// ---- prediction ----

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
  c.element_ms = std::max(0.0, (ms_32 - ms_2) / 30);  // below zero it would be noise
  c.start_ms = ms_2 - 2 * c.element_ms;
  c.sector_ms = std::max(0.0, (ms_by_index_16 - c.start_ms) / sectors_moved(load, 16));
  return c;
}

/// In registers: a comparison and an addition for each element and word, or, of an array that is
/// only read, a selection. In local memory: the sectors that move; or, of an array that is only
/// read and in L1, two lines a cycle, as found on compute capability 9.0. Not a number: no model
/// covers it.
double predicted_ms(std::string_view way, int size, bool in_registers, const Load& load,
                    const Calibrated& c) {
  if (in_registers) return c.start_ms + size * c.element_ms * (way == only_read ? 0.5 : 1);
  if (way == by_index) return c.start_ms + sectors_moved(load, size) * c.sector_ms;
  if (way == by_comparing || missing_share(load, size) > 0.25 || load.khz == 0) return NAN;
  const double lines = load.warps * load.steps * lines_an_access(size);
  return c.start_ms + lines / 2 / load.multiprocessors / load.khz;
}

// ---- the experiment ----

const char* const local_memory = "local memory per thread";
const char* const registers_used = "registers";

template <class AnyKernel>
void ask_compiler(const Run& run, const Ref& ref, const Function<AnyKernel()>& kernel) {
  const auto attributes = [&] {
    cudaFuncAttributes a;
    CUDA_CHECK(cudaFuncGetAttributes(&a, kernel()));
    return a;
  };
  ask_for_table(run, ref, local_memory, "B",
                [&] { return single(double(attributes().localSizeBytes)); });
  ask_for_table(run, ref, registers_used, "registers",
                [&] { return single(double(attributes().numRegs)); });
}

double local_bytes(const Run& run, const Ref& ref) {
  return run.results->value(ref, local_memory).value.median;
}

bool is_calibration(const Ref& ref) {
  return (ref.key == by_comparing && (ref.at == 2 || ref.at == 32)) ||
         (ref.key == by_index && ref.at == 16);
}

/// As many threads as are there at once; 56 and 2048: a P100's.
size_t threads_of(const Run& run) {
  if (!run.device) return 56 * 2048;
  const cudaDeviceProp& p = run.device->prop;
  return size_t(p.multiProcessorCount) * p.maxThreadsPerMultiProcessor;
}

void run_local_arrays(const Run& run) {
  const int length = run.quick ? 16 : 64;
  const size_t n = threads_of(run);
  run.report.begin("local_arrays", std::to_string(n) + " threads with an array each, " +
                                       std::to_string(length) + " run-time indices per thread, " +
                                       bytes_text(8.0 * double(n)));

  const auto of_compiler = [&run](Column column) {
    const std::string metric = column.metric;
    return number(std::move(column), [&run, metric](const Row& row) {
      return run.results->value(row.ref, metric).value.median;
    });
  };
  const auto to_constant = [&run](const Row& row, const Statistics& ms) {
    const Ref constant(by_comparing, row.ref.at);
    return row.ref.key == by_index
               ? factor_text(ms.median / (*run.results)(constant).time.ms.median)
               : std::string("-");
  };
  Sheet sheet(run, "array, elements",
              {number(predicted("array bytes", "array", "B", 0),
                      [](const Row& row) { return double(array_bytes(int(row.ref.at))); }),
               of_compiler(counted("local bytes", local_memory, "B", 0)),
               of_compiler(counted("registers", registers_used, "registers", 0)),
               milliseconds(4),
               spread(),
               {shown("to constant index"), {}, {}, to_constant}},
              "elements");
  for (const Way& way : ways)
    for (const Arrays& arrays : all_arrays) {
      const Ref ref(way.key, arrays.size);
      ask_compiler<Kernel>(run, ref, [&] { return kernel_of(ref); });
      const Model on_9 = ref.key == only_read ? Model::latency : Model::traffic;
      sheet.add({.ref = ref,
                 .words = std::string(way.words) + ", " + std::to_string(arrays.size),
                 .calibrates = is_calibration(ref),
                 .model = run.device && run.device->prop.major == 9 ? on_9 : Model::host});
    }
  SharedByTasks memory([n, length] { return Threads(n, length); });
  sheet.measure(Timing::in_turn, [&](const Row& row) { return task_of(row.ref, memory()); });
  const Load load = run.device ? load_of(*run.device, n, length) : Load{};
  const Calibrated c = calibrated(sheet.ms({by_comparing, 2}), sheet.ms({by_comparing, 32}),
                                  sheet.ms({by_index, 16}), load);
  sheet.predict([&](const Row& row) {
    return predicted_ms(row.ref.key, int(row.ref.at), local_bytes(run, row.ref) == 0, load, c);
  });
  sheet.print({"constants: start and comparisons, a sector of local memory that is written"});

  ask_compiler<void (*)(const int*)>(run, "unused_arrays", [] { return unused_arrays; });
  Table unused(run.report, "three arrays of which nothing is used, 432 bytes",
               {counted("local bytes", local_memory, "B", 0),
                counted("registers", registers_used, "registers", 0)});
  unused.row({"unused_arrays", "", "", "the text's example"},
             {local_bytes(run, "unused_arrays"),
              run.results->value("unused_arrays", registers_used).value.median});
  unused.print();
}

// ---- claims ----

/// The sizes of one way whose kernel has no local memory: "int[2], int[4]", or "none".
std::string in_registers(const Run& run, const char* way) {
  std::string sizes;
  for (const Arrays& arrays : all_arrays)
    if (local_bytes(run, {way, double(arrays.size)}) == 0)
      sizes += (sizes.empty() ? "int[" : ", int[") + std::to_string(arrays.size) + "]";
  return sizes.empty() ? "none" : sizes;
}

std::vector<Claim> claims(const Run& run) {
  const std::string constant = in_registers(run, by_comparing);
  const std::string written = in_registers(run, by_index), read = in_registers(run, only_read);
  Claim always{.part = {"01.5", "arrays indexed by non-constants always live in local memory",
                        "always", "lecture"}};
  if (!run.device) {
    always.unless = "no GPU";
  } else if (constant == "none") {
    always.unless = "constant indices are in local memory, too: this build does not optimise";
  } else {
    always.fact = written == "none" && read == "none" ? Fact::so : Fact::not_so;
    always.here = "in registers of compute capability " + run.device->capability() + ": " +
                  written + " (written), " + read + " (only read)";
  }
  return {always};
}

// ---- what it declares ----

/// The arrays themselves lie beside them: the driver keeps local memory for all threads that can
/// reside.
Needs needs(const Run& run) {
  return {.allocated = double(threads_of(run)) * (8 + 1.2 * array_bytes(largest))};
}

/// Arrays of 100 and more have checks of their own: their local memory is large.
std::vector<Checked> tasks(size_t n) {
  const Shared memory(Threads(n, 37));
  std::vector<Checked> all;
  for (const Way& way : ways)
    for (const Arrays& arrays : all_arrays)
      if (arrays.size < 100)
        all.push_back({.task = task_of({way.key, double(arrays.size)}, memory),
                       .elements = n,
                       .change_one = [memory, n] { memory->out.change(n - 1); }});
  return all;
}

}  // namespace

extern const Experiment local_arrays_experiment{
    .name = "local_arrays",
    .about = "which arrays live in local memory",
    .run = run_local_arrays,
    .claims = claims,
    .needs = needs,
    .tasks = tasks,
};
