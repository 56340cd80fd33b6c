// read_only: does the read-only path gain anything? On Kepler it was a cache of its own, better for
// scattered reads: it moved 32 bytes where L1 moved 128 [LC 3]. It is good for kernels limited by
// bandwidth. __ldg surely takes it, and const __restrict__ probably; but after Kepler it is one
// cache with L1 [PR 3], through which plain loads, too, go by default since Volta.
//
// Compare the rows read_...: the same reads by other loads. The rows store_... differ in a promise:
// must a load wait for the store before it? And which kernels do not get the load that they want?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o read_only read_only.cu ../common/*.cpp
//
//   1  copyKernel             the wiki's three: plain, ldg, const_restrict
//   2  kernel                 the lectures' one: const __restrict__, and __ldg
//   3  read_plain, read_ldg, read_const_restrict, read_in_struct, read_texture
//   4  store_plain, store_const_restrict    each word is stored before the next is loaded
#include <iostream>
#include <set>
#include <stdexcept>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "../common/sectors.hpp"
#include "texture.cuh"

namespace {

// ---- the texts' kernels: a warp reads 32 neighbouring words, 4 sectors ----

namespace plain {
__global__ void copyKernel(int* out, int* in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = in[idx];
}
}  // namespace plain

namespace ldg {
__global__ void copyKernel(int* out, int* in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = __ldg(&in[idx]);
}
}  // namespace ldg

namespace const_restrict {
__global__ void copyKernel(int* __restrict__ out, const int* __restrict__ in, size_t n) {
  const size_t idx = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (idx < n) out[idx] = in[idx];
}
}  // namespace const_restrict

// The lectures write __ldg(buffer[i]), which does not compile: __ldg takes an address. And they do
// nothing with x1 and x2: no load would be left. CUDA's header makes __ldg of `asm volatile`, which
// could write through its address. So `buffer` may change, and x1 takes a plain load.
__global__ void kernel(float* out, float const* __restrict__ buffer, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float x1 = buffer[i];
  const float x2 = __ldg(&buffer[i]);
  out[i] = x1 + x2;
}

// ---- in which order our kernels read: read i of n asks for word order(i, n). Neighbouring lanes
// make neighbouring reads. n is at most 2^32. ----

using Order = size_t (*)(size_t i, size_t n);

/// Neighbours side by side: 4 sectors of 32 bytes a warp.
__host__ __device__ size_t in_order(size_t i, size_t) { return i; }

/// Any word at all: 32 sectors. Shifted xors and odd factors mix all bits of i.
__host__ __device__ size_t scattered(size_t i, size_t n) {
  unsigned x = unsigned(i);
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return (x ^ x >> 16) * n >> 32;
}

// ---- our kernels: a thread adds up its 16 words of n ----

constexpr unsigned threads = 128;      // of a block
constexpr unsigned thread_words = 16;  // words of a thread: all in flight at once
constexpr unsigned block_words = threads * thread_words;

// Beyond the end a thread loads word 0, and does not add it.
template <Order order, class Load>
__device__ float add_up(Load load, size_t n) {
  const size_t first = blockIdx.x * size_t(block_words) + threadIdx.x;
  float word[thread_words], sum = 0;
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) {
    const size_t i = first + k * threads;
    word[k] = load(i < n ? order(i, n) : 0);
  }
#pragma unroll
  for (unsigned k = 0; k < thread_words; ++k) sum += first + k * threads < n ? word[k] : 0;
  return sum;
}

// Nothing says that `out` lies elsewhere.
template <Order order>
__global__ void read_plain(float* out, const float* in, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The load itself is named; the pointers promise nothing.
template <Order order>
__global__ void read_ldg(float* out, const float* in, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return __ldg(&in[i]); }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The kernel promises that no one writes what it reads through `in`.
template <Order order>
__global__ void read_const_restrict(float* __restrict__ out, const float* __restrict__ in,
                                    size_t n) {
  const float sum = add_up<order>([=](size_t i) { return in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// The same promise by a member of a parameter, not by a parameter: the compiler does not act on it.
struct Promise {
  const float* __restrict__ in;
};
template <Order order>
__global__ void read_in_struct(float* out, Promise p, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return p.in[i]; }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// A texture of plain memory: an index, and no pointer.
template <Order order>
__global__ void read_texture(float* out, cudaTextureObject_t tex, size_t n) {
  const float sum = add_up<order>([=](size_t i) { return tex1Dfetch<float>(tex, int(i)); }, n);
  out[blockIdx.x * size_t(threads) + threadIdx.x] = sum;
}

// For all the compiler knows the next load reads what this store wrote, and has to wait for it.
template <Order order>
__global__ void store_plain(float* out, const float* in, size_t n) {
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  const auto load = [=](size_t i) { return out[own] = in[i]; };
  out[own] = add_up<order>(load, n);
}

// Under the promise it cannot: all loads start at once, and only the last store matters.
template <Order order>
__global__ void store_const_restrict(float* __restrict__ out, const float* __restrict__ in,
                                     size_t n) {
  const size_t own = blockIdx.x * size_t(threads) + threadIdx.x;
  const auto load = [=](size_t i) { return out[own] = in[i]; };
  out[own] = add_up<order>(load, n);
}

// ---- what must come out ----

/// Word i of the input: a whole number below 4096, so that sums of 16 are exact.
__host__ __device__ float word_at(size_t i) { return float(hash(i) >> 20); }

/// What thread i of the grid adds up.
template <Order order>
struct SumOf {
  size_t n;
  __device__ float operator()(size_t i) const {
    float sum = 0;
    for (unsigned k = 0; k < thread_words; ++k) {
      const size_t read = i / threads * block_words + k * threads + i % threads;
      if (read < n) sum += word_at(order(read, n));
    }
    return sum;
  }
};

struct Memory {
  DeviceBuffer<float> in;
  GuardedBuffer<float> copy, sums;
  Texture texture;  // of `in`
};
Memory memory(size_t n) {
  const auto in = filled<float>(n, [] __device__(size_t i) { return word_at(i); });
  return {in, GuardedBuffer<float>(n), GuardedBuffer<float>(ceil_div(n, block_words) * threads),
          Texture(linear_resource(in.data(), cudaCreateChannelDesc<float>(), in.bytes()))};
}

// ---- the launches: add yours here ----

struct Kernel {
  std::string compiled_to;  ///< tools/machine_code.py looks whether it is so
  Benchmark benchmark;      ///< name, launch, what must come out
};

std::vector<Kernel> of_the_texts(const Memory& m) {
  const size_t n = m.in.size();
  const unsigned blocks = unsigned(ceil_div(n, 256));
  const auto in = m.in.as<int>(), out = m.copy.as<int>();
  const Check copied = equals(m.copy, [] __device__(size_t i) { return word_at(i); });
  const Check doubled = equals(m.copy, [] __device__(size_t i) { return 2 * word_at(i); });
  const auto plain_copy = [=] { plain::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto ldg_copy = [=] { ldg::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto promised_copy = [=] { const_restrict::copyKernel<<<blocks, 256>>>(out, in, n); };
  const auto both = [=] { kernel<<<blocks, 256>>>(m.copy, m.in, n); };
  return {
      {.compiled_to = "1 plain", .benchmark = {"plain::copyKernel", plain_copy, copied}},
      {.compiled_to = "1 read-only", .benchmark = {"ldg::copyKernel", ldg_copy, copied}},
      {.compiled_to = "1 read-only",
       .benchmark = {"const_restrict::copyKernel", promised_copy, copied}},
      {.compiled_to = "1 plain, 1 read-only", .benchmark = {"kernel", both, doubled}},
  };
}

template <Order order>
std::vector<Kernel> of_ours(const Memory& m) {
  const size_t n = m.in.size();
  const unsigned blocks = unsigned(m.sums.size() / threads);
  const Check summed = equals(m.sums, SumOf<order>{n});
  const auto entry = [&](const char* name, const char* compiled_to, auto kernel, auto in) {
    const auto launch = [=] { kernel<<<blocks, threads>>>(m.sums, in, n); };
    return Kernel{.compiled_to = compiled_to, .benchmark = {name, launch, summed}};
  };
  return {
      entry("read_plain", "16 plain", read_plain<order>, m.in),
      entry("read_ldg", "16 read-only", read_ldg<order>, m.in),
      entry("read_const_restrict", "16 read-only", read_const_restrict<order>, m.in),
      entry("read_in_struct", "16 plain", read_in_struct<order>, Promise{m.in}),
      entry("read_texture", "16 fetches", read_texture<order>, m.texture),
      entry("store_plain", "16 plain", store_plain<order>, m.in),
      entry("store_const_restrict", "16 read-only", store_const_restrict<order>, m.in),
  };
}

/// What the kernel of this name is compiled to. Throws std::logic_error if the list lacks it.
std::string compiled_to(const std::vector<Kernel>& kernels, const std::string& name) {
  for (const Kernel& kernel : kernels)
    if (kernel.benchmark.name == name) return kernel.compiled_to;
  throw std::logic_error("no kernel '" + name + "' is in read_only's list");
}

std::vector<Benchmark> benchmarks(const std::vector<Kernel>& kernels) {
  std::vector<Benchmark> all;
  for (const Kernel& kernel : kernels) all.push_back(kernel.benchmark);
  return all;
}

}  // namespace

void read_only(Run& run) {
  const size_t n = run.fitting(size_t(1) << 26, 9);
  run.title(bytes_text(4.0 * double(n)) + " of words that are only read");
  const Memory m = memory(n);
  const std::vector<Kernel> texts = of_the_texts(m), ours = of_ours<in_order>(m);
  const Timings copies = run.timer.interleaved(benchmarks(texts));
  const Timings ordered = run.timer.interleaved(benchmarks(ours));
  const Timings far = run.timer.interleaved(benchmarks(of_ours<scattered>(m)));

  Table table("kernel", {"compiled to", "in order, ms", "scattered, ms"});
  for (const auto& [loads, kernel] : texts)
    table.row(kernel.name, {loads, copies[kernel.name].ms_interval(), ""});
  for (const auto& [loads, kernel] : ours)
    table.row(kernel.name,
              {loads, ordered[kernel.name].ms_interval(), far[kernel.name].ms_interval()});
  run.print(table);
  run.note("the first four write as many words as they read, the others a sixteenth");
  run.note("a warp's request touches 4 sectors in order and 32 scattered");
  run.note("`kernel`, the lectures', reads buffer[i], and then the same word by __ldg. Its first");
  run.note("read is a plain load in spite of const __restrict__");

  const Claim good{"07.7", "read-only and texture loads are good if bandwidth limits a kernel",
                   "[PR 3] \"Good for bandwidth limited kernels\""};
  const Claim better{"07.1", "scattered reads do better through the read-only cache than L1",
                     "[LC 3] \"better for scattered reads than the L1 cache\", of Kepler",
                     Hardware::kepler};
  const auto gain = [&](const char* way) { return ratio(ordered["read_plain"], ordered[way]); };
  if (run.beyond_l2(4.0 * double(n))) {
    run.claim(better, far.speedup({.of = "read_ldg", .over = "read_plain"}), faster());
    run.claim_each(good, {gain("read_ldg"), gain("read_const_restrict"), gain("read_texture")},
                   "read_plain / ldg, restrict, texture", can_be_faster());
  } else {
    for (const Claim& claim : {better, good})
      run.claim_skipped(claim, "the words are less than four times the L2");
  }
  const std::string ldg = compiled_to(ours, "read_ldg"),
                    promised = compiled_to(ours, "read_const_restrict");
  run.computed({"07.2a", "__ldg definitely reads through the read-only cache",
                "[PR 3] \"Definitely read through read only cache\""},
               ldg == "16 read-only", "read_ldg compiled to " + ldg);
  run.computed({"07.2b", "const __restrict__ data is probably read by the read-only cache",
                "[PR 3] \"Probably read through read only cache\""},
               promised == "16 read-only",
               "compiled to " + promised + "; in a struct " + compiled_to(ours, "read_in_struct") +
                   "; lectures' kernel " + compiled_to(texts, "kernel"));
}
SAMPLE(1, read_only, "three ways to say that memory is only read");

// ---- self-checks ----

namespace {

// From the text: 2048 words for each block, thread t of it reads t, t + 128, ...
template <Order order>
void check_sums(size_t n) {
  const Memory m = memory(n);
  std::vector<float> right(m.sums.size(), 0);
  for (size_t i = 0; i < n; ++i)
    right[i / block_words * threads + i % threads] += word_at(order(i, n));
  for (const auto& [loads, kernel] : of_ours<order>(m)) {
    CAPTURE(kernel.name);
    CAPTURE(n);
    CHECK_NOTHROW(require_right(kernel));
    CHECK(m.sums.to_host() == right);
  }
}

}  // namespace

TEST_CASE("read_only: a scattered word lies anywhere, and never beyond the end") {
  for (const size_t n : {1, 31, 2049, 65537})
    for (size_t i = 0; i < n; ++i) REQUIRE(scattered(i, n) < n);
  CHECK(scattered(0xffffffffu, size_t(1) << 32) < size_t(1) << 32);
  size_t all = 0;  // sectors of 1000 requests of 32 lanes
  for (size_t first = 0; first < 32000; first += 32)
    all += sectors(sizeof(float), [=](size_t lane) { return scattered(first + lane, 1 << 26); });
  CHECK(all > 31900);
}

// A case of ctest: tools/machine_code.py reads these lines, and looks into the machine code.
TEST_CASE("read_only: what each kernel is compiled to, stated") {
  std::vector<Kernel> kernels = of_the_texts({});
  for (const Kernel& kernel : of_ours<in_order>({})) kernels.push_back(kernel);
  std::set<std::string> names;
  for (const auto& [loads, kernel] : kernels) {
    CAPTURE(kernel.name);
    CHECK(loads != "");
    CHECK(names.insert(kernel.name).second);  // no name stands for two kernels
    std::cout << "compiled: " << kernel.name << ": " << loads << '\n';
  }
  CHECK_THROWS_WITH(compiled_to(kernels, "read_tex"),
                    "no kernel 'read_tex' is in read_only's list");
}

TEST_CASE("read_only: the texts' kernels are right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1009, 65537}) {
    const Memory m = memory(n);
    for (const auto& [loads, kernel] : of_the_texts(m)) CHECK_NOTHROW(require_right(kernel));
  }
}

TEST_CASE("read_only: each thread has the sum of its words") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 2049, 100003}) {
    check_sums<in_order>(n);
    check_sums<scattered>(n);
  }
  const Memory m = memory(2049);
  of_ours<scattered>(m)[0].benchmark.work();
  CHECK(equals(m.sums, SumOf<in_order>{2049}).find_error() != "");  // of another order
}
