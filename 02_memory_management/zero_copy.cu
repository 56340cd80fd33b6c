// zero_copy: a kernel can work on pinned memory of the host where it is. Each access crosses the
// bus. When is that better than a copy? The wiki names three advantages: host memory helps where
// device memory is too small, nothing is copied explicitly, and the transfer rate improves [LC 2].
// With unified virtual addresses (UVA) the host's own pointer will do. (The first advantage, and
// the wiki's warning, are in reuse.cu.)
//
// Look at the text's sum with pageable and with pinned memory: which copies does zero-copy beat?
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o zero_copy zero_copy.cu ../common/*.cpp
//
//   1  sumArraysZeroCopy  C = A + B; A and B are the host's
#include <cstring>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "host.hpp"

// A warp reads 32 neighbouring words of A, and of B. Where these are the host's, 256 bytes cross
// the bus.
__global__ void sumArraysZeroCopy(float* A, float* B, float* C, size_t N) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < N) C[i] = A[i] + B[i];
}

namespace {

// ---- what must come out ----

/// Integers of 24 bits: a float holds them exactly.
__host__ __device__ float a_at(size_t i) { return float(hash(i) >> 8); }
__host__ __device__ float b_at(size_t i) { return float(hash(3 * i + 1) >> 8); }

struct Sum {
  __device__ float operator()(size_t i) const { return a_at(i) + b_at(i); }
};

void initialData(float* data, size_t n, float (*value_at)(size_t)) {
  for (size_t i = 0; i < n; ++i) data[i] = value_at(i);
}

// ---- the text's two listings ----

/// Runs the first listing and, if both pointers are the same, the second as well. Returns whether
/// they are. Throws WrongResult if a sum is wrong.
bool add_by_both_listings(size_t nElem, unsigned flags) {
  const size_t nBytes = nElem * sizeof(float);
  const unsigned blocks = unsigned(ceil_div(nElem, 256));
  const GuardedBuffer<float> d_C(nElem);
  float *h_A = nullptr, *h_B = nullptr, *d_A = nullptr, *d_B = nullptr;
  CUDA_CHECK(cudaHostAlloc((void**)&h_A, nBytes, flags));
  CUDA_CHECK(cudaHostAlloc((void**)&h_B, nBytes, flags));
  initialData(h_A, nElem, a_at);
  initialData(h_B, nElem, b_at);

  // the first: the device's pointers to the same memory
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_A, (void*)h_A, 0));
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_B, (void*)h_B, 0));
  const auto first = [=] { sumArraysZeroCopy<<<blocks, 256>>>(d_A, d_B, d_C, nElem); };
  require_right({"sum by device pointers", first, equals(d_C, Sum{})});
  const bool same = d_A == h_A && d_B == h_B;

  // the second: with UVA, the host's own
  const auto second = [=] { sumArraysZeroCopy<<<blocks, 256>>>(h_A, h_B, d_C, nElem); };
  if (same) require_right({"sum by host pointers", second, equals(d_C, Sum{})});
  CUDA_CHECK(cudaFreeHost(h_A));
  CUDA_CHECK(cudaFreeHost(h_B));
  return same;
}

/// The kinds of memory for which UVA promises one pointer.
constexpr unsigned promised[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped};

// ---- the text's program, with copies and without ----

using HostArray = std::shared_ptr<float[]>;

HostArray pageable(size_t n) { return HostArray(new float[n]()); }

template <unsigned flags>
HostArray pinned(size_t n) {
  float* data = nullptr;
  CUDA_CHECK(cudaHostAlloc(&data, n * sizeof(float), flags));
  return {data, cudaFreeHost};
}

/// The arrays of C = A + B, in one kind of the host's memory.
struct HostArrays {
  HostArray A, B, C;
};
HostArrays host_arrays(HostArray (*take)(size_t n), size_t n) {
  const HostArrays h{take(n), take(n), take(n)};
  initialData(h.A.get(), n, a_at);
  initialData(h.B.get(), n, b_at);
  return h;
}

struct Memory {
  HostArrays ordinary, locked;
  DeviceBuffer<float> d_A, d_B;
  GuardedBuffer<float> d_C;
};
Memory memory(size_t n) {
  return {host_arrays(pageable, n), host_arrays(pinned<cudaHostAllocDefault>, n),
          DeviceBuffer<float>(n), DeviceBuffer<float>(n), GuardedBuffer<float>(n)};
}

/// The sum is in d_C or, if the host gets it, in its h_C.
Check added(const Memory& m, const HostArray& h_C) {
  const auto poison = [=] {
    if (h_C) std::memset(h_C.get(), 0xff, m.d_C.bytes());
    CUDA_CHECK(cudaMemset(m.d_A, 0xff, m.d_A.bytes()));
    CUDA_CHECK(cudaMemset(m.d_B, 0xff, m.d_B.bytes()));
    m.d_C.poison();
  };
  const auto find_error = [=] {
    if (h_C) CUDA_CHECK(cudaMemcpy(m.d_C, h_C.get(), m.d_C.bytes(), cudaMemcpyHostToDevice));
    return find_mismatch(m.d_C, Sum{});
  };
  return {poison, find_error};
}

// ---- the launches: add yours here ----

struct Program {
  const char* name;
  std::function<void()> add;
  HostArray fetched_to = {};  ///< the host's C, if d_C is copied to it
  HostArray written = {};     ///< the host's C, if the kernel itself writes it
  size_t crossing;            ///< arrays that cross the bus
};

std::vector<Program> programs(const Memory& m) {
  const auto sum = [n = m.d_C.size()](float* A, float* B, float* C) {
    sumArraysZeroCopy<<<unsigned(ceil_div(n, 256)), 256>>>(A, B, C, n);
  };
  const auto copy_and_sum = [=](const HostArrays& h) {
    CUDA_CHECK(cudaMemcpy(m.d_A, h.A.get(), m.d_A.bytes(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(m.d_B, h.B.get(), m.d_B.bytes(), cudaMemcpyHostToDevice));
    sum(m.d_A, m.d_B, m.d_C);
  };
  const auto of_pageable = [=] { copy_and_sum(m.ordinary); };
  const auto of_pinned = [=] { copy_and_sum(m.locked); };
  const auto in_place = [=] { sum(m.locked.A.get(), m.locked.B.get(), m.d_C); };
  const auto all_in_place = [=] { sum(m.locked.A.get(), m.locked.B.get(), m.locked.C.get()); };
  return {
      {.name = "one way, pageable copies", .add = of_pageable, .crossing = 2},
      {.name = "one way, pinned copies", .add = of_pinned, .crossing = 2},
      {.name = "one way, in place", .add = in_place, .crossing = 2},
      {.name = "pageable copies", .add = of_pageable, .fetched_to = m.ordinary.C, .crossing = 3},
      {.name = "pinned copies", .add = of_pinned, .fetched_to = m.locked.C, .crossing = 3},
      {.name = "A and B in place", .add = in_place, .fetched_to = m.ordinary.C, .crossing = 3},
      {.name = "all in place", .add = all_in_place, .written = m.locked.C, .crossing = 3},
  };
}

std::vector<Benchmark> benchmarks(const Memory& m) {
  std::vector<Benchmark> all;
  for (const Program& program : programs(m)) {
    const auto work = [=] {
      program.add();
      if (float* const h_C = program.fetched_to.get())
        CUDA_CHECK(cudaMemcpy(h_C, m.d_C, m.d_C.bytes(), cudaMemcpyDeviceToHost));
      CUDA_CHECK(cudaDeviceSynchronize());  // only then may the host look at what a kernel wrote
    };
    all.push_back({.name = program.name,
                   .work = work,
                   .check = added(m, program.written ? program.written : program.fetched_to),
                   .on_host = true});
  }
  return all;
}

}  // namespace

void zero_copy(Run& run) {
  run.title("the sum of two arrays of the host: copied, and where they are");
  const size_t n = run.fitting_on_host(run.fitting((run.quick ? 1 : 2) * MiB, 3 * sizeof(float)),
                                       6 * sizeof(float));
  const Timings timed = run.timer.with_fresh_memory([n] { return benchmarks(memory(n)); }, 2);
  const double bytes = double(n * sizeof(float));
  Table table("C = A + B, " + bytes_text(bytes) + " each", {"ms", "GB/s over the bus", "spread"});
  for (const Program& row : programs({})) {  // no memory: they are only named
    const Times& times = timed[row.name];
    table.row(row.name, {times.ms_interval(), times.gbs_interval(double(row.crossing) * bytes),
                         percent(times.spread())});
    // only here do inputs and result cross at once
    const int directions = row.name == std::string("all in place") ? 2 : 1;
    require_below_link(row.name, times.gbs(double(row.crossing) * bytes), run.gpu, directions);
  }
  run.print(table);
  run.note("one way: C stays on the device. A and B in place: C is copied to pageable memory");
  run.note("time of pageable copies / in place: one way " +
           factor_text(ratio(timed["one way, pageable copies"], timed["one way, in place"])) +
           ", A and B " + factor_text(ratio(timed["pageable copies"], timed["A and B in place"])));
  // Zero-copy memory is pinned: what it gains is what it gains over pinned copies.
  run.claim({"02.13a", "zero-copy improves PCIe rates over pinned copies: inputs alone",
             "[LC 2] \"Improving PCIe transfer rates\""},
            timed.speedup({.of = "one way, in place", .over = "one way, pinned copies"}), faster());
  run.claim({"02.13b", "zero-copy improves PCIe rates over pinned copies: all in place",
             "[LC 2] \"Improving PCIe transfer rates\""},
            timed.speedup({.of = "all in place", .over = "pinned copies"}), faster());
  size_t same = 0;
  for (const unsigned flags : promised) same += add_by_both_listings(100003, flags);
  run.observed({"02.6", "with UVA zero-copy memory needs no device pointer of its own",
                "[LC 2] \"no need to acquire the device pointer\""},
               same == std::size(promised),
               std::to_string(same) + " of " + std::to_string(std::size(promised)) +
                   " kinds of pinned memory have one pointer for host and device");
}
SAMPLE(5, zero_copy, "a sum of arrays in the host's memory");

TEST_CASE("zero_copy: both listings add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 100003})
    for (const unsigned flags : promised) {
      CAPTURE(n);
      CAPTURE(flags);
      CHECK_NOTHROW(add_by_both_listings(n, flags));
    }
}

TEST_CASE("zero_copy: all programs add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 65537})
    for (const Benchmark& program : benchmarks(memory(n))) {
      CAPTURE(n);
      CAPTURE(program.name);
      program.check.poison();
      CHECK(program.check.find_error() != "");
      CHECK_NOTHROW(require_right(program));
    }
}
