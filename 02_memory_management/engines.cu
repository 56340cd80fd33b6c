// engines: which part of the GPU carries the bytes? Transfers can throttle a program if they are
// not managed properly, says the wiki [LC 2]. A pipeline hides them behind kernels, but only if
// they do not need what kernels need: the multiprocessors (SMs). No text says which ones do.
//
// All SMs are filled with threads that spin until their time is over. Beside them, an operation is
// queued in another stream. Predict which ones wait for the threads: copies between host and
// device, a copy within the device, a memset, prefetches? Then compare the time of the call with
// the whole, and see in the second table what it costs to change from one kind to another.
//
//   nvcc -std=c++20 --extended-lambda -O3 -arch=native -o engines engines.cu ../common/*.cpp
//
//   1  spin     keeps its threads resident for so many nanoseconds
//   2  nothing  an empty kernel
#include <chrono>
#include <cstring>

#include "../common/arrays.cuh"
#include "../common/sample.hpp"

namespace {

// ---- kernels ----

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Every thread looks at the clock until its time is over. It waits for nobody, and so it ends
// whatever the host does. The block that begins last tells the host that all of them spin.
__global__ void spin(unsigned long long ns, unsigned* begun, volatile unsigned* all_spin) {
  const unsigned long long start = nanoseconds();
  if (threadIdx.x == 0 && atomicInc(begun, gridDim.x - 1) == gridDim.x - 1) *all_spin = 1;
  while (nanoseconds() - start < ns) continue;
}

__global__ void nothing() {}

constexpr unsigned spin_threads = 256;  // of a block

struct Spinner {
  Stream stream, other;
  DeviceBuffer<unsigned> begun{std::vector<unsigned>{0}};
  PinnedBuffer<unsigned> all_spin{1};

  void queue(unsigned blocks, unsigned threads, double ms, cudaStream_t in) const {
    *all_spin.data() = 0;
    spin<<<blocks, threads, 0, in>>>((unsigned long long)(1e6 * ms), begun, all_spin);
    CUDA_CHECK_LAUNCH();
  }
  /// Returns as soon as all of them spin.
  void fill(unsigned blocks, double ms) const {
    using Clock = std::chrono::steady_clock;
    queue(blocks, spin_threads, ms, stream);
    const volatile unsigned* flag = all_spin.data();
    const auto end = Clock::now() + std::chrono::microseconds(long(1e3 * ms));
    while (*flag == 0)
      if (Clock::now() > end) throw WrongResult("the spinning threads do not fit at once");
  }
};

// ---- what must come out ----

struct Words {
  __host__ __device__ unsigned operator()(size_t i) const { return hash(i); }
};

/// n words on the device, of which `crossing` cross the bus.
struct Memory {
  size_t n, crossing;
  DeviceBuffer<unsigned> from = filled<unsigned>(n, Words{});
  GuardedBuffer<unsigned> to{n};
  PinnedBuffer<unsigned> host{crossing}, back{crossing};
  std::shared_ptr<unsigned> managed = {};  ///< none if its pages cannot be prefetched
};
Memory memory(const cudaDeviceProp& gpu, size_t n, size_t crossing) {
  Memory m{.n = n, .crossing = crossing};
  const size_t bytes = m.host.bytes();
  CUDA_CHECK(cudaMemcpy(m.host, m.from, bytes, cudaMemcpyDeviceToHost));
  if (!gpu.concurrentManagedAccess) return m;
  unsigned* managed = nullptr;
  CUDA_CHECK(cudaMallocManaged(&managed, bytes));
  m.managed = {managed, [](unsigned* p) { cudaFree(p); }};
  CUDA_CHECK(cudaMemcpy(managed, m.from, bytes, cudaMemcpyDefault));
  return m;
}

/// The first `words` words have arrived. The device's others are still poison.
Check arrived(const Memory& m, size_t words) {
  return equals(m.to, [words] __device__(size_t i) { return i < words ? hash(i) : poisoned; });
}
Check arrived_on_host(const Memory& m, size_t words) {
  return {[m] { std::memset(m.back, 0xff, m.back.bytes()); },
          [m, words] { return find_mismatch_on_host(m.back.data(), words, Words{}); }};
}

// ---- the prediction ----

/// What waits ends after the threads that spin.
bool waits(double alone_ms, double beside_ms, double spin_ms) {
  return beside_ms - alone_ms > spin_ms / 2;
}

/// If a change from one kind to another cost nothing: the mean of the operations alone.
double predicted_us(const std::string& sequence, const std::map<char, double>& alone) {
  double sum = 0;
  for (const char letter : sequence) sum += alone.at(letter);
  return sum / double(sequence.size());
}

// ---- the operations: add yours here ----

struct Operation {
  std::string name;
  std::function<void(cudaStream_t)> work;  ///< queues it
  Check check = {};
  std::function<void()> before = {};  ///< untimed
};

template <class To, class From>
Operation copy(const char* name, const To& to, const From& from, size_t words, const Check& check) {
  const auto work = [=](cudaStream_t stream) {
    const size_t bytes = words * sizeof(unsigned);
    CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDefault, stream));
  };
  return {name, work, check};
}
Operation up(const Memory& m, size_t words) {
  return copy("pinned to device", m.to, m.host, words, arrived(m, words));
}
Operation down(const Memory& m, size_t words) {
  return copy("device to pinned", m.back, m.from, words, arrived_on_host(m, words));
}
Operation empty_kernel() {
  return {"empty kernel", [](cudaStream_t stream) { nothing<<<1, 1, 0, stream>>>(); }};
}
Operation set_to_zero(const Memory& m) {
  const auto work = [to = m.to](cudaStream_t stream) {
    CUDA_CHECK(cudaMemsetAsync(to, 0, to.bytes(), stream));
  };
  return {"memset", work, equals(m.to, [] __device__(size_t) { return 0u; })};
}

void prefetch(const Memory& m, int device, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  cudaMemLocation place{cudaMemLocationTypeDevice, device};
  if (device == cudaCpuDeviceId) place = {cudaMemLocationTypeHost, 0};
  CUDA_CHECK(cudaMemPrefetchAsync(m.managed.get(), m.host.bytes(), place, 0, stream));
#else
  CUDA_CHECK(cudaMemPrefetchAsync(m.managed.get(), m.host.bytes(), device, stream));
#endif
}
Operation moved(const char* name, const Memory& m, int from, int to) {
  return {name,
          [=](cudaStream_t stream) { prefetch(m, to, stream); },
          {{}, [=] { return find_mismatch(m.managed.get(), m.crossing, Words{}); }},
          [=] { prefetch(m, from, nullptr); }};
}

std::vector<Operation> operations(const Memory& m) {
  std::vector<Operation> all = {empty_kernel(), up(m, m.crossing), down(m, m.crossing),
                                copy("within the device", m.to, m.from, m.n, arrived(m, m.n)),
                                set_to_zero(m)};
  if (!m.managed) return all;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  all.push_back(moved("prefetch to device", m, cudaCpuDeviceId, device));
  all.push_back(moved("prefetch to host", m, device, cudaCpuDeviceId));
  return all;
}

/// Alone, its call alone, and beside threads that spin in `blocks` blocks for so long.
std::vector<Benchmark> ways(const Operation& operation, const Spinner& spinner, unsigned blocks,
                            double spin_ms) {
  const auto call = [=] { operation.work(spinner.other); };
  const auto whole = [=] {
    call();
    CUDA_CHECK(cudaStreamSynchronize(spinner.other));
  };
  const auto idle = [=] {
    CUDA_CHECK(cudaDeviceSynchronize());  // the call alone has not waited
    if (operation.before) operation.before();
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const auto full = [=] {
    idle();
    spinner.fill(blocks, spin_ms);
  };
  const auto way = [=](const char* how, const auto& work, const auto& before) {
    return Benchmark{.name = operation.name + how,
                     .work = work,
                     .check = operation.check,
                     .on_host = true,
                     .before = before};
  };
  return {way("", whole, idle), way(", its call", call, idle), way(", beside", whole, full)};
}

constexpr size_t queued = 48;
constexpr double queue_ms = 10;  // longer than the host takes to queue them
const std::string sequences[] = {"U", "D", "K", "UK", "KD", "UD", "UKD"};

/// `queued` operations that stand in one stream before the first can begin, so that the host's time
/// is not in it. U: up, D: down, K: an empty kernel.
Benchmark in_one_stream(const Memory& m, const Spinner& spinner, const std::string& sequence,
                        size_t words) {
  const std::map<char, Operation> all = {
      {'U', up(m, words)}, {'D', down(m, words)}, {'K', empty_kernel()}};
  const auto work = [=] {
    for (size_t k = 0; k < queued; ++k) all.at(sequence[k % sequence.size()]).work(nullptr);
  };
  const auto poison = [=] {
    for (const char letter : sequence)
      if (const auto& check = all.at(letter).check; check.poison) check.poison();
  };
  const auto find_error = [=] {
    std::string error;
    for (const char letter : sequence)
      if (const auto& check = all.at(letter).check; check.find_error) error += check.find_error();
    return error;
  };
  return {.name = sequence + ", " + bytes_text(double(words * sizeof(unsigned))),
          .work = work,
          .check = {poison, find_error},
          .before = [=] { spinner.queue(1, 1, queue_ms, nullptr); }};
}

}  // namespace

void engines(Run& run) {
  const size_t n = run.fitting((run.quick ? 64 : 256) * MiB / sizeof(unsigned), 10);
  const size_t crossing = run.fitting_on_host(n / 8, 12);  // two pinned arrays and a managed one
  const double spin_ms = run.quick ? 10 : 30;
  const unsigned blocks = run.resident_blocks(spin_threads);
  run.title("operations beside threads that spin for " + digits(spin_ms) + " ms on all " +
            std::to_string(run.gpu.multiProcessorCount) + " multiprocessors");
  const Memory m = memory(run.gpu, n, crossing);
  const Spinner spinner;
  Timer timer = run.timer;
  timer.rounds = 12;

  Table table("operation", {"alone, us", "of its call, us", "beside, us", "beside full SMs"});
  for (const Operation& operation : operations(m)) {
    const Timings timed = timer.interleaved(ways(operation, spinner, blocks, spin_ms));
    const Times &alone = timed[operation.name], &beside = timed[operation.name + ", beside"];
    const bool it_waits = waits(alone.median(), beside.median(), spin_ms);
    table.row(operation.name,
              {alone.us_interval(), timed[operation.name + ", its call"].us_interval(),
               beside.us_interval(), it_waits ? "waits" : "does not wait"});
  }
  if (!m.managed) table.missing("prefetch", "this device does not move managed pages on demand");
  run.print(table);
  run.note("memset and copy within the device: " + bytes_text(double(m.to.bytes())) +
           "; the others: " + bytes_text(double(m.host.bytes())));
  run.note("beside: from the call to the end, while " + std::to_string(spin_threads * blocks) +
           " threads spin; what waits ends after them");

  Table queue("in one stream", {"us each", "predicted"});
  double us_of_last = 0;
  for (const size_t words : {size_t(1), 64 * KiB / sizeof(unsigned)}) {
    std::map<char, double> alone;
    for (const std::string& sequence : sequences) {
      const Benchmark many = in_one_stream(m, spinner, sequence, words);
      const Interval us = timer.alone(many).us_interval() / double(queued);
      const bool is_alone = sequence.size() == 1;
      if (is_alone) alone[sequence[0]] = us.value;
      queue.row(many.name, {us, is_alone ? Cell("") : Cell(predicted_us(sequence, alone))});
      us_of_last = us.value;
    }
  }
  run.print(queue);
  run.note("U: up, D: down, K: an empty kernel; 48 in one stream, queued while a thread spins");
  run.note("predicted: the mean of the operations alone, if a change of kind cost nothing");
  run.note("a chunk of 64 KiB, up, kernel and down, costs the GPU " + digits(3 * us_of_last) +
           " us, the work of its kernel apart");
}
SAMPLE(9, engines, "who carries: copies, memsets and prefetches beside full multiprocessors");

TEST_CASE("engines: who waits, and what a sequence costs, by hand") {
  CHECK(waits(0.19, 29.9, 30));
  CHECK(!waits(0.62, 0.63, 30));
  CHECK(!waits(2.5, 5, 30));  // slower, but it ends long before the threads do
  const std::map<char, double> alone = {{'U', 2}, {'D', 1}, {'K', 3}};
  CHECK(predicted_us("UK", alone) == 2.5);
  CHECK(predicted_us("UKD", alone) == 2);
  for (const std::string& sequence : sequences) CHECK(queued % sequence.size() == 0);
}

TEST_CASE("engines: what spins fills a multiprocessor, and ends by the clock") {
  if (skip_without_gpu()) return;
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, spin_threads, 0));
#ifndef __CUDACC_DEBUG__  // code for the debugger takes more registers
  CHECK(unsigned(blocks) * spin_threads == unsigned(current_gpu().maxThreadsPerMultiProcessor));
#endif
  const Spinner spinner;
  for (const double ms : {0, 20}) {
    const auto spin_once = [=] { spinner.queue(3, spin_threads, ms, nullptr); };
    CHECK(Timer{}.alone({.name = "spin", .work = spin_once}).median() >= 0.99 * ms);
    CHECK(*spinner.all_spin.data() == 1);
  }
}

TEST_CASE("engines: everything arrives at awkward sizes, beside threads that spin and in a queue") {
  if (skip_without_gpu()) return;
  const Spinner spinner;
  for (const size_t n : {1, 1009, 65537}) {
    const Memory m = memory(current_gpu(), n, n);
    std::vector<Benchmark> all;
    for (const Operation& operation : operations(m)) {
      CAPTURE(operation.name);
      for (const Benchmark& way : ways(operation, spinner, 1, 5)) all.push_back(way);
      if (!operation.check.poison) continue;
      operation.check.poison();
      CHECK(operation.check.find_error() != "");
    }
    for (const std::string& sequence : sequences)
      all.push_back(in_one_stream(m, spinner, sequence, ceil_div(n, 2)));
    for (const Benchmark& benchmark : all) {
      CAPTURE(benchmark.name);
      CAPTURE(n);
      CHECK_NOTHROW(require_right(benchmark));
    }
  }
}
