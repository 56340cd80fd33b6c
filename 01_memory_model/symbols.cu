// symbols: a __device__ variable lives on the device; on the host its name is a symbol, a key that the runtime looks
// up, and the address of that name is the address of something else. Look at what each way of reaching the variable
// returns, at what becomes of the copy that takes & of the name, and at which variables outlive the kernel that changed
// them.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"

namespace {

__device__ float device_value;  // no kernel owns it: it lives as long as the program

// One thread of the grid adds. (Were all threads to run `device_value += amount` at once, as in the text, they would
// race: each reads, adds and writes, and any number of the writes may be lost.)
__global__ void add_by_one_thread(float amount) {
  if (blockIdx.x == 0 && threadIdx.x == 0) device_value += amount;
}

// All lanes of all warps add to one word. An atomic's reading, adding and writing cannot be torn apart: no addition is
// lost.
__global__ void add_by_atomics(float amount) { atomicAdd(&device_value, amount); }

// The address that the variable has on the device.
__global__ void device_address(float** address) { *address = &device_value; }

__device__ unsigned grid_count;  // set by the host before the first launch, and by nothing between launches

/// What one thread found in its block's counter and in its own.
struct Counts {
  unsigned in_block, in_thread;
};

// Each thread counts its steps three times over: in a variable of its own, in one that its block shares, in one that
// the whole program shares. The first two have no value until the kernel gives them one; the third keeps its value.
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

// ---- what is right --------------------------------------------------------------------------------------------------

/// `value` after `count` additions, each rounded: as the amounts are equal, the order of the threads makes no
/// difference.
float after_adding(float value, float amount, unsigned count) {
  for (unsigned i = 0; i < count; ++i) value += amount;
  return value;
}

/// What count_steps leaves behind: the counters of a block and of a thread begin anew, the grid's goes on.
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

// ---- the ways to reach the variable ---------------------------------------------------------------------------------

void write_symbol(float value) { CUDA_CHECK(cudaMemcpyToSymbol(device_value, &value, sizeof value)); }

float read_symbol() {
  float value = NAN;
  CUDA_CHECK(cudaMemcpyFromSymbol(&value, device_value, sizeof value));
  return value;
}

float* symbol_address() {
  void* address = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress(&address, device_value));
  return static_cast<float*>(address);
}

/// The host variable that stands behind the name. The compiler makes one so that the name can be looked up by its
/// address.
volatile float* host_variable() { return &device_value; }

/// The copy that the text warns of, made on purpose: its error, taken and cleared, and what it left in both variables.
struct WrongCopy {
  cudaError_t code;
  float on_device, on_host;
};

WrongCopy copy_to_address_of_name(float value) {
  const cudaError_t code = cudaMemcpy(&device_value, &value, sizeof value, cudaMemcpyHostToDevice);
  cudaGetLastError();  // cleared: the next check must not find it
  return {code, read_symbol(), *host_variable()};
}

const Claim wrong_address{"01.8", "the address of a device variable's name is not the variable's: the copy is wrong",
                          "wiki", "no figure"};

}  // namespace

void symbols(const Run& run) {
  constexpr unsigned threads = 64;  // as in the text
  constexpr float first = 3.25f, amount = 2.0f, second = 2.75f, wrong = 9.5f;
  const float by_one = after_adding(first, amount, 1), by_all = after_adding(by_one, amount, threads);
  run.report.begin("symbols", "one float on the device, reached in four ways, and once wrongly; kernels of 64 threads");

  Table table(run.report, "step",
              {shown("returns"), counted("on the device", "device value", "", 2),
               predicted("expected", "device value", "", 2)});
  const auto row = [&](const std::string& name, cudaError_t code, float expected) {
    if (!run.device) return table.row({name}, {Cell{}, Cell{}, double(expected)});
    table.row({name}, {cudaGetErrorName(code), double(read_symbol()), double(expected)});
  };
  const auto right_row = [&](const std::string& name, float expected) {
    if (run.device) require_right(read_symbol() == expected, name);
    row(name, cudaSuccess, expected);  // anything else has thrown
  };
  if (run.device) write_symbol(first);
  right_row("cudaMemcpyToSymbol", first);
  if (run.device) {
    add_by_one_thread<<<1, threads>>>(amount);
    CUDA_CHECK_LAUNCH();
  }
  right_row("kernel, one thread adds 2", by_one);
  if (run.device) {
    add_by_atomics<<<1, threads>>>(amount);
    CUDA_CHECK_LAUNCH();
  }
  right_row("kernel, 64 threads add 2 by atomics", by_all);
  if (run.device) CUDA_CHECK(cudaMemcpy(symbol_address(), &second, sizeof second, cudaMemcpyHostToDevice));
  right_row("cudaGetSymbolAddress, cudaMemcpy", second);
  WrongCopy copy{};
  if (run.device) copy = copy_to_address_of_name(wrong);
  row("wrong: cudaMemcpy to &name", copy.code, second);
  table.print();

  // three launches of the same kernel: which counters go on?
  const Launch launch{3, threads, 5};
  Table lives(
      run.report, "a counter in",
      {counted("__device__", "grid counter", "", 0), predicted("expected", "grid counter", "", 0),
       counted("__shared__", "block counter", "", 0), predicted("expected", "block counter", "", 0),
       counted("a thread's variable", "thread counter", "", 0), predicted("expected", "thread counter", "", 0)});
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
      in_grid = double(total), in_block = double(counts[0].in_block), in_thread = double(counts[0].in_thread);
    }
    lives.row({"after launch", "launch", std::to_string(i)},
              {in_grid, double(launch.in_grid(i)), in_block, double(launch.in_block()), in_thread,
               double(launch.in_thread())});
  }
  lives.print();
  run.report.note(
      "Only the __device__ variable outlives its kernel; a block's and a thread's must be set before they are read.");
  if (!run.device) return run.report.left_out("what the copies return and leave behind", {wrong_address});

  const bool unchanged = copy.on_device == second;
  std::string here = cudaGetErrorName(copy.code);
  if (copy.code == cudaSuccess)
    here += copy.on_host == wrong ? ", but it wrote a host variable" : ", but it wrote elsewhere";
  here += unchanged ? ", the device value is unchanged" : ", the device value is changed";
  run.report.claim(wrong_address, judge_fact(unchanged, here, unchanged ? 0 : 1, "values changed"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("symbols: what the references say") {
  CHECK(after_adding(3.25f, 2.0f, 0) == 3.25f);
  CHECK(after_adding(3.25f, 2.0f, 1) == 5.25f);
  CHECK(after_adding(3.25f, 0.25f, 1009 * 257) == 64831.5f);  // the largest sum of these cases
  CHECK(after_adding(1.0f, 2.0f, 64) == 129.0f);
  const Launch launch{3, 64, 5};
  CHECK(launch.in_thread() == 5);
  CHECK(launch.in_block() == 320);
  CHECK(launch.in_grid(1) == 960);
  CHECK(launch.in_grid(3) == 2880);
  CHECK(all_begin_anew({{320, 5}, {320, 5}}, launch));
  CHECK_FALSE(all_begin_anew({{320, 5}, {640, 5}}, launch));
  CHECK_FALSE(all_begin_anew({{320, 10}, {320, 5}}, launch));
  CHECK_FALSE(all_begin_anew({}, launch));
}

TEST_CASE("symbols: the symbol and its address lead to one variable") {
  if (skip_without_gpu()) return;
  for (float value : {3.25f, -0.5f, 1e30f}) {
    write_symbol(value);
    float by_address = NAN;
    CUDA_CHECK(cudaMemcpy(&by_address, symbol_address(), sizeof by_address, cudaMemcpyDeviceToHost));
    CHECK(by_address == value);
    const float other = value * 0.25f;
    CUDA_CHECK(cudaMemcpy(symbol_address(), &other, sizeof other, cudaMemcpyHostToDevice));
    CHECK(read_symbol() == other);
  }
  DeviceBuffer<float*> seen(1);
  seen.poison();
  device_address<<<1, 1>>>(seen.data());
  CUDA_CHECK_LAUNCH();
  CHECK(seen.to_host()[0] == symbol_address());
  CHECK(const_cast<float*>(host_variable()) != symbol_address());
}

TEST_CASE("symbols: one thread or atomics add without a race") {
  if (skip_without_gpu()) return;
  for (unsigned blocks : {1u, 3u, 1009u})
    for (unsigned threads : {1u, 31u, 64u, 257u}) {
      CAPTURE(blocks);
      CAPTURE(threads);
      write_symbol(3.25f);
      add_by_one_thread<<<blocks, threads>>>(2.0f);
      CUDA_CHECK_LAUNCH();
      CHECK(read_symbol() == after_adding(3.25f, 2.0f, 1));
      write_symbol(3.25f);
      add_by_atomics<<<blocks, threads>>>(0.25f);
      CUDA_CHECK_LAUNCH();
      CHECK(read_symbol() == after_adding(3.25f, 0.25f, blocks * threads));
    }
}

TEST_CASE("symbols: the wrong copy leaves the device value alone") {
  if (skip_without_gpu()) return;
  const Device device = Device::current();
  for (float value : {2.75f, -17.0f}) {
    write_symbol(value);
    const float host_before = *host_variable(), wrong = value + 1.0f;
    const WrongCopy copy = copy_to_address_of_name(wrong);
    CHECK(cudaPeekAtLastError() == cudaSuccess);  // it was cleared
    CHECK(copy.on_device == value);
    if (device.prop.pageableMemoryAccess && copy.code == cudaSuccess) {
      CHECK(copy.on_host ==
            wrong);  // where the device reaches all host memory the copy may work: on the wrong variable
    } else {
      CHECK(copy.code == cudaErrorInvalidValue);
      CHECK(copy.on_host == host_before);
    }
  }
}

TEST_CASE("symbols: only the grid counter outlives a kernel") {
  if (skip_without_gpu()) return;
  for (const Launch& launch : {Launch{1, 1, 1}, Launch{3, 31, 2}, Launch{1009, 257, 3}, Launch{7, 1024, 5}}) {
    CAPTURE(launch.blocks);
    const unsigned none = 0;
    CUDA_CHECK(cudaMemcpyToSymbol(grid_count, &none, sizeof none));
    DeviceBuffer<Counts> counts(size_t(launch.blocks) * launch.threads);
    for (unsigned i = 1; i <= 3; ++i) {
      counts.poison();
      count_steps<<<launch.blocks, launch.threads>>>(counts.data(), launch.steps);
      CUDA_CHECK_LAUNCH();
      unsigned total = 0;
      CUDA_CHECK(cudaMemcpyFromSymbol(&total, grid_count, sizeof total));
      CHECK(total == launch.in_grid(i));
      CHECK(all_begin_anew(counts.to_host(), launch));
    }
  }
}
