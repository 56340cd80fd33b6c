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

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

// A warp reads 32 neighbouring words of A, and of B. Where these are the host's, 256 bytes cross
// the bus.
__global__ void sumArraysZeroCopy(float* A, float* B, float* C, size_t N) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < N) C[i] = A[i] + B[i];
}

namespace {

constexpr unsigned block = 256;
unsigned blocks_for(size_t n) { return unsigned(ceil_div(n, block)); }

// ---- the text's two listings ----

/// Integers of 24 bits: a float holds them exactly.
__host__ __device__ float a_at(size_t i) { return float(hash(i) >> 8); }
__host__ __device__ float b_at(size_t i) { return float(hash(3 * i + 1) >> 8); }

void initialData(float* data, size_t n, float (*value_at)(size_t)) {
  for (size_t i = 0; i < n; ++i) data[i] = value_at(i);
}

/// Adds by the first listing and, if both pointers are the same, by the second, too. Are they?
/// Throws WrongResult if a sum is wrong.
bool add_by_both_listings(size_t nElem, unsigned flags) {
  const size_t nBytes = nElem * sizeof(float);
  const GuardedBuffer<float> d_C(nElem);
  const auto sum = [] __device__(size_t i) { return a_at(i) + b_at(i); };
  float *h_A = nullptr, *h_B = nullptr, *d_A = nullptr, *d_B = nullptr;
  CUDA_CHECK(cudaHostAlloc((void**)&h_A, nBytes, flags));
  CUDA_CHECK(cudaHostAlloc((void**)&h_B, nBytes, flags));
  initialData(h_A, nElem, a_at);
  initialData(h_B, nElem, b_at);

  // the first: the device's pointers to the same memory
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_A, (void*)h_A, 0));
  CUDA_CHECK(cudaHostGetDevicePointer((void**)&d_B, (void*)h_B, 0));
  const auto first = [&] { sumArraysZeroCopy<<<blocks_for(nElem), block>>>(d_A, d_B, d_C, nElem); };
  require_right({"sum by device pointers", first, equals(d_C, sum)});
  const bool same = d_A == h_A && d_B == h_B;

  // the second: with UVA, the host's
  const auto second = [&] {
    sumArraysZeroCopy<<<blocks_for(nElem), block>>>(h_A, h_B, d_C, nElem);
  };
  if (same) require_right({"sum by host pointers", second, equals(d_C, sum)});
  CUDA_CHECK(cudaFreeHost(h_A));
  CUDA_CHECK(cudaFreeHost(h_B));
  return same;
}

/// The kinds of memory for which UVA promises one pointer.
constexpr unsigned promised[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped};

// ---- the text's program, with copies and without ----

/// The arrays of C = A + B: pageable, pinned, and on the device.
struct Sum {
  size_t n;
  std::vector<float> a = std::vector<float>(n), b = a, c = a;
  PinnedBuffer<float> pinned_a{n}, pinned_b{n}, pinned_c{n};
  DeviceBuffer<float> d_A{n}, d_B{n};
  GuardedBuffer<float> d_C{n};

  explicit Sum(size_t elements) : n(elements) {
    for (float* h_A : {a.data(), pinned_a.data()}) initialData(h_A, n, a_at);
    for (float* h_B : {b.data(), pinned_b.data()}) initialData(h_B, n, b_at);
  }
  size_t bytes() const { return n * sizeof(float); }
  void add(float* A, float* B, float* C) const {
    sumArraysZeroCopy<<<blocks_for(n), block>>>(A, B, C, n);
  }
  void add_copies(const float* h_A, const float* h_B) const {
    CUDA_CHECK(cudaMemcpy(d_A, h_A, bytes(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_B, h_B, bytes(), cudaMemcpyHostToDevice));
    add(d_A, d_B, d_C);
  }
  void fetch(float* h_C) const {
    CUDA_CHECK(cudaMemcpy(h_C, d_C, bytes(), cudaMemcpyDeviceToHost));
  }
};

using SumHandle = std::shared_ptr<Sum>;

/// A program that leaves the sum in d_C or, if there is one, in the host's h_C.
Benchmark adding(const char* name, const SumHandle& s, float* h_C,
                 const std::function<void()>& add) {
  const auto work = [add] {
    add();
    CUDA_CHECK(cudaDeviceSynchronize());  // only then may the host look at what a kernel wrote
  };
  const auto poison = [=] {
    if (h_C) std::memset(h_C, 0xff, s->bytes());
    CUDA_CHECK(cudaMemset(s->d_A, 0xff, s->bytes()));
    CUDA_CHECK(cudaMemset(s->d_B, 0xff, s->bytes()));
    s->d_C.poison();
  };
  const auto find_error = [=] {
    if (h_C) CUDA_CHECK(cudaMemcpy(s->d_C, h_C, s->bytes(), cudaMemcpyHostToDevice));
    return find_mismatch(s->d_C, [] __device__(size_t i) { return a_at(i) + b_at(i); });
  };
  return {name, work, {poison, find_error}, true};
}

/// The first three bring A and B and add them; the others leave C with the host, too.
std::vector<Benchmark> programs(const SumHandle& s) {
  float *const h_A = s->pinned_a, *const h_B = s->pinned_b, *const h_C = s->pinned_c;
  const auto pageable = [=] { s->add_copies(s->a.data(), s->b.data()); };
  const auto pinned = [=] { s->add_copies(h_A, h_B); };
  const auto zero_copy = [=] { s->add(h_A, h_B, s->d_C); };
  const auto all_zero_copy = [=] { s->add(h_A, h_B, h_C); };
  const auto and_fetched = [=](const std::function<void()>& add, float* to) {
    return [=] {
      add();
      s->fetch(to);
    };
  };
  float* const c = s->c.data();
  return {adding("one way, pageable copies", s, nullptr, pageable),
          adding("one way, pinned copies", s, nullptr, pinned),
          adding("one way, in place", s, nullptr, zero_copy),
          adding("pageable copies", s, c, and_fetched(pageable, c)),
          adding("pinned copies", s, h_C, and_fetched(pinned, h_C)),
          adding("A and B in place", s, c, and_fetched(zero_copy, c)),
          adding("all in place", s, h_C, all_zero_copy)};
}

}  // namespace

void zero_copy(Run& run) {
  run.title("the sum of two arrays of the host: copied, and where they are");
  const size_t n = run.fitting_on_host(run.fitting((run.quick ? 1 : 2) * MiB, 12), 24);
  const auto allocated = [n] { return programs(std::make_shared<Sum>(n)); };
  const Timings timed = run.timer.with_fresh_memory(allocated, 2);
  const double bytes = 4.0 * double(n);
  Table table("C = A + B, " + bytes_text(bytes) + " each", {"ms", "GB/s over the bus", "spread"});
  const auto add_rows = [&](double moved, std::initializer_list<const char*> names) {
    for (const char* name : names)
      table.row(name, {timed[name].ms_interval(), timed[name].gbs_interval(moved),
                       percent(timed[name].spread())});
  };
  add_rows(2 * bytes, {"one way, pageable copies", "one way, pinned copies", "one way, in place"});
  add_rows(3 * bytes, {"pageable copies", "pinned copies", "A and B in place", "all in place"});
  run.print(table);
  run.note("one way: C stays on the device. A and B in place: C is copied to pageable memory");
  run.note("time of pinned copies / in place: one way " +
           factor_text(ratio(timed["one way, pinned copies"], timed["one way, in place"])) +
           ", all " + factor_text(ratio(timed["pinned copies"], timed["all in place"])));
  run.claim({"02.13a", "zero-copy improves the transfer rate, one way",
             "improving PCIe transfer rates, the wiki"},
            timed.speedup({.of = "one way, in place", .over = "one way, pageable copies"}),
            faster());
  run.claim({"02.13b", "and that of the text's program, copies and kernel",
             "improving PCIe transfer rates, the wiki"},
            timed.speedup({.of = "A and B in place", .over = "pageable copies"}), faster());
  int same = 0;
  for (const unsigned flags : promised) same += add_by_both_listings(100003, flags);
  run.observed({"02.6", "with UVA the device pointer need not be fetched",
                "the same code without it, the wiki"},
               same == 3, std::to_string(same) + " of 3 kinds of memory have one pointer");
}
SAMPLE(5, zero_copy, "a sum of arrays in the host's memory");

TEST_CASE("zero_copy: both listings add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 255, 257, 100003})
    for (const unsigned flags : promised) CHECK_NOTHROW(add_by_both_listings(n, flags));
}

TEST_CASE("zero_copy: all programs add right at awkward sizes") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 65537}) {
    for (const Benchmark& program : programs(std::make_shared<Sum>(n))) {
      CAPTURE(n);
      CAPTURE(program.name);
      program.check.poison();
      CHECK(program.check.find_error() != "");
      CHECK_NOTHROW(require_right(program));
    }
  }
}
