// symbols: a __device__ variable lives on the device. On the host its name is a symbol, a key that
// the runtime looks up; &name is the address of something else, and the wiki warns of the copy that
// takes it [LC 4]. Look at what each way of reaching the variable returns, at what that copy does,
// at which variables outlive the kernel that changed them, and at a static array beside one from
// cudaMalloc [PR].
//   cmake -S 01_memory_model -B build/symbols -DEXPERIMENTS=symbols
//   cmake --build build/symbols && build/symbols/01_memory_model
//
//   1  add_by_one_thread  a __device__ variable, changed by one thread
//   2  add_by_atomics     by all threads, without a race
//   3  count_steps        counters in a thread's, in a block's and in __device__ memory
//   4  change_static      a __device__ array, by its name
//   5  change_dynamic     an array from cudaMalloc, by a pointer
#include <algorithm>

#include "../common/report.hpp"

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

// ---- the experiment ----

constexpr unsigned threads = 64;  // as in the text
constexpr float first = 3.25f, amount = 2.0f, second = 2.75f, wrong = 9.5f;

/// One step after the other: what each returns, and what is then on the device.
struct Steps {
  const Run& run;
  Table table;

  explicit Steps(const Run& run)
      : run(run),
        table(run.report, "step",
              {shown("returns"), counted("on the device", "device value", "", 2),
               predicted("expected", "device value", "", 2)}) {}

  void add(const std::string& name, cudaError_t code, float expected) {
    if (!run.device) return table.row({name}, {Cell{}, Cell{}, double(expected)});
    table.row({name}, {cudaGetErrorName(code), double(read_symbol()), double(expected)});
  }
  /// Of a step that is right: anything but success has thrown.
  void add_right(const std::string& name, float expected) {
    if (run.device) require_right(read_symbol() == expected, name);
    add(name, cudaSuccess, expected);
  }
};

WrongCopy reach_the_variable(const Run& run) {
  const float by_one = after_adding(first, amount, 1);
  const float by_all = after_adding(by_one, amount, threads);
  Steps steps(run);
  if (run.device) write_symbol(first);
  steps.add_right("cudaMemcpyToSymbol", first);

  if (run.device) {
    add_by_one_thread<<<1, threads>>>(amount);
    CUDA_CHECK_LAUNCH();
  }
  steps.add_right("kernel, one thread adds 2", by_one);

  if (run.device) {
    add_by_atomics<<<1, threads>>>(amount);
    CUDA_CHECK_LAUNCH();
  }
  steps.add_right("kernel, 64 threads add 2 by atomics", by_all);

  if (run.device)
    CUDA_CHECK(cudaMemcpy(symbol_address(), &second, sizeof second, cudaMemcpyHostToDevice));
  steps.add_right("cudaGetSymbolAddress, cudaMemcpy", second);

  WrongCopy copy;
  if (run.device) copy = copy_to_address_of_name(wrong);
  steps.add("wrong: cudaMemcpy to &name", copy.code, second);
  steps.table.print();
  return copy;
}

/// Three launches of the same kernel: which counters go on?
void count_launches(const Run& run) {
  const Launch launch{3, threads, 5};
  Table lives(run.report, "a counter in",
              {counted("__device__", "grid counter", "", 0),
               predicted("__device__, expected", "grid counter", "", 0),
               counted("__shared__", "block counter", "", 0),
               predicted("__shared__, expected", "block counter", "", 0),
               counted("a thread's variable", "thread counter", "", 0),
               predicted("thread's, expected", "thread counter", "", 0)});
  const unsigned none = 0;
  if (run.device) CUDA_CHECK(cudaMemcpyToSymbol(grid_count, &none, sizeof none));
  DeviceBuffer<Counts> buffer(run.device ? launch.blocks * launch.threads : 0);
  for (unsigned i = 1; i <= 3; ++i) {
    Cell in_grid, in_block, in_thread;
    if (run.device) {
      buffer.poison();
      count_steps<<<launch.blocks, launch.threads>>>(buffer.data(), launch.steps);
      CUDA_CHECK_LAUNCH();
      unsigned total = 0;
      CUDA_CHECK(cudaMemcpyFromSymbol(&total, grid_count, sizeof total));
      const std::vector<Counts> counts = buffer.to_host();
      require_right(total == launch.in_grid(i) && all_begin_anew(counts, launch), "count_steps");
      in_grid = double(total);
      in_block = double(counts[0].in_block);
      in_thread = double(counts[0].in_thread);
    }
    lives.row({"after launch", "launch", std::to_string(i)},
              {in_grid, double(launch.in_grid(i)), in_block, double(launch.in_block()), in_thread,
               double(launch.in_thread())});
  }
  lives.print();
  run.report.note(
      "only the __device__ variable outlives its kernel; a block's and a thread's must "
      "be set before they are read");
}

void compare_arrays(const Run& run) {
  Table table(
      run.report, "an array of 1024 words",
      {shown("size known"), shown("the host writes by"), shown("a kernel gets it by"),
       counted("words right", "words right", "", 0), predicted("of", "words right", "", 0)});
  const auto row = [&](const std::string& name, const char* known, const char* by,
                       const char* kernel, std::vector<unsigned> (*changed)(unsigned)) {
    Cell right;
    if (run.device) {
      const size_t words = words_right(changed(array_words), array_words);
      require_right(words == array_words, name);
      right = double(words);
    }
    table.row({name}, {known, by, kernel, right, double(array_words)});
  };
  row("static: __device__", "when compiled", "cudaMemcpyToSymbol", "its name", changed_static);
  row("dynamic: cudaMalloc", "when run", "cudaMemcpy", "a pointer", changed_dynamic);
  table.print();
}

void judge(const Run& run, const WrongCopy& copy) {
  const Part part{
      "01.8", "the address of a device variable's name is not the variable's: the copy is wrong",
      "", "wiki"};
  if (!run.device) return run.report.not_judged(part, "no GPU");
  std::string here = cudaGetErrorName(copy.code);
  if (copy.code == cudaSuccess)
    here += copy.on_host == wrong ? ", but it wrote a host variable" : ", but it wrote elsewhere";
  const bool unchanged = copy.on_device == second;
  here += unchanged ? ", the device value is unchanged" : ", the device value is changed";
  run.report.judge_fact(part, unchanged, here);
}

}  // namespace

void symbols(const Run& run) {
  run.report.begin("symbols",
                   "one float on the device, reached in four ways, and once wrongly; an array of "
                   "1024 words, 4 KiB; kernels of 64 threads");
  const WrongCopy copy = reach_the_variable(run);
  count_launches(run);
  compare_arrays(run);
  if (!run.device) run.report.left_out("what the copies return and leave behind");
  judge(run, copy);
}
