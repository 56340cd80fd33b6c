// managed: one pointer for both sides, and no copy in the program. What does that cost? The wiki
// adds two arrays in managed memory, and warns that the host must wait before it looks at the sums,
// for there is no copy that waits [LC 2]. The lecture says that it is simpler to port, but not as
// fast as code tuned by hand [PR 2]. Zero-copy memory must be synchronised as well [LC 2].
//
// Look at the times from inputs on the host to sums on the host. The kernel is always the same: it
// does not say where its arrays lie. And look at what the host reads if it does not wait.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o managed managed.cu ../common/*.cpp
//
//   1  sumArraysOnDevice     the text's, which shows its launch alone
//   2  add_to_shared_number  adds to a variable that both sides name
//   3  write_late            writes after 20 ms, while the host reads
#include <cstring>
#include <memory>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"
#include "managed_memory.hpp"
#include "migrations.hpp"

namespace {

// ---- kernels ----

// A warp reads 32 neighbours of two arrays, and writes 32 of a third.
__global__ void sumArraysOnDevice(float* A, float* B, float* C, const size_t N) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < N) C[i] = A[i] + B[i];
}

__managed__ int shared_number;  // outside of all functions; the host names it, too

__global__ void add_to_shared_number(int x) { shared_number += x; }

// One thread waits for so many nanoseconds of the device's timer, and then writes.
__global__ void write_late(int* value, int written, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
  *value = written;
}

// ---- what must come out ----

/// Whole numbers of 13 bits, whose sums are exact.
float value_of_A(size_t i) { return float(hash(i) >> 19); }
float value_of_B(size_t i) { return float(i % 8191); }
float value_of_C(size_t i) { return value_of_A(i) + value_of_B(i); }

void initialData(float* data, size_t n, float (*value)(size_t)) {
  for (size_t i = 0; i < n; ++i) data[i] = value(i);
}

// ---- the wiki's program, and a variable ----

/// The wiki's listing. No copy stands in it. Returns what is wrong with the sums; or nothing.
std::string add_as_the_text(size_t nElem) {
  const size_t nBytes = nElem * sizeof(float);
  // allocate unified memory
  float *A, *B, *C;
  CUDA_CHECK(cudaMallocManaged((float**)&A, nBytes));
  CUDA_CHECK(cudaMallocManaged((float**)&B, nBytes));
  CUDA_CHECK(cudaMallocManaged((float**)&C, nBytes));
  // initialize data at host side
  initialData(A, nElem, value_of_A);
  initialData(B, nElem, value_of_B);
  memset(C, 0, nBytes);
  // launch CUDA kernel
  int threadPerBlock = 1024;
  dim3 block(threadPerBlock);
  dim3 grid((nElem + block.x - 1) / block.x);
  sumArraysOnDevice<<<grid, block>>>(A, B, C, nElem);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());  // necessary: the host reads C next
  const std::string error = find_mismatch_on_host(C, nElem, value_of_C);
  // free memory
  CUDA_CHECK(cudaFree(A));
  CUDA_CHECK(cudaFree(B));
  CUDA_CHECK(cudaFree(C));
  return error;
}

int add_to_the_variable(int first) {
  shared_number = first;
  add_to_shared_number<<<1, 1>>>(2);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());
  return shared_number;
}

// ---- the kinds of memory ----

using Floats = std::shared_ptr<float[]>;  // the last copy frees them

Floats pageable_memory(size_t n) { return Floats(new float[n]()); }

// Its pages stay where they are: copy engines read and write them, and kernels may, too.
template <class T>
std::shared_ptr<T[]> pinned_memory(size_t n) {
  T* data = nullptr;
  CUDA_CHECK(cudaHostAlloc(&data, n * sizeof(T), cudaHostAllocMapped));
  return {data, cudaFreeHost};
}

// Its pages move to the side that touches them.
template <class T>
std::shared_ptr<T[]> managed_memory(size_t n) {
  T* data = nullptr;
  CUDA_CHECK(cudaMallocManaged(&data, n * sizeof(T)));
  return {data, cudaFree};
}

// ---- what the host reads if it does not wait ----

constexpr int old_value = 11, new_value = 22;

struct LateWrite {
  int at_once, after_waiting;
  bool kernel_still_ran;  ///< after the first read
};

LateWrite read_without_waiting(const std::shared_ptr<int[]>& value) {
  const volatile int* seen = value.get();
  value[0] = old_value;
  write_late<<<1, 1>>>(value.get(), new_value, 20'000'000);  // 20 ms: the host needs microseconds
  CUDA_CHECK_LAUNCH();
  LateWrite read{};
  read.at_once = *seen;
  read.kernel_still_ran = cudaStreamQuery(nullptr) == cudaErrorNotReady;
  cudaGetLastError();  // "not ready" is no error
  CUDA_CHECK(cudaDeviceSynchronize());
  read.after_waiting = *seen;
  return read;
}

// ---- from inputs on the host to sums on the host ----

/// The host's arrays, in one kind of memory.
struct HostArrays {
  size_t n;
  Floats A, B, C;
  size_t bytes() const { return n * sizeof(float); }
};
/// The device's, for copies.
struct DeviceArrays {
  size_t n;
  DeviceBuffer<float> A{n}, B{n};
  GuardedBuffer<float> C{n};
};

void launch(float* A, float* B, float* C, size_t n) {
  sumArraysOnDevice<<<unsigned(ceil_div(n, 1024)), 1024>>>(A, B, C, n);
  CUDA_CHECK_LAUNCH();
}

void add_by_copies(const HostArrays& host, const DeviceArrays& device) {
  CUDA_CHECK(cudaMemcpy(device.A, host.A.get(), host.bytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device.B, host.B.get(), host.bytes(), cudaMemcpyHostToDevice));
  launch(device.A, device.B, device.C, host.n);
  CUDA_CHECK(cudaMemcpy(host.C.get(), device.C, host.bytes(), cudaMemcpyDeviceToHost));
}

/// In pinned memory the kernel's own loads and stores cross the bus. Managed pages come on demand,
/// and go back as the host reads them.
void add_in_place(const HostArrays& x, const DeviceArrays&) {
  launch(x.A.get(), x.B.get(), x.C.get(), x.n);
  CUDA_CHECK(cudaDeviceSynchronize());
  read_every_page(x.C.get(), x.bytes());
}

void add_prefetched(const HostArrays& x, const DeviceArrays&) {
  for (const Floats& array : {x.A, x.B, x.C})
    CUDA_CHECK(cudaMemPrefetchAsync(array.get(), x.bytes(), gpu_memory(), 0, nullptr));
  launch(x.A.get(), x.B.get(), x.C.get(), x.n);
  CUDA_CHECK(cudaMemPrefetchAsync(x.C.get(), x.bytes(), host_memory, 0, nullptr));
  CUDA_CHECK(cudaDeviceSynchronize());
  read_every_page(x.C.get(), x.bytes());
}

// ---- the launches: add yours here ----

struct Way {
  const char* name;
  Floats (*take)(size_t n);  ///< the host's memory
  void (*add)(const HostArrays& host, const DeviceArrays& device);
  bool moves = false;  ///< its pages move when they are touched: back to the host before each run
};
const Way ways[] = {
    {.name = "copies, pageable memory", .take = pageable_memory, .add = add_by_copies},
    {.name = "copies, pinned memory", .take = pinned_memory, .add = add_by_copies},
    {.name = "zero-copy", .take = pinned_memory, .add = add_in_place},
    {.name = "managed, on demand", .take = managed_memory, .add = add_in_place, .moves = true},
    {.name = "managed, prefetched", .take = managed_memory, .add = add_prefetched, .moves = true},
};

Benchmark benchmark(const Way& way, const DeviceArrays& device) {
  const size_t n = device.n;
  const HostArrays host{n, way.take(n), way.take(n), way.take(n)};
  initialData(host.A.get(), n, value_of_A);
  initialData(host.B.get(), n, value_of_B);
  const auto poison = [=] {
    memset(host.C.get(), 0xff, host.bytes());
    device.C.poison();
  };
  const auto find_error = [=] {
    const std::string error = find_mismatch_on_host(host.C.get(), n, value_of_C);
    return error.empty() ? guard_error(device.C) : error;
  };
  Benchmark adding{.name = way.name,
                   .work = [=] { way.add(host, device); },
                   .check = {poison, find_error},
                   .on_host = true};
  const auto bring_to_host = [=] {
    for (const Floats& array : {host.A, host.B, host.C})
      CUDA_CHECK(cudaMemPrefetchAsync(array.get(), host.bytes(), host_memory, 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  if (way.moves) adding.before = bring_to_host;
  return adding;
}

/// All ways; or, where pages do not move, those that need none to move.
std::vector<Benchmark> benchmarks(size_t n, bool pages_move) {
  const DeviceArrays device{n};
  std::vector<Benchmark> all;
  for (const Way& way : ways)
    if (pages_move || !way.moves) all.push_back(benchmark(way, device));
  return all;
}

}  // namespace

void managed(Run& run) {
  const size_t n = size_t(1) << (run.quick ? 19 : 21);
  const double bytes = double(n * sizeof(float));
  run.title("C = A + B, three arrays of " + bytes_text(bytes) + ", from host to host");
  const std::string why = nothing_moves_because(run.gpu);
  const bool pages_move = why.empty();
  const Timings timed =
      run.timer.with_fresh_memory([n, pages_move] { return benchmarks(n, pages_move); }, 2);

  Table table("way", {"ms", "spread", "GB/s", "times pinned copies"});
  for (const Way& way : ways) {
    if (way.moves && !pages_move) {
      table.missing(way.name, why);
      continue;
    }
    const Times& times = timed[way.name];
    if (way.moves)  // more bytes over the same link, one direction after the other
      require_no_shorter(way.name, times.median(), timed["copies, pinned memory"].median());
    table.row(way.name,
              {times.ms_interval(), percent(times.spread()), times.gbs_interval(3 * bytes),
               ratio(times, timed["copies, pinned memory"])});
  }
  run.print(table);
  run.note("zero-copy: the kernel's loads and stores cross the bus, both directions at once");

  if (run.gpu.managedMemory) {
    if (const std::string error = add_as_the_text(n); !error.empty())
      throw WrongResult("the wiki's program: " + error);
    if (add_to_the_variable(40) != 42) throw WrongResult("the __managed__ variable is not 42");
    run.note("the wiki's program, 1024 threads per block: all sums are right");
    run.note("a __managed__ variable: the host wrote 40, a kernel added 2, the host read 42");
  }

  const Claim not_as_fast{"05.7", "unified memory is not as fast as copies tuned by hand",
                          "[PR 2] \"not as fast as hand tuned code\""};
  if (pages_move)
    run.claim(not_as_fast,
              timed.speedup({.of = "copies, pinned memory", .over = "managed, prefetched"}),
              faster());
  else
    run.claim_skipped(not_as_fast, why);

  const auto must_wait = [&](const Claim& claim, const std::shared_ptr<int[]>& value) {
    const LateWrite read = read_without_waiting(value);
    if (read.after_waiting != new_value)
      throw WrongResult("write_late: the host read another value");
    if (!read.kernel_still_ran)
      return run.claim_skipped(claim, "the kernel had ended when the host read");
    run.observed(claim, read.at_once == old_value,
                 "a kernel writes " + std::to_string(new_value) + ": the host read " +
                     std::to_string(read.at_once) + " at once, " +
                     std::to_string(read.after_waiting) + " after it waited");
  };
  must_wait({"05.9", "with zero-copy memory host and device must synchronise accesses",
             "[LC 2] \"must synchronize memory accesses across the host and device\""},
            pinned_memory<int>(1));
  const Claim managed_too{"05.5", "the host must synchronise before it touches the kernel's output",
                          "[LC 2] \"explicitly synchronize on the host side\""};
  if (run.gpu.concurrentManagedAccess)
    must_wait(managed_too, managed_memory<int>(1));
  else
    run.claim_skipped(managed_too, "here the host may not touch it while a kernel runs");
}
SAMPLE(1, managed, "one pointer for both sides: what it costs, and who has to wait");

TEST_CASE("managed: the wiki's program is right, and both sides write a variable") {
  if (skip_without_gpu()) return;
  if (!current_gpu().managedMemory) return skip("no managed memory");
  for (const size_t n : {1, 1023, 1025, 65537}) CHECK(add_as_the_text(n) == "");
  for (const int first : {-7, 40}) CHECK(add_to_the_variable(first) == first + 2);
}

TEST_CASE("managed: every way is right a second time, over pages that have moved") {
  if (skip_without_gpu()) return;
  const bool pages_move = nothing_moves_because(current_gpu()).empty();
  for (const size_t n : {1, 31, 257, 1023, 1025, 65537})
    for (const Benchmark& way : benchmarks(n, pages_move)) {
      CAPTURE(way.name);
      CAPTURE(n);
      for (int time = 0; time < 2; ++time) {
        way.check.poison();
        CHECK(way.check.find_error() != "");
        way.work();
        CHECK(way.check.find_error() == "");
      }
    }
}

TEST_CASE("managed: on demand all three arrays move, prefetched arrays do not fault") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  const DeviceArrays device{size_t(1) << 20};
  std::vector<Benchmark> moving;
  for (const Way& way : ways)
    if (way.moves) moving.push_back(benchmark(way, device));
  const Counted counted = count_migrations(moving, 1);
  if (!counted.missing.empty()) return skip(counted.missing);
  const Migrations& demand = counted.runs.at("managed, on demand")[0];
  const Migrations& before = counted.runs.at("managed, prefetched")[0];
  CHECK(demand[to_device].bytes > 2.0 * double(device.C.bytes()));
  CHECK(demand[fault_groups].count > 0);
  CHECK(before[fault_groups].count == 0);
  CHECK(before[cpu_faults].count == 0);
}

TEST_CASE("managed: a host that does not wait reads the old value") {
  if (skip_without_gpu()) return;
  std::vector<std::shared_ptr<int[]>> values = {pinned_memory<int>(1)};
  if (current_gpu().concurrentManagedAccess) values.push_back(managed_memory<int>(1));
  for (const auto& value : values) {
    const LateWrite read = read_without_waiting(value);
    CHECK(read.after_waiting == new_value);
    if (read.kernel_still_ran) CHECK(read.at_once == old_value);
  }
}
