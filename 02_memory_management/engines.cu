// engines: which part of the GPU carries the bytes? Transfers can throttle a program if they are not
// managed properly, says the wiki [LC 2]. A pipeline hides them behind kernels, but only if they do
// not need what kernels need: the multiprocessors (SMs). No text says which operations do.
//
// All SMs are filled with threads that spin until their time is over. Beside them, an operation is
// queued in another stream. Predict which ones wait for the threads: copies between host and device,
// a copy within the device, a memset, prefetches? Then compare the time of the call with the whole,
// and see in the second table what it costs to change from one kind of operation to another.
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

// ---- the threads that spin ----

using Clock = std::chrono::steady_clock;
double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr unsigned spin_threads = 256;  // of a block

struct Spinner {
  Stream stream;
  DeviceBuffer<unsigned> begun{std::vector<unsigned>{0}};
  PinnedBuffer<unsigned> all_spin{1};

  void queue(unsigned blocks, unsigned threads, double us, cudaStream_t in) const {
    *all_spin.data() = 0;
    spin<<<blocks, threads, 0, in>>>((unsigned long long)(1e3 * us), begun, all_spin);
    CUDA_CHECK_LAUNCH();
  }
  /// Returns as soon as all of them spin.
  void fill(unsigned blocks, double us) const {
    queue(blocks, spin_threads, us, stream);
    const volatile unsigned* flag = all_spin.data();
    for (const auto start = Clock::now(); *flag == 0;)
      if (us_since(start) > us) throw WrongResult("the spinning threads do not fit at once");
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

// ---- the operations: add yours here ----

struct Operation {
  std::string name;
  std::function<void(cudaStream_t)> work;  ///< queues it
  Check check = {};
  std::function<void()> before = {};  ///< untimed

  void require_right() const {
    const std::string error = check.find_error ? check.find_error() : "";
    if (!error.empty()) throw WrongResult(name + ": " + error);
  }
};

template <class To, class From>
Operation copy(const std::string& name, const To& to, const From& from, size_t words,
               const Check& check) {
  const size_t bytes = words * sizeof(unsigned);
  const auto work = [=](cudaStream_t stream) {
    CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDefault, stream));
  };
  return {name + ", " + bytes_text(double(bytes)), work, check};
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
  return {"memset, " + bytes_text(double(m.to.bytes())), work,
          equals(m.to, [] __device__(size_t) { return 0u; })};
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
Operation moved(const std::string& name, const Memory& m, int from, int to) {
  return {name + ", " + bytes_text(double(m.host.bytes())),
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

// ---- what they take ----

constexpr int rounds = 7;

struct Taken {
  Interval call, done;  ///< us
};
/// Beside so many blocks that spin; 0: alone.
Taken taken(const Operation& operation, const Spinner& spinner, unsigned blocks, double spin_us) {
  const Stream stream;
  std::vector<double> calls, dones;
  for (int round = 0; round <= rounds; ++round) {
    if (operation.before) operation.before();
    if (operation.check.poison) operation.check.poison();
    CUDA_CHECK(cudaDeviceSynchronize());
    if (blocks) spinner.fill(blocks, spin_us);
    const auto start = Clock::now();
    operation.work(stream);
    const double call = us_since(start);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    const double done = us_since(start);
    CUDA_CHECK(cudaDeviceSynchronize());
    operation.require_right();
    if (round == 0) continue;  // it warms up
    calls.push_back(call);
    dones.push_back(done);
  }
  return {interval_of_median(calls, unseen_of_host), interval_of_median(dones, unseen_of_host)};
}

/// What waits ends after the threads that spin.
bool waits(double alone_us, double beside_us, double spin_us) {
  return beside_us - alone_us > spin_us / 2;
}

constexpr size_t queued = 48;
constexpr double queue_spin_us = 3000;  // longer than the host takes to queue them
const std::string sequences[] = {"U", "D", "K", "UK", "KD", "UD", "UKD"};

/// Microseconds of an operation, if `queued` of them stand in one stream before the first can begin:
/// the host's time is not in it. Not a number if the host was late. U: up, D: down, K: empty kernel.
Interval us_each(const Memory& m, const Spinner& spinner, const std::string& sequence,
                 size_t words) {
  const std::map<char, Operation> all = {
      {'U', up(m, words)}, {'D', down(m, words)}, {'K', empty_kernel()}};
  const Stream stream;
  const Event first, last;
  std::vector<double> us;
  for (int round = 0; round <= rounds; ++round) {
    for (const char letter : sequence)
      if (all.at(letter).check.poison) all.at(letter).check.poison();
    spinner.queue(1, 1, queue_spin_us, stream);
    const auto start = Clock::now();
    CUDA_CHECK(cudaEventRecord(first, stream));
    for (size_t k = 0; k < queued; ++k) all.at(sequence[k % sequence.size()]).work(stream);
    CUDA_CHECK(cudaEventRecord(last, stream));
    const bool late = us_since(start) > queue_spin_us;
    CUDA_CHECK(cudaEventSynchronize(last));
    for (const char letter : sequence) all.at(letter).require_right();
    if (round == 0) continue;  // it warms up
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, first, last));
    us.push_back(1e3 * ms / double(queued));
    if (late) return {NAN, NAN, NAN};
  }
  return interval_of_median(us, unseen_of_device);
}

/// If a change from one kind to another cost nothing: the mean of the operations alone.
double predicted_us(const std::string& sequence, const std::map<std::string, Interval>& alone) {
  double sum = 0;
  for (const char what : sequence) sum += alone.at(std::string(1, what)).value;
  return sum / double(sequence.size());
}

}  // namespace

void engines(Run& run) {
  const size_t n = run.fitting((run.quick ? 64 : 256) * MiB / sizeof(unsigned), 10);
  const size_t crossing = run.fitting_on_host(n / 8, 12);  // two pinned arrays and a managed one
  const double spin_us = run.quick ? 10000 : 30000;
  const unsigned blocks = run.resident_blocks(spin_threads);
  run.title("operations beside " + std::to_string(blocks * spin_threads) +
            " threads that spin for " + digits(spin_us / 1000) + " ms on all " +
            std::to_string(run.gpu.multiProcessorCount) + " multiprocessors");
  const Memory m = memory(run.gpu, n, crossing);
  const Spinner spinner;

  Table table("operation", {"alone, us", "of its call, us", "beside, us", "beside full SMs"});
  for (const Operation& operation : operations(m)) {
    const Taken alone = taken(operation, spinner, 0, spin_us);
    const Taken beside = taken(operation, spinner, blocks, spin_us);
    table.row(operation.name,
              {alone.done, alone.call, beside.done,
               waits(alone.done.value, beside.done.value, spin_us) ? "waits" : "does not wait"});
  }
  if (!m.managed) table.missing("prefetch", "this device does not move managed pages on demand");
  run.print(table);
  run.note(
      "beside: from the call to the end; what waits ends when the threads that spin have ended");

  constexpr size_t small = 1, large = 64 * KiB / sizeof(unsigned);  // words
  std::map<std::string, Interval> us_small, us_large;
  Table queue("us each, in one stream", {"4 B", "4 B, predicted", "64 KiB", "64 KiB, predicted"});
  for (const std::string& sequence : sequences) {
    us_small[sequence] = us_each(m, spinner, sequence, small);
    us_large[sequence] = us_each(m, spinner, sequence, large);
    const auto predicted = [&](const std::map<std::string, Interval>& alone) {
      return sequence.size() == 1 ? Cell("") : Cell(predicted_us(sequence, alone));
    };
    queue.row(sequence,
              {us_small[sequence], predicted(us_small), us_large[sequence], predicted(us_large)});
  }
  run.print(queue);
  run.note("U: up, D: down, K: an empty kernel; 48 in one stream, queued while a thread spins");
  run.note("predicted: the mean of the operations alone, if a change of kind cost nothing");
  run.note("a chunk of a pipeline, up, kernel and down, costs the GPU " +
           digits(3 * us_large["UKD"].value) + " us at 64 KiB, the work of its kernel apart");
}
SAMPLE(9, engines, "who carries: copies, memsets and prefetches beside full multiprocessors");

TEST_CASE("engines: who waits, and what a sequence costs, by hand") {
  CHECK(waits(190, 29900, 30000));
  CHECK(!waits(620, 625, 30000));
  CHECK(!waits(2500, 5000, 30000));  // slower, but it ends long before the threads do
  const std::map<std::string, Interval> alone = {
      {"U", {2, 2, 2}}, {"D", {1, 1, 1}}, {"K", {3, 3, 3}}};
  CHECK(predicted_us("K", alone) == 3);
  CHECK(predicted_us("UK", alone) == 2.5);
  CHECK(predicted_us("UKD", alone) == 2);
  for (const std::string& sequence : sequences) CHECK(queued % sequence.size() == 0);
}

TEST_CASE("engines: what spins fills a multiprocessor, and ends by the clock") {
  if (skip_without_gpu()) return;
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, spin_threads, 0));
  CHECK(unsigned(blocks) * spin_threads == unsigned(current_gpu().maxThreadsPerMultiProcessor));
  const Spinner spinner;
  for (const double us : {0.0, 20000.0}) {
    const auto start = Clock::now();
    spinner.queue(3, spin_threads, us, spinner.stream);
    CUDA_CHECK(cudaDeviceSynchronize());
    CHECK(us_since(start) >= us);
    CHECK(*spinner.all_spin.data() == 1);
  }
}

TEST_CASE("engines: every operation is right at awkward sizes, beside threads that spin") {
  if (skip_without_gpu()) return;
  for (const size_t n : {1, 1009, 65537})
    for (const Operation& operation : operations(memory(current_gpu(), n, n))) {
      CAPTURE(operation.name);
      CHECK_NOTHROW(taken(operation, Spinner{}, 1, 5000));
      if (!operation.check.poison) continue;
      operation.check.poison();
      CHECK_THROWS_AS(operation.require_right(), WrongResult);
    }
}

TEST_CASE("engines: every sequence is right") {
  if (skip_without_gpu()) return;
  const Memory m = memory(current_gpu(), 1009, 1009);
  for (const std::string& sequence : sequences)
    for (const size_t words : {1, 1009}) CHECK_NOTHROW(us_each(m, Spinner{}, sequence, words));
}
