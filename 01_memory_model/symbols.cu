// symbols: how does the host reach a variable of the device? On the host the name of a __device__
// variable is a symbol, a key that the runtime looks up. &name is the address of something else: the
// wiki warns of the copy that takes it [LC 1]. The lectures set such a static array beside one that
// malloc gives [PR: dynamic and static global memory].
//
// Look at what the wrong copy returns, and at what it leaves on the device. Then look at the
// counters: which of them outlives the kernel?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o symbols symbols.cu ../common/*.cpp
//
//   1  checkGlobalVariable  the text's. There all 64 threads run `devData += 2.0f`: a race, in which
//                           each reads, adds and writes, and any number of writes may be lost. Here
//                           thread 0 adds and prints
//   2  add_by_atomics       all threads add, and no addition is lost
//   3  count_steps          counters in a thread's, in a block's and in __device__ memory
//   4  change_static, change_dynamic  an array reached by its name, and by a pointer
#include <cstdio>
#include <iostream>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels ----

__device__ float devData;  // no kernel owns it: it lives as long as the program

__global__ void checkGlobalVariable() {
  if (threadIdx.x == 0) {
    printf("  Device: the value of the global variable is %f\n", devData);
    devData += 2.0f;
  }
}

// All lanes of all warps add to one word. An atomic's reading, adding and writing cannot be torn
// apart: the additions come one after the other.
__global__ void add_by_atomics(float amount) { atomicAdd(&devData, amount); }

__device__ unsigned grid_count;  // set by the host before the first launch, and then by no one

struct Counts {
  unsigned in_block, in_thread;
};

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

constexpr unsigned array_words = 1024;             // as in the text
__device__ unsigned my_static_array[array_words];  // its size is known when the program is compiled

// A warp reads and writes 32 neighbouring words. The kernel names the array: it needs no pointer.
__global__ void change_static(unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) my_static_array[i] = 3 * my_static_array[i] + i;
}

// The same of whatever array it is given.
__global__ void change_dynamic(unsigned* array, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) array[i] = 3 * array[i] + i;
}

// ---- what the host does ----

float read_symbol() {
  float value = NAN;
  CUDA_CHECK(cudaMemcpyFromSymbol(&value, devData, sizeof(float)));
  return value;
}

/// The text's main. The value that the kernel leaves.
float text_program() {
  float value = 3.14f;
  CUDA_CHECK(cudaMemcpyToSymbol(devData, &value, sizeof(float)));  // the name, not its address
  std::cout << std::fixed << "  Host: copied " << value << " to the global variable" << std::endl;
  checkGlobalVariable<<<1, 64>>>();
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpyFromSymbol(&value, devData, sizeof(float)));
  std::cout << "  Host: the value changed by the kernel to " << value << std::endl;
  return value;
}

void write_by_address(float value) {
  float* dptr = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress((void**)&dptr, devData));
  CUDA_CHECK(cudaMemcpy(dptr, &value, sizeof(float), cudaMemcpyHostToDevice));
}

/// The copy that the text warns of, made on purpose. Its error is taken and cleared: the next check
/// must not find it.
cudaError_t copy_to_address_of_name(float value) {
  const cudaError_t error = cudaMemcpy(&devData, &value, sizeof(float), cudaMemcpyHostToDevice);
  cudaGetLastError();
  return error;
}

std::vector<unsigned> hashes() {
  std::vector<unsigned> words(array_words);
  for (unsigned i = 0; i < array_words; ++i) words[i] = hash(i);
  return words;
}

/// The first n words of the static array are changed. It is written in two parts: the second copy
/// begins at an offset, which counts in bytes.
std::vector<unsigned> changed_static(unsigned n) {
  std::vector<unsigned> words = hashes();
  constexpr size_t half = sizeof(unsigned) * array_words / 2;
  CUDA_CHECK(cudaMemcpyToSymbol(my_static_array, words.data(), half));
  CUDA_CHECK(cudaMemcpyToSymbol(my_static_array, words.data() + array_words / 2, half, half));
  change_static<<<array_words / 256, 256>>>(n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpyFromSymbol(words.data(), my_static_array, 2 * half));
  return words;
}

std::vector<unsigned> changed_dynamic(unsigned n) {
  const DeviceBuffer<unsigned> my_dynamic_array(hashes());
  change_dynamic<<<array_words / 256, 256>>>(my_dynamic_array, n);
  CUDA_CHECK_LAUNCH();
  return my_dynamic_array.to_host();
}

/// "", or what is wrong with an array whose first n words were changed.
std::string array_error(const std::vector<unsigned>& words, unsigned n) {
  return find_mismatch_on_host(words.data(), words.size(), [n](size_t i) {
    return i < n ? 3 * hash(i) + unsigned(i) : hash(i);
  });
}

/// A row of the table; throws WrongResult unless the value on the device is as expected.
void add_step(Table& table, const char* name, cudaError_t returned, float expected) {
  const float found = read_symbol();
  if (found != expected) throw WrongResult(name + (": " + std::to_string(found)));
  table.row(name, {cudaGetErrorName(returned), found});
}

void show_counters(Run& run) {
  constexpr unsigned blocks = 3, threads = 64, steps = 5, none = 0;
  CUDA_CHECK(cudaMemcpyToSymbol(grid_count, &none, sizeof none));
  const DeviceBuffer<Counts> counts(blocks * threads);
  Table table("a counter in", {"__device__", "__shared__", "a thread's variable"});
  for (unsigned launch = 1; launch <= 3; ++launch) {
    count_steps<<<blocks, threads>>>(counts, steps);
    CUDA_CHECK_LAUNCH();
    unsigned in_grid = 0;
    CUDA_CHECK(cudaMemcpyFromSymbol(&in_grid, grid_count, sizeof in_grid));
    bool right = in_grid == launch * blocks * threads * steps;
    for (const Counts& c : counts.to_host())
      right = right && c.in_block == threads * steps && c.in_thread == steps;
    if (!right) throw WrongResult("count_steps, launch " + std::to_string(launch));
    table.row("after launch " + std::to_string(launch), {in_grid, threads * steps, steps});
  }
  run.print(table);
  run.note("3 blocks of 64 threads count 5 steps; only the __device__ counter goes on");
}

}  // namespace

void symbols(Run& run) {
  run.title("a float on the device, reached by its name, by its address, and once wrongly");
  text_program();

  Table table("then", {"returns", "on the device"});
  add_step(table, "the text's program", cudaSuccess, 3.14f + 2.0f);
  const float first = 1.0f;
  CUDA_CHECK(cudaMemcpyToSymbol(devData, &first, sizeof(float)));
  add_by_atomics<<<1, 64>>>(2.0f);
  CUDA_CHECK_LAUNCH();
  add_step(table, "1, and 64 atomic additions of 2", cudaSuccess, 129);
  write_by_address(2.75f);
  add_step(table, "cudaGetSymbolAddress, 2.75", cudaSuccess, 2.75f);
  const cudaError_t error = copy_to_address_of_name(9.5f);
  const float left = read_symbol();
  table.row("wrong: cudaMemcpy to &name, 9.5", {cudaGetErrorName(error), left});
  run.print(table);

  show_counters(run);

  for (const auto& changed : {changed_static(array_words), changed_dynamic(array_words)})
    if (const std::string wrong = array_error(changed, array_words); !wrong.empty())
      throw WrongResult("an array: " + wrong);
  run.note("1024 words in a static and in a dynamic array: both changed by a kernel, all right");

  run.observed({"01.8", "cudaMemcpy to &devData is wrong: on the host the name is a symbol",
                "[LC 1] \"This code is wrong\""},
               left == 2.75f,
               std::string(cudaGetErrorName(error)) + ", and the value on the device is " +
                   (left == 2.75f ? "unchanged" : "changed"));
}
SAMPLE(2, symbols, "variables of the device, and how the host reaches them");

namespace {

// The address that the variable has on the device.
__global__ void device_address(float** address) { *address = &devData; }

}  // namespace

TEST_CASE("symbols: the symbol and its address lead to one variable") {
  if (skip_without_gpu()) return;
  for (const float value : {3.25f, -0.5f, 1e30f}) {
    write_by_address(value);
    CHECK(read_symbol() == value);
  }
  float* dptr = nullptr;
  CUDA_CHECK(cudaGetSymbolAddress((void**)&dptr, devData));
  const DeviceBuffer<float*> seen(1);
  device_address<<<1, 1>>>(seen);
  CUDA_CHECK_LAUNCH();
  CHECK(seen.to_host()[0] == dptr);
}

TEST_CASE("symbols: no addition by atomics is lost") {
  if (skip_without_gpu()) return;
  for (const unsigned blocks : {1u, 3u, 1009u})
    for (const unsigned threads : {1u, 31u, 257u}) {
      write_by_address(3.25f);
      add_by_atomics<<<blocks, threads>>>(0.25f);
      CUDA_CHECK_LAUNCH();
      CHECK(read_symbol() == 3.25f + 0.25f * float(blocks * threads));  // exact: below 2^22
    }
}

TEST_CASE("symbols: arrays are changed as far as they should be") {
  if (skip_without_gpu()) return;
  for (const unsigned n : {0u, 1u, 31u, 1009u, 1024u}) {
    CHECK(array_error(changed_static(n), n) == "");
    CHECK(array_error(changed_dynamic(n), n) == "");
    CHECK(array_error(changed_static(n), (n + 2) % 1025) != "");
  }
}
