// managed: one pointer for both sides, and no copy in the program. What does that cost? The wiki
// adds two arrays in managed memory, and warns: the host must wait before it looks at the sums, for
// there is no copy that waits [LC 2]. The lecture: simpler to port, but not as fast as copies that
// are tuned by hand [PR]; prefetch_overlap judges that.
//
// Look at the times from inputs on the host to sums on the host. The kernel is always the same: it
// does not say where its arrays lie. And look at what the host reads if it does not wait.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o managed managed.cu ../common/*.cpp
//
//   1  sumArraysOnDevice     the text's, of which it prints the launch
//   2  add_to_shared_number  a variable that both sides name
//   3  write_late            writes after 20 ms, while the host reads
#include <cstring>
#include <functional>
#include <optional>

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

__managed__ int shared_number;  // in global scope, as a __device__ variable; the host names it too

__global__ void add_to_shared_number(int x) { shared_number += x; }

// One thread waits so many nanoseconds by the device's timer, then writes.
__global__ void write_late(int* value, int written, unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
  *value = written;
}

// ---- what is right: integers of 13 bits, whose sums are exact ----

float value_of_A(size_t i) { return float(hash(i) >> 19); }
float value_of_B(size_t i) { return float(i % 8191); }
float value_of_C(size_t i) { return float((hash(i) >> 19) + i % 8191); }

void initialData(float* data, size_t n, float (*value)(size_t)) {
  for (size_t i = 0; i < n; ++i) data[i] = value(i);
}

// ---- the wiki's program ----

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

// ---- five ways, each from inputs on the host to the sums there ----

/// Three arrays of n floats, in memory of any kind.
struct Arrays {
  float *A, *B, *C;
  size_t n;
  size_t bytes() const { return n * sizeof(float); }
};

void launch(const Arrays& x) {
  sumArraysOnDevice<<<unsigned((x.n + 1023) / 1024), 1024>>>(x.A, x.B, x.C, x.n);
  CUDA_CHECK_LAUNCH();
}

void add_by_copies(const Arrays& host, const Arrays& device) {
  CUDA_CHECK(cudaMemcpy(device.A, host.A, host.bytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device.B, host.B, host.bytes(), cudaMemcpyHostToDevice));
  launch(device);
  CUDA_CHECK(cudaMemcpy(host.C, device.C, host.bytes(), cudaMemcpyDeviceToHost));
}

/// In pinned memory the kernel's own loads and stores cross the bus; managed pages come on demand,
/// and go back as the host reads.
void add_in_place(const Arrays& x) {
  launch(x);
  CUDA_CHECK(cudaDeviceSynchronize());
  read_every_page(x.C, x.bytes());
}

void add_prefetched(const Arrays& x) {
  for (const float* array : {x.A, x.B, x.C}) prefetch(array, x.bytes(), current_device());
  launch(x);
  prefetch(x.C, x.bytes(), cudaCpuDeviceId);
  CUDA_CHECK(cudaDeviceSynchronize());
  read_every_page(x.C, x.bytes());
}

void bring_to_host(const Arrays& x) {
  for (const float* array : {x.A, x.B, x.C}) prefetch(array, x.bytes(), cudaCpuDeviceId);
  CUDA_CHECK(cudaDeviceSynchronize());
}

template <class Array>
struct Three {
  Array A, B, C;
  explicit Three(size_t n) : A(n), B(n), C(n) {}
  Arrays arrays() { return {A.data(), B.data(), C.data(), A.size()}; }
};

/// What the ways need. Managed memory only where its pages move when they are touched.
struct Memory {
  Three<DeviceBuffer<float>> device;
  Three<std::vector<float>> pageable;
  Three<PinnedBuffer<float>> pinned;
  std::optional<Three<ManagedBuffer<float>>> managed;

  Memory(size_t n, bool pages_move) : device(n), pageable(n), pinned(n) {
    std::vector<Arrays> inputs = {pageable.arrays(), pinned.arrays()};
    if (pages_move) inputs.push_back(managed.emplace(n).arrays());
    for (const Arrays& x : inputs) {
      initialData(x.A, n, value_of_A);
      initialData(x.B, n, value_of_B);
    }
  }
};

Benchmark adding(const char* name, const Arrays& host, const std::function<void()>& work) {
  const auto poison = [host] { memset(host.C, 0xff, host.bytes()); };
  const auto find_error = [host] { return find_mismatch_on_host(host.C, host.n, value_of_C); };
  return {.name = name, .work = work, .check = {poison, find_error}, .on_host = true};
}
Benchmark adding_managed(const char* name, const Arrays& x, void (*add)(const Arrays&)) {
  Benchmark benchmark = adding(name, x, [x, add] { add(x); });
  benchmark.before = [x] { bring_to_host(x); };
  return benchmark;
}

constexpr const char *pageable_copies = "copies, pageable memory",
                     *pinned_copies = "copies, pinned memory", *zero_copy = "zero-copy",
                     *on_demand = "managed, on demand", *prefetched = "managed, prefetched";

std::vector<Benchmark> ways(const std::shared_ptr<Memory>& memory) {
  const Arrays device = memory->device.arrays(), pageable = memory->pageable.arrays(),
               pinned = memory->pinned.arrays();
  std::vector<Benchmark> all = {
      adding(pageable_copies, pageable, [=] { add_by_copies(pageable, device); }),
      adding(pinned_copies, pinned, [=] { add_by_copies(pinned, device); }),
      adding(zero_copy, pinned, [=] { add_in_place(pinned); })};
  if (memory->managed) {
    const Arrays x = memory->managed->arrays();
    all.push_back(adding_managed(on_demand, x, add_in_place));
    all.push_back(adding_managed(prefetched, x, add_prefetched));
  }
  for (Benchmark& way : all)
    way.work = [memory, work = way.work] { work(); };  // which refers to the memory
  return all;
}

// ---- what the host reads if it does not wait ----

constexpr int old_value = 11, new_value = 22;

struct LateWrite {
  int at_once, after_waiting;
  bool kernel_still_ran;  ///< after the first read
};

LateWrite read_without_waiting() {
  const ManagedBuffer<int> value(1);
  const volatile int* seen = value.data();
  *value.data() = old_value;
  write_late<<<1, 1>>>(value, new_value, 20'000'000);  // 20 ms: the host needs microseconds
  CUDA_CHECK_LAUNCH();
  LateWrite read{};
  read.at_once = *seen;
  read.kernel_still_ran = cudaStreamQuery(nullptr) == cudaErrorNotReady;
  cudaGetLastError();  // "not ready" is no error
  CUDA_CHECK(cudaDeviceSynchronize());
  read.after_waiting = *seen;
  return read;
}

void judge_waiting(Run& run) {
  const Claim claim{"05.5", "the host must wait before it touches managed memory", "the wiki"};
  if (!run.gpu.concurrentManagedAccess)
    return run.claim_skipped(claim, "here the host may not touch it while a kernel runs");
  const LateWrite read = read_without_waiting();
  if (read.after_waiting != new_value) throw WrongResult("write_late: the host read another value");
  if (!read.kernel_still_ran)
    return run.claim_skipped(claim, "the kernel had ended when the host read");
  run.observed(claim, read.at_once == old_value,
               "a kernel writes " + std::to_string(new_value) + ": the host read " +
                   std::to_string(read.at_once) + " at once, " +
                   std::to_string(read.after_waiting) + " after it waited");
}

}  // namespace

void managed(Run& run) {
  const size_t n = size_t(1) << (run.quick ? 19 : 21);
  const double bytes = double(n) * sizeof(float);
  run.title("C = A + B, three arrays of " + bytes_text(bytes) + ", from host to host");
  const std::string why = nothing_moves_because(run.gpu);
  const auto allocated = [&] { return ways(std::make_shared<Memory>(n, why.empty())); };
  const Timings timed = run.timer.with_fresh_memory(allocated, 2);

  Table table("way", {"ms", "spread", "GB/s", "times pinned copies"});
  for (const char* name : {pageable_copies, pinned_copies, zero_copy, on_demand, prefetched}) {
    if (!why.empty() && (name == on_demand || name == prefetched)) {
      table.missing(name, why);
      continue;
    }
    const Times& times = timed[name];
    table.row(name, {times.ms_interval(), percent(times.spread()), times.gbs_interval(3 * bytes),
                     ratio(times, timed[pinned_copies])});
  }
  run.print(table);
  run.note("zero-copy: the kernel's loads and stores cross the bus, both directions at once");
  if (why.empty()) {
    run.note("managed: C moves to the device as well; the driver does not know that the kernel");
    run.note("will overwrite it");
  }

  if (run.gpu.managedMemory) {
    if (const std::string error = add_as_the_text(n); !error.empty())
      throw WrongResult("the wiki's program: " + error);
    if (add_to_the_variable(40) != 42) throw WrongResult("the __managed__ variable is not 42");
    run.note("the wiki's program, 1024 threads per block: all sums are right");
    run.note("a __managed__ variable: the host wrote 40, a kernel added 2, the host read 42");
  }
  judge_waiting(run);
}
SAMPLE(1, managed, "one pointer for both sides: what it costs, and who has to wait");

TEST_CASE("managed: the kernel writes every sum, and nothing behind the end") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 31, 1023, 1025, 65537}) {
    CAPTURE(n);
    const auto a = filled<float>(n, [] __device__(size_t i) { return float(hash(i) >> 19); });
    const auto b = filled<float>(n, [] __device__(size_t i) { return float(i % 8191); });
    const GuardedBuffer<float> c(n);
    launch({a, b, c, n});
    CHECK(guard_error(c) == "");
    CHECK(find_mismatch_on_host(c.to_host().data(), n, value_of_C) == "");
  }
}

TEST_CASE("managed: the wiki's program is right, and both sides write a variable") {
  if (skip_without_gpu()) return;
  if (!current_gpu().managedMemory) return skip("no managed memory");
  for (const size_t n : {1, 1023, 1025, 65537}) CHECK(add_as_the_text(n) == "");
  for (const int first : {-7, 40}) CHECK(add_to_the_variable(first) == first + 2);
}

TEST_CASE("managed: every way is right a second time, over pages that have moved") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 257, 65537}) {
    const bool pages_move = nothing_moves_because(current_gpu()).empty();
    for (const Benchmark& way : ways(std::make_shared<Memory>(n, pages_move))) {
      CAPTURE(way.name);
      for (int time = 0; time < 2; ++time) {
        way.check.poison();
        CHECK(way.check.find_error() != "");
        way.work();
        CHECK(way.check.find_error() == "");
      }
    }
  }
}

TEST_CASE("managed: on demand all three arrays move, prefetched arrays do not fault") {
  if (skip_without_gpu()) return;
  if (const std::string why = nothing_moves_because(current_gpu()); !why.empty()) return skip(why);
  Memory memory(size_t(1) << 20, true);
  const Arrays x = memory.managed->arrays();
  const Counted counted = count_migrations(
      {adding_managed(on_demand, x, add_in_place), adding_managed(prefetched, x, add_prefetched)},
      1);
  if (!counted.missing.empty()) return skip(counted.missing);
  const Migrations& demand = counted.runs.at(on_demand)[0];
  const Migrations& before = counted.runs.at(prefetched)[0];
  CHECK(demand[to_device].bytes > 2.0 * double(x.bytes()));
  CHECK(demand[fault_groups].count > 0);
  CHECK(before[fault_groups].count == 0);
  CHECK(before[cpu_faults].count == 0);
}

TEST_CASE("managed: a host that does not wait reads the old value") {
  if (skip_without_gpu()) return;
  if (!current_gpu().concurrentManagedAccess)
    return skip("here the host may not touch managed memory while a kernel runs");
  const LateWrite read = read_without_waiting();
  CHECK(read.after_waiting == new_value);
  if (read.kernel_still_ran) CHECK(read.at_once == old_value);
}
