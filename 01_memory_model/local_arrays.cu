// local_arrays: which arrays of a thread live in registers, and which in local memory. The lecture says that an array
// goes to local memory always if its index is no constant. Look at the local bytes of each compiled kernel: small
// arrays now escape, larger ones with a run-time index do not, and very large ones do not even with constant indices.
// Then look at the time: the registers that constant indices need have their price too.
#include <doctest/doctest.h>

#include "../common/first_edition.hpp"

namespace {

constexpr int threads = 128;

/// Which of `size` symbols a word stands for: its share of 2^32.
__host__ __device__ unsigned symbol(unsigned word, int size) {
  return static_cast<unsigned>((static_cast<unsigned long long>(word) * size) >> 32);
}

/// One number that tells `size` counts apart.
__host__ __device__ unsigned fold(const unsigned* count, int size) {
  unsigned all = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int k = 0; k < size; ++k) all = all * 1000003u + count[k];
  return all;
}

// Each thread counts the symbols in its `length` words. The index of the count is what the word says: an array of
// registers cannot be asked that way. Where the array is in local memory, the words of one element lie side by side for
// the warp's lanes, but the lanes ask for different elements.
template <int size>
__global__ void count_by_index(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned count[size] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) ++count[symbol(words[i + step], size)];
  out[i] = fold(count, size);
}

// The same counts with constant indices alone: every count is compared with every word.
template <int size>
__global__ void count_by_comparing(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned count[size] = {};
#pragma unroll 1
  for (int step = 0; step < length; ++step) {
    const unsigned found = symbol(words[i + step], size);
#pragma unroll
    for (int k = 0; k < size; ++k) count[k] += found == unsigned(k);
  }
  out[i] = fold(count, size);
}

// Filled once with constant indices, then only read, by a run-time index, as the text's second array is.
template <int size>
__global__ void look_up(unsigned* out, const unsigned* words, size_t n, int length) {
  const size_t i = blockIdx.x * size_t(threads) + threadIdx.x;
  if (i >= n) return;
  unsigned value[size];
#pragma unroll
  for (int k = 0; k < size; ++k) value[k] = words[i + k];
  unsigned all = 0;
#pragma unroll 1
  for (int step = 0; step < length; ++step) all = all * 31 + value[symbol(words[i + step], size)];
  out[i] = all;
}

// What the text's example does: three arrays, two of them read, one by a run-time index, and nothing is ever used. (The
// text does not even fill them.) All of it is removed.
__global__ void unused_arrays(const int* in) {
  int small[4], other[4];
  [[maybe_unused]] int large[100], a, b;
  for (int k = 0; k < 4; ++k) small[k] = other[k] = in[k];
  for (int k = 0; k < 100; ++k) large[k] = in[k];
  a = small[0];
  b = other[in[threadIdx.x]];
}

using Kernel = void (*)(unsigned*, const unsigned*, size_t, int);

struct Arrays {
  int size;
  Kernel by_comparing, by_index, read_only;
};
template <int size>
constexpr Arrays arrays_of{size, count_by_comparing<size>, count_by_index<size>, look_up<size>};
// 300 counts are more than the 255 registers that a thread can have
const std::vector<Arrays> all_arrays = {arrays_of<2>,  arrays_of<4>,   arrays_of<8>,  arrays_of<16>,
                                        arrays_of<32>, arrays_of<100>, arrays_of<300>};
constexpr int largest = 300;

// ---- host reference -------------------------------------------------------------------------------------------------

/// What every thread counts. From one thread to the next one word leaves the window and one enters.
std::vector<unsigned> expected_counts(const std::vector<unsigned>& words, size_t n, int length, int size) {
  std::vector<unsigned> count(size, 0), all(n);
  for (int step = 0; step < length; ++step) ++count[symbol(words[step], size)];
  for (size_t i = 0; i < n; ++i) {
    all[i] = fold(count.data(), size);
    --count[symbol(words[i], size)];
    ++count[symbol(words[i + length], size)];
  }
  return all;
}

std::vector<unsigned> expected_look_ups(const std::vector<unsigned>& words, size_t n, int length, int size) {
  std::vector<unsigned> all(n, 0);
  for (size_t i = 0; i < n; ++i)
    for (int step = 0; step < length; ++step) all[i] = all[i] * 31 + words[i + symbol(words[i + step], size)];
  return all;
}

// ---- prediction -----------------------------------------------------------------------------------------------------

/// Bytes of local memory that an array takes if it lives there.
constexpr int array_bytes(int size) { return size * int(sizeof(unsigned)); }

// ---- the experiment -------------------------------------------------------------------------------------------------

struct Work {
  int length;
  std::vector<unsigned> words;
  DeviceBuffer<unsigned> in, out;

  Work(size_t n, int length)
      : length(length), words(n + std::max(length, largest)), in(n + std::max(length, largest)), out(n) {
    unsigned state = 2463534242u;
    for (unsigned& word : words) {
      state ^= state << 13, state ^= state >> 17, state ^= state << 5;
      word = state;
    }
    in.copy_from(words);
  }
  void launch(Kernel kernel) {
    kernel<<<unsigned((out.size() + threads - 1) / threads), threads>>>(out.data(), in.data(), out.size(), length);
  }
  bool right(Kernel kernel, const std::vector<unsigned>& expected) {
    out.poison();
    launch(kernel);
    CUDA_CHECK_LAUNCH();
    return out.to_host() == expected;
  }
  bool all_right(const Arrays& arrays) {
    const std::vector<unsigned> counts = expected_counts(words, out.size(), length, arrays.size);
    return right(arrays.by_comparing, counts) && right(arrays.by_index, counts) &&
           right(arrays.read_only, expected_look_ups(words, out.size(), length, arrays.size));
  }
};

template <class AnyKernel>
cudaFuncAttributes compiled(AnyKernel kernel) {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes;
}

/// "int[2], int[4]": the arrays of one kind whose kernel has no local memory.
std::string in_registers(Kernel Arrays::*kind) {
  std::string sizes;
  for (const Arrays& arrays : all_arrays)
    if (compiled(arrays.*kind).localSizeBytes == 0)
      sizes += (sizes.empty() ? "int[" : ", int[") + std::to_string(arrays.size) + "]";
  return sizes.empty() ? "none" : sizes;
}

const Claim always_local{"01.5", "arrays indexed by non-constants always live in local memory", "lecture", "always"};

}  // namespace

void local_arrays(const Run& run) {
  const int length = run.quick ? 16 : 64;
  const size_t n = size_t(run.device ? run.device->prop.multiProcessorCount : 56) * 2048;  // 56: a P100's
  run.report.begin("local_arrays", std::to_string(n) + " threads with an array each, " + std::to_string(length) +
                                       " run-time indices a thread, " + bytes_text(8.0 * double(n)));
  if (!run.device) {
    Table table(run.report, "elements", {predicted("bytes if in local memory", "local memory a thread", "B", 0)});
    for (const Arrays& arrays : all_arrays)
      table.row({"", "elements", std::to_string(arrays.size)}, {double(array_bytes(arrays.size))});
    table.print();
    return run.report.left_out("local bytes of the compiled kernels, their time", {always_local});
  }

  Work work(n, length);
  Table table(run.report, "array, elements",
              {predicted("array bytes", "array", "B", 0), counted("local bytes", "local memory a thread", "B", 0),
               counted("registers", "registers", "registers", 0), measured("median ms", "time", "ms", 4),
               shown("spread"), shown("to constant index")});
  std::vector<Statistics> comparing;
  const auto rows = [&](const std::string& name, Kernel Arrays::*kind) {
    for (size_t a = 0; a < all_arrays.size(); ++a) {
      const Arrays& arrays = all_arrays[a];
      const cudaFuncAttributes attributes = compiled(arrays.*kind);
      const Statistics ms = time_device(run.measuring, [&] { work.launch(arrays.*kind); });
      CUDA_CHECK_LAUNCH();
      if (kind == &Arrays::by_comparing) comparing.push_back(ms);
      table.row({name, "elements", std::to_string(arrays.size)},
                {double(array_bytes(arrays.size)), double(attributes.localSizeBytes), double(attributes.numRegs), ms,
                 spread_text(ms), kind == &Arrays::by_index ? Cell(times(ms.median / comparing[a].median)) : Cell()});
    }
  };
  for (const Arrays& arrays : all_arrays)
    require_right(work.all_right(arrays), "arrays of " + std::to_string(arrays.size));
  rows("constant index", &Arrays::by_comparing);
  rows("run-time index", &Arrays::by_index);
  rows("run-time index, only read", &Arrays::read_only);
  const cudaFuncAttributes unused = compiled(unused_arrays);
  table.row({"the text's example"},
            {Cell(), double(unused.localSizeBytes), double(unused.numRegs), Cell(), Cell(), Cell()});
  table.print();
  run.report.note(
      "the text's example uses nothing of what it reads: three arrays, 432 bytes, and nothing is left of them");

  const std::string written = in_registers(&Arrays::by_index), read = in_registers(&Arrays::read_only);
  run.report.claim(always_local,
                   compiled(all_arrays.front().by_comparing).localSizeBytes > 0
                       ? not_judged("constant indices are in local memory too: this build does not optimise")
                       : judge_fact(written == "none" && read == "none", "in registers of compute capability " +
                                                                             run.device->capability() + ": " + written +
                                                                             " (written), " + read + " (only read)"));
}

// ---- self-checks ----------------------------------------------------------------------------------------------------

TEST_CASE("local_arrays: a symbol is in bounds and every symbol occurs") {
  for (const Arrays& arrays : all_arrays) {
    CAPTURE(arrays.size);
    CHECK(symbol(0, arrays.size) == 0);
    CHECK(symbol(~0u, arrays.size) == unsigned(arrays.size - 1));
    for (int k = 1; k < arrays.size; ++k) {  // the first word of each symbol, and the last of the one before
      const unsigned first = unsigned(((1ull << 32) * k + arrays.size - 1) / arrays.size);
      CHECK(symbol(first, arrays.size) == unsigned(k));
      CHECK(symbol(first - 1, arrays.size) == unsigned(k - 1));
    }
  }
}

TEST_CASE("local_arrays: counts that roll are the counts of each window") {
  std::vector<unsigned> words(200);
  for (size_t i = 0; i < words.size(); ++i) words[i] = unsigned(i * 2654435769u);
  const size_t n = 150;
  const int length = 37, size = 7;
  const std::vector<unsigned> rolled = expected_counts(words, n, length, size);
  for (size_t i = 0; i < n; ++i) {
    std::vector<unsigned> count(size, 0);
    for (int step = 0; step < length; ++step) ++count[symbol(words[i + step], size)];
    CHECK(rolled[i] == fold(count.data(), size));
  }
}

namespace {
void check_all(int smallest, int below) {
  for (size_t n : {1, 31, 127, 129, 1009, 40007})
    for (const Arrays& arrays : all_arrays)
      if (smallest <= arrays.size && arrays.size < below) {
        CAPTURE(n);
        CAPTURE(arrays.size);
        Work work(n, 37);
        CHECK(work.all_right(arrays));
      }
}
}  // namespace

TEST_CASE("local_arrays: every kernel counts and reads right") {
  if (skip_without_gpu()) return;
  check_all(0, 100);
}

TEST_CASE("local_arrays: large: arrays of 100 and more") {  // the driver keeps 1.4 KB for every thread that can reside
  if (skip_without_gpu()) return;
  check_all(100, largest + 1);
}

TEST_CASE("local_arrays: what must live in local memory does") {
  if (skip_without_gpu()) return;
  const Arrays& most = all_arrays.back();
  CHECK(compiled(most.by_index).localSizeBytes >= size_t(array_bytes(most.size)));
  CHECK(compiled(most.read_only).localSizeBytes >= size_t(array_bytes(most.size)));
  CHECK(compiled(most.by_comparing).localSizeBytes >= (most.size - 255) * sizeof(unsigned));
}
