// symbols: a __device__ variable lives on the device. On the host its name is a symbol, a key that
// the runtime looks up; &name is the address of something else, and the wiki warns of the copy that
// takes it [LC 4]. Four things to look at:
//   - What each way of reaching the variable returns.
//   - What the copy to &name does.
//   - Which variables outlive the kernel that changed them.
//   - A static array beside one from cudaMalloc [PR].
//
//   cmake -S 01_memory_model -B build/symbols -DEXPERIMENTS=symbols
//   cmake --build build/symbols && build/symbols/01_memory_model
//
//   1  add_by_one_thread  a __device__ variable, changed by one thread
//   2  add_by_atomics     by all threads, without a race
//   3  count_steps        counters in a thread's, in a block's and in __device__ memory
//   4  change_static      a __device__ array, by its name
//   5  change_dynamic     an array from cudaMalloc, by a pointer
#include <algorithm>

#include "../framework/common/experiment.hpp"

using namespace samples;

namespace {

// ---- kernels ----

// [one_thread]
__device__ float device_value;  // no kernel owns it: it lives as long as the program

// One thread of the grid adds. (Were all threads to run `device_value += amount` at once, as in the
// text, they would race: each reads, adds and writes, and any number of the writes may be lost.)
__global__ void add_by_one_thread(float amount) {
  if (blockIdx.x == 0 && threadIdx.x == 0) device_value += amount;
}
// [/one_thread]

// All lanes of all warps add to one word. An atomic's reading, adding and writing cannot be torn
// apart: no addition is lost.
__global__ void add_by_atomics(float amount) { atomicAdd(&device_value, amount); }

__device__ unsigned grid_count;  // set by the host before the first launch, and then by no one

/// What one thread found in its block's counter and in its own.
struct Counts {
  unsigned in_block, in_thread;
};

// [count_steps]
// Each thread counts its steps three times over: in a variable of its own, in one that its block
// shares, in one that the whole program shares. The first two have no value until the kernel gives
// them one; the third keeps its value.
__global__ void count_steps(Counts* counts, unsigned steps) {
  __shared__ unsigned in_block;
  unsigned in_thread = 0;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  for (unsigned i = 0; i < steps; ++i) {
    ++in_thread;
    atomicAdd(&in_block, 1u);
    atomicAdd(&grid_count, 1u);
  }
  __syncthreads();
  counts[blockIdx.x * size_t(blockDim.x) + threadIdx.x] = {in_block, in_thread};
}
// [/count_steps]

constexpr unsigned array_words = 1024;          // as in the text
__device__ unsigned static_array[array_words];  // its size is known when the program is compiled

// A warp reads and writes 32 neighbouring words. The kernel names the array: it needs no pointer.
__global__ void change_static(unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) static_array[i] = 3 * static_array[i] + i;
}

// The same of whatever array it is given.
__global__ void change_dynamic(unsigned* array, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) array[i] = 3 * array[i] + i;
}

// ---- what is right ----

/// `value` after `count` additions, each rounded: as the amounts are equal, the order of the
/// threads makes no difference.
float after_adding(float value, float amount, unsigned count) {
  for (unsigned i = 0; i < count; ++i) value += amount;
  return value;
}

/// What count_steps leaves behind: the counters of a block and of a thread begin anew, the grid's
/// goes on.
struct Launch {
  unsigned blocks, threads, steps;
  unsigned in_thread() const { return steps; }
  unsigned in_block() const { return threads * steps; }
  unsigned in_grid(unsigned launches) const { return launches * blocks * threads * steps; }
};

bool all_begin_anew(const std::vector<Counts>& counts, const Launch& launch) {
  for (const Counts& c : counts)
    if (c.in_block != launch.in_block() || c.in_thread != launch.in_thread()) return false;
  return !counts.empty();
}

/// Word i of an array, before it is changed.
unsigned written(unsigned i) { return i * 2654435761u + 97; }

/// How many of an array's words are as they must be: the first n changed, the others as written.
size_t words_right(const std::vector<unsigned>& array, unsigned n) {
  size_t right = 0;
  for (unsigned i = 0; i < array.size(); ++i) {
    const unsigned before = written(i);
    right += array[i] == (i < n ? before + before + before + i : before);
  }
  return right;
}

// ---- the ways to reach the variable ----

// [by_symbol]
void write_symbol(float value) {
  CUDA_CHECK(cudaMemcpyToSymbol(device_value, &value, sizeof value));  // the name, not its address
}

float* symbol_address() {
  void* address = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress(&address, device_value));
  return static_cast<float*>(address);  // of the device: for cudaMemcpy, or for a kernel
}
// [/by_symbol]

float read_symbol() {
  float value = NAN;
  CUDA_CHECK(cudaMemcpyFromSymbol(&value, device_value, sizeof value));
  return value;
}

/// The host variable that stands behind the name. The compiler makes one so that the name can be
/// looked up by its address.
volatile float* host_variable() { return &device_value; }

/// The copy that the text warns of, made on purpose: its error, taken and cleared, and what it left
/// in both variables.
struct WrongCopy {
  cudaError_t code = cudaSuccess;
  float on_device = NAN, on_host = NAN;
};

WrongCopy copy_to_address_of_name(float value) {
  const cudaError_t code = cudaMemcpy(&device_value, &value, sizeof value, cudaMemcpyHostToDevice);
  cudaGetLastError();  // cleared: the next check must not find it
  return {code, read_symbol(), *host_variable()};
}

// ---- a static and a dynamic array ----

std::vector<unsigned> written_array() {
  std::vector<unsigned> words(array_words);
  for (unsigned i = 0; i < array_words; ++i) words[i] = written(i);
  return words;
}

/// The static array after its first n words were changed. It is written in two parts: the second
/// copy begins at an offset, which counts in bytes.
std::vector<unsigned> changed_static(unsigned n) {
  const std::vector<unsigned> words = written_array();
  constexpr size_t half = sizeof(unsigned) * array_words / 2;
  CUDA_CHECK(cudaMemcpyToSymbol(static_array, words.data(), half));
  CUDA_CHECK(cudaMemcpyToSymbol(static_array, words.data() + array_words / 2, half, half));
  change_static<<<(array_words + 255) / 256, 256>>>(n);
  CUDA_CHECK_LAUNCH();
  std::vector<unsigned> found(array_words, 0);
  CUDA_CHECK(cudaMemcpyFromSymbol(found.data(), static_array, 2 * half));
  return found;
}

/// The same of an array from cudaMalloc.
std::vector<unsigned> changed_dynamic(unsigned n) {
  const DeviceBuffer<unsigned> array(written_array());
  change_dynamic<<<(array_words + 255) / 256, 256>>>(array.data(), n);
  CUDA_CHECK_LAUNCH();
  return array.to_host();
}

// ---- what the steps leave ----

constexpr unsigned threads = 64;  // as in the text
constexpr float first = 3.25f, amount = 2.0f, second = 2.75f, wrong = 9.5f;
constexpr Launch counting{3, threads, 5};
constexpr unsigned launches = 3;

/// A step, and what is on the device after it.
struct Step {
  const char *key, *words;
  float expected;
};
std::vector<Step> all_steps() {
  const float by_one = after_adding(first, amount, 1);
  return {{"write_symbol", "cudaMemcpyToSymbol", first},
          {"add_by_one_thread", "kernel, one thread adds 2", by_one},
          {"add_by_atomics", "kernel, 64 threads add 2 by atomics",
           after_adding(by_one, amount, threads)},
          {"write_by_address", "cudaGetSymbolAddress, cudaMemcpy", second},
          {"copy_to_name", "wrong: cudaMemcpy to &name", second}};
}

/// The variable after each of the steps, and the copy that is the last of them.
struct Reached {
  std::vector<float> values;
  WrongCopy copy;
};

Reached reach_the_variable() {
  Reached found;
  const auto done = [&] { found.values.push_back(read_symbol()); };
  write_symbol(first);
  done();
  add_by_one_thread<<<1, threads>>>(amount);
  CUDA_CHECK_LAUNCH();
  done();
  add_by_atomics<<<1, threads>>>(amount);
  CUDA_CHECK_LAUNCH();
  done();
  CUDA_CHECK(cudaMemcpy(symbol_address(), &second, sizeof second, cudaMemcpyHostToDevice));
  done();
  found.copy = copy_to_address_of_name(wrong);
  found.values.push_back(found.copy.on_device);
  const std::vector<Step> steps = all_steps();
  for (size_t i = 0; i + 1 < steps.size(); ++i)  // of the last one nobody knows
    require_right(found.values[i] == steps[i].expected, steps[i].words);
  return found;
}

/// The grid's counter after each launch of the same kernel, and the first thread's others.
struct Counted {
  std::vector<unsigned> in_grid, in_block, in_thread;
};

Counted count_launches() {
  const unsigned none = 0;
  CUDA_CHECK(cudaMemcpyToSymbol(grid_count, &none, sizeof none));
  DeviceBuffer<Counts> buffer(counting.blocks * counting.threads);
  Counted found;
  for (unsigned i = 1; i <= launches; ++i) {
    buffer.poison();
    count_steps<<<counting.blocks, counting.threads>>>(buffer.data(), counting.steps);
    CUDA_CHECK_LAUNCH();
    unsigned total = 0;
    CUDA_CHECK(cudaMemcpyFromSymbol(&total, grid_count, sizeof total));
    const std::vector<Counts> counts = buffer.to_host();
    require_right(total == counting.in_grid(i) && all_begin_anew(counts, counting), "count_steps");
    found.in_grid.push_back(total);
    found.in_block.push_back(counts[0].in_block);
    found.in_thread.push_back(counts[0].in_thread);
  }
  return found;
}

// ---- the experiment ----

void show_steps(const Run& run) {
  Once<Reached> found{reach_the_variable};
  const double code = ask(run, "copy_to_name", "error code", "", [&] {
                        return single(double(found().copy.code));
                      }).median;
  Table table(run.report, "step",
              {shown("returns"), counted("on the device", "device value", "", 2),
               predicted("expected", "device value", "", 2)});
  const std::vector<Step> steps = all_steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Statistics value = ask_for_table(run, steps[i].key, "device value", "",
                                           [&] { return single(found().values[i]); });
    const bool last = i + 1 == steps.size();  // anything but success has thrown before
    const bool known = run.device && !(last && std::isnan(code));
    const cudaError_t returned = last && known ? cudaError_t(int(code)) : cudaSuccess;
    table.row({steps[i].key, "", "", steps[i].words},
              {known ? Cell(cudaGetErrorName(returned)) : Cell{}, value.median,
               double(steps[i].expected)});
  }
  table.print();
  ask(run, "copy_to_name", "host value", "", [&] { return single(found().copy.on_host); });
}

/// Three launches of the same kernel: which counters go on?
void show_counters(const Run& run) {
  Once<Counted> found{count_launches};
  Table table(run.report, "a counter in",
              {counted("__device__", "grid counter", "", 0),
               predicted("__device__, expected", "grid counter", "", 0),
               counted("__shared__", "block counter", "", 0),
               predicted("__shared__, expected", "block counter", "", 0),
               counted("a thread's variable", "thread counter", "", 0),
               predicted("thread's, expected", "thread counter", "", 0)});
  for (unsigned i = 1; i <= launches; ++i) {
    const Ref row("count_steps", i);
    const auto of = [&](const char* metric, std::vector<unsigned> Counted::*which) {
      return ask_for_table(run, row, metric, "", [&] { return single((found().*which)[i - 1]); })
          .median;
    };
    table.row({row.key, "launch", at_text(row), "after launch " + at_text(row)},
              {of("grid counter", &Counted::in_grid), double(counting.in_grid(i)),
               of("block counter", &Counted::in_block), double(counting.in_block()),
               of("thread counter", &Counted::in_thread), double(counting.in_thread())});
  }
  table.print();
  run.report.note(
      "only the __device__ variable outlives its kernel; a block's and a thread's must "
      "be set before they are read");
}

void show_arrays(const Run& run) {
  Table table(
      run.report, "an array of 1024 words",
      {shown("size known"), shown("the host writes by"), shown("a kernel gets it by"),
       counted("words right", "words right", "", 0), predicted("of", "words right", "", 0)});
  const auto row = [&](const char* key, const char* words, const char* known, const char* by,
                       const char* kernel, std::vector<unsigned> (*changed)(unsigned)) {
    const Statistics right = ask_for_table(run, key, "words right", "", [&] {
      const size_t n = words_right(changed(array_words), array_words);
      require_right(n == array_words, words);
      return single(double(n));
    });
    table.row({key, "", "", words}, {known, by, kernel, right.median, double(array_words)});
  };
  row("change_static", "static: __device__", "when compiled", "cudaMemcpyToSymbol", "its name",
      changed_static);
  row("change_dynamic", "dynamic: cudaMalloc", "when run", "cudaMemcpy", "a pointer",
      changed_dynamic);
  table.print();
}

void run_symbols(const Run& run) {
  run.report.begin("symbols",
                   "one float on the device, reached in four ways, and once wrongly; an array of "
                   "1024 words, 4 KiB; kernels of 64 threads");
  show_steps(run);
  show_counters(run);
  show_arrays(run);
  if (!run.device) run.report.left_out("what the copies return and leave behind");
}

// ---- claims ----

std::vector<Claim> claims(const Run& run) {
  const auto asked = [&](const char* metric) {
    return run.results->value("copy_to_name", metric).value.median;
  };
  Claim copy{.part = {"01.8",
                      "the address of a device variable's name is not the variable's: the copy is "
                      "wrong",
                      "", "wiki"}};
  if (!run.device) {
    copy.unless = "no GPU";
    return {copy};
  }
  const bool unchanged = asked("device value") == double(second);
  const double code = asked("error code");
  if (!std::isnan(code)) copy.here = std::string(cudaGetErrorName(cudaError_t(int(code)))) + ", ";
  if (code == double(cudaSuccess))
    copy.here += asked("host value") == double(wrong) ? "but it wrote a host variable, "
                                                      : "but it wrote elsewhere, ";
  copy.here += unchanged ? "the device value is unchanged" : "the device value is changed";
  copy.fact = unchanged ? Fact::so : Fact::not_so;
  return {copy};
}

Needs needs(const Run&) { return {.allocated = sizeof(unsigned) * array_words}; }

}  // namespace

extern const Experiment symbols_experiment{
    .name = "symbols",
    .about = "variables on the device, and the address that the host cannot take",
    .run = run_symbols,
    .claims = claims,
    .needs = needs,
};
