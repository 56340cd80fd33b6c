// local_arrays: where does an array of a thread live? "Arrays always go in local memory if they are
// indexed with non constants", say the lectures, and that this is "very bad for performance" [PR:
// local memory]. The wiki says "likely", and adds large arrays [LC 1]; the guide would have nothing
// there [KP]. Local memory lies in device memory, and is cached in L1.
//
// Look at the local bytes that the compiler needs: the smallest arrays have none, and the largest
// have some with any index. Then at the time, apart for arrays that are written and only read.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o local_arrays local_arrays.cu ../common/*.cpp
//
//   1  localMemoryExample  the text's: nothing uses what it reads, so that nothing is left of it
//   2  count_by_comparing  counts in an array that is indexed by constants alone
//   3  count_by_index      2 with an index that is known at run time
//   4  look_up_by_comparing, look_up  2 and 3 with an array that is filled once, then only read
//   5  count_in_shared     3 with the counts in shared memory
#include <iterator>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

constexpr int threads = 128;

// The text fills none of its arrays. Here they are filled: to read what nobody wrote is an error.
__global__ void localMemoryExample(int* input) {
  [[maybe_unused]] int a, b;
  int index;
  int myArray1[4], myArray2[4];
  [[maybe_unused]] int myArray3[100];
  for (int k = 0; k < 4; ++k) myArray1[k] = myArray2[k] = input[k];
  for (int k = 0; k < 100; ++k) myArray3[k] = input[k];
  index = input[threadIdx.x];
  a = myArray1[0];
  b = myArray2[index];
}

// ---- thread i goes through the `length` words from word i on, and leaves one number in out[i]. A
// word says which of `size` elements is meant: the share that it has of 2^32, which is the upper
// half of a product ----

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

// The same counts by a run-time index: registers have no index at run time. In local memory the words
// of one element lie side by side for a warp's lanes; but the lanes want different elements, up to
// 32 lines of 128 bytes at a time, and what they write goes on to the L2.
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

// The same in shared memory, which has room for small arrays only. Thread t has column t, so that a
// warp's lanes are in 32 banks whichever element each of them wants.
template <int size>
__global__ void count_in_shared(unsigned* out, const unsigned* words, size_t n, int length) {
  __shared__ unsigned counts[size][threads];
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
#pragma unroll
  for (int k = 0; k < size; ++k) counts[k][threadIdx.x] = 0;
#pragma unroll 1
  for (int step = 0; step < length; ++step) ++counts[__umulhi(words[i + step], size)][threadIdx.x];
  unsigned all = 0;
#pragma unroll
  for (int k = 0; k < size; ++k) all = all * 1000003u + counts[k][threadIdx.x];
  out[i] = all;
}

// Filled once, then only read. With constant indices: every element is compared with every word.
template <int size>
__global__ void look_up_by_comparing(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned value[size];
#pragma unroll
  for (int k = 0; k < size; ++k) value[k] = words[i + k];
  unsigned all = 0;
#pragma unroll 1
  for (int step = 0; step < length; ++step) {
    const unsigned wanted = __umulhi(words[i + step], size);
    unsigned found = 0;
#pragma unroll
    for (int k = 0; k < size; ++k) found += wanted == unsigned(k) ? value[k] : 0;
    all = all * 31 + found;
  }
  out[i] = all;
}

// The same by a run-time index, as the text's second array. What is read stays in L1, as far as that
// is large enough.
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

enum { constant_index, run_time_index, read_constant_index, only_read, way_count };
constexpr const char* ways[] = {"constant index", "run-time index", "only read, constant index",
                                "only read"};

using Kernel = void (*)(unsigned* out, const unsigned* words, size_t n, int length);

/// The kernels with an array of one size.
struct Arrays {
  int size;
  Kernel kernel[way_count];  ///< in the order of `ways`
  Kernel in_shared;          ///< of arrays that fit there
};
template <int size>
constexpr Arrays arrays_of{
    size,
    {count_by_comparing<size>, count_by_index<size>, look_up_by_comparing<size>, look_up<size>},
    size > 32 ? nullptr : count_in_shared<(size > 32 ? 1 : size)>};

// 300 counts are more than the 255 registers that a thread can have
constexpr int largest = 300;
const Arrays all_arrays[] = {arrays_of<4>,  arrays_of<8>,   arrays_of<16>,
                             arrays_of<32>, arrays_of<100>, arrays_of<largest>};

template <class AnyKernel>
cudaFuncAttributes compiled(AnyKernel kernel) {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes;
}

// ---- what is right ----

__host__ __device__ int element_of(unsigned word, int size) {
  return int((unsigned long long)word * unsigned(size) >> 32);
}

/// What thread i finds, from the text of the kernels: by counting an element's words for each
/// element (whatever the kernel's way), or by looking up.
__device__ unsigned expected(size_t i, int size, int length, bool only_read) {
  unsigned all = 0;
  if (only_read) {
    for (int step = 0; step < length; ++step)
      all = all * 31 + hash(i + element_of(hash(i + step), size));
    return all;
  }
  for (int k = 0; k < size; ++k) {
    unsigned count = 0;
    for (int step = 0; step < length; ++step) count += element_of(hash(i + step), size) == k;
    all = all * 1000003u + count;
  }
  return all;
}

struct Threads {
  size_t n;
  int length;
  DeviceBuffer<unsigned> words;
  GuardedBuffer<unsigned> out;
};
Threads threads_of(size_t n, int length) {
  const size_t most = n + size_t(std::max(length, largest)) - 1;
  return {n, length, filled<unsigned>(most, [] __device__(size_t i) { return hash(i); }),
          GuardedBuffer<unsigned>(n)};
}

Benchmark running(const std::string& name, Kernel kernel, int size, bool only_read,
                  const Threads& t) {
  const auto work = [kernel, t] {
    kernel<<<unsigned((t.n + threads - 1) / threads), threads>>>(t.out, t.words, t.n, t.length);
  };
  const auto right = [size, length = t.length, only_read] __device__(size_t i) {
    return expected(i, size, length, only_read);
  };
  return {.name = name, .work = work, .check = equals(t.out, right)};
}

std::string array_of(const Arrays& arrays) { return "int[" + std::to_string(arrays.size) + "]"; }
std::string name_of(const Arrays& arrays, int way) { return array_of(arrays) + ", " + ways[way]; }
std::string in_shared(const Arrays& arrays) { return array_of(arrays) + ", in shared memory"; }

std::vector<Benchmark> benchmarks_of(const Threads& t) {
  std::vector<Benchmark> all;
  for (const Arrays& arrays : all_arrays) {
    for (int way = 0; way < way_count; ++way)
      all.push_back(running(name_of(arrays, way), arrays.kernel[way], arrays.size,
                            way >= read_constant_index, t));
    if (arrays.in_shared)
      all.push_back(running(in_shared(arrays), arrays.in_shared, arrays.size, false, t));
  }
  return all;
}

}  // namespace

void local_arrays(Run& run) {
  const Threads t = threads_of(size_t(run.resident_blocks(threads)) * threads, run.quick ? 16 : 64);
  run.title(std::to_string(t.n) + " threads with an array each, " + std::to_string(t.length) +
            " indices per thread");
  const Timings timed = run.timer.interleaved(benchmarks_of(t));

  Table table("array, index", {"registers", "local bytes", "ms", "of constant index"});
  std::string escaped;
  int by_index = 0, local = 0;         // arrays with a run-time index, and those in local memory
  std::vector<Interval> local_to_not;  // of two ways that differ in that, and do the same work
  for (const Arrays& arrays : all_arrays)
    for (int way = 0; way < way_count; ++way) {
      const cudaFuncAttributes code = compiled(arrays.kernel[way]);
      const std::string name = name_of(arrays, way);
      if (way == constant_index || way == read_constant_index) {
        table.row(name, {code.numRegs, code.localSizeBytes, timed[name].ms_interval(), ""});
        continue;
      }
      const Interval longer = ratio(timed[name], timed[name_of(arrays, way - 1)]);
      table.row(name, {code.numRegs, code.localSizeBytes, timed[name].ms_interval(), longer});
      ++by_index;
      local += code.localSizeBytes > 0;
      if (code.localSizeBytes == 0)
        escaped += (escaped.empty() ? "" : "; ") + name;
      else if (compiled(arrays.kernel[way - 1]).localSizeBytes == 0)
        local_to_not.push_back(longer);
    }
  run.print(table);
  run.note("localMemoryExample: " + std::to_string(compiled(localMemoryExample).localSizeBytes) +
           " local bytes, for nothing uses what it reads");
  run.note("01.17 compares where only the array with the run-time index has local bytes");

  Table shared("counts in shared memory",
               {"bytes per block", "ms", "of constant index", "of run-time"});
  for (const Arrays& arrays : all_arrays) {
    if (!arrays.in_shared) continue;
    const Times& counted = timed[in_shared(arrays)];
    shared.row(array_of(arrays), {compiled(arrays.in_shared).sharedSizeBytes, counted.ms_interval(),
                                  ratio(counted, timed[name_of(arrays, constant_index)]),
                                  ratio(counted, timed[name_of(arrays, run_time_index)])});
  }
  run.print(shared);

  const Claim always{"01.5", "arrays always go in local memory if indexed with non-constants",
                     "[PR 1] \"always\""},
      likely{"01.15", "arrays with run-time indices are likely placed in local memory",
             "[LC 1] \"that the compiler is likely to place in local memory\""},
      bad{"01.17", "variables in local memory are very bad for performance",
          "[KP; PR 1] \"Do not store kernel variables\" there; \"Very bad for performance!\""};
  if (compiled(all_arrays[0].kernel[constant_index]).localSizeBytes > 0) {
    for (const Claim& claim : {always, likely, bad})
      run.claim_skipped(claim, "this build does not optimise");
    return;
  }
  run.observed(always, escaped.empty(), "in registers: " + (escaped.empty() ? "none" : escaped));
  run.observed(likely, 2 * local > by_index,
               std::to_string(local) + " of " + std::to_string(by_index) + " are there");
  run.claim_each(bad, local_to_not, "times as long as in registers, by constant indices",
                 much_more());
}
SAMPLE(5, local_arrays, "where an array of a thread lives");

TEST_CASE("local_arrays: which element a word means") {
  CHECK(element_of(0, 7) == 0);
  CHECK(element_of(0xffffffff, 7) == 6);
  CHECK(element_of(0x80000000, 4) == 2);
  CHECK(element_of(0x7fffffff, 4) == 1);
}

TEST_CASE("local_arrays: every kernel is right at awkward sizes, and writes nothing behind") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 129, 1009})
    for (const int length : {0, 1, 37}) {
      const Threads t = threads_of(n, length);
      for (const Benchmark& benchmark : benchmarks_of(t)) {
        CAPTURE(benchmark.name);
        CAPTURE(n);
        CAPTURE(length);
        CHECK_NOTHROW(require_right(benchmark));
      }
    }
}
